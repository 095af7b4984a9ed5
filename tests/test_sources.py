"""Where rows come from: any shape of the same rows, odd rows left out in silence, and no leak.

Every row planted in a source that fails bears a marker; nothing that anyone can see of the
failure may hold it.
"""

from __future__ import annotations

import gzip
import json
import math
import tempfile
import traceback
from collections.abc import Iterable, Sequence
from contextlib import suppress
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

import duckdb
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from release.bounding import totals
from release.errors import SourceError
from release.sources import Wanted, open_rows
from release.specs import ONE, Budget, Condition, Contribution, Dataset, Key, Scale
from release.windows import Window

WEEK = Window("week", date(2026, 1, 5), "Europe/London")
GROUPS = ["Tea", "Café", "7"]
ISO = "2026-01-06 10:00:00"


def dataset(source: str, *, zone: str = "Europe/London", **more: Any) -> Dataset:
    columns = {"unit": "who", "time": "at", "time_format": "iso", **more}
    budget = Budget(epsilon=Decimal(1), delta=Decimal("1e-6"))
    return Dataset(name="sales", source=source, time_zone=zone, budget=budget, **columns)


def read(
    source: Path | pd.DataFrame,
    *,
    groups: Sequence[Key] = GROUPS,
    window: Window = WEEK,
    by: str | Sequence[str] = "what",
    value: str | None = "price",
    where: Sequence[tuple[str, Any, Any]] = (),
    most: Contribution | None = None,
    **more: Any,
) -> dict[str, list[int]]:
    """The totals of a file or a frame, with room enough that nothing is cut unless asked."""
    frame = source if isinstance(source, pd.DataFrame) else None
    path = source if isinstance(source, Path) else Path("unused.csv")
    columns = (by,) if isinstance(by, str) else tuple(by)
    conditions = tuple(Condition(column=c, operator=o, value=v) for c, o, v in where)
    wanted = Wanted(columns, value, conditions)
    asked = dataset(path.name, zone=window.zone, **more)
    with open_rows(asked, path.parent, wanted, frame=frame) as rows:
        exact = totals(
            rows,
            window,
            groups=groups,
            contribution=most or Contribution(max_groups=100, max_rows_per_group=100),
            scale=Scale.around_middle(0, 10) if value else None,
            names=("count", "sum") if value else ("count",),
            salt="salt",
        )
    return dict(exact.of)


