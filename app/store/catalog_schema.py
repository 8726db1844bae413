"""What is on sale, and what of it was drawn: one answer a (chain, law), one place a draw."""

from sqlalchemy import (
    BigInteger,
    CheckConstraint,
    Column,
    ForeignKey,
    Integer,
    LargeBinary,
    String,
    Table,
    Text,
    UniqueConstraint,
)

from app.store.metadata import metadata

__all__ = [
    "book_prices",
    "chains",
    "contracts",
    "datasets",
    "draws",
    "offers",
    "planned_tiers",
    "price_verdicts",
    "products",
    "snapshots",
]

datasets = Table(
    "datasets",
    metadata,
    Column("id", String(40), primary_key=True),
    Column("owner_id", ForeignKey("accounts.id"), nullable=False),
    Column("name", String(80), nullable=False, unique=True),
    Column("title", Text, nullable=False),
    Column("description", Text, nullable=False),
    Column("notice", Text, nullable=False),
    Column("salt", String(64), nullable=False),
    Column("schema_json", Text, nullable=False),
    Column("budget_kind", String(8), nullable=False, server_default="pure"),
    Column("promise_json", Text),
    Column("budget_nano", BigInteger, nullable=False),
    Column("spent_nano", BigInteger, nullable=False),
    Column("contract_version", Integer, nullable=False),
    Column("reserve_low_minor", BigInteger),
    Column("reserve_high_minor", BigInteger),
    Column("quota_nano", BigInteger),
    Column("window_days", Integer),
    Column("window_nano", BigInteger),
    Column("adhoc_json", Text),
    Column("created_at", String(32), nullable=False),
    CheckConstraint("spent_nano >= 0 AND spent_nano <= budget_nano", name="within_budget"),
)

contracts = Table(
    "contracts",
    metadata,
    Column("dataset_id", ForeignKey("datasets.id"), primary_key=True),
    Column("version", Integer, primary_key=True),
    Column("account_id", ForeignKey("accounts.id"), primary_key=True),
    Column("rate", BigInteger, nullable=False),
    CheckConstraint("rate >= 0", name="rate_not_negative"),
)

snapshots = Table(
    "snapshots",
    metadata,
    Column("id", String(40), primary_key=True),
    Column("dataset_id", ForeignKey("datasets.id"), nullable=False),
    Column("number", Integer, nullable=False),
    Column("content", String(64), nullable=False, unique=True),
    Column("seal", String(64), nullable=False),
    Column("units", String(64), index=True),
    Column("file", String(120), nullable=False),
    Column("source", String(40)),
    Column("created_at", String(32), nullable=False),
    UniqueConstraint("dataset_id", "number"),
)

chains = Table(
    "chains",
    metadata,
    Column("id", String(64), primary_key=True),
    Column("dataset_id", ForeignKey("datasets.id"), nullable=False),
    Column("snapshot_id", ForeignKey("snapshots.id"), nullable=False),
    Column("fingerprint", String(64), nullable=False),
    Column("query_json", Text, nullable=False),
    Column("keys_json", Text, nullable=False),
    Column("length", Integer, nullable=False),
    Column("grain", Integer, nullable=False),
    Column("epoch", Integer, nullable=False),
    Column("highest_nano", BigInteger, nullable=False),
    Column("highest_rank", Integer),
    Column("book_version", Integer, nullable=False),
    Column("currency", String(3), nullable=False),
    UniqueConstraint("dataset_id", "snapshot_id", "fingerprint"),
)

planned_tiers = Table(
    "planned_tiers",
    metadata,
    Column("chain_id", ForeignKey("chains.id"), primary_key=True),
    Column("law", String(64), primary_key=True),
    Column("rank", Integer, nullable=False),
    Column("law_json", Text, nullable=False),
    Column("epsilon", String(80), nullable=False),
    Column("level_nano", BigInteger, nullable=False),
    Column("half_width", String(40), nullable=False),
    Column("same_as_above", String(24)),
    Column("added_at", String(32)),
    UniqueConstraint("chain_id", "rank"),
)

book_prices = Table(
    "book_prices",
    metadata,
    Column("chain_id", ForeignKey("chains.id"), primary_key=True),
    Column("version", Integer, primary_key=True),
    Column("law", String(64), primary_key=True),
    Column("price_minor", BigInteger, nullable=False),
    CheckConstraint("price_minor >= 0", name="price_not_negative"),
)

products = Table(
    "products",
    metadata,
    Column("id", String(40), primary_key=True),
    Column("dataset_id", ForeignKey("datasets.id"), nullable=False),
    Column("chain_id", ForeignKey("chains.id"), nullable=False, index=True),
    Column("title", Text, nullable=False),
    Column("description", Text, nullable=False),
    Column("unit_label", Text, nullable=False),
    Column("left_out", Text, nullable=False),
    Column("licence", Text, nullable=False),
    Column("derivation_json", Text, nullable=False),
    Column("order_json", Text, nullable=False),
    Column("request_json", Text, nullable=False),
    Column("parts_json", Text),
    Column("state", String(16), nullable=False),
    Column("arbitrage", String(16), nullable=False),
    Column("leaf_index", BigInteger, nullable=False, unique=True),
    Column("created_at", String(32), nullable=False),
)

price_verdicts = Table(
    "price_verdicts",
    metadata,
    Column("chain_id", ForeignKey("chains.id"), primary_key=True),
    Column("verdict", String(16), nullable=False),
    Column("reason", Text, nullable=False),
    Column("good", Text),
    Column("price_minor", BigInteger),
    Column("stage", Integer, nullable=False),
    Column("bundle_json", Text, nullable=False),
    Column("cost_minor", BigInteger),
    Column("at", String(32), nullable=False),
)

offers = Table(
    "offers",
    metadata,
    Column("product_id", ForeignKey("products.id"), primary_key=True),
    Column("law", String(64), primary_key=True),
)

draws = Table(
    "draws",
    metadata,
    Column("chain_id", ForeignKey("chains.id"), primary_key=True),
    Column("law", String(64), primary_key=True),
    Column("place", Integer, nullable=False),
    Column("role", String(16), nullable=False),
    Column("parents_json", Text, nullable=False),
    Column("epoch", Integer, nullable=False),
    Column("sampler", String(40), nullable=False),
    Column("commitment", String(64), nullable=False),
    Column("key_hash", String(64), nullable=False, unique=True),
    Column("sealed_answer", LargeBinary, nullable=False),
    Column("leaf_index", BigInteger, nullable=False),
    UniqueConstraint("chain_id", "place"),
)
