"""The first format, which SQLite alone ever held: a ledger of it has no table of Alembic's."""

revision = "1"
down_revision = None


def upgrade() -> None:
    """Nothing: where this begins, a ledger of format 1 was found."""
