"""The questions asked of the tables.

Each statement is built once: building one costs as much time as asking it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import closing
from dataclasses import dataclass, field, replace
from operator import itemgetter
from typing import Any

from sqlalchemy import (
    ColumnElement,
    Connection,
    Select,
    bindparam,
    func,
    literal_column,
    select,
    union,
    union_all,
)
from sqlalchemy.exc import NoResultFound

from release.accounting import Event, composed
from release.errors import LedgerError
from release.ledger import schema
from release.ledger.chain import GENESIS, Line, digest, entry_hash, line_hash
from release.ledger.kinds import Released
from release.ledger.records import (
    DECISIONS,
    About,
    Account,
    Entry,
    EntryKind,
    Release,
    Terms,
    corrected,
)
from release.ledger.records import halted as halted_by
from release.ledger.rows import entry_of, terms_of
from release.specs import Job, Key
from release.windows import Window

_accounts, _entries, _releases = schema.accounts.c, schema.entries.c, schema.releases.c
_of_account = _entries.account == bindparam("account")
_of_job = _of_account & (_entries.job == bindparam("job"))
_last_seq = select(func.max(_entries.seq)).where(_of_account).scalar_subquery()

NAMES = union(select(_accounts.account), select(_entries.account), select(_releases.account))
KEYLESS = select(_entries.account).where(
    _entries.seq == 1, _entries.account.not_in(select(_accounts.account))
)
KEY = select(_accounts.sampling_key).where(_accounts.account == bindparam("account"))
# SQLite has no locks of rows: there the transaction holds the whole file already.
KEY_UNDER_LOCK = KEY.with_for_update()
RECORD = select(schema.entries).where(_of_account).order_by(_entries.seq)
ONE = select(schema.entries).where(_of_account, _entries.seq == bindparam("seq"))
WITH_HASH = select(_entries.seq).where(_of_account, _entries.hash == bindparam("hash"))


def _of_kinds(*kinds: EntryKind) -> Select[Any]:
    """The entries of an account of some kinds. By their numbers, which an index of kinds gives:
    asked for both at once, SQLite walks through the whole account. The kinds, which are words of
    our own, stand in the statement: PostgreSQL, which has to plan it, knows then that there are
    few."""
    named: list[ColumnElement[str]] = [literal_column(f"'{kind}'") for kind in kinds]
    numbered = select(_entries.seq).where(_of_account, _entries.kind.in_(named))
    return RECORD.where(_entries.seq.in_(numbered))


AMENDMENTS = _of_kinds("amend")
REMEMBERED = _of_kinds("history")
DECIDED = _of_kinds(*DECISIONS)
CHARGED = RECORD.where(_entries.event.is_not(None))
_of_job_numbered = select(_entries.seq).where(_of_job)
SETTLED = select(schema.entries).where(
    _of_account, _entries.seq.in_(_of_job_numbered), _entries.window_kind.is_not(None)
)
JOBS = select(_entries.job).where(_of_account, _entries.window_kind.is_not(None)).distinct()
# A job's sum never falls, so the greatest is the last. (Asked for the last by its number, SQLite
# walks the account backwards until it meets the job.)
JOB_SPENT = select(func.max(_entries.job_spent)).where(_of_job)
_last_said = (
    select(func.max(_entries.seq)).where(_of_account, _entries.kind == "project").scalar_subquery()
)
SAID = select(_entries.body).where(_of_account, _entries.seq == _last_said)
OPENINGS = select(schema.entries).where(
    _entries.seq == 1, _entries.account.in_(select(_accounts.account))
)
_last = select(schema.entries).where(_of_account, _entries.seq == _last_seq)
_settlement = select(schema.entries).where(
    _of_job,
    _entries.window_kind == bindparam("kind"),
    _entries.window_first == bindparam("first"),
    _entries.window_after == bindparam("after"),
)
_greatest_of_job = (
    select(_entries.seq).where(_of_job).order_by(_entries.job_spent.desc()).limit(1)
).scalar_subquery()
_last_of_job = select(schema.entries).where(_of_account, _entries.seq == _greatest_of_job)
# All that a charge depends on, asked for in one go: each question is a way to a server and back.
STANDING = union_all(OPENINGS, _last, DECIDED.order_by(None), _settlement, _last_of_job)
CONTENTS = select(_releases.seq, _releases.content).where(
    _releases.account == bindparam("account")
)
_last_release = (
    select(func.max(_releases.seq))
    .where(_releases.account == bindparam("account"), _releases.job == bindparam("job"))
    .scalar_subquery()
)
RELEASED = (
    select(_releases.seq, _releases.content, _entries.body)
    .join_from(
        schema.releases,
        schema.entries,
        (_entries.account == _releases.account) & (_entries.seq == _releases.seq),
    )
    .where(_releases.account == bindparam("account"), _releases.job == bindparam("job"))
    .order_by(_releases.seq.desc())
    .execution_options(yield_per=1)  # most often the first is all that is needed
)
LAST_CONTENT = select(_releases.content).where(
    _releases.account == bindparam("account"), _releases.seq == _last_release
)


@dataclass(frozen=True)
class Head:
    """An account as its last entry leaves it."""

    terms: Terms
    sampling_key: str
    last: Entry
    halted: Mapping[str, Entry]
    """The jobs that are paused or retired, by name, each with the entry that says so."""
    heir: str | None
    """The account that has taken over this one's spend, if one has."""
    settlement: Entry | None = None
    """The entry that released or refused the window that was asked about, if one has."""
    of_job: Mapping[str, int] = field(default_factory=dict)
    """What the job that was asked about has spent, in whole units."""


