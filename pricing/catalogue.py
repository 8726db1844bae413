"""What is on sale, as an attacker sees it: rows over disjoint bins, a variance, a price; chains, bundles."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from math import isfinite

from pricing.book import PriceBook
from pricing.errors import CurrencyMismatchError, InvalidProductError, UnknownTierError
from pricing.money import check_currency, check_minor

__all__ = ["CATALOGUE_LIMIT", "VARIANCES", "Bundle", "Catalogue", "Good", "Product", "products_of"]

CATALOGUE_LIMIT = 2000
_COEFFICIENTS = (1e-6, 1e6)
VARIANCES = (1e-12, 1e18)
_SHAPE_LIMIT = 4096


@dataclass(frozen=True, slots=True)
class Product:
    """One tier of one chain: for each row, Σ coefficient·bin plus noise of the given variance, independent over chains.

    Args:       name: unique in its catalogue. chain_id: tiers of one chain are derived from each other. rows: the
                query's coefficients over the catalogue's bins, one row a coordinate. variance: of each coordinate's
                noise, > 0. price: minor units; None where it is sold in bundles only. currency: ISO 4217.
    Raises:     InvalidProductError: no row, ragged, zero or non-finite rows, or magnitudes no solver can compare.
                InvalidPriceError: a bad price or currency.
    Example:
                >>> Product("total@1", "c1", ((1, 1),), 1.84, 3000, "EUR").price
                3000
    """

    name: str
    chain_id: str
    rows: tuple[tuple[float, ...], ...]
    variance: float
    price: int | None
    currency: str

    def __post_init__(self) -> None:
        _check_name("product", self.name)
        _check_name("chain_id", self.chain_id)
        if self.price is not None:
            check_minor(f"price of {self.name!r}", self.price)
        check_currency(self.currency)
        low, high = VARIANCES
        if not _is_number(self.variance) or not low <= self.variance <= high:
            raise InvalidProductError(f"variance of {self.name!r}", f"a number from {low} to {high}", self.variance)
        if not self.rows or not self.rows[0] or len(self.rows) * len(self.rows[0]) > _SHAPE_LIMIT:
            raise InvalidProductError(f"rows of {self.name!r}", f"1 to {_SHAPE_LIMIT} coefficients", len(self.rows))
        for row in self.rows:
            _check_row(self.name, row, len(self.rows[0]))


@dataclass(frozen=True, slots=True)
class Bundle:
    """Several products sold together at one price; of one chain's tiers only the best counts.

    Raises:     InvalidProductError: no part, or a part twice. InvalidPriceError: a bad price.
    Example:
                >>> Bundle("starter", ("total@1", "north@1"), 4500).parts
                ('total@1', 'north@1')
    """

    name: str
    parts: tuple[str, ...]
    price: int

    def __post_init__(self) -> None:
        _check_name("bundle", self.name)
        check_minor(f"price of {self.name!r}", self.price)
        if not self.parts or len(set(self.parts)) < len(self.parts):
            raise InvalidProductError(f"parts of {self.name!r}", "at least one product, each once", self.parts)


@dataclass(frozen=True, slots=True)
class Good:
    """Anything with a price tag: its name, its price, and the places of its products in the catalogue.

    Example:
                >>> Good("starter", 4500, (0, 2)).parts
                (0, 2)
    """

    name: str
    price: int
    parts: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Catalogue:
    """Everything that can be bought together, checked to be comparable.

    Raises:     InvalidProductError: nothing on sale or too much, a name twice, an unknown part, rows of different
                widths, tiers of one chain with different rows or with one variance (one good, two prices).
                CurrencyMismatchError: two currencies.
    Example:
                >>> high = Product("total@1", "c1", ((1, 1),), 1.84, 3000, "EUR")
                >>> [good.name for good in Catalogue((high,)).goods]
                ['total@1']
    """

    products: tuple[Product, ...]
    bundles: tuple[Bundle, ...] = ()
    goods: tuple[Good, ...] = field(init=False, repr=False, compare=False)  # products, then bundles

    def __post_init__(self) -> None:
        if not 1 <= len(self.products) + len(self.bundles) <= CATALOGUE_LIMIT or not self.products:
            raise InvalidProductError("catalogue", f"1 to {CATALOGUE_LIMIT} goods", len(self.products))
        names = [product.name for product in self.products]
        every = names + [bundle.name for bundle in self.bundles]
        if len(set(every)) < len(every):
            twice = next(name for name in every if every.count(name) > 1)
            raise InvalidProductError("catalogue", "each name once", twice)
        for bundle in self.bundles:
            for part in bundle.parts:
                if part not in set(names):
                    raise InvalidProductError(f"parts of {bundle.name!r}", "products of the catalogue", part)
        self._check_chains()
        place = {name: index for index, name in enumerate(names)}
        singles = tuple(
            Good(product.name, product.price, (place[product.name],))
            for product in self.products
            if product.price is not None
        )
        packs = tuple(Good(pack.name, pack.price, tuple(place[part] for part in pack.parts)) for pack in self.bundles)
        object.__setattr__(self, "goods", singles + packs)

    def _check_chains(self) -> None:
        first = self.products[0]
        width = len(first.rows[0])
        chains: dict[str, Product] = {}
        seen: set[tuple[str, float]] = set()
        for product in self.products:
            if product.currency != first.currency:
                raise CurrencyMismatchError(first.currency, product.currency)
            if len(product.rows[0]) != width:
                raise InvalidProductError(f"rows of {product.name!r}", f"{width} bins", len(product.rows[0]))
            if chains.setdefault(product.chain_id, product).rows != product.rows:
                raise InvalidProductError(f"rows of {product.name!r}", "those of its chain's other tiers", product.rows)
            if (product.chain_id, product.variance) in seen:
                raise InvalidProductError(f"variance of {product.name!r}", "one law once a chain", product.variance)
            seen.add((product.chain_id, product.variance))

    def good(self, name: str) -> Good:
        """Return the good called `name`.

        Raises:     UnknownTierError: there is none.
        """
        for good in self.goods:
            if good.name == name:
                return good
        raise UnknownTierError("catalogue", name)


def products_of(
    book: PriceBook, rows: Sequence[Sequence[float]], variances: Mapping[str, float]
) -> tuple[Product, ...]:
    """Return one product for each tier of a price book, named "chain@law".

    Raises:     UnknownTierError: a listed law has no variance. InvalidProductError: variances that do not rise along
                the ranks, or as `Product`.
    Example:
                >>> from pricing.book import TierPrice
                >>> book = PriceBook("c1", 1, "EUR", (TierPrice("tsg:1", 3000),))
                >>> products_of(book, [[1, 1]], {"tsg:1": 1.84})[0].name
                'c1@tsg:1'
    """
    shape = tuple(tuple(row) for row in rows)
    products: list[Product] = []
    for tier in book.tiers:
        if tier.law not in variances:
            raise UnknownTierError(book.chain_id, f"no variance for {tier.law}")
        name, variance = f"{book.chain_id}@{tier.law}", variances[tier.law]
        products.append(Product(name, book.chain_id, shape, variance, tier.price, book.currency))
        if len(products) > 1 and variance <= products[-2].variance:
            raise InvalidProductError(f"variance of {name!r}", "above that of the more accurate tier", variance)
    return tuple(products)


def _check_name(name: str, value: str) -> None:
    if not isinstance(value, str) or not value:
        raise InvalidProductError(name, "a name", value)


def _is_number(value: float) -> bool:
    if isinstance(value, bool):
        return False
    try:
        return isfinite(value)
    except (TypeError, OverflowError):
        return False


def _check_row(name: str, row: Sequence[float], width: int) -> None:
    low, high = _COEFFICIENTS
    if len(row) != width or not any(row):
        raise InvalidProductError(f"rows of {name!r}", f"{width} coefficients each, not all zero", row)
    for entry in row:
        if not _is_number(entry) or (entry != 0 and not low <= abs(entry) <= high):
            raise InvalidProductError(f"rows of {name!r}", f"0 or magnitudes from {low} to {high}", entry)
