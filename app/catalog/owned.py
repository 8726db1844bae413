"""What an owner has: datasets, and everything published on one of them, in pages."""

from sqlalchemy import Connection, select

from app.catalog.datasets import dataset_of
from app.catalog.products import PART
from app.catalog.views import dataset_view, product_view
from app.store.paging import rows_after
from app.store.schema import datasets, products
from app.views import DatasetView, ProductView

__all__ = ["owned_datasets", "published_on"]


def owned_datasets(connection: Connection, owner: str, *, after: str | None, count: int) -> list[DatasetView]:
    """Return up to `count` of an owner's datasets, oldest first, from the one after dataset `after`.

    Raises:     InvalidRequestError: `after` is none of them.
    """
    place, mine = (datasets.c.created_at, datasets.c.id), datasets.c.owner_id == owner
    found = rows_after(connection, select(datasets.c.id), place, of=mine, after=after, count=count)
    return [dataset_view(connection, dataset_of(connection, row.id)) for row in found]


def published_on(connection: Connection, dataset: str, *, after: int, count: int) -> list[ProductView]:
    """Return up to `count` products of a dataset, drafts and questions included, from the one after leaf `after`."""
    wanted = select(products.c.id).where(
        products.c.dataset_id == dataset, products.c.state != PART, products.c.leaf_index > after
    )
    found = connection.execute(wanted.order_by(products.c.leaf_index).limit(count)).scalars().all()
    return [product_view(connection, each) for each in found]
