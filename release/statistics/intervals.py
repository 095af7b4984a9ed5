"""How far noise alone can have moved a total, a ratio of totals, or an order.

In lattice steps and exact rationals. The constants are so good that no probability of covering
changes by 1e-9; the one square root is rounded up.
"""

from __future__ import annotations

import math
from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from fractions import Fraction
from functools import lru_cache
from statistics import NormalDist

import numpy as np

from release.statistics.tables import Sigma

Ratio = tuple[Fraction, Fraction, Fraction]
"""A ratio between the ends of its interval."""


def quantile(level: float) -> Fraction:
    """The z that a standard normal keeps within, on both sides, at the level."""
    return Fraction(NormalDist().inv_cdf((1 + level) / 2))


def margin(sigma: int, level: float) -> Fraction:
    """How far a noisy total is from the exact one at most, at the level, in steps."""
    # Half a step for the rounding of the noise to the lattice.
    return quantile(level) * sigma + Fraction(1, 2)


def fieller(
    count: int, total: int, sigma: Sigma, level: float, *, within: bool = True
) -> Ratio | None:
    """sum/count between the ends of its interval by Fieller (1954); None where it is not reliable.

    The set of t with (S - t·C)² <= z²·(σ_s² + t²·σ_c²) holds the ratio of the exact totals at
    the level, whatever they are; it is an interval exactly where C² > z²·σ_c². More is asked of
    C before a value is shown: that an interval around 0 be at most half as long as [-1, 1]. At
    95 % one empty group in forty has an interval, and one in five thousand is shown. The rule
    looks at C alone, so it does not prefer extreme values. z is raised so that it also covers
    the rounding of both noises to the lattice: half a step each moves S - t·C by at most
    (1 + abs(t))/2 <= √(σ_s² + t²·σ_c²)/(√2·min σ). Exact ratios lie in [-1, 1]; moving S to the
    nearest of [-C, C] moves it nearer to every such t·C, so it loses none of them, and the
    estimate lies in [-1, 1] too. Without ``within`` S stays where it is.
    """
    a, b = sigma["count"], sigma["sum"]
    # z² is square/parts; all is multiplied by parts, so that it stays in whole numbers.
    square, parts = _widened(level, min(a, b))
    spare = parts * count * count - square * a * a
    if count <= 0 or spare < 4 * square * b * b:
        return None
    if within:
        total = min(max(total, -count), count)
    # The roots of (C² - z²·σ_c²)·t² - 2·C·S·t + (S² - z²·σ_s²) = 0, by their discriminant.
    reach = math.isqrt(square * (b * b * spare + parts * a * a * total * total)) + 1
    centre = parts * count * total
    ends = Fraction(centre - reach, spare), Fraction(centre + reach, spare)
    return ends[0], Fraction(total, count), ends[1]


@lru_cache(maxsize=256)
def _widened(level: float, least: int) -> tuple[int, int]:
    """z² as a quotient, z being raised so that it also covers the rounding of the noise."""
    z = quantile(level) + Fraction(1 / (math.sqrt(2) * least))
    return z.numerator**2, z.denominator**2


def sidak(level: float, count: int) -> float:
    """The level of each of ``count`` independent intervals that all hold together at the level."""
    return float(level ** (1 / count))


def rank_ranges(
    counts: Sequence[int], sigma: int, level: float, appeared: Sequence[bool] = ()
) -> list[tuple[int, int]]:
    """For each count the first and last place that its exact count may have.

    Two are told apart when they differ by more than the level's quantile of the greatest
    difference that the noise alone makes anywhere among them, plus a step for its rounding. So
    with that probability every pair told apart stands in its true order, and every range holds.
    That is so also among groups of which each ``appeared`` for the height of its count, given
    which ones those are: noise that is known to be high differs less. Where only some of them
    did, such a one is not told to be above any other. docs/statistics.md has the proof.
    """
    apart = math.ceil(Fraction(_greatest_difference(len(counts), level)) * sigma) + 1
    lowers = list(counts)
    if not all(appeared):
        for place, new in enumerate(appeared):
            lowers[place] = min(counts) if new else counts[place]
    return ranges_of(
        [
            (Fraction(lower), Fraction(count + apart))
            for lower, count in zip(lowers, counts, strict=True)
        ]
    )


def ranges_of(intervals: Sequence[tuple[Fraction, Fraction]]) -> list[tuple[int, int]]:
    """The places that each may have among them, where an interval that lies above is above."""
    lowers = sorted(lower for lower, _ in intervals)
    uppers = sorted(upper for _, upper in intervals)
    return [
        (1 + len(lowers) - bisect_right(lowers, upper), len(uppers) - bisect_left(uppers, lower))
        for lower, upper in intervals
    ]


@lru_cache(maxsize=64)
def _greatest_difference(count: int, level: float) -> float:
    """The quantile of the range of ``count`` standard normals (Tippett 1925).

    P(range <= w) = n·∫ φ(z)·(Φ(z) - Φ(z - w))^(n-1) dz, by the trapezoid rule, which converges
    faster than any power of the step for such integrands; the root by halving, from above.
    """
    from scipy.special import ndtr

    if count < 2:
        return 0.0
    z = np.linspace(-12, 12, 4801)
    density = np.exp(-z * z / 2) / math.sqrt(2 * math.pi) * (z[1] - z[0])
    low, high = 0.0, 24.0
    while high - low > 1e-9:
        middle = (low + high) / 2
        inside = ndtr(z) - ndtr(z - middle)
        if count * float(np.sum(density * inside ** (count - 1))) < level:
            low = middle
        else:
            high = middle
    return high
