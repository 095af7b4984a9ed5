"""Where rows come from: an Ibis table of a fixed shape, and a fence that no value gets through.

Whatever the source, the table has these columns, and holds only the rows that have a unit, a
key, a time and (where one is asked for) a finite value. Whether a row is left out is decided by
that row alone.

========  =========================================================================
dp_unit   the privacy unit: a whole number, text, or a finite double
dp_key    the group's key as text, without the ASCII white space around it
dp_time   when it happened: with a zone, or as the local clock read
dp_value  the value as a finite double (only where one is asked for)
========  =========================================================================

A source's schema (the names and types of its columns) is public; its rows are not. So a wrong
schema is an error that says what to change, and a row that does not fit is left out in silence:
an error about a row would tell something of it.
"""

from __future__ import annotations

import csv
import gzip
import shutil
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from release.errors import ReleaseError, SourceError
from release.specs import Dataset
from release.windows import Window

if TYPE_CHECKING:
    import ibis.expr.types as ir

ASCII_NUMBER = r"^[ \t]*[+-]?([0-9]+([.][0-9]*)?|[.][0-9]+)([eE][+-]?[0-9]{1,3})?[ \t]*$"
LARGEST = sys.float_info.max
ISO_FORMATS = (
    "%Y-%m-%d",
    *(f"%Y-%m-%d{mark}%H:%M{rest}" for mark in " T" for rest in ("", ":%S", ":%S.%f")),
)
TEXT_SUFFIXES = (".csv", ".csv.gz", ".ndjson", ".jsonl")
SUFFIXES = (*TEXT_SUFFIXES, ".parquet", ".duckdb")


@dataclass(frozen=True)
class Rows:
    """The rows of one dataset that a job needs, not yet read."""

    table: ir.Table
    zoned: bool
    _backend: Any
    _where: str

    def within(self, window: Window) -> ir.Table:
        """The rows that happened in the window.

        Times with a zone are compared as instants; local clock readings with the window's
        local dates, which need no zone at all.
        """
        import ibis

        time = self.table.dp_time
        first, after = (
            (ibis.literal(window.start), ibis.literal(window.end))
            if self.zoned
            else (ibis.timestamp(f"{window.first} 00:00"), ibis.timestamp(f"{window.after} 00:00"))
        )
        return self.table.filter((time >= first) & (time < after))

    def listing(self, columns: dict[str, Sequence[Any]]) -> ir.Table:
        """A public table to join with, handed to the engine."""
        import pyarrow as pa

        name = "dp_listing"
        with fence(self._where, "take the list of groups"):
            self._backend.con.register(name, pa.table(columns))
            return self._backend.table(name)

    def fetch(self, expression: ir.Table) -> dict[str, list[Any]]:
        """The columns of an expression's result: exact totals, so for memory only."""
        with fence(self._where, "compute the totals"):
            columns: dict[str, list[Any]] = self._backend.to_pyarrow(expression).to_pydict()
            return columns


@contextmanager
def fence(where: str, doing: str) -> Iterator[None]:
    """Translates an engine's error into one that shows nothing of any row.

    Engines put the offending value into their messages; so the message, the cause and the
    traceback behind it are all dropped, and only the error's class is named.
    """
    try:
        yield
    except ReleaseError:
        raise
    except Exception as error:
        problem = type(error).__name__
    else:
        return
    raise SourceError(
        f"{where}: the engine could not {doing} ({problem})",
        hint="The engine's own message is withheld, because it may quote private rows.",
    ) from None


