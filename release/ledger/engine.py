"""SQLite as the ledger needs it: a lock at the start, durable commits, errors of our own family.

A writer takes the database's write lock as its transaction begins (BEGIN IMMEDIATE), so what it
reads is what it decides on, and of any number of processes one at a time decides. The journal
is a WAL with synchronous=FULL: a commit that returned survives a crash of the machine.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Literal

from sqlalchemy import Connection, Engine, QueuePool, create_engine, event
from sqlalchemy.exc import DBAPIError, IntegrityError, NoResultFound

from release.errors import BusyError, ConfigError, Fault, LedgerError, ReleaseError, StorageError
from release.ledger import schema

NOT_INTACT = "this is not an intact ledger"


def path_of(folder: Path, address: str) -> Path:
    """The file that a ledger's address names; raises ConfigError for any other address."""
    scheme, _, name = address.partition(":///")
    if scheme != "sqlite" or not name:
        fault = Fault(
            "dp-release.toml",
            "project.ledger",
            "is not the address of a SQLite file",
            'must be an address such as "sqlite:///state/ledger.db"',
        )
        raise ConfigError([fault])
    return folder / name


def connect(path: Path, wait: float, *, mode: Literal["ro", "rw", "rwc"]) -> Engine:
    """An engine whose every transaction is a reader's ("ro"), or a writer's under the lock."""
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


def create(path: Path) -> None:
    """A new ledger without accounts, in place whole or not at all; one that is there stays.

    So a file that holds no ledger was never one in the making, and is an error.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    with TemporaryDirectory(prefix=".ledger-", dir=path.parent) as folder:
        draft = Path(folder, "new.db")
        engine = connect(draft, 0, mode="rwc")
        with engine.begin() as connection:
            schema.metadata.create_all(connection, checkfirst=False)
            for statement in (*schema.TRIGGERS, f"PRAGMA user_version = {schema.FORMAT}"):
                connection.exec_driver_sql(statement)
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


@contextmanager
def translated(path: Path) -> Iterator[None]:
    """Database errors as our own. Nothing was charged: the transaction was undone."""
    try:
        yield
    except ReleaseError:
        raise
    except DBAPIError as error:
        problem = _problem(path, error)
    except NoResultFound:
        problem = LedgerError(f"{path}: {NOT_INTACT}")
    except OSError as error:
        problem = StorageError(f"{path}: cannot be written ({type(error).__name__})")
    else:
        return
    raise problem from None


def _problem(path: Path, error: DBAPIError) -> ReleaseError:
    code = getattr(error.orig, "sqlite_errorcode", 0) & 0xFF
    if code in {sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED}:
        return BusyError(
            f"{path}: the ledger is busy, nothing was charged",
            hint="Another process is writing. Try again, or raise `ledger_wait`.",
        )
    if isinstance(error, IntegrityError):
        return LedgerError(f"{path}: the ledger refused an entry: {error.orig}")
    if code in {sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB}:
        return LedgerError(f"{path}: {NOT_INTACT}")
    name = getattr(error.orig, "sqlite_errorname", type(error.orig).__name__)
    return StorageError(
        f"{path}: the ledger cannot be read or written ({name}), nothing was charged",
        hint="Look for a full disk, a read-only folder or another owner of the file.",
    )


def check_format(connection: Connection, path: Path) -> None:
    """Raises LedgerError unless this software writes the format found."""
    found = connection.exec_driver_sql("PRAGMA user_version").scalar()
    if not found:
        raise LedgerError(f"{path}: {NOT_INTACT}")
    if found != schema.FORMAT:
        raise LedgerError(
            f"{path}: the ledger has format {found}, this software writes {schema.FORMAT}",
            hint="Use the version of the software that made it.",
        )
