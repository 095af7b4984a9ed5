"""From format 1 to 2: seven more kinds of entry, one of which may pass the cap.

SQLite cannot change a table's constraints, so the tables are made anew. Their rows go in by the
new rules, in the order of the record, as if each had just been written. No table is renamed:
that would lead somebody's own view of it to the old one.
"""

from alembic import op

revision = "2"
down_revision = "1"

TABLES = ("accounts", "entries", "releases")

ACCOUNTS = """
CREATE TABLE accounts (
  account TEXT NOT NULL,
  sampling_key TEXT NOT NULL,
  PRIMARY KEY (account)
) WITHOUT ROWID, STRICT
"""
ENTRIES = """
CREATE TABLE entries (
  account TEXT NOT NULL,
  seq INTEGER NOT NULL,
  kind TEXT NOT NULL,
  job TEXT,
  window_kind TEXT,
  window_first TEXT,
  window_after TEXT,
  window_zone TEXT,
  window_start TEXT,
  window_end TEXT,
  charged_at TEXT NOT NULL,
  charge INTEGER NOT NULL,
  spent INTEGER NOT NULL,
  delta_charge INTEGER NOT NULL,
  delta_spent INTEGER NOT NULL,
  job_spent INTEGER NOT NULL,
  event TEXT,
  sums TEXT NOT NULL,
  body TEXT NOT NULL,
  previous TEXT NOT NULL,
  hash TEXT NOT NULL,
  PRIMARY KEY (account, seq),
  FOREIGN KEY(account) REFERENCES accounts (account),
  CONSTRAINT known_kind CHECK (kind IN ('open', 'project', 'release', 'refusal', 'record',
    'history', 'amend', 'notice', 'pause', 'resume', 'retire', 'audit')),
  CONSTRAINT spends_charge CHECK (
    CASE WHEN kind IN ('release', 'record', 'history', 'amend')
    THEN charge > 0 AND delta_charge >= 0 AND event IS NOT NULL
    ELSE charge = 0 AND delta_charge = 0 AND event IS NULL END),
  CONSTRAINT opened_first CHECK ((seq = 1) = (kind = 'open')),
  CONSTRAINT sums CHECK (seq >= 1 AND 0 <= job_spent AND job_spent <= spent),
  CONSTRAINT windowed CHECK (
    CASE WHEN kind IN ('release', 'refusal')
    THEN window_kind IS NOT NULL AND window_first IS NOT NULL AND window_zone IS NOT NULL
      AND COALESCE(window_first < window_after, FALSE)
      AND COALESCE(window_start < window_end, FALSE)
    ELSE COALESCE(window_kind, window_first, window_after, window_zone, window_start,
      window_end) IS NULL END),
  CONSTRAINT of_a_job CHECK (
    CASE WHEN kind IN ('open', 'project', 'record', 'history') THEN job IS NULL
    WHEN kind IN ('amend', 'notice') THEN TRUE ELSE job IS NOT NULL END),
  CONSTRAINT one_settlement UNIQUE (account, job, window_kind, window_first, window_after),
  UNIQUE (hash)
) WITHOUT ROWID, STRICT
"""
RELEASES = """
CREATE TABLE releases (
  account TEXT NOT NULL,
  seq INTEGER NOT NULL,
  job TEXT NOT NULL,
  window_kind TEXT NOT NULL,
  window_first TEXT NOT NULL,
  window_after TEXT NOT NULL,
  content TEXT NOT NULL,
  PRIMARY KEY (account, seq),
  FOREIGN KEY(account, seq) REFERENCES entries (account, seq),
  UNIQUE (account, job, window_kind, window_first, window_after)
) WITHOUT ROWID, STRICT
"""
INDICES = (
    "CREATE INDEX entries_of_job ON entries (account, job, job_spent)",
    "CREATE INDEX entries_of_kind ON entries (account, kind, seq)",
)
APPEND_ONLY = tuple(
    f"CREATE TRIGGER {table}_no_{action.lower()} BEFORE {action} ON {table} BEGIN"
    f" SELECT RAISE(ABORT, '{table} are append-only'); END"
    for table in TABLES
    for action in ("UPDATE", "DELETE")
)
ACCOUNTS_ONCE = """
CREATE TRIGGER accounts_once BEFORE INSERT ON accounts BEGIN
  SELECT RAISE(ABORT, 'accounts are append-only') WHERE EXISTS (
    SELECT 1 FROM accounts WHERE account = NEW.account);
END
"""
SAME_WINDOW = (
    "account = NEW.account AND job = NEW.job AND window_kind = NEW.window_kind"
    " AND window_first = NEW.window_first AND window_after = NEW.window_after"
)
LAST = "FROM entries WHERE account = NEW.account ORDER BY seq DESC LIMIT 1"
OPENING = "FROM entries WHERE account = NEW.account AND seq = 1"
ENTRIES_FOLLOW = f"""
CREATE TRIGGER entries_follow BEFORE INSERT ON entries BEGIN
  SELECT RAISE(ABORT, 'entries are append-only') WHERE EXISTS (
    SELECT 1 FROM entries WHERE account = NEW.account AND seq = NEW.seq);
  SELECT RAISE(ABORT, 'a hash stands for one entry') WHERE EXISTS (
    SELECT 1 FROM entries WHERE hash = NEW.hash);
  SELECT RAISE(ABORT, 'a window is settled once') WHERE EXISTS (
    SELECT 1 FROM entries WHERE {SAME_WINDOW});
  SELECT RAISE(ABORT, 'entries follow one another') WHERE
    NEW.seq <> 1 + COALESCE((SELECT seq {LAST}), 0);
  SELECT RAISE(ABORT, 'the chain is broken') WHERE
    NEW.previous <> COALESCE((SELECT hash {LAST}), '{"0" * 64}');
  SELECT RAISE(ABORT, 'spent is the sum of the charges') WHERE
    NEW.spent <> NEW.charge + COALESCE((SELECT spent {LAST}), 0);
  SELECT RAISE(ABORT, 'delta_spent is the sum of the charges of delta') WHERE
    NEW.delta_spent <> NEW.delta_charge + COALESCE((SELECT delta_spent {LAST}), 0);
  SELECT RAISE(ABORT, 'job_spent is the sum of the charges of the job') WHERE
    NEW.job_spent <> CASE WHEN NEW.job IS NULL THEN 0 ELSE NEW.charge + COALESCE((
      SELECT MAX(job_spent) FROM entries WHERE account = NEW.account AND job = NEW.job), 0) END;
  SELECT RAISE(ABORT, 'the budget is spent') WHERE NEW.charge > 0 AND NEW.kind <> 'amend' AND (
    NEW.spent > COALESCE((SELECT json_extract(body, '$.cap') {OPENING}), 0)
    OR NEW.delta_spent > COALESCE((SELECT json_extract(body, '$.delta_cap') {OPENING}), 0));
END
"""  # noqa: S608 - made of constants
RELEASES_BELONG = f"""
CREATE TRIGGER releases_belong BEFORE INSERT ON releases BEGIN
  SELECT RAISE(ABORT, 'releases are append-only') WHERE EXISTS (
    SELECT 1 FROM releases WHERE account = NEW.account AND seq = NEW.seq);
  SELECT RAISE(ABORT, 'a release belongs to one entry') WHERE NOT EXISTS (
    SELECT 1 FROM entries WHERE seq = NEW.seq AND {SAME_WINDOW} AND kind = 'release');
END
"""  # noqa: S608 - made of constants
NEW = (
    *(ACCOUNTS, ENTRIES, RELEASES),
    *INDICES,
    *APPEND_ONLY,
    *(ACCOUNTS_ONCE, ENTRIES_FOLLOW, RELEASES_BELONG),
)


def upgrade() -> None:
    """Puts tables with the new constraints in the place of the old ones, with the same rows."""
    for table in TABLES:
        op.execute(f"CREATE TABLE old_{table} AS SELECT * FROM {table}")  # noqa: S608
    for table in reversed(TABLES):
        op.execute(f"DROP TABLE {table}")
    for statement in NEW:
        op.execute(statement.strip())
    for table in TABLES:
        # The second column of entries and of releases is their number.
        op.execute(f"INSERT INTO {table} SELECT * FROM old_{table} ORDER BY 1, 2")  # noqa: S608
        op.execute(f"DROP TABLE old_{table}")
    # Software that knew only the first format looks here, and nowhere else.
    op.execute("PRAGMA user_version = 2")
