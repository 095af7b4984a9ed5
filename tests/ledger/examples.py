"""A small account, jobs on it, and a check of a ledger's rows that shares no code with it."""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Callable
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from release.accounting import Budget, Charge, Gaussian
from release.bounding import Totals
from release.ledger.records import About, Terms
from release.ledger.store import Ledger
from release.noise import Sampler
from release.pipeline import Plan, Settled, plan, settle
from release.specs import Contribution, Job, Leaderboard, Mean, Noise
from release.windows import Window
from tests.ledger.places import Place, SQLite

START = date(2026, 1, 5)
ZONE = "Europe/London"
NOW = datetime(2026, 6, 1, 12, 30, 15, 123456, tzinfo=UTC)
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


def funded(accountant: str, epsilon: str = "1", threshold_share: str = "0") -> Terms:
    """Terms with the caps that the accountant makes of the budget."""
    delta, aside = Decimal("1e-6"), Decimal(threshold_share)
    budget = Budget.open(accountant, Decimal(epsilon), delta, aside)
    return terms().model_copy(
        update={
            "epsilon": Decimal(epsilon),
            "accountant": accountant,
            "threshold_share": aside,
            "order": None if budget.order is None else str(budget.order),
            "cap": budget.cap,
            "delta_cap": budget.delta_cap,
        }
    )


def worth(units: int) -> Gaussian:
    """Gaussian noise that costs so many whole units of ρ."""
    wide = 10**18
    square = math.ceil(Fraction(wide**2 * 10**12, 2 * units))
    event = Gaussian(wide, math.isqrt(square - 1) + 1)
    assert Budget.open("gdp", 1, Decimal("1e-6")).charge(event) == Charge(units)
    return event


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


def at(where: Path | Place) -> Place:
    """The place itself, or the one whose ledger is a file in the folder."""
    return SQLite(where) if isinstance(where, Path) else where


def opened(
    where: Path | Place, *, wait: float = 10, cap: int = CAP, opening: Terms | None = None
) -> Ledger:
    found = at(where).ledger(wait=wait)
    found.open_account(opening or terms(cap=cap), ABOUT, NOW)
    return found


def exact(window: Window, _key: str) -> Totals:
    """Totals of a window that are known without rows."""
    week = window.first.isocalendar().week
    return Totals(GROUPS, {key: [week << 20, -(week << 21), 5] for key in ("count", "sum")})


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


USES: dict[str, Callable[[Ledger], object]] = {
    "terms": lambda found: found.terms("shop"),
    "settled": lambda found: found.settled("shop", "board"),
    "accounts": lambda found: found.accounts(),
    "describe": lambda found: found.describe("shop", ABOUT, NOW),
    "open": lambda found: found.open_account(terms(), ABOUT, NOW),
    "release": lambda found: release(found, week(1)),
}
"""Everything that a run asks of a ledger."""


def rows(where: Path | Place, query: str) -> list[dict[str, Any]]:
    return at(where).sql(query)


def check_intact(where: Path | Place) -> None:
    """Holds every entry to its chain, sums, caps and result, from the rows alone."""
    entries = at(where).entries()
    contents = {
        (row["account"], row["seq"]): row["content"]
        for row in rows(where, "SELECT * FROM releases")
    }
    heads: dict[str, dict[str, Any]] = {}
    jobs: dict[tuple[str, str], int] = {}
    openings: dict[str, dict[str, Any]] = {}
    settled = set()
    for entry in entries:
        account = entry["account"]
        head = heads.get(account, NO_ENTRY)
        if entry["seq"] == 1:
            openings[account] = json.loads(entry["body"])
        assert entry["seq"] == head["seq"] + 1
        assert entry["previous"] == head["hash"]
        assert entry["hash"] == sealed(entry)
        check_kind(entry)
        check_sums(entry, head, openings[account])
        if entry["kind"] == "release":
            content = contents.pop((account, entry["seq"]))
            digest = hashlib.sha256(content.encode()).hexdigest()
            assert json.loads(entry["body"]) == {"release_sha256": digest}
        if entry["job"] is None:
            assert entry["job_spent"] == 0
        else:
            key = (account, entry["job"])
            jobs[key] = jobs.get(key, 0) + entry["charge"]
            assert entry["job_spent"] == jobs[key]
            window = (*key, *(entry[f"window_{name}"] for name in ("kind", "first", "after")))
            assert window not in settled
            settled.add(window)
        heads[account] = entry
    assert not contents, "a result without its charge"


