"""The commands that correct the record, speak to its readers and stop jobs."""

from __future__ import annotations

import json
import shutil
import sqlite3
import tomllib
from collections.abc import Callable
from contextlib import closing
from datetime import datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from release.accounting import Gaussian
from release.bounding import Totals
from release.cli import documents
from release.errors import UsageError
from release.ledger.kinds import Decision, Notice
from release.ledger.records import EntryKind
from release.ledger.store import Ledger
from release.pipeline import Settled, plan, settle
from release.project import open_project
from release.windows import Window
from tests.command import Done, dp_release
from tests.ledger.examples import NOW, exact, funded, job, opened, still, terms, week
from tests.ledger.places import Place
from tests.projects import after_weeks, leaderboard_job, mean_job, toml, write_project

WHY = ("--reason", "the rating form is being redesigned")
FOUND = ("--reason", "the bound on rows was not applied")
ONE, TWO, FIVE = after_weeks(1), after_weeks(2), after_weeks(5)
AT = datetime.fromisoformat(FIVE)


def entries(folder: Path) -> list[dict[str, Any]]:
    """As ``ledger list --json`` has them."""
    with open_project(folder) as project:
        found: list[dict[str, Any]] = documents.entries(project.accounts())["entries"]
    return found


@pytest.fixture(scope="module")
def shop(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A project that has released a week, for commands that must change nothing."""
    folder = write_project(tmp_path_factory.mktemp("shop"))
    with open_project(folder) as project:
        assert project.run(datetime.fromisoformat(ONE)).exit_code == 0
    return folder


def taken_over(folder: Path) -> None:
    """The project's files from when the account of its dataset replaces the one it had."""
    source = {
        "source": "data/ratings.parquet", "unit": "customer_id", "time": "rated_at",
        "time_zone": "Europe/London", "replaces": "ratings",
        "budget": {"epsilon": Decimal("1.5"), "delta": Decimal("1e-6")},
    }  # fmt: skip
    top = {"title": "Shop", "ledger": "sqlite:///state/ledger.db", "site": "site"}
    (folder / "dp-release.toml").write_text(toml({"project": top, "dataset": {"visits": source}}))
    for name, one in (("mean", mean_job), ("top", leaderboard_job)):
        (folder / f"jobs/{name}.toml").write_text(toml(one(dataset="visits")))


def kinds(folder: Path) -> list[tuple[str, str | None]]:
    return [(entry["kind"], entry["job"]) for entry in entries(folder)[2:]]


def run(folder: Path, now: str, *jobs: str) -> Done:
    return dp_release(folder, "run", *jobs, "--now", now)


def page(folder: Path, name: str) -> str:
    return (folder / "site" / name / "index.html").read_text("utf-8")


def fault(done: Done) -> dict[str, Any]:
    assert (done.code, done.err) == (2, "")
    found: dict[str, Any] = done.document["error"]
    assert "Traceback" not in found["message"]
    return found


def amend(folder: Path, *arguments: str, seq: int = 3, reason: tuple[str, ...] = FOUND) -> Done:
    return dp_release(folder, "ledger", "amend", "ratings", str(seq), *reason, *arguments)


GAUSSIAN = ("--gaussian", "10", "--sensitivity", "1")
HUGE = ("--gaussian", "1", "--sensitivity", "1")


# ---------------------------------------------------------------------------- corrections


def test_a_charge_is_raised_and_the_pages_say_so(tmp_path: Path) -> None:
    write_project(tmp_path)
    assert run(tmp_path, TWO).code == 0
    before = entries(tmp_path)
    done = amend(tmp_path, *GAUSSIAN, "--now", "2026-02-01T09:00Z", "--json")
    assert (done.code, done.err) == (0, "")
    (account,) = done.document["accounts"]
    assert account["spent"]["rho"] == pytest.approx(0.005 + before[-1]["rho"], abs=1e-11)
    assert (account["overdrawn"], account["stopped"]) == (None, False)
    after = entries(tmp_path)
    assert after[:-1] == before
    assert (after[-1]["kind"], after[-1]["amends"], after[-1]["job"]) == ("amend", 3, "mean")
    assert after[-1]["charged_at"] == "2026-02-01T09:00:00.000000Z"
    assert after[-1]["rho"] == pytest.approx(0.005 - before[2]["rho"], abs=1e-11)
    assert "mean corrects entry 3" in dp_release(tmp_path, "ledger", "list").out
    assert "The cost of this release was corrected." in page(tmp_path, "jobs/mean/2026-01-05")
    assert "cost corrected later" in page(tmp_path, "jobs/mean")
    assert dp_release(tmp_path, "ledger", "verify").code == 0
    # The words are those of `budget`.
    assert amend(tmp_path, "--gaussian", "9", "--sensitivity", "1").out == (
        dp_release(tmp_path, "budget").out
    )


def test_a_correction_past_the_cap_stops_everything(tmp_path: Path) -> None:
    write_project(tmp_path)
    assert run(tmp_path, ONE).code == 0
    refused = amend(tmp_path, *HUGE, "--now", TWO)
    assert refused.code == 2
    assert "--past-cap" in refused.err
    assert [kind for kind, _ in kinds(tmp_path)] == ["release"]
    done = amend(tmp_path, *HUGE, "--past-cap", "--now", TWO)
    assert (done.code, done.err) == (0, "")
    said = "a correction on 2026-01-19 (entry 4) showed that more was spent than that"
    assert said in done.out
    assert "left of the cap on ρ: 0 of " in done.out
    (account,) = dp_release(tmp_path, "budget", "--json").document["accounts"]
    assert account["overdrawn"] == {"entry": 4, "since": "2026-01-19T09:00:00.000000Z"}
    assert account["left"] == {"rho": 0}
    assert account["stopped"] is True
    assert account["filter"]["spent"] > account["filter"]["cap"]
    assert account["filter"]["epsilon"] > 1.5
    for name in ("", "accounts/ratings", "jobs/mean", "jobs/mean/2026-01-05"):
        assert "More was spent than the budget allows." in page(tmp_path, name)
    assert run(tmp_path, TWO).code == 3
    charge = ("--gaussian", "1000000", "--sensitivity", "1")
    record = ("ledger", "record", "ratings", "--reason", "a survey", *charge)
    assert dp_release(tmp_path, *record).code == 3
    assert [kind for kind, _ in kinds(tmp_path)] == ["release", "amend", "refusal"]
    assert dp_release(tmp_path, "ledger", "verify").code == 0


def test_a_correction_is_described_in_every_way_of_a_record(tmp_path: Path) -> None:
    write_project(tmp_path, budget={"accountant": "rdp", "epsilon": 4})
    event = {"type": "laplace", "version": 1, "sensitivity": 1, "scale": 4}
    (tmp_path / "event.json").write_text(json.dumps(event))
    rounds = ("--dp-sgd", "--sampling-rate", "0.01", "--noise-multiplier", "1.1")
    little = ("--gaussian", "100000", "--sensitivity", "1")
    record = ("ledger", "record", "ratings", "--reason", "a model", *little)
    ways = ([*rounds, "--steps", "20"], ["--event", "event.json"], [*GAUSSIAN, "--count", "9"])
    for number, way in enumerate(ways):
        assert dp_release(tmp_path, *record).code == 0
        done = amend(tmp_path, *way, seq=3 + 2 * number)
        assert (done.code, done.err) == (0, "")
    types = [entry["event"]["type"] for entry in entries(tmp_path)[3::2]]
    assert types == ["poisson-gaussian", "laplace", "gaussian"]
    assert fault(amend(tmp_path, *rounds, "--json"))["message"] == "--dp-sgd needs --steps"


@pytest.mark.parametrize(
    ("seq", "event", "said"),
    [
        (3, ["--gaussian", "1000", "--sensitivity", "1"], "was charged as much or more already"),
        (2, GAUSSIAN, "is no charge that could be corrected"),
        (9, GAUSSIAN, "is no charge that could be corrected"),
        (3, ["--gaussian", "1e-7", "--sensitivity", "1"], "is too much to count"),
        (3, ["--gaussian", "0", "--sensitivity", "1"], "sigma"),
        (3, ["--gaussian", "10"], "--gaussian needs --sensitivity"),
        (3, [], "give exactly one of"),
        (0, GAUSSIAN, "'seq'"),
        (3, ["--dp-sgd", "--sampling-rate", "0.5", "--noise-multiplier", "1", "--steps", "9"],
         "a gdp account cannot take"),
    ],
)  # fmt: skip
def test_corrections_that_are_none(shop: Path, seq: int, event: list[str], said: str) -> None:
    before, pages = entries(shop), page(shop, "accounts/ratings")
    assert said in fault(amend(shop, *event, "--json", seq=seq))["message"]
    assert entries(shop) == before
    assert page(shop, "accounts/ratings") == pages


# ---------------------------------------------------------------------------- notices


def test_notices_are_dated_and_on_the_pages(tmp_path: Path) -> None:
    write_project(tmp_path)
    run(tmp_path, ONE)
    notice = ("ledger", "notice", "ratings", "--now", TWO)
    done = dp_release(tmp_path, *notice, "--text", "Prices are in euros.")
    assert (done.code, done.err) == (0, "")
    assert done.out == "Written as entry 4 of account ratings, and on its pages.\n"
    done = dp_release(
        tmp_path, *notice, "--text", "One name is <misspelt>.", "--job", "mean", "--json"
    )
    assert (done.document["entry"]["seq"], done.document["entry"]["job"]) == (5, "mean")
    assert kinds(tmp_path)[1:] == [("notice", None), ("notice", "mean")]
    one, two = "<bdi>Prices are in euros.</bdi>", "<bdi>One name is &lt;misspelt&gt;.</bdi>"
    shown = {
        name: [text in page(tmp_path, name) for text in (one, two)]
        for name in ("", "accounts/ratings", "jobs/mean")
    }
    assert shown == {
        "": [True, True],
        "accounts/ratings": [True, True],
        "jobs/mean": [False, True],
    }
    assert "Notice of <time>2026-01-19</time>" in page(tmp_path, "")


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["other", "--text", "a"], "there is no account 'other'"),
        (["ratings", "--text", "a", "--job", "nobody"], "there is no job nobody"),
        (["visits", "--text", "a", "--job", "mean"], "is not one of account 'visits'"),
        (["ratings", "--text", "two\nlines"], "the text is empty, or holds a control character"),
        (["ratings", "--text", " "], "the text is empty, or holds a control character"),
        (["ratings"], "--text"),
    ],
)
def test_notices_that_are_none(shop: Path, arguments: list[str], said: str) -> None:
    before = entries(shop)
    assert said in fault(dp_release(shop, "ledger", "notice", *arguments, "--json"))["message"]
    assert entries(shop) == before


