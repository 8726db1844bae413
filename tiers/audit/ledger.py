"""A3: the ledger replayed sale by sale; at no prefix does a dataset exceed its budget."""

from tiers.accounting.charges import LedgerKind, charge_nano
from tiers.accounting.filters import PureFilter
from tiers.accounting.levels import rule_of, tier_level
from tiers.audit.findings import Finding
from tiers.audit.records import History, SaleRecord
from tiers.errors import BudgetExceededError, InvalidParameterError
from tiers.identity import TierLaw

__all__ = ["check_ledger"]


def check_ledger(history: History) -> tuple[Finding, ...]:
    """Return every charge that is not the one due, every sale over budget, unplanned, withdrawn or repeated.

    Law:        in a pure ledger a sale charges (level − highest issued level)₊ of its chain; in another the first sale
                charges the highest level planned by then, and no tier above it is ever sold. Σ charges ≤ budget at
                every prefix: one filter for all kinds.
    Example:
        >>> check_ledger(History((), {}, {}, (), (), ()))
        ()
    """
    found: list[Finding] = []
    filters = {record.lineage: PureFilter(record.budget_nano) for record in history.budgets}
    opened = {record.lineage: record.leaf for record in history.budgets}
    lineages = {plan.chain: plan.lineage for plan in history.plans}
    laws = {(plan.chain, tier.law.identity): tier.law for plan in history.plans for tier in plan.tiers}
    kinds = history.kinds()
    offered = {(plan.product, tier.law.identity): plan.leaf for plan in history.plans for tier in plan.tiers}
    chains = {plan.product: plan.chain for plan in reversed(history.plans)}
    highest: dict[str, int] = {}
    orders: set[str] = set()
    for sale in history.sales:
        where = f"leaf {sale.leaf}"
        law = laws.get((sale.chain, sale.law))
        lineage = lineages.get(sale.chain)
        if chains.get(sale.product, sale.chain) != sale.chain:
            found.append(Finding("A3", "product-of-chain", where, sale.product, f"planned on {chains[sale.product]}"))
        if law is None or lineage is None or offered.get((sale.product, sale.law), sale.leaf) >= sale.leaf:
            found.append(Finding("A3", "planned", where, sale.law, "no earlier plan offers this law on this chain"))
            continue
        found += _sale(sale, history, orders)
        if opened.get(lineage, sale.leaf) >= sale.leaf:
            found.append(Finding("A3", "budget-declared", where, lineage, "no earlier leaf declares a budget"))
            continue
        kind, before = kinds.get(lineage, LedgerKind.PURE), highest.get(sale.chain, 0)
        try:
            due = _due(kind, law, _planned(history, sale), before)
        except InvalidParameterError as error:
            found.append(Finding("A3", "chargeable", where, sale.law, str(error)[:200]))
            continue
        if sale.charge_nano != due:
            found.append(Finding("A3", "increment", where, str(sale.charge_nano), str(due)))
        highest[sale.chain] = before + due
        try:
            filters[lineage] = filters[lineage].charge(due)
        except BudgetExceededError as error:
            claimed, remaining = str(error.requested_nano), f"{error.remaining_nano} remaining"
            found.append(Finding("A3", "budget", where, claimed, remaining))
    return (*found, *_credits(history))


def _planned(history: History, sale: SaleRecord) -> list[TierLaw]:
    """The laws of the sale's chain that were planned before it."""
    plans = (plan for plan in history.plans if plan.chain == sale.chain and plan.leaf < sale.leaf)
    return [tier.law for plan in plans for tier in plan.tiers]


def _due(kind: LedgerKind, law: TierLaw, planned: list[TierLaw], charged: int) -> int:
    level = tier_level(kind, law)
    top = level if kind is LedgerKind.PURE else max(tier_level(kind, each) for each in planned)
    return charge_nano(rule_of(kind, law), level, top, charged)


def _credits(history: History) -> list[Finding]:
    """Credits never exceed what their order paid, and never come before it."""
    paid = {sale.order: (sale.leaf, sale.price_minor) for sale in reversed(history.sales)}
    returned: dict[str, int] = {}
    found = []
    for credit in history.credits:
        sold, price = paid.get(credit.order, (credit.leaf, 0))
        returned[credit.order] = returned.get(credit.order, 0) + credit.amount_minor
        if sold >= credit.leaf or returned[credit.order] > price:
            claimed = f"{returned[credit.order]} returned"
            found.append(Finding("A3", "credit", f"leaf {credit.leaf}", claimed, f"{price} paid before"))
    return found


def _sale(sale: SaleRecord, history: History, orders: set[str]) -> list[Finding]:
    where = f"leaf {sale.leaf}"
    found = []
    if sale.order in orders:
        found.append(Finding("A3", "one-leaf-an-order", where, sale.order, "sold before"))
    orders.add(sale.order)
    if history.withdrawn.get(sale.product, sale.leaf) < sale.leaf:
        found.append(
            Finding("A3", "withdrawn", where, sale.product, f"withdrawn at leaf {history.withdrawn[sale.product]}")
        )
    if sale.price_minor < 0:
        found.append(Finding("A3", "price", where, str(sale.price_minor), "a price ≥ 0"))
    return found
