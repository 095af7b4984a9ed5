"""The sampler against Arb, against mpmath and against the exact distribution."""

from __future__ import annotations

from fractions import Fraction
from hashlib import shake_256
from math import exp, inf, nan
from typing import Any

import mpmath
import numpy as np
import pytest
import scipy
from flint import arb, ctx
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from scipy.special import ndtr, ndtri
from scipy.stats import chi2, ncx2

from release.noise import (
    CHUNK,
    MAX_SIGMA,
    QUANTILE_ERROR,
    by_doubles,
    by_intervals,
    gaussian,
)

E2 = int(2 * exp(-2) * 2**53)  # the k at which ndtri changes its branch
E32 = int(2 * exp(-32) * 2**53)  # and the next such place
SIGMAS = (0.3, Fraction(1, 3), 1, 17.5, 1000, 2**26 + 1, 2**40, 2**62 - 1, 2**62)


class Tape:
    """Entropy from fixed bytes that remembers what was asked of it and fails at its end."""

    def __init__(self, data: bytes) -> None:
        self.data = data
        self.asked: list[int] = []

    def __call__(self, size: int) -> bytes:
        start = sum(self.asked)
        self.asked.append(size)
        assert start + size <= len(self.data), "the sampler read past the end of its bits"
        return self.data[start : start + size]


def bits(seed: str, size: int) -> bytes:
    return shake_256(seed.encode()).digest(size)


def words_of(data: bytes) -> NDArray[np.uint64]:
    return np.frombuffer(data, dtype="<u8")


def tape(*words: int) -> bytes:
    return b"".join(word.to_bytes(8, "little") for word in words)


def draw(data: bytes, sigma: int | float | Fraction) -> int:
    return int(gaussian(sigma, 1, entropy=Tape(data))[0])


def tail_at(magnitude: int | Fraction, sigma: int | float | Fraction) -> Any:
    """P(|N(0, σ²)| > magnitude), at mpmath's working precision."""
    z = Fraction(magnitude) / Fraction(sigma)
    return mpmath.erfc(mpmath.mpf(z.numerator) / z.denominator / mpmath.sqrt(2))


def reference(data: bytes, sigma: int | float | Fraction) -> int:
    """The draw that all of ``data`` decides, without a quantile function.

    The least m ≥ 0 with P(|N| > m + 1/2) ≤ tail, by doubling and bisection over the integers.
    """
    words = [int(word) for word in words_of(data)]
    tail = words[0] >> 1
    for word in words[1:]:
        tail = tail << 64 | word
    size = 64 * len(words) - 1
    with mpmath.workprec(size + 256):
        wanted = mpmath.ldexp(2 * tail + 1, -size - 1)

        def reached(m: int) -> bool:
            return bool(tail_at(m + Fraction(1, 2), sigma) <= wanted)

        low, high = -1, 1
        while not reached(high):
            low, high = high, 2 * high
        while high - low > 1:
            middle = (low + high) // 2
            low, high = (low, middle) if reached(middle) else (middle, high)
    return -high if words[0] & 1 else high


# Exactness, bit by bit


@pytest.mark.parametrize("sigma", SIGMAS)
def test_extreme_words_are_decided_as_mpmath_decides_them(sigma: int | float | Fraction) -> None:
    all_ones = 2**64 - 1
    tails = [2**53 - 1, 2**53 - 2, 2**52, 2**52 - 1, 1, 2, 3, 0]
    tails += [centre + step for centre in (E2, E32) for step in (-1, 0, 1)]
    words = [tail << 11 | rest for tail in tails for rest in (0, 2**11 - 1)]
    for word in [*words, 0, 1, 2, all_ones, all_ones - 1]:
        data = tape(word) + bits("extreme", 40)
        assert draw(data, sigma) == reference(data, sigma), hex(word)


@pytest.mark.parametrize("sigma", SIGMAS)
def test_words_of_zeros_ask_for_more_bits_until_one_is_set(sigma: int | float | Fraction) -> None:
    data = tape(1, 0, 0, 0, 2**40) + bits("zeros", 32)
    entropy = Tape(data)
    (value,) = gaussian(sigma, 1, entropy=entropy)
    assert value == reference(data, sigma) < 0
    assert len(entropy.asked) >= 5


