"""The project's files held against its ledger: what may not differ, and what deserves a look.

Public parameters and the record alone; no row is read.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from release.accounting import AccountingError, Budget, admissible_releases
from release.config import JOBS_FOLDER, PROJECT_FILE, Files
from release.errors import ConfigError, Fault
from release.ledger.records import Terms
from release.ledger.store import Ledger
from release.pipeline import Plan, plan
from release.planning import thresholds_paid_for
from release.specs import Dataset, Job


def agreed_terms(files: Files, ledger: Ledger) -> dict[str, Terms]:
    """The terms of every dataset's account: as it was opened, or else as it would be.

    Raises ConfigError with every disagreement between the files and the ledger.
    """
    found: dict[str, Terms] = {}
    faults: list[Fault] = []
    for name, dataset in files.datasets.items():
        opened = ledger.terms(name)
        if opened is not None:
            found[name] = opened
            faults += _changed(dataset, opened)
            continue
        faults += _wrongly_opened(dataset, files, ledger)
        try:
            found[name] = _asked(dataset)
        except AccountingError as error:
            key = f"dataset.{name}.budget"
            faults.append(Fault(PROJECT_FILE, key, error.message, error.hint))
    if faults:
        raise ConfigError(faults)
    return found


def agreed_plans(files: Files, terms: Mapping[str, Terms]) -> dict[str, Plan]:
    """What each release of each job costs; raises ConfigError with every job that cannot be."""
    plans: dict[str, Plan] = {}
    faults: list[Fault] = []
    for job in files.jobs:
        try:
            one = plan(job, terms[job.dataset])
        except ConfigError as error:
            faults += error.faults
            continue
        plans[job.name] = one
        # Such a job would be refused for ever; a budget of 0 is meant to refuse everything.
        if terms[job.dataset].cap > 0 and one.charge.units > one.job_cap:
            faults.append(
                Fault(
                    f"{JOBS_FOLDER}/{job.name}.toml",
                    "noise",
                    "one release costs more than all that the job may ever spend",
                    "must be a smaller `rho`, more `releases`, or a larger `share`",
                )
            )
    if faults:
        raise ConfigError(faults)
    return plans


def doubts(
    files: Files, terms: Mapping[str, Terms], plans: Mapping[str, Plan], ledger: Ledger
) -> Iterator[str]:
    """What is allowed but deserves a second look."""
    for name, one in plans.items():
        yield from _unequal(one)
        yield from _stopped_by_thresholds(one, terms[one.account])
        yield from _of_unknown_origin(one.job)
        yield from _differs(one.job, ledger.last_job(one.account, name))
    for dataset in files.datasets.values():
        yield from _vanished(dataset.name, plans, ledger)
        yield from _doubtful_delta(dataset)
        yield from _unsaid(dataset)


def _asked(dataset: Dataset) -> Terms:
    asked = dataset.budget
    budget = Budget.open(asked.accountant, asked.epsilon, asked.delta, asked.threshold_share)
    return Terms(
        account=dataset.name,
        epsilon=asked.epsilon,
        delta=asked.delta,
        accountant=asked.accountant,
        threshold_share=asked.threshold_share,
        order=None if budget.order is None else str(budget.order),
        cap=budget.cap,
        delta_cap=budget.delta_cap,
        unit=dataset.unit,
        time_zone=dataset.time_zone,
        replaces=dataset.replaces,
    )


def _changed(dataset: Dataset, terms: Terms) -> Iterator[Fault]:
    """What an opened account has fixed and the project file now says differently."""
    written = {
        "budget.epsilon": (dataset.budget.epsilon, terms.epsilon),
        "budget.delta": (dataset.budget.delta, terms.delta),
        "budget.accountant": (dataset.budget.accountant, terms.accountant),
        "budget.threshold_share": (dataset.budget.threshold_share, terms.threshold_share),
        "unit": (dataset.unit, terms.unit),
        "time_zone": (dataset.time_zone, terms.time_zone),
        "replaces": (dataset.replaces, terms.replaces),
    }
    for key, (now, opened) in written.items():
        if now != opened:
            yield Fault(
                PROJECT_FILE,
                f"dataset.{dataset.name}.{key}",
                f"is {now}, but the account was opened with {opened}",
                "an account's terms are fixed for its life: put the old value back, or, for other "
                "people, begin a project folder of its own",
            )


def _wrongly_opened(dataset: Dataset, files: Files, ledger: Ledger) -> Iterator[Fault]:
    """A new account must not hand the people of an old one their budget a second time."""
    key, old = f"dataset.{dataset.name}", dataset.replaces
    if old is not None and ledger.terms(old) is None:
        yield Fault(
            PROJECT_FILE,
            f"{key}.replaces",
            f"is {old!r}, and the ledger has no account of that name",
            "must be an account that was opened: `dp-release budget` lists them",
        )
    unreplaced = ledger.open_accounts()
    if old is not None and ledger.terms(old) is not None and old not in unreplaced:
        yield Fault(
            PROJECT_FILE,
            f"{key}.replaces",
            f"is {old!r}, whose spend another account has taken over already",
            "must be the account that was opened last over the same people",
        )
    taken_over = {dataset.replaces for dataset in files.datasets.values()}
    for name in unreplaced:
        if name not in files.datasets and name not in taken_over:
            yield Fault(
                PROJECT_FILE,
                key,
                f"is new, while the ledger's account {name!r} is no longer in this file",
                f'must say replaces = "{name}" if it reads the same people under a new name; else '
                f"keep [dataset.{name}] beside it, or begin a project folder of its own",
            )


def _unequal(one: Plan) -> Iterator[str]:
    count = one.job.noise.releases
    fit = admissible_releases(one.job_cap, one.charge.units)
    if count is not None and fit != count:
        yield (
            f"{JOBS_FOLDER}/{one.job.name}.toml: noise.releases: {fit} releases fit and not "
            f"{count}, since the share is only {one.job_cap} units of 1e-12"
        )


def _stopped_by_thresholds(one: Plan, terms: Terms) -> Iterator[str]:
    thresholds = thresholds_paid_for(one, terms)
    fit = admissible_releases(one.job_cap, one.charge.units)
    if thresholds is not None and thresholds < fit:
        yield (
            f"{JOBS_FOLDER}/{one.job.name}.toml: noise.delta0: the job's share of δ for "
            f"thresholds pays for {thresholds} releases, its share of ρ for {fit}; what it takes "
            "beyond, other jobs are without"
        )


def _of_unknown_origin(job: Job) -> Iterator[str]:
    for key in ("statistic", "contribution"):
        if getattr(job, key).origin is None:
            yield (
                f"{JOBS_FOLDER}/{job.name}.toml: {key}.origin is not stated, and the pages will "
                "say so: its parameters must be known without the data"
            )


def _differs(job: Job, released: Job | None) -> Iterator[str]:
    if released is None or released == job:
        return
    before, now = released.model_dump(), job.model_dump()
    keys = ", ".join(key for key in now if before[key] != now[key])
    yield (
        f"{JOBS_FOLDER}/{job.name}.toml: {keys}: not what was released last; what was released "
        "stays as it is, and the change applies from the next window"
    )


def _vanished(account: str, plans: Mapping[str, Plan], ledger: Ledger) -> Iterator[str]:
    for name in ledger.job_names(account):
        if name not in plans:
            yield (
                f"{JOBS_FOLDER}/{name}.toml is gone; what it released and spent stays. Under "
                "another name it would release, and pay for, all its windows again"
            )


def _doubtful_delta(dataset: Dataset) -> Iterator[str]:
    key, delta = f"{PROJECT_FILE}: dataset.{dataset.name}", dataset.budget.delta
    if dataset.population is None:
        yield f"{key}.population is not stated, so δ = {delta} is not held against it"
    elif delta * dataset.population * 10 > 1:
        yield (
            f"{key}.budget.delta is {delta}, which is not well below 1/{dataset.population}: "
            "such a δ may let a few people's rows be shown whole"
        )


def _unsaid(dataset: Dataset) -> Iterator[str]:
    for key in ("approved_by", "reason"):
        if getattr(dataset.budget, key) is None:
            yield (
                f"{PROJECT_FILE}: dataset.{dataset.name}.budget.{key} is not stated, "
                "and the pages will say so"
            )
