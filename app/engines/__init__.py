"""Engines that answer canonical questions over immutable snapshots, in exact integers."""

from app.engines.duckdb_engine import DuckDBSnapshot, content_digest, seal
from app.engines.errors import EngineError, IngestError
from app.engines.ingest import ingest_csv, ingest_parquet

__all__ = [
    "DuckDBSnapshot",
    "EngineError",
    "IngestError",
    "content_digest",
    "ingest_csv",
    "ingest_parquet",
    "seal",
]
