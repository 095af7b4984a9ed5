"""Many processes at once: what fits is spent, each window is settled once, no one fails."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable
from contextlib import closing
from multiprocessing.queues import SimpleQueue
from multiprocessing.synchronize import Barrier
from pathlib import Path
from typing import Any

import pytest

from release.errors import BusyError
from release.pipeline import plan
from release.project import open_project
from tests.ledger.examples import (
    ABOUT,
    NOW,
    PROCESSES,
    check_intact,
    job,
    ledger,
    opened,
    raw,
    release,
    rows,
    terms,
    week,
)
from tests.ledger.shops import after, shop, tree

RACERS = 16
ROUNDS = 20
FIT = 5


def together(work: Callable[..., object], *args: object, racers: int) -> list[Any]:
    """What ``work`` gave in each of some processes; it meets the others at the barrier."""
    answers: SimpleQueue[Any] = PROCESSES.SimpleQueue()
    barrier = PROCESSES.Barrier(racers)
    children = [
        PROCESSES.Process(target=answered, args=(answers, work, barrier, number, *args))
        for number in range(racers)
    ]
    for child in children:
        child.start()
    found = [answers.get() for _ in children]
    for child in children:
        child.join()
    return found


def answered(answers: SimpleQueue[Any], work: Callable[..., object], *args: object) -> None:
    try:
        answers.put(work(*args))
    except Exception as error:
        answers.put(repr(error))
        raise


def race(barrier: Barrier, number: int, folder: Path) -> list[str]:
    """Rounds by turns, each on an account of its own: a window for each racer, or one for all."""
    found, statuses = ledger(folder, wait=60), []
    for turn in range(ROUNDS):
        barrier.wait(60)
        opening = terms(f"account-{turn}")
        found.open_account(opening, ABOUT, NOW)
        window = week(number if turn % 2 else 0)
        settled = release(found, window, plan(job(releases=FIT), opening))
        statuses.append(str(settled.status))
    found.close()
    return statuses


def test_sixteen_processes_spend_the_last_of_a_budget(tmp_path: Path) -> None:
    answers = together(race, tmp_path, racers=RACERS)
    check_intact(tmp_path)
    entries = rows(tmp_path, "SELECT account, kind FROM entries")
    for turn in range(ROUNDS):
        statuses = Counter(answer[turn] for answer in answers)
        if turn % 2:
            assert statuses == {"published": FIT, "refused": RACERS - FIT}
        else:
            assert statuses == {"published": 1, "already": RACERS - 1}
        kinds = Counter(row["kind"] for row in entries if row["account"] == f"account-{turn}")
        assert kinds["release"] == statuses["published"]
        assert kinds["refusal"] == statuses["refused"]
        assert (kinds["open"], kinds["project"]) == (1, 1)


def run(barrier: Barrier, number: int, folder: Path) -> Counter[str]:
    with open_project(folder) as project:
        barrier.wait(60)
        done = project.run(after(3))
        assert not done.errors
        return Counter(one.status for one in done.settled)


def test_two_runs_of_one_project_publish_each_window_once(tmp_path: Path) -> None:
    folder = shop(tmp_path / "shop")
    first, second = together(run, folder, racers=2)
    both = first + second
    assert (both["published"], both["refused"]) == (4, 2)
    assert set(both) <= {"published", "refused", "already"}
    check_intact(folder)
    pages = tree(folder / "site")
    with open_project(folder) as project:
        assert project.build_site() == []
    assert tree(folder / "site") == pages


def test_a_busy_ledger_is_waited_for_and_then_nothing_is_charged(tmp_path: Path) -> None:
    found = opened(tmp_path, wait=0.3)
    before = rows(tmp_path, "SELECT * FROM entries")
    with closing(raw(tmp_path)) as other:
        other.execute("BEGIN IMMEDIATE")
        begun = time.monotonic()
        with pytest.raises(BusyError, match="nothing was charged") as caught:
            release(found, week(0))
        assert 0.25 < time.monotonic() - begun < 10
        assert caught.value.exit_code == 6
        with pytest.raises(BusyError):
            found.describe("shop", ABOUT.model_copy(update={"title": "Other"}), after(1))
        # Whoever only reads is not kept waiting.
        assert len(found.accounts()) == 1
        other.execute("ROLLBACK")
    assert rows(tmp_path, "SELECT * FROM entries") == before
    assert release(found, week(0)).status == "published"
    found.close()


def test_no_noise_is_drawn_without_the_lock(tmp_path: Path) -> None:
    def draw(sigma: object, count: int) -> Any:
        pytest.fail("noise was drawn")

    found = opened(tmp_path, wait=0.05)
    with closing(raw(tmp_path)) as other:
        other.execute("BEGIN IMMEDIATE")
        with pytest.raises(BusyError):
            release(found, week(0), sampler=draw)
    assert release(found, week(0)).status == "published"
    found.close()
