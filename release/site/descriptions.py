"""Events in words, for readers of a record."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import Any

from release.accounting import Event, event_from_json

MOST_PARTS = 3
"""The most different mechanisms that a description names; the file has all."""

WORDS = {
    "gaussian": "Gaussian noise, σ {sigma} at L2 sensitivity {sensitivity}",
    "gaussian-threshold": (
        "Gaussian noise, σ {sigma} at L2 sensitivity {sensitivity}, with a threshold at δ₀ {delta}"
    ),
    "discrete-gaussian": "discrete Gaussian noise, σ {sigma} at L2 sensitivity {sensitivity}",
    "zcdp": "a {rho_each}-zCDP mechanism",
    "pure-dp": "an ({epsilon}, 0)-DP mechanism",
    "approximate-dp": "an ({epsilon}, {delta})-DP mechanism",
    "laplace": "Laplace noise, scale {scale} at L1 sensitivity {sensitivity}",
    "exponential": "the exponential mechanism at ε {epsilon}",
    "poisson-gaussian": (
        "Poisson-sampled Gaussian noise, rate {sampling_rate}, multiplier {noise_multiplier}"
    ),
}
"""One use of each kind of mechanism, by the ``type`` of its event."""


def described(document: Mapping[str, Any]) -> str:
    """What was done, in one line: each different mechanism with how often it was used."""
    counts: Counter[Event] = Counter()
    for single, count in event_from_json(document).uses():
        counts[single] += count
    parts = [_used(single, count) for single, count in counts.items()]
    more = len(parts) - MOST_PARTS
    return "; ".join(parts[:MOST_PARTS]) + (f"; and {more} more" if more > 0 else "")


def _used(single: Event, count: int) -> str:
    values = {key: _number(value) for key, value in single.to_json().items() if key != "type"}
    one = WORDS[single.type].format(**values)
    if count == 1:
        return one
    times = "steps of" if single.type == "poisson-gaussian" else "times"
    return f"{count:,} {times} {one}"


def _number(value: float) -> str:
    return f"{value:,}" if isinstance(value, int) else f"{value:.10g}"
