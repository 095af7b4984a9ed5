"""Basic and advanced composition: shown beside the accountants for comparison only.

Both take each use as an (εᵢ, δᵢ)-DP step and forget everything else about it.
"""

from __future__ import annotations

import math
from fractions import Fraction

from release.accounting.conversions import epsilons
from release.accounting.curves import ORDERS
from release.accounting.events import Event
from release.accounting.exact import (
    AccountingError,
    Exact,
    ball,
    ceiling_units,
    checked_delta,
    precision,
    upper,
)

Steps = list[tuple[float, int]]
"""How often a step of each ε was used."""


def basic_epsilon(event: Event, delta: Exact) -> float:
    """Σεᵢ, with what δ is left beside δ₀ shared equally by the uses that need one.

    Source: Dwork & Roth 2014, Thm 3.16.
    """
    left = checked_delta(delta) - event.delta0()
    total = sum((Fraction(eps) * n for eps, n in _steps(event, left)), Fraction(0))
    return math.nextafter(float(total), math.inf)


def advanced_epsilon(event: Event, delta: Exact) -> float:
    """sqrt(2·ln(1/δ′)·Σεᵢ²) + Σεᵢ(e^{εᵢ} − 1), δ′ half of what δ is left beside δ₀.

    Source: Dwork & Roth 2014, Thm 3.20, written for steps that need not be equal.
    """
    left = (checked_delta(delta) - event.delta0()) / 2
    steps = _steps(event, left)
    with precision(128):
        squares, drift = ball(0), ball(0)
        for epsilon, count in steps:
            cost = ball(epsilon)
            squares += count * cost * cost
            drift += count * cost * cost.expm1()
        return upper((-2 * squares * ball(left).log()).sqrt() + drift)


def _steps(event: Event, delta: Exact) -> Steps:
    uses = list(event.uses())
    impure = sum(count for single, count in uses if single.pure() is None)
    left = checked_delta(delta)
    return [(_step(single, left / impure if impure else left), count) for single, count in uses]


def _step(single: Event, delta: Exact) -> float:
    pure = single.pure()
    if pure is not None:
        with precision(128):
            return upper(ball(pure))
    rho = single.rho()
    units = None if rho is None else ceiling_units(rho)
    found = epsilons(units, delta, None if single.gaussian else single.rdp(ORDERS))
    best = found["gdp"] if found["gdp"] is not None else found["rdp"]
    if best is None:
        raise AccountingError(f"an event of type {single.type} has no ε")
    return best
