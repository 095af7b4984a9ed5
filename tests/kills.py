"""Kills a run of a small project at random moments, and holds what is left to what was there.

A round is one project from nothing: its run is killed again and again, each time at a moment
drawn uniformly over the length of an undisturbed run, until one outruns its killer.
"""

from __future__ import annotations

import os
import random
import secrets
import shutil
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from decimal import Decimal
from itertools import islice
from pathlib import Path

from release import site
from release.project import open_project
from tests.ledger.examples import check_intact
from tests.ledger.places import Place, PostgreSQL, Rows
from tests.ledger.shops import after, tree
from tests.processes import PROCESSES
from tests.projects import leaderboard_job, mean_job, write_project

WEEKS = 3
NOW = after(WEEKS)
# Of each job one window is released and the others are refused.
KINDS = ["open", "project", "release", "release", *4 * ["refusal"]]
MOST_KILLS = 8
# Pages that say everything they are given. To compile the shipped ones is half the work of a run.
PAGES, TEMPLATE = ("account", "index", "job", "release"), "{{ page }}\n"
# A server may still be about to carry out what a client asked for before it died.
AT_WORK = """SELECT pid FROM pg_stat_activity
WHERE backend_type = 'client backend' AND state <> 'idle' AND pid <> pg_backend_pid()"""

Attempt = Callable[[Path, float | None], bool]
"""Runs the project in a folder, and kills the run at a moment, in seconds from its start. Says
whether the run had finished by then."""


def run(folder: Path) -> None:
    with open_project(folder) as project:
        done = project.run(NOW)
    assert not done.errors


def forked(folder: Path, moment: float | None) -> bool:
    """A run in a process that is forked with all its imports done."""
    process = PROCESSES.Process(target=run, args=(folder,))
    process.start()
    process.join(moment)
    process.kill()
    process.join()
    assert process.exitcode in {0, -signal.SIGKILL}
    return process.exitcode == 0


def command(folder: Path, moment: float | None) -> bool:
    """The real command, from its first import on; whatever it started dies with it."""
    arguments = ["-m", "release", "run", "--now", NOW.isoformat()]
    process = subprocess.Popen(
        [sys.executable, *arguments],
        cwd=folder,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        start_new_session=True,
    )
    try:
        said, _ = process.communicate(timeout=moment)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        said, _ = process.communicate()
    # 3 says that a window was refused, which a run that finishes another's work need not meet.
    assert process.returncode in {0, 3, -signal.SIGKILL}, said.decode()
    return process.returncode >= 0


def prepared(place: Place) -> Path:
    """The project, with its ledger in that place and nothing done yet."""
    if place.folder.exists():
        place.clear()
    shutil.rmtree(place.folder, ignore_errors=True)
    once = {"noise": {"releases": 1, "share": Decimal("0.5")}}
    jobs = {"board": leaderboard_job(**once), "mean": mean_job(**once)}
    folder = write_project(place.folder, jobs=jobs, project={"ledger": place.address})
    return plainly_shown(folder)


def plainly_shown(folder: Path) -> Path:
    """Gives a project pages of its own that are quickly made."""
    (folder / "templates").mkdir()
    for page in PAGES:
        (folder / f"templates/{page}.html").write_text(TEMPLATE)
    return folder


def moments(longest: float) -> Iterator[float]:
    """Moments up to the longest, in seconds; a failed test shows the seed they were drawn from."""
    seed = secrets.randbits(64)
    print(f"seed {seed}, longest {longest}")
    drawn = random.Random(seed)  # noqa: S311
    while True:
        yield drawn.uniform(0, longest)


def length(place: Place, attempt: Attempt) -> float:
    """How long an undisturbed run takes, in seconds; the first one may wait for imports."""
    taken = []
    for _ in range(2):
        folder, began = prepared(place), time.perf_counter()
        assert attempt(folder, None)
        taken.append(time.perf_counter() - began)
    return min(taken)


@dataclass(frozen=True)
class State:
    """What is committed, and what of it the site shows for good: no later run may change it."""

    entries: Rows = field(default_factory=list)
    results: Rows = field(default_factory=list)
    shown: dict[str, bytes] = field(default_factory=dict)

    def check_follows(self, earlier: State) -> None:
        """Holds this state to an earlier one: there may be more, and all that was is the same."""
        assert self.entries[: len(earlier.entries)] == earlier.entries
        assert self.results[: len(earlier.results)] == earlier.results
        assert {name: self.shown.get(name) for name in earlier.shown} == earlier.shown


def state(place: Place) -> State:
    """What a killed run has left, each part of it whole; looking at it changes nothing."""
    while isinstance(place, PostgreSQL) and place.sql(AT_WORK):
        time.sleep(0.005)
    site_folder = place.folder / "site"
    shown = {
        str(path.relative_to(site_folder)): path.read_bytes()
        for name in ("release.json", "data.csv")
        for path in site_folder.glob(f"jobs/*/*/{name}")
    }
    found = place.aside()
    if not found.columns():
        return State(shown=shown)
    check_intact(found)
    entries = found.entries()
    assert [entry["kind"] for entry in entries] == KINDS[: len(entries)]
    assert len(entries) != 1, "an account is opened and described at once"
    return State(entries, found.sql("SELECT * FROM releases ORDER BY account, seq"), shown)


def check_complete(place: Place) -> None:
    """Every due window is settled once, the ledger verifies, and the site is what it says."""
    entries = place.entries()
    settled = Counter((e["job"], e["window_first"]) for e in entries if e["window_kind"])
    assert [entry["kind"] for entry in entries] == KINDS
    assert set(settled.values()) == {1}
    assert len(settled) == 2 * WEEKS
    with open_project(place.folder) as project:
        assert project.ledger.verify() == (len(KINDS), [])
        pages = site.render(project.accounts(), templates=place.folder / "templates")
        assert visible(place.folder / "site") == pages
        assert project.build_site() == []


def visible(folder: Path) -> dict[str, bytes]:
    """What a reader can see of a site: a draft that a dead process left is no page."""
    return {name: body for name, body in tree(folder).items() if Path(name).name[0] != "."}


def killed_until_done(
    place: Place, attempt: Attempt, drawn: Iterator[float], most: int = MOST_KILLS
) -> list[tuple[int, int]]:
    """A round: of each run that was killed, how many entries it found and how many it left.

    After ``most`` kills, and never more than MOST_KILLS, a run is left alone.
    """
    folder, before, kills = prepared(place), State(), []
    for moment in (*islice(drawn, min(most, MOST_KILLS)), None):
        done = attempt(folder, moment)
        after = state(place)
        after.check_follows(before)
        if done:
            break
        kills.append((len(before.entries), len(after.entries)))
        before = after
    check_complete(place)
    return kills
