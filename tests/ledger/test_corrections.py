"""The laws of corrections: a charge is only ever raised, and no sum is below what was done."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass, field
from decimal import Decimal

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from release.accounting import (
    ACCOUNTANTS,
    ORDERS,
    AccountingError,
    ApproximateDP,
    Charge,
    Composed,
    Event,
    Gaussian,
    GaussianThreshold,
    Laplace,
    PoissonGaussian,
    PureDP,
    Spend,
    ZeroConcentrated,
    event_from_json,
)
from release.errors import RefusedError, UsageError
from release.ledger import charges
from release.ledger.charges import alone
from release.ledger.records import Account, Entry, Terms
from release.ledger.store import Ledger
from release.ledger.writing import MOST_UNITS
from release.pipeline import plan
from tests.ledger.examples import ABOUT, NOW, funded, job, opened, release, week, worth
from tests.ledger.places import Place

SHARE = "0.1"  # δ_T = 1e-7
WHY = "the bound on rows was not applied"
NOISES = st.sampled_from([4.0, 9.5, 30.0, 31.0, 100.0])
COUNTS = st.integers(1, 3)
GAUSSIAN = st.builds(Gaussian, st.just(1), NOISES, COUNTS) | st.builds(
    GaussianThreshold, st.just(1), NOISES, st.sampled_from([1e-9, 3e-9, 6e-8]), COUNTS
)
CONCENTRATED = (
    GAUSSIAN
    | st.builds(Laplace, st.just(1), NOISES, COUNTS)
    | st.builds(PureDP, st.sampled_from([0.01, 0.05, 0.3]), COUNTS)
    | st.builds(ZeroConcentrated, st.sampled_from([0.0005, 0.02]), COUNTS)
)
SAMPLED = st.builds(PoissonGaussian, st.sampled_from([0.01, 0.1]), st.just(2.0), COUNTS)
EVERY = CONCENTRATED | SAMPLED
TAKEN = {"gdp": GAUSSIAN, "zcdp": CONCENTRATED, "rdp": EVERY}
NO_CURVE = (0,) * len(ORDERS)
Steps = list[tuple[int | None, Event]]
"""Each a charge, or the correction of the charge with this place among those that there are."""


def parts(of: st.SearchStrategy[Event]) -> st.SearchStrategy[Event]:
    return of | st.lists(of, min_size=1, max_size=2).map(lambda found: Composed(tuple(found)))


@st.composite
def histories(draw: st.DrawFn) -> tuple[Terms, Steps]:
    accountant = draw(st.sampled_from(sorted(TAKEN)))
    epsilon = draw(st.sampled_from(["0.9", "1.5", "4"]))
    place = st.none() | st.integers(0, 5)
    steps = st.lists(st.tuples(place, parts(TAKEN[accountant])), min_size=2, max_size=9)
    return funded(accountant, epsilon, SHARE), draw(steps)


def covers(one: Spend, other: Spend) -> bool:
    """Whether no sum of the first is below the other's, ρ of no bound being above every one."""
    curves = zip(one.curve or NO_CURVE, other.curve or NO_CURVE, strict=True)
    return (
        one.gaussian >= other.gaussian
        and one.delta0 >= other.delta0
        and (one.rho is None or (other.rho is not None and one.rho >= other.rho))
        and all(a >= b for a, b in curves)
    )


def total(events: Iterable[Event]) -> Spend:
    sums = Spend()
    for event in events:
        sums = sums.plus(event)
    return sums


def the_account(of: Ledger, name: str = "shop") -> Account:
    (found,) = (each for each in of.accounts() if each.terms.account == name)
    return found


def record(to: Ledger, event: Event) -> Entry:
    with to.writing("shop") as writer:
        return writer.record(event, "a model trained elsewhere", NOW)


def amend(to: Ledger, seq: int, event: Event) -> Entry:
    with to.writing("shop") as writer:
        return writer.amend(seq, event, WHY, NOW)


