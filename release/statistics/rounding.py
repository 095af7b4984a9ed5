"""Each number is rounded once, from an exact rational: values to nearest, intervals outward."""

from __future__ import annotations

import math
from fractions import Fraction

DIGITS = 15
"""Up to so many a double stands for one decimal number alone, so what is rounded out stays so."""


def decimals_for(deviation: Fraction, magnitude: Fraction) -> int:
    """How many places are worth printing: none below a tenth of ``deviation``.

    Nor more than 15 digits of ``magnitude``.
    """
    worth = max(deviation, magnitude / 10 ** (DIGITS - 1))
    return math.floor(1 + math.log10(worth.denominator) - math.log10(worth.numerator))


def nearest(value: Fraction, decimals: int) -> float:
    """The nearest number with so many decimals."""
    return _printed(round(value * Fraction(10) ** decimals), decimals)


def below(value: Fraction, decimals: int) -> float:
    """The next one that is not above it."""
    return _printed(math.floor(value * Fraction(10) ** decimals), decimals)


def above(value: Fraction, decimals: int) -> float:
    """The next one that is not below it."""
    return _printed(math.ceil(value * Fraction(10) ** decimals), decimals)


def _printed(last_places: int, decimals: int) -> float:
    return float(last_places / Fraction(10) ** decimals)
