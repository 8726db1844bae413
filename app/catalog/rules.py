"""What a dataset's sales would have cost by each rule of charging, for the owner who chooses its ledger."""

from collections.abc import Iterable, Sequence
from fractions import Fraction
from typing import NamedTuple

import msgspec
from sqlalchemy import Connection, func, select

from app.catalog.ladders import level_rule
from app.ledger.budget import nano_text
from app.store.schema import chains, orders, planned_tiers
from tiers.accounting.charges import ChargeRule, LedgerKind, charge_rule
from tiers.accounting.curves import Spent, spent_epsilon
from tiers.accounting.rules import RuleCosts, Sold, rule_costs
from tiers.budget import NANO, decimal_text, nano_up
from tiers.identity import TierLaw

__all__ = ["ChainSales", "RuleView", "RulesView", "rules_view", "sales_of_dataset"]

_SHOWN = 100
_MOST = 10**6 * NANO  # ρ: what formula (3) is computed to


class _Rule(NamedTuple):
    """A rule as owners read it: its field in `RuleCosts`, its unit, and whether any ledger may charge so."""

    name: str
    field: str
    unit: str
    sound: bool
    meaning: str


_RULES = (
    _Rule("increment", "increment", "ε", True, "a chain costs its highest issued tier (pure ledgers)"),
    _Rule("apart", "epsilon_apart", "ε", True, "every sale a draw of its own"),
    _Rule("reserve", "reserve", "ρ", True, "a chain's highest tier is reserved at its first sale"),
    _Rule("conditional", "conditional", "ρ", True, "an upgrade costs the worst of what it tells beyond the tier below"),
    _Rule("apart", "rho_apart", "ρ", True, "every sale a draw of its own"),
    _Rule("difference", "difference", "ρ", False, "an upgrade costs the difference of ρ: unsound, for comparison only"),
)


class RuleView(msgspec.Struct, frozen=True, kw_only=True):
    """What all sales cost by a rule: `total` in its `unit`, None where the rule says nothing of some chain's noise.

    `epsilon` is the ε that the total comes to at the asked δ (at δ = 0 for a rule in ε), None above ρ = 10⁶. `used`
    marks the ledger's own rule.
    """

    rule: str
    unit: str
    meaning: str
    sound: bool
    used: bool
    total: str | None
    epsilon: str | None


class RulesView(msgspec.Struct, frozen=True, kw_only=True):
    """A dataset's sales by each rule, and the chains that cost most: each cost by "rule unit", or None."""

    dataset: str
    budget_kind: str
    delta: str
    sales: int
    rules: list[RuleView]
    chains: list[dict[str, str | None]]


class ChainSales(NamedTuple):
    """A chain that was sold: its tiers' levels, the tiers that it had when it was opened, and its sales in order."""

    chain: str
    levels: tuple[tuple[TierLaw, int], ...]
    planned: tuple[TierLaw, ...]
    sold: tuple[Sold, ...]


def sales_of_dataset(connection: Connection, dataset: str) -> list[ChainSales]:
    """Return every chain of a dataset that was sold, what was charged most first."""
    of_dataset = select(chains.c.id).where(chains.c.dataset_id == dataset)
    first = func.min(orders.c.leaf_index).label("first")
    counted = (
        select(orders.c.chain_id, orders.c.law, func.count().label("times"), first)
        .where(orders.c.chain_id.in_(of_dataset))
        .group_by(orders.c.chain_id, orders.c.law)
        .order_by(first)
    )
    sales: dict[str, list[tuple[str, int]]] = {}
    for row in connection.execute(counted):
        sales.setdefault(row.chain_id, []).append((row.law, row.times))
    laws: dict[str, dict[str, tuple[TierLaw, int]]] = {}
    opened: dict[str, list[TierLaw]] = {}
    for row in connection.execute(select(planned_tiers).where(planned_tiers.c.chain_id.in_(of_dataset))):
        law = TierLaw.from_document(msgspec.json.decode(row.law_json))
        laws.setdefault(row.chain_id, {})[row.law] = law, row.level_nano
        if row.added_at is None:
            opened.setdefault(row.chain_id, []).append(law)
    dearest = select(chains.c.id).where(chains.c.dataset_id == dataset).order_by(chains.c.highest_nano.desc())
    return [
        ChainSales(
            chain,
            tuple(laws[chain].values()),
            tuple(opened.get(chain, ())),
            tuple(Sold(laws[chain][law][0], times) for law, times in sales[chain]),
        )
        for chain in connection.execute(dearest.order_by(chains.c.id)).scalars()
        if chain in sales
    ]


def rules_view(dataset: str, kind: LedgerKind, sales: Sequence[ChainSales], delta: Fraction) -> RulesView:
    """Return what the sales cost by each rule; pure, and slow where a dataset has thousands of chains.

    Args:       delta: the δ at which a total in ρ is read as an ε, in (0, 1).
    Raises:     IntegrityError: stored levels that are not those of their laws.
    Example:
        >>> view = rules_view("data_1", LedgerKind.PURE, [], Fraction(1, 10**6))
        >>> [(rule.rule, rule.unit, rule.total, rule.used) for rule in view.rules][:2]
        [('increment', 'ε', '0', True), ('apart', 'ε', '0', False)]
    """
    costs = [rule_costs(each.planned, each.sold, level_rule(kind, each.chain, each.levels)) for each in sales]
    used = {_used(kind, law) for each in sales for law in (*each.planned, *(sold.law for sold in each.sold))}
    used = used or {"increment" if kind is LedgerKind.PURE else "reserve"}
    return RulesView(
        dataset=dataset,
        budget_kind=kind.value,
        delta=decimal_text(delta),
        sales=sum(sold.times for each in sales for sold in each.sold),
        rules=[
            RuleView(
                rule=rule.name,
                unit=rule.unit,
                meaning=rule.meaning,
                sound=rule.sound,
                used=rule.field in used,
                total=_text(total),
                epsilon=_text(_at_delta(total, rule.unit, delta)),
            )
            for rule in _RULES
            for total in [_total(costs, rule.field)]
        ],
        chains=[
            {"chain": each.chain, **{f"{rule.name} {rule.unit}": _text(getattr(cost, rule.field)) for rule in _RULES}}
            for each, cost in list(zip(sales, costs, strict=True))[:_SHOWN]
        ],
    )


def _used(kind: LedgerKind, law: TierLaw) -> str:
    return "increment" if charge_rule(kind, law.noise.family) is ChargeRule.INCREMENT else "reserve"


def _total(costs: Iterable[RuleCosts], field: str) -> int | None:
    each: list[int | None] = [getattr(cost, field) for cost in costs]
    return None if None in each else sum(cost for cost in each if cost is not None)


def _at_delta(total: int | None, unit: str, delta: Fraction) -> int | None:
    """The total as an ε; None where it is more than any conversion reads."""
    if not total or unit == "ε":
        return total
    if total > _MOST:
        return None
    return nano_up(Fraction(spent_epsilon([Spent("lattice", Fraction(total, NANO))], delta)[0]))


def _text(nano: int | None) -> str | None:
    return None if nano is None else nano_text(nano)
