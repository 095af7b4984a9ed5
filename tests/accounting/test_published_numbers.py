"""Every number that the documents state, to the digits they state."""

from __future__ import annotations

from decimal import Decimal
from fractions import Fraction

import pytest

from release.accounting import (
    Gaussian,
    Spend,
    edge_warning,
    epsilons,
    gdp_epsilon,
    grid_epsilon,
    rdp_epsilon,
    reach,
    rho_caps,
    zcdp_epsilon,
)
from release.accounting.convert import point_epsilons

DELTA = Decimal("1e-6")
COARSE = [Fraction(order) for order in (2, 4, 8, 16, 32)]
WHOLE = [Fraction(order) for order in range(2, 65)]


@pytest.mark.parametrize(
    ("rho", "zcdp", "rdp", "gdp"),
    [
        ("0.01", 0.7534, 0.6217, 0.5751),
        ("0.1", 2.4508, 2.1419, 1.9945),
        ("1", 8.4338, 7.7662, 7.2861),
        ("0.052", 1.7472, 1.5030, 1.3970),
    ],
)
def test_the_table_of_conversions(rho: str, zcdp: float, rdp: float, gdp: float) -> None:
    spent = Decimal(rho)
    assert zcdp_epsilon(spent, DELTA) == pytest.approx(zcdp, abs=5e-5)
    assert rdp_epsilon(spent, DELTA) == pytest.approx(rdp, abs=5e-5)
    assert gdp_epsilon(spent, DELTA) == pytest.approx(gdp, abs=5e-5)


def test_releases_that_fit_by_each_formula() -> None:
    fits = [reach(10**9, epsilon, DELTA) for epsilon in (1, 2, 3)]
    assert [row["zcdp"] for row in fits] == [17, 67, 147]
    assert [row["rdp"] for row in fits] == [24, 88, 185]
    assert [row["gdp"] for row in fits] == [28, 100, 209]
    assert [round(100 * (row["gdp"] / row["zcdp"] - 1)) for row in fits] == [65, 49, 42]


@pytest.mark.parametrize(
    ("rounds", "classic", "zcdp"),
    [
        (1, 2.9210, 2.7533),
        (5, 6.9736, 6.5020),
        (10, 9.6052, 9.5613),
        (20, 14.6052, 14.2539),
    ],
)
def test_federated_rounds(rounds: int, classic: float, zcdp: float) -> None:
    event = Gaussian(1, 2, rounds)
    found = grid_epsilon(event.rdp(COARSE), DELTA, COARSE, classic=True)
    assert found.epsilon == pytest.approx(classic, abs=1e-4)
    rho = event.rho()
    assert rho is not None
    assert zcdp_epsilon(rho, DELTA) == pytest.approx(zcdp, abs=1e-4)


def test_a_hundred_steps_at_order_four() -> None:
    assert Gaussian(1, 2, 100).rdp([Fraction(4)]) == (50 * 10**12,)


def test_a_thousand_steps_and_the_warning_at_the_edge() -> None:
    event = Gaussian(1, 1.1, 1000)
    classic = grid_epsilon(event.rdp(WHOLE), Decimal("1e-5"), WHOLE, classic=True)
    assert classic.epsilon == pytest.approx(837.9592, abs=1e-4)
    assert classic.order == 2
    assert "edge of the grid" in str(edge_warning(classic))
    found = epsilons(Spend().plus(event).rho, Decimal("1e-5"))
    assert found["zcdp"] == pytest.approx(551.171, abs=5e-4)
    assert found["rdp"] == pytest.approx(548.299, abs=5e-4)
    assert found["gdp"] == pytest.approx(534.898, abs=5e-4)


def test_no_warning_inside_the_grid() -> None:
    found = grid_epsilon(Gaussian(1, 2, 10).rdp(COARSE), DELTA, COARSE, classic=True)
    assert found.order == 4
    assert edge_warning(found) is None


def test_the_often_quoted_value_is_below_the_truth() -> None:
    found = rdp_epsilon(Decimal("0.025"), DELTA)
    assert found == pytest.approx(1.01407425472613, abs=1e-14)
    assert found > 1.0140742546
    assert zcdp_epsilon(Decimal("0.025"), DELTA) == pytest.approx(1.2003940003, abs=1e-10)


def test_ten_releases_at_little_noise() -> None:
    found = epsilons(Spend().plus(Gaussian(1, 0.8, 10)).rho, DELTA)
    assert found["gdp"] == pytest.approx(25.95, abs=5e-3)
    assert found["rdp"] == pytest.approx(27.38, abs=5e-3)
    assert found["zcdp"] == pytest.approx(28.59, abs=5e-3)


def test_one_point_of_a_curve_is_worth_what_its_formula_says() -> None:
    found = point_epsilons(2, 0.5, Decimal("1e-5"))
    assert found["rdp-classic"] == pytest.approx(12.0, abs=0.05)
    assert found["rdp"] == pytest.approx(10.6266, abs=1e-4)


def test_the_cap_of_a_budget_by_each_formula() -> None:
    assert rho_caps(1, DELTA) == {"gdp": 28014481912, "rdp": 24355970359, "zcdp": 17468904769}
    for units, within in ((17468904769, True), (17468904770, False)):
        assert (zcdp_epsilon(Fraction(units, 10**12), DELTA) <= 1) == within
