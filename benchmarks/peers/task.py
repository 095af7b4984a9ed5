"""What each product is asked for, and how its answers are written down.

This file also runs in the peers' own environments: it imports nothing but NumPy and pandas.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

MOST_RELEASES = 50

Answer = Sequence[float | None]
"""One released mean a category, in the task's order; None where there is none."""


@dataclass(frozen=True)
class Task:
    """Means of ``value`` by ``category``, with (ε, δ) for each ``unit`` with all of its rows."""

    rows: str
    """A Parquet file of ``unit``, ``category`` and ``value``."""
    categories: list[str]
    lower: float
    upper: float
    repetitions: dict[str, int]
    """How many releases at least, at each bound on a unit's rows in a category."""
    answers: str
    """The file that the answers are added to, one JSON document a line."""
    epsilon: float = 1.0
    delta: float = 1e-6
    max_groups: int = 3
    seconds: float = 0
    """Releases go on until so many have passed, or there are ``MOST_RELEASES``."""

    @property
    def centre(self) -> float:
        return (self.lower + self.upper) / 2

    def bounds(self) -> list[tuple[int, int]]:
        return [(int(most), count) for most, count in self.repetitions.items()]

    def write(self, path: Path) -> None:
        path.write_text(json.dumps(asdict(self)))

    def frame(self) -> pd.DataFrame:
        return pd.read_parquet(self.rows)

    def ordered(self, means: Mapping[str, float]) -> Answer:
        return [means.get(category) for category in self.categories]

    def note(self, **line: Any) -> None:
        with Path(self.answers).open("a") as file:
            file.write(json.dumps(line) + "\n")


def given() -> Task:
    """The task whose file the command line names."""
    return Task(**json.loads(Path(sys.argv[1]).read_text()))


Release = Callable[[pd.DataFrame, int], Answer]
"""One release that spends the whole budget, of these rows, with so many of a unit a category."""


def measure(task: Task, rows: pd.DataFrame, releases: Mapping[str, Release]) -> None:
    """Every way of releasing, so often; a way that fails is written down as failed."""
    for way, release in releases.items():
        for most, least in task.bounds():
            try:
                for seconds, values in _repeated(task, least, partial(release, rows, most)):
                    task.note(way=way, most=most, seconds=seconds, values=values)
            except Exception as error:  # whatever a peer raises, the others are still measured
                what = f"{type(error).__name__}: {error}".replace("\\n", " ")
                task.note(way=way, most=most, error=" ".join(what.split())[:120])


def _repeated(
    task: Task, least: int, release: Callable[[], Answer]
) -> Iterator[tuple[float, Answer]]:
    passed = 0.0
    for count in range(MOST_RELEASES):
        if count >= least and passed >= task.seconds:
            return
        began = time.perf_counter()
        values = [None if value is None else float(value) for value in release()]
        took = time.perf_counter() - began
        passed += took
        yield took, values


def truncated(rows: pd.DataFrame, groups: int, most: int) -> pd.DataFrame:
    """At most so many categories of each unit and rows in each of them, chosen at random.

    For the peers that do not bound contributions themselves; part of their time.
    """
    draws = np.random.default_rng()
    shuffled = rows.iloc[draws.permutation(len(rows))]
    kept = shuffled[shuffled.groupby(["unit", "category"]).cumcount() < most]
    pairs = kept[["unit", "category"]].drop_duplicates()
    pairs = pairs.iloc[draws.permutation(len(pairs))]
    pairs = pairs[pairs.groupby("unit").cumcount() < groups]
    return kept.merge(pairs, on=["unit", "category"])
