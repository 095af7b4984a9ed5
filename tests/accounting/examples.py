"""One strategy and one pair of noise levels for every kind of event: a new kind is listed here."""

from __future__ import annotations

from collections.abc import Callable

from hypothesis import strategies as st

from release.accounting import (
    ApproximateDP,
    Composed,
    DiscreteGaussian,
    Event,
    Exponential,
    Gaussian,
    GaussianThreshold,
    Laplace,
    PoissonGaussian,
    PureDP,
    ZeroConcentrated,
)

noises = st.floats(0.3, 1e4) | st.integers(1, 10**12)
bounds = st.floats(1e-3, 1e3) | st.integers(1, 10**6)
costs = st.floats(1e-6, 5.0)
tinies = st.floats(1e-15, 1e-3)
counts = st.integers(1, 1000)
# The curve of a sampled Gaussian takes a moment to compute: few of them, used often.
sampled = st.sampled_from([(0.01, 1.1), (0.2, 3.0), (1, 2)])

KINDS: dict[str, st.SearchStrategy[Event]] = {
    "gaussian": st.builds(Gaussian, bounds, noises, counts),
    "gaussian-threshold": st.builds(GaussianThreshold, bounds, noises, tinies, counts),
    "discrete-gaussian": st.builds(DiscreteGaussian, bounds, noises, counts),
    "zcdp": st.builds(ZeroConcentrated, costs, counts),
    "pure-dp": st.builds(PureDP, costs, counts),
    "approximate-dp": st.builds(ApproximateDP, costs, tinies, counts),
    "laplace": st.builds(Laplace, bounds, noises, counts),
    "exponential": st.builds(Exponential, costs, counts),
    "poisson-gaussian": st.builds(lambda p, n: PoissonGaussian(p[0], p[1], n), sampled, counts),
}
singles = st.one_of(*KINDS.values())
KINDS["composed"] = st.builds(
    lambda parts, n: Composed(tuple(parts), n),
    st.lists(singles, min_size=1, max_size=3),
    st.integers(1, 5),
)
events = st.one_of(*KINDS.values())

BY_NOISE: dict[str, Callable[[float, int], Event]] = {
    "gaussian": lambda noise, n: Gaussian(1, noise, n),
    "gaussian-threshold": lambda noise, n: GaussianThreshold(1, noise, 1e-9, n),
    "discrete-gaussian": lambda noise, n: DiscreteGaussian(1, noise, n),
    "zcdp": lambda noise, n: ZeroConcentrated(1 / noise, n),
    "pure-dp": lambda noise, n: PureDP(1 / noise, n),
    "approximate-dp": lambda noise, n: ApproximateDP(1 / noise, 1e-9, n),
    "laplace": lambda noise, n: Laplace(1, noise, n),
    "exponential": lambda noise, n: Exponential(1 / noise, n),
    "poisson-gaussian": lambda noise, n: PoissonGaussian(0.1, noise, n),
    "composed": lambda noise, n: Composed((Gaussian(1, noise), Laplace(2, noise)), n),
}
"""Each kind as a function of how much noise it adds, and of how often it is used."""