@dataclass
class Walk:
    """Takes the steps on a ledger, and holds each to the laws."""

    ledger: Ledger
    terms: Terms
    true: dict[int, Event] = field(default_factory=dict)
    """What was really done, by the entry that charged it."""

    def step(self, place: int | None, event: Event) -> None:
        before = the_account(self.ledger)
        if place is None or not self.true:
            self.charge(before, event)
        else:
            self.correct(before, sorted(self.true)[place % len(self.true)], event)
        after = the_account(self.ledger)
        assert after.last.spent.units >= before.last.spent.units
        assert after.last.spent.delta0 >= before.last.spent.delta0
        assert covers(after.last.sums, before.last.sums)
        assert covers(after.last.sums, total(self.true.values()))
        assert after.entries[: len(before.entries)] == before.entries

    def charge(self, before: Account, event: Event) -> None:
        fits = self.terms.budget.admits(before.last.spent, self.terms.budget.charge(event))
        try:
            entry = record(self.ledger, event)
        except RefusedError:
            assert not fits
            assert the_account(self.ledger) == before
            return
        assert fits
        assert not before.overdrawn
        self.true[entry.seq] = event

    def correct(self, before: Account, seq: int, event: Event) -> None:
        cost, charged, sums = self.terms.budget.charge(event), *self.standing(before, seq)
        costlier = cost.units > charged.units or cost.delta0 > charged.delta0
        try:
            entry = amend(self.ledger, seq, event)
        except UsageError:
            if charges.covers(event, self.true[seq]):
                # Nothing is above what stands already, so what stands holds for this event too.
                assert not costlier
                assert covers(sums, Spend().plus(event))
            assert the_account(self.ledger) == before
            return
        assert charges.covers(event, self.true[seq])
        self.true[seq] = event
        after = the_account(self.ledger)
        now, raised = self.standing(after, seq)
        assert (after.last, entry.amends) == (entry, seq)
        assert now.units >= max(cost.units, charged.units + 1)
        assert now.delta0 >= max(cost.delta0, charged.delta0)
        assert costlier or entry.charge == Charge(1)
        assert covers(raised, sums)
        assert covers(raised, Spend().plus(event))
        with pytest.raises(UsageError):
            amend(self.ledger, seq, event)
        assert the_account(self.ledger) == after

    def standing(self, account: Account, seq: int) -> tuple[Charge, Spend]:
        """What an entry and its corrections have cost, from the rows alone."""
        chain = (account.entries[seq - 1], *account.amended.get(seq, ()))
        charge, sums = Charge(0), Spend()
        for entry in chain:
            charge, sums = charge.plus(entry.charge), sums.together(alone(account, entry))
        return charge, sums

    def end(self) -> None:
        account = the_account(self.ledger)
        spent = account.last.spent
        beyond = spent.units > self.terms.cap or spent.delta0 > self.terms.delta_cap
        assert account.overdrawn == account.stopped == beyond
        count, found = self.ledger.verify()
        assert (count, found) == (len(account.entries), [])
        if not self.true:
            return
        assert account.composition is not None
        assert total([account.composition]) == total(self.true.values())
        parts = [alone(account, entry) for entry in account.entries]
        whole = Spend()
        for part in parts:
            whole = whole.together(part)
        assert whole == account.last.sums
        if beyond:
            for event in (Gaussian(1, 10**6), self.true[min(self.true)]):
                with pytest.raises(RefusedError):
                    record(self.ledger, event)
            assert the_account(self.ledger) == account


def holding(place: Place, check: Callable[[Ledger, Terms, Steps], None], examples: int) -> None:
    """Holds a check for many histories, each on a new ledger."""

    @given(history=histories())
    @settings(max_examples=examples)
    def law(history: tuple[Terms, Steps]) -> None:
        opening, steps = history
        ledger = opened(place, opening=opening)
        try:
            check(ledger, opening, steps)
        finally:
            ledger.close()
            place.clear()

    law()


def test_corrections_keep_their_laws_whatever_is_charged_and_corrected(place: Place) -> None:
    def check(ledger: Ledger, opening: Terms, steps: Steps) -> None:
        walk = Walk(ledger, opening)
        for step in steps:
            walk.step(*step)
        walk.end()

    holding(place, check, 25)


