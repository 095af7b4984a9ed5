"""Where rows come from: an Ibis table of a fixed shape, and a fence that no value gets through.

Whatever the source, the table has these columns, and holds only the rows that have a unit, a
key, a time and (where one is asked for) a finite value. Whether a row is left out is decided by
that row alone.

========  =========================================================================
dp_unit   the privacy unit: a whole number, text, or a finite double
dp_key    the group's key as text, without the ASCII white space around it
dp_time   when it happened: with a zone, as the local clock read, or a date
dp_value  the value as a finite double (only where one is asked for)
========  =========================================================================

A source's schema (the names and types of its columns) is public; its rows are not. So a wrong
schema is an error that says what to change, and a row that does not fit is left out in silence:
an error about a row would tell something of it. What a text file's first line or fields are is
not quoted either, since a file without a header begins with a row.

A line of NDJSON is a row, whatever is on it. A record of CSV may span lines inside quotes, so it
is a row of its own only where its quotes are balanced, as every writer of CSV sees to.
"""

from __future__ import annotations

import csv
import gzip
import os
import re
import shutil
import tempfile
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
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
# The commonest first: the rest are tried only where it does not fit.
ISO_FORMATS = (
    *(f"%Y-%m-%d{mark}%H:%M{rest}" for rest in (":%S", ":%S.%f", "") for mark in " T"),
    "%Y-%m-%d",
)
SPILL = "dp-release-"
SUFFIXES = (".csv", ".csv.gz", ".ndjson", ".jsonl", ".parquet", ".duckdb")
# How lines become rows: never in parallel, since whether a quoted line break then is an error
# depends on the rows; never strictly, since one bad row then takes others with it.
LINES = {
    "auto_detect": False,
    "parallel": False,
    "strict_mode": False,
    "ignore_errors": True,
    "null_padding": True,
    "new_line": r"\n",
    "hive_partitioning": False,
}


@dataclass(frozen=True)
class Rows:
    """The rows of one dataset that a job needs, not yet read."""

    table: ir.Table
    _backend: Any
    _where: str

    def within(self, window: Window) -> ir.Table:
        """The rows that happened in the window.

        Times with a zone are compared as instants; local clock readings with the window's
        local dates, which need no zone at all.
        """
        import ibis

        time = self.table.dp_time
        kind = time.type()
        if kind.is_date():
            first, after = ibis.date(str(window.first)), ibis.date(str(window.after))
        elif kind.timezone is None:
            first, after = (ibis.timestamp(f"{day} 00:00") for day in (window.first, window.after))
        else:
            first, after = ibis.literal(window.start), ibis.literal(window.end)
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
    translated = SourceError(
        f"{where}: the engine could not {doing} ({problem})",
        hint="The engine's own message is withheld, because it may quote private rows.",
    )
    try:
        raise translated
    finally:
        # The error that a `with` block ends on is hung on whatever is raised in its place.
        translated.__context__ = None


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
    _sweep()
    spill = tempfile.mkdtemp(prefix=f"{SPILL}{os.getpid()}-")
    try:
        with fence(where, "open the source"):
            backend = _connect(Path(spill))
            names = list(dict.fromkeys(wanted.values()))
            if frame is not None:
                raw, textual = _framed(backend, frame, names, where), False
            else:
                raw, textual = _filed(backend, dataset, folder / dataset.source, names, where)
        try:
            with fence(where, "read the columns"):
                table = _shaped(raw, wanted, dataset, where, textual=textual)
            yield Rows(table, backend, where)
        finally:
            backend.disconnect()
    finally:
        shutil.rmtree(spill, ignore_errors=True)


def _sweep() -> None:
    """Removes what processes that were killed have left of their spill."""
    for path in Path(tempfile.gettempdir()).glob(f"{SPILL}*-*"):
        owner = path.name.removeprefix(SPILL).partition("-")[0]
        if owner.isdecimal() and not _alive(int(owner)):
            shutil.rmtree(path, ignore_errors=True)


def _alive(process: int) -> bool:
    try:
        os.kill(process, 0)
    except (ProcessLookupError, OverflowError):
        return False
    except OSError:
        return True  # another user's
    return True


def _connect(spill: Path) -> Any:
    import ibis

    return ibis.duckdb.connect(temp_directory=str(spill), autoinstall_known_extensions=False)


def _framed(backend: Any, frame: Any, wanted: list[str], where: str) -> ir.Table:
    _named(frame.columns, wanted, where)
    for name in wanted:
        _fine_enough(name, str(frame[name].dtype), where)
        if frame[name].dtype == object:
            # The engine would guess the type from a sample of the rows.
            raise SourceError(
                f"{where}: column {name!r} holds Python objects of any kind",
                hint=f'Give it a type of its own, such as frame[{name!r}].astype("string").',
            )
    backend.con.register("dp_frame", frame[wanted])
    return backend.table("dp_frame")


