"""Location panels: people's places asked in rounds, a ledger a person, and the answers sold."""

import sqlalchemy as sa
from alembic import op

revision = "0018"
down_revision = "0017"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "location_panels",
        sa.Column("id", sa.String(length=40), nullable=False),
        sa.Column("owner_id", sa.String(length=40), nullable=False),
        sa.Column("dataset_id", sa.String(length=40), nullable=False),
        sa.Column("snapshot_id", sa.String(length=40), nullable=False),
        sa.Column("title", sa.Text(), nullable=False),
        sa.Column("unit", sa.Text(), nullable=False),
        sa.Column("axes_json", sa.Text(), nullable=False),
        sa.Column("grain", sa.Text(), nullable=False),
        sa.Column("people", sa.BigInteger(), nullable=False),
        sa.Column("budget_nano", sa.BigInteger(), nullable=False),
        sa.Column("query_nano", sa.BigInteger(), nullable=False),
        sa.Column("beta", sa.Text(), nullable=False),
        sa.Column("rounds", sa.Integer(), nullable=False),
        sa.Column("prices_json", sa.Text(), nullable=False),
        sa.Column("currency", sa.String(length=3), nullable=False),
        sa.Column("licence", sa.Text(), nullable=False),
        sa.Column("epoch", sa.Integer(), nullable=False),
        sa.Column("answered", sa.Integer(), nullable=False),
        sa.Column("sealed_spent", sa.LargeBinary(), nullable=False),
        sa.Column("leaf_index", sa.BigInteger(), nullable=False),
        sa.Column("stopped", sa.Text(), nullable=True),
        sa.Column("created_at", sa.String(length=32), nullable=False),
        sa.CheckConstraint("people > 0", name=op.f("ck_location_panels_somebody")),
        sa.CheckConstraint(
            "query_nano > 0 AND query_nano <= budget_nano", name=op.f("ck_location_panels_within_budget")
        ),
        sa.ForeignKeyConstraint(["dataset_id"], ["datasets.id"], name=op.f("fk_location_panels_dataset_id")),
        sa.ForeignKeyConstraint(["owner_id"], ["accounts.id"], name=op.f("fk_location_panels_owner_id")),
        sa.ForeignKeyConstraint(["snapshot_id"], ["snapshots.id"], name=op.f("fk_location_panels_snapshot_id")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_location_panels")),
        sa.UniqueConstraint("dataset_id", name=op.f("uq_location_panels_dataset_id")),
        sa.UniqueConstraint("leaf_index", name=op.f("uq_location_panels_leaf_index")),
    )
    op.create_index(op.f("ix_location_panels_owner_id"), "location_panels", ["owner_id"], unique=False)
    op.create_table(
        "location_orders",
        sa.Column("id", sa.String(length=40), nullable=False),
        sa.Column("account_id", sa.String(length=40), nullable=False),
        sa.Column("idempotency_key", sa.String(length=255), nullable=False),
        sa.Column("request_digest", sa.String(length=64), nullable=False),
        sa.Column("panel_id", sa.String(length=40), nullable=False),
        sa.Column("chain_id", sa.String(length=64), nullable=False),
        sa.Column("law", sa.String(length=64), nullable=False),
        sa.Column("amount_minor", sa.BigInteger(), nullable=False),
        sa.Column("list_minor", sa.BigInteger(), nullable=False),
        sa.Column("credit_minor", sa.BigInteger(), nullable=False),
        sa.Column("reserve_minor", sa.BigInteger(), nullable=False),
        sa.Column("discount_minor", sa.BigInteger(), nullable=False),
        sa.Column("currency", sa.String(length=3), nullable=False),
        sa.Column("receipt_json", sa.Text(), nullable=False),
        sa.Column("leaf_index", sa.BigInteger(), nullable=False),
        sa.Column("created_at", sa.String(length=32), nullable=False),
        sa.ForeignKeyConstraint(["account_id"], ["accounts.id"], name=op.f("fk_location_orders_account_id")),
        sa.ForeignKeyConstraint(["panel_id"], ["location_panels.id"], name=op.f("fk_location_orders_panel_id")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_location_orders")),
        sa.UniqueConstraint(
            "account_id", "idempotency_key", name=op.f("uq_location_orders_account_id_idempotency_key")
        ),
        sa.UniqueConstraint("leaf_index", name=op.f("uq_location_orders_leaf_index")),
    )
    op.create_index("ix_location_orders_account_chain", "location_orders", ["account_id", "chain_id"], unique=False)
    op.create_table(
        "location_queries",
        sa.Column("panel_id", sa.String(length=40), nullable=False),
        sa.Column("query", sa.String(length=64), nullable=False),
        sa.Column("number", sa.Integer(), nullable=False),
        sa.Column("question", sa.Text(), nullable=False),
        sa.Column("budget_nano", sa.BigInteger(), nullable=False),
        sa.Column("most_nano", sa.BigInteger(), nullable=True),
        sa.Column("commitment", sa.String(length=64), nullable=True),
        sa.Column("sealed_answer", sa.LargeBinary(), nullable=True),
        sa.Column("leaf_index", sa.BigInteger(), nullable=True),
        sa.Column("created_at", sa.String(length=32), nullable=False),
        sa.ForeignKeyConstraint(["panel_id"], ["location_panels.id"], name=op.f("fk_location_queries_panel_id")),
        sa.PrimaryKeyConstraint("panel_id", "query", name=op.f("pk_location_queries")),
        sa.UniqueConstraint("leaf_index", name=op.f("uq_location_queries_leaf_index")),
        sa.UniqueConstraint("panel_id", "number", name=op.f("uq_location_queries_panel_id_number")),
    )
    op.create_table(
        "location_quotes",
        sa.Column("id", sa.String(length=40), nullable=False),
        sa.Column("account_id", sa.String(length=40), nullable=False),
        sa.Column("panel_id", sa.String(length=40), nullable=False),
        sa.Column("question", sa.Text(), nullable=False),
        sa.Column("budget_nano", sa.BigInteger(), nullable=False),
        sa.Column("law", sa.String(length=64), nullable=False),
        sa.Column("amount_minor", sa.BigInteger(), nullable=False),
        sa.Column("list_minor", sa.BigInteger(), nullable=False),
        sa.Column("credit_minor", sa.BigInteger(), nullable=False),
        sa.Column("reserve_minor", sa.BigInteger(), nullable=False),
        sa.Column("discount_minor", sa.BigInteger(), nullable=False),
        sa.Column("currency", sa.String(length=3), nullable=False),
        sa.Column("book_version", sa.Integer(), nullable=False),
        sa.Column("expires_at", sa.String(length=32), nullable=False),
        sa.ForeignKeyConstraint(["account_id"], ["accounts.id"], name=op.f("fk_location_quotes_account_id")),
        sa.ForeignKeyConstraint(["panel_id"], ["location_panels.id"], name=op.f("fk_location_quotes_panel_id")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_location_quotes")),
    )
    op.create_index(
        "ix_location_quotes_account_id_expires_at", "location_quotes", ["account_id", "expires_at"], unique=False
    )
    op.create_table(
        "location_rounds",
        sa.Column("panel_id", sa.String(length=40), nullable=False),
        sa.Column("query", sa.String(length=64), nullable=False),
        sa.Column("place", sa.Integer(), nullable=False),
        sa.Column("sealed_charges", sa.LargeBinary(), nullable=False),
        sa.Column("created_at", sa.String(length=32), nullable=False),
        sa.ForeignKeyConstraint(["panel_id"], ["location_panels.id"], name=op.f("fk_location_rounds_panel_id")),
        sa.PrimaryKeyConstraint("panel_id", "query", "place", name=op.f("pk_location_rounds")),
    )
    # ### end Alembic commands ###
