"""The ledger's tables, and the rules that the database itself enforces.

Amounts are integers in STRICT tables: SQLite would otherwise keep binary floats, and text, in
number columns. Triggers make entries and releases append-only, against mistakes and against
`INSERT OR REPLACE`; whoever may change the schema can remove them, which the hash chain answers.
"""

from __future__ import annotations

from sqlalchemy import (
    CheckConstraint,
    Column,
    ForeignKeyConstraint,
    Index,
    Integer,
    MetaData,
    Table,
    Text,
    UniqueConstraint,
)

FORMAT = 1

metadata = MetaData()

accounts = Table(
    "accounts",
    metadata,
    Column("account", Text, primary_key=True),
    # Keys the choice of groups under `sample`; it is never published.
    Column("sampling_key", Text, nullable=False),
    sqlite_strict=True,
)

entries = Table(
    "entries",
    metadata,
    Column("account", Text, primary_key=True),
    Column("seq", Integer, primary_key=True, autoincrement=False),
    Column("kind", Text, nullable=False),
    Column("job", Text),
    Column("window_kind", Text),
    Column("window_first", Text),
    Column("window_zone", Text),
    Column("window_start", Text),
    Column("window_end", Text),
    Column("charged_at", Text, nullable=False),
    Column("charge", Integer, nullable=False),
    Column("spent", Integer, nullable=False),
    Column("job_spent", Integer, nullable=False),
    Column("event", Text),
    Column("body", Text, nullable=False),
    Column("previous", Text, nullable=False),
    Column("hash", Text, nullable=False, unique=True),
    ForeignKeyConstraint(["account"], ["accounts.account"]),
    CheckConstraint("kind IN ('open', 'project', 'release', 'refusal')", name="known_kind"),
    CheckConstraint(
        "(kind = 'release' AND charge > 0 AND event IS NOT NULL)"
        " OR (kind <> 'release' AND charge = 0 AND event IS NULL)",
        name="spends_charge",
    ),
    CheckConstraint("seq >= 1 AND 0 <= job_spent AND job_spent <= spent", name="sums"),
    CheckConstraint(
        "(kind IN ('release', 'refusal')) = (job IS NOT NULL AND window_start IS NOT NULL)",
        name="windowed",
    ),
    sqlite_strict=True,
    sqlite_with_rowid=False,
)

WINDOW = ("account", "job", "window_kind", "window_start", "window_end")

# A window of a job is settled once: released or refused, and never both.
Index(
    "one_settlement",
    *(entries.c[name] for name in WINDOW),
    unique=True,
    sqlite_where=entries.c.kind.in_(["release", "refusal"]),
)
Index("spends_of_job", entries.c.account, entries.c.job, entries.c.seq)

releases = Table(
    "releases",
    metadata,
    Column("account", Text, primary_key=True),
    Column("seq", Integer, primary_key=True, autoincrement=False),
    *(Column(name, Text, nullable=False) for name in WINDOW[1:]),
    Column("content", Text, nullable=False),
    ForeignKeyConstraint(["account", "seq"], ["entries.account", "entries.seq"]),
    UniqueConstraint(*WINDOW),
    sqlite_strict=True,
    sqlite_with_rowid=False,
)


def _refusal(table: str, action: str) -> str:
    return (
        f"CREATE TRIGGER {table}_no_{action.lower()} BEFORE {action} ON {table} BEGIN "
        f"SELECT RAISE(ABORT, '{table} are append-only'); END"
    )


RUNNING_SUM = """
CREATE TRIGGER entries_running_sum BEFORE INSERT ON entries BEGIN
  SELECT RAISE(ABORT, 'entries are append-only') WHERE EXISTS (
    SELECT 1 FROM entries WHERE account = NEW.account AND seq = NEW.seq);
  SELECT RAISE(ABORT, 'entries follow one another') WHERE NEW.seq <> 1 + COALESCE(
    (SELECT max(seq) FROM entries WHERE account = NEW.account), 0);
  SELECT RAISE(ABORT, 'spent is the sum of the charges') WHERE NEW.spent <> NEW.charge + COALESCE(
    (SELECT spent FROM entries WHERE account = NEW.account ORDER BY seq DESC LIMIT 1), 0);
  SELECT RAISE(ABORT, 'the chain is broken') WHERE NEW.seq > 1 AND NEW.previous <>
    (SELECT hash FROM entries WHERE account = NEW.account ORDER BY seq DESC LIMIT 1);
END
"""
RELEASED_ONCE = """
CREATE TRIGGER releases_once BEFORE INSERT ON releases
WHEN EXISTS (SELECT 1 FROM releases WHERE account = NEW.account AND seq = NEW.seq)
  OR NOT EXISTS (SELECT 1 FROM entries
    WHERE account = NEW.account AND seq = NEW.seq AND kind = 'release')
BEGIN SELECT RAISE(ABORT, 'a release belongs to one entry'); END
"""
OPENED_ONCE = """
CREATE TRIGGER accounts_once BEFORE INSERT ON accounts
WHEN EXISTS (SELECT 1 FROM accounts WHERE account = NEW.account)
BEGIN SELECT RAISE(ABORT, 'accounts are append-only'); END
"""
TRIGGERS = (
    *(_refusal(name, action) for name in metadata.tables for action in ("UPDATE", "DELETE")),
    *(trigger.strip() for trigger in (RUNNING_SUM, RELEASED_ONCE, OPENED_ONCE)),
)
