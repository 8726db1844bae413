"""Datasets: to their owner the exact ledger, to everybody what is declared."""

from typing import Any, Literal

import msgspec

__all__ = ["BudgetState", "ColumnView", "DatasetView", "DictionaryView"]


BudgetState = Literal["enough", "nearly exhausted", "exhausted"]


class DatasetView(msgspec.Struct, frozen=True, kw_only=True):
    """A dataset as its owner sees it: exact budget, and the charge of every chain, in ε (a pure ledger) or ρ.

    `promise` is the ε and δ of an approximate budget.
    """

    dataset: str
    name: str
    title: str
    snapshot: str
    unit: str
    salt: str
    budget_kind: str
    promise: list[str] | None
    budget: str
    spent: str
    remaining: str
    chains: list[dict[str, Any]]


class ColumnView(msgspec.Struct, frozen=True, kw_only=True):
    """A declared column: its name in queries, its type, and the id by which fingerprints know it."""

    name: str
    type: str
    id: str


class DictionaryView(msgspec.Struct, frozen=True, kw_only=True):
    """What a dataset declares in public: no row, no count, no file; the budget's state in three values."""

    dataset: str
    name: str
    title: str
    description: str
    notice: str
    columns: list[ColumnView]
    unit: str
    adjacency: str
    ordering: list[str]
    max_rows_per_unit: int
    max_groups_per_unit: int
    budget_state: BudgetState
