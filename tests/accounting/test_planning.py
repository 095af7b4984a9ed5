from __future__ import annotations

import math
from decimal import Decimal
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from release.accounting import (
    ACCOUNTANTS,
    AccountingError,
    Budget,
    Gaussian,
    Spend,
    admissible_releases,
    epsilons,
    epsilons_after,
    fits_exactly,
    per_release_charge,
    share_cap,
)
from release.accounting.comparison import advanced_epsilon, basic_epsilon
from release.accounting.convert import mu_from_rho, rho_from_mu, rho_from_point
from release.accounting.mechanisms import PureDP

DELTA = Decimal("1e-6")


@pytest.mark.parametrize("name", sorted(ACCOUNTANTS))
def test_exactly_n_releases_fit_for_every_n(name: str) -> None:
    cap, share = Budget.open(name, 1, DELTA).cap, Fraction(1, 3)
    for releases in range(1, 1001):
        charge, part = per_release_charge(cap, share, releases), share_cap(cap, share)
        assert releases * charge <= part < (releases + 1) * charge
        assert fits_exactly(cap, share, releases)


@given(st.integers(0, 10**7), st.integers(1, 1000))
def test_a_share_of_n_squared_units_is_enough(cap: int, releases: int) -> None:
    if cap >= releases**2:
        assert fits_exactly(cap, Fraction(1), releases)
    fit = admissible_releases(cap, per_release_charge(cap, 1, releases))
    assert fits_exactly(cap, Fraction(1), releases) == (fit == releases)


def test_a_share_too_small_for_n_is_told_apart() -> None:
    assert not fits_exactly(7, Fraction(1), 4)
    assert not fits_exactly(3, Fraction(1), 4)
    assert per_release_charge(0, Fraction(1), 4) == 1
    assert admissible_releases(0, 1) == 0


@pytest.mark.parametrize("share", [0, -1, Fraction(11, 10)])
def test_a_share_outside_its_range_is_an_error(share: Fraction) -> None:
    with pytest.raises(AccountingError):
        share_cap(10, share)


@pytest.mark.parametrize("charge", [0, -5])
def test_releases_at_no_charge_are_an_error(charge: int) -> None:
    with pytest.raises(AccountingError):
        admissible_releases(10, charge)


def test_epsilon_after_each_release() -> None:
    rows = list(epsilons_after(10**9, DELTA, 5, spent=10**9))
    assert rows[0] == epsilons(2 * 10**9, DELTA)
    assert rows[-1] == epsilons(6 * 10**9, DELTA)
    assert len(rows) == 5


def test_conversions_of_gaussian_noise() -> None:
    assert rho_from_mu(Fraction(1, 2)) == Fraction(1, 8)
    assert mu_from_rho(Fraction(1, 8)) == 0.5
    assert rho_from_point(4, 50) == Fraction(25, 2)


def test_basic_and_advanced_composition() -> None:
    assert basic_epsilon(PureDP(0.125, 20), DELTA) == pytest.approx(2.5, rel=1e-12)
    steps = math.sqrt(2 * 1000 * math.log(2e6)) * 0.01 + 1000 * 0.01 * math.expm1(0.01)
    assert advanced_epsilon(PureDP(0.01, 1000), DELTA) == pytest.approx(steps, rel=1e-12)
    weekly = Gaussian(1, 30, 52)
    exact = epsilons(Spend().plus(weekly).rho, DELTA)["gdp"]
    assert exact is not None
    assert exact < advanced_epsilon(weekly, DELTA)
    assert exact < basic_epsilon(weekly, DELTA)
