"""Many processes at once: what fits is spent, each window is settled once, no one fails."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable
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
    check_intact,
    job,
    opened,
    release,
    terms,
    week,
)
from tests.ledger.places import Place
from tests.ledger.shops import after, shop, tree
from tests.processes import PROCESSES

RACERS = 16
ROUNDS = 50
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


def race(barrier: Barrier, number: int, place: Place) -> list[str]:
    """Rounds on an account each: by turns all open it for one window, or find it for their own."""
    found, statuses = place.ledger(wait=60), []
    for turn in range(ROUNDS):
        opening, own = terms(f"account-{turn}"), turn % 2
        if own and number == 0:
            found.open_account(opening, ABOUT, NOW)
        barrier.wait(60)
        if not own:
            found.open_account(opening, ABOUT, NOW)
        settled = release(found, week(number * own), plan(job(releases=FIT), opening))
        statuses.append(str(settled.status))
    found.close()
    return statuses


def test_sixteen_processes_spend_the_last_of_a_budget(place: Place) -> None:
    answers = together(race, place, racers=RACERS)
    check_intact(place)
    kinds = Counter((entry["account"], entry["kind"]) for entry in place.entries())
    for turn in range(ROUNDS):
        statuses = Counter(answer[turn] for answer in answers)
        if turn % 2:
            assert statuses == {"published": FIT, "refused": RACERS - FIT}
        else:
            assert statuses == {"published": 1, "already": RACERS - 1}
        found = {kind: n for (account, kind), n in kinds.items() if account == f"account-{turn}"}
        assert found.pop("open") == found.pop("project") == 1
        assert found.get("release", 0) == statuses["published"]
        assert found.get("refusal", 0) == statuses["refused"]


def run(barrier: Barrier, number: int, folder: Path) -> Counter[str]:
    """Two schedulers wake after each week; somebody runs all of it by hand."""
    statuses: Counter[str] = Counter()
    barrier.wait(60)
    for weeks in (1, 2, 3) if number < 2 else (3,):
        with open_project(folder) as project:
            done = project.run(after(weeks))
        assert not done.errors
        statuses.update(one.status for one in done.settled)
    return statuses


def test_two_schedulers_and_a_run_by_hand_publish_each_window_once(place: Place) -> None:
    folder = shop(place.folder, ledger=place.address)
    statuses: Counter[str] = sum(together(run, folder, racers=3), Counter())
    assert (statuses["published"], statuses["refused"]) == (4, 2)
    assert set(statuses) <= {"published", "refused", "already"}
    check_intact(place)
    pages = tree(folder / "site")
    with open_project(folder) as project:
        assert project.build_site() == []
    assert tree(folder / "site") == pages


def test_a_busy_ledger_is_waited_for_and_then_nothing_is_charged(place: Place) -> None:
    found, other = opened(place, wait=0.3), place.ledger()
    before = place.entries()
    with other.writing("shop"):
        begun = time.monotonic()
        with pytest.raises(BusyError, match="nothing was charged") as caught:
            release(found, week(0))
        assert 0.25 < time.monotonic() - begun < 10
        assert caught.value.exit_code == 6
        with pytest.raises(BusyError):
            found.describe("shop", ABOUT.model_copy(update={"title": "Other"}), after(1))
        # Whoever only reads is not kept waiting.
        assert len(found.accounts()) == 1
    assert place.entries() == before
    assert release(found, week(0)).status == "published"
    found.close()
    other.close()


def test_no_noise_is_drawn_without_the_lock(place: Place) -> None:
    def draw(sigma: object, count: int) -> Any:
        pytest.fail("noise was drawn")

    found, other = opened(place, wait=0.05), place.ledger()
    with other.writing("shop"), pytest.raises(BusyError):
        release(found, week(0), sampler=draw)
    assert release(found, week(0)).status == "published"
    found.close()
    other.close()
