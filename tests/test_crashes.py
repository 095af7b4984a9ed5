"""A process killed between any two steps leaves nothing or a whole release, and the next goes on.

Each step is found by counting: the child kills itself at its first step, its second, and so on
until it survives. Between two steps nothing touches the disk, so no moment of death is left out.
"""

from __future__ import annotations

import json
import os
import resource
import shutil
import signal
import sys
from collections.abc import Callable, Iterator
from contextlib import closing
from itertools import count
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from sqlalchemy import Connection, Engine, Pool, event

from release import site
from release.bounding import Totals
from release.noise import Sampler
from release.pipeline import plan, settle
from release.project import open_project
from release.site import publishing
from release.windows import Window
from tests.kills import plainly_shown
from tests.ledger.examples import (
    NOW,
    check_intact,
    exact,
    job,
    opened,
    release,
    still,
    terms,
    week,
)
from tests.ledger.places import Place, Rows, SQLite
from tests.ledger.shops import after, shop, tree
from tests.processes import PROCESSES

Step = Callable[..., None]
FILE_EVENTS = {"open", "os.mkdir", "os.rename", "os.remove", "os.rmdir", "os.link"}
MOST_STEPS = 400


def killer(at: int) -> Step:
    """A step that is fatal the ``at``-th time."""
    steps = count(1)

    def step(*_: object, **__: object) -> None:
        if next(steps) == at:
            os.kill(os.getpid(), signal.SIGKILL)

    return step


def watch_database(step: Step) -> None:
    """Before each statement, before each commit, and after each (as its connection is freed).

    The tables of a new ledger are made by one transaction: its end stands for it.
    """

    def statement(_connection: object, _cursor: object, text: str, *_: object) -> None:
        if not text.lstrip().startswith("CREATE"):
            step()

    event.listen(Engine, "before_cursor_execute", statement)
    event.listen(Engine, "commit", step)
    event.listen(Pool, "checkin", step)


def watch_files(step: Step, folder: Path, events: set[str]) -> None:
    """Before each change to a file of the folder."""

    def hook(name: str, args: tuple[Any, ...]) -> None:
        if name in events and str(args[0]).startswith(str(folder)):
            step()

    sys.addaudithook(hook)


def noisy(step: Step, value: int) -> Sampler:
    """A sampler that tells by its noise in which process it was drawn."""

    def sampler(sigma: object, count: int) -> NDArray[Any]:
        step()
        drawn = np.full(count, value, dtype=np.int64)
        step()
        return drawn

    return sampler


def child(work: Callable[..., None], *args: object) -> bool:
    """Whether a process that does the work survived it; any other end is an error."""
    process = PROCESSES.Process(target=work, args=args)
    process.start()
    process.join()
    assert process.exitcode in {0, -signal.SIGKILL, -signal.SIGXFSZ}
    return process.exitcode == 0


def deaths(work: Callable[..., None], *args: object) -> Iterator[int]:
    """Counts the deaths; ends when the work was survived."""
    for at in range(1, MOST_STEPS):
        died = not child(work, at, *args)
        yield at
        if not died:
            return
    raise AssertionError("the work never ends")


# ------------------------------------------------------------------- the ledger, step by step


def settle_two_weeks(place: Place, value: int = 0, step: Step = lambda: None) -> None:
    """Opens an account that has one release in it, and asks for two."""
    planned = plan(job(releases=1), terms())

    def read(window: Window, key: str) -> Totals:
        step()
        totals = exact(window, key)
        step()
        return totals

    with closing(opened(place)) as found:
        for number in range(2):
            settle(found, planned, week(number), read, sampler=noisy(step, value), now=NOW)


def die_settling(at: int, place: Place) -> None:
    step = killer(at)
    watch_database(step)
    watch_files(step, place.folder, FILE_EVENTS)
    settle_two_weeks(place, at, step)


def whole_or_nothing(place: Place) -> Rows:
    """The entries that a death left behind."""
    aside = place.aside()
    if not aside.columns():
        return []
    check_intact(aside)
    entries = aside.entries()
    assert len(entries) != 1, "an account is opened and described at once"
    return entries


