"""Work done elsewhere is charged by its description, under the same filter and no other."""

from __future__ import annotations

from contextlib import suppress
from decimal import Decimal

import pytest
from hypothesis import given, settings

from release.accounting import (
    ACCOUNTANTS,
    AccountingError,
    ApproximateDP,
    Budget,
    Charge,
    Composed,
    DiscreteGaussian,
    Event,
    Gaussian,
    GaussianThreshold,
    Laplace,
    PoissonGaussian,
    PureDP,
    Spend,
    ZeroConcentrated,
    event_from_json,
)
from release.errors import RefusedError
from release.ledger.charges import alone
from release.ledger.records import Entry
from release.ledger.store import Ledger
from release.pipeline import plan
from tests.accounting.examples import events
from tests.ledger.examples import (
    NOW,
    check_intact,
    funded,
    job,
    opened,
    release,
    week,
    worth,
)
from tests.ledger.places import Place

SHARE = "0.1"  # δ_T = 1e-7
SMALL: list[Event] = [
    Gaussian(1, 30),
    GaussianThreshold(1, 30, 1e-9),
    Composed((Gaussian(3, 80, 2), GaussianThreshold(1, 50, 1e-10, 3)), 2),
]
CONCENTRATED: list[Event] = [
    *SMALL,
    Laplace(1, 30),
    PureDP(0.01, 3),
    ApproximateDP(0.01, 1e-9),
    DiscreteGaussian(1, 30),
    ZeroConcentrated(0.0005),
]
EVERY: list[Event] = [*CONCENTRATED, PoissonGaussian(0.01, 2.0, 10)]
TAKEN = {"gdp": SMALL, "zcdp": CONCENTRATED, "rdp": EVERY}
NOT_TAKEN = {"gdp": [Laplace(1, 30), DiscreteGaussian(1, 30)], "zcdp": [], "rdp": []}
ALL_TAKEN = [(name, event) for name, taken in TAKEN.items() for event in taken]


def record(found: Ledger, event: Event) -> Entry:
    with found.writing("shop") as writer:
        return writer.record(event, "a model trained elsewhere", NOW)


def replayed(found: Ledger) -> Spend:
    sums = Spend()
    for entry in found.accounts()[0].entries:
        if entry.event is not None:
            sums = sums.plus(event_from_json(entry.event))
    return sums


@pytest.mark.parametrize(("accountant", "event"), ALL_TAKEN)
def test_an_event_is_charged_what_its_accountant_says(
    place: Place, accountant: str, event: Event
) -> None:
    opening = funded(accountant, threshold_share=SHARE)
    found = opened(place, opening=opening)
    entry = record(found, event)
    charge = opening.budget.charge(event)
    assert (entry.kind, entry.charge, entry.spent) == ("record", charge, charge)
    assert (entry.job, entry.window, entry.start, entry.job_spent) == (None, None, None, 0)
    assert entry.body == {"reason": "a model trained elsewhere"}
    assert entry.event is not None
    assert event_from_json(entry.event) == event
    again = record(found, event)
    assert again.spent == Charge(2 * charge.units, 2 * charge.delta0)
    assert again.sums == Spend().plus(event).plus(event)
    found.close()
    check_intact(place)
    # All of it is on disk.
    with_new_eyes = place.ledger()
    (account,) = with_new_eyes.accounts()
    assert account.entries[-2:] == (entry, again)
    assert account.last == again
    assert alone(account, again) == Spend().plus(event)
    assert alone(account, account.entries[0]) == Spend()
    assert account.last.sums == replayed(with_new_eyes)
    with_new_eyes.close()


@pytest.mark.parametrize(
    ("accountant", "event"),
    [
        *((name, event) for name, refused in NOT_TAKEN.items() for event in refused),
        ("gdp", PoissonGaussian(0.01, 2.0)),
        ("zcdp", PoissonGaussian(0.01, 2.0)),
        ("zcdp", Composed((Gaussian(1, 30), PoissonGaussian(0.01, 2.0)))),
        ("gdp", Composed((Gaussian(1, 30), Laplace(1, 30)))),
    ],
)
def test_an_event_that_the_accountant_cannot_take_is_not_written(
    place: Place, accountant: str, event: Event
) -> None:
    found = opened(place, opening=funded(accountant, threshold_share=SHARE))
    with pytest.raises(AccountingError):
        record(found, event)
    assert len(place.entries()) == 2
    found.close()


@pytest.mark.parametrize("accountant", ACCOUNTANTS)
def test_what_does_not_fit_is_refused_and_not_written(place: Place, accountant: str) -> None:
    opening = funded(accountant)
    found = opened(place, opening=opening)
    one = opening.budget.charge(Gaussian(1, 30)).units
    fit = opening.cap // one
    record(found, Gaussian(1, 30, fit - 1))
    before = place.entries()
    for event in (Gaussian(1, 30, 2), Gaussian(1, 30, fit + 1), Gaussian(1, 1e-9)):
        with pytest.raises(RefusedError) as caught:
            record(found, event)
        assert (caught.value.exit_code, caught.value.kind) == (3, "refused")
        assert "'shop'" in caught.value.message
        assert "Nothing was charged" in caught.value.hint
        assert place.entries() == before
    # A refused record is not final for anything: what fits is still taken.
    assert record(found, Gaussian(1, 30)).spent.units == fit * one
    found.close()
    check_intact(place)


