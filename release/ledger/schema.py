"""The ledger's tables, and what one row can show by itself: constraints.

Amounts are integers in STRICT tables: SQLite would otherwise keep binary floats, and text, in
number columns. SQLite's tables have no row numbers, which would be one more key to replace a
row by. What two rows can show is in ``rules``.
"""

from __future__ import annotations

from collections.abc import Iterable

from sqlalchemy import (
    BigInteger,
    CheckConstraint,
    Column,
    ForeignKeyConstraint,
    Index,
    Integer,
    MetaData,
    PrimaryKeyConstraint,
    String,
    Table,
    UniqueConstraint,
)
from sqlalchemy import Text as AnyText

from release.ledger.kinds import kinds, spending

FORMAT = "2"
WINDOW = ("account", "job", "window_kind", "window_first", "window_after")

# STRICT tables know no BIGINT, and their INTEGER has 64 bits. Text is compared byte by byte.
Whole = BigInteger().with_variant(Integer(), "sqlite")
Text = AnyText(collation="C").with_variant(AnyText(), "sqlite")


def _listed(names: Iterable[str]) -> str:
    return "(" + ", ".join(f"'{name}'" for name in names) + ")"


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
    Column("seq", Whole, primary_key=True, autoincrement=False),
    Column("kind", Text, nullable=False),
    Column("job", Text),
    Column("window_kind", Text),
    Column("window_first", Text),
    Column("window_after", Text),
    Column("window_zone", Text),
    Column("window_start", Text),
    Column("window_end", Text),
    Column("charged_at", Text, nullable=False),
    Column("charge", Whole, nullable=False),
    Column("spent", Whole, nullable=False),
    Column("delta_charge", Whole, nullable=False),
    Column("delta_spent", Whole, nullable=False),
    Column("job_spent", Whole, nullable=False),
    Column("event", Text),
    Column("sums", Text, nullable=False),
    Column("body", Text, nullable=False),
    Column("previous", Text, nullable=False),
    Column("hash", Text, nullable=False, unique=True),
    ForeignKeyConstraint(["account"], ["accounts.account"]),
    CheckConstraint(
        f"kind IN {_listed(kinds('account', 'job', 'either', 'window'))}", name="known_kind"
    ),
    CheckConstraint(
        f"CASE WHEN kind IN {_listed(spending())}"
        " THEN charge > 0 AND delta_charge >= 0 AND event IS NOT NULL"
        " ELSE charge = 0 AND delta_charge = 0 AND event IS NULL END",
        name="spends_charge",
    ),
    CheckConstraint("(seq = 1) = (kind = 'open')", name="opened_first"),
    CheckConstraint("seq >= 1 AND 0 <= job_spent AND job_spent <= spent", name="sums"),
    CheckConstraint(
        f"CASE WHEN kind IN {_listed(kinds('window'))}"
        " THEN window_kind IS NOT NULL AND window_first IS NOT NULL"
        " AND window_zone IS NOT NULL AND COALESCE(window_first < window_after, FALSE)"
        " AND COALESCE(window_start < window_end, FALSE)"
        " ELSE COALESCE(window_kind, window_first, window_after, window_zone, window_start,"
        " window_end) IS NULL END",
        name="windowed",
    ),
    CheckConstraint(
        f"CASE WHEN kind IN {_listed(kinds('account'))} THEN job IS NULL"
        f" WHEN kind IN {_listed(kinds('either'))} THEN TRUE ELSE job IS NOT NULL END",
        name="of_a_job",
    ),
    # A window of a job is settled once: released or refused, and never both.
    UniqueConstraint(*WINDOW, name="one_settlement"),
    sqlite_strict=True,
    sqlite_with_rowid=False,
)
Index("entries_of_job", entries.c.account, entries.c.job, entries.c.job_spent)
Index("entries_of_kind", entries.c.account, entries.c.kind, entries.c.seq)

releases = Table(
    "releases",
    metadata,
    Column("account", Text, primary_key=True),
    Column("seq", Whole, primary_key=True, autoincrement=False),
    *(Column(name, Text, nullable=False) for name in WINDOW[1:]),
    Column("content", Text, nullable=False),
    ForeignKeyConstraint(["account", "seq"], ["entries.account", "entries.seq"]),
    UniqueConstraint(*WINDOW),
    sqlite_strict=True,
    sqlite_with_rowid=False,
)

APPEND_ONLY = (accounts.name, entries.name, releases.name)

# As Alembic makes it, which keeps the format's number there.
version = Table(
    "alembic_version",
    metadata,
    Column("version_num", String(32), nullable=False),
    PrimaryKeyConstraint("version_num", name="alembic_version_pkc"),
)
