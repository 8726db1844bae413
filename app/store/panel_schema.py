"""The panels' tables: what was opened, what each closed round came to, who bought which tier of it.

Reports are not here: a round's reports and tiers are files below the state folder, bound by the record that was signed.
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

__all__ = ["panel_orders", "panel_quotes", "panel_rounds", "panel_stops", "panel_tiers", "panels"]

panels = Table(
    "panels",
    metadata,
    Column("id", String(40), primary_key=True),
    Column("owner_id", ForeignKey("accounts.id"), nullable=False, index=True),
    Column("title", Text, nullable=False),
    Column("mechanism", String(24), nullable=False),
    Column("domain_json", Text, nullable=False),
    Column("menu_json", Text, nullable=False),
    Column("prices_json", Text, nullable=False),
    Column("currency", String(3), nullable=False),
    Column("licence", Text, nullable=False),
    Column("budget_nano", BigInteger, nullable=False),
    Column("epoch", Integer, nullable=False),
    Column("round", Integer, nullable=False),
    Column("laws_json", Text),
    Column("axes_json", Text),
    Column("leaf_index", BigInteger, index=True),
    Column("late_tiers", Integer, nullable=False, server_default="0"),
    Column("state", String(12), nullable=False, server_default="live"),
    Column("created_at", String(32), nullable=False),
)

panel_rounds = Table(
    "panel_rounds",
    metadata,
    Column("panel_id", ForeignKey("panels.id"), primary_key=True),
    Column("number", Integer, primary_key=True),
    Column("reports", BigInteger, nullable=False),
    Column("record", Text, nullable=False),
    Column("signing_key", Integer, nullable=False),
    Column("signature", String(128), nullable=False),
    Column("highest_rank", Integer),
    Column("leaf_index", BigInteger),
    CheckConstraint("reports > 0", name="not_empty"),
)

panel_tiers = Table(
    "panel_tiers",
    metadata,
    Column("panel_id", ForeignKey("panels.id"), primary_key=True),
    Column("number", Integer, primary_key=True),
    Column("rank", Integer, primary_key=True),
    Column("commitment", String(64), nullable=False),
    Column("sealed_counts", LargeBinary, nullable=False),
    Column("late_record", Text),
    Column("leaf_index", BigInteger),
)
"""A tier's `rank` is its number: by accuracy among those that the panel opened with, then in the order of being added.

Menu, prices and laws of a panel are by number too, and its last `late_tiers` came later. An added tier of a round has a
record and a leaf of its own.
"""

panel_stops = Table(
    "panel_stops",
    metadata,
    Column("panel_id", String(40), primary_key=True),
    Column("finding", String(80), nullable=False),
    Column("found_by", String(40), nullable=False),
    Column("at", String(32)),
    Column("leaf_index", BigInteger),
)
"""Panels and location panels that are not sold, because of a finding. Stops older than their leaves have neither hour
nor leaf."""

panel_quotes = Table(
    "panel_quotes",
    metadata,
    Column("id", String(40), primary_key=True),
    Column("account_id", ForeignKey("accounts.id"), nullable=False),
    Column("panel_id", ForeignKey("panels.id"), nullable=False),
    Column("number", Integer, nullable=False),
    Column("rank", Integer, nullable=False),
    Column("law", String(64), nullable=False),
    *amount_columns(),
    Column("book_version", Integer, nullable=False),
    Column("expires_at", String(32), nullable=False),
)

Index("ix_panel_quotes_account_id_expires_at", panel_quotes.c.account_id, panel_quotes.c.expires_at)

panel_orders = Table(
    "panel_orders",
    metadata,
    Column("id", String(40), primary_key=True),
    Column("account_id", ForeignKey("accounts.id"), nullable=False),
    Column("idempotency_key", String(255), nullable=False),
    Column("request_digest", String(64), nullable=False),
    Column("panel_id", ForeignKey("panels.id"), nullable=False),
    Column("number", Integer, nullable=False),
    Column("rank", Integer, nullable=False),
    Column("chain_id", String(64), nullable=False),
    Column("law", String(64), nullable=False),
    *amount_columns(),
    Column("receipt_json", Text),
    Column("leaf_index", BigInteger, unique=True),
    Column("created_at", String(32), nullable=False),
    UniqueConstraint("account_id", "idempotency_key"),
)
"""An order entitles its account to its tier; `chain_id` names the round and `law` the tier (`app.log.panel_leaves`).

Orders older than the leaves of panels have neither, and no receipt: they still entitle.
"""

Index("ix_panel_orders_account_chain", panel_orders.c.account_id, panel_orders.c.chain_id)
