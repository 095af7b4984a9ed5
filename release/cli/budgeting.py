"""The commands about budgets: opening, planning, recording and converting."""

from __future__ import annotations

import json
from decimal import Decimal, InvalidOperation
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from release.cli.commands import HERE, AsJson, Folder, app, clock_at, ledger_app, show
from release.errors import UsageError

if TYPE_CHECKING:
    from release.accounting import Event

Number = Annotated[str | None, typer.Option(metavar="X")]
MOST_JSON = 2**24


@app.command("open")
def open_accounts(project: Folder = HERE, as_json: AsJson = False) -> None:
    """Open the accounts of the project file, as the first run does."""
    from release.cli import documents
    from release.project import open_project

    clock = clock_at(None)
    with open_project(project) as opened:
        opened.open_accounts(clock())
        document = documents.budget(opened.accounts(), clock())
    show(document, lambda: documents.budget_words(document), as_json=as_json)


@app.command()
def plan(
    job: Annotated[
        list[str] | None, typer.Argument(metavar="[JOB]...", help="All if none.")
    ] = None,
    project: Folder = HERE,
    group_size: Annotated[
        str, typer.Option(metavar="N,N…", help="Sizes of groups to show intervals for.")
    ] = "",
    releases: Annotated[
        int | None, typer.Option(min=1, help="Plan for so many releases instead.")
    ] = None,
    half_width: Annotated[
        float | None, typer.Option(help="Plan for an interval of this half-width instead.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Show what releases cost, how exact they are and when the budget stops. Reads no data."""
    from release.cli import plans
    from release.project import open_project

    if releases is not None and half_width is not None:
        raise UsageError("give --releases or --half-width, not both")
    with open_project(project) as opened:
        document = plans.plans(
            opened,
            opened.jobs(job or ()),
            sizes=_sizes(group_size),
            releases=releases,
            half_width=half_width,
        )
    show(document, lambda: plans.plans_words(document), as_json=as_json)


@ledger_app.command("record")
def record(
    account: Annotated[str, typer.Argument(help="The dataset whose account is charged.")],
    reason: Annotated[str, typer.Option(help="What was done, in one line.")],
    project: Folder = HERE,
    event: Annotated[
        Path | None, typer.Option(metavar="FILE", help="An event as a JSON file.")
    ] = None,
    gaussian: Annotated[
        float | None, typer.Option(metavar="SIGMA", help="Gaussian noise of this scale.")
    ] = None,
    sensitivity: Annotated[float, typer.Option(help="Its L2 sensitivity.")] = 1.0,
    count: Annotated[int, typer.Option(help="How often it was used.")] = 1,
    dp_sgd: Annotated[bool, typer.Option("--dp-sgd", help="Poisson-sampled steps.")] = False,
    sampling_rate: Annotated[float, typer.Option(help="Of each step.")] = 0.0,
    noise_multiplier: Annotated[float, typer.Option(help="Of each step.")] = 0.0,
    steps: Annotated[int, typer.Option(help="How many steps.")] = 0,
    now: Annotated[str | None, typer.Option(metavar="T", help="The time to use.")] = None,
    as_json: AsJson = False,
) -> None:
    """Charge what was done elsewhere, such as training a model, under the same filter."""
    from release.accounting import Gaussian, PoissonGaussian
    from release.cli import documents
    from release.project import open_project

    if [event is not None, gaussian is not None, dp_sgd].count(True) != 1:
        raise UsageError("give exactly one of --event, --gaussian and --dp-sgd")
    if event is not None:
        spent: Event = _event(event)
    elif gaussian is not None:
        spent = Gaussian(sensitivity, gaussian, count)
    else:
        spent = PoissonGaussian(sampling_rate, noise_multiplier, steps)
    clock = clock_at(now)
    with open_project(project) as opened:
        opened.record(account, spent, reason, clock())
        opened.build_site()
        document = documents.budget(
            [one for one in opened.accounts() if one.terms.account == account], clock()
        )
    show(document, lambda: documents.budget_words(document), as_json=as_json)


@app.command()
def convert(
    delta: Annotated[str, typer.Option(metavar="X", help="The δ to convert at.")],
    rho: Number = None,
    mu: Number = None,
    rdp: Annotated[
        str | None,
        typer.Option(metavar="ALPHA,EPS", help="One point of a Rényi curve: order and ε."),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Convert between ρ, μ, Rényi DP and (ε, δ), by every formula."""
    from release.cli import plans

    point = None
    if rdp is not None:
        order, _, cost = rdp.partition(",")
        point = (_number(order, "--rdp"), _number(cost, "--rdp"))
    document = plans.conversion(
        _number(delta, "--delta"),
        rho=None if rho is None else _number(rho, "--rho"),
        mu=None if mu is None else _number(mu, "--mu"),
        rdp=point,
    )
    show(document, lambda: plans.conversion_words(document), as_json=as_json)


def _number(text: str, option: str) -> Decimal:
    try:
        number = Decimal(text)
    except InvalidOperation:
        number = Decimal("nan")
    if not number.is_finite() or abs(number.adjusted()) > 100:
        raise UsageError(f"{option}: {text!r} is not a number")
    return number


def _sizes(text: str) -> list[int]:
    parts = [part for part in text.split(",") if part]
    if not all(part.isdecimal() and int(part) > 0 for part in parts):
        raise UsageError("--group-size is not a list of whole numbers, such as 50,500")
    return [int(part) for part in parts]


def _event(path: Path) -> Event:
    from release.accounting import event_from_json

    try:
        if path.stat().st_size > MOST_JSON:
            raise UsageError(f"{path}: is too large to be an event")
        document = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError) as error:
        raise UsageError(
            f"{path}: cannot be read as JSON ({type(error).__name__})",
            hint="docs/accounting.md shows the form of each event.",
        ) from None
    return event_from_json(document)
