"""An opened project: what is due, releasing it, and the site that shows it."""

from __future__ import annotations

import unicodedata
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Any

from release import config, pipeline, planning, site
from release.accounting import AccountingError, Budget, Charge, Event, Spend, admissible_releases
from release.bounding import Totals, totals
from release.errors import ConfigError, Fault, ReleaseError, SourceError, UsageError
from release.ledger.records import About, Account, Entry, Terms
from release.ledger.store import Ledger
from release.noise import Sampler, gaussian
from release.pipeline import Plan, Settled
from release.planning import Position, Step
from release.sources import open_rows
from release.specs import Dataset, Job
from release.statistics import STATISTICS
from release.windows import Window, due

Clock = Callable[[], datetime]
# Control characters, and halves of characters, which no file can hold.
UNPRINTABLE = frozenset({"Cc", "Cs", "Zl", "Zp"})
Frames = Mapping[str, Any]
"""pandas frames to read in the place of a dataset's source, by the dataset's name."""


@dataclass(frozen=True)
class Due:
    """A window of a job that has ended and is neither released nor refused."""

    job: Job
    window: Window


@dataclass
class Run:
    """What one run did, and every error that it met on the way."""

    settled: list[Settled] = field(default_factory=list)
    errors: list[ReleaseError] = field(default_factory=list)

    @property
    def exit_code(self) -> int:
        """The first of 5, 1, 4, 6 and 3 that applies, or 0."""
        codes = {error.exit_code for error in self.errors}
        if any(one.status == "refused" for one in self.settled):
            codes.add(3)
        return next((code for code in (5, 1, 2, 4, 6, 3) if code in codes), 0)


