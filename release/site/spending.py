"""What an account has spent, every way of saying it: the odometer of the budget page."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction
from functools import cached_property
from typing import Any

from release.accounting import (
    ORDERS,
    RHO_UNITS,
    AccountingError,
    Best,
    Event,
    Spend,
    edge_warning,
    grid_epsilon,
)
from release.accounting.comparison import advanced_epsilon, basic_epsilon
from release.accounting.curves import Curve, linear_curve
from release.ledger.charges import alone
from release.ledger.records import Account, Entry
from release.site import charts, figures
from release.site.contexts import (
    Comparison,
    Conversion,
    CurveView,
    PointView,
    Statement,
)

SHOWN_ORDERS = (2, 4, 8, 16, 32, 64)
CHARTED = (Fraction(5, 4), Fraction(64))
"""The stretch of orders that the chart shows, but for a best order beyond it."""


@dataclass(frozen=True)
class Spending:
    """The odometer of one account, up to its last entry."""

    account: Account

    @property
    def sums(self) -> Spend:
        """The running sums."""
        return self.account.last.sums

    @property
    def delta(self) -> Fraction:
        """The δ of every reported ε: what δ_T leaves of the account's."""
        return self.account.terms.budget.delta

    @cached_property
    def conversions(self) -> tuple[Conversion, ...]:
        """ε by every formula, beside that of the last entry alone where it charges."""
        return conversions(self.account, self.account.last)

    @cached_property
    def curve(self) -> Curve:
        """ε(α) of everything spent, in whole units, over ``ORDERS``."""
        return total_curve(self.sums)

    @cached_property
    def best(self) -> Best:
        """The order of the grid at which the curve gives the least ε."""
        return grid_epsilon(self.curve, self.delta)

    @cached_property
    def warning(self) -> str | None:
        """What is said of each formula where a wider grid may do better."""
        found = {"rdp-classic": grid_epsilon(self.curve, self.delta, classic=True)}
        if self.sums.curve is not None:  # else ``rdp`` is over every order, by ρ
            found["rdp"] = self.best
        said = {name: edge_warning(best) for name, best in found.items()}
        return "; ".join(f"{name}: {text}" for name, text in said.items() if text) or None

    @cached_property
    def statement(self) -> Statement:
        """The least ε that is proved of everything recorded, and the formula that proves it."""
        found = self.sums.epsilons(self.delta)
        known = {name: value for name, value in found.items() if value is not None}
        name = min(known, key=lambda each: known[each])
        return Statement(figures.round_up(known[name]), name)

    @cached_property
    def event(self) -> Event | None:
        """Everything that was charged, as one event, each part as it was corrected last."""
        return self.account.composition

    @cached_property
    def comparison(self) -> tuple[Comparison, ...]:
        """ε by composition theorems that forget what the mechanisms are."""
        return tuple(
            Comparison(name, self._compared(compute))
            for name, compute in (("basic", basic_epsilon), ("advanced", advanced_epsilon))
        )

    def _compared(self, compute: Callable[[Event, Fraction], float]) -> str | None:
        event = self.event
        if event is None:
            return figures.round_up(0.0)
        try:
            # δ₀ is set aside beside it, so that every ε on the page is at the same δ.
            epsilon = compute(event, self.delta + event.delta0())
        except AccountingError:
            return None
        return figures.round_up(epsilon) if math.isfinite(epsilon) else None

    @cached_property
    def points(self) -> CurveView | None:
        """The curve as a chart and at a readable selection of orders; None if nothing is spent."""
        if not any(self.curve):
            return None
        best = self.best.order
        shown = sorted({*map(Fraction, SHOWN_ORDERS), best})
        costs = dict(zip(ORDERS, self.curve, strict=True))
        low, high = min(CHARTED[0], best), max(CHARTED[1], best)
        return CurveView(
            points=tuple(self._point(order, costs[order]) for order in shown),
            chart=charts.curve(
                [(float(a), cost / RHO_UNITS) for a, cost in costs.items() if low <= a <= high],
                float(best),
            ),
        )

    def _point(self, order: Fraction, cost: int) -> PointView:
        at = grid_epsilon((cost,), self.delta, (order,)).epsilon
        return PointView(
            order=f"{float(order):g}",
            cost=figures.rho(cost),
            epsilon=figures.round_up(at),
            best=order == self.best.order,
        )

    def document(self) -> dict[str, Any]:
        """The whole curve for machines: its units are whole and exact."""
        return {
            "format": 1,
            "account": self.account.terms.account,
            "entry": self.account.last.seq,
            "hash": self.account.last.hash,
            "delta": delta_number(self.delta),
            "units": RHO_UNITS,
            "best_order": float(self.best.order) if any(self.curve) else None,
            "warning": self.warning,
            "curve": [
                {"order": float(order), "epsilon": figures.rho_number(cost), "charged": cost}
                for order, cost in zip(ORDERS, self.curve, strict=True)
            ],
        }


def total_curve(sums: Spend) -> Curve:
    """ε(α) over ``ORDERS``: αρ where everything was Gaussian noise."""
    curve = sums.total_curve()
    return curve or linear_curve(Fraction(sums.gaussian, RHO_UNITS), ORDERS)


def conversions(account: Account, entry: Entry) -> tuple[Conversion, ...]:
    """ε up to an entry by every formula, beside that of the entry alone where it charges."""
    delta = account.terms.budget.delta
    one = {} if entry.event is None else alone(account, entry).epsilons(delta)
    return tuple(
        Conversion(name, release=shown(one.get(name)), to_date=shown(value))
        for name, value in entry.sums.epsilons(delta).items()
    )


def delta_number(delta: Fraction) -> Decimal:
    """A δ as the decimal that it is."""
    return Decimal(delta.numerator) / Decimal(delta.denominator)


def shown(epsilon: float | None) -> str | None:
    """An ε rounded up; None where a formula does not apply."""
    return None if epsilon is None else figures.round_up(epsilon)
