from __future__ import annotations

from datetime import UTC, date, datetime, timedelta
from importlib.resources import files
from itertools import pairwise
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from release.windows import EARLIEST, KINDS, LATEST, Kind, Window, beginning, due

ALL_ZONES = sorted((files("tzdata") / "zones").read_text().split())

kinds: st.SearchStrategy[Kind] = st.sampled_from(KINDS)
zones = st.sampled_from(ALL_ZONES)
days = st.dates(EARLIEST, LATEST)
instants = st.datetimes(datetime(1900, 2, 1), datetime(2199, 11, 30), timezones=st.just(UTC))


def utc(text: str) -> datetime:
    return datetime.fromisoformat(text).replace(tzinfo=UTC)


def day(first: str, zone: str) -> Window:
    return Window("day", date.fromisoformat(first), zone)


# ---------------------------------------------------------------------------- tiling


@given(kinds, days, zones)
def test_windows_tile_time_without_gap_or_overlap(kind: Kind, on: date, zone: str) -> None:
    window = Window(kind, beginning(kind, on), zone)
    following = Window(kind, window.after, zone)
    assert window.end == following.start
    assert window.start <= window.end
    assert beginning(kind, following.first) == following.first


@given(kinds, zones, instants)
def test_every_instant_is_in_exactly_one_window(kind: Kind, zone: str, now: datetime) -> None:
    # Local dates run at most a day and a half off; three windows around hold every candidate.
    around = now.date() - timedelta(days=2)
    candidates = [Window(kind, beginning(kind, around), zone)]
    while candidates[-1].first < now.date() + timedelta(days=2):
        candidates.append(Window(kind, candidates[-1].after, zone))
    assert sum(each.start <= now < each.end for each in candidates) == 1


@given(kinds, days)
def test_a_window_begins_once_and_holds_its_day(kind: Kind, on: date) -> None:
    first = beginning(kind, on)
    assert first <= on < Window(kind, first, "UTC").after
    assert beginning(kind, first) == first


@pytest.mark.parametrize(
    ("zone", "year"),
    [("Kwajalein", 1969), ("Kwajalein", 1993), ("Pacific/Kanton", 1994), ("Pacific/Apia", 2011)],
)
def test_crossing_the_date_line_turns_no_day_inside_out(zone: str, year: int) -> None:
    cuts = [Window("day", date(year, 1, 1) + timedelta(n), zone).start for n in range(380)]
    lengths = [after - before for before, after in pairwise(cuts)]
    assert min(lengths) >= timedelta(0)
    assert min(lengths) < timedelta(hours=21) or max(lengths) > timedelta(hours=26)


# ---------------------------------------------------------------------------- clock changes


@pytest.mark.parametrize(("first", "hours"), [("2026-03-23", 167), ("2026-10-19", 169)])
def test_weeks_in_which_clocks_change(first: str, hours: int) -> None:
    week = Window("week", date.fromisoformat(first), "Europe/London")
    assert week.end - week.start == timedelta(hours=hours)


@pytest.mark.parametrize(
    ("zone", "first", "start"),
    [
        # Clocks jump from midnight to 01:00: the day begins with the jump.
        ("America/Sao_Paulo", "2018-11-04", "2018-11-04 03:00"),
        ("America/Havana", "2024-03-10", "2024-03-10 05:00"),
        ("Asia/Beirut", "2022-03-27", "2022-03-26 22:00"),
        # Clocks fall back over midnight, which happens twice: the day begins with the first.
        ("America/Havana", "2024-11-03", "2024-11-03 04:00"),
        ("America/St_Johns", "1995-10-29", "1995-10-29 02:30"),
        # Clocks fall back from midnight to 23:00: the day begins once, after the second 23:00.
        ("America/Sao_Paulo", "2018-02-18", "2018-02-18 03:00"),
        ("Asia/Beirut", "2022-10-30", "2022-10-29 22:00"),
        # Clocks jump after midnight, by half an hour or at 00:01.
        ("Australia/Lord_Howe", "2024-10-06", "2024-10-05 13:30"),
        ("America/St_Johns", "1995-04-02", "1995-04-02 03:30"),
        # Clocks jump from 23:30 to 00:30.
        ("America/Toronto", "1919-03-31", "1919-03-31 05:00"),
    ],
)
def test_midnights_that_do_not_happen_or_happen_twice(zone: str, first: str, start: str) -> None:
    assert day(first, zone).start == utc(start)


