"""What is PostgreSQL's own: roles, schemas, servers that are not there, and passwords."""

from __future__ import annotations

import re
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import psycopg
import pytest
from sqlalchemy import text

from release.errors import BusyError, LedgerError, ReleaseError, StorageError
from release.ledger import rows
from release.ledger.places import database
from release.ledger.postgresql import PostgreSQL as Database
from release.ledger.store import Ledger
from tests.ledger.examples import ABOUT, CAP, NOW, check_intact, opened, release, terms, week
from tests.ledger.places import PostgreSQL, on_postgresql
from tests.postgresql import DATABASE, USER

DOCUMENT = Path(__file__).parents[2] / "docs/ledger.md"


def as_role(place: PostgreSQL, role: str, *, wait: float = 10) -> Ledger:
    return Ledger(place.folder, place.address.replace(f"//{USER}@", f"//{role}@"), wait=wait)


@pytest.fixture
def clerk(place: PostgreSQL) -> str:
    """The role of docs/ledger.md, made by the very statements that stand there."""
    (statements,) = re.findall(r"```sql\n(.*?)```", DOCUMENT.read_text("utf-8"), re.DOTALL)
    role = f"clerk_{place.schema}"
    opened(place).close()
    place.sql(statements.replace("dp_release_writer", role).replace("dp_release", place.schema))
    return role


@on_postgresql
def test_the_documented_role_appends_and_reads(place: PostgreSQL, clerk: str) -> None:
    found = as_role(place, clerk)
    assert [release(found, week(n)).status for n in (0, 0, 1)] == [
        "published",
        "already",
        "published",
    ]
    found.open_account(terms("other"), ABOUT, NOW)
    assert [one.terms.account for one in found.accounts()] == ["other", "shop"]
    assert found.exists
    found.close()
    check_intact(place)


@on_postgresql
@pytest.mark.parametrize(
    "statement",
    [
        "UPDATE accounts SET account = account",
        "UPDATE accounts SET sampling_key = ''",
        "UPDATE entries SET spent = 0",
        "UPDATE releases SET content = ''",
        "DELETE FROM entries",
        "TRUNCATE releases",
        "UPDATE alembic_version SET version_num = '9'",
        "ALTER TABLE entries DISABLE TRIGGER ALL",
        "DROP TRIGGER entries_follow ON entries",
        "DROP FUNCTION entries_follow() CASCADE",
        "ALTER FUNCTION entries_follow() SET search_path = pg_temp",
        "DROP TABLE releases",
        "CREATE TABLE entries (seq bigint)",
        "SET session_replication_role = replica",
    ],
)
def test_the_documented_role_can_do_nothing_else(
    place: PostgreSQL, clerk: str, statement: str
) -> None:
    refused = (psycopg.errors.InsufficientPrivilege, psycopg.IntegrityError)
    with (
        psycopg.connect(
            host=str(place.server.folder),
            user=clerk,
            dbname=DATABASE,
            options=f"-c search_path={place.schema}",
        ) as client,
        pytest.raises(refused),
    ):
        client.execute(statement.encode())


@on_postgresql
def test_a_trigger_is_not_deceived_by_a_search_path(place: PostgreSQL) -> None:
    """A table of the same name, with a larger cap in it, in the way of the ledger's own."""
    found = opened(place)
    release(found, week(0))
    found.close()
    last = place.entries()[-1]
    beyond = {
        **dict.fromkeys([name for name in last if name.startswith("window_")]),
        "seq": last["seq"] + 1,
        "kind": "record",
        "job": None,
        "job_spent": 0,
        "charge": CAP,
        "spent": last["spent"] + CAP,
        "previous": last["hash"],
        "hash": "0" * 64,
    }
    values = ", ".join(f"%({name})s" if name in beyond else name for name in last)
    seen = f"{place.schema}.entries"
    raised_cap = f"replace(body, '\"cap\":{CAP}', '\"cap\":{9 * CAP}')"
    with psycopg.connect(
        host=str(place.server.folder), user=USER, dbname=DATABASE, autocommit=True
    ) as client:
        client.execute(f"CREATE TEMPORARY TABLE entries AS TABLE {seen}".encode())
        client.execute(b"UPDATE entries SET body = " + raised_cap.encode())
        insert = f"INSERT INTO {seen} SELECT {values} FROM entries WHERE seq = {last['seq']}"  # noqa: S608
        with pytest.raises(psycopg.IntegrityError, match="the budget is spent"):
            client.execute(insert.encode(), beyond)


@on_postgresql
def test_a_role_without_rights_is_told_so(place: PostgreSQL) -> None:
    opened(place).close()
    role = f"nobody_{place.schema}"
    place.sql(f"CREATE ROLE {role} LOGIN; GRANT USAGE ON SCHEMA {place.schema} TO {role}")
    found = as_role(place, role)
    with pytest.raises(StorageError, match="role may not do this") as raised:
        found.terms("shop")
    assert "docs/ledger.md" in raised.value.hint
    found.close()


def test_a_server_that_is_not_there(tmp_path: Path) -> None:
    address = f"postgresql+psycopg://clerk:swordfish@/ledger?host={tmp_path}&password=swordfish"
    found = Ledger(tmp_path, address, wait=1)
    for ask in (lambda: found.exists, lambda: found.open_account(terms(), ABOUT, NOW)):
        with pytest.raises(StorageError, match="cannot be reached") as raised:
            ask()
        said = f"{raised.value.message} {raised.value.hint} {found.name} {raised.value!r}"
        assert "swordfish" not in said
        assert raised.value.__cause__ is None
        assert raised.value.__suppress_context__
    found.close()


