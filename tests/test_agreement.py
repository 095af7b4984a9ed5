"""Files, ledger and site are held against each other before anything is charged."""

from __future__ import annotations

import shutil
import sqlite3
from contextlib import closing
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from tests.command import Done, dp_release
from tests.projects import (
    after_weeks,
    leaderboard_job,
    mean_job,
    toml,
    visits,
    write_project,
    write_rows,
)

JOBS = {"mean": mean_job(noise={"releases": 8, "share": Decimal("0.5")})}


def run(folder: Path, weeks: int = 2) -> Done:
    return dp_release(folder, "run", "--yes", "--json", "--now", after_weeks(weeks))


def released(folder: Path) -> list[tuple[str, str, str]]:
    entries = dp_release(folder, "ledger", "list", "--json").document["entries"]
    return [
        (entry["account"], entry["job"], entry["window"]["first"])
        for entry in entries
        if entry["kind"] == "release"
    ]


@pytest.fixture
def shop(tmp_path: Path) -> Path:
    write_project(tmp_path, jobs=JOBS)
    assert run(tmp_path).code == 0
    return tmp_path


def pages(folder: Path) -> dict[Path, bytes]:
    return {path: path.read_bytes() for path in sorted((folder / "site").rglob("*.*"))}


def test_a_lost_ledger_is_not_begun_anew(shop: Path) -> None:
    before = pages(shop)
    shutil.rmtree(shop / "state")
    for arguments in (("run", "--yes", "--now", after_weeks(2)), ("open",), ("site", "build")):
        done = dp_release(shop, *arguments)
        assert done.code == 5
        assert "'ratings'" in done.err
        assert done.err.count("does not hold") == 1
    assert not (shop / "state" / "ledger.db").exists()
    assert pages(shop) == before


def test_an_older_ledger_is_not_spent_from(shop: Path) -> None:
    with closing(sqlite3.connect(shop / "state" / "ledger.db")) as connection:
        connection.execute("VACUUM INTO ?", [str(shop / "old.db")])
    assert run(shop, weeks=3).code == 0
    before, newest = pages(shop), released(shop)
    shutil.copytree(shop / "state", shop / "kept")
    shutil.rmtree(shop / "state")
    (shop / "state").mkdir()
    shutil.move(shop / "old.db", shop / "state" / "ledger.db")
    assert run(shop, weeks=3).code == 5
    assert pages(shop) == before
    shutil.rmtree(shop / "state")
    shutil.copytree(shop / "kept", shop / "state")
    assert run(shop, weeks=3).code == 0
    assert released(shop) == newest


def test_a_site_that_is_behind_its_ledger_is_brought_up(shop: Path) -> None:
    before = pages(shop)
    shutil.rmtree(shop / "site")
    assert run(shop).code == 0
    assert pages(shop) == before


def test_an_edited_record_is_not_spent_from(shop: Path) -> None:
    with closing(sqlite3.connect(shop / "state" / "ledger.db")) as connection:
        connection.execute("DROP TRIGGER entries_no_update")
        connection.execute("UPDATE entries SET spent = 1, job_spent = 1 WHERE seq = 4")
        connection.commit()
    before = pages(shop)
    for arguments in (("run", "--yes", "--now", after_weeks(3)), ("budget",), ("site", "build")):
        assert dp_release(shop, *arguments).code == 5
    assert dp_release(shop, "ledger", "verify", "--json").document["faults"][0]["seq"] == 4
    assert pages(shop) == before


def renamed(folder: Path, name: str, **dataset: Any) -> None:
    write_project(folder, jobs={"mean": {**JOBS["mean"], "dataset": name}}, dataset=dataset)
    file = folder / "dp-release.toml"
    file.write_text(file.read_text().replace('{ "ratings" = {', f'{{ "{name}" = {{'))


def test_a_renamed_dataset_is_not_a_new_budget(shop: Path) -> None:
    before = released(shop)
    renamed(shop, "people")
    for command in ("check", "open", "run"):
        done = dp_release(shop, command, "--json")
        assert done.code == 2
        fault = done.document["error"]["faults"][0]
        assert (fault["key"], "'ratings'" in fault["found"]) == ("dataset.people", True)
        assert 'replaces = "ratings"' in fault["allowed"]
    renamed(shop, "people", replaces="ratings")
    assert dp_release(shop, "open").code == 0
    accounts = dp_release(shop, "budget", "--json").document["accounts"]
    spent = {one["name"]: one["filter"]["spent"] for one in accounts}
    assert spent["people"] == spent["ratings"] > 0
    # The old account is closed: its file, put back, can charge nothing more.
    write_project(shop, jobs=JOBS)
    assert run(shop, weeks=3).code == 2
    assert released(shop) == before
    # Nor can a third take the old one's spend over again, without what came after.
    renamed(shop, "third", replaces="ratings")
    assert run(shop, weeks=3).code == 2
    assert released(shop) == before


