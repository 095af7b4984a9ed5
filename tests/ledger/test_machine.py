"""The ledger against a model of it that fits in a few lines, whatever the order of things."""

from __future__ import annotations

import io
import os
import signal
from collections.abc import Callable
from contextlib import nullcontext, suppress
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)

from release.accounting import Charge, Event, GaussianThreshold, Spend, event_from_json
from release.bounding import Totals, sensitivity
from release.errors import RefusedError
from release.ledger import transfer
from release.ledger.kinds import Notice
from release.ledger.records import Account, Terms
from release.ledger.store import Ledger
from release.mechanisms import calibrated
from release.pipeline import Plan, plan, settle
from release.windows import Window
from tests.ledger.examples import (
    ABOUT,
    NOW,
    check_intact,
    exact,
    funded,
    job,
    still,
    terms,
    week,
    worth,
)
from tests.ledger.places import Place
from tests.processes import PROCESSES

CAP = 1000
DELTA_CAP = 3
JOB_CAPS = {"board": 600, "mean": 1000}
WINDOWS = st.integers(0, 9)
# Every total of a mean takes a unit, so two units are too few for its noise.
CHARGES = st.integers(3, 450) | st.sampled_from([599, 600, 601, 1000, 1001])
RECORDED = st.tuples(st.integers(1, 400), st.integers(1, 4), st.booleans())
ASKED = st.tuples(st.sampled_from(sorted(JOB_CAPS)), WINDOWS, CHARGES)
Asked = tuple[str, int, int]
Recorded = tuple[int, int, bool]
"""Units of ρ of one use, how many uses, and whether each costs a unit of δ₀ too."""


def opening() -> Terms:
    """A budget of CAP units, and of DELTA_CAP units of δ₀."""
    found = funded("gdp", "0.0000723", "3e-12")
    assert (found.cap, found.delta_cap) == (CAP, DELTA_CAP)
    return found


def described(recorded: Recorded) -> Event:
    units, count, threshold = recorded
    event = worth(units)
    if threshold:
        return GaussianThreshold(event.sensitivity, event.sigma, 2.0**-60, count)
    return replace(event, count=count)


def planned_for(asked: Asked) -> Plan:
    name, _, charge = asked
    planned = plan(job(name), opening())
    split = planned.statistic.split(planned.job.statistic)
    mechanism = calibrated(sensitivity(planned.job.contribution), charge, split)
    assert mechanism is not None
    return replace(planned, charge=Charge(charge), job_cap=JOB_CAPS[name], mechanism=mechanism)


def die(place: Place, asked: Asked, *, committed: bool) -> None:
    found, planned = place.ledger(), planned_for(asked)
    if committed:
        settle(found, planned, week(asked[1]), exact, sampler=still, now=NOW)
    with found.writing("shop") as writer:
        writer.note("notice", Notice(text="never seen"), NOW)
        os.kill(os.getpid(), signal.SIGKILL)


def exported(found: Ledger) -> bytes:
    to = io.BytesIO()
    found.export(to)
    return to.getvalue()


