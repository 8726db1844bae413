"""The one metadata of all tables, with the names of their constraints, and the columns that several tables have."""

from typing import Any

from sqlalchemy import BigInteger, Column, MetaData, String

__all__ = ["amount_columns", "metadata"]

metadata = MetaData(
    naming_convention={
        "pk": "pk_%(table_name)s",
        "uq": "uq_%(table_name)s_%(column_0_N_name)s",
        "fk": "fk_%(table_name)s_%(column_0_name)s",
        "ck": "ck_%(table_name)s_%(constraint_name)s",
        "ix": "ix_%(table_name)s_%(column_0_N_name)s",
    }
)


def amount_columns() -> list[Column[Any]]:
    """Return the columns of what a quote or an order comes to, as `app.ledger.amounts` fills and reads them."""
    names = ("amount_minor", "list_minor", "credit_minor", "reserve_minor", "discount_minor")
    minors = [Column(name, BigInteger, nullable=False) for name in names]
    return [*minors, Column("currency", String(3), nullable=False)]
