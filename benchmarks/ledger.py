"""The ledger measured, each figure beside a baseline that was taken in the same run.

Run as ``python -m benchmarks.ledger [--quick] [--sqlite | --postgresql]``; benchmarks/README.md
says what each figure means and what it should be.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass, replace
from itertools import count, islice
from pathlib import Path
from statistics import quantiles
from typing import Any, NamedTuple

from sqlalchemy import (
    Column,
    Engine,
    Integer,
    MetaData,
    Table,
    Text,
    create_engine,
    insert,
    make_url,
    select,
)

from release.accounting import Gaussian, Spend
from release.bounding import Totals
from release.ledger import rows, schema
from release.ledger.chain import canonical, digest, entry_hash
from release.ledger.kinds import Released
from release.ledger.places import database
from release.ledger.records import Entry
from release.noise import gaussian
from release.pipeline import Plan, plan, settle
from release.windows import Window
from tests.kills import forked, killed_until_done, length, moments
from tests.ledger import test_concurrency
from tests.ledger.examples import ABOUT, NOW, funded, job, still, week
from tests.ledger.places import Place, PostgreSQL, SQLite
from tests.postgresql import Server, binaries

OPENING = funded("gdp")
RELEASES = 2_000_000
JOBS = 1000
GROUPS = tuple(f"Group {number:02}" for number in range(10))
BATCH = 1000
WARM_UP = 5
Row = dict[str, Any]


class Sizes(NamedTuple):
    """How much of everything is measured."""

    long: int
    """The entries of the long account."""
    repetitions: int
    races: int
    kills: int


FULL = Sizes(long=1_000_000, repetitions=300, races=1000, kills=2000)
QUICK = Sizes(long=10_000, repetitions=50, races=50, kills=20)
SHORT = 100
PARTS = ("append", "verify", "races", "kills")


@dataclass(frozen=True)
class Timed:
    """How long one kind of work took: the median and the quartiles, in seconds."""

    low: float
    median: float
    high: float

    @classmethod
    def of(cls, seconds: Sequence[float]) -> Timed:
        return cls(*quantiles(seconds, n=4))


def show(what: str, figure: str, beside: str = "") -> None:
    print(f"  {what:44}{figure:34}{beside}".rstrip(), flush=True)


def show_times(what: str, timed: Timed, beside: str = "") -> None:
    quartiles = f"{1e3 * timed.low:.2f} to {1e3 * timed.high:.2f}"
    show(what, f"{1e3 * timed.median:9.2f} ms  ({quartiles})", beside)


# ---------------------------------------------------------------------------- a long account


def planned(name: str, groups: tuple[str, ...]) -> Plan:
    """A job that releases the mean of some groups every week, for very little."""
    weekly = job(name, RELEASES)
    statistic = weekly.statistic.model_copy(update={"groups": groups})
    return plan(weekly.model_copy(update={"statistic": statistic}), OPENING)


def totals(groups: int) -> Totals:
    counts = [number << 20 for number in range(groups)]
    return Totals(GROUPS[:groups], {"count": counts, "sum": counts})


def history(last: Entry, entries: int) -> Iterator[tuple[Row, Row]]:
    """Sealed rows with what each paid for, by a thousand jobs in turn, up to so many entries."""
    plans = [planned(f"mean-{number}", GROUPS[:1]) for number in range(JOBS)]
    results = [one.published(totals(1), still).model_dump(mode="json") for one in plans]
    contents = [canonical(result) for result in results]
    bodies = [Released(release_sha256=digest(content)) for content in contents]
    added = [Spend().plus(p.mechanism.event, charged=p.charge.units) for p in plans]
    windows = [week(number) for number in range(1 + entries // JOBS)]
    spent = [0] * JOBS
    for seq in range(last.seq + 1, entries + 1):
        number, one = seq % JOBS, plans[seq % JOBS]
        entry = rows.following(last, "release", NOW, bodies[number])
        entry = rows.settling(entry, windows[seq // JOBS])
        entry = replace(entry, job=one.job.name, job_spent=spent[number])
        sums = last.sums.together(added[number])
        entry = rows.charging(entry, one.charge, one.mechanism.event, sums)
        last = replace(entry, hash=entry_hash(entry))
        spent[number] = last.job_spent
        row = rows.columns(last)
        kept = {name: row[name] for name in ("seq", *schema.WINDOW)}
        yield row, {**kept, "content": contents[number]}


def fill(place: Place, entries: int) -> None:
    """Opens an account and brings it to so many entries, as if each had been settled."""
    with closing(place.ledger()) as found:
        found.open_account(OPENING, ABOUT, NOW)
        with found.looking(OPENING.account) as view:
            rest = history(view.head.last, entries)
    with unruled(place), closing(database(place.folder, place.address, wait=10)) as at:
        while batch := list(islice(rest, BATCH)):
            with at.writing() as connection:
                connection.execute(insert(schema.entries), [entry for entry, _ in batch])
                connection.execute(insert(schema.releases), [result for _, result in batch])
    if isinstance(place, PostgreSQL):
        # What the server does by itself, but at a time of its own choice.
        place.sql("VACUUM ANALYZE")
        place.sql("CHECKPOINT")


@contextmanager
def unruled(place: Place) -> Iterator[None]:
    """Without triggers: they would hold each row to those before, which `verify` does later."""
    if isinstance(place, SQLite):
        triggers = place.sql("SELECT name, sql FROM sqlite_master WHERE type = 'trigger'")
        for trigger in triggers:
            place.sql(f"DROP TRIGGER {trigger['name']}")
        yield
        for trigger in triggers:
            place.sql(trigger["sql"])
        return
    for action in ("DISABLE", "ENABLE"):
        for table in schema.APPEND_ONLY:
            place.sql(f"ALTER TABLE {table} {action} TRIGGER USER")
        if action == "DISABLE":
            yield


# --------------------------------------------------------------------------------- appending


def settling(place: Place) -> Callable[[], None]:
    """Releases one more window of ten groups: look, lock, look, filter, noise, write, commit."""
    ledger, one, windows = place.ledger(), planned("mean-of-ten", GROUPS), count()
    exact = totals(len(GROUPS))

    def read(_window: Window, _key: str) -> Totals:
        return exact

    def work() -> None:
        settled = settle(ledger, one, week(next(windows)), read, sampler=gaussian, now=NOW)
        assert settled.status == "published"

    return work


def charging(place: Place) -> Callable[[], None]:
    """Appends one charge: lock, look, filter, write, commit."""
    ledger, event = place.ledger(), Gaussian(1, 2**20)

    def work() -> None:
        with ledger.writing(OPENING.account) as writer:
            writer.record(event, "elsewhere", NOW)

    return work


def inserting(place: Place, size: int) -> Callable[[], None]:
    """Inserts a row of so many bytes and commits: the least that any ledger must do."""
    bare = Table(
        f"bare_{size}", MetaData(), Column("id", Integer, primary_key=True), Column("row", Text)
    )
    engine, content = plain(place), "x" * size
    bare.create(engine, checkfirst=True)

    def work() -> None:
        with engine.begin() as connection:
            connection.execute(insert(bare).values(row=content))

    return work


def plain(place: Place) -> Engine:
    """The same file or server by SQLAlchemy's own settings, which are durable in both."""
    if isinstance(place, SQLite):
        return create_engine(f"sqlite:///{place.path}")
    return create_engine(make_url(place.address).difference_update_query(["schema"]))


