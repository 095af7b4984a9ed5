"""Changes and sums over releases: against closed forms, and how often their intervals hold."""

from __future__ import annotations

import math
from collections.abc import Sequence
from decimal import Decimal
from fractions import Fraction
from typing import Any

import mpmath
import pytest
from hypothesis import given
from hypothesis import strategies as st

from release.specs import ONE, Count, Leaderboard, Mean, Publish, Sum
from release.statistics import STATISTICS, Noisy, Series, Table
from release.statistics.intervals import quantile
from release.statistics.series import difference
from tests.simulation import LEVELS, RELEASES, covers, expected, names, noisy, printed

MANY = 12_000
FINE = Publish(nonnegative=False, within_bounds=False, rounded=False)
BOUNDS = Decimal(1), Decimal(5)
levels = pytest.mark.parametrize("level", LEVELS)
sigmas = st.lists(
    st.tuples(st.integers(1, 2**40) | st.integers(1, 4), st.integers(1, 2**40)),
    min_size=1,
    max_size=12,
)


def release(counts: Sequence[int], sigma: int, groups: Sequence[str] = ()) -> Noisy:
    return Noisy(tuple(groups) or names(len(counts)), {"count": counts}, {"count": sigma})


def pair(counts: Sequence[int], sums: Sequence[int], sigma: tuple[int, int]) -> Noisy:
    both = {"count": counts, "sum": sums}
    return Noisy(names(len(counts)), both, dict(zip(both, sigma, strict=True)))


def added(releases: Sequence[Noisy]) -> Noisy:
    line = Series.start(releases[0])
    for each in releases[1:]:
        line = Series.start(each).plus(line)
    return line.noisy()


def counted(noisy: Noisy, level: float, publish: Publish = FINE) -> Table:
    spec = Count(by="g", groups=tuple(map(str, noisy.groups)))
    return STATISTICS["count"].table(spec, noisy, level, publish)


# ------------------------------------------------------------------------------------- the noise


@given(
    sigmas,
    st.floats(-1, 1),
    st.sampled_from([0.5, 0.6, 0.95, 0.9999]),
)
def test_a_sum_of_releases_makes_up_for_every_rounding(
    each: list[tuple[int, int]], t: float, level: float
) -> None:
    """What is allowed for a ratio t, or for a total, is at least what k releases need."""
    line = added([pair([0], [0], sigma) for sigma in each])
    k = len(each)
    with mpmath.workdps(50):
        z, t = mpmath.mpf(float(quantile(level))), mpmath.mpf(abs(t))
        true = [mpmath.sqrt(sum(mpmath.mpf(s[i]) ** 2 for s in each)) for i in (0, 1)]
        said = [mpmath.mpf(line.sigma[name]) for name in ("count", "sum")]

        def reach(sigma: list[Any], halves: int) -> Any:
            return z * mpmath.sqrt(sigma[1] ** 2 + t**2 * sigma[0] ** 2) + halves * (1 + t) / 2

        # Fieller's interval has a term of its own for one rounding of each.
        assert reach(said, 1) >= reach(true, k)
        assert z * said[0] + mpmath.mpf(1) / 2 >= z * true[0] + mpmath.mpf(k) / 2
        least = min(true)
        for one, other in zip(said, true, strict=True):
            assert one <= other * (1 + 2 * (k - 1) / least) + 2 + 2 * k / least


def test_only_groups_that_all_releases_have_are_added_up() -> None:
    one = release([1, 2, 3], 4, ["a", "b", "c"])
    two = release([50, 70, 60], 3, ["b", "d", "a"])
    line = Series.start(two).plus(Series.start(one))
    assert (line.groups, line.releases, line.squares) == (("b", "a"), 2, {"count": 25})
    assert line.noisy().of == {"count": (52, 61)}
    found = difference(one, two)
    assert dict(zip(found.groups, found.count, strict=True)) == {"a": 59, "b": 48}


