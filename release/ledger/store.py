"""The ledger: an account is opened once, and every charge is decided and written under a lock."""

from __future__ import annotations

import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import datetime
from pathlib import Path

from sqlalchemy import Connection, Engine, insert, select

from release.accounting import Event, admits
from release.errors import LedgerError
from release.ledger import rows, schema
from release.ledger.chain import canonical, digest
from release.ledger.engine import check_format, connect, create, path_of, translated
from release.ledger.records import About, Account, Entry, EntryKind, Release, Terms
from release.ledger.rows import Head
from release.windows import Window


class Ledger:
    """One SQLite file. Every error is a ReleaseError and leaves nothing half-written."""

    def __init__(self, folder: Path, address: str, *, wait: float) -> None:
        self.path = path_of(folder, address)
        self._wait = wait
        self._readers: Engine | None = None
        self._writers: Engine | None = None

    @property
    def exists(self) -> bool:
        """Whether anything was ever written here."""
        with translated(self.path):
            return self.path.is_file()

    def close(self) -> None:
        """Lets go of the file."""
        for engine in (self._readers, self._writers):
            if engine is not None:
                engine.dispose()

    @contextmanager
    def looking(self, account: str) -> Iterator[View]:
        """An opened account as it stands now, without a lock."""
        with self._reading() as connection:
            yield View(connection, self._head(connection, account))

    def terms(self, account: str) -> Terms | None:
        """What opening the account fixed; None before it is opened."""
        if not self.exists:
            return None
        with self._reading() as connection:
            head = rows.head(connection, account)
            return None if head is None else head.terms

    def settled(self, account: str, job: str) -> dict[Window, EntryKind]:
        """The windows of a job that are released or refused."""
        if not self.exists:
            return {}
        entries = schema.entries
        chosen = select(entries).where(
            entries.c.account == account,
            entries.c.job == job,
            entries.c.kind.in_(["release", "refusal"]),
        )
        with self._reading() as connection:
            found = [rows.entry_of(row) for row in connection.execute(chosen).mappings()]
        return {entry.window: entry.kind for entry in found if entry.window is not None}

    def accounts(self) -> list[Account]:
        """Every account with its whole record, by name."""
        if not self.exists:
            return []
        with self._reading() as connection:
            names = connection.scalars(
                select(schema.accounts.c.account).order_by(schema.accounts.c.account)
            ).all()
            return [rows.account(connection, name) for name in names]

    def open_account(self, terms: Terms, about: About, now: datetime) -> None:
        """Opens an account, unless another process has just done so."""
        with self._writing() as connection:
            if rows.head(connection, terms.account) is not None:
                return
            connection.execute(
                insert(schema.accounts).values(
                    account=terms.account,
                    sampling_key=secrets.token_hex(32),
                )
            )
            opened = rows.append(connection, rows.opening(terms, now))
            rows.append(connection, rows.description(opened, about, now))

    def describe(self, account: str, about: About, now: datetime) -> None:
        """Records what pages say of the account, if it is not what they say already."""
        with self._reading() as connection:
            if rows.about(connection, account) == about:
                return
        with self.writing(account) as writer:
            if rows.about(writer.connection, account) != about:
                rows.append(writer.connection, rows.description(writer.head.last, about, now))

    @contextmanager
    def writing(self, account: str) -> Iterator[Writer]:
        """A transaction under the lock; it commits on leaving, and is undone by any error."""
        with self._writing() as connection:
            yield Writer(connection, self._head(connection, account))

    def _head(self, connection: Connection, account: str) -> Head:
        head = rows.head(connection, account)
        if head is None:
            raise LedgerError(f"{self.path}: there is no account {account!r}")
        return head

    @contextmanager
    def _reading(self) -> Iterator[Connection]:
        if self._readers is None:
            self._readers = connect(self.path, self._wait, mode="ro")
        with translated(self.path), self._readers.connect() as connection:
            check_format(connection, self.path)
            yield connection

    @contextmanager
    def _writing(self) -> Iterator[Connection]:
        if self._writers is None:
            if not self.exists:
                with translated(self.path):
                    create(self.path)
            self._writers = connect(self.path, self._wait, mode="rw")
        with translated(self.path), self._writers.begin() as connection:
            check_format(connection, self.path)
            yield connection


@dataclass(frozen=True)
class View:
    """One account, as one transaction sees it."""

    connection: Connection
    head: Head

    def settlement(self, job: str, window: Window) -> Entry | None:
        """The entry that released or refused this window, if one has."""
        return rows.settlement(self.connection, self.head.terms.account, job, window)

    def affords(self, job: str, charge: int, *, job_cap: int) -> bool:
        """The filter: whether the account's cap and the job's own both allow the charge."""
        spent = rows.job_spent(self.connection, self.head.terms.account, job)
        within = admits(self.head.spent, charge, self.head.terms.cap)
        return within and admits(spent, charge, job_cap)


@dataclass(frozen=True)
class Writer(View):
    """What may be done to one account under the lock."""

    def refuse(self, job: str, window: Window, charge: int, now: datetime) -> Entry:
        """Records, at no charge, that the window's charge did not fit; that is final."""
        body = {"refused_charge": charge}
        blank = rows.following(self.head.last, "refusal", now, body)
        spent = rows.job_spent(self.connection, blank.account, job)
        return rows.append(
            self.connection, replace(blank, job=job, window=window, job_spent=spent)
        )

    def release(
        self, window: Window, charge: int, spent_on: Event, content: Release, now: datetime
    ) -> Entry:
        """Records the charge and what it paid for, in one transaction."""
        text = canonical(content.model_dump(mode="json"))
        job = content.job.name
        blank = rows.following(self.head.last, "release", now, {"release_sha256": digest(text)})
        entry = replace(
            blank,
            job=job,
            window=window,
            charge=charge,
            spent=blank.spent + charge,
            job_spent=rows.job_spent(self.connection, blank.account, job) + charge,
            event=spent_on.to_json(),
        )
        entry = rows.append(self.connection, entry)
        rows.store(self.connection, entry, text)
        return entry
