"""What is no ledger, none yet, or one of another time, in each of the databases."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path

import pytest

from release.errors import ConfigError, LedgerError
from release.ledger import sqlite
from release.ledger.places import database
from tests.ledger.examples import USES, opened
from tests.ledger.places import Place


@pytest.mark.parametrize(
    ("address", "path"), [("sqlite:///a/b.db", "shop/a/b.db"), ("sqlite:////a/b.db", "/a/b.db")]
)
def test_a_file_is_found_from_the_folder(address: str, path: str) -> None:
    found = database(Path("shop"), address, wait=1)
    assert isinstance(found, sqlite.SQLite)
    assert found.path == Path(path)


SERVER = "postgresql+psycopg://me:s3cret@host/shop"


@pytest.mark.parametrize(
    "address",
    [
        *("", "state/ledger.db", "sqlite://", "sqlite:///", "mysql:///x", "sqlite:x", "://"),
        *("postgresql://me:s3cret@host/shop", "postgresql+psycopg2://me:s3cret@host/shop"),
        *("postgresql+psycopg://me:s3cret@host", "postgresql+psycopg://me:s3cret@host:port/shop"),
        *(f"{SERVER}?schema={name}" for name in ("Shop", "1st", 'a"b', "a;b", "x" * 64)),
        f"{SERVER}?schema=one&schema=two",
    ],
)
def test_other_addresses_are_a_fault_of_the_file(tmp_path: Path, address: str) -> None:
    with pytest.raises(ConfigError) as caught:
        database(tmp_path, address, wait=1)
    assert caught.value.faults[0].key == "project.ledger"
    assert "s3cret" not in str(caught.value) + repr(caught.value.faults)
    assert caught.value.__suppress_context__ or caught.value.__context__ is None


@pytest.mark.parametrize("schema", ["", "?schema=shop_2", "?schema=" + "x" * 63])
def test_no_name_of_a_server_shows_a_password(tmp_path: Path, schema: str) -> None:
    found = database(tmp_path, SERVER + schema, wait=1)
    assert "s3cret" not in found.name
    assert (schema or "dp_release").removeprefix("?schema=") in found.name


def test_nothing_written_yet_is_no_error(place: Place) -> None:
    with closing(place.ledger()) as found:
        assert not found.exists
        assert found.terms("shop") is None
        assert found.settled("shop", "board") == {}
        assert found.accounts() == []
        assert found.verify() == (0, [])
    assert not place.columns()
    assert not place.folder.exists()


@pytest.mark.parametrize("use", USES)
@pytest.mark.parametrize(
    ("format_", "said"),
    [
        ("1", "has format 1, this software writes 2"),
        ("3", "has format 3, this software writes 2"),
        ("99", "has format 99, this software writes 2"),
        ("-1", "not an intact ledger"),
        ("two", "not an intact ledger"),
    ],
)
def test_another_format_is_refused(place: Place, format_: str, said: str, use: str) -> None:
    opened(place).close()
    place.sql("UPDATE alembic_version SET version_num = :format", {"format": format_})
    before = place.entries()
    with closing(place.ledger()) as found, pytest.raises(LedgerError, match=said):
        USES[use](found)
    assert place.entries() == before


@pytest.mark.parametrize("table", ["accounts", "entries", "alembic_version"])
@pytest.mark.parametrize("use", ["terms", "open", "release"])
def test_a_ledger_that_lost_a_table_is_not_intact(place: Place, use: str, table: str) -> None:
    opened(place).close()
    place.lift_rules()
    place.sql(f"ALTER TABLE {table} RENAME TO lost")
    before = place.columns()
    with closing(place.ledger()) as found, pytest.raises(LedgerError, match="not an intact"):
        USES[use](found)
    assert place.columns() == before


def test_an_account_without_entries_is_no_intact_ledger(place: Place) -> None:
    with closing(opened(place)) as found:
        place.sql("INSERT INTO accounts VALUES ('bare', 'key')")
        with pytest.raises(LedgerError, match="not an intact ledger"):
            found.terms("bare")


def test_an_unknown_account_is_named(place: Place) -> None:
    with closing(opened(place)) as found:
        for use in (found.looking, found.writing):
            with pytest.raises(LedgerError, match="no account 'other'"), use("other"):
                pass
