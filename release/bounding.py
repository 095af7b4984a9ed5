"""Rows to bounded integer totals: the only step that touches private rows.

Claim. Let v(u) be the vector, over groups, of the integers that one privacy unit u adds to one
total (its counts, or its scaled sums), in steps of 2^-20. Then

1. v(u) is a function of u's own rows in the window and of public parameters alone, and the
   totals are the sum of v(u) over the units: adding or removing one unit moves them by v(u).
2. The L2 norm of v(u) is at most ``sensitivity(contribution)``.

Proof of 1. Every step below is a function of one row, or an aggregate within one unit; only the
last adds up units, and adding integers is exact in any order. Of 2, for ``clip``: in each group
the count is w = min(n, R) and the sum s has abs(s) <= w on the scale where a row counts at most
1. With q = Σ w², either q <= R²·G and the norm is at most R·√G, or everything is multiplied by
k·2^-20 <= R·√G / √q. For ``sample`` at most G groups are left, each with abs(s) <= w <= R. Each
truncation is toward zero and lowers a norm or leaves it. The one floating-point step, k, has a
relative error below 1e-15, and the sensitivity a slack of 1e-9. The whole argument, with the
ranges that keep every step within 64 bits, is in docs/guarantee.md.
"""

from __future__ import annotations

import math
import unicodedata
from collections.abc import Mapping, Sequence
from fractions import Fraction
from typing import TYPE_CHECKING, Any

from release.sources import Rows, fence
from release.specs import LATTICE_BITS, ONE, Contribution, Scale
from release.windows import Window

if TYPE_CHECKING:
    import ibis.expr.types as ir

Totals = Mapping[str, list[int]]
"""For each total, one exact integer a group, in lattice steps. It lives in memory only."""

SLACK = Fraction(1, 10**9)
# A unit with this many rows in one group, or more, is left out of it: the divisions below are
# exact in double precision only while every dividend is below 2^53.
MOST_ROWS = 2**32


def sensitivity(contribution: Contribution) -> int:
    """The most, in L2 norm and lattice steps, that one unit can change a total: R·√G, rounded up.

    The same for a count and for a scaled sum, for both kinds of bounding.
    """
    row_norm = ONE * contribution.max_rows_per_group * (1 + SLACK)
    return math.isqrt(math.ceil(row_norm * row_norm * contribution.max_groups)) + 1


def totals(
    rows: Rows,
    window: Window,
    *,
    groups: Sequence[str],
    contribution: Contribution,
    scale: Scale | None,
    salt: str,
) -> Totals:
    """The exact bounded totals of each group of ``groups``, in lattice steps: for memory only.

    Gives ``count``, and ``sum`` where there is a scale. A group without rows has zeros. ``salt``
    is what ``sample`` hashes before the unit and the group. Raises SourceError.
    """
    with fence("bounding", "prepare the totals"):
        listed = _listed(rows.within(window), rows.listing(_spellings(groups)))
        per_group = _per_unit_and_group(listed, contribution.max_rows_per_group, scale)
        if contribution.bounding == "clip":
            bounded = _clipped(per_group, contribution)
        else:
            bounded = _sampled(per_group, contribution, salt)
        names = [name for name in ("count", "sum") if name in bounded.columns]
        sums = {name: bounded[name].sum() for name in names}
        expression = bounded.group_by("dp_group").aggregate(**sums)
    found = rows.fetch(expression)
    exact: Totals = {name: [0] * len(groups) for name in names}
    for name in names:
        for group, total in zip(found["dp_group"], found[name], strict=True):
            exact[name][group] = int(total)
    return exact


def _spellings(groups: Sequence[str]) -> dict[str, Sequence[Any]]:
    """Each way that a listed name may be written, with the place of its group in the list."""
    place = {
        spelling: index
        for index, name in enumerate(groups)
        for spelling in (
            name,
            unicodedata.normalize("NFC", name),
            unicodedata.normalize("NFD", name),
        )
    }
    return {"dp_spelling": list(place), "dp_group": list(place.values())}


