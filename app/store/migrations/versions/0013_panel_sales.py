"""Panels in the log, and sold like anything else: quotes, receipts, invoices; panels keep their laws.

Orders that an earlier version took have no leaf and no receipt; they still open their tiers. A round that is not in the
log is not sold any more. Randomised response has its own form now; panels opened with it keep the old one.
"""

from typing import Any

import sqlalchemy as sa
from alembic import op

revision = "0013"
down_revision = "0011"
branch_labels = None
depends_on = None


def _amounts() -> list[sa.Column[Any]]:
    names = ("amount", "list", "credit", "reserve", "discount")
    amounts = [sa.Column(f"{name}_minor", sa.BigInteger(), nullable=False) for name in names]
    return [*amounts, sa.Column("currency", sa.String(length=3), nullable=False)]


def upgrade() -> None:
    op.add_column("panels", sa.Column("laws_json", sa.Text(), nullable=True))
    op.add_column("panels", sa.Column("leaf_index", sa.BigInteger(), nullable=True))
    op.add_column("panels", sa.Column("stopped", sa.Text(), nullable=True))
    op.create_index(op.f("ix_panels_leaf_index"), "panels", ["leaf_index"])
    op.add_column("panel_rounds", sa.Column("leaf_index", sa.BigInteger(), nullable=True))
    op.execute("UPDATE panels SET mechanism = 'singletons' WHERE mechanism = 'randomized-response'")
    op.execute("CREATE TABLE panel_orders_before AS SELECT * FROM panel_orders")
    op.drop_table("panel_orders")
    op.create_table(
        "panel_quotes",
        sa.Column("id", sa.String(length=40), nullable=False),
        sa.Column("account_id", sa.String(length=40), nullable=False),
        sa.Column("panel_id", sa.String(length=40), nullable=False),
        sa.Column("number", sa.Integer(), nullable=False),
        sa.Column("rank", sa.Integer(), nullable=False),
        sa.Column("law", sa.String(length=64), nullable=False),
        *_amounts(),
        sa.Column("book_version", sa.Integer(), nullable=False),
        sa.Column("expires_at", sa.String(length=32), nullable=False),
        sa.ForeignKeyConstraint(["account_id"], ["accounts.id"], name=op.f("fk_panel_quotes_account_id")),
        sa.ForeignKeyConstraint(["panel_id"], ["panels.id"], name=op.f("fk_panel_quotes_panel_id")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_panel_quotes")),
    )
    op.create_index("ix_panel_quotes_account_id_expires_at", "panel_quotes", ["account_id", "expires_at"])
    op.create_table(
        "panel_orders",
        sa.Column("id", sa.String(length=40), nullable=False),
        sa.Column("account_id", sa.String(length=40), nullable=False),
        sa.Column("idempotency_key", sa.String(length=255), nullable=False),
        sa.Column("request_digest", sa.String(length=64), nullable=False),
        sa.Column("panel_id", sa.String(length=40), nullable=False),
        sa.Column("number", sa.Integer(), nullable=False),
        sa.Column("rank", sa.Integer(), nullable=False),
        sa.Column("chain_id", sa.String(length=64), nullable=False),
        sa.Column("law", sa.String(length=64), nullable=False),
        *_amounts(),
        sa.Column("receipt_json", sa.Text(), nullable=True),
        sa.Column("leaf_index", sa.BigInteger(), nullable=True),
        sa.Column("created_at", sa.String(length=32), nullable=False),
        sa.ForeignKeyConstraint(["account_id"], ["accounts.id"], name=op.f("fk_panel_orders_account_id")),
        sa.ForeignKeyConstraint(["panel_id"], ["panels.id"], name=op.f("fk_panel_orders_panel_id")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_panel_orders")),
        sa.UniqueConstraint("leaf_index", name=op.f("uq_panel_orders_leaf_index")),
        sa.UniqueConstraint("account_id", "idempotency_key", name=op.f("uq_panel_orders_account_id_idempotency_key")),
    )
    op.create_index("ix_panel_orders_account_chain", "panel_orders", ["account_id", "chain_id"])
    op.execute(
        "INSERT INTO panel_orders (id, account_id, idempotency_key, request_digest, panel_id, number, rank, chain_id, "
        "law, amount_minor, list_minor, credit_minor, reserve_minor, discount_minor, currency, created_at) "
        "SELECT id, account_id, id, '', panel_id, number, rank, '', '', amount_minor, amount_minor, 0, 0, 0, currency, "
        "created_at FROM panel_orders_before"
    )
    op.drop_table("panel_orders_before")
    for table in ("invoices", "credit_notes"):  # an order is of one table or the other
        with op.batch_alter_table(table, recreate="auto") as changed:
            changed.drop_constraint(op.f(f"fk_{table}_order_id"), type_="foreignkey")
