"""The filter and the odometer, told apart.

The *filter* (``Budget``) is what the guarantee rests on: parameters fixed before the first
charge, whole numbers, one comparison. The *odometer* (``Spend``) is what has been spent so
far: its ε is a bound where charges were fixed in advance, and else a description.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import lru_cache
from typing import Any, NamedTuple, Self

from release.accounting.accountants import ACCOUNTANTS
from release.accounting.conversions import epsilons
from release.accounting.curves import ORDERS, Curve, linear_curve
from release.accounting.events import Event
from release.accounting.exact import (
    DELTA_UNITS,
    RHO_UNITS,
    AccountingError,
    Exact,
    ceiling_units,
    checked_delta,
    exact,
)
from release.accounting.registry import Composed, event_from_json


def admits(spent: int, charge: int, cap: int) -> bool:
    """The filter: whether a charge still fits.

    Raises ``AccountingError`` for a charge that is not a whole number above 0.
    """
    if type(charge) is not int or charge <= 0:
        raise AccountingError("a charge must be a whole number of units above 0")
    return spent + charge <= cap


@lru_cache(maxsize=4096)
def delta_charge(event: Event) -> int:
    """The event's δ₀ in units of 1e-18: over its uses, count times the rounded-up one."""
    return sum(
        count * ceiling_units(single.delta0(), DELTA_UNITS) for single, count in event.uses()
    )


class Charge(NamedTuple):
    """One event's cost to one account, in whole units of 1e-12 and, for δ₀, of 1e-18."""

    units: int
    delta0: int = 0

    def plus(self, other: Charge) -> Charge:
        """Both together."""
        return Charge(self.units + other.units, self.delta0 + other.delta0)


@dataclass(frozen=True)
class Budget:
    """An account's budget as it was fixed at opening. Build it with ``Budget.open``."""

    accountant: str
    epsilon: Fraction
    delta: Fraction
    cap: int
    delta_cap: int
    order: Fraction | None

    @classmethod
    def open(
        cls, accountant: str, epsilon: Exact, delta: Exact, threshold_share: Exact = 0
    ) -> Self:
        """Fixes (ε, δ) as caps: ``threshold_share`` of δ is set aside for thresholds as δ_T.

        Raises ``AccountingError`` for an unknown accountant, an ε below 0, a δ outside (0, 1), a
        share outside [0, 1), and where the accountant finds nothing to add up.
        """
        if accountant not in ACCOUNTANTS:
            known = ", ".join(ACCOUNTANTS)
            raise AccountingError("the accountant is not known", hint=f"There are {known}.")
        share, total = exact(threshold_share, "threshold_share"), checked_delta(delta)
        if not 0 <= share < 1:
            raise AccountingError("threshold_share must be at least 0 and below 1")
        aside, rules = share * total, ACCOUNTANTS[accountant]
        return cls(
            accountant=accountant,
            epsilon=exact(epsilon, "epsilon"),
            delta=total - aside,
            cap=rules.cap(epsilon, total - aside),
            delta_cap=aside.numerator * DELTA_UNITS // aside.denominator,
            order=rules.order(epsilon, total - aside),
        )

    def charge(self, event: Event) -> Charge:
        """What the event costs this account. Raises ``AccountingError`` if it cannot take it."""
        units = ACCOUNTANTS[self.accountant].charge(event, self.order)
        return Charge(units, delta_charge(event))

    def admits(self, spent: Charge, charge: Charge) -> bool:
        """The filter: Σ units ≤ cap and Σ δ₀ ≤ δ_T, both in whole numbers."""
        if charge.delta0 < 0:
            raise AccountingError("a charge of δ₀ must not be negative")
        return (
            admits(spent.units, charge.units, self.cap)
            and spent.delta0 + charge.delta0 <= self.delta_cap
        )

    def spent_epsilon(self, spent_units: int) -> float:
        """The odometer by the accountant's own conversion, at δ − δ_T."""
        return ACCOUNTANTS[self.accountant].epsilon(spent_units, self.delta, self.order)