def counted(source: Path | pd.DataFrame, **more: Any) -> list[int]:
    """How many rows each group has."""
    return [steps // ONE for steps in read(source, **more)["count"]]


def csv(folder: Path, *lines: str | bytes, header: str = "who,what,at,price") -> Path:
    path = folder / "rows.csv"
    raw = [line if isinstance(line, bytes) else line.encode() for line in (header, *lines)]
    path.write_bytes(b"\n".join(raw) + b"\n")
    return path


def ndjson(folder: Path, *lines: Any) -> Path:
    path = folder / "rows.ndjson"
    raw = [line if isinstance(line, bytes) else json.dumps(line).encode() for line in lines]
    path.write_bytes(b"\n".join(raw))
    return path


def parquet(folder: Path, columns: dict[str, Any]) -> Path:
    path = folder / "rows.parquet"
    pq.write_table(pa.table(columns), path)
    return path


def database(folder: Path, *statements: str) -> Path:
    path = folder / "it's [rows].duckdb"
    with duckdb.connect(str(path)) as connection:
        for statement in statements:
            connection.execute(statement)
    return path


def row(**parts: Any) -> dict[str, Any]:
    return {"who": "u", "what": "Tea", "at": ISO, "price": 7.5, **parts}


# ---------------------------------------------------------------------------- one meaning

ROWS = [
    row(who=f"p{at % 7}", what=what, price=price, at=f"2026-01-{day:02} 10:00:00.25")
    for at, (what, price, day) in enumerate(
        (what, price, day)
        for what in ("Tea", "Cafe\u0301", "7", "tea", None)
        for price in (-3.5, 0.0, 2.1, 7.25, 12.0, None)
        for day in (4, 5, 11, 12)
    )
]


def shapes(folder: Path) -> dict[str, Path | pd.DataFrame]:
    frame = pd.DataFrame(ROWS)
    timed = frame.assign(at=pd.to_datetime(frame["at"]))
    lines = frame.to_csv(index=False)
    (folder / "a.csv").write_text(lines, encoding="utf-8")
    (folder / "bom.csv").write_text(lines.replace("\n", "\r\n"), "utf-8-sig", newline="")
    (folder / "A.CSV.GZ").write_bytes(gzip.compress(lines.encode()))
    (folder / "a.ndjson").write_text("\n".join(json.dumps(one) for one in ROWS))
    timed.to_parquet(folder / "a.parquet", row_group_size=9)
    with duckdb.connect(str(folder / "a.duckdb")) as connection:
        connection.register("frame", timed)
        connection.execute("CREATE TABLE sales AS SELECT * FROM frame ORDER BY price, who")
    files = ["a.csv", "bom.csv", "A.CSV.GZ", "a.ndjson", "a.parquet", "a.duckdb"]
    categories = timed.assign(what=timed["what"].astype("category"))
    return {
        **{name: folder / name for name in files},
        "frame": timed.sample(frac=1, random_state=1),
        "categories": categories,
    }


@pytest.mark.parametrize("kind", ["clip", "sample"])
def test_every_format_gives_the_same_integers(tmp_path: Path, kind: Any) -> None:
    most = Contribution(max_groups=2, max_rows_per_group=1, bounding=kind)
    found = {
        name: read(source, most=most, table="sales" if name == "a.duckdb" else None)
        for name, source in shapes(tmp_path).items()
    }
    assert all(found["a.csv"]["count"])
    assert all(one == found["a.csv"] for one in found.values()), found


# ---------------------------------------------------------------------------- times


@pytest.mark.parametrize(
    ("pattern", "inside", "outside"),
    [
        (
            "iso",
            ["2026-01-05", "2026-01-05T00:00", "2026-01-11 23:59:59.999999", " 2026-01-06 10:00"],
            ["2026-01-04T23:59:59.999999", "2026-01-12", "06/01/2026", "2026-01-32", "", "2026"],
        ),
        ("%m/%d/%Y %H:%M", ["1/5/2026 0:00", "01/11/2026 23:59"], ["1/12/2026 0:00", "13/1/2026"]),
        ("%d.%m.%Y", ["5.1.2026", "11.01.2026"], ["12.1.2026", "1.5.2026"]),
        (
            "%Y-%m-%dT%H:%M:%S%z",
            ["2026-01-05T00:00:00Z", "2026-01-05T05:30:00+05:30", "2026-01-11T18:59:59-0500"],
            ["2026-01-05T00:00:00+01:00", "2026-01-11T19:00:00-05:00", "2026-01-06T10:00:00"],
        ),
        ("%Y-%m-%d %H:%M %Z", ["2026-01-05 00:00 UTC"], ["2026-01-05 00:00 Europe/Paris"]),
    ],
)
def test_times_kept_as_text(
    tmp_path: Path, pattern: str, inside: list[str], outside: list[str]
) -> None:
    for times, expected in ((inside, len(inside)), (outside, 0)):
        path = csv(tmp_path, *(f"u,Tea,{time},1" for time in times))
        assert counted(path, time_format=pattern) == [expected, 0, 0]


@pytest.mark.parametrize("zone", ["Europe/London", "America/New_York"])
@pytest.mark.parametrize(("month", "hours"), [(3, 167), (10, 169), (11, 169), (6, 168)])
@pytest.mark.parametrize("unit", ["us", "ns"])
def test_a_window_begins_and_ends_to_the_microsecond(
    tmp_path: Path, zone: str, month: int, hours: int, unit: Any
) -> None:
    weeks = [Window("week", date(2026, 1, 5) + timedelta(7 * at), zone) for at in range(52)]
    chosen = [
        one
        for one in weeks
        if one.first.month == month and one.end - one.start == timedelta(hours=hours)
    ]
    tick = timedelta(microseconds=1)
    for window in chosen[:1]:
        edges = [window.start, window.end - tick, window.start - tick, window.end]
        local = [edge.astimezone(ZoneInfo(zone)).replace(tzinfo=None) for edge in edges]
        keys = ["first", "last", "before", "after"]
        for times, named in ((edges, "UTC"), (local, None)):
            at = pa.array(times, pa.timestamp(unit, named))
            path = parquet(tmp_path, {"who": ["u"] * 4, "what": keys, "at": at})
            assert counted(path, value=None, window=window, groups=keys) == [1, 1, 0, 0]


def test_the_weeks_of_changing_clocks_were_tried() -> None:
    for zone, month, hours in (
        ("Europe/London", 3, 167), ("Europe/London", 10, 169),
        ("America/New_York", 3, 167), ("America/New_York", 10, 169),
    ):  # fmt: skip
        weeks = [Window("week", date(2026, 1, 5) + timedelta(7 * at), zone) for at in range(52)]
        long = {(w.first.month, (w.end - w.start) / timedelta(hours=1)) for w in weeks}
        assert (month, hours) in long


def test_dates_and_zoned_times_of_any_zone() -> None:
    paris = pd.Series(pd.to_datetime(["2026-01-05 00:30", "2026-01-05 01:00"]))
    frame = pd.DataFrame({"who": [1, 1], "what": ["Tea", "Tea"], "price": [1, 1]})
    assert counted(frame.assign(at=paris.dt.tz_localize("Europe/Paris")))[0] == 1
    days = pd.Series(pd.array([date(2026, 1, 4), date(2026, 1, 5)], pd.ArrowDtype(pa.date32())))
    assert counted(frame.assign(at=days))[0] == 1


def test_an_offset_in_an_iso_time_is_an_instant(tmp_path: Path) -> None:
    # London is an hour ahead of UTC in July: the week begins on Sunday at 23:00 UTC.
    week = Window("week", date(2026, 7, 6), "Europe/London")
    times = {
        "2026-07-05T22:59:59Z": 0, "2026-07-05T23:00:00Z": 1, "2026-07-05T23:00Z": 1,
        "2026-07-06 00:00:00.5+01:00": 1, "2026-07-05T23:59:59+01:00": 0,
        "2026-07-06T04:30:00+0530": 1, "2026-07-12T23:30:00Z": 0, "2026-07-12T23:30:00": 1,
        "2026-07-06T00:00:00+99:00": 0, "2026-07-06T00:00:00 Z Z": 0,
    }  # fmt: skip
    for text, inside in times.items():
        for source in (ndjson(tmp_path, row(at=text)), csv(tmp_path, f"u,Tea,{text},1")):
            assert counted(source, window=week)[0] == inside, text


def test_a_time_out_of_all_range_is_left_out(tmp_path: Path) -> None:
    others = {"who": [1, 1], "what": ["Tea", "Tea"], "price": [1.0, 1.0]}
    days = pa.array([200_000_000, (date(2026, 1, 6) - date(1970, 1, 1)).days], pa.int32())
    times = pa.array([2**63 - 1, int(datetime(2026, 1, 6, tzinfo=UTC).timestamp()) * 10**6])
    for column in (days.cast(pa.date32()), times.cast(pa.timestamp("us"))):
        assert counted(parquet(tmp_path, {**others, "at": column}))[0] == 1


@pytest.mark.parametrize("unit", ["s", "ms"])
def test_times_that_the_engine_could_fail_to_widen_are_refused_by_their_type(
    tmp_path: Path, unit: str
) -> None:
    columns = {"who": [1], "what": ["Tea"], "price": [1.0], "at": [datetime(2026, 1, 6)]}
    frame = pd.DataFrame(columns).astype({"at": f"datetime64[{unit}]"})
    file = parquet(tmp_path, {**columns, "at": pa.array(columns["at"], pa.timestamp("ms"))})
    for source in (frame, file):
        with pytest.raises(SourceError, match=r"'at' is .* microseconds"):
            read(source)


def test_a_field_that_no_line_has_is_missing_in_every_row(tmp_path: Path) -> None:
    # An error would tell readers, by a release that is missing, whether any line has it.
    assert counted(ndjson(tmp_path, row(), row()), value="cost") == [0, 0, 0]
    assert counted(ndjson(tmp_path, row(cost=1), row()), value="cost") == [1, 0, 0]


# ---------------------------------------------------------------------------- keys and units


def test_keys_are_matched_as_written_in_either_form_and_trimmed(tmp_path: Path) -> None:
    cafes = [
        "Café",
        "Cafe\u0301",
        " Café\t",
        "café",
        "CAFÉ",
        "Cafe",
        "Café\u00a0",
        "Ｃafé",
        "",
        " ",
    ]
    rows = [row(what=what) for what in cafes]
    assert counted(ndjson(tmp_path, *rows)) == [0, 3, 0]
    decomposed = ["Tea", "Cafe\u0301", "7"]
    assert counted(ndjson(tmp_path, *rows), groups=decomposed) == [0, 3, 0]
    assert counted(
        ndjson(tmp_path, row(what=7), row(what="7"), row(what="07"), row(what=7.5))
    ) == [
        0,
        0,
        2,
    ]
    whole = {"who": ["u"] * 3, "what": [7, 70, None], "at": [datetime(2026, 1, 6)] * 3}
    assert counted(parquet(tmp_path, whole), value=None) == [0, 0, 1]


UNITS = {
    "int": pa.array([1, 1, 2, None], pa.int64()),
    "uint64": pa.array([2**63 + 1, 2**63 + 1, 2**63 + 2, None], pa.uint64()),
    "text": pa.array(["a", "a", "A", ""]),
    "dictionary": pa.array(["a", "a", "A", None]).dictionary_encode(),
    "forms": pa.array(["é", "é", "e\u0301", None]),
    "float": pa.array([0.0, -0.0, 2.5, float("nan")]),
    "float32": pa.array([1.5, 1.5, 2.5, float("inf")], pa.float32()),
}


@pytest.mark.parametrize("kind", ["clip", "sample"])
@pytest.mark.parametrize("unit", UNITS)
def test_units_of_every_type_are_told_apart(tmp_path: Path, unit: str, kind: Any) -> None:
    most = Contribution(max_groups=1, max_rows_per_group=1, bounding=kind)
    columns = {"what": ["Tea"] * 4, "at": [datetime(2026, 1, 6)] * 4, "who": UNITS[unit]}
    assert read(parquet(tmp_path, columns), value=None, most=most)["count"] == [2 * ONE, 0, 0]


def test_units_may_be_uuids(tmp_path: Path) -> None:
    path = database(
        tmp_path,
        """CREATE TABLE sales AS
        SELECT uuid::UUID AS who, 'Tea' AS what, TIMESTAMP '2026-01-06' AS "at"
        FROM (VALUES ('00000000-0000-0000-0000-000000000001'),
                     ('00000000-0000-0000-0000-000000000001'),
                     ('00000000-0000-0000-0000-000000000002')) AS t(uuid)""",
    )
    for kind in ("clip", "sample"):
        most = Contribution.model_validate(
            {"max_groups": 1, "max_rows_per_group": 1, "bounding": kind}
        )
        assert read(path, value=None, most=most, table="sales")["count"] == [2 * ONE, 0, 0]


# ---------------------------------------------------------------------------- odd rows

NUMBERS = ["1", "+1", "-1.5", " 1 ", "1.", ".5", "1e2", "1E-3", "-0", "1e-999", "007"]
NO_NUMBERS = [
    "", " ", "12,5", "1_000", "0x10", "１２", "1e999", "-1e999", "9" * 400, "1e9999", "nan", "NaN",
    "inf", "-Infinity", "1d", "1f", "1 2", "--1", "1e", "e1", ".", "True", "٣", "1\u00a0", "NULL",
]  # fmt: skip


def test_only_a_plain_finite_number_is_a_value(tmp_path: Path) -> None:
    texts = [*NUMBERS, *NO_NUMBERS]
    keys = [f"g{at}" for at in range(len(texts))]
    expected = [int(text in NUMBERS) for text in texts]
    lines = [f'u,{key},{ISO},"{text}"' for key, text in zip(keys, texts, strict=True)]
    assert counted(csv(tmp_path, *lines), groups=keys) == expected
    rows = [row(what=key, price=text) for key, text in zip(keys, texts, strict=True)]
    assert counted(ndjson(tmp_path, *rows), groups=keys) == expected


@pytest.mark.parametrize("missing", ["who", "what", "at", "price"])
def test_a_row_with_a_part_missing_is_left_out(tmp_path: Path, missing: str) -> None:
    whole, part = row(), row(**{missing: None})
    frame = pd.DataFrame([whole, part]).assign(at=pd.to_datetime([ISO, part["at"]]))
    assert counted(frame) == [1, 0, 0]
    frame.to_parquet(tmp_path / "a.parquet")
    assert counted(tmp_path / "a.parquet") == [1, 0, 0]
    texts = ["" if part is None else str(part) for part in part.values()]
    assert counted(csv(tmp_path, f"u,Tea,{ISO},1", ",".join(texts))) == [1, 0, 0]
    gone = {name: value for name, value in whole.items() if name != missing}
    assert counted(ndjson(tmp_path, whole, part, gone)) == [1, 0, 0]


BAD_LINES: list[bytes] = [
    b"", b"u", b"u,Tea", b",,,", b",,,,,,,,", b"1,\xff\xfe,Tea,2026-01-06", b'"x"y,Tea,2026,1',
    b"\0", b'u,"Tea" ,', b"u\r", b"u\rv,w\rx,y\r\r", b'a "b" c,d', b"#", b"\\", b'""""',
    b'"a\r\nb",1', b'"a\nb\nc"', b"12,5,u,Tea,2026-01-06", b"u;Tea;2026-01-06;1", b"\xef\xbb\xbf",
    b"z" * 3_000_000,
    b'1,u,"Tea",2026-01-06,', b"1e999,u,Tea,2026-01-06", b"'", b"u\tTea", b"\x1a", b"\x01",
]  # fmt: skip
AROUND = [f"u{at},Tea,{ISO},1".encode() for at in range(4)]


def between(bad: Iterable[bytes], good: Sequence[bytes]) -> list[bytes]:
    """Each bad line after a good one, and bad ones first and last."""
    pairs = zip(bad, good, strict=True)
    return [b"\0", *(line for odd, even in pairs for line in (even, odd))]


@pytest.mark.parametrize("end", [b"\n", b"\r\n"])
def test_a_bad_line_of_csv_takes_no_other_with_it(tmp_path: Path, end: bytes) -> None:
    keys = [f"g{at}" for at in range(len(BAD_LINES))]
    good = [f"1,u,{key},{ISO}".encode() for key in keys]
    lines = [b"price,who,what,at", *between(BAD_LINES, good)]
    (tmp_path / "rows.csv").write_bytes(end.join(lines))
    assert counted(tmp_path / "rows.csv", groups=keys) == [1] * len(keys)
    assert counted(tmp_path / "rows.csv") == [1, 0, 0]  # the one that is good after all


def test_quotes_that_are_not_balanced_are_no_error(tmp_path: Path) -> None:
    for bad in (b'"', b'u,"Te\\"a",2026-01-06,1', b'"' + b"x\n" * 2_000_000):
        lines = [b"who,what,at,price", *AROUND, bad, *AROUND]
        (tmp_path / "rows.csv").write_bytes(b"\n".join(lines))
        assert counted(tmp_path / "rows.csv")[0] >= 4, bad[:40]


BAD_JSON = [
    b"", b"5", b'"text"', b"[1]", b"null", b"{", b'{"who":', b"}", b'{"who":1}{"who":2}', b'{"a"}',
    b'{"who":"\xff"}', b"\0", b'{"who":"\\ud800","what":"Tea"}', b"[" * 5000, b"\x01",
    b"\xef\xbb\xbf",
    b'{"WHO":"u","What":"Tea","at":"2026-01-06","price":1}', b'"', b"\r", b"z" * 3_000_000,
    b'{"who":"u","what":"Tea","at":"2026-01-06","price":NaN}', b'{"k":{"who":"u"}}',
    b"{" + b",".join(b'"k%d":1' % at for at in range(500)) + b"}",
]  # fmt: skip


def test_a_bad_line_of_ndjson_takes_no_other_with_it(tmp_path: Path) -> None:
    keys = [f"g{at}" for at in range(len(BAD_JSON))]
    good = [json.dumps(row(what=key)).encode() for key in keys]
    (tmp_path / "rows.ndjson").write_bytes(b"\n".join(between(BAD_JSON, good)))
    assert counted(tmp_path / "rows.ndjson", groups=keys) == [1] * len(keys)
    assert counted(tmp_path / "rows.ndjson") == [0, 0, 0]


def test_names_of_fields_are_taken_as_they_are(tmp_path: Path) -> None:
    odd = "a/b~c'd\"e é"
    assert counted(ndjson(tmp_path, row(**{odd: "Tea"})), by=odd) == [1, 0, 0]
    path = parquet(
        tmp_path, {"who": ["u"], odd: ["Tea"], "at": [datetime(2026, 1, 6)], "dp_unit": [5]}
    )
    assert counted(path, by=odd, value=None) == [1, 0, 0]


def test_an_empty_source_is_read(tmp_path: Path) -> None:
    empty = {
        name: pa.array([], kind) for name, kind in (("who", pa.string()), ("what", pa.string()))
    }
    (tmp_path / "e.ndjson").write_bytes(b"")
    for path in (
        csv(tmp_path),
        tmp_path / "e.ndjson",
        parquet(tmp_path, {**empty, "at": pa.array([], pa.timestamp("us"))}),
    ):
        assert counted(path, value=None) == [0, 0, 0]


# ---------------------------------------------------------------------------- conditions

COLOGNE = ["Köln", "Ko\u0308ln", "\t Köln \n"]
OTHER = ["köln", "Köln\u00a0", "Koln", "18", "true"]
# Of a column of each type: its values in rows that have one, and conditions, each with those
# that pass. No row without a value passes any.
CONDITIONS: dict[str, tuple[pa.DataType, list[Any], list[tuple[str, Any, list[Any]]]]] = {
    "text": (
        pa.string(),
        [*COLOGNE, *OTHER],
        [
            ("=", "Köln", COLOGNE),
            ("=", " Ko\u0308ln", COLOGNE),
            ("!=", "Köln", OTHER),
            ("in", ("Köln", "18"), [*COLOGNE, "18"]),
            ("not in", ("Ko\u0308ln", "18", "absent"), ["köln", "Köln\u00a0", "Koln", "true"]),
        ],
    ),
    "whole": (
        pa.int64(),
        [-1, 0, 17, 18, 2**53 - 1, 2**53, 2**53 + 1, 2**63 - 1],
        [
            ("=", 18, [18]),
            ("=", Decimal("18.0"), [18]),
            ("!=", 18, [-1, 0, 17, 2**53 - 1, 2**53, 2**53 + 1, 2**63 - 1]),
            ("<", 18, [-1, 0, 17]),
            ("<=", Decimal("17.5"), [-1, 0, 17]),
            (">", 2**53 - 1, [2**53, 2**53 + 1, 2**63 - 1]),
            (">=", 2**53 - 1, [2**53 - 1, 2**53, 2**53 + 1, 2**63 - 1]),
            ("in", (0, 18, Decimal("0.5")), [0, 18]),
            ("not in", (0, 18, 17, -1), [2**53 - 1, 2**53, 2**53 + 1, 2**63 - 1]),
        ],
    ),
    "double": (
        pa.float64(),
        [-0.0, 0.0, 0.1, 0.3, 0.1 + 0.2, 18.0, 1e300, 0.98765432109876543],
        [
            ("=", 0, [-0.0, 0.0]),
            ("=", Decimal("0.3"), [0.3]),
            ("=", Decimal("0.98765432109876543"), [0.98765432109876543]),
            ("!=", Decimal("0.3"), [-0.0, 0.0, 0.1, 0.1 + 0.2, 18.0, 1e300, 0.98765432109876543]),
            ("<", Decimal("0.1"), [-0.0, 0.0]),
            ("<=", Decimal("0.3"), [-0.0, 0.0, 0.1, 0.3]),
            (">", 18, [1e300]),
            (">=", 18, [18.0, 1e300]),
            ("in", (0, Decimal("0.1")), [-0.0, 0.0, 0.1]),
            ("not in", (0, Decimal("0.1"), 18), [0.3, 0.1 + 0.2, 1e300, 0.98765432109876543]),
        ],
    ),
    "decimal": (
        pa.decimal128(20, 2),
        [Decimal("-0.10"), Decimal("0.00"), Decimal("0.10"), Decimal("18.00")],
        [
            ("=", Decimal("0.1"), [Decimal("0.10")]),
            ("!=", Decimal("0.100"), [Decimal("-0.10"), Decimal("0.00"), Decimal("18.00")]),
            (">", 0, [Decimal("0.10"), Decimal("18.00")]),
            ("not in", (18, 0), [Decimal("-0.10"), Decimal("0.10")]),
        ],
    ),
    "digits": (
        pa.decimal128(38, 30),
        [Decimal("0.1"), Decimal("0.3"), Decimal("-12345678.123456789012345678901234567891")],
        [
            ("=", Decimal("0.1"), [Decimal("0.1")]),
            ("in", (Decimal("0.1"), Decimal("0.3")), [Decimal("0.1"), Decimal("0.3")]),
            (
                "=",
                Decimal("-12345678.12345679"),
                [Decimal("-12345678.123456789012345678901234567891")],
            ),
        ],
    ),
    "truth": (
        pa.bool_(),
        [True, False],
        [
            ("=", True, [True]),
            ("=", False, [False]),
            ("!=", True, [False]),
            ("in", (True, False), [True, False]),
            ("not in", (True,), [False]),
        ],
    ),
}
MISSING: dict[str, list[Any]] = {
    "text": [None, "", " \t"],
    "double": [None, math.nan, math.inf, -math.inf],
}


def marked(folder: Path, kind: str) -> tuple[list[str], dict[str, Path | pd.DataFrame]]:
    """The key of each value, a row each, in every format that can hold such a column."""
    held, values, _ = CONDITIONS[kind]
    every = [*values, *MISSING.get(kind, [None])]
    keys = [f"g{at}" for at in range(len(every))]
    at = [datetime(2026, 1, 6)] * len(every)
    columns = {"who": ["u"] * len(every), "what": keys, "at": at, "mark": pa.array(every, held)}
    path = parquet(folder, columns)
    frame = pa.table(columns).to_pandas(types_mapper=pd.ArrowDtype)
    with duckdb.connect(str(folder / "a.duckdb")) as connection:
        connection.execute(f"CREATE TABLE sales AS FROM read_parquet('{path}')")
    rows = [row(what=key, mark=value) for key, value in zip(keys, every, strict=True)]
    plain = [{**one, "mark": simple(one["mark"])} for one in rows]
    lines = pd.DataFrame(plain, dtype=object).to_csv(index=False, na_rep="")
    (folder / "a.csv").write_text(lines, encoding="utf-8")
    lines = "\n".join(json.dumps(one) for one in plain).replace("NaN", "null")
    (folder / "a.ndjson").write_text(lines.replace("Infinity", "1e999"), encoding="utf-8")
    return keys, {
        "parquet": path,
        "frame": frame,
        "duckdb": folder / "a.duckdb",
        "csv": folder / "a.csv",
        "ndjson": folder / "a.ndjson",
    }


def simple(value: Any) -> Any:
    return float(value) if isinstance(value, Decimal) else value


@pytest.mark.parametrize("kind", CONDITIONS)
def test_a_condition_is_a_rule_on_the_row_in_every_format(tmp_path: Path, kind: str) -> None:
    _, values, conditions = CONDITIONS[kind]
    keys, sources = marked(tmp_path, kind)
    for sign, than, passing in conditions:
        expected = [int(value in passing) for value in values]
        expected += [0] * (len(keys) - len(values))
        for name, source in sources.items():
            table = "sales" if name == "duckdb" else None
            where = [("mark", sign, than)]
            found = counted(source, value=None, groups=keys, where=where, table=table)
            assert found == expected, (name, sign, than)


def test_truth_values_kept_as_text_are_read_however_their_writer_spelt_them(
    tmp_path: Path,
) -> None:
    texts = ["true", "True", "TRUE", " true ", "false", "FALSE", "1", "yes", "t", "", "truе"]
    keys = [f"g{at}" for at in range(len(texts))]
    lines = [f"u,{key},{ISO},1,{text}" for key, text in zip(keys, texts, strict=True)]
    path = csv(tmp_path, *lines, header="who,what,at,price,mark")
    for sign, than, expected in (
        ("=", True, [1, 1, 1, 1, 0, 0, 0, 0, 0, 0, 0]),
        ("!=", True, [0, 0, 0, 0, 1, 1, 0, 0, 0, 0, 0]),
    ):
        assert counted(path, groups=keys, where=[("mark", sign, than)]) == expected


def test_numbers_kept_as_text_are_compared_as_numbers_or_as_text(tmp_path: Path) -> None:
    texts = [*NUMBERS, *NO_NUMBERS]
    keys = [f"g{at}" for at in range(len(texts))]
    lines = [f'u,{key},{ISO},1,"{text}"' for key, text in zip(keys, texts, strict=True)]
    path = csv(tmp_path, *lines, header="who,what,at,price,mark")
    read_as = [int(text in NUMBERS) for text in texts]
    for where in ([("mark", "<=", 2**53 - 1)], [("mark", "not in", (9, -9))]):
        assert counted(path, groups=keys, where=where) == read_as
    ones = [int(text in {"1", "+1", " 1 ", "1."}) for text in texts]
    assert counted(path, groups=keys, where=[("mark", "=", 1)]) == ones
    spelt = [int(text in {"1", " 1 "}) for text in texts]
    assert counted(path, groups=keys, where=[("mark", "=", "1")]) == spelt


def test_a_number_that_a_file_says_nothing_of_does_not_pass(tmp_path: Path) -> None:
    # A file's statistics leave NaNs out, and the engine plans by statistics.
    for value, sign in ((math.nan, "<="), (math.nan, ">="), (math.nan, "!="), (math.inf, ">=")):
        columns = {
            "who": ["u", "u"],
            "what": ["Tea", "7"],
            "at": [datetime(2026, 1, 6)] * 2,
            "mark": [5.0, value],
        }
        where = [("mark", sign, 6 if sign in {"<=", "!="} else 4)]
        assert counted(parquet(tmp_path, columns), value=None, where=where) == [1, 0, 0]


def test_conditions_hold_together_and_may_be_about_any_column(tmp_path: Path) -> None:
    rows = [
        row(),
        row(who="robot"),
        row(what="7"),
        row(price=2),
        row(at="2026-01-07 10:00:00"),
        row(town="Paris"),
    ]
    source = ndjson(tmp_path, *rows)
    for where, expected in (
        ([("who", "!=", "robot")], [4, 0, 1]),
        ([("what", "not in", ("7", "8"))], [5, 0, 0]),
        ([("price", ">", 5)], [4, 0, 1]),
        ([("at", "=", ISO)], [4, 0, 1]),
        ([("town", "=", "Paris")], [1, 0, 0]),
        ([("who", "!=", "robot"), ("price", ">", 5), ("what", "=", "Tea")], [3, 0, 0]),
        ([("price", ">", 5), ("price", "<", 5)], [0, 0, 0]),
        ([("cost", "!=", 1)], [0, 0, 0]),  # a field that no line has
    ):
        assert counted(source, where=where) == expected, where


@pytest.mark.parametrize("sign", ["in", "not in"])
def test_a_list_of_very_many_is_compared_with(tmp_path: Path, sign: str) -> None:
    names = tuple(f"name {at}" for at in range(3000))
    source = ndjson(tmp_path, row(town=names[-1]), row(what="7", town="another"), row())
    expected = [1, 0, 0] if sign == "in" else [0, 0, 1]
    assert counted(source, where=[("town", sign, names)]) == expected


def test_by_several_columns_each_is_matched_as_one_is(tmp_path: Path) -> None:
    groups = [("Tea", "Köln"), ("Tea", "Paris"), ("7", "Köln"), ("Köln", "Tea")]
    rows = [
        row(what=" Tea", town="Ko\u0308ln"),
        row(town="Köln\t"),
        row(what=7, town="Köln"),
        row(town="Paris"),
        *(row(town=town) for town in (None, "", "köln", "Lyon")),
        row(what=None, town="Köln"),
        row(what="Köln", town="Köln"),
    ]
    frame = pd.DataFrame(rows).astype({"what": "string", "town": "string"})
    frame = frame.assign(at=pd.to_datetime(frame["at"]))
    frame.to_csv(tmp_path / "a.csv", index=False)
    frame.to_parquet(tmp_path / "a.parquet")
    sources = [ndjson(tmp_path, *rows), tmp_path / "a.csv", tmp_path / "a.parquet", frame]
    for source in sources:
        assert counted(source, by=("what", "town"), groups=groups) == [2, 1, 1, 0]
        turned = [(town, what) for what, town in groups]
        assert counted(source, by=("town", "what"), groups=turned) == [2, 1, 1, 0]


# ---------------------------------------------------------------------------- the file itself


def test_the_file_named_is_the_file_read(tmp_path: Path) -> None:
    folder = tmp_path / "what=Tea" / "o'clock"
    folder.mkdir(parents=True)
    for name, what in (("a[1].csv", "Café"), ("a1.csv", "Tea"), ("a*.csv", "7")):
        csv(folder, f"u,{what},{ISO},1").rename(folder / name)
    assert counted(folder / "a[1].csv") == [0, 1, 0]
    assert counted(folder / "a*.csv") == [0, 0, 1]
    columns = {"who": ["u"], "what": ["7"], "at": [datetime(2026, 1, 6)]}
    assert counted(parquet(folder, columns), value=None) == [0, 0, 1]


def test_many_quoted_line_breaks_are_read(tmp_path: Path) -> None:
    lines = [f'u{at},Tea,{ISO},1,"so\nand, so\r\non"' for at in range(50_000)]
    path = csv(tmp_path, *lines, header="who,what,at,price,why")
    assert path.stat().st_size > 2_000_000
    assert counted(path) == [50_000, 0, 0]


def test_columns_without_a_name_do_no_harm(tmp_path: Path) -> None:
    path = csv(tmp_path, f"0,u,Tea,{ISO},1,,", header=",who,what,at,price,,")
    assert counted(path) == [1, 0, 0]


# ---------------------------------------------------------------------------- errors and leaks

SECRET = "SECRET-4711"  # noqa: S105
PLANTED = row(who=SECRET, what=SECRET, at=SECRET, price=SECRET, more=SECRET)


def seen(error: BaseException) -> str:
    """Everything that a log, a debugger's chain or a user may see of an error."""
    chain, text = [error], ""
    for one in chain:
        text += "".join(traceback.format_exception(one)) + repr(vars(one))
        chain += [link for link in (one.__cause__, one.__context__) if link is not None]
    return text


def refused(capfd: pytest.CaptureFixture[str], source: Path | pd.DataFrame, **more: Any) -> str:
    """The message of the error that a source ends in, and that nothing more is seen of it."""
    spills = Path(tempfile.gettempdir())
    before = set(spills.glob("dp-release-*"))
    with pytest.raises(SourceError) as caught:
        read(source, **more)
    assert set(spills.glob("dp-release-*")) <= before
    captured = capfd.readouterr()
    for text in (seen(caught.value), captured.out, captured.err, str(caught.value.document())):
        assert "SECRET" not in text
    assert caught.value.__context__ is None
    assert caught.value.hint
    return f"{caught.value.message} {caught.value.hint}"


@pytest.fixture(autouse=True)
def _own_temporary_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "spill").mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "spill"))


