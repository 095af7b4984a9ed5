"""Small whole projects for tests: files as a user writes them, and the rows they read.

>>> write_project(tmp_path, jobs={"mean": mean_job(start=date(2026, 1, 5))})
"""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Iterable, Mapping, Sequence
from datetime import date, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

Table = dict[str, Any]

START = date(2026, 1, 5)
"""The Monday of the first window, and of the first rows."""
GROUPS = ["Coffee", "Knives", "Tea"]


def after_weeks(weeks: int) -> str:
    """Just after that many weeks from START have ended, as ``--now`` takes it."""
    return f"{START + timedelta(weeks=weeks)}T09:00:00+00:00"


def visits(weeks: int = 2, units: int = 12) -> list[Table]:
    """A rating of one product a week by every customer, at noon on a weekday."""
    return [
        {
            "customer_id": unit,
            "category": GROUPS[(unit + week) % len(GROUPS)],
            "rating": 1 + (unit * 7 + week) % 5,
            "rated_at": datetime.combine(START, datetime.min.time())
            + timedelta(weeks=week, days=unit % 5, hours=12),
        }
        for week in range(weeks)
        for unit in range(units)
    ]


def mean_job(**changes: Any) -> Table:
    """The weekly mean rating of each category; a change to None leaves the key out."""
    return _changed(
        {
            "title": "Average rating",
            "dataset": "ratings",
            "schedule": "weekly",
            "window": "week",
            "start": START,
            "statistic": {
                "kind": "mean",
                "by": "category",
                "groups": GROUPS,
                "value": "rating",
                "bounds": [1, 5],
            },
            "contribution": {"max_groups": 2, "max_rows_per_group": 1},
            "noise": {"releases": 10, "share": Decimal("0.5")},
        },
        changes,
    )


def leaderboard_job(**changes: Any) -> Table:
    """The weekly order of the categories by their counts; changes as for ``mean_job``."""
    statistic = {"kind": "leaderboard", "by": "category", "groups": GROUPS, "top": 2}
    return mean_job(title="Most rated", **{"statistic": statistic, **changes})


def count_job(**changes: Any) -> Table:
    """The weekly count of each category's ratings; changes are to the statistic."""
    statistic = {"kind": "count", "by": "category", "groups": GROUPS, **changes}
    return mean_job(title="Ratings", statistic=statistic)


def write_project(
    folder: Path,
    *,
    jobs: Mapping[str, Table | str] | None = None,
    rows: Sequence[Table] | None = None,
    project: Table | None = None,
    dataset: Table | None = None,
    budget: Table | None = None,
) -> Path:
    """Writes a project with one dataset, ``ratings``, and gives its folder.

    ``jobs`` are tables or ready TOML by name (the mean job alone, if not given); ``rows`` go to
    the dataset's source if it is a CSV or Parquet file. ``project``, ``dataset`` and ``budget``
    change single keys of the project file; None leaves one out.
    """
    # Wide bounds on what a test may do by accident, and no waiting for a lock that stays.
    top = {"title": "Shop", "ledger": "sqlite:///state/ledger.db", "site": "site"}
    source = {
        "source": "data/ratings.parquet",
        "unit": "customer_id",
        "unit_name": "customer",
        "time": "rated_at",
        "time_zone": "Europe/London",
        "budget": _changed({"epsilon": Decimal("1.5"), "delta": Decimal("1e-6")}, budget or {}),
    }
    source = _changed(source, dataset or {})
    document = {"project": _changed(top, project or {}), "dataset": {"ratings": source}}
    (folder / "jobs").mkdir(parents=True, exist_ok=True)
    (folder / "dp-release.toml").write_text(toml(document), encoding="utf-8")
    for name, job in (jobs if jobs is not None else {"mean": mean_job()}).items():
        text = job if isinstance(job, str) else toml(job)
        (folder / "jobs" / f"{name}.toml").write_text(text, encoding="utf-8")
    write_rows(folder / str(source.get("source", "none")), visits() if rows is None else rows)
    return folder


def write_rows(path: Path, rows: Sequence[Table]) -> None:
    """Writes rows as CSV or Parquet, as the file's name asks; any other name writes nothing."""
    path.parent.mkdir(parents=True, exist_ok=True)
    names = list(rows[0]) if rows else list(visits(1, 1)[0])
    if path.suffix == ".csv":
        text = io.StringIO(newline="")
        writer = csv.DictWriter(text, names)
        writer.writeheader()
        writer.writerows(rows)
        path.write_text(text.getvalue(), encoding="utf-8")
    elif path.suffix == ".parquet":
        import pyarrow as pa
        import pyarrow.parquet as pq

        pq.write_table(pa.table({name: [row[name] for row in rows] for name in names}), path)


def toml(document: Mapping[str, Any]) -> str:
    """The document as TOML, one line for each of its keys."""
    return "".join(f"{_text(key)} = {_value(value)}\n" for key, value in document.items())


def _value(value: Any) -> str:
    match value:
        case bool():
            return str(value).lower()
        case str():
            return _text(value)
        case date() | datetime():
            return value.isoformat()
        case Mapping():
            pairs = (f"{_text(key)} = {_value(each)}" for key, each in value.items())
            return "{ " + ", ".join(pairs) + " }"
        case Iterable():
            return "[" + ", ".join(_value(each) for each in value) + "]"
        case _:
            return str(value)


def _text(text: str) -> str:
    # JSON's escapes are TOML's, but for the one control character that JSON lets through.
    return json.dumps(text, ensure_ascii=False).replace("\x7f", "\\u007f")


def _changed(table: Table, changes: Table) -> Table:
    return {key: value for key, value in {**table, **changes}.items() if value is not None}
