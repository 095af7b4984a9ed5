"""What the page of a release says, and what it leaves out."""

from __future__ import annotations

import json
from dataclasses import replace
from decimal import Decimal

import pytest

from release.ledger.records import Account, Release
from release.site import render
from release.specs import ONE, Condition, Count, Mean, Publish, Statistic, Sum
from tests.site.examples import (
    CATEGORIES,
    Book,
    leaderboard,
    leaderboard_release,
    mean_release,
    means,
    shop,
    week,
    weekly,
)
from tests.site.reading import read, table
from tests.site.rendered import BOARD, MEAN, SALES, SHOP, cells, words

FEW = "jobs/category-ratings/2026-01-05"


def test_a_leaderboard_page_shows_its_top_and_the_file_all() -> None:
    assert len(table(read(SHOP[f"{BOARD}/index.html"]))) == 20
    assert len(list(cells(SHOP[f"{BOARD}/data.csv"]))) == 40
    assert "The first 20 of 40" in words(f"{BOARD}/index.html")


@pytest.mark.parametrize(
    "said",
    [
        "Estimated highest: Cutlery, about 4.38 (4.28 to 4.47).",
        "Estimated lowest: Coffee, about 3.40 (3.33 to 3.48). 11 of 12 groups are reliable",
        "Each customer is protected as a whole, for the whole life of this data",
        "ε = 1.5 at most, at δ = 1e-6; weeks add up",
        "up to and with this one has used ε = 1.3735 of it",
        "changes by a factor of 4.49 at most",
        "all rows that share one value of the column customer_id",
        "add or remove one whole privacy unit",
        "G = 3, R = 1",
        "one customer adds at most 1 row to a group",
        "scaled down (clip)",
        "1 to 5 of the column rating",
        "origin: catalogue of 2025",
        "origin: not stated",
        "σ = 37.1827 on each count, σ = 56.5023 on each sum of rating",
        "2026-03-02T00:00:00Z/2026-03-09T00:00:00Z",
        "the week of Europe/London, Monday to Sunday, by the column rated_at",
        "ε = 0.3002, ρ = 0.002964349818 not a guarantee by itself: the releases add up",
        "ε = 1.3735, ρ = 0.050393946906",
        "cap: ρ = 0.059286996371, accountant gdp",
        "planned for 10 releases",
        "Why this budget not stated",
        "Approved by A. Officer, 12 December 2025",
        "One vote a customer",
        "This shifts the estimate away from the plain mean",
        "[u] not reliable: the noisy count is so small that the noise interval of a mean in",
        "the whole of that range, 1 to 5",
        "noise interval",
        "where jobs were chosen after looking at what was published, it describes",
        "whoever runs this publication sees the raw rows",
        "What is not promised",
        "Entry 19 of the account’s record, charged at 2026-04-01T06:02:06Z",
        "Computed by dp-release 0.1.0",
    ],
)
def test_a_release_page_says(said: str) -> None:
    assert said in words(f"{MEAN}/index.html")


SUM, UNITS, BEST = (
    f"jobs/{name}/2026-01-12" for name in ("sales-by-region", "customers", "best-rated")
)