Capfd = pytest.CaptureFixture[str]


def test_a_file_that_is_not_there_or_of_no_known_kind(tmp_path: Path, capfd: Capfd) -> None:
    assert "is missing" in refused(capfd, tmp_path / "rows.csv")
    assert ".parquet" in refused(capfd, tmp_path / "rows.xlsx")


def test_a_missing_column_is_named_and_no_row_is(tmp_path: Path, capfd: Capfd) -> None:
    planted = ",".join(map(str, PLANTED.values()))
    assert "'cost'" in refused(capfd, csv(tmp_path, planted), value="cost")
    # Without a header the first row stands in its place, and one of its values may be a name.
    headless = f"who,{SECRET},{SECRET},{SECRET},secret-4711"
    assert "'what'" in refused(capfd, csv(tmp_path, planted, header=headless))
    assert "'who'" in refused(capfd, csv(tmp_path, planted, header=""))
    plain = {"who": [SECRET], "what": [SECRET], "at": [datetime(2026, 1, 6)]}
    for source in (parquet(tmp_path, plain), pd.DataFrame(plain)):
        text = refused(capfd, source, value="cost")
        assert "'cost'" in text
        assert "who, what, at" in text


def test_columns_that_differ_by_case_alone(tmp_path: Path, capfd: Capfd) -> None:
    planted = ",".join([SECRET] * 5)
    header = "who,what,at,price,Price"
    assert "'price'" in refused(capfd, csv(tmp_path, planted, header=header))
    columns = {name: [SECRET] for name in ("who", "what", "price", "Price")}
    columns |= {"at": [ISO]}
    assert "'price'" in refused(capfd, parquet(tmp_path, columns))
    assert "'price'" in refused(capfd, pd.DataFrame(columns).astype("string"))
    twice = pd.DataFrame([[SECRET] * 5], columns=["who", "what", "at", "price", "price"])
    assert "'price'" in refused(capfd, twice)


