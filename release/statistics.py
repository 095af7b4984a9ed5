"""For each kind of statistic: which totals it needs, and how noisy totals become a table.

Everything here looks at noisy totals and public parameters only, so it is post-processing and
free. It runs after the noise is drawn, so nothing here may fail for one draw and not another:
every division is guarded by the comparison that makes its divisor positive.

Intervals cover the noise at the stated level, over all releases. They bound the exact bounded
statistic; what the contribution bounds changed is stated beside them, in words.
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
Spec = TypeVar("Spec", Mean, Leaderboard)


class Row(BaseModel):
    """One published row; ``value`` is None exactly where ``status`` is not "published".

    ``lower`` and ``upper`` bound the exact bounded statistic at the release's level, noise only.
    ``count`` is the noisy bounded count beside a mean. The ranks belong to leaderboards.
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
    """A published table, its numbers rounded once, to ``decimals`` places, for every format."""

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
        """Means with Fieller's intervals; "not-reliable" where those are unbounded."""
        _, scale = self.measured(spec)
        decimals = _decimals((scale.upper - scale.lower) / 100)
        count_decimals = _decimals(sigma["count"] / ONE)
        rows = []
        for group, count, total in zip(spec.groups, noisy["count"], noisy["sum"], strict=True):
            ratio = _fieller(count, total, sigma, level)
            rough = _nearest(Fraction(max(count, 0), ONE), count_decimals)
            rows.append(_mean_row(group, ratio, rough, scale, decimals))
        return Table(decimals=decimals, count_decimals=count_decimals, rows=tuple(rows))


class CountBoard(Statistic[Leaderboard]):
    """The groups by noisy count, greatest first, ties by name, with joint ranges of ranks."""

    split: ClassVar = {"count": Fraction(1)}

    def table(self, spec: Leaderboard, noisy: Noisy, sigma: Sigma, level: float) -> Table:
        """Counts with normal intervals; ranges of ranks hold for all groups at once."""
        decimals = _decimals(sigma["count"] / ONE)
        # Half a step for the rounding of the noise to the lattice.
        margin = NormalDist().inv_cdf((1 + level) / 2) * sigma["count"] + 0.5
        ranges = _rank_ranges(noisy["count"], sigma["count"], level)
        order = sorted(
            range(len(spec.groups)), key=lambda place: (-noisy["count"][place], spec.groups[place])
        )
        rows = [
            Row(
                group=spec.groups[place],
                value=_nearest(Fraction(max(noisy["count"][place], 0), ONE), decimals),
                lower=max(_below((noisy["count"][place] - margin) / ONE, decimals), 0.0),
                upper=max(_above((noisy["count"][place] + margin) / ONE, decimals), 0.0),
                status="published",
                rank=rank,
                rank_lower=ranges[place][0],
                rank_upper=ranges[place][1],
            )
            for rank, place in enumerate(order, start=1)
        ]
        return Table(decimals=decimals, count_decimals=decimals, rows=tuple(rows))


STATISTICS: Mapping[str, Statistic[Any]] = {"mean": GroupMeans(), "leaderboard": CountBoard()}


def _fieller(
    count: int, total: int, sigma: Sigma, level: float
) -> tuple[float, float, float] | None:
    """sum/count with its interval by Fieller (1954), or None where that is unbounded.

    The set of t with (S - t·C)² <= z²·(σ_s² + t²·σ_c²) holds the ratio of the exact totals at
    the level, whatever they are; it is an interval exactly where C² > z²·σ_c². z is raised so
    that it also covers the rounding of both noises to the lattice: half a step each moves
    S - t·C by at most (1 + abs(t))/2 <= √(σ_s² + t²·σ_c²)/(√2·min σ).
    """
    z = NormalDist().inv_cdf((1 + level) / 2) + 1 / (math.sqrt(2) * min(sigma.values()))
    c, s = count / sigma["count"], total / sigma["sum"]
    spare = c * c - z * z
    if c <= 0 or spare <= 0:
        return None
    # In units of their sigmas: the roots of (c² - z²)·t² - 2·c·s·t + (s² - z²) = 0, whose
    # discriminant z²·(c² + s² - z²) = z²·(spare + s²) is positive.
    unit = sigma["sum"] / sigma["count"]
    reach = z * math.sqrt(spare + s * s)
    return unit * (c * s - reach) / spare, unit * s / c, unit * (c * s + reach) / spare


def _mean_row(
    group: str,
    ratio: tuple[float, float, float] | None,
    count: float,
    scale: Scale,
    decimals: int,
) -> Row:
    if ratio is None:
        return Row(
            group=group,
            value=None,
            lower=scale.lower,
            upper=scale.upper,
            status="not-reliable",
            count=count,
        )
    # The exact mean lies within the bounds, so cutting the interval to them loses nothing.
    lower, value, upper = (scale.centre + scale.half * min(max(part, -1.0), 1.0) for part in ratio)
    return Row(
        group=group,
        value=min(max(_nearest(Fraction(value), decimals), scale.lower), scale.upper),
        lower=max(_below(lower, decimals), scale.lower),
        upper=min(_above(upper, decimals), scale.upper),
        status="published",
        count=count,
    )


def _rank_ranges(counts: Sequence[int], sigma: int, level: float) -> list[tuple[int, int]]:
    """For each count the first and last place that its exact count may have.

    Two are told apart when they differ by more than the level's quantile of the greatest
    difference that the noise alone makes anywhere among them, plus a step for its rounding. So
    with that probability every pair told apart stands in its true order, and every range holds.
    """
    apart = _greatest_difference(len(counts), level) * sigma + 1
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


def _decimals(deviation: float) -> int:
    """How many places are worth printing: none below a tenth of ``deviation``."""
    return min(max(math.floor(1 - math.log10(deviation)), 0), 12)


def _nearest(value: Fraction, decimals: int) -> float:
    return _printed(round(value * 10**decimals), decimals)


def _below(value: float, decimals: int) -> float:
    return _printed(math.floor(Fraction(value) * 10**decimals), decimals)


def _above(value: float, decimals: int) -> float:
    return _printed(math.ceil(Fraction(value) * 10**decimals), decimals)


def _printed(last_places: int, decimals: int) -> float:
    return last_places / int(10**decimals)
