"""Accountants: what is added up, how (ε, δ) becomes a cap on it, and what a spend is worth.

Everything is in whole units of 1e-12. Caps are rounded down, charges and reported ε up.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from fractions import Fraction
from functools import lru_cache
from typing import ClassVar

from release.accounting.conversions import conversion, rdp_epsilon, zcdp_cap
from release.accounting.curves import ORDERS
from release.accounting.events import Event
from release.accounting.exact import (
    BITS,
    RHO_UNITS,
    AccountingError,
    Exact,
    ball,
    ceiling_units,
    checked_delta,
    exact,
    floor,
    precision,
    upper,
)
from release.accounting.gaussian import gdp_cap, gdp_epsilon


class Accountant(ABC):
    """Turns events into an additive whole number, and (ε, δ) into its cap."""

    name: ClassVar[str]

    @abstractmethod
    def admits(self, event: Event) -> bool:
        """Whether an account of this accountant can take the event at all."""

    @abstractmethod
    def cap(self, epsilon: Exact, delta: Exact) -> int:
        """The budget in whole units, rounded down; ε = 0 is a cap of 0.

        Raises ``AccountingError`` for a negative ε, and where (ε, δ) leaves nothing to add up.
        """

    def order(self, epsilon: Exact, delta: Exact) -> Fraction | None:  # noqa: ARG002
        """The Rényi order that an account is opened with, for accountants that have one."""
        return None

    def charge(self, event: Event, order: Fraction | None = None) -> int:
        """The event's cost in whole units: over its uses, count times the rounded-up cost of one.

        Raises ``AccountingError`` for an event that the accountant does not admit.
        """
        return _charge(self, event, order)

    @abstractmethod
    def single(self, event: Event, order: Fraction | None) -> int:
        """The cost of one use of a single mechanism, rounded up."""

    @abstractmethod
    def epsilon(self, spent_units: int, delta: Exact, order: Fraction | None = None) -> float:
        """An upper bound on the ε of a spend, by the conversion that its cap was taken with."""


class _Additive(Accountant):
    def single(self, event: Event, order: Fraction | None) -> int:  # noqa: ARG002
        """⌈ρ⌉."""
        rho = event.rho()
        if rho is None:
            raise AccountingError(f"an event of type {event.type} has no ρ")
        return ceiling_units(rho)


class GaussianAccountant(_Additive):
    """ρ = μ²/2 of Gaussian events against the ρ whose exact ε is the budget.

    Stopping is valid when events are chosen as outputs are seen: Smith & Thakurta 2022.
    """

    name = "gdp"

    def admits(self, event: Event) -> bool:
        """Gaussian noise only, with or without a threshold."""
        return all(single.gaussian for single, _ in event.uses())

    def cap(self, epsilon: Exact, delta: Exact) -> int:
        """The largest ρ whose ``gdp`` ε is within the budget."""
        return gdp_cap(_budget(epsilon), delta)

    def epsilon(self, spent_units: int, delta: Exact, order: Fraction | None = None) -> float:  # noqa: ARG002
        """The ``gdp`` ε."""
        return gdp_epsilon(Fraction(spent_units, RHO_UNITS), delta)


class ZeroConcentratedAccountant(_Additive):
    """ρ of any event that has one, against the ρ whose ``rdp`` ε is the budget.

    Stopping is valid when events are chosen as outputs are seen: Feldman & Zrnic 2021,
    Remark 4.4; with δ₀ beside ρ Whitehouse et al. 2023, Thm 1.
    """

    name = "zcdp"

    def admits(self, event: Event) -> bool:
        """Every event with a finite ρ."""
        return event.rho() is not None

    def cap(self, epsilon: Exact, delta: Exact) -> int:
        """The largest ρ whose ``rdp`` ε, over all α > 1, is within the budget."""
        return zcdp_cap(_budget(epsilon), delta)

    def epsilon(self, spent_units: int, delta: Exact, order: Fraction | None = None) -> float:  # noqa: ARG002
        """The ``rdp`` ε over all α > 1."""
        return rdp_epsilon(Fraction(spent_units, RHO_UNITS), delta)


class RenyiAccountant(Accountant):
    """ε(α*) at one order α*, fixed at opening, against ε − conversion(α*, δ).

    Stopping is valid when events are chosen as outputs are seen: Feldman & Zrnic 2021, Thm 4.3.
    """

    name = "rdp"

    def admits(self, event: Event) -> bool:  # noqa: ARG002
        """Every event: each has a Rényi curve."""
        return True

    def order(self, epsilon: Exact, delta: Exact) -> Fraction:
        """α*: the order of the grid at which the budget holds the most Gaussian noise."""
        return max(ORDERS, key=lambda alpha: self._room(alpha, epsilon, delta) / alpha)

    def cap(self, epsilon: Exact, delta: Exact) -> int:
        """ε − conversion(α*, δ), which must be positive unless ε is 0."""
        if _budget(epsilon) == 0:
            checked_delta(delta)
            return 0
        room = self._room(self.order(epsilon, delta), epsilon, delta)
        if room <= 0:
            raise AccountingError(
                "at this epsilon and delta no order of the grid leaves a budget",
                hint="Take a larger epsilon or delta, or the accountant gdp or zcdp.",
            )
        return room

    def _room(self, order: Fraction, epsilon: Exact, delta: Exact) -> int:
        with precision(BITS):
            return floor(ball(_budget(epsilon)) - conversion(order, checked_delta(delta)))

    def single(self, event: Event, order: Fraction | None) -> int:
        """⌈ε(α*)⌉."""
        return event.rdp((_fixed(order),))[0]

    def epsilon(self, spent_units: int, delta: Exact, order: Fraction | None = None) -> float:
        """What was spent + conversion(α*, δ), never below 0."""
        target, alpha = checked_delta(delta), _fixed(order)
        if spent_units <= 0:
            return 0.0
        with precision(BITS):
            spent = ball(Fraction(spent_units, RHO_UNITS))
            return max(0.0, upper(spent + conversion(alpha, target)))


ACCOUNTANTS: dict[str, Accountant] = {
    accountant.name: accountant
    for accountant in (GaussianAccountant(), ZeroConcentratedAccountant(), RenyiAccountant())
}
"""Every accountant by the name that a project file calls it."""


def accountants_for(event: Event) -> tuple[str, ...]:
    """The accountants that admit the event."""
    return tuple(name for name, accountant in ACCOUNTANTS.items() if accountant.admits(event))


# A job charges the same event every week: a ledger of a million rows knows few of them.
@lru_cache(maxsize=4096)
def _charge(accountant: Accountant, event: Event, order: Fraction | None) -> int:
    if not accountant.admits(event):
        takers = ", ".join(accountants_for(event))
        raise AccountingError(
            f"a {accountant.name} account cannot take an event of type {event.type}",
            hint=f"Accounts that can: {takers}.",
        )
    return sum(count * accountant.single(single, order) for single, count in event.uses())


def _budget(epsilon: Exact) -> Fraction:
    budget = exact(epsilon, "epsilon")
    if budget < 0:
        raise AccountingError("epsilon must not be negative")
    return budget


def _fixed(order: Fraction | None) -> Fraction:
    if order is None:
        raise AccountingError("an rdp account charges at the order it was opened with")
    return order
