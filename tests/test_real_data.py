"""Real purchases and sales, as people keep them; skipped where they are not at hand.

The folder is ``$DP_RELEASE_DATA``, or ``../shared/data`` beside the checkout.
"""

from __future__ import annotations

import csv
import gzip
import math
import os
from collections.abc import Iterator, Sequence
from dataclasses import replace
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from fractions import Fraction
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from release.accounting import Charge
from release.bounding import totals
from release.errors import SourceError
from release.project import Project, open_project
from release.sources import Wanted, open_rows
from release.specs import Budget, Condition, Contribution, Dataset, Job, Key, Scale
from release.windows import Window
from tests import reference
from tests.reference import Asked, Row

ROOT = Path(__file__).parent.parent
DATA = Path(os.environ.get("DP_RELEASE_DATA", ROOT.parent / "shared" / "data"))


def needed(name: str) -> Path:
    path = DATA / name
    if not path.is_file():
        pytest.skip(f"data absent: {name}")
    return path


# ---------------------------------------------------------------------------- households

# Public by decree, like the list of categories that the test makes from the file itself.
DEPARTMENTS = [
    "AUTOMOTIVE", "CHEF SHOPPE", "CNTRL/STORE SUP", "COSMETICS", "COUPON", "DELI", "DRUG GM",
    "FLORAL", "FROZEN GROCERY", "FUEL", "GARDEN CENTER", "GM MERCH EXP", "GROCERY", "MEAT",
    "MEAT-PCKGD", "MISCELLANEOUS", "NUTRITION", "PASTRY", "PHOTO & VIDEO", "PRODUCE",
    "RESTAURANT", "SALAD BAR", "SEAFOOD", "SEAFOOD-PCKGD", "SPIRITS", "TOYS", "TRAVEL & LEISURE",
]  # fmt: skip
TRANSACTIONS = "households/transactions.csv.gz"
WEEKS = 52
FIRST = date(2017, 1, 2)
NOW = datetime(2018, 1, 2, tzinfo=UTC)

PROJECT = """
[project]
title  = "Groceries"
ledger = "sqlite:///state/ledger.db"
site   = "site"

[dataset.purchases]
source      = "transactions.parquet"
unit        = "household_id"
unit_name   = "household"
time        = "transaction_timestamp"
time_format = "iso"
time_zone   = "America/New_York"
budget      = { epsilon = 8, delta = 1e-6 }
"""
JOB = """
title     = "Groceries"
dataset   = "purchases"
schedule  = "weekly"
window    = "week"
start     = 2017-01-02
statistic = { %s }
contribution = { max_groups = %d, max_rows_per_group = %d }
noise     = { releases = 52, share = 0.5 }
"""


Purchases = list[dict[str, str]]


