from __future__ import annotations

import json
import signal
import sqlite3
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from datetime import date, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from release.ledger.records import Account
from release.project import open_project
from release.specs import label
from tests.command import Done, dp_release
from tests.projects import (
    GROUPS,
    START,
    after_weeks,
    leaderboard_job,
    mean_job,
    visits,
    write_project,
    write_rows,
)
from tests.tidy import SLOW

ONE_WEEK, TWO_WEEKS = after_weeks(1), after_weeks(2)


def entries(folder: Path) -> list[dict[str, Any]]:
    done = dp_release(folder, "ledger", "list", "--json")
    assert done.code == 0
    found: list[dict[str, Any]] = done.document["entries"]
    return found


def settled(folder: Path) -> list[tuple[str, str, str]]:
    """What the ledger released and refused, in order."""
    return [
        (entry["kind"], entry["job"], entry["window"]["first"])
        for entry in entries(folder)
        if entry["job"] is not None
    ]


def account(folder: Path) -> Account:
    with open_project(folder) as project:
        (found,) = project.accounts()
        return found


def assert_clear(done: Done, *words: str) -> None:
    """One message without a traceback that names these, and says what to do."""
    message, _, hint = done.err.partition("dp-release: ")[2].rstrip().rpartition("\n")
    assert "Traceback" not in done.out + done.err
    assert done.err.count("dp-release: ") == 1
    assert hint
    for word in words:
        assert word in message + hint


def published_rows(folder: Path, job: str = "mean", window: date = START) -> list[Any]:
    text = (folder / "site" / "jobs" / job / str(window) / "release.json").read_text("utf-8")
    rows: list[Any] = json.loads(text)["rows"]
    return rows


def stored_values(folder: Path) -> list[tuple[str, float | None]]:
    ((_, release),) = account(folder).releases.items()
    return sorted((label(row.group), row.value) for row in release.table.rows)


# ---------------------------------------------------------------------------- a good run


RATED = {"by": "category", "groups": GROUPS, "value": "rating", "bounds": [1, 5]}
KINDS = {
    "units": {"kind": "count", "by": "category", "groups": GROUPS, "of": "units"},
    "sums": {
        **RATED,
        "kind": "sum",
        "by": ["category", "rating"],
        "groups": {"category": GROUPS, "rating": [1, 5]},
        "where": [{"column": "rating", "operator": ">", "value": 1}],
    },
    "best": {**RATED, "kind": "leaderboard", "of": "mean", "top": 2},
    "mean": {**RATED, "kind": "mean", "prior_mean": 4},
}


def test_every_kind_of_statistic_is_planned_published_and_not_published_twice(
    tmp_path: Path,
) -> None:
    noise = {"releases": 4, "share": Decimal("0.25")}
    jobs = {name: mean_job(statistic=one, noise=noise) for name, one in KINDS.items()}
    write_project(tmp_path, jobs=jobs, project={"level": Decimal("0.8")})
    assert dp_release(tmp_path, "check").code == 0
    planned = dp_release(tmp_path, "plan", "--group-size", "100", "--json").document
    assert {job["level"] for job in planned["jobs"]} == {0.8}
    assert dp_release(tmp_path, "run", "--now", after_weeks(1)).code == 0
    shown = {name: published_rows(tmp_path, name) for name in KINDS}
    assert [row["group"] for row in shown["sums"]] == [[g, r] for g in GROUPS for r in ("1", "5")]
    assert sorted(row["group"] for row in shown["best"]) == sorted(GROUPS)
    page = (tmp_path / "site" / "jobs" / "units" / str(START) / "index.html").read_text("utf-8")
    assert "noise\nintervals at 80 %" in page
    again = dp_release(tmp_path, "run", "--now", after_weeks(1), "--json")
    assert again.document["releases"] == []
    assert {name: published_rows(tmp_path, name) for name in KINDS} == shown
    assert dp_release(tmp_path, "ledger", "verify").code == 0


