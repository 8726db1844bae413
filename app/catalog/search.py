"""Finding products: words, datasets and tiers, in pages whose cursors never shift."""

import unicodedata
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction

from sqlalchemy import Connection, select

from app.catalog.products import LIVE, RETIRED, WITHDRAWN
from app.catalog.views import product_view
from app.store.schema import chains, datasets, products
from app.views import ProductView, TierView

__all__ = ["PUBLIC", "Search", "find_products", "folded"]

PUBLIC = (LIVE, RETIRED, WITHDRAWN)
"""States that everybody may know of: neither drafts nor analysts' own questions."""


@dataclass(frozen=True, slots=True)
class Search:
    """What is looked for; what is None is not asked.

    Args:       words: all must occur in title, description, or the dataset's title or description. epsilon,
                max_price_minor: one and the same offered tier has this ε and costs at most this. on_sale: true for
                live products with such a tier that the budget still admits, false for the others, retired and
                withdrawn ones included; without it, live products.
    """

    words: str = ""
    dataset: str | None = None
    currency: str | None = None
    epsilon: Fraction | None = None
    max_price_minor: int | None = None
    on_sale: bool | None = None


def find_products(connection: Connection, search: Search, *, after: int, count: int) -> list[ProductView]:
    """Return up to `count` products that match, in order of publication, from the one after leaf `after`."""
    wanted = (
        select(
            products.c.id,
            products.c.title,
            products.c.description,
            datasets.c.title.label("dataset_title"),
            datasets.c.description.label("dataset_description"),
        )
        .join(datasets, datasets.c.id == products.c.dataset_id)
        .join(chains, chains.c.id == products.c.chain_id)
        .where(products.c.leaf_index > after)
        .order_by(products.c.leaf_index)
    )
    states = PUBLIC if search.on_sale is False else (LIVE,)
    wanted = wanted.where(products.c.state.in_(states))
    if search.dataset is not None:
        wanted = wanted.where(products.c.dataset_id == search.dataset)
    if search.currency is not None:
        wanted = wanted.where(chains.c.currency == search.currency)
    words, fits = folded(search.words).split(), _fits(search)
    found: list[ProductView] = []
    for identity, *texts in connection.execute(wanted):
        text = folded("\n".join(texts))
        if all(word in text for word in words):
            view = product_view(connection, identity)
            if fits(view):
                found.append(view)
        if len(found) == count:
            break
    return found


def folded(text: str) -> str:
    """Return text as it is compared: compatibility forms composed, case folded.

    Example:
        >>> folded("ÉTÉ ﬁn"), folded("E\u0301te\u0301") == folded("été")
        ('été fin', True)
    """
    return unicodedata.normalize("NFKC", unicodedata.normalize("NFKC", text).casefold())


def _fits(search: Search) -> Callable[[ProductView], bool]:
    def tier_fits(tier: TierView) -> bool:
        if search.epsilon is not None and Fraction(tier.epsilon) != search.epsilon:
            return False
        return search.max_price_minor is None or tier.price_minor <= search.max_price_minor

    def fits(view: ProductView) -> bool:
        wanted = [tier for tier in view.tiers if tier_fits(tier)]
        if search.on_sale is None:
            return bool(wanted)
        sold = view.state == LIVE and any(tier.admitted for tier in wanted)
        return sold if search.on_sale else bool(wanted) and not sold

    return fits
