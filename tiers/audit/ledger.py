"""A3: the ledger replayed sale by sale; at no prefix does a dataset exceed its budget."""

from array import array
from collections.abc import Mapping
from functools import lru_cache

from tiers.accounting.charges import LedgerKind
from tiers.accounting.levels import LevelRule, level_rules
from tiers.audit.charges import Account
from tiers.audit.findings import Finding
from tiers.audit.once import Once
from tiers.audit.records import BudgetRecord, ClaimedTier, CreditRecord, DrawRecord, PlanRecord, SaleRecord, joined
from tiers.errors import TierError
from tiers.identity import TierLaw

__all__ = ["LedgerReplay"]


class LedgerReplay:
    """The ledger of a log that is read once, in order; its memory grows with plans and with 32 bytes a sale.

    Law:        that of `Account`, one a lineage; in a pure ledger a sale charges (level − highest issued level)₊ of its
                chain, in another the first sale charges the highest level planned by then, and no tier above it is
                ever drawn or sold. Σ charges ≤ budget at every prefix.
    Example:
        >>> LedgerReplay().finish()
        []
    """

    def __init__(self) -> None:
        self.orders = Once()
        self._prices = array("q")
        self._accounts: dict[str, Account] = {}
        self._lineages: dict[str, str] = {}
        self._products: dict[str, str] = {}
        self._offers: dict[str, Mapping[str, TierLaw]] = {}
        self._withdrawn: dict[str, int] = {}
        self._frozen: dict[str, int] = {}
        self._credits: list[CreditRecord] = []

    def budget(self, record: BudgetRecord) -> list[Finding]:
        """Open a lineage's account, the first one counts; return a finding where its promise is none."""
        if record.lineage in self._accounts:
            return []
        try:
            self._accounts[record.lineage] = Account(record.kind, record.budget_nano, record.promise)
        except (TierError, ArithmeticError) as error:
            return [Finding("A3", "promise", f"leaf {record.leaf}", str(record.promise)[:80], str(error)[:200])]
        return []

    def kind(self, lineage: str) -> LedgerKind:
        """Return the kind of a lineage's ledger; pure where none is open."""
        account = self._accounts.get(lineage)
        return LedgerKind.PURE if account is None else account.kind

    def plan(self, record: PlanRecord) -> list[Finding]:
        """Learn what a plan offers, and return what has no charge; a product belongs to its first plan's chain."""
        lineage = self._lineages.setdefault(record.chain, record.lineage)
        self._products.setdefault(record.product, record.chain)
        self._offers[record.product] = joined(self._offers.get(record.product), record.laws)
        account = self._accounts.get(lineage)
        if account is None:
            return []
        by = _rules(account.kind, record.tiers)
        return account.plan(record.chain, record.laws.values(), f"leaf {record.leaf}", by)

    def draw(self, record: DrawRecord) -> list[Finding]:
        """Return a finding where a draw lies above what its chain reserved."""
        account = self._accounts.get(self._lineages.get(record.spec.chain, ""))
        return [] if account is None else account.draw(record.spec.chain, record.spec.law, f"leaf {record.leaf}")

    def withdraw(self, product: str, leaf: int) -> None:
        """Take a product off sale from this leaf on."""
        self._withdrawn.setdefault(product, leaf)

    def freeze(self, chain: str, leaf: int) -> None:
        """Let nothing of a chain be sold from this leaf on."""
        self._frozen.setdefault(chain, leaf)

    def thaw(self, chain: str) -> None:
        """Let a frozen chain be sold again."""
        self._frozen.pop(chain, None)

    def credit(self, record: CreditRecord) -> None:
        """Note money given back; it is held against its order at the end."""
        self._credits.append(record)

    def judge(self, sale: SaleRecord) -> list[Finding]:
        """Return what is wrong with a sale as the next one; the ledger stays as it is."""
        found, account = self._judge(sale)
        if account is not None:
            found += account.judge(sale.chain, sale.law, sale.charge_nano, f"leaf {sale.leaf}")
        return found

    def sale(self, sale: SaleRecord) -> list[Finding]:
        """Take the next sale, and return what is wrong with it."""
        self.paid(sale.order, sale.leaf, sale.price_minor)
        found, account = self._judge(sale)
        if account is not None:
            found += account.sale(sale.chain, sale.law, sale.charge_nano, f"leaf {sale.leaf}")
        return found

    def paid(self, order: str, leaf: int, price_minor: int) -> None:
        """Note what an order paid, of whatever was sold: it has one leaf, and its credits stay within it."""
        self.orders.add(order, leaf)
        self._prices.append(max(price_minor, 0))

    def finish(self) -> list[Finding]:
        """Return what only the whole log shows: orders with two leaves, and credits beyond what was paid."""
        found = [
            Finding("A3", "one-leaf-an-order", f"leaf {later}", "an order of its own", f"the order of leaf {first}")
            for first, later in self.orders.repeated()
        ]
        returned: dict[str, int] = {}
        for credit in self._credits:
            number = self.orders.first(credit.order)
            sold, price = (credit.leaf, 0) if number is None else (self.orders.place(number), self._prices[number])
            returned[credit.order] = returned.get(credit.order, 0) + credit.amount_minor
            if sold >= credit.leaf or returned[credit.order] > price:
                claimed = f"{returned[credit.order]} returned"
                found.append(Finding("A3", "credit", f"leaf {credit.leaf}", claimed, f"{price} paid before"))
        return found

    def _judge(self, sale: SaleRecord) -> tuple[list[Finding], Account | None]:
        """What is wrong with a sale before it is charged, and the account to charge."""
        found = []
        lineage = self._lineages.get(sale.chain)
        planned = self._products.get(sale.product, sale.chain)
        if planned != sale.chain:
            found.append(_wrong("product-of-chain", sale, sale.product, f"planned on {planned}"))
        if lineage is None or sale.law not in self._offers.get(sale.product, ()):
            found.append(_wrong("planned", sale, sale.law, "no earlier plan offers this law on this chain"))
            return found, None
        if self._withdrawn and sale.product in self._withdrawn:
            withdrawn = f"withdrawn at leaf {self._withdrawn[sale.product]}"
            found.append(_wrong("withdrawn", sale, sale.product, withdrawn))
        if self._frozen and sale.chain in self._frozen:
            frozen = f"frozen at leaf {self._frozen[sale.chain]}"
            found.append(_wrong("frozen", sale, sale.chain[:16], frozen))
        if sale.price_minor < 0:
            found.append(_wrong("price", sale, str(sale.price_minor), "a price ≥ 0"))
        account = self._accounts.get(lineage)
        if account is None:
            found.append(_wrong("budget-declared", sale, lineage, "no earlier leaf declares a budget"))
        return found, account


def _wrong(rule: str, sale: SaleRecord, claimed: str, otherwise: str) -> Finding:
    return Finding("A3", rule, f"leaf {sale.leaf}", claimed[:80], otherwise)


@lru_cache(maxsize=4096)
def _rules(kind: LedgerKind, tiers: tuple[ClaimedTier, ...]) -> frozenset[LevelRule]:
    return level_rules(kind, ((tier.law, tier.level_nano) for tier in tiers))
