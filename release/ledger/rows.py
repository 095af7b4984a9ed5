"""Entries to rows and back, and the questions asked of the tables."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from datetime import date, datetime
from typing import Any, cast

from sqlalchemy import Connection, RowMapping, insert, select, union

from release.accounting import Charge, Event, Spend, composed
from release.errors import LedgerError
from release.ledger import schema
from release.ledger.chain import (
    GENESIS,
    canonical,
    entry_hash,
    instant,
    moment,
    window_document,
)
from release.ledger.records import About, Account, Entry, EntryKind, Release, Terms
from release.windows import Window

WINDOW_COLUMNS = ("kind", "first", "after", "zone", "start", "end")


@dataclass(frozen=True)
class Head:
    """An account as its last entry leaves it."""

    terms: Terms
    sampling_key: str
    last: Entry


def names(connection: Connection) -> list[str]:
    """Every account, also one that has lost its row in the table of accounts."""
    accounts, entries = schema.accounts.c.account, schema.entries.c.account
    return sorted(connection.scalars(union(select(accounts), select(entries))))


def record(connection: Connection, account: str) -> tuple[list[Entry], dict[int, str], list[int]]:
    """An account's entries, its stored results as text, and the entries that cannot be read."""
    entries, releases = schema.entries, schema.releases
    chosen = select(entries).where(entries.c.account == account).order_by(entries.c.seq)
    readable: list[Entry] = []
    unreadable: list[int] = []
    for row in connection.execute(chosen).mappings():
        try:
            readable.append(entry_of(row))
        except LedgerError:
            unreadable.append(row["seq"])
    stored = select(releases.c.seq, releases.c.content).where(releases.c.account == account)
    contents = {row.seq: row.content for row in connection.execute(stored)}
    return readable, contents, unreadable


def head(connection: Connection, account: str) -> Head | None:
    """The account as its last entry leaves it, or None."""
    accounts = schema.accounts
    key = connection.scalar(select(accounts.c.sampling_key).where(accounts.c.account == account))
    if key is None:
        return None
    entries = schema.entries
    record = select(entries).where(entries.c.account == account)
    opened = connection.execute(record.where(entries.c.seq == 1)).mappings().one()
    last = connection.execute(record.order_by(entries.c.seq.desc()).limit(1)).mappings().one()
    # The filter believes the last entry's sums, and the first one's cap.
    first, final = _intact(entry_of(opened)), _intact(entry_of(last))
    return Head(Terms.model_validate(first.body), key, final)


def settlement(connection: Connection, account: str, job: str, window: Window) -> Entry | None:
    """The entry that settled a window, or None."""
    entries = schema.entries
    found = connection.execute(
        select(entries).where(
            entries.c.account == account,
            entries.c.job == job,
            entries.c.window_kind == window.kind,
            entries.c.window_first == window.first.isoformat(),
            entries.c.window_after == window.after.isoformat(),
        )
    ).mappings()
    row = found.one_or_none()
    return None if row is None else entry_of(row)


def replacement(connection: Connection, account: str) -> str | None:
    """The account that took over this one's spend, if one has."""
    entries = schema.entries
    opened = select(entries.c.account, entries.c.body).where(entries.c.kind == "open")
    for name, body in connection.execute(opened):
        if _object(body).get("replaces") == account:
            return str(name)
    return None


def job_spent(connection: Connection, account: str, job: str) -> int:
    """What one job's charges add up to, in whole units."""
    entries = schema.entries
    last = (
        select(entries.c.job_spent)
        .where(entries.c.account == account, entries.c.job == job)
        .order_by(entries.c.seq.desc())
        .limit(1)
    )
    return connection.scalar(last) or 0


def events(connection: Connection, account: str) -> Event | None:
    """Everything that was charged to an account, as one event; None if nothing was."""
    column = schema.entries.c.event
    stored = select(column).where(schema.entries.c.account == account, column.is_not(None))
    return composed(json.loads(text) for text in connection.scalars(stored))


