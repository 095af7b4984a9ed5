"""What a project and its jobs ask for, as frozen values.

Each field's description says what is allowed there: a fault in a file quotes it. Amounts are
exact decimals as they were written, never binary floats. Nothing has a default that could leak:
privacy unit, groups, bounds and contribution bounds must be stated.
"""

from __future__ import annotations

import re
import unicodedata
from dataclasses import dataclass
from datetime import date
from decimal import Decimal, InvalidOperation
from fractions import Fraction
from importlib.resources import files
from typing import Annotated, Any, Literal

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    ValidationInfo,
    field_validator,
    model_validator,
)

from release.windows import EARLIEST, KINDS, LATEST, Kind, beginning

ASCII_SPACE = " \t\n\v\f\r"
LATTICE_BITS = 20
"""Totals and noise are whole numbers of steps of 2^-20."""
ONE = 2**LATTICE_BITS

MAX_ROWS_PER_GROUP = 2**20
MAX_GROUPS = 2**20
NARROWEST_BOUNDS = Fraction(1, 2**40)
# A thousand of the units in which cost is counted: rounding to units is then below 0.1 %.
LEAST_RHO = Decimal("1e-9")
# So that no number is slow to compute with or overflows a double, nor a difference of two.
LARGEST_EXPONENT = 100
MOST_DIGITS = 1000
# A cap of this many ε still fits the ledger's 64-bit units of 1e-12.
MAX_EPSILON = 10**6


def moderate(number: Decimal) -> Decimal:
    """The number, if it is none that only an error or ill will writes; else ``ValueError``."""
    if not number.is_finite():
        raise ValueError("not a number")
    if abs(number.adjusted()) > LARGEST_EXPONENT:
        raise ValueError("too large or too close to 0")
    if len(number.as_tuple().digits) > MOST_DIGITS:
        raise ValueError(f"more than {MOST_DIGITS} digits")
    return number


def _exact(value: Any, info: ValidationInfo) -> Any:
    """A number as it was written: no string, no truth value and no binary float is one."""
    if info.mode == "json" and isinstance(value, str):  # as the ledger keeps it
        try:
            return moderate(Decimal(value))
        except InvalidOperation:
            raise ValueError("not a number") from None
    if isinstance(value, Decimal) or (isinstance(value, int) and not isinstance(value, bool)):
        return moderate(Decimal(value))
    raise ValueError("not a number")


def _zone(name: str) -> str:
    # The package's list, since a machine's own folder of zones holds more than zones.
    if name not in (files("tzdata") / "zones").read_text(encoding="ascii").split():
        raise ValueError("no such time zone")
    return name


def _address(text: str) -> str:
    if not re.fullmatch(r"(sqlite:///|postgresql\+psycopg://).+", text):
        raise ValueError("not the address of a SQLite file or a PostgreSQL database")
    return text


def _line(text: str) -> str:
    if not text.strip() or any(unicodedata.category(char) == "Cc" for char in text):
        raise ValueError("empty, or holds a control character")
    return text


def _keys(values: Any) -> Any:
    """Whole numbers are keys by their decimal form; ASCII white space around a key is dropped."""
    if not isinstance(values, list | tuple):
        return values
    return tuple(
        str(value).strip(ASCII_SPACE)
        if isinstance(value, str) or (isinstance(value, int) and not isinstance(value, bool))
        else value
        for value in values
    )


def _distinct(keys: tuple[str, ...]) -> tuple[str, ...]:
    if not all(keys):
        raise ValueError("holds an empty name")
    seen: set[str] = set()
    for key in keys:
        # Both forms of a name match it, so two names of one form would be the same group.
        form = unicodedata.normalize("NFC", key)
        if form in seen:
            raise ValueError(f"names {key!r} twice")
        seen.add(form)
    return keys


