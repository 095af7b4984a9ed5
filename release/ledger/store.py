"""The ledger: an account is opened once, and every charge is decided and written under a lock."""

from __future__ import annotations

import secrets
from collections.abc import Generator, Iterable, Iterator, Mapping
from contextlib import closing, contextmanager
from datetime import datetime
from pathlib import Path
from typing import IO

from sqlalchemy import Connection, insert

from release.accounting import Charge, Event, event_from_json
from release.errors import LedgerError, UsageError
from release.ledger import migrations, queries, rows, schema, transfer
from release.ledger.chain import Content, Line
from release.ledger.kinds import Decision, Notice
from release.ledger.places import database
from release.ledger.queries import Asked, Head
from release.ledger.records import (
    NOTHING,
    About,
    Account,
    Entry,
    EntryKind,
    Terms,
)
from release.ledger.transfer import LedgerCopy, Summary, paired
from release.ledger.verification import Finding, checked
from release.ledger.writing import View, Writer
from release.specs import Job
from release.windows import Window

CARRIES = 3
"""The entry with which an account takes over another's spend: after its opening and its words."""


class Ledger:
    """One ledger, wherever it is kept. Every error is a ReleaseError and leaves nothing half-done.

    ``name`` is how messages call it.
    """

    def __init__(self, folder: Path, address: str, *, wait: float) -> None:
        self._database = database(folder, address, wait=wait)
        self.name = self._database.name

    @property
    def exists(self) -> bool:
        """Whether anything was ever written here."""
        return self._database.exists()

    def close(self) -> None:
        """Lets go of the database."""
        self._database.close()

    @contextmanager
    def looking(self, account: str, asked: Asked | None = None) -> Iterator[View]:
        """An opened account as it stands now, without a lock.

        ``asked`` is a job and a window of it, of which the view's head then knows how it stands.
        """
        with self._database.reading() as connection:
            head = queries.head(connection, account, asked)
            yield View(connection, self._found(account, head))

    def terms(self, account: str) -> Terms | None:
        """What opening the account fixed; None before it is opened."""
        if not self.exists:
            return None
        with self._database.reading() as connection:
            head = queries.head(connection, account)
            return None if head is None else head.terms

    def settled(self, account: str, job: str) -> dict[Window, EntryKind]:
        """The windows of a job that are released or refused."""
        if not self.exists:
            return {}
        with self._database.reading() as connection:
            return queries.settled(connection, account, job)

    def accounts(self) -> list[Account]:
        """Every account with its whole record, by name."""
        if not self.exists:
            return []
        with self._database.reading() as connection:
            return [queries.account(connection, name) for name in queries.names(connection)]

    def carried(self, terms: Terms) -> Charge:
        """What an account of these terms would open with: the spend of the one it replaces."""
        if terms.replaces is None or not self.exists:
            return NOTHING
        with self._database.reading() as connection:
            old = queries.head(connection, terms.replaces)
            return NOTHING if old is None else _carried(connection, old, terms)[1]

    def holds(self, account: str, hash_: str) -> bool:
        """Whether an entry of the account has this hash."""
        if not self.exists:
            return False
        with self._database.reading() as connection:
            return queries.holds(connection, account, hash_)

    def is_last(self, account: str, hash_: str) -> bool:
        """Whether the account's last entry has this hash."""
        with self.looking(account) as view:
            return view.head.last.hash == hash_

    def halted(self, account: str) -> dict[str, Entry]:
        """The jobs that are paused or retired, by name, each with the entry that says so."""
        if not self.exists:
            return {}
        with self._database.reading() as connection:
            return queries.halted(connection, account)

    def last_job(self, account: str, job: str) -> Job | None:
        """The job as it was when it released last."""
        if not self.exists:
            return None
        with self._database.reading() as connection:
            return queries.last_job(connection, account, job)

    def job_names(self, account: str) -> list[str]:
        """The jobs that the account has released or refused, by name."""
        if not self.exists:
            return []
        with self._database.reading() as connection:
            return queries.job_names(connection, account)

    def open_accounts(self) -> list[str]:
        """The accounts that no other has replaced, by name."""
        if not self.exists:
            return []
        with self._database.reading() as connection:
            return [
                name
                for name in queries.names(connection)
                if queries.replacement(connection, name) is None
            ]

    def verify(self, heads: Mapping[str, str] | None = None) -> tuple[int, list[Finding]]:
        """How many entries there are, and everything that is wrong with any of them.

        ``heads`` are hashes of entries that published pages show, by account.
        """
        if not self.exists:
            shown = (heads or {}).items()
            return 0, [found for name, head in shown for found in checked(name, (), (), head)]
        with self._database.reading() as connection:
            return _checked(connection, heads)

    def upgrade(self) -> tuple[str, int]:
        """Brings a ledger of an older format to the newest, all of it or nothing.

        Gives the format that it had, which is the newest where nothing was to be done, and how
        many entries it holds. Raises UsageError where there is no ledger, and LedgerError where
        it is newer than this software or its record is not intact.
        """
        if not self.exists:
            raise UsageError(
                f"{self.name}: there is no ledger yet",
                hint="The first run makes one, and `dp-release open` does.",
            )
        with self._database.upgrading() as (connection, found):
            count = self._sound(connection)
            if found != schema.FORMAT:
                migrations.upgrade(connection, self.name)
                self._sound(connection)
        return found, count

    def _sound(self, connection: Connection) -> int:
        """How many entries there are; raises LedgerError where any is wrong."""
        count, found = _checked(connection)
        if found:
            raise LedgerError(
                f"{self.name}: the record is not intact: {found[0]}",
                hint="Nothing was changed. `dp-release ledger verify`, of the version that wrote "
                "it, names everything that is wrong.",
            )
        return count

    def export(self, to: IO[bytes]) -> Summary:
        """Writes the whole record to a file, as it stands at one moment.

        Raises UsageError where there is no account yet, and LedgerError where the record is not
        intact; then nothing is written.
        """
        if self.exists:
            with self._database.reading() as connection:
                if self._sound(connection):
                    # Whoever takes it may go away, and a cursor must not outlive its connection.
                    with closing(_everything(connection)) as record:
                        return transfer.write(to, record)
        raise UsageError(
            f"{self.name}: there is no account yet, so there is nothing to export",
            hint="The first run opens the accounts, and `dp-release open` does.",
        )

    def restore(self, copy: LedgerCopy) -> None:
        """Brings in the record of another ledger, with the same hashes, all of it or nothing.

        Each account gets a new sampling key. Raises UsageError where an account is open already.
        """
        with self._database.writing() as connection:
            self._database.lock_openings(connection)
            if queries.names(connection):
                raise UsageError(
                    f"{self.name}: holds a record already, and two are never joined",
                    hint="Import into a new ledger. Nothing was changed.",
                )
            for name, account in copy.accounts.items():
                _add_account(connection, name)
                rows.restore(connection, name, account.lines, account.contents)
            # What accounts say of each other shows only where all of them are.
            self._sound(connection)

    def open_account(self, terms: Terms, about: About, now: datetime) -> None:
        """Opens an account, unless another process has just done so.

        One that replaces another opens with the other's spend as its first charge, and its
        paused and retired jobs stay so. Raises
        RefusedError where that does not fit, UsageError where another has replaced it before,
        and LedgerError where there is no such account.
        """
        with self._database.writing() as connection:
            self._database.lock_openings(connection)
            if queries.head(connection, terms.account) is not None:
                return
            old = None
            if terms.replaces is not None:
                old = self._writable(connection, terms.replaces)
                now = max(now, old.last.charged_at)
            _add_account(connection, terms.account)
            opened = rows.append(connection, rows.opening(terms, now))
            rows.append(connection, rows.description(opened, about, now))
            if old is not None:
                self._carry(connection, old, terms, now)

    def notice(self, account: str, body: Notice, now: datetime, *, job: str | None) -> Entry:
        """Tells readers of an account's pages something, of one that was replaced as well."""
        with self._database.writing() as connection:
            head = self._found(account, queries.head(connection, account, lock=True))
            return Writer(connection, head).note("notice", body, now, job=job)

    def describe(self, account: str, about: About, now: datetime) -> None:
        """Records what pages say of the account, if it is not what they say already."""
        with self._database.reading() as connection:
            if queries.about(connection, account) == about:
                return
        with self.writing(account) as writer:
            if queries.about(writer.connection, account) != about:
                writer.note("project", about, now)

    def _carry(self, connection: Connection, old: Head, terms: Terms, now: datetime) -> None:
        writer = Writer(connection, self._writable(connection, terms.account))
        events, charge = _carried(connection, old, terms)
        if events is not None:
            reason = f"spent by the account {old.terms.account!r}, which this one replaces"
            writer.record(events, reason, now, at_least=charge)
        for job, halt in old.halted.items():
            writer.note(halt.kind, Decision.model_validate(halt.body), now, job=job)

    @contextmanager
    def writing(self, account: str, asked: Asked | None = None) -> Iterator[Writer]:
        """A transaction under the lock; it commits on leaving, and is undone by any error.

        ``asked`` as for ``looking``.
        """
        with self._database.writing() as connection:
            yield Writer(connection, self._writable(connection, account, asked))

    @contextmanager
    def writing_all(self, accounts: Iterable[str]) -> Iterator[dict[str, Writer]]:
        """One transaction under the locks of several accounts, by their names.

        Locks are taken in the order of the names, so that no two wait for each other.
        """
        with self._database.writing() as connection:
            yield {
                account: Writer(connection, self._writable(connection, account))
                for account in sorted(accounts)
            }

    def _writable(self, connection: Connection, account: str, asked: Asked | None = None) -> Head:
        """An account under the lock; raises UsageError where another has taken it over.

        Else the spend that was taken over, and what is spent after, would not add up.
        """
        head = self._found(account, queries.head(connection, account, asked, lock=True))
        if head.heir is not None:
            raise UsageError(
                f"account {account!r} is closed: {head.heir!r} has taken over its spend",
                hint="What it published stays. Nothing was charged.",
            )
        return head

    def _found(self, account: str, head: Head | None) -> Head:
        if head is None:
            raise LedgerError(f"{self.name}: there is no account {account!r}")
        return head