@contextmanager
def open_rows(
    dataset: Dataset, folder: Path, *, by: str, value: str | None, frame: Any = None
) -> Iterator[Rows]:
    """The rows of a dataset, or of ``frame`` in its place, for one job.

    Raises SourceError where the source is missing, cannot be read, or has another schema than
    the dataset declares. What the engine spills goes to a private folder, removed on leaving.
    """
    where = f"dataset.{dataset.name}: {dataset.source}" if frame is None else "the frame given"
    wanted = {"unit": dataset.unit, "key": by, "time": dataset.time}
    if value is not None:
        wanted["value"] = value
    spill = tempfile.mkdtemp(prefix="dp-release-")
    try:
        with fence(where, "open the source"):
            backend = _connect(Path(spill))
            if frame is not None:
                raw, textual = _framed(backend, frame, list(wanted.values()), where), False
            else:
                raw, textual = _filed(backend, dataset, folder / dataset.source, where)
        try:
            with fence(where, "read the columns"):
                table, zoned = _shaped(raw, wanted, dataset, where, textual=textual)
            yield Rows(table, zoned, backend, where)
        finally:
            backend.disconnect()
    finally:
        shutil.rmtree(spill, ignore_errors=True)


def _connect(spill: Path) -> Any:
    import ibis

    return ibis.duckdb.connect(temp_directory=str(spill), autoinstall_known_extensions=False)


def _framed(backend: Any, frame: Any, wanted: list[str], where: str) -> ir.Table:
    _present(list(frame.columns), wanted, where)
    backend.con.register("dp_frame", frame[list(dict.fromkeys(wanted))])
    return backend.table("dp_frame")


def _filed(backend: Any, dataset: Dataset, path: Path, where: str) -> tuple[ir.Table, bool]:
    """The file as the engine sees it, and whether its format knows text only."""
    suffix = next((end for end in SUFFIXES if path.name.lower().endswith(end)), None)
    if suffix is None:
        raise SourceError(
            f"{where}: not a kind of source that is known",
            hint=f"Name a file that ends in one of {', '.join(SUFFIXES)}.",
        )
    if not path.is_file():
        raise SourceError(
            f"{where}: the file is missing", hint=f"Expected it at {path}; mend `source`."
        )
    match suffix:
        case ".csv" | ".csv.gz":
            return _csv(backend, path, where), True
        case ".ndjson" | ".jsonl":
            return _ndjson(backend, path), True
        case ".parquet":
            return backend.read_parquet(path), False
        case _:
            return _attached(backend, path, dataset, where), False


def _csv(backend: Any, path: Path, where: str) -> ir.Table:
    # The header is all that is looked at; types are never guessed from rows, since one
    # person's row could then change how everyone's are read.
    opener = gzip.open if path.suffix == ".gz" else open
    with opener(path, "rt", encoding="utf-8-sig", newline="") as file:
        header = next(csv.reader(file), [])
    _unambiguous(header, where)
    return backend.read_csv(
        path,
        auto_detect=False,
        header=True,
        delim=",",
        quote='"',
        escape='"',
        columns=dict.fromkeys(header, "VARCHAR"),
        null_padding=True,
        ignore_errors=True,
    )


def _ndjson(backend: Any, path: Path) -> ir.Table:
    # The names that occur are the schema; every value is then read as text.
    options = {"format": "newline_delimited", "ignore_errors": True}
    names = backend.read_json(path, sample_size=-1, **options).columns
    return backend.read_json(path, columns=dict.fromkeys(names, "VARCHAR"), **options)


def _attached(backend: Any, path: Path, dataset: Dataset, where: str) -> ir.Table:
    if dataset.table is None:
        raise SourceError(
            f"{where}: a database holds several tables",
            hint=f'Add `table = "…"` to [dataset.{dataset.name}].',
        )
    backend.attach(path, name="dp_source", read_only=True)
    if dataset.table not in backend.list_tables(database=("dp_source", "main")):
        raise SourceError(
            f"{where}: has no table {dataset.table!r}",
            hint=f"Mend `table` of [dataset.{dataset.name}].",
        )
    return backend.table(dataset.table, database=("dp_source", "main"))


def _unambiguous(columns: Sequence[str], where: str) -> None:
    # Engines take columns that differ by case alone for one another, without a word.
    for name, count in Counter(name.lower() for name in columns).items():
        if count > 1:
            raise SourceError(
                f"{where}: {count} columns are called {name!r}, but for upper and lower case",
                hint="Rename all but one of them.",
            )


