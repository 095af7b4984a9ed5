"""The ledger against a model of it that fits in a few lines, whatever the order of things."""

from __future__ import annotations

import shutil
import tempfile
from dataclasses import replace
from pathlib import Path

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
)

from release.bounding import Totals
from release.ledger.store import Ledger
from release.pipeline import Plan, plan, settle
from release.windows import Window
from tests.ledger.examples import ABOUT, NOW, check_intact, exact, job, ledger, still, terms, week

CAP = 1000
JOB_CAPS = {"board": 600, "mean": 1000}
WINDOWS = st.integers(0, 9)
CHARGES = st.integers(1, 450) | st.sampled_from([599, 600, 601, 1000, 1001])
ASKED = st.tuples(st.sampled_from(sorted(JOB_CAPS)), WINDOWS, CHARGES)
Asked = tuple[str, int, int]


class Machine(RuleBasedStateMachine):
    """Two connections to one file, and what a careful clerk would have on paper."""

    def __init__(self) -> None:
        super().__init__()
        self.folder = Path(tempfile.mkdtemp())
        self.ledgers = [ledger(self.folder), ledger(self.folder)]
        self.plans = {name: plan(job(name), terms(cap=CAP)) for name in JOB_CAPS}
        self.settled: dict[tuple[str, int], str] = {}
        self.order: list[tuple[str, int]] = []
        self.spent = dict.fromkeys(JOB_CAPS, 0)
        self.abouts = [ABOUT]

    @initialize()
    def open(self) -> None:
        for each in self.ledgers:
            each.open_account(terms(cap=CAP), ABOUT, NOW)

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

    @rule(asked=ASKED, other=ASKED)
    def settle_while_another_reads(self, asked: Asked, other: Asked) -> None:
        self._overtaken(asked, other)

    @rule(asked=ASKED, charge=CHARGES)
    def settle_what_another_reads(self, asked: Asked, charge: int) -> None:
        self._overtaken(asked, (*asked[:2], charge))

    @precondition(lambda self: self.settled)
    @rule(which=st.integers(0, 1), data=st.data(), charge=CHARGES)
    def settle_again(self, which: int, data: st.DataObject, charge: int) -> None:
        name, number = data.draw(st.sampled_from(self.order))
        assert self._settle(self.ledgers[which], (name, number, charge)) == "already"

    @rule(which=st.integers(0, 1))
    def reopen(self, which: int) -> None:
        self.ledgers[which].close()
        self.ledgers[which] = ledger(self.folder)

    @invariant()
    def the_file_says_what_the_paper_says(self) -> None:
        for each in self.ledgers:
            account = each.accounts()[0]
            entries = [entry for entry in account.entries if entry.job is not None]
            found = [(entry.job, entry.window) for entry in entries]
            assert found == [(name, week(number)) for name, number in self.order]
            assert [entry.kind for entry in entries] == [self.settled[key] for key in self.order]
            assert account.terms.cap == CAP
            assert account.about == self.abouts[-1]
            assert account.spent == sum(self.spent.values()) <= CAP
            assert len(account.entries) == 1 + len(self.abouts) + len(self.order)
            last = {entry.job: entry.job_spent for entry in entries}
            assert {name: last.get(name, 0) for name in self.spent} == self.spent
            assert all(self.spent[name] <= cap for name, cap in JOB_CAPS.items())
        check_intact(self.folder)

    def teardown(self) -> None:
        for each in self.ledgers:
            each.close()
        shutil.rmtree(self.folder)

    def _plan(self, asked: Asked) -> Plan:
        name, _, charge = asked
        return replace(self.plans[name], charge=charge, job_cap=JOB_CAPS[name])

    def _settle(self, through: Ledger, asked: Asked, other: Asked | None = None) -> str:
        def read(window: Window, key: str) -> Totals:
            if other is not None:
                assert self._settle(self.ledgers[1], other) == self._expected(other)
            return exact(window, key)

        planned = self._plan(asked)
        return settle(through, planned, week(asked[1]), read, sampler=still, now=NOW).status

    def _overtaken(self, asked: Asked, other: Asked) -> None:
        """Between the first look and the lock of one, another settles something."""
        if asked[:2] in self.settled or not self._fits(asked):
            return
        status = self._settle(self.ledgers[0], asked, other)
        assert status == self._expected(asked)

    def _fits(self, asked: Asked) -> bool:
        name, _, charge = asked
        total = sum(self.spent.values()) + charge
        return total <= CAP and self.spent[name] + charge <= JOB_CAPS[name]

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
        return "refused"


TestLedger = Machine.TestCase
TestLedger.settings = settings(
    max_examples=20,
    stateful_step_count=16,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow],
)