@pytest.mark.parametrize(
    ("folder", "said"),
    [
        (SUM, "Estimated highest sum of amount: North / Baking, about 54,000 (45,000 to 64,000)."),
        (SUM, "Estimated lowest: South / Coffee, about 16,000 (6,000 to 26,000)."),
        (SUM, "Bars are the estimates, whiskers their noise intervals at 99 %"),
        (SUM, ("Estimated sum of amount by region and category, week 2026-W03, of rows in which "
              "channel is one of web, shop and discount is below 0.5.")),
        (SUM, "it holds the exact bounded figure in 99 % of all rows"),
        (SUM, "Only rows count in which channel is one of web, shop and discount is below 0.5."),
        (SUM, "values outside 0 to 62.5 counting as the nearer of the two"),
        (SUM, "Of every customer 4 rows count in a group at most: with more, 4 times the mean"),
        (SUM, "G = 3, R = 4, norm 4.5"),
        (SUM, "an L2 norm of 4.5 at most, which is less than R·√G: less noise for more that is"),
        (SUM, "(the norm above, rounded up)"),
        (SUM, "Rows that count those in which channel is one of web, shop and discount is below"),
        (SUM, "0 to 62.5 of the column amount"),
        (SUM, "Intervals 99 % over all releases"),
        (SUM, "no sum is shown below 0; no digit is shown that is all noise; changes since the"),
        (SUM, ("sums so far are shown nonnegative is on, rounded is on, change is on, running is "
              "on; free of cost")),
        (SUM, ("The change since week 2026-W02, and the sum over the 2 weeks since 2026-W02, "
              "this one among them.")),
        (SUM, "divided by 62.5, so that each row adds at most 1 to a total"),
        (SUM, "A negative noisy sum counts as 0, which no exact one is below."),
        (UNITS, "Estimated highest count of customers: High Street, about 288.6076193"),
        (UNITS, "Estimated count of customers by shop, week 2026-W03."),
        (UNITS, "How many customers have a row in each group, however many rows they have there."),
        (UNITS, ("counts that the noise took below 0 are shown so; digits are shown also where "
                "they are all noise; changes since the week before are shown; sums so far are "
                "shown nonnegative is off, rounded is off,")),
        (UNITS, "noise intervals at 95 %"),
        (BEST, "Estimated first: Textiles, with a mean of about 4.17 (cannot be told apart from"),
        (BEST, "Dots are the estimates, lines their noise intervals at 80 %"),
        (BEST, "Estimated mean of rating by category, week 2026-W03. The first 10 of 12"),
        (BEST, "The ranges of ranks hold for all rows at once in 80 % of releases."),
        (BEST, "36.6 % for the counts, the rest for the sums the best where nothing is known"),
        (BEST, "no count is shown below 0; no mean is shown outside of the bounds;"),
        (BEST, "each at a level at which all of them hold together at 80 % (Šidák 1967)"),
        (BEST, "the mean is the middle of the bounds plus 2 · (noisy sum / noisy count)"),
    ],
)  # fmt: skip
def test_a_page_of_each_kind_says(folder: str, said: str) -> None:
    assert said in words(f"{folder}/index.html", SALES)


@pytest.mark.parametrize(
    ("folder", "unsaid"),
    [
        (SUM, ["95 %", "votes", "Split of the cost", "Count, about", "within_bounds", "R·√G,"]),
        (UNITS, ["99 %", "80 %", "counts as 0", "Only rows count", "Bounds of the values"]),
        (BEST, ["95 %", "99 %", "Only rows count", "Bars are"]),
    ],
)
def test_a_page_says_nothing_of_another_kind(folder: str, unsaid: list[str]) -> None:
    said = words(f"{folder}/index.html", SALES)
    assert [text for text in unsaid if text in said] == []


def test_weeks_stand_side_by_side_but_for_boards() -> None:
    for name, panels in (("sales-by-region", 6), ("customers", 4), ("best-rated", 0)):
        page = read(SALES[f"jobs/{name}/index.html"])
        assert len([each for each in page.all("svg") if not each.within("svg")]) == panels


def test_bars_of_counts_below_nought_grow_to_the_left() -> None:
    (chart,) = (
        each for each in read(SALES[f"{UNITS}/index.html"]).all("svg") if not each.within("svg")
    )
    bars = [each.attrs for each in chart.all("rect") if each.attrs.get("class") == "bar"]
    assert len(bars) == 4
    right, left = bars[0], bars[3]
    zero = float(right["x"].rstrip("%"))
    ends = float(left["x"].rstrip("%")) + float(left["width"].rstrip("%"))
    assert float(left["x"].rstrip("%")) < zero == pytest.approx(ends, abs=0.011)