def test_a_database_needs_a_table(tmp_path: Path, capfd: Capfd) -> None:
    path = database(tmp_path, 'CREATE TABLE sales (who TEXT, what TEXT, "at" TIMESTAMP)')
    assert "table" in refused(capfd, path)
    assert "'other'" in refused(capfd, path, table="other")
    assert counted(path, value=None, table="sales") == [0, 0, 0]
    path.write_bytes(SECRET.encode() * 1000)
    assert "open the source" in refused(capfd, path, table="sales")


def test_text_under_a_collation_is_refused(tmp_path: Path, capfd: Capfd) -> None:
    path = database(
        tmp_path,
        'CREATE TABLE sales (who TEXT COLLATE NOCASE, what TEXT, "at" TIMESTAMP)',
        "CREATE VIEW seen AS SELECT * FROM sales",
    )
    for table in ("sales", "seen"):
        assert "collation" in refused(capfd, path, value=None, table=table)


WRONG = {
    "who": ([True, date(2026, 1, 6), b"SECRET-4711", [SECRET], Decimal("1.5")], "`unit`"),
    "what": ([1.5, date(2026, 1, 6), datetime(2026, 1, 6), True, {"a": SECRET}], "`by`"),
    "at": ([1.5, 1767700000, True, [SECRET]], "`time`"),
    "price": ([SECRET, True, date(2026, 1, 6), [1.5]], "`value`"),
}


