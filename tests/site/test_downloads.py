from __future__ import annotations

import csv
import io
import json
from dataclasses import replace
from datetime import date
from decimal import Decimal
from typing import Any

import pytest

from release.accounting import RHO_UNITS, Laplace, Spend, epsilons, event_from_json
from release.errors import LedgerError
from release.ledger.chain import canonical, digest
from release.ledger.charges import alone
from release.site import render
from release.specs import ONE, Count, Publish
from release.windows import Window
from tests.site.examples import Book, mean_release, means, shop, week, weekly
from tests.site.rendered import HOSTILE, SALES, SHOP

FILES = {**SHOP, **HOSTILE}


def strict(content: bytes) -> Any:
    def refuse(constant: str) -> None:
        raise AssertionError(f"{constant} is not JSON")

    return json.loads(content, parse_constant=refuse)


@pytest.mark.parametrize("name", [name for name in FILES if name.endswith("release.json")])
def test_epsilon_can_be_computed_again_from_a_release_alone(name: str) -> None:
    document = strict(FILES[name])
    rho = event_from_json(document["event"]).rho()
    assert rho is not None
    charge = document["filter"]["charge"]
    assert 0.999 * charge < rho * RHO_UNITS <= charge
    to_date = Spend.from_json(document["sums"]).total_curve()
    for key, curve in (("release", None), ("account_to_date", to_date)):
        part = document["odometer"][key]
        units = round(part["rho"] * RHO_UNITS)
        for formula, bound in epsilons(units, part["delta"], curve).items():
            shown = part["epsilon"][formula]
            assert shown == bound if bound is None else bound <= shown < bound + 1.01e-4


def test_a_release_states_its_window_and_parameters() -> None:
    document = strict(FILES["jobs/top-products/2026-03-02/release.json"])
    assert document["format"] == 1
    assert document["window"] == {
        "name": "2026-03-02",
        "label": "2026-W10",
        "kind": "week",
        "start": "2026-03-02T00:00:00Z",
        "end": "2026-03-09T00:00:00Z",
        "time_zone": "Europe/London",
    }
    assert document["contribution"]["max_groups"] == 5
    assert document["filter"]["epsilon"] == 1.5
    assert document["filter"]["delta"] == 1e-6
    assert document["rows"][0].keys() >= {"group", "value", "lower", "upper", "status", "rank"}


@pytest.mark.parametrize("name", [name for name in FILES if name.endswith("ledger.json")])
def test_the_chain_can_be_computed_again_from_the_ledger_file_alone(name: str) -> None:
    document = strict(FILES[name])
    previous, spent, delta = "0" * 64, 0, 0
    for entry in document["entries"]:
        spent += entry["charge"]
        delta += entry["delta_charge"]
        assert (entry["spent"], entry["delta_spent"]) == (spent, delta)
        assert (entry["sums"]["rho"], entry["sums"]["delta0"]) == (spent, delta)
        assert entry["previous"] == previous
        said = {key: value for key, value in entry.items() if key != "hash"}
        previous = digest(canonical(said))
        assert entry["hash"] == previous
    assert document["head"] == previous
    assert document["filter"]["left"] == document["filter"]["cap"] - spent


@pytest.mark.parametrize("accountant", ["zcdp", "rdp"])
def test_the_odometer_counts_what_was_recorded_from_elsewhere(accountant: str) -> None:
    book, event = Book(accountant=accountant), Laplace(1, 30)
    book.record(event, "a model trained elsewhere")
    book.release(mean_release(means(), 0), week(0))
    files = render([book.account()], templates=None)
    record, release = strict(files["accounts/ratings/ledger.json"])["entries"][2:]
    assert (record["kind"], record["job"], record["window"]) == ("record", None, None)
    assert event_from_json(record["event"]) == event
    delta = Decimal("1e-6")
    shown = strict(files["jobs/category-ratings/2026-01-05/release.json"])["odometer"]
    both = Spend.from_json(release["sums"])
    assert both.curve == Spend().plus(event).curve
    for part, sums in (
        ("account_to_date", both),
        ("release", alone(book.account(), book.entries[-1])),
    ):
        for formula, bound in sums.epsilons(delta).items():
            known = shown[part]["epsilon"][formula]
            assert known == bound if bound is None else bound <= known < bound + 1.01e-4
    # Laplace noise is no Gaussian noise, so no formula for that alone covers both.
    assert shown["account_to_date"]["epsilon"]["gdp"] is None
    assert shown["release"]["epsilon"]["gdp"] is not None


