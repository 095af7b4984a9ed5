"""SQLite as the ledger needs it: a lock at the start and durable commits.

A writer takes the database's write lock as its transaction begins (BEGIN IMMEDIATE), so what it
reads is what it decides on, and of any number of processes one at a time decides. The journal
is a WAL with synchronous=FULL: a commit that returned survives a crash of the machine.
"""

from __future__ import annotations

import sqlite3
from contextlib import suppress
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Literal

from sqlalchemy import Connection, Engine, QueuePool, create_engine, event
from sqlalchemy.exc import DBAPIError, IntegrityError, OperationalError

from release.errors import BusyError, LedgerError, ReleaseError, StorageError
from release.ledger import schema
from release.ledger.database import NOT_INTACT, Database, lay_out, stored_format
from release.ledger.rules import sqlite_triggers

FIRST_FORMAT = "1"


class SQLite(Database):
    """A ledger in a file of its own."""

    def __init__(self, path: Path, *, wait: float) -> None:
        super().__init__(str(path), wait=wait)
        self.path = path

    def exists(self) -> bool:
        """Whether there is a file."""
        with self.translated():
            return self.path.is_file()

    def create(self) -> None:
        """A new file, in place whole or not at all.

        So a file that holds no ledger was never one in the making, and is an error.
        """
        path = self.path
        path.parent.mkdir(parents=True, exist_ok=True)
        with TemporaryDirectory(prefix=".ledger-", dir=path.parent) as folder:
            draft = Path(folder, "new.db")
            engine = _engine(draft, 0, mode="rwc")
            with engine.begin() as connection:
                lay_out(connection, sqlite_triggers())
                # Software that knew only the first format looks here, and nowhere else.
                connection.exec_driver_sql(f"PRAGMA user_version = {schema.FORMAT}")
            engine.dispose()
            # A log left by a ledger that was removed would be replayed into the new one.
            if path.with_name(f"{path.name}-wal").exists() and not path.exists():
                raise LedgerError(
                    f"{path}: the ledger is missing, but its write-ahead log is there",
                    hint="Put the ledger's file back beside its log.",
                )
            # It holds the key that `sample` hashes with, which no page shows.
            draft.chmod(0o600)
            with suppress(FileExistsError):
                path.hardlink_to(draft)

    def format_of(self, connection: Connection) -> str | None:
        """What the file says; the first format said it in a place of SQLite's own."""
        try:
            return stored_format(connection)
        except OperationalError as error:
            if getattr(error.orig, "sqlite_errorcode", 0) != sqlite3.SQLITE_ERROR:
                raise
        first = connection.exec_driver_sql("PRAGMA user_version").scalar() == int(FIRST_FORMAT)
        return FIRST_FORMAT if first else None

    def lock_openings(self, connection: Connection) -> None:
        """Nothing more: whoever writes has the whole file."""

    def lock_tables(self, connection: Connection) -> None:
        """Nothing more; who only reads goes on seeing the moment at which it began."""

    def problem(self, error: DBAPIError) -> ReleaseError:
        """By SQLite's own code; nothing was charged, since the transaction was undone."""
        code = getattr(error.orig, "sqlite_errorcode", 0) & 0xFF
        if code in {sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED}:
            return BusyError(
                f"{self.name}: the ledger is busy, nothing was charged",
                hint="Another process is writing. Try again, or raise `ledger_wait`.",
            )
        if isinstance(error, IntegrityError):
            return self.refused(str(error.orig))
        said = ("no such table", "no such column", "Could not decode to UTF-8")
        gone = str(error.orig).startswith(said)
        if gone or code in {sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB}:
            return LedgerError(f"{self.name}: {NOT_INTACT}")
        name = getattr(error.orig, "sqlite_errorname", type(error.orig).__name__)
        return StorageError(
            f"{self.name}: the ledger cannot be read or written ({name}), nothing was charged",
            hint="Look for a full disk, a read-only folder or another owner of the file.",
        )

    def _readers(self) -> Engine:
        return _engine(self.path, self.wait, mode="ro")

    def _writers(self) -> Engine:
        return _engine(self.path, self.wait, mode="rw")


def _engine(path: Path, wait: float, *, mode: Literal["ro", "rw", "rwc"]) -> Engine:
    address = f"{path.absolute().as_uri()}?mode={mode}"

    def connection() -> sqlite3.Connection:
        return sqlite3.connect(address, uri=True, timeout=wait, check_same_thread=False)

    engine = create_engine("sqlite://", creator=connection, poolclass=QueuePool)

    @event.listens_for(engine, "connect")
    def connected(connection: sqlite3.Connection, _record: object) -> None:
        # The driver would begin transactions by itself, and too late.
        connection.isolation_level = None
        connection.execute("PRAGMA foreign_keys = ON")
        connection.execute("PRAGMA synchronous = FULL")
        ours = mode == "rwc" or connection.execute("PRAGMA user_version").fetchone() != (0,)
        journal = connection.execute("PRAGMA journal_mode").fetchone()
        if mode != "ro" and ours and journal != ("wal",):
            connection.execute("PRAGMA journal_mode = WAL")

    @event.listens_for(engine, "begin")
    def begun(connection: Connection) -> None:
        connection.exec_driver_sql("BEGIN" if mode == "ro" else "BEGIN IMMEDIATE")

    return engine