@pytest.mark.parametrize("column", WRONG)
def test_a_column_of_a_type_that_will_not_do_is_named(
    tmp_path: Path, capfd: Capfd, column: str
) -> None:
    odd, key = WRONG[column]
    for value in odd:
        parts = (
            row(at=datetime(2026, 1, 6), **{column: value}) if column != "at" else row(at=value)
        )
        text = refused(capfd, parquet(tmp_path, {name: [one] for name, one in parts.items()}))
        assert f"column {column!r}" in text
        assert key in text


WRONG_MARKS: dict[Any, list[Any]] = {
    "Köln": [5, 1.5, True, date(2026, 1, 6), datetime(2026, 1, 6), Decimal("1.5"), [SECRET]],
    18: [SECRET, True, date(2026, 1, 6), b"SECRET-4711", {"a": SECRET}],
    True: [SECRET, 5, 1.5, date(2026, 1, 6), Decimal("1.5")],
}


@pytest.mark.parametrize("than", WRONG_MARKS)
def test_a_condition_on_a_column_of_another_type_is_named(
    tmp_path: Path, capfd: Capfd, than: Any
) -> None:
    for value in WRONG_MARKS[than]:
        parts = row(who=SECRET, at=datetime(2026, 1, 6), mark=value)
        path = parquet(tmp_path, {name: [one] for name, one in parts.items()})
        text = refused(capfd, path, where=[("mark", "!=", than)])
        assert "column 'mark'" in text
        assert "compared with" in text
    assert "'mark'" in refused(
        capfd, pd.DataFrame([row(at=pd.Timestamp(ISO))]), where=[("mark", "=", than)]
    )


