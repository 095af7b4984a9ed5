"""Every kind of event, their composition, and the way back from JSON."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, fields
from fractions import Fraction
from typing import Any, ClassVar, Self

from release.accounting import mechanisms
from release.accounting.curves import Curve
from release.accounting.events import Event
from release.accounting.exact import AccountingError, checked_count

DEEPEST = 50
# Of what a user's own file says, as much as a message may repeat.
LONGEST_NAME, MOST_NAMES = 40, 5
TOO_DEEP = "an event must not be nested too deeply"


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
    _check_keys(kind.type, names, values.keys())
    return kind.from_fields(values)


def _check_keys(type_: str, names: Set[str], given: Set[str]) -> None:
    wrong = [f"has no {name}" for name in sorted(names - given - {"count"})]
    if unknown := given - names:
        shown = sorted(f"{name!r:.{LONGEST_NAME}}" for name in unknown)[:MOST_NAMES]
        wrong.append(f"does not take {', '.join(shown)}")
    if wrong:
        optional = "; count may be left out" if "count" in names else ""
        raise AccountingError(
            f"an event of type {type_} {' and '.join(wrong)}",
            hint=f"Its keys are type, version, {', '.join(sorted(names))}{optional}.",
        )


def event_from_text(text: str) -> Event:
    """The event that a JSON text of a user's own describes.

    Raises ``AccountingError`` for what is no JSON, names a key twice or is nested too deeply, and
    as ``event_from_json`` does.
    """
    try:
        document = json.loads(text, object_pairs_hook=_distinct)
    except RecursionError:
        raise AccountingError(TOO_DEEP) from None
    except AccountingError:
        raise
    except ValueError as error:
        raise AccountingError(
            f"an event cannot be read as JSON ({type(error).__name__})",
            hint="docs/accounting.md shows the form of each event.",
        ) from None
    if _depth(document) > DEEPEST:
        raise AccountingError(TOO_DEEP)
    return event_from_json(document)


def _distinct(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        raise AccountingError("an event names a key twice")
    return found


def _depth(document: Any) -> int:
    depth, level = 0, [document]
    while level and depth <= DEEPEST:
        depth += 1
        level = [
            part
            for one in level
            if isinstance(one, dict | list)
            for part in (one.values() if isinstance(one, dict) else one)
        ]
    return depth


def composed(documents: Iterable[Mapping[str, Any]]) -> Event | None:
    """The composition of stored events, equal ones once with their count; None of none."""
    counted = Counter(json.dumps(document, sort_keys=True) for document in documents)
    parts = [(event_from_json(json.loads(text)), count) for text, count in counted.items()]
    return Composed(tuple(Composed((one,), count) for one, count in parts)) if parts else None


EVENTS: Mapping[str, type[Event]] = {
    kind.type: kind
    for kind in (
        mechanisms.Gaussian,
        mechanisms.GaussianThreshold,
        mechanisms.DiscreteGaussian,
        mechanisms.ZeroConcentrated,
        mechanisms.PureDP,
        mechanisms.ApproximateDP,
        mechanisms.Laplace,
        mechanisms.Exponential,
        mechanisms.PoissonGaussian,
        Composed,
    )
}
"""Every kind of event, by the ``type`` of its JSON form. A new kind is listed here."""
