"""From a released table to its rows as every page and file shows them."""

from __future__ import annotations

from collections.abc import Sequence
from decimal import Decimal

from release.ledger.records import Release, Row, Table
from release.site import figures
from release.site.charts import Estimate
from release.site.contexts import Headline, RowView
from release.specs import Count, Leaderboard, Statistic, label, texts_of


def rows(release: Release) -> tuple[RowView, ...]:
    """The published table: a leaderboard by rank, everything else in the order stored."""
    return tuple(_row(row, release.table) for row in ordered(release))


def ordered(release: Release) -> list[Row]:
    """The published rows in the order in which they are shown."""
    return sorted(release.table.rows, key=lambda row: (row.rank is None, row.rank or 0))


def measure(spec: Statistic) -> str:
    """What each value is: a number of "rows" or "units", a "sum" or a "mean"."""
    of = spec.of if isinstance(spec, Count | Leaderboard) else spec.kind
    return "rows" if of == "count" else of


def headline(spec: Statistic, unit: str, shown: Sequence[RowView]) -> Headline:
    """The rows with the greatest and the least reliable value; a leaderboard's first."""
    ranked = isinstance(spec, Leaderboard)
    known = [(Decimal(row.value.raw), row) for row in shown if row.value is not None]
    if not ranked:
        known.sort(key=lambda pair: pair[0], reverse=True)
    return Headline(
        of=measure(spec),
        value=None if isinstance(spec, Count) else spec.value,
        unit=unit,
        ranked=ranked,
        highest=known[0][1] if known else None,
        lowest=known[-1][1] if not ranked and len(known) > 1 else None,
        reliable=len(known),
        total=len(shown),
    )


def estimates(shown: Sequence[RowView]) -> tuple[Estimate, ...]:
    """Rows as a chart draws them."""
    return tuple(
        Estimate(
            label=row.group,
            value=None if row.value is None else row.value.number,
            lower=row.lower.number,
            upper=row.upper.number,
            text="" if row.value is None else row.value.text,
            rank=f"{row.rank}" if row.rank is not None else "",
        )
        for row in shown
    )


def _row(row: Row, table: Table) -> RowView:
    count = None if row.count is None else figures.fixed(row.count, table.count_decimals)
    value = None if row.value is None else figures.fixed(row.value, table.decimals)
    return RowView(
        group=label(row.group),
        names=texts_of(row.group),
        value=value,
        lower=figures.fixed(row.lower, table.decimals),
        upper=figures.fixed(row.upper, table.decimals),
        status=row.status,
        count=count,
        rank=row.rank,
        rank_lower=row.rank_lower,
        rank_upper=row.rank_upper,
    )
