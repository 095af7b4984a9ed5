"""After the draw nothing can fail for one value and not for another, whatever was drawn."""

from __future__ import annotations

import json
import math
from decimal import Decimal
from fractions import Fraction
from typing import Any

import numpy as np
from hypothesis import example, given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from release.bounding import Totals
from release.ledger.chain import canonical
from release.ledger.records import Release
from release.noise import MAX_SIGMA, Sampler
from release.pipeline import Plan, plan
from release.specs import (
    ONE,
    Contribution,
    Count,
    Job,
    Leaderboard,
    Mean,
    Noise,
    Publish,
    Statistic,
    Sum,
    label,
)
from tests.ledger.examples import START, terms

GROUPS = ("Coffee", "Tea", "<é>", "Milk", "Cocoa", "Juice")
NAMES = ("count", "sum")
# Far beyond what rows and noise can be: 2^43 units of the largest weight, 2^6 times the largest σ.
HUGE = 2**68
FINITE = st.just(0.0) | st.floats(1e-99, 1e99) | st.floats(-1e99, -1e-99)


def apart(bounds: tuple[float, float]) -> bool:
    low, high = bounds
    return high - low >= 2.0**-39 * max(abs(low), abs(high), 1e-290)


BOUNDS = st.sampled_from(
    [(1.0, 5.0), (0.0, 1.0), (-1.0, 1.0), (0.0, 50.0), (1e12, 1e12 + 7), (-1e99, 1e99)]
) | st.tuples(FINITE, FINITE).map(lambda two: (min(two), max(two))).filter(apart)
CONTRIBUTIONS = st.builds(
    Contribution, max_groups=st.integers(1, 2**20), max_rows_per_group=st.integers(1, 2**20)
)


@st.composite
def plans(draw: st.DrawFn) -> Plan:
    groups = GROUPS[: draw(st.integers(1, len(GROUPS)))]
    low, high = (Decimal(repr(bound)) for bound in draw(BOUNDS))
    bounded: dict[str, Any] = {"by": "item", "groups": groups, "value": "v", "bounds": (low, high)}
    kinds: list[Statistic] = [
        Count(by="item", groups=groups),
        Sum(**bounded),
        Leaderboard(by="item", groups=groups, top=3),
        Leaderboard(**bounded, of="mean", top=3),
        Mean(**bounded),
    ]
    cap, releases = draw(st.sampled_from([(10**5, 1), (10**11, 10**6), (10**18, 10)]))
    job = Job(
        name="job",
        title="Job",
        dataset="shop",
        schedule="weekly",
        window="week",
        start=START,
        statistic=draw(st.sampled_from(kinds)),
        contribution=draw(CONTRIBUTIONS),
        noise=Noise(releases=releases),
        publish=draw(
            st.builds(
                Publish,
                nonnegative=st.booleans(),
                within_bounds=st.booleans(),
                rounded=st.booleans(),
            )
        ),
        level=draw(st.sampled_from([Decimal("0.5"), Decimal("0.95"), Decimal("0.9999")])),
    )
    return plan(job, terms(cap=cap))


def drawn(values: list[int]) -> Sampler:
    """A sampler that gives the values one after the other, as the real one would: in an array."""
    left = iter(values)

    def sampler(sigma: int | float | Fraction, count: int) -> NDArray[Any]:
        found = [next(left) for _ in range(count)]
        return np.array(found, dtype=object if max(map(abs, found)) >= 2**62 else np.int64)

    return sampler


