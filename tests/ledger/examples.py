"""A small account, jobs on it, and a check of a ledger's file that shares no code with it."""

from __future__ import annotations

import hashlib
import json
import multiprocessing
import sqlite3
from contextlib import closing
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from release.bounding import Totals
from release.ledger.records import About, Terms
from release.ledger.store import Ledger
from release.noise import Sampler
from release.pipeline import Plan, Settled, plan, settle
from release.specs import Contribution, Job, Leaderboard, Mean, Noise
from release.windows import Window

START = date(2026, 1, 5)
ZONE = "Europe/London"
NOW = datetime(2026, 6, 1, 12, 30, 15, 123456, tzinfo=UTC)
ADDRESS = "sqlite:///state/ledger.db"
CAP = 1_000_003
GROUPS = ("Coffee", "Tea", "Élan <&> 'é'")
ABOUT = About(
    title="Shop",
    contact=None,
    licence=None,
    unit_name="customer",
    time="rated_at",
    approved_by=None,
    reason=None,
)

# Children are forked from a server that has imported all this and has no threads, so that
# one more process costs milliseconds and inherits nothing from the tests around it.
PROCESSES = multiprocessing.get_context("forkserver")
PROCESSES.set_forkserver_preload(["pytest", "tests.ledger.warm"])


def terms(account: str = "shop", cap: int = CAP) -> Terms:
    return Terms(
        account=account,
        epsilon=Decimal("0.003"),
        delta=Decimal("1e-6"),
        accountant="gdp",
        unit="customer",
        time_zone=ZONE,
        cap=cap,
    )


def job(name: str = "board", releases: int = 3, share: str = "1") -> Job:
    statistic = (
        Leaderboard(by="product", groups=GROUPS, top=2)
        if name.startswith("board")
        else Mean(by="product", groups=GROUPS, value="rating", bounds=(Decimal(1), Decimal(5)))
    )
    return Job(
        name=name,
        title=f"The {name}",
        dataset="shop",
        schedule="weekly",
        window="week",
        start=START,
        statistic=statistic,
        contribution=Contribution(max_groups=2, max_rows_per_group=1),
        noise=Noise(releases=releases, share=Decimal(share)),
    )


def week(number: int) -> Window:
    return Window("week", START + timedelta(weeks=number), ZONE)


def ledger(folder: Path, *, wait: float = 10) -> Ledger:
    return Ledger(folder, ADDRESS, wait=wait)


def opened(folder: Path, *, wait: float = 10, cap: int = CAP) -> Ledger:
    found = ledger(folder, wait=wait)
    found.open_account(terms(cap=cap), ABOUT, NOW)
    return found


def exact(window: Window, _key: str) -> Totals:
    """Totals of a window that are known without rows."""
    week = window.first.isocalendar().week
    return {name: [week << 20, -(week << 21), 5] for name in ("count", "sum")}


def still(sigma: int | float | Fraction, count: int) -> NDArray[Any]:
    """A sampler whose noise is nought, for tests that compare what was released."""
    return np.zeros(count, dtype=np.int64)


def release(
    to: Ledger,
    window: Window,
    planned: Plan | None = None,
    sampler: Sampler = still,
) -> Settled:
    return settle(to, planned or plan(job(), terms()), window, exact, sampler=sampler, now=NOW)


def raw(folder: Path) -> sqlite3.Connection:
    """A client of the database that knows nothing of the ledger's rules."""
    return sqlite3.connect(folder / "state/ledger.db", isolation_level=None)


def rows(folder: Path, query: str) -> list[dict[str, Any]]:
    with closing(raw(folder)) as connection:
        connection.row_factory = sqlite3.Row
        return [dict(row) for row in connection.execute(query)]


def check_intact(folder: Path) -> None:
    """Holds every entry to its chain, sums, cap and result, from the file alone."""
    entries = rows(folder, "SELECT * FROM entries ORDER BY account, seq")
    contents = {
        (row["account"], row["seq"]): row["content"]
        for row in rows(folder, "SELECT * FROM releases")
    }
    heads: dict[str, dict[str, Any]] = {}
    jobs: dict[tuple[str, str | None], int] = {}
    caps: dict[str, int] = {}
    settled = set()
    for entry in entries:
        account, key = entry["account"], (entry["account"], entry["job"])
        head = heads.get(account, {"seq": 0, "spent": 0, "hash": "0" * 64})
        if entry["seq"] == 1:
            caps[account] = json.loads(entry["body"])["cap"]
        jobs[key] = jobs.get(key, 0) + entry["charge"]
        assert entry["seq"] == head["seq"] + 1
        assert entry["previous"] == head["hash"]
        assert entry["hash"] == sealed(entry)
        assert entry["spent"] == head["spent"] + entry["charge"] <= caps[account]
        assert entry["job_spent"] == jobs[key]
        if entry["kind"] == "release":
            content = contents.pop((account, entry["seq"]))
            digest = hashlib.sha256(content.encode()).hexdigest()
            assert json.loads(entry["body"]) == {"release_sha256": digest}
        if entry["job"] is not None:
            window = (account, entry["job"], entry["window_start"], entry["window_end"])
            assert window not in settled
            settled.add(window)
        heads[account] = entry
    assert not contents, "a result without its charge"


def sealed(entry: dict[str, Any]) -> str:
    """The hash of an entry, made from its row."""
    window = None
    if entry["window_kind"] is not None:
        names = ("kind", "first", "zone", "start", "end")
        window = {name: entry[f"window_{name}"] for name in names}
    plain = ("account", "seq", "kind", "job", "charged_at", "charge", "spent", "job_spent")
    document = {
        **{name: entry[name] for name in (*plain, "previous")},
        "window": window,
        "event": entry["event"] and json.loads(entry["event"]),
        "body": json.loads(entry["body"]),
    }
    text = json.dumps(document, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    return hashlib.sha256(text.encode()).hexdigest()
