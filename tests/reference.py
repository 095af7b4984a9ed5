"""The bounded totals in plain Python, one unit at a time: slow, obvious, written from the design.

Nothing here is taken from the code it is held against. Numbers are Python integers, and doubles
only where the design asks for one double-precision step.
"""

from __future__ import annotations

import hashlib
import itertools
import math
import unicodedata
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from fractions import Fraction
from functools import cache
from typing import Any

GRID = 2**20
ASCII_WHITE_SPACE = " \t\n\v\f\r"

Key = str | tuple[str, ...]
Group = int | tuple[str, ...]
"""A listed group by its place in the list, a discovered one by its texts."""
Vector = Mapping[tuple[str, Group], int]
"""What one unit adds: (name of the total, group) to lattice steps."""
Rule = tuple[str, str, Any]
"""A column, an operator, and the value or list of values that it compares with."""


@dataclass(frozen=True)
class Row:
    """An event as it is in the source: any part may be missing."""

    unit: str | int | None
    key: str | tuple[str | None, ...] | None
    time: datetime | None
    value: float | None = None
    marks: Mapping[str, Any] = field(default_factory=dict)
    """What is in the columns that rules look at."""


@dataclass(frozen=True)
class Asked:
    """The public parameters; ``bounds`` is None where only rows are counted.

    ``groups`` is None where they are discovered, and ``seen`` then says how many of a unit's are
    looked at before it is shrunk. ``norm`` is None where nothing but R and G bounds a unit's
    norm, and ``around_zero`` says that values are scaled as for a sum.
    """

    groups: tuple[Key, ...] | None
    start: datetime
    end: datetime
    R: int
    G: int
    bounding: str
    bounds: tuple[float, float] | None
    salt: str
    where: tuple[Rule, ...] = ()
    norm: Fraction | None = None
    around_zero: bool = False
    seen: int = 0

    @property
    def square(self) -> Fraction:
        """The square of the greatest norm."""
        return Fraction(self.R**2 * self.G) if self.norm is None else self.norm**2


def vectors(rows: Iterable[Row], asked: Asked) -> dict[str | int, Vector]:
    """The integer vector of every unit, each from the unit's own rows alone."""
    own: dict[str | int, list[Row]] = defaultdict(list)
    for row in rows:
        if row.unit is not None and row.unit != "":
            own[row.unit].append(row)
    return {unit: vector(unit, mine, asked) for unit, mine in own.items()}


def vector(unit: str | int, rows: Iterable[Row], asked: Asked) -> Vector:
    """What one unit adds to each total of each group."""
    terms: dict[Group, list[int]] = defaultdict(list)
    # Looked up once a unit: thousands of groups take as long to hash as all else of a row.
    known = None if asked.groups is None else spellings(asked.groups)
    for row in rows:
        group = named(row.key) if known is None else place(row.key, known)
        if group is None or row.time is None or not asked.start <= row.time < asked.end:
            continue
        if not all(passes(row.marks[column], sign, than) for column, sign, than in asked.where):
            continue
        if asked.bounds is None:
            terms[group].append(0)
        elif row.value is not None and math.isfinite(row.value):
            scaled = on_grid(row.value, *asked.bounds, around_zero=asked.around_zero)
            terms[group].append(scaled)
    if asked.groups is None and asked.bounding == "clip":
        looked_at = sampled(unit, terms, asked.salt, asked.seen)
        terms = defaultdict(list, {group: terms[group] for group in looked_at})
    counts = {group: min(len(mine), asked.R) for group, mine in terms.items()}
    sums = {group: cut(sum(mine), len(mine), asked.R) for group, mine in terms.items()}
    if asked.bounding == "sample":
        kept = set(sampled(unit, counts, asked.salt, asked.G))
        counts = {group: w * GRID for group, w in counts.items() if group in kept}
        sums = {group: s for group, s in sums.items() if group in kept}
    else:
        k = factor(sum(w * w for w in counts.values()), asked.square)
        counts = {group: w * k for group, w in counts.items()}
        sums = {group: toward_zero(s * k, GRID) for group, s in sums.items()}
    both = {"count": counts} if asked.bounds is None else {"count": counts, "sum": sums}
    return {(name, group): x for name, part in both.items() for group, x in part.items()}


COMPARED: Mapping[str, Callable[[float, float], bool]] = {
    "<": lambda x, y: x < y,
    "<=": lambda x, y: x <= y,
    ">": lambda x, y: x > y,
    ">=": lambda x, y: x >= y,
}


