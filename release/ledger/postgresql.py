"""PostgreSQL as the ledger needs it: one writer an account, durable commits, a schema of its own.

A writer locks its account's row (SELECT … FOR UPDATE) before it reads anything that it decides
on, so of any number of processes one at a time decides, and READ COMMITTED shows it all that was
committed before it got the lock. docs/decisions/0006 says why not SERIALIZABLE.

What a transaction needs of the session is set in the transaction itself, so it holds behind a
connection pool too.
"""

from __future__ import annotations

from importlib.util import find_spec

from sqlalchemy import URL, Connection, Engine, create_engine, event, text
from sqlalchemy.exc import DBAPIError, ProgrammingError

from release.errors import BusyError, ConfigError, Fault, LedgerError, ReleaseError, StorageError
from release.ledger import schema
from release.ledger.database import NOT_INTACT, Database, lay_out, stored_format
from release.ledger.rules import postgresql_triggers

UNDEFINED_TABLE = "42P01"
# lock_not_available, deadlock_detected; too_many_connections and cannot_connect_now come before
# anything is done.
BUSY = {"55P03", "40P01", "53300", "57P03"}
BEGIN = (
    'BEGIN {mode}; SET LOCAL search_path = "{schema}", pg_temp; SET LOCAL lock_timeout = {wait};'
    " SET LOCAL synchronous_commit = on"
)
"""In one way to the server and back. The wait is in milliseconds."""
READING = "ISOLATION LEVEL REPEATABLE READ, READ ONLY"
WRITING = "ISOLATION LEVEL READ COMMITTED, READ WRITE"


class PostgreSQL(Database):
    """A ledger in a schema of a PostgreSQL database; ``address`` is SQLAlchemy's."""

    def __init__(self, address: URL, schema_name: str, *, wait: float) -> None:
        place = "/".join(filter(None, [address.host or "", address.database]))
        super().__init__(f"postgresql://{place}, schema {schema_name}", wait=wait)
        if find_spec("psycopg") is None:
            fault = Fault(
                "dp-release.toml",
                "project.ledger",
                "is in PostgreSQL, whose driver is not installed",
                "needs the extra: pip install 'dp-release[postgresql]'",
            )
            raise ConfigError([fault])
        self._address = address
        self._schema = schema_name
        self._there = False

    def exists(self) -> bool:
        """Whether the schema holds a ledger's tables."""
        if not self._there:
            with self.translated():
                connection, self._there = self._begun(self.readers, self._holds_ledger)
                connection.close()
        return self._there

    def create(self) -> None:
        """New tables, and their schema if it is missing, in one transaction."""
        with self.writers.begin() as connection:
            self.lock_openings(connection)
            if self._holds_ledger(connection):
                return
            if connection.scalar(text("SHOW server_encoding")) != "UTF8":
                raise StorageError(
                    f"{self.name}: the database's encoding is not UTF8",
                    hint="Make a database with ENCODING 'UTF8' for the ledger.",
                )
            named = {"name": self._schema}
            found = text("SELECT 1 FROM pg_namespace WHERE nspname = :name")
            if connection.scalar(found, named) is None:
                connection.execute(text(f'CREATE SCHEMA "{self._schema}"'))
            lay_out(connection, postgresql_triggers(self._schema))

    def format_of(self, connection: Connection) -> str | None:
        """What the tables say."""
        try:
            return stored_format(connection)
        except ProgrammingError as error:
            if getattr(error.orig, "sqlstate", None) != UNDEFINED_TABLE:
                raise
        return None

    def lock_openings(self, connection: Connection) -> None:
        """A lock that goes with the transaction; a row that is not there yet has none."""
        lock = text("SELECT pg_advisory_xact_lock(hashtextextended('dp-release ' || :name, 0))")
        connection.execute(lock, {"name": self._schema})

    def lock_tables(self, connection: Connection) -> None:
        """First where each transaction looks first, so that none has begun by another format."""
        tables = ", ".join([schema.version.name, *schema.APPEND_ONLY])
        connection.execute(text(f"LOCK TABLE {tables} IN ACCESS EXCLUSIVE MODE"))

    def problem(self, error: DBAPIError) -> ReleaseError:
        """By PostgreSQL's own code. Its text is not shown: details of it quote rows."""
        code = getattr(error.orig, "sqlstate", None)
        if code in BUSY:
            return BusyError(
                f"{self.name}: the ledger is busy, nothing was charged",
                hint="Another process is writing. Try again, or raise `ledger_wait`.",
            )
        if code is not None and code.startswith("23"):
            diagnosis = getattr(error.orig, "diag", None)
            return self.refused(str(getattr(diagnosis, "message_primary", code)))
        if code in {UNDEFINED_TABLE, "42703", "3F000"}:
            return LedgerError(f"{self.name}: {NOT_INTACT}")
        if code == "42501":
            return StorageError(
                f"{self.name}: the database's role may not do this, nothing was charged",
                hint="docs/ledger.md lists what the role of a ledger needs.",
            )
        if code is None or code.startswith(("08", "57P")):
            return StorageError(
                f"{self.name}: the database cannot be reached, or the connection to it was lost",
                hint="See whether the server runs, and whether host, database, role and password "
                "are right. Run again: what was committed is found, and nothing is drawn twice.",
            )
        return StorageError(
            f"{self.name}: the ledger cannot be read or written (PostgreSQL's code {code})",
            hint="Run again: whatever was committed is found, and nothing is drawn twice.",
        )

    def _holds_ledger(self, connection: Connection) -> bool:
        # One table is enough: a ledger that has lost the others is no reason to begin a new one.
        tables = {"schema": self._schema, "names": list(schema.metadata.tables)}
        found = text(
            "SELECT 1 FROM pg_tables WHERE schemaname = :schema AND tablename = ANY(:names)"
        )
        return connection.scalar(found, tables) is not None

    def _readers(self) -> Engine:
        return self._engine(READING)

    def _writers(self) -> Engine:
        return self._engine(WRITING)

    def _engine(self, mode: str) -> Engine:
        # The driver would begin transactions by itself, which is one more way to the server.
        engine = create_engine(
            self._address,
            isolation_level="AUTOCOMMIT",
            connect_args={
                "connect_timeout": max(2, round(self.wait)),
                "client_encoding": "utf8",
            },
        )
        # A wait of 0 would mean no limit.
        wait = max(1, round(self.wait * 1000))
        begin = BEGIN.format(mode=mode, schema=self._schema, wait=wait)

        @event.listens_for(engine, "begin")
        def begun(connection: Connection) -> None:
            connection.exec_driver_sql(begin)

        return engine
