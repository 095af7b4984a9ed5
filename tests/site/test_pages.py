"""What every page must be, and what those of jobs and accounts say."""

from __future__ import annotations

import base64
import hashlib
import json
import re
from collections.abc import Iterator
from dataclasses import replace
from itertools import pairwise
from pathlib import PurePosixPath
from urllib.parse import unquote, urljoin

import pytest

from release.accounting import ACCOUNTANTS
from release.ledger.records import Account
from release.site import render
from release.windows import Window
from tests.site.examples import (
    Book,
    mean_release,
    means,
    nasty,
    shop,
    week,
)
from tests.site.reading import Element, read, table
from tests.site.rendered import AFTERWARDS, BOARD, HOSTILE, MEAN, SALES, SHOP, cells, words

FILES = {
    **{f"sales/{name}": each for name, each in SALES.items()},
    **SHOP,
    **{f"nasty/{name}": each for name, each in HOSTILE.items()},
    **{f"eventful/{name}": each for name, each in AFTERWARDS.items()},
}
PAGES = sorted(name for name in FILES if name.endswith(".html"))


def every(page: Element) -> Iterator[Element]:
    yield page
    for child in page.children:
        yield from every(child)


IDS = {
    name: {each.attrs["id"] for each in every(read(FILES[name])) if "id" in each.attrs}
    for name in PAGES
}


@pytest.mark.parametrize("name", PAGES)
def test_every_page_is_whole_and_accessible(name: str) -> None:
    page = read(FILES[name])
    (html,) = page.all("html")
    assert html.attrs["lang"] == "en"
    assert len(page.all("h1")) == 1
    assert page.all("title")[0].text()
    assert any(
        a.attrs.get("class") == "skip" and a.attrs["href"] == "#main" for a in page.all("a")
    )
    levels = [int(heading.tag[1]) for heading in page.all("h1", "h2", "h3", "h4")]
    assert all(after <= before + 1 for before, after in pairwise(levels))
    ids = [each.attrs["id"] for each in every(page) if "id" in each.attrs]
    assert len(ids) == len(set(ids))
    for each in page.all("table"):
        assert each.all("caption")[0].text()
        assert all(cell.attrs.get("scope") in ("row", "col") for cell in each.all("th"))
    for chart in page.all("svg"):
        if not chart.within("svg"):
            names = chart.attrs["aria-labelledby"].split()
            inside = {e.attrs.get("id"): e.text() for e in chart.all("title", "desc")}
            assert chart.attrs["role"] == "img"
            assert all(inside[each] for each in names)


@pytest.mark.parametrize("name", PAGES)
def test_no_page_asks_anything_of_anyone(name: str) -> None:
    page = read(FILES[name])
    assert not page.all("script", "img", "iframe", "form", "object", "embed", "link", "base")
    assert not any(key.startswith("on") or key == "style" for e in every(page) for key in e.attrs)
    (style,) = page.all("style")
    digest = base64.b64encode(hashlib.sha256("".join(style.texts).encode()).digest()).decode()
    policy = page.all("meta")[1].attrs
    assert policy["http-equiv"] == "Content-Security-Policy"
    assert policy["content"] == f"default-src 'none'; style-src 'sha256-{digest}'"
    assert "url(" not in "".join(style.texts)
    assert "@import" not in "".join(style.texts)


@pytest.mark.parametrize("name", PAGES)
def test_every_link_leads_to_a_file_of_the_site(name: str) -> None:
    for link in read(FILES[name]).all("a"):
        file, _, place = unquote(urljoin(name, link.attrs["href"])).partition("#")
        assert file in FILES
        assert not place or place in IDS[file]


def test_no_page_speaks_of_confidence() -> None:
    assert not any(b"confidence" in FILES[name].lower() for name in PAGES)


def test_every_page_can_be_reached_from_the_index() -> None:
    reached, ahead = set(), ["index.html"]
    while ahead:
        name = ahead.pop()
        if name not in reached:
            reached.add(name)
            hrefs = [a.attrs["href"] for a in read(SHOP[name]).all("a")] if ".html" in name else []
            ahead += [urljoin(name, href) for href in hrefs if not href.startswith("#")]
    assert reached == set(SHOP)