def test_times_as_text_need_a_format_that_is_one(tmp_path: Path, capfd: Capfd) -> None:
    planted = csv(tmp_path, ",".join(map(str, PLANTED.values())))
    for source in (planted, pd.DataFrame([row(at=SECRET)])):
        text = refused(capfd, source, time_format=None)
        assert "column 'at'" in text
        assert "time_format" in text
    assert "time_format" in refused(capfd, planted, time_format="%Q")


def test_a_frame_of_mixed_objects_is_refused_by_its_type(capfd: Capfd) -> None:
    for column in ("who", "what", "at", "price"):
        mixed = pd.Series([1, 2.5, SECRET, b"x", None, {SECRET: 1}], dtype=object)
        frame = pd.DataFrame([row(at=pd.Timestamp(ISO))] * 6).assign(**{column: mixed})
        text = refused(capfd, frame)
        assert f"column {column!r}" in text
        assert "astype" in text


def test_broken_files_show_nothing(tmp_path: Path, capfd: Capfd) -> None:
    lines = "who,what,at,price\n" + f"{SECRET},Tea,{ISO},1\n" * 5000
    (tmp_path / "cut.csv.gz").write_bytes(gzip.compress(lines.encode())[:120])
    (tmp_path / "plain.csv.gz").write_text(lines)
    (tmp_path / "plain.parquet").write_text(lines)
    for name in ("cut.csv.gz", "plain.csv.gz", "plain.parquet"):
        assert "SourceError" not in refused(capfd, tmp_path / name)
    who = [f"{SECRET}-{at}" for at in range(5000)]
    times = [datetime(2026, 1, 6)] * 5000
    path = parquet(tmp_path, {"who": who, "what": ["Tea"] * 5000, "at": times})
    whole = path.read_bytes()
    path.write_bytes(whole[:100] + SECRET.encode() * 500 + whole[100 + len(SECRET) * 500 :])
    assert "compute the totals" in refused(capfd, path, value=None)


