"""The Gaussian mechanism: exact integer totals to noisy ones, at a cost fixed beforehand.

For an integer vector x, x + round(N(0, σ²)) has the law of round(x + N(0, σ²)), since rounding
commutes with adding integers: it is post-processing of the Gaussian mechanism, so Δ and σ in the
same steps cost exactly ρ = Δ²/(2σ²) (Bun & Steinke 2016, Prop. 1.6) and μ = Δ/σ (Dong, Roth & Su
2022, Thm 1). Several totals with noise of their own cost the sum of their ρ.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction

from release.accounting import RHO_UNITS, Composed, Event, Gaussian
from release.noise import MAX_SIGMA, Sampler

RHO = Fraction(1)
"""The order at which ε(α) of Gaussian noise is ρ itself: for accounts that count ρ."""


@dataclass(frozen=True)
class GaussianMechanism:
    """Noise for each of some totals, each of the same sensitivity, all in lattice steps."""

    sensitivity: int
    sigma: Mapping[str, int]

    @property
    def event(self) -> Event:
        """What releasing all the totals spends."""
        parts = tuple(Gaussian(self.sensitivity, sigma) for sigma in self.sigma.values())
        return parts[0] if len(parts) == 1 else Composed(parts)

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


def _parts(charge: int, split: Mapping[str, Fraction]) -> dict[str, int]:
    """Whole units for each total, in proportion; the last takes what rounding left."""
    parts = {name: math.floor(part * charge) for name, part in split.items()}
    last = next(reversed(parts))
    return {**parts, last: parts[last] + charge - sum(parts.values())}
