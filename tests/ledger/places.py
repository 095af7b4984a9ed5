"""Where a ledger lies, one place a database, and a client there that knows none of our rules."""

from __future__ import annotations

import re
import shutil
import sqlite3
from abc import ABC, abstractmethod
from collections.abc import Mapping
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar, Self
from uuid import uuid4

import psycopg
import pytest
from psycopg.rows import dict_row

from release.ledger.store import Ledger
from tests.postgresql import DATABASE, USER, Server

Rows = list[dict[str, Any]]
INSERT = "INSERT INTO {table} ({columns}) {values}"


@dataclass
class Place(ABC):
    """A folder, and an address that means the same ledger from every process."""

    folder: Path
    refusals: ClassVar[tuple[type[Exception], ...]]
    """What the database's driver raises where a rule of the database does not let a row in."""
    inserts: ClassVar[tuple[str, ...]] = (INSERT, f"{INSERT} ON CONFLICT DO NOTHING")
    """Every way to insert `values`, also those meant to go around a row that is there."""
    number: ClassVar[str]
    """What the database calls the type of whole numbers of 64 bits."""

    @property
    @abstractmethod
    def address(self) -> str:
        """As the project file has it."""

    def ledger(self, *, wait: float = 10) -> Ledger:
        return Ledger(self.folder, self.address, wait=wait)

    @abstractmethod
    def sql(self, statement: str, *rows: Mapping[str, Any]) -> Rows:
        """What the statement gives; with rows it is run for each, `:name` being a column's."""

    def entries(self) -> Rows:
        """Every entry of every account, in the order of the record."""
        return self.sql("SELECT * FROM entries ORDER BY account, seq")

    @abstractmethod
    def columns(self) -> dict[str, dict[str, str]]:
        """The types of all columns of all tables, lower case; nothing where no ledger is."""

    @abstractmethod
    def lift_rules(self) -> None:
        """Takes away the database's triggers, checks and foreign keys, as a forger would."""

    @abstractmethod
    def aside(self) -> Place:
        """The ledger as it is now, where looking at it changes nothing for the next process."""

    @abstractmethod
    def clear(self) -> None:
        """Removes the ledger."""


@dataclass
class SQLite(Place):
    """A file in the folder."""

    lawful: bool = True
    refusals = (sqlite3.IntegrityError,)
    inserts = (*Place.inserts, INSERT.replace("INSERT", "INSERT OR REPLACE"))
    number = "integer"

    @property
    def address(self) -> str:
        return "sqlite:///state/ledger.db"

    @property
    def path(self) -> Path:
        return self.folder / "state/ledger.db"

    def sql(self, statement: str, *rows: Mapping[str, Any]) -> Rows:
        with closing(sqlite3.connect(self.path, isolation_level=None)) as client:
            client.row_factory = sqlite3.Row
            # No part of the file: they hold for one connection.
            client.execute(f"PRAGMA foreign_keys = {self.lawful}")
            client.execute(f"PRAGMA ignore_check_constraints = {not self.lawful}")
            found = [client.execute(statement, row) for row in rows or ({},)]
            return [dict(row) for row in found[-1]]

    def columns(self) -> dict[str, dict[str, str]]:
        if not self.path.exists():
            return {}
        tables = self.sql("SELECT name FROM sqlite_master WHERE type = 'table'")
        columns = "SELECT name, lower(type) AS type FROM pragma_table_info(:name)"
        return {
            table["name"]: {row["name"]: row["type"] for row in self.sql(columns, table)}
            for table in tables
        }

    def lift_rules(self) -> None:
        for trigger in self.sql("SELECT name FROM sqlite_master WHERE type = 'trigger'"):
            self.sql(f"DROP TRIGGER {trigger['name']}")
        self.lawful = False

    def aside(self) -> SQLite:
        # Whoever opens the file takes over its log.
        copy = SQLite(self.folder.with_name("aside"))
        copy.clear()
        if self.path.parent.exists():
            shutil.copytree(self.path.parent, copy.path.parent)
        return copy

    def clear(self) -> None:
        shutil.rmtree(self.path.parent, ignore_errors=True)


@dataclass
class PostgreSQL(Place):
    """A schema of its own on a server."""

    server: Server
    schema: str = field(default_factory=lambda: f"shop_{uuid4().hex}")
    refusals = (psycopg.IntegrityError, psycopg.DataError)
    number = "bigint"

    @property
    def address(self) -> str:
        return self.server.address(self.schema)

    def sql(self, statement: str, *rows: Mapping[str, Any]) -> Rows:
        with psycopg.connect(
            host=str(self.server.folder),
            user=USER,
            dbname=DATABASE,
            options=f"-c search_path={self.schema}",
            autocommit=True,
            row_factory=dict_row,
        ) as client:
            if rows:
                statement = re.sub(r":(\w+)", r"%(\1)s", statement)
            found = [client.execute(statement.encode(), row) for row in rows or (None,)]
            return found[-1].fetchall() if found[-1].description else []

    def columns(self) -> dict[str, dict[str, str]]:
        tables: dict[str, dict[str, str]] = {}
        for row in self.sql(
            "SELECT relname, attname, format_type(atttypid, NULL) AS type FROM pg_attribute"
            " JOIN pg_class ON attrelid = pg_class.oid WHERE relkind = 'r' AND attnum > 0"
            " AND relnamespace = current_schema()::regnamespace ORDER BY relname, attnum"
        ):
            tables.setdefault(row["relname"], {})[row["attname"]] = row["type"]
        return tables

    def lift_rules(self) -> None:
        for table in ("accounts", "entries", "releases"):
            self.sql(f"ALTER TABLE {table} DISABLE TRIGGER ALL")
        for rule in self.sql(
            "SELECT conrelid::regclass AS owner, conname FROM pg_constraint"
            " WHERE contype = 'c' AND connamespace = current_schema()::regnamespace"
        ):
            self.sql(f"ALTER TABLE {rule['owner']} DROP CONSTRAINT {rule['conname']}")

    def aside(self) -> Self:
        return self

    def clear(self) -> None:
        self.sql(f"DROP SCHEMA IF EXISTS {self.schema} CASCADE")


on_sqlite = pytest.mark.parametrize("place", ["sqlite"], indirect=True)
on_postgresql = pytest.mark.parametrize("place", ["postgresql"], indirect=True)
