"""What every kind of statistic promises. A new kind is tested by being listed in the registry."""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping, Sequence
from decimal import Decimal
from fractions import Fraction
from typing import Any, get_args

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from release import specs
from release.specs import ONE, Count, Key, Leaderboard, Mean, Publish, Sum, texts_of
from release.statistics import STATISTICS, Noisy, Row, Statistic, Table
from tests.simulation import printed

LIST = ("b", "ü", "a", "c")
PAIRS = tuple(itertools.product(("x", "y"), ("2", "1")))
BOUNDS = (Decimal(1), Decimal(5))
WIDE = (Decimal("-1e50"), Decimal("3.3"))


def bounded(by: Any = "g", groups: Any = LIST, bounds: Any = BOUNDS) -> dict[str, Any]:
    return {"by": by, "groups": groups, "value": "v", "bounds": bounds}


VARIANTS: Mapping[str, specs.Statistic] = {
    "count of rows": Count(by="g", groups=LIST),
    "count of units, by two columns": Count(by=("g", "h"), groups=PAIRS, of="units"),
    "sum of what is never negative": Sum(**bounded()),
    "sum of what is never positive": Sum(**bounded(bounds=(Decimal(-5), Decimal("-0.1")))),
    "sum of both signs, by two columns": Sum(**bounded(("g", "h"), PAIRS, WIDE)),
    "mean": Mean(**bounded()),
    "mean with a count share": Mean(**bounded(bounds=WIDE), count_share=Decimal("0.5")),
    "mean with a prior, by two columns": Mean(**bounded(("g", "h"), PAIRS), prior_mean=Decimal(3)),
    "leaderboard of counts": Leaderboard(by="g", groups=LIST, top=2),
    "sum of discovered groups": Sum(**bounded(groups="discover")),
    "mean of discovered groups": Mean(**bounded(groups="discover-new")),
    "leaderboard of discovered groups": Leaderboard(by="g", groups="discover-new", top=2),
    "leaderboard of means, by two columns": Leaderboard(
        **bounded(("g", "h"), PAIRS), top=2, of="mean"
    ),
}
PUBLISH = [
    Publish(nonnegative=one, within_bounds=two, rounded=three)
    for one, two, three in itertools.product((True, False), repeat=3)
]
variants = pytest.mark.parametrize("spec", VARIANTS.values(), ids=VARIANTS)
# Far beyond what rows and noise can be, and beside what the rules look at.
INTEGERS = st.integers(-(2**140), 2**140) | st.integers(-3, 3) | st.sampled_from([ONE, 7 * ONE])
SIGMAS = st.sampled_from([1, 2, ONE, 40 * ONE, 2**62]) | st.integers(1, 2**62)
LEVELS = st.sampled_from([0.5, 0.8, 0.95, 0.9999])


def kind(spec: specs.Statistic) -> Statistic[Any]:
    return STATISTICS[spec.kind]


def released(spec: specs.Statistic) -> tuple[Key, ...]:
    """The groups in the order of their totals: the job's list, or what might be discovered."""
    return spec.listed or LIST


def ranked(spec: specs.Statistic) -> bool:
    return spec.kind == "leaderboard"


@st.composite
def noisy_totals(draw: st.DrawFn, spec: specs.Statistic) -> tuple[dict[str, Any], dict[str, int]]:
    size, split = len(released(spec)), kind(spec).split(spec)
    sigma = {name: draw(SIGMAS) for name in split}
    noisy = {
        name: draw(
            st.lists(
                INTEGERS | st.integers(-5, 5).map(lambda k, s=sigma[name]: k * s),  # type: ignore[misc]
                min_size=size,
                max_size=size,
            )
        )
        for name in split
    }
    return noisy, sigma


def published(
    spec: specs.Statistic,
    noisy: Mapping[str, Sequence[int]],
    sigma: Mapping[str, int],
    level: float = 0.95,
    **changes: bool,
) -> Table:
    return kind(spec).table(spec, Noisy(released(spec), noisy, sigma), level, Publish(**changes))


def test_the_registry_has_a_variant_of_every_kind_that_a_job_may_ask_for() -> None:
    union, _ = get_args(specs.Statistic)
    asked = {model.model_fields["kind"].default for model in get_args(union)}
    assert STATISTICS.keys() == asked == {spec.kind for spec in VARIANTS.values()}
    assert len({type(one) for one in STATISTICS.values()}) == len(STATISTICS)


@variants
def test_the_split_is_the_whole_and_names_known_totals(spec: specs.Statistic) -> None:
    split = kind(spec).split(spec)
    assert sum(split.values()) == 1
    assert all(0 < part <= 1 for part in split.values())
    assert split.keys() <= {"count", "sum"}
    # Groups are discovered by their count.
    assert "count" in split or not spec.discovers
    # A sum needs a column and bounds, and only a sum does.
    assert ("sum" in split) == (kind(spec).measured(spec) is not None)