NO_ENTRY = {
    "seq": 0,
    "spent": 0,
    "delta_spent": 0,
    "hash": "0" * 64,
    "sums": '{"gaussian": 0, "rho": 0, "delta0": 0, "curve": null}',
}


def check_kind(entry: dict[str, Any]) -> None:
    """Holds an entry to what its kind says: what it charges, and of which window."""
    spends, settles = entry["kind"] in SPENDS, entry["kind"] in SETTLES
    assert (entry["event"] is not None) is (entry["charge"] > 0) is spends
    assert entry["delta_charge"] >= 0
    assert spends or entry["delta_charge"] == 0
    assert all((entry[name] is not None) is settles for name in WINDOW)
    if entry["kind"] not in EITHER:
        assert (entry["job"] is not None) is (entry["kind"] in OF_A_JOB)
    if settles:
        first, after = (date.fromisoformat(entry[f"window_{cut}"]) for cut in ("first", "after"))
        assert (after - first).days in DAYS[entry["window_kind"]]
        assert entry["window_start"] < entry["window_end"]
    if entry["kind"] == "refusal":
        body = json.loads(entry["body"])
        assert body.keys() == {"title", "refused_charge", "stopped_by"}
        assert body["stopped_by"] in {"account", "share"}
    if entry["kind"] == "record":
        assert json.loads(entry["body"]).keys() == {"reason"}


DAYS = {
    "day": [1],
    "week": [7],
    "month": range(28, 32),
    "quarter": range(90, 93),
    "year": [365, 366],
}
SPENDS, SETTLES = {"release", "record", "history", "amend"}, {"release", "refusal"}
OF_A_JOB, EITHER = {*SETTLES, "pause", "resume", "retire", "audit"}, {"amend", "notice"}
WINDOW = [f"window_{name}" for name in ("kind", "first", "after", "zone", "start", "end")]


def check_sums(entry: dict[str, Any], head: dict[str, Any], opening: dict[str, Any]) -> None:
    """Holds both sums to their caps, and the odometer to what the events say they cost."""
    for kind, cap in (("", opening["cap"]), ("delta_", opening["delta_cap"])):
        spent, charge = entry[f"{kind}spent"], entry[f"{kind}charge"]
        assert spent == head[f"{kind}spent"] + charge
        # A correction counts also where it does not fit; then nothing else is charged.
        assert spent <= cap or entry["charge"] == 0 or entry["kind"] == "amend"
    sums, before = json.loads(entry["sums"]), json.loads(head["sums"])
    assert sums["delta0"] == entry["delta_spent"]
    if entry["charge"] == 0:
        assert sums == before
    if opening["order"] is None:
        assert sums["rho"] == entry["spent"]
    # A correction charges a part of what its event costs.
    stands = entry["event"] is not None and entry["kind"] != "amend"
    cost = gaussian_cost(json.loads(entry["event"])) if stands else None
    if cost is None:
        return
    assert sums["curve"] == before["curve"]
    order = Fraction(1 if opening["order"] is None else opening["order"])
    assert sum(math.ceil(order * rho * 10**12) for rho in cost) <= entry["charge"]
    if opening["order"] is None:
        assert sums["gaussian"] == before["gaussian"] + entry["charge"]
    else:
        added = sum(math.ceil(rho * 10**12) for rho in cost)
        assert sums["gaussian"] == before["gaussian"] + added


def gaussian_cost(event: dict[str, Any]) -> list[Fraction] | None:
    """The ρ of each use of Gaussian noise, composed or not; None where it is anything else."""
    single = [event]
    if event["type"] == "composed":
        single = [part for part in event["events"] for _ in range(event["count"])]
    if {each["type"] for each in single} - {"gaussian", "gaussian-threshold"}:
        return None
    return [
        (Fraction(each["sensitivity"]) / Fraction(each["sigma"])) ** 2 / 2
        for each in single
        for _ in range(each["count"])
    ]


def sealed(entry: dict[str, Any]) -> str:
    """The hash of an entry, made from its row."""
    window = None
    if entry["window_kind"] is not None:
        window = {name.removeprefix("window_"): entry[name] for name in WINDOW}
    amounts = ("charge", "spent", "delta_charge", "delta_spent", "job_spent")
    plain = ("account", "seq", "kind", "job", "charged_at", *amounts)
    document = {
        **{name: entry[name] for name in (*plain, "previous")},
        "window": window,
        "event": entry["event"] and json.loads(entry["event"]),
        "sums": json.loads(entry["sums"]),
        "body": json.loads(entry["body"]),
    }
    text = json.dumps(document, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    return hashlib.sha256(text.encode()).hexdigest()
