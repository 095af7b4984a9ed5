"""Plans from public parameters alone, held to what the ledger then admits and what noise does."""

from __future__ import annotations

import math
import tempfile
from collections.abc import Iterator
from datetime import date
from decimal import Decimal
from itertools import count, islice
from pathlib import Path
from statistics import NormalDist, median
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from release import planning
from release.accounting import ACCOUNTANTS, Charge, Spend, share_cap
from release.cli.plans import plans as planned_document
from release.errors import ConfigError, UsageError
from release.ledger.records import Terms
from release.ledger.store import Ledger
from release.pipeline import LEAST_CHARGE, Plan, plan
from release.planning import Position
from release.project import Project, open_project
from release.specs import ONE, Job, Leaderboard, Mean, Noise, Statistic, Sum
from release.windows import Kind, Window
from tests.command import dp_release
from tests.ledger.examples import ZONE, funded, job, opened, release, terms
from tests.projects import after_weeks, count_job, leaderboard_job, mean_job, write_project

STARTS: dict[Kind, date] = {
    "day": date(2026, 1, 5),
    "week": date(2026, 1, 5),
    "month": date(2026, 1, 1),
}
# Two-sided 95 % of a standard normal, from a table.
Z = 1.959963984540054


def windows(one: Job) -> Iterator[Window]:
    window = Window(one.window, one.start, ZONE)
    while True:
        yield window
        window = Window(window.kind, window.after, window.zone)


def some(found: Any, many: int) -> list[Any]:
    return list(islice(found, many))


# ---------------------------------------------------------------------------- the timeline


