"""The heart of the guarantee: integers against a plain reference, and every unit within its bound.

Everything goes through a real file and the real engine. Several cases share a query: each has
units and groups of its own, so that one case could move another only if the claim were false.
"""

from __future__ import annotations

import math
import unicodedata
from collections.abc import Iterable, Sequence
from datetime import date, datetime, timedelta
from decimal import Decimal
from fractions import Fraction
from pathlib import Path
from typing import Any, Literal, NamedTuple

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
from release.sources import Wanted, open_rows
from release.specs import (
    MAX_GROUPS,
    MAX_ROWS_PER_GROUP,
    ONE,
    Budget,
    Condition,
    Contribution,
    Dataset,
    Scale,
)
from release.windows import Window
from tests import reference
from tests.reference import Asked, Key, Row, Rule, Vector

WINDOW = Window("week", date(2026, 1, 5), "Europe/London")
START, END = datetime(2026, 1, 5), datetime(2026, 1, 12)
SALT = "key|ratings|job|2026-01-05"
BOUNDS = [(1.0, 5.0), (0.0, 50.0), (-3.0, 0.1), (-1e307, 1e307), (2.0**53 - 1, 2.0**53 + 3)]
Bounding = Literal["clip", "sample"]
KIND: list[Bounding] = ["clip", "sample"]
NAMES = {None: ("count",), True: ("sum",), False: ("count", "sum")}
"""The totals of a count, of a sum, whose values are scaled around zero, and of a mean."""
MARKS = {
    "age": pa.int64(),
    "paid": pa.float64(),
    "cost": pa.decimal128(20, 2),
    "member": pa.bool_(),
    "town": pa.string(),
}
"""The columns that conditions look at."""
# A failing batch is small enough to read, and slow to shrink.
slowly = settings(deadline=None, max_examples=25, phases=set(Phase) - {Phase.shrink})


def asked(
    groups: Iterable[Key], contribution: Contribution, bounds: Any = None, **more: Any
) -> Asked:
    c = contribution
    most = (c.max_rows_per_group, c.max_groups, c.bounding)
    norm = None if c.max_norm is None else Fraction(c.max_norm)
    return Asked(tuple(groups), START, END, *most, bounds, SALT, norm=norm, **more)


def bound(R: int, G: int, kind: Bounding = "clip", norm: Decimal | None = None) -> Contribution:
    return Contribution(max_groups=G, max_rows_per_group=R, bounding=kind, max_norm=norm)


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
    """The rows, each part of a key in a column of its own; a mark only where a row has it."""
    wide = max((len(reference.parts(row.key)) for row in rows), default=1)
    keys = [(*reference.parts(row.key), *[None] * wide)[:wide] for row in rows]
    columns = [
        *((f"what{i}", pa.string(), [key[i] for key in keys]) for i in range(wide)),
        ("price", pa.float64(), [row.value for row in rows]),
        ("at", pa.timestamp("us"), [row.time for row in rows]),
        ("who", pa.string(), [row.unit for row in rows]),
        *((name, kind, [row.marks.get(name) for row in rows]) for name, kind in MARKS.items()),
    ]
    return pa.table({name: pa.array(column, kind) for name, kind, column in columns})


def engine(path: Path, want: Asked, contribution: Contribution) -> dict[str, list[int]]:
    """The totals of a file by the code under test."""
    value, scale, names = None, None, NAMES[None]
    if want.bounds is not None:
        value, names = "price", NAMES[want.around_zero]
        made = Scale.around_zero if want.around_zero else Scale.around_middle
        scale = made(*want.bounds)
    assert want.groups is not None
    by = tuple(f"what{i}" for i in range(len(reference.parts(want.groups[0]))))
    where = tuple(Condition(column=c, operator=o, value=v) for c, o, v in want.where)  # type: ignore[arg-type]
    with open_rows(dataset(path.name), path.parent, Wanted(by, value, where)) as rows:
        exact = totals(
            rows,
            WINDOW,
            groups=want.groups,
            contribution=contribution,
            scale=scale,
            names=names,
            salt=want.salt,
        )
    assert tuple(exact.of) == names
    return dict(exact.of)


def expected(vectors: Iterable[Vector], want: Asked) -> dict[str, list[int]]:
    """The reference's totals, those that the statistic asks for."""
    names = NAMES[None if want.bounds is None else want.around_zero]
    both = reference.total(vectors, want)
    return {name: both[name] for name in names}


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

Case = tuple[list[Row], list[Key]]


