"""Accounts: created by the operator, read by their holders."""

from typing import Any

from litestar import Request, Response, get, post
from litestar.di import NamedDependency
from litestar.params import FromPath, JSONBody
from sqlalchemy import Connection, select

from app.asks import PageQuery
from app.auth.accounts import Caller, Role, create_account, holder_of
from app.clock import time_text
from app.errors import ConflictError, ForbiddenError, InvalidRequestError
from app.ledger.budget import nano_text
from app.ledger.money import balance, postings_of
from app.ledger.money import post as post_money
from app.market import Market
from app.routes.paging import page, read_query
from app.store.schema import accounts
from app.views import AccountView, PostingView
from app.wire import AccountRequest, DepositRequest
from pricing.money import Money, check_currency
from tiers.budget import nano_up, parse_epsilon

__all__ = ["create", "deposit", "statement", "whoami"]

EVERYBODY = tuple(Role)


@post("/v1/accounts", opt={"roles": (Role.OPERATOR,)}, status_code=201)
async def create(data: JSONBody[AccountRequest], market: NamedDependency[Market]) -> AccountView:
    """Create an account; its API key is in this answer and nowhere else."""
    if (Role(data.role) is Role.ANALYST) != (data.ceiling is not None):
        raise InvalidRequestError("ceiling: expected one for analysts and none for others, got the opposite")
    ceiling = None if data.ceiling is None else nano_up(parse_epsilon(data.ceiling, name="ceiling"))
    check_currency(data.currency)
    at = time_text(market.clock())

    def work(connection: Connection) -> AccountView:
        new = create_account(
            connection,
            market.keyring,
            role=Role(data.role),
            name=data.name,
            currency=data.currency,
            at=at,
            ceiling_nano=ceiling,
        )
        return _view(connection, holder_of(connection, new.id), new.api_key)

    return await market.database.write(work)


@post(
    "/v1/accounts/{account:str}/deposits", opt={"roles": (Role.OPERATOR,), "refuses": (ConflictError,)}, status_code=201
)
async def deposit(
    account: FromPath[str], data: JSONBody[DepositRequest], market: NamedDependency[Market]
) -> AccountView:
    """Book money into an account, once a reference."""
    at = time_text(market.clock())

    def work(connection: Connection) -> AccountView:
        holder = holder_of(connection, account)
        if holder.role is not Role.BUYER:
            raise ForbiddenError(f"account: expected a buyer's, got a {holder.role}'s")
        post_money(connection, account, "deposit", Money(data.amount_minor, data.currency), data.reference, at)
        return _view(connection, holder)

    return await market.database.write(work)


@get("/v1/account", opt={"roles": EVERYBODY})
async def whoami(request: Request[Caller, Any, Any], market: NamedDependency[Market]) -> AccountView:
    """Return the caller's own account."""
    return await market.database.read(lambda connection: _view(connection, request.user))


@get("/v1/account/postings", opt={"roles": EVERYBODY, "query": PageQuery})
async def statement(request: Request[Caller, Any, Any], market: NamedDependency[Market]) -> Response[list[PostingView]]:
    """Return the caller's statement in pages: deposits, payments, credits, payouts. `after`: the last `entry` seen."""
    wanted = read_query(request, PageQuery)
    found = await market.database.read(
        lambda connection: postings_of(connection, request.user.id, after=wanted.after, count=wanted.count + 1)
    )
    return page(request, found, wanted.count, lambda posting: posting.entry)


def _view(connection: Connection, holder: Caller, api_key: str | None = None) -> AccountView:
    held = balance(connection, holder.id)
    ceiling = connection.execute(select(accounts.c.ceiling_nano).where(accounts.c.id == holder.id)).scalar_one()
    return AccountView(
        account=holder.id,
        role=holder.role.value,
        pseudonym=holder.pseudonym,
        balance_minor=held.amount,
        currency=held.currency,
        ceiling=None if ceiling is None else nano_text(ceiling),
        api_key=api_key,
    )