@pytest.mark.parametrize(
    "command",
    [
        ["ledger", "amend", "ratings", "3", *FOUND, *GAUSSIAN],
        ["ledger", "notice", "ratings", "--text", "a"],
    ],
)
def test_nothing_is_opened_to_be_corrected_or_explained(
    tmp_path: Path, command: list[str]
) -> None:
    write_project(tmp_path)
    said = fault(dp_release(tmp_path, *command, "--json"))
    assert said["message"] == "there is no account 'ratings'"
    assert not (tmp_path / "state").exists()


@pytest.mark.parametrize("text", ["", "two\nlines", "a\x1b[2J", "\u2028", "\udcff"])
def test_every_text_is_one_line(shop: Path, text: str) -> None:
    with open_project(shop) as project:
        before = project.accounts()
        writes: list[Callable[[], object]] = [
            lambda: project.amend("ratings", 3, Gaussian(1, 10), text, AT),
            lambda: project.notice("ratings", text, AT),
            lambda: project.decide("pause", "mean", text, AT),
        ]
        for write in writes:
            with pytest.raises(UsageError, match="is empty, or holds a control character"):
                write()
        assert project.accounts() == before


# ---------------------------------------------------------------------------- pause and resume


def test_a_paused_job_misses_nothing(tmp_path: Path) -> None:
    write_project(tmp_path, jobs={"mean": mean_job(), "top": leaderboard_job()})
    assert run(tmp_path, ONE).code == 0
    done = dp_release(tmp_path, "pause", "mean", *WHY, "--now", ONE, "--json")
    assert (done.code, done.err) == (0, "")
    assert (done.document["entry"]["kind"], done.document["entry"]["job"]) == ("pause", "mean")
    assert "Paused since" in page(tmp_path, "jobs/mean")
    assert "Paused since" in page(tmp_path, "")
    document = dp_release(tmp_path, "status", "--json").document
    assert {due["job"] for due in document["due"]} == {"top"}
    assert document["halted"] == [
        {
            "job": "mean",
            "state": "paused",
            "since": "2026-01-12T09:00:00.000000Z",
            "reason": "the rating form is being redesigned",
            "account": "ratings",
            "entry": 5,
        }
    ]
    said = (
        "paused since 2026-01-12: mean, so nothing of it is due"
        " (reason: the rating form is being redesigned)"
    )
    assert said in dp_release(tmp_path, "status").out
    done = run(tmp_path, FIVE)
    assert (done.code, done.out.count(said)) == (0, 1)
    assert "4 published" in done.out
    assert ("release", "mean") not in kinds(tmp_path)[3:]
    done = dp_release(tmp_path, "resume", "mean", "--reason", "it is done", "--now", FIVE)
    assert (done.code, done.err) == (0, "")
    assert "Paused" not in page(tmp_path, "jobs/mean")
    assert "4 published" in run(tmp_path, FIVE).out
    found = [e["window"]["first"] for e in entries(tmp_path) if e["kind"] == "release"
             and e["job"] == "mean"]  # fmt: skip
    assert found == ["2026-01-05", "2026-01-12", "2026-01-19", "2026-01-26", "2026-02-02"]
    assert dp_release(tmp_path, "status", "--json").document["halted"] == []


