"""What a release's page says beside earlier ones, and when it may say nothing."""

from __future__ import annotations

import csv
import io
import json
from decimal import Decimal
from typing import Any

import pytest

from release.ledger.records import Account
from release.site import render
from release.site.addresses import published
from release.site.past import Past, pasts
from release.specs import ONE, Contribution, Count, Job, Publish
from tests.site.examples import Book, found, sales, week, weekly

SHOPS = ("High Street", "Market", "Station")


def counts(groups: tuple[str, ...] = SHOPS, publish: Publish | None = None, **asked: Any) -> Job:
    spec = Count(by="shop", groups=groups, of="units", **asked)
    return weekly("customers", "Customers by shop", spec, publish=publish or Publish())


def book(*weeks: tuple[int, Job]) -> Account:
    """One release in each of the weeks, of 100 units more in each group and week."""
    written = Book("sales", epsilon="3")
    for number, job in weeks:
        size = len(job.statistic.listed)
        totals = [ONE * 100 * (number + place + 1) for place in range(size)]
        written.publish(job, {"count": totals}, week(number))
    return written.account()


def found_pasts(account: Account) -> list[Past]:
    in_order = sorted(published([account]), key=lambda each: each.window.start)
    return list(pasts(in_order).values())


def texts(account: Account, number: int, job: str = "customers") -> tuple[str, Any, list[Any]]:
    """The page, the JSON document and the rows of the table of one week."""
    files = render([account], templates=None)
    folder = f"jobs/{job}/{week(number).name}"
    rows = csv.DictReader(io.StringIO(files[f"{folder}/data.csv"].decode(), newline=""))
    document = json.loads(files[f"{folder}/release.json"])
    return files[f"{folder}/index.html"].decode(), document, list(rows)


def test_weeks_in_a_row_are_one_line() -> None:
    past = found_pasts(book(*((number, counts()) for number in range(4))))
    assert [(one.windows, one.possible) for one in past] == [(1, 1), (2, 2), (3, 3), (4, 4)]
    assert {one.first for one in past} == {week(0)}
    assert [one.before and one.before.window for one in past] == [None, week(0), week(1), week(2)]
    assert all(one.broken is None for one in past)


def test_the_order_in_which_weeks_were_charged_is_of_no_matter() -> None:
    plain = book(*((number, counts()) for number in (0, 1, 2)))
    late = book(*((number, counts()) for number in (2, 0, 1)))
    for one, other in zip(found_pasts(plain), found_pasts(late), strict=True):
        assert (one.change, one.running) == (other.change, other.running)


def test_a_week_that_was_not_released_leaves_a_gap() -> None:
    account = book((0, counts()), (1, counts()), (4, counts()), (5, counts()))
    past = found_pasts(account)
    assert [(one.windows, one.possible) for one in past] == [(1, 1), (2, 2), (3, 5), (4, 6)]
    assert [one.before is None for one in past] == [True, False, True, False]
    page, document, rows = texts(account, 4)
    assert "sum over 3 of the 5 weeks since 2026-W02, this one among them" in page
    assert "The other weeks were not released" in page
    assert document["beside"] == {
        "before": None,
        "first": "2026-01-05",
        "windows": 3,
        "possible": 5,
    }
    assert {row["change_status"] for row in rows} == {"not-available"}
    assert {row["change"] for row in rows} == {""}


@pytest.mark.parametrize(
    "other",
    [
        counts(where=({"column": "age", "operator": ">=", "value": 18},)),
        counts().model_copy(update={"statistic": Count(by="shop", groups=SHOPS)}),
        counts().model_copy(
            update={"contribution": Contribution(max_groups=3, max_rows_per_group=1)}
        ),
    ],
    ids=["where", "of", "contribution"],
)
def test_what_asks_for_something_else_begins_a_new_line(other: Job) -> None:
    account = book((0, counts()), (1, counts()), (2, other), (3, other))
    past = found_pasts(account)
    assert [one.windows for one in past] == [1, 2, 1, 2]
    assert past[2].broken is not None
    assert (past[2].broken.window, past[2].before, past[3].first) == (week(1), None, week(2))
    page, _, _ = texts(account, 2)
    assert "what was released for week 2026-W03, the last before, was asked for in" in page
    assert "Change</th>" not in page


