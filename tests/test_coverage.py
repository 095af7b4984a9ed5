"""How often intervals and ranges hold, over all releases and on the shipped path, at each level.

What must hold at least at the level is held to a lower bound alone; what holds at it exactly, with
no rounding to places, to both, and must then fail where σ is a tenth more or less than is said.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from decimal import Decimal
from fractions import Fraction
from typing import Any

import pytest

from release.specs import ONE, Count, Leaderboard, Mean, Publish, Sum
from release.statistics import STATISTICS, Noisy, Table
from release.statistics.intervals import fieller, rank_ranges, sidak
from tests.simulation import LEVELS, RELEASES, covers, expected, names, noisy

MANY = 12_000
"""So many that an error of a tenth in σ is seen at each level."""
levels = pytest.mark.parametrize("level", LEVELS)
wrongs = pytest.mark.parametrize("wrong", [Fraction(9, 10), Fraction(1), Fraction(11, 10)])
switched = pytest.mark.parametrize("nonnegative", [True, False])
FINE = Publish(nonnegative=False, within_bounds=False, rounded=False)


def counted(totals: Sequence[int], sigma: int, level: float, publish: Publish) -> Table:
    spec = Count(by="g", groups=names(len(totals)))
    drawn = Noisy(spec.listed, {"count": totals}, {"count": sigma})
    return STATISTICS["count"].table(spec, drawn, level, publish)


def summed(
    totals: Sequence[int], sigma: int, level: float, publish: Publish, bounds: tuple[str, str]
) -> Table:
    limits = Decimal(bounds[0]), Decimal(bounds[1])
    spec = Sum(by="g", groups=names(len(totals)), value="v", bounds=limits)
    drawn = Noisy(spec.listed, {"sum": totals}, {"sum": sigma})
    return STATISTICS["sum"].table(spec, drawn, level, publish)


def averaged(
    counts: Sequence[int],
    sums: Sequence[int],
    sigma: dict[str, int],
    level: float,
    publish: Publish,
) -> Table:
    spec = Mean(by="g", groups=names(len(counts)), value="v", bounds=(Decimal(1), Decimal(5)))
    drawn = Noisy(spec.listed, {"count": counts, "sum": sums}, sigma)
    return STATISTICS["mean"].table(spec, drawn, level, publish)


def covered(table: Table, truth: Fraction) -> int:
    return sum(covers(row, truth) for row in table.rows)


# Counts and sums


@levels
@switched
@pytest.mark.parametrize("deviations", [0, 0.2, 1.3, 500])
@pytest.mark.parametrize("sigma", [1, 2**24])
def test_counts(deviations: float, sigma: int, level: float, *, nonnegative: bool) -> None:
    exact = round(deviations * sigma)
    totals = noisy([exact] * RELEASES, sigma, f"count {deviations} {sigma}")
    table = counted(totals, sigma, level, Publish(nonnegative=nonnegative))
    assert covered(table, Fraction(exact, ONE)) >= expected(level)[0]


@levels
@wrongs
def test_counts_at_the_level_exactly(level: float, wrong: Fraction) -> None:
    totals = noisy([7 * ONE] * MANY, 2**24, "a count")
    table = counted(totals, int(wrong * 2**24), level, FINE)
    low, high = expected(level, MANY)
    assert (low <= covered(table, Fraction(7)) <= high) == (wrong == 1)


@levels
@pytest.mark.parametrize(
    ("bounds", "deviations"),
    [
        *itertools.product([("0", "0.7"), ("2", "9e9")], [0, 0.05, 500]),
        *itertools.product([("-0.3", "0.1"), ("-5", "-1")], [-500, -1.3, 0]),
    ],
)
@pytest.mark.parametrize("sigma", [2, 2**24])
def test_sums(bounds: tuple[str, str], deviations: float, sigma: int, level: float) -> None:
    """Held above nought too, where no exact sum is below it."""
    exact = round(deviations * sigma)
    totals = noisy([exact] * RELEASES, sigma, f"sum {bounds} {deviations} {sigma}")
    table = summed(totals, sigma, level, Publish(), bounds)
    truth = Fraction(exact, ONE) * max(abs(Fraction(float(bound))) for bound in bounds)
    assert covered(table, truth) >= expected(level)[0]


@levels
@wrongs
def test_sums_at_the_level_exactly(level: float, wrong: Fraction) -> None:
    totals = noisy([-7 * ONE] * MANY, 2**24, "a sum")
    table = summed(totals, int(wrong * 2**24), level, FINE, ("-3", "1"))
    low, high = expected(level, MANY)
    assert (low <= covered(table, Fraction(-21)) <= high) == (wrong == 1)


# Means


@levels
@pytest.mark.parametrize("within", [True, False])
@pytest.mark.parametrize("deviations", [0, 2.3, 4])
@pytest.mark.parametrize("mean", ["-0.3", "1"])
def test_means(deviations: float, mean: str, level: float, *, within: bool) -> None:
    """Those that show no value among them."""
    sigma = {"count": 1000, "sum": 760}
    count = round(deviations * sigma["count"])
    total = int(Fraction(mean) * count)
    # A group without rows has no mean: the interval then covers any that is named beforehand.
    truth = 3 + 2 * (Fraction(total, count) if count else Fraction(mean))
    table = averaged(
        noisy([count] * RELEASES, sigma["count"], f"counts {deviations}"),
        noisy([total] * RELEASES, sigma["sum"], f"sums {deviations} {mean}"),
        sigma,
        level,
        Publish(within_bounds=within),
    )
    assert covered(table, truth) >= expected(level)[0]


@levels
@wrongs
def test_means_at_the_level_exactly(level: float, wrong: Fraction) -> None:
    sigma, count, total = 2**24, 40 * 2**24, 10 * 2**24
    table = averaged(
        noisy([count] * MANY, sigma, "counts"),
        noisy([total] * MANY, sigma, "sums"),
        {"count": int(wrong * sigma), "sum": int(wrong * sigma)},
        level,
        FINE,
    )
    low, high = expected(level, MANY)
    assert (low <= covered(table, Fraction(7, 2)) <= high) == (wrong == 1)


# Ranges of ranks


def places(exact: Sequence[Any]) -> list[tuple[int, int]]:
    """The first and the last place that ties leave open to each."""
    return [
        (1 + sum(other > one for other in exact), sum(other >= one for other in exact))
        for one in exact
    ]


def all_hold(ranges: Sequence[tuple[int, int]], truth: Sequence[tuple[int, int]]) -> bool:
    return all(
        low <= first and last <= high
        for (low, high), (first, last) in zip(ranges, truth, strict=True)
    )


@levels
@pytest.mark.parametrize("gap", [0, 0.05, 1.5])
def test_ranges_of_counts_hold_jointly(gap: float, level: float) -> None:
    sigma = 2**20
    exact = [round(gap * place * sigma) for place in range(8)]
    draws = noisy(exact * RELEASES, sigma, f"counts of a board {gap}")
    held = sum(
        all_hold(rank_ranges(draws[start : start + 8], sigma, level), places(exact))
        for start in range(0, len(draws), 8)
    )
    assert held >= expected(level)[0]


@levels
@wrongs
def test_ranges_of_equal_counts_hold_at_the_level_exactly(level: float, wrong: Fraction) -> None:
    sigma, runs = 2**24, 5000
    draws = noisy([0] * 3 * runs, sigma, "equal counts of a board")
    held = sum(
        rank_ranges(draws[start : start + 3], int(wrong * sigma), level) == [(1, 3)] * 3
        for start in range(0, len(draws), 3)
    )
    low, high = expected(level, runs)
    assert (low <= held <= high) == (wrong == 1)


@pytest.mark.parametrize(
    ("size", "gap", "level"),
    [(300, 0.004, 0.8), (300, 0.004, 0.95), (300, 0.1, 0.99), (3, 0.1, 0.95)],
)
def test_ranges_of_means_hold_jointly(gap: float, size: int, level: float) -> None:
    """Near-ties, far ones, and groups so small that few are reliable, as the table has them."""
    sigma = {"count": 1000, "sum": 760}
    count = [size * sigma["count"]] * 4
    total = [round((gap * place - 0.5) * each) for place, each in enumerate(count)]
    spec = Leaderboard(
        by="g", groups=names(4), top=1, of="mean", value="v", bounds=(Decimal(1), Decimal(5))
    )
    counts = noisy(count * RELEASES, sigma["count"], f"counts of means {gap} {size}")
    sums = noisy(total * RELEASES, sigma["sum"], f"sums of means {gap} {size}")
    truth, held = places(total), 0
    for start in range(0, len(counts), 4):
        pair = {"count": counts[start : start + 4], "sum": sums[start : start + 4]}
        drawn = Noisy(spec.listed, pair, sigma)
        table = STATISTICS["leaderboard"].table(spec, drawn, level, Publish())
        rows = sorted(table.rows, key=lambda row: str(row.group))
        held += all_hold([(row.rank_lower or 0, row.rank_upper or 0) for row in rows], truth)
    assert held >= expected(level)[0]


@levels
@wrongs
def test_intervals_of_means_hold_jointly_at_the_level_exactly(
    level: float, wrong: Fraction
) -> None:
    sigma, runs, many = 2**24, MANY, 2
    said = {"count": int(wrong * sigma), "sum": int(wrong * sigma)}
    counts = noisy([50 * sigma] * many * runs, sigma, "joint counts")
    sums = noisy([10 * sigma] * many * runs, sigma, "joint sums")
    each = sidak(level, many)
    hold = []
    for pair in zip(counts, sums, strict=True):
        ratio = fieller(*pair, said, each)
        hold.append(ratio is not None and ratio[0] <= Fraction(1, 5) <= ratio[2])
    held = sum(all(hold[start : start + many]) for start in range(0, len(hold), many))
    low, high = expected(level, runs)
    assert (low <= held <= high) == (wrong == 1)