def _add_account(connection: Connection, name: str) -> None:
    key = secrets.token_hex(32)
    connection.execute(insert(schema.accounts).values(account=name, sampling_key=key))


def _carried(connection: Connection, old: Head, terms: Terms) -> tuple[Event | None, Charge]:
    """All that an account has spent, and what it is charged to one that replaces it."""
    events = queries.events(connection, old.terms.account)
    if events is None:
        return None, NOTHING
    cost = terms.budget.charge(events)
    if (old.terms.accountant, old.terms.order) != (terms.accountant, terms.order):
        return events, cost
    # Where both count alike, not less than the old one counted, rounding by rounding.
    spent = old.last.spent
    return events, Charge(max(cost.units, spent.units), max(cost.delta0, spent.delta0))


def _everything(connection: Connection) -> Generator[tuple[Line, Content | None], None, None]:
    for name in queries.names(connection):
        lines, contents = rows.record(connection, name)
        with closing(lines), closing(contents):
            yield from paired(lines, contents)


def _checked(
    connection: Connection, heads: Mapping[str, str] | None = None
) -> tuple[int, list[Finding]]:
    shown = heads or {}
    found: list[Finding] = []
    for name in sorted({*queries.names(connection), *shown}):
        lines, contents = rows.record(connection, name)
        with closing(lines), closing(contents):
            found += checked(name, lines, contents, shown.get(name))
    for name in queries.keyless(connection):
        found.append(Finding(name, 1, "the account is missing from the table of accounts"))
    # What the accounts say of each other can be believed only where each is intact by itself.
    return rows.count(connection), found or list(_wrongly_replaced(connection))


def _wrongly_replaced(connection: Connection) -> Iterator[Finding]:
    """Accounts that do not begin with all that the one which they replace has ever spent."""
    heirs: dict[str, str] = {}
    for name, terms in queries.openings(connection):
        old = terms.replaces
        if old is None:
            continue
        if heirs.setdefault(old, name) != name:
            yield Finding(name, 1, f"account {old!r} is taken over by {heirs[old]!r} already")
        spent = queries.events(connection, old)
        carried = queries.entry(connection, name, CARRIES)
        taken = carried is not None and carried.kind == "record" and carried.event
        if spent is not None and (not taken or event_from_json(taken) != spent):
            yield Finding(name, CARRIES, f"is not all that account {old!r} has spent")
