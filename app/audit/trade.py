"""A3 of the money: books, prices and licences as they were in force at each place of the log."""

from array import array
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache

from app.log.leaves import BookLeaf, CreditLeaf, DatasetLeaf, Leaf, PlanLeaf, SaleLeaf
from pricing.book import PriceBook, TierPrice
from pricing.errors import PricingError
from pricing.scarcity import ReserveCurve
from tiers.accounting.conversions import rho_star_nano
from tiers.audit.findings import Finding
from tiers.audit.once import Once
from tiers.audit.records import PlanRecord, joined
from tiers.budget import parse_decimal
from tiers.errors import TierError
from tiers.identity import TierLaw
from tiers.rank import by_accuracy

__all__ = ["Trade"]


@dataclass(frozen=True, slots=True)
class _Book:
    """A book in force: one object for all chains that have equal ones."""

    version: int
    currency: str
    listed: Mapping[str, int]


class Trade:
    """What is in force at one place of a log that is read in order; what is wrong gathers in `found`.

    A chain's first plan opens its book at version 1; a price-book leaf brings the next version, with a price for every
    law of the chain. Later plans quote the book in force, and open the
    next one where they add tiers. A sale names that book's version and currency and its own
    product's licence, and costs at most the list price, or, where the dataset declared a reserve, the reserve that its
    charge calls for. It may cost less: upgrades are credited, analysts pay nothing.
    """

    def __init__(self) -> None:
        self.found: list[Finding] = []
        self._curves: dict[str, ReserveCurve] = {}
        self._budgets: dict[str, int] = {}
        self._lineages: dict[str, str] = {}
        self._laws: dict[str, Mapping[str, TierLaw]] = {}
        self._books: dict[str, _Book] = {}
        self._licences: dict[str, str] = {}
        self._currencies: dict[str, int] = {}
        self._paid_in = array("H")
        self._credits: list[CreditLeaf] = []
        self._spent: dict[str, int] = {}

    def _say(self, rule: str, leaf: Leaf, claimed: str, otherwise: str) -> None:
        self.found.append(Finding("A3", rule, f"leaf {leaf.index}", claimed[:60], otherwise[:200]))

    def dataset(self, leaf: DatasetLeaf) -> None:
        """Take a dataset, with its reserve curve where it declares one."""
        self._budgets.setdefault(leaf.lineage, leaf.budget_nano)
        self._promise(leaf)
        if leaf.reserve_minor is None:
            return
        low, high = leaf.reserve_minor
        try:
            self._curves.setdefault(leaf.lineage, ReserveCurve(low, high, leaf.budget_nano))
        except (PricingError, ArithmeticError) as error:
            self._say("reserve", leaf, str(leaf.reserve_minor), str(error))

    def _promise(self, leaf: DatasetLeaf) -> None:
        """An approximate budget's ρ is the most that its ε and δ allow."""
        if leaf.promise is None:
            return
        try:
            epsilon, delta = (parse_decimal(name, text) for name, text in zip("εδ", leaf.promise, strict=True))
            due = rho_star_nano(epsilon, delta)
        except (TierError, ArithmeticError) as error:
            self._say("promise", leaf, str(leaf.promise), str(error))
            return
        if due != leaf.budget_nano:
            self._say("promise", leaf, str(leaf.budget_nano), str(due))

    def plan(self, leaf: PlanLeaf, record: PlanRecord | None) -> None:
        """Take a plan; the first of a chain opens its book."""
        self._licences.setdefault(leaf.product, leaf.licence)
        if record is None:
            return  # found unreadable
        self._lineages.setdefault(leaf.chain, leaf.lineage)
        self._laws[leaf.chain] = joined(self._laws.get(leaf.chain), record.laws)
        prices = {
            claimed.law.identity: tier.price_minor for claimed, tier in zip(record.tiers, leaf.tiers, strict=True)
        }
        book = self._books.get(leaf.chain)
        if book is None:
            if leaf.book_version != 1:
                self._say("book-version", leaf, f"version {leaf.book_version}", "1, for the first book of a chain")
            self._open(leaf, leaf.chain, leaf.currency, leaf.book_version, prices)
            return
        listed = book.listed
        due = book.version + bool(set(prices) - set(listed))  # a plan that adds tiers opens the next book
        if (leaf.book_version, leaf.currency) != (due, book.currency):
            claimed = f"version {leaf.book_version} in {leaf.currency}"
            self._say("book-version", leaf, claimed, f"version {due} in {book.currency}")
        if any(listed.get(law, price) != price for law, price in prices.items()):
            self._say("book-in-force", leaf, str(list(prices.values())), str([listed.get(law) for law in prices]))
        if due > book.version:
            self._open(leaf, leaf.chain, leaf.currency, leaf.book_version, {**prices, **listed})

    def reprice(self, leaf: BookLeaf) -> None:
        """Take a new version of a chain's book."""
        book, known = self._books.get(leaf.chain), self._laws.get(leaf.chain, {})
        if book is None or set(leaf.prices_minor) != set(known):
            self._say("book-of-chain", leaf, f"{len(leaf.prices_minor)} prices", f"the chain's {len(known)} laws")
            return
        if leaf.book_version != book.version + 1:
            self._say("book-version", leaf, f"version {leaf.book_version}", f"version {book.version + 1}")
        self._open(leaf, leaf.chain, leaf.currency, leaf.book_version, leaf.prices_minor)

    def _open(self, leaf: Leaf, chain: str, currency: str, version: int, prices: dict[str, int]) -> None:
        known = self._laws[chain]
        ranked = tuple((law.identity, prices[law.identity]) for law in by_accuracy(known[law] for law in prices))
        try:
            self._books[chain] = _book(version, currency, ranked)
        except PricingError as error:
            self._say("book", leaf, str([price for _, price in ranked]), str(error))

    def sale(self, leaf: SaleLeaf) -> None:
        """Take a sale: its licence, the book that it names, its price."""
        self.paid(leaf.currency)
        if self._licences.get(leaf.product) != leaf.licence:
            self._say("licence", leaf, leaf.licence, self._licences.get(leaf.product, "no earlier plan")[:60])
        book = self._books.get(leaf.chain)
        price = None if book is None else book.listed.get(leaf.law)
        if book is None or price is None:
            self._say("listed", leaf, leaf.law, "no book in force lists it")
            return
        if leaf.book_version != book.version or leaf.currency != book.currency:
            claimed = f"version {leaf.book_version} in {leaf.currency}"
            self._say("book-version", leaf, claimed, f"version {book.version} in {book.currency}")
        reserve = self._reserve(leaf) if self._curves else 0
        if leaf.price_minor > price and leaf.price_minor > reserve:
            self._say("price", leaf, str(leaf.price_minor), f"list {price}, reserve {reserve}")

    def paid(self, currency: str) -> None:
        """Note in which currency the next order was paid."""
        self._paid_in.append(self._currencies.setdefault(currency, len(self._currencies)))

    def _reserve(self, leaf: SaleLeaf) -> int:
        """Count the sale's charge, and return what the lineage's reserve curve asks for it."""
        lineage = self._lineages[leaf.chain]
        curve = self._curves.get(lineage)
        if curve is None:
            return 0
        due, used = leaf.charge_nano, self._spent.get(lineage, 0)  # that it is the charge due is checked by the ledger
        self._spent[lineage] = used + due
        if due == 0 or used + due > self._budgets[lineage]:
            return 0
        try:
            return curve.between(used, used + due)
        except (PricingError, ArithmeticError):
            return 0

    def credit(self, leaf: CreditLeaf) -> None:
        """Note a credit; its currency is held against its order's at the end."""
        self._credits.append(leaf)

    def finish(self, orders: Once) -> list[Finding]:
        """Return everything that was found; `orders` are those of the same sales, in the same order."""
        names = list(self._currencies)
        for leaf in self._credits:
            number = orders.first(leaf.order)
            earlier = number is not None and orders.place(number) < leaf.index
            currency = names[self._paid_in[number]] if number is not None and earlier else "no earlier sale"
            if currency != leaf.currency:
                self._say("credit-currency", leaf, leaf.currency, currency)
        return self.found


@lru_cache(maxsize=4096)
def _book(version: int, currency: str, ranked: tuple[tuple[str, int], ...]) -> _Book:
    """Return the book of these prices, most accurate law first; raises PricingError where it is none."""
    PriceBook("chain", version, currency, tuple(TierPrice(law, price) for law, price in ranked))
    return _Book(version, currency, dict(ranked))
