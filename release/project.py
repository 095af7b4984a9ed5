"""An opened project: what is due, releasing it, and the site that shows it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Any

from release import config, pipeline, site
from release.accounting import ACCOUNTANTS
from release.bounding import Totals, totals
from release.errors import ConfigError, Fault, ReleaseError, SourceError, UsageError
from release.ledger.records import About, Account, Terms
from release.ledger.store import Ledger
from release.noise import Sampler, gaussian
from release.pipeline import Settled
from release.sources import open_rows
from release.specs import Dataset, Job
from release.statistics import STATISTICS
from release.windows import Window, due

Clock = Callable[[], datetime]
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

        Raises ConfigError where the files and an opened account disagree on its terms.
        """
        faults: list[Fault] = []
        opened = {name: self.ledger.terms(name) for name in self.files.datasets}
        for name, dataset in self.files.datasets.items():
            if (terms := opened[name]) is not None:
                faults += _changed(dataset, terms)
        if faults:
            raise ConfigError(faults)
        for name, dataset in self.files.datasets.items():
            if opened[name] is None:
                self.ledger.open_account(_terms(dataset), self._about(dataset), now)
            else:
                self.ledger.describe(name, self._about(dataset), now)

    def check(self) -> list[str]:
        """What is allowed but deserves a second look; raises ConfigError for what is not.

        Reads the files and the ledger's terms, and no data.
        """
        warnings: list[str] = []
        for name, dataset in self.files.datasets.items():
            terms = self.ledger.terms(name) or _terms(dataset)
            if faults := list(_changed(dataset, terms)):
                raise ConfigError(faults)
            for job in self.files.jobs:
                if job.dataset == name:
                    warnings += _doubts(job, pipeline.plan(job, terms))
            warnings += _unsaid(dataset)
        return warnings

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
        )


def open_project(folder: Path, *, frames: Frames | None = None) -> Project:
    """The project in ``folder``; raises ConfigError with every fault of its files."""
    files = config.read(folder)
    ledger = Ledger(files.folder, files.project.ledger, wait=float(files.project.ledger_wait))
    return Project(files, ledger, frames or {})


def _terms(dataset: Dataset) -> Terms:
    budget = dataset.budget
    return Terms(
        account=dataset.name,
        epsilon=budget.epsilon,
        delta=budget.delta,
        accountant=budget.accountant,
        unit=dataset.unit,
        time_zone=dataset.time_zone,
        cap=ACCOUNTANTS[budget.accountant].cap(budget.epsilon, budget.delta),
    )


def _changed(dataset: Dataset, terms: Terms) -> Iterator[Fault]:
    """What an opened account has fixed and the project file now says differently."""
    written = {
        "budget.epsilon": (dataset.budget.epsilon, terms.epsilon),
        "budget.delta": (dataset.budget.delta, terms.delta),
        "budget.accountant": (dataset.budget.accountant, terms.accountant),
        "unit": (dataset.unit, terms.unit),
        "time_zone": (dataset.time_zone, terms.time_zone),
    }
    for key, (now, opened) in written.items():
        if now != opened:
            yield Fault(
                config.PROJECT_FILE,
                f"dataset.{dataset.name}.{key}",
                f"is {now}, but the account was opened with {opened}",
                "an account's terms are fixed for its life: put the old value back",
            )


def _doubts(job: Job, plan: pipeline.Plan) -> Iterator[str]:
    count = job.noise.releases
    if count is not None and plan.job_cap < count * count:
        yield (
            f"jobs/{job.name}.toml: noise.releases: the share is only {plan.job_cap} units of "
            f"1e-12, too few to promise that exactly {count} releases fit"
        )


def _unsaid(dataset: Dataset) -> Iterator[str]:
    for key in ("approved_by", "reason"):
        if getattr(dataset.budget, key) is None:
            yield (
                f"{config.PROJECT_FILE}: dataset.{dataset.name}.budget.{key} is not stated, "
                "and the pages will say so"
            )
