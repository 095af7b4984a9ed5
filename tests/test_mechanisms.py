"""The calibration against the accountants, and the noise on the path that ships."""

from __future__ import annotations

import math
from collections.abc import Mapping
from decimal import Decimal
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import assume, example, given
from hypothesis import strategies as st
from numpy.typing import NDArray
from scipy.special import ndtr, ndtri
from scipy.stats import chi2, ncx2

from release.accounting import ACCOUNTANTS, RHO_UNITS, Composed, Gaussian
from release.mechanisms import GaussianMechanism, calibrated
from release.noise import MAX_SIGMA, gaussian
from release.specs import Mean
from release.statistics import STATISTICS

MEAN = dict(
    STATISTICS["mean"].split(
        Mean(by="g", groups=("a",), value="v", bounds=(Decimal(1), Decimal(5)))
    )
)
ONE_TOTAL = {"count": Fraction(1)}
EVEN = {"count": Fraction(1, 2), "sum": Fraction(1, 2)}
# The greatest sensitivity that one unit of ρ can still pay for.
MOST = math.isqrt(2 * MAX_SIGMA**2 // RHO_UNITS)


def cost(sensitivity: int, sigma: int) -> int:
    charges = {ACCOUNTANTS[name].charge(Gaussian(sensitivity, sigma)) for name in ("gdp", "zcdp")}
    assert len(charges) == 1
    return charges.pop()


# Calibration


@st.composite
def splits(draw: st.DrawFn) -> dict[str, Fraction]:
    weights = draw(st.lists(st.integers(1, 1000), min_size=1, max_size=4))
    return {f"total {i}": Fraction(w, sum(weights)) for i, w in enumerate(weights)}


@given(st.integers(1, 2**50), st.integers(1, 10**14), splits())
@example(1, 10**14, ONE_TOTAL)
@example(2**45, 1000, MEAN)
def test_each_sigma_is_the_least_within_its_part(
    sensitivity: int, charge: int, split: dict[str, Fraction]
) -> None:
    mechanism = calibrated(sensitivity, charge, split)
    assume(mechanism is not None)
    assert mechanism is not None
    assert list(mechanism.sigma) == list(split)
    parts = [math.floor(part * charge) for part in split.values()]
    parts[-1] = charge - sum(parts[:-1])
    for sigma, part in zip(mechanism.sigma.values(), parts, strict=True):
        assert cost(sensitivity, sigma) <= part
        assert sigma == 1 or cost(sensitivity, sigma - 1) > part


@given(st.integers(1, 2**50), st.integers(1, 10**14), splits())
def test_the_event_costs_the_charge_but_for_one_step_of_sigma(
    sensitivity: int, charge: int, split: dict[str, Fraction]
) -> None:
    """σ - 1 is too little, so each part is used up to a factor of at least (1 - 1/σ)²."""
    mechanism = calibrated(sensitivity, charge, split)
    assume(mechanism is not None)
    assert mechanism is not None
    least = 1 - Fraction(1, min(mechanism.sigma.values()))
    for name in ("gdp", "zcdp"):
        assert charge * least**2 <= ACCOUNTANTS[name].charge(mechanism.event) <= charge


@given(st.integers(1, 2**70), st.integers(1, 100), splits())
@example(MOST, 1, ONE_TOTAL)
@example(MOST + 1, 1, ONE_TOTAL)
@example(1, 1, EVEN)
@example(1, 2, EVEN)
def test_none_exactly_where_a_part_is_empty_or_its_noise_cannot_be_drawn(
    sensitivity: int, charge: int, split: dict[str, Fraction]
) -> None:
    parts = [math.floor(part * charge) for part in split.values()]
    parts[-1] = charge - sum(parts[:-1])
    drawable = all(part and cost(sensitivity, MAX_SIGMA) <= part for part in parts)
    assert (calibrated(sensitivity, charge, split) is not None) == drawable


def test_the_default_split_of_a_mean_stands_in_the_event() -> None:
    mechanism = calibrated(2**21, 10**9, MEAN)
    assert mechanism is not None
    assert isinstance(mechanism.event, Composed)
    counts, sums = mechanism.event.events
    assert (counts, sums) == tuple(Gaussian(2**21, each) for each in mechanism.sigma.values())
    share = cost(2**21, mechanism.sigma["count"]) / 10**9
    assert share == pytest.approx((math.sqrt(3) - 1) / 2, abs=1e-6)


# The noise


class Recorder:
    """A sampler that counts up from 1 over all its draws and remembers what it was asked."""

    def __init__(self, *, wide: bool = False) -> None:
        self.asked: list[tuple[Any, int]] = []
        self.kind = object if wide else np.int64

    def __call__(self, sigma: int | float | Fraction, count: int) -> NDArray[Any]:
        start = 1 + sum(drawn for _, drawn in self.asked)
        self.asked.append((sigma, count))
        return np.arange(start, start + count).astype(self.kind)


@pytest.mark.parametrize("wide", [False, True])
def test_every_group_of_every_total_has_one_draw_of_its_own(*, wide: bool) -> None:
    recorder = Recorder(wide=wide)
    mechanism = GaussianMechanism(1, {"count": 30, "sum": 2**62})
    noisy = mechanism.noisy({"sum": [7, 8, 9], "count": [0, 0, 2**90]}, recorder)
    assert recorder.asked == [(30, 3), (2**62, 3)]
    assert noisy == {"count": (1, 2, 2**90 + 3), "sum": (11, 13, 15)}
    assert all(type(each) is int for column in noisy.values() for each in column)


@given(st.lists(st.integers(-(2**200), 2**200)))
def test_noise_is_added_exactly(totals: list[int]) -> None:
    noisy = GaussianMechanism(1, {"sum": 1}).noisy({"sum": totals}, Recorder())
    assert [each - total for each, total in zip(noisy["sum"], totals, strict=True)] == list(
        range(1, len(totals) + 1)
    )


def shipped(sigma: Mapping[str, int], totals: list[int]) -> dict[str, NDArray[np.int64]]:
    noisy = GaussianMechanism(1, sigma).noisy(dict.fromkeys(sigma, totals), gaussian)
    return {
        name: np.array([y - x for y, x in zip(column, totals, strict=True)])
        for name, column in noisy.items()
    }


def test_the_noise_that_ships_has_its_scale_and_not_a_tenth_more_or_less() -> None:
    """Pearson's χ²: nominal level 1e-12, so that the true one is below 1e-9; by the noncentral
    χ² the power against either wrong scale is above 1 - 1e-9.
    """
    mechanism = calibrated(1000, RHO_UNITS // 2, ONE_TOTAL)  # μ = 1
    assert mechanism is not None
    (sigma,) = mechanism.sigma.values()
    assert sigma == 1000
    totals = [(-1) ** i * 2**80 + i for i in range(100_000)]
    edges = np.floor(sigma * ndtri(np.arange(1, 20) / 20))

    def law(scale: float) -> NDArray[Any]:
        return np.diff(np.concatenate([[0.0], ndtr((edges + 0.5) / scale), [1.0]]))

    def distance(scale: int) -> float:
        cells = np.searchsorted(edges, shipped({"count": scale}, totals)["count"])
        expected = law(sigma) * len(totals)
        return float(((np.bincount(cells, minlength=20) - expected) ** 2 / expected).sum())

    limit = chi2.isf(1e-12, 19)
    assert distance(sigma) < limit
    for wrong in (900, 1100):
        shift = len(totals) * float(((law(wrong) - law(sigma)) ** 2 / law(sigma)).sum())
        assert ncx2.cdf(limit, 19, shift) < 1e-9
        assert distance(wrong) > limit


def test_the_totals_of_a_group_share_no_noise() -> None:
    """The correlation of n independent pairs is near N(0, 1/n): seven of its deviations."""
    noise = shipped({"count": 1000, "sum": 1000}, [0] * 50_000)
    correlation = np.corrcoef(noise["count"], noise["sum"])[0, 1]
    assert abs(correlation) < 7 / math.sqrt(50_000)