def values(rng: np.random.Generator, bounds: tuple[float, float], size: int) -> list[float | None]:
    """Values inside, at and beyond the bounds, and everything a float column may hold."""
    lower, upper = bounds
    far = [math.inf, 1.7976931348623157e308, 1e308, 2.0**53 + 1, 2.0**53 - 1, 5e-324, 0.0]
    near = [math.nextafter(x, way) for x in bounds for way in (-math.inf, math.inf)]
    odd = [None, math.nan, *far, *(-x for x in far), *bounds, *near, (lower + upper) / 2]
    plain = rng.uniform(lower, upper, size) if upper < 1e300 else rng.normal(0, 1e306, size)
    which = rng.integers(0, 3 * len(odd), size)
    return [odd[at] if at < len(odd) else float(x) for at, x in zip(which, plain, strict=True)]


KINDS = ["plain", "Café", "Cafe\u0301 x", "Å"]
ODD_MARKS: dict[str, list[Any]] = {
    "age": [None, -1, 0, 17, 18, 19, 2**53 - 1, 2**53 + 1, -(2**53) - 1, 2**63 - 1, -(2**63)],
    "paid": [None, math.nan, math.inf, -math.inf, 0.1, 0.3, 0.1 + 0.2, -0.0, 18.0, 5e-324, 1e300],
    "cost": [None, *map(Decimal, ("0.10", "0.30", "-0.10", "18.00", "9007199254740993.25"))],
    "member": [None, True, False],
    "town": [None, "", " ", "Köln", "Ko\u0308ln", "\t Köln ", "köln", "Köln\u00a0", "18", "true"],
}


def odd_marks(rng: np.random.Generator, size: int) -> list[dict[str, Any]]:
    places = {name: rng.integers(0, len(pool), size) for name, pool in ODD_MARKS.items()}
    return [
        {name: pool[places[name][at]] for name, pool in ODD_MARKS.items()} for at in range(size)
    ]


def respelt(rng: np.random.Generator, key: Key) -> Key:
    """A group in a spelling that still means it; a group of one column as it is."""
    if isinstance(key, str):
        return key
    form: Literal["NFC", "NFD"] = "NFC" if rng.random() < 0.5 else "NFD"
    return tuple(f" {unicodedata.normalize(form, part)}\t" for part in key)


def case(
    name: str,
    seed: int,
    units: Sequence[tuple[int, int]],
    bounds: tuple[float, float],
    *,
    wide: bool = False,
) -> Case:
    """Units of one case, each with (how many groups it is in, about how many rows it has)."""
    rng = np.random.default_rng(seed)
    names = [f"{name}:{at}" for at in range(max(most for most, _ in units))]
    groups: list[Key] = list(names)
    if wide:  # by two columns: a kind comes again with every name
        groups = [(each, KINDS[at % len(KINDS)]) for at, each in enumerate(names)]
    rows: list[Row] = []
    for at, (most, size) in enumerate(units):
        # Skewed, so that some groups have a row and others very many.
        where = np.minimum(rng.geometric(min(1.0, 2 / most), size) - 1, most - 1)
        where[:most] = np.arange(most)[:size]
        after = rng.integers(0, 7 * 86_400_000_000, size).tolist()
        times = [START + timedelta(microseconds=each) for each in after]
        keys = [respelt(rng, groups[group]) for group in where]
        each_row = (keys, times, values(rng, bounds, size), odd_marks(rng, size))
        rows += [Row(f"{name}-{at}", *parts) for parts in zip(*each_row, strict=True)]
        rows += strays(f"{name}-{at}", groups[0])
    return rows, groups


