"""The commands that move a record and that charge a history, in processes of their own."""

from __future__ import annotations

import csv
import io
import json
import os
import re
import shutil
import tomllib
from collections.abc import Mapping, Sequence
from decimal import Decimal
from fractions import Fraction
from pathlib import Path
from threading import Thread
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from release.accounting import (
    ApproximateDP,
    Budget,
    Event,
    Gaussian,
    PoissonGaussian,
    PureDP,
    ZeroConcentrated,
    event_from_json,
)
from release.errors import RefusedError, UsageError
from release.ledger.history import MOST_BYTES, HistoryError, read
from release.ledger.records import Entry
from release.project import open_project
from tests.command import dp_release
from tests.ledger.examples import NOW, check_intact, funded
from tests.ledger.places import SQLite
from tests.ledger.shops import tree
from tests.projects import after_weeks, mean_job, toml, write_project

ROOMY = {"accountant": "zcdp", "epsilon": 20, "threshold_share": Decimal("0.1")}
GAUSSIAN = Gaussian(1, 40, 3)
COLUMNS = ("date", "description", "event", "rho", "epsilon", "delta")
TODAY = NOW.date()
NOW_TEXT = NOW.isoformat()


def entries(folder: Path) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = dp_release(folder, "ledger", "list", "--json").document[
        "entries"
    ]
    return found


def table(*rows: Mapping[str, Any], columns: Sequence[str] = COLUMNS) -> str:
    """A history as CSV."""
    text = io.StringIO(newline="")
    writer = csv.DictWriter(text, columns, restval="")
    writer.writeheader()
    writer.writerows(rows)
    return text.getvalue()


def row(**changes: Any) -> dict[str, Any]:
    return {"date": "2025-05-31", "description": "a survey", "rho": "0.01", **changes}


def remember(folder: Path, content: str | bytes, **options: Any) -> dict[str, list[Entry]]:
    path = folder / "history.csv"
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    with open_project(folder) as project:
        return project.remember(path, NOW, **{"account": "ratings", **options})


# ---------------------------------------------------------------------------- export, import


