"""What was spent: frozen descriptions of mechanisms, enough for anyone to recompute the cost.

An event is a value with a closed, versioned JSON form whose meaning never changes. Adding a
mechanism is adding one class to the registry; the laws in the tests hold for whatever is in it.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from fractions import Fraction
from typing import Any, ClassVar, Self

from release.accounting.curves import Curve
from release.accounting.exact import AccountingError, checked_count

EVENTS: dict[str, type[Event]] = {}
"""Every kind of event, by the ``type`` of its JSON form."""


class Event(ABC):
    """One mechanism, used ``count`` times on the same account.

    A kind states the cost of one use (``_rho``, ``_curve``, ``_delta0``); costs add up under
    adaptive composition, so ``count`` uses cost that many times as much.
    """

    type: ClassVar[str]
    version: ClassVar[int] = 1
    gaussian: ClassVar[bool] = False
    """Whether ρ says everything: one use is μ-GDP with μ² = 2ρ, up to δ₀."""

    def __init_subclass__(cls, **options: Any) -> None:
        """Registers the kind under its ``type``."""
        super().__init_subclass__(**options)
        if EVENTS.setdefault(cls.type, cls).__qualname__ != cls.__qualname__:
            raise TypeError(f"two kinds of event are called {cls.type}")

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


@dataclass(frozen=True)
class Composed(Event):
    """Several events on one account, in any order, whether or not chosen adaptively."""

    type: ClassVar[str] = "composed"

    events: tuple[Event, ...]
    count: int = 1

    def __post_init__(self) -> None:
        """Refuses an empty composition and what is not an event."""
        if not isinstance(self.events, tuple) or not self.events:
            raise AccountingError("events must be a list of at least one event")
        if not all(isinstance(event, Event) for event in self.events):
            raise AccountingError("events must hold events only")
        checked_count(self.count)

    def _rho(self) -> Fraction | None:
        parts = [event.rho() for event in self.events]
        known = [part for part in parts if part is not None]
        return sum(known, Fraction(0)) if len(known) == len(parts) else None

    def _curve(self, orders: Sequence[Fraction]) -> Curve:
        curves = [event.rdp(orders) for event in self.events]
        return tuple(sum(column) for column in zip(*curves, strict=True))

    def _delta0(self) -> Fraction:
        return sum((event.delta0() for event in self.events), Fraction(0))

    def uses(self) -> Iterator[tuple[Event, int]]:
        """The uses of every part, one after another."""
        for event in self.events:
            for single, count in event.uses():
                yield single, count * self.count

    def to_json(self) -> dict[str, Any]:
        """The composition with its parts' documents inside."""
        return {**super().to_json(), "events": [event.to_json() for event in self.events]}

    @classmethod
    def from_fields(cls, values: Mapping[str, Any]) -> Self:
        """A composition from its parts' documents."""
        parts = values["events"]
        if not isinstance(parts, list | tuple):
            raise AccountingError("events must be a list of at least one event")
        return cls(**{**values, "events": tuple(event_from_json(part) for part in parts)})


def event_from_json(document: Mapping[str, Any]) -> Event:
    """The event that a document describes.

    Raises ``AccountingError`` for an unknown type, version or key, for a missing key (only
    ``count`` may be left out), and for parameters that describe no mechanism.
    """
    if not isinstance(document, Mapping):
        raise AccountingError("an event must be a JSON object")
    name = document.get("type")
    kind = EVENTS.get(name) if isinstance(name, str) else None
    if kind is None:
        known = ", ".join(sorted(EVENTS))
        raise AccountingError("the event's type is not known", hint=f"The types are {known}.")
    version = document.get("version")
    if type(version) is not int or version != kind.version:
        raise AccountingError(f"an event of type {kind.type} must have version {kind.version}")
    values = {key: value for key, value in document.items() if key not in ("type", "version")}
    names = {field.name for field in fields(kind)}  # type: ignore[arg-type]
    if values.keys() - names or names - values.keys() - {"count"}:
        wanted = ", ".join(sorted(names))
        raise AccountingError(f"an event of type {kind.type} has exactly the keys {wanted}")
    return kind.from_fields(values)
