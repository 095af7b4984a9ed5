"""One release, from window to ledger.

Everything that can be decided from public parameters is decided in ``plan``, before any row is
read. ``settle`` then follows the order that the guarantee rests on: look, read, and under the
account's lock look again, ask the filter, draw, write both charge and result, commit.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection
from dataclasses import dataclass, replace
from datetime import datetime
from fractions import Fraction
from typing import Any, Literal

from release import __version__
from release.accounting import (
    DELTA_UNITS,
    RHO_UNITS,
    Charge,
    delta_charge,
    per_release_charge,
    share_cap,
)
from release.bounding import Totals, alone, sensitivity
from release.errors import ConfigError, Fault
from release.ledger.queries import Head
from release.ledger.records import HALTS, Entry, Halt, Mechanism, Release, Software, Terms
from release.ledger.store import Ledger
from release.mechanisms import COUNT, RHO, GaussianMechanism, affordable, calibrated, threshold
from release.noise import Sampler
from release.specs import LATTICE_BITS, Job, Key, texts_of
from release.statistics import STATISTICS, Noisy, Statistic
from release.windows import Window

# Enough whole units for every total of a release to get one.
LEAST_CHARGE = 10

Status = Literal["published", "already", "refused", "failed"] | Halt
Read = Callable[[Window, str], Totals]
"""The exact totals of a window, given the account's sampling key."""


@dataclass(frozen=True)
class Plan:
    """A job's releases as public parameters fix them: each alike, at the same cost."""

    job: Job
    account: str
    charge: Charge
    """Of one release."""
    job_cap: int
    """What all of the job's releases may cost together, in whole units."""
    mechanism: GaussianMechanism
    statistic: Statistic[Any]

    def published(self, totals: Totals, sampler: Sampler, known: Collection[Key] = ()) -> Release:
        """Draws the noise and makes the release. From the draw on, nothing here can fail.

        Where groups are discovered, ``known`` are those that are public already.
        """
        noisy = self._drawn(totals, sampler, known)
        job, level = self.job, float(self.job.level)
        return Release(
            software=Software(name="dp-release", version=__version__),
            job=job,
            mechanism=Mechanism(
                lattice_bits=LATTICE_BITS,
                sensitivity=self.mechanism.sensitivity,
                sigma=dict(noisy.sigma),
                level=level,
                threshold=self.mechanism.threshold,
            ),
            discovered=tuple(noisy.groups) if job.statistic.discovers else None,
            noisy={name: tuple(each) for name, each in noisy.of.items()},
            table=self.statistic.table(job.statistic, noisy, level, job.publish),
        )

    def _drawn(self, totals: Totals, sampler: Sampler, known: Collection[Key]) -> Noisy:
        """The noisy totals of what is shown; of a group that is not, nothing is left."""
        sigma = self.mechanism.sigma
        if not self.job.statistic.discovers:
            return Noisy(totals.groups, self.mechanism.noisy(totals.of, sampler), sigma)
        exact = _with_known(totals, known)
        noisy = self.mechanism.noisy(exact.of, sampler)
        public = frozenset(known)
        shown = [
            place
            for place, group in enumerate(exact.groups)
            if group in public or self.mechanism.appears(noisy[COUNT][place])
        ]
        groups = tuple(exact.groups[place] for place in shown)
        return Noisy(
            groups,
            {name: tuple(each[place] for place in shown) for name, each in noisy.items()},
            sigma,
            appeared=frozenset(groups) - public,
        )


@dataclass(frozen=True)
class Settled:
    """What became of one window of one job.

    ``entry`` is the one that settles it: None where it failed, or is left for later since its
    job is paused or retired.
    """

    job: str
    window: Window
    status: Status
    entry: Entry | None