MORE: list[tuple[Statistic, Publish, dict[str, list[int]], str]] = [
    (
        Mean(
            by="category", groups=("Tea", "Coffee"), value="rating",
            bounds=(Decimal(1), Decimal(5)), prior_mean=Decimal("4.25"),
        ),
        Publish(within_bounds=False, nonnegative=False),
        {"count": [9000 * ONE, 0], "sum": [8990 * ONE, 0]},
        "38.5 % for the counts, the rest for the sums the best for means near 4.25 (prior_mean),",
    ),
    (
        Mean(
            by="category", groups=("Tea", "Coffee"), value="rating",
            bounds=(Decimal(1), Decimal(5)), count_share=Decimal("0.25"),
        ),
        Publish(within_bounds=False, nonnegative=False),
        {"count": [9000 * ONE, 0], "sum": [8990 * ONE, 0]},
        "25 % for the counts, the rest for the sums as stated (count_share)",
    ),
    (
        Mean(
            by="category", groups=("Tea", "Coffee"), value="rating",
            bounds=(Decimal(1), Decimal(5)),
        ),
        Publish(within_bounds=False),
        {"count": [9000 * ONE, 0], "sum": [8990 * ONE, 0]},
        "means that the noise took out of the bounds are shown so;",
    ),
    (
        Sum(by="category", groups=("Tea",), value="balance", bounds=(Decimal(-8), Decimal(2))),
        Publish(),
        {"sum": [-4000 * ONE]},
        "Estimated sum of balance for Tea: about -32,200 (-32,5",
    ),
    (
        Count(
            by=("a", "b", "c"), groups=(("x", "y", "z"),),
            where=(
                Condition(column="member", operator="=", value=True),
                Condition(column="age", operator=">=", value=18),
                Condition(column="area", operator="not in", value=tuple(map(str, range(14)))),
            ),
        ),
        Publish(),
        {"count": [4000 * ONE]},
        ("Estimated count by a, b and c, week 2026-W02, of rows in which member is true and age "
        "is at least 18 and area is none of 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11 and 2 more."),
    ),
]  # fmt: skip


@pytest.mark.parametrize(("statistic", "publish", "totals", "said"), MORE)
def test_a_page_says_what_was_asked_for(
    statistic: Statistic, publish: Publish, totals: dict[str, list[int]], said: str
) -> None:
    book = Book("sales", epsilon="3")
    book.publish(weekly("asked", "Asked", statistic, publish=publish), totals, week(0))
    files = render([book.account()], templates=None)
    found = words("jobs/asked/2026-01-05/index.html", files)
    assert said in found
    off = "within_bounds is off" in found
    assert off == (not publish.within_bounds)
    assert ("is first moved to within" in found) == (isinstance(statistic, Mean) and not off)
    # Of sums of both signs nothing is said that would change nothing.
    assert ("nonnegative is" in found) == (not isinstance(statistic, Sum))


def test_a_leaderboard_page_says_how_far_its_order_goes() -> None:
    said = words(f"{BOARD}/index.html")
    assert "Estimated first: Baking no. 1, with a count of about" in said
    assert "every customer counting 2 times in it at most" in said
    assert "keeps 5, chosen by a keyed hash" in said
    assert "The ranges of ranks hold for all rows at once in 95 % of releases" in said


@pytest.mark.parametrize(
    ("groups", "reliable", "said"),
    [
        (2, 2, "highest: Barbecue, about 4.27 (4.21 to 4.34). Estimated lowest: Baking, about"),
        (3, 1, "Estimated for Baking: about 3.90 (3.85 to 3.95). Only 1 of 3 groups is reliable"),
        (3, 0, "None of the 3 groups is reliable in this week"),
        (1, 1, "Estimated for Baking: about 3.90 (3.85 to 3.95)."),
        (1, 0, "Its one group is not reliable in this week"),
    ],
)
def test_a_mean_speaks_of_reliable_groups_only(groups: int, reliable: int, said: str) -> None:
    files = render([few(groups, reliable)], templates=None)
    for name in ("index.html", "jobs/category-ratings/index.html", f"{FEW}/index.html"):
        assert said in words(name, files)
        assert ("Estimated highest" in words(name, files)) == (reliable > 1)
    page = words(f"{FEW}/index.html", files)
    assert ("[u] not reliable:" in page) == (reliable < groups)
    assert ("reliable in this week" in page) == (reliable < groups)


