"""From what the ledger holds to what a template shows of it: rows, windows, accounts."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from decimal import Decimal

from release.ledger.records import Account, Release, Row, Table
from release.site import figures
from release.site.addresses import Published, account_folder, link
from release.site.charts import Estimate
from release.site.contexts import (
    AccountView,
    Headline,
    RowView,
    StatisticView,
    WindowView,
)
from release.specs import Leaderboard, Mean
from release.windows import Window


def instant(moment: datetime) -> str:
    """RFC 3339, in UTC, to the second: windows have no more, and readers need no more."""
    return moment.astimezone(UTC).isoformat(timespec="seconds").replace("+00:00", "Z")


def window(of: Window) -> WindowView:
    """The window with the dates that lie in it."""
    return WindowView(
        name=of.name,
        label=of.label,
        kind=of.kind,
        first=of.first.isoformat(),
        last=(of.after - timedelta(days=1)).isoformat(),
        start=instant(of.start),
        end=instant(of.end),
        zone=of.zone,
    )


def rows(release: Release) -> tuple[RowView, ...]:
    """The published table: a leaderboard by rank, everything else in the order stored."""
    table = release.table
    ordered = sorted(table.rows, key=lambda row: (row.rank is None, row.rank or 0))
    return tuple(_row(row, table) for row in ordered)


def headline(release: Release) -> Headline:
    """The rows with the greatest and, for means, the least reliable value."""
    known = [(Decimal(row.value.raw), row) for row in rows(release) if row.value is not None]
    kind = release.job.statistic.kind
    if not known:
        return Headline(kind, None, None)
    if kind == "leaderboard":
        return Headline(kind, known[0][1], None)
    ordered = [row for _, row in sorted(known, key=lambda pair: pair[0], reverse=True)]
    return Headline(kind, ordered[0], ordered[-1] if len(ordered) > 1 else None)


def estimates(release: Release) -> tuple[Estimate, ...]:
    """The rows that a page shows, as a chart draws them."""
    return tuple(
        Estimate(
            label=row.group,
            value=None if row.value is None else row.value.number,
            lower=row.lower.number,
            upper=row.upper.number,
            text="" if row.value is None else row.value.text,
            rank=f"{row.rank}" if row.rank is not None else "",
        )
        for row in rows(release)[: statistic(release).top]
    )


def statistic(release: Release) -> StatisticView:
    """What was computed, and from where its public parameters are known."""
    spec = release.job.statistic
    mean = spec if isinstance(spec, Mean) else None
    bounds = [figures.plain(bound) for bound in mean.bounds] if mean else [None, None]
    return StatisticView(
        kind=spec.kind,
        by=spec.by,
        value=mean.value if mean else None,
        lower=bounds[0],
        upper=bounds[1],
        half_width=figures.plain((mean.bounds[1] - mean.bounds[0]) / 2) if mean else None,
        top=spec.top if isinstance(spec, Leaderboard) else None,
        groups=len(spec.groups),
        groups_file=spec.groups_file,
        groups_origin=spec.origin,
    )


def epsilon(account: Account, units: int) -> str:
    """ε of a spend by the account's own accountant, rounded up."""
    return figures.round_up(account.terms.budget.spent_epsilon(units))


def account(of: Account, root: str, *, after: Published | None = None) -> AccountView:
    """The account as it stands, or as it stood right after a release."""
    terms = of.terms
    entries = [e for e in of.entries if after is None or e.seq <= after.entry.seq]
    spent = entries[-1].spent.units
    left = terms.cap - spent
    return AccountView(
        name=terms.account,
        href=root + link(account_folder(terms.account)),
        unit=terms.unit,
        unit_name=of.about.unit_name,
        accountant=terms.accountant,
        epsilon=figures.plain(terms.epsilon),
        delta=figures.plain(terms.delta),
        cap=figures.rho(terms.cap),
        spent=figures.rho(spent),
        spent_epsilon=epsilon(of, spent),
        spent_percent=figures.percent_up(spent, terms.cap),
        left=figures.rho(left),
        left_percent=figures.percent_down(left, terms.cap),
        releases=sum(entry.kind == "release" for entry in entries),
        refusals=sum(entry.kind == "refusal" for entry in entries),
        head_entry=entries[-1].seq,
        head=entries[-1].hash,
        updated=instant(entries[-1].charged_at),
    )


def _row(row: Row, table: Table) -> RowView:
    count = None if row.count is None else figures.fixed(row.count, table.count_decimals)
    value = None if row.value is None else figures.fixed(row.value, table.decimals)
    return RowView(
        group=row.group,
        value=value,
        lower=figures.fixed(row.lower, table.decimals),
        upper=figures.fixed(row.upper, table.decimals),
        status=row.status,
        count=count,
        rank=row.rank,
        rank_lower=row.rank_lower,
        rank_upper=row.rank_upper,
    )