@st.composite
def shops(draw: st.DrawFn) -> list[Job]:
    """A few jobs whose shares add up to 1 or less, of any kind of window."""
    parts = draw(st.lists(st.integers(1, 9), min_size=1, max_size=3))
    jobs = []
    for number, part in enumerate(parts):
        kind = draw(st.sampled_from(sorted(STARTS)))
        share = str(Decimal(part * 1000 // sum(parts)) / 1000)
        name = draw(st.sampled_from(["board", "mean"])) + str(number)
        one = job(name, draw(st.integers(1, 4)), share)
        jobs.append(one.model_copy(update={"window": kind, "start": STARTS[kind]}))
    return jobs


def position(found: Ledger, opening: Terms, jobs: list[Job]) -> Position:
    with found.looking("shop") as view:
        of_job = {one.name: view.job_spent(one.name) for one in jobs}
        return Position(opening, view.head.last.spent, of_job, view.head.last.sums)


@settings(deadline=None, max_examples=25)
@given(
    shops(),
    st.sampled_from(sorted(ACCOUNTANTS)),
    st.lists(st.tuples(st.integers(0, 2), st.integers(0, 5)), max_size=4),
    st.integers(0, 2**31),
)
def test_the_timeline_says_what_the_ledger_then_does(
    jobs: list[Job], accountant: str, before: list[tuple[int, int]], taken: int
) -> None:
    with tempfile.TemporaryDirectory() as folder:
        opening = funded(accountant, "0.5")
        found = opened(Path(folder), opening=opening)
        plans = {one.name: plan(one, opening) for one in jobs}
        # Some windows are settled already, in any order and with gaps between them.
        for which, number in before:
            one = jobs[which % len(jobs)]
            release(found, some(windows(one), number + 1)[-1], plans[one.name])
        settled = {one.name: found.settled("shop", one.name) for one in jobs}
        ahead = {
            one.name: [each for each in some(windows(one), 20) if each not in settled[one.name]]
            for one in jobs
        }
        steps = list(planning.timeline(plans, ahead, position(found, opening, jobs)))
        assert [step.window.end for step in steps] == sorted(step.window.end for step in steps)
        stopped = set()
        for step in steps:
            name = step.plan.job.name
            assert name not in stopped
            done = release(found, step.window, step.plan)
            assert done.status == ("published" if step.admitted else "refused")
            assert done.entry is not None
            assert done.entry.sums == step.sums
            if not step.admitted:
                stopped.add(name)
        # Every job came to its stop, and each later window would be refused as well.
        assert stopped == set(plans)
        for one in jobs:
            after = ahead[one.name][-1 - taken % 5]
            done = release(found, after, plans[one.name])
            assert done.status in {"refused", "already"}
            assert done.entry is not None
            assert done.entry.kind == "refusal"
        found.close()


def test_windows_come_as_they_end_then_oldest_first_then_by_name() -> None:
    opening = terms(cap=10**12)
    kinds: list[tuple[str, Kind]] = [("mean", "month"), ("board1", "week"), ("board0", "week")]
    jobs = [
        job(name, 100).model_copy(update={"window": kind, "start": STARTS[kind]})
        for name, kind in kinds
    ]
    plans = {one.name: plan(one, opening) for one in jobs}
    nothing = planning.timeline(
        plans,
        {one.name: windows(one) for one in jobs},
        Position(opening, Charge(0), {}, Spend()),
    )
    found = [(step.plan.job.name, step.window.name) for step in islice(nothing, 9)]
    assert found == [
        *((name, day) for day in ("2026-01-05", "2026-01-12", "2026-01-19")
          for name in ("board0", "board1")),
        ("mean", "2026-01-01"),
        ("board0", "2026-01-26"),
        ("board1", "2026-01-26"),
    ]  # fmt: skip


def test_a_plan_goes_on_from_what_a_project_has_settled(tmp_path: Path) -> None:
    write_project(tmp_path, jobs={"mean": mean_job(noise={"releases": 4})})
    assert dp_release(tmp_path, "run", "--now", after_weeks(3)).code == 0
    with open_project(tmp_path) as project:
        document = plan_of(project)
        (steps,) = (account["releases"] for account in document["accounts"])
        assert [(step["window"], step["admitted"]) for step in steps] == [
            ("2026-01-26", True),
            ("2026-02-02", False),
        ]
        assert document["jobs"][0]["stop"]["window"] == "2026-02-02"
    done = dp_release(tmp_path, "run", "--now", after_weeks(5), "--json")
    assert [one["status"] for one in done.document["releases"]] == ["published", "refused"]
    assert done.document["releases"][0]["epsilon"] == steps[0]["epsilon"]["gdp"]


def plan_of(project: Project, *names: str, **asked: Any) -> dict[str, Any]:
    chosen = {"sizes": [], "releases": None, "half_width": None} | asked
    return planned_document(project, project.jobs(names), **chosen)


def test_a_decade_of_weeks_is_planned_without_data(tmp_path: Path) -> None:
    noise = {"releases": 519, "share": Decimal("0.5")}
    jobs = {"mean": mean_job(noise=noise), "top": leaderboard_job(noise=noise)}
    write_project(tmp_path, jobs=jobs)
    (tmp_path / "data" / "ratings.parquet").unlink()
    with open_project(tmp_path) as project:
        document = plan_of(project)
    assert [one["stop"]["window"] for one in document["jobs"]] == ["2035-12-17"] * 2
    steps = document["accounts"][0]["releases"]
    assert [step["admitted"] for step in steps] == [True] * 1038 + [False] * 2
    for name in ("gdp", "rdp", "zcdp"):
        shown = [step["epsilon"][name] for step in steps]
        assert shown == sorted(shown)
    assert steps[-1]["epsilon"]["gdp"] <= 1.5
    assert not (tmp_path / "state").exists()


def test_one_job_is_planned_beside_the_others(tmp_path: Path) -> None:
    noise = {"releases": 3, "share": Decimal("0.5")}
    jobs = {"mean": mean_job(noise=noise), "top": leaderboard_job(noise=noise)}
    write_project(tmp_path, jobs=jobs)
    with open_project(tmp_path) as project:
        everything, one = plan_of(project), plan_of(project, "top", releases=3)
    assert [job["job"] for job in one["jobs"]] == ["top"]
    # The other job spends from the same account, whichever is looked at.
    assert one["accounts"] == everything["accounts"]


# ---------------------------------------------------------------------------- the other way


JOBS = [job("board"), job("mean")]


@pytest.mark.parametrize("accountant", ACCOUNTANTS)
@pytest.mark.parametrize("one", JOBS, ids=lambda one: one.name)
@settings(deadline=None, max_examples=30)
@given(releases=st.integers(1, 1000))
def test_planning_for_releases_is_what_the_job_would_get(
    accountant: str, one: Job, releases: int
) -> None:
    opening = funded(accountant)
    found = planning.for_releases(one, opening, releases)
    asked = one.model_copy(update={"noise": Noise(releases=releases, share=one.noise.share)})
    assert found.charge == plan(asked, opening).charge
    assert found.job_cap // found.charge.units == releases


@pytest.mark.parametrize("accountant", ACCOUNTANTS)
@pytest.mark.parametrize("one", JOBS, ids=lambda one: one.name)
@settings(deadline=None, max_examples=20)
@given(size=st.integers(1, 10**6), wanted=st.floats(1e-3, 1e4))
def test_planning_for_a_half_width_is_its_inverse(
    accountant: str, one: Job, size: int, wanted: float
) -> None:
    opening = funded(accountant)

    def width(planned: Plan) -> float:
        found = planning.half_widths(planned, [size])[size]
        return math.inf if found is None else found

    best = width(plan(one, opening, units=share_cap(opening.cap, one.noise.share)))
    if wanted < best:
        with pytest.raises(UsageError, match=f"at a group of {size}$"):
            planning.for_half_width(one, opening, wanted, size)
        return
    found = planning.for_half_width(one, opening, wanted, size)
    assert width(found) <= wanted
    assert LEAST_CHARGE <= found.charge.units <= found.job_cap
    if found.charge.units > LEAST_CHARGE:
        assert width(plan(one, opening, units=found.charge.units - 1)) > wanted


def test_a_half_width_can_be_asked_of_a_job_whose_least_noise_is_too_much_to_draw() -> None:
    wide = {"max_groups": 2**20, "max_rows_per_group": 2**20}
    one = job("board", share="1")
    one = one.model_copy(update={"contribution": one.contribution.model_copy(update=wide)})
    opening = funded("gdp", "8")
    with pytest.raises(ConfigError):
        plan(one, opening, units=LEAST_CHARGE)
    found = planning.for_half_width(one, opening, 2.0**32, 10)
    assert planning.half_widths(found, [10])[10] == pytest.approx(2.0**32, rel=1e-6)


# ---------------------------------------------------------------------------- how far, how exact


@pytest.mark.parametrize(
    ("epsilon", "expected"),
    [
        ("1", {"gdp": 28, "rdp": 24, "zcdp": 17}),
        ("2", {"gdp": 100, "rdp": 88, "zcdp": 67}),
        ("3", {"gdp": 209, "rdp": 185, "zcdp": 147}),
    ],
)
@pytest.mark.parametrize("accountant", ACCOUNTANTS)
def test_how_many_releases_fit_by_each_formula(
    accountant: str, epsilon: str, expected: dict[str, int]
) -> None:
    opening = funded(accountant, epsilon)
    one = job().model_copy(update={"noise": Noise(rho=Decimal("0.001"))})
    planned = plan(one, opening)
    assert planning.reach(planned, opening) == expected
    assert planning.rho_units(planned, opening) == pytest.approx(10**9, rel=1e-6)
    half = one.model_copy(update={"noise": Noise(rho=Decimal("0.001"), share=Decimal("0.5"))})
    halves = planning.reach(plan(half, opening), opening)
    assert all(expected[name] // 2 == fit for name, fit in halves.items())


def test_what_is_set_aside_for_thresholds_buys_no_release() -> None:
    with_all, less = funded("gdp", "2"), funded("gdp", "2", "0.9")
    one = job().model_copy(update={"noise": Noise(rho=Decimal("0.001"))})
    fit = planning.reach(plan(one, less), less)
    assert fit["gdp"] < planning.reach(plan(one, with_all), with_all)["gdp"]
    assert fit["gdp"] == less.cap // 10**9


def fieller(size: float, total: float, sigma_count: float, sigma_sum: float) -> float:
    """Half the length of the interval for sum/count, from the formula in its textbook form."""
    g = (Z * sigma_count / size) ** 2
    ratio = total / size
    variance = sigma_sum**2 + ratio**2 * sigma_count**2 - g * sigma_sum**2
    return Z / (size * (1 - g)) * math.sqrt(variance) if g < 1 else math.inf


@pytest.mark.parametrize("size", [1, 20, 50, 500, 10**5])
def test_half_widths_of_means_are_fiellers(size: int) -> None:
    planned = plan(job("mean", 10), funded("gdp", "1.5"))
    noise = planning.sigmas(planned)
    # Bounds from 1 to 5, so a step of 1 of the scaled sum is 2 of the rating.
    expected = 2 * fieller(size, 0, noise["count"], noise["sum"] / 2)
    found = planning.half_widths(planned, [size])[size]
    # A mean whose interval is longer than half of the bounds, 2 of 4, is not shown.
    assert (found is None) == (expected > 1)
    assert found is None or found == pytest.approx(expected, rel=1e-5)
    least = planning.smallest_reliable(planned)
    assert least is not None
    assert (found is None) == (size < least)


def test_half_widths_are_what_noise_gives() -> None:
    planned, size = plan(job("mean", 10), funded("gdp", "1.5")), 400
    noise = planning.sigmas(planned)
    counts = NormalDist(size, noise["count"]).samples(4000, seed=7)
    sums = NormalDist(0, noise["sum"] / 2).samples(4000, seed=8)
    lengths = [
        2 * fieller(one, total, noise["count"], noise["sum"] / 2)
        for one, total in zip(counts, sums, strict=True)
    ]
    found = planning.half_widths(planned, [size])[size]
    assert found == pytest.approx(median(lengths), rel=0.02)


def test_half_widths_of_counts_cover_the_noise() -> None:
    planned = plan(job("board", 10), funded("gdp", "1.5"))
    sigma = planning.sigmas(planned)["count"]
    widths = planning.half_widths(planned, [5, 50])
    assert widths[5] == widths[50] == pytest.approx(Z * sigma, rel=1e-5)
    noise = NormalDist(0, sigma).samples(20_000, seed=7)
    inside = sum(abs(draw) <= (widths[5] or 0) for draw in noise)
    assert inside / 20_000 == pytest.approx(0.95, abs=0.01)


def test_sigmas_are_in_the_statistics_own_units() -> None:
    planned = plan(job("mean", 10), funded("gdp", "1.5"))
    assert planning.sigmas(planned) == {
        "count": planned.mechanism.sigma["count"] / ONE,
        "sum": planned.mechanism.sigma["sum"] / ONE * 2,
    }


RATED: dict[str, Any] = {"by": "item", "groups": ("a", "b"), "value": "v"}


def asked(statistic: Statistic, **changes: Any) -> Plan:
    one = job("mean", 10).model_copy(update={"statistic": statistic, **changes})
    return plan(one, funded("gdp", "1.5"))


def test_the_noise_on_sums_is_in_their_own_units() -> None:
    planned = asked(Sum(**RATED, bounds=(Decimal(-40), Decimal(3))))
    sigma = planning.sigmas(planned)
    assert sigma == {"sum": planned.mechanism.sigma["sum"] / ONE * 40}
    widths = planning.half_widths(planned, [0, 10**6])
    assert widths[0] == widths[10**6] == pytest.approx(Z * sigma["sum"], rel=1e-5)
    assert planning.smallest_reliable(planned) == 0


@pytest.mark.parametrize(
    ("changes", "share", "by"),
    [
        ({}, 0.366025, "bounds"),
        ({"prior_mean": Decimal(5)}, 0.5, "prior_mean"),
        ({"prior_mean": Decimal("3.1")}, 0.2, "prior_mean"),
        ({"count_share": Decimal("0.1")}, 0.1, "count_share"),
    ],
)
def test_the_split_is_shown_with_what_decided_it(
    tmp_path: Path, changes: dict[str, Any], share: float, by: str
) -> None:
    job = mean_job()
    write_project(tmp_path, jobs={"mean": job | {"statistic": job["statistic"] | changes}})
    with open_project(tmp_path) as project:
        (document,) = plan_of(project)["jobs"]
    assert document["split"] == pytest.approx({"count": share, "sum": 1 - share})
    assert document["split_by"] == by
    said = dp_release(tmp_path, "plan").out
    assert f"of ρ {100 * share:.3g} % to the count and" in said
    noise = document["sigma"]
    # Each share of ρ buys noise of its own.
    assert noise["sum"] / noise["count"] == pytest.approx(2 * math.sqrt(share / (1 - share)))


def test_a_tighter_norm_is_shown_as_less_noise_for_more_bias(tmp_path: Path) -> None:
    contribution = {"max_groups": 4, "max_rows_per_group": 3, "max_norm": Decimal("1.5")}
    jobs = {
        "tight": count_job() | {"contribution": contribution, "level": Decimal("0.8")},
        "loose": count_job() | {"contribution": contribution | {"max_norm": Decimal("5.99")}},
    }
    noise = {"releases": 10, "share": Decimal("0.5")}
    write_project(tmp_path, jobs={name: one | {"noise": noise} for name, one in jobs.items()})
    with open_project(tmp_path) as project:
        loose, tight = plan_of(project, sizes=[10])["jobs"]
    assert (tight["max_norm"]["norm"], tight["max_norm"]["norm_without"]) == (1.5, 6)
    without = tight["max_norm"]["sigma_without"]["count"]
    assert without == pytest.approx(4 * tight["sigma"]["count"])
    assert loose["sigma"]["count"] == pytest.approx(without * 5.99 / 6, rel=1e-6)
    said = dp_release(tmp_path, "plan", "tight", "--group-size", "10").out
    assert "`max_norm` 1.5 in place of 6: less noise for more clipping bias; without it" in said
    assert f"{without:.4g} on each count" in said
    assert "interval of 80 % at a group of 10: ±" in said
    (width,) = (each["half_width"] for each in tight["half_widths"])
    assert width == pytest.approx(NormalDist().inv_cdf(0.9) * tight["sigma"]["count"], rel=1e-5)


def test_half_widths_of_a_board_of_means_are_those_of_means() -> None:
    limits = Decimal(1), Decimal(5)
    means = asked(Mean(**RATED, bounds=limits))
    board = asked(Leaderboard(**RATED, bounds=limits, of="mean", top=1))
    assert planning.half_widths(means, [50, 5000]) == planning.half_widths(board, [50, 5000])
    assert planning.split(means) == planning.split(board)


# ---------------------------------------------------------------------------- second looks


def warnings(folder: Path, **changes: Any) -> list[str]:
    write_project(folder, **changes)
    (folder / "data" / "ratings.parquet").unlink()
    with open_project(folder) as project:
        return [one for one in project.check() if "not stated, and the pages" not in one]


def test_check_warns_where_the_releases_do_not_fit_exactly(tmp_path: Path) -> None:
    jobs = {"many": mean_job(noise={"releases": 10**6})}
    (found,) = warnings(tmp_path, jobs=jobs, dataset={"population": 1000})
    with open_project(tmp_path) as project:
        opening = project.terms()["ratings"]
    fit = opening.cap // (opening.cap // 10**6)
    assert fit > 10**6
    assert found == (
        f"jobs/many.toml: noise.releases: {fit} releases fit and not 1000000, since the share is "
        f"only {opening.cap} units of 1e-12"
    )


def test_check_does_not_warn_where_they_fit(tmp_path: Path) -> None:
    for folder, releases in zip(count(), (1, 10, 1000), strict=False):
        jobs = {"mean": mean_job(noise={"releases": releases})}
        assert warnings(tmp_path / str(folder), jobs=jobs, dataset={"population": 1000}) == []


@pytest.mark.parametrize(
    ("population", "said"),
    [
        (100_000, None),
        (100_001, "not well below 1/100001"),
        (10**6, "not well below 1/1000000"),
        (None, "population is not stated, so δ = 0.000001 is not held against it"),
    ],
)
def test_check_holds_delta_against_the_population(
    tmp_path: Path, population: int | None, said: str | None
) -> None:
    found = warnings(tmp_path, dataset={"population": population})
    assert len(found) == (said is not None)
    assert said is None or said in found[0]
    assert all(one.startswith("dp-release.toml: dataset.ratings.") for one in found)


def test_check_reports_the_faults_of_every_job_and_account_at_once(tmp_path: Path) -> None:
    wide = {"max_groups": 2**20, "max_rows_per_group": 2**20}
    noise = {"releases": 10**9, "share": Decimal("0.5")}
    jobs = {
        "one": mean_job(contribution=wide, noise=noise),
        "two": leaderboard_job(contribution=wide, noise=noise),
    }
    write_project(tmp_path, jobs=jobs)
    with open_project(tmp_path) as project, pytest.raises(ConfigError) as raised:
        project.check()
    assert [fault.file for fault in raised.value.faults] == ["jobs/one.toml", "jobs/two.toml"]