@pytest.mark.parametrize("sign", [0, 1])
@pytest.mark.parametrize("appended", [1, 2, 3])
@pytest.mark.parametrize(
    ("sigma", "m"), [(0.3, 0), (1, 2), (1000, 701), (2**26, 10**8), (2**62, 2**61 + 12345)]
)
def test_bits_that_follow_a_boundary_are_read_until_they_leave_it(
    sigma: int | float, m: int, appended: int, sign: int
) -> None:
    """The bits of P(|N| > m + 1/2) itself, and then a word that leaves it on either side."""
    size = 63 + 64 * (appended - 1)
    with mpmath.workprec(size + 256):
        edge = int(mpmath.floor(mpmath.ldexp(tail_at(m + Fraction(1, 2), sigma), size)))
    known = [(edge >> (size - 63)) << 1 | sign]
    known += [edge >> shift & (2**64 - 1) for shift in range(size - 127, -1, -64)]
    for last, magnitude in ((0, m + 1), (2**64 - 1, m)):
        entropy = Tape(tape(*known, last))
        (value,) = gaussian(sigma, 1, entropy=entropy)
        assert value == (-magnitude if sign else magnitude)
        assert entropy.asked == [8] * (appended + 1)


def test_sigma_is_the_exact_rational_it_was_given_as() -> None:
    """Bits just below the boundary of σ = 1/3 lie above that of the double nearest to it."""
    with mpmath.workprec(400):
        edge = int(mpmath.floor(mpmath.ldexp(tail_at(Fraction(3, 2), Fraction(1, 3)), 127)))
    data = tape(edge >> 64 << 1, edge & (2**64 - 1), 0)
    assert Fraction(1 / 3) < Fraction(1, 3)
    assert draw(data, Fraction(1, 3)) == reference(data, Fraction(1, 3)) == 2
    assert draw(data, 1 / 3) == reference(data, 1 / 3) == 1


sigmas = st.one_of(
    st.builds(Fraction, st.integers(1, MAX_SIGMA), st.integers(0, 70).map(lambda n: 2**n)),
    st.floats(2.0**-40, 2.0**62),
    st.integers(1, MAX_SIGMA),
)


@given(sigma=sigmas, data=st.binary(min_size=48, max_size=48))
@settings(max_examples=150, deadline=None)
def test_any_bits_are_decided_as_mpmath_decides_them(
    sigma: int | float | Fraction, data: bytes
) -> None:
    data += bits("enough", 32)
    assert draw(data, sigma) == reference(data, sigma)


@given(sigma=st.builds(Fraction, sigmas), words=st.lists(st.integers(0, 2**64 - 1), min_size=1))
@settings(deadline=None)
def test_both_paths_agree_wherever_the_first_decides(sigma: Fraction, words: list[int]) -> None:
    values, decided = by_doubles(words_of(tape(*words)), sigma)
    for word, value in zip(np.array(words, dtype=object)[decided], values[decided], strict=True):
        assert value == by_intervals(word, sigma, Tape(bits(hex(word), 64)))


@pytest.mark.parametrize("sigma", [1000, 2**26])
def test_both_paths_agree_on_many_words(sigma: int) -> None:
    data = bits("agree", 8 * 3000)
    values, decided = by_doubles(words_of(data), Fraction(sigma))
    assert decided.mean() > 0.99
    for word, value in zip(words_of(data)[decided], values[decided], strict=True):
        assert value == by_intervals(int(word), Fraction(sigma), Tape(b""))


@pytest.mark.parametrize("m", [1, 40, 701, 2500])
@pytest.mark.parametrize("side", [-1, 1])
def test_a_draw_within_the_margin_of_a_boundary_is_left_to_intervals(m: int, side: int) -> None:
    def word_at(distance: float) -> NDArray[np.uint64]:
        with mpmath.workprec(200):
            magnitude = Fraction(2 * m + 1, 2) * (1 + side * Fraction(distance))
            return words_of(tape(int(mpmath.ldexp(tail_at(magnitude, 1000), 53)) << 11))

    _, decided = by_doubles(word_at(0.95 * QUANTILE_ERROR), Fraction(1000))
    assert not decided[0]
    values, decided = by_doubles(word_at(1.05 * QUANTILE_ERROR), Fraction(1000))
    assert decided[0]
    assert values[0] == (m if side < 0 else m + 1)