def test_running_a_paused_job_by_its_name_says_that_it_is(tmp_path: Path) -> None:
    write_project(tmp_path, jobs={"mean": mean_job(), "top": leaderboard_job()})
    assert dp_release(tmp_path, "pause", "mean", *WHY, "--now", ONE).code == 0
    done = run(tmp_path, TWO, "mean")
    assert (done.code, done.err) == (0, "")
    assert "Nothing was due" in done.out
    assert "paused since 2026-01-12: mean, so nothing of it is due" in done.out
    document = dp_release(tmp_path, "run", "mean", "--now", TWO, "--json").document
    assert document["releases"] == []
    assert [(one["job"], one["state"]) for one in document["halted"]] == [("mean", "paused")]
    assert "halted" not in dp_release(tmp_path, "run", "top", "--now", TWO, "--json").document


def test_plan_and_check_know_of_a_paused_job(tmp_path: Path) -> None:
    write_project(tmp_path, jobs={"mean": mean_job(), "top": leaderboard_job()})
    before = dp_release(tmp_path, "plan", "--json").document["accounts"][0]["releases"]
    assert {step["job"] for step in before} == {"mean", "top"}
    assert dp_release(tmp_path, "retire", "mean", *WHY, "--now", ONE).code == 0
    after = dp_release(tmp_path, "plan", "--json").document["accounts"][0]["releases"]
    assert {step["job"] for step in after} == {"top"}
    said = (
        "Note: jobs/mean.toml: the job is retired since 2026-01-12, so nothing of it is due: "
        "the rating form is being redesigned"
    )
    assert said in dp_release(tmp_path, "check").out