def test_a_new_project_runs_and_publishes_nothing_twice(tmp_path: Path) -> None:
    made = dp_release(tmp_path, "init", "my shop")
    assert made.code == 0
    assert "cd 'my shop' && dp-release run --now 2026-03-30T09:00:00+01:00" in made.out
    shop = tmp_path / "my shop"
    first = dp_release(shop, "run", "--now", TWO_WEEKS)
    assert (first.code, first.err.count("published")) == (0, 4)
    assert "4 published, 0 refused" in first.out
    assert f"Open {Path('site/index.html')}" in first.out
    record, pages = entries(shop), {path: path.read_bytes() for path in shop.glob("site/**/*.*")}
    second = dp_release(shop, "run", "--now", TWO_WEEKS)
    assert second.code == 0
    assert "Nothing was due" in second.out
    assert entries(shop) == record
    assert {path: path.read_bytes() for path in shop.glob("site/**/*.*")} == pages


def test_the_documents_of_a_run(tmp_path: Path) -> None:
    write_project(tmp_path, jobs={"mean": mean_job(noise={"releases": 1})})
    done = dp_release(tmp_path, "run", "--now", TWO_WEEKS, "--json")
    assert (done.code, done.err) == (3, "")
    published, refused = done.document["releases"]
    assert published == {
        "job": "mean",
        "window": "2026-01-05",
        "start": "2026-01-05T00:00:00.000000Z",
        "end": "2026-01-12T00:00:00.000000Z",
        "status": "published",
        "entry": 3,
        "epsilon": pytest.approx(1.5, rel=1e-6),
    }
    assert (refused["status"], refused["entry"]) == ("refused", 4)
    record = entries(tmp_path)
    assert [entry["kind"] for entry in record] == ["open", "project", "release", "refusal"]
    assert record[3]["rho"] == 0
    # A refusal is final: it is passed over, and does not fail a later run.
    again = dp_release(tmp_path, "run", "--now", TWO_WEEKS, "--json")
    assert (again.code, again.document) == (0, {"releases": []})


@pytest.mark.parametrize("command", ["check", "status", "budget", "ledger list", "site build"])
def test_reports_print_one_document(tmp_path: Path, command: str) -> None:
    write_project(tmp_path)
    (tmp_path / "data" / "ratings.parquet").unlink()  # none of these reads it
    done = dp_release(tmp_path, *command.split(), "--json")
    assert (done.code, done.err) == (0, "")
    assert isinstance(done.document, dict)
    words = dp_release(tmp_path, *command.split())
    assert (words.code, words.err) == (0, "")
    assert not (tmp_path / "state").exists()


def test_budget_and_status_after_a_run(tmp_path: Path) -> None:
    write_project(tmp_path, jobs={"mean": mean_job(), "top": leaderboard_job()})
    assert dp_release(tmp_path, "run", "top", "--now", ONE_WEEK).code == 0
    (budget,) = dp_release(tmp_path, "budget", "--json").document["accounts"]
    assert (budget["name"], budget["epsilon"], budget["delta"]) == ("ratings", 1.5, 1e-6)
    assert 0 < budget["spent"]["epsilon"]["gdp"] < 1.5
    assert budget["spent"]["rho"] == entries(tmp_path)[-1]["rho"]
    due = dp_release(tmp_path, "status", "--json").document["due"]
    assert {
        "job": "mean",
        "account": "ratings",
        "window": "2026-01-05",
        "end": "2026-01-12T00:00:00.000000Z",
    } in due
    assert ("top", "2026-01-05") not in {(one["job"], one["window"]) for one in due}
    assert "due: mean" in dp_release(tmp_path, "status").out


def test_an_empty_window_is_released_like_any_other(tmp_path: Path) -> None:
    write_project(tmp_path, rows=visits(1))
    assert dp_release(tmp_path, "run", "--now", TWO_WEEKS).code == 0
    first, second = (entry["rho"] for entry in entries(tmp_path) if entry["kind"] == "release")
    assert first == second > 0


# ---------------------------------------------------------------------------- what asks first


@pytest.mark.parametrize("now", ["2026-01-12", "2026-01-12T09:00", "soon", "0001-01-01T00:00Z"])
def test_a_now_that_is_no_instant(tmp_path: Path, now: str) -> None:
    done = dp_release(write_project(tmp_path), "run", "--now", now)
    assert done.code == 2
    assert_clear(done, "--now", "2026-03-30T09:00:00+01:00")