class Machine(RuleBasedStateMachine):
    """Two connections to one place, and what a careful clerk would have on paper."""

    def __init__(self, place: Place) -> None:
        super().__init__()
        self.place = place
        self.ledgers = [place.ledger(), place.ledger()]
        self.settled: dict[tuple[str, int], str] = {}
        self.stops: list[str] = []
        self.recorded: list[Recorded] = []
        self.order: list[tuple[str, int]] = []
        self.spent = dict.fromkeys(JOB_CAPS, 0)
        self.abouts = [ABOUT]

    @initialize()
    def open(self) -> None:
        for each in self.ledgers:
            each.open_account(opening(), ABOUT, NOW)

    @rule(which=st.integers(0, 1))
    def open_again(self, which: int) -> None:
        self.ledgers[which].open_account(terms(cap=2 * CAP), ABOUT, NOW)

    @rule(which=st.integers(0, 1), title=st.sampled_from(["Shop", "Store"]))
    def describe(self, which: int, title: str) -> None:
        about = ABOUT.model_copy(update={"title": title})
        self.ledgers[which].describe("shop", about, NOW)
        if about != self.abouts[-1]:
            self.abouts.append(about)

    @rule(which=st.integers(0, 1), asked=ASKED)
    def settle(self, which: int, asked: Asked) -> None:
        status = self._settle(self.ledgers[which], asked)
        assert status == self._expected(asked)

    @rule(which=st.integers(0, 1), recorded=RECORDED)
    def record(self, which: int, recorded: Recorded) -> None:
        self._record(self.ledgers[which], recorded)

    @rule(asked=ASKED, other=ASKED)
    def settle_while_another_reads(self, asked: Asked, other: Asked) -> None:
        self._overtaken(asked, lambda: self._settle_other(other))

    @rule(asked=ASKED, charge=CHARGES)
    def settle_what_another_reads(self, asked: Asked, charge: int) -> None:
        self._overtaken(asked, lambda: self._settle_other((*asked[:2], charge)))

    @rule(asked=ASKED, recorded=RECORDED)
    def record_while_another_reads(self, asked: Asked, recorded: Recorded) -> None:
        self._overtaken(asked, lambda: self._record(self.ledgers[1], recorded))

    @precondition(lambda self: self.settled)
    @rule(which=st.integers(0, 1), data=st.data(), charge=CHARGES)
    def settle_again(self, which: int, data: st.DataObject, charge: int) -> None:
        name, number = data.draw(st.sampled_from(self.order))
        assert self._settle(self.ledgers[which], (name, number, charge)) == "already"

    @rule(which=st.integers(0, 1))
    def reopen(self, which: int) -> None:
        self.ledgers[which].close()
        self.ledgers[which] = self.place.ledger()

    @rule(which=st.integers(0, 1))
    def verify(self, which: int) -> None:
        count, found = self.ledgers[which].verify()
        assert not found
        assert count == len(self.place.entries())

    @rule()
    def export_and_import(self) -> None:
        """Into a ledger of another database, which then says the same."""
        written = exported(self.ledgers[0])
        assert exported(self.ledgers[1]) == written
        with TemporaryDirectory() as folder:
            copy = Ledger(Path(folder), "sqlite:///copy.db", wait=1)
            copy.restore(transfer.read(io.BytesIO(written), "copy"))
            assert exported(copy) == written
            copy.close()

    @rule(asked=ASKED, committed=st.booleans())
    def crash(self, *, asked: Asked, committed: bool) -> None:
        """A process is killed under the lock, with all but the commit done, or just after it."""
        process = PROCESSES.Process(
            target=die, args=(self.place, asked), kwargs={"committed": committed}
        )
        process.start()
        process.join()
        assert process.exitcode == -signal.SIGKILL
        if committed:
            self._expected(asked)

    @invariant()
    def the_ledger_says_what_the_paper_says(self) -> None:
        for each in self.ledgers:
            account = each.accounts()[0]
            entries = [entry for entry in account.entries if entry.job is not None]
            found = [(entry.job, entry.window) for entry in entries]
            assert found == [(name, week(number)) for name, number in self.order]
            assert [entry.kind for entry in entries] == [self.settled[key] for key in self.order]
            assert account.terms.cap == CAP
            assert account.about == self.abouts[-1]
            assert account.last.spent == Charge(self._units, self._delta0)
            assert self._units <= CAP
            assert self._delta0 <= DELTA_CAP
            stops = [entry.body["stopped_by"] for entry in entries if entry.kind == "refusal"]
            assert stops == self.stops
            records = [entry for entry in account.entries if entry.kind == "record"]
            assert [entry.event for entry in records] == [
                described(recorded).to_json() for recorded in self.recorded
            ]
            assert account.last.sums == replayed(account)
            count = 1 + len(self.abouts) + len(self.order) + len(self.recorded)
            assert len(account.entries) == count
            last = {entry.job: entry.job_spent for entry in entries}
            assert {name: last.get(name, 0) for name in self.spent} == self.spent
            assert all(self.spent[name] <= cap for name, cap in JOB_CAPS.items())
        check_intact(self.place)

    def teardown(self) -> None:
        for each in self.ledgers:
            each.close()
        self.place.clear()

    @property
    def _units(self) -> int:
        recorded = sum(units * count for units, count, _ in self.recorded)
        return sum(self.spent.values()) + recorded

    @property
    def _delta0(self) -> int:
        return sum(count for _, count, threshold in self.recorded if threshold)

    def _record(self, through: Ledger, recorded: Recorded) -> None:
        units, count, threshold = recorded
        fits = self._units + units * count <= CAP
        fits = fits and self._delta0 + threshold * count <= DELTA_CAP
        with suppress(RefusedError) if not fits else nullcontext():
            with through.writing("shop") as writer:
                writer.record(described(recorded), "elsewhere", NOW)
            assert fits
            self.recorded.append(recorded)

    def _settle_other(self, other: Asked) -> None:
        assert self._settle(self.ledgers[1], other) == self._expected(other)

    def _settle(
        self, through: Ledger, asked: Asked, meanwhile: Callable[[], None] = lambda: None
    ) -> str:
        def read(window: Window, key: str) -> Totals:
            meanwhile()
            return exact(window, key)

        planned = planned_for(asked)
        return settle(through, planned, week(asked[1]), read, sampler=still, now=NOW).status

    def _overtaken(self, asked: Asked, meanwhile: Callable[[], None]) -> None:
        """Between the first look and the lock of one, another does something."""
        if asked[:2] in self.settled or not self._fits(asked):
            return
        status = self._settle(self.ledgers[0], asked, meanwhile)
        assert status == self._expected(asked)

    def _fits(self, asked: Asked) -> bool:
        name, _, charge = asked
        within = self.spent[name] + charge <= JOB_CAPS[name]
        return self._units + charge <= CAP and within

    def _expected(self, asked: Asked) -> str:
        name, number, charge = asked
        if (name, number) in self.settled:
            return "already"
        self.order.append((name, number))
        if self._fits(asked):
            self.spent[name] += charge
            self.settled[name, number] = "release"
            return "published"
        self.settled[name, number] = "refusal"
        self.stops.append("account" if self._units + charge > CAP else "share")
        return "refused"


def replayed(account: Account) -> Spend:
    """The odometer made anew from the stored events."""
    sums = Spend()
    for entry in account.entries:
        if entry.event is not None:
            sums = sums.plus(event_from_json(entry.event), charged=entry.charge.units)
    return sums


def test_the_ledger_is_what_a_clerk_would_write(place: Place) -> None:
    class Here(Machine):
        def __init__(self) -> None:
            super().__init__(place)

    run_state_machine_as_test(Here, settings=settings(max_examples=10, stateful_step_count=14))
