"""The budget page of every kind of account: the odometer, the filter, and work done elsewhere."""

from __future__ import annotations

import json
from fractions import Fraction
from itertools import pairwise
from typing import Any

import pytest

from release.accounting import (
    EVENTS,
    ORDERS,
    Composed,
    Gaussian,
    GaussianThreshold,
    Laplace,
    PoissonGaussian,
    PureDP,
    Spend,
    grid_epsilon,
)
from release.accounting.comparison import advanced_epsilon, basic_epsilon
from release.ledger.charges import alone
from release.ledger.records import Account
from release.site import render
from release.site.descriptions import WORDS, described
from release.site.spending import Spending
from tests.site.examples import (
    Book,
    leaderboard,
    leaderboard_release,
    mean_release,
    means,
    shop,
    week,
)
from tests.site.reading import Element, read, table

PAGE = "accounts/ratings/index.html"
ROUNDS = PoissonGaussian(0.01, 1.1, 500)
WHY = "federated training of the recommender"


def federated() -> Account:
    """500 rounds recorded on an account that can hold them, then two releases."""
    book = Book(epsilon="6", accountant="rdp")
    book.record(ROUNDS, WHY)
    book.release(mean_release(means(), 0), week(0))
    book.release(leaderboard_release(leaderboard(), 0), week(0))
    book.refuse(means(), week(1))
    return book.account()


FEDERATED = federated()
FILES = render([FEDERATED], templates=None)


def words(*accounts: Account, page: str = PAGE) -> str:
    return read(render(accounts, templates=None)[page]).all("main")[0].text()


def document(name: str, files: dict[str, bytes] = FILES) -> Any:
    return json.loads(files[f"accounts/ratings/{name}"])


def captioned(page: Element, start: str) -> list[dict[str, str]]:
    captions = [each.all("caption")[0].text() for each in page.all("table")]
    return table(page, next(i for i, text in enumerate(captions) if text.startswith(start)))


# ---------------------------------------------------------------------------- the Rényi curve


def test_federated_rounds_give_the_whole_curve_as_json() -> None:
    found = document("curve.json")
    assert [each["order"] for each in found["curve"]] == [float(order) for order in ORDERS]
    assert tuple(each["charged"] for each in found["curve"]) == FEDERATED.last.sums.total_curve()
    assert all(each["epsilon"] * 1e12 == pytest.approx(each["charged"]) for each in found["curve"])
    rounds = dict(zip(ORDERS, ROUNDS.rdp(ORDERS), strict=True))
    assert all(each["charged"] > rounds[Fraction(each["order"])] for each in found["curve"])
    assert (found["entry"], found["hash"]) == (FEDERATED.last.seq, FEDERATED.last.hash)


def test_federated_rounds_give_a_table_of_orders() -> None:
    rows = captioned(read(FILES[PAGE]), "Everything recorded is (α, ε(α))-RDP")
    costs = {each["order"]: each["charged"] for each in document("curve.json")["curve"]}
    orders = {float(row["Order α"].removesuffix(" (the best)")): row for row in rows}
    assert set(orders) == {2, 4, 8, 16, 32, 64, document("curve.json")["best_order"]}
    for order, row in orders.items():
        cost = costs[order]
        assert round(float(row["ε(α)"]) * 10**12) == cost
        bound = grid_epsilon((cost,), 1e-6, (Fraction(order),)).epsilon
        assert bound <= float(row["ε at δ"]) < bound + 1.01e-4
    (best,) = (row for row in rows if "best" in row["Order α"])
    assert best["ε at δ"] == min((row["ε at δ"] for row in rows), key=float)


def test_federated_rounds_give_a_chart() -> None:
    (chart,) = (
        each
        for each in read(FILES[PAGE]).all("svg")
        if each.attrs.get("aria-labelledby") == "curve-title curve-description"
    )
    (line,) = chart.all("polyline")
    points = [tuple(map(float, each.split(","))) for each in line.attrs["points"].split()]
    assert len(points) > 50
    assert all(x < right and y >= below for (x, y), (right, below) in pairwise(points))
    assert all(0 <= at <= 100 for point in points for at in point)


