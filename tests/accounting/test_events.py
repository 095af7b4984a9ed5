from __future__ import annotations

from typing import Any

import pytest

from release.accounting import (
    ORDERS,
    AccountingError,
    ApproximateDP,
    Composed,
    Event,
    Exponential,
    Gaussian,
    GaussianThreshold,
    Laplace,
    PoissonGaussian,
    PureDP,
    event_from_json,
)

GOOD: dict[str, Any] = {
    "type": "gaussian",
    "version": 1,
    "sensitivity": 3,
    "sigma": 0.5,
    "count": 2,
}


def test_a_document_is_read_exactly() -> None:
    assert event_from_json(GOOD) == Gaussian(3, 0.5, 2)
    assert Gaussian(3, 0.5, 2).to_json() == GOOD
    assert event_from_json({k: v for k, v in GOOD.items() if k != "count"}).count == 1


@pytest.mark.parametrize(
    "change",
    [
        {"type": "gauss"},
        {"type": None},
        {"type": ["gaussian"]},
        {"version": 2},
        {"version": True},
        {"version": 1.0},
        {"note": "x"},
        {"sigma": True},
        {"sigma": "0.5"},
        {"sigma": None},
        {"sigma": float("nan")},
        {"sigma": float("inf")},
        {"sigma": 0},
        {"sigma": -0.0},
        {"sigma": -1},
        {"sensitivity": 0},
        {"sensitivity": -2.5},
        {"count": 0},
        {"count": -1},
        {"count": 1.0},
        {"count": True},
        {"count": None},
    ],
    ids=str,
)
def test_what_describes_no_mechanism_is_refused(change: dict[str, Any]) -> None:
    with pytest.raises(AccountingError):
        event_from_json({**GOOD, **change})


@pytest.mark.parametrize("missing", ["type", "version", "sensitivity", "sigma"])
def test_a_missing_key_is_refused(missing: str) -> None:
    with pytest.raises(AccountingError):
        event_from_json({key: value for key, value in GOOD.items() if key != missing})


@pytest.mark.parametrize(
    "document",
    [
        [],
        "gaussian",
        None,
        {"type": "composed", "version": 1, "events": []},
        {"type": "composed", "version": 1, "events": GOOD},
        {"type": "composed", "version": 1, "events": [GOOD, {}]},
        {"type": "poisson-gaussian", "version": 1, "sampling_rate": 1.5, "noise_multiplier": 1},
        {"type": "approximate-dp", "version": 1, "epsilon": 1, "delta": 1},
        {"type": "gaussian-threshold", "version": 1, "sensitivity": 1, "sigma": 1, "delta": 0},
    ],
    ids=str,
)
def test_other_documents_are_refused(document: Any) -> None:
    with pytest.raises(AccountingError):
        event_from_json(document)


def test_parts_must_be_events() -> None:
    with pytest.raises(AccountingError):
        Composed((Gaussian(1, 1), "gaussian"))  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("event", "rho"),
    [
        (Gaussian(3, 2, 2), "9/4"),
        (GaussianThreshold(3, 2, 1e-9), "9/8"),
        (PureDP(3), "9/2"),
        (Laplace(3, 2), "9/8"),
        (Exponential(3), "9/8"),
        (ApproximateDP(2, 1e-9), "2"),
        (PoissonGaussian(0.1, 1), "None"),
        (Composed((Gaussian(1, 1), PureDP(2)), 3), "15/2"),
        (Composed((Gaussian(1, 1), PoissonGaussian(0.1, 1))), "None"),
    ],
    ids=str,
)
def test_rho_is_exact(event: Event, rho: str) -> None:
    assert str(event.rho()) == rho


def test_extreme_parameters_stay_finite_and_above_zero() -> None:
    for event in (
        Gaussian(1, 5e-324),
        Gaussian(5e-324, 1.7e308),
        PureDP(1e300),
        PureDP(1e-300),
        Laplace(1, 1e-300),
        PoissonGaussian(0.1, 1e-200),
        PoissonGaussian(1e-300, 1e300),
    ):
        assert all(cost > 0 for cost in event.rdp(ORDERS))
