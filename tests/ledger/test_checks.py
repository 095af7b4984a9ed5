"""The check that the other tests rely on finds what it should, also behind new hashes."""

from __future__ import annotations

import json
from collections.abc import Callable
from contextlib import closing
from typing import Any

import pytest

from release.accounting import GaussianThreshold, Laplace
from release.pipeline import plan
from tests.ledger.examples import (
    NOW,
    check_intact,
    funded,
    job,
    opened,
    release,
    sealed,
    week,
)
from tests.ledger.places import Place

RELEASED, REFUSED, RECORDED, LAST = 3, 4, 5, 6
JSON_COLUMNS = ("event", "sums", "body")


@pytest.fixture
def shop(place: Place) -> Place:
    """A release, a refusal and two records, in a database whose rules are gone."""
    opening = funded("zcdp", threshold_share="0.1")
    found, planned = opened(place, opening=opening), plan(job(releases=1, share="0.5"), opening)
    for number in range(2):
        release(found, week(number), planned)
    for event in (GaussianThreshold(1, 30, 1e-9), Laplace(1, 30)):
        with found.writing("shop") as writer:
            writer.record(event, "elsewhere", NOW)
    found.close()
    place.lift_rules()
    check_intact(place)
    return place


def forge(shop: Place, seq: int, *, reseal: bool, **changes: Any) -> None:
    """Changes an entry; with ``reseal`` all hashes from there on are made anew."""
    entries = shop.entries()
    entries[seq - 1].update(changes)
    if reseal:
        for before, entry in zip([None, *entries], entries, strict=False):
            if before is not None:
                entry["previous"] = before["hash"]
            entry["hash"] = sealed(entry)
    columns = ", ".join(f"{name} = :{name}" for name in entries[0])
    shop.sql(f"UPDATE entries SET {columns} WHERE seq = :seq", *entries)  # noqa: S608


def verified(shop: Place) -> list[int]:
    """The entries that the ledger's own check finds fault with."""
    with closing(shop.ledger()) as found:
        return [finding.seq for finding in found.verify()[1]]


def other(column: str, value: Any) -> Any:
    if column in JSON_COLUMNS:
        return json.dumps({**json.loads(value), "more": 1})
    return value + 1 if isinstance(value, int) else f"{value}0"


def test_every_column_is_under_the_hash(shop: Place) -> None:
    released = shop.entries()[RELEASED - 1]
    assert None not in released.values()
    for column in released.keys() - {"account", "seq"}:
        forge(shop, RELEASED, reseal=False, **{column: other(column, released[column])})
        with pytest.raises(AssertionError):
            check_intact(shop)
        assert RELEASED in verified(shop), column
        forge(shop, RELEASED, reseal=False, **{column: released[column]})
        check_intact(shop)
        assert not verified(shop)


def sums(**changes: Callable[[Any], Any]) -> Callable[[Any], Any]:
    def changed(text: str) -> str:
        document = json.loads(text)
        return json.dumps({**document, **{k: make(document[k]) for k, make in changes.items()}})

    return changed


def less(value: int) -> int:
    return value - 1


def more(value: int) -> int:
    return value + 1


@pytest.mark.parametrize(
    ("seq", "column", "change"),
    [
        *((seq, name, change) for seq in (RELEASED, RECORDED) for change in (less, more)
          for name in ("charge", "spent", "delta_charge", "delta_spent", "job_spent")),
        *((seq, "sums", sums(**{name: change})) for change in (less, more)
          for seq, names in (
              (RELEASED, ("gaussian", "rho", "delta0")),
              (REFUSED, ("gaussian", "rho", "delta0")),
              (RECORDED, ("gaussian", "rho", "delta0")),
              (LAST, ("rho", "delta0")))
          for name in names),
        (RELEASED, "sums", sums(curve=lambda _: [1])),
        (REFUSED, "sums", sums(curve=lambda _: [1])),
        (RELEASED, "event", sums(sigma=lambda sigma: sigma * 999 // 1000)),
        (RELEASED, "event", lambda _: None),
        (REFUSED, "event", lambda _: "{}"),
        (REFUSED, "body", sums(stopped_by=lambda _: "chance")),
        (REFUSED, "window_first", lambda _: "2026-01-05"),
        (REFUSED, "window_after", lambda _: "2026-01-12"),
        (REFUSED, "window_after", lambda _: None),
        (REFUSED, "window_start", lambda _: "2026-02-12T00:00:00.000000Z"),
        (RECORDED, "job", lambda _: "board"),
        (RECORDED, "window_after", lambda _: "2026-01-12"),
        (RECORDED, "body", lambda _: "{}"),
        (1, "body", sums(cap=lambda _: 1)),
        (1, "body", sums(delta_cap=lambda _: 1)),
    ],
)  # fmt: skip
def test_a_forgery_with_new_hashes_is_found(
    shop: Place, seq: int, column: str, change: Callable[[Any], Any]
) -> None:
    entry = shop.entries()[seq - 1]
    forge(shop, seq, reseal=True, **{column: change(entry[column])})
    with pytest.raises(AssertionError):
        check_intact(shop)
    assert verified(shop)[0] in {seq, seq + 1}


def test_the_same_entries_with_new_hashes_are_no_forgery(shop: Place) -> None:
    before = shop.entries()
    forge(shop, RELEASED, reseal=True)
    check_intact(shop)
    assert shop.entries() == before


@pytest.mark.parametrize(
    ("tampering", "seq"),
    [
        ("DELETE FROM entries WHERE seq = 4", RECORDED),
        ("DELETE FROM entries WHERE seq = 3", REFUSED),
        ("DELETE FROM entries", 1),
        ("DELETE FROM releases", RELEASED),
        ("DELETE FROM entries WHERE seq >= 3", RELEASED),
        ("UPDATE releases SET content = replace(content, 'Coffee', 'Coffees')", RELEASED),
        ("UPDATE entries SET seq = -seq WHERE seq IN (4, 5)", -RECORDED),
        ("UPDATE entries SET body = 'x' WHERE seq = 2", 2),
        ("UPDATE entries SET body = '[]' WHERE seq = 2", 2),
        ("UPDATE entries SET body = '[]' WHERE seq = 4", 4),
        ("UPDATE entries SET body = '7' WHERE seq = 1", 1),
        ("UPDATE entries SET event = '7' WHERE seq = 3", 3),
        ("UPDATE entries SET sums = '{}' WHERE seq = 3", 3),
        ("UPDATE entries SET charged_at = 'today' WHERE seq = 3", 3),
        ("UPDATE entries SET window_first = 'monday' WHERE seq = 3", 3),
    ],
)
def test_what_is_wrong_is_named_by_its_entry(shop: Place, tampering: str, seq: int) -> None:
    shop.sql(tampering)
    assert verified(shop)[0] == seq
