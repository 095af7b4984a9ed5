"""From a composed cost to the ε at a δ: every formula that a report shows, rounded up.

ρ is the zCDP cost (Bun & Steinke 2016); a curve gives the Rényi cost ε(α) over a grid of orders.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from fractions import Fraction
from typing import TYPE_CHECKING, NamedTuple

from release.accounting.curves import ORDERS, linear_curve
from release.accounting.exact import (
    BITS,
    LARGE,
    RHO_UNITS,
    AccountingError,
    Exact,
    approximate,
    ball,
    checked_delta,
    exact,
    floor,
    precision,
    upper,
)
from release.accounting.gaussian import gdp_epsilon

if TYPE_CHECKING:
    from flint import arb


def conversion(order: Fraction, delta: Fraction) -> arb:
    """What ε exceeds ε(α) by: ln((α−1)/α) − (ln δ + ln α)/(α−1).

    Source: Canonne, Kamath & Steinke 2020, Prop. 12.
    """
    alpha = ball(order)
    return (1 - 1 / alpha).log() - (ball(delta) * alpha).log() / (alpha - 1)


def _bisect(rises: Callable[[float], float], low: float, high: float) -> float:
    # Only a guess: whatever order comes back, the bound at that order holds.
    for _ in range(70):
        middle = (low + high) / 2
        if rises(middle) > 0:
            high = middle
        else:
            low = middle
    return (low + high) / 2


def zcdp_epsilon(rho: Exact, delta: Exact) -> float:
    """ρ + 2·sqrt(ρ·ln(1/δ)), rounded up.

    Source: Bun & Steinke 2016, Prop. 1.3.
    """
    spent, target = exact(rho, "rho"), checked_delta(delta)
    if spent <= 0:
        return 0.0
    with precision(BITS):
        cost = ball(spent)
        return upper(cost + 2 * (-cost * ball(target).log()).sqrt())


def textbook_cap(epsilon: Exact, delta: Exact) -> int:
    """The largest ρ, in whole units rounded down, whose ``zcdp`` ε is within the budget.

    ρ = (sqrt(ln(1/δ) + ε) − sqrt(ln(1/δ)))². For comparison: no account is opened with it.
    """
    budget, target = exact(epsilon, "epsilon"), checked_delta(delta)
    if budget <= 0:
        return 0
    with precision(BITS):
        log = -ball(target).log()
        root = ball(budget) / ((log + ball(budget)).sqrt() + log.sqrt())
        return floor(root * root)


def _log_inverse(value: Fraction) -> float:
    return math.log(value.denominator) - math.log(value.numerator)


def rdp_epsilon(rho: Exact, delta: Exact) -> float:
    """The least over α > 1 of αρ + ln((α−1)/α) − (ln δ + ln α)/(α−1), rounded up, never below 0.

    Source: Canonne, Kamath & Steinke 2020, Prop. 12, with ε(α) = αρ.
    """
    spent, target = exact(rho, "rho"), checked_delta(delta)
    if spent <= 0:
        return 0.0
    if spent > LARGE:
        return zcdp_epsilon(spent, target)
    with precision(BITS):
        order = best_order(spent, target)
        return max(0.0, upper(ball(order) * ball(spent) + conversion(order, target)))


def best_order(rho: Fraction, delta: Fraction) -> Fraction:
    """The α that minimises the ``rdp`` bound for a cost of αρ, to double precision.

    The derivative is ρ − ln(1/(δα))/(α−1)², so with t = ln α the optimum is the one root of
    ln ρ + 2·ln(α−1) = ln(ln(1/δ) − t).
    """
    top, log_rho = _log_inverse(delta), -_log_inverse(rho)

    def slope(log_excess: float) -> float:
        gap = top - _softplus(log_excess)
        return math.inf if gap <= 0 else log_rho + 2 * log_excess - math.log(gap)

    low, high = (math.log(top) - log_rho) / 2 - 60, min(top, (math.log(top) - log_rho) / 2)
    return 1 + Fraction(math.exp(_bisect(slope, min(low, high - 60), high)))


def _softplus(value: float) -> float:
    return value + math.log1p(math.exp(-value)) if value > 0 else math.log1p(math.exp(value))


def zcdp_cap(epsilon: Exact, delta: Exact) -> int:
    """The largest ρ, in whole units rounded down, whose ``rdp`` ε is within the budget.

    It is max over α > 1 of (ε − conversion(α, δ))/α; 0 at ε = 0.
    """
    budget, target = exact(epsilon, "epsilon"), checked_delta(delta)
    if budget <= 0:
        return 0
    top, goal = _log_inverse(target), approximate(budget.numerator, budget.denominator)

    def slope(log_excess: float) -> float:
        excess = math.exp(log_excess)
        log_order = math.log1p(excess)
        gap = top - log_order
        needed = gap * (1 + excess) / excess**2
        left = goal - (log_excess - log_order) - gap / excess
        return left - needed

    with precision(BITS):
        order = 1 + Fraction(math.exp(_bisect(slope, -60.0, top)))
        return max(0, floor((ball(budget) - conversion(order, target)) / ball(order)))


_EXCESSES = [float(order) - 1 for order in ORDERS]


class Best(NamedTuple):
    """The least ε over a grid of orders, and where it was found."""

    epsilon: float
    order: Fraction
    edge: bool
    """Whether the best order is the grid's first or last, so that a wider grid may do better."""


