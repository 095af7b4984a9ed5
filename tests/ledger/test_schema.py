"""What the database itself refuses, asked through a client that knows none of our rules."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import closing, suppress
from typing import Any

import pytest

from release.accounting import Charge
from release.errors import BusyError, LedgerError, StorageError
from release.ledger.store import Ledger
from release.pipeline import plan
from tests.ledger.examples import (
    ABOUT,
    CAP,
    EITHER,
    NOW,
    OF_A_JOB,
    SETTLES,
    SPENDS,
    WINDOW,
    check_intact,
    exact,
    job,
    opened,
    release,
    sealed,
    still,
    terms,
    week,
)
from tests.ledger.places import INSERT, Place, on_sqlite

COLUMNS = {
    "accounts": ["account", "sampling_key"],
    "entries": [
        *("account", "seq", "kind", "job", *WINDOW, "charged_at", "charge", "spent"),
        *("delta_charge", "delta_spent", "job_spent", "event", "sums", "body", "previous", "hash"),
    ],
    "releases": ["account", "seq", "job", *WINDOW[:3], "content"],
}
NUMBERS = {"seq", "charge", "spent", "delta_charge", "delta_spent", "job_spent"}


@pytest.fixture
def shop(place: Place) -> Iterator[Ledger]:
    """One week released, the next one refused."""
    found = opened(place)
    release(found, week(0))
    with found.writing("shop") as writer:
        writer.refuse(job(), week(1), Charge(CAP), "account", NOW)
    yield found
    found.close()


def dump(place: Place) -> list[Any]:
    return [place.sql(f"SELECT * FROM {table} ORDER BY 1, 2") for table in COLUMNS]  # noqa: S608


def following(place: Place, kind: str = "release", charge: int | None = None) -> dict[str, Any]:
    """The row of a next entry that breaks no rule."""
    last = place.entries()[-1]
    charge = (10 if kind in SPENDS else 0) if charge is None else charge
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
        row.update(dict.fromkeys(WINDOW))
    if kind not in OF_A_JOB | EITHER:
        row.update(job=None, job_spent=0)
    return {**row, "hash": sealed(row)}


def insert(place: Place, table: str, row: dict[str, Any], how: str = INSERT) -> None:
    marks = ", ".join(f":{name}" for name in row)
    place.sql(how.format(table=table, columns=", ".join(row), values=f"VALUES ({marks})"), row)


def refuses(place: Place, reason: str, table: str, row: dict[str, Any]) -> None:
    """However the row is inserted."""
    for how in place.inserts:
        with pytest.raises(place.refusals, match=reason):
            insert(place, table, row, how)


def test_every_database_has_the_same_tables(shop: Ledger, place: Place) -> None:
    found = place.columns()
    assert list(found.pop("alembic_version")) == ["version_num"]
    assert {table: list(columns) for table, columns in found.items()} == COLUMNS
    for columns in found.values():
        for name, type_ in columns.items():
            assert type_ == (place.number if name in NUMBERS else "text")


OTHER = "UPDATE SET account = 'other'"
CHANGES = [
    "UPDATE {table} SET account = account",
    "UPDATE {table} SET account = 'other' WHERE account = 'shop'",
    "DELETE FROM {table}",
    "DELETE FROM {table} WHERE account = 'shop'",
    "INSERT INTO {table} SELECT * FROM {table} WHERE true ON CONFLICT ({keys}) DO {other}",
]
OWN_CHANGES = {
    "sqlite": [
        "UPDATE OR REPLACE {table} SET account = 'other'",
        "INSERT OR IGNORE INTO {table} SELECT * FROM {table}",
    ],
    "postgresql": ["TRUNCATE {table} CASCADE", "DELETE FROM ONLY {table}"],
}


@pytest.mark.parametrize(
    ("place", "statement"),
    [(name, each) for name, own in OWN_CHANGES.items() for each in (*CHANGES, *own)],
    indirect=["place"],
)
@pytest.mark.parametrize("table", COLUMNS)
def test_tables_are_append_only(shop: Ledger, place: Place, table: str, statement: str) -> None:
    before = dump(place)
    keys = "account" if table == "accounts" else "account, seq"
    with pytest.raises(place.refusals, match=f"{table} are append-only"):
        place.sql(statement.format(table=table, keys=keys, other=OTHER))
    assert dump(place) == before


@pytest.mark.parametrize("table", COLUMNS)
def test_no_row_is_written_again(shop: Ledger, place: Place, table: str) -> None:
    before = dump(place)
    for how in place.inserts:
        statement = how.format(
            table=table,
            columns=", ".join(COLUMNS[table]),
            values=f"SELECT * FROM {table} WHERE true",  # noqa: S608
        )
        with pytest.raises(place.refusals, match=f"{table} are append-only"):
            place.sql(statement)
    assert dump(place) == before


@on_sqlite
@pytest.mark.parametrize("table", COLUMNS)
def test_no_table_has_row_numbers_to_replace_by(shop: Ledger, place: Place, table: str) -> None:
    with pytest.raises(sqlite3.OperationalError, match="rowid"):
        place.sql(f"SELECT rowid FROM {table}")  # noqa: S608


@pytest.mark.parametrize("kind", sorted({"project", *SPENDS, *OF_A_JOB, *EITHER}))
def test_a_right_entry_is_accepted(shop: Ledger, place: Place, kind: str) -> None:
    insert(place, "entries", following(place, kind))
    if kind in EITHER:
        row = following(place, kind)
        insert(place, "entries", {**row, "job": None, "job_spent": 0})
    assert {entry["kind"] for entry in place.entries()[4:]} == {kind}


# A window is the one that it was by its local dates, whatever its zone and its instants.
RELEASED = {"window_first": "2026-01-05", "window_after": "2026-01-12"}
OTHER_ZONE = {
    "window_zone": "Asia/Tokyo",
    "window_start": "2026-01-04T15:00:00.000000Z",
    "window_end": "2026-01-11T15:00:00.000000Z",
}
NO_CHARGE: dict[str, Any] = {"charge": 0, "event": None}


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"seq": 9}, "entries follow one another"),
        ({"seq": 0}, "entries follow one another"),
        ({"seq": 4}, "entries are append-only"),
        ({"seq": None}, "(?i)not.null"),
        ({"previous": "0" * 64}, "the chain is broken"),
        ({"previous": None}, "(?i)not.null"),
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
        ({"kind": "record", "job": None, "job_spent": 0}, "windowed"),
        ({"kind": "gift"}, "known_kind|spends_charge"),
        ({"kind": "open", **NO_CHARGE}, "opened_first|sum"),
        ({"job": None, "job_spent": 0}, "of_a_job"),
        ({"job": None, "job_spent": 10}, "job_spent is the sum"),
        ({"window_kind": None}, "windowed"),
        ({"window_first": None}, "windowed"),
        ({"window_after": None}, "windowed"),
        ({"window_after": "2026-03-02"}, "windowed"),
        ({"window_zone": None}, "windowed"),
        ({"window_start": None}, "windowed"),
        ({"window_end": None}, "windowed"),
        ({"window_end": "2026-03-02T00:00:00.000000Z"}, "windowed"),
        ({"body": None}, "(?i)not.null"),
        ({"sums": None}, "(?i)not.null"),
        ({"delta_charge": None}, "(?i)not.null|spends_charge"),
        ({"delta_spent": None}, "(?i)not.null"),
        ({"charged_at": None}, "(?i)not.null"),
        ({"charge": "ten"}, "INTEGER column|type bigint|sum"),
        ({"charge": 10.75}, "INTEGER column|sum"),
        ({"seq": "next"}, "INTEGER column|type bigint|follow"),
        ({"account": "nobody", "seq": 1}, "the chain is broken"),
    ],
)  # fmt: skip
def test_a_wrong_entry_is_refused_with_its_reason(
    shop: Ledger, place: Place, changes: dict[str, Any], reason: str
) -> None:
    before = dump(place)
    refuses(place, reason, "entries", {**following(place), **changes})
    assert dump(place) == before


@pytest.mark.parametrize(
    ("kind", "changes", "reason"),
    [
        ("record", {"event": None}, "spends_charge"),
        ("record", {"delta_charge": -1, "delta_spent": -1}, "spends_charge"),
        ("record", {"delta_charge": 1, "delta_spent": 1}, "the budget is spent"),
        ("record", {"job_spent": 10}, "job_spent is the sum"),
        ("record", {"job": "other", "job_spent": 10}, "of_a_job"),
        ("record", {"window_first": "2026-03-02"}, "windowed"),
        ("record", {"window_after": "2026-03-02"}, "windowed"),
        ("project", {"window_after": "2026-03-02"}, "windowed"),
        ("project", {"event": "{}"}, "spends_charge"),
        ("project", {"delta_charge": 1, "delta_spent": 1}, "spends_charge|the budget is spent"),
        ("refusal", {"event": "{}"}, "spends_charge"),
        ("refusal", {"delta_charge": 1, "delta_spent": 1}, "spends_charge|the budget is spent"),
        ("refusal", {"window_after": None}, "windowed"),
        ("history", {"event": None}, "spends_charge"),
        ("history", {"job": "other", "job_spent": 10}, "of_a_job"),
        ("history", {"delta_charge": 1, "delta_spent": 1}, "the budget is spent"),
        ("amend", {"event": None}, "spends_charge"),
        ("amend", {"window_kind": "week"}, "windowed"),
        ("notice", {"event": "{}"}, "spends_charge"),
        ("pause", {"job": None, "job_spent": 0}, "of_a_job"),
        ("resume", {"window_start": "2026-03-02T00:00:00.000000Z"}, "windowed"),
        ("retire", {"event": "{}"}, "spends_charge"),
        ("audit", {"job": None, "job_spent": 0}, "of_a_job"),
    ],
)
def test_every_kind_charges_and_settles_what_it_may(
    shop: Ledger, place: Place, kind: str, changes: dict[str, Any], reason: str
) -> None:
    row = following(place, kind)
    refuses(place, reason, "entries", {**row, **changes})
    insert(place, "entries", row)


def test_a_hash_stands_for_one_entry(shop: Ledger, place: Place) -> None:
    row = following(place)
    refuses(place, "a hash stands for one entry", "entries", {**row, "hash": row["previous"]})


@pytest.mark.parametrize("charge", [0, -1, -CAP])
def test_a_spend_charges_something(shop: Ledger, place: Place, charge: int) -> None:
    refuses(place, "spends_charge|sums", "entries", following(place, charge=charge))


def test_the_database_refuses_what_is_beyond_the_cap(shop: Ledger, place: Place) -> None:
    left = CAP - place.entries()[-1]["spent"]
    for kind in SPENDS - {"amend"}:
        refuses(place, "the budget is spent", "entries", following(place, kind, left + 1))
    insert(place, "entries", following(place, charge=left))
    refuses(place, "the budget is spent", "entries", following(place, "record", 1))
    # A correction counts also where it does not fit; then nothing else is charged.
    insert(place, "entries", following(place, "amend", 1))
    refuses(place, "the budget is spent", "entries", following(place, "record", 1))
    insert(place, "entries", following(place, "notice"))


@on_sqlite
@pytest.mark.parametrize(
    ("column", "value"), [("charge", "ten"), ("charge", 0.5), ("seq", 1.5), ("spent", b"1")]
)
def test_number_columns_are_strict(shop: Ledger, place: Place, column: str, value: object) -> None:
    """Without the triggers, which would have asked first."""
    place.sql("DROP TRIGGER entries_follow")
    with pytest.raises(sqlite3.IntegrityError, match=f"INTEGER column entries.{column}"):
        insert(place, "entries", {**following(place), column: value})


@pytest.mark.parametrize("changes", [{"seq": 1}, {"seq": 4}, {"seq": 99}, {"job": "other"}])
def test_a_result_needs_a_charge_of_its_own(
    shop: Ledger, place: Place, changes: dict[str, Any]
) -> None:
    row = place.sql("SELECT * FROM releases")[0]
    insert(place, "entries", following(place))
    for wrong in ({**row, "seq": 5, **changes}, {**row, "seq": 5}):
        refuses(place, "belongs to one entry", "releases", wrong)


def test_an_account_is_opened_once(shop: Ledger, place: Place) -> None:
    before = dump(place)
    shop.open_account(terms(cap=10 * CAP), ABOUT, NOW)
    refuses(place, "accounts are append-only", "accounts", {"account": "shop", "sampling_key": ""})
    assert dump(place) == before


@on_sqlite
def test_connections_are_durable_and_hold_the_rules(shop: Ledger) -> None:
    expected = {"synchronous": 2, "journal_mode": "wal", "foreign_keys": 1}
    with shop.looking("shop") as view:
        for name, value in expected.items():
            assert view.connection.exec_driver_sql(f"PRAGMA {name}").scalar() == value
    with shop.writing("shop") as writer:
        for name, value in expected.items():
            assert writer.connection.exec_driver_sql(f"PRAGMA {name}").scalar() == value


def test_a_writer_holds_the_lock_from_the_start_and_a_reader_never(
    shop: Ledger, place: Place
) -> None:
    with closing(place.ledger(wait=0.05)) as other:
        with shop.writing("shop"), pytest.raises(BusyError), other.writing("shop"):
            pass
        with shop.looking("shop"), other.writing("shop"):
            pass


def test_a_reader_cannot_write(shop: Ledger) -> None:
    with pytest.raises(StorageError, match=r"READONLY|25006"), shop.looking("shop") as view:
        view.connection.exec_driver_sql("CREATE TABLE extra (x INTEGER)")


def test_a_second_settlement_of_a_window_is_undone_whole(shop: Ledger, place: Place) -> None:
    before = dump(place)
    planned = plan(job(), terms())
    content = planned.published(exact(week(0), ""), still)
    for window in (week(0), week(1)):
        with pytest.raises(LedgerError, match="settled once"), shop.writing("shop") as writer:
            writer.release(window, planned.charge, planned.mechanism.event, content, NOW)
        with pytest.raises(LedgerError, match="settled once"), shop.writing("shop") as writer:
            writer.refuse(job(), window, planned.charge, "share", NOW)
    assert dump(place) == before
    check_intact(place)


def test_an_error_after_the_entry_leaves_nothing(shop: Ledger, place: Place) -> None:
    before = dump(place)
    with suppress(ZeroDivisionError), shop.writing("shop") as writer:
        writer.refuse(job(), week(2), Charge(1), "share", NOW)
        raise ZeroDivisionError
    assert dump(place) == before


@on_sqlite
def test_a_ledger_brought_back_in_another_journal_mode_is_made_durable_again(
    shop: Ledger, place: Place
) -> None:
    shop.close()
    place.sql("PRAGMA journal_mode = DELETE")
    with shop.writing("shop") as writer:
        assert writer.connection.exec_driver_sql("PRAGMA journal_mode").scalar() == "wal"