def test_bad_casts_inside_a_source_show_nothing(tmp_path: Path, capfd: Capfd) -> None:
    path = database(
        tmp_path,
        "CREATE TABLE raw AS SELECT 'SECRET-4711' AS text, TIMESTAMP '2026-01-06' AS \"at\"",
        'CREATE VIEW sales AS SELECT text AS who, text AS what, "at", text::INT AS price FROM raw',
    )
    assert "compute the totals" in refused(capfd, path, table="sales")


def test_the_spill_folder_is_private_and_goes(tmp_path: Path) -> None:
    path = csv(tmp_path, f"u,Tea,{ISO},1")
    inside: list[Path] = []
    with (
        suppress(KeyboardInterrupt),
        open_rows(dataset(path.name), tmp_path, Wanted(("what",))),
    ):
        inside += (tmp_path / "spill").iterdir()
        assert [one.stat().st_mode & 0o777 for one in inside] == [0o700]
        raise KeyboardInterrupt
    assert inside
    assert not any((tmp_path / "spill").iterdir())


def test_zoned_times_are_instants_whatever_the_zone_of_the_machine(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TZ", "Asia/Tokyo")
    at = pa.array([datetime(2026, 1, 5, tzinfo=UTC)], pa.timestamp("us", "Asia/Tokyo"))
    assert counted(parquet(tmp_path, {"who": [1], "what": ["Tea"], "at": at}), value=None)[0] == 1