def test_federated_rounds_give_a_final_statement() -> None:
    found = FEDERATED.last.sums.epsilons(1e-6)
    assert found["rdp"] is not None
    shown = document("ledger.json")["odometer"]["statement"]
    assert found["rdp"] <= shown["epsilon"] < found["rdp"] + 1.01e-4
    assert (shown["formula"], shown["delta"]) == ("rdp", 1e-6)
    said = f"Everything recorded is (ε, δ)-DP with ε = {shown['epsilon']:.4f}, δ = 1e-6, by rdp"
    assert said in words(FEDERATED)


def test_one_record_of_many_rounds_is_many_records_of_one() -> None:
    one, many = (Book(epsilon="6", accountant="rdp") for _ in range(2))
    one.record(PoissonGaussian(0.01, 1.1, 20), WHY)
    for _ in range(20):
        many.record(PoissonGaussian(0.01, 1.1), WHY)
    assert Spending(one.account()).curve == Spending(many.account()).curve
    assert Spending(one.account()).comparison == Spending(many.account()).comparison


def test_a_gaussian_account_has_the_curve_of_its_rho() -> None:
    account = shop(1, 0)
    files = render([account], templates=None)
    spent = account.last.sums.rho
    assert spent is not None
    for each in document("curve.json", files)["curve"]:
        assert each["charged"] - 1 < spent * Fraction(each["order"]) <= each["charged"]


def test_nothing_spent_has_no_curve_and_costs_nothing() -> None:
    files = render([Book().account()], templates=None)
    assert "The Rényi curve" not in words(Book().account())
    assert document("curve.json", files)["best_order"] is None
    said = words(Book().account())
    assert "Everything recorded is (ε, δ)-DP with ε = 0.0000" in said


def test_a_best_order_at_the_edge_is_warned_of() -> None:
    book = Book(epsilon="6", accountant="rdp")
    book.record(PoissonGaussian(1e-4, 1e5), WHY)
    said = words(book.account())
    edge = (
        "the best order, 65536, lies at the edge of the grid: a wider grid may prove a smaller ε"
    )
    assert f"rdp: {edge}" in said
    assert f"rdp-classic: {edge}" in said
    assert "edge of the grid" not in words(FEDERATED)


# ---------------------------------------------------------------------------- for comparison


def test_basic_and_advanced_composition_stand_beside_the_formulas() -> None:
    rows = {
        row["Formula"].split(":")[0].split(",")[0]: row["ε"]
        for row in captioned(read(FILES[PAGE]), "ε at δ")
    }
    assert list(rows) == ["rdp", "gdp", "rdp-classic", "zcdp", "basic", "advanced"]
    assert rows["gdp"] == rows["zcdp"] == "does not apply"
    event = Spending(FEDERATED).event
    assert event is not None
    for name, bound in (("basic", basic_epsilon), ("advanced", advanced_epsilon)):
        assert bound(event, 1e-6) <= float(rows[name]) < bound(event, 1e-6) + 1.01e-4
        assert float(rows[name]) > float(rows["rdp"])
    assert "advanced, for comparison only" in words(FEDERATED)


def test_the_comparison_is_over_everything_that_was_charged() -> None:
    event = Spending(FEDERATED).event
    assert event is not None
    assert Spend().plus(event) == FEDERATED.last.sums


def test_a_comparison_that_says_nothing_finite_is_left_out() -> None:
    book = Book(epsilon="5000", accountant="zcdp")
    book.record(PureDP(50), WHY)
    basic, advanced = Spending(book.account()).comparison
    assert 50 <= float(basic.epsilon or 0) <= 50.0001
    assert float(advanced.epsilon or 0) > 1e20
    big = Book(epsilon="1e6", accountant="zcdp")
    big.record(PureDP(800), WHY)
    basic, advanced = Spending(big.account()).comparison
    assert float(basic.epsilon or 0) >= 800
    assert advanced.epsilon is None
    assert "does not apply" in words(big.account())