@variants
@given(data=st.data(), publish=st.sampled_from(PUBLISH), level=LEVELS)
@settings(deadline=None, max_examples=60)
def test_any_noise_gives_each_group_one_row_that_can_be_relied_on(
    spec: specs.Statistic, data: st.DataObject, publish: Publish, level: float
) -> None:
    noisy, sigma = data.draw(noisy_totals(spec))
    drawn = Noisy(released(spec), noisy, sigma)
    table = kind(spec).table(spec, drawn, level, publish)
    assert table == kind(spec).table(spec, drawn, level, publish)
    assert Table.model_validate_json(table.model_dump_json()) == table
    groups = [row.group for row in table.rows]
    assert sorted(groups, key=texts_of) == sorted(released(spec), key=texts_of)
    assert ranked(spec) or groups == list(released(spec))
    for place, row in enumerate(table.rows, start=1):
        numbers = [row.lower, row.upper] + ([] if row.value is None else [row.value])
        assert all(on_grid(number, table.decimals) for number in numbers)
        assert row.lower < row.upper
        assert (row.value is None) == (row.status == "not-reliable")
        assert row.value is None or row.lower <= row.value <= row.upper
        assert (row.count is not None) == (len(noisy) == 2)
        ranks = (row.rank_lower, row.rank, row.rank_upper)
        if ranked(spec):
            assert row.rank == place
            known = [rank for rank in ranks if rank is not None]
            assert [1, *known, len(groups)] == sorted([1, *known, len(groups)])
            assert len(known) == 3
        else:
            assert ranks == (None, None, None)


def on_grid(number: float, decimals: int) -> bool:
    return math.isfinite(number) and (printed(number) * Fraction(10) ** decimals).denominator == 1


@variants
@given(data=st.data(), level=LEVELS)
@settings(deadline=None, max_examples=40)
def test_rounding_only_ever_widens_an_interval(
    spec: specs.Statistic, data: st.DataObject, level: float
) -> None:
    noisy, sigma = data.draw(noisy_totals(spec))
    rough, fine = (published(spec, noisy, sigma, level, rounded=on) for on in (True, False))
    assert rough.decimals <= fine.decimals
    for wide, narrow in zip(rough.rows, fine.rows, strict=True):
        assert (wide.group, wide.rank, wide.status) == (narrow.group, narrow.rank, narrow.status)
        assert wide.lower <= narrow.lower < narrow.upper <= wide.upper


@variants
@given(data=st.data(), rounded=st.booleans())
@settings(deadline=None, max_examples=40)
def test_settings_change_what_is_shown_and_no_more(
    spec: specs.Statistic,
    data: st.DataObject,
    rounded: bool,  # noqa: FBT001
) -> None:
    """Each is post-processing: it moves values and ends, never a status or an order."""
    noisy, sigma = data.draw(noisy_totals(spec))
    held = published(spec, noisy, sigma, rounded=rounded)
    free = published(spec, noisy, sigma, rounded=rounded, nonnegative=False, within_bounds=False)
    loose = {row.group: row for row in free.rows}
    bounds: Any = getattr(spec, "bounds", None)
    for row in held.rows:
        assert (row.status, row.rank_lower) == (
            loose[row.group].status,
            loose[row.group].rank_lower,
        )
        assert (row.count or 0) >= 0
        if "mean" in {spec.kind, getattr(spec, "of", None)}:
            # Where a bound lies between two steps, an interval may end a step outside of it.
            place = Fraction(10) ** -held.decimals
            assert printed(row.lower) > Fraction(bounds[0]) - place
            assert printed(row.upper) < Fraction(bounds[1]) + place
            assert row.value is None or bounds[0] <= Decimal(repr(row.value)) <= bounds[1]
        elif bounds is None or bounds[0] >= 0:
            assert row.lower >= 0
        else:
            assert row == loose[row.group]


def rows_of(table: Table) -> dict[Any, Row]:
    return {row.group: row for row in table.rows}


@pytest.mark.parametrize("name", ["count of rows", "leaderboard of counts"])
def test_a_count_below_nought_is_shown_as_the_noise_left_it_if_that_is_asked(name: str) -> None:
    spec, noisy = VARIANTS[name], {"count": [-30 * ONE, -ONE, 0, 5 * ONE]}
    shown = rows_of(published(spec, noisy, {"count": 10 * ONE}, nonnegative=False))
    assert [shown[group].value for group in LIST] == [-30, -1, 0, 5]
    assert (shown["b"].upper, shown["c"].lower) == (-10, -15)
    held = rows_of(published(spec, noisy, {"count": 10 * ONE}))
    assert [(held[group].value, held[group].lower) for group in LIST[:3]] == [(0, 0)] * 3
    # As of a count of nought.
    assert held["b"].upper == shown["a"].upper == 20


