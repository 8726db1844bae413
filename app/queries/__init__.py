"""The query model, its one canonical form, its derived sensitivity, and its one SQL expression."""

from app.queries.canonical import ENGINE_SEMANTICS, CanonicalQuery, canonicalise, fingerprint, permutation
from app.queries.compile import ROWS_TABLE, compile_query
from app.queries.model import Query, parse_query
from app.queries.schema import Column, DatasetSchema
from app.queries.sensitivity import Derivation, derive

__all__ = [
    "ENGINE_SEMANTICS",
    "ROWS_TABLE",
    "CanonicalQuery",
    "Column",
    "DatasetSchema",
    "Derivation",
    "Query",
    "canonicalise",
    "compile_query",
    "derive",
    "fingerprint",
    "parse_query",
    "permutation",
]
