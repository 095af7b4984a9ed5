"""Each kind of source as a table of the columns wanted, refused by its schema alone."""

from __future__ import annotations

import csv
import gzip
import re
from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from release.errors import SourceError
from release.specs import Dataset

if TYPE_CHECKING:
    import ibis.expr.types as ir

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


def framed(backend: Any, frame: Any, wanted: list[str], where: str) -> ir.Table:
    """A pandas frame as the engine sees it."""
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


def filed(
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
