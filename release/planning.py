"""What jobs will cost and show, from public parameters alone: no row is read.

The timeline asks the filter itself, window by window as each ends, so that its dates are those
on which the budget will stop.
"""

from __future__ import annotations

import heapq
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice

from release import accounting
from release.accounting import (
    Charge,
    Spend,
    admits,
    share_cap,
)
from release.errors import ConfigError, UsageError
from release.ledger.records import Terms
from release.pipeline import LEAST_CHARGE, Plan, plan
from release.specs import ONE, Job
from release.windows import Window

MOST_WINDOWS = 520
"""How many windows of each job a timeline looks ahead."""


@dataclass(frozen=True)
class Position:
    """Where an account stands: what the filter counts, what each job spent, the odometer."""

    terms: Terms
    spent: Charge
    of_job: Mapping[str, int]
    sums: Spend


@dataclass(frozen=True)
class Step:
    """One window to come: admitted at its plan's charge, or refused, which ends its job."""

    plan: Plan
    window: Window
    admitted: bool
    sums: Spend
    """The account's odometer after it."""


def timeline(
    plans: Mapping[str, Plan], ahead: Mapping[str, Iterable[Window]], position: Position
) -> Iterator[Step]:
    """The windows to come of one account's jobs; ``ahead`` has each job's unsettled ones.

    They are settled as they end, and those that end together in the order of a run: oldest
    first, then by the job's name.
    """
    spent, sums = position.spent, position.sums
    of_job = dict(position.of_job)
    queue = heapq.merge(
        *(
            [
                (window.end, window.start, name, window)
                for window in islice(ahead[name], MOST_WINDOWS)
            ]
            for name in plans
        )
    )
    stopped: set[str] = set()
    for _, _, name, window in queue:
        one, before = plans[name], of_job.get(name, 0)
        if name in stopped:
            continue
        admitted = position.terms.budget.admits(spent, one.charge) and admits(
            before, one.charge.units, one.job_cap
        )
        if admitted:
            spent = Charge(spent.units + one.charge.units, spent.delta0 + one.charge.delta0)
            of_job[name] = before + one.charge.units
            sums = sums.plus(one.mechanism.event, charged=position.terms.rho_of(one.charge))
        else:
            stopped.add(name)
        yield Step(one, window, admitted, sums)


def for_releases(job: Job, terms: Terms, releases: int) -> Plan:
    """The job as if its share were sized for so many releases."""
    noise = job.noise.model_copy(update={"releases": releases, "rho": None, "delta0": None})
    return plan(job.model_copy(update={"noise": noise}), terms)


def for_half_width(job: Job, terms: Terms, half_width: float, size: int) -> Plan:
    """The job at the least cost whose interval is no longer at that size of group.

    Raises UsageError where the whole of the job's share is too little for it.
    """
    plan(job, terms)  # what is wrong with it at its own cost is no matter of the noise
    low, high = LEAST_CHARGE - 1, share_cap(terms.cap, job.noise.share)

    def reaches(units: int) -> bool:
        try:
            one = plan(job, terms, units=units)
        except ConfigError:
            return False  # so little pays only for noise beyond what can be drawn
        found = half_widths(one, [size])[size]
        return found is not None and found <= half_width

    if high <= low or not reaches(high):
        raise UsageError(
            f"jobs/{job.name}.toml: no noise that its share can pay for reaches a half-width of "
            f"{half_width:g} at a group of {size}",
            hint="Ask for a wider interval or a larger group.",
        )
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if reaches(middle) else (middle, high)
    return plan(job, terms, units=high)


def rho_units(one: Plan, terms: Terms) -> int:
    """The ρ of one release in whole units of 1e-12, as the ledger will add it up."""
    # Noise on totals is Gaussian, so there is a ρ, whatever the account counts.
    return Spend().plus(one.mechanism.event, charged=terms.rho_of(one.charge)).rho or 0


def reach(one: Plan, terms: Terms) -> dict[str, int]:
    """How many such releases fit into the job's share of (ε, δ), by each formula.

    ``zcdp`` is the textbook's formula, for comparison.
    """
    budget, share = terms.budget, one.job.noise.share
    found = accounting.reach(rho_units(one, terms), budget.epsilon, budget.delta, share)
    thresholds = thresholds_paid_for(one, terms)
    if thresholds is None:
        return found
    return {name: min(fit, thresholds) for name, fit in found.items()}


def thresholds_paid_for(one: Plan, terms: Terms) -> int | None:
    """How many releases the job's share of δ_T pays for; None where they have no threshold."""
    if one.charge.delta0 == 0:
        return None
    return share_cap(terms.delta_cap, one.job.noise.share) // one.charge.delta0


def smallest_reliable(one: Plan) -> int | None:
    """The least size of a group that is shown as reliable, at the middle of the bounds.

    None where there is none, and 0 where every size is.
    """
    low, high = -1, 2**40
    if half_widths(one, [high])[high] is None:
        return None
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (
            (low, middle) if half_widths(one, [middle])[middle] is not None else (middle, high)
        )
    return high


def split(one: Plan) -> dict[str, float]:
    """The part of ρ that each total gets."""
    return {name: float(part) for name, part in one.statistic.split(one.job.statistic).items()}


def norms(one: Plan) -> tuple[float, float]:
    """The norm that one unit's weights are shrunk to, and what it would be without ``max_norm``.

    At the same cost the noise is in proportion to it.
    """
    bounds = one.job.contribution
    without = bounds.model_copy(update={"max_norm": None})
    return math.sqrt(bounds.norm_squared), math.sqrt(without.norm_squared)


def sigmas(one: Plan) -> dict[str, float]:
    """The noise on each total, in the statistic's own units."""
    measured = one.statistic.measured(one.job.statistic)
    unit = {"count": 1.0, "sum": measured[1].half if measured else 1.0}
    return {name: sigma / ONE * unit[name] for name, sigma in one.mechanism.sigma.items()}


def half_widths(one: Plan, sizes: Sequence[int]) -> dict[int, float | None]:
    """Half the length of the interval for each size of group; None where none is published."""
    spec, sigma, level = one.job.statistic, one.mechanism.sigma, float(one.job.level)
    return {size: one.statistic.half_width(spec, sigma, level, size) for size in sizes}
