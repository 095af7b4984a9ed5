"""What the ledger gives back: frozen values, read by pages, reports and checks.

Everything here is released or public. Amounts of an accountant's quantity are whole units
(``release.accounting.RHO_UNITS`` to one).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal
from fractions import Fraction
from functools import cached_property
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BaseModel, ConfigDict, Field

from release.accounting import Budget, Charge, Event, Spend, composed
from release.mechanisms import Threshold
from release.specs import Job, Key, moderate
from release.statistics import Row, RowStatus, Table
from release.windows import Window

EntryKind = Literal[
    "open",
    "project",
    "release",
    "refusal",
    "record",
    "history",
    "amend",
    "notice",
    "pause",
    "resume",
    "retire",
    "audit",
]
NOTHING = Charge(0)
Halt = Literal["paused", "retired"]
HALTS: Mapping[EntryKind, Halt] = {"pause": "paused", "retire": "retired"}
"""What a job is from such a decision on, until one of kind ``resume``, if that may follow."""
DECISIONS: tuple[EntryKind, ...] = (*HALTS, "resume")
NEIGHBOURING = "add or remove one whole privacy unit"


class Record(BaseModel):
    """A frozen part of an entry's canonical JSON."""

    model_config = ConfigDict(frozen=True, extra="forbid")


Amount = Annotated[Decimal, AfterValidator(moderate)]


class Terms(Record):
    """What opening an account fixes for its whole life.

    ``cap`` and ``delta_cap`` are whole units; ``order`` is the Rényi order of an ``rdp`` account.
    """

    format: Literal[1] = 1
    account: str
    epsilon: Amount
    delta: Amount
    accountant: str
    threshold_share: Amount = Decimal(0)
    order: Annotated[str | None, Field(pattern=r"^[0-9]{1,9}(/[1-9][0-9]{0,8})?$")] = None
    cap: int
    delta_cap: int = 0
    unit: str
    neighbouring: str = NEIGHBOURING
    time_zone: str
    replaces: str | None = None

    @cached_property
    def budget(self) -> Budget:
        """The filter that these terms fix."""
        delta = Fraction(self.delta)
        return Budget(
            accountant=self.accountant,
            epsilon=Fraction(self.epsilon),
            delta=delta - delta * Fraction(self.threshold_share),
            cap=self.cap,
            delta_cap=self.delta_cap,
            order=None if self.order is None else Fraction(self.order),
        )

    def exceeded_by(self, spent: Charge) -> bool:
        """Whether so much is more than the budget allows."""
        return spent.units > self.cap or spent.delta0 > self.delta_cap

    def rho_of(self, charge: Charge) -> int:
        """What a charge says of its ρ: an account that counts ε at one order says nothing."""
        return charge.units if self.order is None else 0


class About(Record):
    """What pages say of the project and of one account's data; it changes with an entry."""

    title: str
    contact: str | None
    licence: str | None
    unit_name: str
    time: str
    approved_by: str | None
    reason: str | None
    population: int | None = None


class Software(Record):
    """What computed a release."""

    name: str
    version: str


class Mechanism(Record):
    """The public parameters of the noise: lengths in steps of the lattice of 2^-lattice_bits."""

    lattice_bits: int
    sensitivity: int
    sigma: dict[str, int]
    level: float
    threshold: Threshold | None = None
    """Where groups were discovered."""


class Release(Record):
    """The stored result of one window of one job: public parameters and noisy numbers only."""

    format: Literal[1] = 1
    software: Software
    job: Job
    mechanism: Mechanism
    discovered: tuple[Key, ...] | None = None
    noisy: dict[str, tuple[int, ...]]
    table: Table

    @property
    def groups(self) -> tuple[Key, ...]:
        """Every group that was released, in the order of the noisy totals."""
        return self.job.statistic.listed if self.discovered is None else self.discovered


@dataclass(frozen=True, kw_only=True)
class Entry:
    """One line of an account's record: what was charged, and the sums that stand after it.

    ``charge`` is what the filter counts; ``sums`` is the odometer, enough for every ε that a
    report shows. ``start`` and ``end`` are the window's instants as they were when it was
    settled, whatever a later zone database says of them.
    """

    account: str
    seq: int
    kind: EntryKind
    job: str | None = None
    window: Window | None = None
    start: datetime | None = None
    end: datetime | None = None
    charged_at: datetime
    charge: Charge = NOTHING
    spent: Charge
    job_spent: int = 0
    event: dict[str, Any] | None = None
    sums: Spend
    body: dict[str, Any]
    previous: str
    hash: str = ""

    @property
    def amends(self) -> int | None:
        """The entry whose charge this one corrects, if it is a correction."""
        return self.body["amends"] if self.kind == "amend" else None


def corrected(entries: Iterable[Entry]) -> dict[int, dict[str, Any]]:
    """What was charged for, by the number of the entry: each event as it was corrected last."""
    return {entry.amends or entry.seq: entry.event for entry in entries if entry.event is not None}


def halted(entries: Iterable[Entry]) -> dict[str, Entry]:
    """The jobs that are paused or retired, by name, each with the entry that says so."""
    last = {entry.job: entry for entry in entries if entry.job and entry.kind in DECISIONS}
    return {job: entry for job, entry in last.items() if entry.kind in HALTS}


@dataclass(frozen=True)
class Account:
    """An account as it stands: its terms, what pages say of it, and its whole record."""

    terms: Terms
    about: About
    opened_at: datetime
    entries: tuple[Entry, ...]
    releases: dict[int, Release]
    """By the sequence number of the entry that charged each."""

    @property
    def last(self) -> Entry:
        """The head of the record."""
        return self.entries[-1]

    @property
    def composition(self) -> Event | None:
        """Everything that was charged, as one event, equal parts once with their count."""
        return composed(corrected(self.entries).values())

    @property
    def amended(self) -> Mapping[int, tuple[Entry, ...]]:
        """The corrections of each entry that has any, by its number."""
        found: dict[int, tuple[Entry, ...]] = {}
        for entry in self.entries:
            if entry.amends is not None:
                found[entry.amends] = (*found.get(entry.amends, ()), entry)
        return found

    @property
    def overdrawn(self) -> bool:
        """Whether a correction has shown that more was spent than the budget allows."""
        return self.terms.exceeded_by(self.last.spent)

    @property
    def overdrawn_by(self) -> Entry | None:
        """The first correction that showed it, if one has."""
        return next((one for one in self.entries if self.terms.exceeded_by(one.spent)), None)

    @property
    def halted(self) -> Mapping[str, Entry]:
        """The jobs that are paused or retired, by name, each with the entry that says so."""
        return halted(self.entries)

    @property
    def stopped_jobs(self) -> frozenset[str]:
        """The jobs whose last window the budget refused."""
        return frozenset(job for job, kind in self._last_settled().items() if kind == "refusal")

    @property
    def stopped(self) -> bool:
        """Whether the budget has stopped every job that it ever paid for."""
        settled = self._last_settled()
        return self.overdrawn or (bool(settled) and self.stopped_jobs == settled.keys())

    def _last_settled(self) -> dict[str, EntryKind]:
        return {
            entry.job: entry.kind
            for entry in self.entries
            if entry.job is not None and entry.window is not None
        }


__all__ = [
    "NEIGHBOURING",
    "About",
    "Account",
    "Entry",
    "EntryKind",
    "Mechanism",
    "Record",
    "Release",
    "Row",
    "RowStatus",
    "Software",
    "Table",
    "Terms",
]
