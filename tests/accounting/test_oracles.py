"""Never less than the truth: other people's libraries, and 50 digits, as second oracles."""

from __future__ import annotations

from decimal import Decimal
from fractions import Fraction

import mpmath
import pytest

from release.accounting import (
    ORDERS,
    RHO_UNITS,
    Composed,
    Event,
    Gaussian,
    Laplace,
    PoissonGaussian,
    PureDP,
    Spend,
    ZeroConcentrated,
    gdp_cap,
    gdp_delta,
    gdp_epsilon,
    grid_epsilon,
    rdp_epsilon,
    zcdp_cap,
    zcdp_epsilon,
)
from release.accounting.interop import pld_epsilon, to_dp_accounting

RHOS = ["1/1000000000", "1/1000000", "1/1000", "1/20", "1", "30", "1000", "44000000000"]
DELTAS = [Decimal("1e-15"), Decimal("1e-9"), Decimal("1e-6"), Decimal("0.001"), Decimal("0.1")]
GRID = [(Fraction(rho), Fraction(delta)) for rho in RHOS for delta in DELTAS]


def number(value: Fraction) -> mpmath.mpf:
    return mpmath.mpf(value.numerator) / value.denominator


def true_delta(epsilon: mpmath.mpf, mu: mpmath.mpf) -> mpmath.mpf:
    first = mpmath.erfc((epsilon / mu - mu / 2) / mpmath.sqrt(2)) / 2
    return first - mpmath.exp(epsilon) * mpmath.erfc((epsilon / mu + mu / 2) / mpmath.sqrt(2)) / 2


@pytest.mark.parametrize(("rho", "delta"), GRID)
def test_gdp_is_the_root_of_the_curve_at_fifty_digits(rho: Fraction, delta: Fraction) -> None:
    found = gdp_epsilon(rho, delta)
    with mpmath.workdps(80):
        mu, goal = mpmath.sqrt(2 * number(rho)), number(delta)
        assert true_delta(mpmath.mpf(found), mu) <= goal
        below = mpmath.mpf(found) * (1 - mpmath.mpf(10) ** -14)
        assert found == 0 or true_delta(below, mu) > goal


@pytest.mark.parametrize(("rho", "delta"), GRID)
def test_rdp_and_zcdp_at_fifty_digits(rho: Fraction, delta: Fraction) -> None:
    with mpmath.workdps(80):
        cost, log = number(rho), -mpmath.log(number(delta))
        textbook = cost + 2 * mpmath.sqrt(cost * log)
        assert textbook <= zcdp_epsilon(rho, delta) <= textbook * (1 + mpmath.mpf(10) ** -14)
        # h′(α) = ρ − (ln(1/δ) − ln α)/(α−1)², whose root bisection finds without derivatives.
        low, high = mpmath.mpf(0), max(mpmath.sqrt(log / cost), mpmath.mpf(1))
        for _ in range(300):
            middle = (low + high) / 2
            rising = cost * middle**2 > log - mpmath.log1p(middle)
            low, high = (low, middle) if rising else (middle, high)
        alpha = 1 + high
        least = cost * alpha + mpmath.log1p(-1 / alpha) + (log - mpmath.log(alpha)) / (alpha - 1)
        least = max(least, mpmath.mpf(0))
        found = rdp_epsilon(rho, delta)
        assert least * (1 - mpmath.mpf(10) ** -40) <= found <= least * (1 + mpmath.mpf(10) ** -13)


@pytest.mark.parametrize("epsilon", [Fraction(1, 100), Fraction(1), Fraction(3, 2), Fraction(50)])
@pytest.mark.parametrize("delta", DELTAS)
def test_the_cap_is_the_largest_that_holds(epsilon: Fraction, delta: Decimal) -> None:
    cap = gdp_cap(epsilon, delta)
    with mpmath.workdps(80):
        for units, holds in ((cap, True), (cap + 1, False)):
            mu = mpmath.sqrt(mpmath.mpf(2 * units) / RHO_UNITS)
            assert (true_delta(number(epsilon), mu) <= number(Fraction(delta))) == holds
    other = zcdp_cap(epsilon, delta)
    assert rdp_epsilon(Fraction(other, RHO_UNITS), delta) <= float(epsilon) * (1 + 1e-15)
    assert rdp_epsilon(Fraction(other + 2, RHO_UNITS), delta) > float(epsilon) * (1 - 1e-15)


def test_delta_from_above() -> None:
    with mpmath.workdps(80):
        for rho, epsilon in ((Fraction(1, 20), Fraction(1)), (Fraction(10), Fraction(40))):
            truth = true_delta(number(epsilon), mpmath.sqrt(2 * number(rho)))
            found = gdp_delta(rho, epsilon)
            assert truth <= found <= truth * (1 + mpmath.mpf(10) ** -14)


# OpenDP's own bound overflows beyond.
@pytest.mark.parametrize(("rho", "delta"), [row for row in GRID if row[0] <= 1000])
def test_open_dp_agrees_on_zero_concentrated_noise(rho: Fraction, delta: Fraction) -> None:
    import opendp.prelude as dp

    dp.enable_features("contrib")
    scale = float(2 * rho) ** -0.5
    space = dp.atom_domain(T=float, nan=False), dp.absolute_distance(T=float)
    noise = dp.c.make_zCDP_to_approxDP(dp.m.make_gaussian(*space, scale=scale))
    theirs = noise.map(1.0).epsilon(float(delta))  # type: ignore[no-untyped-call]
    ours = rdp_epsilon(1 / (2 * Fraction(scale) ** 2), float(delta))
    assert ours >= theirs * (1 - 1e-9)
    assert ours <= theirs * (1 + 1e-6) or theirs == 0


