"""A new zone database moves instants, never what was settled nor what an entry says."""

from __future__ import annotations

import struct
import zoneinfo
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path

import pytest

from release.ledger.chain import entry_hash
from release.pipeline import plan
from release.windows import Window
from tests.ledger.examples import START, check_intact, job, opened, release, terms
from tests.ledger.places import Place

ZONE = "Shop/Town"


def week(number: int) -> Window:
    return Window("week", START + timedelta(weeks=number), ZONE)


@contextmanager
def database(folder: Path, hours: int) -> Iterator[None]:
    """A zone database in which the town has always been so far from UTC."""
    head = struct.pack(">4s16x6l", b"TZif", 0, 0, 0, 0, 1, 4)
    (folder / "Shop").mkdir(parents=True, exist_ok=True)
    (folder / ZONE).write_bytes(head + struct.pack(">lbb", hours * 3600, 0, 0) + b"TWN\0")
    zoneinfo.ZoneInfo.clear_cache(only_keys=[ZONE])
    zoneinfo.reset_tzpath([str(folder)])
    try:
        yield
    finally:
        zoneinfo.reset_tzpath()
        zoneinfo.ZoneInfo.clear_cache(only_keys=[ZONE])


@pytest.mark.parametrize("hours", [-5, 2])
def test_what_was_settled_stays_settled_and_keeps_its_hash(
    place: Place, tmp_path: Path, hours: int
) -> None:
    planned = plan(job(releases=1), terms())
    with database(tmp_path / "zones", 1):
        found = opened(place)
        before = [release(found, week(n), planned) for n in range(2)]
        assert [each.status for each in before] == ["published", "refused"]
        starts = [week(n).start for n in range(2)]
        found.close()
    written = place.entries()
    with database(tmp_path / "zones", hours):
        found = place.ledger()
        (account,) = found.accounts()
        for entry, start, number in zip(account.entries[2:], starts, range(2), strict=True):
            assert entry.window == week(number)
            assert entry.start == start != week(number).start
            assert entry.end == start + timedelta(weeks=1) != week(number).end
            assert entry_hash(entry) == entry.hash
        assert [each.entry for each in before] == list(account.entries[2:])
        assert found.settled("shop", "board") == {week(0): "release", week(1): "refusal"}
        again = [release(found, week(n), planned) for n in range(2)]
        assert [each.status for each in again] == ["already"] * 2
        assert [each.entry for each in again] == list(account.entries[2:])
        assert release(found, week(2), planned).status == "refused"
        found.close()
    assert place.entries()[: len(written)] == written
    check_intact(place)


def test_a_window_in_another_zone_is_the_same_window(place: Place) -> None:
    """A job's weeks are named by their dates: a zone that moves does not reopen them."""
    found = opened(place)
    first = release(found, Window("week", START, "Europe/London"))
    again = release(found, Window("week", START, "Asia/Tokyo"))
    assert (first.status, again.status) == ("published", "already")
    assert again.entry == first.entry
    # Another length that begins on the same date is another window.
    assert release(found, Window("day", START, "Europe/London")).status == "published"
    found.close()
    check_intact(place)
