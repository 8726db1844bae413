"""The tables. Uniqueness is the promise: one answer a (chain, law), one place a draw, one order an idempotency key."""

from sqlalchemy import (
    BigInteger,
    CheckConstraint,
    Column,
    ForeignKey,
    Index,
    Integer,
    LargeBinary,
    MetaData,
    String,
    Table,
    Text,
    UniqueConstraint,
)

__all__ = [
    "accounts",
    "accruals",
    "api_keys",
    "audit_reports",
    "book_prices",
    "chains",
    "contracts",
    "credit_notes",
    "dashboards",
    "datasets",
    "draws",
    "entitlements",
    "frozen_chains",
    "heads",
    "invoices",
    "jobs",
    "leaves",
    "metadata",
    "offers",
    "orders",
    "planned_tiers",
    "postings",
    "price_verdicts",
    "products",
    "quotes",
    "redo_position",
    "redo_records",
    "rights_epoch",
    "snapshots",
]

metadata = MetaData(
    naming_convention={
        "pk": "pk_%(table_name)s",
        "uq": "uq_%(table_name)s_%(column_0_N_name)s",
        "fk": "fk_%(table_name)s_%(column_0_name)s",
        "ck": "ck_%(table_name)s_%(constraint_name)s",
        "ix": "ix_%(table_name)s_%(column_0_N_name)s",
    }
)

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
    Column("currency", String(3), nullable=False),
    Column("book_version", Integer, nullable=False),
    Column("companion", String(40)),
    Column("expires_at", String(32), nullable=False),
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
    Column("currency", String(3), nullable=False),
    Column("charge_nano", BigInteger, nullable=False),
    Column("receipt_json", Text, nullable=False),
    Column("leaf_index", BigInteger, nullable=False),
    Column("created_at", String(32), nullable=False),
    UniqueConstraint("account_id", "idempotency_key"),
)

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
    Column("order_id", ForeignKey("orders.id"), nullable=False, index=True),
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
    Column("order_id", ForeignKey("orders.id"), nullable=False, unique=True),
)

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

jobs = Table(
    "jobs",
    metadata,
    Column("id", String(40), primary_key=True),
    Column("account_id", ForeignKey("accounts.id"), nullable=False),
    Column("kind", String(32), nullable=False),
    Column("state", String(16), nullable=False),
    Column("progress", Text, nullable=False),
    Column("result_json", Text),
    Column("created_at", String(32), nullable=False),
    Column("ended_at", String(32)),
    Column("attempts", Integer, nullable=False, server_default="0"),
    Column("request_json", Text, nullable=False, server_default="{}"),
)

audit_reports = Table(
    "audit_reports",
    metadata,
    Column("id", String(40), primary_key=True),
    Column("at", String(32), nullable=False),
    Column("size", BigInteger, nullable=False),
    Column("verdict", String(16), nullable=False),
    Column("report_json", Text, nullable=False),
    Column("watch_json", Text, nullable=False),
    Column("leaf_index", BigInteger, nullable=False, unique=True),
)

frozen_chains = Table(
    "frozen_chains",
    metadata,
    Column("chain_id", ForeignKey("chains.id"), primary_key=True),
    Column("finding", String(80), nullable=False),
    Column("found_by", String(40), nullable=False),
    Column("at", String(32), nullable=False),
    Column("leaf_index", BigInteger, nullable=False),
)

leaves = Table(
    "leaves",
    metadata,
    Column("log_index", BigInteger, primary_key=True, autoincrement=False),
    Column("kind", String(16), nullable=False),
    Column("body", LargeBinary, nullable=False),
    Column("leaf_hash", LargeBinary, nullable=False),
)

heads = Table(
    "heads",
    metadata,
    Column("size", BigInteger, primary_key=True, autoincrement=False),
    Column("root", String(64), nullable=False),
    Column("frontier", LargeBinary, nullable=False),
    Column("at", String(32), nullable=False),
    Column("signing_key", Integer, nullable=False),
    Column("signature", String(128), nullable=False),
)

redo_position = Table(
    "redo_position",
    metadata,
    Column("id", Integer, primary_key=True, autoincrement=False),
    Column("written", BigInteger, nullable=False),
    Column("digest", String(64), nullable=False),
    Column("log_size", BigInteger, nullable=False),
    Column("ring", BigInteger, nullable=False),
    CheckConstraint("id = 1", name="one_row"),
)

redo_records = Table(
    "redo_records",
    metadata,
    Column("n", BigInteger, primary_key=True, autoincrement=False),
    Column("digest", String(64), nullable=False),
    Column("record", LargeBinary, nullable=False),
)
"""The newest records of a store that several machines write, on their way to each machine's redo file."""

rights_epoch = Table(
    "rights_epoch",
    metadata,
    Column("id", Integer, primary_key=True, autoincrement=False),
    Column("epoch", BigInteger, nullable=False),
    CheckConstraint("id = 1", name="one_row"),
)
"""How often a right was taken away; triggers raise it, so nobody can forget to."""

Index("ix_orders_account_chain", orders.c.account_id, orders.c.chain_id)
