"""A project, its datasets, and their budgets."""

from __future__ import annotations

import re
from decimal import Decimal
from importlib.resources import files
from typing import Annotated, Literal

from pydantic import AfterValidator, Field

from release.specs.values import LEVEL, Level, Line, Number, Spec

# A cap of this many ε still fits the ledger's 64-bit units of 1e-12.
MAX_EPSILON = 10**6


def _zone(name: str) -> str:
    # The package's list, since a machine's own folder of zones holds more than zones.
    if name not in (files("tzdata") / "zones").read_text(encoding="ascii").split():
        raise ValueError("no such time zone")
    return name


def _address(text: str) -> str:
    if not re.fullmatch(r"(sqlite:///|postgresql\+psycopg://).+", text):
        raise ValueError("not the address of a SQLite file or a PostgreSQL database")
    return text


Zone = Annotated[str, AfterValidator(_zone)]


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
    level: Level = LEVEL