def test_an_account_that_replaces_another_carries_what_was_corrected(place: Place) -> None:
    def check(ledger: Ledger, opening: Terms, steps: Steps) -> None:
        walk = Walk(ledger, opening)
        for step in steps:
            walk.step(*step)
        old = the_account(ledger)
        heir = opening.model_copy(update={"account": "heir", "replaces": "shop"})
        try:
            ledger.open_account(heir, ABOUT, NOW)
        except RefusedError:
            # The same budget holds what was spent, unless that was more than the budget.
            assert old.overdrawn
            large = funded(opening.accountant, "5000", "0.9")
            update = {"account": "heir", "replaces": "shop"}
            ledger.open_account(large.model_copy(update=update), ABOUT, NOW)
        new = the_account(ledger, "heir")
        assert new.composition is None or walk.true
        if new.composition is not None:
            assert total([new.composition]) == total(walk.true.values())
            cost = new.terms.budget.charge(new.composition)
            assert new.last.spent.units >= cost.units
            assert new.last.spent.delta0 >= cost.delta0
            assert covers(new.last.sums, total(walk.true.values()))
        if new.terms.order == old.terms.order:
            assert new.last.spent == old.last.spent
        assert ledger.verify()[1] == []
        with pytest.raises(UsageError):
            amend(ledger, 3, Gaussian(1, 1))

    holding(place, check, 12)


# ---------------------------------------------------------------------------- one by one


def test_a_correction_past_the_cap_counts_and_stops_everything(place: Place) -> None:
    opening = funded("gdp")
    ledger, planned = opened(place, opening=opening), plan(job(), opening)
    first = release(ledger, week(0), planned).entry
    assert first is not None
    entry = amend(ledger, first.seq, Gaussian(1, 1))
    assert entry.spent.units == opening.budget.charge(Gaussian(1, 1)).units > opening.cap
    assert (entry.job, entry.job_spent) == ("board", entry.spent.units)
    account = the_account(ledger)
    assert (account.overdrawn, account.overdrawn_by, account.stopped) == (True, entry, True)
    settled = release(ledger, week(1), planned)
    assert settled.entry is not None
    assert (settled.status, settled.entry.body["stopped_by"]) == ("refused", "account")
    with pytest.raises(RefusedError):
        record(ledger, worth(1))
    # What was found even later still counts.
    assert amend(ledger, first.seq, Gaussian(1, 0.5)).spent.units > entry.spent.units
    account = the_account(ledger)
    assert account.overdrawn_by == entry
    assert ledger.verify()[1] == []
    ledger.close()


def test_a_correction_counts_against_the_share_of_its_job(place: Place) -> None:
    opening = funded("gdp")
    ledger, planned = opened(place, opening=opening), plan(job(releases=3, share="0.5"), opening)
    first = release(ledger, week(0), planned).entry
    assert first is not None
    twice = Composed((planned.mechanism.event,), 2)
    job_spent = amend(ledger, first.seq, twice).job_spent
    assert job_spent == opening.budget.charge(twice).units > 1.999 * planned.charge.units
    assert [release(ledger, week(n), planned).status for n in (1, 2)] == ["published", "refused"]
    assert not the_account(ledger).overdrawn
    ledger.close()


@pytest.mark.parametrize(
    ("charged", "corrected"),
    [
        (GaussianThreshold(1, 30, 1e-9), GaussianThreshold(1, 40, 2e-9)),
        (Laplace(1, 5), Gaussian(1, 5.2)),
        (Laplace(1, 5), GaussianThreshold(1, 5.2, 1e-9)),
        (Gaussian(1, 30), ApproximateDP(1e-4, 1e-12)),
    ],
)
def test_what_is_lower_in_one_way_corrects_nothing(
    place: Place, charged: Event, corrected: Event
) -> None:
    """An account that takes over counts what was corrected by the correction alone."""
    ledger = opened(place, opening=funded("zcdp", "3", SHARE))
    seq, before = record(ledger, charged).seq, place.entries()
    with pytest.raises(UsageError, match="was charged for more than this in a way"):
        amend(ledger, seq, corrected)
    assert place.entries()[: len(before)] == before
    assert len(place.entries()) == seq
    both = Composed((charged, corrected))
    assert amend(ledger, seq, both).charge.units > 0
    assert ledger.verify()[1] == []
    ledger.close()