@st.composite
def outcomes(draw: st.DrawFn) -> tuple[Plan, Totals, list[int]]:
    """A plan, exact totals, and draws that aim at every edge of what is computed from them."""
    planned = draw(plans())
    size = len(planned.job.statistic.listed)
    exact = {
        name: draw(st.lists(st.integers(-HUGE, HUGE) | st.integers(0, 9), min_size=size,
                            max_size=size))
        for name in NAMES
    }  # fmt: skip
    draws = []
    for name, sigma in planned.mechanism.sigma.items():
        edges = [0, 1, -1, sigma, -sigma, ONE, MAX_SIGMA, -MAX_SIGMA, 2**62, -(2**62)]
        # Fieller's interval is unbounded up to about 1.96 σ.
        edges += [195 * sigma // 100, 196 * sigma // 100, 197 * sigma // 100, 2 * sigma]
        wanted = st.integers(-HUGE, HUGE) | st.sampled_from(edges)
        for total in exact[name]:
            noisy = draw(wanted)
            draws.append(noisy - total if draw(st.booleans()) else noisy)
    return planned, Totals(planned.job.statistic.listed, exact), draws


def check(planned: Plan, found: Release) -> None:
    """The text of a release is its own, and each row is what a reader may rely on."""
    text = canonical(found.model_dump(mode="json"))
    assert canonical(json.loads(text)) == text
    assert Release.model_validate_json(text) == found
    job, rows = planned.job, found.table.rows
    assert sorted(map(label, (row.group for row in rows))) == sorted(
        map(label, job.statistic.listed)
    )
    assert found.mechanism.level == float(job.level)
    for row in rows:
        assert math.isfinite(row.lower)
        assert math.isfinite(row.upper)
        assert row.lower < row.upper
        assert (row.value is None) == (row.status != "published")
        if row.value is not None:
            assert row.lower <= row.value <= row.upper
        if "sum" in found.noisy and "count" in found.noisy:
            assert row.count is not None
            assert -math.inf < row.count < math.inf
        ranks = [row.rank_lower, row.rank, row.rank_upper]
        assert (None in ranks) == (not isinstance(job.statistic, Leaderboard))
        known = [1, *(rank for rank in ranks if rank is not None), len(rows)]
        assert known == sorted(known)


@given(outcomes())
@settings(max_examples=150, deadline=None)
def test_any_draw_gives_a_release(outcome: tuple[Plan, Totals, list[int]]) -> None:
    planned, exact, draws = outcome
    found = planned.published(exact, drawn(draws))
    check(planned, found)
    noise = iter(draws)
    for name in planned.mechanism.sigma:
        assert found.noisy[name] == tuple(total + next(noise) for total in exact.of[name])


def totals(counts: list[int], sums: list[int]) -> Totals:
    return Totals(GROUPS, {"count": counts, "sum": sums})


def small(kind: str) -> Plan:
    statistics: dict[str, Mean | Leaderboard] = {
        "mean": Mean(by="i", groups=GROUPS, value="v", bounds=(Decimal(1), Decimal(5))),
        "leaderboard": Leaderboard(by="i", groups=GROUPS, top=3),
    }
    job = Job(
        name="job",
        title="Job",
        dataset="shop",
        schedule="weekly",
        window="week",
        start=START,
        statistic=statistics[kind],
        contribution=Contribution(max_groups=1, max_rows_per_group=1),
        noise=Noise(releases=1),
    )
    return plan(job, terms(cap=10**11))


@given(kind=st.sampled_from(["mean", "leaderboard"]), near=st.integers(-3, 3))
@example(kind="mean", near=0)
def test_counts_at_nought_and_beside_it(kind: str, near: int) -> None:
    """Every noisy count is the same, at, just above or just below nought; the sums are huge."""
    planned = small(kind)
    exact = totals([7 * ONE] * len(GROUPS), [2**62] * len(GROUPS))
    draws = [near - 7 * ONE] * len(GROUPS) + [2**62] * len(GROUPS)
    found = planned.published(exact, drawn(draws))
    check(planned, found)
    if kind == "mean":
        assert {row.status for row in found.table.rows} == {"not-reliable"}
        assert {(row.lower, row.upper) for row in found.table.rows} == {(1.0, 5.0)}
    else:
        assert {(row.rank_lower, row.rank_upper) for row in found.table.rows} == {(1, 6)}


def test_a_sum_that_vanishes_is_the_middle_of_the_bounds() -> None:
    planned = small("mean")
    exact = totals([10**9 * ONE] * len(GROUPS), [5] * len(GROUPS))
    found = planned.published(exact, drawn([0] * len(GROUPS) + [-5] * len(GROUPS)))
    check(planned, found)
    assert {row.value for row in found.table.rows} == {3.0}
