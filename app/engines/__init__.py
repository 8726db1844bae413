"""Engines that answer canonical questions over immutable snapshots, in exact integers."""

from app.engines.duckdb_engine import DuckDBSnapshot, content_digest, seal
from app.engines.errors import EngineError, IngestError
from app.engines.ingest import ingest_csv, ingest_parquet
from app.engines.postgres_engine import PostgresSnapshot
from app.engines.postgres_ingest import copy_to_postgres
from app.engines.rendering import PostgresTable

__all__ = [
    "DuckDBSnapshot",
    "EngineError",
    "IngestError",
    "PostgresSnapshot",
    "PostgresTable",
    "content_digest",
    "copy_to_postgres",
    "ingest_csv",
    "ingest_parquet",
    "seal",
]