def size_of_last(place: Place) -> int:
    """The bytes that the last entry has put into its table, and into that of results."""
    (entry,) = place.sql("SELECT * FROM entries ORDER BY seq DESC LIMIT 1")
    results = place.sql("SELECT * FROM releases WHERE seq = :seq", {"seq": entry["seq"]})
    values = (value for row in (entry, *results) for value in row.values())
    return sum(len(str(value).encode()) for value in values)


def alternated(works: Mapping[str, Callable[[], None]], rounds: int) -> dict[str, Timed]:
    """Each work once a round, in turn, so that a slow minute is slow for all of them."""
    seconds: dict[str, list[float]] = {name: [] for name in works}
    for _ in range(WARM_UP + rounds):
        for name, work in works.items():
            began = time.perf_counter()
            work()
            seconds[name].append(time.perf_counter() - began)
    return {name: Timed.of(taken[WARM_UP:]) for name, taken in seconds.items()}


def append(short: Place, long: Place, sizes: Sizes) -> None:
    works: dict[str, Callable[[], None]] = {}
    bytes_of: dict[str, int] = {}
    for what, working in (("charge", charging), ("release", settling)):
        for name, place in (("short", short), ("long", long)):
            work = working(place)
            work()
            bytes_of[what] = size_of_last(place)
            works[f"bare {what}, {name}"] = inserting(place, bytes_of[what])
            works[f"{what}, {name}"] = work
    timed = alternated(works, sizes.repetitions)
    for what in ("charge", "release"):
        for name, entries in (("short", SHORT), ("long", sizes.long)):
            bare, ours = timed[f"bare {what}, {name}"], timed[f"{what}, {name}"]
            show_times(f"bare insert of {bytes_of[what]} bytes, at entry {entries:,}", bare)
            ratio = ours.median / bare.median
            show_times(f"{what}, at entry {entries:,}", ours, f"{ratio:.2f} of the bare insert")
        growth = timed[f"{what}, long"].median / timed[f"{what}, short"].median
        show(f"{what}, long beside short", f"{growth:9.2f}")


# --------------------------------------------------------------------------- checking it all