@pytest.mark.parametrize("accountant", ["gdp", "zcdp", "rdp"])
def test_what_is_not_costlier_is_refused_and_not_written(place: Place, accountant: str) -> None:
    ledger = opened(place, opening=funded(accountant, threshold_share=SHARE))
    seq = record(ledger, Gaussian(1, 30)).seq
    before = place.entries()
    for event in (Gaussian(1, 30), Gaussian(1, 31), Gaussian(2, 61)):
        with pytest.raises(UsageError, match="was charged as much or more already"):
            amend(ledger, seq, event)
    assert place.entries() == before
    ledger.close()


def test_only_a_charge_is_corrected(place: Place) -> None:
    opening = funded("gdp")
    ledger, planned = opened(place, opening=opening), plan(job(releases=1), opening)
    release(ledger, week(0), planned)
    refusal = release(ledger, week(1), planned).entry
    assert refusal is not None
    correction = amend(ledger, 3, Gaussian(1, 1))
    before = place.entries()
    for seq in (0, 1, 2, refusal.seq, correction.seq, correction.seq + 1):
        with pytest.raises(UsageError, match="is no charge that could be corrected"):
            amend(ledger, seq, Gaussian(1, 0.1))
    assert place.entries() == before
    ledger.close()


@pytest.mark.parametrize("accountant", ["gdp", "zcdp"])
def test_an_event_that_the_account_cannot_take_corrects_nothing(
    place: Place, accountant: str
) -> None:
    ledger = opened(place, opening=funded(accountant))
    seq = record(ledger, Gaussian(1, 30)).seq
    before = place.entries()
    with pytest.raises(AccountingError):
        amend(ledger, seq, PoissonGaussian(0.5, 0.5, 9))
    assert place.entries() == before
    ledger.close()


@pytest.mark.parametrize("accountant", sorted(ACCOUNTANTS))
def test_a_cost_beyond_what_can_be_counted_is_refused(place: Place, accountant: str) -> None:
    ledger = opened(place, opening=funded(accountant))
    seq = record(ledger, Gaussian(1, 30)).seq
    before = place.entries()
    with pytest.raises(UsageError, match="too much to count"):
        amend(ledger, seq, Gaussian(1, 1e-6))
    assert place.entries() == before
    ledger.close()


def test_the_most_that_can_be_counted_is_counted(place: Place) -> None:
    ledger = opened(place, opening=funded("zcdp"))
    seq = record(ledger, Gaussian(1, 30)).seq
    most = ZeroConcentrated(float(Decimal(MOST_UNITS) / 10**12 - 1))
    assert MOST_UNITS - 2 * 10**12 < amend(ledger, seq, most).spent.units <= MOST_UNITS
    assert ledger.verify()[1] == []
    ledger.close()


def test_a_failure_after_a_correction_leaves_nothing(place: Place) -> None:
    ledger = opened(place, opening=funded("gdp"))
    seq = record(ledger, Gaussian(1, 30)).seq
    before = place.entries()
    with suppress(ZeroDivisionError), ledger.writing("shop") as writer:
        writer.amend(seq, Gaussian(1, 20), WHY, NOW)
        raise ZeroDivisionError
    assert place.entries() == before
    ledger.close()


def test_another_process_sees_the_correction_before_it_decides(place: Place) -> None:
    one, other = opened(place, opening=funded("gdp")), place.ledger()
    seq = record(one, Gaussian(1, 30)).seq
    entry = amend(one, seq, Gaussian(1, 20))
    with pytest.raises(UsageError, match="was charged as much or more already"):
        amend(other, seq, Gaussian(1, 25))
    assert entry.event is not None
    assert the_account(other).composition == Composed(
        (Composed((event_from_json(entry.event),), 1),)
    )
    for ledger in (one, other):
        ledger.close()
