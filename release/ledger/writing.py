"""What may be done to one account inside one transaction: looked at, or written to."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime

from sqlalchemy import Connection

from release.accounting import Charge, Event, admits, event_from_json
from release.errors import RefusedError, UsageError
from release.ledger import queries, rows
from release.ledger.chain import canonical, digest
from release.ledger.charges import covers, standing
from release.ledger.kinds import (
    KINDS,
    MAY_FOLLOW,
    Amendment,
    History,
    Recorded,
    Refused,
    Released,
    Stop,
)
from release.ledger.queries import Head
from release.ledger.records import (
    DECISIONS,
    HALTS,
    NOTHING,
    Entry,
    EntryKind,
    Record,
    Release,
    halted,
)
from release.specs import Job, Key
from release.windows import Window

MOST_UNITS = 2**63 - 1
"""The most that a column of the tables holds."""


@dataclass
class View:
    """One account, as one transaction sees it."""

    connection: Connection
    head: Head

    def __post_init__(self) -> None:
        self._of_job = dict(self.head.of_job)

    def remembered(self) -> list[Entry]:
        """What was charged as spent before this ledger kept count."""
        return queries.remembered(self.connection, self.head.terms.account)

    def published_groups(self, job: Job) -> frozenset[Key]:
        """Every group that a job has released before, by the columns that it names now."""
        return queries.published_groups(self.connection, self.head.terms.account, job)

    def job_spent(self, job: str) -> int:
        """What one job's charges add up to, in whole units."""
        if job not in self._of_job:
            spent = queries.job_spent(self.connection, self.head.terms.account, job)
            self._of_job[job] = spent
        return self._of_job[job]

    def stopped_by(self, job: str, charge: Charge, *, job_cap: int) -> Stop | None:
        """The filter: which of the account's budget and the job's share refuses the charge.

        None where both allow it.
        """
        spent = self.job_spent(job)
        if not self.head.terms.budget.admits(self.head.last.spent, charge):
            return "account"
        return None if admits(spent, charge.units, job_cap) else "share"


