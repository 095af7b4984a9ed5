"""The commands. What they print is made in ``documents``; nothing is decided here."""

from __future__ import annotations

import json
import shlex
import sys
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from release import __version__
from release.cli import streams
from release.cli.streams import OutputError
from release.cli.words import counted
from release.errors import LedgerError, ReleaseError, StoppedError, UsageError
from release.windows import EARLIEST, LATEST

if TYPE_CHECKING:
    from release.project import Due

MOST_TO_CATCH_UP = 60

app = typer.Typer(add_completion=False, pretty_exceptions_enable=False, rich_markup_mode=None)
ledger_app = typer.Typer(help="The record itself.", rich_markup_mode=None)
site_app = typer.Typer(help="The public pages.", rich_markup_mode=None)
app.add_typer(ledger_app, name="ledger")
app.add_typer(site_app, name="site")

Folder = Annotated[Path, typer.Option("--project", metavar="DIR", help="The project's folder.")]
AsJson = Annotated[bool, typer.Option("--json", help="Print one JSON document.")]
HERE = Path()


def main() -> None:
    """Runs the command line and ends the process with the exit code of what happened."""
    output = streams.take_over()
    sys.exit(output.code(_guarded(sys.argv[1:] or ["--help"])))


def _guarded(arguments: Sequence[str]) -> int:
    stopped = StoppedError("interrupted", hint="What was released stays; nothing is half-done.")
    problem: ReleaseError = stopped
    try:
        _check_text(arguments)
        code = int(app(list(arguments), prog_name="dp-release", standalone_mode=False) or 0)
        if code != StoppedError.exit_code:  # which is how Typer returns from an interrupt
            return code
    except OutputError:
        return 0
    except ReleaseError as error:
        problem = error
    except (KeyboardInterrupt, typer.Abort):
        problem = stopped
    except typer.TyperException as error:
        problem = _misused(error)
    except Exception as error:
        # An unforeseen error's own text may quote anything, private rows too.
        problem = ReleaseError(
            f"an unexpected error stopped the command: {type(error).__name__}",
            hint="Nothing is half-done. Try again, and report it if it happens again.",
        )
    _complain(problem, as_json="--json" in arguments)
    return problem.exit_code


def _check_text(arguments: Sequence[str]) -> None:
    """Raises UsageError for bytes that are no text: no file, page or message could repeat them."""
    for argument in arguments:
        shown = argument.encode("utf-8", "backslashreplace").decode("utf-8")
        if shown != argument:
            raise UsageError(
                f"the argument '{shown}' is not text in UTF-8", hint="Nothing was written."
            )


def _misused(error: typer.TyperException) -> UsageError:
    text = error.format_message() if hasattr(error, "format_message") else str(error)
    context = getattr(error, "ctx", None)
    command = "dp-release" if context is None else context.command_path
    return UsageError(text, hint=f"See `{command} --help`.")


def _complain(error: ReleaseError, *, as_json: bool) -> None:
    if as_json and _say(json.dumps({"error": error.document()})):
        return
    typer.echo(f"dp-release: {error.message}", err=True)
    if error.hint:
        typer.echo(error.hint, err=True)


def show(document: dict[str, Any], words: Callable[[], str], *, as_json: bool) -> bool:
    """Prints the document, or the same in words; False where standard output has failed."""
    text = json.dumps(document) if as_json else words()
    return not text or _say(text)


def _say(text: str) -> bool:
    try:
        typer.echo(text)
    except OutputError:
        return False  # what else there is to say goes to standard error
    return True


def _show_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"dp-release {__version__}")
        raise typer.Exit


@app.callback()
def options(
    version: Annotated[
        bool,
        typer.Option("--version", help="Print it.", callback=_show_version, is_eager=True),
    ] = False,
) -> None:
    """Publish statistics about people on schedule, under a privacy budget."""


@app.command()
def init(directory: Annotated[Path, typer.Argument(metavar="DIR")]) -> None:
    """Write a new project that runs as it is, with sample data."""
    from release import shipped

    shipped.copy_sample(directory)
    typer.echo(
        f"Wrote a project with sample data to {directory}. Next:\n"
        f"  cd {shlex.quote(str(directory))} && dp-release run --now {shipped.SAMPLE_NOW}"
    )


@app.command()
def check(project: Folder = HERE, as_json: AsJson = False) -> None:
    """Read the project and every job, and report every fault at once. Reads no data."""
    from release.cli import documents
    from release.project import open_project

    with open_project(project) as opened:
        document = documents.check(opened)
    show(document, lambda: documents.check_words(document), as_json=as_json)