Number = Annotated[Decimal, BeforeValidator(_exact)]
Line = Annotated[str, AfterValidator(_line)]
Column = Annotated[Line, Field(description="the name of a column of the source")]
Zone = Annotated[str, AfterValidator(_zone)]
Groups = Annotated[
    tuple[str, ...],
    BeforeValidator(_keys),
    AfterValidator(_distinct),
    Field(
        min_length=1,
        description="a public list of distinct names, or a .csv or .txt file that holds one",
    ),
]
Origin = Annotated[
    Line | None,
    Field(description="one line that says from where this is known without the data"),
]


class Spec(BaseModel):
    """A frozen value that refuses keys it does not know."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)


class Budget(Spec):
    """The lifetime budget of an account, fixed when the account is opened."""

    epsilon: Annotated[
        Number, Field(ge=0, le=MAX_EPSILON, description=f"a number from 0 to {MAX_EPSILON}")
    ]
    delta: Annotated[Number, Field(gt=0, lt=1, description="a number above 0 and below 1")]
    accountant: Annotated[
        Literal["gdp", "zcdp", "rdp"],
        Field(description='"gdp" (the default), "zcdp" or "rdp"'),
    ] = "gdp"
    threshold_share: Annotated[
        Number,
        Field(ge=0, lt=1, description="the part of δ for thresholds, at least 0 and below 1"),
    ] = Decimal(0)
    approved_by: Annotated[Line | None, Field(description="one line: who approved it")] = None
    reason: Annotated[Line | None, Field(description="one line: why this much")] = None


class Dataset(Spec):
    """Events about people, and the account that pays for everything computed from them."""

    name: str
    source: Annotated[
        Line,
        Field(
            description="a .csv, .csv.gz, .parquet, .ndjson or .duckdb file in or near the project"
        ),
    ]
    table: Annotated[
        Line | None, Field(description="the table to read, for a .duckdb file only")
    ] = None
    unit: Annotated[
        Line,
        Field(description="the column that tells the people apart: the privacy unit"),
    ]
    unit_name: Annotated[Line, Field(description="what one privacy unit is called")] = "person"
    time: Annotated[Line, Field(description="the column that says when each event happened")]
    time_format: Annotated[
        Line | None,
        Field(description='"iso" or a pattern such as "%d/%m/%Y %H:%M", for times kept as text'),
    ] = None
    time_zone: Annotated[Zone, Field(description='an IANA time zone such as "Europe/London"')]
    population: Annotated[
        int | None,
        Field(ge=1, description="about how many units there are, as is publicly known"),
    ] = None
    replaces: Annotated[
        str | None, Field(description="the account whose spend this one takes over when opened")
    ] = None
    budget: Annotated[Budget, Field(description="a table such as { epsilon = 1.5, delta = 1e-6 }")]


@dataclass(frozen=True)
class Scale:
    """A value clamped to [lower, upper], mapped onto [-1, 1] by (x - centre) / half."""

    lower: float
    upper: float

    @property
    def half(self) -> float:
        """Half the width of the bounds."""
        return (self.upper - self.lower) / 2

    @property
    def centre(self) -> float:
        """The middle of the bounds, by a way that cannot overflow."""
        return self.lower + self.half


class Contribution(Spec):
    """How much one privacy unit may add to one release."""

    max_groups: Annotated[
        int, Field(ge=1, le=MAX_GROUPS, description=f"a whole number from 1 to {MAX_GROUPS}")
    ]
    max_rows_per_group: Annotated[
        int,
        Field(
            ge=1,
            le=MAX_ROWS_PER_GROUP,
            description=f"a whole number from 1 to {MAX_ROWS_PER_GROUP}",
        ),
    ]
    bounding: Annotated[
        Literal["clip", "sample"],
        Field(
            description='"clip" (shrink all that a unit did) or "sample" (keep max_groups groups)'
        ),
    ] = "clip"
    origin: Origin = None


class Noise(Spec):
    """What one release may cost: an equal part of the job's share, or a ρ of its own."""

    releases: Annotated[
        int | None, Field(ge=1, le=10**9, description="a whole number of releases, at least 1")
    ] = None
    rho: Annotated[
        Number | None, Field(ge=LEAST_RHO, description=f"a number, at least {LEAST_RHO}")
    ] = None
    share: Annotated[Number, Field(gt=0, le=1, description="a number above 0 and at most 1")] = (
        Decimal(1)
    )

    @model_validator(mode="after")
    def _one_of(self) -> Noise:
        if (self.releases is None) == (self.rho is None):
            raise ValueError("needs exactly one of `releases` and `rho`")
        return self


