"""dp-release through its public path: a project folder, one job, one run, one ledger entry.

Each release has a ledger and so an account of its own, and spends all of it. What the bounds do
without any noise comes from the same path, with a sampler that draws none.
"""

from __future__ import annotations

import json
import tempfile
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from task import Answer, Task, given, measure

from release.ledger.records import Release
from release.noise import Sampler, gaussian
from release.pipeline import Plan
from release.project import open_project

NOW = datetime(2026, 1, 2, tzinfo=UTC)
MANY = 200
DURING = datetime(2025, 7, 1)
PROJECT = """\
[project]
title  = "Accuracy"
ledger = "sqlite:///ledger.db"
site   = "site"

[dataset.rows]
source    = "rows.parquet"
unit      = "unit"
time      = "time"
time_zone = "UTC"
budget    = {{ epsilon = {epsilon}, delta = {delta} }}
"""
JOB = """\
title    = "Means by category"
dataset  = "rows"
schedule = "yearly"
window   = "year"
start    = 2025-01-01
noise    = {{ releases = 1 }}

[statistic]
kind   = "mean"
by     = "category"
value  = "value"
groups = {groups}
bounds = {bounds}

[contribution]
max_groups         = {max_groups}
max_rows_per_group = {most}
bounding           = "{bounding}"
"""


def released(
    task: Task, rows: pd.DataFrame, most: int, bounding: str, sampler: Sampler = gaussian
) -> tuple[Plan, Release]:
    """The one release of a new project that may spend the task's whole budget."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "jobs").mkdir()
        project_file = PROJECT.format(epsilon=task.epsilon, delta=task.delta)
        job_file = JOB.format(
            groups=json.dumps(task.categories),
            bounds=json.dumps([task.lower, task.upper]),
            max_groups=task.max_groups,
            most=most,
            bounding=bounding,
        )
        (folder / "dp-release.toml").write_text(project_file)
        (folder / "jobs" / "means.toml").write_text(job_file)
        with open_project(folder, frames={"rows": rows}) as project:
            plan = project.plans()["means"]
            run = project.run(NOW, sampler=sampler)
            if run.errors:
                raise run.errors[0]
            (content,) = project.accounts()[0].releases.values()
        return plan, content


def values(content: Release) -> Answer:
    return [row.value for row in content.table.rows]


def release(rows: pd.DataFrame, most: int, *, task: Task, bounding: str) -> Answer:
    return values(released(task, rows, most, bounding)[1])


def no_noise(sigma: Any, count: int) -> NDArray[Any]:
    del sigma
    return np.zeros(count, dtype=np.int64)


def take_apart(task: Task, rows: pd.DataFrame, most: int, bounding: str, times: int) -> None:
    """What the bounds alone make of the means, and what the noise makes of those.

    Only ``sample`` makes something else of them each time: by the key of the new account.
    """
    half = (task.upper - task.lower) / 2
    for _ in range(times if bounding == "sample" else 1):
        plan, content = released(task, rows, most, bounding, no_noise)
        exact = {name: list(totals) for name, totals in content.noisy.items()}
        pairs = zip(exact["count"], exact["sum"], strict=True)
        bounded = [task.centre + half * total / count if count else None for count, total in pairs]
        draws = 1 if bounding == "sample" else MANY
        noised = [values(plan.published(exact, gaussian)) for _ in range(draws)]
        task.note(way=bounding, most=most, bounded=bounded, noised=noised)


def main() -> None:
    task = given()
    ways = {way: partial(release, task=task, bounding=way) for way in ("clip", "sample")}
    rows = task.frame().assign(time=DURING)
    measure(task, rows, ways)
    for way in ways:
        for most, times in task.bounds():
            take_apart(task, rows, most, way, times)


if __name__ == "__main__":
    main()