@on_postgresql
def test_a_database_of_another_encoding_is_refused(place: PostgreSQL) -> None:
    name = f"ascii_{place.schema}"
    place.sql(f"CREATE DATABASE {name} ENCODING 'SQL_ASCII' TEMPLATE template0 LOCALE 'C'")
    address = place.address.replace(f"/{DATABASE}?", f"/{name}?")
    found = Ledger(place.folder, address, wait=5)
    with pytest.raises(StorageError, match="not UTF8"):
        found.open_account(terms(), ABOUT, NOW)
    assert not found.exists
    found.close()


@on_postgresql
def test_a_schema_that_holds_other_tables_is_left_alone(place: PostgreSQL) -> None:
    place.sql(f"CREATE SCHEMA {place.schema}")
    place.sql("CREATE TABLE accounts (name text)")
    found, before = place.ledger(), place.columns()
    with pytest.raises(ReleaseError):
        found.open_account(terms(), ABOUT, NOW)
    found.close()
    assert place.columns() == before


@on_postgresql
def test_a_ledger_without_its_entries_is_not_intact(place: PostgreSQL) -> None:
    opened(place).close()
    place.sql("DROP TABLE entries CASCADE")
    found = place.ledger()
    with pytest.raises(LedgerError, match="not an intact ledger"):
        found.terms("shop")
    found.close()


@on_postgresql
def test_many_make_the_same_ledger_at_once(place: PostgreSQL) -> None:
    ledgers = [place.ledger() for _ in range(8)]
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda each: each.open_account(terms(), ABOUT, NOW), ledgers))
    assert len(place.entries()) == 2
    for each in ledgers:
        each.close()
    check_intact(place)


@on_postgresql
def test_writers_of_different_accounts_do_not_wait(place: PostgreSQL) -> None:
    first, second = opened(place, wait=1), place.ledger(wait=1)
    second.open_account(terms("other"), ABOUT, NOW)
    with first.writing("shop"):
        with second.writing("other") as writer:
            assert writer.head.terms.account == "other"
        second.open_account(terms("third"), ABOUT, NOW)
        with pytest.raises(BusyError, match="nothing was charged"), second.writing("shop"):
            pytest.fail("two writers have one account")
    first.close()
    second.close()


@on_postgresql
def test_an_account_that_is_written_to_is_not_replaced(place: PostgreSQL) -> None:
    first, second = opened(place, wait=1), place.ledger(wait=1)
    heir = terms("heir").model_copy(update={"replaces": "shop"})
    with first.writing("shop"), pytest.raises(BusyError):
        second.open_account(heir, ABOUT, NOW)
    assert {entry["account"] for entry in place.entries()} == {"shop"}
    first.close()
    second.close()


@on_postgresql
def test_what_a_transaction_needs_is_set_whatever_the_role_says(place: PostgreSQL) -> None:
    role = f"careless_{place.schema}"
    place.sql(
        f"CREATE ROLE {role} LOGIN SUPERUSER;"
        f"ALTER ROLE {role} SET synchronous_commit = off;"
        f"ALTER ROLE {role} SET default_transaction_isolation = 'serializable';"
        f"ALTER ROLE {role} SET lock_timeout = 0"
    )
    found = as_role(place, role, wait=2.5)
    found.open_account(terms(), ABOUT, NOW)
    with found.writing("shop") as writer:
        for name, value in {
            "synchronous_commit": "on",
            "transaction_isolation": "read committed",
            "lock_timeout": "2500ms",
        }.items():
            assert writer.connection.scalar(text(f"SHOW {name}")) == value
    with found.looking("shop") as view:
        for name, value in {
            "transaction_isolation": "repeatable read",
            "transaction_read_only": "on",
        }.items():
            assert view.connection.scalar(text(f"SHOW {name}")) == value
    found.close()


@on_postgresql
def test_an_error_of_the_database_shows_no_row(place: PostgreSQL) -> None:
    """PostgreSQL's details quote the whole row that failed."""
    found = opened(place)
    with (
        pytest.raises(LedgerError, match="refused an entry") as raised,
        found.writing("shop") as writer,
    ):
        rows.append(writer.connection, replace(writer.head.last, seq=99, hash=""))
    assert "Failing row" not in raised.value.message
    assert str(CAP) not in raised.value.message
    found.close()


@on_postgresql
def test_a_lost_connection_is_noticed(place: PostgreSQL) -> None:
    found = opened(place)
    kill = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE pid <> pg_backend_pid()"
    mine = f"{kill} AND query LIKE '%entries%' AND state LIKE 'idle%'"

    def cut_off() -> None:
        with found.writing("shop") as writer:
            place.sql(mine)
            writer.job_spent("board")

    with pytest.raises(StorageError, match="connection to it was lost") as raised:
        cut_off()
    assert "Run again" in raised.value.hint
    # Between two uses it is only a connection that must be made anew.
    assert release(found, week(0)).status == "published"
    place.sql(mine)
    assert release(found, week(1)).status == "published"
    found.close()
    check_intact(place)


def test_the_name_says_where_it_is(tmp_path: Path) -> None:
    address = "postgresql+psycopg://clerk:swordfish@db.example:5433/privacy?sslmode=require"
    found = database(tmp_path, address, wait=1)
    assert isinstance(found, Database)
    assert found.name == "postgresql://db.example/privacy, schema dp_release"