def _bounds(bounds: tuple[Decimal, Decimal]) -> tuple[Decimal, Decimal]:
    lower, upper = (float(bound) for bound in bounds)
    if not lower < upper:
        raise ValueError("the lower bound is not below the upper one")
    width = Fraction(upper) - Fraction(lower)
    if width < NARROWEST_BOUNDS * Fraction(max(abs(lower), abs(upper))):
        raise ValueError("the bounds are too close together for double precision")
    return bounds


Bounds = Annotated[
    tuple[Number, Number],
    BeforeValidator(lambda value: tuple(value) if isinstance(value, list) else value),
    AfterValidator(_bounds),
    Field(description="two numbers, lower below upper, known without the data"),
]


class _Grouped(Spec):
    by: Column
    groups: Groups
    groups_file: str | None = None
    origin: Origin = None


class Mean(_Grouped):
    """The mean of a column in each group, its values clamped to ``bounds``."""

    kind: Literal["mean"] = "mean"
    value: Column
    bounds: Bounds


class Leaderboard(_Grouped):
    """The groups in the order of their noisy counts; the page shows the first ``top``."""

    kind: Literal["leaderboard"] = "leaderboard"
    top: Annotated[int, Field(ge=1, description="a whole number, at least 1")]


Statistic = Annotated[
    Mean | Leaderboard,
    Field(
        discriminator="kind",
        description='a table with kind = "mean" or kind = "leaderboard"',
    ),
]


class Job(Spec):
    """A statistic to be released once for every window of a dataset."""

    name: str
    title: Annotated[Line, Field(description="one line that names the statistic for readers")]
    dataset: Annotated[str, Field(description="the name of a [dataset.…] of the project file")]
    schedule: Annotated[
        Literal["daily", "weekly", "monthly", "quarterly", "yearly"],
        Field(description='"daily", "weekly", "monthly", "quarterly" or "yearly"'),
    ]
    window: Annotated[Kind, Field(description=" or ".join(f'"{kind}"' for kind in KINDS))]
    start: Annotated[
        date,
        Field(
            ge=EARLIEST,
            le=LATEST,
            description=f"the first date of the first window, from {EARLIEST} to {LATEST}",
        ),
    ]
    statistic: Statistic
    contribution: Annotated[
        Contribution,
        Field(description="a table such as { max_groups = 3, max_rows_per_group = 1 }"),
    ]
    noise: Annotated[Noise, Field(description="a table such as { releases = 10, share = 0.5 }")]

    @field_validator("start")
    @classmethod
    def _starts_on_a_window(cls, start: date, info: ValidationInfo) -> date:
        kind = info.data.get("window")  # absent where it is a fault of its own
        if kind and (first := beginning(kind, start)) != start:
            raise ValueError(f"is inside the {kind} that begins on {first}")
        return start


class Project(Spec):
    """What holds for every dataset and job of a project."""

    title: Annotated[Line, Field(description="one line that names the publication")]
    ledger: Annotated[
        Line,
        AfterValidator(_address),
        Field(
            description='an address such as "sqlite:///state/ledger.db" or '
            '"postgresql+psycopg://user@host/database", here or in DP_RELEASE_LEDGER'
        ),
    ]
    site: Annotated[Line, Field(description="the folder that the site is written to")]
    contact: Annotated[
        Line | None, Field(description="one line: where readers and people in the data can write")
    ] = None
    licence: Annotated[Line | None, Field(description="one line: the data's licence")] = None
    ledger_wait: Annotated[
        Number,
        Field(gt=0, le=3600, description="seconds to wait for it, above 0 and at most 3600"),
    ] = Decimal(30)