@pytest.mark.parametrize(
    "folder", [str(PurePosixPath(name).parent) for name in FILES if name.endswith(".csv")]
)
def test_page_csv_and_json_hold_the_same_digits(folder: str) -> None:
    page = table(read(FILES[f"{folder}/index.html"]))
    lines = list(cells(FILES[f"{folder}/data.csv"]))
    document = json.loads(FILES[f"{folder}/release.json"])
    assert len(lines) == len(document["rows"]) >= len(page)
    for line, row in zip(lines, document["rows"], strict=True):
        assert line["status"] == row["status"]
        for key in ("value", "lower", "upper", "count", "rank", "rank_lower", "rank_upper"):
            assert float(line.get(key) or "nan") == row.get(key) or row.get(key) is None
            assert bool(line.get(key)) == (row.get(key) is not None)
    for shown, line in zip(page, lines, strict=False):
        assert shown["Estimate"] == (line["value"] or "[u]")
        assert (shown["Lower"], shown["Upper"]) == (line["lower"], line["upper"])
        if "rank" in line:
            ends = dict.fromkeys((line["rank_lower"], line["rank_upper"]))
            assert (shown["Rank"], shown["True rank within"]) == (line["rank"], " to ".join(ends))
        assert shown.get("Count, about") == line.get("count")


@pytest.mark.parametrize("folder", [MEAN, BOARD])
def test_page_and_json_state_the_same_cost(folder: str) -> None:
    page = read(SHOP[f"{folder}/index.html"])
    document = json.loads(SHOP[f"{folder}/release.json"])
    formulas = {row["Formula"].split(":")[0]: row for row in table(page, 3)}
    for part, column in (("release", "This release"), ("account_to_date", "To date")):
        shown = {name: float(row[column]) for name, row in formulas.items()}
        assert shown == document["odometer"][part]["epsilon"]
    totals = {row["Total"]: row for row in table(page, 2)}
    for total, sigma in document["mechanism"]["sigma"].items():
        assert int(totals[total]["σ, steps"].replace(",", "")) == sigma
        in_units = sigma * document["mechanism"]["unit_of_step"][total]
        assert float(totals[total]["σ"].replace(",", "")) == pytest.approx(in_units, rel=1e-5)
    # Each part is rounded up, so together they may pass the charge by a unit of 1e-12 each.
    parts = sum(float(row["Cost, ρ"]) for row in totals.values())
    assert 0 <= parts - document["odometer"]["release"]["rho"] + 1e-8 <= 1.1e-8


@pytest.mark.parametrize(
    "name",
    ["index.html", "jobs/category-ratings/index.html", "accounts/ratings/index.html"],
)
def test_a_refusal_is_told_in_words(name: str) -> None:
    page = read(SHOP[name])
    banner = [each for each in every(page) if each.attrs.get("class") == "banner"]
    assert "Stopped by the privacy budget." in banner[0].text()
    assert "nothing was charged" in banner[0].text()
    assert "2026-W13" in page.text()
    calm = read(render([shop(10, 0)], templates=None)[name])
    assert not any(each.attrs.get("class") == "banner" for each in every(calm))


def test_a_job_page_lists_every_window_the_newest_first() -> None:
    items = read(SHOP["jobs/category-ratings/index.html"]).all("main")[0].all("li")
    assert [re.findall(r"week (\S+)", item.text())[0] for item in items] == [
        f"2026-W{number:02}" for number in range(13, 1, -1)
    ]
    said = "refused: the statistic’s share of the budget does not allow it; nothing was computed"
    assert [said in item.text() for item in items] == [True] * 2 + [False] * 10


def test_a_job_that_was_only_ever_refused_has_a_page() -> None:
    book = Book(epsilon="0")
    book.refuse(means(title="Never seen"), week(0), "account")
    files = render([book.account()], templates=None)
    assert "Never seen Nothing of this statistic has been published." in words("index.html", files)
    assert "refused: the account’s budget" in words("jobs/category-ratings/index.html", files)
    assert "Never seen" in words("jobs/category-ratings/index.html", files)
    assert "ε = 0.0000 of 0, the most" in words("accounts/ratings/index.html", files)


