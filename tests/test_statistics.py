"""Published tables: their intervals against independent derivations and by simulation.

Simulations run the shipped path, mechanism and table, on fixed entropy, so no run differs.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from decimal import Decimal
from fractions import Fraction
from typing import Any

import mpmath
import numpy as np
import pytest
from hypothesis import assume, example, given, settings
from hypothesis import strategies as st
from pydantic import ValidationError
from scipy.stats import binom, norm, studentized_range

from release.mechanisms import GaussianMechanism
from release.specs import ONE, Leaderboard, Mean, Publish
from release.statistics import STATISTICS, Noisy, Row, Table
from release.statistics.intervals import _greatest_difference, fieller, rank_ranges
from tests.simulation import RELEASES, covers, expected, names, printed, sampler

LEVEL = 0.95
LEAST, MOST = expected(LEVEL)
Ints = Sequence[int]


def means(
    counts: Ints, sums: Ints, sigma: tuple[int, int], bounds: tuple[str, str] = ("1", "5")
) -> Table:
    lower, upper = map(Decimal, bounds)
    spec = Mean(by="g", groups=names(len(counts)), value="v", bounds=(lower, upper))
    scales = {"count": sigma[0], "sum": sigma[1]}
    noisy = Noisy(spec.listed, {"count": counts, "sum": sums}, scales)
    return STATISTICS["mean"].table(spec, noisy, LEVEL, Publish())


def board(counts: Ints, sigma: int, groups: tuple[str, ...] | None = None) -> Table:
    spec = Leaderboard(by="g", groups=groups or names(len(counts)), top=1)
    noisy = Noisy(spec.listed, {"count": counts}, {"count": sigma})
    return STATISTICS["leaderboard"].table(spec, noisy, LEVEL, Publish())


# The split of a mean


def test_the_count_share_has_the_least_error_over_all_means() -> None:
    def risk(f: Any) -> Any:
        return mpmath.quad(lambda m: (m * m / f + 1 / (1 - f)) / 2, [-1, 1])

    best = mpmath.findroot(lambda f: mpmath.diff(risk, f), 0.4)
    assert abs(best - (mpmath.sqrt(3) - 1) / 2) < 1e-12
    spec = Mean(by="g", groups=("a",), value="v", bounds=(Decimal(1), Decimal(5)))
    share = STATISTICS["mean"].split(spec)["count"]
    assert abs(float(share) - best) < 1e-6
    assert all(risk(best) < risk(other) for other in (best - 0.01, best + 0.01, 0.5))


@pytest.mark.parametrize("prior", ["1", "1.3", "2.9", "3", "3.4", "3.5", "4.2", "5"])
def test_the_count_share_has_the_least_error_at_a_prior_mean(prior: str) -> None:
    """But for the floor of a fifth, which costs 12 % of a standard deviation at most."""
    spec = Mean(
        by="g",
        groups=("a",),
        value="v",
        bounds=(Decimal(1), Decimal(5)),
        prior_mean=Decimal(prior),
    )
    share, m = float(STATISTICS["mean"].split(spec)["count"]), abs(float(prior) - 3) / 2

    def risk(f: float) -> float:
        return m * m / f + 1 / (1 - f)

    best = min(risk(f) for f in np.linspace(1e-4, 1 - 1e-4, 10_000))
    if share > 0.2:
        assert risk(share) <= best * (1 + 1e-6)
    assert share >= 0.2
    assert risk(share) <= best * 1.2501
    # And a prior at the wrong end of the bounds at most 25 % of one.
    assert 1 / share + 1 / (1 - share) <= 4 * 1.25**2 + 1e-9


def test_a_stated_share_is_the_share() -> None:
    spec = Mean(
        by="g", groups=("a",), value="v", bounds=(Decimal(1), Decimal(5)),
        count_share=Decimal("0.123"),
    )  # fmt: skip
    assert STATISTICS["mean"].split(spec) == {
        "count": Fraction("0.123"),
        "sum": Fraction("0.877"),
    }


# Fieller's interval


def z_of(level: float, smallest: int) -> Any:
    """The quantile, and the padding for the lattice, at mpmath's precision."""
    return mpmath.sqrt(2) * mpmath.erfinv(level) + 1 / (mpmath.sqrt(2) * smallest)


