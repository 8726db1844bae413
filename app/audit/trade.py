"""A3 of the money: books, prices and licences as they were in force at each place of the log."""

from collections.abc import Iterable
from dataclasses import dataclass, field

from app.log.leaves import BookLeaf, CreditLeaf, DatasetLeaf, Leaf, PlanLeaf, SaleLeaf
from pricing.book import PriceBook, TierPrice
from pricing.errors import PricingError
from pricing.scarcity import ReserveCurve
from tiers.accounting.conversions import rho_star_nano
from tiers.audit.findings import Finding
from tiers.audit.records import History, PlanRecord
from tiers.budget import parse_decimal
from tiers.errors import TierError
from tiers.identity import TierLaw
from tiers.rank import by_accuracy

__all__ = ["check_trade"]


def check_trade(leaves: Iterable[Leaf], history: History) -> tuple[Finding, ...]:
    """Return every book, sale and credit that does not fit what was in force.

    A chain's first plan opens its book at version 1; a price-book leaf brings the next version, with a price for every
    law of the chain. Later plans quote the book in force. A sale names that book's version and currency and its own
    product's licence, and costs at most the list price, or, where the dataset declared a reserve, the reserve that its
    charge calls for. It may cost less: upgrades are credited, analysts pay nothing.
    """
    books = _Books({plan.leaf: plan for plan in history.plans})
    for leaf in leaves:
        match leaf:
            case DatasetLeaf():
                books.dataset(leaf)
            case PlanLeaf():
                books.plan(leaf)
            case BookLeaf():
                books.reprice(leaf)
            case SaleLeaf():
                books.sale(leaf)
            case CreditLeaf():
                books.credit(leaf)
            case _:
                pass
    return tuple(books.found)