def test_lengths_of_days_in_which_clocks_change() -> None:
    def hours(first: str, zone: str) -> float:
        window = day(first, zone)
        return (window.end - window.start) / timedelta(hours=1)

    assert hours("2018-11-04", "America/Sao_Paulo") == 23
    assert hours("2018-02-17", "America/Sao_Paulo") == 25
    assert hours("2024-11-03", "America/Havana") == 25
    assert hours("2024-10-06", "Australia/Lord_Howe") == 23.5
    assert hours("2024-04-07", "Australia/Lord_Howe") == 24.5


def test_a_date_that_a_zone_skipped_is_an_empty_window() -> None:
    skipped = day("2011-12-30", "Pacific/Apia")
    assert skipped.start == skipped.end == utc("2011-12-30 10:00")
    assert day("2011-12-31", "Pacific/Apia").start == skipped.end


def test_a_date_that_a_zone_skipped_is_never_due() -> None:
    found = due("day", date(2011, 12, 28), "Pacific/Apia", utc("2012-01-01 12:00"))
    assert [window.name for window in found] == [
        "2011-12-28",
        "2011-12-29",
        "2011-12-31",
        "2012-01-01",
    ]


@given(zones, days)
def test_where_midnight_happens_a_day_begins_with_the_first(zone: str, on: date) -> None:
    start = Window("day", on, zone).start
    local = start.astimezone(ZoneInfo(zone))
    happens = local.time() == datetime.min.time()
    assert not happens or (local.date() == on and local.fold == 0)


# ---------------------------------------------------------------------------- names


@pytest.mark.parametrize(
    ("kind", "on", "first", "label"),
    [
        ("week", "2025-01-01", "2024-12-30", "2025-W01"),
        ("week", "2024-12-29", "2024-12-23", "2024-W52"),
        ("week", "2021-01-03", "2020-12-28", "2020-W53"),
        ("month", "2024-02-29", "2024-02-01", "2024-02"),
        ("quarter", "2026-03-31", "2026-01-01", "2026-Q1"),
        ("quarter", "2026-12-31", "2026-10-01", "2026-Q4"),
        ("year", "2026-07-09", "2026-01-01", "2026"),
        ("day", "2026-07-09", "2026-07-09", "2026-07-09"),
    ],
)
def test_beginning_and_label(kind: Kind, on: str, first: str, label: str) -> None:
    window = Window(kind, beginning(kind, date.fromisoformat(on)), "UTC")
    assert (window.name, window.label) == (first, label)


@pytest.mark.parametrize(
    ("kind", "first", "after"),
    [
        ("day", "2024-02-28", "2024-02-29"),
        ("week", "2024-12-30", "2025-01-06"),
        ("month", "2024-12-01", "2025-01-01"),
        ("quarter", "2024-10-01", "2025-01-01"),
        ("year", "2024-01-01", "2025-01-01"),
    ],
)
def test_the_date_after_a_window(kind: Kind, first: str, after: str) -> None:
    assert Window(kind, date.fromisoformat(first), "UTC").after == date.fromisoformat(after)


@given(kinds, st.lists(days, min_size=2, unique=True))
def test_labels_tell_windows_of_one_kind_apart(kind: Kind, on: list[date]) -> None:
    firsts = {beginning(kind, each) for each in on}
    assert len({Window(kind, first, "UTC").label for first in firsts}) == len(firsts)


# ---------------------------------------------------------------------------- due


def test_a_window_is_due_from_the_instant_of_its_end() -> None:
    start, end = date(2026, 3, 23), utc("2026-03-29 23:00")
    assert [each.first for each in due("week", start, "Europe/London", end)] == [start]
    assert list(due("week", start, "Europe/London", end - timedelta.resolution)) == []


@given(kinds, zones, st.dates(date(1970, 1, 1), date(2100, 1, 1)), st.integers(0, 900))
def test_what_is_due_has_ended_and_what_follows_has_not(
    kind: Kind, zone: str, on: date, days_on: int
) -> None:
    start = beginning(kind, on)
    now = datetime(start.year, start.month, start.day, tzinfo=UTC) + timedelta(days=days_on)
    found = list(due(kind, start, zone, now))
    following = found[-1].after if found else start
    assert [each.first for each in found[:1]] in ([], [start])
    assert all(a.after == b.first for a, b in pairwise(found))
    assert all(each.end <= now for each in found)
    assert Window(kind, following, zone).end > now


def test_nothing_is_due_before_the_first_window() -> None:
    assert list(due("year", date(2026, 1, 1), "UTC", utc("2001-01-01 00:00"))) == []


def test_the_ends_of_the_calendar_are_dates_in_every_zone() -> None:
    for zone in ALL_ZONES:
        assert Window("day", EARLIEST, zone).start < Window("year", LATEST, zone).end
