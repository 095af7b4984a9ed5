"""The bounded totals in plain Python, one unit at a time: slow, obvious, written from the design.

Nothing here is taken from the code it is held against. Numbers are Python integers, and doubles
only where the design asks for one double-precision step.
"""

from __future__ import annotations

import hashlib
import math
import unicodedata
from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from functools import cache

GRID = 2**20
ASCII_WHITE_SPACE = " \t\n\v\f\r"

Vector = Mapping[tuple[str, int], int]
"""What one unit adds: (name of the total, place of the group in its list) to lattice steps."""


@dataclass(frozen=True)
class Row:
    """An event as it is in the source: any part may be missing."""

    unit: str | int | None
    key: str | None
    time: datetime | None
    value: float | None = None


@dataclass(frozen=True)
class Asked:
    """The public parameters; ``bounds`` is None where only rows are counted."""

    groups: tuple[str, ...]
    start: datetime
    end: datetime
    R: int
    G: int
    bounding: str
    bounds: tuple[float, float] | None
    salt: str


def vectors(rows: Iterable[Row], asked: Asked) -> dict[str | int, Vector]:
    """The integer vector of every unit, each from the unit's own rows alone."""
    own: dict[str | int, list[Row]] = defaultdict(list)
    for row in rows:
        if row.unit is not None and row.unit != "":
            own[row.unit].append(row)
    return {unit: vector(unit, mine, asked) for unit, mine in own.items()}


def vector(unit: str | int, rows: Iterable[Row], asked: Asked) -> Vector:
    """What one unit adds to each total of each group."""
    terms: dict[int, list[int]] = defaultdict(list)
    for row in rows:
        group = place(row.key, asked.groups)
        if group is None or row.time is None or not asked.start <= row.time < asked.end:
            continue
        if asked.bounds is None:
            terms[group].append(0)
        elif row.value is not None and math.isfinite(row.value):
            terms[group].append(on_grid(row.value, *asked.bounds))
    counts = {group: min(len(mine), asked.R) for group, mine in terms.items()}
    sums = {group: cut(sum(mine), len(mine), asked.R) for group, mine in terms.items()}
    if asked.bounding == "sample":
        kept = set(sampled(unit, counts, asked))
        counts = {group: w * GRID for group, w in counts.items() if group in kept}
        sums = {group: s for group, s in sums.items() if group in kept}
    else:
        k = factor(sum(w * w for w in counts.values()), asked.R, asked.G)
        counts = {group: w * k for group, w in counts.items()}
        sums = {group: toward_zero(s * k, GRID) for group, s in sums.items()}
    named = {"count": counts} if asked.bounds is None else {"count": counts, "sum": sums}
    return {(name, group): x for name, part in named.items() for group, x in part.items()}


def place(key: str | None, groups: tuple[str, ...]) -> int | None:
    """Which listed group a key names: as it is written, in NFC or in NFD, and in no other way."""
    return spellings(groups).get((key or "").strip(ASCII_WHITE_SPACE))


@cache
def spellings(groups: tuple[str, ...]) -> Mapping[str, int]:
    """Each way in which a listed group may be written, and the group's place in the list."""
    return {
        form: index
        for index, name in enumerate(groups)
        for form in (
            name,
            unicodedata.normalize("NFC", name),
            unicodedata.normalize("NFD", name),
        )
    }


def on_grid(x: float, lower: float, upper: float) -> int:
    """A value clamped, centred, scaled to [-1, 1], and cut to the grid toward zero."""
    half = (upper - lower) / 2
    scaled = (min(max(x, lower), upper) - (lower + half)) / half * GRID
    return min(max(math.trunc(scaled), -GRID), GRID)


def cut(total: int, n: int, R: int) -> int:
    """R/n of a sum over n rows, toward zero; all of it where n is at most R."""
    return total if n <= R else toward_zero(total * R, n)


def factor(q: int, R: int, G: int) -> int:
    """What a unit with Σw² = q is multiplied by, in steps of 2^-20."""
    if q <= R * R * G:
        return GRID
    return math.trunc(GRID * (R * math.sqrt(G)) / math.sqrt(q))


def sampled(unit: str | int, groups: Iterable[int], asked: Asked) -> list[int]:
    """The G groups that the keyed hash puts first; a group is known by its place in the list."""

    def order(group: int) -> tuple[str, int]:
        text = f"{asked.salt}|{unit}|{group}"
        return hashlib.md5(text.encode(), usedforsecurity=False).hexdigest(), group

    return sorted(groups, key=order)[: asked.G]


def toward_zero(numerator: int, denominator: int) -> int:
    """The quotient without its fraction, in integers."""
    size = abs(numerator) // denominator
    return size if numerator >= 0 else -size


def total(units: Iterable[Vector], asked: Asked) -> dict[str, list[int]]:
    """The totals: the sum of the units' vectors."""
    names = ["count"] if asked.bounds is None else ["count", "sum"]
    sums = {name: [0] * len(asked.groups) for name in names}
    for one in units:
        for (name, group), steps in one.items():
            sums[name][group] += steps
    return sums


def squared_norm(one: Vector, name: str) -> int:
    """The square of the L2 norm of one unit's part in one total, exactly."""
    return sum(steps * steps for (total_name, _), steps in one.items() if total_name == name)