@dataclass
class Writer(View):
    """What may be done to one account under the lock; the head moves with every entry."""

    def refuse(self, job: Job, window: Window, charge: Charge, stop: Stop, now: datetime) -> Entry:
        """Records, at no charge, that the window's charge did not fit; that is final."""
        body = Refused(title=job.title, refused_charge=charge.units, stopped_by=stop)
        return self._append(rows.settling(self._next("refusal", body, now, job.name), window))

    def release(
        self, window: Window, charge: Charge, spent_on: Event, content: Release, now: datetime
    ) -> Entry:
        """Records the charge and what it paid for, in one transaction."""
        text = canonical(content.model_dump(mode="json"))
        entry = self._next("release", Released(release_sha256=digest(text)), now, content.job.name)
        return self._charged(rows.settling(entry, window), charge, spent_on, text)

    def record(
        self, event: Event, reason: str, now: datetime, *, at_least: Charge = NOTHING
    ) -> Entry:
        """Charges what was done elsewhere, under the same filter.

        Raises AccountingError where the account cannot take such an event, and RefusedError
        where it does not fit; then nothing is written.
        """
        entry = self._next("record", Recorded(reason=reason), now)
        return self._charged(entry, self._admitted(event, at_least), event)

    def remember(self, spends: Sequence[tuple[History, Event]], now: datetime) -> list[Entry]:
        """Charges what was spent before this ledger kept count, all of it or none.

        Raises as ``record`` does.
        """
        return [
            self._charged(self._next("history", body, now), self._admitted(event), event)
            for body, event in spends
        ]

    def amend(self, seq: int, event: Event, reason: str, now: datetime) -> Entry:
        """Raises the charge of an earlier entry to what it should have been.

        It counts at once, even past the cap. Raises UsageError where the entry charged nothing,
        is a correction itself, or was charged as much already, and AccountingError where the
        account cannot take such an event; then nothing is written.
        """
        account = self.head.terms.account
        found = queries.entry(self.connection, account, seq)
        if found is None or found.event is None or found.amends is not None:
            raise UsageError(
                f"entry {seq} of account {account!r} is no charge that could be corrected",
                hint="`dp-release ledger list` shows the entries.",
            )
        corrections = queries.amendments(self.connection, account, seq)
        before = standing(self.head.terms, [found, *corrections])
        charge = before.missing(self.head.terms, event)
        if charge is None:
            raise UsageError(
                f"entry {seq} of account {account!r} was charged as much or more already",
                hint="A correction only ever raises a charge. Nothing was written.",
            )
        # The last correction stands for the entry, in an account that replaces this one too.
        last = event_from_json((corrections[-1] if corrections else found).event or {})
        if not covers(event, last):
            raise UsageError(
                f"entry {seq} of account {account!r} was charged for more than this in a way",
                hint="A correction is at least what it corrects, in ρ, at every order and in δ. "
                "Compose what was really done with what the entry says. Nothing was written.",
            )
        body = Amendment(amends=seq, reason=reason)
        entry = self._next("amend", body, now, found.job)
        if max(entry.spent.plus(charge)) > MOST_UNITS:
            raise UsageError(
                f"what entry {seq} of account {account!r} should have cost is too much to count",
                hint="Nothing was written. A cost that can be counted stops everything as well: "
                "correct it to one, and say the rest with `dp-release ledger notice`.",
            )
        added = before.added(self.head.terms, charge, event)
        return self._append(rows.charging(entry, charge, event, entry.sums.together(added)))

    def note(
        self, kind: EntryKind, body: Record, now: datetime, *, job: str | None = None
    ) -> Entry:
        """Records what charges nothing and settles no window.

        Raises UsageError where a job's last decision does not let this one follow: only a paused
        job is resumed, none is paused twice, and one that is retired stays so.
        """
        if type(body) is not KINDS[kind].body:
            raise TypeError(f"an entry of kind {kind} does not say {type(body).__name__}")
        if kind in DECISIONS and job is not None:
            check_may_follow(kind, job, self.head.halted.get(job))
        return self._append(self._next(kind, body, now, job))

    def _admitted(self, event: Event, at_least: Charge = NOTHING) -> Charge:
        cost = self.head.terms.budget.charge(event)
        charge = Charge(max(cost.units, at_least.units), max(cost.delta0, at_least.delta0))
        if not self.head.terms.budget.admits(self.head.last.spent, charge):
            raise RefusedError(
                f"the budget of account {self.head.terms.account!r} does not allow this charge",
                hint="Nothing was charged. `dp-release budget` shows what is left.",
            )
        return charge

    def _next(self, kind: EntryKind, body: Record, now: datetime, job: str | None = None) -> Entry:
        entry = rows.following(self.head.last, kind, now, body)
        return entry if job is None else replace(entry, job=job, job_spent=self.job_spent(job))

    def _charged(
        self, entry: Entry, charge: Charge, event: Event, content: str | None = None
    ) -> Entry:
        sums = entry.sums.plus(event, charged=self.head.terms.rho_of(charge))
        return self._append(rows.charging(entry, charge, event, sums), content)

    def _append(self, entry: Entry, content: str | None = None) -> Entry:
        written = rows.append(self.connection, entry, content)
        known = (*self.head.halted.values(), written)
        self.head = replace(self.head, last=written, halted=halted(known))
        if entry.job is not None:
            self._of_job[entry.job] = entry.job_spent
        return written


def check_may_follow(decision: EntryKind, job: str, last: Entry | None) -> None:
    """Raises UsageError where a decision may not follow the one by which a job is halted."""
    state = None if last is None else HALTS[last.kind]
    if decision not in MAY_FOLLOW[state]:
        since = "" if last is None else f" since {last.charged_at:%Y-%m-%d}"
        raise UsageError(
            f"job {job!r} is {state or 'not paused'}{since}",
            hint=f"{'That is final. ' if state == 'retired' else ''}Nothing was written.",
        )
