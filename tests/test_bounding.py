"""The heart of the guarantee: integers against a plain reference, and every unit within its bound.

Everything goes through a real file and the real engine. Several cases share a query: each has
units and groups of its own, so that one case could move another only if the claim were false.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from datetime import date, datetime, timedelta
from decimal import Decimal
from fractions import Fraction
from pathlib import Path
from typing import Any, Literal

import ibis
import mpmath
import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq
import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

from release import bounding
from release.bounding import MOST_ROWS, SLACK, sensitivity, totals, truncate
from release.sources import open_rows
from release.specs import MAX_GROUPS, MAX_ROWS_PER_GROUP, ONE, Budget, Contribution, Dataset, Scale
from release.windows import Window
from tests import reference
from tests.reference import Asked, Row, Vector

WINDOW = Window("week", date(2026, 1, 5), "Europe/London")
START, END = datetime(2026, 1, 5), datetime(2026, 1, 12)
SALT = "key|ratings|job|2026-01-05"
BOUNDS = [(1.0, 5.0), (0.0, 50.0), (-3.0, 0.1), (-1e307, 1e307), (2.0**53 - 1, 2.0**53 + 3)]
Bounding = Literal["clip", "sample"]
# A failing batch is small enough to read, and slow to shrink.
slowly = settings(deadline=None, max_examples=25, phases=set(Phase) - {Phase.shrink})


def asked(groups: Iterable[str], contribution: Contribution, bounds: Any = None) -> Asked:
    c = contribution
    most = (c.max_rows_per_group, c.max_groups, c.bounding)
    return Asked(tuple(groups), START, END, *most, bounds, SALT)


def bound(R: int, G: int, kind: Bounding = "clip") -> Contribution:
    return Contribution(max_groups=G, max_rows_per_group=R, bounding=kind)


def dataset(source: str) -> Dataset:
    budget = Budget(epsilon=Decimal(1), delta=Decimal("1e-6"))
    return Dataset(
        name="ratings",
        source=source,
        unit="who",
        time="at",
        time_format="iso",
        time_zone=WINDOW.zone,
        budget=budget,
    )


def table(rows: Sequence[Row]) -> pa.Table:
    columns = [
        ("what", pa.string(), [row.key for row in rows]),
        ("price", pa.float64(), [row.value for row in rows]),
        ("at", pa.timestamp("us"), [row.time for row in rows]),
        ("who", pa.string(), [row.unit for row in rows]),
    ]
    return pa.table({name: pa.array(column, kind) for name, kind, column in columns})


def engine(path: Path, want: Asked, contribution: Contribution) -> dict[str, list[int]]:
    """The totals of a file by the code under test."""
    value = None if want.bounds is None else "price"
    scale = None if want.bounds is None else Scale(*want.bounds)
    with open_rows(dataset(path.name), path.parent, by="what", value=value) as rows:
        exact = totals(
            rows,
            WINDOW,
            groups=want.groups,
            contribution=contribution,
            scale=scale,
            salt=want.salt,
        )
    return dict(exact)


def by_engine(
    folder: Path, rows: Sequence[Row], want: Asked, contribution: Contribution
) -> dict[str, list[int]]:
    path = folder / "rows.parquet"
    pq.write_table(table(rows), path)
    return engine(path, want, contribution)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("bounding")


# ---------------------------------------------------------------------------- random cases

Case = tuple[list[Row], list[str]]


def values(rng: np.random.Generator, bounds: tuple[float, float], size: int) -> list[float | None]:
    """Values inside, at and beyond the bounds, and everything a float column may hold."""
    lower, upper = bounds
    far = [math.inf, 1.7976931348623157e308, 1e308, 2.0**53 + 1, 2.0**53 - 1, 5e-324, 0.0]
    near = [math.nextafter(x, way) for x in bounds for way in (-math.inf, math.inf)]
    odd = [None, math.nan, *far, *(-x for x in far), *bounds, *near, (lower + upper) / 2]
    plain = rng.uniform(lower, upper, size) if upper < 1e300 else rng.normal(0, 1e306, size)
    which = rng.integers(0, 3 * len(odd), size)
    return [odd[at] if at < len(odd) else float(x) for at, x in zip(which, plain, strict=True)]


def case(
    name: str, seed: int, units: Sequence[tuple[int, int]], bounds: tuple[float, float]
) -> Case:
    """Units of one case, each with (how many groups it is in, about how many rows it has)."""
    rng = np.random.default_rng(seed)
    groups = [f"{name}:{at}" for at in range(max(most for most, _ in units))]
    rows: list[Row] = []
    for at, (most, size) in enumerate(units):
        # Skewed, so that some groups have a row and others very many.
        where = np.minimum(rng.geometric(min(1.0, 2 / most), size) - 1, most - 1)
        where[:most] = np.arange(most)[:size]
        for group, value in zip(where, values(rng, bounds, size), strict=True):
            time = START + timedelta(microseconds=int(rng.integers(0, 7 * 86_400_000_000)))
            rows.append(Row(f"{name}-{at}", groups[group], time, value))
        rows += strays(f"{name}-{at}", groups[0])
    return rows, groups


def strays(unit: str, group: str) -> list[Row]:
    """Rows that must not count: outside the window, unlisted, or with a part missing."""
    tick = timedelta(microseconds=1)
    return [
        Row(unit, group, START - tick, 1.0),
        Row(unit, group, END, 1.0),
        Row(unit, group, None, 1.0),
        Row(unit, None, START, 1.0),
        Row(unit, "", START, 1.0),
        Row(unit, group.upper() + "?", START, 1.0),
        Row(None, group, START, 1.0),
        Row("", group, START, 1.0),
    ]


sizes = st.one_of(
    st.tuples(st.integers(1, 6), st.integers(1, 40)),
    st.tuples(st.integers(1, 40), st.integers(1, 200)),
)
batches = st.lists(
    st.tuples(st.integers(0, 2**32), st.lists(sizes, min_size=1, max_size=4)),
    min_size=1,
    max_size=6,
)
contributions = st.builds(
    bound,
    st.one_of(st.integers(1, 8), st.sampled_from([50, 1000, MAX_ROWS_PER_GROUP])),
    st.one_of(st.integers(1, 8), st.sampled_from([50, 1000, MAX_GROUPS])),
    st.sampled_from(["clip", "sample"]),
)


def assert_within(vector: Vector, contribution: Contribution) -> None:
    """Against what noise is sized for, and against the real number R·√G, in exact arithmetic."""
    most, groups = contribution.max_rows_per_group, contribution.max_groups
    for name in ("count", "sum"):
        square = reference.squared_norm(vector, name)
        assert square <= sensitivity(contribution) ** 2
        assert square <= (1 + SLACK) ** 2 * most * most * groups * ONE * ONE


@slowly
@given(batches, contributions, st.sampled_from([None, *BOUNDS]))
def test_a_unit_moves_the_totals_by_its_own_vector_and_within_the_sensitivity(
    folder: Path,
    batch: list[tuple[int, list[tuple[int, int]]]],
    contribution: Contribution,
    bounds: tuple[float, float] | None,
) -> None:
    cases = [case(str(at), *one, bounds or BOUNDS[0]) for at, one in enumerate(batch)]
    rows = [row for rows, _ in cases for row in rows]
    want = asked([name for _, groups in cases for name in groups], contribution, bounds)
    vectors = reference.vectors(rows, want)
    gone = {f"{at}-0" for at in range(len(cases))}
    left = [row for row in rows if row.unit not in gone]

    whole = by_engine(folder, rows, want, contribution)
    less = by_engine(folder, left, want, contribution)

    assert whole == reference.total(vectors.values(), want)
    moved = {name: [a - b for a, b in zip(whole[name], less[name], strict=True)] for name in whole}
    assert moved == reference.total((vectors[unit] for unit in gone), want)
    for vector in vectors.values():
        assert_within(vector, contribution)


@pytest.mark.parametrize("kind", ["clip", "sample"])
@pytest.mark.parametrize(("R", "G"), [(1, 1), (3, 7), (10, 1000), (2**20, 2)])
def test_a_unit_of_thousands_of_rows_and_groups(
    tmp_path: Path, R: int, G: int, kind: Bounding
) -> None:
    contribution = bound(R, G, kind)
    rows, groups = case("heavy", R * G, [(1000, 10_000), (1000, 1000), (1, 10_000)], BOUNDS[1])
    want = asked(groups, contribution, BOUNDS[1])
    vectors = reference.vectors(rows, want)
    assert by_engine(tmp_path, rows, want, contribution) == reference.total(vectors.values(), want)
    for unit, vector in vectors.items():
        assert_within(vector, contribution)
        others = [row for row in rows if row.unit != unit]
        left = by_engine(tmp_path, others, want, contribution)
        rest = (other for name, other in vectors.items() if name != unit)
        assert left == reference.total(rest, want)


@pytest.mark.parametrize("kind", ["clip", "sample"])
def test_order_row_groups_columns_and_format_move_nothing(tmp_path: Path, kind: Bounding) -> None:
    contribution = bound(4, 3, kind)
    rows, groups = case("a", 7, [(12, 300), (30, 200), (2, 90), (1, 1)], BOUNDS[2])
    want = asked(groups, contribution, BOUNDS[2])
    expected = reference.total(reference.vectors(rows, want).values(), want)
    rng = np.random.default_rng(1)
    plain = table(rows)
    shapes: list[tuple[Sequence[str], int]] = [
        (["who", "at", "what", "price"], 1000),
        (["price", "what", "who", "at"], 1),
        (["at", "price", "who", "what"], 13),
    ]
    for columns, group_size in shapes:
        shuffled = plain.take(rng.permutation(len(rows))).select(columns)
        pq.write_table(shuffled, tmp_path / "t.parquet", row_group_size=group_size)
        assert engine(tmp_path / "t.parquet", want, contribution) == expected
        pa.csv.write_csv(shuffled, tmp_path / "t.csv")
        assert engine(tmp_path / "t.csv", want, contribution) == expected


@pytest.mark.parametrize("other", [3.0, math.inf, None])
def test_a_value_that_is_no_number_is_left_out_whatever_the_file_says_of_others(
    tmp_path: Path, other: float | None
) -> None:
    # A file's statistics leave NaNs out, and the engine plans by statistics.
    rows = [Row("u", "a", START, math.nan), Row("u", "a", START, 2.0), Row("v", "b", START, other)]
    contribution = bound(5, 5)
    want = asked(["a", "b"], contribution, BOUNDS[0])
    exact = by_engine(tmp_path, rows, want, contribution)
    assert (exact["count"][0], exact["sum"][0]) == (ONE, -ONE // 2)


@pytest.mark.parametrize("kind", ["clip", "sample"])
def test_each_unit_alone_adds_what_it_adds_in_company(tmp_path: Path, kind: Bounding) -> None:
    contribution = bound(2, 2, kind)
    rows, groups = case("a", 3, [(5, 30), (8, 12), (3, 100), (1, 1), (8, 8)], BOUNDS[0])
    want = asked(groups, contribution, BOUNDS[0])
    together = by_engine(tmp_path, rows, want, contribution)
    apart = [
        by_engine(tmp_path, [row for row in rows if row.unit == unit], want, contribution)
        for unit in sorted({row.unit for row in rows if isinstance(row.unit, str) and row.unit})
    ]
    for name, total in together.items():
        assert total == [sum(column) for column in zip(*(one[name] for one in apart), strict=True)]


def test_no_rows_are_zeros(tmp_path: Path) -> None:
    contribution = bound(1, 1)
    want = asked(["a", "b"], contribution, BOUNDS[0])
    assert by_engine(tmp_path, [], want, contribution) == {"count": [0, 0], "sum": [0, 0]}


# ---------------------------------------------------------------------------- the sensitivity


@pytest.mark.parametrize("kind", ["clip", "sample"])
@pytest.mark.parametrize(("R", "G"), [(1, 1), (1, 3), (7, 5), (40, 50)])
def test_a_unit_attains_the_sensitivity(tmp_path: Path, R: int, G: int, kind: Bounding) -> None:
    contribution = bound(R, G, kind)
    groups = [f"g{at}" for at in range(G)]
    for value in (1.0, 99.0):
        rows = [Row("u", group, START, value) for group in groups for _ in range(R)]
        exact = by_engine(tmp_path, rows, asked(groups, contribution, BOUNDS[0]), contribution)
        for total in exact.values():
            norm = math.isqrt(sum(steps * steps for steps in total))
            assert norm <= sensitivity(contribution) <= norm * (1 + 2 * SLACK) + 2


@given(st.integers(1, MAX_ROWS_PER_GROUP), st.integers(1, MAX_GROUPS))
def test_the_sensitivity_is_the_real_number_rounded_up(R: int, G: int) -> None:
    with mpmath.workdps(60):
        real = ONE * R * mpmath.sqrt(G)
        assert real * (1 + mpmath.mpf("1e-9")) <= sensitivity(bound(R, G))
        assert sensitivity(bound(R, G)) <= real * (1 + mpmath.mpf("1e-9")) + 2


# ---------------------------------------------------------------------------- the arithmetic


def computed(expression: Any) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = ibis.duckdb.connect().to_pyarrow(expression).to_pylist()
    return rows


def lattice_sums(n: int, rng: np.random.Generator) -> Iterable[int]:
    """Sums that n rows may have, those at the edges of a division by n among them."""
    top = n * ONE
    drawn = [int(rng.integers(0, top + 1)) for _ in range(6)]
    for near in (0, n, top, top - n, n * (n % ONE), *drawn):
        for total in (near - 1, near, near + 1):
            if 0 <= total <= top:
                yield from (total, -total)


@pytest.mark.parametrize("R", [1, 2, 3, 1000, 2**19 + 1, 2**20 - 1, 2**20])
def test_cut_is_exact_in_big_integers(R: int) -> None:
    rng = np.random.default_rng(R)
    counts = {R, R + 1, R + 2, 2 * R, 2 * R + 1, 2**31, MOST_ROWS - 1, MOST_ROWS - R, 1}
    counts |= {int(rng.integers(1, MOST_ROWS)) for _ in range(60)}
    rows = [(total, n) for n in sorted(counts) for total in lattice_sums(n, rng)]
    schema = {"total": "int64", "n": "int64"}
    sums = ibis.memtable(pa.table(dict(zip(schema, zip(*rows, strict=True), strict=True))))
    found = computed(sums.mutate(cut=bounding._cut(sums.total, sums.n, R)))
    assert len(found) == len(rows)
    assert any(row["total"] < 0 and row["n"] > R for row in found)
    for row in found:
        assert row["cut"] == reference.cut(row["total"], row["n"], R), row
        assert abs(row["cut"]) <= min(row["n"], R) * ONE


def test_no_dividend_of_cut_leaves_the_exact_doubles() -> None:
    assert (MOST_ROWS - 1) * ONE < 2**53
    assert (MOST_ROWS - 1) * MAX_ROWS_PER_GROUP < 2**53


def test_a_unit_of_too_many_rows_is_left_out_of_that_group_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bounding, "MOST_ROWS", 6)
    contribution = bound(2, 9)
    many = [Row("u", "a", START, 5.0)] * 6
    few = [Row("u", "b", START, 5.0)] * 5 + [Row("v", "a", START, 5.0)]
    want = asked(["a", "b"], contribution, BOUNDS[0])
    exact = by_engine(tmp_path, [*many, *few], want, contribution)
    assert exact == by_engine(tmp_path, few, want, contribution)
    assert exact["count"] == [ONE, 2 * ONE]


def test_truncate_is_toward_zero() -> None:
    edges = [0.0, 0.5, 1.0, 1.5, 2.5, 1048575.9999999999, 2.0**52 + 0.5, 2.0**53, 2.0**62]
    numbers = [s * y for x in edges for y in (x, math.nextafter(x, 1e300)) for s in (1, -1)]
    numbers += [-0.0, 5e-324, -5e-324, math.nextafter(1.0, 0), -math.nextafter(1.0, 0)]
    column = ibis.memtable(pa.table({"x": pa.array(numbers, pa.float64())}))
    found = computed(column.mutate(cut=truncate(column.x)))
    assert [row["cut"] for row in found] == [math.trunc(row["x"]) for row in found]


def clipped(weights: Sequence[int], R: int, G: int) -> list[dict[str, Any]]:
    """What ``clip`` makes of one unit with these weights, its values at the upper bound."""
    unit = pa.table(
        {
            "dp_unit": ["u"] * len(weights),
            "dp_group": range(len(weights)),
            "dp_weight": weights,
            "dp_sum": [-w * ONE if at % 2 else w * ONE for at, w in enumerate(weights)],
        }
    )
    return computed(bounding._clipped(ibis.memtable(unit), bound(R, G)))


@pytest.mark.parametrize(
    ("R", "G", "extra"),
    [(5, 2, 1), (1, 1, 1), (1, 64, 1), (1000, 100, 1), (2**20, 1000, 1), (2**20, 1000, 2**20)],
)
def test_the_factor_at_its_boundary(R: int, G: int, extra: int) -> None:
    full = clipped([R] * G, R, G)  # Σw² = R²·G exactly
    assert [row["count"] for row in full] == [R * ONE] * G
    assert [abs(row["sum"]) for row in full] == [R * ONE] * G
    over = [*[R] * G, extra]
    square = sum(w * w for w in over)
    k = reference.factor(square, R, G)
    assert k <= ONE
    found = clipped(over, R, G)
    assert sorted(row["count"] for row in found) == sorted(w * k for w in over)
    assert sum(row["sum"] < 0 for row in found) == len(over) // 2
    for name in ("count", "sum"):
        norm_square = sum(row[name] ** 2 for row in found)
        assert norm_square <= Fraction(1 + SLACK) ** 2 * R * R * G * ONE * ONE


def test_a_unit_in_every_group_there_can_be_stays_within_64_bits() -> None:
    found = clipped([2**20] * 200_000, 2**20, 1)
    k = reference.factor(2**40 * 200_000, 2**20, 1)
    assert {row["count"] for row in found} == {k * 2**20}
    assert {abs(row["sum"]) for row in found} == {k * 2**20}
