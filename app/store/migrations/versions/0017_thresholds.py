"""Questions whether a count is above a number: their quotes and orders."""

import sqlalchemy as sa
from alembic import op

revision = "0017"
down_revision = "0016"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "threshold_quotes",
        sa.Column("id", sa.String(length=40), nullable=False),
        sa.Column("account_id", sa.String(length=40), nullable=False),
        sa.Column("plan_json", sa.Text(), nullable=False),
        sa.Column("expires_at", sa.String(length=32), nullable=False),
        sa.ForeignKeyConstraint(["account_id"], ["accounts.id"], name=op.f("fk_threshold_quotes_account_id")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_threshold_quotes")),
    )
    op.create_index("ix_threshold_quotes_account_id_expires_at", "threshold_quotes", ["account_id", "expires_at"])
    op.create_table(
        "threshold_orders",
        sa.Column("id", sa.String(length=40), nullable=False),
        sa.Column("account_id", sa.String(length=40), nullable=False),
        sa.Column("idempotency_key", sa.String(length=255), nullable=False),
        sa.Column("request_digest", sa.String(length=64), nullable=False),
        sa.Column("product_id", sa.String(length=40), nullable=False),
        sa.Column("plan_json", sa.Text(), nullable=False),
        sa.Column("created_at", sa.String(length=32), nullable=False),
        sa.ForeignKeyConstraint(["account_id"], ["accounts.id"], name=op.f("fk_threshold_orders_account_id")),
        sa.ForeignKeyConstraint(["product_id"], ["products.id"], name=op.f("fk_threshold_orders_product_id")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_threshold_orders")),
        sa.UniqueConstraint(
            "account_id", "idempotency_key", name=op.f("uq_threshold_orders_account_id_idempotency_key")
        ),
    )
