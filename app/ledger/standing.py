"""Where an account stands on a chain: its best tier, what it has paid less credits, whether it holds a tier at hand."""

from dataclasses import dataclass

from sqlalchemy import Connection, bindparam, func, select

from app.store.schema import credit_notes, entitlements, orders

__all__ = ["Standing", "standing_of"]

_HELD = (entitlements.c.account_id == bindparam("account")) & (entitlements.c.chain_id == bindparam("chain"))
_BOUGHT = (orders.c.account_id == bindparam("account")) & (orders.c.chain_id == bindparam("chain"))
_CREDITED = select(func.coalesce(func.sum(credit_notes.c.amount_minor), 0)).join(
    orders, orders.c.id == credit_notes.c.order_id
)
_STANDING = select(
    select(func.min(entitlements.c.rank)).where(_HELD).scalar_subquery().label("rank"),
    select(func.count(entitlements.c.law))
    .where(_HELD, entitlements.c.law == bindparam("law"))
    .scalar_subquery()
    .label("held"),
    select(func.coalesce(func.sum(orders.c.amount_minor), 0)).where(_BOUGHT).scalar_subquery().label("paid"),
    _CREDITED.where(_BOUGHT).scalar_subquery().label("credited"),
)


@dataclass(frozen=True, slots=True)
class Standing:
    """The best rank held on a chain (None: no tier), minor units paid less credited, and whether one law is held."""

    rank: int | None
    net_paid: int
    holds: bool


def standing_of(connection: Connection, account: str, chain: str, law: str) -> Standing:
    """Return where an account stands on a chain, in one statement; `law` is the tier asked about."""
    row = connection.execute(_STANDING, {"account": account, "chain": chain, "law": law}).one()
    return Standing(row.rank, int(row.paid) - int(row.credited), row.held > 0)
