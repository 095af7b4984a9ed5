"""Which database an address names."""

from __future__ import annotations

import re
from pathlib import Path

from sqlalchemy import URL, make_url
from sqlalchemy.exc import ArgumentError

from release.errors import ConfigError, Fault
from release.ledger.database import Database
from release.ledger.postgresql import PostgreSQL
from release.ledger.sqlite import SQLite

SCHEMA = "dp_release"
SCHEMA_NAME = re.compile(r"[a-z_][a-z0-9_]{0,62}")


def database(folder: Path, address: str, *, wait: float) -> Database:
    """The database at ``address``, a file's being relative to ``folder``.

    Raises ConfigError for any other address, which no message shows: it may hold a password.
    """
    scheme, _, name = address.partition(":///")
    if scheme == "sqlite" and name:
        return SQLite(folder / name, wait=wait)
    url = _parsed(address)
    schema = None if url is None else url.query.get("schema", SCHEMA)
    if url is None or not isinstance(schema, str) or not SCHEMA_NAME.fullmatch(schema):
        fault = Fault(
            "dp-release.toml",
            "project.ledger",
            "is not the address of a SQLite file or a PostgreSQL database",
            'must be an address such as "sqlite:///state/ledger.db" or '
            '"postgresql+psycopg://user@host/database?schema=dp_release"',
        )
        raise ConfigError([fault])
    return PostgreSQL(url.difference_update_query(["schema"]), schema, wait=wait)


def _parsed(address: str) -> URL | None:
    try:
        url = make_url(address)
    except (ArgumentError, ValueError):
        return None
    if url.drivername != "postgresql+psycopg" or not url.database:
        return None
    # A password whose own @ is not written as %40 ends up in one of these, which messages show.
    return None if set(f"{url.host}{url.database}") & set("@= ") else url
