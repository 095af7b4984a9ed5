"""The commands about budgets: opening, planning, recording and converting."""

from __future__ import annotations

import math
from decimal import Decimal, InvalidOperation
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from release.cli.commands import (
    HERE,
    AsJson,
    Folder,
    app,
    clock_at,
    ledger_app,
    past_clock_at,
    show,
)
from release.cli.words import cause
from release.errors import UsageError

if TYPE_CHECKING:
    from release.accounting import Event

MOST_JSON = 2**24
MOST_DIGITS = 15
# What each way to describe an event needs beside itself, and what it may have.
NEEDED: dict[str, tuple[str, ...]] = {
    "--event": (),
    "--gaussian": ("--sensitivity",),
    "--dp-sgd": ("--sampling-rate", "--noise-multiplier", "--steps"),
}
ALLOWED = {**NEEDED, "--gaussian": ("--sensitivity", "--count")}

# The ways to describe an event, on every command that charges one.
EventFile = Annotated[
    Path | None, typer.Option("--event", metavar="FILE", help="An event as a JSON file.")
]
Sigma = Annotated[
    float | None,
    typer.Option("--gaussian", metavar="SIGMA", help="Gaussian noise of this scale."),
]
Sensitivity = Annotated[float | None, typer.Option(help="Its L2 sensitivity.")]
Count = Annotated[int | None, typer.Option(help="How often it was used; once.")]
DPSGD = Annotated[bool, typer.Option("--dp-sgd", help="Poisson-sampled steps.")]
SamplingRate = Annotated[float | None, typer.Option(help="Of each step.")]
NoiseMultiplier = Annotated[float | None, typer.Option(help="Of each step.")]
Steps = Annotated[int | None, typer.Option(help="How many steps.")]
Now = Annotated[str | None, typer.Option(metavar="T", help="The time to use.")]


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
    if half_width is not None and not 0 < half_width < math.inf:
        raise UsageError("--half-width must be above 0 and finite")
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
    event: EventFile = None,
    gaussian: Sigma = None,
    sensitivity: Sensitivity = None,
    count: Count = None,
    dp_sgd: DPSGD = False,
    sampling_rate: SamplingRate = None,
    noise_multiplier: NoiseMultiplier = None,
    steps: Steps = None,
    now: Now = None,
    as_json: AsJson = False,
) -> None:
    """Charge what was done elsewhere, such as training a model, under the same filter."""
    from release.cli import documents
    from release.project import open_project

    spent = described(
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
        opened.record(account, spent, reason, clock())
        opened.build_site()
        document = documents.budget(
            [one for one in opened.accounts() if one.terms.account == account], clock()
        )
    show(document, lambda: documents.budget_words(document), as_json=as_json)


@app.command()
def convert(
    delta: Annotated[str, typer.Option(metavar="X", help="The δ to convert at.")],
    epsilon: Annotated[
        str | None, typer.Option(metavar="X", help="An ε: how much ρ is within it?")
    ] = None,
    rho: Annotated[str | None, typer.Option(metavar="X", help="A zCDP ρ.")] = None,
    mu: Annotated[str | None, typer.Option(metavar="X", help="A Gaussian DP μ.")] = None,
    rdp: Annotated[
        str | None,
        typer.Option(metavar="ALPHA,EPS", help="One point of a Rényi curve: order and ε."),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Convert between ρ, μ, Rényi DP and (ε, δ), by every formula."""
    from release.cli import plans

    if [epsilon, rho, mu, rdp].count(None) != 3:
        raise UsageError("give exactly one of --epsilon, --rho, --mu and --rdp")
    at = _number(delta, "--delta")
    if epsilon is not None:
        found = plans.worth(at, _number(epsilon, "--epsilon"))
        show(found, lambda: plans.worth_words(found), as_json=as_json)
        return
    point = None
    if rdp is not None:
        order, comma, cost = rdp.partition(",")
        if not comma:
            raise UsageError(
                f"--rdp: {rdp!r} is not ALPHA,EPS", hint="Write it as in --rdp 8,0.5."
            )
        point = (_number(order, "--rdp"), _number(cost, "--rdp"))
    document = plans.conversion(
        at,
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
    if not all(part.isdecimal() and len(part) <= MOST_DIGITS and int(part) for part in parts):
        raise UsageError("--group-size is not a list of whole numbers, such as 50,500")
    return [int(part) for part in parts]


def described(
    *, event: Path | None, gaussian: float | None, dp_sgd: bool, **options: Any
) -> Event:
    """The event that the command line describes; an option that it would ignore is a fault."""
    from release.accounting import Gaussian, PoissonGaussian

    ways: dict[str, Any] = {"--event": event, "--gaussian": gaussian, "--dp-sgd": dp_sgd or None}
    chosen = [name for name, value in ways.items() if value is not None]
    if len(chosen) != 1:
        raise UsageError("give exactly one of --event, --gaussian and --dp-sgd")
    (way,) = chosen
    given = {
        f"--{name.replace('_', '-')}": value
        for name, value in options.items()
        if value is not None
    }
    if missing := [name for name in NEEDED[way] if name not in given]:
        raise UsageError(f"{way} needs {', '.join(missing)}")
    if foreign := [name for name in given if name not in ALLOWED[way]]:
        raise UsageError(f"{way} does not go with {', '.join(foreign)}")
    if way == "--event":
        return _event(ways[way])
    if way == "--gaussian":
        return Gaussian(given["--sensitivity"], ways[way], given.get("--count", 1))
    return PoissonGaussian(*(given[name] for name in NEEDED[way]))


def _event(path: Path) -> Event:
    from release.accounting import event_from_text

    try:
        with path.open("rb") as file:
            content = file.read(MOST_JSON + 1)
        text = content.decode("utf-8")
    except OSError as error:
        raise UsageError(
            f"{path}: cannot be read ({cause(error)})", hint="Nothing was charged."
        ) from None
    except UnicodeDecodeError:
        raise UsageError(
            f"{path}: cannot be read as JSON, which is UTF-8",
            hint="docs/accounting.md shows the form of each event.",
        ) from None
    if len(content) > MOST_JSON:
        raise UsageError(f"{path}: is too large to be an event")
    return event_from_text(text)
