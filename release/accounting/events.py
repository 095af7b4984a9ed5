"""What was spent: frozen descriptions of mechanisms, enough for anyone to recompute the cost.

An event is a value with a closed, versioned JSON form whose meaning never changes. Adding a
mechanism is adding one class to the registry; the laws in the tests hold for whatever is in it.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import fields, replace
from fractions import Fraction
from typing import Any, ClassVar, Self

from release.accounting.curves import Curve


class Event(ABC):
    """One mechanism, used ``count`` times on the same account.

    A kind states the cost of one use (``_rho``, ``_curve``, ``_delta0``); costs add up under
    adaptive composition, so ``count`` uses cost that many times as much.
    """

    type: ClassVar[str]
    version: ClassVar[int] = 1
    gaussian: ClassVar[bool] = False
    """Whether ρ says everything: one use is μ-GDP with μ² = 2ρ, up to δ₀."""

    @property
    @abstractmethod
    def count(self) -> int:
        """How often it was used, at least 1."""

    @abstractmethod
    def _rho(self) -> Fraction | None: ...

    @abstractmethod
    def _curve(self, orders: Sequence[Fraction]) -> Curve: ...

    def _delta0(self) -> Fraction:
        return Fraction(0)

    def rho(self) -> Fraction | None:
        """The zCDP cost of all its uses, exact or from above; None if it has none of use."""
        single = self._rho()
        return None if single is None else self.count * single

    def rdp(self, orders: Sequence[Fraction]) -> Curve:
        """Upper bounds on ε(α) of all its uses, in whole units of 1e-12, for each α > 1."""
        return tuple(self.count * cost for cost in self._curve(orders))

    def delta0(self) -> Fraction:
        """The probability, added up over all its uses, that the other bounds do not hold."""
        return self.count * self._delta0()

    def pure(self) -> Fraction | None:
        """The ε that bounds one use outside δ₀, for what is pure ε-DP there; else None."""
        return None

    def uses(self) -> Iterator[tuple[Event, int]]:
        """The single mechanisms that it is made of, each with how often it is used."""
        yield (self if self.count == 1 else replace(self, count=1)), self.count  # type: ignore[type-var]

    def to_json(self) -> dict[str, Any]:
        """The event as a JSON document that ``event_from_json`` reads back."""
        values = {
            field.name: getattr(self, field.name)
            for field in fields(self)  # type: ignore[arg-type]
        }
        return {"type": self.type, "version": self.version, **values}

    @classmethod
    def from_fields(cls, values: Mapping[str, Any]) -> Self:
        """An event of this kind from the fields of its JSON form."""
        return cls(**values)