def test_equal_events_are_compared_once_with_their_count() -> None:
    book = Book()
    event = Composed((Gaussian(1, 400), Gaussian(1, 500)))
    for _ in range(1000):
        book.append("record", charge=1, event=event, body={"reason": WHY})
    spending = Spending(book.account())
    assert all(each.epsilon for each in spending.comparison)
    assert spending.event is not None
    assert {count for _, count in spending.event.uses()} == {1000}


# ---------------------------------------------------------------------------- records


def test_a_record_says_what_was_done_why_and_that_it_has_no_rho() -> None:
    (row,) = (
        row
        for row in captioned(read(FILES[PAGE]), "ε(α*) is the Rényi cost")
        if "elsewhere" in row["Entry"]
    )
    entry = FEDERATED.entries[2]
    assert row["Entry"] == (
        "done elsewhere: 500 steps of Poisson-sampled Gaussian noise, rate 0.01, multiplier 1.1"
        f" reason: {WHY} no ρ"
    )
    assert round(float(row["Charge, ε(α*)"]) * 10**12) == entry.charge.units


def test_a_renyi_account_never_calls_its_quantity_rho() -> None:
    terms = FEDERATED.terms
    said = words(FEDERATED)
    assert terms.order is not None
    assert f"ε(α*) is the Rényi cost at the order α* = {float(Fraction(terms.order)):g}" in said
    assert f"Cap ε(α*) = {terms.cap / 10**12:.12f}" in said
    assert "cap on ρ" not in said
    page = "jobs/category-ratings/2026-01-05/index.html"
    release = FEDERATED.entries[3]
    told = words(FEDERATED, page=page)
    assert f"cap: ε(α*) = {terms.cap / 10**12:.12f}" in told
    assert f"ε(α*) = {release.charge.units / 10**12:.12f} not a guarantee by itself" in told
    rho = alone(FEDERATED, release).rho
    assert rho is not None
    assert f"All of it: ρ = {rho / 10**12:.12f}, which at α* =" in told
    assert "sum of ρ" not in told


@pytest.mark.parametrize(
    ("event", "said"),
    [
        (ROUNDS, "500 steps of Poisson-sampled Gaussian noise, rate 0.01, multiplier 1.1"),
        (Laplace(1, 30), "Laplace noise, scale 30 at L1 sensitivity 1"),
        (
            Composed((Gaussian(1, 2.5, 2), Composed((Gaussian(1, 2.5),), 3))),
            "5 times Gaussian noise, σ 2.5 at L2 sensitivity 1",
        ),
        (
            Composed(tuple(PureDP(each) for each in (0.1, 0.2, 0.3, 0.4, 0.5))),
            "; ".join([*(f"an (0.{n}, 0)-DP mechanism" for n in (1, 2, 3)), "and 2 more"]),
        ),
    ],
)
def test_an_event_in_words(event: Composed, said: str) -> None:
    assert described(event.to_json()) == said


def test_every_kind_of_mechanism_has_words() -> None:
    assert set(WORDS) == set(EVENTS) - {Composed.type}


# ---------------------------------------------------------------------------- the filter


def test_filter_and_odometer_are_told_apart() -> None:
    said = words(FEDERATED)
    assert "The odometer: what has been spent" in said
    assert "The filter: what cannot be passed" in said
    ledger = document("ledger.json")
    assert ledger["filter"]["quantity"] == "epsilon-at-order"
    assert ledger["filter"]["cap"] - ledger["filter"]["spent"] == ledger["filter"]["left"]
    assert ledger["filter"]["spent"] == FEDERATED.last.spent.units
    assert ledger["odometer"]["rho"] is None
    release = json.loads(FILES["jobs/category-ratings/2026-01-05/release.json"])
    assert release["filter"]["charge"] == FEDERATED.entries[3].charge.units
    assert release["odometer"]["account_to_date"]["rho"] is None
    assert release["odometer"]["release"]["rho"] > 0