def last_content(connection: Connection, account: str, job: str) -> str | None:
    """What a job released last, as text."""
    releases = schema.releases
    last = (
        select(releases.c.content)
        .where(releases.c.account == account, releases.c.job == job)
        .order_by(releases.c.seq.desc())
        .limit(1)
    )
    return connection.scalar(last)


def about(connection: Connection, account: str) -> About:
    """What pages say of the account now."""
    entries = schema.entries
    said = (
        select(entries.c.body)
        .where(entries.c.account == account, entries.c.kind == "project")
        .order_by(entries.c.seq.desc())
        .limit(1)
    )
    return About.model_validate_json(connection.execute(said).scalar_one())


def account(connection: Connection, name: str) -> Account:
    """The account with its whole record."""
    entries, releases = schema.entries, schema.releases
    rows = select(entries).where(entries.c.account == name).order_by(entries.c.seq)
    record = tuple(_chained(entry_of(row) for row in connection.execute(rows).mappings()))
    contents = select(releases.c.seq, releases.c.content).where(releases.c.account == name)
    return Account(
        terms=Terms.model_validate(record[0].body),
        about=about(connection, name),
        opened_at=record[0].charged_at,
        entries=record,
        releases={
            seq: Release.model_validate_json(content)
            for seq, content in connection.execute(contents)
        },
    )


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


def following(last: Entry, kind: EntryKind, now: datetime, body: dict[str, Any]) -> Entry:
    """The entry that follows, with nothing charged in it yet; its time never goes back."""
    return Entry(
        account=last.account,
        seq=last.seq + 1,
        kind=kind,
        charged_at=max(now, last.charged_at),
        spent=last.spent,
        sums=last.sums,
        body=body,
        previous=last.hash,
    )


def settling(entry: Entry, job: str, window: Window, job_spent: int) -> Entry:
    """The entry as one about a window of a job."""
    return replace(
        entry, job=job, window=window, start=window.start, end=window.end, job_spent=job_spent
    )


def charging(entry: Entry, terms: Terms, charge: Charge, event: Event) -> Entry:
    """The entry with a charge in it, which is at least what the event costs."""
    spent = Charge(entry.spent.units + charge.units, entry.spent.delta0 + charge.delta0)
    return replace(
        entry,
        charge=charge,
        spent=spent,
        job_spent=entry.job_spent + charge.units if entry.job else 0,
        event=event.to_json(),
        sums=entry.sums.plus(event, charged=terms.rho_of(charge)),
    )


def description(last: Entry, about: About, now: datetime) -> Entry:
    """The entry that changes what pages say."""
    return following(last, "project", now, about.model_dump(mode="json"))


def append(connection: Connection, entry: Entry) -> Entry:
    """Writes an entry, sealed with its hash."""
    entry = replace(entry, hash=entry_hash(entry))
    connection.execute(insert(schema.entries).values(**columns(entry)))
    return entry


def store(connection: Connection, entry: Entry, content: str) -> None:
    """Writes what a release entry paid for."""
    row = columns(entry)
    where = {name: row[name] for name in schema.WINDOW}
    connection.execute(insert(schema.releases).values(seq=entry.seq, content=content, **where))


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


def entry_of(row: RowMapping) -> Entry:
    """A row as an entry; raises LedgerError where the row is none."""
    try:
        return _entry(row)
    except (ValueError, KeyError, TypeError):
        raise LedgerError(
            f"entry {row['seq']} of account {row['account']!r} cannot be read",
            hint="`dp-release ledger verify` names everything that is wrong.",
        ) from None


def _intact(entry: Entry) -> Entry:
    if entry.hash != entry_hash(entry):
        raise LedgerError(
            f"entry {entry.seq} of account {entry.account!r} was edited after it was written",
            hint="`dp-release ledger verify` names everything that is wrong. Nothing was charged.",
        )
    return entry


def _chained(entries: Iterable[Entry]) -> Iterator[Entry]:
    before = GENESIS
    for entry in entries:
        if entry.previous != before:
            raise LedgerError(
                f"entry {entry.seq} of account {entry.account!r} does not follow the one before",
                hint="`dp-release ledger verify` names everything that is wrong.",
            )
        before = entry.hash
        yield _intact(entry)


def _entry(row: RowMapping) -> Entry:
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