@given(st.integers(1, 2**50), st.integers(1, 2**50), st.sampled_from(LEVELS))
def test_a_change_of_counts_has_the_noise_of_both(before: int, now: int, level: float) -> None:
    spec = Count(by="g", groups=("a",))
    earlier, later = release([7 * ONE], before, ["a"]), release([3 * ONE], now, ["a"])
    table = STATISTICS["count"].change(spec, earlier, later, level, FINE)
    (row,) = table.rows
    assert row.value == -4
    half = float(quantile(level)) * math.hypot(before, now) / ONE
    step = 10.0**-table.decimals
    for end in (row.upper + 4, -4 - row.lower):
        assert end == pytest.approx(half, rel=1e-9, abs=12 / ONE + step)


def test_changes_are_signed_and_sums_are_held_once() -> None:
    spec, hold = Count(by="g", groups=("a",)), Publish(rounded=False)
    parts = [release([count * ONE], ONE, ["a"]) for count in (-30, 20, -5)]
    (row,) = STATISTICS["count"].change(spec, parts[1], parts[2], 0.95, hold).rows
    assert row.value == -25
    (row,) = STATISTICS["count"].table(spec, added(parts), 0.95, hold).rows
    assert (row.value, row.lower) == (0, 0)
    (row,) = STATISTICS["count"].table(spec, added(parts[1:]), 0.95, hold).rows
    assert row.value == 15  # not 20: a count below 0 takes its part of the sum


def test_a_change_of_means_is_between_their_intervals() -> None:
    spec = Mean(by="g", groups=names(2), value="v", bounds=BOUNDS)
    before = pair([400 * ONE, 3], [200 * ONE, 0], (ONE, ONE))
    now = pair([900 * ONE, 900 * ONE], [-90 * ONE, 0], (2 * ONE, 3 * ONE))
    level = 0.9
    (row, lost) = STATISTICS["mean"].change(spec, before, now, level, FINE).rows
    each = math.sqrt(level)
    first, second = (
        STATISTICS["mean"].table(spec, one, each, FINE).rows[0] for one in (before, now)
    )
    assert row.value == pytest.approx(2.8 - 4, abs=1e-6)
    assert row.lower == pytest.approx(second.lower - first.upper, abs=1e-5)
    assert row.upper == pytest.approx(second.upper - first.lower, abs=1e-5)
    assert (lost.value, lost.status, lost.lower, lost.upper) == (None, "not-reliable", -4, 4)


def test_a_board_changes_as_what_it_orders() -> None:
    before, now = release([ONE, 5 * ONE], ONE), release([9 * ONE, 5 * ONE], ONE)
    board = Leaderboard(by="g", groups=names(2), top=1)
    count = Count(by="g", groups=names(2))
    assert STATISTICS["leaderboard"].change(board, before, now, 0.9, FINE) == STATISTICS[
        "count"
    ].change(count, before, now, 0.9, FINE)
    means = pair([90 * ONE] * 2, [9 * ONE, 0], (ONE, ONE))
    ordered = Leaderboard(by="g", groups=names(2), top=1, of="mean", value="v", bounds=BOUNDS)
    plain = Mean(by="g", groups=names(2), value="v", bounds=BOUNDS)
    assert STATISTICS["leaderboard"].change(ordered, means, means, 0.9, FINE) == STATISTICS[
        "mean"
    ].change(plain, means, means, 0.9, FINE)


# ---------------------------------------------------------------------------------- the coverage


def held(table: Table, truth: Fraction) -> int:
    return sum(covers(row, truth) for row in table.rows)


@levels
@pytest.mark.parametrize("right", [True, False])
def test_sums_hold_at_the_level_exactly(level: float, *, right: bool) -> None:
    """Four releases of different noise; with the noise of the greatest alone they do not hold."""
    scales = [2**24, 2**23, 3 * 2**22, 2**24]
    parts = [
        release(noisy([each * ONE] * MANY, sigma, f"sum {each}"), sigma)
        for each, sigma in enumerate(scales)
    ]
    line = added(parts)
    if not right:
        line = Noisy(line.groups, line.of, {"count": max(scales)})
    low, high = expected(level, MANY)
    assert (low <= held(counted(line, level), Fraction(6)) <= high) == right


