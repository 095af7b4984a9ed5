"""What ``status`` and ``plan`` say of jobs and accounts that go no further, and in what words."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest

from tests.command import Done, dp_release
from tests.projects import after_weeks, leaderboard_job, mean_job, write_project

ONE, TWO = after_weeks(1), after_weeks(2)
WHY = ("--reason", "the form is being redesigned", "--now", TWO)
HUGE = ("--gaussian", "0.1", "--sensitivity", "1", "--past-cap", "--reason", "almost no noise")


@pytest.fixture
def shop(tmp_path: Path) -> Path:
    """A project that has released one week of two jobs."""
    write_project(tmp_path, jobs={"mean": mean_job(), "top": leaderboard_job()})
    assert dp_release(tmp_path, "run", "--now", ONE).code == 0
    return tmp_path


def fault(done: Done) -> dict[str, Any]:
    found: dict[str, Any] = done.document["error"]
    return found


# ---------------------------------------------------------------------------- status


@pytest.mark.parametrize("lost", ["some", "all"])
def test_status_says_that_the_site_shows_more_than_the_ledger_knows(shop: Path, lost: str) -> None:
    shutil.copytree(shop / "state", shop / "backup")
    assert dp_release(shop, "run", "--now", TWO).code == 0
    assert dp_release(shop, "status").code == 0
    shutil.rmtree(shop / "state")
    if lost == "some":
        (shop / "backup").rename(shop / "state")
    told = dp_release(shop, "run", "--now", TWO, "--json")
    done = dp_release(shop, "status", "--json")
    assert (done.code, done.err) == (told.code, "") == (5, "")
    assert fault(done) == fault(told)
    assert "site: shows an entry of account 'ratings' that the ledger" in fault(done)["message"]
    assert "docs/ledger.md" in fault(done)["hint"]
    assert len(done.document["accounts"]) == (lost == "some")
    words = dp_release(shop, "status")
    assert words.code == 5
    assert words.err == f"dp-release: {fault(done)['message']}\n{fault(done)['hint']}\n"
    assert words.out


def test_status_says_that_an_overdrawn_account_releases_nothing_more(shop: Path) -> None:
    before = dp_release(shop, "status").out
    assert "due: mean, " in before
    assert "nothing of it" not in before
    assert dp_release(shop, "ledger", "amend", "ratings", "3", *HUGE, "--now", TWO).code == 0
    said = dp_release(shop, "status").out
    for job in ("mean", "top"):
        (line,) = (line for line in said.splitlines() if line.startswith(f"due: {job}"))
        assert line.endswith(
            ", but nothing of it will be released: account ratings has spent more than its"
            " budget, as entry 5 showed"
        )
    document = dp_release(shop, "status", "--json").document
    assert {one["account"] for one in document["due"]} == {"ratings"}
    assert document["accounts"][0]["overdrawn"]["entry"] == 5


def test_what_is_left_is_left_of_the_cap(shop: Path) -> None:
    (account,) = dp_release(shop, "status", "--json").document["accounts"]
    cap, spent = account["filter"]["cap"], account["filter"]["spent"]
    said = f"left of the cap on ρ: {cap - spent:,} of {cap:,} units of 1e-12\n"
    assert said in dp_release(shop, "status").out


def test_one_of_a_thing_is_no_more_than_one(tmp_path: Path) -> None:
    write_project(tmp_path, jobs={"mean": mean_job()})
    assert "its 1 job." in dp_release(tmp_path, "check").out
    assert "by gdp; 1 release.\n" in dp_release(tmp_path, "run", "--now", ONE).out
    done = dp_release(tmp_path, "run", "--now", TWO)
    assert "by gdp; 2 releases.\n" in done.out


# ---------------------------------------------------------------------------- plan


def test_plan_says_that_a_job_is_paused_or_retired_and_by_what(shop: Path) -> None:
    assert dp_release(shop, "pause", "mean", *WHY).code == 0
    assert dp_release(shop, "retire", "top", *WHY).code == 0
    said = dp_release(shop, "plan").out
    assert "within the next 520 windows" not in said
    assert (
        "  paused since 2026-01-19 by entry 5 of account ratings: nothing is planned until it is"
        " resumed (reason: the form is being redesigned)\n" in said
    )
    assert (
        "  retired since 2026-01-19 by entry 6 of account ratings: nothing is planned any more"
        " (reason: the form is being redesigned)\n" in said
    )
    jobs = {one["job"]: one for one in dp_release(shop, "plan", "--json").document["jobs"]}
    assert [(one["halted"]["state"], one["stop"]) for one in jobs.values()] == [
        ("paused", None),
        ("retired", None),
    ]
    assert jobs["mean"]["halted"] == {
        "job": "mean",
        "state": "paused",
        "since": "2026-01-19T09:00:00.000000Z",
        "reason": "the form is being redesigned",
        "account": "ratings",
        "entry": 5,
    }
    assert dp_release(shop, "resume", "mean", *WHY).code == 0
    (mean,) = dp_release(shop, "plan", "mean", "--json").document["jobs"]
    assert mean["halted"] is None
    assert mean["stop"] is not None
    assert "first window refused: 2026-W" in dp_release(shop, "plan", "mean").out


# ---------------------------------------------------------------------------- hints


@pytest.mark.parametrize(
    ("arguments", "command"),
    [
        (["ledger", "amend", "ratings", "3"], "dp-release ledger amend"),
        (["ledger", "record", "ratings", "--gaussian", "3"], "dp-release ledger record"),
        (["pause", "mean"], "dp-release pause"),
        (["pause"], "dp-release pause"),
        (["run", "--colour", "red"], "dp-release run"),
        (["ledger", "burn"], "dp-release ledger"),
        (["burn"], "dp-release"),
    ],
)
def test_a_hint_names_the_help_of_the_command_itself(
    tmp_path: Path, arguments: list[str], command: str
) -> None:
    done = dp_release(tmp_path, *arguments, "--json")
    assert (done.code, fault(done)["hint"]) == (2, f"See `{command} --help`.")
    helped = dp_release(tmp_path, *command.split()[1:], "--help")
    assert (helped.code, helped.out.startswith(f"Usage: {command} ")) == (0, True)