def test_an_unreliable_row_of_a_chart_is_words_and_no_line() -> None:
    chart = read(render([few(1, 0)], templates=None)[f"{FEW}/index.html"]).all("svg")[0]
    assert "not reliable" in [each.text() for each in chart.all("text")]
    assert {each.attrs["class"] for each in chart.all("line")} == {"grid"}
    assert not chart.all("circle")


def test_a_panel_says_where_it_is_not_reliable() -> None:
    said = words("jobs/category-ratings/index.html")
    assert said.count("not reliable in 6 of 10") == 2  # on the panel, and in its description
    book = Book()
    for number in (1, 2):
        book.release(mean_release(means(), number), week(number))
    page = read(render([book.account()], templates=None)["jobs/category-ratings/index.html"])
    panels = [each for each in page.all("svg") if not each.within("svg")]
    said_in = ["not reliable" in [text.text() for text in each.all("text")] for each in panels]
    assert said_in == [place == 10 for place in range(12)]


@pytest.mark.parametrize(
    ("last", "said"),
    [
        (10, "(its true rank: 1 to 10)"),
        (11, "(cannot be told apart from many others: rank 1 to 11)"),
    ],
)
def test_a_first_place_among_many_is_no_first_place(last: int, said: str) -> None:
    release = leaderboard_release(leaderboard(), 0)
    first, *rest = release.table.rows
    rows = (first.model_copy(update={"rank_upper": last}), *rest)
    table = release.table.model_copy(update={"rows": rows})
    book = Book()
    book.release(release.model_copy(update={"table": table}), week(0))
    files = render([book.account()], templates=None)
    assert said in words("jobs/top-products/2026-01-05/index.html", files)
    assert "[u]" not in words("jobs/top-products/2026-01-05/index.html", files)


def test_names_may_be_broken_after_a_slash() -> None:
    book = Book()
    book.release(mean_release(means(("Pots/Pans",)), 0), week(0))
    assert (
        b"<bdi>Pots/<wbr>Pans</bdi>"
        in render([book.account()], templates=None)[f"{FEW}/index.html"]
    )


def few(groups: int, reliable: int) -> Account:
    """One week of means, of which the first are reliable."""
    release = mean_release(means(CATEGORIES[:groups]), 0)
    nothing = {"value": None, "lower": 1.0, "upper": 5.0, "status": "not-reliable"}
    rows = tuple(
        row if place < reliable else row.model_copy(update=nothing)
        for place, row in enumerate(release.table.rows)
    )
    table = release.table.model_copy(update={"rows": rows})
    book = Book()
    book.release(release.model_copy(update={"table": table}), week(0))
    return book.account()


def test_a_mean_with_more_rows_a_unit_says_what_it_estimates() -> None:
    job = means()
    job = job.model_copy(
        update={"contribution": job.contribution.model_copy(update={"max_rows_per_group": 4})}
    )
    book = Book()
    book.release(mean_release(job, 0), week(0))
    said = words(
        "jobs/category-ratings/2026-01-05/index.html", render([book.account()], templates=None)
    )
    assert "weighs as many rows as it has in the group, up to 4" in said
    assert "One vote" not in said


@pytest.mark.parametrize("folder", [MEAN, BOARD])
def test_what_was_stored_before_there_were_settings_has_the_same_page(folder: str) -> None:
    account = shop()
    stored = {seq: each.model_dump(mode="json") for seq, each in account.releases.items()}
    for document in stored.values():
        job = document["job"]
        del job["publish"], job["level"], job["statistic"]["where"]
        del job["contribution"]["max_norm"]
        for key in ("of", "bounds", "value", "count_share", "prior_mean"):
            if job["statistic"].get(key) in (None, "count"):
                job["statistic"].pop(key, None)
    old = {seq: Release.model_validate_json(json.dumps(each)) for seq, each in stored.items()}
    page = f"{folder}/index.html"
    assert render([replace(account, releases=old)], templates=None)[page] == SHOP[page]