@pytest.fixture(scope="module")
def purchases() -> Purchases:
    with gzip.open(needed(TRANSACTIONS), "rt", encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


@pytest.fixture(scope="module")
def households(
    tmp_path_factory: pytest.TempPathFactory, purchases: Purchases
) -> Iterator[Project]:
    """A year of both jobs, run with real noise.

    The rows are read a hundred times, so they are kept in the format that is quick to read;
    three weeks of them are read from the file itself below.
    """
    folder = tmp_path_factory.mktemp("groceries")
    (folder / "jobs").mkdir()
    rows: dict[str, list[Any]] = {name: [row[name] for row in purchases] for name in purchases[0]}
    rows["sales_value"] = [float(text) for text in rows["sales_value"]]
    pq.write_table(pa.table(rows), folder / "transactions.parquet")
    (folder / "dp-release.toml").write_text(PROJECT)
    categories = sorted({row["product_category"] for row in purchases} - {""})
    (folder / "categories.txt").write_text("\n".join(categories))
    spent = f'kind = "mean", by = "department", value = "sales_value", bounds = [0, 50], \
groups = {DEPARTMENTS}'
    bought = 'kind = "leaderboard", by = "product_category", groups = "categories.txt", top = 20'
    (folder / "jobs" / "spent.toml").write_text(JOB % (spent, 4, 3))
    (folder / "jobs" / "bought.toml").write_text(JOB % (bought, 10, 1))
    with open_project(folder) as project:
        run = project.run(NOW)
        assert run.errors == []
        assert run.exit_code == 0
        yield project


def test_a_year_of_weeks_is_released_and_paid_for(households: Project) -> None:
    (account,) = households.accounts()
    charged = [entry for entry in account.entries if entry.charge.units]
    weeks = [FIRST + timedelta(weeks=at) for at in range(WEEKS)]
    for job in ("spent", "bought"):
        own = [entry for entry in charged if entry.job == job]
        assert [entry.window.first for entry in own if entry.window] == weeks
        assert own[-1].job_spent == sum(entry.charge.units for entry in own)
        assert len({entry.charge for entry in own}) == 1
        assert 2 * own[-1].job_spent <= account.terms.cap
        assert account.terms.cap / 2 - own[-1].job_spent < WEEKS
    assert account.last.spent == Charge(sum(entry.charge.units for entry in charged))
    assert len(account.releases) == len(charged) == 2 * WEEKS
    assert households.run(NOW).settled == []


def test_every_release_has_its_page(households: Project) -> None:
    for job in ("spent", "bought"):
        for at in range(WEEKS):
            page = households.site_folder / "jobs" / job / f"{FIRST + timedelta(weeks=at)}"
            assert {"index.html", "data.csv", "release.json"} <= {
                one.name for one in page.iterdir()
            }


def asked(window: Window, groups: Sequence[Key], most: Contribution, bounds: Any) -> Asked:
    start, end = (
        datetime.combine(day, datetime.min.time()) for day in (window.first, window.after)
    )
    R, G = most.max_rows_per_group, most.max_groups
    norm = None if most.max_norm is None else Fraction(most.max_norm)
    return Asked(tuple(groups), start, end, R, G, most.bounding, bounds, "", norm=norm)


def of_the_file(project: Project, job: Job, window: Window, bounds: Any) -> dict[str, list[int]]:
    """The totals of the rows as they came."""
    path = needed(TRANSACTIONS)
    dataset = project.files.datasets["purchases"].model_copy(update={"source": path.name})
    wanted = Wanted(job.statistic.columns, None if bounds is None else "sales_value")
    with open_rows(dataset, path.parent, wanted) as rows:
        exact = totals(
            rows,
            window,
            groups=job.statistic.listed,
            contribution=job.contribution,
            scale=None if bounds is None else Scale.around_middle(*bounds),
            names=("count",) if bounds is None else ("count", "sum"),
            salt="",
        )
    return dict(exact.of)


@pytest.mark.parametrize("first", [FIRST, date(2017, 3, 6), date(2017, 12, 25)])
def test_noisy_totals_are_the_exact_ones_and_noise_of_the_stated_size(
    households: Project, purchases: Purchases, first: date
) -> None:
    (account,) = households.accounts()
    window = Window("week", first, "America/New_York")
    seqs = {entry.job: entry.seq for entry in account.entries if entry.window == window}
    for job, bounds in (("spent", (0.0, 50.0)), ("bought", None)):
        release = account.releases[seqs[job]]
        statistic = release.job.statistic
        events = [
            Row(
                row["household_id"],
                tuple(row[column] for column in statistic.columns),
                datetime.fromisoformat(row["transaction_timestamp"]),
                float(row["sales_value"]),
            )
            for row in purchases
        ]
        want = asked(window, statistic.listed, release.job.contribution, bounds)
        exact = reference.total(reference.vectors(events, want).values(), want)
        assert sum(exact["count"]) > 0
        assert of_the_file(households, release.job, window, bounds) == exact
        for name, noisy in release.noisy.items():
            sigma = release.mechanism.sigma[name]
            noise = [a - b for a, b in zip(noisy, exact[name], strict=True)]
            # Below 1e-14 each: every draw within 8σ, and their mean square near σ².
            assert max(map(abs, noise)) < 8 * sigma
            square = sum(x * x for x in noise) / sigma**2
            assert abs(square - len(noise)) < 8 * math.sqrt(2 * len(noise)) + 32


# ---------------------------------------------------------------------------- coffee

COFFEES = [
    "Americano", "Americano with Milk", "Cappuccino", "Cocoa", "Cortado", "Espresso",
    "Hot Chocolate", "Latte",
]  # fmt: skip
COLUMNS = "date,datetime,cash_type,card,money,coffee_name"
SHAPES = ["iso", "usdate_bom", "excel_mangled"]
# The mangled shape has lost the hour. In the US one, a single row kept its ISO time.
ODD_ONE = datetime(2024, 12, 14, 13, 19, 7, 33000)
DECLARED = {
    "iso": [("date", "iso"), ("datetime", "iso")],
    "usdate_bom": [("date", "%m/%d/%Y"), ("datetime", "%m/%d/%Y %H:%M")],
    "excel_mangled": [("date", "%m/%d/%Y")],
}


def coffee(folder: Path, name: str, *, header: bool = True) -> Path:
    """One shape of the sales, as a file that ends in .csv."""
    text = needed(f"coffee/{name}.csv").read_bytes()
    if header and text.startswith(b"\n"):
        text = COLUMNS.encode() + text  # this shape came without its header
    path = folder / f"{name.replace('.', '-')}.csv"
    path.write_bytes(text)
    return path


def shop(path: Path, **declared: Any) -> Dataset:
    return Dataset(
        name="coffee",
        source=path.name,
        unit="card",
        time_zone="Europe/Kyiv",
        budget=Budget(epsilon=Decimal(1), delta=Decimal("1e-6")),
        **declared,
    )


def sales(path: Path, window: Window, most: Contribution, **declared: Any) -> dict[str, list[int]]:
    dataset = shop(path, **declared)
    with open_rows(dataset, path.parent, Wanted(("coffee_name",), "money")) as rows:
        exact = totals(
            rows,
            window,
            groups=COFFEES,
            contribution=most,
            scale=Scale.around_middle(0, 50),
            names=("count", "sum"),
            salt="",
        )
    return dict(exact.of)


def expected(
    window: Window, most: Contribution, *, left_out: datetime | None = None
) -> dict[str, list[int]]:
    lines = needed("coffee/index_1.iso.csv").read_text(encoding="utf-8").strip().splitlines()
    rows = [
        Row(card, name, datetime.fromisoformat(time), float(money))
        for _, time, _, card, money, name in csv.reader(lines)
        if datetime.fromisoformat(time) != left_out
    ]
    want = asked(window, COFFEES, most, (0.0, 50.0))
    return reference.total(reference.vectors(rows, want).values(), want)


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("bounding", ["clip", "sample"])
def test_three_shapes_of_the_same_sales_give_the_same_totals(
    tmp_path: Path, shape: str, bounding: Any
) -> None:
    path = coffee(tmp_path, f"index_1.{shape}")
    most = Contribution(max_groups=2, max_rows_per_group=2, bounding=bounding)
    for window in (
        Window("week", date(2024, 3, 4), "Europe/Kyiv"),
        Window("day", date(2024, 10, 27), "Europe/Kyiv"),
        Window("year", date(2024, 1, 1), "Europe/Kyiv"),
    ):
        for time, time_format in DECLARED[shape]:
            odd = ODD_ONE if (shape, time) == ("usdate_bom", "datetime") else None
            exact = expected(window, most, left_out=odd)
            assert sum(exact["count"]) > 0
            assert sales(path, window, most, time=time, time_format=time_format) == exact


def test_the_sum_of_some_sales_by_two_columns(tmp_path: Path) -> None:
    path = coffee(tmp_path, "index_1.iso")
    window = Window("month", date(2024, 6, 1), "Europe/Kyiv")
    most = Contribution(max_groups=4, max_rows_per_group=3, max_norm=Decimal("2.5"))
    groups = [(paid, name) for paid in ("card", "cash") for name in COFFEES]
    rules: tuple[tuple[str, Any, Any], ...] = (
        ("money", ">", Decimal("27.92")),
        ("coffee_name", "not in", ("Latte", "Cocoa")),
    )
    where = tuple(Condition(column=c, operator=o, value=v) for c, o, v in rules)
    wanted = Wanted(("cash_type", "coffee_name"), "money", where)
    dataset = shop(path, time="datetime", time_format="iso")
    with open_rows(dataset, tmp_path, wanted) as opened:
        exact = totals(
            opened,
            window,
            groups=groups,
            contribution=most,
            scale=Scale.around_zero(20, 40),
            names=("sum",),
            salt="",
        )
    with path.open(encoding="utf-8", newline="") as file:
        rows = [
            Row(
                row["card"] or None,
                (row["cash_type"], row["coffee_name"]),
                datetime.fromisoformat(row["datetime"]),
                float(row["money"]),
                {"money": float(row["money"]), "coffee_name": row["coffee_name"]},
            )
            for row in csv.DictReader(file)
        ]
    want = replace(asked(window, groups, most, (20.0, 40.0)), where=rules, around_zero=True)
    expected = reference.total(reference.vectors(rows, want).values(), want)
    assert exact.of == {"sum": expected["sum"]}
    assert any(exact.of["sum"])


@pytest.mark.parametrize(
    ("name", "declared", "said"),
    [
        ("index_1.usdate_bom", {"time": "datetime"}, ["column 'datetime'", "time_format"]),
        ("index_1.excel_mangled", {"time": "date"}, ["column 'date'", "time_format"]),
        ("index_2.usdate_bom", {"time": "datetime"}, ["no column 'card'"]),
        (
            "index_1.iso",
            {"time": "date", "time_format": "iso"},
            ["no column 'card'", "first line"],
        ),
    ],
)
def test_what_has_to_be_declared_is_said(
    tmp_path: Path, name: str, declared: dict[str, str], said: list[str]
) -> None:
    window = Window("week", date(2024, 3, 4), "Europe/Kyiv")
    most = Contribution(max_groups=2, max_rows_per_group=2)
    with pytest.raises(SourceError) as caught:
        sales(coffee(tmp_path, name, header=False), window, most, **declared)
    text = f"{caught.value.message} {caught.value.hint}"
    assert all(part in text for part in said)
    assert "ANON" not in text
