"""Groups that nobody listed: which appear, what that costs, and that nothing is left of the rest.

The threshold is held against exact probabilities, the totals against a plain reference, and a
whole project against its own files: no byte of them may hold a group that did not appear.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from contextlib import closing
from datetime import datetime
from decimal import Decimal
from fractions import Fraction
from pathlib import Path
from typing import Any

import mpmath
import numpy as np
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from release import planning
from release.accounting import DELTA_UNITS, RHO_UNITS, Charge, delta_charge
from release.bounding import Totals, alone, totals
from release.errors import ConfigError, LedgerError
from release.ledger.chain import canonical
from release.ledger.records import Release, Terms
from release.mechanisms import GaussianMechanism, Threshold, affordable, threshold
from release.pipeline import Plan, plan, settle
from release.project import open_project
from release.sources import Wanted, open_rows
from release.specs import (
    MAX_GROUPS,
    ONE,
    Contribution,
    Count,
    Discover,
    Leaderboard,
    Mean,
    Noise,
    Scale,
    Statistic,
    Sum,
    texts_of,
)
from release.statistics.intervals import rank_ranges
from release.windows import Window
from tests import reference
from tests.ledger.examples import NOW, funded, job, opened, still, week
from tests.ledger.places import Place
from tests.projects import Table, after_weeks, mean_job, write_project
from tests.reference import Asked, Row
from tests.simulation import RELEASES, expected, noisy
from tests.test_bounding import (
    BOUNDS,
    END,
    SALT,
    START,
    WINDOW,
    Bounding,
    assert_within,
    batches,
    case,
    dataset,
    slowly,
    table,
)

# --------------------------------------------------------------------------------- the threshold

SEEN = [1, 2, 3, 16, 48, 1000]


@st.composite
def contributions(draw: st.DrawFn) -> Contribution:
    """Bounds of every sort under which groups can be discovered."""
    kind: Bounding = draw(st.sampled_from(["clip", "sample"]))
    R, G = draw(st.sampled_from([1, 1, 2, 7])), draw(st.integers(1, 9))
    more: dict[str, Any] = {}
    if kind == "clip":
        more["max_groups_seen"] = draw(st.none() | st.sampled_from([G, G + 1, 40, 1000]))
        if R * R * G > 1 and draw(st.booleans()):
            more["max_norm"] = Decimal(draw(st.sampled_from(["1", "1.2"])))
    return Contribution(max_groups=G, max_rows_per_group=R, bounding=kind, **more)


def counted_alone(contribution: Contribution, t: int) -> Any:
    """The most that a unit counts, in steps, in each of t groups: by the design, not the code."""
    norm = mpmath.sqrt(mpmath.mpf(contribution.norm_squared.numerator))
    norm /= mpmath.sqrt(mpmath.mpf(contribution.norm_squared.denominator))
    R = contribution.max_rows_per_group
    if contribution.bounding == "clip" and R == 1:
        most = min(1, norm / mpmath.sqrt(t))
    else:
        most = min(R, norm)
    return most * ONE * (1 + mpmath.mpf(10) ** -9)


def appears_alone(tau: int, contribution: Contribution, sigma: int, t: int) -> Any:
    """The probability that any of a unit's t groups, in which nobody else is, appears."""
    stays = mpmath.ncdf((tau - counted_alone(contribution, t)) / sigma)
    return 1 - stays**t


