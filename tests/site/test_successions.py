"""Accounts that replace others: which contains which, and what was promised before."""

from __future__ import annotations

import re
from decimal import Decimal

import pytest

from release.ledger.records import Account
from release.site import render
from tests.site.examples import CATEGORIES, Book, mean_release, means, overdrawn, week
from tests.site.reading import read

JOB = means(CATEGORIES[:3], "Average stay").model_copy(
    update={"name": "stays", "dataset": "visits"}
)


def heir(name: str, of: Account, epsilon: str = "3", accountant: str = "gdp") -> Account:
    """An account that opened with all that the other had spent, and released one week more."""
    book = Book(name, epsilon, accountant, replaces=of.terms.account)
    assert of.composition is not None
    book.record(of.composition, f"spent by the account {of.terms.account!r}")
    book.release(mean_release(JOB, 2), week(2))
    return book.account()


def calm() -> Account:
    book = Book("visits", "1")
    book.release(mean_release(JOB, 0), week(0))
    return book.account()


BROKEN = overdrawn("gdp")
KEPT = calm()
SECOND = heir("visits-2", BROKEN)
THIRD = heir("visits-3", SECOND, epsilon="9")
FILES = render([BROKEN, SECOND], templates=None)
CONTAINS = "This account replaces visits, and opened with what that one had spent"
CONTAINED = "This account was replaced by visits-2, which carries on with what was spent here"


def words(name: str, files: dict[str, bytes] = FILES) -> str:
    return read(files[f"{name}/index.html".lstrip("/")]).all("main")[0].text()


def banners(name: str, files: dict[str, bytes] = FILES) -> list[str]:
    page = read(files[f"{name}/index.html".lstrip("/")])
    return [each.text() for each in page.all("div") if each.attrs.get("class") == "banner"]


def broken(name: str, files: dict[str, bytes] = FILES) -> list[str]:
    return [each for each in banners(name, files) if each.startswith("An earlier promise was")]


def test_the_account_that_carries_on_says_that_the_promise_before_it_was_broken() -> None:
    (said,) = broken("accounts/visits-2")
    assert said.startswith(
        "An earlier promise was broken. This account contains all that visits had spent."
        " There each customer was promised ε = 1 at δ = 1e-6; spent was ε = "
    )
    spent = BROKEN.terms.budget.spent_epsilon(BROKEN.last.spent.units)
    shown = Decimal(re.findall(r"spent was ε = ([0-9.]+) at δ = 1e-6", said)[0])
    assert 1 < spent <= shown < spent + 1.01e-4
    assert "as a correction on 2026-04-01 (entry 5) showed." in said
    assert "Promised here is ε = 3 at δ = 1e-6 for everything together" in said
    (banner, *_) = read(FILES["accounts/visits-2/index.html"]).all("div")
    assert [each.attrs["href"] for each in banner.all("a")] == [
        "../../accounts/visits/index.html",
        "../../accounts/visits/index.html#entry-5",
    ]
    assert banners("accounts/visits-2")[0] == said


def test_every_account_after_it_says_so() -> None:
    files = render([THIRD, BROKEN, SECOND], templates=None)
    (said,) = broken("accounts/visits-3", files)
    assert "all that visits had spent" in said
    assert "Promised here is ε = 9" in said
    assert len(broken("accounts/visits-2", files)) == 1
    assert not broken("accounts/visits", files)


def test_a_promise_that_was_kept_is_not_called_broken() -> None:
    files = render([KEPT, heir("visits-2", KEPT)], templates=None)
    assert CONTAINS in words("accounts/visits-2", files)
    assert not any(b"promise was broken" in page for page in files.values())


@pytest.mark.parametrize("name", ["", "accounts/visits", "jobs/stays", "jobs/stays/2026-01-05"])
def test_the_banner_of_a_replaced_account_says_who_carries_on(name: str) -> None:
    (said,) = (each for each in banners(name) if each.startswith("More was spent"))
    assert "visits-2 has replaced this account, with another budget. It contains all" in said
    assert "nothing more will be charged to this budget" in said
    assert "everything has stopped" not in said
    alone = render([BROKEN], templates=None)
    (said,) = (each for each in banners(name, alone) if each.startswith("More was spent"))
    assert "everything has stopped" in said
    assert "has replaced" not in said


@pytest.mark.parametrize("name", ["", "jobs/stays"])
def test_where_both_budgets_stand_it_is_said_which_contains_which(name: str) -> None:
    said = words(name)
    assert said.count(f"{CONTAINS} as its first charge: its ε contains the other’s") == 1
    assert said.count(f"{CONTAINED}: the ε there contains this one") == 1
    assert said.count("the two are not to be added") == 2


def test_each_account_says_which_contains_which() -> None:
    assert CONTAINS in words("accounts/visits-2")
    assert CONTAINED not in words("accounts/visits-2")
    assert CONTAINED in words("accounts/visits")
    assert CONTAINS not in words("accounts/visits")
    assert "not to be added" not in words("", render([BROKEN, KEPT][:1], templates=None))


def test_accounts_that_name_each_other_end() -> None:
    """No ledger lets that be written, but a page of a record must be made all the same."""
    one = heir("visits-2", BROKEN)
    loop = Book("visits", "1", replaces="visits-2")
    loop.release(mean_release(JOB, 0), week(0))
    assert render([one, loop.account()], templates=None)
