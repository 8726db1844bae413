"""Bundles on sale, their prices by version, their sales, and the discounts that those lend."""

from sqlalchemy import BigInteger, CheckConstraint, Column, ForeignKey, Integer, String, Table, Text, UniqueConstraint

from app.store.metadata import metadata

__all__ = ["bundle_parts", "bundle_prices", "bundle_sales", "bundles", "loans"]

bundles = Table(
    "bundles",
    metadata,
    Column("id", String(40), primary_key=True),
    Column("number", Integer, nullable=False, unique=True),
    Column("owner_id", ForeignKey("accounts.id"), nullable=False, index=True),
    Column("title", Text, nullable=False),
    Column("description", Text, nullable=False),
    Column("licence", Text, nullable=False),
    Column("currency", String(3), nullable=False),
    Column("state", String(16), nullable=False),
    Column("version", Integer, nullable=False),
    Column("arbitrage", String(16), nullable=False),
    Column("verdict_json", Text, nullable=False),
    Column("created_at", String(32), nullable=False),
)

bundle_parts = Table(
    "bundle_parts",
    metadata,
    Column("bundle_id", ForeignKey("bundles.id"), primary_key=True),
    Column("place", Integer, primary_key=True),
    Column("product_id", ForeignKey("products.id"), nullable=False, index=True),
    Column("law", String(64), nullable=False),
    UniqueConstraint("bundle_id", "product_id"),
)
"""What an owner put in: products at a tier each; a mean stands for its sum and its count."""

bundle_prices = Table(
    "bundle_prices",
    metadata,
    Column("bundle_id", ForeignKey("bundles.id"), primary_key=True),
    Column("version", Integer, primary_key=True),
    Column("price_minor", BigInteger, nullable=False),
    Column("at", String(32), nullable=False),
    CheckConstraint("price_minor >= 0", name="price_not_negative"),
)

bundle_sales = Table(
    "bundle_sales",
    metadata,
    Column("id", String(40), primary_key=True),
    Column("account_id", ForeignKey("accounts.id"), nullable=False, index=True),
    Column("bundle_id", ForeignKey("bundles.id"), nullable=False),
    Column("version", Integer, nullable=False),
    Column("created_at", String(32), nullable=False),
)
"""One order of a bundle; its lines are the orders that name it as their sale."""

loans = Table(
    "loans",
    metadata,
    Column("order_id", ForeignKey("orders.id"), primary_key=True),
    Column("sale_id", ForeignKey("bundle_sales.id"), primary_key=True, index=True),
    Column("amount_minor", BigInteger, nullable=False),
)
"""Discounts: lent by a bundle's sale (one row, maybe 0, a chain that it lends on), given back by an upgrade (≤ 0)."""