Asked = tuple[str, Window]
"""A job, and a window of it."""


def names(connection: Connection) -> list[str]:
    """Every account, also one of which only entries or results are left."""
    return sorted(connection.scalars(NAMES))


def keyless(connection: Connection) -> list[str]:
    """The accounts that have lost their row in the table of accounts, by name."""
    return sorted(connection.scalars(KEYLESS))


def head(
    connection: Connection, account: str, asked: Asked | None = None, *, lock: bool = False
) -> Head | None:
    """The account as its last entry leaves it, or None, and how one of its windows stands.

    With ``lock`` no other transaction writes to the account until this one has ended.
    """
    of_account = {"account": account}
    key = connection.scalar(KEY_UNDER_LOCK if lock else KEY, of_account)
    if key is None:
        return None
    rows = connection.execute(STANDING, {**of_account, **_sought(asked)}).mappings().all()
    own = sorted((row for row in rows if row["account"] == account), key=itemgetter("seq"))
    if not own or own[0]["seq"] != 1:
        raise NoResultFound
    # The filter believes the last entry's sums, and the first one's cap.
    opening, last = own[0], _intact(entry_of(own[-1]))
    if line_hash(Line(**opening), 1) != opening["hash"]:
        raise _edited(account, 1)
    decided = [entry_of(row) for row in own if row["kind"] in DECISIONS]
    found = Head(
        terms=terms_of(account, opening["body"]),
        sampling_key=key,
        last=last,
        halted=halted_by(decided),
        heir=_heir(account, (row for row in rows if row["seq"] == 1 and row is not opening)),
    )
    return found if asked is None else _asked(found, own, *asked)


def _asked(head: Head, rows: Iterable[Mapping[Any, Any]], job: str, window: Window) -> Head:
    of_job = [row for row in rows if row["job"] == job]
    dates = (window.kind, window.first.isoformat(), window.after.isoformat())
    settled = (
        entry_of(row)
        for row in of_job
        if (row["window_kind"], row["window_first"], row["window_after"]) == dates
    )
    spent = max((row["job_spent"] for row in of_job), default=0)
    return replace(head, settlement=next(settled, None), of_job={job: spent})


def _sought(asked: Asked | None) -> dict[str, str | None]:
    if asked is None:
        return dict.fromkeys(("job", "kind", "first", "after"))
    job, window = asked
    dates = {"first": window.first.isoformat(), "after": window.after.isoformat()}
    return {"job": job, "kind": window.kind, **dates}


def entry(connection: Connection, account: str, seq: int) -> Entry | None:
    """One entry, or None."""
    row = connection.execute(ONE, {"account": account, "seq": seq}).mappings().one_or_none()
    return None if row is None else entry_of(row)


def holds(connection: Connection, account: str, hash_: str) -> bool:
    """Whether an entry of the account has this hash."""
    found = connection.scalar(WITH_HASH, {"account": account, "hash": hash_})
    return found is not None


def amendments(connection: Connection, account: str, seq: int) -> list[Entry]:
    """Every correction of one entry, in their order."""
    found = connection.execute(AMENDMENTS, {"account": account}).mappings()
    return [one for one in map(entry_of, found) if one.amends == seq]


def remembered(connection: Connection, account: str) -> list[Entry]:
    """What was charged as spent before the ledger kept count."""
    found = connection.execute(REMEMBERED, {"account": account}).mappings()
    return [entry_of(row) for row in found]