@given(
    contributions(),
    st.one_of(st.integers(1, 10), st.integers(ONE // 9, 900 * ONE), st.just(2**62)),
    st.sampled_from([1e-18, 1e-12, 3.7e-9, 1e-6, 0.01, 0.4, 0.9]),
)
@settings(deadline=None, max_examples=150)
def test_no_group_of_one_unit_passes_the_threshold_but_with_delta0(
    contribution: Contribution, sigma: int, delta0: float
) -> None:
    tau = threshold(alone(contribution), sigma, delta0).tau
    most = contribution.groups_seen
    looked_at = {1, most, *(t for t in SEEN if t <= most)}
    looked_at |= {t for t in range(1, 40) if t <= most}
    with mpmath.workdps(60):
        worst = max(appears_alone(tau, contribution, sigma, t) for t in looked_at)
        assert worst <= delta0
        if delta0 < 0.3:  # else τ may lie below what a unit counts, and is held at that
            less = tau - 2 - tau // 10**9
            assert max(appears_alone(less, contribution, sigma, t) for t in looked_at) > delta0


def test_a_threshold_for_max_groups_alone_would_not_do_under_clip() -> None:
    """A unit in more groups counts less in each, but has more chances: t = G is not the worst."""
    contribution = Contribution(max_groups=2, max_rows_per_group=1, max_groups_seen=2000)
    sigma, delta0 = 40 * ONE, 1e-6
    of_two = Contribution(max_groups=2, max_rows_per_group=1, max_groups_seen=2)
    short = threshold(alone(of_two), sigma, delta0).tau
    with mpmath.workdps(40):
        assert appears_alone(short, contribution, sigma, 2) <= delta0
        assert appears_alone(short, contribution, sigma, 2000) > 100 * delta0


def test_the_largest_bounds_have_a_threshold() -> None:
    contribution = Contribution(max_groups=MAX_GROUPS, max_rows_per_group=1)
    assert contribution.groups_seen == MAX_GROUPS
    tau = threshold(alone(contribution), 2**50, 1e-18).tau
    with mpmath.workdps(60):
        assert appears_alone(tau, contribution, 2**50, MAX_GROUPS) <= 1e-18


@pytest.mark.parametrize("right", [True, False])
def test_lone_groups_appear_as_rarely_as_is_said(*, right: bool) -> None:
    """2,000 releases with one unit in 30 groups of its own; a threshold for one group leaks."""
    contribution = Contribution(max_groups=3, max_rows_per_group=1, max_groups_seen=30)
    sigma, delta0, t = 20 * ONE, 0.02, 30
    of_one = Contribution(max_groups=3, max_rows_per_group=1, bounding="sample")
    one = threshold(alone(contribution if right else of_one), sigma, delta0)
    if not right:
        one = Threshold(one.tau - sigma, delta0)
    mechanism = GaussianMechanism(ONE, {"count": sigma}, one)
    count = math.floor(math.sqrt(3 / t) * ONE)
    drawn = noisy([count] * t * RELEASES, sigma, "lone groups")
    leaks = sum(
        any(map(mechanism.appears, drawn[start : start + t])) for start in range(0, len(drawn), t)
    )
    # Of the level 1 - δ₀: how many releases show nothing of the unit.
    assert (RELEASES - leaks >= expected(1 - delta0)[0]) == right


@given(st.integers(1, 10**18 - 1), st.sampled_from([1, 1, 7]))
def test_what_is_charged_for_a_threshold_is_within_what_was_set_aside(
    units: int, tau: int
) -> None:
    one = Threshold(tau, affordable(units))
    event = GaussianMechanism(ONE, {"count": ONE}, one).event
    assert 0 < delta_charge(event) <= units
    assert Fraction(one.delta0) * DELTA_UNITS > units * (1 - Fraction(1, 10**15)) - 1


def test_a_size_that_appears_with_a_probability() -> None:
    sigma, found = 10 * ONE, Threshold(70 * ONE + 1, 1e-9)
    assert found.size(sigma, 0.5) == 71
    assert found.size(sigma, 0.99) == 94  # 70 + 2.326·10, rounded up
    assert Threshold(1, 0.5).size(ONE, 0.5) == 1
    for probability in (0.5, 0.99):
        size = found.size(sigma, probability) * ONE
        drawn = noisy([size] * RELEASES, sigma, f"a size {probability}")
        shown = sum(GaussianMechanism(1, {"count": sigma}, found).appears(n) for n in drawn)
        assert shown >= expected(probability)[0]


# ------------------------------------------------------------------------------------ the totals


def asked(contribution: Contribution, bounds: Any = None) -> Asked:
    most = contribution
    norm = None if most.max_norm is None else Fraction(most.max_norm)
    return Asked(
        None, START, END, most.max_rows_per_group, most.max_groups, most.bounding, bounds, SALT,
        norm=norm, seen=most.groups_seen,
    )  # fmt: skip


def by_engine(
    folder: Path, rows: Sequence[Row], columns: int, contribution: Contribution, bounds: Any
) -> dict[tuple[str, tuple[str, ...]], int]:
    path = folder / "rows.parquet"
    pq.write_table(table(rows), path)
    by = tuple(f"what{i}" for i in range(columns))
    wanted = Wanted(by, None if bounds is None else "price")
    with open_rows(dataset(path.name), folder, wanted) as found:
        exact = totals(
            found,
            WINDOW,
            groups=None,
            contribution=contribution,
            scale=None if bounds is None else Scale.around_middle(*bounds),
            names=("count",) if bounds is None else ("count", "sum"),
            salt=SALT,
        )
    assert list(exact.groups) == sorted(exact.groups, key=texts_of)
    return {
        (name, texts_of(group)): steps
        for name, each in exact.of.items()
        for group, steps in zip(exact.groups, each, strict=True)
    }


@slowly
@given(batches, contributions(), st.sampled_from([None, *BOUNDS]), st.booleans())
def test_a_unit_moves_discovered_totals_by_its_own_vector(
    tmp_path_factory: pytest.TempPathFactory,
    batch: list[tuple[int, list[tuple[int, int]]]],
    contribution: Contribution,
    bounds: Any,
    wide: bool,  # noqa: FBT001
) -> None:
    folder = tmp_path_factory.mktemp("rows")
    # Cases share names, so that groups have several units and some have one alone.
    cases = [case("same", *one, bounds or BOUNDS[0], wide=wide)[0] for one in batch]
    rows = [
        Row(row.unit and f"{at}-{row.unit}", row.key, row.time, row.value)
        for at, each in enumerate(cases)
        for row in each
    ]
    vectors = reference.vectors(rows, asked(contribution, bounds))
    gone = sorted(map(str, vectors))[0]
    left = [row for row in rows if row.unit != gone]
    columns = 2 if wide else 1
    whole = by_engine(folder, rows, columns, contribution, bounds)
    less = by_engine(folder, left, columns, contribution, bounds)
    assert whole == dict(reference.by_group(vectors.values()))
    moved = {key: whole[key] - less.get(key, 0) for key in whole}
    assert less.keys() <= whole.keys()
    assert {key: steps for key, steps in moved.items() if steps} == {
        key: steps for key, steps in vectors[gone].items() if steps
    }
    for vector in vectors.values():
        assert_within(vector, contribution)
        assert len({group for _, group in vector}) <= contribution.groups_seen


def test_rows_of_names_beyond_all_sense_are_left_out(tmp_path: Path) -> None:
    rows = [Row("u", "é" * size, START) for size in (999, 1000, 1001)]
    rows += [Row("v", ("a", "b" * size), START) for size in (1000, 1001)]
    most = Contribution(max_groups=5, max_rows_per_group=5)
    found = by_engine(tmp_path, rows[:3], 1, most, None)
    assert sorted(len(group[0]) for _, group in found) == [999, 1000]
    found = by_engine(tmp_path, rows[3:], 2, most, None)
    assert [len(group[1]) for _, group in found] == [1000]


# -------------------------------------------------------------------------------------- a release

EVEN = ("a", "b", "c", "d", "e")


def planned(statistic: Statistic | None = None, **noise: Any) -> Plan:
    statistic = statistic or Count(by="g", groups="discover")
    most = Contribution(max_groups=2, max_rows_per_group=1)
    asked = job().model_copy(
        update={
            "statistic": statistic,
            "contribution": most,
            "noise": Noise(**(noise or {"releases": 3})),
        }
    )
    return plan(asked, funded("gdp", "3", threshold_share="0.2"))


def kinds(groups: Discover = "discover") -> Mapping[str, Statistic]:
    bounded: dict[str, Any] = {"value": "v", "bounds": (Decimal(1), Decimal(5))}
    return {
        "count": Count(by="g", groups=groups),
        "units": Count(by="g", groups=groups, of="units"),
        "sum": Sum(by="g", groups=groups, **bounded),
        "mean": Mean(by="g", groups=groups, **bounded),
        "board": Leaderboard(by="g", groups=groups, top=2),
    }


@given(
    st.sampled_from(sorted(kinds())),
    st.lists(st.tuples(st.integers(-3, 3), st.integers(-(2**66), 2**66)), max_size=6),
    st.sets(st.sampled_from([*EVEN, "gone"])),
)
@settings(deadline=None, max_examples=200)
def test_any_draw_shows_what_is_known_or_above_the_threshold_and_nothing_else(
    kind: str, draws: list[tuple[int, int]], known: set[str]
) -> None:
    one = planned(kinds("discover-new")[kind])
    assert one.mechanism.threshold is not None
    tau = one.mechanism.threshold.tau
    names = [f"g{place}" for place in range(len(draws))] if draws else []
    every = sorted({*names, *known})
    exact = Totals(names, {name: [0] * len(names) for name in one.mechanism.sigma})
    # Noisy counts at the threshold, beside it and far off; the sums are anything.
    heights = {name: tau + near for name, (near, _) in zip(names, draws, strict=True)}
    counts = [heights.get(name, 5 - tau) for name in every]
    sums = [far for _, far in draws] + [0] * len(every)
    given_out = iter([counts, sums[: len(every)]])

    def sampler(sigma: int | float | Fraction, count: int) -> NDArray[Any]:
        found = next(given_out)
        assert (len(found), sigma > 0) == (count, True)
        return np.array(found, dtype=object)

    release = one.published(exact, sampler, known)
    text = canonical(release.model_dump(mode="json"))
    assert Release.model_validate_json(text) == release
    shown = [name for name in every if name in known or heights[name] > tau]
    assert list(release.groups) == shown
    assert sorted(str(row.group) for row in release.table.rows) == shown
    assert all(len(each) == len(shown) for each in release.noisy.values())
    for name in set(names) - set(shown):
        assert json.dumps(name) not in text
    for row in release.table.rows:
        assert (row.count is not None) == (len(release.noisy) == 2)


def test_a_release_pays_for_its_threshold() -> None:
    terms = funded("gdp", "3", threshold_share="0.2")
    for one in (planned(), planned(kinds()["sum"]), planned(kinds()["mean"])):
        assert one.mechanism.threshold is not None
        assert one.charge.delta0 == delta_charge(one.mechanism.event)
        assert 0 < 3 * one.charge.delta0 <= terms.delta_cap < 3 * one.charge.delta0 + 300
        assert terms.budget.charge(one.mechanism.event).delta0 == one.charge.delta0
        assert terms.budget.charge(one.mechanism.event).units <= one.charge.units
    fixed = planned(rho=Decimal("0.01"), delta0=Decimal("2e-8"))
    assert fixed.charge == Charge(RHO_UNITS // 100, 2 * 10**10)


@pytest.mark.parametrize("kind", ["count", "sum", "mean", "board"])
@pytest.mark.parametrize(
    "most",
    [
        Contribution(max_groups=2, max_rows_per_group=1),
        Contribution(max_groups=3, max_rows_per_group=1, max_groups_seen=400),
        Contribution(max_groups=3, max_rows_per_group=4, max_norm=Decimal(5)),
        Contribution(max_groups=4, max_rows_per_group=5, bounding="sample"),
    ],
    ids=repr,
)
def test_a_plan_has_the_threshold_of_its_own_noise_and_bounds(
    kind: str, most: Contribution
) -> None:
    """The probability that lone groups appear is as great as its δ₀ allows, and no greater."""
    asked = planned(kinds()[kind]).job.model_copy(update={"contribution": most})
    mechanism = plan(asked, funded("gdp", "3", threshold_share="0.2")).mechanism
    assert mechanism.threshold is not None
    sigma = mechanism.sigma["count"]
    with mpmath.workdps(40):
        worst = max(
            appears_alone(mechanism.threshold.tau, most, sigma, t)
            for t in range(1, most.groups_seen + 1)
        )
        assert 0.99999 < worst / mechanism.threshold.delta0 <= 1


def test_a_board_is_told_which_of_its_groups_have_just_appeared() -> None:
    one = planned(kinds("discover-new")["board"])
    counts = [9000 * ONE, 6000 * ONE, 3000 * ONE]
    exact = Totals(["new", "known", "other"], {"count": counts})
    ranges = {
        row.group: (row.rank_lower, row.rank_upper)
        for row in one.published(exact, still, {"known", "other"}).table.rows
    }
    assert ranges == {"new": (1, 3), "known": (1, 2), "other": (2, 3)}
    fresh = one.published(exact, still)
    assert [(row.rank_lower, row.rank_upper) for row in fresh.table.rows] == [
        (1, 1),
        (2, 2),
        (3, 3),
    ]


def test_a_plan_counts_the_releases_that_its_thresholds_allow() -> None:
    terms = funded("gdp", "3", threshold_share="0.2")
    costly = plan(planned(rho=Decimal("0.0001"), delta0=Decimal("1e-7")).job, terms)
    assert set(planning.reach(costly, terms).values()) == {2}
    assert planning.thresholds_paid_for(costly, terms) == 2
    cut = planning.for_releases(costly.job, terms, 50)
    assert min(planning.reach(cut, terms).values()) <= 50
    assert planning.thresholds_paid_for(cut, terms) == 50
    listed = plan(planned(Count(by="g", groups=("a",))).job, terms)
    assert planning.thresholds_paid_for(listed, terms) is None


def test_a_plan_for_a_width_says_what_is_wrong_with_the_job_itself() -> None:
    asked = planned().job
    with pytest.raises(ConfigError, match="threshold"):
        planning.for_half_width(asked, funded("gdp", "3"), 10.0, 100)


@pytest.mark.parametrize(
    ("noise", "share"),
    [
        ({"rho": Decimal("0.01"), "delta0": Decimal("3e-8"), "share": Decimal("0.1")}, "0.2"),
        ({"rho": Decimal("0.01"), "delta0": Decimal("3e-7")}, "0.2"),
        ({"releases": 10**9}, "0.000000000001"),
        ({"releases": 2}, "0"),
    ],
)
def test_a_threshold_that_cannot_be_paid_for_is_a_fault(noise: dict[str, Any], share: str) -> None:
    asked = planned().job.model_copy(update={"noise": Noise(**noise)})
    with pytest.raises(ConfigError) as caught:
        plan(asked, funded("gdp", "3", threshold_share=share))
    (fault,) = caught.value.faults
    assert (fault.key, "threshold_share" in fault.allowed) == ("noise", True)


# -------------------------------------------------------------------------- intervals and ranges


@pytest.mark.parametrize("height", [-2.0, -1.0, 0.0, 1.0, 4.0])
def test_an_interval_that_misses_is_shown_no_more_often_than_is_said(height: float) -> None:
    """Over all releases of a group whose exact count lies so far from the threshold."""
    one = planned()
    assert one.mechanism.threshold is not None
    sigma, tau = one.mechanism.sigma["count"], one.mechanism.threshold.tau
    exact = round(tau + height * sigma)
    release = one.published(
        Totals([f"{n:04}" for n in range(RELEASES)], {"count": [exact] * RELEASES}),
        lambda _sigma, count: np.array(noisy([0] * count, sigma, f"heights {height}")),
    )
    shown = release.table.rows
    assert (len(shown) < RELEASES) == (height < 4)
    wrong = sum(not row.lower * ONE <= exact <= row.upper * ONE for row in shown)
    assert RELEASES - wrong >= expected(0.95)[0]


@pytest.mark.parametrize("gap", [0.0, 0.1, 1.0])
@pytest.mark.parametrize("known", [0, 3, 8])
@pytest.mark.parametrize("tau", [-9.0, 0.0, 1.5])
def test_ranges_of_ranks_hold_among_the_groups_that_appear(
    gap: float, known: int, tau: float
) -> None:
    """Near-ties around the threshold, of which some have appeared before: joint, given the rest.

    ``tau`` is in deviations; the first ``known`` of eight groups are shown whatever their count.
    """
    sigma, level = 2**20, 0.8
    exact = [round(gap * place * sigma) for place in range(8)]
    drawn = noisy(exact * RELEASES, sigma, f"found ranks {gap} {known} {tau}")
    held = releases = 0
    for start in range(0, len(drawn), 8):
        counts = drawn[start : start + 8]
        shown = [i for i in range(8) if i < known or counts[i] > tau * sigma]
        if len(shown) < 2:
            continue
        ranges = rank_ranges([counts[i] for i in shown], sigma, level, [i >= known for i in shown])
        truth = [exact[i] for i in shown]
        releases += 1
        held += all(
            low <= 1 + sum(other > mine for other in truth)
            and sum(other >= mine for other in truth) <= high
            for mine, (low, high) in zip(truth, ranges, strict=True)
        )
    assert releases > 100
    assert held >= expected(level, releases)[0]


def test_what_appears_among_the_known_is_told_to_be_above_none_of_them() -> None:
    counts = [0, 100, 200]
    assert rank_ranges(counts, 1, 0.95, [False] * 3) == [(3, 3), (2, 2), (1, 1)]
    assert rank_ranges(counts, 1, 0.95, [True] * 3) == [(3, 3), (2, 2), (1, 1)]
    assert rank_ranges(counts, 1, 0.95, [False, False, True]) == [(2, 3), (1, 2), (1, 3)]


# ------------------------------------------------------------------------------------ the ledger


def new(place: Place) -> tuple[Any, Terms]:
    terms = funded("gdp", "3", threshold_share="0.2")
    return opened(place, opening=terms), terms


def settled(ledger: Any, one: Plan, number: int, counts: Mapping[str, float]) -> Release | None:
    """Releases a week in which the groups have such exact counts, without noise."""
    names = sorted(counts)
    exact = Totals(names, {"count": [round(counts[name] * ONE) for name in names]})
    done = settle(ledger, one, week(number), lambda *_: exact, sampler=still, now=NOW)
    if done.status != "published" or done.entry is None:
        return None
    (account,) = ledger.accounts()
    found: Release = account.releases[done.entry.seq]
    return found


def test_what_has_appeared_is_shown_for_ever_after(place: Place) -> None:
    ledger, terms = new(place)
    asked = planned(kinds("discover-new")["count"], releases=9).job
    with closing(ledger):
        one = plan(asked, terms)
        first = settled(ledger, one, 0, {"tea": 1000, "rare": 1})
        second = settled(ledger, one, 1, {"milk": 1000, "rare": 1})
        third = settled(ledger, one, 2, {})
        assert first is not None
        assert second is not None
        assert third is not None
        assert [first.groups, second.groups, third.groups] == [
            ("tea",),
            ("milk", "tea"),
            ("milk", "tea"),
        ]
        assert third.noisy == {"count": (0, 0)}
        assert [ledger.verify()[1], place.entries()[-1]["kind"]] == [[], "release"]
        spent = place.entries()[-1]["delta_spent"]
        assert spent == 3 * one.charge.delta0 > 0


def test_what_appeared_is_known_back_to_where_the_columns_were_others(place: Place) -> None:
    ledger, terms = new(place)
    every = planned(kinds("discover")["count"], releases=9).job
    fresh = {"statistic": kinds("discover-new")["count"]}
    other = {"statistic": Count(by="h", groups="discover-new")}
    listed = {"statistic": Count(by="g", groups=("listed",))}
    with closing(ledger):

        def groups(change: dict[str, Any], number: int, **counts: float) -> Any:
            one = plan(every.model_copy(update=change), terms)
            if not one.job.statistic.discovers:
                counts = {"listed": counts["listed"]}
            found = settled(ledger, one, number, counts)
            return found and found.groups

        assert groups({}, 0, old=1000, older=1000) == ("old", "older")
        assert groups(listed, 1, listed=0.0) == ("listed",)
        assert groups({}, 2, old=1000) == ("old",)
        assert groups(fresh, 3, new=1000) == ("listed", "new", "old", "older")
        assert groups(fresh, 4) == ("listed", "new", "old", "older")
        assert groups(other, 5, new=1000) == ("new",)
        assert groups(fresh, 6) == ()


def test_what_another_run_has_published_meanwhile_is_known(place: Place) -> None:
    """Rows are read before the lock; what is public is asked for under it."""
    ledger, terms = new(place)
    one = plan(planned(kinds("discover-new")["count"], releases=9).job, terms)
    with closing(ledger), closing(place.ledger()) as other:

        def read(_window: Window, _key: str) -> Totals:
            assert settled(other, one, 1, {"tea": 1000}) is not None
            return Totals(["milk"], {"count": [1000 * ONE]})

        done = settle(ledger, one, week(0), read, sampler=still, now=NOW)
        (account,) = ledger.accounts()
        assert done.entry is not None
        assert account.releases[done.entry.seq].groups == ("milk", "tea")


def test_an_edited_result_makes_nothing_known(place: Place) -> None:
    ledger, terms = new(place)
    one = plan(planned(kinds("discover-new")["count"], releases=9).job, terms)
    with closing(ledger):
        assert settled(ledger, one, 0, {"tea": 1000}) is not None
        place.lift_rules()
        place.sql("UPDATE releases SET content = replace(content, 'tea', 'rare')")
        exact = Totals(["rare"], {"count": [ONE]})
        with pytest.raises(LedgerError, match="edited"):
            settle(ledger, one, week(1), lambda *_: exact, sampler=still, now=NOW)


def test_a_window_whose_threshold_does_not_fit_is_refused(place: Place) -> None:
    ledger, terms = new(place)
    asked = planned(rho=Decimal("0.0001"), delta0=Decimal("1e-7")).job
    with closing(ledger):
        one = plan(asked, terms)
        for number in range(2):
            assert settled(ledger, one, number, {}) is not None
        assert settled(ledger, one, 2, {}) is None
        assert place.entries()[-1]["kind"] == "refusal"
        assert ledger.verify()[1] == []


# --------------------------------------------------------------------------------- whole projects


def visits() -> list[Table]:
    """600 people who buy tea, 400 of whom buy coffee, and things that one of them buys alone."""
    bought = [("tea", unit) for unit in range(600)] + [("  coffee ", unit) for unit in range(400)]
    bought += [(f"secret-{number}", 0) for number in range(20)]
    at = datetime(2026, 1, 6, 12)
    return [
        {"customer_id": unit, "category": name, "rating": 3, "rated_at": at}
        for name, unit in bought
    ]


@pytest.mark.parametrize("kind", ["count", "mean", "sum", "leaderboard"])
def test_no_byte_of_a_project_holds_a_group_that_did_not_appear(
    tmp_path: Path,
    caplog: pytest.LogCaptureFixture,
    capfd: pytest.CaptureFixture[str],
    kind: str,
) -> None:
    statistic: Table = {"kind": kind, "by": "category", "groups": "discover-new"}
    if kind in {"mean", "sum"}:
        statistic |= {"value": "rating", "bounds": [1, 5]}
    if kind == "leaderboard":
        statistic |= {"top": 1}
    whole = {"releases": 5, "share": Decimal(1)}
    write_project(
        tmp_path,
        jobs={"found": mean_job(title="Found", statistic=statistic, noise=whole)},
        rows=visits(),
        budget={"epsilon": Decimal(4), "threshold_share": Decimal("0.2")},
    )
    with caplog.at_level("DEBUG"), open_project(tmp_path) as project:
        run = project.run(datetime.fromisoformat(after_weeks(2)))
        assert [one.status for one in run.settled] == ["published"] * 2
        assert project.verify()[1] == []
    files = [path for path in tmp_path.rglob("*") if path.is_file()]
    public = [path for path in files if path.suffix != ".parquet"]
    assert len(public) == len(files) - 1
    assert any(b"coffee" in path.read_bytes() for path in public)
    assert not [path for path in public if b"secret-" in path.read_bytes()]
    assert "secret-" not in caplog.text + "".join(capfd.readouterr())
    for window in ("2026-01-05", "2026-01-12"):
        text = (tmp_path / "site/jobs/found" / window / "data.csv").read_text(encoding="utf-8")
        names = [line.split(",")[0] for line in text.splitlines()]
        assert sorted(names) == ["coffee", "group", "tea"]


def test_a_week_in_which_nothing_appears_is_a_page_that_says_so(tmp_path: Path) -> None:
    statistic = {"kind": "count", "by": "category", "groups": "discover"}
    write_project(
        tmp_path,
        jobs={"found": mean_job(title="Found", statistic=statistic)},
        budget={"threshold_share": Decimal("0.2")},
    )
    with open_project(tmp_path) as project:
        run = project.run(datetime.fromisoformat(after_weeks(1)))
    assert [one.status for one in run.settled] == ["published"]
    folder = tmp_path / "site/jobs/found/2026-01-05"
    page = (folder / "index.html").read_text(encoding="utf-8")
    assert "No group appeared" in page
    assert "<tbody>\n</tbody>" not in page
    document = json.loads((folder / "release.json").read_text(encoding="utf-8"))
    assert document["rows"] == []
    assert document["mechanism"]["threshold"]["tau"] > 0
