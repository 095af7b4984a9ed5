"""The kinds of statistic, each one class. A new kind is one more, listed in ``STATISTICS``."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from decimal import Decimal
from fractions import Fraction
from typing import Any, Generic, TypeVar

from release.specs import ONE, Count, Key, Leaderboard, Mean, Publish, Scale, Sum, texts_of
from release.statistics.intervals import (
    Ratio,
    fieller,
    margin,
    quantile,
    ranges_of,
    rank_ranges,
    sidak,
)
from release.statistics.rounding import above, below, decimals_for, nearest
from release.statistics.series import difference
from release.statistics.tables import Noisy, Row, Sigma, Table

Bounds = tuple[Fraction, Fraction]
Spec = TypeVar("Spec")

# The count's share f of ρ. The error of sum/count around a mean m in [-1, 1] has a variance in
# proportion to m²/f + 1/(1 - f). Averaged over m uniform, E m² = 1/3, the least is where
# f/(1 - f) = 1/√3: at f = (√3 - 1)/2. For a known m it is where f/(1 - f) = abs(m).
COUNT_SHARE = Fraction(366_025, 1_000_000)
LEAST_COUNT_SHARE = Fraction(1, 5)
ALL = Fraction(1)


class Statistic(ABC, Generic[Spec]):
    """One kind of statistic. It holds no state; a job's spec is handed to it."""

    @abstractmethod
    def split(self, spec: Spec) -> Mapping[str, Fraction]:
        """The totals that it needs, and the part of ρ that each gets: together 1."""

    def measured(self, spec: Spec) -> tuple[str, Scale] | None:
        """The column whose values are added up, and how they are clamped and scaled."""
        del spec
        return None

    @abstractmethod
    def table(self, spec: Spec, noisy: Noisy, level: float, publish: Publish) -> Table:
        """The published table: every group of ``noisy`` once, whatever the noise."""

    @abstractmethod
    def change(
        self, spec: Spec, before: Noisy, now: Noisy, level: float, publish: Publish
    ) -> Table:
        """By how much each group that both releases have has changed from one to the other."""

    @abstractmethod
    def half_width(self, spec: Spec, sigma: Sigma, level: float, size: int) -> float | None:
        """Half the length of the interval of a group to which ``size`` units count in full.

        What to expect before any data is read: at the middle of the bounds, without noise.
        None where the value would be marked as not reliable.
        """


class Counts(Statistic[Count]):
    """Noisy counts, in the list's order."""

    def split(self, spec: Count) -> Mapping[str, Fraction]:
        """Everything for the count."""
        del spec
        return {"count": ALL}

    def table(self, spec: Count, noisy: Noisy, level: float, publish: Publish) -> Table:
        """Counts with normal intervals."""
        del spec
        return _counts(noisy, level, publish)

    def change(
        self, spec: Count, before: Noisy, now: Noisy, level: float, publish: Publish
    ) -> Table:
        """The difference of the two, with a normal interval."""
        return self.table(spec, difference(before, now), level, _signed(publish))

    def half_width(self, spec: Count, sigma: Sigma, level: float, size: int) -> float:
        """The same for every size: noise on a count does not depend on it."""
        del spec, size
        return float(margin(sigma["count"], level) / ONE)


class Sums(Statistic[Sum]):
    """Noisy sums, in the list's order."""

    def split(self, spec: Sum) -> Mapping[str, Fraction]:
        """Everything for the sum, but for what it takes to discover groups by their count."""
        return _pair(LEAST_COUNT_SHARE) if spec.discovers else {"sum": ALL}

    def measured(self, spec: Sum) -> tuple[str, Scale]:
        """The sum's column, within the bounds."""
        return spec.value, Scale.around_zero(*map(float, spec.bounds))

    def table(self, spec: Sum, noisy: Noisy, level: float, publish: Publish) -> Table:
        """Sums with normal intervals."""
        never_negative = publish.nonnegative and spec.bounds[0] >= 0
        table = _amounts(
            noisy.groups,
            noisy.sum,
            noisy.sigma["sum"],
            level,
            unit=self._unit(spec),
            least=0 if never_negative else None,
            rounded=publish.rounded,
        )
        return _with_counts(table, noisy, publish) if "count" in noisy.of else table

    def change(
        self, spec: Sum, before: Noisy, now: Noisy, level: float, publish: Publish
    ) -> Table:
        """The difference of the two, with a normal interval."""
        return self.table(spec, difference(before, now), level, _signed(publish))

    def half_width(self, spec: Sum, sigma: Sigma, level: float, size: int) -> float:
        """The same for every size."""
        del size
        return float(margin(sigma["sum"], level) * self._unit(spec) / ONE)

    def _unit(self, spec: Sum) -> Fraction:
        return Fraction(self.measured(spec)[1].half)