def passes(found: Any, sign: str, than: Any) -> bool:
    """Whether what is in a row's column satisfies a rule; nothing there satisfies none."""
    if isinstance(found, str):
        found = found.strip(ASCII_WHITE_SPACE)
    if found is None or found == "" or (isinstance(found, float) and not math.isfinite(found)):
        return False
    if sign in COMPARED:
        return COMPARED[sign](float(found), float(than))
    among = than if sign in {"in", "not in"} else [than]
    return any(same(found, each) for each in among) == (sign in {"=", "in"})


def same(found: Any, than: Any) -> bool:
    """Texts as written, in NFC or in NFD; numbers as doubles; truth values as they are."""
    if isinstance(than, str):
        return found in forms(than.strip(ASCII_WHITE_SPACE))
    return bool(found == than if isinstance(than, bool) else float(found) == float(than))


def place(
    key: str | tuple[str | None, ...] | None, known: Mapping[tuple[str, ...], int]
) -> int | None:
    """Which listed group a key names: as it is written, in NFC or in NFD, and in no other way."""
    return known.get(trimmed(key))


def named(key: str | tuple[str | None, ...] | None) -> tuple[str, ...] | None:
    """The discovered group that a key names: itself, if it has a text of some length in each."""
    return trimmed(key) if all(0 < len(part) <= 1000 for part in trimmed(key)) else None


def trimmed(key: str | tuple[str | None, ...] | None) -> tuple[str, ...]:
    """A key's texts without white space around them, empty where there is none."""
    return tuple((part or "").strip(ASCII_WHITE_SPACE) for part in parts(key))


def parts(key: str | Sequence[str | None] | None) -> Sequence[str | None]:
    """A key as one text for each of its columns."""
    return [key] if key is None or isinstance(key, str) else key


@cache
def spellings(groups: tuple[Key, ...]) -> Mapping[tuple[str, ...], int]:
    """Each way in which a listed group may be written, and the group's place in the list."""
    return {
        written: index
        for index, key in enumerate(groups)
        for written in itertools.product(*(forms(part or "") for part in parts(key)))
    }


def forms(name: str) -> tuple[str, str, str]:
    """A name in the ways in which it may be written."""
    return name, unicodedata.normalize("NFC", name), unicodedata.normalize("NFD", name)


def on_grid(x: float, lower: float, upper: float, *, around_zero: bool = False) -> int:
    """A value clamped, scaled to [-1, 1], and cut to the grid toward zero.

    The bounds become -1 and 1, or around zero the one further from it does.
    """
    half = max(abs(lower), abs(upper)) if around_zero else (upper - lower) / 2
    centre = 0.0 if around_zero else lower + half
    scaled = (min(max(x, lower), upper) - centre) / half * GRID
    return min(max(math.trunc(scaled), -GRID), GRID)


def cut(total: int, n: int, R: int) -> int:
    """R/n of a sum over n rows, toward zero; all of it where n is at most R."""
    return total if n <= R else toward_zero(total * R, n)


def factor(q: int, square: Fraction | int) -> int:
    """What a unit with Σw² = q is multiplied by, in steps of 2^-20."""
    if q <= square:
        return GRID
    return math.trunc(GRID * math.sqrt(square) / math.sqrt(q))


def sampled(unit: str | int, groups: Iterable[Group], salt: str, most: int) -> list[Group]:
    """The groups that the keyed hash puts first: by their place in the list, or their texts."""

    def order(group: Group) -> tuple[str, Group]:
        name = str(group) if isinstance(group, int) else "|".join(group)
        text = f"{salt}|{unit}|{name}"
        return hashlib.md5(text.encode(), usedforsecurity=False).hexdigest(), group

    return sorted(groups, key=order)[:most]


def toward_zero(numerator: int, denominator: int) -> int:
    """The quotient without its fraction, in integers."""
    size = abs(numerator) // denominator
    return size if numerator >= 0 else -size


def total(units: Iterable[Vector], asked: Asked) -> dict[str, list[int]]:
    """The totals of listed groups: the sum of the units' vectors."""
    found = by_group(units)
    names = ["count"] if asked.bounds is None else ["count", "sum"]
    places = range(len(asked.groups or ()))
    return {name: [found.get((name, group), 0) for group in places] for name in names}


def by_group(units: Iterable[Vector]) -> Vector:
    """The sum of the units' vectors, of the groups that any of them is in."""
    sums: dict[tuple[str, Group], int] = defaultdict(int)
    for one in units:
        for key, steps in one.items():
            sums[key] += steps
    return sums


def squared_norm(one: Vector, name: str) -> int:
    """The square of the L2 norm of one unit's part in one total, exactly."""
    return sum(steps * steps for (total_name, _), steps in one.items() if total_name == name)
