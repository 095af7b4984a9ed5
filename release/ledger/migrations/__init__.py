"""From every older format of the ledger to the newest, by Alembic: one revision a format."""

from __future__ import annotations

from typing import Any

from sqlalchemy import Connection, select

from release.errors import LedgerError
from release.ledger import schema


def upgrade(connection: Connection, name: str) -> None:
    """Brings an older ledger to the newest format, within the caller's transaction.

    Raises LedgerError, with the ledger's ``name``, where an entry or the key of an account did
    not come through as it was, and where no software ever wrote the format that is found.
    """
    from alembic import command
    from alembic.config import Config
    from alembic.util import CommandError

    config = Config(attributes={"connection": connection})
    config.set_main_option("script_location", "release.ledger:migrations")
    before = _held(connection)
    try:
        command.upgrade(config, schema.FORMAT)
    except CommandError:
        raise LedgerError(f"{name}: is of a format that never was") from None
    if _held(connection) != before:
        raise LedgerError(f"{name}: the upgrade changed the record, and was undone")


def _held(connection: Connection) -> list[tuple[Any, ...]]:
    """Every hash, and the keys of the accounts, which no hash covers."""
    accounts, entries = schema.accounts.c, schema.entries.c
    hashes = select(entries.account, entries.seq, entries.hash).order_by(*entries[:2])
    keys = select(accounts.account, accounts.sampling_key).order_by(accounts.account)
    return [tuple(row) for asked in (hashes, keys) for row in connection.execute(asked)]
