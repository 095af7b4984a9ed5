"""For each kind of statistic: which totals it needs, and how noisy totals become a table.

Everything here looks at noisy totals and public parameters only, so it is post-processing and
free. It runs after the noise is drawn, so nothing here may fail for one draw and not another:
every division is guarded by the comparison that makes its divisor positive, and all that is
rounded is rounded once, from exact rationals, intervals outward.

Intervals cover the noise at the stated level, over all releases. They bound the exact bounded
statistic; what the contribution bounds changed is stated beside them, in words. The proofs are
in docs/statistics.md.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from bisect import bisect_left, bisect_right
from collections.abc import Mapping, Sequence
from fractions import Fraction
from functools import lru_cache
from statistics import NormalDist
from typing import Any, ClassVar, Generic, Literal, TypeVar

import numpy as np
from pydantic import BaseModel, ConfigDict

from release.specs import ONE, Leaderboard, Mean, Scale

LEVEL = 0.95

RowStatus = Literal["published", "not-reliable"]
Noisy = Mapping[str, Sequence[int]]
Sigma = Mapping[str, int]
Ratio = tuple[Fraction, Fraction, Fraction]
"""A ratio between the ends of its interval."""
Bounds = tuple[Fraction, Fraction]
Spec = TypeVar("Spec", Mean, Leaderboard)


class Row(BaseModel):
    """One published row; ``value`` is None exactly where ``status`` is not "published".

    ``lower`` and ``upper`` bound the exact bounded statistic at the release's level, noise only;
    a published value lies between them, and they are never equal. ``count`` is the noisy bounded
    count beside a mean. The ranks belong to leaderboards.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    group: str
    value: float | None
    lower: float
    upper: float
    status: RowStatus
    count: float | None = None
    rank: int | None = None
    rank_lower: int | None = None
    rank_upper: int | None = None


class Table(BaseModel):
    """A published table, its numbers rounded once, to ``decimals`` places, for every format.

    A negative number of places rounds to tens, hundreds and so on.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    decimals: int
    count_decimals: int
    rows: tuple[Row, ...]


class Statistic(ABC, Generic[Spec]):
    """One kind of statistic. It holds no state; a job's spec is handed to it."""

    split: ClassVar[Mapping[str, Fraction]]
    """The part of ρ that each total gets; the parts add up to 1."""

    def measured(self, spec: Spec) -> tuple[str, Scale] | None:
        """The column whose values are added up, and how they are clamped and scaled."""
        del spec
        return None

    @abstractmethod
    def table(self, spec: Spec, noisy: Noisy, sigma: Sigma, level: float) -> Table:
        """The published table: every listed group once, whatever the noise."""

    @abstractmethod
    def half_width(self, spec: Spec, sigma: Sigma, level: float, size: int) -> float | None:
        """Half the length of the interval of a group to which ``size`` units count in full.

        What to expect before any data is read: at the middle of the bounds, without noise.
        None where the value would be marked as not reliable.
        """