def verify(place: Place) -> None:
    began = time.perf_counter()
    with plain_ledger(place) as engine, engine.connect() as connection:
        for table in (schema.entries, schema.releases):
            for _ in connection.execution_options(yield_per=BATCH).execute(select(table)):
                pass
    bare = time.perf_counter() - began
    began = time.perf_counter()
    with closing(place.ledger()) as ledger:
        entries, findings = ledger.verify()
    taken = time.perf_counter() - began
    assert not findings, findings[:3]
    show(f"bare select of {entries:,} entries", f"{entries / bare:9,.0f} entries a second")
    speed = f"{entries / taken:9,.0f} entries a second"
    show(f"verify {entries:,} entries", speed, f"{taken / bare:.2f} of the bare select")


@contextmanager
def plain_ledger(place: Place) -> Iterator[Engine]:
    """A plain engine that finds the ledger's own tables."""
    engine = plain(place)
    if isinstance(place, PostgreSQL):
        options = {"options": f"-csearch_path={place.schema}"}
        engine = create_engine(engine.url, connect_args=options)
    yield engine
    engine.dispose()


# ---------------------------------------------------------------------------- races and kills


def races(place: Place, rounds: int) -> None:
    """Sixteen processes and the last of a budget; what is not as it must be is an error."""
    began, done = time.perf_counter(), 0
    while done < rounds:
        test_concurrency.test_sixteen_processes_spend_the_last_of_a_budget(place)
        place.clear()
        done += test_concurrency.ROUNDS
    taken = time.perf_counter() - began
    asked = done * test_concurrency.RACERS
    show(
        f"{done:,} races of 16 processes", f"{asked / taken:9,.0f} windows a second", "none wrong"
    )


def kills(place: Place, least: int) -> None:
    """Whole runs killed at random moments; what is not as it must be is an error."""
    found: list[tuple[int, int]] = []
    began = time.perf_counter()
    drawn = moments(length(place, forked))
    while len(found) < least:
        found += killed_until_done(place, forked, drawn)
    taken = time.perf_counter() - began
    idle = sum(before == after for before, after in found) / len(found)
    show(f"{len(found):,} kills", f"{taken / len(found):9.2f} s a kill", "nothing lost or doubled")
    show("  of which had committed nothing", f"{100 * idle:9.0f} %")
    left = Counter(after for _, after in found)
    show(
        "  by the entries that each left",
        "  " + ", ".join(f"{n}: {left[n]}" for n in sorted(left)),
    )


# --------------------------------------------------------------------------------- all of it


@contextmanager
def durable() -> Iterator[Server]:
    """A server whose commits are on the disk, unlike that of the tests."""
    programs = binaries()
    if programs is None:
        raise SystemExit("PostgreSQL is not installed: --sqlite measures without it")
    with Server(programs) as server:
        anywhere = PostgreSQL(Path(), server)
        for setting in ("fsync", "full_page_writes"):
            anywhere.sql(f"ALTER SYSTEM SET {setting} = on")
        server.stop()
        server.start()
        (fsync,) = anywhere.sql("SHOW fsync")
        assert fsync == {"fsync": "on"}
        yield server


def measure(name: str, place: Callable[[str], Place], sizes: Sizes, parts: Sequence[str]) -> None:
    print(name, flush=True)
    if {"append", "verify"} & set(parts):
        short, long = place("short"), place("long")
        fill(short, SHORT)
        fill(long, sizes.long)
        if "append" in parts:
            append(short, long, sizes)
        if "verify" in parts:
            verify(long)
        long.clear()
    if "races" in parts:
        races(place("races"), sizes.races)
    if "kills" in parts:
        kills(place("kills"), sizes.kills)


def main() -> None:
    parser = argparse.ArgumentParser(prog="benchmarks.ledger")
    parser.add_argument("parts", nargs="*", metavar="PART", help=f"some of {', '.join(PARTS)}")
    parser.add_argument("--quick", action="store_true", help="small sizes: a few minutes")
    only = parser.add_mutually_exclusive_group()
    only.add_argument("--sqlite", action="store_true", help="measure SQLite alone")
    only.add_argument("--postgresql", action="store_true", help="measure PostgreSQL alone")
    chosen = parser.parse_args()
    parts, sizes = chosen.parts or PARTS, QUICK if chosen.quick else FULL
    if not set(parts) <= set(PARTS):
        parser.error(f"the parts are {', '.join(PARTS)}")
    with tempfile.TemporaryDirectory(prefix="ledger-") as name:
        folder = Path(name)
        if not chosen.postgresql:
            measure("SQLite", lambda part: SQLite(folder / part), sizes, parts)
        if not chosen.sqlite:
            with durable() as server:
                measure("PostgreSQL", lambda p: PostgreSQL(folder / p, server), sizes, parts)


if __name__ == "__main__":
    main()