def test_the_budget_page_lists_every_entry_with_its_sums() -> None:
    account = shop()
    rows = table(read(SHOP["accounts/ratings/index.html"]))
    assert [int(row["No."]) for row in rows] == [e.seq for e in reversed(account.entries)]
    for row, entry in zip(rows, reversed(account.entries), strict=True):
        assert round(float(row["Charge, ρ"]) * 10**12) == entry.charge.units
        assert round(float(row["Sum, ρ"]) * 10**12) == entry.spent.units
        epsilon = ACCOUNTANTS["gdp"].epsilon(entry.spent.units, account.terms.delta)
        assert epsilon <= float(row["Sum, ε"]) < epsilon + 1e-4
    said = words("accounts/ratings/index.html")
    assert "spent ε = 1.5000 of 1.5" in said
    assert "releases published 20" in said
    assert "releases refused 4" in said
    assert "Left ρ = 0.000000000011" in said
    assert "Why this budget not stated" in said


def test_a_zcdp_account_counts_by_its_own_formula() -> None:
    account = nasty()
    said = words("accounts/visits/index.html", render([account], templates=None))
    spent = ACCOUNTANTS["zcdp"].epsilon(account.last.spent.units, account.terms.delta)
    shown = re.search(r"spent ε = (\S+) of", said)
    assert shown is not None
    assert spent <= float(shown[1]) < spent + 1e-4


def test_an_empty_site_says_so() -> None:
    files = render([], templates=None)
    assert list(files) == ["index.html"]
    assert "Nothing has been published yet." in words("index.html", files)


def test_accounts_that_have_released_nothing_have_a_budget_page() -> None:
    files = render([Book().account()], templates=None)
    assert "spent ε = 0.0000 of 1.5" in words("accounts/ratings/index.html", files)


def test_the_order_of_the_accounts_makes_no_difference() -> None:
    one, two = shop(1, 0), nasty()
    assert render([one, two], templates=None) == render([two, one], templates=None)


def test_a_window_of_another_kind_leaves_the_earlier_address_alone() -> None:
    book, job = Book(), means()
    for window in (
        week(0),
        Window("day", week(0).first, "Europe/London"),
        Window("day", week(0).first, "UTC"),
    ):
        book.release(mean_release(job, 0), window)
    files = render([book.account()], templates=None)
    folders = sorted(str(PurePosixPath(name).parent) for name in files if name.endswith(".csv"))
    root = "jobs/category-ratings/2026-01-05"
    assert folders == [root, f"{root}-day", f"{root}-day-ratings-5"]
    assert "Week 2026-W02" in words(f"{root}/index.html", files)


def test_an_account_that_replaces_another_takes_none_of_its_addresses() -> None:
    """Though by its name it comes first, and a clock that went back gave both one time."""
    old = Book("ratings")
    old.release(mean_release(means(), 0), week(0))
    first = render([old.account()], templates=None)
    heir = Book("heir")
    heir.release(mean_release(means(), 0), week(0))
    found = heir.account()
    found = replace(
        found,
        terms=found.terms.model_copy(update={"replaces": "ratings"}),
        entries=tuple(
            replace(one, charged_at=old.entries[-1].charged_at) for one in found.entries
        ),
    )
    both = render([found, old.account()], templates=None)
    table = "jobs/category-ratings/2026-01-05/data.csv"
    assert both[table] == first[table]
    assert table.replace("2026-01-05", "2026-01-05-week") in both


def test_two_accounts_can_hold_releases_of_one_job() -> None:
    other: Account = shop(1, 0)
    book = Book("ratings-2")
    book.release(mean_release(means(), 1), week(1))
    files = render([other, book.account()], templates=None)
    said = words("jobs/category-ratings/index.html", files)
    assert "account ratings," in said
    assert "account ratings-2," in said