def two_datasets(folder: Path, first: str, second: str, replaces: dict[str, str]) -> None:
    names = {first: "ratings", second: "visits"}
    jobs = {f"of-{file}": {**JOBS["mean"], "dataset": name} for name, file in names.items()}
    write_project(folder, jobs=jobs)
    write_rows(folder / "data/visits.parquet", visits())
    project = {"title": "Shop", "ledger": "sqlite:///state/ledger.db", "site": "site"}
    budget = {"epsilon": Decimal("1.5"), "delta": Decimal("1e-6")}
    table = {"unit": "customer_id", "time": "rated_at", "time_zone": "Europe/London"}
    datasets = {
        name: {"source": f"data/{file}.parquet", **table, "budget": budget}
        | ({"replaces": replaces[name]} if name in replaces else {})
        for name, file in names.items()
    }
    text = toml({"project": project, "dataset": datasets})
    (folder / "dp-release.toml").write_text(text, encoding="utf-8")


def test_two_accounts_are_replaced_in_one_edit(tmp_path: Path) -> None:
    two_datasets(tmp_path, "a", "b", {})
    assert run(tmp_path).code == 0
    two_datasets(tmp_path, "c", "d", {"c": "a", "d": "b"})
    assert run(tmp_path, weeks=3).code == 0
    # Whose spend was taken over cannot be taken over again, and is no account to go on with.
    two_datasets(tmp_path, "c", "e", {"c": "a", "e": "b"})
    done = dp_release(tmp_path, "open", "--json")
    assert done.code == 2
    found = [(each["key"], each["found"]) for each in done.document["error"]["faults"]]
    assert (
        "dataset.e.replaces",
        "is 'b', whose spend another account has taken over already",
    ) in found
    accounts = dp_release(tmp_path, "budget", "--json").document["accounts"]
    assert [one["name"] for one in accounts] == ["a", "b", "c", "d"]


def test_a_rho_beyond_the_share_is_a_fault_and_no_refusal(tmp_path: Path) -> None:
    jobs = {"mean": mean_job(noise={"rho": Decimal("2.8")})}
    write_project(tmp_path, jobs=jobs)
    for command in ("check", "run"):
        done = dp_release(tmp_path, command, "--json")
        assert done.code == 2
        assert done.document["error"]["faults"][0]["key"] == "noise"
    # Nor is an account opened for life on the way.
    assert dp_release(tmp_path, "ledger", "list", "--json").document == {"entries": []}


def test_a_changed_and_a_vanished_job_are_reported(shop: Path) -> None:
    changed = mean_job(
        noise=JOBS["mean"]["noise"], contribution={"max_groups": 1, "max_rows_per_group": 1}
    )
    write_project(shop, jobs={"mean": changed})
    warnings = dp_release(shop, "check", "--json").document["warnings"]
    assert any("mean.toml: contribution: not what was released last" in each for each in warnings)
    (shop / "jobs" / "mean.toml").unlink()
    write_project(shop, jobs={"other": leaderboard_job()})
    (shop / "jobs" / "mean.toml").unlink(missing_ok=True)
    warnings = dp_release(shop, "check", "--json").document["warnings"]
    assert any("jobs/mean.toml is gone" in each for each in warnings)


def test_an_account_is_not_opened_on_a_source_that_does_not_fit(tmp_path: Path) -> None:
    """Opening fixes unit and budget for life, so a name misspelt must be found before."""
    write_project(tmp_path, jobs=JOBS, dataset={"unit": "custmer_id"})
    done = run(tmp_path)
    assert done.code == 4
    assert [one["status"] for one in done.document["releases"]] == ["failed"]
    assert "'custmer_id'" in done.document["error"]["message"]
    assert dp_release(tmp_path, "budget", "--json").document == {"accounts": []}
    write_project(tmp_path, jobs=JOBS)
    assert run(tmp_path).code == 0
    assert len(released(tmp_path)) == 2


def test_one_job_of_a_dataset_that_fits_opens_its_account(tmp_path: Path) -> None:
    wrong = leaderboard_job(noise={"releases": 8, "share": Decimal("0.5")})
    wrong["statistic"] = {**wrong["statistic"], "by": "categry"}
    write_project(tmp_path, jobs={**JOBS, "wrong": wrong})
    done = run(tmp_path)
    assert done.code == 4
    assert {(one["job"], one["status"]) for one in done.document["releases"]} == {
        ("mean", "published"),
        ("wrong", "failed"),
    }


def test_the_time_of_an_entry_never_goes_back(shop: Path) -> None:
    record = ("--reason", "late", "--gaussian", "1000", "--sensitivity", "1")
    done = dp_release(shop, "ledger", "record", "ratings", *record, "--now", "2020-01-01T00:00Z")
    assert done.code == 0
    entries = dp_release(shop, "ledger", "list", "--json").document["entries"]
    times = [entry["charged_at"] for entry in entries]
    assert times == sorted(times)
