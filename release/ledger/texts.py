"""Stored texts read as what they must be; equal ones are read once.

A text that the ledger would not have written so is not read at all: an entry's hash holds only
what its texts say together, so a text that is no canonical document could borrow from the next.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from datetime import date, timedelta
from functools import lru_cache
from types import UnionType
from typing import Any, Literal, NamedTuple, Union, cast, get_args, get_origin

from pydantic import BaseModel, ValidationError

from release.accounting import ORDERS, AccountingError, Event, Spend, event_from_json
from release.ledger.chain import WindowTexts, canonical, instant, moment
from release.ledger.kinds import KINDS
from release.ledger.records import EntryKind, Record, Release, Software
from release.mechanisms import GaussianMechanism
from release.statistics import Table
from release.windows import Kind, Window

MANY = 4096
"""How many texts of one sort are remembered: a ledger of a million rows repeats few."""

# Zone databases are corrected by hours, so the stored instants need not be today's.
CORRECTION = timedelta(days=1)


def written(sums: Spend) -> str:
    """The odometer's sums as the ledger writes them: canonical JSON of ``Spend.to_json``."""
    rho = "null" if sums.rho is None else sums.rho
    curve = "null" if sums.curve is None else canonical(sums.curve)
    return f'{{"curve":{curve},"delta0":{sums.delta0},"gaussian":{sums.gaussian},"rho":{rho}}}'


INSTANT = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}\.[0-9]{6}Z")


def document(text: str) -> dict[str, Any] | None:
    """A JSON object; None where the text is none, or not its canonical one."""
    try:
        found = json.loads(text)
        return found if isinstance(found, dict) and canonical(found) == text else None
    except (ValueError, RecursionError):
        return None


@lru_cache(MANY)
def event(text: str) -> Event | None:
    """What was charged for."""
    found = document(text)
    try:
        return None if found is None else event_from_json(found)
    except (AccountingError, RecursionError):
        return None


@lru_cache(MANY)
def body(kind: str, text: str) -> Record | None:
    """What an entry of a known kind says."""
    if document(text) is None:
        return None
    try:
        return KINDS[cast(EntryKind, kind)].body.model_validate_json(text, strict=True)
    except ValidationError:
        return None


def sums(text: str) -> Spend | None:
    """The odometer's sums."""
    found = document(text)
    if found is None or found.keys() != Spend().to_json().keys():
        return None
    curve, rho = found["curve"], found["rho"]
    if curve is not None and (not isinstance(curve, list) or len(curve) != len(ORDERS)):
        return None
    whole = [found["gaussian"], found["delta0"], *(curve or ()), *([] if rho is None else [rho])]
    return Spend.from_json(found) if all(type(number) is int for number in whole) else None


def is_instant(text: str) -> bool:
    """Whether this is a moment as the ledger writes it; then moments sort as their texts."""
    try:
        return INSTANT.fullmatch(text) is not None and moment(text) is not None
    except ValueError:
        return False


@lru_cache(MANY)
def is_window(window: WindowTexts) -> bool:
    """Whether kind, first date, date after, zone, start and end are those of one window."""
    kind, first, after, zone, start, end = window
    cuts = _cuts(kind, first, zone)
    if cuts is None or after != cuts[0]:
        return False
    if (start, end) == cuts[1:]:
        return True
    if not (is_instant(start) and is_instant(end) and start < end):
        return False
    return all(
        abs(moment(stored) - moment(today)) <= CORRECTION
        for stored, today in zip((start, end), cuts[1:], strict=True)
    )


@lru_cache(MANY)
def _cuts(kind: str, first: str, zone: str) -> tuple[str, str, str] | None:
    try:
        window = Window(cast(Kind, kind), date.fromisoformat(first), zone)
        cuts = window.after.isoformat(), instant(window.start), instant(window.end)
    except (ValueError, KeyError, OverflowError, OSError):
        return None
    return cuts if window.first.isoformat() == first else None


# Each is within what pydantic reads as such, and takes in all that the ledger writes.
TEXT = r'"[^"\\\x00-\x1f]*+(?>\\(?>["\\bfnrt]|u00[01][0-9a-f])[^"\\\x00-\x1f]*+)*+"'
WHOLE = r"-?(?>0|[1-9][0-9]{0,300}+)"
SCALARS: Mapping[Any, str] = {
    type(None): "null",
    str: TEXT,
    int: WHOLE,
    float: rf"{WHOLE}(?>\.[0-9]++)?+(?>e[+-][0-9]{{2,3}}+)?+",
}


def pattern(form: Any) -> str:
    """What the canonical JSON of a type is matched by, and nothing else that it would refuse.

    The type is made of models without constraints, tuples, mappings from text, choices and
    scalars. Matching takes a fraction of the time that building the values does.
    """
    if isinstance(form, type) and issubclass(form, BaseModel):
        fields = sorted(form.model_fields.items())
        if any(field.metadata for _, field in fields):
            raise TypeError(f"{form.__name__} has constraints, which no pattern knows")
        members = (f'"{name}":{pattern(field.annotation)}' for name, field in fields)
        return rf"\{{{','.join(members)}\}}"
    kind, parts = get_origin(form), get_args(form)
    if kind is Literal:
        return f"(?>{'|'.join(re.escape(canonical(part)) for part in parts)})"
    if kind in (Union, UnionType):
        return f"(?>{'|'.join(map(pattern, parts))})"
    if kind is tuple:
        return rf"\[{_listed(pattern(parts[0]))}\]"
    if kind is Mapping:
        return rf"\{{{_listed(f'{TEXT}:{pattern(parts[1])}')}\}}"
    return SCALARS[form]


def _listed(part: str) -> str:
    return f"(?>{part}(?>,{part})*+)?+"


class _Drawn(Record):
    """What differs between the releases of one job."""

    noisy: Mapping[str, tuple[int, ...]]
    software: Software
    table: Table


class Described(NamedTuple):
    """Whose release a stored result is, and the event that its mechanism costs."""

    job: str
    event: str


DRAWN = re.compile(pattern(_Drawn))
NOISY = ',"noisy":'
UNDRAWN = (
    ',"noisy":{},"software":{"name":"","version":""},'
    '"table":{"count_decimals":0,"decimals":0,"rows":[]}}'
)


def described(text: str) -> Described | None:
    """What a stored result says of itself; None where it cannot be read as a release.

    The part that all releases of a job begin with is read once, and of the rest it is seen that
    it can be read.
    """
    planned, _, drawn = text.partition(NOISY)
    if DRAWN.fullmatch(f'{{"noisy":{drawn}'):
        return _planned(planned)
    return _described(text)


@lru_cache(MANY)
def _planned(beginning: str) -> Described | None:
    return _described(beginning + UNDRAWN)


def _described(text: str) -> Described | None:
    try:
        release = Release.model_validate_json(text)
        of = release.mechanism
        mechanism = GaussianMechanism(of.sensitivity, of.sigma, of.threshold)
        return Described(release.job.name, canonical(mechanism.event.to_json()))
    except (ValidationError, AccountingError):
        return None
