"""Numbers as text: every format shows the same digits, and every rounding takes a side.

A loss is rounded up at its last digit shown and what is left is rounded down, so that no page
ever claims more privacy than there is. ρ is counted in whole units and shown exactly.
"""

from __future__ import annotations

from dataclasses import dataclass
from decimal import ROUND_CEILING, ROUND_FLOOR, Context, Decimal
from fractions import Fraction

from release.accounting import DELTA_UNITS, RHO_UNITS

EPSILON_PLACES = 4
_RHO_PLACES = len(str(RHO_UNITS)) - 1
_DELTA_PLACES = len(str(DELTA_UNITS)) - 1
# Enough digits for every double and every count of units: no rounding but the stated one.
_WIDE = Context(prec=2000)
# For quotients and powers, whose own error must not matter to the digits shown.
_FINE = Context(prec=60)


@dataclass(frozen=True)
class Figure:
    """One published number: ``raw`` as in the CSV file, ``text`` grouped for reading."""

    raw: str
    text: str

    @property
    def number(self) -> int | float:
        """The number that a JSON document holds: the same digits."""
        return float(self.raw) if "." in self.raw else int(self.raw)


def fixed(value: float, decimals: int) -> Figure:
    """A number that was rounded to ``decimals`` places when it was released."""
    places = max(decimals, 0)
    # Of a number beyond 2^53 a double's own digits are no longer those that were printed.
    raw = f"{Decimal(repr(value)):.{places}f}"
    if float(raw) == 0:
        raw = raw.lstrip("-")  # no format shows a negative zero
    return Figure(raw, f"{Decimal(raw):,f}")


def round_up(amount: Decimal | float, places: int = EPSILON_PLACES) -> str:
    """The smallest number of ``places`` decimals that is not below ``amount``."""
    return _quantized(amount, places, ROUND_CEILING)


def round_down(amount: Decimal | float, places: int = EPSILON_PLACES) -> str:
    """The greatest number of ``places`` decimals that is not above ``amount``."""
    return _quantized(amount, places, ROUND_FLOOR)


def rho(units: int) -> str:
    """An accountant's quantity (ρ, or ε at one order) from whole units, exactly."""
    return "0" if units == 0 else _quantized(_rho(units), _RHO_PLACES, ROUND_CEILING)


def rho_number(units: int) -> float:
    """ρ from whole units, as a JSON number of the same digits."""
    return float(_rho(units))


def delta(units: int) -> Decimal:
    """δ₀ from whole units, exactly."""
    return Decimal(units).scaleb(-_DELTA_PLACES, _WIDE)


def delta0(units: int) -> str:
    """The same as text."""
    return plain(delta(units))


def percent_up(part: int, whole: int) -> str:
    """How much of the whole is spent, in per cent of one decimal, rounded up."""
    return round_up(_percent(part, whole), 1)


def percent_down(part: int, whole: int) -> str:
    """How much of the whole is left, in per cent of one decimal, rounded down."""
    return round_down(_percent(part, whole), 1)


def factor(epsilon: Decimal) -> str | None:
    """e^ε rounded up to two decimals; None past e^10, where it means nothing to a reader."""
    return round_up(epsilon.exp(_FINE), 2) if epsilon <= 10 else None


def plain(amount: Decimal) -> str:
    """A parameter as it was written, without an exponent unless it is very small."""
    amount = amount.normalize(_WIDE)
    if amount and amount.adjusted() < -4:
        digits, exponent = f"{amount:e}".split("e")
        return f"{digits}e{int(exponent)}"
    return f"{amount:f}"


def significant(amount: Fraction, digits: int = 6) -> str:
    """A scale or a length, to the nearest of ``digits`` significant digits."""
    return f"{float(amount):,.{digits}g}"


def _rho(units: int) -> Decimal:
    return Decimal(units).scaleb(-_RHO_PLACES, _WIDE)


def _percent(part: int, whole: int) -> Decimal:
    # A budget of nothing is wholly spent, and nothing of it is left.
    if whole == 0:
        return Decimal(0 if part == 0 else 100)
    return _FINE.divide(Decimal(100 * part), Decimal(whole))


def _quantized(amount: Decimal | float, places: int, rounding: str) -> str:
    quantum = Decimal(1).scaleb(-places)
    rounded = Decimal(amount).quantize(quantum, rounding=rounding, context=_WIDE)
    return f"{abs(rounded) if rounded == 0 else rounded:f}"
