"""The kinds of event: one class a mechanism, each with the source of its cost."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import ClassVar

from release.accounting.curves import (
    Curve,
    laplace_curve,
    linear_curve,
    pure_curve,
    subsampled_curve,
)
from release.accounting.events import Event
from release.accounting.exact import AccountingError, checked_count, exact

Number = int | float
"""A parameter as JSON holds it; its exact value is the one that counts."""


def _checked(*, count: int, **positives: Number) -> None:
    for name, value in positives.items():
        if not isinstance(value, int | float) or isinstance(value, bool):
            raise AccountingError(f"{name} must be a JSON number")
        if not 0 < value < math.inf:
            raise AccountingError(f"{name} must be above 0 and finite")
    checked_count(count)


def _checked_probability(value: Number, name: str) -> None:
    if not 0 < exact(value, name) < 1:
        raise AccountingError(f"{name} must lie strictly between 0 and 1")


def _gaussian_rho(sensitivity: Number, sigma: Number) -> Fraction:
    return (Fraction(sensitivity) / Fraction(sigma)) ** 2 / 2


@dataclass(frozen=True)
class Gaussian(Event):
    """Gaussian noise of scale σ on values of L2 sensitivity Δ, both in one unit.

    ρ = Δ²/(2σ²) exactly (Bun & Steinke 2016, Prop. 1.6), ε(α) = αρ (Mironov 2017, Prop. 7),
    and μ-GDP with μ = Δ/σ (Dong, Roth & Su 2022, Thm 1). Noise rounded to the lattice is
    post-processing of it.
    """

    type: ClassVar[str] = "gaussian"
    gaussian: ClassVar[bool] = True

    sensitivity: Number
    sigma: Number
    count: int = 1

    def __post_init__(self) -> None:
        """Refuses parameters that describe no mechanism."""
        _checked(sensitivity=self.sensitivity, sigma=self.sigma, count=self.count)

    def _rho(self) -> Fraction:
        return _gaussian_rho(self.sensitivity, self.sigma)

    def _curve(self, orders: Sequence[Fraction]) -> Curve:
        return linear_curve(self._rho(), orders)


@dataclass(frozen=True)
class GaussianThreshold(Event):
    """Gaussian noise whose unlisted groups appear only above a threshold.

    Outside an event of probability at most ``delta`` it costs what the Gaussian costs; δ₀ is
    charged beside ρ and every ε is reported at δ less what was set aside for it.
    """

    type: ClassVar[str] = "gaussian-threshold"
    gaussian: ClassVar[bool] = True

    sensitivity: Number
    sigma: Number
    delta: Number
    count: int = 1

    def __post_init__(self) -> None:
        """Refuses parameters that describe no mechanism."""
        _checked(sensitivity=self.sensitivity, sigma=self.sigma, count=self.count)
        _checked_probability(self.delta, "delta")

    def _rho(self) -> Fraction:
        return _gaussian_rho(self.sensitivity, self.sigma)

    def _curve(self, orders: Sequence[Fraction]) -> Curve:
        return linear_curve(self._rho(), orders)

    def _delta0(self) -> Fraction:
        return Fraction(self.delta)


@dataclass(frozen=True)
class DiscreteGaussian(Event):
    """Discrete Gaussian noise of parameter σ on integer vectors of L2 sensitivity Δ.

    ρ = Δ²/(2σ²) (Canonne, Kamath & Steinke 2020, Thm 4 and its extension to vectors). It is
    not known to be μ-GDP, so only zCDP and Rényi accounts take it.
    """

    type: ClassVar[str] = "discrete-gaussian"

    sensitivity: Number
    sigma: Number
    count: int = 1

    def __post_init__(self) -> None:
        """Refuses parameters that describe no mechanism."""
        _checked(sensitivity=self.sensitivity, sigma=self.sigma, count=self.count)

    def _rho(self) -> Fraction:
        return _gaussian_rho(self.sensitivity, self.sigma)

    def _curve(self, orders: Sequence[Fraction]) -> Curve:
        return linear_curve(self._rho(), orders)


@dataclass(frozen=True)
class ZeroConcentrated(Event):
    """Whatever is ρ-zCDP: ε(α) ≤ αρ (Bun & Steinke 2016, Def. 1.1)."""

    type: ClassVar[str] = "zcdp"

    rho_each: Number
    count: int = 1

    def __post_init__(self) -> None:
        """Refuses parameters that describe no mechanism."""
        _checked(rho_each=self.rho_each, count=self.count)

    def _rho(self) -> Fraction:
        return Fraction(self.rho_each)

    def _curve(self, orders: Sequence[Fraction]) -> Curve:
        return linear_curve(self._rho(), orders)


@dataclass(frozen=True)
class PureDP(Event):
    """Any ε-DP mechanism: ρ = ε²/2 (Bun & Steinke 2016, Prop. 1.4)."""

    type: ClassVar[str] = "pure-dp"

    epsilon: Number
    count: int = 1

    def __post_init__(self) -> None:
        """Refuses parameters that describe no mechanism."""
        _checked(epsilon=self.epsilon, count=self.count)

    def _rho(self) -> Fraction:
        return Fraction(self.epsilon) ** 2 / 2

    def _curve(self, orders: Sequence[Fraction]) -> Curve:
        return _least(pure_curve(Fraction(self.epsilon), orders), self._rho(), orders)

    def pure(self) -> Fraction:
        """Its ε."""
        return Fraction(self.epsilon)


@dataclass(frozen=True)
class ApproximateDP(Event):
    """Any (ε, δ)-DP mechanism: ε-DP but for an event of probability δ, which is its δ₀.

    Sources: Kairouz, Oh & Viswanath 2015 for the decomposition; Bun & Steinke 2016, Sec. 8,
    for δ-approximate ε²/2-zCDP.
    """

    type: ClassVar[str] = "approximate-dp"

    epsilon: Number
    delta: Number
    count: int = 1

    def __post_init__(self) -> None:
        """Refuses parameters that describe no mechanism."""
        _checked(epsilon=self.epsilon, count=self.count)
        _checked_probability(self.delta, "delta")

    def _rho(self) -> Fraction:
        return Fraction(self.epsilon) ** 2 / 2

    def _curve(self, orders: Sequence[Fraction]) -> Curve:
        return _least(pure_curve(Fraction(self.epsilon), orders), self._rho(), orders)

    def _delta0(self) -> Fraction:
        return Fraction(self.delta)

    def pure(self) -> Fraction:
        """Its ε, outside δ₀."""
        return Fraction(self.epsilon)


@dataclass(frozen=True)
class Laplace(Event):
    """Laplace noise of scale b on values of L1 sensitivity Δ: ε-DP with ε = Δ/b, ρ = ε²/2."""

    type: ClassVar[str] = "laplace"

    sensitivity: Number
    scale: Number
    count: int = 1

    def __post_init__(self) -> None:
        """Refuses parameters that describe no mechanism."""
        _checked(sensitivity=self.sensitivity, scale=self.scale, count=self.count)

    def _rho(self) -> Fraction:
        return self.pure() ** 2 / 2

    def _curve(self, orders: Sequence[Fraction]) -> Curve:
        return _least(laplace_curve(self.pure(), orders), self._rho(), orders)

    def pure(self) -> Fraction:
        """Δ/b."""
        return Fraction(self.sensitivity) / Fraction(self.scale)


@dataclass(frozen=True)
class Exponential(Event):
    """The exponential mechanism at ε: picks y with probability in proportion to e^{εu(y)/(2Δ)}.

    Its privacy loss has range ε, so ρ = ε²/8 (Cesar & Rogers 2021; Dong, Durfee & Rogers 2020).
    """

    type: ClassVar[str] = "exponential"

    epsilon: Number
    count: int = 1

    def __post_init__(self) -> None:
        """Refuses parameters that describe no mechanism."""
        _checked(epsilon=self.epsilon, count=self.count)

    def _rho(self) -> Fraction:
        return Fraction(self.epsilon) ** 2 / 8

    def _curve(self, orders: Sequence[Fraction]) -> Curve:
        return _least(pure_curve(Fraction(self.epsilon), orders), self._rho(), orders)

    def pure(self) -> Fraction:
        """Its ε."""
        return Fraction(self.epsilon)


@dataclass(frozen=True)
class PoissonGaussian(Event):
    """Steps of Gaussian noise on Poisson samples: DP-SGD, or rounds of federated training.

    Each step takes every unit with probability q and adds noise of z times the L2 bound of
    one unit; ``count`` is the number of steps. Holds for adding or removing one unit, and for
    Poisson samples only: shuffled or fixed-size batches are another mechanism. Its only ρ is
    that of the same noise without sampling, so it claims none.
    """

    type: ClassVar[str] = "poisson-gaussian"

    sampling_rate: Number
    noise_multiplier: Number
    count: int = 1

    def __post_init__(self) -> None:
        """Refuses parameters that describe no mechanism."""
        _checked(
            sampling_rate=self.sampling_rate,
            noise_multiplier=self.noise_multiplier,
            count=self.count,
        )
        if Fraction(self.sampling_rate) > 1:
            raise AccountingError("sampling_rate must be at most 1")

    def _rho(self) -> None:
        return None

    def _curve(self, orders: Sequence[Fraction]) -> Curve:
        return subsampled_curve(
            Fraction(self.sampling_rate), Fraction(self.noise_multiplier), orders
        )


def _least(curve: Curve, rho: Fraction, orders: Sequence[Fraction]) -> Curve:
    return tuple(map(min, curve, linear_curve(rho, orders)))
