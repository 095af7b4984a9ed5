"""A PostgreSQL server that is away or crashes: what was committed is there, and nothing else."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from fractions import Fraction
from typing import Any

import pytest
from numpy.typing import NDArray

from release.bounding import Totals
from release.errors import StorageError
from release.ledger.store import Ledger
from release.pipeline import plan, settle
from release.windows import Window
from tests.ledger.examples import (
    NOW,
    USES,
    check_intact,
    exact,
    job,
    opened,
    release,
    still,
    terms,
    week,
)
from tests.ledger.places import Place, PostgreSQL
from tests.postgresql import Server

pytestmark = pytest.mark.parametrize("place", ["postgresql"], indirect=True)


@pytest.fixture
def shop(place: Place) -> Iterator[Ledger]:
    with closing(opened(place)) as found:
        release(found, week(0))
        yield found


def test_what_was_committed_outlives_a_crash_of_the_server(
    shop: Ledger, place: Place, postgresql: Server
) -> None:
    before = place.entries()
    postgresql.restart()
    assert place.entries() == before
    check_intact(place)
    # Connections that died meanwhile are none that anybody notices.
    assert release(shop, week(0)).status == "already"
    postgresql.restart()
    assert release(shop, week(1)).status == "published"
    check_intact(place)


@pytest.mark.parametrize("use", USES)
def test_a_server_that_is_away_is_an_error_of_our_own(
    shop: Ledger, place: Place, postgresql: Server, use: str
) -> None:
    before = place.entries()
    postgresql.stop()
    try:
        with closing(place.ledger()) as anew:
            for found in (shop, anew):
                with pytest.raises(StorageError, match="cannot be reached") as caught:
                    USES[use](found)
                assert caught.value.__cause__ is None
    finally:
        postgresql.start()
    assert place.entries() == before
    USES[use](shop)


def test_a_server_that_crashes_under_the_lock_has_charged_nothing(
    shop: Ledger, place: Place, postgresql: Server
) -> None:
    before = place.entries()

    def crash(sigma: int | float | Fraction, count: int) -> NDArray[Any]:
        postgresql.restart()
        return still(sigma, count)

    with pytest.raises(StorageError, match="connection to it was lost"):
        release(shop, week(1), sampler=crash)
    assert place.entries() == before
    assert release(shop, week(1)).status == "published"
    check_intact(place)


def test_a_server_that_crashes_before_the_lock_is_not_noticed(
    shop: Ledger, place: Place, postgresql: Server
) -> None:
    def read(window: Window, key: str) -> Totals:
        postgresql.restart()
        return exact(window, key)

    planned = plan(job(), terms())
    assert settle(shop, planned, week(1), read, sampler=still, now=NOW).status == "published"
    check_intact(place)


def test_two_ledgers_of_one_database_know_nothing_of_each_other(
    shop: Ledger, place: PostgreSQL
) -> None:
    other = PostgreSQL(place.folder, place.server)
    before = place.entries()
    with closing(opened(other, cap=7)) as found:
        assert [account.terms.cap for account in found.accounts()] == [7]
        with shop.writing("shop"), found.writing("shop"):
            pass
    assert place.entries() == before
