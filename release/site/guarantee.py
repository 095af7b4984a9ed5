"""What a release's page states of its guarantee: parameters with their units, and ε by formula."""

from __future__ import annotations

import math
from fractions import Fraction

from release.accounting import RHO_UNITS
from release.ledger.charges import alone
from release.ledger.records import Account, Mechanism
from release.site import figures, views
from release.site.addresses import Published
from release.site.afterwards import Remarks
from release.site.contexts import Guarantee, NoiseView
from release.specs import Job
from release.statistics import STATISTICS


def guarantee(of: Published, remarks: Remarks, root: str) -> Guarantee:
    """Everything that the promise of one release rests on, as it stood with its entry."""
    account, entry, job = of.account, of.entry, of.release.job
    mechanism, about = of.release.mechanism, of.about
    return Guarantee(
        account=views.account(account, root, after=of),
        time=about.time,
        neighbouring=account.terms.neighbouring,
        epsilon=views.epsilon(account, entry.charge.units),
        rho=figures.rho(alone(account, entry).gaussian),
        charge=figures.rho(entry.charge.units),
        job_spent=figures.rho(entry.job_spent),
        job_share=figures.rho(job_cap(job, account)),
        planned=job.noise.releases,
        conversions=of.conversions,
        max_groups=job.contribution.max_groups,
        max_rows=job.contribution.max_rows_per_group,
        max_norm=_max_norm(job),
        bounding=job.contribution.bounding,
        contribution_origin=job.contribution.origin,
        noise=noise(mechanism, job),
        lattice_bits=mechanism.lattice_bits,
        sensitivity=f"{mechanism.sensitivity:,}",
        level=f"{100 * mechanism.level:g} %",
        missed=f"{100 * (1 - mechanism.level):g} %",
        schedule=job.schedule,
        entry=entry.seq,
        hash=entry.hash,
        previous=entry.previous,
        charged_at=views.instant(entry.charged_at),
        software=f"{of.release.software.name} {of.release.software.version}",
        factor=figures.factor(account.terms.epsilon),
        approved_by=about.approved_by,
        reason=about.reason,
        audit=remarks.last_audit(entry.account, of.job, root),
    )


def job_cap(job: Job, account: Account) -> int:
    """The part of the account's cap that the job may spend, in whole units."""
    return math.floor(Fraction(job.noise.share) * account.terms.cap)


def noise(mechanism: Mechanism, job: Job) -> tuple[NoiseView, ...]:
    """Each total's σ in the units of the statistic, and its part ⌈Δ²/(2σ²)⌉ of the cost."""
    return tuple(
        NoiseView(
            total=total,
            sigma=figures.significant(scale(total, mechanism, job) * sigma),
            steps=f"{sigma:,}",
            rho=figures.rho(
                math.ceil(Fraction(mechanism.sensitivity, sigma) ** 2 * RHO_UNITS / 2)
            ),
        )
        for total, sigma in mechanism.sigma.items()
    )


def scale(total: str, mechanism: Mechanism, job: Job) -> Fraction:
    """One step of the lattice in the units of the total: a sum's values were scaled before."""
    step = Fraction(1, 2**mechanism.lattice_bits)
    measured = STATISTICS[job.statistic.kind].measured(job.statistic)
    return step if total == "count" or measured is None else step * Fraction(measured[1].half)


def _max_norm(job: Job) -> str | None:
    norm = job.contribution.max_norm
    return None if norm is None else figures.plain(norm)
