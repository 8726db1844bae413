"""Discounts that bundles lend: what counts as paid on a chain, what is owed on it, what a faulty part is forgiven."""

from sqlalchemy import Connection, func, select

from app.ledger.money import net_paid
from app.store.schema import loans, orders
from pricing.quote import Holding, Quote

__all__ = ["forgive", "holding_of", "keep_loans"]


def holding_of(connection: Connection, account: str, chain: str, rank: int | None) -> Holding:
    """Return what an account holds on a chain: the rank, what counts as paid, and what a bundle still lends on it.

    A bundle's part counts as if bought alone, so its discount is counted as paid; what an upgrade gave back was paid
    for that discount, and is not counted twice. A chain stands in the bundle that lends on it until it gives back.
    """
    mine = (orders.c.account_id == account) & (orders.c.chain_id == chain)
    wanted = (
        select(orders.c.sale_id.label("own"), loans.c.sale_id, loans.c.amount_minor)
        .join(loans, loans.c.order_id == orders.c.id)
        .where(mine)
    )
    rows = connection.execute(wanted).all()
    paid = max(0, net_paid(connection, account, chain) + sum(row.amount_minor for row in rows))
    lenders = {row.sale_id for row in rows if row.own == row.sale_id} - {
        row.sale_id for row in rows if row.own != row.sale_id
    }
    for lender in sorted(lenders):
        total = select(func.coalesce(func.sum(loans.c.amount_minor), 0)).where(loans.c.sale_id == lender)
        lent = int(connection.execute(total).scalar_one())
        if lent > 0:
            return Holding(rank, paid, lent, lender)
    return Holding(rank, paid)


def keep_loans(connection: Connection, order: str, offered: Quote, holding: Holding, *, lent_by: str | None) -> None:
    """Write what an order gives back to the bundle that its chain stood in, and what its own bundle lends.

    An upgrade leaves the bundle, even where it gives nothing back; the same tier, or a lower one, does not.

    Args:       holding: before the order. lent_by: the order's own sale, where it lends on this chain.
    """
    upgrade = holding.rank is None or holding.rank > offered.rank
    rows = []
    if upgrade and holding.lender is not None:
        rows.append({"order_id": order, "sale_id": holding.lender, "amount_minor": -offered.given_back})
    if lent_by is not None:
        rows.append({"order_id": order, "sale_id": lent_by, "amount_minor": offered.discount})
    if rows:
        connection.execute(loans.insert(), rows)


def forgive(connection: Connection, order: str) -> None:
    """Lend nothing on an order's line any more, as far as its bundle still lends: the part was faulty.

    Who then upgrades another part gives back what that part was lent, and has paid list price for it.
    """
    wanted = select(loans).where(loans.c.order_id == order, loans.c.amount_minor > 0)
    for row in connection.execute(wanted).all():
        total = select(func.sum(loans.c.amount_minor)).where(loans.c.sale_id == row.sale_id)
        left = row.amount_minor - min(row.amount_minor, int(connection.execute(total).scalar_one()))
        line = (loans.c.order_id == order) & (loans.c.sale_id == row.sale_id)
        connection.execute(loans.update().where(line).values(amount_minor=left))
