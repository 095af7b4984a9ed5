"""Exact numbers and directed rounding: what every bound in this package stands on.

A bound on privacy loss is only worth what its last rounding is worth. Parameters are taken
as the exact rationals they are, formulas are evaluated in ball arithmetic (Arb, through
python-flint), and a result leaves a ball only on the side that is safe.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from decimal import Decimal
from fractions import Fraction
from typing import TYPE_CHECKING

from release.errors import UsageError

if TYPE_CHECKING:
    from flint import arb

RHO_UNITS = 10**12
"""Whole units in which an accountant's additive quantity is counted."""

DELTA_UNITS = 10**18
"""Whole units in which δ₀ is counted."""

BITS = 128
"""Working precision where nothing cancels much."""

LARGE = 2**80
"""From this ρ on the textbook bound is within 1e-9 of every other, and stands in for them."""

Exact = int | float | Decimal | Fraction


class AccountingError(UsageError, ValueError):
    """A privacy parameter that means nothing, or an event that an accountant cannot take."""

    kind = "accounting"


def exact(value: Exact, name: str) -> Fraction:
    """The exact value of a finite number; floats mean the binary fraction they are.

    Raises ``AccountingError`` for booleans, text, NaN and the infinities.
    """
    if isinstance(value, bool) or not isinstance(value, int | float | Decimal | Fraction):
        raise AccountingError(f"{name} must be a number, not {type(value).__name__}")
    try:
        return Fraction(value)
    except (ValueError, OverflowError):
        raise AccountingError(f"{name} must be finite") from None


def positive(value: Exact, name: str) -> Fraction:
    """``exact`` for what must be above zero."""
    number = exact(value, name)
    if number <= 0:
        raise AccountingError(f"{name} must be above 0")
    return number


def checked_delta(delta: Exact) -> Fraction:
    """δ as an exact rational strictly between 0 and 1.

    At δ = 0 Gaussian noise has no finite ε, and at δ ≥ 1 every mechanism is (0, δ)-DP: both
    are faults of the caller, not questions with an answer.
    """
    number = exact(delta, "delta")
    if not 0 < number < 1:
        raise AccountingError("delta must lie strictly between 0 and 1")
    return number


def checked_count(count: object, name: str = "count") -> int:
    """A whole number of uses, at least 1."""
    if isinstance(count, bool) or not isinstance(count, int):
        raise AccountingError(f"{name} must be a whole number")
    if count < 1:
        raise AccountingError(f"{name} must be at least 1")
    return count


def ceiling_units(value: Fraction, units: int = RHO_UNITS) -> int:
    """The least whole number of units that is not below the value."""
    return -((-value.numerator * units) // value.denominator)


def approximate(numerator: int, denominator: int = RHO_UNITS) -> float:
    """The nearest float to a quotient, for guesses only; +inf where it does not fit."""
    try:
        return numerator / denominator
    except OverflowError:
        return math.inf


@contextmanager
def precision(bits: int) -> Iterator[None]:
    """Ball arithmetic at so many bits, and the caller's precision again afterwards."""
    from flint import ctx

    with ctx.workprec(bits):
        yield


def ball(value: Fraction | int | float) -> arb:
    """A ball around an exact value, as tight as the working precision allows."""
    from flint import arb, fmpq

    if isinstance(value, Fraction):
        return arb(fmpq(value.numerator, value.denominator))
    return arb(value)


def upper(value: arb) -> float:
    """The least float that is certainly not below the ball, +inf where there is none."""
    candidate = float(value.upper())
    while not ball(candidate) >= value:
        if math.isnan(candidate):
            raise AccountingError("the bound has no finite value at this precision")
        candidate = math.nextafter(candidate, math.inf)
    return candidate


def ceiling(value: arb, units: int = RHO_UNITS) -> int:
    """The value in whole units, rounded up: certainly not below the ball."""
    return _whole((value * units).upper().ceil())


def floor(value: arb, units: int = RHO_UNITS) -> int:
    """The value in whole units, rounded down: certainly not above the ball."""
    return _whole((value * units).lower().floor())


def _whole(value: arb) -> int:
    number = value.unique_fmpz()
    if number is None:
        raise AccountingError("the bound has no finite value at this precision")
    return int(number)


def largest(holds: Callable[[int], bool]) -> int:
    """The largest whole number at which a monotone claim still holds, given it holds at 0.

    The claim must fail from some number on; it is doubled until it does, then bisected.
    """
    high = 1
    while holds(high):
        high *= 2
    low = high // 2
    while high - low > 1:
        middle = (low + high) // 2
        if holds(middle):
            low = middle
        else:
            high = middle
    return low
