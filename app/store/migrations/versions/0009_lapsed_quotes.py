"""An account's quotes by the time at which they lapse: those of long ago are deleted when it asks for another."""

from alembic import op

revision = "0009"
down_revision = "0008"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_index(op.f("ix_quotes_account_id_expires_at"), "quotes", ["account_id", "expires_at"])