class Project:
    """A project's files and its ledger. Close it, or use it as a context."""

    def __init__(self, files: config.Files, ledger: Ledger, frames: Frames) -> None:
        self.files = files
        self.ledger = ledger
        self._frames = frames

    def __enter__(self) -> Project:
        return self

    def __exit__(self, *_: object) -> None:
        self.ledger.close()

    @property
    def site_folder(self) -> Path:
        """Where the site is written."""
        return self.files.folder / self.files.project.site

    def jobs(self, names: Sequence[str] = ()) -> tuple[Job, ...]:
        """The jobs of that name, or all; raises UsageError for a name that is none."""
        known = {job.name: job for job in self.files.jobs}
        unknown = [name for name in names if name not in known]
        if unknown:
            raise UsageError(
                f"there is no job {', '.join(unknown)}",
                hint=f"The jobs are {', '.join(sorted(known)) or 'none yet'}.",
            )
        return tuple(known[name] for name in names) if names else self.files.jobs

    def open_accounts(self, now: datetime) -> None:
        """Opens the accounts that are new; records what pages say of each, where it changed.

        Raises ConfigError where the files and the ledger disagree on the terms of an account,
        and RefusedError or AccountingError where one cannot take over what another has spent.
        """
        terms = self._all_terms()
        for name, dataset in self.files.datasets.items():
            if self.ledger.terms(name) is None:
                self.ledger.open_account(terms[name], self._about(dataset), now)
            else:
                self.ledger.describe(name, self._about(dataset), now)

    def check(self) -> list[str]:
        """What is allowed but deserves a second look; raises ConfigError for what is not.

        Reads the files and the ledger's terms, and no data.
        """
        faults: list[Fault] = []
        warnings: list[str] = []
        terms = self._all_terms()
        for job in self.files.jobs:
            try:
                warnings += _doubts(job, pipeline.plan(job, terms[job.dataset]))
            except ConfigError as error:
                faults += error.faults
        if faults:
            raise ConfigError(faults)
        for dataset in self.files.datasets.values():
            warnings += [*_doubtful_delta(dataset), *_unsaid(dataset)]
        return warnings

    def terms(self, name: str) -> Terms:
        """The terms of a dataset's account: as it was opened, or else as it would be.

        Raises ConfigError where the file and the ledger disagree.
        """
        dataset = self.files.datasets[name]
        opened = self.ledger.terms(name)
        faults: list[Fault] = []
        if opened is not None:
            faults += _changed(dataset, opened)
        elif dataset.replaces is not None and self.ledger.terms(dataset.replaces) is None:
            faults.append(_never_opened(dataset))
        if faults:
            raise ConfigError(faults)
        return opened or _terms(dataset)

    def _all_terms(self) -> dict[str, Terms]:
        found: dict[str, Terms] = {}
        faults: list[Fault] = []
        for name in self.files.datasets:
            try:
                found[name] = self.terms(name)
            except ConfigError as error:
                faults += error.faults
        if faults:
            raise ConfigError(faults)
        return found

    def timeline(self, plans: Mapping[str, Plan], terms: Terms) -> Iterator[Step]:
        """What is to come of one account, if these are all of its jobs.

        Raises UsageError for an account that has yet to take over what another has spent.
        """
        position = Position(terms, Charge(0), {}, Spend())
        if self.ledger.terms(terms.account) is not None:
            with self.ledger.looking(terms.account) as view:
                of_job = {name: view.job_spent(name) for name in plans}
                last = view.head.last
            position = Position(terms, last.spent, of_job, last.sums)
        elif terms.replaces is not None:
            raise UsageError(
                f"account {terms.account!r} has not yet taken over what {terms.replaces!r} spent",
                hint="Run `dp-release open` first.",
            )
        ahead = {name: self._unsettled(one.job) for name, one in plans.items()}
        return planning.timeline(plans, ahead, position)

    def _unsettled(self, job: Job) -> Iterator[Window]:
        settled = self.ledger.settled(job.dataset, job.name)
        window = Window(job.window, job.start, self.files.dataset_of(job).time_zone)
        while True:
            if window not in settled:
                yield window
            window = Window(window.kind, window.after, window.zone)

    def due(self, now: datetime, jobs: Iterable[Job]) -> list[Due]:
        """What is due, oldest window first, then by the job's name."""
        found = [Due(job, window) for job in jobs for window in self._due(job, now)]
        return sorted(found, key=lambda one: (one.window.start, one.job.name))

    def run(
        self,
        clock: Clock,
        *,
        jobs: Sequence[str] = (),
        sampler: Sampler = gaussian,
        seen: Callable[[Settled], None] = lambda _: None,
    ) -> Run:
        """Settles everything due, then builds the site; what went wrong is in the result.

        A source that cannot be read stops its job and no other; any other error stops the run,
        and the site is still built from what the ledger holds.
        """
        run = Run()
        try:
            self.open_accounts(clock())
            for settled in self._settle(self.due(clock(), self.jobs(jobs)), clock, sampler, run):
                run.settled.append(settled)
                seen(settled)
        except ReleaseError as error:
            run.errors.append(error)
        try:
            self.build_site()
        except ReleaseError as error:
            run.errors.append(error)
        return run

    def record(self, account: str, event: Event, reason: str, now: datetime) -> Entry:
        """Charges what was done elsewhere to an account, which is opened if it was not.

        Raises UsageError for an unknown account and a reason that is not one line of text,
        AccountingError for an event that the account cannot take and RefusedError for one that
        does not fit, each with nothing charged.
        """
        if not reason.strip() or any(unicodedata.category(char) in UNPRINTABLE for char in reason):
            raise UsageError(
                "the reason is empty, or holds a control character",
                hint="Say in one line of text what was done.",
            )
        if account not in self.files.datasets:
            raise UsageError(
                f"there is no dataset {account!r}",
                hint=f"The datasets are {', '.join(sorted(self.files.datasets))}.",
            )
        self.open_accounts(now)
        with self.ledger.writing(account) as writer:
            return writer.record(event, reason, now)

    def build_site(self) -> list[Path]:
        """Brings the site up to the ledger; gives the files whose bytes changed."""
        templates = self.files.folder / "templates"
        return site.build(
            self.accounts(), self.site_folder, templates=templates if templates.is_dir() else None
        )

    def accounts(self) -> list[Account]:
        """Every account of the ledger with its whole record."""
        return self.ledger.accounts()

    def _settle(
        self, queue: Sequence[Due], clock: Clock, sampler: Sampler, run: Run
    ) -> Iterator[Settled]:
        plans = self._plans({one.job.name: one.job for one in queue})
        failed: set[str] = set()
        for one in queue:
            job, window = one.job, one.window
            if job.name in failed:
                continue

            def read(window: Window, key: str, job: Job = job) -> Totals:
                return self._totals(job, window, key)

            try:
                yield pipeline.settle(
                    self.ledger, plans[job.name], window, read, sampler=sampler, now=clock()
                )
            except SourceError as error:
                failed.add(job.name)
                run.errors.append(error)
                yield Settled(job.name, window, "failed", None)

    def _plans(self, jobs: Mapping[str, Job]) -> dict[str, pipeline.Plan]:
        plans = {}
        for name, job in jobs.items():
            terms = self.ledger.terms(job.dataset)
            if terms is not None:
                plans[name] = pipeline.plan(job, terms)
        return plans

    def _due(self, job: Job, now: datetime) -> Iterator[Window]:
        settled = self.ledger.settled(job.dataset, job.name)
        zone = self.files.dataset_of(job).time_zone
        return (w for w in due(job.window, job.start, zone, now) if w not in settled)

    def _totals(self, job: Job, window: Window, key: str) -> Totals:
        dataset = self.files.dataset_of(job)
        value, scale = STATISTICS[job.statistic.kind].measured(job.statistic) or (None, None)
        with open_rows(
            dataset,
            self.files.folder,
            by=job.statistic.by,
            value=value,
            frame=self._frames.get(dataset.name),
        ) as rows:
            return totals(
                rows,
                window,
                groups=job.statistic.groups,
                contribution=job.contribution,
                scale=scale,
                salt=f"{key}|{dataset.name}|{job.name}|{window.name}",
            )

    def _about(self, dataset: Dataset) -> About:
        project = self.files.project
        return About(
            title=project.title,
            contact=project.contact,
            licence=project.licence,
            unit_name=dataset.unit_name,
            time=dataset.time,
            approved_by=dataset.budget.approved_by,
            reason=dataset.budget.reason,
            population=dataset.population,
        )


