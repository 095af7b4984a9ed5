"""The exact sampler: Gaussian noise rounded to the integers, given uniform bits.

The only module that touches entropy, and ``os.urandom`` is the only source it knows. The
claim, its proof and the measurement it leans on are written out in ``docs/noise.md``.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from fractions import Fraction
from typing import Any, Protocol

import numpy as np
from flint import arb, ctx
from numpy.typing import NDArray
from scipy.special import ndtri

Entropy = Callable[[int], bytes]
"""Given n, n fresh uniform bytes."""

MAX_SIGMA = 2**62
"""The largest σ, in lattice steps."""

MAX_INT64_SIGMA = 2**48
"""Up to this σ a value beyond 64 bits would take 2^29 zero bits in a row, so int64 suffices."""

QUANTILE_ERROR = 2.0**-36
"""The relative error that the fast path allows SciPy's ``ndtri``: more than 10,000 times the
worst one found on the pinned series. No proof of that error is published, hence the margin;
``tests/test_noise.py`` measures it again."""

# Two products are rounded; the rest of the four units swallows the second-order terms.
WIDENING = QUANTILE_ERROR + 4 * 2.0**-53

CHUNK = 2**15
"""Draws worked on at a time, so that the arrays of the fast path stay in the cache."""


class Sampler(Protocol):
    """Draws noise: what a mechanism asks for, so that tests can hand in their own."""

    def __call__(self, sigma: int | float | Fraction, count: int) -> NDArray[Any]:
        """``count`` integers, each the rounding of an independent N(0, ``sigma``²)."""
        ...


def gaussian(
    sigma: int | float | Fraction, count: int, *, entropy: Entropy = os.urandom
) -> NDArray[Any]:
    """``count`` independent draws of round(N(0, σ²)), exact given uniform bits.

    ``sigma`` is in lattice steps and is taken as the exact rational it is. The array is int64
    up to σ = 2^48 and holds Python integers above. Each draw reads 8 bytes; one that they do
    not decide reads 8 more from the same ``entropy``, as often as it takes, and is never drawn
    again. Only the rounding of halves is left open: it has probability zero.

    Raises ValueError, before anything is drawn, unless 0 < σ ≤ 2^62 and ``count`` ≥ 0.
    """
    if not 0 < sigma <= MAX_SIGMA:  # also refuses NaN
        raise ValueError(f"sigma must be above 0 and at most 2^62, not {sigma}")
    ratio = Fraction(*sigma.as_integer_ratio())
    noise = np.empty(count, dtype=np.int64 if ratio <= MAX_INT64_SIGMA else object)
    for start in range(0, count, CHUNK):
        part = noise[start : start + CHUNK]
        words = np.frombuffer(entropy(8 * part.size), dtype="<u8")
        part[:], decided = by_doubles(words, ratio)
        for index in np.flatnonzero(~decided):
            part[index] = by_intervals(int(words[index]), ratio, entropy)
    return noise


def by_doubles(
    words: NDArray[np.uint64], sigma: Fraction
) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
    """The draws that the words decide beyond doubt, and which ones those are; 0 elsewhere.

    The lowest bit is the sign. The top 53 bits, k, say that the two-sided tail probability of
    the half-normal draw lies between k·2^-53 and (k + 1)·2^-53; both are exact doubles, and so
    are their halves. The ten bits between are for ``by_intervals``.
    """
    nearest = sigma.numerator / sigma.denominator
    least = np.nextafter(nearest, 0) * (1 - WIDENING)
    most = np.nextafter(nearest, np.inf) * (1 + WIDENING)
    tail = (words >> np.uint64(11)).astype(np.float64)
    # A tail of zero makes `high` infinite, which equals no `low`: undecided.
    low = np.rint(ndtri((tail + 1) * 2.0**-54) * -least)
    high = np.rint(ndtri(tail * 2.0**-54) * -most)
    decided = low == high
    magnitude = np.where(decided, low, 0).astype(np.int64)
    return np.where(words & np.uint64(1), -magnitude, magnitude), decided


def by_intervals(word: int, sigma: Fraction, entropy: Entropy) -> int:
    """The draw of one word, by interval arithmetic, with more bits for as long as it takes.

    The parametrisation is that of ``by_doubles``, from all 63 bits above the sign: the two
    agree wherever the first decides. z = √2·erfcinv(tail) is the half-normal quantile.
    """
    tail, bits = word >> 1, 63
    while True:
        with ctx.workprec(bits + 64):
            open_tail = arb(2 * tail + 1, 1) * arb(2) ** -(bits + 1)
            scale = arb(sigma.numerator) / sigma.denominator * arb(2).sqrt()
            magnitude = (scale * open_tail.erfcinv() + 0.5).floor().unique_fmpz()
        if magnitude is not None:
            return -int(magnitude) if word & 1 else int(magnitude)
        tail = tail << 64 | int.from_bytes(entropy(8), "little")
        bits += 64
