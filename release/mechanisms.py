"""The Gaussian mechanism: exact integer totals to noisy ones, at a cost fixed beforehand.

For an integer vector x, x + round(N(0, σ²)) has the law of round(x + N(0, σ²)), since rounding
commutes with adding integers: it is post-processing of the Gaussian mechanism, so Δ and σ in the
same steps cost exactly ρ = Δ²/(2σ²) (Bun & Steinke 2016, Prop. 1.6) and μ = Δ/σ (Dong, Roth & Su
2022, Thm 1). Several totals with noise of their own cost the sum of their ρ.

With a threshold, groups that nobody has listed appear where their noisy count is above it. Beside
ρ that costs δ₀, a bound on the probability that a group appears which only one unit is in.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from statistics import NormalDist
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from release.accounting import (
    DELTA_UNITS,
    RHO_UNITS,
    Composed,
    Event,
    Gaussian,
    GaussianThreshold,
)
from release.noise import MAX_SIGMA, QUANTILE_ERROR, Sampler
from release.specs import ONE

COUNT = "count"
"""The total that is held against a threshold."""
RHO = Fraction(1)
"""The order at which ε(α) of Gaussian noise is ρ itself: for accounts that count ρ."""


class Alone(NamedTuple):
    """What a unit can count, in steps, in each of the groups that it alone is in.

    ``most[i]`` where it is in ``groups[i]`` groups; as many pairs as it takes for all numbers.
    """

    most: NDArray[np.float64]
    groups: NDArray[np.float64]


@dataclass(frozen=True)
class Threshold:
    """A group appears if its noisy count is greater than ``tau`` steps, at a cost of δ₀."""

    tau: int
    delta0: float

    def size(self, sigma: int, probability: float) -> int:
        """From how many units on a group appears with so much probability, each in full."""
        reach = NormalDist().inv_cdf(probability) * sigma
        units: int = math.ceil((self.tau + reach) / ONE)
        return max(1, units)


@dataclass(frozen=True)
class GaussianMechanism:
    """Noise for each of some totals, each of the same sensitivity, all in lattice steps.

    ``threshold`` is None where all groups are public.
    """

    sensitivity: int
    sigma: Mapping[str, int]
    threshold: Threshold | None = None

    @property
    def event(self) -> Event:
        """What releasing all the totals spends."""
        parts = tuple(self._part(total, sigma) for total, sigma in self.sigma.items())
        return parts[0] if len(parts) == 1 else Composed(parts)

    def _part(self, total: str, sigma: int) -> Event:
        if self.threshold is None or total != COUNT:
            return Gaussian(self.sensitivity, sigma)
        return GaussianThreshold(self.sensitivity, sigma, self.threshold.delta0)

    def appears(self, noisy_count: int) -> bool:
        """Whether a group that is not public is shown: the comparison that the proof is about."""
        return self.threshold is None or noisy_count > self.threshold.tau

    def noisy(
        self, totals: Mapping[str, Sequence[int]], sampler: Sampler
    ) -> dict[str, tuple[int, ...]]:
        """Each total with a draw of its own; no draw can make this fail."""
        return {
            name: tuple(
                total + noise
                for total, noise in zip(
                    totals[name], sampler(sigma, len(totals[name])).tolist(), strict=True
                )
            )
            for name, sigma in self.sigma.items()
        }


def calibrated(
    sensitivity: int, charge: int, split: Mapping[str, Fraction], *, order: Fraction = RHO
) -> GaussianMechanism | None:
    """The least noise whose cost is within ``charge`` whole units, split over the totals.

    Each total gets a whole number of units, and the smallest σ in whole steps whose Δ²/(2σ²),
    rounded up to units, is within them: decided in integers. Where the account counts ε(α) at
    one ``order`` α, Gaussian noise costs α·Δ²/(2σ²). None where that takes more noise than can
    be drawn, or leaves a total without a unit.
    """
    sigma = {}
    for name, units in _parts(charge, split).items():
        if units < 1:
            return None
        # order·Δ²/(2σ²) <= units/RHO_UNITS, solved for σ² and rounded up to a whole square.
        square = math.ceil(order * sensitivity**2 * RHO_UNITS / (2 * units))
        sigma[name] = math.isqrt(square - 1) + 1
    if max(sigma.values()) > MAX_SIGMA:
        return None
    return GaussianMechanism(sensitivity, sigma)


def threshold(alone: Alone, sigma: int, delta0: float) -> Threshold:
    """The least threshold that the groups of one unit alone stay below, but with probability δ₀.

    Of t groups in which nobody but one unit counts, and it by c at most, none appears with a
    probability of Φ((τ - c)/σ)^t at least. That is 1 - δ₀ or more where τ is at least
    c + σ·Φ⁻¹((1 - δ₀)^(1/t)), and the greatest of these serves for every t (after Gopi et al.
    2020, who have c = 1/√t). The tail beyond (1 - δ₀)^(1/t) is taken by expm1 and log1p, which
    keep its digits; it, and what follows from it, is widened by more than any step may be off.
    """
    from scipy.special import ndtri

    tail = -np.expm1(np.log1p(-delta0) / alone.groups)
    reach = np.maximum(-ndtri(tail * (1 - QUANTILE_ERROR)), 0)
    greatest = Fraction(float(np.max(alone.most + reach * float(sigma))))
    return Threshold(math.ceil(greatest * (1 + 2 * Fraction(QUANTILE_ERROR))), delta0)


def affordable(units: int) -> float:
    """The greatest double whose value is within so many units of 1e-18."""
    delta0 = units / DELTA_UNITS
    return delta0 if Fraction(delta0) * DELTA_UNITS <= units else math.nextafter(delta0, 0)


def _parts(charge: int, split: Mapping[str, Fraction]) -> dict[str, int]:
    """Whole units for each total, in proportion; the last takes what rounding left."""
    parts = {name: math.floor(part * charge) for name, part in split.items()}
    last = next(reversed(parts))
    return {**parts, last: parts[last] + charge - sum(parts.values())}
