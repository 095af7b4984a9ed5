from __future__ import annotations

import math
from decimal import Decimal
from fractions import Fraction
from typing import Any

import pytest

from release.accounting import (
    ACCOUNTANTS,
    AccountingError,
    Budget,
    Charge,
    Composed,
    DiscreteGaussian,
    Gaussian,
    GaussianThreshold,
    PoissonGaussian,
    PureDP,
    Spend,
    admits,
    epsilons,
    gdp_epsilon,
    grid_epsilon,
    rdp_epsilon,
    zcdp_epsilon,
)

DELTA = Decimal("1e-6")
EVERY_FORMULA = [gdp_epsilon, rdp_epsilon, zcdp_epsilon]


@pytest.mark.parametrize("charge", [0, -1, True, 1.0, math.nan, math.inf, None])
def test_a_charge_that_is_not_above_zero_is_an_error(charge: Any) -> None:
    with pytest.raises(AccountingError):
        admits(0, charge, 10)


def test_the_filter_is_one_comparison() -> None:
    assert admits(7, 3, 10)
    assert not admits(7, 4, 10)
    assert not admits(0, 1, 0)


@pytest.mark.parametrize("name", sorted(ACCOUNTANTS))
def test_a_budget_of_nothing_refuses_everything(name: str) -> None:
    budget = Budget.open(name, 0, DELTA)
    assert budget.cap == 0
    assert not budget.admits(Charge(0), Charge(1))


@pytest.mark.parametrize("name", sorted(ACCOUNTANTS))
@pytest.mark.parametrize("delta", [0, 1, -1, 2, math.nan, math.inf, True, "1e-6"])
def test_a_delta_that_means_nothing_is_an_error(name: str, delta: Any) -> None:
    with pytest.raises(AccountingError):
        ACCOUNTANTS[name].cap(1, delta)
    with pytest.raises(AccountingError):
        ACCOUNTANTS[name].epsilon(5, delta, Fraction(2))


@pytest.mark.parametrize("name", sorted(ACCOUNTANTS))
@pytest.mark.parametrize("epsilon", [-1, math.nan, math.inf, "1"])
def test_an_epsilon_that_means_nothing_is_an_error(name: str, epsilon: Any) -> None:
    with pytest.raises(AccountingError):
        Budget.open(name, epsilon, DELTA)


def test_who_admits_what() -> None:
    threshold, discrete = GaussianThreshold(1, 9, 1e-9), DiscreteGaussian(1, 9)
    sampled, pure = PoissonGaussian(0.01, 1.1), PureDP(0.1)
    taken = {
        name: [accountant.admits(e) for e in (threshold, discrete, pure, sampled)]
        for name, accountant in ACCOUNTANTS.items()
    }
    assert taken == {
        "gdp": [True, False, False, False],
        "zcdp": [True, True, True, False],
        "rdp": [True, True, True, True],
    }


def test_a_refusal_says_which_account_could() -> None:
    training = Composed((Gaussian(1, 9), PoissonGaussian(0.01, 1.1)))
    with pytest.raises(AccountingError) as refusal:
        Budget.open("gdp", 1, DELTA).charge(training)
    assert "gdp" in refusal.value.message
    assert refusal.value.hint == "Accounts that can: rdp."
    assert Budget.open("rdp", 1, DELTA).charge(training).units > 0


def test_thresholds_have_their_own_units() -> None:
    budget = Budget.open("gdp", 1, DELTA, threshold_share=Decimal("0.1"))
    assert budget.delta == Fraction(9, 10**7)
    assert budget.delta_cap == 10**11
    assert budget.cap < Budget.open("gdp", 1, DELTA).cap
    charge = budget.charge(GaussianThreshold(1, 1000, 2.5e-8))
    assert budget.admits(Charge(0, 7 * 10**10), charge)
    assert not budget.admits(Charge(0, 8 * 10**10), charge)
    assert not Budget.open("gdp", 1, DELTA).admits(Charge(0), charge)


@pytest.mark.parametrize("share", [-0.1, 1, 2, math.nan, True])
def test_a_threshold_share_outside_its_range_is_an_error(share: Any) -> None:
    with pytest.raises(AccountingError):
        Budget.open("gdp", 1, DELTA, threshold_share=share)


def test_an_unknown_accountant_is_an_error() -> None:
    with pytest.raises(AccountingError):
        Budget.open("moments", 1, DELTA)


def test_a_renyi_account_charges_at_its_order() -> None:
    budget = Budget.open("rdp", 1, DELTA)
    assert budget.order == 22
    assert budget.charge(Gaussian(1, 30)).units == -(-22 * 10**12 // 1800)
    with pytest.raises(AccountingError):
        ACCOUNTANTS["rdp"].charge(Gaussian(1, 30))


def test_a_renyi_account_needs_something_left_after_the_conversion() -> None:
    with pytest.raises(AccountingError):
        Budget.open("rdp", Decimal("1e-6"), DELTA)


def test_the_odometer_knows_what_applies() -> None:
    gaussian = Spend().plus(Gaussian(1, 30, 5))
    assert gaussian.epsilons(DELTA) == epsilons(gaussian.rho, DELTA)
    pure = gaussian.plus(PureDP(0.1)).epsilons(DELTA)
    assert pure["gdp"] is None
    assert pure["zcdp"] is not None
    sampled = gaussian.plus(PoissonGaussian(0.01, 1.1, 10)).epsilons(DELTA)
    assert sampled["gdp"] is None
    assert sampled["zcdp"] is None
    assert sampled["rdp"] is not None
    assert set(Spend().epsilons(DELTA).values()) == {0.0}


def test_a_spend_without_either_cost_is_an_error() -> None:
    with pytest.raises(AccountingError):
        epsilons(None, DELTA)
    with pytest.raises(AccountingError):
        grid_epsilon((1, 2), DELTA, (Fraction(2),))


@pytest.mark.parametrize("formula", EVERY_FORMULA)
def test_no_size_overflows(formula: Any) -> None:
    for delta in (1e-300, 1e-15, 0.1, 0.999):
        assert formula(0, delta) == 0
        assert 0 <= formula(1e-300, delta) < 1e-3
        assert formula(1e6, delta) == pytest.approx(1e6, rel=0.1)
        assert formula(1e300, delta) == pytest.approx(1e300)
        assert formula(10**600, delta) == math.inf
