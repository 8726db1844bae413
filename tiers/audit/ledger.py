"""A3: the ledger replayed sale by sale; at no prefix does a dataset exceed its budget."""

from array import array
from dataclasses import dataclass, field

from tiers.accounting.charges import ChargeRule, LedgerKind, charge_nano
from tiers.accounting.filters import PureFilter
from tiers.accounting.levels import rule_of, tier_level
from tiers.audit.findings import Finding
from tiers.audit.once import Once
from tiers.audit.records import BudgetRecord, CreditRecord, History, PlanRecord, SaleRecord
from tiers.errors import BudgetExceededError, InvalidParameterError
from tiers.identity import TierLaw

__all__ = ["LedgerReplay", "check_ledger"]


@dataclass(slots=True)
class _Chain:
    """What the ledger knows of a chain: its lineage, the laws planned by now, what it has been charged."""

    lineage: str
    laws: dict[str, TierLaw] = field(default_factory=dict)
    levels: dict[str, tuple[ChargeRule, int]] = field(default_factory=dict)
    charged: int = 0

    def due(self, kind: LedgerKind, law: str) -> int:
        """Return what selling a law adds to the chain's charge; raises InvalidParameterError where nothing may."""
        rule, level = self._level(kind, law)
        top = (
            level if kind is LedgerKind.PURE or self.charged else max(self._level(kind, each)[1] for each in self.laws)
        )
        return charge_nano(rule, level, top, self.charged)

    def _level(self, kind: LedgerKind, law: str) -> tuple[ChargeRule, int]:
        if law not in self.levels:
            self.levels[law] = rule_of(kind, self.laws[law]), tier_level(kind, self.laws[law])
        return self.levels[law]


class LedgerReplay:
    """The ledger of a log that is read once, in order; its memory grows with plans and with 32 bytes a sale.

    Law:        in a pure ledger a sale charges (level − highest issued level)₊ of its chain; in another the first sale
                charges the highest level planned by then, and no tier above it is ever sold. Σ charges ≤ budget at
                every prefix: one filter for all kinds.
    Example:
        >>> LedgerReplay().finish()
        []
    """

    def __init__(self) -> None:
        self.orders = Once()
        self._prices = array("q")
        self.kinds: dict[str, LedgerKind] = {}
        self._filters: dict[str, PureFilter] = {}
        self._chains: dict[str, _Chain] = {}
        self._products: dict[str, str] = {}
        self._offers: dict[str, set[str]] = {}
        self._withdrawn: dict[str, int] = {}
        self._frozen: dict[str, int] = {}
        self._credits: list[CreditRecord] = []

    def budget(self, record: BudgetRecord) -> None:
        """Open a lineage's filter; the first one counts."""
        self.kinds.setdefault(record.lineage, record.kind)
        self._filters.setdefault(record.lineage, PureFilter(record.budget_nano))

    def plan(self, record: PlanRecord) -> None:
        """Learn what a plan offers; a product belongs to its first plan's chain."""
        chain = self._chains.setdefault(record.chain, _Chain(record.lineage))
        self._products.setdefault(record.product, record.chain)
        offered = self._offers.setdefault(record.product, set())
        for tier in record.tiers:
            law = tier.law.identity
            offered.add(law)
            chain.laws.setdefault(law, tier.law)

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
        return self._judge(sale)[0]

    def sale(self, sale: SaleRecord) -> list[Finding]:
        """Take the next sale, and return what is wrong with it."""
        self.orders.add(sale.order, sale.leaf)
        self._prices.append(max(sale.price_minor, 0))
        found, due, after = self._judge(sale)
        if after is not None:
            chain = self._chains[sale.chain]
            chain.charged += due
            self._filters[chain.lineage] = after
        return found

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

    def _judge(self, sale: SaleRecord) -> tuple[list[Finding], int, PureFilter | None]:
        """Findings, the charge due, and the filter after it, as before where it is too much; None where none is due."""
        chain, found = self._chains.get(sale.chain), []
        planned = self._products.get(sale.product, sale.chain)
        if planned != sale.chain:
            found.append(_wrong("product-of-chain", sale, sale.product, f"planned on {planned}"))
        if chain is None or sale.law not in chain.laws or sale.law not in self._offers.get(sale.product, ()):
            found.append(_wrong("planned", sale, sale.law, "no earlier plan offers this law on this chain"))
            return found, 0, None
        if self._withdrawn and sale.product in self._withdrawn:
            withdrawn = f"withdrawn at leaf {self._withdrawn[sale.product]}"
            found.append(_wrong("withdrawn", sale, sale.product, withdrawn))
        if self._frozen and sale.chain in self._frozen:
            frozen = f"frozen at leaf {self._frozen[sale.chain]}"
            found.append(_wrong("frozen", sale, sale.chain[:16], frozen))
        if sale.price_minor < 0:
            found.append(_wrong("price", sale, str(sale.price_minor), "a price ≥ 0"))
        before = self._filters.get(chain.lineage)
        if before is None:
            found.append(_wrong("budget-declared", sale, chain.lineage, "no earlier leaf declares a budget"))
            return found, 0, None
        try:
            due = chain.due(self.kinds[chain.lineage], sale.law)
        except InvalidParameterError as error:
            found.append(_wrong("chargeable", sale, sale.law, str(error)[:200]))
            return found, 0, None
        if sale.charge_nano != due:
            found.append(_wrong("increment", sale, str(sale.charge_nano), str(due)))
        if due == 0:
            return found, due, before
        try:
            return found, due, before.charge(due)
        except BudgetExceededError as error:
            remaining = f"{error.remaining_nano} remaining"
            found.append(_wrong("budget", sale, str(error.requested_nano), remaining))
            return found, due, before


def check_ledger(history: History) -> tuple[Finding, ...]:
    """Return every charge that is not the chain's increment, every sale over budget, unplanned, withdrawn or repeated.

    Law:        that of `LedgerReplay`, over a history that is at hand as a whole.
    Example:
        >>> check_ledger(History((), {}, {}, (), (), ()))
        ()
    """
    replayed, found = LedgerReplay(), []
    withdrawals = [(leaf, product) for product, leaf in history.withdrawn.items()]
    records: list[BudgetRecord | PlanRecord | SaleRecord | CreditRecord]
    records = [*history.budgets, *history.plans, *history.sales, *history.credits]
    for record in sorted(records, key=lambda each: each.leaf):
        while withdrawals and min(withdrawals)[0] < record.leaf:
            leaf, product = min(withdrawals)
            withdrawals.remove((leaf, product))
            replayed.withdraw(product, leaf)
        match record:
            case BudgetRecord():
                replayed.budget(record)
            case PlanRecord():
                replayed.plan(record)
            case SaleRecord():
                found += replayed.sale(record)
            case CreditRecord():
                replayed.credit(record)
    return (*found, *replayed.finish())


def _wrong(rule: str, sale: SaleRecord, claimed: str, otherwise: str) -> Finding:
    return Finding("A3", rule, f"leaf {sale.leaf}", claimed[:80], otherwise)
