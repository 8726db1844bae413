"""Compiled questions as text for one engine: the one place where engines differ."""

import hashlib
from dataclasses import dataclass

from sqlglot import exp

from app.queries.compile import ROWS_TABLE

__all__ = ["PostgresTable", "for_duckdb", "for_postgres", "postgres_name"]

_NAME_BYTES = 63


@dataclass(frozen=True, slots=True)
class PostgresTable:
    """A snapshot's table in PostgreSQL, in a schema that the market owns."""

    schema: str
    name: str

    def __post_init__(self) -> None:
        for part in (self.schema, self.name):
            if not part or "\0" in part or len(part.encode()) > _NAME_BYTES:
                raise ValueError(f"table: expected names of 1 to {_NAME_BYTES} bytes, got {part[:70]!r}")

    def quoted(self) -> str:
        """Return the name as it stands in a statement."""
        return f"{_quoted(self.schema)}.{_quoted(self.name)}"


def for_duckdb(expression: exp.Expression) -> str:
    """Return the compiled question as DuckDB reads it."""
    statement: str = expression.sql(dialect="duckdb")
    return statement


def for_postgres(expression: exp.Expression, rows: PostgresTable) -> str:
    """Return the compiled question as PostgreSQL reads it; the expression itself is changed on the way.

    SHA-256 is of bytes there, so text is encoded first, as UTF-8 whatever the server's encoding; the snapshot is one of
    many tables; and columns go by `postgres_name`.
    """
    for hashed in list(expression.find_all(exp.SHA2)):
        encoded = exp.Anonymous(this="convert_to", expressions=[hashed.this, exp.Literal.string("UTF8")])
        digest = exp.Anonymous(this="sha256", expressions=[encoded])
        hashed.replace(exp.Anonymous(this="encode", expressions=[digest, exp.Literal.string("hex")]))
    for column in list(expression.find_all(exp.Column)):
        if column.table == "source":
            column.replace(exp.column(postgres_name(column.name), table="source", quoted=True))
    for table in list(expression.find_all(exp.Table)):
        if table.name == ROWS_TABLE:
            table.set("this", exp.to_identifier(rows.name, quoted=True))
            table.set("db", exp.to_identifier(rows.schema, quoted=True))
    statement: str = expression.sql(dialect="postgres")
    return statement


def postgres_name(stable_id: str) -> str:
    """Return what PostgreSQL calls a column: "c:" and its id, or, where that passes 63 bytes, "h:" and a hash of it.

    PostgreSQL cuts longer names off without a word, and keeps some short ones (ctid, xmin) for itself.

    Example:
        >>> postgres_name("xmin"), len(postgres_name("x" * 100))
        ('c:xmin', 50)
    """
    name = f"c:{stable_id}"
    if len(name.encode()) <= _NAME_BYTES:
        return name
    return f"h:{hashlib.sha256(stable_id.encode()).hexdigest()[:48]}"


def _quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'