@pytest.fixture(scope="module")
def released(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A project that has released two weeks, to be copied."""
    folder = write_project(tmp_path_factory.mktemp("released") / "shop")
    assert dp_release(folder, "run", "--now", after_weeks(2), "--yes").code == 0
    return folder


@pytest.fixture
def folder(released: Path, tmp_path: Path) -> Path:
    return shutil.copytree(released, tmp_path / "shop")


def ledger_of(folder: Path) -> dict[str, bytes]:
    return tree(folder / "state") if (folder / "state").exists() else {}


def test_a_project_moves_to_another_ledger(folder: Path) -> None:
    printed = dp_release(folder, "ledger", "export")
    assert (printed.code, printed.err) == (0, "")
    done = dp_release(folder, "ledger", "export", "--out", "copy.jsonl", "--json")
    assert (done.code, done.err) == (0, "")
    copy = folder / "copy.jsonl"
    assert copy.read_text("utf-8") == printed.out
    assert copy.stat().st_mode & 0o777 == 0o600
    before, pages = entries(folder), tree(folder / "site")
    assert done.document == {
        "file": "copy.jsonl",
        "accounts": 1,
        "entries": len(before),
        "sha256": json.loads(printed.out.splitlines()[-1])["sha256"],
    }
    (folder / "state").rename(folder / "old")
    taken = dp_release(folder, "ledger", "import", "copy.jsonl", "--json")
    assert (taken.code, taken.document) == (0, done.document)
    assert entries(folder) == before
    assert dp_release(folder, "site", "build").code == 0
    assert tree(folder / "site") == pages
    assert dp_release(folder, "ledger", "export").out == printed.out
    assert dp_release(folder, "run", "--now", after_weeks(3), "--yes").code == 0
    check_intact(folder)


def test_the_words_of_an_export_and_an_import(folder: Path) -> None:
    done = dp_release(folder, "ledger", "export", "--out", "copy.jsonl")
    assert done.out.startswith("Exported 4 entries of 1 account: copy.jsonl\nSHA-256 of ")
    (folder / "state").rename(folder / "old")
    done = dp_release(folder, "ledger", "import", "copy.jsonl")
    assert done.out.startswith("Imported 4 entries of 1 account: copy.jsonl\n")


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["export", "--out", "dp-release.toml"], "is there already"),
        (["export", "--out", "jobs"], "is there already"),
        (["export", "--out", "new.jsonl"], "no account yet"),
        (["export"], "no account yet"),
        (["import"], "give either"),
        (["import", "a.jsonl", "--history", "b.csv"], "give either"),
        (["import", "a.jsonl", "--account", "ratings"], "--history alone"),
        (["import", "a.jsonl", "--now", after_weeks(1)], "--history alone"),
        (["import", "none.jsonl"], "none.jsonl: cannot be read (No such file or directory)"),
        (["import", "jobs"], "jobs: cannot be read (Is a directory)"),
        (["import", "--history", "none.csv"], "cannot be read (No such file or directory)\nName"),
        (["import", "--history", "jobs"], "cannot be read (Is a directory)"),
        (["import", "--history", "none.csv", "--account", "x"], "no dataset 'x'"),
        (["import", "--history", "none.csv", "--now", "today"], "--now is not a time"),
    ],
)
def test_what_cannot_be_done_as_asked(tmp_path: Path, arguments: list[str], said: str) -> None:
    write_project(tmp_path)
    before = tree(tmp_path)
    done = dp_release(tmp_path, "ledger", *arguments)
    assert (done.code, done.out) == (2, "")
    assert said in done.err
    assert tree(tmp_path) == before


def test_json_lines_are_not_mixed_with_json(tmp_path: Path) -> None:
    write_project(tmp_path)
    done = dp_release(tmp_path, "ledger", "export", "--json")
    assert (done.code, done.err) == (2, "")
    assert done.document["error"]["message"] == "--json needs --out"


def test_a_record_is_never_joined_with_another(folder: Path) -> None:
    assert dp_release(folder, "ledger", "export", "--out", "copy.jsonl").code == 0
    before = entries(folder)
    done = dp_release(folder, "ledger", "import", "copy.jsonl", "--json")
    assert (done.code, done.document["error"]["kind"]) == (2, "usage")
    assert entries(folder) == before


def test_what_is_not_intact_is_neither_exported_nor_imported(folder: Path) -> None:
    copy = folder / "copy.jsonl"
    assert dp_release(folder, "ledger", "export", "--out", "copy.jsonl").code == 0
    copy.write_text(copy.read_text("utf-8").replace('"customer"', '"costumer"'), "utf-8")
    (folder / "state").rename(folder / "old")
    done = dp_release(folder, "ledger", "import", "copy.jsonl", "--json")
    assert done.code == 5
    assert [fault["line"] for fault in done.document["error"]["faults"]] == [6]
    assert ledger_of(folder) == {}
    (folder / "old").rename(folder / "state")
    place = SQLite(folder)
    place.lift_rules()
    place.sql("UPDATE entries SET charge = charge - 1 WHERE seq = 3")
    for arguments in ([], ["--out", "other.jsonl"]):
        done = dp_release(folder, "ledger", "export", *arguments)
        assert (done.code, done.out) == (5, "")
        assert "entry 3 of account 'ratings'" in done.err
    assert not (folder / "other.jsonl").exists()
    assert sorted(path.name for path in folder.iterdir() if "export" in path.name) == []


def test_an_export_that_is_older_than_the_site_is_not_imported(folder: Path) -> None:
    assert dp_release(folder, "ledger", "export", "--out", "copy.jsonl").code == 0
    assert dp_release(folder, "run", "--now", after_weeks(3), "--yes").code == 0
    (folder / "state").rename(folder / "old")
    done = dp_release(folder, "ledger", "import", "copy.jsonl")
    assert done.code == 5
    assert "shows an entry of account 'ratings' that the ledger copy.jsonl does not" in done.err
    assert ledger_of(folder) == {}


def test_a_full_disk_leaves_no_half_of_an_export(tmp_path: Path) -> None:
    write_project(tmp_path, budget=ROOMY)
    remember(tmp_path, table(*(row(description=f"survey {n}") for n in range(60))))
    # The engine's own files stay below this, and the export does not.
    done = dp_release(tmp_path, "ledger", "export", "--out", "copy.jsonl", largest_file=40_000)
    assert (done.code, done.err.splitlines()[0]) == (
        1,
        "dp-release: copy.jsonl: cannot be written (File too large)",
    )
    names = {path.name for path in tmp_path.iterdir()}
    assert names == {"data", "dp-release.toml", "history.csv", "jobs", "state"}


# ---------------------------------------------------------------------------- history


def test_a_history_is_charged_and_shown(tmp_path: Path) -> None:
    write_project(tmp_path, budget=ROOMY)
    rows = [
        row(description='The "survey" of May, Été'),
        row(rho="", epsilon="0.25"),
        row(rho="", epsilon="0.25", delta="1e-9"),
        row(rho="", epsilon="0.5", delta="0.0", date="2024-02-29"),
        row(rho="", event=json.dumps(GAUSSIAN.to_json())),
    ]
    (tmp_path / "past.csv").write_text(table(*rows), "utf-8")
    done = dp_release(
        tmp_path, "ledger", "import", "--history", "past.csv", "--account", "ratings",
        "--now", NOW_TEXT, "--json",
    )  # fmt: skip
    assert (done.code, done.err) == (0, "")
    expected: list[Event] = [
        ZeroConcentrated(0.01), PureDP(0.25), ApproximateDP(0.25, 1e-9), PureDP(0.5), GAUSSIAN,
    ]  # fmt: skip
    made = [entry for entry in entries(tmp_path) if entry["kind"] == "history"]
    assert [entry["charged_at"] for entry in made] == ["2026-06-01T12:30:15.123456Z"] * 5
    for entry, event in zip(made, expected, strict=True):
        found = event_from_json(entry["event"])
        assert type(found) is type(event)
        assert found.rho() == pytest.approx(event.rho())
    assert done.document["charged"] == 5
    (account,) = done.document["accounts"]
    assert account["filter"]["spent"] == sum(round(entry["rho"] * 10**12) for entry in made)
    first = json.loads(dp_release(tmp_path, "ledger", "show", "ratings", "3").out)
    assert first["body"] == {
        "format": 1, "date": "2025-05-31", "description": 'The "survey" of May, Été',
    }  # fmt: skip
    assert (tmp_path / "site/accounts/ratings/index.html").exists()
    assert dp_release(tmp_path, "ledger", "verify").code == 0


def test_the_words_of_a_history(tmp_path: Path) -> None:
    write_project(tmp_path, budget=ROOMY)
    (tmp_path / "past.csv").write_text(table(row()), "utf-8")
    done = dp_release(
        tmp_path, "ledger", "import", "--history", "past.csv", "--account", "ratings"
    )
    assert (done.code, done.err) == (0, "")
    assert done.out.startswith("1 earlier spend charged.\nAccount ratings: ε at most 0.")


def test_a_column_may_say_whose_history_a_row_is(tmp_path: Path) -> None:
    visits = {"source": "data/visits.parquet", "unit": "id", "time": "at", "time_zone": "UTC"}
    budget = {"epsilon": 2, "delta": Decimal("1e-6"), "accountant": "rdp"}
    write_project(tmp_path, budget=ROOMY)
    path = tmp_path / "dp-release.toml"
    document = tomllib.loads(path.read_text("utf-8"), parse_float=Decimal)
    document["dataset"]["visits"] = {**visits, "budget": budget}
    path.write_text(toml(document), "utf-8")
    columns = ("account", *COLUMNS)
    text = table(
        row(account="visits"), row(account="ratings"), row(account="visits", rho="0.02"),
        columns=columns,
    )  # fmt: skip
    charged = remember(tmp_path, text, account=None)
    assert {name: len(found) for name, found in charged.items()} == {"ratings": 1, "visits": 2}
    # All accounts or none: the second of the two budgets is too small.
    before = entries(tmp_path)
    text = table(
        row(account="ratings", date="2025-01-01"), row(account="visits", rho="9"), columns=columns
    )
    with pytest.raises(RefusedError, match="account 'visits' does not cover"):
        remember(tmp_path, text, account=None)
    assert entries(tmp_path) == before
    with pytest.raises(HistoryError, match="line 2 account: is the name of no dataset"):
        remember(tmp_path, table(row(), columns=columns), account=None)


EMPTY = dict.fromkeys(COLUMNS, "")
BAD: dict[str, tuple[dict[str, Any], str]] = {
    "no date": (row(date=""), "date: is not a date"),
    "a date in another order": (row(date="31.05.2025"), "date: is not a date"),
    "a date without dashes": (row(date="20250531"), "date: is not a date"),
    "a week": (row(date="2025-W22-6"), "date: is not a date"),
    "a time": (row(date="2025-05-31T00:00"), "date: is not a date"),
    "no such day": (row(date="2025-02-29"), "date: is not a date"),
    "tomorrow": (row(date="2026-06-02"), "date: is 2026-06-02; must be from"),
    "long ago": (row(date="0025-05-31"), "date: is 0025-05-31; must be from 1900-01-01"),
    "no description": (row(description=" "), "description: is empty"),
    "a tab": (row(description="a\tb"), "description: is empty, or holds a control"),
    "a newline": (row(description="a\nb"), "description: is empty, or holds a control"),
    "a null": (row(description="a\0b"), "description: is empty, or holds a control"),
    "nothing spent": (row(rho=""), "no column; must fill exactly one of event, rho, epsilon"),
    "spent twice over": (row(epsilon="1"), "rho and epsilon; must fill exactly one"),
    "delta alone": (row(rho="", delta="1e-9"), "no column"),
    "delta beside rho": (row(delta="1e-9"), "delta: stands beside rho"),
    "zero": (row(rho="0"), "rho: rho_each must be above 0"),
    "minus": (row(rho="-0.1"), "rho: is not a number"),
    "nan": (row(rho="nan"), "rho: is not a number"),
    "infinity": (row(rho="inf"), "rho: is not a number"),
    "a comma": (row(rho="0,1"), "rho: is not a number"),
    "an underscore": (row(rho="1_0"), "rho: is not a number"),
    "other digits": (row(rho="١"), "rho: is not a number"),
    "hexadecimal": (row(rho="0x1"), "rho: is not a number"),
    "huge": (row(rho="1e999999999"), "rho: is not a number"),
    "long": (row(rho="1" * 5000), "rho: is not a number"),
    "tiny": (row(rho="1e-999999999"), "rho: is not a number"),
    "epsilon zero": (row(rho="", epsilon="0", delta="1e-9"), "epsilon: epsilon must be above 0"),
    "delta one": (row(rho="", epsilon="1", delta="1"), "epsilon: delta must lie strictly"),
    "delta below 0": (row(rho="", epsilon="1", delta="-1"), "delta: is not a number"),
    "no JSON": (row(rho="", event="gaussian"), "event: an event cannot be read as JSON"),
    "not an event": (row(rho="", event="[]"), "event: an event must be a JSON object"),
    "no such event": (row(rho="", event="{}"), "event: the event's type is not known"),
    "twice a key": (row(rho="", event='{"type": 1, "type": 2}'), "names a key twice"),
    "not a number": (
        row(rho="", event='{"type": "zcdp", "version": 1, "rho_each": NaN}'),
        "event: rho_each must be above 0 and finite",
    ),
    "deep": (row(rho="", event='{"a":' * 9000), "event: an event must not be nested too deeply"),
    "many digits": (
        row(rho="", event='{"type": "zcdp", "version": 1, "rho_each": ' + "1" * 9000 + "}"),
        "event: an event cannot be read as JSON",
    ),
    "no rho": (
        row(rho="", event=json.dumps(PoissonGaussian(0.1, 1).to_json())),
        "event: a zcdp account cannot take an event of type poisson-gaussian; Accounts that can",
    ),
}  # fmt: skip


@pytest.mark.parametrize("how", BAD)
def test_a_row_that_cannot_be_charged_is_named(tmp_path: Path, how: str) -> None:
    write_project(tmp_path, budget=ROOMY)
    bad, said = BAD[how]
    with pytest.raises(HistoryError) as caught:
        remember(tmp_path, table(row(date="2020-01-01"), bad))
    (fault,) = caught.value.faults
    assert (fault.file, fault.key.split()[:2]) == ("history.csv", ["line", "3"])
    assert said in str(fault)
    assert ledger_of(tmp_path) == {}


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ("", "date: is missing"),
        ("\n", "date: is missing"),
        ("date,description,rho\n", "the file holds no row"),
        ("date,description,rho\n\n\n", "the file holds no row"),
        ("date;description;rho\n2025-05-31;a;1\n", "with commas between them"),
        ("date,description\n2025-05-31,a\n", "no column says what was spent"),
        ("date,rho\n2025-05-31,1\n", "description: is missing"),
        ("date,description,rho,cost\n2025-05-31,a,1,2\n", "line 1 column 4: is an unknown column"),
        ("Date,description,rho\n2025-05-31,a,1\n", "line 1 column 1: is an unknown column"),
        ("date,description,rho,rho\n2025-05-31,a,1,1\n", "rho: is a column twice"),
        (
            "date,description,rho,account\n2025-05-31,a,1,ratings\n",
            "line 1 column 4: is an unknown column",
        ),
        ("date,description,rho\n2025-05-31,a\n", "line 2: has 2 cells, and the header 3"),
        ("date,description,rho\n2025-05-31,a,b,1\n", "line 2: has 4 cells, and the header 3"),
        ('date,description,rho\n2025-05-31,"a,1\n', "is not CSV"),
        ('date,description,rho\n2025-05-31,"a"b,1\n', "line 2: is not CSV"),
        ("date,description,rho\n2025-05-31," + "a" * 200_000 + ",1\n", "line 2: is not CSV"),
        ("date,description,rho\n2025-05-31,a,0.1\n2025-05-31,a,0.1\n", "line 3: is what line 2"),
    ],
)
def test_a_file_that_is_no_history_is_told_why(tmp_path: Path, content: str, said: str) -> None:
    write_project(tmp_path, budget=ROOMY)
    with pytest.raises(HistoryError) as caught:
        remember(tmp_path, content)
    assert any(said in str(fault) for fault in caught.value.faults)
    assert ledger_of(tmp_path) == {}


@pytest.mark.parametrize(
    "content", [b"\xff\xfe", os.urandom(3000) + b"\xff", b"\x80", b"a" * (MOST_BYTES + 1)], ids=len
)
def test_a_file_that_is_no_text_is_not_read(tmp_path: Path, content: bytes) -> None:
    write_project(tmp_path, budget=ROOMY)
    with pytest.raises(UsageError) as caught:
        remember(tmp_path, content)
    assert str(tmp_path / "history.csv") in caught.value.message
    assert ledger_of(tmp_path) == {}


def test_all_faults_are_told_at_once_with_their_lines(tmp_path: Path) -> None:
    write_project(tmp_path, budget=ROOMY)
    text = table(
        row(event='{\n"type": "zcdp",\n"version": 1, "rho_each": 0.1}', rho=""),
        row(date="never", description="", rho="much"),
        row(),
        row(rho="0", date="2026-12-31"),
    )
    (tmp_path / "past.csv").write_text(text, "utf-8")
    done = dp_release(
        tmp_path, "ledger", "import", "--history", "past.csv", "--account", "ratings",
        "--now", NOW_TEXT, "--json",
    )  # fmt: skip
    found = done.document["error"]
    assert (done.code, found["kind"]) == (2, "history")
    # The first row takes three lines of the file.
    assert [(fault["file"], fault["key"]) for fault in found["faults"]] == [
        ("past.csv", f"line {where}")
        for where in ("5 date", "5 description", "5 rho", "7 rho", "7 date")
    ]
    assert ledger_of(tmp_path) == {}


def test_a_mark_crlf_and_spaces_are_no_faults(tmp_path: Path) -> None:
    write_project(tmp_path, budget=ROOMY)
    lines = ["date, description ,epsilon,delta", "2025-05-31, a survey , 0.5 ,", "", ""]
    charged = remember(tmp_path, b"\xef\xbb\xbf" + "\r\n".join(lines).encode())
    (entry,) = charged["ratings"]
    assert entry.body["description"] == "a survey"
    assert entry.event == PureDP(0.5).to_json()


def test_a_gdp_account_says_what_to_give_instead(tmp_path: Path) -> None:
    write_project(tmp_path)
    with pytest.raises(HistoryError) as caught:
        remember(tmp_path, table(row(), row(rho="", epsilon="1")))
    assert [fault.key for fault in caught.value.faults] == ["line 2 rho", "line 3 epsilon"]
    allowed = caught.value.faults[0].allowed
    assert "in the column event" in allowed
    assert allowed.endswith("Accounts that can: zcdp, rdp.")
    shown = allowed[allowed.index("{") : allowed.index("}") + 1]
    charged = remember(tmp_path, table(row(rho="", event=shown)))
    assert charged["ratings"][0].event == event_from_json(json.loads(shown)).to_json()


def test_a_delta_needs_one_that_was_set_aside(tmp_path: Path) -> None:
    write_project(tmp_path, budget={"accountant": "zcdp", "epsilon": 20})
    threshold = '{"type": "gaussian-threshold", "version": 1, "sensitivity": 1, "sigma": 40, '
    rows = [
        row(rho="", epsilon="0.5", delta="1e-9"),
        row(rho="", event=threshold + '"delta": 1e-9}'),
    ]
    with pytest.raises(HistoryError) as caught:
        remember(tmp_path, table(*rows))
    assert [fault.key for fault in caught.value.faults] == ["line 2 delta", "line 3 event"]
    assert "threshold_share" in caught.value.faults[0].allowed


def test_the_date_is_that_of_the_accounts_own_zone(tmp_path: Path) -> None:
    write_project(tmp_path, budget=ROOMY, dataset={"time_zone": "Pacific/Kiritimati"})
    # There it is 02:30 of the second of June.
    remember(tmp_path, table(row(date="2026-06-02")))
    with pytest.raises(HistoryError):
        remember(tmp_path, table(row(date="2026-06-03")))


def test_a_history_is_charged_once(tmp_path: Path) -> None:
    write_project(tmp_path, budget=ROOMY)
    text = table(row(), row(description="another"), row(date="2025-06-01"), row(rho="0.02"))
    remember(tmp_path, text)
    before = entries(tmp_path)
    with pytest.raises(HistoryError) as caught:
        remember(tmp_path, text)
    assert [fault.key for fault in caught.value.faults] == [f"line {n}" for n in (2, 3, 4, 5)]
    assert "entry 3 of account 'ratings'" in caught.value.faults[0].found
    with pytest.raises(HistoryError) as caught:
        remember(tmp_path, table(row(description="a third"), row(rho="1e-2")))
    assert [fault.key for fault in caught.value.faults] == ["line 3"]
    assert entries(tmp_path) == before
    remember(tmp_path, table(row(description="a survey, the second of that day")))
    assert len(entries(tmp_path)) == len(before) + 1


def test_a_history_that_is_charged_twice_at_once_is_charged_once(tmp_path: Path) -> None:
    write_project(tmp_path, budget=ROOMY)
    path, outcomes = tmp_path / "past.csv", []
    path.write_text(table(row(), row(rho="0.02")), "utf-8")

    def attempt() -> None:
        try:
            with open_project(tmp_path) as project:
                charged = project.remember(path, NOW, account="ratings")
            outcomes.append(len(charged["ratings"]))
        except HistoryError as error:
            outcomes.append(-len(error.faults))

    threads = [Thread(target=attempt) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(outcomes) == [-2, -2, 2]
    assert len(entries(tmp_path)) == 4


def test_a_budget_must_cover_its_history(tmp_path: Path) -> None:
    write_project(tmp_path, budget={"accountant": "zcdp"})
    cap = Budget.open("zcdp", Decimal("1.5"), Decimal("1e-6")).cap
    half = Decimal(cap // 2) / 10**12
    rows = [row(rho=str(half)), row(rho=str(half), description="b"), row(rho="1e-9")]
    with pytest.raises(RefusedError) as caught:
        remember(tmp_path, table(*rows))
    assert "a larger one" in caught.value.hint
    # Nothing is fixed for life yet: the budget may still be enlarged.
    assert ledger_of(tmp_path) == {}
    remember(tmp_path, table(rows[0]))
    before = entries(tmp_path)
    with pytest.raises(RefusedError):
        remember(tmp_path, table(*rows[1:]))
    assert entries(tmp_path) == before


def test_a_budget_must_cover_its_history_and_what_it_takes_over(tmp_path: Path) -> None:
    write_project(tmp_path, budget={"accountant": "zcdp"})
    cap = Budget.open("zcdp", Decimal("1.5"), Decimal("1e-6")).cap
    remember(tmp_path, table(row(rho=str(Decimal(cap // 2) / 10**12))))
    file = tmp_path / "dp-release.toml"
    document = tomllib.loads(file.read_text("utf-8"), parse_float=Decimal)
    old = document["dataset"].pop("ratings")
    document["dataset"]["visits"] = {**old, "replaces": "ratings"}
    file.write_text(toml(document), "utf-8")
    (tmp_path / "jobs/mean.toml").write_text(toml(mean_job(dataset="visits")), "utf-8")
    before = entries(tmp_path)
    rest = table(row(rho=str(Decimal(cap // 2 + 2) / 10**12), description="b"))
    with pytest.raises(RefusedError, match="account 'visits' does not cover"):
        remember(tmp_path, rest, account="visits")
    assert entries(tmp_path) == before


def test_a_refusal_is_code_3(tmp_path: Path) -> None:
    write_project(tmp_path, budget={"accountant": "zcdp"})
    (tmp_path / "past.csv").write_text(table(row(rho="7")), "utf-8")
    done = dp_release(
        tmp_path, "ledger", "import", "--history", "past.csv", "--account", "ratings", "--json"
    )
    assert (done.code, done.document["error"]["kind"]) == (3, "refused")


@given(
    digits=st.integers(1, 10**20),
    places=st.integers(0, 30),
    exponent=st.integers(-9, 3) | st.none(),
)
def test_a_number_is_never_charged_below_what_is_written(
    tmp_path_factory: pytest.TempPathFactory, digits: int, places: int, exponent: int | None
) -> None:
    written = f"{Decimal(digits).scaleb(-places):f}" + ("" if exponent is None else f"e{exponent}")
    path = tmp_path_factory.mktemp("past") / "past.csv"
    path.write_text(table(row(rho=written)), "utf-8")
    terms = {"ratings": funded("zcdp")}
    (spent,) = read(path, terms, account="ratings", now=NOW).accounts["ratings"]
    rho, exact = spent.event.rho(), Fraction(Decimal(written))
    assert rho is not None
    assert exact <= rho <= exact * (1 + Fraction(1, 2**52))


def test_the_history_of_the_documents_is_one(tmp_path: Path) -> None:
    text = (Path(__file__).parent.parent / "docs/commands.md").read_text("utf-8")
    (shown,) = re.findall(r"^```csv\n(.*?)^```", text, re.M | re.S)
    write_project(tmp_path, budget=ROOMY)
    assert len(remember(tmp_path, shown)["ratings"]) == 3
