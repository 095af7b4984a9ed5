"""What templates are given: one frozen value a page, of released and public things only.

Every template names its context ``page``. Numbers arrive as text that is already rounded to
the safe side, positions in charts as numbers; the words are the templates' own.
"""

from __future__ import annotations

from dataclasses import dataclass

from release.site.charts import BudgetChart, CurveChart, IntervalChart, SeriesChart
from release.site.figures import Figure


@dataclass(frozen=True)
class Frame:
    """What stands around every page."""

    title: str
    root: str
    """From this page to the site's root: "" or "../" for each folder."""
    style: str
    policy: str
    """The content security policy: it admits this one style sheet and nothing else."""
    contact: str | None
    licence: str | None
    software: str


@dataclass(frozen=True)
class WindowView:
    """A stretch of time: ``first`` and ``last`` are its local dates, both inside it."""

    name: str
    label: str
    kind: str
    first: str
    last: str
    start: str
    end: str
    zone: str


@dataclass(frozen=True)
class RowView:
    """One row of a table; ``value`` is None exactly where the row is not reliable."""

    group: str
    value: Figure | None
    lower: Figure
    upper: Figure
    status: str
    count: Figure | None
    rank: int | None
    rank_lower: int | None
    rank_upper: int | None


@dataclass(frozen=True)
class Headline:
    """The rows that a release's first sentence is about, and how many it may choose among.

    ``highest`` is None where no row is reliable, ``lowest`` where it is the only one.
    """

    kind: str
    highest: RowView | None
    lowest: RowView | None
    reliable: int
    total: int


@dataclass(frozen=True)
class Line:
    """One window of one job in a list; a refused one has neither ``href`` nor ``headline``.

    ``stopped_by`` says whether the job's ``share`` or the ``account`` refused it.
    """

    window: WindowView
    entry: int
    href: str | None
    headline: Headline | None
    stopped_by: str | None = None


@dataclass(frozen=True)
class JobView:
    """A job and all its windows, the newest first."""

    name: str
    title: str
    href: str
    accounts: tuple[str, ...]
    latest: Line | None
    lines: tuple[Line, ...]
    refusals: int
    stops: tuple[str, ...]
    """What its refusals were for: "account", "share" or both."""


@dataclass(frozen=True)
class ThresholdView:
    """δ_T: what is set aside of δ for thresholds of discovered groups, and spent of it."""

    aside: str
    spent: str


@dataclass(frozen=True)
class AccountView:
    """What is spent and what is left of an account, at first glance.

    ``cap``, ``spent`` and ``left`` are of the accountant's ``quantity``: ρ, or ε(α*) at the
    ``order`` that an account was opened with. Every ε is at ``reported_delta``.
    """

    name: str
    href: str
    unit: str
    unit_name: str
    population: int | None
    expected: str | None
    """δ times the population."""
    accountant: str
    quantity: str
    order: str | None
    epsilon: str
    delta: str
    reported_delta: str
    thresholds: ThresholdView | None
    cap: str
    spent: str
    spent_epsilon: str
    spent_percent: str
    left: str
    left_percent: str
    releases: int
    records: int
    refusals: int
    stops: tuple[str, ...]
    head_entry: int
    head: str
    updated: str


@dataclass(frozen=True)
class IndexPage:
    """``index.html``."""

    frame: Frame
    jobs: tuple[JobView, ...]
    accounts: tuple[AccountView, ...]


@dataclass(frozen=True)
class JobPage:
    """``job.html``: one job, its weeks side by side."""

    frame: Frame
    job: JobView
    accounts: tuple[AccountView, ...]
    chart: SeriesChart | None


@dataclass(frozen=True)
class Conversion:
    """ε by one formula; None where the formula does not apply."""

    name: str
    release: str | None
    to_date: str | None


@dataclass(frozen=True)
class NoiseView:
    """The noise on one kind of total: ``sigma`` in its own units, and its share of the cost."""

    total: str
    sigma: str
    steps: str
    rho: str


@dataclass(frozen=True)
class StatisticView:
    """What was computed. ``lower`` to ``half_width`` are None for counts."""

    kind: str
    by: str
    value: str | None
    lower: str | None
    upper: str | None
    half_width: str | None
    top: int | None
    groups: int
    groups_file: str | None
    groups_origin: str | None


@dataclass(frozen=True)
class Guarantee:
    """What is promised to the people in the data, and everything it rests on."""

    account: AccountView
    """As it stood right after this release."""
    time: str
    neighbouring: str
    epsilon: str
    rho: str
    charge: str
    """In the account's quantity, like ``job_spent`` and ``job_share``."""
    job_spent: str
    job_share: str
    planned: int | None
    conversions: tuple[Conversion, ...]
    max_groups: int
    max_rows: int
    bounding: str
    contribution_origin: str | None
    noise: tuple[NoiseView, ...]
    lattice_bits: int
    sensitivity: str
    level: str
    schedule: str
    entry: int
    hash: str
    previous: str
    charged_at: str
    software: str
    factor: str | None
    """The account's e^ε; None where it is too large to mean anything to a reader."""
    approved_by: str | None
    reason: str | None


@dataclass(frozen=True)
class ReleasePage:
    """``release.html``: one window of one job. ``rows`` are the first of ``total``."""

    frame: Frame
    name: str
    title: str
    job_href: str
    account_href: str
    window: WindowView
    earlier: Line | None
    later: Line | None
    headline: Headline
    statistic: StatisticView
    rows: tuple[RowView, ...]
    total: int
    chart: IntervalChart
    guarantee: Guarantee


@dataclass(frozen=True)
class EntryView:
    """One line of an account's record; ``epsilon`` is the account's after it.

    ``charge`` and ``spent`` are of the account's quantity; ``rho`` is None for what has no ρ.
    ``event`` and ``reason`` describe work that was done elsewhere.
    """

    seq: int
    charged_at: str
    kind: str
    job: str | None
    window: WindowView | None
    href: str | None
    stopped_by: str | None
    event: str | None
    reason: str | None
    charge: str
    rho: str | None
    delta0: str
    spent: str
    epsilon: str
    hash: str


@dataclass(frozen=True)
class Comparison:
    """ε by a composition theorem; None where it says nothing finite."""

    name: str
    epsilon: str | None


@dataclass(frozen=True)
class Statement:
    """The least ε proved of everything recorded, and the formula that proves it."""

    epsilon: str
    name: str


@dataclass(frozen=True)
class PointView:
    """One (α, ε(α)) of the account's curve, and the ε at δ that it alone proves."""

    order: str
    cost: str
    epsilon: str
    best: bool


@dataclass(frozen=True)
class CurveView:
    """The Rényi curve of everything spent; ``points`` are a selection of orders."""

    points: tuple[PointView, ...]
    chart: CurveChart


@dataclass(frozen=True)
class LinkView:
    """Another account; ``href`` is None where it has no page here."""

    name: str
    href: str | None


@dataclass(frozen=True)
class AccountPage:
    """``account.html``: the budget page."""

    frame: Frame
    account: AccountView
    neighbouring: str
    time_zone: str
    opened_at: str
    approved_by: str | None
    reason: str | None
    refused_jobs: tuple[str, ...]
    entries: tuple[EntryView, ...]
    replaces: LinkView | None
    replaced_by: LinkView | None
    conversions: tuple[Conversion, ...]
    """By every formula, the account's own first."""
    comparison: tuple[Comparison, ...]
    statement: Statement
    warning: str | None
    curve: CurveView | None
    chart: BudgetChart


AnyPage = IndexPage | JobPage | ReleasePage | AccountPage
