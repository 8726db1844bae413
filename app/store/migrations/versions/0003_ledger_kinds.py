"""Ledgers of three kinds, late tiers, means as two products, snapshots kept in PostgreSQL."""

import sqlalchemy as sa
from alembic import op

revision = "0003"
down_revision = "0002"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.add_column("datasets", sa.Column("budget_kind", sa.String(length=8), nullable=False, server_default="pure"))
    op.add_column("datasets", sa.Column("promise_json", sa.Text(), nullable=True))
    op.add_column("planned_tiers", sa.Column("added_at", sa.String(length=32), nullable=True))
    op.add_column("snapshots", sa.Column("source", sa.String(length=40), nullable=True))
    op.add_column("products", sa.Column("parts_json", sa.Text(), nullable=True))
    op.add_column("quotes", sa.Column("companion", sa.String(length=40), nullable=True))