def test_a_release_is_killed_at_every_step(place: Place) -> None:
    lengths = set()
    for at in deaths(die_settling, place):
        before = whole_or_nothing(place)
        lengths.add(len(before))
        settle_two_weeks(place)
        after = place.entries()
        assert after[: len(before)] == before
        kinds = [entry["kind"] for entry in after]
        assert kinds == ["open", "project", "release", "refusal"]
        check_intact(place)
        assert noise(place) == (at if len(before) > 2 else 0)
        place.clear()
    assert lengths == {0, 2, 3, 4}


def noise(place: Place) -> int:
    """What was added to the counts of the only release."""
    (only,) = place.sql("SELECT content FROM releases")
    counts: list[int] = json.loads(only["content"])["noisy"]["count"]
    added = {n - e for n, e in zip(counts, exact(week(0), "").of["count"], strict=True)}
    assert len(added) == 1
    return added.pop()


# ----------------------------------------------------------------------- the site, file by file


def pages(folder: Path) -> dict[str, bytes]:
    """What a reader can see of a site: a draft that a dead process left is no page."""
    return {name: body for name, body in tree(folder).items() if Path(name).name[0] != "."}


def die_writing(at: int, files: dict[str, bytes], folder: Path) -> None:
    watch_files(killer(at), folder, FILE_EVENTS)
    publishing.write(files, folder)


def test_a_site_is_killed_at_every_write(tmp_path: Path) -> None:
    folder, found = tmp_path / "site", opened(tmp_path)
    release(found, week(0))
    old = site.render(found.accounts(), templates=None)
    release(found, week(1))
    new = site.render(found.accounts(), templates=None)
    found.close()
    for _ in deaths(die_writing, new, folder):
        shown = pages(folder)
        assert all(body in {old.get(name), new.get(name)} for name, body in shown.items())
        publishing.write(new, folder)
        assert pages(folder) == new
        shutil.rmtree(folder)
        publishing.write(old, folder)


def write_up_to(size: int, files: dict[str, bytes], folder: Path) -> None:
    """Dies inside the first write that makes a file longer than ``size`` bytes."""
    signal.signal(signal.SIGXFSZ, signal.SIG_DFL)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, size))
    publishing.write(files, folder)


@pytest.mark.parametrize("size", [0, 1, 500, 3000])
def test_a_site_is_killed_inside_a_write(tmp_path: Path, size: int) -> None:
    folder = tmp_path / "site"
    old = {name: f"old {name}".encode() * 1000 for name in ("index.html", "a/data.csv", "b.json")}
    new = {name: body.replace(b"old", b"new") for name, body in old.items()}
    publishing.write(old, folder)
    assert not child(write_up_to, size, new, folder)
    assert pages(folder) == old
    publishing.write(new, folder)
    assert pages(folder) == new


# --------------------------------------------------------------- a whole run, from rows to pages


def die_running(at: int, place: Place) -> None:
    """Before a commit of what was written, or as a page of the site is put in place."""
    step = killer(at)

    def commit(connection: Connection) -> None:
        if not connection.get_execution_options().get("postgresql_readonly"):
            step()

    event.listen(Engine, "commit", commit)
    # Pages are put in place alike wherever the ledger is.
    if isinstance(place, SQLite):
        watch_files(step, place.folder / "site/accounts", {"os.rename"})
    run_project(place.folder)


def run_project(folder: Path) -> None:
    with open_project(folder) as project:
        done = project.run(after(1), sampler=still)
    assert not done.errors


def test_a_whole_run_is_killed_and_the_next_one_completes_it(place: Place) -> None:
    folder = plainly_shown(shop(place.folder, ("board",), place.address))
    for _ in deaths(die_running, place):
        before = whole_or_nothing(place)
        run_project(folder)
        after = place.entries()
        assert after[: len(before)] == before
        assert [entry["kind"] for entry in after] == ["open", "project", "release"]
        check_intact(place)
        with open_project(folder) as project:
            assert project.build_site() == []
        place.clear()
        plainly_shown(shop(folder, ("board",), place.address))