sigmas = st.integers(1, 2**62)
near = st.integers(-(2**70), 2**70)


@given(count=st.integers(1, 2**70), share=st.fractions(-1, 1), a=sigmas, b=sigmas)
@example(count=2, share=Fraction(0), a=1, b=1)
@example(count=10**6, share=Fraction(1), a=1000, b=760)
@settings(deadline=None)
def test_fieller_is_the_two_tangents_to_a_circle(
    count: int, share: Fraction, a: int, b: int
) -> None:
    """In units of σ the set is the slopes of all lines from 0 that come within z of the point."""
    total = int(share * count)
    ratio = fieller(count, total, {"count": a, "sum": b}, LEVEL)
    with mpmath.workdps(80):
        z = z_of(LEVEL, min(a, b))
        x, y = mpmath.mpf(count) / a, mpmath.mpf(total) / b
        # An interval around 0 would reach z·σ_s/√(C² - z²·σ_c²) to both sides: half at most.
        least = z * mpmath.sqrt(1 + 4 * (mpmath.mpf(b) / a) ** 2)
        assume(abs(x / least - 1) > 1e-10)
        assert (ratio is not None) == (x > least)
        if ratio is None:
            return
        middle, turn = mpmath.atan2(y, x), mpmath.asin(z / mpmath.hypot(x, y))
        ends = [mpmath.tan(middle + sign * turn) * b / a for sign in (-1, 1)]
        # z is a double here and there: what differs by 1e-15 of it moves the ends by as much.
        slack = (ends[1] - ends[0]) * x**2 / (x**2 - z**2) * mpmath.mpf("1e-14")
        for found, end in zip(ratio[::2], ends, strict=True):
            assert abs(mpmath.mpf(found.numerator) / found.denominator - end) <= slack
    assert ratio[0] < ratio[1] == Fraction(total, count) < ratio[2]


@pytest.mark.parametrize("count", [3600, 4000, 10**5])
@pytest.mark.parametrize("total", [-(10**6), -900, 0, 33, 3600, 10**6])
def test_within_the_bounds_the_interval_holds_every_t_that_satisfies_the_inequality(
    count: int, total: int
) -> None:
    """Equal to Fieller's set where the estimate is within the bounds, and never less."""
    a, b = 1000, 760
    ratio = fieller(count, total, {"count": a, "sum": b}, LEVEL)
    assert ratio is not None
    z = float(z_of(LEVEL, b))
    for t in np.linspace(-1, 1, 4001):
        defect = (total - t * count) ** 2 - z * z * (b * b + t * t * a * a)
        inside = bool(ratio[0] <= t <= ratio[2])
        assert inside or defect > 0, t
        if abs(total) <= count and abs(defect) > 1e-6:
            assert inside == (defect < 0), t


@given(
    noise=st.floats(-6, 6), t=st.floats(-1, 1), a=st.integers(1, 5), b=st.integers(1, 5),
    sign=st.sampled_from([-1, 1]),
)  # fmt: skip
def test_the_padding_covers_both_roundings(
    noise: float, t: float, a: int, b: int, sign: int
) -> None:
    """Noise at the very edge of the level, before rounding, is within the padded level after."""
    spread = math.hypot(b, t * a)
    z = norm.ppf((1 + LEVEL) / 2)
    count = noise * a
    total = t * count + sign * z * spread
    defect = abs(round(total) - t * round(count))
    assert defect <= float(z_of(LEVEL, min(a, b))) * spread * (1 + 1e-12)


def test_no_smaller_padding_would_do() -> None:
    """At t = 1 and σ = 1: 3.5 - 0.5 is three, but 4 - 0 after rounding."""
    level = 2 * norm.cdf(3 / math.sqrt(2)) - 1
    total, count, spread = 3.5 + 1e-9, 0.5 - 1e-9, math.sqrt(2)
    assert total - count == pytest.approx(3)
    assert round(total) - round(count) == pytest.approx(float(z_of(level, 1)) * spread)


# Coverage of means


def simulated_means(
    count: int, total: int, sigma: tuple[int, int], bounds: tuple[str, str]
) -> tuple[Row, ...]:
    scales = {"count": sigma[0], "sum": sigma[1]}
    totals = {"count": [count] * RELEASES, "sum": [total] * RELEASES}
    draw = sampler(f"mean {count} {total} {sigma}")
    noisy = GaussianMechanism(1, scales).noisy(totals, draw)
    return means(noisy["count"], noisy["sum"], sigma, bounds).rows