# The measurement that the margin rests on


def worst_error(tails: NDArray[Any]) -> float:
    """The greatest relative error of ndtri at k·2^-54, measured against Arb."""
    worst = 0.0
    with ctx.workprec(128):
        root = arb(2).sqrt()
        for k, z in zip(tails.tolist(), (-ndtri(tails * 2.0**-54)).tolist(), strict=True):
            exact = root * (arb(k) * arb(2) ** -53).erfcinv()
            worst = max(worst, float(abs(arb(z) / exact - 1).upper()))
    return worst


def test_the_margin_is_ten_thousand_times_the_worst_error_of_ndtri() -> None:
    assert scipy.__version__.startswith("1.17."), "measure again, then change docs/noise.md"
    random = words_of(bits("tails", 8 * 6000))
    near = np.arange(-1500, 1500)
    families = {
        "uniform": random >> np.uint64(11) | np.uint64(1),
        "every scale": random >> (np.arange(6000) % 52 + 11).astype(np.uint64) | np.uint64(1),
        "around e^-2": np.concatenate([E2 + near, E2 + 2**20 * near, E2 + 2**38 * near]),
        "around e^-32": np.concatenate([E32 + near[near > -E32], E32 + 2**20 * near[1500:]]),
        "near zero": 2**53 - 1 - np.concatenate([near[1500:], 2 ** np.arange(53) - 1])[:-1],
        "tails": np.concatenate([1 + near[1500:], 2 ** np.arange(53)]),
        # The worst of the long measurement in docs/noise.md.
        "known": np.array([2437983724627731]),
    }
    worst = {name: worst_error(tails) for name, tails in families.items()}
    assert max(worst.values()) * 10_000 <= QUANTILE_ERROR, worst
    assert max(worst.values()) > 2.0**-52, "the measurement sees no error at all"
    assert ndtri(0.5) == 0
    assert ndtri(0.0) == -inf


# The distribution


def statistic(values: NDArray[Any], edges: NDArray[Any], law: NDArray[Any]) -> float:
    """Pearson's χ² of the cells (-∞, e₀], (e₀, e₁], …, (eₙ, ∞) against their probabilities."""
    cells = np.bincount(np.searchsorted(edges, values), minlength=len(law))
    expected = law * len(values)
    return float(((cells - expected) ** 2 / expected).sum())


def cell_law(edges: NDArray[Any], sigma: float) -> NDArray[Any]:
    inner = ndtr((edges + 0.5) / sigma)
    return np.diff(np.concatenate([[0.0], inner, [1.0]]))


@pytest.mark.parametrize("sigma", [0.3, 1.0, 17.5, 1e6])
def test_the_true_scale_is_accepted_and_a_tenth_off_is_rejected(sigma: float) -> None:
    """Fresh bits. The limit's nominal level is 1e-12, to keep the true one below 1e-9 with
    cells of at least a thousand; the power is that of the noncentral χ², at least 1 - 1e-9.
    """
    count = 200_000
    edges = np.unique(np.floor(sigma * ndtri(np.arange(1, 20) / 20)))
    law = cell_law(edges, sigma)
    assert law.min() * count > 1000
    limit = chi2.isf(1e-12, len(edges))
    assert statistic(gaussian(sigma, count), edges, law) < limit
    for factor in (Fraction(9, 10), Fraction(11, 10)):
        scale = Fraction(sigma) * factor
        shift = count * ((cell_law(edges, float(scale)) - law) ** 2 / law).sum()
        assert ncx2.cdf(limit, len(edges), shift) < 1e-9
        assert statistic(gaussian(scale, count), edges, law) > limit


def test_the_last_bits_are_uniform_whatever_the_sign() -> None:
    """At σ = 1e6 the residues modulo 16 are uniform to far below 2^-53 (Poisson summation)."""
    values = gaussian(10**6, 200_000)
    cells = (values & 15) + 16 * (values < 0)
    expected = len(values) / 32
    limit = chi2.isf(1e-12, 31)
    assert ((np.bincount(cells, minlength=32) - expected) ** 2 / expected).sum() < limit


@pytest.mark.parametrize("sigma", [2**40, 2**62])
def test_a_wide_scale_is_exact_on_every_draw(sigma: int) -> None:
    for index in range(30):
        data = bits(f"wide {index}", 48)
        assert draw(data, sigma) == reference(data, sigma)


