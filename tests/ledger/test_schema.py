"""What the database itself refuses, asked through a client that knows none of our rules."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import closing, suppress
from pathlib import Path
from typing import Any

import pytest

from release.accounting import Charge
from release.errors import LedgerError, StorageError
from release.ledger.store import Ledger
from release.pipeline import plan
from tests.ledger.examples import (
    ABOUT,
    CAP,
    NOW,
    SETTLES,
    SPENDS,
    WINDOW,
    check_intact,
    exact,
    job,
    opened,
    raw,
    release,
    rows,
    sealed,
    still,
    terms,
    week,
)

TABLES = ("accounts", "entries", "releases")
OTHER = "UPDATE SET account = 'other'"
KEYS = {"accounts": "account", "entries": "account, seq", "releases": "account, seq"}


@pytest.fixture
def shop(tmp_path: Path) -> Iterator[Ledger]:
    """One week released, the next one refused."""
    found = opened(tmp_path)
    release(found, week(0))
    with found.writing("shop") as writer:
        writer.refuse(job(), week(1), Charge(CAP), "account", NOW)
    yield found
    found.close()


def dump(folder: Path) -> list[Any]:
    return [rows(folder, "SELECT * FROM " + table) for table in TABLES]  # noqa: S608


def following(folder: Path, kind: str = "release", charge: int = 10) -> dict[str, Any]:
    """The row of a next entry that breaks no rule."""
    last = rows(folder, "SELECT * FROM entries ORDER BY seq DESC LIMIT 1")[0]
    row = {
        **last,
        "seq": last["seq"] + 1,
        "kind": kind,
        "charge": charge,
        "spent": last["spent"] + charge,
        "job_spent": last["job_spent"] + charge,
        "delta_charge": 0,
        "window_first": "2026-03-02",
        "window_after": "2026-03-09",
        "window_start": "2026-03-02T00:00:00.000000Z",
        "window_end": "2026-03-09T00:00:00.000000Z",
        "event": "{}" if kind in SPENDS else None,
        "previous": last["hash"],
    }
    if kind not in SETTLES:
        row.update(dict.fromkeys(["job", *WINDOW]), job_spent=0)
    return {**row, "hash": sealed(row)}


def insert(folder: Path, table: str, row: dict[str, Any], verb: str = "INSERT") -> None:
    marks = ", ".join(f":{name}" for name in row)
    with closing(raw(folder)) as connection:
        connection.execute("PRAGMA foreign_keys = ON")
        connection.execute(f"{verb} INTO {table} ({', '.join(row)}) VALUES ({marks})", row)


@pytest.mark.parametrize("table", TABLES)
@pytest.mark.parametrize(
    "statement",
    [
        "UPDATE {table} SET account = account",
        "UPDATE OR REPLACE {table} SET account = 'other'",
        "DELETE FROM {table}",
        "DELETE FROM {table} WHERE account = 'shop'",
        "INSERT INTO {table} SELECT * FROM {table}",
        "INSERT OR REPLACE INTO {table} SELECT * FROM {table}",
        "INSERT OR IGNORE INTO {table} SELECT * FROM {table}",
        "INSERT INTO {table} SELECT * FROM {table} WHERE true ON CONFLICT DO NOTHING",
        "INSERT INTO {table} SELECT * FROM {table} WHERE true ON CONFLICT ({keys}) DO {other}",
    ],
)
def test_tables_are_append_only(shop: Ledger, tmp_path: Path, table: str, statement: str) -> None:
    before = dump(tmp_path)
    with (
        closing(raw(tmp_path)) as connection,
        pytest.raises(sqlite3.IntegrityError, match=f"{table} are append-only"),
    ):
        connection.execute(statement.format(table=table, keys=KEYS[table], other=OTHER))
    assert dump(tmp_path) == before


@pytest.mark.parametrize("table", TABLES)
def test_no_table_has_row_numbers_to_replace_by(shop: Ledger, tmp_path: Path, table: str) -> None:
    with pytest.raises(sqlite3.OperationalError, match="rowid"):
        rows(tmp_path, "SELECT rowid FROM " + table)  # noqa: S608


@pytest.mark.parametrize("kind", ["release", "refusal", "project", "record"])
def test_a_right_entry_is_accepted(shop: Ledger, tmp_path: Path, kind: str) -> None:
    insert(tmp_path, "entries", following(tmp_path, kind, 10 if kind in SPENDS else 0))
    assert len(rows(tmp_path, "SELECT * FROM entries")) == 5


# A window is the one that it was by its local dates, whatever its zone and its instants.
RELEASED = {"window_first": "2026-01-05", "window_after": "2026-01-12"}
OTHER_ZONE = {
    "window_zone": "Asia/Tokyo",
    "window_start": "2026-01-04T15:00:00.000000Z",
    "window_end": "2026-01-11T15:00:00.000000Z",
}
NO_CHARGE: dict[str, Any] = {"charge": 0, "event": None}


@pytest.mark.parametrize("verb", ["INSERT", "INSERT OR REPLACE"])
@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"seq": 9}, "entries follow one another"),
        ({"seq": 0}, "entries follow one another"),
        ({"seq": 4}, "entries are append-only"),
        ({"seq": None}, "NOT NULL|NULL"),
        ({"previous": "0" * 64}, "the chain is broken"),
        ({"previous": None}, "NOT NULL"),
        ({"spent": CAP}, "spent is the sum"),
        ({"spent": 0}, "spent is the sum"),
        ({"job_spent": 10}, "job_spent is the sum"),
        ({"job": "other"}, "job_spent is the sum"),
        ({"delta_spent": 1}, "delta_spent is the sum"),
        ({"delta_charge": 1}, "delta_spent is the sum"),
        ({"delta_charge": 1, "delta_spent": 1}, "the budget is spent"),
        ({"delta_charge": -1, "delta_spent": -1}, "spends_charge"),
        (RELEASED, "settled once"),
        ({**RELEASED, **OTHER_ZONE}, "settled once"),
        ({**RELEASED, **NO_CHARGE, "kind": "refusal", "spent": 333334, "job_spent": 333334},
         "settled once"),
        ({"event": None}, "spends_charge"),
        ({"kind": "refusal"}, "spends_charge"),
        ({"kind": "record"}, "windowed"),
        ({"kind": "gift"}, "known_kind|spends_charge"),
        ({"kind": "open", **NO_CHARGE}, "opened_first|sum"),
        ({"job": None, "job_spent": 0}, "windowed"),
        ({"job": None, "job_spent": 10}, "job_spent is the sum"),
        ({"window_kind": None}, "windowed"),
        ({"window_first": None}, "windowed"),
        ({"window_after": None}, "windowed"),
        ({"window_after": "2026-03-02"}, "windowed"),
        ({"window_zone": None}, "windowed"),
        ({"window_start": None}, "windowed"),
        ({"window_end": None}, "windowed"),
        ({"window_end": "2026-03-02T00:00:00.000000Z"}, "windowed"),
        ({"body": None}, "NOT NULL"),
        ({"sums": None}, "NOT NULL"),
        ({"delta_charge": None}, "NOT NULL|spends_charge"),
        ({"delta_spent": None}, "NOT NULL"),
        ({"charged_at": None}, "NOT NULL"),
        ({"charge": "ten"}, "INTEGER column|sum"),
        ({"charge": 10.5}, "INTEGER column|sum"),
        ({"seq": "next"}, "INTEGER column|follow"),
        ({"account": "nobody", "seq": 1}, "chain|FOREIGN KEY"),
    ],
)  # fmt: skip
def test_a_wrong_entry_is_refused_with_its_reason(
    shop: Ledger, tmp_path: Path, changes: dict[str, Any], reason: str, verb: str
) -> None:
    before = dump(tmp_path)
    with pytest.raises(sqlite3.IntegrityError, match=reason):
        insert(tmp_path, "entries", {**following(tmp_path), **changes}, verb)
    assert dump(tmp_path) == before


@pytest.mark.parametrize(
    ("kind", "changes", "reason"),
    [
        ("record", {"event": None}, "spends_charge"),
        ("record", {"delta_charge": -1, "delta_spent": -1}, "spends_charge"),
        ("record", {"delta_charge": 1, "delta_spent": 1}, "the budget is spent"),
        ("record", {"job_spent": 10}, "job_spent is the sum"),
        ("record", {"job": "other", "job_spent": 10}, "windowed"),
        ("record", {"window_first": "2026-03-02"}, "windowed"),
        ("record", {"window_after": "2026-03-02"}, "windowed"),
        ("project", {"window_after": "2026-03-02"}, "windowed"),
        ("project", {"event": "{}"}, "spends_charge"),
        ("project", {"delta_charge": 1, "delta_spent": 1}, "spends_charge|the budget is spent"),
        ("refusal", {"event": "{}"}, "spends_charge"),
        ("refusal", {"delta_charge": 1, "delta_spent": 1}, "spends_charge|the budget is spent"),
        ("refusal", {"window_after": None}, "windowed"),
    ],
)
def test_every_kind_charges_and_settles_what_it_may(
    shop: Ledger, tmp_path: Path, kind: str, changes: dict[str, Any], reason: str
) -> None:
    row = following(tmp_path, kind, 10 if kind in SPENDS else 0)
    with pytest.raises(sqlite3.IntegrityError, match=reason):
        insert(tmp_path, "entries", {**row, **changes})
    insert(tmp_path, "entries", row)


@pytest.mark.parametrize("verb", ["INSERT", "INSERT OR REPLACE"])
def test_a_hash_stands_for_one_entry(shop: Ledger, tmp_path: Path, verb: str) -> None:
    row = following(tmp_path)
    with pytest.raises(sqlite3.IntegrityError, match="a hash stands for one entry"):
        insert(tmp_path, "entries", {**row, "hash": row["previous"]}, verb)


@pytest.mark.parametrize("charge", [0, -1, -CAP])
def test_a_spend_charges_something(shop: Ledger, tmp_path: Path, charge: int) -> None:
    with pytest.raises(sqlite3.IntegrityError, match=r"spends_charge|sums"):
        insert(tmp_path, "entries", following(tmp_path, charge=charge))


def test_the_database_refuses_what_is_beyond_the_cap(shop: Ledger, tmp_path: Path) -> None:
    spent = rows(tmp_path, "SELECT max(spent) AS spent FROM entries")[0]["spent"]
    with pytest.raises(sqlite3.IntegrityError, match="the budget is spent"):
        insert(tmp_path, "entries", following(tmp_path, charge=CAP - spent + 1))
    with pytest.raises(sqlite3.IntegrityError, match="the budget is spent"):
        insert(tmp_path, "entries", following(tmp_path, "record", CAP - spent + 1))
    insert(tmp_path, "entries", following(tmp_path, charge=CAP - spent))
    with pytest.raises(sqlite3.IntegrityError, match="the budget is spent"):
        insert(tmp_path, "entries", following(tmp_path, "record", 1))


@pytest.mark.parametrize(
    ("column", "value"), [("charge", "ten"), ("charge", 0.5), ("seq", 1.5), ("spent", b"1")]
)
def test_number_columns_are_strict(
    shop: Ledger, tmp_path: Path, column: str, value: object
) -> None:
    """Without the triggers, which would have asked first."""
    with closing(raw(tmp_path)) as connection:
        connection.execute("DROP TRIGGER entries_follow")
    with pytest.raises(sqlite3.IntegrityError, match=f"INTEGER column entries.{column}"):
        insert(tmp_path, "entries", {**following(tmp_path), column: value})


@pytest.mark.parametrize("changes", [{"seq": 1}, {"seq": 4}, {"seq": 99}, {"job": "other"}])
def test_a_result_needs_a_charge_of_its_own(
    shop: Ledger, tmp_path: Path, changes: dict[str, Any]
) -> None:
    row = rows(tmp_path, "SELECT * FROM releases")[0]
    insert(tmp_path, "entries", following(tmp_path))
    wrong = {**row, "seq": 5, **changes}
    for verb in ("INSERT", "INSERT OR REPLACE"):
        with pytest.raises(sqlite3.IntegrityError, match="belongs to one entry"):
            insert(tmp_path, "releases", wrong, verb)
    with pytest.raises(sqlite3.IntegrityError, match="belongs to one entry"):
        insert(tmp_path, "releases", {**row, "seq": 5}, "INSERT OR REPLACE")


def test_an_account_is_opened_once(shop: Ledger, tmp_path: Path) -> None:
    before = dump(tmp_path)
    shop.open_account(terms(cap=10 * CAP), ABOUT, NOW)
    assert dump(tmp_path) == before
    with pytest.raises(sqlite3.IntegrityError, match="append-only"):
        insert(tmp_path, "accounts", {"account": "shop", "sampling_key": ""}, "INSERT OR REPLACE")


def test_connections_are_durable_and_hold_the_rules(shop: Ledger) -> None:
    expected = {"synchronous": 2, "journal_mode": "wal", "foreign_keys": 1}
    with shop.looking("shop") as view:
        for name, value in expected.items():
            assert view.connection.exec_driver_sql(f"PRAGMA {name}").scalar() == value
    with shop.writing("shop") as writer:
        for name, value in expected.items():
            assert writer.connection.exec_driver_sql(f"PRAGMA {name}").scalar() == value


def test_a_writer_holds_the_lock_from_the_start_and_a_reader_never(
    shop: Ledger, tmp_path: Path
) -> None:
    with closing(raw(tmp_path)) as other:
        other.execute("PRAGMA busy_timeout = 0")
        with shop.writing("shop"), pytest.raises(sqlite3.OperationalError, match="locked"):
            other.execute("BEGIN IMMEDIATE")
        with shop.looking("shop"):
            other.execute("BEGIN IMMEDIATE")
            other.execute("ROLLBACK")


def test_a_reader_cannot_write(shop: Ledger) -> None:
    with pytest.raises(StorageError, match="READONLY"), shop.looking("shop") as view:
        view.connection.exec_driver_sql("CREATE TABLE extra (x)")


def test_a_second_settlement_of_a_window_is_undone_whole(shop: Ledger, tmp_path: Path) -> None:
    before = dump(tmp_path)
    planned = plan(job(), terms())
    content = planned.published(exact(week(0), ""), still)
    for window in (week(0), week(1)):
        with pytest.raises(LedgerError, match="settled once"), shop.writing("shop") as writer:
            writer.release(window, planned.charge, planned.mechanism.event, content, NOW)
        with pytest.raises(LedgerError, match="settled once"), shop.writing("shop") as writer:
            writer.refuse(job(), window, planned.charge, "share", NOW)
    assert dump(tmp_path) == before
    check_intact(tmp_path)


def test_an_error_after_the_entry_leaves_nothing(shop: Ledger, tmp_path: Path) -> None:
    before = dump(tmp_path)
    with suppress(ZeroDivisionError), shop.writing("shop") as writer:
        writer.refuse(job(), week(2), Charge(1), "share", NOW)
        raise ZeroDivisionError
    assert dump(tmp_path) == before


def test_a_ledger_brought_back_in_another_journal_mode_is_made_durable_again(
    shop: Ledger, tmp_path: Path
) -> None:
    shop.close()
    with closing(raw(tmp_path)) as connection:
        connection.execute("PRAGMA journal_mode = DELETE")
    with shop.writing("shop") as writer:
        assert writer.connection.exec_driver_sql("PRAGMA journal_mode").scalar() == "wal"
