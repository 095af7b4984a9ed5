"""The record checked anew: what must hold of every account, derived from its rows alone.

Each invariant stands in the database as a constraint or a trigger too; this is for a ledger
whose triggers somebody removed. The hash chain finds what was changed afterwards, the sums and
the filter find what should never have been written.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any

from pydantic import ValidationError

from release.accounting import (
    AccountingError,
    Budget,
    Charge,
    Event,
    Spend,
    event_from_json,
)
from release.ledger.chain import GENESIS, digest, entry_hash
from release.ledger.records import NOTHING, About, Entry, Release, Terms
from release.mechanisms import GaussianMechanism


@dataclass(frozen=True)
class Finding:
    """Something that is wrong with one entry of one account."""

    account: str
    seq: int
    what: str


@dataclass
class _Walk:
    """What the entries so far say, and so what the next one must."""

    terms: Terms
    last: Entry | None = None
    spent_of: dict[str, int] = field(default_factory=dict)
    settled: set[tuple[str, str, str]] = field(default_factory=set)
    contents: Mapping[int, str] = field(default_factory=dict)


def findings(entries: Sequence[Entry], contents: Mapping[int, str]) -> Iterator[Finding]:
    """Everything that is wrong with one account's record, in its order.

    ``contents`` holds the stored results as text, by the number of the entry that paid for each.
    """
    account = entries[0].account
    try:
        walk = _Walk(Terms.model_validate(entries[0].body), contents=contents)
    except ValidationError:
        yield Finding(account, entries[0].seq, "does not open the account")
        return
    for entry in entries:
        for check in CHECKS:
            yield from (Finding(account, entry.seq, what) for what in check(walk, entry))
        _step(walk, entry)
    paid = {entry.seq for entry in entries if entry.kind == "release"}
    for seq in sorted(contents.keys() - paid):
        yield Finding(account, seq, "there is a result without its charge")


def _step(walk: _Walk, entry: Entry) -> None:
    walk.last = entry
    if entry.job is not None:
        walk.spent_of[entry.job] = entry.job_spent
    if entry.job is not None and entry.window is not None:
        walk.settled.add((entry.job, entry.window.kind, entry.window.name))


def _follows(walk: _Walk, entry: Entry) -> Iterator[str]:
    expected = walk.last.seq + 1 if walk.last else 1
    if entry.seq != expected:
        yield f"entry {expected} should stand here: it is missing, or entries changed places"
    elif entry.previous != (walk.last.hash if walk.last else GENESIS):
        yield "does not follow from the entry before it: one was exchanged, inserted or edited"


def _sealed(walk: _Walk, entry: Entry) -> Iterator[str]:
    del walk
    if entry.hash != entry_hash(entry):
        yield "was edited after it was written"


def _opens(walk: _Walk, entry: Entry) -> Iterator[str]:
    if (entry.kind == "open") != (walk.last is None):
        yield "an account is opened by its first entry, once"
    if entry.kind != "open":
        return
    terms = walk.terms
    try:
        budget = Budget.open(terms.accountant, terms.epsilon, terms.delta, terms.threshold_share)
    except AccountingError:
        budget = None
    if terms.account != entry.account or budget != terms.budget:
        yield "the cap is not what epsilon, delta and the accountant allow"


def _adds_up(walk: _Walk, entry: Entry) -> Iterator[str]:
    before = walk.last.spent if walk.last else NOTHING
    charge = entry.charge
    if entry.spent != Charge(before.units + charge.units, before.delta0 + charge.delta0):
        yield "spent is not the sum of the charges"
    of_job = walk.spent_of.get(entry.job, 0) + charge.units if entry.job else 0
    if entry.job_spent != of_job:
        yield "job_spent is not the sum of the job's charges"


def _charged(walk: _Walk, entry: Entry) -> Iterator[str]:
    event = _event(entry)
    charges = entry.kind in {"release", "record"}
    if (entry.event is not None) != charges or (event is not None) != charges:
        yield "what it is charged for is missing, unreadable or should not be there"
        return
    before = walk.last.sums if walk.last else Spend()
    expected = before
    if event is not None:
        expected = before.plus(event, charged=walk.terms.rho_of(entry.charge))
        yield from _costs(walk, entry, event)
    elif entry.charge != NOTHING:
        yield "is charged for nothing"
    if entry.sums != expected:
        yield "the odometer's sums do not follow from the event"


def _costs(walk: _Walk, entry: Entry, event: Event) -> Iterator[str]:
    before = walk.last.spent if walk.last else NOTHING
    try:
        cost = walk.terms.budget.charge(event)
        admitted = walk.terms.budget.admits(before, entry.charge)
    except AccountingError:
        yield "its event or its charge is none that the account could take"
        return
    if entry.charge.units < cost.units or entry.charge.delta0 < cost.delta0:
        yield "is charged less than its event costs"
    if not admitted:
        yield "should have been refused: the budget did not allow it"


def _settles_once(walk: _Walk, entry: Entry) -> Iterator[str]:
    settles = entry.kind in {"release", "refusal"}
    if (entry.job is not None) != settles or (entry.window is not None) != settles:
        yield "its job or window is missing, or should not be there"
    if entry.job is None or entry.window is None or entry.start is None or entry.end is None:
        return
    # Zone databases are corrected by hours, so the stored instants need not be today's.
    moved = max(abs(entry.start - entry.window.start), abs(entry.end - entry.window.end))
    if not entry.start < entry.end or moved > timedelta(days=1):
        yield "its window does not begin or end on its dates"
    if (entry.job, entry.window.kind, entry.window.name) in walk.settled:
        yield "settles a window that was settled before"


def _says(walk: _Walk, entry: Entry) -> Iterator[str]:
    del walk
    body = entry.body
    match entry.kind:
        case "project":
            good = _is_about(body)
        case "release":
            good = body.keys() == {"release_sha256"}
        case "refusal":
            good = body.keys() == {"title", "refused_charge", "stopped_by"}
            good = good and body["stopped_by"] in {"account", "share"}
        case "record":
            good = body.keys() == {"reason"} and isinstance(body["reason"], str)
        case _:
            good = True
    if not good:
        yield f"does not say what a {entry.kind} must"


def _is_about(body: dict[str, Any]) -> bool:
    try:
        About.model_validate(body)
    except ValidationError:
        return False
    return True


def _paid_for(walk: _Walk, entry: Entry) -> Iterator[str]:
    if entry.kind != "release":
        return
    text = walk.contents.get(entry.seq)
    if text is None:
        yield "there is a charge without its result"
        return
    if digest(text) != entry.body.get("release_sha256"):
        yield "its published result was edited"
        return
    try:
        content = Release.model_validate_json(text)
    except ValidationError:
        yield "its published result cannot be read"
        return
    mechanism = GaussianMechanism(content.mechanism.sensitivity, content.mechanism.sigma)
    if content.job.name != entry.job or mechanism.event.to_json() != entry.event:
        yield "its published result is not what the event describes"


def _event(entry: Entry) -> Event | None:
    if entry.event is None:
        return None
    try:
        return event_from_json(entry.event)
    except AccountingError:
        return None


CHECKS: tuple[Callable[[_Walk, Entry], Iterator[str]], ...] = (
    _follows,
    _sealed,
    _opens,
    _adds_up,
    _charged,
    _settles_once,
    _says,
    _paid_for,
)