class GroupMeans(Statistic[Mean]):
    """sum / count in each group, mapped back from [-1, 1] to the bounds, in the list's order."""

    # The count's share f of ρ. The error of sum/count around a mean m in [-1, 1] has a variance
    # in proportion to m²/f + 1/(1 - f). Averaged over m uniform, E m² = 1/3, the least is where
    # f/(1 - f) = 1/√3: at f = (√3 - 1)/2.
    split: ClassVar = {
        "count": Fraction(366_025, 1_000_000),
        "sum": 1 - Fraction(366_025, 1_000_000),
    }

    def measured(self, spec: Mean) -> tuple[str, Scale]:
        """The mean's column, within the bounds."""
        lower, upper = spec.bounds
        return spec.value, Scale(float(lower), float(upper))

    def table(self, spec: Mean, noisy: Noisy, sigma: Sigma, level: float) -> Table:
        """Means with Fieller's intervals; "not-reliable" where those say little or nothing."""
        bounds = Fraction(spec.bounds[0]), Fraction(spec.bounds[1])
        counts = noisy["count"]
        ratios = [
            _fieller(count, total, sigma, level)
            for count, total in zip(counts, noisy["sum"], strict=True)
        ]
        decimals = _mean_decimals(ratios, bounds, level)
        count_decimals = _decimals(Fraction(sigma["count"], ONE), Fraction(max(counts), ONE))
        rows = []
        for group, count, ratio in zip(spec.groups, counts, ratios, strict=True):
            rough = _nearest(Fraction(max(count, 0), ONE), count_decimals)
            rows.append(_mean_row(group, ratio, rough, bounds, decimals))
        return Table(decimals=decimals, count_decimals=count_decimals, rows=tuple(rows))

    def half_width(self, spec: Mean, sigma: Sigma, level: float, size: int) -> float | None:
        """Of Fieller's interval around the middle of the bounds."""
        ratio = _fieller(size * ONE, 0, sigma, level)
        half = Fraction(spec.bounds[1] - spec.bounds[0]) / 2
        return None if ratio is None else float(half * ratio[2])


class CountBoard(Statistic[Leaderboard]):
    """The groups by noisy count, greatest first, ties by name, with joint ranges of ranks."""

    split: ClassVar = {"count": Fraction(1)}

    def table(self, spec: Leaderboard, noisy: Noisy, sigma: Sigma, level: float) -> Table:
        """Counts with normal intervals; ranges of ranks hold for all groups at once."""
        counts = noisy["count"]
        decimals = _decimals(Fraction(sigma["count"], ONE), Fraction(max(counts), ONE))
        margin = _margin(sigma["count"], level)
        ranges = _rank_ranges(counts, sigma["count"], level)
        order = sorted(range(len(counts)), key=lambda place: (-counts[place], spec.groups[place]))
        rows = []
        for rank, place in enumerate(order, start=1):
            # No exact count is below 0: moving a noisy one up to 0 moves it nearer to them all.
            count = max(counts[place], 0)
            row = Row(
                group=spec.groups[place],
                value=_nearest(Fraction(count, ONE), decimals),
                lower=_below(max(count - margin, Fraction(0)) / ONE, decimals),
                upper=_above((count + margin) / ONE, decimals),
                status="published",
                rank=rank,
                rank_lower=ranges[place][0],
                rank_upper=ranges[place][1],
            )
            rows.append(row)
        return Table(decimals=decimals, count_decimals=decimals, rows=tuple(rows))

    def half_width(self, spec: Leaderboard, sigma: Sigma, level: float, size: int) -> float:
        """The same for every size: noise on a count does not depend on it."""
        del spec, size
        return float(_margin(sigma["count"], level) / ONE)


STATISTICS: Mapping[str, Statistic[Any]] = {"mean": GroupMeans(), "leaderboard": CountBoard()}


def _quantile(level: float) -> Fraction:
    """The z that a standard normal keeps within, on both sides, at the level."""
    return Fraction(NormalDist().inv_cdf((1 + level) / 2))


def _margin(sigma: int, level: float) -> Fraction:
    # Half a step for the rounding of the noise to the lattice.
    return _quantile(level) * sigma + Fraction(1, 2)


