"""What the fields of a spec may hold, whatever they are about.

Amounts are exact decimals as they were written, never binary floats.
"""

from __future__ import annotations

import unicodedata
from decimal import Decimal, InvalidOperation
from typing import Annotated, Any, Literal, get_args

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    GetCoreSchemaHandler,
    ValidationInfo,
)
from pydantic_core import CoreSchema, core_schema

ASCII_SPACE = " \t\n\v\f\r"
LATTICE_BITS = 20
"""Totals and noise are whole numbers of steps of 2^-20."""
ONE = 2**LATTICE_BITS

MAX_GROUPS = 2**20
# So that no number is slow to compute with or overflows a double, nor a difference of two.
LARGEST_EXPONENT = 100
MOST_DIGITS = 1000


def moderate(number: Decimal) -> Decimal:
    """The number, if it is none that only an error or ill will writes; else ``ValueError``."""
    if not number.is_finite():
        raise ValueError("not a number")
    if abs(number.adjusted()) > LARGEST_EXPONENT:
        raise ValueError("too large or too close to 0")
    if len(number.as_tuple().digits) > MOST_DIGITS:
        raise ValueError(f"more than {MOST_DIGITS} digits")
    return number


def exact(value: Any, info: ValidationInfo) -> Any:
    """A number as it was written: no string, no truth value and no binary float is one."""
    if info.mode == "json" and isinstance(value, str):  # as the ledger keeps it
        try:
            return moderate(Decimal(value))
        except InvalidOperation:
            raise ValueError("not a number") from None
    if isinstance(value, Decimal) or (isinstance(value, int) and not isinstance(value, bool)):
        return moderate(Decimal(value))
    raise ValueError("not a number")


def _line(text: str) -> str:
    if not text.strip() or any(unicodedata.category(char) == "Cc" for char in text):
        raise ValueError("empty, or holds a control character")
    return text


Key = str | tuple[str, ...]
"""A group: its text in one column, or its texts in each of several."""


def label(key: Key) -> str:
    """A group as a reader sees it."""
    return " / ".join(texts_of(key))


def texts_of(key: Key) -> tuple[str, ...]:
    """The texts of a group, one for each column that it is grouped by."""
    return (key,) if isinstance(key, str) else key


def spellings(text: str) -> tuple[str, ...]:
    """The ways in which a text may be written and still be meant."""
    forms = (text, unicodedata.normalize("NFC", text), unicodedata.normalize("NFD", text))
    return tuple(dict.fromkeys(forms))


def _key(value: Any) -> Key:
    """Whole numbers are keys by their decimal form; ASCII white space around a key is dropped."""
    return tuple(map(_name, value)) if isinstance(value, list | tuple) else _name(value)


def _name(value: Any) -> str:
    if isinstance(value, str) or (isinstance(value, int) and not isinstance(value, bool)):
        return str(value).strip(ASCII_SPACE)
    raise ValueError("neither a text nor a whole number")


def _distinct(keys: tuple[Key, ...]) -> tuple[Key, ...]:
    if not all(all(texts_of(key)) for key in keys):
        raise ValueError("holds an empty name")
    seen: set[tuple[str, ...]] = set()
    for key in keys:
        # Both forms of a name match it, so two names of one form would be the same group.
        form = tuple(unicodedata.normalize("NFC", text) for text in texts_of(key))
        if form in seen:
            raise ValueError(f"names {label(key)!r} twice")
        seen.add(form)
    return keys


def _by(value: Any) -> Key:
    columns = value if isinstance(value, list | tuple) else [value]
    if not columns or not all(isinstance(column, str) for column in columns):
        raise ValueError("neither the name of a column nor a list of such names")
    for column in columns:
        _line(column)
    if len(set(columns)) < len(columns):
        raise ValueError("names a column twice")
    return tuple(columns) if len(columns) > 1 else columns[0]


def as_tuple(value: Any) -> Any:
    """TOML and JSON have lists only."""
    return tuple(value) if isinstance(value, list) else value


Number = Annotated[Decimal, BeforeValidator(exact)]
Line = Annotated[str, AfterValidator(_line)]
Column = Annotated[Line, Field(description="the name of a column of the source")]
By = Annotated[
    Key,
    BeforeValidator(_by),
    Field(description="the name of a column of the source, or a list of such names"),
]
Discover = Literal["discover", "discover-new"]
"""In the place of a list: groups are found in the rows, and shown if enough is in them."""
_Listed = Annotated[
    tuple[Annotated[Key, BeforeValidator(_key)], ...],
    BeforeValidator(as_tuple),
    AfterValidator(_distinct),
    Field(min_length=1),
]


class _ListedUnlessDiscovered:
    """A list, with faults that speak of lists alone: of a union they would name each choice."""

    def __get_pydantic_core_schema__(
        self, _source: Any, handler: GetCoreSchemaHandler
    ) -> CoreSchema:
        """What the list itself is held to, passed by for the words that stand in its place."""
        return core_schema.no_info_wrap_validator_function(
            lambda value, listed: value if value in get_args(Discover) else listed(value),
            handler.generate_schema(_Listed),
            serialization=core_schema.plain_serializer_function_ser_schema(lambda value: value),
        )


Groups = Annotated[
    tuple[Key, ...] | Discover,
    _ListedUnlessDiscovered(),
    Field(
        description="a public list of distinct names, a .csv or .txt file that holds one, a "
        'table with one of these for each column of `by`, or "discover" or "discover-new"',
    ),
]
Origin = Annotated[
    Line | None,
    Field(description="one line that says from where this is known without the data"),
]

LEVELS = Decimal("0.5"), Decimal("0.9999")
Level = Annotated[
    Number,
    Field(ge=LEVELS[0], le=LEVELS[1], description=f"a number from {LEVELS[0]} to {LEVELS[1]}"),
]
LEVEL = Decimal("0.95")


class Spec(BaseModel):
    """A frozen value that refuses keys it does not know."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)
