"""The rows of one job, opened for as long as they are read."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from release.errors import ReleaseError, SourceError
from release.sources.columns import Wanted, shaped
from release.sources.formats import filed, framed
from release.specs import Dataset
from release.windows import Window

if TYPE_CHECKING:
    import ibis.expr.types as ir

SPILL = "dp-release-"


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
    dataset: Dataset, folder: Path, wanted: Wanted, *, frame: Any = None
) -> Iterator[Rows]:
    """The rows of a dataset, or of ``frame`` in its place, for one job.

    Raises SourceError where the source is missing, cannot be read, or has another schema than
    the dataset declares. What the engine spills goes to a private folder, removed on leaving.
    """
    where = f"dataset.{dataset.name}: {dataset.source}" if frame is None else "the frame given"
    _sweep()
    spill = tempfile.mkdtemp(prefix=f"{SPILL}{os.getpid()}-")
    try:
        with fence(where, "open the source"):
            backend = _connect(Path(spill))
            names = wanted.columns(dataset)
            if frame is not None:
                raw, textual = framed(backend, frame, names, where), False
            else:
                raw, textual = filed(backend, dataset, folder / dataset.source, names, where)
        try:
            with fence(where, "read the columns"):
                table = shaped(raw, wanted, dataset, where, textual=textual)
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