@dataclass(slots=True)
class _Books:
    """What is in force at one place of the log."""

    records: dict[int, PlanRecord]
    found: list[Finding] = field(default_factory=list)
    curves: dict[str, ReserveCurve] = field(default_factory=dict)
    budgets: dict[str, int] = field(default_factory=dict)
    lineages: dict[str, str] = field(default_factory=dict)
    laws: dict[str, dict[str, TierLaw]] = field(default_factory=dict)
    books: dict[str, PriceBook] = field(default_factory=dict)
    licences: dict[str, str] = field(default_factory=dict)
    currencies: dict[str, str] = field(default_factory=dict)
    spent: dict[str, int] = field(default_factory=dict)

    def say(self, rule: str, leaf: Leaf, claimed: str, otherwise: str) -> None:
        self.found.append(Finding("A3", rule, f"leaf {leaf.index}", claimed[:60], otherwise[:200]))

    def dataset(self, leaf: DatasetLeaf) -> None:
        self.budgets.setdefault(leaf.lineage, leaf.budget_nano)
        self._promise(leaf)
        if leaf.reserve_minor is None:
            return
        low, high = leaf.reserve_minor
        try:
            self.curves.setdefault(leaf.lineage, ReserveCurve(low, high, leaf.budget_nano))
        except (PricingError, ArithmeticError) as error:
            self.say("reserve", leaf, str(leaf.reserve_minor), str(error))

    def _promise(self, leaf: DatasetLeaf) -> None:
        """An approximate budget's ρ is the most that its ε and δ allow."""
        if leaf.promise is None:
            return
        try:
            epsilon, delta = (parse_decimal(name, text) for name, text in zip("εδ", leaf.promise, strict=True))
            due = rho_star_nano(epsilon, delta)
        except (TierError, ArithmeticError) as error:
            self.say("promise", leaf, str(leaf.promise), str(error))
            return
        if due != leaf.budget_nano:
            self.say("promise", leaf, str(leaf.budget_nano), str(due))

    def plan(self, leaf: PlanLeaf) -> None:
        self.licences.setdefault(leaf.product, leaf.licence)
        record = self.records.get(leaf.index)
        if record is None:
            return  # found unreadable
        self.lineages.setdefault(leaf.chain, leaf.lineage)
        known = self.laws.setdefault(leaf.chain, {})
        known.update({tier.law.identity: tier.law for tier in record.tiers})
        prices = {
            claimed.law.identity: tier.price_minor for claimed, tier in zip(record.tiers, leaf.tiers, strict=True)
        }
        book = self.books.get(leaf.chain)
        if book is None:
            if leaf.book_version != 1:
                self.say("book-version", leaf, f"version {leaf.book_version}", "1, for the first book of a chain")
            self._open(leaf, leaf.chain, leaf.currency, leaf.book_version, prices)
            return
        listed = {tier.law: tier.price for tier in book.tiers}
        due = book.version + bool(set(prices) - set(listed))  # a plan that adds tiers opens the next book
        if (leaf.book_version, leaf.currency) != (due, book.currency):
            claimed = f"version {leaf.book_version} in {leaf.currency}"
            self.say("book-version", leaf, claimed, f"version {due} in {book.currency}")
        if any(listed.get(law, price) != price for law, price in prices.items()):
            self.say("book-in-force", leaf, str(list(prices.values())), str([listed.get(law) for law in prices]))
        if due > book.version:
            self._open(leaf, leaf.chain, leaf.currency, leaf.book_version, {**prices, **listed})

    def reprice(self, leaf: BookLeaf) -> None:
        book, known = self.books.get(leaf.chain), self.laws.get(leaf.chain, {})
        if book is None or set(leaf.prices_minor) != set(known):
            self.say("book-of-chain", leaf, f"{len(leaf.prices_minor)} prices", f"the chain's {len(known)} laws")
            return
        if leaf.book_version != book.version + 1:
            self.say("book-version", leaf, f"version {leaf.book_version}", f"version {book.version + 1}")
        self._open(leaf, leaf.chain, leaf.currency, leaf.book_version, leaf.prices_minor)

    def _open(self, leaf: Leaf, chain: str, currency: str, version: int, prices: dict[str, int]) -> None:
        ranked = [law.identity for law in by_accuracy(self.laws[chain][law] for law in prices)]
        try:
            self.books[chain] = PriceBook(
                chain, version, currency, tuple(TierPrice(law, prices[law]) for law in ranked)
            )
        except PricingError as error:
            self.say("book", leaf, str([prices[law] for law in ranked]), str(error))

    def sale(self, leaf: SaleLeaf) -> None:
        self.currencies.setdefault(leaf.order, leaf.currency)
        if self.licences.get(leaf.product) != leaf.licence:
            self.say("licence", leaf, leaf.licence, self.licences.get(leaf.product, "no earlier plan")[:60])
        book = self.books.get(leaf.chain)
        listed = {} if book is None else {tier.law: tier.price for tier in book.tiers}
        if book is None or leaf.law not in listed:
            self.say("listed", leaf, leaf.law, "no book in force lists it")
            return
        if (leaf.book_version, leaf.currency) != (book.version, book.currency):
            claimed = f"version {leaf.book_version} in {leaf.currency}"
            self.say("book-version", leaf, claimed, f"version {book.version} in {book.currency}")
        reserve = self._reserve(leaf)
        if leaf.price_minor > max(listed[leaf.law], reserve):
            self.say("price", leaf, str(leaf.price_minor), f"list {listed[leaf.law]}, reserve {reserve}")

    def _reserve(self, leaf: SaleLeaf) -> int:
        """Count the sale's charge, and return what the lineage's reserve curve asks for it."""
        lineage = self.lineages[leaf.chain]
        due, used = leaf.charge_nano, self.spent.get(lineage, 0)  # that it is the charge due is checked by the ledger
        self.spent[lineage] = used + due
        curve = self.curves.get(lineage)
        if curve is None or due == 0 or used + due > self.budgets[lineage]:
            return 0
        try:
            return curve.between(used, used + due)
        except (PricingError, ArithmeticError):
            return 0

    def credit(self, leaf: CreditLeaf) -> None:
        currency = self.currencies.get(leaf.order)
        if currency != leaf.currency:
            self.say("credit-currency", leaf, leaf.currency, currency or "no earlier sale")
