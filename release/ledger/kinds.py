"""The closed list of what an entry can be: what each kind says, charges and is about.

The database's constraints, the writer and the check of the whole record are all made from this
one list. A kind's body never changes its meaning; what would, is a new kind or a new format.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import date
from decimal import Decimal
from typing import Annotated, Literal

from pydantic import Field

from release.ledger.records import About, EntryKind, Halt, Record, Software, Terms

Text = Annotated[str, Field(min_length=1)]
Stop = Literal["account", "share"]
"""What refused a charge: the account's budget, or the job's share of it."""


class Released(Record):
    """The published result, held fast by its hash; it is stored beside the entry."""

    release_sha256: Annotated[str, Field(pattern="^[0-9a-f]{64}$")]


class Refused(Record):
    """The charge that did not fit, and which budget it did not fit."""

    title: str
    refused_charge: int
    stopped_by: Stop


class Recorded(Record):
    """What was done elsewhere on the same people's data."""

    reason: str


class History(Record):
    """What was spent before this ledger kept count, and when."""

    format: Literal[1] = 1
    date: date
    description: Text


class Amendment(Record):
    """Which charge was found too low, and why; the entry's event is what it should have been."""

    format: Literal[1] = 1
    amends: Annotated[int, Field(gt=0)]
    reason: Text


class Notice(Record):
    """What readers should know: a notice, or an erratum."""

    format: Literal[1] = 1
    text: Text


class Decision(Record):
    """Why a job was paused, resumed or retired."""

    format: Literal[1] = 1
    reason: Text


class Audit(Record):
    """A lower bound on ε at δ that an attack on the job itself has measured."""

    format: Literal[1] = 1
    software: Software
    claimed_epsilon: Decimal
    measured_epsilon: Decimal
    delta: Decimal
    confidence: Decimal
    trials: Annotated[int, Field(gt=0)]


Subject = Literal["account", "job", "either", "window"]
"""What an entry is about: no job, a job, a job or none, or one window of a job."""


@dataclass(frozen=True)
class Kind:
    """What holds for every entry of one kind."""

    body: type[Record]
    subject: Subject
    spends: bool = False
    """Whether it charges something, for an event."""


KINDS: Mapping[EntryKind, Kind] = {
    "open": Kind(Terms, "account"),
    "project": Kind(About, "account"),
    "release": Kind(Released, "window", spends=True),
    "refusal": Kind(Refused, "window"),
    "record": Kind(Recorded, "account", spends=True),
    "history": Kind(History, "account", spends=True),
    "amend": Kind(Amendment, "either", spends=True),
    "notice": Kind(Notice, "either"),
    "pause": Kind(Decision, "job"),
    "resume": Kind(Decision, "job"),
    "retire": Kind(Decision, "job"),
    "audit": Kind(Audit, "job"),
}


MAY_FOLLOW: Mapping[Halt | None, frozenset[EntryKind]] = {
    None: frozenset(["pause", "retire"]),
    "paused": frozenset(["resume", "retire"]),
    "retired": frozenset(),
}
"""Which decisions on a job may follow, by what it is since the last one; None is neither."""


def kinds(*subjects: Subject) -> Iterator[EntryKind]:
    """The kinds that are about one of these."""
    return (name for name, kind in KINDS.items() if kind.subject in subjects)


def spending() -> Iterator[EntryKind]:
    """The kinds that charge."""
    return (name for name, kind in KINDS.items() if kind.spends)
