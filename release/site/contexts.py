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
    """One row of a table; ``value`` is None exactly where the row is not reliable.

    ``group`` is its name as one text, ``names`` its text in each column that it is grouped by.
    """

    group: str
    names: tuple[str, ...]
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

    ``highest`` is None where no row is reliable, ``lowest`` where it is the only one or the rows
    are ``ranked``. Each is a number ``of`` "rows" or "units", or a "sum" or "mean" of ``value``.
    """

    of: str
    value: str | None
    unit: str
    ranked: bool
    highest: RowView | None
    lowest: RowView | None
    reliable: int
    total: int


@dataclass(frozen=True)
class Line:
    """One window of one job in a list; a refused one has neither ``href`` nor ``headline``.

    ``stopped_by`` says whether the job's ``share`` or the ``account`` refused it, ``corrected``
    whether its charge was found too low.
    """

    window: WindowView
    entry: int
    href: str | None
    headline: Headline | None
    stopped_by: str | None = None
    corrected: bool = False


@dataclass(frozen=True)
class NoticeView:
    """What readers should know of an account, or of one job; the newest come first."""

    day: str
    text: str
    account: str
    job: str | None
    href: str
    """Of its entry in the account's record, as everywhere below."""


@dataclass(frozen=True)
class HaltView:
    """That a job is ``paused`` or ``retired``."""

    job: str
    job_href: str
    state: str
    day: str
    reason: str
    href: str


@dataclass(frozen=True)
class AuditView:
    """What an attack on a job itself measured: a lower bound on ε at ``delta``."""

    day: str
    measured: str
    claimed: str
    exceeds: bool
    """Whether the bound is above the claim, which then cannot hold."""
    delta: str
    error: str
    """In how many of a hundred audits, at most, such a bound is too high."""
    trials: str
    software: str
    href: str


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
    corrections: int
    """Of how many of its releases the charge was found too low."""
    halts: tuple[HaltView, ...]
    notices: tuple[NoticeView, ...]


@dataclass(frozen=True)
class ThresholdView:
    """δ_T: what is set aside of δ for thresholds of discovered groups, and spent of it."""

    aside: str
    spent: str


@dataclass(frozen=True)
class LinkView:
    """Another account; ``href`` is None where it has no page here."""

    name: str
    href: str | None


@dataclass(frozen=True)
class OverdraftView:
    """That a correction showed more to be spent than the budget allows.

    What was spent is ``epsilon`` at ``delta``, and ``factor`` its e^ε; ``heir`` is the account
    that has replaced it.
    """

    day: str
    entry: int
    href: str
    epsilon: str
    delta: str
    factor: str | None
    heir: LinkView | None = None


@dataclass(frozen=True)
class BrokenView:
    """That the promise of an earlier account, ``epsilon`` at ``delta``, was not kept."""

    account: LinkView
    epsilon: str
    delta: str
    overdrawn: OverdraftView


@dataclass(frozen=True)
class Succession:
    """The account whose spend an account contains, and the one that contains its own.

    ``broken`` are the promises that were not kept of all that it contains, the nearest first.
    """

    replaces: LinkView | None = None
    replaced_by: LinkView | None = None
    broken: tuple[BrokenView, ...] = ()


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
    meter: str
    """The same for a bar: 100 at most."""
    left: str
    left_percent: str
    releases: int
    records: int
    """What was charged for work that is no release of this project."""
    amendments: int
    refusals: int
    stops: tuple[str, ...]
    head_entry: int
    head: str
    updated: str
    overdrawn: OverdraftView | None
    succession: Succession = Succession()
    """Of the account as it stands."""


@dataclass(frozen=True)
class IndexPage:
    """``index.html``."""

    frame: Frame
    jobs: tuple[JobView, ...]
    accounts: tuple[AccountView, ...]
    notices: tuple[NoticeView, ...]


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
class ConditionView:
    """What a row must be like to count at all: ``operator`` as in the job's file."""

    column: str
    operator: str
    values: tuple[str, ...]


@dataclass(frozen=True)
class DiscoveredView:
    """How groups were found in the rows: above a noisy count of ``tau``, at a cost of ``delta0``.

    A group to which ``half`` units count in full appears with a probability of 50 %, one of
    ``most`` with 99 %. Of ``seen`` groups of a unit anything was looked at. ``lasting`` says that
    what has appeared once is shown in every later release.
    """

    tau: str
    delta0: str
    half: str
    most: str
    seen: int
    lasting: bool