def _filed(
    backend: Any, dataset: Dataset, path: Path, wanted: list[str], where: str
) -> tuple[ir.Table, bool]:
    """The file as the engine sees it, and whether its format knows text only."""
    ending = next((end for end in SUFFIXES if path.name.lower().endswith(end)), None)
    if ending is None:
        raise SourceError(
            f"{where}: not a kind of source that is known",
            hint=f"Name a file that ends in one of {', '.join(SUFFIXES)}.",
        )
    if not path.is_file():
        raise SourceError(
            f"{where}: the file is missing", hint=f"Expected it at {path}; mend `source`."
        )
    match ending:
        case ".csv" | ".csv.gz":
            return _csv(backend, path, wanted, where, zipped=ending.endswith("gz")), True
        case ".ndjson" | ".jsonl":
            return _ndjson(backend, path, wanted), True
        case ".parquet":
            return _parquet(backend, path, wanted, where), False
        case _:
            return _attached(backend, path, dataset, wanted, where), False


def _verbatim(path: Path) -> str:
    """A path in which the engine finds no pattern: it would read another file, or several."""
    return re.sub(r"([*?[])", r"[\1]", str(path))


def _csv(backend: Any, path: Path, wanted: list[str], where: str, *, zipped: bool) -> ir.Table:
    # The header is all that is looked at; types are never guessed from rows, since one
    # person's row could then change how everyone's are read.
    opener = gzip.open if zipped else open
    with opener(path, "rt", encoding="utf-8-sig", errors="replace", newline="") as file:
        header = next(csv.reader(file), [])
        # The engine takes a compressed file that was cut short for a whole one.
        while zipped and file.read(2**20):
            pass
    for name in wanted:
        if name not in header:
            raise SourceError(
                f"{where}: has no column {name!r}",
                hint="The first line of the file must name its columns.",
            )
        _unambiguous((other for other in header if other.lower() == name.lower()), where)
    columns = [f"dp_{place}" for place in range(len(header) + 1)]
    rows = backend.read_csv(
        _verbatim(path),
        header=True,
        delim=",",
        quote='"',
        escape='"',
        compression="gzip" if zipped else "none",
        columns=dict.fromkeys(columns, "VARCHAR"),
        **LINES,
    )
    # A row with more fields than the header does not say which is which.
    rows = rows.filter(rows[columns[-1]].isnull())
    return rows.select(**{name: rows[columns[header.index(name)]] for name in wanted})


def _ndjson(backend: Any, path: Path, wanted: list[str]) -> ir.Table:
    # The engine's own reader lets a malformed line take the next one with it, or fails.
    import ibis

    @ibis.udf.scalar.builtin  # type: ignore[untyped-decorator]
    def json_valid(text: str) -> bool:
        """The engine's own."""
        raise NotImplementedError

    @ibis.udf.scalar.builtin  # type: ignore[untyped-decorator]
    def json_extract_string(text: str, pointer: str) -> str:
        """The engine's own."""
        raise NotImplementedError

    lines = backend.read_csv(
        _verbatim(path),
        header=False,
        # No JSON text holds this character.
        delim="\x01",
        quote="",
        escape="",
        compression="none",
        columns={"dp_line": "VARCHAR"},
        **LINES,
    )
    text = ibis.ifelse(json_valid(lines.dp_line), lines.dp_line, ibis.null("string"))
    # A file of lines has no schema: a field that no line has is missing in every row. To say so
    # by an error would tell whether any line has it.
    return lines.select(
        **{
            name: json_extract_string(text, "/" + name.replace("~", "~0").replace("/", "~1"))
            for name in wanted
        }
    )


def _parquet(backend: Any, path: Path, wanted: list[str], where: str) -> ir.Table:
    import pyarrow.parquet as pq

    # The file's own names: the engine renames what differs by case alone.
    schema = pq.read_schema(path)
    _named(schema.names, wanted, where)
    for name in wanted:
        _fine_enough(name, str(schema.field(name).type), where)
    return backend.read_parquet(_verbatim(path), hive_partitioning=False)


def _fine_enough(name: str, kind: str, where: str) -> None:
    # The engine turns them into microseconds, and fails for a row whose time then overflows.
    if re.match(r"(timestamp|datetime64)\[m?s\b", kind):
        raise SourceError(
            f"{where}: column {name!r} is {kind}; times are read in microseconds",
            hint="Write the column in microseconds.",
        )