@app.command()
def run(
    job: Annotated[
        list[str] | None, typer.Argument(metavar="[JOB]...", help="All if none.")
    ] = None,
    project: Folder = HERE,
    now: Annotated[
        str | None, typer.Option(metavar="T", help="The time to use, such as 2026-03-30T09:00Z.")
    ] = None,
    yes: Annotated[bool, typer.Option("--yes", help="Answer yes to every question.")] = False,
    as_json: AsJson = False,
) -> None:
    """Release every due window once, oldest first; then build the site."""
    from release.cli import documents, terminal
    from release.project import open_project

    moment = clock_at(now)()
    with open_project(project) as opened:
        queue = opened.due(moment, opened.jobs(job or ()))
        _ask(queue, moment, yes=yes)
        with terminal.progress(len(queue), quiet=as_json) as seen:
            result = opened.run(moment, jobs=job or (), seen=seen)
        document = documents.run(result, opened)
        shown = show(document, lambda: documents.run_words(result, opened), as_json=as_json)
    if not (as_json and shown):
        for error in result.errors:
            _complain(error, as_json=False)
    raise typer.Exit(result.exit_code)


def clock_at(now: str | None) -> Callable[[], datetime]:
    """The clock, or one that stands at the time given; raises UsageError if it is none."""
    if now is None:
        return lambda: datetime.now(UTC)
    try:
        moment = datetime.fromisoformat(now)
    except ValueError:
        moment = datetime.min
    if moment.tzinfo is None or not EARLIEST.year <= moment.year <= LATEST.year:
        raise UsageError(
            f"--now is not a time with a zone, from {EARLIEST} to {LATEST}",
            hint="Write it as in 2026-03-30T09:00:00+01:00.",
        )
    return lambda: moment


def past_clock_at(now: str | None) -> Callable[[], datetime]:
    """As ``clock_at``; raises UsageError for a time to come.

    No entry is dated before the one that it follows, so all later ones would bear that time.
    """
    clock = clock_at(now)
    if clock() > datetime.now(UTC):
        raise UsageError("--now is later than the clock", hint="Nothing was written.")
    return clock


def _ask(queue: Sequence[Due], now: datetime, *, yes: bool) -> None:
    """A wrong clock would spend the budget on windows that have no data yet."""
    reasons = []
    if now > datetime.now(UTC):
        reasons.append("--now is later than the clock.")
    counts: dict[str, int] = {}
    for due in queue:
        counts[due.job.name] = counts.get(due.job.name, 0) + 1
    reasons += [
        f"{job} has {count} windows to catch up, each at the cost of a release."
        for job, count in counts.items()
        if count > MOST_TO_CATCH_UP
    ]
    if not reasons or yes:
        return
    question = " ".join(reasons)
    if not sys.stdin.isatty():
        raise UsageError(question, hint="Add --yes if that is meant. Nothing was charged.")
    typer.confirm(f"{question} Go on?", abort=True, err=True)


@app.command()
def status(project: Folder = HERE, as_json: AsJson = False) -> None:
    """Show the accounts, what is due and what the budget has stopped."""
    from release.cli import documents
    from release.project import open_project

    problem = None
    with open_project(project) as opened:
        document = documents.status(opened, datetime.now(UTC))
        try:
            opened.check_published()
        except LedgerError as error:
            problem, document["error"] = error, error.document()
    shown = show(document, lambda: documents.status_words(document), as_json=as_json)
    if problem is not None:
        if not (as_json and shown):
            _complain(problem, as_json=False)
        raise typer.Exit(problem.exit_code)


@app.command()
def budget(
    project: Folder = HERE,
    pld: Annotated[
        bool, typer.Option("--pld", help="Add ε by the privacy-loss distribution.")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Show what each account has spent, and what is left."""
    from release.cli import documents
    from release.project import open_project

    with open_project(project) as opened:
        document = documents.budget(opened.accounts(), datetime.now(UTC), pld=pld)
    show(document, lambda: documents.budget_words(document), as_json=as_json)


@ledger_app.command("list")
def ledger_list(project: Folder = HERE, as_json: AsJson = False) -> None:
    """List every entry of every account."""
    from release.cli import documents
    from release.project import open_project

    with open_project(project) as opened:
        document = documents.entries(opened.accounts())
    show(document, lambda: documents.entries_words(document), as_json=as_json)


@ledger_app.command("show")
def ledger_show(
    account: str, seq: Annotated[int, typer.Argument(min=1)], project: Folder = HERE
) -> None:
    """Print one entry with everything that it says, as JSON."""
    from release.cli import documents
    from release.project import open_project

    with open_project(project) as opened:
        document = documents.entry(opened.accounts(), account, seq)
    typer.echo(json.dumps(document, indent=2, ensure_ascii=False))


@ledger_app.command("verify")
def ledger_verify(project: Folder = HERE, as_json: AsJson = False) -> None:
    """Derive every hash, sum and cap of the record anew; hold it to the published site."""
    from release.cli import documents
    from release.project import open_project

    with open_project(project) as opened:
        document = documents.verification(*opened.verify())
    show(document, lambda: documents.verification_words(document), as_json=as_json)
    raise typer.Exit(0 if document["intact"] else LedgerError.exit_code)


@site_app.command("build")
def site_build(project: Folder = HERE, as_json: AsJson = False) -> None:
    """Build the pages from the ledger alone."""
    from release.project import open_project

    with open_project(project) as opened:
        written = opened.build_site()
        document = {"site": str(opened.site_folder), "written": [str(path) for path in written]}
    show(
        document,
        lambda: f"{counted(len(written), 'file')} changed in {document['site']}",
        as_json=as_json,
    )