@dataclass(frozen=True)
class StatisticView:
    """What was computed.

    ``of`` is "rows" or "units" for a count, and "sum" or "mean" for what has a ``value``, bounds
    and a ``scale``: what a row adds to a total is at most that, from 0 for a sum and from the
    middle of the bounds for a mean. ``ranked`` says that the rows stand in their own order.
    """

    of: str
    ranked: bool
    by: tuple[str, ...]
    value: str | None
    lower: str | None
    upper: str | None
    scale: str | None
    where: tuple[ConditionView, ...]
    count_percent: str | None
    """The count's part of ρ, in per cent; None where there is but one total."""
    count_share: str | None
    prior_mean: str | None
    nonnegative: bool | None
    """Whether it is published so, like the four below; None where it would change nothing."""
    within_bounds: bool | None
    rounded: bool
    change: bool
    running: bool
    counted: bool
    """Whether a noisy count stands beside each value."""
    discovered: DiscoveredView | None
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
    max_norm: str | None
    bounding: str
    contribution_origin: str | None
    noise: tuple[NoiseView, ...]
    lattice_bits: int
    sensitivity: str
    level: str
    missed: str
    """What the level leaves of 100 %."""
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
    audit: AuditView | None
    """The last one of its job."""


@dataclass(frozen=True)
class CorrectionView:
    """A later entry that raised an earlier charge: by how much, why, and what was really done.

    ``charge`` is of the account's quantity.
    """

    entry: int
    amends: int
    day: str
    reason: str
    event: str
    charge: str
    delta0: str
    href: str


@dataclass(frozen=True)
class CorrectedView:
    """What a release really cost, all corrections counted; ``epsilon`` is of it alone."""

    corrections: tuple[CorrectionView, ...]
    charge: str
    epsilon: str


@dataclass(frozen=True)
class SpanView:
    """A number beside a row, with its interval.

    Its ``status`` is that of a row, or "not-available": then there is no interval either.
    """

    value: Figure | None
    lower: Figure | None
    upper: Figure | None
    status: str


@dataclass(frozen=True)
class BesideView:
    """What stands beside one row: its change, and what it comes to so far."""

    names: tuple[str, ...]
    change: SpanView | None
    running: SpanView | None


@dataclass(frozen=True)
class PastView:
    """A release beside earlier ones.

    Changes are since ``before``; sums or means are over ``windows`` of the ``possible`` ones since
    ``first``; each is None where there are none. ``broken`` is an earlier window of which
    something else was asked, so that nothing can be said beside it.
    """

    before: WindowView | None
    first: WindowView | None
    windows: int
    possible: int
    broken: WindowView | None
    rows: tuple[BesideView, ...]
    lacking: bool
    """Whether one of the releases is without one of the rows."""


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
    past: PastView | None
    chart: IntervalChart
    guarantee: Guarantee
    corrected: CorrectedView | None
    understated: tuple[CorrectionView, ...]
    """Later corrections of what was charged before: the sums on the page do not know of them."""
    overdrawn: OverdraftView | None
    notices: tuple[NoticeView, ...]


@dataclass(frozen=True)
class EntryView:
    """One line of an account's record; ``epsilon`` is the account's after it.

    ``charge`` and ``spent`` are of the account's quantity; ``rho`` is None for what has no ρ.
    ``event`` says what was done, of work done elsewhere or before, and of a correction; ``said``
    is the entry's own text, and ``date`` the day on which its cost arose, if not that of the
    entry.
    """

    seq: int
    charged_at: str
    kind: str
    job: str | None
    window: WindowView | None
    href: str | None
    stopped_by: str | None
    event: str | None
    said: str | None
    date: str | None
    amends: int | None
    amended_by: tuple[int, ...]
    audit: AuditView | None
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
    halts: tuple[HaltView, ...]
    notices: tuple[NoticeView, ...]
    entries: tuple[EntryView, ...]
    conversions: tuple[Conversion, ...]
    """By every formula, the account's own first."""
    comparison: tuple[Comparison, ...]
    statement: Statement
    warning: str | None
    curve: CurveView | None
    chart: BudgetChart


AnyPage = IndexPage | JobPage | ReleasePage | AccountPage
