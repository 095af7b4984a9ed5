"""The commands by which people correct the record, speak to its readers and stop jobs."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from release.cli import budgeting
from release.cli.commands import HERE, AsJson, Folder, app, ledger_app, past_clock_at, show

if TYPE_CHECKING:
    from datetime import datetime

    from release.ledger.records import Entry, EntryKind
    from release.project import Project

JobName = Annotated[str, typer.Argument(metavar="JOB")]
Why = Annotated[str, typer.Option("--reason", metavar="TEXT", help="Why, in one line.")]


@ledger_app.command("amend")
def amend(
    account: Annotated[str, typer.Argument(help="The account that was charged too little.")],
    seq: Annotated[int, typer.Argument(min=1, max=2**63 - 1, help="The entry that charged it.")],
    reason: Annotated[str, typer.Option(metavar="TEXT", help="What was found, in one line.")],
    project: Folder = HERE,
    event: budgeting.EventFile = None,
    gaussian: budgeting.Sigma = None,
    sensitivity: budgeting.Sensitivity = None,
    count: budgeting.Count = None,
    dp_sgd: budgeting.DPSGD = False,
    sampling_rate: budgeting.SamplingRate = None,
    noise_multiplier: budgeting.NoiseMultiplier = None,
    steps: budgeting.Steps = None,
    past_cap: Annotated[
        bool, typer.Option("--past-cap", help="Even past the budget, which stops everything.")
    ] = False,
    now: budgeting.Now = None,
    as_json: AsJson = False,
) -> None:
    """Raise the charge of an entry to what was really done; it is never lowered."""
    from release.cli import documents
    from release.project import open_project

    meant = budgeting.described(
        event=event,
        gaussian=gaussian,
        dp_sgd=dp_sgd,
        sensitivity=sensitivity,
        count=count,
        sampling_rate=sampling_rate,
        noise_multiplier=noise_multiplier,
        steps=steps,
    )
    clock = past_clock_at(now)
    with open_project(project) as opened:
        opened.amend(account, seq, meant, reason, clock(), past_cap=past_cap)
        opened.build_site()
        document = documents.budget(
            [one for one in opened.accounts() if one.terms.account == account], clock()
        )
    show(document, lambda: documents.budget_words(document), as_json=as_json)


@ledger_app.command("notice")
def notice(
    account: Annotated[str, typer.Argument(help="The account whose readers are told.")],
    text: Annotated[str, typer.Option(metavar="TEXT", help="What they should know, in one line.")],
    job: Annotated[str | None, typer.Option(metavar="JOB", help="The job it is about.")] = None,
    project: Folder = HERE,
    now: budgeting.Now = None,
    as_json: AsJson = False,
) -> None:
    """Put a dated notice or erratum at the top of the pages."""
    _write(project, now, lambda opened, at: opened.notice(account, text, at, job=job), as_json)


@app.command()
def pause(
    job: JobName,
    reason: Why,
    project: Folder = HERE,
    now: budgeting.Now = None,
    as_json: AsJson = False,
) -> None:
    """Release nothing of a job until it is resumed; no window is lost."""
    _decide("pause", job, reason, project, now, as_json)


@app.command()
def resume(
    job: JobName,
    reason: Why,
    project: Folder = HERE,
    now: budgeting.Now = None,
    as_json: AsJson = False,
) -> None:
    """Take up a paused job: every window that it missed is due."""
    _decide("resume", job, reason, project, now, as_json)


@app.command()
def retire(
    job: JobName,
    reason: Why,
    project: Folder = HERE,
    now: budgeting.Now = None,
    as_json: AsJson = False,
) -> None:
    """Release nothing of a job ever again; that is final."""
    _decide("retire", job, reason, project, now, as_json)


def _decide(
    decision: EntryKind, job: str, reason: str, project: Path, now: str | None, as_json: bool
) -> None:
    _write(project, now, lambda opened, at: opened.decide(decision, job, reason, at), as_json)


def _write(
    folder: Path, now: str | None, write: Callable[[Project, datetime], Entry], as_json: bool
) -> None:
    from release.cli import documents
    from release.project import open_project

    clock = past_clock_at(now)
    with open_project(folder) as opened:
        entry = write(opened, clock())
        opened.build_site()
        (account,) = (one for one in opened.accounts() if one.terms.account == entry.account)
        document = documents.written(account, entry)
    show(document, lambda: documents.written_words(document), as_json=as_json)
