"""What was released stands: whatever is run again, rebuilt, or changed afterwards."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest
from numpy.typing import NDArray

from release.noise import gaussian
from release.project import Run, open_project
from tests.ledger.examples import check_intact, rows
from tests.ledger.shops import COUNTS, MARKS, SCALE, TOTALS, after, shop, tree

ENTRIES = "SELECT * FROM entries ORDER BY account, seq"
RELEASES = "SELECT * FROM releases ORDER BY account, seq"


class Counting:
    """The real sampler, which tells how often it was asked."""

    def __init__(self) -> None:
        self.draws = 0

    def __call__(self, sigma: int | float | Fraction, count: int) -> NDArray[Any]:
        self.draws += 1
        return gaussian(sigma, count)


def run(folder: Path, weeks: int, sampler: Counting) -> Run:
    with open_project(folder) as project:
        return project.run(after(weeks), sampler=sampler)


def record(folder: Path) -> list[Any]:
    return [rows(folder, ENTRIES), rows(folder, RELEASES)]


def test_runs_and_rebuilds_are_the_same_bytes(tmp_path: Path) -> None:
    folder, sampler = shop(tmp_path / "shop"), Counting()
    assert run(folder, 3, sampler).exit_code == 3
    assert sampler.draws == 2 * (1 + 2), "one draw for a total of a release"
    written, pages = record(folder), tree(folder / "site")
    again = run(folder, 3, sampler)
    assert (again.exit_code, again.settled) == (0, [])
    assert sampler.draws == 6
    shutil.rmtree(folder / "site")
    shutil.rmtree(folder / "data")
    with open_project(folder) as project:
        assert len(project.build_site()) == len(pages)
        assert project.build_site() == []
    assert tree(folder / "site") == pages
    assert record(folder) == written
    check_intact(folder)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ('title = "The mean"', 'title = "Another"'),
        ("bounds = [1, 5]", "bounds = [0, 9]"),
        ("max_groups = 1", "max_groups = 3"),
        ("releases = 2", "releases = 9"),
        ('"Tea", "Milk"', '"Tea"'),
    ],
)
def test_a_changed_job_does_not_change_what_was_released(
    tmp_path: Path, old: str, new: str
) -> None:
    folder, sampler = shop(tmp_path / "shop", ("mean",)), Counting()
    run(folder, 1, sampler)
    written = record(folder)
    first = {
        name: body
        for name, body in tree(folder / "site").items()
        if "2026-01-05" in name and not name.endswith(".html")
    }
    assert len(first) == 2
    path = folder / "jobs/mean.toml"
    path.write_text(path.read_text().replace(old, new))
    assert old not in path.read_text()
    run(folder, 1, sampler)
    assert record(folder) == written
    run(folder, 2, sampler)
    assert [now[: len(then)] for now, then in zip(record(folder), written, strict=True)] == written
    assert len(rows(folder, RELEASES)) == 2
    assert sampler.draws == 4
    pages = tree(folder / "site")
    assert {name: pages[name] for name in first} == first


def test_a_source_rewritten_later_changes_nothing(tmp_path: Path) -> None:
    folder, sampler = shop(tmp_path / "shop"), Counting()
    run(folder, 2, sampler)
    written, pages = record(folder), tree(folder / "site")
    (folder / "data/ratings.csv").write_text("customer,item,rated_at,rating\n")
    run(folder, 2, sampler)
    assert record(folder) == written
    assert tree(folder / "site") == pages


def command(folder: Path, *arguments: str) -> tuple[int, bytes]:
    """The real command, with its temporary files in the folder; its code and all it says."""
    temporary = folder / "temporary"
    temporary.mkdir(exist_ok=True)
    done = subprocess.run(
        [sys.executable, "-m", "release", *arguments],
        cwd=folder,
        env={**os.environ, "TMPDIR": str(temporary)},
        capture_output=True,
        check=False,
    )
    return done.returncode, done.stdout + done.stderr


def leaks(seen: bytes) -> list[str]:
    return [mark for mark in (*MARKS, *TOTALS) if mark.encode() in seen]


def everything(folder: Path) -> bytes:
    """All that is on disk, but for the source itself."""
    return b"".join(body for name, body in tree(folder).items() if not name.startswith("data"))


def test_no_row_and_no_exact_total_leaves_memory(tmp_path: Path) -> None:
    folder = shop(tmp_path / "shop")
    assert leaks((folder / "data/ratings.csv").read_bytes()) == list(MARKS)
    now = ("--now", after(3).isoformat(), "--yes")
    code, said = command(folder, "run", *now)
    assert code == 3, said
    said += command(folder, "ledger", "list", "--json")[1]
    assert leaks(said) == []
    assert leaks(everything(folder)) == []
    assert list((folder / "temporary").iterdir()) == []
    assert len(rows(folder, RELEASES)) == 4


def test_no_row_leaves_memory_by_an_error(tmp_path: Path) -> None:
    folder = shop(tmp_path / "shop")
    path = folder / "jobs/mean.toml"
    path.write_text(path.read_text().replace('value = "rating"', 'value = "no-such-column"'))
    project = folder / "dp-release.toml"
    project.write_text(project.read_text().replace('unit = "customer"', 'unit = "rated_at"'))
    code, said = command(folder, "run", "--now", after(1).isoformat(), "--yes")
    assert code == 4, said
    assert b"no-such-column" in said
    assert leaks(said + everything(folder)) == []
    assert list((folder / "temporary").iterdir()) == []


def test_the_marks_would_be_seen(tmp_path: Path) -> None:
    """The exact totals of the two weeks are what TOTALS says, so looking for them can fail."""
    folder = shop(tmp_path / "shop", ("board",))
    found = []

    def nought(sigma: object, count: int) -> NDArray[Any]:
        drawn = gaussian(1, count)
        drawn[:] = 0
        return drawn

    with open_project(folder) as project:
        project.run(after(2), sampler=nought)
        for each in project.accounts()[0].releases.values():
            found.append(each.noisy["count"])
    both = [sum(pair) for pair in zip(*found, strict=True)]
    assert both == [count * SCALE for count in COUNTS.values()] + [0]