def test_a_now_later_than_the_clock_asks(tmp_path: Path) -> None:
    far = date(2190, 1, 4)
    write_project(tmp_path, jobs={"mean": mean_job(start=far)})
    arguments = ("run", "--now", f"{far + timedelta(days=8)}T00:00Z")
    done = dp_release(tmp_path, *arguments)
    assert done.code == 2
    assert_clear(done, "--now is later than the clock", "--yes")
    assert settled(tmp_path) == []
    assert dp_release(tmp_path, *arguments, "--yes").code == 0
    assert settled(tmp_path) == [("release", "mean", "2190-01-04")]


def test_more_than_sixty_windows_to_catch_up_ask(tmp_path: Path) -> None:
    daily = {"schedule": "daily", "window": "day", "noise": {"releases": 1}}
    write_project(tmp_path, jobs={"mean": mean_job(**daily)})
    done = dp_release(tmp_path, "run", "--now", "2026-03-07T00:00Z")
    assert done.code == 2
    assert_clear(done, "mean has 61 windows to catch up", "--yes")
    assert settled(tmp_path) == []
    assert dp_release(tmp_path, "run", "--now", "2026-03-06T00:00Z").code == 3
    assert [kind for kind, *_ in settled(tmp_path)] == ["release", *["refusal"] * 59]


# ---------------------------------------------------------------------------- usage


@pytest.mark.parametrize(
    ("arguments", "word"),
    [
        (["run", "--bogus"], "--bogus"),
        (["run", "nobody"], "nobody"),
        (["publish"], "publish"),
        (["ledger"], "command"),
        (["init"], "DIR"),
        (["run", "--now"], "--now"),
        (["run", "--now", "yesterday"], "--now"),
    ],
)
def test_usage_errors(tmp_path: Path, arguments: list[str], word: str) -> None:
    write_project(tmp_path)
    done = dp_release(tmp_path, *arguments)
    assert (done.code, done.out) == (2, "")
    assert_clear(done, word)
    done = dp_release(tmp_path, *arguments[:2], "--json", *arguments[2:])
    assert (done.code, done.err) == (2, "")
    assert done.document["error"]["kind"] == "usage"
    assert not (tmp_path / "state").exists()


def test_init_leaves_what_is_there_alone(tmp_path: Path) -> None:
    (tmp_path / "kept.txt").write_text("kept")
    done = dp_release(tmp_path, "init", ".")
    assert done.code == 2
    assert_clear(done, "not an empty folder")
    assert_clear(dp_release(tmp_path, "init", "kept.txt"), "kept.txt", "not an empty folder")
    assert [path.name for path in tmp_path.iterdir()] == ["kept.txt"]
    below = dp_release(tmp_path, "init", "kept.txt/shop")
    assert below.code == 1
    assert_clear(below, "kept.txt/shop", "cannot be written")


# ---------------------------------------------------------------------------- bad projects


def job_with(**statistic: Any) -> dict[str, Any]:
    changed = {**mean_job()["statistic"], **statistic}
    return mean_job(statistic={key: value for key, value in changed.items() if value is not None})


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"jobs": {"mean": job_with(bounds=None)}}, ["jobs/mean.toml", "statistic.bounds"]),
        ({"jobs": {"mean": job_with(bounds=[5, 1])}}, ["jobs/mean.toml", "not below the upper"]),
        ({"jobs": {"mean": mean_job(window="fortnight")}}, ["window", "'fortnight'", '"week"']),
        ({"jobs": {"mean": mean_job(dataset="nobody")}}, ["no account covers 'nobody'"]),
        ({"dataset": {"time_zone": "Mars/Olympus"}}, ["dp-release.toml", "time_zone", "'Mars/"]),
        ({"budget": {"delta": 0}}, ["dataset.ratings.budget.delta", "above 0 and below 1"]),
        ({"budget": {"epsilon": Decimal("-1")}}, ["dataset.ratings.budget.epsilon", "is -1"]),
        ({"project": {"ledger": "ledger.db"}}, ["project.ledger", "sqlite:///"]),
    ],
)
def test_a_bad_project_stops_every_command(
    tmp_path: Path, changes: dict[str, Any], words: list[str]
) -> None:
    write_project(tmp_path, **changes)
    done = dp_release(tmp_path, "run", "--now", ONE_WEEK)
    assert done.code == 2
    assert_clear(done, *words)
    checked = dp_release(tmp_path, "check", "--json")
    assert (checked.code, checked.err) == (2, "")
    assert checked.document["error"]["kind"] == "config"
    assert len(checked.document["error"]["faults"]) == 1
    assert sorted(path.name for path in tmp_path.iterdir()) == ["data", "dp-release.toml", "jobs"]


