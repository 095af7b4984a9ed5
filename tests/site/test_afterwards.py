"""What was found or decided later: on every page that it concerns, and in the files."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from datetime import date
from decimal import Decimal
from typing import Any

import pytest

from release.accounting import (
    RHO_UNITS,
    Event,
    Gaussian,
    GaussianThreshold,
    Laplace,
    Spend,
    event_from_json,
)
from release.ledger.kinds import KINDS, Audit, Notice
from release.ledger.records import Account
from release.ledger.writing import MOST_UNITS
from release.site import render
from release.site.spending import Spending
from tests.site.examples import (
    SOFTWARE,
    Book,
    doubled,
    mean_release,
    means,
    shop,
    week,
)
from tests.site.reading import Element, read, table
from tests.site.rendered import AFTERWARDS, EVENTFUL, OVERDRAWN

FILES = AFTERWARDS
CORRECTED = "jobs/top-products/2026-01-05"
SHOWED = "a correction on 2026-04-01 (entry 5) showed that more was spent than the budget allows"
MEAN = "category-ratings"


def words(name: str, files: dict[str, bytes] = FILES) -> str:
    return read(files[f"{name}/index.html".lstrip("/")]).all("main")[0].text()


def notes(name: str, files: dict[str, bytes] = FILES) -> list[str]:
    """What stands apart at the top of a page, in its order."""
    page = read(files[f"{name}/index.html".lstrip("/")])
    apart = ("banner", "notice")
    return [each.text() for each in page.all("div") if each.attrs.get("class") in apart]


def earlier(name: str, files: dict[str, bytes] = FILES) -> list[str]:
    """The notices that are folded away, in their order."""
    page = read(files[f"{name}/index.html".lstrip("/")])
    return [each.text() for folded in page.all("details") for each in folded.all("li")]


def document(name: str, files: dict[str, bytes] = FILES) -> Any:
    return json.loads(files[name])


def entries(name: str = "ratings", files: dict[str, bytes] = FILES) -> dict[int, dict[str, str]]:
    page = read(files[f"accounts/{name}/index.html"])
    return {int(row["No."]): row for row in table(page)}


def one_release() -> Book:
    book = Book()
    book.release(mean_release(means(), 0), week(0))
    return book


def test_the_example_has_every_kind_of_entry() -> None:
    assert {entry.kind for entry in EVENTFUL.entries} == set(KINDS)


# ---------------------------------------------------------------------------- the record


@pytest.mark.parametrize(
    ("seq", "said"),
    [
        (
            3,
            (
                "spent on 2024-11-30, before this record counted it: the tables of the annual"
                " report what: Gaussian noise, σ 40 at L2 sensitivity 1"
            ),
        ),
        (5, "top-products, 2026-W02 charged too little: corrected by entry 9"),
        (
            8,
            (
                "done elsewhere: 3 times Gaussian noise, σ 90 at L2 sensitivity 2 reason: a survey"
                " of the same customers"
            ),
        ),
        (
            9,
            (
                "correction of entry 5, done was: 2 times Gaussian noise, σ 46,776,504 at L2"
                " sensitivity 4,689,377 reason: the bound on rows was not applied to one category"
            ),
        ),
        (10, "notice: Prices in the shop are in euros since 1 January."),
        (
            11,
            (
                "notice on category-ratings: In week 2026-W03 the name of one category was"
                " misspelt; its numbers are right."
            ),
        ),
        (13, "category-ratings paused reason: the catalogue is being renamed"),
        (14, "category-ratings resumed reason: the names are settled"),
        (16, "top-products retired reason: readers found it of no use"),
        (
            17,
            (
                "audit of category-ratings: an attack on it measured an ε of at least 0.2215 at"
                " δ = 1e-6 in 2,000 trials (such a bound is too high in 5 % of audits at most),"
                " where 0.4081 was claimed (dp-release 0.1.0)"
            ),
        ),
    ],
)
def test_every_kind_says_in_the_record_what_it_is(seq: int, said: str) -> None:
    row = entries()[seq]
    assert row["Entry"] == said
    assert row["Charged at"].startswith("2026-04-01T")
    entry = EVENTFUL.entries[seq - 1]
    assert round(float(row["Charge, ρ"]) * RHO_UNITS) == entry.charge.units
    assert round(float(row["Sum, ρ"]) * RHO_UNITS) == entry.spent.units


@pytest.mark.parametrize("account", [EVENTFUL, OVERDRAWN], ids=["ratings", "visits"])
def test_an_outsider_can_correct_the_sums_from_the_file_alone(account: Account) -> None:
    found = document(f"accounts/{account.terms.account}/ledger.json")
    assert [each["kind"] for each in found["entries"]] == [each.kind for each in account.entries]
    events: dict[int, Event] = {}
    charged: dict[int, int] = {}
    for entry in found["entries"]:
        if entry["event"] is not None:
            about = entry["body"]["amends"] if entry["kind"] == "amend" else entry["seq"]
            events[about] = event_from_json(entry["event"])
            charged[about] = charged.get(about, 0) + entry["charge"]
    assert sum(charged.values()) == found["filter"]["spent"] == found["entries"][-1]["spent"]
    budget = account.terms.budget
    assert all(charged[seq] >= budget.charge(event).units for seq, event in events.items())
    true = total(events.values())
    stated = Spend.from_json(found["entries"][-1]["sums"])
    assert true.beyond(stated) == Spend()
    assert Spending(account).event == account.composition
    (correction,) = found["corrections"]
    amended = found["entries"][correction["entry"] - 1]
    assert correction["event"] == amended["event"]
    assert (correction["charge"], correction["amends"]) == (
        amended["charge"],
        amended["body"]["amends"],
    )


def total(events: Iterable[Event]) -> Spend:
    sums = Spend()
    for event in events:
        sums = sums.plus(event)
    return sums


def test_the_file_says_which_jobs_are_halted() -> None:
    assert document("accounts/ratings/ledger.json")["halted"] == {
        MEAN: "paused",
        "top-products": "retired",
    }


# ---------------------------------------------------------------------------- corrections


def test_a_corrected_release_says_what_it_really_cost() -> None:
    (said,) = notes(CORRECTED)
    first, second = EVENTFUL.entries[4], EVENTFUL.entries[8]
    units = first.charge.units + second.charge.units
    assert said.startswith("The cost of this release was corrected. It was charged ρ = 0.00502")
    assert f"and really cost ρ = {units / RHO_UNITS:.12f} (alone, ε = " in said
    assert "2026-04-01, entry 9: the bound on rows was not applied to one category" in said
    assert "The numbers stay as they were published." in said
    assert f"it really cost ε = {re.findall('alone, ε = ([0-9.]+)', said)[1]}" in words(CORRECTED)
    links = [each.attrs["href"] for each in read(FILES[f"{CORRECTED}/index.html"]).all("a")]
    assert "../../../accounts/ratings/index.html#entry-9" in links
    found = document(f"{CORRECTED}/release.json")
    assert found["filter"]["charge"] == first.charge.units  # as its own entry has it
    assert found["corrected"]["charge"] == units
    assert event_from_json(found["corrected"]["event"]) == doubled(first)
    (correction,) = found["corrections"]
    assert correction["reason"] == "the bound on rows was not applied to one category"
    true = Spend().plus(doubled(first)).epsilons(1e-6)
    shown = found["corrected"]["odometer"]["epsilon"]
    assert all(bound is None or bound <= shown[name] for name, bound in true.items())


def test_two_corrections_of_one_release_are_added() -> None:
    book = one_release()
    first = book.entries[2]
    for times in (2, 5):
        book.amend(3, doubled(first, times), f"{times} times")
    files = render([book.account()], templates=None)
    found = document(f"jobs/{MEAN}/2026-01-05/release.json", files)
    assert found["corrected"]["charge"] == sum(each.charge.units for each in book.entries)
    assert event_from_json(found["corrected"]["event"]) == doubled(first, 5)
    assert [each["reason"] for each in found["corrections"]] == ["2 times", "5 times"]
    row = entries(files=files)[3]["Entry"]
    assert row.endswith("charged too little: corrected by entry 4, entry 5")


def test_lists_mark_a_corrected_release() -> None:
    index = words("")
    assert "2026-W02 corrected" in index
    assert "“Corrected”: its cost was found later to be higher" in index
    assert index.count("2026-W03 corrected") == 0
    lines = [each.text() for each in read(FILES["jobs/top-products/index.html"]).all("li")]
    marked = ["cost corrected later" in line for line in lines]
    assert marked == [False, False, True]
    calm = render([shop(2, 0)], templates=None)
    pages = [read(page).all("body")[0] for name, page in calm.items() if name.endswith(".html")]
    assert not any("corrected" in page.text() for page in pages)


def test_a_later_release_says_that_its_sums_were_too_low() -> None:
    said = words("jobs/category-ratings/2026-01-12")
    assert "The sums on this page are as they stood when this release was charged." in said
    assert "was believed to have used" in said
    assert notes("jobs/category-ratings/2026-01-12") == notes("jobs/category-ratings")[:1]
    found = document("jobs/category-ratings/2026-01-12/release.json")
    assert [each["amends"] for each in found["corrections"]] == [5]
    assert found["corrected"] is None
    before = words("jobs/category-ratings/2026-01-05")  # charged before entry 5
    assert "The sums on this page are" not in before
    assert document("jobs/category-ratings/2026-01-05/release.json")["corrections"] == []


# ---------------------------------------------------------------------------- overdrawn


@pytest.mark.parametrize(
    "name", ["", "accounts/visits", "jobs/stays", "jobs/stays/2026-01-05", "jobs/stays/2026-01-12"]
)
def test_every_page_of_an_overdrawn_account_says_so_first(name: str) -> None:
    first = notes(name)[0]
    assert first.startswith("More was spent than the budget allows. Data “visits”: " + SHOWED)
    assert "everything has stopped" in first
    spent = OVERDRAWN.terms.budget.spent_epsilon(OVERDRAWN.last.spent.units)
    shown = re.search("Spent is ε = ([0-9.]+) at δ = 1e-6", first)
    assert shown is not None
    assert 1 < spent <= float(shown[1]) < spent + 1.01e-4
    others = [page for page in FILES if "ratings" in page and page.endswith(".html")]
    assert others
    assert not any(b"More was spent" in FILES[page] for page in others)


def test_an_overdrawn_account_has_nothing_left_and_no_bar_leaves_its_place() -> None:
    page = read(FILES["accounts/visits/index.html"])
    said = page.text()
    assert "spent ε = 1.1340 (at δ = 1e-6), which is more than 1 (at δ = 1e-6)" in said
    assert "of the cap on ε(α*) is left 0.0 %" in said
    assert "125.0 % of the cap on ε(α*) is spent" in said
    assert "Left ε(α*) = 0" in said
    for each in page.all("rect", "line", "polyline", "polygon"):
        numbers = " ".join(each.attrs.values())
        assert all(float(at) <= 100 for at in re.findall(r"(\d+(?:\.\d+)?)%", numbers))
    found = document("accounts/visits/ledger.json")
    assert (found["filter"]["left"], found["overdrawn"]) == (0, True)
    assert found["filter"]["spent"] > found["filter"]["cap"]
    assert document("accounts/ratings/ledger.json")["overdrawn"] is False


def test_the_chart_shows_how_far_the_cap_was_passed() -> None:
    (chart,) = (
        each
        for each in read(FILES["accounts/visits/index.html"]).all("svg")
        if each.attrs.get("aria-labelledby") == "spending-title spending-description"
    )
    (cap,) = (each for each in chart.all("line") if each.attrs["class"] == "cap")
    over = OVERDRAWN.terms.cap / OVERDRAWN.last.spent.units
    assert float(cap.attrs["y1"].rstrip("%")) == pytest.approx(100 - 100 * over, abs=0.01)
    heights = [float(each.split(",")[1]) for each in points(chart)]
    assert (min(heights), max(heights)) == (0, 100)


def points(chart: Element) -> list[str]:
    (line,) = chart.all("polyline")
    return line.attrs["points"].split()


@pytest.mark.parametrize("accountant", ["gdp", "zcdp", "rdp"])
def test_the_most_that_can_be_counted_can_be_shown(accountant: str) -> None:
    book = Book(accountant=accountant)
    book.release(mean_release(means(), 0), week(0))
    book.append(
        "amend",
        job=MEAN,
        charge=MOST_UNITS - book.entries[-1].spent.units,
        event=Gaussian(1, 4e-4),
        body={"format": 1, "amends": 3, "reason": "almost no noise"},
    )
    files = render([book.account()], templates=None)
    assert re.search(r"of the cap on \S+ is left 0.0 %", words("accounts/ratings", files))
    assert document("accounts/ratings/ledger.json", files)["filter"]["left"] == 0


def test_thresholds_that_cost_more_than_was_set_aside_move_delta() -> None:
    book = Book(threshold_share="0.1")
    book.record(GaussianThreshold(1, 100, 5e-8), "a survey")
    before = words("accounts/ratings", render([book.account()], templates=None))
    assert "δ = 1e-6, by" in before
    book.amend(3, GaussianThreshold(1, 100, 2e-7), "the threshold was too low")
    account = book.account()
    assert account.last.spent.units < account.terms.cap
    files = render([account], templates=None)
    said = words("accounts/ratings", files)
    assert "Promised was ε = 1.5 at δ = 1e-6. Spent is ε = " in said
    (delta,) = set(re.findall(r"Spent is ε = [0-9.]+ at δ = ([0-9.e-]+\d)", said))
    assert 1.1e-6 <= float(delta) < 1.1001e-6
    assert f"with ε = {re.findall('DP with ε = ([0-9.]+)', said)[0]}, δ = {delta}, by" in said
    statement = document("accounts/ratings/ledger.json", files)["odometer"]["statement"]
    assert statement["delta"] == float(delta)


# ---------------------------------------------------------------------------- notices and halts


def test_notices_stand_at_the_top_of_the_pages_that_they_concern() -> None:
    one = "Notice of 2026-04-01: Prices in the shop are in euros since 1 January. (the record)"
    two = (
        "Notice of 2026-04-01 on category-ratings: In week 2026-W03 the name of one category was"
        " misspelt; its numbers are right. (the record)"
    )

    def at(name: str) -> tuple[list[str], list[str]]:
        return [each for each in notes(name) if each.startswith("Notice")], earlier(name)

    assert at("") == at("accounts/ratings") == ([two], [one])
    assert at("jobs/category-ratings") == at("jobs/category-ratings/2026-01-12") == ([two], [])
    assert at("jobs/top-products") == at("jobs/stays") == at("accounts/visits") == ([], [])


def test_of_many_notices_the_newest_stands_and_none_is_lost() -> None:
    book = one_release()
    for number in range(30):
        book.note("notice", Notice(text=f"Notice {number}"), MEAN if number % 2 else None)
    files = render([book.account()], templates=None)
    for name, said in (
        ("", range(29, -1, -1)),
        ("accounts/ratings", range(29, -1, -1)),
        (f"jobs/{MEAN}", range(29, 0, -2)),
        (f"jobs/{MEAN}/2026-01-05", range(29, 0, -2)),
    ):
        shown = [*notes(name, files), *earlier(name, files)]
        assert [int(re.findall(r": Notice (\d+) ", each)[0]) for each in shown] == list(said)
        assert len(notes(name, files)) == 1
        (folded,) = read(files[f"{name}/index.html".lstrip("/")]).all("details")
        assert "open" not in folded.attrs
        (summary,) = folded.all("summary")
        assert summary.text() == f"{len(said) - 1} earlier notices"
        assert len(folded.all("a")) == len(said) - 1


def test_the_newest_notice_of_all_accounts_comes_first() -> None:
    old, new = Book("b-old"), Book("a-new")
    old.note("notice", Notice(text="first"))
    new.describe(licence="CC0")
    new.note("notice", Notice(text="second"))
    files = render([old.account(), new.account()], templates=None)
    assert [each.split(": ")[1] for each in [*notes("", files), *earlier("", files)]] == [
        "second (the record)",
        "first (the record)",
    ]
    assert "1 earlier notice Notice of" in words("", files)


@pytest.mark.parametrize(
    ("job", "said"),
    [
        (
            MEAN,
            (
                "Paused since 2026-04-01: nothing of it is released until it is resumed, and what"
                " it misses is released then. Reason: the rating form is being redesigned"
            ),
        ),
        (
            "top-products",
            (
                "Retired since 2026-04-01: nothing of it will be released any more."
                " Reason: readers found it of no use"
            ),
        ),
    ],
)
def test_a_halted_job_says_so_on_its_page_the_index_and_the_account(job: str, said: str) -> None:
    assert any(each.startswith(said) for each in notes(f"jobs/{job}"))
    assert said in words("")
    assert f"{job}. {said}" in words("accounts/ratings")
    assert "renamed" not in words(f"jobs/{job}")


def test_a_resumed_job_goes_on_as_before() -> None:
    book = one_release()
    book.decide("pause", MEAN, "a")
    book.decide("resume", MEAN, "b")
    files = render([book.account()], templates=None)
    for name in ("", f"jobs/{MEAN}"):
        assert "Paused" not in words(name, files)
    assert document("accounts/ratings/ledger.json", files)["halted"] == {}


def test_what_a_replaced_account_said_of_its_jobs_counts_no_more() -> None:
    old, new = one_release(), Book("ratings-2", replaces="ratings")
    old.decide("pause", MEAN, "the account is closed")
    assert "Paused" in words(f"jobs/{MEAN}", render([old.account()], templates=None))
    files = render([old.account(), new.account()], templates=None)
    assert "Paused" not in words(f"jobs/{MEAN}", files)
    new.decide("pause", MEAN, "taken over")
    files = render([old.account(), new.account()], templates=None)
    assert words(f"jobs/{MEAN}", files).count("Paused") == 1


def test_a_job_that_was_only_ever_paused_has_a_page() -> None:
    book = Book()
    book.decide("pause", MEAN, "not yet")
    files = render([book.account()], templates=None)
    said = words(f"jobs/{MEAN}", files)
    assert "Nothing of this statistic has been published." in said
    assert "Paused since 2026-04-01" in said
    assert "None has been released or refused." in said
    assert MEAN in words("", files)


# ---------------------------------------------------------------------------- audits and history


def test_a_release_names_the_last_audit_of_its_job() -> None:
    said = words("jobs/category-ratings/2026-01-12")
    assert (
        "The last audit of this statistic, on 2026-04-01: an attack on it measured an ε of at"
        " least 0.2215 at δ = 1e-6" in said
    )
    assert "No audit of this statistic is on record." in words(CORRECTED)
    assert "cannot hold" not in said


def test_an_audit_above_the_claim_says_that_the_claim_is_wrong() -> None:
    book = one_release()
    for measured in ("0.1", "1.25"):
        body = Audit(
            software=SOFTWARE,
            claimed_epsilon=Decimal("1.2"),
            measured_epsilon=Decimal(measured),
            delta=Decimal("1e-6"),
            confidence=Decimal("0.999"),
            trials=10,
        )
        book.note("audit", body, MEAN)
    said = words(f"jobs/{MEAN}/2026-01-05", render([book.account()], templates=None))
    assert (
        "least 1.25 at δ = 1e-6 in 10 trials (such a bound is too high in 0.1 % of audits" in said
    )
    assert "The claim cannot hold" in said


def test_history_alone_is_no_release() -> None:
    book = Book(accountant="rdp", epsilon="4")
    book.history(Laplace(1, 30), date(2020, 2, 29), "a table of 2020")
    files = render([book.account()], templates=None)
    assert "Everything recorded has spent" in words("accounts/ratings", files)
    assert "spent on 2020-02-29, before this record" in entries(files=files)[3]["Entry"]