def _attached(
    backend: Any, path: Path, dataset: Dataset, wanted: list[str], where: str
) -> ir.Table:
    if dataset.table is None:
        raise SourceError(
            f"{where}: a database holds several tables",
            hint=f'Add `table = "…"` to [dataset.{dataset.name}].',
        )
    backend.attach(str(path).replace("'", "''"), name="dp_source", read_only=True)
    kept = backend.con.execute(
        "SELECT table_name, sql FROM duckdb_tables() WHERE database_name = 'dp_source' UNION ALL "
        "SELECT view_name, sql FROM duckdb_views() WHERE database_name = 'dp_source'"
    ).fetchall()
    if dataset.table not in [name for name, _ in kept]:
        raise SourceError(
            f"{where}: has no table {dataset.table!r}",
            hint=f"Mend `table` of [dataset.{dataset.name}].",
        )
    if any(re.search(r"\bcollate\b", definition, re.IGNORECASE) for _, definition in kept):
        raise SourceError(
            f"{where}: the database compares some text under a collation",
            hint="Two people, or two groups, could count as one: keep the text without COLLATE.",
        )
    table = backend.table(dataset.table, database=("dp_source", "main"))
    _named(table.columns, wanted, where)
    return table


def _named(columns: Iterable[Any], wanted: list[str], where: str) -> None:
    """Refuses columns that are missing or could be taken for one another."""
    names = [str(name) for name in columns]
    _unambiguous(names, where)
    missing = [name for name in wanted if name not in names]
    if missing:
        raise SourceError(
            f"{where}: has no column {', '.join(repr(name) for name in missing)}",
            hint=f"Its columns are {', '.join(names)}.",
        )


def _unambiguous(columns: Iterable[str], where: str) -> None:
    # Engines take columns that differ by case alone for one another, without a word.
    for name, count in Counter(name.lower() for name in columns).items():
        if count > 1:
            raise SourceError(
                f"{where}: {count} columns are called {name!r}, but for upper and lower case",
                hint="Rename all but one of them.",
            )


def _shaped(
    raw: ir.Table, wanted: dict[str, str], dataset: Dataset, where: str, *, textual: bool
) -> ir.Table:
    columns = {
        "dp_unit": _unit(raw[wanted["unit"]], where),
        "dp_key": _key(raw[wanted["key"]], where),
        "dp_time": _time(raw[wanted["time"]], dataset, where),
    }
    if "value" in wanted:
        columns["dp_value"] = _value(raw[wanted["value"]], where, textual=textual)
    table = raw.select(**columns)
    return table.filter(*(table[name].notnull() for name in columns))


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
    # Not isnan or isinf, which engines disagree about; and no comparison with a bound, which an
    # engine takes for true where a file's statistics, made without its NaNs, say that it is.
    import ibis

    return ibis.ifelse(number - number == 0.0, number, ibis.null("float64"))


def _time(column: ir.Column, dataset: Dataset, where: str) -> ir.Column:
    kind = column.type()
    if kind.is_timestamp():
        # The engine turns seconds and milliseconds into microseconds, and fails for a row whose
        # time then overflows.
        if kind.scale in {0, 3}:
            raise _refused(
                where, column, "times are read in microseconds", "Keep them in microseconds."
            )
        return column
    if kind.is_date():
        return column  # dates reach further than timestamps, so a cast could fail for one row
    if kind.is_string() and dataset.time_format is not None:
        return _read_time(column, dataset, dataset.time_format, where)
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


def _read_time(column: ir.Column, dataset: Dataset, pattern: str, where: str) -> ir.Column:
    import duckdb
    import ibis

    if pattern == "iso":
        # An offset makes an instant of a row's time, whose local clock reading is then taken.
        offset = tuple(f"{form}%z" for form in ISO_FORMATS if "%H" in form)
        local = _clock(dataset.time_zone, _parsed(column, offset, zoned=True))
        return ibis.coalesce(_parsed(column, ISO_FORMATS, zoned=False), local)
    kind = "SELECT typeof(try_strptime('', ?))"
    try:
        (found,) = column.get_backend().con.execute(kind, [pattern]).fetchone()
    except duckdb.Error:
        found = None
    if found is None:
        raise SourceError(
            f"{where}: {pattern!r} is not a pattern for times",
            hint=f"Mend `time_format` of [dataset.{dataset.name}].",
        )
    return _parsed(column, (pattern,), zoned=found == "TIMESTAMP WITH TIME ZONE")


def _parsed(column: ir.Column, formats: Sequence[str], *, zoned: bool) -> ir.Column:
    import ibis

    kind = "timestamp('UTC')" if zoned else "timestamp"

    @ibis.udf.scalar.builtin(  # type: ignore[untyped-decorator]
        name="try_strptime", signature=(("string", "string"), kind)
    )
    def parsed(text: Any, pattern: Any) -> Any:
        """The engine's own reading, NULL where the text does not fit."""

    if zoned:
        column = column.re_replace(r"Z\s*$", "+00:00")
    return ibis.coalesce(*(parsed(column, form) for form in formats))


def _clock(zone: str, instant: ir.Column) -> ir.Column:
    import ibis

    @ibis.udf.scalar.builtin(  # type: ignore[untyped-decorator]
        name="timezone", signature=(("string", "timestamp('UTC')"), "timestamp")
    )
    def timezone(zone: Any, instant: Any) -> Any:
        """What the clocks of a zone read at an instant."""

    return timezone(zone, instant)
