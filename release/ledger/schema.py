"""The ledger's tables, and the rules that the database itself enforces.

Amounts are integers in STRICT tables: SQLite would otherwise keep binary floats, and text, in
number columns. Triggers make all tables append-only, against mistakes and against
`INSERT OR REPLACE`, which deletes whatever row is in its way without asking a DELETE trigger:
so an insert that meets a row by any of its keys is refused before. Tables have no row numbers,
which would be one more such key. Whoever may change the schema can remove triggers, which the
hash chain answers.
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

from release.ledger.chain import GENESIS

FORMAT = 1
WINDOW = ("account", "job", "window_kind", "window_first", "window_after")

metadata = MetaData()

accounts = Table(
    "accounts",
    metadata,
    Column("account", Text, primary_key=True),
    # Keys the choice of groups under `sample`; it is never published.
    Column("sampling_key", Text, nullable=False),
    sqlite_strict=True,
    sqlite_with_rowid=False,
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
    Column("window_after", Text),
    Column("window_zone", Text),
    Column("window_start", Text),
    Column("window_end", Text),
    Column("charged_at", Text, nullable=False),
    Column("charge", Integer, nullable=False),
    Column("spent", Integer, nullable=False),
    Column("delta_charge", Integer, nullable=False),
    Column("delta_spent", Integer, nullable=False),
    Column("job_spent", Integer, nullable=False),
    Column("event", Text),
    Column("sums", Text, nullable=False),
    Column("body", Text, nullable=False),
    Column("previous", Text, nullable=False),
    Column("hash", Text, nullable=False, unique=True),
    ForeignKeyConstraint(["account"], ["accounts.account"]),
    CheckConstraint(
        "kind IN ('open', 'project', 'release', 'refusal', 'record')", name="known_kind"
    ),
    CheckConstraint(
        "(kind IN ('release', 'record') AND charge > 0 AND delta_charge >= 0"
        " AND event IS NOT NULL) OR (kind NOT IN ('release', 'record') AND charge = 0"
        " AND delta_charge = 0 AND event IS NULL)",
        name="spends_charge",
    ),
    CheckConstraint("(seq = 1) = (kind = 'open')", name="opened_first"),
    CheckConstraint("seq >= 1 AND 0 <= job_spent AND job_spent <= spent", name="sums"),
    CheckConstraint(
        "CASE WHEN kind IN ('release', 'refusal')"
        " THEN job IS NOT NULL AND window_kind IS NOT NULL AND window_first IS NOT NULL"
        " AND window_zone IS NOT NULL AND COALESCE(window_first < window_after, FALSE)"
        " AND COALESCE(window_start < window_end, FALSE)"
        " ELSE COALESCE(job, window_kind, window_first, window_after, window_zone, window_start,"
        " window_end) IS NULL END",
        name="windowed",
    ),
    # A window of a job is settled once: released or refused, and never both.
    UniqueConstraint(*WINDOW, name="one_settlement"),
    sqlite_strict=True,
    sqlite_with_rowid=False,
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


SETTLES_ALIKE = " AND ".join(f"{name} = NEW.{name}" for name in WINDOW)
LAST = "FROM entries WHERE account = NEW.account ORDER BY seq DESC LIMIT 1"
OPENING = "FROM entries WHERE account = NEW.account AND seq = 1"
LAST_OF_JOB = LAST.replace("ORDER", "AND job = NEW.job ORDER")

ENTRIES_FOLLOW = f"""
CREATE TRIGGER entries_follow BEFORE INSERT ON entries BEGIN
  SELECT RAISE(ABORT, 'entries are append-only') WHERE EXISTS (
    SELECT 1 FROM entries WHERE account = NEW.account AND seq = NEW.seq);
  SELECT RAISE(ABORT, 'a hash stands for one entry') WHERE EXISTS (
    SELECT 1 FROM entries WHERE hash = NEW.hash);
  SELECT RAISE(ABORT, 'a window is settled once') WHERE EXISTS (
    SELECT 1 FROM entries WHERE {SETTLES_ALIKE});
  SELECT RAISE(ABORT, 'entries follow one another') WHERE
    NEW.seq <> 1 + COALESCE((SELECT seq {LAST}), 0);
  SELECT RAISE(ABORT, 'the chain is broken') WHERE
    NEW.previous <> COALESCE((SELECT hash {LAST}), '{GENESIS}');
  SELECT RAISE(ABORT, 'spent is the sum of the charges') WHERE
    NEW.spent <> NEW.charge + COALESCE((SELECT spent {LAST}), 0);
  SELECT RAISE(ABORT, 'delta_spent is the sum of the charges of delta') WHERE
    NEW.delta_spent <> NEW.delta_charge + COALESCE((SELECT delta_spent {LAST}), 0);
  SELECT RAISE(ABORT, 'job_spent is the sum of the charges of the job') WHERE
    NEW.job_spent <> CASE WHEN NEW.job IS NULL THEN 0
      ELSE NEW.charge + COALESCE((SELECT job_spent {LAST_OF_JOB}), 0) END;
  SELECT RAISE(ABORT, 'the budget is spent') WHERE NEW.charge > 0 AND (
    NEW.spent > COALESCE((SELECT json_extract(body, '$.cap') {OPENING}), 0)
    OR NEW.delta_spent > COALESCE((SELECT json_extract(body, '$.delta_cap') {OPENING}), 0));
END
"""  # noqa: S608 - made of constants
RELEASES_BELONG = f"""
CREATE TRIGGER releases_belong BEFORE INSERT ON releases BEGIN
  SELECT RAISE(ABORT, 'releases are append-only') WHERE EXISTS (
    SELECT 1 FROM releases WHERE account = NEW.account AND seq = NEW.seq);
  SELECT RAISE(ABORT, 'a release belongs to one entry') WHERE NOT EXISTS (
    SELECT 1 FROM entries WHERE seq = NEW.seq AND kind = 'release' AND {SETTLES_ALIKE});
END
"""  # noqa: S608 - made of constants
ACCOUNTS_ONCE = """
CREATE TRIGGER accounts_once BEFORE INSERT ON accounts
WHEN EXISTS (SELECT 1 FROM accounts WHERE account = NEW.account)
BEGIN SELECT RAISE(ABORT, 'accounts are append-only'); END
"""
TRIGGERS = (
    *(_refusal(name, action) for name in metadata.tables for action in ("UPDATE", "DELETE")),
    *(trigger.strip() for trigger in (ENTRIES_FOLLOW, RELEASES_BELONG, ACCOUNTS_ONCE)),
)
