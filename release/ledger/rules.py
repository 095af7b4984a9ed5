"""The triggers: tables that are only ever added to, by rows that follow from those before.

SQLite's `INSERT OR REPLACE` deletes whatever row is in its way without asking a DELETE trigger:
so an insert that meets a row by any of its keys is refused before. Whoever may change the
schema can remove triggers, which the hash chain answers.

Each rule is written once, in the SQL that SQLite and PostgreSQL share; what is put around it
differs, and how a cap is taken from the entry that opened the account.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from release.ledger.chain import GENESIS
from release.ledger.schema import APPEND_ONLY, WINDOW

LAST = "FROM entries WHERE account = NEW.account ORDER BY seq DESC LIMIT 1"
# It never falls, so the greatest is the last: one look into an index.
JOB_SPENT = "SELECT MAX(job_spent) FROM entries WHERE account = NEW.account AND job = NEW.job"
OPENING = "FROM entries WHERE account = NEW.account AND seq = 1"


class Rule(NamedTuple):
    """What an insert is refused for, and when."""

    reason: str
    condition: str


def _taken(table: str, *key: str, also: str = "") -> str:
    same = " AND ".join(filter(None, [*(f"{name} = NEW.{name}" for name in key), also]))
    return f"EXISTS (SELECT 1 FROM {table} WHERE {same})"  # noqa: S608 - made of constants


def _not_the_sum(total: str, charge: str) -> str:
    return f"NEW.{total} <> NEW.{charge} + COALESCE({{last_{total}}}, 0)"


def _beyond(total: str, cap: str) -> str:
    return f"NEW.{total} > COALESCE((SELECT {{{cap}}} {OPENING}), 0)"


ACCOUNTS = (Rule("accounts are append-only", _taken("accounts", "account")),)
ENTRIES = (
    Rule("entries are append-only", _taken("entries", "account", "seq")),
    Rule("a hash stands for one entry", _taken("entries", "hash")),
    Rule("a window is settled once", _taken("entries", *WINDOW)),
    Rule("entries follow one another", "NEW.seq <> 1 + COALESCE({last_seq}, 0)"),
    Rule("the chain is broken", f"NEW.previous <> COALESCE({{last_hash}}, '{GENESIS}')"),
    Rule("spent is the sum of the charges", _not_the_sum("spent", "charge")),
    Rule(
        "delta_spent is the sum of the charges of delta",
        _not_the_sum("delta_spent", "delta_charge"),
    ),
    Rule(
        "job_spent is the sum of the charges of the job",
        "NEW.job_spent <> CASE WHEN NEW.job IS NULL THEN 0 ELSE NEW.charge"
        f" + COALESCE(({JOB_SPENT}), 0) END",
    ),
    # A correction counts at once, even past the cap; after it nothing else is charged.
    Rule(
        "the budget is spent",
        "NEW.charge > 0 AND NEW.kind <> 'amend'"
        f" AND ({_beyond('spent', 'cap')} OR {_beyond('delta_spent', 'delta_cap')})",
    ),
)
RELEASES = (
    Rule("releases are append-only", _taken("releases", "account", "seq")),
    Rule(
        "a release belongs to one entry",
        "NOT " + _taken("entries", "seq", *WINDOW, also="kind = 'release'"),
    ),
)
# By table and the trigger's name.
RULES = {
    ("accounts", "once"): ACCOUNTS,
    ("entries", "follow"): ENTRIES,
    ("releases", "belong"): RELEASES,
}
CAPS = ("cap", "delta_cap")
OF_LAST = ("seq", "hash", "spent", "delta_spent")


def sqlite_triggers() -> Iterator[str]:
    """The statements that put the triggers into a SQLite ledger."""
    for table in APPEND_ONLY:
        for action in ("UPDATE", "DELETE"):
            yield (
                f"CREATE TRIGGER {table}_no_{action.lower()} BEFORE {action} ON {table} BEGIN "
                f"SELECT RAISE(ABORT, '{table} are append-only'); END"
            )
    terms = {name: f"json_extract(body, '$.{name}')" for name in CAPS}
    terms |= {f"last_{name}": f"(SELECT {name} {LAST})" for name in OF_LAST}
    for (table, name), rules in RULES.items():
        refusals = "".join(
            f"  SELECT RAISE(ABORT, '{reason}') WHERE {condition.format(**terms)};\n"
            for reason, condition in rules
        )
        yield f"CREATE TRIGGER {table}_{name} BEFORE INSERT ON {table} BEGIN\n{refusals}END"


def postgresql_triggers(schema: str) -> Iterator[str]:
    """The statements that put the triggers into a PostgreSQL ledger."""
    yield _function(schema, "append_only", _refused("% are append-only", "TG_TABLE_NAME"))
    for table in APPEND_ONLY:
        # One that asks before the statement also stops TRUNCATE, and what meets no row.
        yield (
            f"CREATE TRIGGER {table}_append_only BEFORE UPDATE OR DELETE OR TRUNCATE ON {table}"
            " FOR EACH STATEMENT EXECUTE FUNCTION append_only()"
        )
    terms = {name: f"CAST(CAST(body AS json) ->> '{name}' AS bigint)" for name in CAPS}
    # There the entry before is looked up once, into a variable.
    terms |= {f"last_{name}": f"before.{name}" for name in OF_LAST}
    for (table, name), rules in RULES.items():
        refusals = "".join(
            f"  IF ({condition.format(**terms)}) THEN\n  {_refused(reason)}  END IF;\n"
            for reason, condition in rules
        )
        before = f"  SELECT * INTO before {LAST};\n" if "before." in refusals else ""
        yield _function(schema, f"{table}_{name}", f"{before}{refusals}  RETURN NEW;\n")
        yield (
            f"CREATE TRIGGER {table}_{name} BEFORE INSERT ON {table}"
            f" FOR EACH ROW EXECUTE FUNCTION {table}_{name}()"
        )


def _refused(*message: str) -> str:
    first, *rest = message
    said = ", ".join([f"'{first}'", *rest])
    return f"  RAISE EXCEPTION {said} USING ERRCODE = 'integrity_constraint_violation';\n"


def _function(schema: str, name: str, body: str) -> str:
    # It looks at its own schema's tables only, whatever search path a client has set.
    return (
        f"CREATE FUNCTION {name}() RETURNS trigger LANGUAGE plpgsql"
        f' SET search_path = "{schema}", pg_temp AS $$\n'
        f"DECLARE before entries%ROWTYPE;\nBEGIN\n{body}END $$"
    )
