"""The way out after a lost ledger, as ``docs/ledger.md`` describes it, command by command."""

from __future__ import annotations

import re
import shlex
import shutil
import subprocess
import sys
from datetime import datetime
from pathlib import Path

import pytest

from release import shipped
from release.accounting import Event, Spend, event_from_json
from release.ledger.records import Account
from release.project import open_project
from tests.command import dp_release
from tests.site.examples import doubled

TEXT = (Path(__file__).parent.parent / "docs/ledger.md").read_text("utf-8")
SECTION = TEXT.partition("\n## If it is lost for good\n")[2].partition("\n## ")[0]
FIRST_WEEK, SECOND_WEEK = "2026-01-12T09:00:00+00:00", "2026-01-19T09:00:00+00:00"


def block(language: str) -> str:
    (found,) = re.findall(rf"^```{language}\n(.*?)^```", SECTION, re.M | re.S)
    return str(found)


def account(folder: Path) -> Account:
    with open_project(folder) as project:
        (found,) = project.accounts()
        return found


def charged(of: Account) -> list[Event]:
    """Everything that was charged for, as it was corrected last."""
    last = {e.amends or e.seq: event_from_json(e.event) for e in of.entries if e.event}
    return list(last.values())


def assert_covered(of: Account) -> None:
    """The filter and the odometer hold at least what was really done."""
    events = charged(of)
    assert of.last.spent.units >= sum(of.terms.budget.charge(event).units for event in events)
    true = Spend()
    for event in events:
        true = true.plus(event)
    assert true.beyond(of.last.sums) == Spend()


@pytest.fixture
def shop(tmp_path: Path) -> Path:
    """The sample after its first week, with a correction and a pause."""
    folder = tmp_path / "shop"
    shipped.copy_sample(folder)
    now = datetime.fromisoformat(FIRST_WEEK)
    with open_project(folder) as project:
        assert project.run(now).exit_code == 0
        (found,) = project.accounts()
        really = doubled(found.entries[2])
        project.amend("ratings", 3, really, "the bound on rows was not applied", now)
        project.decide("pause", "category-ratings", "the form is being redesigned", now)
        project.build_site()
    return folder


def follow(folder: Path) -> None:
    """Gives the commands of the example as they are written there."""
    (folder / "lost.py").write_text(block("python"), "utf-8")
    for line in block("console").splitlines():
        command, *words = shlex.split(line.removeprefix("$ "))
        if command == "dp-release":
            done = dp_release(folder, *words)
            assert (done.code, done.err) == (0, ""), line
        else:
            program = sys.executable if command == "python3" else command
            subprocess.run([program, *words], cwd=folder, check=True, capture_output=True)


def test_what_was_spent_and_decided_is_given_again(shop: Path) -> None:
    before = account(shop)
    assert [entry.kind for entry in before.entries[2:]] == ["release", "release", "amend", "pause"]
    assert {each.window.label for each in before.entries[2:4] if each.window} == {"2026-W02"}
    shutil.rmtree(shop / "state")
    follow(shop)
    after = account(shop)
    assert after.terms == before.terms
    assert charged(after) == charged(before)
    assert_covered(after)
    assert after.halted.keys() == before.halted.keys() == {"category-ratings"}
    assert dp_release(shop, "ledger", "verify").code == 0
    # The next run goes on with what was not shown yet.
    for path in shop.glob("jobs/*.toml"):
        text = path.read_text("utf-8")
        changed = text.replace("= 2026-01-05", "= 2026-01-12")
        assert changed != text
        path.write_text(changed, "utf-8")
    done = dp_release(shop, "run", "--now", SECOND_WEEK, "--json")
    assert (done.code, [(one["job"], one["window"]) for one in done.document["releases"]]) == (
        0,
        [("top-products", "2026-01-12")],
    )
    assert (shop / "lost-site/jobs/top-products/2026-01-05/index.html").exists()


def test_an_account_that_had_replaced_another_is_given_again(shop: Path) -> None:
    path = shop / "dp-release.toml"
    heir = path.read_text("utf-8").replace("[dataset.ratings", "[dataset.heir")
    replacing = heir.replace("[dataset.heir]", '[dataset.heir]\nreplaces = "ratings"')
    path.write_text(replacing.replace("epsilon     = 1.5", "epsilon     = 4"), "utf-8")
    for job in shop.glob("jobs/*.toml"):
        job.write_text(job.read_text("utf-8").replace('"ratings"', '"heir"'), "utf-8")
    assert dp_release(shop, "open").code == 0
    assert dp_release(shop, "site", "build").code == 0
    with open_project(shop) as project:
        before = {each.terms.account: each for each in project.accounts()}
    shutil.rmtree(shop / "state")
    shutil.move(shop / "site", shop / "lost-site")
    path.write_text(path.read_text("utf-8").replace('replaces = "ratings"', ""), "utf-8")
    (shop / "lost.py").write_text(block("python"), "utf-8")
    lost = ["lost.py", "lost-site/accounts/heir/ledger.json"]
    subprocess.run([sys.executable, *lost], cwd=shop, check=True, capture_output=True)
    assert dp_release(shop, "open").code == 0
    carried = ["ledger", "record", "heir", "--event", "lost-3.json", "--reason", "spent before"]
    assert dp_release(shop, *carried).code == 0
    after = account(shop)
    assert charged(after) == charged(before["heir"])
    assert_covered(after)


def test_a_correction_past_the_budget_can_be_given_again(shop: Path) -> None:
    with open_project(shop) as project:
        really = doubled(project.accounts()[0].entries[2], 1000)
        now = datetime.fromisoformat(FIRST_WEEK)
        project.amend("ratings", 3, really, "no noise at all", now, past_cap=True)
        project.build_site()
    before = account(shop)
    shutil.rmtree(shop / "state")
    follow(shop)
    assert not account(shop).overdrawn
    again = ["ledger", "amend", "ratings", "3", "--event", "lost-7.json", "--reason", "no noise"]
    assert dp_release(shop, *again).code == 2
    assert dp_release(shop, *again, "--past-cap").code == 0
    after = account(shop)
    assert after.overdrawn
    assert charged(after) == charged(before)
    assert_covered(after)