def settled(connection: Connection, account: str, job: str) -> dict[Window, EntryKind]:
    """The windows of a job that are released or refused."""
    rows = connection.execute(SETTLED, {"account": account, "job": job}).mappings()
    return {one.window: one.kind for one in map(entry_of, rows) if one.window is not None}


def halted(connection: Connection, account: str) -> dict[str, Entry]:
    """The jobs that are paused or retired, by name, each with the entry that says so."""
    rows = connection.execute(DECIDED, {"account": account}).mappings()
    return halted_by(map(entry_of, rows))


def job_names(connection: Connection, account: str) -> list[str]:
    """The jobs that the account has released or refused, by name."""
    return sorted(connection.scalars(JOBS, {"account": account}))


def job_spent(connection: Connection, account: str, job: str) -> int:
    """What one job's charges add up to, in whole units."""
    return connection.scalar(JOB_SPENT, {"account": account, "job": job}) or 0


def openings(connection: Connection) -> list[tuple[str, Terms]]:
    """Every account with the terms that it was opened with."""
    found = connection.execute(OPENINGS).mappings()
    return [(row["account"], terms_of(row["account"], row["body"])) for row in found]


def replacement(connection: Connection, account: str) -> str | None:
    """The account that took over this one's spend, if one has."""
    return _heir(account, connection.execute(OPENINGS).mappings())


def _heir(account: str, openings: Iterable[Mapping[Any, Any]]) -> str | None:
    opened = ((row["account"], terms_of(row["account"], row["body"])) for row in openings)
    return next((name for name, terms in opened if terms.replaces == account), None)


def events(connection: Connection, account: str) -> Event | None:
    """Everything that was charged to an account, as one event; None if nothing was."""
    charged = connection.execute(CHARGED, {"account": account}).mappings()
    return composed(corrected(map(entry_of, charged)).values())


def last_job(connection: Connection, account: str, job: str) -> Job | None:
    """The job as it was when it released last."""
    content = connection.scalar(LAST_CONTENT, {"account": account, "job": job})
    return None if content is None else Release.model_validate_json(content).job


def published_groups(connection: Connection, account: str, job: Job) -> frozenset[Key]:
    """Every group, by the columns that the job names, that it has released before.

    Asked for those, a release has all from before it: the rest is looked at no further.
    """
    found: set[Key] = set()
    of_job = {"account": account, "job": job.name}
    with closing(connection.execute(RELEASED, of_job)) as contents:
        for seq, content, body in contents:
            if Released.model_validate_json(body).release_sha256 != digest(content):
                raise _result_edited(account, seq)
            release = Release.model_validate_json(content)
            asked = release.job.statistic
            if asked.by != job.statistic.by:
                break
            found.update(release.groups)
            if asked.discovers == "discover-new":
                break
    return frozenset(found)


def about(connection: Connection, account: str) -> About:
    """What pages say of the account now."""
    said = connection.execute(SAID, {"account": account})
    return About.model_validate_json(said.scalar_one())


def account(connection: Connection, name: str) -> Account:
    """The account with its whole record; raises LedgerError where it is not one chain."""
    of_account = {"account": name}
    rows = connection.execute(RECORD, of_account).mappings()
    record = tuple(_chained(map(entry_of, rows)))
    if not record:
        raise LedgerError(
            f"account {name!r} has lost its entries",
            hint="`dp-release ledger verify` names everything that is wrong.",
        )
    contents = dict(map(tuple, connection.execute(CONTENTS, of_account)))
    for entry in record:
        if entry.kind == "release" and _digest(contents, entry) != entry.body["release_sha256"]:
            raise _result_edited(name, entry.seq)
    return Account(
        terms=Terms.model_validate(record[0].body),
        about=about(connection, name),
        opened_at=record[0].charged_at,
        entries=record,
        releases={seq: Release.model_validate_json(content) for seq, content in contents.items()},
    )


def _digest(contents: Mapping[int, str], entry: Entry) -> str | None:
    content = contents.get(entry.seq)
    return None if content is None else digest(content)


def _intact(entry: Entry) -> Entry:
    if entry.hash != entry_hash(entry):
        raise _edited(entry.account, entry.seq)
    return entry


def _result_edited(account: str, seq: int) -> LedgerError:
    return LedgerError(
        f"the result of entry {seq} of account {account!r} was edited or is missing",
        hint="`dp-release ledger verify` names everything that is wrong.",
    )


def _edited(account: str, seq: int) -> LedgerError:
    return LedgerError(
        f"entry {seq} of account {account!r} was edited after it was written",
        hint="`dp-release ledger verify` names everything that is wrong. Nothing was charged.",
    )


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
