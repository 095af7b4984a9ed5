"""Releases by the thousand on fixed entropy, so that no run differs, and how many must cover."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from fractions import Fraction
from functools import partial
from hashlib import shake_256

from scipy.stats import binom

from release.noise import Sampler, gaussian
from release.statistics import Row

RELEASES = 2000
LEVELS = (0.8, 0.95, 0.99)
FALSE_ALARM = 1e-6


def sampler(seed: str) -> Sampler:
    """The shipped sampler on a fixed stream of bytes."""
    blocks = itertools.count()
    return partial(
        gaussian, entropy=lambda size: shake_256(f"{seed} {next(blocks)}".encode()).digest(size)
    )


def noisy(exact: Sequence[int], sigma: int, seed: str) -> list[int]:
    """The exact totals with a draw of their own for each."""
    draws = sampler(seed)(sigma, len(exact)).tolist()
    return [total + draw for total, draw in zip(exact, draws, strict=True)]


def expected(level: float, releases: int = RELEASES) -> tuple[int, int]:
    """How few and how many cover at the level exactly, each missed once in a million times."""
    low, high = binom.ppf([FALSE_ALARM, 1 - FALSE_ALARM], releases, level)
    return int(low), int(high)


def names(count: int) -> tuple[str, ...]:
    return tuple(f"g{place:05}" for place in range(count))


def printed(number: float | None) -> Fraction:
    """The decimal number that readers see."""
    assert number is not None
    return Fraction(repr(number))


def covers(row: Row, truth: Fraction) -> bool:
    return printed(row.lower) <= truth <= printed(row.upper)
