"""The exact privacy curve of Gaussian noise, and its two inverses.

A mechanism that is μ-GDP satisfies (ε, δ(ε))-DP for every ε ≥ 0 with

    δ(ε) = Φ(μ/2 − ε/μ) − e^ε·Φ(−μ/2 − ε/μ)

and no smaller δ holds for Gaussian noise itself (Balle & Wang 2018, Thm 8; Dong, Roth & Su
2022, Cor. 1). Any adaptive composition of Gaussian releases is μ-GDP with μ² = Σμᵢ² = 2Σρᵢ.
"""

from __future__ import annotations

import math
from fractions import Fraction
from typing import TYPE_CHECKING

from release.accounting.exact import (
    LARGE,
    RHO_UNITS,
    Exact,
    ball,
    checked_delta,
    exact,
    largest,
    precision,
    upper,
)

if TYPE_CHECKING:
    from flint import arb


def _bits(delta: Fraction, size: Fraction) -> int:
    # The two terms of δ(ε) cancel to about δ, exponents as large as ε eat the leading bits,
    # and a unit of 1e-12 must still be seen in what is left.
    small = delta.denominator.bit_length() - delta.numerator.bit_length()
    large = size.numerator.bit_length() - size.denominator.bit_length()
    return 128 + 2 * small + 2 * max(0, large)


def _terms(epsilon: arb, mu: arb) -> tuple[arb, arb]:
    root_half = ball(Fraction(1, 2)).sqrt()
    near, far = (epsilon / mu - mu / 2) * root_half, (epsilon / mu + mu / 2) * root_half
    return near.erfc() / 2, _scaled_erfc(epsilon, near, far) / 2


def _scaled_erfc(epsilon: arb, near: arb, far: arb) -> arb:
    # e^ε·erfc(far). Where far is large Arb's error bound for erfc is far too wide; there
    # erfc(y) = e^{−y²}·U(½, ½, y²)/√π, and far² − near² = ε.
    if far < 1000:
        return epsilon.exp() * far.erfc()
    half, square = ball(Fraction(1, 2)), far * far
    return (-near * near).exp() * square.hypgeom_u(half, half) / half.pi().sqrt()


def _delta(epsilon: arb, mu: arb) -> arb:
    first, second = _terms(epsilon, mu)
    return first - second


def gdp_delta(rho: Exact, epsilon: Exact) -> float:
    """An upper bound on the least δ of Gaussian releases that cost ρ in all, at this ε ≥ 0."""
    spent, at = exact(rho, "rho"), exact(epsilon, "epsilon")
    if spent <= 0:
        return 0.0
    with precision(_bits(Fraction(1, 2**512), max(spent, at))):
        return min(1.0, upper(_delta(ball(at), ball(2 * spent).sqrt())))


def gdp_epsilon(rho: Exact, delta: Exact) -> float:
    """The least ε (rounded up) at which Gaussian releases that cost ρ in all are (ε, δ)-DP.

    0 where nothing was spent, and where what was spent is already (0, δ)-DP.
    Source: Balle & Wang 2018, Thm 8, solved for ε.
    """
    spent, target = exact(rho, "rho"), checked_delta(delta)
    if spent <= 0:
        return 0.0
    with precision(_bits(target, spent)):
        mu, goal = ball(2 * spent).sqrt(), ball(target)
        if _delta(ball(0), mu) <= goal:
            return 0.0
        if spent > LARGE:
            return upper(_textbook(mu, goal))
        return _certified(_newton(_start(mu, goal), mu, goal), mu, goal)


def _textbook(mu: arb, goal: arb) -> arb:
    return mu * mu / 2 + mu * (-2 * goal.log()).sqrt()


def _start(mu: arb, goal: arb) -> arb:
    # The textbook bound ρ + 2·sqrt(ρ·ln(1/δ)) lies above the root; a few steps in floats
    # bring it close where floats can hold the terms.
    bound = _textbook(mu, goal).mid()
    m, d, epsilon = float(mu), float(goal), float(bound)
    for _ in range(20):
        if not 0 < epsilon < 700:
            return bound
        first = math.erfc((epsilon / m - m / 2) * math.sqrt(0.5)) / 2
        second = math.exp(epsilon) * math.erfc((epsilon / m + m / 2) * math.sqrt(0.5)) / 2
        if not first > second > 0 or d == 0:
            return bound
        step = math.log((first - second) / d) * (first - second) / second
        epsilon += step
        if abs(step) < 1e-7 * epsilon:
            return ball(epsilon)
    return bound


def _newton(epsilon: arb, mu: arb, goal: arb) -> arb:
    # ln δ(ε) is concave, so a step from anywhere lands above the root or stays above it.
    for _ in range(64):
        first, second = _terms(epsilon, mu)
        value = (first - second).mid()
        step = ((value / goal).log() * value / second).mid()
        epsilon = (epsilon + step).mid()
        # Steps shrink quadratically: the next one would be below the last float's bit.
        if abs(step) < abs(epsilon) * 1e-9:
            break
    return epsilon


def _certified(guess: arb, mu: arb, goal: arb) -> float:
    candidate, nudge = upper(guess), 1e-16
    while not (candidate == math.inf or _delta(ball(candidate), mu) <= goal):
        candidate = math.nextafter(candidate * (1 + nudge), math.inf)
        nudge *= 2
    return candidate


def gdp_cap(epsilon: Exact, delta: Exact) -> int:
    """The largest ρ, in whole units, whose Gaussian releases are (ε, δ)-DP; 0 at ε = 0."""
    budget, target = exact(epsilon, "epsilon"), checked_delta(delta)
    if budget <= 0:
        return 0
    with precision(_bits(target, budget)):
        at, goal = ball(budget), ball(target)

        def fits(units: int) -> bool:
            mu = ball(Fraction(2 * units, RHO_UNITS)).sqrt()
            return units == 0 or bool(_delta(at, mu) <= goal)

        return largest(fits)
