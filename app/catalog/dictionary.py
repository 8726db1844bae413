"""The data dictionary: what an owner declared about a dataset, and nothing that its rows say."""

from sqlalchemy import Connection, select

from app.auth.accounts import Caller, Role
from app.catalog.datasets import ADJACENCY, dataset_of
from app.catalog.search import PUBLIC
from app.errors import NotFoundError
from app.ledger.budget import budget_state
from app.store.schema import products
from app.views import ColumnView, DictionaryView

__all__ = ["dictionary_view"]


def dictionary_view(connection: Connection, dataset: str, caller: Caller) -> DictionaryView:
    """Return a dataset's declarations: its owner's from the start, everybody's once a product of it was published.

    Analysts read them where the owner lets them ask questions.
    """
    row = dataset_of(connection, dataset)
    asked = caller.role is Role.ANALYST and bool(row.limits.adhoc)
    public = select(products.c.id).where(products.c.dataset_id == dataset, products.c.state.in_(PUBLIC)).limit(1)
    if row.owner != caller.id and not asked and connection.execute(public).one_or_none() is None:
        raise NotFoundError("dataset: expected an existing id, got another")
    schema = row.schema
    return DictionaryView(
        dataset=row.id,
        name=row.name,
        title=row.title,
        description=row.description,
        notice=row.notice,
        columns=[ColumnView(name=column.name, type=column.type, id=column.stable_id) for column in schema.columns],
        unit=schema.unit or "row",
        adjacency=ADJACENCY,
        ordering=list(schema.ordering),
        max_rows_per_unit=schema.max_rows_per_unit,
        max_groups_per_unit=schema.max_groups_per_unit,
        budget_state=budget_state(row.budget.nano, row.spent_nano),
    )
