"""The numbers of a chart: scales, ticks and positions. Templates draw them.

Positions across are per cent of the plot's width, so that text keeps its size while marks
follow the page; positions down are per cent of the plot's height, from the top.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction

LABEL = 30
"""The longest name drawn in a chart; the table has every name in full."""
MOST_PANELS = 24


@dataclass(frozen=True)
class Tick:
    """A labelled place on an axis."""

    at: float
    text: str


@dataclass(frozen=True)
class Interval:
    """One estimate with its noise interval; ``at`` is None where the row is not reliable."""

    label: str
    at: float | None
    low: float
    high: float
    text: str
    rank: str


@dataclass(frozen=True)
class IntervalChart:
    """Rows with intervals on one scale; bars grow from ``zero``, dots stand where it is None."""

    rows: tuple[Interval, ...]
    ticks: tuple[Tick, ...]
    zero: float | None


@dataclass(frozen=True)
class Dot:
    """One window's estimate in a series, with the ends of its interval."""

    x: float
    y: float
    low: float
    high: float
    text: str


@dataclass(frozen=True)
class Panel:
    """One group over the windows: pieces of its line and of its band between gaps.

    ``unreliable`` of the ``released`` windows have no value to draw.
    """

    label: str
    lines: tuple[str, ...]
    bands: tuple[str, ...]
    dots: tuple[Dot, ...]
    unreliable: int
    released: int


@dataclass(frozen=True)
class SeriesChart:
    """Small multiples on one scale; ``refused`` are the places of windows that were refused.

    Where there are too many groups, those with the fewest reliable values are ``omitted``.
    """

    panels: tuple[Panel, ...]
    ticks: tuple[Tick, ...]
    first: str
    last: str
    refused: tuple[float, ...]
    omitted: int


@dataclass(frozen=True)
class BudgetChart:
    """What is spent after each entry, against the cap; ``refused`` are places across.

    The last of ``ticks`` is at the cap, above which there is room only if more was spent.
    """

    line: str
    area: str
    level: float
    ticks: tuple[Tick, ...]
    refused: tuple[float, ...]
    first: str
    last: str


@dataclass(frozen=True)
class CurveChart:
    """A line on two logarithmic axes, and the one point of it that matters most."""

    line: str
    across: tuple[Tick, ...]
    up: tuple[Tick, ...]
    x: float
    y: float


@dataclass(frozen=True)
class Estimate:
    """A number to draw: its place, its interval, and how text names it."""

    label: str
    value: float | None
    lower: float
    upper: float
    text: str
    rank: str = ""


@dataclass(frozen=True)
class _Scale:
    low: float
    high: float

    def __call__(self, value: float) -> float:
        """Per cent of the way from ``low`` to ``high``, kept on the plot."""
        share = (value - self.low) / (self.high - self.low)
        return round(100 * min(1.0, max(0.0, share)), 2)


def intervals(estimates: Sequence[Estimate], *, bars: bool) -> IntervalChart:
    """A chart of one release: bars from zero, or dots on the stretch that holds them."""
    scale, ticks = _axis(_reach(estimates, zero=bars))
    rows = tuple(
        Interval(
            label=short(each.label),
            at=None if each.value is None else scale(each.value),
            low=scale(each.lower),
            high=scale(each.upper),
            text=each.text,
            rank=each.rank,
        )
        for each in estimates
    )
    return IntervalChart(rows, ticks, scale(0.0) if bars else None)


def series(columns: Sequence[Sequence[Estimate] | None], first: str, last: str) -> SeriesChart:
    """Small multiples over windows, oldest first; None is a window that was refused."""
    present = [estimate for column in columns if column is not None for estimate in column]
    scale, ticks = _axis(_reach(present, zero=False), most=4, tight=True)
    across = _Scale(-0.5, max(len(columns), 1) - 0.5)
    names = list(dict.fromkeys(estimate.label for estimate in present))
    tables = [{e.label: e for e in column} if column is not None else {} for column in columns]
    drawn = _most_reliable(present)
    return SeriesChart(
        panels=tuple(
            _panel([table.get(name) for table in tables], name, across, scale)
            for name in names
            if name in drawn
        ),
        ticks=tuple(Tick(round(100 - tick.at, 2), tick.text) for tick in ticks),
        first=first,
        last=last,
        refused=tuple(across(i) for i, column in enumerate(columns) if column is None),
        omitted=len(names) - len(drawn),
    )


def budget(
    spent: Sequence[int], refused: Sequence[int], cap: int, first: str, last: str
) -> BudgetChart:
    """Steps of spending against the cap; ``refused`` are positions in ``spent``."""
    whole = max(cap, 1)
    top = max(whole, *spent, 0)
    across, up = _Scale(0, max(len(spent), 1)), _Scale(0, top)
    points = [(0.0, 100.0)]
    level = 100.0
    for index, total in enumerate(spent):
        x, y = across(index), round(100 - up(total), 2)
        points += [(x, level), (x, y)]
        level = y
    points.append((100.0, level))
    return BudgetChart(
        line=_points(points),
        area=_points([*points, (100.0, 100.0)]),
        level=level,
        ticks=tuple(
            Tick(round(100 - at * whole / top, 2), f"{at} %")
            for at in ((0, 25, 50, 75, 100) if top <= 2 * whole else (100,))
        ),
        refused=tuple(across(index + 0.5) for index in refused),
        first=first,
        last=last,
    )