def open_project(folder: Path, *, frames: Frames | None = None) -> Project:
    """The project in ``folder``; raises ConfigError with every fault of its files."""
    files = config.read(folder)
    ledger = Ledger(files.folder, files.project.ledger, wait=float(files.project.ledger_wait))
    return Project(files, ledger, frames or {})


def _terms(dataset: Dataset) -> Terms:
    """What the file asks for; raises ConfigError where that leaves nothing to spend."""
    asked = dataset.budget
    try:
        budget = Budget.open(asked.accountant, asked.epsilon, asked.delta, asked.threshold_share)
    except AccountingError as error:
        key = f"dataset.{dataset.name}.budget"
        raise ConfigError([Fault(config.PROJECT_FILE, key, error.message, error.hint)]) from None
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
                config.PROJECT_FILE,
                f"dataset.{dataset.name}.{key}",
                f"is {now}, but the account was opened with {opened}",
                "an account's terms are fixed for its life: put the old value back",
            )


def _never_opened(dataset: Dataset) -> Fault:
    return Fault(
        config.PROJECT_FILE,
        f"dataset.{dataset.name}.replaces",
        f"is {dataset.replaces!r}, and the ledger has no account of that name",
        "must be an account that was opened: `dp-release budget` lists them",
    )


def _doubts(job: Job, plan: pipeline.Plan) -> Iterator[str]:
    count = job.noise.releases
    fit = admissible_releases(plan.job_cap, plan.charge.units)
    if count is not None and fit != count:
        yield (
            f"jobs/{job.name}.toml: noise.releases: {fit} releases fit and not {count}, since the "
            f"share is only {plan.job_cap} units of 1e-12"
        )


def _doubtful_delta(dataset: Dataset) -> Iterator[str]:
    key, delta = f"{config.PROJECT_FILE}: dataset.{dataset.name}", dataset.budget.delta
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
                f"{config.PROJECT_FILE}: dataset.{dataset.name}.budget.{key} is not stated, "
                "and the pages will say so"
            )
