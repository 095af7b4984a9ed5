"""What the ledger gives back: frozen values, read by pages, reports and checks.

Everything here is released or public. Amounts of an accountant's quantity are whole units
(``release.accounting.RHO_UNITS`` to one).
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict

from release.specs import Job
from release.statistics import Row, RowStatus, Table
from release.windows import Window

EntryKind = Literal["open", "project", "release", "refusal"]
NEIGHBOURING = "add or remove one whole privacy unit"


class Record(BaseModel):
    """A frozen part of an entry's canonical JSON."""

    model_config = ConfigDict(frozen=True, extra="forbid")


class Terms(Record):
    """What opening an account fixes for its whole life."""

    format: Literal[1] = 1
    account: str
    epsilon: Decimal
    delta: Decimal
    accountant: str
    unit: str
    neighbouring: str = NEIGHBOURING
    time_zone: str
    cap: int


class About(Record):
    """What pages say of the project and of one account's data; it changes with an entry."""

    title: str
    contact: str | None
    licence: str | None
    unit_name: str
    time: str
    approved_by: str | None
    reason: str | None


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


class Release(Record):
    """The stored result of one window of one job: public parameters and noisy numbers only."""

    format: Literal[1] = 1
    software: Software
    job: Job
    mechanism: Mechanism
    noisy: dict[str, tuple[int, ...]]
    table: Table


@dataclass(frozen=True, kw_only=True)
class Entry:
    """One line of an account's record: what was charged, and the sums that stand after it."""

    account: str
    seq: int
    kind: EntryKind
    job: str | None = None
    window: Window | None = None
    charged_at: datetime
    charge: int = 0
    spent: int
    job_spent: int = 0
    event: dict[str, Any] | None = None
    body: dict[str, Any]
    previous: str
    hash: str = ""


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
    def spent(self) -> int:
        """What all charges add up to, in whole units."""
        return self.entries[-1].spent

    @property
    def stopped_jobs(self) -> frozenset[str]:
        """The jobs whose last window the budget refused."""
        last = {entry.job: entry.kind for entry in self.entries if entry.job is not None}
        return frozenset(job for job, kind in last.items() if kind == "refusal")

    @property
    def stopped(self) -> bool:
        """Whether the budget has stopped every job that it ever paid for."""
        seen = {entry.job for entry in self.entries if entry.job is not None}
        return bool(seen) and self.stopped_jobs == seen


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