@dataclass(frozen=True)
class Spend:
    """Running sums of everything charged, enough for every ε that a report shows.

    ``gaussian`` is the ρ of Gaussian events, ``rho`` that of all (None once something without
    one was charged), ``curve`` the Rényi curve of the others over ``ORDERS`` (None while there
    are none). Sums are of whole numbers, so no order of addition matters.
    """

    gaussian: int = 0
    rho: int | None = 0
    delta0: int = 0
    curve: Curve | None = None

    def plus(self, event: Event, *, charged: int = 0) -> Spend:
        """The sums after one more event; of its ρ at least what was ``charged`` for it."""
        total = replace(self, delta0=self.delta0 + delta_charge(event))
        for single, count in event.uses():
            total = total._with(single, count)
        if self.rho is None or total.rho is None:
            return total
        more = max(0, charged - (total.rho - self.rho))
        return replace(total, gaussian=total.gaussian + more, rho=total.rho + more)

    def _with(self, single: Event, count: int) -> Spend:
        exact_rho = single.rho()
        rho = None if exact_rho is None else count * ceiling_units(exact_rho)
        total = None if self.rho is None or rho is None else self.rho + rho
        if single.gaussian and rho is not None:
            return replace(self, gaussian=self.gaussian + rho, rho=total)
        before = self.curve or (0,) * len(ORDERS)
        added = tuple(
            old + count * new for old, new in zip(before, single.rdp(ORDERS), strict=True)
        )
        return replace(self, rho=total, curve=added)

    def together(self, other: Spend) -> Spend:
        """The sums of both."""
        rho = None if self.rho is None or other.rho is None else self.rho + other.rho
        curves = [curve for curve in (self.curve, other.curve) if curve is not None]
        return Spend(
            gaussian=self.gaussian + other.gaussian,
            rho=rho,
            delta0=self.delta0 + other.delta0,
            curve=tuple(sum(column) for column in zip(*curves, strict=True)) if curves else None,
        )

    def beyond(self, other: Spend) -> Spend:
        """What must be added to the other's sums so that none of its parts is below these."""
        rho: int | None = 0
        if self.rho is None:
            rho = None
        elif other.rho is not None:
            rho = max(0, self.rho - other.rho)
        curve = self.curve
        if curve is not None and other.curve is not None:
            curve = tuple(max(0, a - b) for a, b in zip(curve, other.curve, strict=True))
        return Spend(
            gaussian=max(0, self.gaussian - other.gaussian),
            rho=rho,
            delta0=max(0, self.delta0 - other.delta0),
            curve=curve if curve and any(curve) else None,
        )

    def total_curve(self) -> Curve | None:
        """The Rényi curve of all of it over ``ORDERS``; None while ρ says everything."""
        if self.curve is None:
            return None
        gaussian = linear_curve(Fraction(self.gaussian, RHO_UNITS), ORDERS)
        return tuple(a + b for a, b in zip(gaussian, self.curve, strict=True))

    def epsilons(self, delta: Exact) -> dict[str, float | None]:
        """ε by every formula at what δ is left beside δ_T; see ``conversions.epsilons``."""
        return epsilons(self.rho, delta, self.total_curve())

    def to_json(self) -> dict[str, Any]:
        """The sums as a JSON document of whole numbers."""
        return {
            "gaussian": self.gaussian,
            "rho": self.rho,
            "delta0": self.delta0,
            "curve": None if self.curve is None else list(self.curve),
        }

    @classmethod
    def from_json(cls, document: dict[str, Any]) -> Self:
        """The sums that ``to_json`` wrote."""
        curve = document["curve"]
        return cls(**{**document, "curve": None if curve is None else tuple(curve)})


def replay(rows: Iterable[tuple[str, int]]) -> Spend:
    """The sums of stored rows: each an event's JSON text and the ρ that was charged for it.

    The same as one ``plus`` a row, in any order, but each distinct row is recomputed once.
    Raises ``AccountingError`` for a text that describes no event.
    """
    spend = Spend()
    for (text, charged), times in Counter(rows).items():
        uses = Composed((event_from_json(json.loads(text)),), times)
        spend = spend.plus(uses, charged=times * charged)
    return spend