SPLIT, FINE, LOPSIDED = (1000, 760), (1, 1), (3, 50_000)
CASES = [
    *itertools.product([0, 0.3, 1, 1.96, 2.3, 4, 30], ["-1", "-0.3", "0.999", "1"], [SPLIT]),
    *itertools.product([1, 2, 30], ["-0.3", "1"], [FINE, LOPSIDED]),
]


@pytest.mark.parametrize(("deviations", "mean", "sigma"), CASES)
def test_intervals_of_means_cover_over_all_releases(
    deviations: float, mean: str, sigma: tuple[int, int]
) -> None:
    bounds = {SPLIT: ("1", "5"), FINE: ("-0.1", "0.7333"), LOPSIDED: ("0", "1e6")}[sigma]
    count = round(deviations * sigma[0])
    total = int(Fraction(mean) * count)
    # A group without rows has no mean: the interval then covers any that is named beforehand.
    ratio = Fraction(total, count) if count else Fraction(mean)
    lower, upper = map(Fraction, bounds)
    truth = (lower + upper) / 2 + (upper - lower) / 2 * ratio
    rows = simulated_means(count, total, sigma, bounds)
    assert sum(covers(row, truth) for row in rows) >= LEAST


def test_the_coverage_of_a_mean_is_the_level_and_not_more() -> None:
    """Before rounding to decimals, inside the bounds, for noise far above a lattice step."""
    scales = {"count": 10**6, "sum": 10**6}
    count, total = 4 * 10**7, 10**7
    totals = {"count": [count] * RELEASES, "sum": [total] * RELEASES}
    noisy = GaussianMechanism(1, scales).noisy(totals, sampler("sharp"))
    pairs = zip(noisy["count"], noisy["sum"], strict=True)
    ratios = [fieller(*pair, scales, LEVEL) for pair in pairs]
    covered = sum(r is not None and r[0] <= Fraction(1, 4) <= r[2] for r in ratios)
    assert LEAST <= covered <= MOST


@pytest.mark.parametrize("count", [-(2**40), -1, 0, 1, 1960, 3560])
def test_a_mean_over_too_small_a_count_is_not_reliable(count: int) -> None:
    (row,) = means([count], [5], (1000, 760)).rows
    assert (row.status, row.value, row.lower, row.upper) == ("not-reliable", None, 1, 5)
    assert row.count == pytest.approx(max(count, 0) / ONE, abs=1000 / ONE)


@pytest.mark.parametrize("sign", [-1, 1])
@pytest.mark.parametrize("excess", [1, 2, 2**30])
def test_a_sum_beyond_the_count_gives_the_bound_and_an_honest_interval(
    excess: int, sign: int
) -> None:
    """Fieller's own may lie wholly outside; the published one never shrinks to a point."""
    count = 100_000
    (edge,) = means([count], [sign * count], (1000, 760)).rows
    (row,) = means([count], [sign * count * excess], (1000, 760)).rows
    assert row == edge
    assert row.value == (5 if sign > 0 else 1)
    assert row.lower < row.upper
    assert row.lower >= 1
    assert row.upper <= 5


# Counts and their ranges of ranks


def board_truth(exact: Ints) -> dict[str, tuple[Fraction, int, int]]:
    """For each group its count, and the first and last place that ties leave open."""
    return {
        group: (
            Fraction(count, ONE),
            1 + sum(other > count for other in exact),
            sum(other >= count for other in exact),
        )
        for group, count in zip(names(len(exact)), exact, strict=True)
    }


@pytest.mark.parametrize("deviations", [0, 0.2, 1.96, 500])
@pytest.mark.parametrize("sigma", [1, 30, 2**24])
def test_intervals_of_counts_cover(deviations: float, sigma: int) -> None:
    count = round(deviations * sigma)
    totals = {"count": [count] * RELEASES}
    noisy = GaussianMechanism(1, {"count": sigma}).noisy(totals, sampler(f"count {count} {sigma}"))
    rows = board(noisy["count"], sigma).rows
    assert sum(covers(row, Fraction(count, ONE)) for row in rows) >= LEAST


