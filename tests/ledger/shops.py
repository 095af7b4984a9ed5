"""A project on disk whose rows carry marks that must never leave them."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

MARKS = ("XIDX-person-", "XITEMX-nobody-listed")
SCALE = 2**20
# The number of rows of each listed group, one a customer: what the totals are exactly.
COUNTS = {"Coffee": 137, "Tea": 59}
TOTALS = tuple(str(count * SCALE) for count in COUNTS.values())

PROJECT = """
[project]
title = "Shop"
ledger = "{ledger}"
site = "site"

[dataset.shop]
source = "data/ratings.csv"
unit = "customer"
time = "rated_at"
time_format = "iso"
time_zone = "Europe/London"
budget = {{ epsilon = 1, delta = 1e-6 }}
"""
JOB = """
title = "The {name}"
dataset = "shop"
schedule = "weekly"
window = "week"
start = 2026-01-05
statistic = {{ {statistic} }}
contribution = {{ max_groups = 1, max_rows_per_group = 1 }}
noise = {{ releases = 2, share = 0.5 }}
"""
STATISTICS = {
    "board": 'kind = "leaderboard", by = "item", groups = ["Coffee", "Tea", "Milk"], top = 2',
    "mean": 'kind = "mean", by = "item", groups = ["Coffee", "Tea", "Milk"], value = "rating", '
    "bounds = [1, 5]",
}


def after(weeks: int) -> datetime:
    """A moment at which so many weeks have ended."""
    return datetime(2026, 1, 5 + 7 * weeks, 6, tzinfo=UTC)


def lines() -> Iterator[str]:
    yield "customer,item,rated_at,rating"
    number = 0
    for item, count in (*COUNTS.items(), (MARKS[1], 23)):
        for _ in range(count):
            number += 1
            yield f"{MARKS[0]}{number},{item},2026-01-{5 + number % 14:02} 12:00,{number % 5 + 1}"


def shop(
    folder: Path,
    jobs: tuple[str, ...] = ("board", "mean"),
    ledger: str = "sqlite:///state/ledger.db",
) -> Path:
    """Makes the project anew and gives its folder."""
    shutil.rmtree(folder, ignore_errors=True)
    for name in ("jobs", "data"):
        (folder / name).mkdir(parents=True)
    (folder / "dp-release.toml").write_text(PROJECT.format(ledger=ledger))
    for name in jobs:
        text = JOB.format(name=name, statistic=STATISTICS[name])
        (folder / f"jobs/{name}.toml").write_text(text)
    (folder / "data/ratings.csv").write_text("\n".join(lines()) + "\n")
    return folder


def tree(folder: Path) -> dict[str, bytes]:
    """Every file below a folder, by its path."""
    return {
        str(path.relative_to(folder)): path.read_bytes()
        for path in sorted(folder.rglob("*"))
        if path.is_file()
    }
