"""What owners earn: each sale split by the contract of its time, accrued in 10⁻⁶ minor units, paid out by floor."""

from collections.abc import Mapping
from dataclasses import dataclass

from sqlalchemy import Connection, bindparam, func, select

from app.auth.accounts import Role
from app.clock import new_id
from app.errors import ForbiddenError, InvalidRequestError, NotFoundError
from app.ledger.money import balance, market_account, post
from app.store.schema import accounts, accruals, contracts, datasets, postings
from pricing.money import Money
from pricing.owners import SUB, SaleSplit, contracted_weights, payout, split_sale

__all__ = [
    "Earnings",
    "accrue",
    "accrue_to",
    "contract_of",
    "earnings_of",
    "pay_out",
    "reverse_sale",
    "sign_contract",
    "stored_split",
]

_CONTRACT = (
    select(contracts.c.account_id, contracts.c.rate)
    .join(datasets, (datasets.c.id == contracts.c.dataset_id) & (datasets.c.contract_version == contracts.c.version))
    .where(datasets.c.id == bindparam("dataset"))
)


@dataclass(frozen=True, slots=True)
class Earnings:
    """An owner's account of one currency: what accrued (10⁻⁶ minor units), what was paid, what stays in suspense."""

    accrued_units: int
    paid_minor: int
    suspense_units: int
    currency: str


def contract_of(connection: Connection, dataset: str) -> dict[str, int]:
    """Return the rates in force for a dataset's next sale, by owner."""
    return {row.account_id: row.rate for row in connection.execute(_CONTRACT, {"dataset": dataset})}


def sign_contract(connection: Connection, dataset: str, rates: Mapping[str, int]) -> int:
    """Store a new version of a dataset's contract, for later sales only; return its version.

    Raises:     InvalidRequestError: no positive rate. ForbiddenError: an account that is no owner's.
                NotFoundError: no such account or dataset.
    """
    if not any(rates.values()):
        raise InvalidRequestError("owners: expected at least one rate above 0, got none")
    for account in rates:
        role = connection.execute(select(accounts.c.role).where(accounts.c.id == account)).scalar_one_or_none()
        if role is None:
            raise NotFoundError("owners: expected existing accounts, got another id")
        if role != Role.OWNER:
            raise ForbiddenError(f"owners: expected owners' accounts, got a {role}'s")
    owner = select(accounts.c.currency).join(datasets, datasets.c.owner_id == accounts.c.id)
    kept_in = connection.execute(owner.where(datasets.c.id == dataset)).scalar_one_or_none()
    currencies = select(accounts.c.currency).where(accounts.c.id.in_(rates))
    if any(currency != kept_in for currency in connection.execute(currencies).scalars()):
        raise InvalidRequestError(
            f"owners: expected accounts kept in {kept_in}, as the data set's owner's is, got another"
        )
    current = connection.execute(
        select(datasets.c.contract_version).where(datasets.c.id == dataset)
    ).scalar_one_or_none()
    if current is None:
        raise NotFoundError("dataset: expected an existing id, got another")
    version = int(current) + 1
    rows = [
        {"dataset_id": dataset, "version": version, "account_id": account, "rate": rate}
        for account, rate in sorted(rates.items())
    ]
    connection.execute(contracts.insert(), rows)
    connection.execute(datasets.update().where(datasets.c.id == dataset).values(contract_version=version))
    return version


def accrue(
    connection: Connection, dataset: str, price: Money, loss_nano: int, fee_bps: int, order: str, at: str
) -> None:
    """Split a sale between market and owners by the contract of now; every minor unit goes somewhere.

    Args:       loss_nano: the budget charged for the chain so far, equal for all owners of a dataset.
    """
    if price.amount == 0:
        return
    rates = contract_of(connection, dataset)
    weights = contracted_weights(rates, dict.fromkeys(rates, max(loss_nano, 1)))
    _record(connection, split_sale(price.amount, fee_bps, weights), price.currency, order, at)


def accrue_to(connection: Connection, owner: str, price: Money, fee_bps: int, order: str, at: str) -> None:
    """Split a sale between the market and the one owner of what was sold."""
    if price.amount:
        _record(connection, split_sale(price.amount, fee_bps, {owner: 1}), price.currency, order, at)


def reverse_sale(connection: Connection, split: SaleSplit, currency: str, reference: str, at: str) -> None:
    """Record a reversal: the negated lines of a stored split."""
    _record(connection, split, currency, reference, at)


def stored_split(connection: Connection, order: str, net: int) -> SaleSplit:
    """Return the split of an order as it was stored (an order without accruals split nothing)."""
    wanted = select(accruals.c.account_id, accruals.c.units).where(accruals.c.reference == order)
    lines = tuple((row.account_id, row.units) for row in connection.execute(wanted.order_by(accruals.c.account_id)))
    pool = sum(units for _, units in lines) // SUB
    return SaleSplit(net, net - pool, pool, lines)


def earnings_of(connection: Connection, account: str, currency: str) -> Earnings:
    """Return an owner's earnings in one currency."""
    accrued, paid = _accrued(connection, currency).get(account, 0), _paid(connection, currency).get(account, 0)
    return Earnings(accrued, paid, accrued - paid * SUB, currency)


def pay_out(connection: Connection, currency: str, at: str) -> dict[str, int]:
    """Pay every owner the whole minor units that are due, from the market's account; the rest stays in suspense.

    One owner after another, as far as the market's money reaches (after a credit for a sale that was paid out already,
    it may not): what is not paid now is due next time.
    """
    paid: dict[str, int] = {}
    due = payout(_accrued(connection, currency), _paid(connection, currency)).due
    market = market_account(connection, currency, at)
    for account, whole in due.items():
        amount = min(whole, balance(connection, market).amount)
        if amount > 0:
            reference = new_id("payout")
            post(connection, market, "payout", Money(-amount, currency), reference, at)
            post(connection, account, "payout", Money(amount, currency), reference, at)
            paid[account] = amount
    return paid


def _accrued(connection: Connection, currency: str) -> dict[str, int]:
    wanted = select(accruals.c.account_id, accruals.c.units).where(accruals.c.currency == currency)
    totals: dict[str, int] = {}
    for row in connection.execute(wanted):  # added up here: in millionths, a store's own sum could overflow
        totals[row.account_id] = totals.get(row.account_id, 0) + row.units
    return totals


def _paid(connection: Connection, currency: str) -> dict[str, int]:
    wanted = (
        select(postings.c.account_id, func.sum(postings.c.amount_minor).label("amount"))
        .join(accounts, accounts.c.id == postings.c.account_id)
        .where(postings.c.kind == "payout", postings.c.currency == currency, accounts.c.role == Role.OWNER.value)
        .group_by(postings.c.account_id)
    )
    return {row.account_id: int(row.amount) for row in connection.execute(wanted)}


def _record(connection: Connection, split: SaleSplit, currency: str, reference: str, at: str) -> None:
    rows = [
        {"reference": reference, "account_id": account, "units": units, "currency": currency, "at": at}
        for account, units in split.accruals
    ]
    connection.execute(accruals.insert(), rows)
