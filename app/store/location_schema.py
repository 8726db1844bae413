"""The location panels' tables: what was opened, each question's one answer, what each round charged, who bought what.

People's places are not here (they are in the dataset's snapshot), nor their noisy values (they are derived again).
"""

from sqlalchemy import (
    BigInteger,
    CheckConstraint,
    Column,
    ForeignKey,
    Index,
    Integer,
    LargeBinary,
    String,
    Table,
    Text,
    UniqueConstraint,
)

from app.store.metadata import amount_columns, metadata

__all__ = ["location_orders", "location_panels", "location_queries", "location_quotes", "location_rounds"]

location_panels = Table(
    "location_panels",
    metadata,
    Column("id", String(40), primary_key=True),
    Column("owner_id", ForeignKey("accounts.id"), nullable=False, index=True),
    Column("dataset_id", ForeignKey("datasets.id"), nullable=False, unique=True),
    Column("snapshot_id", ForeignKey("snapshots.id"), nullable=False),
    Column("title", Text, nullable=False),
    Column("unit", Text, nullable=False),
    Column("axes_json", Text, nullable=False),
    Column("grain", Text, nullable=False),
    Column("people", BigInteger, nullable=False),
    Column("budget_nano", BigInteger, nullable=False),
    Column("query_nano", BigInteger, nullable=False),
    Column("beta", Text, nullable=False),
    Column("rounds", Integer, nullable=False),
    Column("prices_json", Text, nullable=False),
    Column("currency", String(3), nullable=False),
    Column("licence", Text, nullable=False),
    Column("epoch", Integer, nullable=False),
    Column("answered", Integer, nullable=False),
    Column("sealed_spent", LargeBinary, nullable=False),
    Column("leaf_index", BigInteger, nullable=False, unique=True),
    Column("state", String(12), nullable=False, server_default="live"),
    Column("created_at", String(32), nullable=False),
    CheckConstraint("people > 0", name="somebody"),
    CheckConstraint("query_nano > 0 AND query_nano <= budget_nano", name="within_budget"),
)
"""`sealed_spent`: what each person has spent on the `answered` questions; an open one's rounds come in addition."""

location_queries = Table(
    "location_queries",
    metadata,
    Column("panel_id", ForeignKey("location_panels.id"), primary_key=True),
    Column("query", String(64), primary_key=True),
    Column("number", Integer, nullable=False),
    Column("question", Text, nullable=False),
    Column("budget_nano", BigInteger, nullable=False),
    Column("most_nano", BigInteger),
    Column("commitment", String(64)),
    Column("sealed_answer", LargeBinary),
    Column("leaf_index", BigInteger, unique=True),
    Column("created_at", String(32), nullable=False),
    UniqueConstraint("panel_id", "number"),
)
"""A question whose first round is charged; without a leaf, its rounds are not over, and no other may begin."""

location_rounds = Table(
    "location_rounds",
    metadata,
    Column("panel_id", ForeignKey("location_panels.id"), primary_key=True),
    Column("query", String(64), primary_key=True),
    Column("place", Integer, primary_key=True),
    Column("sealed_charges", LargeBinary, nullable=False),
    Column("created_at", String(32), nullable=False),
)
"""What a round charged each person: written, and durable, before anything of the round is drawn."""

location_quotes = Table(
    "location_quotes",
    metadata,
    Column("id", String(40), primary_key=True),
    Column("account_id", ForeignKey("accounts.id"), nullable=False),
    Column("panel_id", ForeignKey("location_panels.id"), nullable=False),
    Column("question", Text, nullable=False),
    Column("budget_nano", BigInteger, nullable=False),
    Column("law", String(64), nullable=False),
    *amount_columns(),
    Column("book_version", Integer, nullable=False),
    Column("expires_at", String(32), nullable=False),
)

Index("ix_location_quotes_account_id_expires_at", location_quotes.c.account_id, location_quotes.c.expires_at)

location_orders = Table(
    "location_orders",
    metadata,
    Column("id", String(40), primary_key=True),
    Column("account_id", ForeignKey("accounts.id"), nullable=False),
    Column("idempotency_key", String(255), nullable=False),
    Column("request_digest", String(64), nullable=False),
    Column("panel_id", ForeignKey("location_panels.id"), nullable=False),
    Column("chain_id", String(64), nullable=False),
    Column("law", String(64), nullable=False),
    *amount_columns(),
    Column("receipt_json", Text, nullable=False),
    Column("leaf_index", BigInteger, nullable=False, unique=True),
    Column("created_at", String(32), nullable=False),
    UniqueConstraint("account_id", "idempotency_key"),
)
"""An order entitles its account to a question's answer: `chain_id` is the query's name."""

Index("ix_location_orders_account_chain", location_orders.c.account_id, location_orders.c.chain_id)
