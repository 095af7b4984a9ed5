"""Conditions on rows: what ``where`` may say."""

from __future__ import annotations

from decimal import Decimal
from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Field, PlainSerializer, ValidationInfo, field_validator

from release.specs.values import ASCII_SPACE, Column, Spec, exact

Scalar = str | bool | int | Decimal
Sort = Literal["text", "truth", "number"]
LISTS = {"in", "not in"}
# Below it every whole number is a double, so that rows are compared with the very number.
BEYOND_DOUBLES = 2**53


def _scalar(value: Any, info: ValidationInfo) -> Scalar:
    if isinstance(value, bool):
        return value
    if isinstance(value, str):
        if not (text := value.strip(ASCII_SPACE)):
            raise ValueError("an empty text, which no row has")
        return text
    # Beside text, the ledger's JSON can hold a decimal only under a name of its own.
    stored = info.mode == "json" and isinstance(value, dict) and value.keys() == {"decimal"}
    if not stored and not isinstance(value, int | Decimal):
        raise ValueError("neither a text, a number nor a truth value")
    number: Decimal = exact(value["decimal"] if stored else value, info)
    if abs(number) >= BEYOND_DOUBLES:
        raise ValueError("not below 2^53 in size")
    return value if isinstance(value, int) else number


def _scalars(value: Any, info: ValidationInfo) -> Scalar | tuple[Scalar, ...]:
    if isinstance(value, list | tuple):
        return tuple(_scalar(each, info) for each in value)
    return _scalar(value, info)


def _stored(value: Scalar | tuple[Scalar, ...]) -> Any:
    if isinstance(value, tuple):
        return [_stored(each) for each in value]
    return {"decimal": str(value)} if isinstance(value, Decimal) else value


def _sort(value: Scalar) -> Sort:
    if isinstance(value, str):
        return "text"
    return "truth" if isinstance(value, bool) else "number"


class Condition(Spec):
    """What a row must be like to count at all: a rule on that row alone.

    A row without a value in the column never passes, whatever the operator.
    """

    column: Column
    operator: Annotated[
        Literal["=", "!=", "<", "<=", ">", ">=", "in", "not in"],
        Field(description='"=", "!=", "<", "<=", ">", ">=", "in" or "not in"'),
    ]
    value: Annotated[
        Scalar | tuple[Scalar, ...],
        BeforeValidator(_scalars),
        PlainSerializer(_stored, when_used="json"),
        Field(
            description="a number for <, <=, > and >=; a text, a number or a truth value for = "
            "and !=; a list of one sort of these for in and not in"
        ),
    ]

    @property
    def values(self) -> tuple[Scalar, ...]:
        """What the column is compared with."""
        return self.value if isinstance(self.value, tuple) else (self.value,)

    @property
    def kind(self) -> Sort:
        """What the column must hold."""
        return _sort(self.values[0])

    @field_validator("value")
    @classmethod
    def _fits(cls, value: Any, info: ValidationInfo) -> Any:
        operator = info.data.get("operator")  # absent where it is a fault of its own
        if operator is None:
            return value
        if isinstance(value, tuple) != (operator in LISTS):
            raise ValueError(f"{'no' if operator in LISTS else 'a'} list after {operator!r}")
        values = value if isinstance(value, tuple) else (value,)
        if not values:
            raise ValueError("an empty list")
        if len(set(map(_sort, values))) > 1:
            raise ValueError("a list of more than one sort")
        # Only numbers have an order that is the same everywhere.
        if operator not in {*LISTS, "=", "!="} and _sort(value) != "number":
            raise ValueError(f"no number after {operator!r}")
        return value