@pytest.mark.parametrize(
    "gaps",
    [
        pytest.param([0.0] * 12, id="all equal"),
        pytest.param([0.05 * k for k in range(12)], id="near-ties"),
        pytest.param([4.0 * (k // 4) for k in range(12)], id="exact ties"),
        pytest.param([1.5 * k for k in range(12)], id="a ladder"),
        pytest.param([0.0, 3.6], id="two"),
        pytest.param([0.0], id="one"),
        pytest.param([100.0 * (k == 3) + 2.5 * k for k in range(40)], id="one far above"),
    ],
)
@pytest.mark.parametrize("sigma", [2, 2**20])
def test_ranges_of_ranks_hold_for_all_groups_at_once(gaps: list[float], sigma: int) -> None:
    exact = [round(gap * sigma) for gap in gaps]
    truth = board_truth(exact)
    held = 0
    flat = GaussianMechanism(1, {"count": sigma}).noisy(
        {"count": exact * RELEASES}, sampler(f"ranks {gaps} {sigma}")
    )["count"]
    for start in range(0, len(flat), len(exact)):
        ranges = rank_ranges(flat[start : start + len(exact)], sigma, LEVEL)
        held += all(
            low <= first and last <= high
            for (low, high), (_, first, last) in zip(ranges, truth.values(), strict=True)
        )
    assert held >= LEAST
    if len(exact) > 1 and not any(exact) and sigma > 1000:
        assert held <= MOST  # the level exactly, where all counts are equal


@given(st.lists(st.integers(-(2**70), 2**70), min_size=1, max_size=30), sigmas)
def test_a_range_is_what_the_pairs_told_apart_leave_open(counts: list[int], sigma: int) -> None:
    apart = Fraction(_greatest_difference(len(counts), LEVEL)) * sigma + 1
    for count, (low, high) in zip(counts, rank_ranges(counts, sigma, LEVEL), strict=True):
        surely_above = sum(other - count > math.ceil(apart) for other in counts)
        surely_below = sum(count - other > math.ceil(apart) for other in counts)
        assert (low, high) == (1 + surely_above, len(counts) - surely_below)


def test_two_are_told_apart_just_beyond_the_difference_that_noise_makes() -> None:
    apart = math.ceil(_greatest_difference(2, LEVEL) * 2**40) + 1
    base = 2**69  # where doubles are 2^17 apart
    assert rank_ranges([base, base + apart], 2**40, LEVEL) == [(1, 2), (1, 2)]
    assert rank_ranges([base, base + apart + 1], 2**40, LEVEL) == [(2, 2), (1, 1)]


def test_the_greatest_difference_of_one_and_of_two() -> None:
    assert _greatest_difference(1, LEVEL) == 0
    for level in (0.5, 0.95, 0.999):
        exact = math.sqrt(2) * norm.ppf((1 + level) / 2)
        assert exact <= _greatest_difference(2, level) + 1e-12 <= exact + 2e-9


@pytest.mark.parametrize("count", [2, 3, 10, 100, 1000])
@pytest.mark.parametrize("level", [0.5, 0.95, 0.99])
def test_the_greatest_difference_is_the_studentized_range(count: int, level: float) -> None:
    known = studentized_range.cdf(_greatest_difference(count, level), count, np.inf)
    assert known == pytest.approx(level, abs=1e-7)


@pytest.mark.parametrize("count", [400, 50_000])
def test_the_greatest_difference_of_many_by_simulation(count: int) -> None:
    rng = np.random.default_rng(1925)
    runs = 8_000_000 // count
    noise = rng.standard_normal((runs, count), dtype=np.float32)
    within = int((np.ptp(noise, axis=1) <= _greatest_difference(count, LEVEL)).sum())
    low, high = binom.ppf([1e-6, 1 - 1e-6], runs, LEVEL)
    assert low <= within <= high


# What every table promises


def test_a_board_is_sorted_by_count_and_then_by_name() -> None:
    table = board([5 * ONE, 9 * ONE, 5 * ONE, -ONE], ONE // 100, ("b", "d", "a", "c"))
    assert [(row.group, row.value, row.rank) for row in table.rows] == [
        ("d", 9, 1), ("a", 5, 2), ("b", 5, 3), ("c", 0, 4),
    ]  # fmt: skip


def test_a_count_below_zero_is_shown_as_zero_and_an_interval_up_from_it() -> None:
    (row,) = board([-(10**6) * ONE], ONE).rows
    assert (row.value, row.lower) == (0, 0)
    assert 1.96 <= row.upper <= 2.1  # as of a count of 0: an empty interval would claim too much


@given(st.data(), st.lists(near, min_size=1, max_size=12), sigmas)
def test_the_order_of_the_list_changes_nothing(
    data: st.DataObject, counts: list[int], sigma: int
) -> None:
    order = data.draw(st.permutations(range(len(counts))))
    groups = names(len(counts))
    shuffled = board([counts[i] for i in order], sigma, tuple(groups[i] for i in order))
    assert shuffled == board(counts, sigma) == board(counts, sigma)
    listed = means(counts, counts[::-1], (sigma, sigma))
    again = means(
        [counts[i] for i in order], [counts[::-1][i] for i in order], (sigma, sigma)
    ).rows
    assert [row.model_dump(exclude={"group"}) for row in again] == [
        listed.rows[i].model_dump(exclude={"group"}) for i in order
    ]


def holds_on_its_grid(number: float, decimals: int) -> bool:
    return math.isfinite(number) and (printed(number) * Fraction(10) ** decimals).denominator == 1


@given(st.lists(near, min_size=1, max_size=12), sigmas)
@example([2**70, -(2**70)], 1)
@settings(deadline=None)
def test_any_noisy_counts_give_a_board(counts: list[int], sigma: int) -> None:
    table = board(counts, sigma)
    assert sorted(row.group for row in table.rows) == list(names(len(counts)))
    margin = Fraction(norm.ppf((1 + LEVEL) / 2)) * sigma + Fraction(1, 2)
    # The quantile is a double here and there.
    margin *= 1 - Fraction(1, 10**14)
    for place, row in enumerate(table.rows, start=1):
        count = max(counts[int(str(row.group)[1:])], 0)
        assert row.value is not None
        for number in (row.value, row.lower, row.upper):
            assert holds_on_its_grid(number, table.decimals)
        assert 0 <= row.lower <= row.value <= row.upper > row.lower
        assert printed(row.lower) <= max((count - margin) / ONE, Fraction(0))
        assert printed(row.upper) >= (count + margin) / ONE
        assert row.rank_lower is not None
        assert row.rank_upper is not None
        assert row.rank == place
        assert 1 <= row.rank_lower <= place <= row.rank_upper <= len(counts)


@given(sigmas, st.integers(0, 2**55))
@example(10 * ONE, 0)
@example(10 * ONE + 1, 0)
def test_a_count_has_no_digit_below_a_tenth_of_its_deviation(sigma: int, count: int) -> None:
    assume(count < 10**13 * sigma)
    deviation = Fraction(sigma, ONE)
    for decimals in (
        board([count], sigma).decimals,
        means([count], [0], (sigma, sigma)).count_decimals,
    ):
        step = Fraction(10) ** -decimals
        assert deviation / 10 * (1 - Fraction(1, 10**14)) <= step
        assert step <= deviation * (1 + Fraction(1, 10**14))


@pytest.mark.parametrize(
    ("bounds", "count", "decimals"),
    [
        (("1", "5"), 2500, 2),  # hardly reliable: a hundredth of the bounds decides
        (("1", "5"), 10**6, 3),  # deviation 2 · 760/10^6 = 0.0015
        (("1", "5"), 10**9, 6),
        (("0", "1e6"), 2500, -3),
        (("0", "1e-9"), 2500, 12),
        (("1000000", "1000000.001"), 2500, 6),
    ],
)
def test_a_mean_has_the_decimals_that_its_noise_supports(
    bounds: tuple[str, str], count: int, decimals: int
) -> None:
    assert means([count, 0], [0, 0], (1000, 760), bounds).decimals == decimals


def test_bounds_between_two_steps_are_rounded_outward_and_values_inward() -> None:
    table = means([0, 10**5, 10**5], [0, 10**5, -(10**5)], (1000, 760), ("0.33333", "1.66666"))
    unreliable, high, low = table.rows
    assert table.decimals == 3
    assert printed(unreliable.lower) < Fraction("0.33333") < printed(low.value)
    assert printed(unreliable.upper) > Fraction("1.66666") > printed(high.value)


@st.composite
def legal_bounds(draw: st.DrawFn) -> tuple[str, str]:
    width = Decimal(draw(st.integers(1, 999))).scaleb(draw(st.integers(-110, 110)))
    shift = Decimal(draw(st.integers(-999, 999))).scaleb(draw(st.integers(-12, 9)))
    with_shift = float(shift * width), float((shift + 1) * width)
    bounds = str(Decimal(repr(with_shift[0]))), str(Decimal(repr(with_shift[1])))
    try:
        means([0], [0], (1, 1), bounds)
    except ValidationError:
        assume(False)  # noqa: FBT003
    return bounds


@given(legal_bounds(), st.lists(st.tuples(near, near), min_size=1, max_size=6), sigmas, sigmas)
@example(("-9.99e100", "7e99"), [(2**70, 2**70), (2**40, -1), (0, 0)], 1, 1)
@example(("0", "1e-100"), [(2**70, 2**69), (2**20, 0), (0, 0)], 1, 1)
@example(("1", "1.000000000001"), [(2**70, 2**70), (2**70, 2**69), (0, 0)], 1, 1)
@example(("0.1", "0.3"), [(2**70, 2**70), (2**70, -(2**70))], 1, 1)
@settings(deadline=None, max_examples=200)
def test_any_noisy_totals_and_legal_bounds_give_a_table(
    bounds: tuple[str, str], totals: list[tuple[int, int]], a: int, b: int
) -> None:
    counts, sums = zip(*totals, strict=True)
    table = means(counts, sums, (a, b), bounds)
    lower, upper = map(Fraction, bounds)
    assert [row.group for row in table.rows] == list(names(len(totals)))
    assert 10 * Fraction(10) ** -table.decimals <= upper - lower
    for row, pair in zip(table.rows, totals, strict=True):
        ratio = fieller(*pair, {"count": a, "sum": b}, LEVEL)
        shown = [row.lower, row.upper] + ([] if row.value is None else [row.value])
        assert all(holds_on_its_grid(number, table.decimals) for number in shown)
        low, high = (Fraction(-1), Fraction(1)) if ratio is None else (ratio[0], ratio[2])
        low, high = (
            (lower + upper) / 2 + (upper - lower) / 2 * min(max(end, Fraction(-1)), Fraction(1))
            for end in (low, high)
        )
        assert row.lower < row.upper
        assert printed(row.lower) <= low <= high <= printed(row.upper)
        assert (row.status, row.value is None) == (
            ("not-reliable", True) if ratio is None else ("published", False)
        )
        if row.value is not None:
            assert row.lower <= row.value <= row.upper
            assert lower <= printed(row.value) <= upper


def test_hardly_any_mean_of_an_empty_group_is_shown() -> None:
    """One in five thousand; by a bounded interval alone it would be one in forty."""
    sigma, draw = (40_000, 30_400), sampler("empty groups")
    counts, sums = (draw(scale, 20_000).tolist() for scale in sigma)
    rows = means(counts, sums, sigma).rows
    shown = sum(row.status == "published" for row in rows)
    assert 0 < shown < 20
    assert sum(count > 1.96 * sigma[0] for count in counts) > 400


@pytest.mark.parametrize("share", [-1, 0, Fraction(1, 2), 1])
@pytest.mark.parametrize("size", [0.5, 2, 4])
def test_what_is_shown_is_chosen_by_the_count_alone(share: Fraction, size: float) -> None:
    """So means in the middle of the bounds are covered at the level also among shown ones."""
    sigma, draw = (40_000, 30_400), sampler(f"shown {share} {size}")
    exact = round(size * sigma[0])
    counts = [exact + noise for noise in draw(sigma[0], 4000).tolist()]
    sums = [round(share * exact) + noise for noise in draw(sigma[1], 4000).tolist()]
    rows = means(counts, sums, sigma).rows
    least = min(c for c, row in zip(counts, rows, strict=True) if row.status == "published")
    assert all(
        (row.status == "published") == (c >= least) for c, row in zip(counts, rows, strict=True)
    )
    if share == 0 and size > 1:
        shown = [row for row in rows if row.status == "published"]
        covered = sum(covers(row, Fraction(3)) for row in shown)
        assert covered >= binom.ppf(1e-6, len(shown), LEVEL)