def plan(job: Job, terms: Terms, *, units: int | None = None) -> Plan:
    """What each release of a job costs and how much noise it takes; raises ConfigError.

    ``units`` is a cost to plan with in place of the job's own. A release is never planned at
    less than a few units, so a cap of 0 refuses every one.
    """
    share = job.noise.share
    order = RHO if terms.order is None else Fraction(terms.order)
    if units is None and job.noise.rho is not None:
        units = math.floor(Fraction(job.noise.rho) * order * RHO_UNITS)
    elif units is None:
        units = per_release_charge(terms.cap, share, job.noise.releases or 1)
    units = max(units, LEAST_CHARGE)
    statistic = STATISTICS[job.statistic.kind]
    split = statistic.split(job.statistic)
    mechanism = calibrated(sensitivity(job.contribution), units, split, order=order)
    if mechanism is None:
        raise _fault(
            job,
            "one release may cost so little that its noise cannot be drawn",
            "must be fewer `releases`, a larger `share` or `rho`, or lower bounds",
        )
    if job.statistic.discovers:
        mechanism = _with_threshold(mechanism, job, terms)
    charge = Charge(units, delta_charge(mechanism.event))
    return Plan(job, terms.account, charge, share_cap(terms.cap, share), mechanism, statistic)


def _with_threshold(mechanism: GaussianMechanism, job: Job, terms: Terms) -> GaussianMechanism:
    """The mechanism with the threshold that a release can pay for; raises ConfigError."""
    if job.noise.delta0 is not None:
        units = math.floor(Fraction(job.noise.delta0) * DELTA_UNITS)
    else:
        set_aside = share_cap(terms.delta_cap, job.noise.share)
        units = set_aside // (job.noise.releases or 1)
    if not 1 <= units <= share_cap(terms.delta_cap, job.noise.share):
        raise _fault(
            job,
            "the δ that one release spends on its threshold is 0, or more than the job's share "
            "of what the account has set aside",
            "must be fewer `releases`, another `delta0`, or an account that was opened with more "
            "`threshold_share`",
        )
    delta0 = affordable(units)
    found = threshold(alone(job.contribution), mechanism.sigma[COUNT], delta0)
    return replace(mechanism, threshold=found)


def _fault(job: Job, found: str, allowed: str) -> ConfigError:
    return ConfigError([Fault(f"jobs/{job.name}.toml", "noise", found, allowed)])


def _with_known(totals: Totals, known: Collection[Key]) -> Totals:
    """The totals with those of groups that are public and that no row is of, by name."""
    place = {group: index for index, group in enumerate(totals.groups)}
    groups = sorted(place.keys() | set(known), key=texts_of)
    of = {
        name: [each[place[group]] if group in place else 0 for group in groups]
        for name, each in totals.of.items()
    }
    return Totals(groups, of)


def settle(
    ledger: Ledger, plan: Plan, window: Window, read: Read, *, sampler: Sampler, now: datetime
) -> Settled:
    """Releases a window once, or refuses it once, or finds that this was done before.

    A window of a job that is paused or retired is not settled. Raises SourceError, BusyError,
    StorageError or LedgerError, each with nothing charged.
    """
    job, discovers = plan.job.name, plan.job.statistic.discovers
    asked = (job, window)
    with ledger.looking(plan.account, asked) as view:
        passed = _passed_over(view.head, job, window)
        if passed is not None:
            return passed
        stop = view.stopped_by(job, plan.charge, job_cap=plan.job_cap)
        key = view.head.sampling_key
    # Spent sums never fall, so what does not fit now will not fit under the lock either; and a
    # window that will be refused is not read.
    totals = None if stop else read(window, key)
    with ledger.writing(plan.account, asked) as writer:
        passed = _passed_over(writer.head, job, window)
        if passed is not None:
            return passed
        stop = stop or writer.stopped_by(job, plan.charge, job_cap=plan.job_cap)
        if totals is None or stop is not None:
            refusal = writer.refuse(plan.job, window, plan.charge, stop or "account", now)
            return Settled(job, window, "refused", refusal)
        known = writer.published_groups(plan.job) if discovers == "discover-new" else ()
        content = plan.published(totals, sampler, known)
        entry = writer.release(window, plan.charge, plan.mechanism.event, content, now)
    return Settled(job, window, "published", entry)


def _passed_over(head: Head, job: str, window: Window) -> Settled | None:
    if head.settlement is not None:
        return Settled(job, window, "already", head.settlement)
    halt = head.halted.get(job)
    return None if halt is None else Settled(job, window, HALTS[halt.kind], None)
