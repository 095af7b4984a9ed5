"""A ledger's file that is not one, in the wrong place, of another time or half lost."""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest

from release.errors import ConfigError, LedgerError, ReleaseError, StorageError
from release.ledger.engine import path_of
from release.ledger.store import Ledger
from tests.ledger.examples import (
    ABOUT,
    ADDRESS,
    NOW,
    PROCESSES,
    check_intact,
    ledger,
    opened,
    raw,
    release,
    terms,
    week,
)

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


def uses(found: Ledger) -> dict[str, Callable[[], object]]:
    """Everything that a run asks of a ledger."""
    return {
        "terms": lambda: found.terms("shop"),
        "settled": lambda: found.settled("shop", "board"),
        "accounts": found.accounts,
        "describe": lambda: found.describe("shop", ABOUT, NOW),
        "open": lambda: found.open_account(terms(), ABOUT, NOW),
        "release": lambda: release(found, week(1)),
    }


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


def test_addresses(tmp_path: Path) -> None:
    assert path_of(tmp_path, "sqlite:///a/b.db") == tmp_path / "a/b.db"
    assert path_of(tmp_path, "sqlite:////a/b.db") == Path("/a/b.db")


@pytest.mark.parametrize(
    "address", ["", "state/ledger.db", "sqlite://", "sqlite:///", "mysql:///x", "sqlite:x", "://"]
)
def test_other_addresses_are_a_fault_of_the_file(tmp_path: Path, address: str) -> None:
    with pytest.raises(ConfigError) as caught:
        path_of(tmp_path, address)
    assert caught.value.faults[0].key == "project.ledger"


def test_a_relative_folder_works(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    found = Ledger(Path(), ADDRESS, wait=1)
    found.open_account(terms(), ABOUT, NOW)
    found.close()
    check_intact(tmp_path)


def test_nothing_written_yet_is_no_error(tmp_path: Path) -> None:
    found = ledger(tmp_path)
    assert not found.exists
    assert found.terms("shop") is None
    assert found.settled("shop", "board") == {}
    assert found.accounts() == []
    assert list(tmp_path.iterdir()) == []


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


@pytest.mark.parametrize("use", ["terms", "settled", "accounts", "describe", "open", "release"])
@pytest.mark.parametrize("how", ["empty", "text", "half", "head", "page", "other"])
def test_what_is_no_ledger_is_named_and_left_alone(tmp_path: Path, how: str, use: str) -> None:
    spoilt(tmp_path, how)
    before = (tmp_path / "state/ledger.db").read_bytes()
    found = ledger(tmp_path)
    with pytest.raises(LedgerError) as caught:
        uses(found)[use]()
    found.close()
    assert str(tmp_path / "state/ledger.db") in caught.value.message
    assert "not an intact ledger" in caught.value.message
    assert (tmp_path / "state/ledger.db").read_bytes() == before


@pytest.mark.parametrize("use", ["terms", "settled", "accounts", "describe", "open", "release"])
@pytest.mark.parametrize("number", [2, 99, -1])
def test_another_format_is_refused(tmp_path: Path, number: int, use: str) -> None:
    opened(tmp_path).close()
    with closing(raw(tmp_path)) as connection:
        connection.execute(f"PRAGMA user_version = {number}")
    found = ledger(tmp_path)
    with pytest.raises(LedgerError, match=f"format {number}, this software writes 1"):
        uses(found)[use]()
    found.close()


@pytest.mark.parametrize("use", ["open", "describe", "release"])
def test_a_directory_in_its_place(tmp_path: Path, use: str) -> None:
    (tmp_path / "state/ledger.db").mkdir(parents=True)
    found = ledger(tmp_path)
    with pytest.raises(StorageError, match="nothing was charged"):
        uses(found)[use]()
    found.close()


def test_a_file_where_its_folder_should_be(tmp_path: Path) -> None:
    (tmp_path / "state").write_text("in the way")
    with pytest.raises(StorageError):
        opened(tmp_path)


def test_a_name_too_long_for_the_file_system(tmp_path: Path) -> None:
    found = Ledger(tmp_path, f"sqlite:///{'x' * 400}.db", wait=1)
    for use in ("terms", "open"):
        with pytest.raises(StorageError):
            uses(found)[use]()


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
        found = ledger(folder)
        with pytest.raises(StorageError):
            uses(found)[use]()


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


def test_an_account_without_entries_is_no_intact_ledger(tmp_path: Path) -> None:
    found = opened(tmp_path)
    with closing(raw(tmp_path)) as connection:
        connection.execute("INSERT INTO accounts VALUES ('bare', 'key')")
    with pytest.raises(LedgerError, match="not an intact ledger"):
        found.terms("bare")
    found.close()


def test_an_unknown_account_is_named(tmp_path: Path) -> None:
    found = opened(tmp_path)
    for use in (found.looking, found.writing):
        with pytest.raises(LedgerError, match="no account 'other'"), use("other"):
            pass
    found.close()


def test_every_error_of_the_family_says_its_path(tmp_path: Path) -> None:
    spoilt(tmp_path, "text")
    with pytest.raises(ReleaseError, match=str(tmp_path)) as caught:
        ledger(tmp_path).accounts()
    assert caught.value.exit_code == 5
    assert caught.value.__cause__ is None
