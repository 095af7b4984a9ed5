"""From a released table to its rows as every page and file shows them."""

from __future__ import annotations

from collections.abc import Sequence
from decimal import Decimal

from release.ledger.records import Release, Row, Table
from release.site import figures
from release.site.charts import Estimate
from release.site.contexts import Headline, RowView


def rows(release: Release) -> tuple[RowView, ...]:
    """The published table: a leaderboard by rank, everything else in the order stored."""
    table = release.table
    ordered = sorted(table.rows, key=lambda row: (row.rank is None, row.rank or 0))
    return tuple(_row(row, table) for row in ordered)


def headline(kind: str, shown: Sequence[RowView]) -> Headline:
    """The rows with the greatest and, for means, the least reliable value."""
    known = [(Decimal(row.value.raw), row) for row in shown if row.value is not None]
    if kind != "leaderboard":
        known.sort(key=lambda pair: pair[0], reverse=True)
    return Headline(
        kind,
        highest=known[0][1] if known else None,
        lowest=known[-1][1] if kind != "leaderboard" and len(known) > 1 else None,
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