@pytest.mark.parametrize(
    ("before", "decision", "found"),
    [
        ([], "resume", "is not paused"),
        (["pause"], "pause", "is paused since 2026-01-12"),
        (["pause", "resume"], "resume", "is not paused"),
        (["retire"], "pause", "is retired since 2026-01-12"),
        (["retire"], "resume", "is retired since 2026-01-12"),
        (["retire"], "retire", "is retired since 2026-01-12"),
        (["pause", "retire"], "resume", "is retired since 2026-01-12"),
        (["pause", "resume"], "pause", ""),
        (["pause"], "retire", ""),
    ],
)
def test_which_decision_may_follow_which(
    tmp_path: Path, before: list[EntryKind], decision: EntryKind, found: str
) -> None:
    write_project(tmp_path)
    at = datetime.fromisoformat(ONE)
    with open_project(tmp_path) as project:
        for kind in before:
            project.decide(kind, "mean", "a reason", at)
        if found:
            with pytest.raises(UsageError) as caught:
                project.decide(decision, "mean", "a reason", at)
            assert caught.value.message == f"job 'mean' {found}"
            assert "Nothing was written." in caught.value.hint
        else:
            project.decide(decision, "mean", "a reason", at)
    after = before if found else [*before, decision]
    assert kinds(tmp_path) == [(kind, "mean") for kind in after]


