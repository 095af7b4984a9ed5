"""Rows to bounded integer totals: the only step that touches private rows.

Claim. Let v(u) be the vector, over groups, of the integers that one privacy unit u adds to one
total (its counts, or its scaled sums), in steps of 2^-20. Then

1. v(u) is a function of u's own rows in the window and of public parameters alone, and the
   totals are the sum of v(u) over the units: adding or removing one unit moves them by v(u).
2. The L2 norm of v(u) is at most ``sensitivity(contribution)``.

Proof of 1. Every step below is a function of one row, or an aggregate within one unit; only the
last adds up units, and adding integers is exact in any order. Of 2, for ``clip``: let N be
``max_norm``, or R·√G without it. In each group the count is w = min(n, R) and the sum s has
abs(s) <= w on the scale where a row counts at most 1. With q = Σ w², either q <= N² and the norm
is at most N, or everything is multiplied by k·2^-20 <= N / √q. For ``sample`` at most G groups
are left, each with abs(s) <= w <= R. Each truncation is toward zero and lowers a norm or leaves
it. The one floating-point step, k, has a relative error below 1e-15, and the sensitivity a slack
of 1e-9. The whole argument, with the ranges that keep every step within 64 bits, is in
docs/guarantee.md.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING, Any

import numpy as np

from release.mechanisms import Alone
from release.sources import Rows, double, fence, is_key_column, key_column
from release.specs import LATTICE_BITS, ONE, Contribution, Key, Scale, spellings, texts_of
from release.windows import Window

if TYPE_CHECKING:
    import ibis.expr.types as ir


@dataclass(frozen=True)
class Totals:
    """For each total, one exact integer a group, in lattice steps. They live in memory only.

    So do ``groups`` where they were discovered: which there are is as private as the rows.
    """

    groups: Sequence[Key]
    of: Mapping[str, list[int]]


SLACK = Fraction(1, 10**9)
# A unit with this many rows in one group, or more, is left out of it: the divisions below are
# exact in double precision only while every dividend is below 2^53.
MOST_ROWS = 2**32
# Of a discovered group, in characters: what a release takes up must not hang on one row's text.
LONGEST_NAME = 1000


def sensitivity(contribution: Contribution) -> int:
    """The most, in L2 norm and lattice steps, that one unit can change a total, rounded up.

    R·√G, or ``max_norm`` where that is stated; the same for a count and for a scaled sum.
    """
    square = contribution.norm_squared * (ONE * (1 + SLACK)) ** 2
    return math.isqrt(math.ceil(square)) + 1


def alone(contribution: Contribution) -> Alone:
    """The most that one unit can count, in lattice steps, where nobody else does.

    A unit in t groups counts min(1, N/√t) in each if R = 1 and it is shrunk: so much for each t up
    to T. Else R or N at most in each of T.
    """
    seen, norm = contribution.groups_seen, math.sqrt(contribution.norm_squared)
    whole = ONE * (1 + float(SLACK))
    if contribution.bounding == "clip" and contribution.max_rows_per_group == 1:
        groups = np.arange(1.0, seen + 1)
        return Alone(whole * np.minimum(1, norm / np.sqrt(groups)), groups)
    most = min(float(contribution.max_rows_per_group), norm)
    return Alone(np.array([whole * most]), np.array([float(seen)]))


def totals(
    rows: Rows,
    window: Window,
    *,
    groups: Sequence[Key] | None,
    contribution: Contribution,
    scale: Scale | None,
    names: Sequence[str],
    salt: str,
) -> Totals:
    """The exact bounded totals of each group of ``groups``, in lattice steps: for memory only.

    Of all groups that have a row, by name, where ``groups`` is None; of the listed ones, those
    without rows have zeros. ``names`` are the totals wanted: ``count``, and ``sum`` where there is
    a scale. ``salt`` is what is hashed before the unit and the group where a unit has more groups
    than are looked at. Raises SourceError.
    """
    with fence("bounding", "prepare the totals"):
        table = rows.within(window)
        if groups is None:
            keys = [name for name in table.columns if is_key_column(name)]
            table = table.filter(*(table[key].length() <= LONGEST_NAME for key in keys))
        else:
            table, keys = _listed(table, rows.listing(_spellings(groups))), ["dp_group"]
        per_group = _per_unit_and_group(table, keys, contribution.max_rows_per_group, scale)
        if contribution.bounding == "sample":
            per_group = _sampled(per_group, keys, contribution.max_groups, salt)
            bounded = _whole(per_group, keys)
        else:
            if groups is None:
                per_group = _sampled(per_group, keys, contribution.groups_seen, salt)
            bounded = _clipped(per_group, keys, contribution)
        sums = {name: bounded[name].sum() for name in names}
        expression = bounded.group_by(keys).aggregate(**sums)
    found = rows.fetch(expression)
    if groups is None:
        return _discovered([found[key] for key in keys], {name: found[name] for name in names})
    exact = {name: [0] * len(groups) for name in names}
    for name in names:
        for group, total in zip(found["dp_group"], found[name], strict=True):
            exact[name][group] = int(total)
    return Totals(groups, exact)


def _discovered(columns: Sequence[Sequence[str]], found: Mapping[str, Sequence[Any]]) -> Totals:
    """By name: in what order an engine gives groups may tell of rows."""
    keys: list[Key] = list(columns[0]) if len(columns) == 1 else list(zip(*columns, strict=True))
    order = sorted(range(len(keys)), key=lambda place: texts_of(keys[place]))
    exact = {name: [int(each[place]) for place in order] for name, each in found.items()}
    return Totals([keys[place] for place in order], exact)


def _spellings(groups: Sequence[Key]) -> dict[str, Sequence[Any]]:
    """Each way that a listed group may be written, with its place in the list."""
    place = {
        written: index
        for index, key in enumerate(groups)
        for written in itertools.product(*map(spellings, texts_of(key)))
    }
    columns = zip(*place, strict=True)
    return {
        **{f"dp_spelling_{i}": column for i, column in enumerate(columns)},
        "dp_group": list(place.values()),
    }


def _listed(table: ir.Table, listing: ir.Table) -> ir.Table:
    parts = range(len(listing.columns) - 1)
    same = [table[key_column(i)] == listing[f"dp_spelling_{i}"] for i in parts]
    return table.inner_join(listing, same)


def _per_unit_and_group(
    table: ir.Table, keys: Sequence[str], most: int, scale: Scale | None
) -> ir.Table:
    """One row for each unit and group: its weight w = min(n, R), and its term s of the sum."""
    import ibis

    sums = {} if scale is None else {"dp_sum": _scaled(table.dp_value, scale).sum()}
    table = table.group_by(["dp_unit", *keys]).aggregate(dp_rows=table.count(), **sums)
    table = table.filter(table.dp_rows < MOST_ROWS)
    weighed = table.mutate(dp_weight=ibis.least(table.dp_rows, most))
    if scale is None:
        return weighed
    return weighed.mutate(dp_sum=_cut(weighed.dp_sum, weighed.dp_rows, most))


def _scaled(value: ir.Column, scale: Scale) -> ir.Column:
    clamped = value.clip(double(scale.lower), double(scale.upper))
    share = (clamped - double(scale.centre)) / double(scale.half)
    return truncate(share * float(ONE)).clip(-ONE, ONE)


def _cut(total: ir.Column, rows: ir.Column, most: int) -> ir.Column:
    """R/n of a sum over n rows, toward zero; the sum itself where n <= R."""
    import ibis

    size = total.abs()
    quotient = truncate(size.cast("float64") / rows.cast("float64"))
    rest = size - quotient * rows
    share = truncate((rest * most).cast("float64") / rows.cast("float64"))
    return ibis.ifelse(rows <= most, total, total.sign() * (quotient * most + share))


def _clipped(table: ir.Table, keys: Sequence[str], contribution: Contribution) -> ir.Table:
    """Everything that a unit did, shrunk until its norm is within the bound."""
    import ibis

    norm = contribution.norm_squared
    weight = table.dp_weight
    square = (weight * weight).sum().over(ibis.window(group_by="dp_unit"))
    table = table.mutate(dp_square=square)
    shrink = truncate(double(ONE * math.sqrt(norm)) / table.dp_square.cast("float64").sqrt())
    # Squares are whole, so at most the norm's square means at most its floor.
    factor = ibis.ifelse(table.dp_square <= math.floor(norm), ONE, shrink)
    table = table.mutate(dp_factor=factor)
    columns = {"count": table.dp_weight * table.dp_factor}
    if "dp_sum" in table.columns:
        size = (table.dp_sum.abs() * table.dp_factor) >> LATTICE_BITS
        columns["sum"] = table.dp_sum.sign() * size
    return table.select(*keys, **columns)


def _sampled(table: ir.Table, keys: Sequence[str], most: int, salt: str) -> ir.Table:
    """The groups of each unit that a keyed hash of its own rows puts first."""
    import ibis

    @ibis.udf.scalar.builtin(name="md5")  # type: ignore[untyped-decorator]
    def md5(text: str) -> str:
        """The engine's own."""
        raise NotImplementedError

    name = _text(table.dp_unit)
    for key in keys:
        name = name + "|" + table[key].cast("string")
    table = table.mutate(dp_order=md5(ibis.literal(salt + "|") + name))
    # Names joined may be one text where the names are not: then their order decides.
    window = ibis.window(group_by="dp_unit", order_by=["dp_order", *keys])
    table = table.mutate(dp_rank=ibis.row_number().over(window))
    return table.filter(table.dp_rank < most)


def _whole(table: ir.Table, keys: Sequence[str]) -> ir.Table:
    """What each unit counts in the groups that it keeps, not shrunk."""
    columns = {"count": table.dp_weight * ONE}
    if "dp_sum" in table.columns:
        columns["sum"] = table.dp_sum
    return table.select(*keys, **columns)


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