class Means(Statistic[Mean]):
    """sum / count in each group, mapped back from [-1, 1] to the bounds, in the list's order."""

    def split(self, spec: Mean) -> Mapping[str, Fraction]:
        """The count's share as stated, or the best for what is known of the mean."""
        if spec.count_share is not None:
            return _pair(Fraction(spec.count_share))
        if spec.prior_mean is None:
            return _pair(COUNT_SHARE)
        lower, upper = _fractions(spec.bounds)
        scaled = abs(2 * Fraction(spec.prior_mean) - lower - upper) / (upper - lower)
        return _pair(max(scaled / (1 + scaled), LEAST_COUNT_SHARE))

    def measured(self, spec: Mean) -> tuple[str, Scale]:
        """The mean's column, within the bounds."""
        return spec.value, Scale.around_middle(*map(float, spec.bounds))

    def table(self, spec: Mean, noisy: Noisy, level: float, publish: Publish) -> Table:
        """Means with Fieller's intervals; "not-reliable" where those say little or nothing."""
        ratios = _ratios(noisy, level, within=publish.within_bounds)
        return _means(noisy, _fractions(spec.bounds), ratios, level, publish)

    def change(
        self, spec: Mean, before: Noisy, now: Noisy, level: float, publish: Publish
    ) -> Table:
        """What is left between the two intervals, each at a level at which both hold."""
        return _mean_change(before, now, _fractions(spec.bounds), level, publish)

    def half_width(self, spec: Mean, sigma: Sigma, level: float, size: int) -> float | None:
        """Of Fieller's interval around the middle of the bounds."""
        return _mean_half_width(spec.bounds[1] - spec.bounds[0], sigma, level, size)


class Boards(Statistic[Leaderboard]):
    """The groups by noisy count or mean, greatest first, with joint ranges of ranks."""

    def split(self, spec: Leaderboard) -> Mapping[str, Fraction]:
        """As a count, or as a mean of which nothing is known but its bounds."""
        return {"count": ALL} if spec.bounds is None else _pair(COUNT_SHARE)

    def measured(self, spec: Leaderboard) -> tuple[str, Scale] | None:
        """As what it orders."""
        if spec.value is None or spec.bounds is None:
            return None
        return spec.value, Scale.around_middle(*map(float, spec.bounds))

    def table(self, spec: Leaderboard, noisy: Noisy, level: float, publish: Publish) -> Table:
        """Each value with its own interval; ranges of ranks hold for all groups at once."""
        places: list[tuple[int, Fraction | int]]
        if spec.bounds is None:
            table = _counts(noisy, level, publish)
            appeared = [group in noisy.appeared for group in noisy.groups]
            ranges = rank_ranges(noisy.count, noisy.sigma["count"], level, appeared)
            places = [(0, -count) for count in noisy.count]
        else:
            ratios = _ratios(noisy, level, within=publish.within_bounds)
            table = _means(noisy, _fractions(spec.bounds), ratios, level, publish)
            ranges = ranges_of(_held(_ratios(noisy, sidak(level, len(noisy.groups)))))
            # Those that are not reliable come last.
            places = [(1, 0) if ratio is None else (0, -ratio[1]) for ratio in ratios]
        return _ordered(table, places, ranges)

    def change(
        self, spec: Leaderboard, before: Noisy, now: Noisy, level: float, publish: Publish
    ) -> Table:
        """As of what it orders, and not in an order of its own."""
        if spec.bounds is None:
            return _counts(difference(before, now), level, _signed(publish))
        return _mean_change(before, now, _fractions(spec.bounds), level, publish)

    def half_width(self, spec: Leaderboard, sigma: Sigma, level: float, size: int) -> float | None:
        """As of what it orders."""
        if spec.bounds is None:
            return float(margin(sigma["count"], level) / ONE)
        return _mean_half_width(spec.bounds[1] - spec.bounds[0], sigma, level, size)