# What the bits decide


@pytest.mark.parametrize("sigma", [1, 1000, 2**26])
def test_a_greater_tail_is_never_a_greater_magnitude(sigma: int) -> None:
    spread = np.arange(0, 2**53, 2**53 // 2000)
    tails = np.concatenate([spread, E2 + np.arange(-2000, 2000), E32 + np.arange(-100, 100)])
    data = tape(*(int(tail) << 11 for tail in np.unique(tails)[1:]))
    entropy = Tape(data + bits("monotone", 8000))
    magnitudes = gaussian(sigma, len(data) // 8, entropy=entropy)
    assert (np.diff(magnitudes) <= 0).all()


@pytest.mark.parametrize("sigma", [1, 1000, 2**26, 2**62])
def test_the_sign_bit_alone_turns_the_sign(sigma: int) -> None:
    data, more = bits("sign", 8 * 500), bits("more", 8 * 500)
    turned = (words_of(data) ^ np.uint64(1)).tobytes()
    values = gaussian(sigma, 500, entropy=Tape(data + more))
    assert (gaussian(sigma, 500, entropy=Tape(turned + more)) == -values).all()
    assert 150 < (values > 0).sum() < 350


def test_a_long_draw_is_the_short_draws_one_after_the_other() -> None:
    count = 2 * CHUNK + 5
    data = bits("long", 8 * count)
    entropy = Tape(data)
    values = gaussian(2**24, count, entropy=entropy)
    assert entropy.asked == [8 * CHUNK, 8 * CHUNK, 40]
    short = [
        gaussian(2**24, len(part) // 8, entropy=Tape(part))
        for part in (data[start : start + 8000] for start in range(0, len(data), 8000))
    ]
    assert (values == np.concatenate(short)).all()


def test_more_bits_are_read_after_the_words_of_the_chunk_in_its_order() -> None:
    """The second and the third of four draws are undecided: they share no bits."""
    first = [2**60, 0, 1, 2**61 + 1]
    data = tape(*first, 2**62, 2**63)
    entropy = Tape(data)
    values = gaussian(1000, 4, entropy=entropy)
    assert entropy.asked == [32, 8, 8]
    alone = [tape(first[0]), tape(0, 2**62), tape(1, 2**63), tape(first[3])]
    assert values.tolist() == [reference(own, 1000) for own in alone]


def test_fresh_draws_differ() -> None:
    assert (gaussian(2**40, 50) != gaussian(2**40, 50)).any()


# The contract


@pytest.mark.parametrize("count", [0, 1, 40])
def test_the_type_depends_on_sigma_alone(count: int) -> None:
    assert gaussian(2**48, count).dtype == np.int64
    wide = gaussian(2**48 + 1, count)
    assert wide.dtype == object
    assert all(type(value) is int for value in wide)
    assert len(wide) == count


def test_object_results_are_python_integers_on_both_paths() -> None:
    small = tape(2**64 - 2)  # a magnitude of zero even at σ = 2^49: decided by doubles
    assert by_doubles(words_of(small), Fraction(2**49))[1].all()
    assert type(gaussian(2**49, 1, entropy=Tape(small))[0]) is int
    assert max(abs(gaussian(2**62, 200))) > 2**62


@pytest.mark.parametrize("sigma", [1e-300, 5e-324, Fraction(1, 10**400)])
def test_a_scale_too_small_for_doubles_draws_zeros(sigma: float | Fraction) -> None:
    data = tape(0) + bits("tiny", 8 * 99) + tape(2**63)
    assert not gaussian(sigma, 100, entropy=Tape(data)).any()


@pytest.mark.parametrize(
    "sigma", [0, -1, -0.0, Fraction(-1, 2), nan, inf, -inf, 2**62 + 1, 2.0**63, 10**400]
)
def test_a_scale_out_of_range_is_refused_before_anything_is_drawn(
    sigma: int | float | Fraction,
) -> None:
    with pytest.raises(ValueError, match="sigma must be above 0"):
        gaussian(sigma, 1, entropy=Tape(b""))


def test_a_negative_count_is_refused() -> None:
    with pytest.raises(ValueError, match="negative"):
        gaussian(1, -1, entropy=Tape(b""))
