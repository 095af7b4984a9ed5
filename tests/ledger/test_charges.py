"""The filter is one comparison of whole numbers, exact at its edge."""

from __future__ import annotations

import json
from decimal import Decimal
from fractions import Fraction
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from release.accounting import ACCOUNTANTS, AccountingError, Charge, admits
from release.pipeline import LEAST_CHARGE, plan
from release.specs import Noise
from tests.ledger.examples import (
    CAP,
    NOW,
    check_intact,
    funded,
    job,
    opened,
    release,
    terms,
    week,
)
from tests.ledger.places import Place

UNITS = st.integers(0, 2**63)
CHARGES = st.integers(1, 2**63)


@pytest.mark.parametrize("cap", [1, CAP, 2**53, 2**62])
def test_the_edge_of_the_account_and_of_the_job(place: Place, cap: int) -> None:
    found = opened(place, cap=cap)
    with found.looking("shop") as view:
        for charge, fits in ((cap - 1, True), (cap, True), (cap + 1, False)):
            if charge > 0:
                stop = None if fits else "account"
                for job_cap in (2**63, cap, charge):
                    assert view.stopped_by("board", Charge(charge), job_cap=job_cap) == stop
                stop = stop or "share"
                for job_cap in (charge - 1, 0):
                    assert view.stopped_by("board", Charge(charge), job_cap=job_cap) == stop
    found.close()


def test_the_edge_after_a_charge(place: Place) -> None:
    found, planned = opened(place), plan(job(), terms())
    release(found, week(0), planned)
    left = CAP - planned.charge.units
    with found.looking("shop") as view:
        for name, units, job_cap, stop in (
            ("board", left, CAP, None),
            ("board", left, CAP - 1, "share"),
            ("board", left + 1, CAP + 1, "account"),
            ("board", left + 1, CAP, "account"),
            ("other", left, left, None),
            ("other", left, left - 1, "share"),
            ("other", left + 1, left + 1, "account"),
        ):
            assert view.stopped_by(name, Charge(units), job_cap=job_cap) == stop
    found.close()


WRONG: list[Any] = [0, -1, 1.0, 0.5, float("nan"), float("inf"), "1", True, Decimal(1), None]


@pytest.mark.parametrize("charge", WRONG)
def test_a_charge_is_a_whole_number_above_nought(place: Place, charge: Any) -> None:
    found = opened(place)
    with found.looking("shop") as view, pytest.raises(AccountingError):
        view.stopped_by("board", Charge(charge), job_cap=CAP)
    found.close()
    assert len(place.entries()) == 2


@given(spent=UNITS, charge=CHARGES, cap=UNITS)
def test_the_filter_is_exact_and_a_refusal_is_final(spent: int, charge: int, cap: int) -> None:
    fits = admits(spent, charge, cap)
    assert fits == (Fraction(spent) + charge <= cap)
    # What was refused stays refused as more is spent, and at any higher charge.
    if not fits:
        assert not admits(spent + 1, charge, cap)
        assert not admits(spent, charge + 1, cap)
    else:
        assert charge == 1 or admits(spent, charge - 1, cap)


@given(charges=st.lists(st.integers(1, 400), max_size=12), cap=st.integers(0, 1000))
def test_whatever_is_admitted_stays_within_the_cap(charges: list[int], cap: int) -> None:
    spent = 0
    for charge in charges:
        if admits(spent, charge, cap):
            spent += charge
        assert spent <= cap


@given(
    releases=st.integers(1, 200),
    cap=st.integers(200**2 * 10, 10**14),
    share=st.sampled_from(["1", "0.5", "0.1", "0.333333333333"]),
)
def test_n_releases_fit_and_the_next_does_not(releases: int, cap: int, share: str) -> None:
    planned = plan(job(releases=releases, share=share), terms(cap=cap))
    assert planned.job_cap == int(Fraction(Decimal(share)) * cap)
    if planned.job_cap < max(releases, LEAST_CHARGE) ** 2:
        return
    spent = 0
    for _ in range(releases):
        assert admits(spent, planned.charge.units, planned.job_cap)
        spent += planned.charge.units
    assert not admits(spent, planned.charge.units, planned.job_cap)


@given(releases=st.integers(1, 200), cap=st.integers(10**6, 10**14))
def test_the_noise_of_a_plan_costs_no_more_than_it_charges(releases: int, cap: int) -> None:
    for name in ("board", "mean"):
        planned = plan(job(name, releases=releases), terms(cap=cap))
        event = planned.mechanism.event
        assert 0 < ACCOUNTANTS["gdp"].charge(event) <= planned.charge.units
        assert ACCOUNTANTS["zcdp"].charge(event) <= planned.charge.units
        assert planned.charge.delta0 == 0
        assert type(planned.charge.units) is int
        assert type(planned.job_cap) is int


