"""A process killed between any two steps leaves nothing or a whole release, and the next goes on.

Each step is found by counting: the child kills itself at its first step, its second, and so on
until it survives. Between two steps nothing touches the disk, so no moment of death is left out.
"""

from __future__ import annotations

import os
import resource
import shutil
import signal
import sys
from collections.abc import Callable, Iterator
from itertools import count
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from sqlalchemy import Engine, Pool, event

from release import site
from release.bounding import Totals
from release.noise import Sampler
from release.pipeline import plan, settle
from release.project import open_project
from release.site import publishing
from release.windows import Window
from tests.ledger.examples import (
    NOW,
    PROCESSES,
    check_intact,
    exact,
    job,
    ledger,
    opened,
    release,
    rows,
    still,
    terms,
    week,
)
from tests.ledger.shops import after, shop, tree

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

    The tables of a new ledger are made in a draft by one transaction: its end stands for it.
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


def settle_two_weeks(at: int, folder: Path) -> None:
    """Opens an account that has one release in it, and asks for two."""
    step = killer(at)
    watch_database(step)
    watch_files(step, folder, FILE_EVENTS)
    planned = plan(job(releases=1), terms())

    def read(window: Window, key: str) -> Totals:
        step()
        totals = exact(window, key)
        step()
        return totals

    found = opened(folder)
    for number in range(2):
        settle(found, planned, week(number), read, sampler=noisy(step, at), now=NOW)
    found.close()


def whole_or_nothing(folder: Path) -> list[dict[str, Any]]:
    """The entries that a death left behind, read from a copy that stays as it was."""
    copy = folder.with_name("copy")
    shutil.rmtree(copy, ignore_errors=True)
    shutil.copytree(folder, copy)
    if not (copy / "state/ledger.db").exists():
        return []
    check_intact(copy)
    entries = rows(copy, "SELECT * FROM entries ORDER BY seq")
    assert len(entries) != 1, "an account is opened and described at once"
    return entries


def test_a_release_is_killed_at_every_step(tmp_path: Path) -> None:
    folder, lengths = tmp_path / "shop", set()
    for at in deaths(settle_two_weeks, folder):
        before = whole_or_nothing(folder) if folder.exists() else []
        lengths.add(len(before))
        assert child(settle_two_weeks, 0, folder)
        after = rows(folder, "SELECT * FROM entries ORDER BY seq")
        assert after[: len(before)] == before
        kinds = [entry["kind"] for entry in after]
        assert kinds == ["open", "project", "release", "refusal"]
        check_intact(folder)
        assert noise(folder) == (at if len(before) > 2 else 0)
        shutil.rmtree(folder)
    assert lengths == {0, 2, 3, 4}


def noise(folder: Path) -> int:
    """What was added to the counts of the only release."""
    found = ledger(folder)
    (only,) = found.accounts()[0].releases.values()
    found.close()
    added = {n - e for n, e in zip(only.noisy["count"], exact(week(0), "")["count"], strict=True)}
    assert len(added) == 1
    return added.pop()


# ----------------------------------------------------------------------- the site, file by file


def pages(folder: Path) -> dict[str, bytes]:
    """What a reader can see of a site: a draft that a dead process left is no page."""
    return {name: body for name, body in tree(folder).items() if Path(name).name[0] != "."}


def write_site(at: int, files: dict[str, bytes], folder: Path) -> None:
    watch_files(killer(at), folder, FILE_EVENTS)
    publishing.write(files, folder)


def test_a_site_is_killed_at_every_write(tmp_path: Path) -> None:
    folder, found = tmp_path / "site", opened(tmp_path)
    release(found, week(0))
    old = site.render(found.accounts(), templates=None)
    release(found, week(1))
    new = site.render(found.accounts(), templates=None)
    found.close()
    for _ in deaths(write_site, new, folder):
        shown = pages(folder)
        assert all(body in {old.get(name), new.get(name)} for name, body in shown.items())
        assert child(write_site, 0, new, folder)
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


def run_project(at: int, folder: Path) -> None:
    """Dies before a commit, or as a page of the site is put in place."""
    step = killer(at)
    event.listen(Engine, "commit", step)
    watch_files(step, folder / "site/accounts", {"os.rename"})
    with open_project(folder) as project:
        done = project.run(after(1), sampler=still)
    assert not done.errors


def test_a_whole_run_is_killed_and_the_next_one_completes_it(tmp_path: Path) -> None:
    folder = shop(tmp_path / "shop", ("board",))
    for _ in deaths(run_project, folder):
        before = whole_or_nothing(folder)
        assert child(run_project, 0, folder)
        after = rows(folder, "SELECT * FROM entries ORDER BY seq")
        assert after[: len(before)] == before
        assert [entry["kind"] for entry in after] == ["open", "project", "release"]
        check_intact(folder)
        with open_project(folder) as project:
            assert project.build_site() == []
        shop(folder, ("board",))