def test_a_job_is_named_and_given_a_reason(tmp_path: Path) -> None:
    write_project(tmp_path)
    assert fault(dp_release(tmp_path, "pause", "nobody", *WHY, "--json"))["hint"] == (
        "The jobs are mean."
    )
    assert "--reason" in fault(dp_release(tmp_path, "pause", "mean", "--json"))["message"]
    assert not (tmp_path / "state").exists()


def test_a_job_whose_file_is_gone_can_be_retired(tmp_path: Path) -> None:
    write_project(tmp_path, jobs={"mean": mean_job(), "top": leaderboard_job()})
    run(tmp_path, ONE)
    (tmp_path / "jobs/mean.toml").unlink()
    assert dp_release(tmp_path, "retire", "mean", *WHY).code == 0
    assert "Retired since" in page(tmp_path, "jobs/mean")
    assert dp_release(tmp_path, "status", "--json").document["halted"][0]["job"] == "mean"


def test_nothing_is_opened_for_a_decision_that_may_not_follow(tmp_path: Path) -> None:
    write_project(tmp_path)
    said = fault(dp_release(tmp_path, "resume", "mean", *WHY, "--json"))
    assert said["message"] == "job 'mean' is not paused"
    assert not (tmp_path / "state").exists()


def test_a_decision_holds_in_the_account_that_takes_over(tmp_path: Path) -> None:
    write_project(tmp_path, jobs={"mean": mean_job(), "top": leaderboard_job()})
    run(tmp_path, ONE)
    for command in (["pause", "mean"], ["retire", "top"]):
        assert dp_release(tmp_path, *command, *WHY, "--now", TWO).code == 0
    taken_over(tmp_path)
    assert run(tmp_path, FIVE).code == 0
    found = [entry for entry in entries(tmp_path) if entry["account"] == "visits"]
    assert [entry["kind"] for entry in found] == ["open", "project", "record", "pause", "retire"]
    assert fault(dp_release(tmp_path, "resume", "top", *WHY, "--json"))
    assert dp_release(tmp_path, "resume", "mean", *WHY).code == 0
    assert "5 published" in run(tmp_path, FIVE).out
    assert "Paused" not in page(tmp_path, "jobs/mean")
    assert page(tmp_path, "jobs/top").count("Retired since") == 1


def test_a_job_is_resumed_where_it_was_halted(tmp_path: Path) -> None:
    """Also by an account that has never released it, and though its file is gone or moved."""
    write_project(tmp_path, jobs={"mean": mean_job(), "top": leaderboard_job()})
    run(tmp_path, ONE)
    assert dp_release(tmp_path, "pause", "mean", *WHY, "--now", TWO).code == 0
    taken_over(tmp_path)
    (tmp_path / "jobs/mean.toml").unlink()
    assert run(tmp_path, TWO).code == 0
    assert dp_release(tmp_path, "resume", "mean", *WHY).code == 0
    assert (entries(tmp_path)[-1]["account"], entries(tmp_path)[-1]["kind"]) == (
        "visits", "resume",
    )  # fmt: skip