@pytest.mark.parametrize("releases", [1, 2, 7, 52])
def test_the_ledger_releases_n_windows_and_refuses_the_next(place: Place, releases: int) -> None:
    found, planned = opened(place), plan(job(releases=releases), terms())
    statuses = [release(found, week(n), planned).status for n in range(releases + 2)]
    assert statuses == ["published"] * releases + ["refused"] * 2
    again = [release(found, week(n), planned).status for n in range(releases + 2)]
    assert again == ["already"] * (releases + 2)
    found.close()
    check_intact(place)


@pytest.mark.parametrize("accountant", ACCOUNTANTS)
@pytest.mark.parametrize(("releases", "share"), [(1, "1"), (3, "0.5"), (10, "0.333")])
def test_every_accountant_releases_n_and_refuses_the_next_by_the_share(
    place: Place, accountant: str, releases: int, share: str
) -> None:
    opening = funded(accountant)
    found = opened(place, opening=opening)
    planned = {name: plan(job(name, releases, share), opening) for name in ("board", "mean")}
    for name in ("board", "mean") if share != "1" else ("board",):
        settled = [release(found, week(n), planned[name]) for n in range(releases + 1)]
        assert [each.status for each in settled] == ["published"] * releases + ["refused"]
        refusal = settled[-1].entry
        assert refusal is not None
        charge = planned[name].charge.units
        stop = "account" if refusal.spent.units + charge > opening.cap else "share"
        assert (refusal.body["stopped_by"], refusal.body["refused_charge"]) == (stop, charge)
        assert refusal.job_spent == releases * charge <= planned[name].job_cap
        event = planned[name].mechanism.event
        assert opening.budget.charge(event).units <= charge
        # No noise is wasted: one step of σ less would cost more than the charge.
        assert opening.budget.charge(event).units > 0.9999 * charge
    (account,) = found.accounts()
    assert opening.budget.spent_epsilon(account.last.spent.units) <= opening.epsilon
    found.close()
    check_intact(place)


@pytest.mark.parametrize("accountant", ["gdp", "zcdp", "rdp"])
def test_a_refusal_says_which_budget_was_spent(place: Place, accountant: str) -> None:
    """Two jobs promise more than there is: the first stops at its share, the next at the cap."""
    opening = funded(accountant)
    found = opened(place, opening=opening)
    said = []
    for name in ("board", "mean"):
        planned = plan(job(name, 4, "0.75"), opening)
        for number in range(5):
            entry = release(found, week(number), planned).entry
            assert entry is not None
            said.append(entry.body.get("stopped_by", entry.kind))
    assert said == [*["release"] * 4, "share", "release", *["account"] * 4]
    found.close()
    check_intact(place)


def test_a_job_of_fixed_rho_costs_that_rho_on_every_account() -> None:
    rho = Decimal("0.0012")
    fixed = job().model_copy(update={"noise": Noise(rho=rho)})
    for accountant in ACCOUNTANTS:
        opening = funded(accountant)
        order = Fraction(opening.order or 1)
        planned = plan(fixed, opening)
        assert planned.charge.units == Fraction(rho) * order * 10**12 // 1
        spent = planned.mechanism.event.rho()
        assert spent is not None
        assert 0.999999 * Fraction(rho) < spent <= Fraction(rho)


def test_a_budget_of_nothing_refuses_everything(place: Place) -> None:
    found, planned = opened(place, cap=0), plan(job(), terms(cap=0))
    assert [release(found, week(n), planned).status for n in range(2)] == ["refused"] * 2
    refusal = place.entries()[2]
    assert refusal["kind"] == "refusal"
    assert refusal["charge"] == refusal["spent"] == 0
    said = {"title": "The board", "refused_charge": LEAST_CHARGE, "stopped_by": "account"}
    assert json.loads(refusal["body"]) == said
    found.close()


def test_a_job_of_fixed_rho_is_charged_it_rounded_down() -> None:
    fixed = job().model_copy(update={"noise": Noise(rho=Decimal("0.0000001234567"))})
    assert plan(fixed, terms()).charge == Charge(123456)


def test_a_refused_window_is_not_read(place: Place) -> None:
    found, planned = opened(place, cap=1), plan(job(), terms(cap=1))

    def draw(sigma: object, count: int) -> Any:
        pytest.fail("noise was drawn")

    assert release(found, week(0), planned, sampler=draw).status == "refused"
    assert place.entries()[-1]["charged_at"] == NOW.isoformat().replace("+00:00", "Z")
    found.close()