STATISTICS: Mapping[str, Statistic[Any]] = {
    "count": Counts(),
    "sum": Sums(),
    "mean": Means(),
    "leaderboard": Boards(),
}


def _fractions(bounds: tuple[Decimal, Decimal]) -> Bounds:
    return Fraction(bounds[0]), Fraction(bounds[1])


def _pair(count: Fraction) -> Mapping[str, Fraction]:
    return {"count": count, "sum": 1 - count}


def _counts(noisy: Noisy, level: float, publish: Publish) -> Table:
    least = 0 if publish.nonnegative else None
    return _amounts(
        noisy.groups, noisy.count, noisy.sigma["count"], level, unit=ALL, least=least,
        rounded=publish.rounded,
    )  # fmt: skip


def _amounts(
    groups: Sequence[Key],
    totals: Sequence[int],
    sigma: int,
    level: float,
    *,
    unit: Fraction,
    least: int | None,
    rounded: bool,
) -> Table:
    """A row for each total, which is so many steps of 2^-20 of ``unit``, with normal intervals.

    ``least`` is what no exact total is below, if that is known: moving a noisy one up to it
    moves it nearer to them all.
    """
    step, reach = unit / ONE, margin(sigma, level)
    held = [total if least is None else max(total, least) for total in totals]
    # Not rounded, digits go down to the lattice, which totals lie on.
    deviation = sigma * step if rounded else step
    decimals = decimals_for(deviation, (max(map(abs, held), default=0) + reach) * step)
    rows = []
    for group, total in zip(groups, held, strict=True):
        lowest = total - reach if least is None else max(total - reach, Fraction(least))
        rows.append(
            Row(
                group=group,
                value=nearest(total * step, decimals),
                lower=below(lowest * step, decimals),
                upper=above((total + reach) * step, decimals),
                status="published",
            )
        )
    return Table(decimals=decimals, count_decimals=decimals, rows=tuple(rows))


def _ratios(noisy: Noisy, level: float, *, within: bool = True) -> list[Ratio | None]:
    return [
        fieller(count, total, noisy.sigma, level, within=within)
        for count, total in zip(noisy.count, noisy.sum, strict=True)
    ]


def _held(ratios: Sequence[Ratio | None]) -> list[tuple[Fraction, Fraction]]:
    """What each interval allows of a scaled mean: all of [-1, 1] where it is not reliable."""
    ends = [(-ALL, ALL) if ratio is None else (ratio[0], ratio[2]) for ratio in ratios]
    return [(max(low, -ALL), min(high, ALL)) for low, high in ends]


def _means(
    noisy: Noisy, bounds: Bounds, ratios: Sequence[Ratio | None], level: float, publish: Publish
) -> Table:
    """A row for each scaled mean; the bounds in the place of those that are not reliable."""
    spans = [None if ratio is None else _span(ratio, bounds) for ratio in ratios]
    decimals = _mean_decimals(spans, bounds, level, publish)
    rows = [
        _mean_row(group, span, bounds, decimals, within=publish.within_bounds)
        for group, span in zip(noisy.groups, spans, strict=True)
    ]
    table = Table(decimals=decimals, count_decimals=decimals, rows=tuple(rows))
    return _with_counts(table, noisy, publish)


def _with_counts(table: Table, noisy: Noisy, publish: Publish) -> Table:
    """The rows, in the order of the totals, each with its noisy count beside it."""
    counts = [max(count, 0) if publish.nonnegative else count for count in noisy.count]
    deviation = Fraction(noisy.sigma["count"] if publish.rounded else 1, ONE)
    decimals = decimals_for(deviation, Fraction(max([1, *map(abs, noisy.count)]), ONE))
    rows = tuple(
        row.model_copy(update={"count": nearest(Fraction(count, ONE), decimals)})
        for row, count in zip(table.rows, counts, strict=True)
    )
    return table.model_copy(update={"count_decimals": decimals, "rows": rows})


def _span(ratio: Ratio, bounds: Bounds) -> Ratio:
    """From [-1, 1] to the bounds."""
    lower, upper = bounds
    low, value, high = ((lower + upper) / 2 + (upper - lower) / 2 * part for part in ratio)
    return low, value, high


