"""Questions whether a count is above a number: quoted, and ordered under a key. What they sell are ordinary orders."""

from sqlalchemy import Column, ForeignKey, Index, String, Table, Text, UniqueConstraint

from app.store.metadata import metadata

__all__ = ["threshold_orders", "threshold_quotes"]

threshold_quotes = Table(
    "threshold_quotes",
    metadata,
    Column("id", String(40), primary_key=True),
    Column("account_id", ForeignKey("accounts.id"), nullable=False),
    Column("plan_json", Text, nullable=False),
    Column("expires_at", String(32), nullable=False),
    Index(None, "account_id", "expires_at"),
)

threshold_orders = Table(
    "threshold_orders",
    metadata,
    Column("id", String(40), primary_key=True),
    Column("account_id", ForeignKey("accounts.id"), nullable=False),
    Column("idempotency_key", String(255), nullable=False),
    Column("request_digest", String(64), nullable=False),
    Column("product_id", ForeignKey("products.id"), nullable=False),
    Column("plan_json", Text, nullable=False),
    Column("created_at", String(32), nullable=False),
    UniqueConstraint("account_id", "idempotency_key"),
)
"""The question alone: how far it has come is read off the orders that it placed, under keys derived from its id."""
