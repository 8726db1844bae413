"""Panels, their closed rounds, the tiers of each, and orders of them."""

import sqlalchemy as sa
from alembic import op

revision = "0007"
down_revision = "0006"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "panels",
        sa.Column("id", sa.String(length=40), nullable=False),
        sa.Column("owner_id", sa.String(length=40), nullable=False),
        sa.Column("title", sa.Text(), nullable=False),
        sa.Column("mechanism", sa.String(length=24), nullable=False),
        sa.Column("domain_json", sa.Text(), nullable=False),
        sa.Column("menu_json", sa.Text(), nullable=False),
        sa.Column("prices_json", sa.Text(), nullable=False),
        sa.Column("currency", sa.String(length=3), nullable=False),
        sa.Column("licence", sa.Text(), nullable=False),
        sa.Column("budget_nano", sa.BigInteger(), nullable=False),
        sa.Column("epoch", sa.Integer(), nullable=False),
        sa.Column("round", sa.Integer(), nullable=False),
        sa.Column("created_at", sa.String(length=32), nullable=False),
        sa.ForeignKeyConstraint(["owner_id"], ["accounts.id"], name=op.f("fk_panels_owner_id")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_panels")),
    )
    op.create_index(op.f("ix_panels_owner_id"), "panels", ["owner_id"])
    op.create_table(
        "panel_rounds",
        sa.Column("panel_id", sa.String(length=40), nullable=False),
        sa.Column("number", sa.Integer(), nullable=False),
        sa.Column("reports", sa.BigInteger(), nullable=False),
        sa.Column("record", sa.Text(), nullable=False),
        sa.Column("signing_key", sa.Integer(), nullable=False),
        sa.Column("signature", sa.String(length=128), nullable=False),
        sa.Column("highest_rank", sa.Integer(), nullable=True),
        sa.CheckConstraint("reports > 0", name=op.f("ck_panel_rounds_not_empty")),
        sa.ForeignKeyConstraint(["panel_id"], ["panels.id"], name=op.f("fk_panel_rounds_panel_id")),
        sa.PrimaryKeyConstraint("panel_id", "number", name=op.f("pk_panel_rounds")),
    )
    op.create_table(
        "panel_tiers",
        sa.Column("panel_id", sa.String(length=40), nullable=False),
        sa.Column("number", sa.Integer(), nullable=False),
        sa.Column("rank", sa.Integer(), nullable=False),
        sa.Column("commitment", sa.String(length=64), nullable=False),
        sa.Column("sealed_counts", sa.LargeBinary(), nullable=False),
        sa.ForeignKeyConstraint(["panel_id"], ["panels.id"], name=op.f("fk_panel_tiers_panel_id")),
        sa.PrimaryKeyConstraint("panel_id", "number", "rank", name=op.f("pk_panel_tiers")),
    )
    op.create_table(
        "panel_orders",
        sa.Column("id", sa.String(length=40), nullable=False),
        sa.Column("account_id", sa.String(length=40), nullable=False),
        sa.Column("panel_id", sa.String(length=40), nullable=False),
        sa.Column("number", sa.Integer(), nullable=False),
        sa.Column("rank", sa.Integer(), nullable=False),
        sa.Column("amount_minor", sa.BigInteger(), nullable=False),
        sa.Column("currency", sa.String(length=3), nullable=False),
        sa.Column("created_at", sa.String(length=32), nullable=False),
        sa.ForeignKeyConstraint(["account_id"], ["accounts.id"], name=op.f("fk_panel_orders_account_id")),
        sa.ForeignKeyConstraint(["panel_id"], ["panels.id"], name=op.f("fk_panel_orders_panel_id")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_panel_orders")),
        sa.UniqueConstraint(
            "account_id",
            "panel_id",
            "number",
            "rank",
            name=op.f("uq_panel_orders_account_id_panel_id_number_rank"),
        ),
    )
