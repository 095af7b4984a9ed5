from __future__ import annotations

import subprocess
import sys
from decimal import Decimal
from fractions import Fraction

import pytest
from hypothesis import given, settings

from release.accounting import (
    ORDERS,
    AccountingError,
    ApproximateDP,
    Event,
    Gaussian,
    Laplace,
    PoissonGaussian,
    PureDP,
    ZeroConcentrated,
)
from release.accounting.interop import from_dp_accounting, pld_epsilon, to_dp_accounting
from tests.accounting.examples import events


@settings(max_examples=40, deadline=None)
@given(events)
def test_there_and_back_costs_no_less(event: Event) -> None:
    foreign = to_dp_accounting(event)
    back = from_dp_accounting(foreign.event)
    assert foreign.delta0 == event.delta0()
    rho, again = event.rho(), back.rho()
    assert (rho is None) == (again is None)
    if rho is not None and again is not None:
        assert rho <= again <= rho * (1 + Fraction(1, 10**14))
    for ours, theirs in zip(event.rdp(ORDERS), back.rdp(ORDERS), strict=True):
        assert ours <= theirs


@pytest.mark.parametrize(
    "event",
    [Gaussian(1, 2.5), Laplace(1, 3.5), PoissonGaussian(0.1, 2.5), ZeroConcentrated(0.25)],
    ids=lambda event: event.type,
)
def test_a_kind_that_both_have_comes_back_the_same(event: Event) -> None:
    assert from_dp_accounting(to_dp_accounting(event).event) == event


def test_what_has_no_counterpart_is_refused() -> None:
    from dp_accounting import dp_event

    laplace = dp_event.LaplaceDpEvent(1.0)
    for foreign in (
        dp_event.NonPrivateDpEvent(),
        dp_event.UnsupportedDpEvent(),
        dp_event.PoissonSampledDpEvent(0.1, laplace),
        dp_event.ZCDpEvent(0.1, 0.1),
        dp_event.SelfComposedDpEvent(laplace, 0),
    ):
        with pytest.raises(AccountingError):
            from_dp_accounting(foreign)


def test_a_distribution_of_pure_steps_counts_every_step() -> None:
    one, twenty = pld_epsilon(PureDP(0.5), 1e-6), pld_epsilon(PureDP(0.5, 20), 1e-6)
    assert one == pytest.approx(0.5, abs=1e-3)
    assert twenty is not None
    assert 7 < twenty < 10


def test_a_distribution_is_taken_at_what_delta_is_left() -> None:
    with_delta = pld_epsilon(ApproximateDP(0.5, 5e-7, 1), Decimal("1e-6"))
    assert with_delta == pld_epsilon(PureDP(0.5), Fraction(1, 10**6) - Fraction(5e-7))
    with pytest.raises(AccountingError):
        pld_epsilon(ApproximateDP(0.5, 5e-7, 2), Fraction(5e-7) * 2)


def test_nothing_slow_is_imported() -> None:
    program = (
        "import sys, release.accounting as a; a.gdp_epsilon(1, 1e-6)\n"
        "slow = {'dp_accounting', 'scipy', 'pandas', 'numpy'} & set(sys.modules)\n"
        "sys.exit(str(slow) if slow else 0)"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], check=False, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr


def test_googles_distribution_of_randomised_response_still_loses_its_count() -> None:
    # Why ``pld_epsilon`` composes distributions itself. If this fails, the trap is mended.
    from dp_accounting import NeighboringRelation, dp_event
    from dp_accounting.pld import PLDAccountant

    def epsilon(count: int) -> float:
        event = dp_event.SelfComposedDpEvent(dp_event.RandomizedResponseDpEvent(0.5, 2), count)
        accountant = PLDAccountant(NeighboringRelation.REPLACE_ONE)
        return float(accountant.compose(event).get_epsilon(1e-6))

    assert epsilon(20) == epsilon(1)
