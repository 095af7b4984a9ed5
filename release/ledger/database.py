"""What the ledger asks of a database, whichever it is.

All statements are the same everywhere; a database differs in how it is reached, how a ledger
is made in it, and what its errors mean.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from functools import cached_property
from typing import TypeVar

from sqlalchemy import Connection, Engine, insert, select, text
from sqlalchemy.exc import DBAPIError, NoResultFound

from release.errors import LedgerError, ReleaseError, StorageError
from release.ledger import schema

NOT_INTACT = "this is not an intact ledger"
MOST_DIGITS = 9
"""Of a format's number."""
Answer = TypeVar("Answer")
FORMAT_SAID = select(schema.version.c.version_num)


class Database(ABC):
    """One place that holds a ledger, or may. Every error is a ReleaseError.

    ``name`` is how messages call it; it holds no password.
    """

    def __init__(self, name: str, *, wait: float) -> None:
        self.name = name
        self.wait = wait
        """The longest that a transaction waits for another's lock, in seconds."""

    @abstractmethod
    def exists(self) -> bool:
        """Whether anything was ever written here."""

    @abstractmethod
    def create(self) -> None:
        """A new ledger without accounts, whole or not at all; one that is there stays."""

    @abstractmethod
    def format_of(self, connection: Connection) -> str | None:
        """The format of the ledger that is found; None where it is none."""

    @abstractmethod
    def lock_openings(self, connection: Connection) -> None:
        """Lets one transaction at a time open an account or make the tables."""

    @abstractmethod
    def lock_tables(self, connection: Connection) -> None:
        """Lets nobody else in until the transaction has ended."""

    @abstractmethod
    def problem(self, error: DBAPIError) -> ReleaseError:
        """What an error of the driver means, without any value from a row."""

    @abstractmethod
    def _readers(self) -> Engine: ...

    @abstractmethod
    def _writers(self) -> Engine: ...

    @cached_property
    def readers(self) -> Engine:
        """Whose transactions see one moment, take no lock and cannot write."""
        return self._readers()

    @cached_property
    def writers(self) -> Engine:
        """Whose transactions are durable once they have committed."""
        return self._writers()

    def close(self) -> None:
        """Lets go of every connection."""
        for name in ("readers", "writers"):
            if name in self.__dict__:
                self.__dict__[name].dispose()

    @contextmanager
    def reading(self) -> Iterator[Connection]:
        """A transaction that only reads."""
        with self._transaction(self.readers) as connection:
            yield connection

    @contextmanager
    def writing(self) -> Iterator[Connection]:
        """A transaction that commits on leaving and is undone by any error."""
        if "writers" not in self.__dict__ and not self.exists():
            with self.translated():
                self.create()
        with self._transaction(self.writers) as connection:
            yield connection

    @contextmanager
    def upgrading(self) -> Iterator[tuple[Connection, str]]:
        """A transaction and the format that it finds; it has an older ledger to itself."""
        with self.translated(), self.readers.begin() as connection:
            older = self._known(self.format_of(connection)) != schema.FORMAT
        with self.translated(), self.writers.begin() as connection:
            if older:
                self.lock_tables(connection)
            yield connection, self._known(self.format_of(connection))

    @contextmanager
    def _transaction(self, engine: Engine) -> Iterator[Connection]:
        with self.translated():
            connection, found = self._begun(engine, self.format_of)
            with connection:
                self._check_format(found)
                yield connection
                connection.commit()

    def _begun(
        self, engine: Engine, first: Callable[[Connection], Answer]
    ) -> tuple[Connection, Answer]:
        """A transaction, and the answer to its first question.

        A connection that died while a schedule slept is found out by that, and replaced.
        """
        try:
            return _asked(engine, first)
        except DBAPIError as error:
            if not error.connection_invalidated:
                raise
        return _asked(engine, first)

    @contextmanager
    def translated(self) -> Iterator[None]:
        """Database errors as our own."""
        try:
            yield
        except ReleaseError:
            raise
        except DBAPIError as error:
            problem = self.problem(error)
        except NoResultFound:
            problem = LedgerError(f"{self.name}: {NOT_INTACT}")
        except OSError as error:
            problem = StorageError(f"{self.name}: cannot be written ({type(error).__name__})")
        else:
            return
        raise problem from None

    def refused(self, reason: str) -> LedgerError:
        """The database's own rules did not let an entry in."""
        return LedgerError(f"{self.name}: the ledger refused an entry: {reason}")

    def _check_format(self, said: str | None) -> None:
        found = self._known(said)
        if found != schema.FORMAT:
            raise self._other_format(
                found, "Back it up, then `dp-release ledger upgrade` brings it to the new format."
            )

    def _known(self, found: str | None) -> str:
        if not isinstance(found, str) or not found.isdecimal() or len(found) > MOST_DIGITS:
            raise LedgerError(f"{self.name}: {NOT_INTACT}")
        if int(found) > int(schema.FORMAT):
            raise self._other_format(found, "Use the version of the software that made it.")
        return found

    def _other_format(self, found: str, hint: str) -> LedgerError:
        return LedgerError(
            f"{self.name}: the ledger has format {found}, this software writes {schema.FORMAT}",
            hint=hint,
        )


def _asked(engine: Engine, first: Callable[[Connection], Answer]) -> tuple[Connection, Answer]:
    connection = engine.connect()
    try:
        connection.begin()
        return connection, first(connection)
    except BaseException:
        connection.close()
        raise


def lay_out(connection: Connection, triggers: Iterable[str]) -> None:
    """Makes the tables of the newest format, in a place that has none of them."""
    schema.metadata.create_all(connection, checkfirst=False)
    for statement in triggers:
        connection.execute(text(statement))
    connection.execute(insert(schema.version).values(version_num=schema.FORMAT))


def stored_format(connection: Connection) -> str | None:
    """The format that the ledger itself says it has."""
    return connection.scalar(FORMAT_SAID)
