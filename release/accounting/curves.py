"""Rényi curves: upper bounds on ε(α), in whole units of 1e-12, rounded up order by order.

A curve is a tuple of integers beside a tuple of orders, so sums of curves are exact and no
order of addition matters.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from fractions import Fraction
from functools import lru_cache
from typing import TYPE_CHECKING

from release.accounting.exact import BITS, RHO_UNITS, ball, ceiling, ceiling_units, precision

if TYPE_CHECKING:
    from flint import arb

Curve = tuple[int, ...]

LARGEST_MOMENT = 1024
"""Up to this order the moments of a subsampled Gaussian are summed term by term."""

TERMS = 128
NEGLIGIBLE = 2.0**-80
"""Between whole orders a series is cut here; what is left out is added to the bound."""


def _grid() -> Iterable[Fraction]:
    yield from (1 + Fraction(k, 64) for k in (1, 2, 3))
    yield from (1 + Fraction(k, 16) for k in range(1, 16))
    yield from (Fraction(k, 4) for k in range(8, 64))
    yield from (Fraction(k) for k in range(16, 65))
    yield from (Fraction(k) for k in (72, 80, 96, 112, 128, 160, 192, 224, 256, 320, 384, 448))
    yield from (Fraction(2**k) for k in range(9, 17))


ORDERS: tuple[Fraction, ...] = tuple(_grid())
"""The fixed grid of orders: 2 to 64 whole, and finer and wider around it."""


def linear_curve(rho: Fraction, orders: Sequence[Fraction]) -> Curve:
    """αρ: the curve of Gaussian noise, and a bound on the curve of whatever is ρ-zCDP."""
    numerator, denominator = rho.numerator * RHO_UNITS, rho.denominator
    return tuple(
        -(-numerator * order.numerator // (denominator * order.denominator)) for order in orders
    )


def pure_curve(epsilon: Fraction, orders: Sequence[Fraction]) -> Curve:
    """The curve of binary randomised response, which no ε-DP mechanism exceeds.

    ε(α) = ln[(e^{αε} + e^{(1−α)ε})/(1 + e^ε)]/(α−1) ≤ ε.
    Sources: Mironov 2017, Prop. 5, for the curve; Kairouz, Oh & Viswanath 2015 for why it
    dominates.
    """
    with precision(BITS):
        cost = ball(epsilon)

        def at(order: Fraction) -> int:
            alpha = ball(order)
            inside = ((1 - 2 * alpha) * cost).exp().log1p() - (-cost).exp().log1p()
            excess = cost + inside / (alpha - 1)
            return min(ceiling(excess), ceiling_units(epsilon))

        return tuple(at(order) for order in orders)


def laplace_curve(inverse_scale: Fraction, orders: Sequence[Fraction]) -> Curve:
    """Laplace noise at ε = 1/λ, λ the scale in units of the L1 sensitivity.

    ε(α) = ln[(α/(2α−1))·e^{(α−1)/λ} + ((α−1)/(2α−1))·e^{−α/λ}]/(α−1) ≤ 1/λ.
    Source: Mironov 2017, Prop. 6.
    """
    with precision(BITS):
        cost = ball(inverse_scale)

        def at(order: Fraction) -> int:
            alpha = ball(order)
            tail = (alpha - 1) / alpha * ((1 - 2 * alpha) * cost).exp()
            inside = (alpha / (2 * alpha - 1)).log() + tail.log1p()
            return min(ceiling(cost + inside / (alpha - 1)), ceiling_units(inverse_scale))

        return tuple(at(order) for order in orders)


def subsampled_curve(rate: Fraction, noise: Fraction, orders: Sequence[Fraction]) -> Curve:
    """One step of Gaussian noise on a Poisson sample, under add or remove one unit.

    ε(α) = ln A(α)/(α−1) with A(α) as in Mironov, Talwar & Zhang 2019, Sec. 3.3. Between whole
    orders the chord bounds it too, since (α−1)·ε(α) is convex in α (van Erven & Harremoës
    2014, Cor. 2). Sampling never adds to the cost, so α/(2z²) bounds every order as well, and
    alone those beyond ``LARGEST_MOMENT``.
    """
    whole = linear_curve(1 / (2 * noise * noise), orders)
    if rate == 1:
        return whole
    return tuple(
        min([unsampled, *_sampled_bounds(rate, noise, order)])
        for order, unsampled in zip(orders, whole, strict=True)
    )


@lru_cache(maxsize=4096)
def _sampled_bounds(rate: Fraction, noise: Fraction, order: Fraction) -> tuple[int, ...]:
    if order > LARGEST_MOMENT:
        return ()
    below = order.numerator // order.denominator
    with precision(BITS):
        if order == below:
            moments = [_whole_moment(rate, noise, below)]
        else:
            part = ball(order - below)
            chord = part * _whole_moment(rate, noise, below + 1)
            if below > 1:
                chord += (1 - part) * _whole_moment(rate, noise, below)
            moments = [chord, _fractional_moment(rate, noise, order)]
        return tuple(ceiling(m / ball(order - 1)) for m in moments if m.is_finite())


def _whole_moment(rate: Fraction, noise: Fraction, order: int) -> arb:
    # ln Σₖ C(α,k)·q^k·(1−q)^{α−k}·e^{k(k−1)/(2z²)}, each term from the one before it.
    odds, growth = ball(rate / (1 - rate)), ball(1 / noise**2).exp()
    term, power, total = ball(1), ball(1), ball(1)
    for k in range(order):
        term = term * odds * power * (order - k) / (k + 1)
        power = power * growth
        total = total + term
    return total.log() + order * ball(1 - rate).log()


def _fractional_moment(rate: Fraction, noise: Fraction, order: Fraction) -> arb:
    # The integral is cut where both parts of the mixture weigh the same, and each side is
    # expanded in the smaller part. Beyond α the terms alternate and shrink, point by point
    # under the integral, so whatever is left out is at most the first term left out.
    alpha, half = ball(order), ball(1 / (2 * noise**2))
    log_in, log_out = ball(rate).log(), ball(1 - rate).log()
    scale = half.sqrt()
    cut = (log_out - log_in) / (2 * half) + ball(Fraction(1, 2))

    def side(many: arb, inside: arb, outside: arb, distance: arb) -> arb:
        weight = (inside + outside + (many * many - many) * half).exp()
        return weight * (distance * scale).erfc() / 2

    total, binomial = ball(0), ball(1)
    for k in range(TERMS):
        i, j = ball(k), alpha - k
        low = side(i, i * log_in, j * log_out, i - cut)
        high = side(j, j * log_in, i * log_out, cut - j)
        term = binomial * (low + high)
        if k > order and (k == TERMS - 1 or abs(term) < NEGLIGIBLE):
            break
        total = total + term
        binomial = binomial * j / (k + 1)
    return (total + abs(term)).log()
