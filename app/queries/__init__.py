"""The query model, its one canonical form, its derived sensitivity, its one SQL expression, and what is read off it."""

from app.queries.canonical import ENGINE_SEMANTICS, CanonicalQuery, canonicalise, fingerprint, permutation
from app.queries.compile import ROWS_TABLE, compile_query
from app.queries.component import Component, components
from app.queries.model import Query, parse_query
from app.queries.presentation import Presentation, present
from app.queries.schema import Column, DatasetSchema
from app.queries.sensitivity import Derivation, derive

__all__ = [
    "ENGINE_SEMANTICS",
    "ROWS_TABLE",
    "CanonicalQuery",
    "Column",
    "Component",
    "DatasetSchema",
    "Derivation",
    "Presentation",
    "Query",
    "canonicalise",
    "compile_query",
    "components",
    "derive",
    "fingerprint",
    "parse_query",
    "permutation",
    "present",
]