def test_readers_of_an_account_that_was_replaced_can_be_told_more(tmp_path: Path) -> None:
    write_project(tmp_path, jobs={"mean": mean_job(), "top": leaderboard_job()})
    run(tmp_path, ONE)
    taken_over(tmp_path)
    assert run(tmp_path, TWO).code == 0
    told = ("ledger", "notice", "ratings", "--text", "The form had an error.", "--now", TWO)
    assert dp_release(tmp_path, *told).code == 0
    assert "The form had an error." in page(tmp_path, "accounts/ratings")
    assert "The form had an error." not in page(tmp_path, "accounts/visits")
    # What is said changes nothing of what was spent or taken over.
    assert dp_release(tmp_path, "ledger", "verify").code == 0
    assert (
        "is closed"
        in fault(dp_release(tmp_path, "ledger", "amend", "ratings", "3", *FOUND, *HUGE, "--json"))[
            "message"
        ]
    )


# ---------------------------------------------------------------------------- under the lock


def decide(ledger: Ledger, kind: EntryKind) -> None:
    with ledger.writing("shop") as writer:
        writer.note(kind, Decision(reason="a reason"), NOW, job="board")


@pytest.mark.parametrize(("kind", "state"), [("pause", "paused"), ("retire", "retired")])
def test_a_window_is_not_released_once_its_job_was_halted(
    place: Place, kind: EntryKind, state: str
) -> None:
    """The decision is taken while the rows are read: after the first look, before the lock."""
    opening = funded("gdp")
    ledger, other = opened(place, opening=opening), place.ledger()
    planned = plan(job(), opening)

    def read(window: Window, key: str) -> Totals:
        decide(other, kind)
        return exact(window, key)

    found = settle(ledger, planned, week(0), read, sampler=still, now=NOW)
    assert (found.status, found.entry) == (state, None)
    assert [row["kind"] for row in place.entries()] == ["open", "project", kind]
    assert place.sql("SELECT * FROM releases") == []

    def unread(window: Window, key: str) -> Totals:
        pytest.fail("rows were read")

    assert settle(ledger, planned, week(0), unread, sampler=still, now=NOW) == found
    if kind == "pause":
        decide(other, "resume")
        settled = settle(ledger, planned, week(0), exact, sampler=still, now=NOW)
        assert settled.status == "published"
        decide(other, "pause")
        assert settle(ledger, planned, week(0), unread, sampler=still, now=NOW).status == "already"
    ledger.close()
    other.close()


def test_a_refusal_is_not_written_for_a_job_that_was_paused(place: Place) -> None:
    ledger, planned = opened(place, cap=0), plan(job(), terms(cap=0))
    decide(ledger, "pause")
    assert settle(ledger, planned, week(0), exact, sampler=still, now=NOW).status == "paused"
    decide(ledger, "resume")
    assert settle(ledger, planned, week(0), exact, sampler=still, now=NOW).status == "refused"
    ledger.close()


def test_two_processes_do_not_take_one_decision_twice(place: Place) -> None:
    one, other = opened(place, opening=funded("gdp")), place.ledger()
    for kind in ("pause", "resume", "retire"):
        decide(one, kind)
        before = place.entries()
        with pytest.raises(UsageError):
            decide(other, kind)
        assert place.entries() == before
    assert other.verify()[1] == []
    one.close()
    other.close()


def test_an_entry_says_what_its_kind_must(place: Place) -> None:
    ledger = opened(place)
    with pytest.raises(TypeError), ledger.writing("shop") as writer:
        writer.note("pause", Notice(text="a text"), NOW, job="board")
    assert len(place.entries()) == 2
    ledger.close()


