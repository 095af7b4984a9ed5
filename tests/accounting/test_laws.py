"""Laws that hold for every event in the registry and every accountant."""

from __future__ import annotations

import json
import math
from dataclasses import replace
from fractions import Fraction
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from release.accounting import (
    ACCOUNTANTS,
    EVENTS,
    ORDERS,
    RHO_UNITS,
    Budget,
    Charge,
    Composed,
    Event,
    Spend,
    accountants_for,
    delta_charge,
    epsilons,
    event_from_json,
    gdp_epsilon,
    rdp_epsilon,
    zcdp_epsilon,
)
from tests.accounting.examples import BY_NOISE, KINDS, events

ORDER = Fraction(8)
deltas = st.sampled_from([1e-15, 1e-9, 1e-6, 1e-3, 0.1])
spends = st.integers(1, 10**15)
EVERY_FORMULA = [gdp_epsilon, rdp_epsilon, zcdp_epsilon]
few = settings(max_examples=40, deadline=None)


def test_every_kind_is_listed() -> None:
    assert KINDS.keys() == EVENTS.keys() == BY_NOISE.keys()


@few
@given(events)
def test_json_brings_back_the_event(event: Event) -> None:
    document = json.loads(json.dumps(event.to_json()))
    assert event_from_json(document) == event


@few
@given(events, st.integers(1, 20))
def test_n_charges_are_one_charge_of_n(event: Event, times: int) -> None:
    many = replace(event, count=event.count * times)  # type: ignore[type-var]
    stored = [event_from_json(event.to_json()) for _ in range(times)]
    replayed = Spend()
    for row in stored:
        replayed = replayed.plus(row)
    assert replayed == Spend().plus(many) == Spend().plus(Composed((event,), times))
    assert many.delta0() == times * event.delta0()
    for name in accountants_for(event):
        accountant = ACCOUNTANTS[name]
        assert accountant.charge(many, ORDER) == times * accountant.charge(event, ORDER)


@few
@given(st.lists(events, min_size=2, max_size=4), st.randoms(use_true_random=False))
def test_order_does_not_matter(parts: list[Event], random: object) -> None:
    other = list(parts)
    random.shuffle(other)  # type: ignore[attr-defined]
    one, two = Spend(), Spend()
    for a, b in zip(parts, other, strict=True):
        one, two = one.plus(a), two.plus(b)
    assert one == two == Spend().plus(Composed(tuple(parts)))
    assert Spend.from_json(json.loads(json.dumps(one.to_json()))) == one


@few
@given(events)
def test_a_charge_is_never_below_the_cost(event: Event) -> None:
    rho = event.rho()
    for name in accountants_for(event):
        charge = ACCOUNTANTS[name].charge(event, ORDER)
        assert charge > 0
        if name != "rdp" and rho is not None:
            assert Fraction(charge, RHO_UNITS) >= rho
    assert Fraction(delta_charge(event), 10**18) >= event.delta0()
    if rho is not None:
        uses = sum(count for _, count in event.uses())
        for order, cost in zip(ORDERS, event.rdp(ORDERS), strict=True):
            assert cost <= order * rho * RHO_UNITS + uses


@pytest.mark.parametrize("kind", sorted(EVENTS))
@few
@given(noise=st.floats(0.5, 50.0), more=st.floats(1.0, 4.0), count=st.integers(1, 50))
def test_more_noise_never_costs_more(kind: str, noise: float, more: float, count: int) -> None:
    if kind == "poisson-gaussian":
        noise, more = 0.5 * math.ceil(noise / 10), math.ceil(more)
    loud, quiet = BY_NOISE[kind](noise * more, count), BY_NOISE[kind](noise, count)
    for cheap, dear in zip(loud.rdp(ORDERS), quiet.rdp(ORDERS), strict=True):
        assert cheap <= dear
    for name in accountants_for(loud):
        accountant = ACCOUNTANTS[name]
        assert accountant.charge(loud, ORDER) <= accountant.charge(quiet, ORDER)


@few
@given(events)
def test_a_curve_rises_with_its_order(event: Event) -> None:
    curve = event.rdp(ORDERS)
    uses = sum(count for _, count in event.uses())
    assert all(low <= high + uses for low, high in pairwise(curve))


@few
@given(events, deltas)
def test_every_epsilon_is_a_number_above_zero_or_zero(event: Event, delta: float) -> None:
    for value in Spend().plus(event).epsilons(delta).values():
        assert value is None or value >= 0


@pytest.mark.parametrize("formula", EVERY_FORMULA)
@settings(max_examples=100, deadline=None)
@given(spent=spends, more=spends, delta=st.floats(1e-15, 0.1), less=st.floats(0.01, 0.99))
def test_epsilon_grows_with_rho_and_falls_with_delta(
    formula: type, spent: int, more: int, delta: float, less: float
) -> None:
    rho, larger = Fraction(spent, RHO_UNITS), Fraction(spent + more, RHO_UNITS)
    epsilon = formula(rho, delta)
    assert epsilon <= formula(larger, delta) * (1 + 1e-15)
    assert epsilon <= formula(rho, delta * less) * (1 + 1e-15)


@settings(max_examples=100, deadline=None)
@given(spent=spends, delta=st.floats(1e-15, 0.1))
def test_the_formulas_stand_in_their_order(spent: int, delta: float) -> None:
    found = epsilons(spent, delta)
    assert None not in found.values()
    gdp, rdp, classic, zcdp = (found[name] or 0.0 for name in found)
    assert gdp <= rdp <= zcdp <= classic * (1 + 1e-14)
    # 0 is reported only for what is (0, δ)-DP: total variation at most δ.
    if gdp == 0:
        assert math.erf(math.sqrt(spent / RHO_UNITS) / 2) <= delta * (1 + 1e-9)


@pytest.mark.parametrize("name", sorted(ACCOUNTANTS))
@few
@given(epsilon=st.fractions(Fraction(1, 2), 20), delta=deltas)
def test_a_full_account_is_worth_its_budget(name: str, epsilon: Fraction, delta: float) -> None:
    budget = Budget.open(name, epsilon, delta)
    assert budget.cap > 0
    assert budget.spent_epsilon(budget.cap) <= float(epsilon) * (1 + 1e-15)
    assert budget.spent_epsilon(budget.cap) >= float(epsilon) * (1 - 1e-6)
    assert budget.spent_epsilon(0) == 0


@pytest.mark.parametrize("name", sorted(ACCOUNTANTS))
@few
@given(spent=st.integers(0, 10**12), charge=st.integers(1, 10**12))
def test_an_account_admits_what_its_remainder_does(name: str, spent: int, charge: int) -> None:
    budget = Budget.open(name, 1, 1e-6)
    left = replace(budget, cap=budget.cap - spent)
    admitted = budget.admits(Charge(spent), Charge(charge))
    assert admitted == left.admits(Charge(0), Charge(charge)) == (spent + charge <= budget.cap)
