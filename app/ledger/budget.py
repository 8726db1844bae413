"""A dataset's privacy budget: the filter's verdict before anything is revealed, the charge with the sale."""

from collections.abc import Callable
from datetime import datetime
from fractions import Fraction
from typing import Literal

from sqlalchemy import Connection, func, select

from app.clock import later, time_text
from app.engine.state import ChainState, Tier
from app.errors import BudgetRefusedError
from app.store.schema import chains, datasets, orders
from pricing.scarcity import ReserveCurve
from tiers.accounting.charges import LedgerKind, charge_nano
from tiers.accounting.filters import PureFilter
from tiers.budget import NANO, decimal_text
from tiers.errors import BudgetExceededError

__all__ = ["UNITS", "budget_state", "charge", "charge_of", "check_pace", "due_of", "nano_text", "reserve_of"]

UNITS = {LedgerKind.PURE: "ε", LedgerKind.ZCDP: "ρ", LedgerKind.APPROX: "ρ"}
"""What a ledger of each kind counts; an approximate one keeps the ρ that its promise allows."""

_NEARLY = 10
_DAY = 86_400


def nano_text(nano: int) -> str:
    """Return units of 10⁻⁹ as decimal text.

    Example:
        >>> nano_text(1_500_000_000)
        '1.5'
    """
    return decimal_text(Fraction(nano, NANO))


def due_of(chain: ChainState, tier: Tier) -> int:
    """Return what selling a tier adds to its chain's charge: the increment, or all that is reserved at the opening."""
    return charge_nano(chain.rule, tier.level_nano, chain.top_nano, chain.highest_nano)


def charge_of(chain: ChainState, tier: Tier, within_reach: Callable[[Tier], bool]) -> int:
    """Return what selling a tier now would charge, admitted by the dataset's filter.

    Args:       within_reach: whether the caller could buy a tier at all; a refusal names no other.

    Raises:     BudgetRefusedError: requested, remaining, and the tiers of the chain that would fit.
    """
    due = due_of(chain, tier)
    ledger = PureFilter(chain.budget_nano, chain.spent_nano)
    try:
        ledger.charge(due)
    except BudgetExceededError as error:
        fitting = [other for other in chain.tiers if within_reach(other) and ledger.admits(due_of(chain, other))]
        requested, remaining = nano_text(error.requested_nano), nano_text(error.remaining_nano)
        raise BudgetRefusedError(
            f"budget: expected a charge of at most {UNITS[chain.kind]} {remaining} (what remains), got {requested}",
            requested=requested,
            remaining=remaining,
            fits=[{"epsilon": other.epsilon, "law": other.law} for other in fitting],
        ) from None
    return due


def check_pace(connection: Connection, account: str, chain: ChainState, due: int, now: datetime) -> None:
    """Refuse a charge beyond the account's quota, or beyond what the dataset's window of days still admits.

    Raises:     BudgetRefusedError: with reason "quota" or "window", requested and remaining.
    """
    if due == 0:
        return
    charged = (
        select(func.coalesce(func.sum(orders.c.charge_nano), 0))
        .join(chains, chains.c.id == orders.c.chain_id)
        .where(chains.c.dataset_id == chain.dataset)
    )
    limits = select(datasets.c.quota_nano, datasets.c.window_days, datasets.c.window_nano)
    row = connection.execute(limits.where(datasets.c.id == chain.dataset)).one()
    if row.quota_nano is not None:
        own = connection.execute(charged.where(orders.c.account_id == account)).scalar_one()
        _within("quota", chain.kind, row.quota_nano - int(own), due)
    if row.window_days is not None:
        since = time_text(later(now, -row.window_days * _DAY))
        recent = connection.execute(charged.where(orders.c.created_at > since)).scalar_one()
        _within("window", chain.kind, row.window_nano - int(recent), due)


def _within(reason: str, kind: LedgerKind, remaining: int, due: int) -> None:
    if due > remaining:
        raise BudgetRefusedError(
            f"{reason}: expected a charge of at most {UNITS[kind]} {nano_text(max(0, remaining))}, "
            f"got {nano_text(due)}",
            reason=reason,
            requested=nano_text(due),
            remaining=nano_text(max(0, remaining)),
        )


def reserve_of(chain: ChainState, tier: Tier) -> int:
    """Return the least that selling a tier must bring for the budget it uses, in minor units; 0 without a curve.

    Beyond the budget there is no reserve: the filter refuses such a sale.
    """
    due = due_of(chain, tier)
    if chain.reserve is None or due == 0 or chain.spent_nano + due > chain.budget_nano:
        return 0
    return ReserveCurve(*chain.reserve, chain.budget_nano).between(chain.spent_nano, chain.spent_nano + due)


def charge(connection: Connection, chain: ChainState, tier: Tier, due: int) -> None:
    """Write an admitted charge, in the sale's own transaction; the table's check repeats the ceiling."""
    if due:
        spent = chain.spent_nano + due
        connection.execute(datasets.update().where(datasets.c.id == chain.dataset).values(spent_nano=spent))
    issued = tier.rank if chain.highest_rank is None else min(tier.rank, chain.highest_rank)
    if due or issued != chain.highest_rank:
        after = {"highest_nano": chain.highest_nano + due, "highest_rank": issued}
        connection.execute(chains.update().where(chains.c.id == chain.id).values(**after))


def budget_state(budget_nano: int, spent_nano: int) -> Literal["enough", "nearly exhausted", "exhausted"]:
    """Return the three-valued state that buyers see: coarse, so that it betrays little of others' purchases."""
    remaining = budget_nano - spent_nano
    if remaining <= 0:
        return "exhausted"
    return "nearly exhausted" if remaining * _NEARLY < budget_nano else "enough"
