"""To and from ``dp_accounting``, Google's library: its events, and its privacy-loss distributions.

It is imported only when something here is called.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction
from typing import Any, NamedTuple

from release.accounting.conversions import grid_epsilon
from release.accounting.curves import ORDERS
from release.accounting.events import Event
from release.accounting.exact import AccountingError, Exact, checked_delta
from release.accounting.mechanisms import (
    Gaussian,
    GaussianThreshold,
    Laplace,
    PoissonGaussian,
    ZeroConcentrated,
)
from release.accounting.registry import Composed


class Foreign(NamedTuple):
    """An event as ``dp_accounting`` writes it, with the δ₀ that its events have no place for."""

    event: Any
    delta0: Fraction


def to_dp_accounting(event: Event) -> Foreign:
    """The event as a ``dp_accounting`` ``DpEvent`` that promises no less than it costs.

    Gaussian, Laplace and Poisson-subsampled noise keep their kind. The others become a
    ``ZCDpEvent`` of their ρ. Ratios of noise to sensitivity are rounded down, ρ up. Add δ₀ to
    the δ of whatever is computed from the event.
    """
    from dp_accounting import dp_event

    if isinstance(event, Composed):
        parts = [to_dp_accounting(part).event for part in event.events]
        single: Any = dp_event.ComposedDpEvent(parts)
    elif isinstance(event, Gaussian | GaussianThreshold):
        single = dp_event.GaussianDpEvent(_below(_ratio(event.sigma, event.sensitivity)))
    elif isinstance(event, Laplace):
        single = dp_event.LaplaceDpEvent(_below(_ratio(event.scale, event.sensitivity)))
    elif isinstance(event, PoissonGaussian):
        noise = dp_event.GaussianDpEvent(_below(Fraction(event.noise_multiplier)))
        single = dp_event.PoissonSampledDpEvent(event.sampling_rate, noise)
    else:
        single = dp_event.ZCDpEvent(rho=_above(_rho(event) / event.count))
    count = event.count
    repeated = single if count == 1 else dp_event.SelfComposedDpEvent(single, count)
    return Foreign(repeated, event.delta0())


def from_dp_accounting(foreign: Any) -> Event:
    """The event that a ``dp_accounting`` ``DpEvent`` describes, noise in units of sensitivity.

    Raises ``AccountingError`` for a ``DpEvent`` that has no counterpart here.
    """
    from dp_accounting import dp_event

    readers: dict[type, Callable[[Any], Event]] = {
        dp_event.GaussianDpEvent: lambda e: Gaussian(1, e.noise_multiplier),
        dp_event.LaplaceDpEvent: lambda e: Laplace(1, e.noise_multiplier),
        dp_event.PoissonSampledDpEvent: _from_sampled,
        dp_event.ZCDpEvent: _from_zcdp,
        dp_event.ComposedDpEvent: lambda e: Composed(tuple(map(from_dp_accounting, e.events))),
        dp_event.SelfComposedDpEvent: lambda e: Composed((from_dp_accounting(e.event),), e.count),
    }
    reader = readers.get(type(foreign))
    if reader is None:
        raise AccountingError(f"a {type(foreign).__name__} has no counterpart here")
    return reader(foreign)


def _from_sampled(foreign: Any) -> Event:
    from dp_accounting import dp_event

    if not isinstance(foreign.event, dp_event.GaussianDpEvent):
        raise AccountingError("only Gaussian noise on a Poisson sample has a counterpart here")
    return PoissonGaussian(foreign.sampling_probability, foreign.event.noise_multiplier)


def _from_zcdp(foreign: Any) -> Event:
    if foreign.xi != 0:
        raise AccountingError("a ZCDpEvent with a xi has no counterpart here")
    return ZeroConcentrated(foreign.rho)


def pld_epsilon(event: Event, delta: Exact, interval: float | None = None) -> float | None:
    """ε at δ − δ₀ from the composed privacy-loss distribution, rounded pessimistically.

    For reports only: such a curve is no valid filter (arXiv 2602.06756). None where a part has
    no distribution here (what is known by its ρ alone). ``interval`` is the width of a bucket, by
    default 1e-4 or the hundred-thousandth part of the ``rdp`` ε, whichever is more: finer
    buckets take minutes where ε is in the thousands.
    """
    from dp_accounting.pld import privacy_loss_distribution as pld

    left = checked_delta(checked_delta(delta) - event.delta0())
    if interval is None:
        interval = max(1e-4, 1e-5 * grid_epsilon(event.rdp(ORDERS), left).epsilon)
    composed = pld.identity(value_discretization_interval=interval)
    for single, count in event.uses():
        part = _distribution(single, count, interval)
        if part is None:
            return None
        composed = composed.compose(part)
    return float(composed.get_epsilon_for_delta(_below(left)))


def _distribution(single: Event, count: int, interval: float) -> Any:
    from dp_accounting.pld import privacy_loss_distribution as pld

    width = {"value_discretization_interval": interval}
    pure = single.pure()
    if isinstance(single, Gaussian | GaussianThreshold):
        # Repeated Gaussian noise is one with a smaller scale: nothing to convolve.
        deviation = _below(_ratio(single.sigma, single.sensitivity)) / math.sqrt(count)
        return pld.from_gaussian_mechanism(math.nextafter(deviation, 0), **width)
    if isinstance(single, PoissonGaussian):
        part = pld.from_gaussian_mechanism(
            _below(Fraction(single.noise_multiplier)),
            sampling_prob=float(single.sampling_rate),
            **width,
        )
    elif isinstance(single, Laplace):
        part = pld.from_laplace_mechanism(
            _below(_ratio(single.scale, single.sensitivity)), **width
        )
    elif pure is not None:
        from dp_accounting.pld.common import DifferentialPrivacyParameters

        part = pld.from_privacy_parameters(
            DifferentialPrivacyParameters(_above(pure), 0.0), **width
        )
    else:
        return None
    return part.self_compose(count)


def _rho(event: Event) -> Fraction:
    rho = event.rho()
    if rho is None:
        raise AccountingError(f"an event of type {event.type} has no ρ")
    return rho


def _ratio(noise: int | float, sensitivity: int | float) -> Fraction:
    return Fraction(noise) / Fraction(sensitivity)


def _below(value: Fraction) -> float:
    nearest = float(value)
    return math.nextafter(nearest, 0) if Fraction(nearest) > value else nearest


def _above(value: Fraction) -> float:
    nearest = float(value)
    return math.nextafter(nearest, math.inf) if Fraction(nearest) < value else nearest
