"""Between ρ, μ and (α, ε)-RDP: what follows from what, and when.

ρ, μ and a Rényi curve are the same thing for Gaussian noise only. In general ρ is the supremum
of ε(α)/α over α > 1, so one point of a curve bounds no ρ; and a point with α → 1 bounds the
expected privacy loss, not its largest value.
"""

from __future__ import annotations

from fractions import Fraction

from release.accounting.conversions import grid_epsilon
from release.accounting.exact import (
    RHO_UNITS,
    AccountingError,
    Exact,
    ball,
    ceiling_units,
    positive,
    precision,
    upper,
)


def rho_from_mu(mu: Exact) -> Fraction:
    """μ²/2, exactly: the ρ of a μ-GDP mechanism that is Gaussian noise."""
    return positive(mu, "mu") ** 2 / 2


def mu_from_rho(rho: Exact) -> float:
    """sqrt(2ρ), rounded up: the μ of Gaussian noise of that ρ."""
    with precision(128):
        return upper(ball(2 * positive(rho, "rho")).sqrt())


def rho_from_point(order: Exact, cost: Exact) -> Fraction:
    """ε(α)/α, exactly: the ρ of Gaussian noise with that point. Valid for Gaussian noise only."""
    return positive(cost, "cost") / _order(order)


def point_epsilons(order: Exact, cost: Exact, delta: Exact) -> dict[str, float]:
    """ε at δ of a single (α, ε)-RDP guarantee, whatever the mechanism."""
    curve, orders = (ceiling_units(positive(cost, "cost"), RHO_UNITS),), (_order(order),)
    return {
        "rdp": grid_epsilon(curve, delta, orders).epsilon,
        "rdp-classic": grid_epsilon(curve, delta, orders, classic=True).epsilon,
    }


def _order(value: Exact) -> Fraction:
    order = positive(value, "order")
    if order <= 1:
        raise AccountingError("order must be above 1")
    return order
