"""The ledger: an account is opened once, and every charge is decided and written under a lock."""

from __future__ import annotations

import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Literal

from sqlalchemy import Connection, Engine, insert, select

from release.accounting import Charge, Event, admits
from release.errors import LedgerError, RefusedError, UsageError
from release.ledger import rows, schema
from release.ledger.chain import canonical, digest
from release.ledger.engine import check_format, connect, create, path_of, translated
from release.ledger.records import NOTHING, About, Account, Entry, EntryKind, Release, Terms
from release.ledger.rows import Head
from release.ledger.verification import Finding, findings
from release.specs import Job
from release.windows import Window

Stop = Literal["account", "share"]
"""What refused a charge: the account's budget, or the job's share of it."""


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
            return [rows.account(connection, name) for name in rows.names(connection)]

    def holds(self, account: str, hash_: str) -> bool:
        """Whether an entry of the account has this hash."""
        if not self.exists:
            return False
        entries = schema.entries
        wanted = select(entries.c.seq).where(entries.c.account == account, entries.c.hash == hash_)
        with self._reading() as connection:
            return connection.execute(wanted).first() is not None

    def is_last(self, account: str, hash_: str) -> bool:
        """Whether the account's last entry has this hash."""
        with self.looking(account) as view:
            return view.head.last.hash == hash_

    def last_job(self, account: str, job: str) -> Job | None:
        """The job as it was when it released last."""
        if not self.exists:
            return None
        with self._reading() as connection:
            content = rows.last_content(connection, account, job)
            return None if content is None else Release.model_validate_json(content).job

    def job_names(self, account: str) -> list[str]:
        """The jobs that the account has released or refused, by name."""
        if not self.exists:
            return []
        column = schema.entries.c.job
        named = select(column).where(schema.entries.c.account == account, column.is_not(None))
        with self._reading() as connection:
            return sorted(connection.scalars(named.distinct()))

    def open_accounts(self) -> list[str]:
        """The accounts that no other has replaced, by name."""
        if not self.exists:
            return []
        with self._reading() as connection:
            return [
                name
                for name in rows.names(connection)
                if rows.replacement(connection, name) is None
            ]

    def verify(self) -> tuple[int, list[Finding]]:
        """How many entries there are, and everything that is wrong with any of them."""
        if not self.exists:
            return 0, []
        count, found = 0, []
        with self._reading() as connection:
            for name in rows.names(connection):
                entries, contents, unreadable = rows.record(connection, name)
                count += len(entries) + len(unreadable)
                if unreadable:
                    found += [Finding(name, seq, "cannot be read") for seq in unreadable]
                elif entries:
                    found += findings(entries, contents)
                else:
                    found.append(Finding(name, 1, "the account has no entry"))
        return count, found

    def open_account(self, terms: Terms, about: About, now: datetime) -> None:
        """Opens an account, unless another process has just done so.

        One that replaces another opens with the other's spend as its first charge. Raises
        RefusedError where that does not fit, UsageError where another has replaced it before,
        and LedgerError where there is no such account.
        """
        with self._writing() as connection:
            if rows.head(connection, terms.account) is not None:
                return
            if terms.replaces is not None:
                self._check_open(connection, terms.replaces)
            connection.execute(
                insert(schema.accounts).values(
                    account=terms.account,
                    sampling_key=secrets.token_hex(32),
                )
            )
            opened = rows.append(connection, rows.opening(terms, now))
            rows.append(connection, rows.description(opened, about, now))
            if terms.replaces is not None:
                self._carry(connection, terms, now)

    def describe(self, account: str, about: About, now: datetime) -> None:
        """Records what pages say of the account, if it is not what they say already."""
        with self._reading() as connection:
            if rows.about(connection, account) == about:
                return
        with self.writing(account) as writer:
            if rows.about(writer.connection, account) != about:
                rows.append(writer.connection, rows.description(writer.head.last, about, now))

    def _carry(self, connection: Connection, terms: Terms, now: datetime) -> None:
        old = self._head(connection, terms.replaces or "")
        events = rows.events(connection, old.terms.account)
        if events is None:
            return
        alike = (old.terms.accountant, old.terms.order) == (terms.accountant, terms.order)
        writer = Writer(connection, self._head(connection, terms.account))
        reason = f"spent by the account {old.terms.account!r}, which this one replaces"
        writer.record(events, reason, now, at_least=old.last.spent if alike else NOTHING)

    @contextmanager
    def writing(self, account: str) -> Iterator[Writer]:
        """A transaction under the lock; it commits on leaving, and is undone by any error."""
        with self._writing() as connection:
            head = self._head(connection, account)
            self._check_open(connection, account)
            yield Writer(connection, head)

    def _check_open(self, connection: Connection, account: str) -> None:
        # Else the spend that one account took over, and what is spent after, would not add up.
        heir = rows.replacement(connection, account)
        if heir is not None:
            raise UsageError(
                f"account {account!r} is closed: {heir!r} has taken over its spend",
                hint="What it published stays. Nothing was charged.",
            )

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

    def job_spent(self, job: str) -> int:
        """What one job's charges add up to, in whole units."""
        return rows.job_spent(self.connection, self.head.terms.account, job)

    def stopped_by(self, job: str, charge: Charge, *, job_cap: int) -> Stop | None:
        """The filter: which of the account's budget and the job's share refuses the charge.

        None where both allow it.
        """
        spent = self.job_spent(job)
        if not self.head.terms.budget.admits(self.head.last.spent, charge):
            return "account"
        return None if admits(spent, charge.units, job_cap) else "share"


@dataclass(frozen=True)
class Writer(View):
    """What may be done to one account under the lock."""

    def refuse(self, job: Job, window: Window, charge: Charge, stop: Stop, now: datetime) -> Entry:
        """Records, at no charge, that the window's charge did not fit; that is final."""
        body = {"title": job.title, "refused_charge": charge.units, "stopped_by": stop}
        entry = rows.following(self.head.last, "refusal", now, body)
        return rows.append(self.connection, self._settling(entry, job.name, window))

    def release(
        self, window: Window, charge: Charge, spent_on: Event, content: Release, now: datetime
    ) -> Entry:
        """Records the charge and what it paid for, in one transaction."""
        text = canonical(content.model_dump(mode="json"))
        entry = rows.following(self.head.last, "release", now, {"release_sha256": digest(text)})
        entry = self._settling(entry, content.job.name, window)
        entry = rows.charging(entry, self.head.terms, charge, spent_on)
        entry = rows.append(self.connection, entry)
        rows.store(self.connection, entry, text)
        return entry

    def record(
        self, event: Event, reason: str, now: datetime, *, at_least: Charge = NOTHING
    ) -> Entry:
        """Charges what was done elsewhere, under the same filter.

        Raises AccountingError where the account cannot take such an event, and RefusedError
        where it does not fit; then nothing is written.
        """
        cost = self.head.terms.budget.charge(event)
        charge = Charge(max(cost.units, at_least.units), max(cost.delta0, at_least.delta0))
        if not self.head.terms.budget.admits(self.head.last.spent, charge):
            raise RefusedError(
                f"the budget of account {self.head.terms.account!r} does not allow this charge",
                hint="Nothing was charged. `dp-release budget` shows what is left.",
            )
        entry = rows.following(self.head.last, "record", now, {"reason": reason})
        entry = rows.charging(entry, self.head.terms, charge, event)
        return rows.append(self.connection, entry)

    def _settling(self, entry: Entry, job: str, window: Window) -> Entry:
        return rows.settling(entry, job, window, self.job_spent(job))
