"""What the market keeps of its own doings: the log and its heads, redo records, jobs, audits, frozen chains."""

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
)

from app.store.metadata import metadata

__all__ = [
    "audit_reports",
    "export_frames",
    "exports",
    "frozen_chains",
    "heads",
    "jobs",
    "leaves",
    "redo_position",
    "redo_records",
    "rights_epoch",
]

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
    Index(None, "account_id", "created_at"),
)

exports = Table(
    "exports",
    metadata,
    Column("id", String(40), primary_key=True),
    Column("job_id", ForeignKey("jobs.id"), nullable=False, unique=True),
    Column("account_id", ForeignKey("accounts.id"), nullable=False, index=True),
    Column("request_json", Text, nullable=False),
    Column("log_size", BigInteger, nullable=False),
    Column("etag", String(64), nullable=False),
    Column("size", BigInteger, nullable=False),
    Column("created_at", String(32), nullable=False),
    Column("expires_at", String(32), nullable=False),
    Column("blob", String(40), nullable=False, server_default=""),
    Column("frames", Integer, nullable=False, server_default="0"),
)
"""Each has its frames below, where any machine reads them."""

export_frames = Table(
    "export_frames",
    metadata,
    Column("blob", String(40), primary_key=True),
    Column("place", Integer, primary_key=True, autoincrement=False),
    Column("job_id", String(40), nullable=False),
    Column("sealed", LargeBinary, nullable=False),
)
"""What one attempt at an export wrote, sealed. In no record and no backup of rows: what is lost is asked for again."""