@levels
@pytest.mark.parametrize("kind", ["count", "sum"])
@pytest.mark.parametrize("right", [True, False])
def test_changes_hold_at_the_level_exactly(level: float, kind: str, *, right: bool) -> None:
    scales = (2**24, 2**23)
    before, now = (
        Noisy(
            names(MANY),
            {kind: noisy([each * ONE] * MANY, sigma, f"change {each}")},
            {kind: sigma},
        )
        for each, sigma in zip((9, 5), scales, strict=True)
    )
    if not right:
        before = Noisy(before.groups, before.of, {kind: 1})
    spec: Any = Count(by="g", groups=names(MANY))
    if kind == "sum":
        spec = Sum(by="g", groups=names(MANY), value="v", bounds=(Decimal(-1), Decimal(3)))
    table = STATISTICS[kind].change(spec, before, now, level, FINE)
    low, high = expected(level, MANY)
    unit = 3 if kind == "sum" else 1
    assert (low <= held(table, Fraction(-4 * unit)) <= high) == right


@levels
@pytest.mark.parametrize("size", [0, 2, 6, 300])
@pytest.mark.parametrize("publish", [Publish(), FINE], ids=["held", "free"])
def test_means_hold_over_all_releases(size: int, level: float, publish: Publish) -> None:
    """In groups from empty to large, whether or not a value is shown: sums, and changes."""
    sigma = (1000, 760)
    shares = [Fraction(9, 10), Fraction(-1, 4), Fraction(1, 2)]
    exact = [(size * sigma[0], int(share * size * sigma[0])) for share in shares]
    parts = [
        pair(
            noisy([count] * RELEASES, sigma[0], f"counts {size} {each}"),
            noisy([total] * RELEASES, sigma[1], f"sums {size} {each}"),
            sigma,
        )
        for each, (count, total) in enumerate(exact)
    ]
    spec = Mean(by="g", groups=names(RELEASES), value="v", bounds=BOUNDS)
    least = expected(level)[0]

    def mean(count: int, total: int) -> Fraction:
        return 3 + 2 * Fraction(total, count) if count else Fraction(3)

    change = STATISTICS["mean"].change(spec, parts[0], parts[1], level, publish)
    assert held(change, mean(*exact[1]) - mean(*exact[0])) >= least
    line = STATISTICS["mean"].table(spec, added(parts), level, publish)
    truth = mean(sum(count for count, _ in exact), sum(total for _, total in exact))
    assert held(line, truth) >= least
    if size == 300 and publish == FINE:
        # As narrow as three times the rows make it.
        one = STATISTICS["mean"].table(spec, parts[1], level, publish).rows[0]
        all_three = line.rows[0]
        widths = [printed(each.upper) - printed(each.lower) for each in (one, all_three)]
        assert 1.5 < widths[0] / widths[1] < 2


def test_a_change_that_takes_one_release_for_exact_does_not_hold() -> None:
    sigma, size = (1000, 760), 300
    parts = [
        pair(
            noisy([size * 1000] * RELEASES, sigma[0], f"power counts {each}"),
            noisy([size * 500] * RELEASES, sigma[1], f"power sums {each}"),
            sigma,
        )
        for each in range(2)
    ]
    spec = Mean(by="g", groups=names(RELEASES), value="v", bounds=BOUNDS)
    exact = Noisy(parts[0].groups, parts[0].of, {"count": 1, "sum": 1})
    table = STATISTICS["mean"].change(spec, exact, parts[1], 0.95, FINE)
    assert held(table, Fraction(0)) < expected(0.95)[0]