def test_an_origin_a_share_or_a_list_may_change() -> None:
    """What is counted in one group does not depend on which others are listed."""
    longer = counts((*SHOPS, "Web")).model_copy(update={"level": Decimal("0.8")})
    account = book((0, counts()), (1, longer))
    past = found_pasts(account)[1]
    assert (past.windows, past.broken) == (2, None)
    page, document, rows = texts(account, 1)
    assert [row["change_status"] for row in rows] == [*["published"] * 3, "not-available"]
    assert [row["running"] != "" for row in rows] == [True, True, True, False]
    assert document["rows"][3]["running"]["status"] == "not-available"
    assert page.count('<abbr class="mark" title="not available">[x]</abbr>') == 6
    assert "[x]</strong> not available" in page


def test_rows_are_matched_by_their_names() -> None:
    turned = counts(tuple(reversed(SHOPS)))
    account = book((0, counts()), (1, turned))
    before, now = account.releases.values()
    earlier = dict(zip(before.groups, before.noisy["count"], strict=True))
    later = dict(zip(now.groups, now.noisy["count"], strict=True))
    _, document, _ = texts(account, 1)
    assert [row["group"] for row in document["rows"]] == list(reversed(SHOPS))
    for row in document["rows"]:
        change = (later[row["group"]] - earlier[row["group"]]) / ONE
        assert row["change"]["value"] == pytest.approx(change, abs=5)
        assert row["change"]["lower"] < change < row["change"]["upper"]


@pytest.mark.parametrize("change", [True, False])
@pytest.mark.parametrize("running", [True, False])
def test_each_is_a_setting(*, change: bool, running: bool) -> None:
    job = counts(publish=Publish(change=change, running=running))
    page, document, rows = texts(book((0, job), (1, job)), 1)
    assert ('<th scope="col" class="n">Change</th>' in page) == change
    assert ("Sum so far</th>" in page) == running
    assert ("change" in document["rows"][0], "running" in document["rows"][0]) == (change, running)
    assert ("change" in rows[0], "running_status" in rows[0]) == (change, running)
    assert f"<code>change</code> is {'on' if change else 'off'}" in page
    assert f"<code>running</code> is {'on' if running else 'off'}" in page


def test_a_first_release_says_nothing_beside_others() -> None:
    page, document, rows = texts(book((0, counts())), 0)
    assert "Beside earlier" not in page
    assert document["beside"]["windows"] == 1
    assert {row["running_status"] for row in rows} == {"published"}


def test_a_sum_of_units_is_not_said_to_be_of_different_ones() -> None:
    page, _, _ = texts(book((0, counts()), (1, counts())), 1)
    assert "[x]</strong> not available" not in page
    assert "so the sum is not the number of different" in page


def test_a_discovered_group_that_was_missing_has_no_past() -> None:
    _, document, _ = texts(found(), 1, "most-visited")
    assert document["beside"]["windows"] == 2
    status = {row["group"]: row["change"]["status"] for row in document["rows"]}
    assert set(status.values()) <= {"published", "not-available"}
    assert status["/page/0"] == "published"
    assert status["/page/8"] == "not-available"


def test_means_so_far_weigh_each_week_by_its_count() -> None:
    page, document, _ = texts(sales(), 1, "best-rated")
    assert "Mean so far</th>" in page
    assert "each week weighs as much as is counted in it" in page
    for row in document["rows"]:
        assert 1 <= row["running"]["lower"] < row["running"]["upper"] <= 5