def _fieller(count: int, total: int, sigma: Sigma, level: float) -> Ratio | None:
    """sum/count between the ends of its interval by Fieller (1954); None where it is not reliable.

    The set of t with (S - t·C)² <= z²·(σ_s² + t²·σ_c²) holds the ratio of the exact totals at
    the level, whatever they are; it is an interval exactly where C² > z²·σ_c². More is asked of
    C before a value is shown: that an interval around 0 be at most half as long as [-1, 1]. Of
    empty groups one in forty has an interval, and one in five thousand is shown. The rule looks
    at C alone, so it does not prefer extreme values. z is raised so
    that it also covers the rounding of both noises to the lattice: half a step each moves
    S - t·C by at most (1 + abs(t))/2 <= √(σ_s² + t²·σ_c²)/(√2·min σ). Exact ratios lie in
    [-1, 1]; moving S to the nearest of [-C, C] moves it nearer to every such t·C, so it loses
    none of them, and the estimate lies in [-1, 1] too.
    """
    a, b = sigma["count"], sigma["sum"]
    z = _quantile(level) + Fraction(1 / (math.sqrt(2) * min(a, b)))
    spare = count * count - z * z * a * a
    if count <= 0 or spare < 4 * z * z * b * b:
        return None
    total = min(max(total, -count), count)
    # The roots of (C² - z²·σ_c²)·t² - 2·C·S·t + (S² - z²·σ_s²) = 0, by their discriminant.
    reach = _root(z * z * (b * b * spare + a * a * total * total))
    centre = count * total
    return (centre - reach) / spare, Fraction(total, count), (centre + reach) / spare


def _root(square: Fraction) -> Fraction:
    """A square root, rounded up."""
    size = square.numerator * square.denominator
    return Fraction(math.isqrt(size) + 1, square.denominator)


def _mean_decimals(ratios: Sequence[Ratio | None], bounds: Bounds, level: float) -> int:
    """What the most precise mean of the table supports, and at least a hundredth of the bounds.

    An interval is as long as 2·z standard deviations, and [-1, 1] as long as the bounds.
    """
    lower, upper = bounds
    lengths = [high - low for low, _, high in filter(None, ratios)]
    finest = min([Fraction(1, 100), *(length / (4 * _quantile(level)) for length in lengths)])
    return _decimals((upper - lower) * finest, max(abs(lower), abs(upper)))


def _mean_row(group: str, ratio: Ratio | None, count: float, bounds: Bounds, decimals: int) -> Row:
    lower, upper = bounds
    if ratio is None:
        value = None
    else:
        # An exact mean lies within the bounds, so cutting the interval to them loses nothing.
        low, middle, high = (
            (lower + upper) / 2 + (upper - lower) / 2 * min(max(part, Fraction(-1)), Fraction(1))
            for part in ratio
        )
        inside = _above(lower, decimals), _below(upper, decimals)
        value = min(max(_nearest(middle, decimals), inside[0]), inside[1])
        lower, upper = low, high
    return Row(
        group=group,
        value=value,
        lower=_below(lower, decimals),
        upper=_above(upper, decimals),
        status="not-reliable" if value is None else "published",
        count=count,
    )


def _rank_ranges(counts: Sequence[int], sigma: int, level: float) -> list[tuple[int, int]]:
    """For each count the first and last place that its exact count may have.

    Two are told apart when they differ by more than the level's quantile of the greatest
    difference that the noise alone makes anywhere among them, plus a step for its rounding. So
    with that probability every pair told apart stands in its true order, and every range holds.
    """
    apart = math.ceil(Fraction(_greatest_difference(len(counts), level)) * sigma) + 1
    ascending = sorted(counts)
    return [
        (
            1 + len(counts) - bisect_right(ascending, count + apart),
            len(counts) - bisect_left(ascending, count - apart),
        )
        for count in counts
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


def _decimals(deviation: Fraction, magnitude: Fraction) -> int:
    """How many places are worth printing: none below a tenth of ``deviation``.

    Nor more than 15 digits of ``magnitude``: up to there a double stands for one decimal number
    alone, so that what was rounded outward stays so.
    """
    worth = max(deviation, magnitude / 10**14)
    return math.floor(1 + math.log10(worth.denominator) - math.log10(worth.numerator))


def _nearest(value: Fraction, decimals: int) -> float:
    return _printed(round(value * Fraction(10) ** decimals), decimals)


def _below(value: Fraction, decimals: int) -> float:
    return _printed(math.floor(value * Fraction(10) ** decimals), decimals)


def _above(value: Fraction, decimals: int) -> float:
    return _printed(math.ceil(value * Fraction(10) ** decimals), decimals)


def _printed(last_places: int, decimals: int) -> float:
    return float(last_places / Fraction(10) ** decimals)