def test_a_sum_is_in_the_units_of_its_column() -> None:
    spec = Sum(**bounded(bounds=(Decimal(-20), Decimal(8))))
    noisy = {"sum": [3 * ONE, -3 * ONE, ONE // 2, 0]}
    table = published(spec, noisy, {"sum": ONE // 100}, rounded=False)
    assert [row.value for row in table.rows] == [60, -60, 10, 0]
    reach = 20 * (1.959963984540054 * 0.01 + 2.0**-21)
    for row in table.rows:
        assert row.value is not None
        assert row.upper - row.value == pytest.approx(reach, rel=1e-4)
        assert row.value - row.lower == pytest.approx(reach, rel=1e-4)


def test_a_sum_below_nought_is_held_only_where_no_exact_one_can_be() -> None:
    noisy, sigma = {"sum": [-9 * ONE] * 4}, {"sum": ONE}
    never = published(VARIANTS["sum of what is never negative"], noisy, sigma)
    assert {(row.value, row.lower) for row in never.rows} == {(0, 0)}
    both = Sum(**bounded(bounds=(Decimal(-1), Decimal(5))))
    assert {row.value for row in published(both, noisy, sigma).rows} == {-45}


def test_a_mean_outside_of_the_bounds_is_shown_so_if_that_is_asked() -> None:
    spec, sigma = VARIANTS["mean"], {"count": ONE, "sum": ONE}
    noisy = {"count": [100 * ONE] * 4, "sum": [150 * ONE, -101 * ONE, 20 * ONE, 0]}
    free = published(spec, noisy, sigma, within_bounds=False)
    assert [row.value for row in free.rows] == [6, 0.98, 3.4, 3]
    assert free.rows[0].lower > 5
    held = published(spec, noisy, sigma)
    assert [row.value for row in held.rows] == [5, 1, 3.4, 3]
    assert held.rows[2:] == free.rows[2:]


def test_a_board_stands_in_the_order_of_what_it_shows() -> None:
    """Held to the bounds two are equal and stand by name; shown as they are, they are not."""
    spec = Leaderboard(**bounded(), top=3, of="mean")
    noisy = {"count": [100 * ONE] * 3 + [0], "sum": [120 * ONE, 90 * ONE, 110 * ONE, 0]}
    sigma = {"count": ONE, "sum": ONE}
    held, free = (published(spec, noisy, sigma, within_bounds=on).rows for on in (True, False))
    assert [(row.group, row.value) for row in held] == [
        ("a", 5),
        ("b", 5),
        ("ü", 4.8),
        ("c", None),
    ]
    assert [row.group for row in free] == ["b", "a", "ü", "c"]
    assert [row.value for row in free] == [5.4, 5.2, 4.8, None]
    # One that is not reliable may be anywhere.
    assert (held[-1].rank_lower, held[-1].rank_upper) == (1, 4)


@pytest.mark.parametrize(("exponent", "decimals"), [(0, 7), (20, 7), (40, 7), (62, 2)])
def test_without_rounding_digits_go_down_to_the_lattice(exponent: int, decimals: int) -> None:
    """A step of 2^-20 is 0.00000095: a tenth of it is the last digit, and there are 15."""
    spec, noisy = Count(by="g", groups=("a",)), {"count": [5 * ONE + 1]}
    table = published(spec, noisy, {"count": 2**exponent}, rounded=False)
    assert table.decimals == decimals


@variants
@given(data=st.data(), size=st.integers(0, 10**7))
@settings(deadline=None, max_examples=40)
def test_a_half_width_is_that_of_the_row_that_is_meant(
    spec: specs.Statistic, data: st.DataObject, size: int
) -> None:
    """Without noise at the middle of the bounds, and greater at a higher level."""
    sigma = {name: data.draw(st.integers(1, 2**40)) for name in kind(spec).split(spec)}
    low, high = (kind(spec).half_width(spec, sigma, level, size) for level in (0.8, 0.99))
    assert high is None or (low is not None and low < high)
    noisy = {"count": [size * ONE] * 4, "sum": [0] * 4}
    changes = {"nonnegative": False, "within_bounds": False, "rounded": False}
    table = published(spec, {name: noisy[name] for name in sigma}, sigma, 0.8, **changes)
    row = rows_of(table)[released(spec)[0]]
    assert (low is None) == (row.value is None)
    if low is not None:
        step = Fraction(10) ** -table.decimals
        assert abs(printed(row.upper) - printed(row.lower) - 2 * Fraction(low)) <= 2 * step