def grid_epsilon(
    curve: Sequence[int],
    delta: Exact,
    orders: Sequence[Fraction | int] = ORDERS,
    *,
    classic: bool = False,
) -> Best:
    """The ``rdp`` ε of a curve in whole units, rounded up; ``classic`` for ``rdp-classic``.

    Sources: Canonne, Kamath & Steinke 2020, Prop. 12; for the classic formula
    ε(α) + ln(1/δ)/(α−1) Mironov 2017, Prop. 3. Orders must rise and lie above 1.
    """
    target = checked_delta(delta)
    if len(curve) != len(orders) or not orders or orders[0] <= 1:
        raise AccountingError("a curve needs one cost for each of its orders, all above 1")
    if not any(curve):
        return Best(0.0, Fraction(orders[0]), edge=False)
    top = _log_inverse(target)

    def guess(cost: int, excess: float) -> float:
        if classic:
            return approximate(cost) + top / excess
        added = (top - math.log1p(excess)) / excess - math.log1p(1 / excess)
        return approximate(cost) + added

    excesses = _EXCESSES if orders is ORDERS else [float(order) - 1 for order in orders]
    guesses = [guess(cost, excess) for cost, excess in zip(curve, excesses, strict=True)]
    best = guesses.index(min(guesses))
    order = Fraction(orders[best])
    with precision(BITS):
        excess = _classic(order, target) if classic else conversion(order, target)
        epsilon = max(0.0, upper(ball(Fraction(curve[best], RHO_UNITS)) + excess))
    return Best(epsilon, order, edge=best in (0, len(orders) - 1))


def _classic(order: Fraction, delta: Fraction) -> arb:
    return -ball(delta).log() / ball(order - 1)


def epsilons(
    rho_units: int | None, delta: Exact, curve: Sequence[int] | None = None
) -> dict[str, float | None]:
    """ε at δ by every formula, each an upper bound; None where a formula does not apply.

    Without a curve everything spent was Gaussian, and ρ says all. With one (the whole spend's,
    over ``ORDERS``) something else was spent too: ``gdp`` does not apply, and ``zcdp`` only if
    there is a ρ.
    """
    if curve is None:
        if rho_units is None:
            raise AccountingError("a spend needs a ρ or a curve")
        curve, gaussian = linear_curve(Fraction(rho_units, RHO_UNITS), ORDERS), True
    else:
        gaussian = False
    rho = None if rho_units is None else Fraction(rho_units, RHO_UNITS)
    bounds = [] if rho is None else [rdp_epsilon(rho, delta)]
    bounds += [] if gaussian else [grid_epsilon(curve, delta).epsilon]
    return {
        "gdp": gdp_epsilon(rho, delta) if gaussian and rho is not None else None,
        "rdp": min(bounds),
        "rdp-classic": grid_epsilon(curve, delta, classic=True).epsilon,
        "zcdp": None if rho is None else zcdp_epsilon(rho, delta),
    }


def edge_warning(best: Best) -> str | None:
    """What a report says where the best order lies at the grid's edge."""
    if not best.edge:
        return None
    return (
        f"the best order, {float(best.order):g}, lies at the edge of the grid:"
        " a wider grid may prove a smaller ε"
    )
