"""An opened project: what is due, releasing it, and the site that shows it."""

from __future__ import annotations

import unicodedata
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import IO, Any

from release import agreement, config, pipeline, planning, site
from release.accounting import Charge, Event, Spend
from release.bounding import Totals, totals
from release.errors import LedgerError, ReleaseError, SourceError, UsageError
from release.ledger import history, transfer
from release.ledger.kinds import Decision, Notice
from release.ledger.records import HALTS, About, Account, Entry, EntryKind, Terms
from release.ledger.store import Ledger
from release.ledger.transfer import LedgerCopy, Summary
from release.ledger.verification import Finding
from release.ledger.writing import check_may_follow
from release.noise import Sampler, gaussian
from release.pipeline import Plan, Settled
from release.planning import Position, Step
from release.sources import Rows, Wanted, open_rows
from release.specs import Dataset, Job
from release.statistics import STATISTICS
from release.windows import Window, due, following

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
    halted: dict[str, Entry] = field(default_factory=dict)
    """Of the jobs asked for, those that are paused or retired, with the entry that says so."""

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

    def open_accounts(self, now: datetime, *, but: Collection[str] = ()) -> None:
        """Opens the accounts that are new; records what pages say of each, where it changed.

        ``but`` names datasets whose accounts are left unopened.

        Raises ConfigError where the files and the ledger disagree, LedgerError where the
        ledger is older than the published site, and RefusedError or AccountingError where an
        account cannot take over what another has spent.
        """
        self._check_record()
        for name, terms in self.terms().items():
            about = self._about(self.files.datasets[name])
            if self.ledger.terms(name) is not None:
                self.ledger.describe(name, about, now)
            elif name not in but:
                self.ledger.open_account(terms, about, now)

    def terms(self) -> dict[str, Terms]:
        """The terms of every dataset's account; raises ConfigError with every disagreement."""
        return agreement.agreed_terms(self.files, self.ledger)

    def plans(self) -> dict[str, Plan]:
        """What each release of each job costs; raises ConfigError with every fault."""
        return agreement.agreed_plans(self.files, self.terms())

    def check(self) -> list[str]:
        """What is allowed but deserves a second look; raises ConfigError for what is not.

        Reads the files and the ledger, and no data.
        """
        halts = (
            f"{config.JOBS_FOLDER}/{name}.toml: the job is {HALTS[entry.kind]} since "
            f"{entry.charged_at:%Y-%m-%d}, so nothing of it is due: {entry.body['reason']}"
            for name, entry in self.halted(self.files.jobs).items()
        )
        terms = self.terms()
        plans = agreement.agreed_plans(self.files, terms)
        return [*agreement.doubts(self.files, terms, plans, self.ledger), *halts]

    def _check_dataset(self, name: str) -> None:
        if name not in self.files.datasets:
            raise UsageError(
                f"there is no dataset {name!r}",
                hint=f"The datasets are {', '.join(sorted(self.files.datasets))}.",
            )

    def _check_record(self) -> None:
        """Raises LedgerError where the record is not intact: nothing is built on one that is not.

        Under the lock only its ends are looked at, so that a charge costs the same at any length.
        """
        self.check_published()
        _, found = self.ledger.verify()
        if found:
            raise LedgerError(
                f"{self.ledger.name}: {found[0]}",
                hint="Nothing was charged or published. `dp-release ledger verify` names "
                "everything that is wrong; put the newest intact ledger back.",
            )

    def check_published(self, copy: LedgerCopy | None = None) -> None:
        """Raises LedgerError where the site shows an entry that the ledger does not hold.

        ``copy`` is a record that is to become the ledger's.
        """
        # A ledger that is older than the site has forgotten charges: it would pay them out
        # again, and put other numbers in the place of those that were shown.
        record = copy or self.ledger
        for account, head in site.heads(self.site_folder).items():
            if not record.holds(account, head):
                raise LedgerError(
                    f"{self.site_folder}: shows an entry of account {account!r} that the ledger "
                    f"{record.name} does not hold",
                    hint="The ledger is lost, older than the site, or another project's. Put the "
                    "newest one back; docs/ledger.md says what to do if it is lost for good.",
                )

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
        halted = self.halted(one.job for one in plans.values())
        ahead = {
            name: () if name in halted else self._unsettled(one.job) for name, one in plans.items()
        }
        return planning.timeline(plans, ahead, position)

    def _unsettled(self, job: Job) -> Iterator[Window]:
        settled = self.ledger.settled(job.dataset, job.name)
        zone = self.files.dataset_of(job).time_zone
        return (w for w in following(job.window, job.start, zone) if w not in settled)

    def due(self, now: datetime, jobs: Iterable[Job]) -> list[Due]:
        """What is due, oldest window first, then by the job's name.

        A job that is paused or retired has nothing due; once it is resumed, all that it missed is.
        """
        jobs = tuple(jobs)
        halted = self.halted(jobs)
        going = [job for job in jobs if job.name not in halted]
        found = [Due(job, window) for job in going for window in self._due(job, now)]
        return sorted(found, key=lambda one: (one.window.end, one.job.name))

    def halted(self, jobs: Iterable[Job]) -> dict[str, Entry]:
        """Those of the jobs that are paused or retired, each with the entry that says so."""
        return self._halted({job.name for job in jobs})

    def _halted(self, names: Collection[str]) -> dict[str, Entry]:
        # Whichever account it released from: a job that moved to another dataset is the same job.
        return {
            name: entry
            for account in self.ledger.open_accounts()
            for name, entry in self.ledger.halted(account).items()
            if name in names
        }

    def run(
        self,
        now: datetime,
        *,
        jobs: Sequence[str] = (),
        sampler: Sampler = gaussian,
        seen: Callable[[Settled], None] = lambda _: None,
    ) -> Run:
        """Settles everything due, then builds the site; what went wrong is in the result.

        A source that cannot be read stops its job and no other; any other error stops the run,
        and the site is still built from what the ledger holds. Every entry bears the same
        ``now``: how long a release takes depends on rows and noise, and entries are published.
        """
        run = Run()
        try:
            # Whatever is wrong with a job is found before an account is opened for life.
            plans = self.plans()
            unreadable = self._unreadable()
            self.open_accounts(now, but=unreadable.keys())
            queue = self.due(now, self.jobs(jobs))
            for settled in self._settle(
                queue, plans, unreadable, now=now, sampler=sampler, run=run
            ):
                run.settled.append(settled)
                seen(settled)
            run.halted = self.halted(self.jobs(jobs))
        except ReleaseError as error:
            run.errors.append(error)
        if any(isinstance(error, LedgerError) for error in run.errors):
            return run  # pages of a record that is not intact would only spread it
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
        _check_line("reason", reason)
        self._check_dataset(account)
        self.open_accounts(now)
        with self.ledger.writing(account) as writer:
            return writer.record(event, reason, now)

    def remember(
        self, path: Path, now: datetime, *, account: str | None = None
    ) -> dict[str, list[Entry]]:
        """Charges the earlier spends that a file holds, all or none; the new entries by account.

        The file's rows name their accounts where ``account`` is None. Accounts are opened as by
        ``record``. Raises UsageError where the file cannot be read, HistoryError with every row
        that cannot be charged or was before, and RefusedError where a budget does not cover its
        history, each with nothing charged.
        """
        if account is not None:
            self._check_dataset(account)
        past = history.read(path, self.terms(), account=account, now=now)
        for name in past.accounts:
            # Opening fixes a budget for life: one that is too small is found before.
            if self.ledger.terms(name) is None:
                past.check_covered(name, self.ledger.carried(past.terms[name]))
        self.open_accounts(now)
        with self.ledger.writing_all(past.accounts) as writers:
            past.check_new({name: writer.remembered() for name, writer in writers.items()})
            for name, writer in writers.items():
                past.check_covered(name, writer.head.last.spent)
            return {
                name: writer.remember([(one.body, one.event) for one in past.accounts[name]], now)
                for name, writer in writers.items()
            }

    def restore(self, file: IO[bytes], name: str) -> Summary:
        """Brings an exported record into the project's ledger, which must not have one yet.

        Raises BrokenExportError with what is wrong with the file, LedgerError where the site
        shows an entry that the file does not hold, and UsageError where an account is open.
        """
        copy = transfer.read(file, name)
        self.check_published(copy)
        self.ledger.restore(copy)
        return copy.summary

    def amend(
        self,
        account: str,
        seq: int,
        event: Event,
        reason: str,
        now: datetime,
        *,
        past_cap: bool = False,
    ) -> Entry:
        """Raises the charge of an earlier entry to what it should have been.

        Raises UsageError for an unknown account, a reason that is not one line of text, an
        entry whose charge this does not raise, and a charge past the cap that is not said to be
        meant, which stops everything for good; and AccountingError for an event that the account
        cannot take, each with nothing written.
        """
        _check_line("reason", reason)
        self._check_open(account)
        with self.ledger.writing(account) as writer:
            entry = writer.amend(seq, event, reason, now)
            if writer.head.terms.exceeded_by(entry.spent) and not past_cap:
                raise UsageError(
                    f"this correction takes account {account!r} past its budget, and everything "
                    "then stops for good",
                    hint="Nothing was written. Look at the event again; if that is what was "
                    "really spent, add --past-cap.",
                )
            return entry

    def notice(self, account: str, text: str, now: datetime, *, job: str | None = None) -> Entry:
        """Tells readers of an account's pages something, or corrects what they were told.

        Raises UsageError for an unknown account, a job that is none of its jobs, and a text that
        is not one line.
        """
        _check_line("text", text)
        if job is not None and self._account_of(job) != account:
            raise UsageError(f"job {job!r} is not one of account {account!r}")
        self._check_open(account)
        return self.ledger.notice(account, Notice(text=text), now, job=job)

    def decide(self, decision: EntryKind, job: str, reason: str, now: datetime) -> Entry:
        """Pauses, resumes or retires a job; its account is opened if it was not.

        Raises UsageError for an unknown job, a reason that is not one line of text, and a
        decision that may not follow the job's last one, each with nothing written.
        """
        _check_line("reason", reason)
        _, last = self._decided(job)
        check_may_follow(decision, job, last)
        self.open_accounts(now)
        account, _ = self._decided(job)
        with self.ledger.writing(account) as writer:
            return writer.note(decision, Decision(reason=reason), now, job=job)

    def build_site(self) -> list[Path]:
        """Brings the site up to the ledger; gives the files whose bytes changed.

        Raises LedgerError where the ledger is older than the site, which then stays as it is.
        """
        self.check_published()
        own = self.files.folder / "templates"
        templates = own if own.is_dir() else None
        written: list[Path] = []
        accounts = self.accounts()
        while True:
            written += site.build(accounts, self.site_folder, templates=templates)
            # Another run may have put newer pages in place meanwhile, and these over them.
            if all(self.ledger.is_last(one.last.account, one.last.hash) for one in accounts):
                return written
            accounts = self.accounts()

    def verify(self) -> tuple[int, list[Finding]]:
        """How many entries the ledger holds, and everything that is wrong with any of them.

        What the published site shows must be in it.
        """
        return self.ledger.verify(site.heads(self.site_folder))

    def accounts(self) -> list[Account]:
        """Every account of the ledger with its whole record."""
        return self.ledger.accounts()

    def _check_open(self, account: str) -> None:
        self._check_record()
        if self.ledger.terms(account) is None:
            raise UsageError(
                f"there is no account {account!r}",
                hint="`dp-release budget` shows the accounts that were opened.",
            )

    def _decided(self, job: str) -> tuple[str, Entry | None]:
        """The account that decisions on a job belong to, and the one by which it is halted.

        It is resumed where it was halted, also if its file has moved since or is gone.
        """
        last = self._halted({job}).get(job)
        return self._account_of(job) if last is None else last.account, last

    def _account_of(self, job: str) -> str:
        """A job's account: by its file, or where that is gone by what the ledger has of it."""
        settled = {
            name: account
            for account in self.ledger.open_accounts()
            for name in self.ledger.job_names(account)
        }
        accounts = settled | {one.name: one.dataset for one in self.files.jobs}
        if job not in accounts:
            self.jobs([job])  # raises, and names those that there are
        return accounts[job]

    def _settle(
        self,
        queue: Sequence[Due],
        plans: Mapping[str, Plan],
        unreadable: Mapping[str, SourceError],
        *,
        now: datetime,
        sampler: Sampler,
        run: Run,
    ) -> Iterator[Settled]:
        failed: set[str] = set()
        for one in queue:
            job, window = one.job, one.window
            if job.name in failed:
                continue

            def read(window: Window, key: str, job: Job = job) -> Totals:
                return self._totals(job, window, key)

            try:
                if job.dataset in unreadable:
                    raise unreadable[job.dataset]
                yield pipeline.settle(
                    self.ledger, plans[job.name], window, read, sampler=sampler, now=now
                )
            except SourceError as error:
                failed.add(job.name)
                run.errors.append(error)
                yield Settled(job.name, window, "failed", None)

    def _unreadable(self) -> dict[str, SourceError]:
        """The datasets still to be opened whose source fits none of their jobs, by its schema.

        Opening fixes an account for life, so a column's name misspelt should be found before.
        """
        errors: dict[str, SourceError] = {}
        readable: set[str] = set()
        for job in self.files.jobs:
            if job.dataset in readable or self.ledger.terms(job.dataset) is not None:
                continue
            try:
                with self._rows(job):
                    readable.add(job.dataset)
            except SourceError as error:
                errors[job.dataset] = error
        return {name: error for name, error in errors.items() if name not in readable}

    def _due(self, job: Job, now: datetime) -> Iterator[Window]:
        settled = self.ledger.settled(job.dataset, job.name)
        zone = self.files.dataset_of(job).time_zone
        return (w for w in due(job.window, job.start, zone, now) if w not in settled)

    def _totals(self, job: Job, window: Window, key: str) -> Totals:
        statistic = STATISTICS[job.statistic.kind]
        measured = statistic.measured(job.statistic)
        with self._rows(job) as rows:
            return totals(
                rows,
                window,
                groups=None if job.statistic.discovers else job.statistic.listed,
                contribution=job.contribution,
                scale=measured and measured[1],
                names=tuple(statistic.split(job.statistic)),
                salt=f"{key}|{job.dataset}|{job.name}|{window.name}",
            )

    def _rows(self, job: Job) -> AbstractContextManager[Rows]:
        dataset = self.files.dataset_of(job)
        measured = STATISTICS[job.statistic.kind].measured(job.statistic)
        wanted = Wanted(job.statistic.columns, measured and measured[0], job.statistic.where)
        frame = self._frames.get(dataset.name)
        return open_rows(dataset, self.files.folder, wanted, frame=frame)

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


def _check_line(name: str, text: str) -> None:
    if not text.strip() or any(unicodedata.category(char) in UNPRINTABLE for char in text):
        raise UsageError(
            f"the {name} is empty, or holds a control character",
            hint="Write it as one line of text, which the pages will show.",
        )


def open_project(folder: Path, *, frames: Frames | None = None) -> Project:
    """The project in ``folder``; raises ConfigError with every fault of its files."""
    files = config.read(folder)
    ledger = Ledger(files.folder, files.project.ledger, wait=float(files.project.ledger_wait))
    return Project(files, ledger, frames or {})