def test_thresholds_are_set_aside_and_spent() -> None:
    book = Book(threshold_share="0.25")
    book.record(GaussianThreshold(1, 400, 1e-8, 3), WHY)
    said = words(book.account())
    assert "δT = 2.5e-7 set aside of δ; spent of it: δ₀ = 3.0000000003e-8" in said
    assert "every ε here is at the δ = 7.5e-7 that is left" in said
    row = captioned(read(render([book.account()], templates=None)[PAGE]), "ρ is exact")[0]
    assert "δ₀ 3.0000000003e-8" in row["Entry"]  # the double 1e-8 is above it
    ledger = document("ledger.json", render([book.account()], templates=None))
    assert (ledger["filter"]["delta_cap"], ledger["filter"]["delta_spent"]) == (
        250_000_000_000,
        30_000_000_003,
    )
    odometer = ledger["odometer"]
    assert odometer["delta"] == 7.5e-7
    bound = book.account().last.sums.epsilons(7.5e-7)["gdp"]
    assert bound is not None
    assert bound <= odometer["epsilon"]["gdp"] < bound + 1.01e-4
    assert "set aside" not in words(Book().account())


def test_delta_is_held_against_the_population() -> None:
    book = Book()
    assert "The number of customers was not stated" in words(book.account())
    book.describe(population=20_000)
    said = words(book.account())
    assert "with the stated number of 20,000, 0.02 of them on average" in said
    assert "it should be far below 1/20,000" in said


def test_an_account_that_replaces_another_says_so_on_both_pages() -> None:
    old, new = Book("old"), Book("new", replaces="old")
    files = render([old.account(), new.account()], templates=None)
    links = {
        name: [a.attrs["href"] for a in read(files[f"accounts/{name}/index.html"]).all("a")]
        for name in ("old", "new")
    }
    assert "../../accounts/old/index.html" in links["new"]
    assert "../../accounts/new/index.html" in links["old"]
    both = old.account(), new.account()
    assert "This account replaces old" in words(*both, page="accounts/new/index.html")
    assert "was replaced by new" in words(*both, page="accounts/old/index.html")
    alone = words(new.account(), page="accounts/new/index.html")
    assert "This account replaces old" in alone


@pytest.mark.parametrize(
    ("stop", "said"),
    [("share", "the statistic’s share of the budget"), ("account", "the account’s budget")],
)
def test_a_refusal_says_which_limit_it_met(stop: str, said: str) -> None:
    book = Book()
    book.release(mean_release(means(), 0), week(0))
    book.refuse(means(), week(1), stop)
    account = book.account()
    assert f"refused because {said} does not allow more" in words(account)
    assert f"2026-W03: refused, over {said}" in words(account)
    assert f"“Refused”: {said} does not allow it" in words(account, page="index.html")
    job = words(account, page="jobs/category-ratings/index.html")
    assert f"refused: {said} does not allow it" in job
    assert f"refused because {said} does not allow more" in job


# ---------------------------------------------------------------------------- at that time


def test_an_old_release_keeps_what_was_said_when_it_was_released() -> None:
    book = Book()
    book.release(mean_release(means(), 0), week(0))
    before = render([book.account()], templates=None)
    book.describe(unit_name="shopper", approved_by="B. Other", population=7, licence="CC0")
    book.release(mean_release(means(), 1), week(1))
    files = render([book.account()], templates=None)
    old, new = (f"jobs/category-ratings/{day}" for day in ("2026-01-05", "2026-01-12"))
    assert files[f"{old}/release.json"] == before[f"{old}/release.json"]
    told = read(files[f"{old}/index.html"]).all("main")[0].text()
    assert "A. Officer" in told
    assert "shopper" not in told
    assert "The number of customers was not stated" in told
    now = read(files[f"{new}/index.html"]).all("main")[0].text()
    assert "B. Other" in now
    assert "customer was" not in now
    assert "stated number of 7" in now
    assert json.loads(files[f"{new}/release.json"])["licence"] == "CC0"


def test_a_release_page_says_how_its_numbers_are_finished() -> None:
    said = words(shop(1, 0), page="jobs/category-ratings/2026-01-05/index.html")
    assert "The noisy sum is first moved to within ± the noisy count" in said
    assert "A negative noisy count is shown as 0" in said
    assert "Intervals are rounded outward at the last digit shown." in said
    assert "over all releases of a row" in said
    assert "not among shown values alone" in said