def strays(unit: str, group: Key) -> list[Row]:
    """Rows that must not count: outside the window, unlisted, or with a part missing."""
    tick = timedelta(microseconds=1)
    marks = {column: pool[-1] for column, pool in ODD_MARKS.items()}
    first, *rest = reference.parts(group)
    keys: list[Any] = [(part, *rest) for part in (None, "", f"{first}?".upper())]
    keys += [(first, part) for part in (None, "", first, "Cafe") if rest]
    return [
        Row(unit, group, START - tick, 1.0, marks),
        Row(unit, group, END, 1.0, marks),
        Row(unit, group, None, 1.0, marks),
        Row(None, group, START, 1.0, marks),
        Row("", group, START, 1.0, marks),
        *(Row(unit, key, START, 1.0, marks) for key in keys),
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


@st.composite
def tightened(draw: st.DrawFn) -> Contribution:
    """Bounds on a unit's norm, in half of the cases of "clip" tighter than R·√G."""
    one = draw(contributions)
    most = math.isqrt(one.max_rows_per_group**2 * one.max_groups - 1)
    if one.bounding == "sample" or most < 1 or draw(st.booleans()):
        return one
    norms = st.decimals(1, min(most, 40), places=3) | st.just(Decimal(most))
    return bound(one.max_rows_per_group, one.max_groups, "clip", draw(norms))


NUMBERS = [-1, 0, 18, 2**53 - 1, Decimal("0.1"), Decimal("0.3"), Decimal("18.00"), Decimal("0.30")]
TEXTS = ["Köln", "Ko\u0308ln", " Köln", "18", "true", "Paris"]


def rules_on(column: str, values: Sequence[Any]) -> st.SearchStrategy[Rule]:
    one, ordered = st.sampled_from(values), ["<", "<=", ">", ">="]
    signs = ["=", "!=", *([] if isinstance(values[0], str | bool) else ordered)]
    return st.one_of(
        st.tuples(st.just(column), st.sampled_from(signs), one),
        st.tuples(
            st.just(column),
            st.sampled_from(["in", "not in"]),
            st.lists(one, min_size=1, max_size=4).map(tuple),
        ),
    )


RULES = st.one_of(
    *(rules_on(column, NUMBERS) for column in ("age", "paid", "cost")),
    rules_on("member", [True, False]),
    rules_on("town", TEXTS),
)


def assert_within(vector: Vector, contribution: Contribution) -> None:
    """Against what noise is sized for, and against the real bound, in exact arithmetic."""
    most, groups = contribution.max_rows_per_group, contribution.max_groups
    norm = contribution.max_norm
    square_norm = most * most * groups if norm is None else Fraction(norm) ** 2
    for name in ("count", "sum"):
        square = reference.squared_norm(vector, name)
        assert square <= sensitivity(contribution) ** 2
        assert square <= (1 + SLACK) ** 2 * square_norm * ONE * ONE


class Question(NamedTuple):
    """Of a statistic, beside its groups and contribution; ``wide``: by two columns."""

    bounds: tuple[float, float] | None
    around_zero: bool
    wide: bool
    where: tuple[Rule, ...]


questions = st.builds(
    Question,
    st.sampled_from([None, *BOUNDS]),
    st.booleans(),
    st.booleans(),
    st.lists(RULES, max_size=2).map(tuple),
)


@slowly
@given(batches, tightened(), questions)
def test_a_unit_moves_the_totals_by_its_own_vector_and_within_the_sensitivity(
    folder: Path,
    batch: list[tuple[int, list[tuple[int, int]]]],
    contribution: Contribution,
    question: Question,
) -> None:
    bounds, around_zero, wide, where = question
    cases = [case(str(at), *one, bounds or BOUNDS[0], wide=wide) for at, one in enumerate(batch)]
    rows = [row for rows, _ in cases for row in rows]
    groups = [name for _, groups in cases for name in groups]
    want = asked(groups, contribution, bounds, around_zero=around_zero, where=where)
    vectors = reference.vectors(rows, want)
    gone = {f"{at}-0" for at in range(len(cases))}
    left = [row for row in rows if row.unit not in gone]

    whole = by_engine(folder, rows, want, contribution)
    less = by_engine(folder, left, want, contribution)

    assert whole == expected(vectors.values(), want)
    moved = {name: [a - b for a, b in zip(whole[name], less[name], strict=True)] for name in whole}
    assert moved == expected((vectors[unit] for unit in gone), want)
    for vector in vectors.values():
        assert_within(vector, contribution)


HEAVY = [
    *(bound(R, G, kind) for R, G in ((1, 1), (3, 7), (10, 1000), (2**20, 2)) for kind in KIND),
    bound(3, 1000, "clip", Decimal("1")),
    bound(10, 1000, "clip", Decimal("99.99")),
    bound(2**20, 2, "clip", Decimal("1234.5")),
]


@pytest.fixture(scope="module")
def heavy() -> Case:
    units = [(1000, 10_000), (1000, 1000), (1, 10_000)]
    return case("heavy", 4, units, BOUNDS[1], wide=True)


@pytest.mark.parametrize("contribution", HEAVY, ids=repr)
def test_a_unit_of_thousands_of_rows_and_groups(
    tmp_path: Path, heavy: Case, contribution: Contribution
) -> None:
    rows, groups = heavy
    around_zero = contribution.max_norm is not None
    want = asked(groups, contribution, BOUNDS[1], around_zero=around_zero)
    vectors = reference.vectors(rows, want)
    assert by_engine(tmp_path, rows, want, contribution) == expected(vectors.values(), want)
    for unit, vector in vectors.items():
        assert_within(vector, contribution)
        others = [row for row in rows if row.unit != unit]
        left = by_engine(tmp_path, others, want, contribution)
        rest = (other for name, other in vectors.items() if name != unit)
        assert left == expected(rest, want)


@pytest.mark.parametrize("kind", ["clip", "sample"])
@pytest.mark.parametrize(
    "rule",
    [
        ("age", ">=", 18),
        ("paid", "!=", Decimal("0.1")),
        ("cost", "not in", (Decimal("0.1"), 0)),
        ("member", "!=", True),
        ("town", "not in", ("Köln", "18")),
    ],
    ids=str,
)
def test_rows_that_fail_a_condition_change_nothing(
    tmp_path: Path, rule: Rule, kind: Bounding
) -> None:
    contribution = bound(2, 2, kind)
    rows, groups = case("a", 11, [(8, 60), (3, 40), (2, 2)], BOUNDS[0])
    want = asked(groups, contribution, BOUNDS[0], where=(rule,))
    column, sign, than = rule
    passing = [
        row
        for row in rows
        if column in row.marks and reference.passes(row.marks[column], sign, than)
    ]
    assert 0 < len(passing) < len(rows)
    bare = asked(groups, contribution, BOUNDS[0])
    exact = by_engine(tmp_path, rows, want, contribution)
    assert exact == by_engine(tmp_path, passing, bare, contribution)
    assert exact == by_engine(tmp_path, passing, want, contribution)


@pytest.mark.parametrize("kind", ["clip", "sample"])
def test_order_row_groups_columns_and_format_move_nothing(tmp_path: Path, kind: Bounding) -> None:
    contribution = bound(4, 3, kind)
    rows, groups = case("a", 7, [(12, 300), (30, 200), (2, 90), (1, 1)], BOUNDS[2])
    want = asked(groups, contribution, BOUNDS[2])
    exact = expected(reference.vectors(rows, want).values(), want)
    rng = np.random.default_rng(1)
    plain = table(rows)
    shapes: list[tuple[Sequence[str], int]] = [
        (["who", "at", "what0", "price"], 1000),
        (["price", "what0", "who", "at"], 1),
        (["at", "price", "who", "what0"], 13),
    ]
    for columns, group_size in shapes:
        shuffled = plain.take(rng.permutation(len(rows))).select(columns)
        pq.write_table(shuffled, tmp_path / "t.parquet", row_group_size=group_size)
        assert engine(tmp_path / "t.parquet", want, contribution) == exact
        pa.csv.write_csv(shuffled, tmp_path / "t.csv")
        assert engine(tmp_path / "t.csv", want, contribution) == exact


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


def greatest(folder: Path, contribution: Contribution) -> Iterable[int]:
    """The norms of what a unit adds that does as much as it can."""
    R, G = contribution.max_rows_per_group, contribution.max_groups
    groups = [f"g{at}" for at in range(G)]
    for value in (1.0, 99.0):
        for around_zero in (False, True):
            rows = [Row("u", group, START, value) for group in groups for _ in range(R)]
            want = asked(groups, contribution, (-5.0, 5.0), around_zero=around_zero)
            for name, total in by_engine(folder, rows, want, contribution).items():
                if value > 5 or name == "count":
                    yield math.isqrt(sum(steps * steps for steps in total))


@pytest.mark.parametrize("kind", KIND)
@pytest.mark.parametrize(("R", "G"), [(1, 1), (1, 3), (7, 5), (40, 50)])
def test_a_unit_attains_the_sensitivity(tmp_path: Path, R: int, G: int, kind: Bounding) -> None:
    contribution = bound(R, G, kind)
    for norm in greatest(tmp_path, contribution):
        assert norm <= sensitivity(contribution) <= norm * (1 + 2 * SLACK) + 2


@pytest.mark.parametrize("most", ["1", "4.2", "15.6"])
def test_a_unit_attains_max_norm_to_a_step_of_its_factor(tmp_path: Path, most: str) -> None:
    contribution = bound(7, 5, "clip", Decimal(most))
    for norm in greatest(tmp_path, contribution):
        assert norm <= sensitivity(contribution) <= norm * (1 + 1e-4) + 2


@given(st.decimals(1, 1000, places=30))
def test_the_sensitivity_is_max_norm_rounded_up(most: Decimal) -> None:
    with mpmath.workdps(60):
        real = ONE * mpmath.mpf(str(most)) * (1 + mpmath.mpf("1e-9"))
        assert real <= sensitivity(bound(1001, 1, "clip", most)) <= real + 2


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
    return computed(bounding._clipped(ibis.memtable(unit), ["dp_group"], bound(R, G)))


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
    k = reference.factor(square, R * R * G)
    assert k <= ONE
    found = clipped(over, R, G)
    assert sorted(row["count"] for row in found) == sorted(w * k for w in over)
    assert sum(row["sum"] < 0 for row in found) == len(over) // 2
    for name in ("count", "sum"):
        norm_square = sum(row[name] ** 2 for row in found)
        assert norm_square <= Fraction(1 + SLACK) ** 2 * R * R * G * ONE * ONE


def test_a_unit_in_every_group_there_can_be_stays_within_64_bits() -> None:
    found = clipped([2**20] * 200_000, 2**20, 1)
    k = reference.factor(2**40 * 200_000, 2**40)
    assert {row["count"] for row in found} == {k * 2**20}
    assert {abs(row["sum"]) for row in found} == {k * 2**20}
