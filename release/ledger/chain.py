"""Canonical JSON, and the hash that ties an entry to all before it."""

from __future__ import annotations

import hashlib
import json
from datetime import UTC, datetime
from typing import Any

from release.ledger.records import Entry

GENESIS = "0" * 64


def canonical(document: Any) -> str:
    """The one text of a JSON document: sorted keys, no white space, no NaN or infinity."""
    return json.dumps(
        document, sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False
    )


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
