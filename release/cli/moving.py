"""The commands that move a whole ledger: to the format of this software, or elsewhere."""

from __future__ import annotations

import sys
from dataclasses import asdict
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from release.cli.commands import HERE, AsJson, Folder, ledger_app, past_clock_at, show
from release.cli.words import cause, counted
from release.errors import UsageError

if TYPE_CHECKING:
    from release.ledger.transfer import Summary
    from release.project import Project


@ledger_app.command("upgrade")
def upgrade(project: Folder = HERE, as_json: AsJson = False) -> None:
    """Bring a ledger that an older version made to the format of this one."""
    from release.ledger.schema import FORMAT
    from release.project import open_project

    with open_project(project) as opened:
        before, entries = opened.ledger.upgrade()
        name = opened.ledger.name
    document = {"ledger": name, "from": before, "to": FORMAT, "entries": entries}
    words = f"{name}: is of format {FORMAT} already; all {entries} entries verify."
    if before != FORMAT:
        words = (
            f"{name}: brought from format {before} to format {FORMAT}; "
            f"all {entries} entries verify, as they did before, by the same hashes."
        )
    show(document, lambda: words, as_json=as_json)


@ledger_app.command("export")
def export(
    project: Folder = HERE,
    out: Annotated[
        Path | None, typer.Option(metavar="FILE", help="A new file, in place of standard output.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Write the whole record as one file that any ledger of this software can take in."""
    from release.ledger.transfer import new_file
    from release.project import open_project

    if out is None and as_json:
        raise UsageError("--json needs --out", hint="The export itself goes to standard output.")
    with open_project(project) as opened:
        if out is None:
            opened.ledger.export(sys.stdout.buffer)
            return
        with new_file(out) as file:
            summary = opened.ledger.export(file)
    _show_summary("Exported", out, summary, as_json=as_json)


@ledger_app.command("import")
def import_(
    file: Annotated[
        Path | None, typer.Argument(metavar="[FILE]", help="What `ledger export` wrote.")
    ] = None,
    project: Folder = HERE,
    history: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Earlier spends, as CSV, to be charged.")
    ] = None,
    account: Annotated[
        str | None, typer.Option(metavar="NAME", help="Whose history; else a column says it.")
    ] = None,
    now: Annotated[str | None, typer.Option(metavar="T", help="The time to use.")] = None,
    as_json: AsJson = False,
) -> None:
    """Take an exported record into a new ledger, or charge what was spent before it began."""
    from release.project import open_project

    if (file is None) == (history is None):
        raise UsageError("give either an exported FILE or --history FILE")
    if file is not None and (account, now) != (None, None):
        raise UsageError("--account and --now go with --history alone")
    with open_project(project) as opened:
        if history is not None:
            _remember(opened, history, account, past_clock_at(now)(), as_json=as_json)
        elif file is not None:
            summary = _restore(opened, file)
            _show_summary("Imported", file, summary, as_json=as_json)


def _restore(opened: Project, path: Path) -> Summary:
    try:
        with path.open("rb") as file:
            return opened.restore(file, path.name)
    except OSError as error:
        raise UsageError(f"{path}: cannot be read ({cause(error)})") from None


def _remember(
    opened: Project, path: Path, account: str | None, now: datetime, *, as_json: bool
) -> None:
    from release.cli import documents

    charged = opened.remember(path, now, account=account)
    opened.build_site()
    count = sum(map(len, charged.values()))
    accounts = [one for one in opened.accounts() if one.terms.account in charged]
    document = {"charged": count, **documents.budget(accounts, now)}
    words = f"{counted(count, 'earlier spend')} charged.\n{documents.budget_words(document)}"
    show(document, lambda: words, as_json=as_json)


def _show_summary(done: str, path: Path, summary: Summary, *, as_json: bool) -> None:
    document = {"file": str(path), **asdict(summary)}
    words = (
        f"{done} {counted(summary.entries, 'entry', 'entries')} of"
        f" {counted(summary.accounts, 'account')}: {path}\n"
        f"SHA-256 of all lines but the last: {summary.sha256}"
    )
    show(document, lambda: words, as_json=as_json)
