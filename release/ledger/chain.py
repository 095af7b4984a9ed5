"""Canonical JSON, and the hash that ties an entry to all before it."""

from __future__ import annotations

import hashlib
import json
from datetime import UTC, datetime
from functools import lru_cache
from itertools import product
from json.encoder import encode_basestring as quoted
from types import NoneType
from typing import Any, NamedTuple, cast

from release.ledger.records import Entry

GENESIS = "0" * 64

_encode = json.JSONEncoder(
    sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False
).encode


def canonical(document: Any) -> str:
    """The one text of a JSON document: sorted keys, no white space, no NaN or infinity."""
    return _encode(document)


def digest(text: str) -> str:
    """SHA-256 of a text in UTF-8, in hexadecimal."""
    return hashlib.sha256(text.encode()).hexdigest()


def instant(moment: datetime) -> str:
    """A moment as the ledger writes it: RFC 3339 in UTC, to the microsecond."""
    return moment.astimezone(UTC).isoformat(timespec="microseconds").replace("+00:00", "Z")


def moment(text: str) -> datetime:
    """The moment that ``instant`` wrote."""
    return datetime.fromisoformat(text)


def window_document(entry: Entry) -> dict[str, str] | None:
    """The window that an entry settled, as it is hashed and published."""
    if entry.window is None or entry.start is None or entry.end is None:
        return None
    return {
        "kind": entry.window.kind,
        "first": entry.window.first.isoformat(),
        "after": entry.window.after.isoformat(),
        "zone": entry.window.zone,
        "start": instant(entry.start),
        "end": instant(entry.end),
    }


def sealed(entry: Entry) -> dict[str, Any]:
    """Everything that an entry says, its predecessor's hash included."""
    return {
        "account": entry.account,
        "seq": entry.seq,
        "kind": entry.kind,
        "job": entry.job,
        "window": window_document(entry),
        "charged_at": instant(entry.charged_at),
        "charge": entry.charge.units,
        "spent": entry.spent.units,
        "delta_charge": entry.charge.delta0,
        "delta_spent": entry.spent.delta0,
        "job_spent": entry.job_spent,
        "event": entry.event,
        "sums": entry.sums.to_json(),
        "body": entry.body,
        "previous": entry.previous,
    }


def entry_hash(entry: Entry) -> str:
    """SHA-256 over everything that an entry says."""
    return digest(canonical(sealed(entry)))


Settles = tuple[str | None, str | None, str | None, str | None]
"""A job, and the kind, the first date and the date after of a window of it."""
WindowTexts = tuple[str, str, str, str, str, str]
"""A window's kind, first date, date after, zone, start and end."""


class Line(NamedTuple):
    """One entry as its row holds it, column by column: nothing is read yet, nor believed."""

    account: str
    seq: int
    kind: str
    job: str | None
    window_kind: str | None
    window_first: str | None
    window_after: str | None
    window_zone: str | None
    window_start: str | None
    window_end: str | None
    charged_at: str
    charge: int
    spent: int
    delta_charge: int
    delta_spent: int
    job_spent: int
    event: str | None
    sums: str
    body: str
    previous: str
    hash: str

    @property
    def settles(self) -> Settles:
        """Which window of which job it is about."""
        return self.job, self.window_kind, self.window_first, self.window_after

    @property
    def window(self) -> WindowTexts | None:
        """The window's kind, first date, date after, zone, start and end."""
        found = self[4:10]
        return None if None in found else cast(WindowTexts, found)


class Content(NamedTuple):
    """One stored result as its row holds it, without the account."""

    seq: int
    job: str | None
    window_kind: str | None
    window_first: str | None
    window_after: str | None
    content: str

    @property
    def settles(self) -> Settles:
        """Which window of which job it is the result of."""
        return self.job, self.window_kind, self.window_first, self.window_after


# With and without a job, a window and an event; a window is there as a whole or not at all.
SHAPES = frozenset(
    (*(str, int, str, job), *[window] * 6, str, *[int] * 5, event, *[str] * 4)
    for job, window, event in product((str, NoneType), repeat=3)
)


def line_hash(line: Line, seq: int) -> str | None:
    """The hash that the row would have as entry ``seq``; None where it is no entry's row.

    It is the same as ``entry_hash`` of what the row says, and needs no JSON to be read: the
    ledger writes canonical texts, and these are put together as they stand. So whoever trusts
    this must see that ``event``, ``sums`` and ``body`` are each one canonical document.
    """
    return row_hash(line, seq) if tuple(map(type, line)) in SHAPES else None


def row_hash(line: Line, seq: int) -> str:
    """The same, of a row whose columns are of the types that they should be."""
    event = "null" if line.event is None else line.event
    job = "null" if line.job is None else quoted(line.job)
    return digest(
        f'{{"account":{quoted(line.account)},"body":{line.body},"charge":{line.charge},'
        f'"charged_at":{quoted(line.charged_at)},"delta_charge":{line.delta_charge},'
        f'"delta_spent":{line.delta_spent},"event":{event},'
        f'"job":{job},"job_spent":{line.job_spent},"kind":{quoted(line.kind)},'
        f'"previous":{quoted(line.previous)},"seq":{seq},"spent":{line.spent},'
        f'"sums":{line.sums},"window":{_window_text(line.window)}}}'
    )


@lru_cache(maxsize=4096)  # many jobs settle one window
def _window_text(window: WindowTexts | None) -> str:
    if window is None:
        return "null"
    kind, first, after, zone, start, end = map(quoted, window)
    return (
        f'{{"after":{after},"end":{end},"first":{first},"kind":{kind},'
        f'"start":{start},"zone":{zone}}}'
    )
