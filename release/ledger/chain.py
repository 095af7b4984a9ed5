"""Canonical JSON, and the hash that ties an entry to all before it."""

from __future__ import annotations

import hashlib
import json
from datetime import UTC, datetime
from typing import Any

from release.ledger.records import Entry
from release.windows import Window

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


def window_document(window: Window | None) -> dict[str, str] | None:
    """A window as it is hashed and published."""
    if window is None:
        return None
    return {
        "kind": window.kind,
        "first": window.name,
        "zone": window.zone,
        "start": instant(window.start),
        "end": instant(window.end),
    }


def entry_hash(entry: Entry) -> str:
    """SHA-256 over everything that an entry says, its predecessor's hash included."""
    return digest(
        canonical(
            {
                "account": entry.account,
                "seq": entry.seq,
                "kind": entry.kind,
                "job": entry.job,
                "window": window_document(entry.window),
                "charged_at": instant(entry.charged_at),
                "charge": entry.charge,
                "spent": entry.spent,
                "job_spent": entry.job_spent,
                "event": entry.event,
                "body": entry.body,
                "previous": entry.previous,
            }
        )
    )
