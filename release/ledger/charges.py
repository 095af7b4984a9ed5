"""What one entry has cost so far: its own charge and, added to it, every correction.

A correction (an entry of kind ``amend``) says what an earlier entry's event should have been. It
adds what is missing and never takes anything back: of each sum of the odometer it adds as much
as keeps the sum at or above that of the corrected event. So after it every sum bounds the sum
over the corrected events from above, and also that over the events as they were first written.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from release.accounting import ORDERS, Charge, Event, Spend, event_from_json
from release.ledger.records import NOTHING, Account, Entry, Terms

NO_SPEND = Spend()


@dataclass(frozen=True)
class Standing:
    """What is charged for one entry, and its part of the odometer's sums."""

    charge: Charge = NOTHING
    sums: Spend = NO_SPEND

    def added(self, terms: Terms, charge: Charge, event: Event) -> Spend:
        """What a further charge, for this event in the place of the last, adds to the sums."""
        rho = terms.rho_of(self.charge.plus(charge))
        return Spend().plus(event, charged=rho).beyond(self.sums)

    def after(self, terms: Terms, charge: Charge, event: Event) -> Standing:
        """What is charged once that has been added."""
        added = self.added(terms, charge, event)
        return Standing(self.charge.plus(charge), self.sums.together(added))

    def missing(self, terms: Terms, event: Event) -> Charge | None:
        """What must be added for the event in the place of the last; None if that is nothing.

        An entry charges at least one unit, so a correction of δ₀ alone adds one, and so does one
        of the odometer alone: of a Rényi curve that is higher at some order, but not in charge.
        """
        cost = terms.budget.charge(event)
        units, delta0 = cost.units - self.charge.units, cost.delta0 - self.charge.delta0
        if max(units, delta0) <= 0 and self.after(terms, NOTHING, event) == self:
            return None
        return Charge(max(units, 1), max(delta0, 0))


def covers(event: Event, other: Event) -> bool:
    """Whether an event costs at least as much as another whatever is counted: ρ, ε(α), δ₀."""
    rho, less = event.rho(), other.rho()
    at_least = rho is None or (less is not None and rho >= less)
    curves = zip(event.rdp(ORDERS), other.rdp(ORDERS), strict=True)
    return at_least and event.delta0() >= other.delta0() and all(a >= b for a, b in curves)


def standing(terms: Terms, entries: Iterable[Entry]) -> Standing:
    """What an entry and its corrections have cost, given in their order."""
    found = Standing()
    for entry in entries:
        if entry.event is not None:
            found = found.after(terms, entry.charge, event_from_json(entry.event))
    return found


def alone(account: Account, entry: Entry) -> Spend:
    """What one entry by itself has added to the odometer's sums."""
    if entry.event is None:
        return Spend()
    before = Standing()
    if entry.amends is not None:
        corrected = entry.amends
        chain = (account.entries[corrected - 1], *account.amended[corrected])
        before = standing(account.terms, (one for one in chain if one.seq < entry.seq))
    return before.added(account.terms, entry.charge, event_from_json(entry.event))
