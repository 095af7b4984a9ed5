"""The filter is one comparison of whole numbers, exact at its edge."""

from __future__ import annotations

from decimal import Decimal
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from release.accounting import ACCOUNTANTS, RHO_UNITS, AccountingError, admits
from release.pipeline import LEAST_CHARGE, plan
from release.specs import Noise
from tests.ledger.examples import CAP, NOW, check_intact, job, opened, release, rows, terms, week

UNITS = st.integers(0, 2**63)
CHARGES = st.integers(1, 2**63)


@pytest.mark.parametrize("cap", [1, CAP, 2**53, 2**62])
def test_the_edge_of_the_account_and_of_the_job(tmp_path: Path, cap: int) -> None:
    found = opened(tmp_path, cap=cap)
    with found.looking("shop") as view:
        for charge, fits in ((cap - 1, True), (cap, True), (cap + 1, False)):
            if charge > 0:
                assert view.affords("board", charge, job_cap=2**63) is fits
                assert view.affords("board", charge, job_cap=cap) is fits
        assert not view.affords("board", cap, job_cap=cap - 1)
    found.close()


def test_the_edge_after_a_charge(tmp_path: Path) -> None:
    found, planned = opened(tmp_path), plan(job(), terms())
    release(found, week(0), planned)
    left = CAP - planned.charge
    with found.looking("shop") as view:
        assert view.affords("board", left, job_cap=CAP)
        assert not view.affords("board", left + 1, job_cap=CAP + 1)
        assert not view.affords("board", left, job_cap=CAP - 1)
        assert view.affords("other", left, job_cap=left)
        assert not view.affords("other", left, job_cap=left - 1)
    found.close()


WRONG: list[Any] = [0, -1, 1.0, 0.5, float("nan"), float("inf"), "1", True, Decimal(1), None]


@pytest.mark.parametrize("charge", WRONG)
def test_a_charge_is_a_whole_number_above_nought(tmp_path: Path, charge: Any) -> None:
    found = opened(tmp_path)
    with found.looking("shop") as view, pytest.raises(AccountingError):
        view.affords("board", charge, job_cap=CAP)
    found.close()
    assert len(rows(tmp_path, "SELECT * FROM entries")) == 2


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
        assert admits(spent, planned.charge, planned.job_cap)
        spent += planned.charge
    assert not admits(spent, planned.charge, planned.job_cap)


@given(releases=st.integers(1, 200), cap=st.integers(10**6, 10**14))
def test_the_noise_of_a_plan_costs_no_more_than_it_charges(releases: int, cap: int) -> None:
    for name in ("board", "mean"):
        planned = plan(job(name, releases=releases), terms(cap=cap))
        event = planned.mechanism.event
        assert 0 < ACCOUNTANTS["gdp"].charge(event) <= planned.charge
        assert ACCOUNTANTS["zcdp"].charge(event) <= planned.charge
        assert type(planned.charge) is int
        assert type(planned.job_cap) is int


@pytest.mark.parametrize("releases", [1, 2, 7, 52])
def test_the_ledger_releases_n_windows_and_refuses_the_next(tmp_path: Path, releases: int) -> None:
    found, planned = opened(tmp_path), plan(job(releases=releases), terms())
    statuses = [release(found, week(n), planned).status for n in range(releases + 2)]
    assert statuses == ["published"] * releases + ["refused"] * 2
    again = [release(found, week(n), planned).status for n in range(releases + 2)]
    assert again == ["already"] * (releases + 2)
    found.close()
    check_intact(tmp_path)


def test_a_budget_of_nothing_refuses_everything(tmp_path: Path) -> None:
    found, planned = opened(tmp_path, cap=0), plan(job(), terms(cap=0))
    assert [release(found, week(n), planned).status for n in range(2)] == ["refused"] * 2
    refusal = rows(tmp_path, "SELECT * FROM entries WHERE kind = 'refusal'")[0]
    assert refusal["charge"] == refusal["spent"] == 0
    found.close()


def test_a_job_of_fixed_rho_is_charged_it_rounded_down(tmp_path: Path) -> None:
    fixed = job().model_copy(update={"noise": Noise(rho=Decimal("0.0000001234567"))})
    assert plan(fixed, terms()).charge == Decimal("0.0000001234567") * RHO_UNITS // 1


def test_a_refused_window_is_not_read(tmp_path: Path) -> None:
    found, planned = opened(tmp_path, cap=1), plan(job(), terms(cap=1))

    def draw(sigma: object, count: int) -> Any:
        pytest.fail("noise was drawn")

    assert release(found, week(0), planned, sampler=draw).status == "refused"
    at = rows(tmp_path, "SELECT charged_at FROM entries ORDER BY seq DESC LIMIT 1")
    assert at == [{"charged_at": NOW.isoformat().replace("+00:00", "Z")}]
    found.close()