def _mean_decimals(
    spans: Sequence[Ratio | None], bounds: Bounds, level: float, publish: Publish
) -> int:
    """What the most precise mean of the table supports, and at least a hundredth of the bounds.

    An interval is as long as 2·z standard deviations. Not rounded, digits go on to the lattice.
    """
    width, z = bounds[1] - bounds[0], quantile(level)
    shown = [bounds, *((low, high) for low, _, high in filter(None, spans))]
    finest = min([width / 100, *((high - low) / (2 * z) for low, high in shown)])
    if not publish.rounded:
        finest = min(finest, width / (2 * ONE))
    # Within the bounds, these are the longest numbers.
    printed = shown[:1] if publish.within_bounds else shown
    magnitude = max(abs(end) for ends in printed for end in ends)
    return decimals_for(finest, magnitude)


def _mean_row(
    group: Key, span: Ratio | None, bounds: Bounds, decimals: int, *, within: bool
) -> Row:
    lower, upper = bounds
    value = None
    if span is not None:
        low, middle, high = span
        value = nearest(middle, decimals)
        if within:
            # An exact mean lies within the bounds, so cutting the interval to them loses nothing.
            value = min(max(value, above(lower, decimals)), below(upper, decimals))
            low, high = max(low, lower), min(high, upper)
        lower, upper = low, high
    return Row(
        group=group,
        value=value,
        lower=below(lower, decimals),
        upper=above(upper, decimals),
        status="not-reliable" if value is None else "published",
    )


def _signed(publish: Publish) -> Publish:
    """A change may be negative, whatever is counted."""
    return publish.model_copy(update={"nonnegative": False})


def _mean_change(
    before: Noisy, now: Noisy, bounds: Bounds, level: float, publish: Publish
) -> Table:
    """The exact change lies between the least and the greatest that the two intervals allow.

    Each holds at the root of the level, and their noises are independent. Where one of the two
    means is not reliable nothing is said but that both lie within the bounds.
    """
    first, second = (_spans(each, bounds, math.sqrt(level), publish) for each in (before, now))
    groups = [group for group in now.groups if group in first]
    spans = [_between(first[group], second[group]) for group in groups]
    width = bounds[1] - bounds[0]
    decimals = _mean_decimals(spans, (-width, width), level, publish)
    rows = [
        _mean_row(group, span, (-width, width), decimals, within=publish.within_bounds)
        for group, span in zip(groups, spans, strict=True)
    ]
    return Table(decimals=decimals, count_decimals=decimals, rows=tuple(rows))


def _spans(
    noisy: Noisy, bounds: Bounds, level: float, publish: Publish
) -> dict[Key, Ratio | None]:
    """Each mean within its interval, and that within the bounds where means are held there."""
    found: dict[Key, Ratio | None] = {}
    ratios = _ratios(noisy, level, within=publish.within_bounds)
    for group, ratio in zip(noisy.groups, ratios, strict=True):
        if ratio is None:
            found[group] = None
            continue
        low, middle, high = _span(ratio, bounds)
        if publish.within_bounds:
            low, high = max(low, bounds[0]), min(high, bounds[1])
        found[group] = low, middle, high
    return found


def _between(before: Ratio | None, now: Ratio | None) -> Ratio | None:
    if before is None or now is None:
        return None
    return now[0] - before[2], now[1] - before[1], now[2] - before[0]


def _mean_half_width(width: Decimal, sigma: Sigma, level: float, size: int) -> float | None:
    ratio = fieller(size * ONE, 0, sigma, level)
    return None if ratio is None else float(Fraction(width) / 2 * ratio[2])


def _ordered(
    table: Table,
    places: Sequence[tuple[int, Fraction | int]],
    ranges: Sequence[tuple[int, int]],
) -> Table:
    """The rows by their places, equal ones by name, each with its rank and its range of ranks."""
    rows = sorted(
        zip(table.rows, places, ranges, strict=True),
        key=lambda one: (one[1], texts_of(one[0].group)),
    )
    ranked = tuple(
        row.model_copy(update={"rank": rank, "rank_lower": first, "rank_upper": last})
        for rank, (row, _, (first, last)) in enumerate(rows, start=1)
    )
    return table.model_copy(update={"rows": ranked})