MIXED: list[Event] = [
    Gaussian(1, 2, 10),
    Gaussian(3, 1.1, 1000),
    Laplace(1, 4, 25),
    Laplace(1, 0.2),
    ZeroConcentrated(0.01, 12),
    PoissonGaussian(0.01, 1.1, 1000),
    PoissonGaussian(0.3, 4.0, 50),
    Composed((Gaussian(1, 5, 20), Laplace(1, 10, 7), PoissonGaussian(0.01, 1.1, 300)), 2),
]


@pytest.mark.parametrize("event", MIXED, ids=lambda event: event.type)
@pytest.mark.parametrize("delta", [1e-9, 1e-6, 1e-3])
def test_googles_renyi_accountant_says_no_more(event: Event, delta: float) -> None:
    from dp_accounting.rdp import RdpAccountant

    # At whole orders both libraries sum the same exact formulas.
    orders = [Fraction(order) for order in (*range(2, 65), 128, 256, 512, 1024)]
    other = RdpAccountant([int(order) for order in orders])
    other.compose(to_dp_accounting(event).event)
    curve = event.rdp(orders)
    for ours, theirs in zip(curve, other.rdp, strict=True):
        assert ours / RHO_UNITS >= theirs * (1 - 1e-9)
        assert ours / RHO_UNITS <= theirs * (1 + 1e-6) + 2e-12 * 3000
    found, theirs = grid_epsilon(curve, delta, orders), other.get_epsilon(delta)
    assert found.epsilon >= theirs * (1 - 1e-9)
    assert found.epsilon <= theirs * (1 + 1e-6) + 1e-8


@pytest.mark.parametrize("event", MIXED, ids=lambda event: event.type)
def test_a_privacy_loss_distribution_says_no_more(event: Event) -> None:
    delta, found = Decimal("1e-6"), Spend().plus(event).epsilons(Decimal("1e-6"))
    pld = pld_epsilon(event, delta)
    if pld is None:
        assert isinstance(event, ZeroConcentrated)
        return
    assert found["rdp"] is not None
    assert found["rdp"] >= pld * (1 - 1e-3)
    if found["gdp"] is not None:
        # Theirs is rounded up to buckets, ours is the exact value.
        assert found["gdp"] == pytest.approx(pld, rel=1e-3)


def test_our_distribution_is_the_one_of_googles_accountant() -> None:
    from dp_accounting.pld import PLDAccountant

    event = Composed((Gaussian(1, 5, 20), Laplace(1, 10, 7), PoissonGaussian(0.01, 1.1, 30)))
    other = PLDAccountant().compose(to_dp_accounting(event).event)
    assert pld_epsilon(event, 1e-6) == pytest.approx(other.get_epsilon(1e-6), rel=1e-9)


@pytest.mark.parametrize(("rate", "noise"), [(0.01, 1.1), (0.3, 3.0), (0.001, 0.7), (0.5, 0.3)])
@pytest.mark.parametrize("order", [Fraction(65, 64), Fraction(3, 2), Fraction(2), Fraction(45, 4)])
def test_the_moments_of_sampled_noise_by_quadrature(
    rate: float, noise: float, order: Fraction
) -> None:
    found = Fraction(PoissonGaussian(rate, noise).rdp((order,))[0], RHO_UNITS)
    with mpmath.workdps(30):
        q, z, alpha = mpmath.mpf(rate), mpmath.mpf(noise), number(order)
        cuts = sorted({-30 * z, -5 * z, alpha, 5 * z, alpha + 5 * z, alpha + 30 * z})
        moment = mpmath.quad(
            lambda x: (
                mpmath.npdf(x, 0, z) * (1 - q + q * mpmath.exp((2 * x - 1) / (2 * z * z))) ** alpha
            ),
            cuts,
        )
        truth = mpmath.log(moment) / (alpha - 1)
        assert truth * (1 - mpmath.mpf(10) ** -15) <= number(found)
        assert number(found) <= truth * (1 + mpmath.mpf(10) ** -5) + mpmath.mpf(10) ** -12


@pytest.mark.parametrize("epsilon", [0.01, 0.5, 1.0, 5.0])
def test_pure_and_laplace_curves_at_fifty_digits(epsilon: float) -> None:
    pure, laplace = PureDP(epsilon).rdp(ORDERS), Laplace(epsilon, 1).rdp(ORDERS)
    with mpmath.workdps(60):
        cost, unit = mpmath.mpf(epsilon), mpmath.mpf(10) ** -12
        for order, ours, theirs in zip(ORDERS, pure, laplace, strict=True):
            a = number(order)
            up, down = mpmath.exp(a * cost), mpmath.exp((1 - a) * cost)
            response = mpmath.log((up + down) / (1 + mpmath.exp(cost))) / (a - 1)
            first = a / (2 * a - 1) * mpmath.exp((a - 1) * cost)
            second = (a - 1) / (2 * a - 1) * mpmath.exp(-a * cost)
            assert response <= ours * unit <= response + 2 * unit
            curve = mpmath.log(first + second) / (a - 1)
            assert curve <= theirs * unit <= curve + 2 * unit
