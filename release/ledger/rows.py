"""Entries to rows and back, and the entries that follow from one another."""

from __future__ import annotations

import json
from collections.abc import Generator, Iterable, Mapping
from dataclasses import replace
from datetime import date, datetime
from functools import lru_cache
from typing import Any, TypeVar, cast

from pydantic import ValidationError
from sqlalchemy import Connection, Table, func, insert, select

from release.accounting import Charge, Event, Spend
from release.errors import LedgerError
from release.ledger import schema
from release.ledger.chain import (
    GENESIS,
    Content,
    Line,
    canonical,
    instant,
    moment,
    row_hash,
    window_document,
)
from release.ledger.records import (
    About,
    Entry,
    EntryKind,
    Record,
    Terms,
)
from release.windows import Window

INSERT_ENTRY, INSERT_RELEASE = insert(schema.entries), insert(schema.releases)
BATCH = 50
Form = TypeVar("Form", Line, Content)
WINDOW_COLUMNS = ("kind", "first", "after", "zone", "start", "end")


def record(
    connection: Connection, account: str
) -> tuple[Generator[Line, None, None], Generator[Content, None, None]]:
    """An account's entries and its stored results as their rows are, each in order, streamed."""
    return (
        _streamed(connection, schema.entries, Line, account),
        _streamed(connection, schema.releases, Content, account),
    )


def _streamed(
    connection: Connection, table: Table, form: type[Form], account: str
) -> Generator[Form, None, None]:
    wanted = select(*(table.c[name] for name in form._fields)).where(table.c.account == account)
    query = wanted.order_by(table.c.seq).execution_options(yield_per=BATCH)
    # A cursor of the server's is closed also where the rows are not read to the end.
    with connection.execute(query) as found:
        for rows in found.partitions():
            yield from map(form._make, rows)


def count(connection: Connection) -> int:
    """How many entries there are, of all accounts."""
    return connection.scalar(select(func.count()).select_from(schema.entries)) or 0


def line_of(entry: Entry) -> Line:
    """An entry as its row is."""
    return Line(**columns(entry))


@lru_cache(maxsize=16)
def terms_of(account: str, body: str) -> Terms:
    """The terms in the entry that opened an account; raises LedgerError where there are none."""
    try:
        return Terms.model_validate_json(body)
    except ValidationError:
        raise _unreadable(account, 1) from None


def opening(terms: Terms, now: datetime) -> Entry:
    """The entry that opens an account."""
    return Entry(
        account=terms.account,
        seq=1,
        kind="open",
        charged_at=now,
        spent=Charge(0),
        sums=Spend(),
        body=terms.model_dump(mode="json"),
        previous=GENESIS,
    )


def following(last: Entry, kind: EntryKind, now: datetime, body: Record) -> Entry:
    """The entry that follows, with nothing charged in it yet; its time never goes back."""
    return Entry(
        account=last.account,
        seq=last.seq + 1,
        kind=kind,
        charged_at=max(now, last.charged_at),
        spent=last.spent,
        sums=last.sums,
        body=body.model_dump(mode="json"),
        previous=last.hash,
    )


def settling(entry: Entry, window: Window) -> Entry:
    """The entry as one about a window of its job."""
    return replace(entry, window=window, start=window.start, end=window.end)


def charging(entry: Entry, charge: Charge, event: Event, sums: Spend) -> Entry:
    """The entry with a charge in it, and the odometer's sums that it leaves."""
    return replace(
        entry,
        charge=charge,
        spent=entry.spent.plus(charge),
        job_spent=entry.job_spent + charge.units if entry.job else 0,
        event=event.to_json(),
        sums=sums,
    )


def description(last: Entry, about: About, now: datetime) -> Entry:
    """The entry that changes what pages say."""
    return following(last, "project", now, about)


def append(connection: Connection, entry: Entry, content: str | None = None) -> Entry:
    """Writes an entry, sealed with its hash, and what it paid for where it is a release."""
    row = columns(entry)
    row["hash"] = row_hash(Line(**row), entry.seq)
    connection.execute(INSERT_ENTRY, row)
    if content is not None:
        kept = {name: row[name] for name in ("seq", *schema.WINDOW)}
        connection.execute(INSERT_RELEASE, {**kept, "content": content})
    return replace(entry, hash=row["hash"])


def restore(
    connection: Connection, account: str, lines: Iterable[Line], contents: Iterable[Content]
) -> None:
    """Writes verified rows of another ledger as they are."""
    for line in lines:
        connection.execute(INSERT_ENTRY, line._asdict())
    for content in contents:
        connection.execute(INSERT_RELEASE, {"account": account, **content._asdict()})


def columns(entry: Entry) -> dict[str, Any]:
    """An entry as a row."""
    window = window_document(entry) or {}
    return {
        "account": entry.account,
        "seq": entry.seq,
        "kind": entry.kind,
        "job": entry.job,
        **{f"window_{name}": window.get(name) for name in WINDOW_COLUMNS},
        "charged_at": instant(entry.charged_at),
        "charge": entry.charge.units,
        "spent": entry.spent.units,
        "delta_charge": entry.charge.delta0,
        "delta_spent": entry.spent.delta0,
        "job_spent": entry.job_spent,
        "event": None if entry.event is None else canonical(entry.event),
        "sums": canonical(entry.sums.to_json()),
        "body": canonical(entry.body),
        "previous": entry.previous,
        "hash": entry.hash,
    }


def entry_of(row: Mapping[Any, Any]) -> Entry:
    """A row as an entry; raises LedgerError where the row is none."""
    try:
        return _entry(row)
    except (ValueError, KeyError, TypeError):
        raise _unreadable(row["account"], row["seq"]) from None


def _unreadable(account: str, seq: int) -> LedgerError:
    return LedgerError(
        f"entry {seq} of account {account!r} cannot be read",
        hint="`dp-release ledger verify` names everything that is wrong.",
    )


def _entry(row: Mapping[Any, Any]) -> Entry:
    window = start = end = None
    if any(row[f"window_{name}"] is not None for name in WINDOW_COLUMNS):
        first = date.fromisoformat(row["window_first"])
        window = Window(row["window_kind"], first, row["window_zone"])
        start, end = moment(row["window_start"]), moment(row["window_end"])
        if window.after.isoformat() != row["window_after"] or not window.start < window.end:
            raise ValueError("the window does not end where it should")
    return Entry(
        account=row["account"],
        seq=row["seq"],
        kind=cast(EntryKind, row["kind"]),
        job=row["job"],
        window=window,
        start=start,
        end=end,
        charged_at=moment(row["charged_at"]),
        charge=Charge(row["charge"], row["delta_charge"]),
        spent=Charge(row["spent"], row["delta_spent"]),
        job_spent=row["job_spent"],
        event=None if row["event"] is None else _object(row["event"]),
        sums=Spend.from_json(_object(row["sums"])),
        body=_object(row["body"]),
        previous=row["previous"],
        hash=row["hash"],
    )


def _object(text: str) -> dict[str, Any]:
    document = json.loads(text)
    if not isinstance(document, dict):
        raise ValueError("not a JSON object")  # noqa: TRY004 - a fault of the row, not of a type
    return document
