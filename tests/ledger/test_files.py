"""A ledger's file that is not one, in the wrong place or half lost."""

from __future__ import annotations

import os
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from release.errors import LedgerError, ReleaseError, StorageError
from release.ledger.store import Ledger
from tests.ledger.examples import (
    ABOUT,
    NOW,
    USES,
    check_intact,
    opened,
    release,
    terms,
    week,
)
from tests.ledger.places import SQLite
from tests.processes import PROCESSES

NAMES = [
    "a b",
    "what?",
    "c#3",
    "100%",
    "%20",
    "Été 日本 🫖",
    "a?mode=memory",
    "x&y;z'\"",
    ":memory:",
]


@pytest.mark.parametrize("name", NAMES)
def test_any_name_names_its_file(tmp_path: Path, name: str) -> None:
    folder = tmp_path / name
    found = Ledger(folder, f"sqlite:///{name}/{name}.db", wait=1)
    found.open_account(terms(), ABOUT, NOW)
    assert release(found, week(0)).status == "published"
    assert len(found.accounts()[0].releases) == 1
    found.close()
    assert [path.name for path in (folder / name).iterdir()] == [f"{name}.db"]
    assert [path.name for path in tmp_path.iterdir()] == [name]


def test_a_relative_folder_works(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    found = SQLite(Path()).ledger()
    found.open_account(terms(), ABOUT, NOW)
    found.close()
    check_intact(tmp_path)


def spoilt(folder: Path, how: str) -> None:
    path = folder / "state/ledger.db"
    opened(folder).close()
    whole = path.read_bytes()
    match how:
        case "empty":
            path.write_bytes(b"")
        case "text":
            path.write_text("This is no database, however long it may go on. " * 200)
        case "half":
            path.write_bytes(whole[: len(whole) // 2])
        case "head":
            path.write_bytes(whole[:50])
        case "page":
            path.write_bytes(whole[:4096] + bytes(len(whole) - 4096))
        case "other":
            path.unlink()
            with closing(sqlite3.connect(path)) as connection:
                connection.execute("CREATE TABLE accounts (account TEXT)")


@pytest.mark.parametrize("use", USES)
@pytest.mark.parametrize("how", ["empty", "text", "half", "head", "page", "other"])
def test_what_is_no_ledger_is_named_and_left_alone(tmp_path: Path, how: str, use: str) -> None:
    spoilt(tmp_path, how)
    before = (tmp_path / "state/ledger.db").read_bytes()
    found = SQLite(tmp_path).ledger()
    with pytest.raises(LedgerError) as caught:
        USES[use](found)
    found.close()
    assert str(tmp_path / "state/ledger.db") in caught.value.message
    assert "not an intact ledger" in caught.value.message
    assert (tmp_path / "state/ledger.db").read_bytes() == before


@pytest.mark.parametrize("use", ["open", "describe", "release"])
def test_a_directory_in_its_place(tmp_path: Path, use: str) -> None:
    (tmp_path / "state/ledger.db").mkdir(parents=True)
    found = SQLite(tmp_path).ledger()
    with pytest.raises(StorageError, match="nothing was charged"):
        USES[use](found)
    found.close()


def test_a_file_where_its_folder_should_be(tmp_path: Path) -> None:
    (tmp_path / "state").write_text("in the way")
    with pytest.raises(StorageError):
        opened(tmp_path)


def test_a_name_too_long_for_the_file_system(tmp_path: Path) -> None:
    found = Ledger(tmp_path, f"sqlite:///{'x' * 400}.db", wait=1)
    for use in ("terms", "open"):
        with pytest.raises(StorageError):
            USES[use](found)


def test_a_removed_ledger_whose_log_stayed_is_not_begun_anew(tmp_path: Path) -> None:
    found = opened(tmp_path)
    (tmp_path / "state/ledger.db").unlink()
    assert (tmp_path / "state/ledger.db-wal").exists()
    with pytest.raises(LedgerError, match="write-ahead log"):
        opened(tmp_path)
    assert not found.exists
    found.close()


def as_nobody(folder: Path) -> None:
    """Raises unless each use of a ledger that may not be written gives our own error."""
    if os.getuid() == 0:
        os.setuid(65534)
    for use in ("open", "release"):
        found = SQLite(folder).ledger()
        with pytest.raises(StorageError):
            USES[use](found)


@pytest.mark.parametrize("there", [["ledger.db"], []])
def test_a_read_only_folder(tmp_path: Path, there: list[str]) -> None:
    state = tmp_path / "state"
    state.mkdir()
    if there:
        opened(tmp_path).close()
        (state / "ledger.db").chmod(0o444)
    for folder in (tmp_path, *list(tmp_path.parents)[:2]):
        folder.chmod(0o755)
    state.chmod(0o555)
    child = PROCESSES.Process(target=as_nobody, args=(tmp_path,))
    child.start()
    child.join()
    state.chmod(0o755)
    assert child.exitcode == 0
    assert [path.name for path in state.iterdir() if path.name == "ledger.db"] == there


def test_every_error_of_the_family_says_its_path(tmp_path: Path) -> None:
    spoilt(tmp_path, "text")
    with pytest.raises(ReleaseError, match=str(tmp_path)) as caught:
        SQLite(tmp_path).ledger().accounts()
    assert caught.value.exit_code == 5
    assert caught.value.__cause__ is None


@pytest.mark.parametrize("table", ["entries SET body", "releases SET content"])
def test_text_that_is_not_utf_8_is_no_fault_of_the_disk(tmp_path: Path, table: str) -> None:
    place = SQLite(tmp_path)
    found = opened(place)
    release(found, week(0))
    place.lift_rules()
    place.sql(f"UPDATE {table} = CAST(x'ff' AS TEXT)")
    for ask in (found.verify, found.accounts):
        with pytest.raises(LedgerError, match="not an intact ledger"):
            ask()
    found.close()


def test_an_account_without_entries_is_no_account(tmp_path: Path) -> None:
    place = SQLite(tmp_path)
    found = opened(place)
    place.lift_rules()
    place.sql("DELETE FROM entries")
    with pytest.raises(LedgerError, match="lost its entries"):
        found.accounts()
    found.close()
