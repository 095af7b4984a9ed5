"""Calendar windows: half-open stretches of local time, and which of them are due.

A window is cut by two local dates in an IANA time zone. Each cut is the instant at which the
local clock reads midnight: the earlier one where midnight happens twice, and where a jump skips
it, the one at which the clock would have read so without the jump. Neighbouring windows share
that instant, so windows tile time whatever the clocks do, and weeks of 167 and 169 hours need no
rule of their own.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta
from itertools import takewhile
from typing import Literal, get_args
from zoneinfo import ZoneInfo

Kind = Literal["day", "week", "month", "quarter", "year"]
KINDS: tuple[str, ...] = get_args(Kind)
EARLIEST, LATEST = date(1900, 1, 1), date(2199, 12, 31)
"""Between these, no time zone takes a date past what dates can hold."""


@dataclass(frozen=True)
class Window:
    """The local dates ``[first, after)`` in ``zone``; ``kind`` says what stretch it is."""

    kind: Kind
    first: date
    zone: str

    @property
    def after(self) -> date:
        """The first date that no longer belongs to the window."""
        return _next(self.kind, self.first)

    @property
    def start(self) -> datetime:
        """The instant at which the window begins, in UTC."""
        return _midnight(self.first, self.zone)

    @property
    def end(self) -> datetime:
        """The instant at which the window has ended, in UTC: the next window's start."""
        return _midnight(self.after, self.zone)

    @property
    def name(self) -> str:
        """The window's name in paths, lists and the ledger: its first date."""
        return self.first.isoformat()

    @property
    def label(self) -> str:
        """How a reader knows it: ``2025-W01``, ``2025-01``, ``2025-Q1``, ``2025`` or the date."""
        match self.kind:
            case "week":
                iso = self.first.isocalendar()
                return f"{iso.year}-W{iso.week:02}"
            case "month":
                return f"{self.first:%Y-%m}"
            case "quarter":
                return f"{self.first.year}-Q{(self.first.month + 2) // 3}"
            case "year":
                return f"{self.first.year}"
            case _:
                return self.name


def beginning(kind: Kind, day: date) -> date:
    """The first date of the window of that kind that holds ``day``; weeks begin on Monday."""
    match kind:
        case "week":
            return day - timedelta(days=day.weekday())
        case "month":
            return day.replace(day=1)
        case "quarter":
            return day.replace(month=day.month - (day.month - 1) % 3, day=1)
        case "year":
            return day.replace(month=1, day=1)
        case _:
            return day


def following(kind: Kind, start: date, zone: str) -> Iterator[Window]:
    """Every window from the one that begins on ``start``, without end.

    A date that the zone skipped is no window: nothing can happen in it.
    """
    window = Window(kind, start, zone)
    while True:
        if window.start < window.end:
            yield window
        window = Window(kind, window.after, zone)


def due(kind: Kind, start: date, zone: str, now: datetime) -> Iterator[Window]:
    """Every window from the one that begins on ``start`` to the last that has ended by ``now``."""
    return takewhile(lambda window: window.end <= now, following(kind, start, zone))


def _next(kind: Kind, first: date) -> date:
    match kind:
        case "day":
            return first + timedelta(days=1)
        case "week":
            return first + timedelta(days=7)
        case _:
            months = {"month": 1, "quarter": 3, "year": 12}[kind]
            year, month = divmod(first.year * 12 + first.month - 1 + months, 12)
            return date(year, month + 1, 1)


def _midnight(day: date, zone: str) -> datetime:
    # fold=0 reads a doubled midnight as the earlier one, and gives a midnight inside a gap
    # the offset from before the jump: the instant of the jump itself, if that was at midnight.
    return datetime.combine(day, time(), ZoneInfo(zone)).astimezone(UTC)
