"""Bundles on sale, their prices by version, their sales, and the discounts that those lend."""

import sqlalchemy as sa
from alembic import op

revision = "0011"
down_revision = "0009"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "bundles",
        sa.Column("id", sa.String(length=40), nullable=False),
        sa.Column("number", sa.Integer(), nullable=False),
        sa.Column("owner_id", sa.String(length=40), nullable=False),
        sa.Column("title", sa.Text(), nullable=False),
        sa.Column("description", sa.Text(), nullable=False),
        sa.Column("licence", sa.Text(), nullable=False),
        sa.Column("currency", sa.String(length=3), nullable=False),
        sa.Column("state", sa.String(length=16), nullable=False),
        sa.Column("version", sa.Integer(), nullable=False),
        sa.Column("arbitrage", sa.String(length=16), nullable=False),
        sa.Column("verdict_json", sa.Text(), nullable=False),
        sa.Column("created_at", sa.String(length=32), nullable=False),
        sa.ForeignKeyConstraint(["owner_id"], ["accounts.id"], name=op.f("fk_bundles_owner_id")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_bundles")),
        sa.UniqueConstraint("number", name=op.f("uq_bundles_number")),
    )
    op.create_index(op.f("ix_bundles_owner_id"), "bundles", ["owner_id"])
    op.create_table(
        "bundle_parts",
        sa.Column("bundle_id", sa.String(length=40), nullable=False),
        sa.Column("place", sa.Integer(), nullable=False),
        sa.Column("product_id", sa.String(length=40), nullable=False),
        sa.Column("law", sa.String(length=64), nullable=False),
        sa.ForeignKeyConstraint(["bundle_id"], ["bundles.id"], name=op.f("fk_bundle_parts_bundle_id")),
        sa.ForeignKeyConstraint(["product_id"], ["products.id"], name=op.f("fk_bundle_parts_product_id")),
        sa.PrimaryKeyConstraint("bundle_id", "place", name=op.f("pk_bundle_parts")),
        sa.UniqueConstraint("bundle_id", "product_id", name=op.f("uq_bundle_parts_bundle_id_product_id")),
    )
    op.create_index(op.f("ix_bundle_parts_product_id"), "bundle_parts", ["product_id"])
    op.create_table(
        "bundle_prices",
        sa.Column("bundle_id", sa.String(length=40), nullable=False),
        sa.Column("version", sa.Integer(), nullable=False),
        sa.Column("price_minor", sa.BigInteger(), nullable=False),
        sa.Column("at", sa.String(length=32), nullable=False),
        sa.CheckConstraint("price_minor >= 0", name=op.f("ck_bundle_prices_price_not_negative")),
        sa.ForeignKeyConstraint(["bundle_id"], ["bundles.id"], name=op.f("fk_bundle_prices_bundle_id")),
        sa.PrimaryKeyConstraint("bundle_id", "version", name=op.f("pk_bundle_prices")),
    )
    op.create_table(
        "bundle_sales",
        sa.Column("id", sa.String(length=40), nullable=False),
        sa.Column("account_id", sa.String(length=40), nullable=False),
        sa.Column("bundle_id", sa.String(length=40), nullable=False),
        sa.Column("version", sa.Integer(), nullable=False),
        sa.Column("created_at", sa.String(length=32), nullable=False),
        sa.ForeignKeyConstraint(["account_id"], ["accounts.id"], name=op.f("fk_bundle_sales_account_id")),
        sa.ForeignKeyConstraint(["bundle_id"], ["bundles.id"], name=op.f("fk_bundle_sales_bundle_id")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_bundle_sales")),
    )
    op.create_index(op.f("ix_bundle_sales_account_id"), "bundle_sales", ["account_id"])
    op.create_table(
        "loans",
        sa.Column("order_id", sa.String(length=40), nullable=False),
        sa.Column("sale_id", sa.String(length=40), nullable=False),
        sa.Column("amount_minor", sa.BigInteger(), nullable=False),
        sa.ForeignKeyConstraint(["order_id"], ["orders.id"], name=op.f("fk_loans_order_id")),
        sa.ForeignKeyConstraint(["sale_id"], ["bundle_sales.id"], name=op.f("fk_loans_sale_id")),
        sa.PrimaryKeyConstraint("order_id", "sale_id", name=op.f("pk_loans")),
    )
    op.create_index(op.f("ix_loans_sale_id"), "loans", ["sale_id"])
    op.add_column("quotes", sa.Column("discount_minor", sa.BigInteger(), nullable=False, server_default="0"))
    op.add_column("quotes", sa.Column("bundle_id", sa.String(length=40), nullable=True))
    op.add_column("quotes", sa.Column("bundle_version", sa.Integer(), nullable=True))
    op.add_column("orders", sa.Column("discount_minor", sa.BigInteger(), nullable=False, server_default="0"))
    op.add_column("orders", sa.Column("sale_id", sa.String(length=40), nullable=True))
    op.create_index(op.f("ix_orders_sale_id"), "orders", ["sale_id"])