def test_a_job_that_is_paused_during_a_run_goes_no_further(tmp_path: Path) -> None:
    write_project(tmp_path)
    with open_project(tmp_path) as project, open_project(tmp_path) as other:

        def seen(settled: Settled) -> None:
            if settled.status == "published":
                other.decide("pause", "mean", "something looks wrong", AT)

        run = project.run(AT, seen=seen)
        assert [one.status for one in run.settled] == ["published", *["paused"] * 4]
        assert (run.exit_code, run.errors, list(run.halted)) == (0, [], ["mean"])
        assert "Paused since" in page(tmp_path, "jobs/mean")


def test_nothing_is_dated_in_the_future(tmp_path: Path) -> None:
    """No entry is dated before the one that it follows, so all later ones would bear that time."""
    write_project(tmp_path)
    assert run(tmp_path, ONE).code == 0
    for arguments in (
        ("pause", "mean", "--reason", "moving"),
        ("ledger", "notice", "ratings", "--text", "from the future"),
        ("ledger", "record", "ratings", "--reason", "x", "--gaussian", "9", "--sensitivity", "1"),
        ("ledger", "amend", "ratings", "3", "--reason", "x", *HUGE),
    ):
        done = dp_release(tmp_path, *arguments, "--now", "2190-01-01T00:00:00Z")
        assert done.code == 2
        assert "later than the clock" in done.err
    assert [kind for kind, _ in kinds(tmp_path)] == ["release"]


def test_nothing_is_written_on_a_record_that_was_edited(tmp_path: Path) -> None:
    """Also where it is neither the first nor the last entry, or only a result."""
    write_project(tmp_path)
    assert run(tmp_path, TWO).code == 0
    for statement in (
        "UPDATE entries SET charge = charge + 1 WHERE seq = 3",
        "UPDATE releases SET content = replace(content, 'Tea', 'Tee') WHERE seq = 3",
    ):
        copy = tmp_path / "copy"
        shutil.rmtree(copy, ignore_errors=True)
        shutil.copytree(tmp_path, copy, ignore=shutil.ignore_patterns("copy"))
        with closing(sqlite3.connect(copy / "state/ledger.db")) as client:
            for table in ("entries", "releases"):
                client.execute(f"DROP TRIGGER {table}_no_update")
            client.execute(statement)
            client.commit()
        for arguments in (
            ("run", "--yes", "--now", "2026-01-28T09:00:00Z"),
            ("pause", "mean", "--reason", "moving"),
            ("ledger", "notice", "ratings", "--text", "hello"),
            ("site", "build"),
        ):
            assert dp_release(copy, *arguments).code == 5
        with closing(sqlite3.connect(copy / "state/ledger.db")) as client:
            (count,) = client.execute("SELECT count(*) FROM entries").fetchone()
        assert count == 4


def test_what_is_to_come_leaves_out_the_halted_job_of_any_account(tmp_path: Path) -> None:
    """Handed over one by one, as ``timeline`` does, jobs are still held to every account."""
    write_project(tmp_path)
    assert run(tmp_path, ONE).code == 0
    file = tmp_path / "dp-release.toml"
    table = file.read_text(encoding="utf-8")
    shutil.copy(tmp_path / "data/ratings.parquet", tmp_path / "data/another.parquet")
    other = {
        "source": "data/another.parquet",
        "unit": "customer_id",
        "time": "rated_at",
        "time_zone": "Europe/London",
        "budget": {"epsilon": 1, "delta": Decimal("1e-6")},
    }
    document = tomllib.loads(table, parse_float=Decimal)
    document["dataset"]["another"] = other
    file.write_text(toml(document), encoding="utf-8")
    (tmp_path / "jobs/first.toml").write_text(toml(mean_job(dataset="another")), encoding="utf-8")
    assert run(tmp_path, ONE).code == 0
    assert dp_release(tmp_path, "pause", "mean", "--reason", "moving").code == 0
    with open_project(tmp_path) as project:
        assert list(project.halted(job for job in project.jobs())) == ["mean"]
        assert list(project.halted(job for job in reversed(project.jobs()))) == ["mean"]
