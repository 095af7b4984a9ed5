"""What ``plan`` and ``convert`` print: public arithmetic, before any row is read."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from typing import Any

from release import planning
from release.accounting import RHO_UNITS, Exact, convert, epsilons, rho_caps
from release.cli.documents import halt_document
from release.errors import UsageError
from release.ledger.records import Entry, Terms
from release.mechanisms import COUNT
from release.pipeline import Plan, plan
from release.planning import Step
from release.project import Project
from release.site.figures import round_up
from release.specs import ONE, Job, Leaderboard, Mean, Statistic
from release.windows import Window

Document = dict[str, Any]
APPEARS = (0.5, 0.99)
"""With how much probability a group of a size that is told appears."""
FORMULAS = ("gdp", "rdp", "zcdp")
VALID = {
    "gdp": "Gaussian noise only, and the limit for it",
    "rdp": "any mechanism with that ρ or curve",
    "rdp-classic": "the same, by the older and looser formula",
    "zcdp": "any mechanism with that ρ, by the textbook's formula",
}


def plans(
    project: Project,
    jobs: Sequence[Job],
    *,
    sizes: Sequence[int],
    releases: int | None,
    half_width: float | None,
) -> Document:
    """Each job's cost, noise, reach and stop; for each account, ε after each release to come.

    ``releases`` plans with the cost of so many releases in place of the job's own noise,
    ``half_width`` with the least cost that reaches it at the first of ``sizes``.
    """
    documents, accounts, agreed = [], [], project.terms()
    halted = project.halted(jobs)
    for name in dict.fromkeys(job.dataset for job in jobs):
        terms = agreed[name]
        planned = {job.name: plan(job, terms) for job in project.jobs() if job.dataset == name}
        chosen = {
            job.name: _planned(job, terms, sizes, releases, half_width)
            for job in jobs
            if job.dataset == name
        }
        # The other jobs spend too, so they are in every ε.
        steps = list(project.timeline({**planned, **chosen}, terms))
        stops = {step.plan.job.name: step.window for step in steps if not step.admitted}
        documents += [
            _job(one, terms, sizes, stops.get(job), halted.get(job)) for job, one in chosen.items()
        ]
        accounts.append(_account(terms, steps))
    return {"jobs": documents, "accounts": accounts}


def _planned(
    job: Job, terms: Terms, sizes: Sequence[int], releases: int | None, half_width: float | None
) -> Plan:
    if releases is not None:
        return planning.for_releases(job, terms, releases)
    if half_width is not None:
        if not sizes:
            raise UsageError("--half-width needs --group-size", hint="Add --group-size 100.")
        return planning.for_half_width(job, terms, half_width, sizes[0])
    return plan(job, terms)


def _job(
    one: Plan, terms: Terms, sizes: Sequence[int], stop: Window | None, halt: Entry | None
) -> Document:
    return {
        "job": one.job.name,
        "account": one.account,
        "rho": planning.rho_units(one, terms) / RHO_UNITS,
        "charge": one.charge.units,
        "split": planning.split(one),
        "split_by": _split_by(one.job.statistic),
        "sigma": planning.sigmas(one),
        "max_norm": _max_norm(one),
        "level": float(one.job.level),
        "threshold": _threshold(one),
        "smallest_reliable_group": planning.smallest_reliable(one),
        "half_widths": [
            {"group_size": size, "half_width": width}
            for size, width in planning.half_widths(one, sizes).items()
        ],
        "fit": planning.reach(one, terms),
        "stop": stop and {"window": stop.name, "label": stop.label, "end": stop.end.isoformat()},
        "halted": halt and halt_document(halt),
    }


def _split_by(spec: Statistic) -> str | None:
    """Which key of the job decides how ρ is split; None where all of it is for one total."""
    if not isinstance(spec, Mean):
        return "bounds" if isinstance(spec, Leaderboard) and spec.of == "mean" else None
    if spec.count_share is not None:
        return "count_share"
    return "bounds" if spec.prior_mean is None else "prior_mean"


def _max_norm(one: Plan) -> Document | None:
    if one.job.contribution.max_norm is None:
        return None
    norm, without = planning.norms(one)
    sigma = {total: each * without / norm for total, each in planning.sigmas(one).items()}
    return {"norm": norm, "norm_without": without, "sigma_without": sigma}


def _threshold(one: Plan) -> Document | None:
    found = one.mechanism.threshold
    if found is None:
        return None
    sigma = one.mechanism.sigma[COUNT]
    return {
        "tau": found.tau / ONE,
        "delta0": found.delta0,
        "groups_seen": one.job.contribution.groups_seen,
        "appears": [
            {"probability": probability, "group_size": found.size(sigma, probability)}
            for probability in APPEARS
        ],
    }


def _account(terms: Terms, steps: Sequence[Step]) -> Document:
    return {
        "account": terms.account,
        "epsilon": float(terms.epsilon),
        "delta": float(terms.budget.delta),
        "releases": [
            {
                "job": step.plan.job.name,
                "window": step.window.name,
                "label": step.window.label,
                "admitted": step.admitted,
                "epsilon": step.sums.epsilons(terms.budget.delta),
            }
            for step in steps
        ],
    }


def plans_words(document: Document) -> str:
    """The same in words."""
    lines = [line for job in document["jobs"] for line in _job_words(job)]
    for account in document["accounts"]:
        lines += ["", f"{account['account']}: ε after each release, at δ = {account['delta']:g}"]
        lines.append(f"{'window':<12}{'job':<26}" + "".join(f"{name:>9}" for name in FORMULAS))
        lines += [_step_words(step) for step in account["releases"]]
    return "\n".join(lines)


def _job_words(job: Document) -> list[str]:
    fit = ", ".join(f"{count} by {name}" for name, count in job["fit"].items())
    widths = [
        f"  interval of {100 * job['level']:g} % at a group of {each['group_size']}: "
        + ("not reliable" if each["half_width"] is None else f"± {each['half_width']:.3g}")
        for each in job["half_widths"]
    ]
    return [
        f"{job['job']}: a release costs ρ = {job['rho']:.12f}",
        f"  noise of standard deviation {_noise_words(job['sigma'])}",
        *_split_words(job),
        *_max_norm_words(job["max_norm"]),
        *_threshold_words(job["threshold"]),
        *_smallest(job["smallest_reliable_group"]),
        *widths,
        f"  releases that fit into its share: {fit}",
        _stop_words(job["stop"], job["halted"]),
    ]


def _stop_words(stop: Document | None, halt: Document | None) -> str:
    if halt is None:
        found = "not within the next 520 windows" if stop is None else stop["label"]
        return f"  first window refused: {found}"
    until = "until it is resumed" if halt["state"] == "paused" else "any more"
    return (
        f"  {halt['state']} since {halt['since'][:10]} by entry {halt['entry']} of account"
        f" {halt['account']}: nothing is planned {until} (reason: {halt['reason']})"
    )


def _noise_words(sigma: dict[str, float]) -> str:
    return ", ".join(f"{each:.4g} on each {total}" for total, each in sigma.items())


WHY = {
    "count_share": "as `count_share` says",
    "prior_mean": "the best for means near `prior_mean`, with at least a fifth for the count",
    "bounds": "the best where nothing is known of the means but their bounds",
}


def _split_words(job: Document) -> list[str]:
    if job["split_by"] is None:
        return []
    parts = " and ".join(
        f"{100 * part:.3g} % to the {total}" for total, part in job["split"].items()
    )
    return [f"  of ρ {parts}: {WHY[job['split_by']]}"]


def _max_norm_words(found: Document | None) -> list[str]:
    if found is None:
        return []
    norms = f"{found['norm']:.4g} in place of {found['norm_without']:.4g}"
    noise = _noise_words(found["sigma_without"])
    return [f"  `max_norm` {norms}: less noise for more clipping bias; without it {noise}"]


def _threshold_words(found: Document | None) -> list[str]:
    if found is None:
        return []
    sizes = " and ".join(
        f"{100 * each['probability']:g} % probability from {each['group_size']:,} units on"
        for each in found["appears"]
    )
    above = f"a group appears if its noisy count is above {found['tau']:.4g}"
    return [f"  {above}: with {sizes}", f"  of δ a release spends δ₀ = {found['delta0']:.3g}"]


def _smallest(size: int | None) -> list[str]:
    if size is None:
        return ["  no group, however large, is shown as reliable"]
    return [f"  reliable from a group of about {size:,} on"] if size else []


def _step_words(step: Document) -> str:
    start = f"{step['label']:<12}{step['job']:<26}"
    if not step["admitted"]:
        return f"{start}  refused by the budget"
    shown = (step["epsilon"][name] for name in FORMULAS)
    return start + "".join(f"{'-' if one is None else round_up(one):>9}" for one in shown)


def conversion(
    delta: Exact,
    *,
    rho: Exact | None = None,
    mu: Exact | None = None,
    rdp: tuple[Exact, Exact] | None = None,
) -> Document:
    """ε at δ by every formula of a ρ, a μ, or one point (α, ε) of a Rényi curve."""
    if rdp is not None:
        found = convert.point_epsilons(*rdp, delta)
        return {
            "rho": None,
            "delta": float(delta),
            "epsilon": {name: found.get(name) for name in VALID},
            "if_gaussian": {"rho": float(convert.rho_from_point(*rdp))},
            "valid": VALID,
        }
    if rho is not None and rho < 0:
        raise UsageError("--rho must not be below 0")
    exact = convert.rho_from_mu(mu) if mu is not None else Fraction(rho or 0)
    units = -(-exact.numerator * RHO_UNITS // exact.denominator)
    return {
        "rho": float(exact),
        "delta": float(delta),
        "epsilon": epsilons(units, delta),
        "if_gaussian": {"mu": convert.mu_from_rho(exact) if exact > 0 else 0.0},
        "valid": VALID,
    }


def worth(delta: Exact, epsilon: Exact) -> Document:
    """The other way: the largest ρ that (ε, δ) allows by each formula, rounded down."""
    if epsilon < 0:
        raise UsageError("--epsilon must not be below 0")
    caps = rho_caps(epsilon, delta)
    return {
        "epsilon": float(epsilon),
        "delta": float(delta),
        "rho": {name: cap / RHO_UNITS for name, cap in caps.items()},
        "valid": {name: VALID[name] for name in caps},
    }


def conversion_words(document: Document) -> str:
    """The same in words, with what each formula holds for."""
    lines = [f"at δ = {document['delta']:g}"]
    if document["rho"] is not None:
        lines[0] = f"ρ = {document['rho']:.12g} {lines[0]}"
        lines.append("Rényi DP at every order α: ε(α) is at most α·ρ")
    lines += [
        f"if the noise is Gaussian: {k} = {v:.10g}" for k, v in document["if_gaussian"].items()
    ]
    for name, epsilon in document["epsilon"].items():
        shown = "does not apply" if epsilon is None else f"ε = {round_up(epsilon, 6)}"
        lines.append(f"  {name:<12} {shown:<18} {VALID[name]}")
    return "\n".join(lines)


def worth_words(document: Document) -> str:
    """The same in words."""
    return "\n".join(
        [
            f"ε = {document['epsilon']:g} at δ = {document['delta']:g} allows",
            *(
                f"  {name:<12} ρ = {rho:<16.12f} {VALID[name]}"
                for name, rho in document["rho"].items()
            ),
        ]
    )