def _listed(table: ir.Table, listing: ir.Table) -> ir.Table:
    return table.inner_join(listing, table.dp_key == listing.dp_spelling)


def _per_unit_and_group(table: ir.Table, most: int, scale: Scale | None) -> ir.Table:
    """One row for each unit and group: its weight w = min(n, R), and its term s of the sum."""
    import ibis

    sums = {} if scale is None else {"dp_sum": _scaled(table.dp_value, scale).sum()}
    table = table.group_by(["dp_unit", "dp_group"]).aggregate(dp_rows=table.count(), **sums)
    table = table.filter(table.dp_rows < MOST_ROWS)
    weighed = table.mutate(dp_weight=ibis.least(table.dp_rows, most))
    if scale is None:
        return weighed
    return weighed.mutate(dp_sum=_cut(weighed.dp_sum, weighed.dp_rows, most))


def _scaled(value: ir.Column, scale: Scale) -> ir.Column:
    clamped = value.clip(scale.lower, scale.upper)
    return truncate((clamped - scale.centre) / scale.half * float(ONE)).clip(-ONE, ONE)


def _cut(total: ir.Column, rows: ir.Column, most: int) -> ir.Column:
    """R/n of a sum over n rows, toward zero; the sum itself where n <= R."""
    import ibis

    size = total.abs()
    quotient = truncate(size.cast("float64") / rows.cast("float64"))
    rest = size - quotient * rows
    share = truncate((rest * most).cast("float64") / rows.cast("float64"))
    return ibis.ifelse(rows <= most, total, total.sign() * (quotient * most + share))


def _clipped(table: ir.Table, contribution: Contribution) -> ir.Table:
    """Everything that a unit did, shrunk until its norm is within the bound."""
    import ibis

    most, groups = contribution.max_rows_per_group, contribution.max_groups
    weight = table.dp_weight
    square = (weight * weight).sum().over(ibis.window(group_by="dp_unit"))
    table = table.mutate(dp_square=square)
    shrink = truncate(ONE * (most * math.sqrt(groups)) / table.dp_square.cast("float64").sqrt())
    factor = ibis.ifelse(table.dp_square <= most * most * groups, ONE, shrink)
    table = table.mutate(dp_factor=factor)
    columns = {"count": table.dp_weight * table.dp_factor}
    if "dp_sum" in table.columns:
        size = (table.dp_sum.abs() * table.dp_factor) >> LATTICE_BITS
        columns["sum"] = table.dp_sum.sign() * size
    return table.select("dp_group", **columns)


def _sampled(table: ir.Table, contribution: Contribution, salt: str) -> ir.Table:
    """The groups of each unit that a keyed hash of its own rows puts first."""
    import ibis

    @ibis.udf.scalar.builtin(name="md5")  # type: ignore[untyped-decorator]
    def md5(text: str) -> str:
        """The engine's own."""
        raise NotImplementedError

    name = _text(table.dp_unit) + "|" + table.dp_group.cast("string")
    table = table.mutate(dp_order=md5(ibis.literal(salt + "|") + name))
    window = ibis.window(group_by="dp_unit", order_by=["dp_order", "dp_group"])
    table = table.mutate(dp_rank=ibis.row_number().over(window))
    table = table.filter(table.dp_rank < contribution.max_groups)
    columns = {"count": table.dp_weight * ONE}
    if "dp_sum" in table.columns:
        columns["sum"] = table.dp_sum
    return table.select("dp_group", **columns)


def _text(unit: ir.Column) -> ir.Column:
    """A unit as text. Two doubles may share theirs: each still decides by its own rows alone."""
    import ibis

    if unit.type().is_floating():
        whole = ibis.ifelse(unit.between(-(2.0**53), 2.0**53), unit, 0.0)
        return truncate(whole).cast("string")
    return unit.cast("string")


def truncate(number: ir.Column) -> ir.Column:
    """A double without its fraction, as a whole number: what a plain cast does differs."""
    return (number.sign() * number.abs().floor()).cast("int64")
