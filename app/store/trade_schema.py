"""People, their money and what they hold: one order an idempotency key, one entitlement a tier."""

from sqlalchemy import (
    BigInteger,
    CheckConstraint,
    Column,
    ForeignKey,
    Index,
    Integer,
    String,
    Table,
    Text,
    UniqueConstraint,
)

from app.store.metadata import metadata

__all__ = [
    "accounts",
    "accruals",
    "api_keys",
    "credit_notes",
    "dashboards",
    "entitlements",
    "invoices",
    "orders",
    "postings",
    "quotes",
]

accounts = Table(
    "accounts",
    metadata,
    Column("id", String(40), primary_key=True),
    Column("role", String(16), nullable=False),
    Column("name", Text, nullable=False),
    Column("pseudonym", String(40), nullable=False, unique=True),
    Column("currency", String(3), nullable=False),
    Column("balance_minor", BigInteger, nullable=False),
    Column("ceiling_nano", BigInteger),
    Column("created_at", String(32), nullable=False),
    Column("suspended_at", String(32)),
    Column("suspension_reason", Text),
    CheckConstraint("balance_minor >= 0 OR role = 'market'", name="balance_not_negative"),
)

api_keys = Table(
    "api_keys",
    metadata,
    Column("key_digest", String(64), primary_key=True),
    Column("id", String(40), nullable=False, unique=True),
    Column("account_id", ForeignKey("accounts.id"), nullable=False, index=True),
    Column("prefix", String(16), nullable=False),
    Column("label", Text, nullable=False),
    Column("created_at", String(32), nullable=False),
    Column("revoked_at", String(32)),
)

postings = Table(
    "postings",
    metadata,
    Column("id", Integer, primary_key=True, autoincrement=True),
    Column("account_id", ForeignKey("accounts.id"), nullable=False, index=True),
    Column("kind", String(16), nullable=False),
    Column("amount_minor", BigInteger, nullable=False),
    Column("currency", String(3), nullable=False),
    Column("reference", String(80), nullable=False),
    Column("at", String(32), nullable=False),
    UniqueConstraint("account_id", "kind", "reference"),
)

quotes = Table(
    "quotes",
    metadata,
    Column("id", String(40), primary_key=True),
    Column("account_id", ForeignKey("accounts.id"), nullable=False),
    Column("product_id", ForeignKey("products.id"), nullable=False),
    Column("law", String(64), nullable=False),
    Column("amount_minor", BigInteger, nullable=False),
    Column("list_minor", BigInteger, nullable=False),
    Column("credit_minor", BigInteger, nullable=False),
    Column("reserve_minor", BigInteger, nullable=False),
    Column("discount_minor", BigInteger, nullable=False, server_default="0"),
    Column("currency", String(3), nullable=False),
    Column("book_version", Integer, nullable=False),
    Column("companion", String(40)),
    Column("bundle_id", String(40)),
    Column("bundle_version", Integer),
    Column("expires_at", String(32), nullable=False),
    Index(None, "account_id", "expires_at"),
)

orders = Table(
    "orders",
    metadata,
    Column("id", String(40), primary_key=True),
    Column("account_id", ForeignKey("accounts.id"), nullable=False),
    Column("idempotency_key", String(255), nullable=False),
    Column("request_digest", String(64), nullable=False),
    Column("product_id", ForeignKey("products.id"), nullable=False),
    Column("chain_id", ForeignKey("chains.id"), nullable=False),
    Column("law", String(64), nullable=False),
    Column("amount_minor", BigInteger, nullable=False),
    Column("list_minor", BigInteger, nullable=False),
    Column("credit_minor", BigInteger, nullable=False),
    Column("reserve_minor", BigInteger, nullable=False),
    Column("discount_minor", BigInteger, nullable=False, server_default="0"),
    Column("currency", String(3), nullable=False),
    Column("sale_id", String(40), index=True),
    Column("charge_nano", BigInteger, nullable=False),
    Column("receipt_json", Text, nullable=False),
    Column("leaf_index", BigInteger, nullable=False),
    Column("created_at", String(32), nullable=False),
    UniqueConstraint("account_id", "idempotency_key"),
)

Index("ix_orders_account_chain", orders.c.account_id, orders.c.chain_id)

entitlements = Table(
    "entitlements",
    metadata,
    Column("account_id", ForeignKey("accounts.id"), primary_key=True),
    Column("chain_id", ForeignKey("chains.id"), primary_key=True),
    Column("law", String(64), primary_key=True),
    Column("rank", Integer, nullable=False),
    Column("order_id", ForeignKey("orders.id"), nullable=False),
)

credit_notes = Table(
    "credit_notes",
    metadata,
    Column("id", String(40), primary_key=True),
    Column("order_id", String(40), nullable=False, index=True),
    Column("line_no", Integer, nullable=False),
    Column("amount_minor", BigInteger, nullable=False),
    Column("reason", Text, nullable=False),
    Column("at", String(32), nullable=False),
    CheckConstraint("amount_minor > 0", name="amount_positive"),
)

invoices = Table(
    "invoices",
    metadata,
    Column("number", Integer, primary_key=True, autoincrement=False),
    Column("order_id", String(40), nullable=False, unique=True),
)
"""Of an order of a product or of a panel: of one table or the other, so that no foreign key says so."""

accruals = Table(
    "accruals",
    metadata,
    Column("id", Integer, primary_key=True, autoincrement=True),
    Column("reference", String(80), nullable=False),
    Column("account_id", ForeignKey("accounts.id"), nullable=False, index=True),
    Column("units", BigInteger, nullable=False),
    Column("currency", String(3), nullable=False),
    Column("at", String(32), nullable=False),
    UniqueConstraint("reference", "account_id"),
)

dashboards = Table(
    "dashboards",
    metadata,
    Column("id", String(40), primary_key=True),
    Column("account_id", ForeignKey("accounts.id"), nullable=False, index=True),
    Column("name", Text, nullable=False),
    Column("tiles_json", Text, nullable=False),
    Column("created_at", String(32), nullable=False),
)