def test_an_opened_account_keeps_its_terms(tmp_path: Path) -> None:
    write_project(tmp_path)
    assert dp_release(tmp_path, "run", "--now", ONE_WEEK).code == 0
    before = entries(tmp_path)
    write_project(tmp_path, budget={"epsilon": 3})
    for command in (["run", "--now", TWO_WEEKS], ["check"]):
        done = dp_release(tmp_path, *command)
        assert done.code == 2
        assert_clear(done, "dataset.ratings.budget.epsilon", "is 3", "opened with 1.5")
    assert entries(tmp_path) == before


def test_an_epsilon_of_nothing_refuses_everything(tmp_path: Path) -> None:
    write_project(tmp_path, budget={"epsilon": 0})
    done = dp_release(tmp_path, "run", "--now", TWO_WEEKS)
    assert done.code == 3
    assert "0 published, 2 refused" in done.out
    record = entries(tmp_path)
    assert [entry["kind"] for entry in record] == ["open", "project", "refusal", "refusal"]
    assert all(entry["rho"] == 0 for entry in record)
    assert not (tmp_path / "site" / "jobs" / "mean" / "2026-01-05" / "release.json").exists()


# ---------------------------------------------------------------------------- bad sources


def texts(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [{**row, "rating": "five stars"} for row in rows]


@pytest.mark.parametrize(
    ("dataset", "job", "rows", "words"),
    [
        ({"source": "data/none.parquet"}, {}, None, ["data/none.parquet", "missing", "`source`"]),
        ({}, {"value": "stars"}, None, ["no column 'stars'", "rating"]),
        ({"unit": "user"}, {}, None, ["no column 'user'", "customer_id"]),
        ({"time": "rating"}, {}, None, ["'rating'", "a time is", "`time`"]),
        ({"unit": "rated_at"}, {}, None, ["'rated_at'", "a privacy unit is", "`unit`"]),
        ({}, {"by": "rated_at"}, None, ["'rated_at'", "groups are", "`by`"]),
        ({}, {}, texts(visits()), ["'rating'", "a value is a number", "`value`"]),
    ],
)
def test_a_source_that_cannot_be_read(
    tmp_path: Path,
    dataset: dict[str, Any],
    job: dict[str, Any],
    rows: list[dict[str, Any]] | None,
    words: list[str],
) -> None:
    write_project(tmp_path, jobs={"mean": job_with(**job)}, dataset=dataset, rows=rows)
    (tmp_path / "data" / "none.parquet").unlink(missing_ok=True)
    done = dp_release(tmp_path, "run", "--now", TWO_WEEKS)
    assert done.code == 4
    assert_clear(done, "dataset.ratings", *words)
    assert "five stars" not in done.out + done.err
    assert "0 published, 0 refused by the budget, 1 failed" in done.out
    assert settled(tmp_path) == []
    assert list(tmp_path.glob("site/**/release.json")) == []


def test_a_bad_source_stops_its_own_job_and_no_other(tmp_path: Path) -> None:
    jobs = {"bad": job_with(value="stars"), "good": mean_job()}
    write_project(tmp_path, jobs=jobs)
    done = dp_release(tmp_path, "run", "--now", ONE_WEEK, "--json")
    assert (done.code, done.err) == (4, "")
    assert done.document["error"]["kind"] == "source"
    assert [one["status"] for one in done.document["releases"]] == ["failed", "published"]
    assert settled(tmp_path) == [("release", "good", "2026-01-05")]


def test_a_source_that_is_no_file_of_its_kind(tmp_path: Path) -> None:
    write_project(tmp_path)
    (tmp_path / "data" / "ratings.parquet").write_bytes(b"customer 77 paid 13.37")
    done = dp_release(tmp_path, "run", "--now", ONE_WEEK)
    assert done.code == 4
    assert_clear(done, "data/ratings.parquet")
    assert "13.37" not in done.out + done.err
    assert settled(tmp_path) == []


def test_a_mended_source_is_released_then(tmp_path: Path) -> None:
    write_project(tmp_path, rows=texts(visits()))
    assert dp_release(tmp_path, "run", "--now", ONE_WEEK).code == 4
    write_rows(tmp_path / "data" / "ratings.parquet", visits())
    assert dp_release(tmp_path, "run", "--now", ONE_WEEK).code == 0
    assert settled(tmp_path) == [("release", "mean", "2026-01-05")]


# ---------------------------------------------------------------------------- ledger and site


@contextmanager
def locked(ledger: Path) -> Iterator[None]:
    with closing(sqlite3.connect(ledger, isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")
        yield


def test_a_locked_ledger_is_busy(tmp_path: Path) -> None:
    write_project(tmp_path, project={"ledger_wait": Decimal("0.2")})
    assert dp_release(tmp_path, "run", "--now", ONE_WEEK).code == 0
    before = entries(tmp_path)
    with locked(tmp_path / "state" / "ledger.db"):
        busy = dp_release(tmp_path, "run", "--now", TWO_WEEKS)
        document = dp_release(tmp_path, "run", "--now", TWO_WEEKS, "--json")
        assert entries(tmp_path) == before  # who only reads does not wait
    assert (busy.code, document.code, document.err) == (6, 6, "")
    assert_clear(busy, "state/ledger.db", "nothing was charged", "ledger_wait")
    assert document.document["error"]["kind"] == "busy"
    assert not (tmp_path / "site" / "jobs" / "mean" / "2026-01-12").exists()
    assert dp_release(tmp_path, "run", "--now", TWO_WEEKS).code == 0


def test_a_file_that_is_no_ledger(tmp_path: Path) -> None:
    write_project(tmp_path)
    (tmp_path / "state").mkdir()
    (tmp_path / "state" / "ledger.db").write_bytes(b"not a database " * 100)
    done = dp_release(tmp_path, "run", "--now", ONE_WEEK)
    assert done.code == 5
    assert "Traceback" not in done.err
    assert "state/ledger.db" in done.err
    document = dp_release(tmp_path, "ledger", "list", "--json")
    assert (document.code, document.document["error"]["kind"]) == (5, "ledger")


def test_a_full_disk_under_the_ledger_charges_nothing(tmp_path: Path) -> None:
    write_project(tmp_path)
    assert dp_release(tmp_path, "run", "--now", ONE_WEEK).code == 0
    before = entries(tmp_path)
    statistic = leaderboard_job()["statistic"] | {"groups": [f"item {n}" for n in range(3000)]}
    write_project(tmp_path, jobs={"mean": mean_job(), "top": leaderboard_job(statistic=statistic)})
    full = dp_release(tmp_path, "run", "--now", ONE_WEEK, largest_file=100_000)
    assert full.code == 1
    assert_clear(full, "state/ledger.db", "nothing was charged", "full disk")
    assert entries(tmp_path) == before
    assert not (tmp_path / "site" / "jobs" / "top" / "2026-01-05").exists()
    assert dp_release(tmp_path, "run", "--now", ONE_WEEK).code == 0
    assert settled(tmp_path)[1:] == [("release", "top", "2026-01-05")]


def assert_published_later(folder: Path, failed: Done) -> None:
    """The release stays charged and stored, and the next run shows the very same numbers."""
    assert failed.code == 1
    assert_clear(failed, "cannot write", "the same numbers")
    assert not [path for path in folder.rglob("*") if path.name.endswith(".new")]
    before, values = entries(folder), stored_values(folder)
    assert [entry["kind"] for entry in before] == ["open", "project", "release"]
    write_project(folder)
    done = dp_release(folder, "run", "--now", ONE_WEEK)
    assert done.code == 0
    assert "Nothing was due" in done.out
    assert entries(folder) == before
    assert sorted((row["group"], row["value"]) for row in published_rows(folder)) == values


@pytest.mark.parametrize("site", ["data/ratings.parquet/site", "/proc/none/site"])
def test_a_site_folder_that_cannot_be_written(tmp_path: Path, site: str) -> None:
    write_project(tmp_path, project={"site": site})
    assert_published_later(tmp_path, dp_release(tmp_path, "run", "--now", ONE_WEEK))


def test_a_full_disk_under_the_site(tmp_path: Path) -> None:
    write_project(tmp_path)
    (tmp_path / "templates").mkdir()
    (tmp_path / "templates" / "style.css").write_text(f"/* {'long ' * 400_000}*/")
    full = dp_release(tmp_path, "run", "--now", ONE_WEEK, largest_file=1_000_000)
    assert not (tmp_path / "site" / "index.html").exists()
    assert_published_later(tmp_path, full)


def test_a_site_that_fails_under_json(tmp_path: Path) -> None:
    write_project(tmp_path, project={"site": "dp-release.toml/site"})
    done = dp_release(tmp_path, "run", "--now", ONE_WEEK, "--json")
    assert (done.code, done.err) == (1, "")
    assert [one["status"] for one in done.document["releases"]] == ["published"]
    assert done.document["error"]["kind"] == "storage"


# ---------------------------------------------------------------------------- from nothing


def start(folder: Path, *arguments: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-m", "release", *arguments],
        cwd=folder,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


@pytest.mark.parametrize("as_json", [False, True])
def test_an_interrupted_run_leaves_whole_releases(tmp_path: Path, *, as_json: bool) -> None:
    weeks = 50
    write_project(tmp_path, jobs={"mean": mean_job(noise={"releases": 100})})
    extra = ["--json"] if as_json else []
    with start(tmp_path, "run", "--now", after_weeks(weeks), "--yes", *extra) as process:
        while process.poll() is None and not any_release(tmp_path):
            time.sleep(0.05)
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=60)
    assert process.returncode == 130
    if as_json:
        assert (json.loads(out)["error"]["kind"], err) == ("interrupted", "")
    else:
        assert "Stopping after this window" in err
        assert "dp-release: interrupted" in err
    assert "Traceback" not in err
    left = account(tmp_path)
    charged = [entry for entry in left.entries if entry.kind == "release"]
    assert 1 <= len(charged) < weeks
    assert {entry.seq for entry in charged} == set(left.releases)
    assert left.last.spent.units == sum(entry.charge.units for entry in charged)
    done = dp_release(tmp_path, "run", "--now", after_weeks(len(charged) + 1), "--yes")
    assert (done.code, done.err.count("published")) == (0, 1)
    assert account(tmp_path).entries[: len(left.entries)] == left.entries


def any_release(folder: Path) -> bool:
    ledger = folder / "state" / "ledger.db"
    if not ledger.exists():
        return False
    with closing(sqlite3.connect(f"file:{ledger}?mode=ro", uri=True, timeout=10)) as db:
        made = db.execute("SELECT 1 FROM sqlite_master WHERE name = 'releases'").fetchone()
        return bool(made and db.execute("SELECT 1 FROM releases").fetchone())


def test_help_takes_no_slow_import() -> None:
    script = (
        "import sys\n"
        "sys.argv = ['dp-release', '--help']\n"
        "from release.cli import main\n"
        "try:\n"
        "    main()\n"
        "finally:\n"
        "    print(*sys.modules, file=sys.stderr)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", script], check=True, capture_output=True, text=True
    )
    assert "Usage: dp-release" in done.stdout
    assert SLOW & set(done.stderr.split()) == set()


def test_the_module_is_the_command(tmp_path: Path) -> None:
    with start(tmp_path, "--version") as process:
        out, _ = process.communicate()
    assert (process.returncode, out.split()[0]) == (0, "dp-release")
    with start(write_project(tmp_path), "run", "--now", ONE_WEEK) as process:
        out, err = process.communicate()
    assert process.returncode == 0
    assert err.split() == ["published", "2026-W02", "(2026-01-05)", "mean"]