def curve(points: Sequence[tuple[float, float]], best: float) -> CurveChart:
    """Costs above 0 by their orders above 1; ``best`` is one of the orders."""
    costs = [math.log10(cost) for _, cost in points]
    low, high = math.floor(min(costs)), math.ceil(max(costs))
    high = max(high, low + 1)
    across = _Scale(math.log2(points[0][0]), math.log2(points[-1][0]))
    up = _Scale(low, high)
    placed = [
        (across(math.log2(order)), round(100 - up(cost), 2))
        for (order, _), cost in zip(points, costs, strict=True)
    ]
    x, y = next(at for (order, _), at in zip(points, placed, strict=True) if order == best)
    powers = range(math.ceil(across.low), math.floor(across.high) + 1, 1 if across.high < 9 else 3)
    step = math.ceil((high - low) / 5)
    return CurveChart(
        line=_points(placed),
        across=tuple(Tick(across(k), f"{2.0**k:g}") for k in powers),
        up=tuple(Tick(round(100 - up(k), 2), f"{10.0**k:g}") for k in range(low, high + 1, step)),
        x=x,
        y=y,
    )


def short(name: str) -> str:
    """A name that fits a chart."""
    return name if len(name) <= LABEL else name[: LABEL - 1] + "…"


def _most_reliable(estimates: Sequence[Estimate]) -> set[str]:
    """The names with the most reliable values, ties by name: as many as there are panels."""
    reliable = Counter({estimate.label: 0 for estimate in estimates})
    reliable.update(estimate.label for estimate in estimates if estimate.value is not None)
    return set(sorted(reliable, key=lambda name: (-reliable[name], name))[:MOST_PANELS])


def _panel(
    estimates: Sequence[Estimate | None], name: str, across: _Scale, scale: _Scale
) -> Panel:
    def down(value: float) -> float:
        return round(100 - scale(value), 2)

    lines, bands, dots = [], [], []
    released = sum(estimate is not None for estimate in estimates)
    for piece in _pieces(estimates):
        middle, low, high = [], [], []
        for index, value, estimate in piece:
            x = across(index)
            y, bottom, top = map(down, (value, estimate.lower, estimate.upper))
            dots.append(Dot(x, y, bottom, top, estimate.text))
            middle.append((x, y))
            low.append((x, bottom))
            high.append((x, top))
        lines.append(_points(middle))
        bands.append(_points([*high, *reversed(low)]))
    return Panel(
        label=short(name),
        lines=tuple(lines),
        bands=tuple(bands),
        dots=tuple(dots),
        unreliable=released - len(dots),
        released=released,
    )


def _pieces(estimates: Sequence[Estimate | None]) -> list[list[tuple[int, float, Estimate]]]:
    """Runs of neighbouring windows that have a reliable value."""
    pieces: list[list[tuple[int, float, Estimate]]] = [[]]
    for index, estimate in enumerate(estimates):
        if estimate is None or estimate.value is None:
            pieces.append([])
        else:
            pieces[-1].append((index, estimate.value, estimate))
    return [piece for piece in pieces if piece]


def _reach(estimates: Sequence[Estimate], *, zero: bool) -> tuple[float, float]:
    """The stretch that holds every reliable interval; unreliable ones are not drawn."""
    shown = [each for each in estimates if each.value is not None] or list(estimates)
    low = min((each.lower for each in shown), default=0.0)
    high = max((each.upper for each in shown), default=1.0)
    return (min(low, 0.0), max(high, 0.0)) if zero else (low, high)


def _axis(
    reach: tuple[float, float], most: int = 5, *, tight: bool = False
) -> tuple[_Scale, tuple[Tick, ...]]:
    """A scale and the round numbers on it: at most ``most`` steps of 1, 2 or 5 times 10^k.

    It ends on round numbers, or where the data end if ``tight``.
    """
    low, high = reach
    if not high > low:
        low, high = low - 0.5 * (abs(low) or 1.0), high + 0.5 * (abs(high) or 1.0)
    power = math.floor(math.log10((high - low) / most))
    steps = (Fraction(10) ** (power + k) * m for k in range(3) for m in (1, 2, 5))
    step = next(each for each in steps if _spans(low, high, each) <= most)
    first, last = math.floor(Fraction(low) / step), math.ceil(Fraction(high) / step)
    scale = _Scale(low, high) if tight else _Scale(float(first * step), float(last * step))
    places = max(0, -math.floor(math.log10(step)))
    marks = [float(index * step) for index in range(first, last + 1)]
    return scale, tuple(
        Tick(scale(mark), f"{mark + 0.0:,.{places}f}")
        for mark in marks
        if scale.low <= mark <= scale.high
    )


def _spans(low: float, high: float, step: Fraction) -> int:
    return math.ceil(Fraction(high) / step) - math.floor(Fraction(low) / step)


def _points(points: Sequence[tuple[float, float]]) -> str:
    return " ".join(f"{x:g},{y:g}" for x, y in points)