def _present(columns: Sequence[str], wanted: Sequence[str], where: str) -> None:
    missing = [name for name in dict.fromkeys(wanted) if name not in columns]
    if missing:
        names = ", ".join(repr(name) for name in missing)
        raise SourceError(
            f"{where}: has no column {names}",
            hint=f"Its columns are {', '.join(str(name) for name in columns)}.",
        )


def _shaped(
    raw: ir.Table, wanted: dict[str, str], dataset: Dataset, where: str, *, textual: bool
) -> tuple[ir.Table, bool]:
    _unambiguous(raw.columns, where)
    _present(raw.columns, list(wanted.values()), where)
    time = _time(raw[wanted["time"]], dataset, where)
    columns = {
        "dp_unit": _unit(raw[wanted["unit"]], where),
        "dp_key": _key(raw[wanted["key"]], where),
        "dp_time": time,
    }
    if "value" in wanted:
        columns["dp_value"] = _value(raw[wanted["value"]], where, textual=textual)
    table = raw.select(**columns)
    table = table.filter(*(table[name].notnull() for name in columns))
    return table, time.type().timezone is not None


def _refused(where: str, column: ir.Column, must: str, hint: str) -> SourceError:
    return SourceError(
        f"{where}: column {column.get_name()!r} is {column.type()}; {must}", hint=hint
    )


def _unit(column: ir.Column, where: str) -> ir.Column:
    kind = column.type()
    if kind.is_integer() or kind.is_uuid():
        return column
    if kind.is_string():
        return column.nullif("")
    if kind.is_floating():
        number = column.cast("float64")
        # Adding zero makes one unit of 0.0 and -0.0 on every engine.
        return _finite(number) + 0.0
    raise _refused(
        where, column, "a privacy unit is a whole number or text", "Name another column as `unit`."
    )


def _key(column: ir.Column, where: str) -> ir.Column:
    kind = column.type()
    if kind.is_string():
        return column.strip().nullif("")
    if kind.is_integer():
        return column.cast("string")
    raise _refused(
        where, column, "groups are text or whole numbers", "Name another column in `by`."
    )


def _value(column: ir.Column, where: str, *, textual: bool) -> ir.Column:
    import ibis

    kind = column.type()
    if kind.is_numeric():
        return _finite(column.cast("float64"))
    if kind.is_string() and textual:
        number = ibis.ifelse(column.re_search(ASCII_NUMBER), column, ibis.null("string"))
        return _finite(number.cast("float64"))
    raise _refused(where, column, "a value is a number", "Name another column as `value`.")


def _finite(number: ir.Column) -> ir.Column:
    # Not isnan or isinf: between() is false for NaN, infinities and NULL on every engine.
    import ibis

    return ibis.ifelse(number.between(-LARGEST, LARGEST), number, ibis.null("float64"))


def _time(column: ir.Column, dataset: Dataset, where: str) -> ir.Column:
    kind = column.type()
    if kind.is_timestamp():
        return column
    if kind.is_date():
        return column.cast("timestamp")
    if kind.is_string() and dataset.time_format is not None:
        return _read_time(column, dataset.time_format)
    if kind.is_string():
        raise _refused(
            where,
            column,
            "how to read a time from it must be declared",
            f'Add `time_format = "iso"`, or a pattern such as "%d/%m/%Y %H:%M", '
            f"to [dataset.{dataset.name}].",
        )
    raise _refused(
        where, column, "a time is a timestamp, a date or text", "Name another column as `time`."
    )


def _read_time(column: ir.Column, pattern: str) -> ir.Column:
    import ibis

    @ibis.udf.scalar.builtin(  # type: ignore[untyped-decorator]
        name="try_strptime",
        signature=(("string", "string"), "timestamp('UTC')" if "%z" in pattern else "timestamp"),
    )
    def parsed(text: Any, pattern: Any) -> Any:
        """The engine's own reading, NULL where the text does not fit."""

    formats = ISO_FORMATS if pattern == "iso" else (pattern,)
    return ibis.coalesce(*(parsed(column, form) for form in formats))