def test_a_record_fills_the_cap_to_the_last_unit(place: Place) -> None:
    found = opened(place, cap=1000)
    record(found, worth(999))
    with pytest.raises(RefusedError):
        record(found, worth(2))
    assert record(found, worth(1)).spent == Charge(1000)
    with pytest.raises(RefusedError):
        record(found, worth(1))
    found.close()
    check_intact(place)


@pytest.mark.parametrize("accountant", ACCOUNTANTS)
def test_thresholds_are_counted_against_what_was_set_aside(place: Place, accountant: str) -> None:
    opening = funded(accountant, threshold_share=SHARE)
    assert opening.delta_cap == 10**11
    found = opened(place, opening=opening)

    def threshold(delta0: int, count: int = 1) -> GaussianThreshold:
        event = GaussianThreshold(1, 10**6, delta0 / 10**18, count)
        # Binary fractions of δ are charged by what they are, rounded up.
        assert opening.budget.charge(event).delta0 - count * delta0 in range(count + 1)
        return event

    entry = record(found, threshold(9 * 10**9, 10))
    left = opening.delta_cap - entry.spent.delta0
    assert left <= 10**10
    for event in (threshold(left + 1), threshold(left // 2 + 1, 2)):
        with pytest.raises(RefusedError):
            record(found, event)
    # Noise without a threshold needs no δ₀, and still fits.
    assert record(found, Gaussian(1, 10**6)).charge.delta0 == 0
    last = record(found, threshold(left - 1))
    assert opening.delta_cap - 1 <= last.spent.delta0 <= opening.delta_cap
    assert last.sums.delta0 == last.spent.delta0
    found.close()
    check_intact(place)


def test_an_account_without_a_share_for_thresholds_takes_none(place: Place) -> None:
    found = opened(place, opening=funded("gdp"))
    with pytest.raises(RefusedError):
        record(found, GaussianThreshold(1, 30, 1e-18))
    assert len(place.entries()) == 2
    found.close()


def test_a_record_counts_for_no_job_and_settles_no_window(place: Place) -> None:
    opening = funded("gdp")
    found, planned = opened(place, opening=opening), plan(job(share="0.5"), opening)
    record(found, worth(1000))
    assert release(found, week(0), planned).status == "published"
    entry = record(found, worth(1000))
    assert found.settled("shop", "board") == {week(0): "release"}
    second = release(found, week(1), planned)
    assert second.entry is not None
    assert second.status == "published"
    assert second.entry.job_spent == 2 * planned.charge.units
    assert second.entry.spent.units == 2 * planned.charge.units + 2000
    (account,) = found.accounts()
    assert not account.stopped
    assert account.releases.keys() == {4, 6}
    assert entry.seq == 5
    found.close()
    check_intact(place)


def test_a_record_can_spend_what_a_job_would_have_had(place: Place) -> None:
    opening = funded("gdp")
    found, planned = opened(place, opening=opening), plan(job(share="0.5"), opening)
    record(found, worth(opening.cap - planned.charge.units + 1))
    settled = release(found, week(0), planned)
    assert settled.entry is not None
    assert (settled.status, settled.entry.body["stopped_by"]) == ("refused", "account")
    found.close()
    check_intact(place)


def test_a_failure_after_a_record_leaves_nothing(place: Place) -> None:
    found = opened(place)
    with suppress(ZeroDivisionError), found.writing("shop") as writer:
        writer.record(worth(10), "", NOW)
        raise ZeroDivisionError
    assert len(place.entries()) == 2
    found.close()


@pytest.mark.parametrize("accountant", ACCOUNTANTS)
@pytest.mark.parametrize("share", ["0", "0.1", "0.333"])
@pytest.mark.parametrize("epsilon", ["0", "0.5", "1.5", "8"])
def test_terms_fix_the_budget_that_was_opened(accountant: str, epsilon: str, share: str) -> None:
    terms = funded(accountant, epsilon, share)
    expected = Budget.open(accountant, Decimal(epsilon), Decimal("1e-6"), Decimal(share))
    assert terms.budget == expected
    # Also by way of their text, which is what the ledger keeps.
    assert type(terms).model_validate_json(terms.model_dump_json()).budget == expected


@given(event=events)
@settings(max_examples=60, deadline=None)
def test_a_charge_beyond_an_event_is_in_the_odometer(event: Event) -> None:
    """Of ρ at least what was charged; never less than the event alone, and nothing else."""
    exact = Spend().plus(event)
    if exact.rho is None:
        assert Spend().plus(event, charged=10**30) == exact
        return
    for more in (0, 1, 10**9):
        found = Spend().plus(event, charged=exact.rho + more)
        assert (found.rho, found.gaussian) == (exact.rho + more, exact.gaussian + more)
        assert (found.delta0, found.curve) == (exact.delta0, exact.curve)
    assert Spend().plus(event, charged=exact.rho - 1) == exact