BESIDE = ",".join(
    f"{name}{end}" for name in ("change", "running") for end in ("", "_lower", "_upper", "_status")
)


def header(name: str) -> str:
    return SALES[f"jobs/{name}/2026-01-05/data.csv"].decode().splitlines()[0]


def test_a_file_has_a_column_for_each_that_it_is_grouped_by() -> None:
    assert header("sales-by-region") == f"region,category,value,lower,upper,status,{BESIDE}"
    assert header("customers") == f"group,value,lower,upper,status,{BESIDE}"
    ranks = "rank,rank_lower,rank_upper"
    assert header("best-rated") == f"group,value,lower,upper,status,count,{ranks},{BESIDE}"
    (first, *_) = strict(SALES["jobs/sales-by-region/2026-01-05/release.json"])["rows"]
    assert first["group"] == ["North", "Baking"]
    assert first.keys() == {"group", "value", "lower", "upper", "status", "change", "running"}


def test_columns_called_like_numbers_are_told_from_them() -> None:
    by = ("value", "=b")
    job = weekly("pairs", "Pairs", Count(by=by, groups=(("-x", "@y"), ("z", "w"))))
    book = Book("sales", epsilon="3")
    book.publish(job, {"count": [0, 0]}, week(0))
    content = render([book.account()], templates=None)["jobs/pairs/2026-01-05/data.csv"]
    lines = list(csv.reader(io.StringIO(content.decode(), newline="")))
    assert lines[0][:6] == ["by_value", "by_=b", "value", "lower", "upper", "status"]
    assert [line[:2] for line in lines[1:]] == [["'-x", "'@y"], ["z", "w"]]


def test_a_release_states_what_was_asked_for() -> None:
    document = strict(SALES["jobs/sales-by-region/2026-01-05/release.json"])
    statistic = document["statistic"]
    assert statistic["by"] == ["region", "category"]
    assert statistic["where"] == [
        {"column": "channel", "operator": "in", "value": ["web", "shop"]},
        {"column": "discount", "operator": "<", "value": 0.5},
    ]
    assert document["publish"] == dict.fromkeys(Publish.model_fields, True)
    assert (document["mechanism"]["level"], document["contribution"]["max_norm"]) == (0.99, 4.5)
    assert document["mechanism"]["unit_of_step"] == {"sum": 62.5 / ONE}


def test_a_file_of_no_reliable_row_keeps_its_columns() -> None:
    book, job = Book(), means()
    release = mean_release(job, 0)
    rows = [
        row.model_copy(update={"value": None, "status": "not-reliable", "count": None})
        for row in release.table.rows
    ]
    table = release.table.model_copy(update={"rows": tuple(rows)})
    book.release(release.model_copy(update={"table": table}), week(0))
    files = render([book.account()], templates=None)
    lines = files["jobs/category-ratings/2026-01-05/data.csv"].decode().splitlines()
    assert lines[0] == f"group,value,lower,upper,status,count,{BESIDE}"
    assert lines[1].startswith("Baking,,3.85,3.95,not-reliable,,")
    assert b"None of the 12 groups is reliable in this week" in files["index.html"]


@pytest.mark.parametrize("name", ["..", "a/b", "a\\b", "", "."])
def test_no_name_leads_out_of_the_site(name: str) -> None:
    book, job = Book(), means().model_copy(update={"name": name})
    book.release(mean_release(job, 0), Window("week", date(2026, 1, 5), "UTC"))
    with pytest.raises(LedgerError):
        render([book.account()], templates=None)
    account = shop(1, 0)
    renamed = replace(account, terms=account.terms.model_copy(update={"account": name}))
    with pytest.raises(LedgerError):
        render([renamed], templates=None)
