"""What operators do to accounts: list, suspend, issue and revoke keys; and the metrics they watch."""

from typing import Any

from litestar import Request, Response, delete, get, post
from litestar.di import NamedDependency
from litestar.params import FromPath, JSONBody
from sqlalchemy import Connection

from app.asks import IdPageQuery
from app.audit.freezing import count_frozen
from app.audit.stopping import count_stopped
from app.auth.accounts import Caller, Role, change_ceiling, holder_of, issue_key, revoke_key, suspend_account
from app.auth.register import holder_view, holders, key_view, keys_of
from app.clock import time_text
from app.errors import ConflictError, NotFoundError
from app.market import Market
from app.routes.paging import page, read_query
from app.telemetry import METRICS_TYPE, Telemetry
from app.views import HolderView, KeyView
from app.wire import CeilingRequest, KeyRequest, SuspensionRequest
from tiers.budget import nano_up, parse_epsilon

__all__ = ["account", "accounts", "ceiling", "issue", "keys", "lift", "metrics", "revoke", "suspend"]

OPERATORS = {"roles": (Role.OPERATOR,), "refuses": (NotFoundError,)}


@get("/v1/accounts", opt={"roles": (Role.OPERATOR,), "query": IdPageQuery})
async def accounts(
    request: Request[Caller, Any, Any],
    market: NamedDependency[Market],
) -> Response[list[HolderView]]:
    """Return accounts, oldest first, in pages: `after` is the last `account` seen."""
    wanted = read_query(request, IdPageQuery)
    found = await market.database.read(
        lambda connection: holders(connection, after=wanted.after, count=wanted.count + 1)
    )
    return page(request, found, wanted.count, lambda holder: holder.account)


@get("/v1/accounts/{account:str}", opt=OPERATORS)
async def account(account: FromPath[str], market: NamedDependency[Market]) -> HolderView:
    """Return one account."""
    return await market.database.read(lambda connection: holder_view(connection, account))


@get("/v1/accounts/{account:str}/keys", opt=OPERATORS | {"query": IdPageQuery})
async def keys(
    request: Request[Caller, Any, Any], account: FromPath[str], market: NamedDependency[Market]
) -> Response[list[KeyView]]:
    """Return an account's API keys, oldest first, revoked ones included, in pages; never a key itself.

    `after` is the last `key` seen.
    """
    wanted = read_query(request, IdPageQuery)
    found = await market.database.read(
        lambda connection: keys_of(connection, account, after=wanted.after, count=wanted.count + 1)
    )
    return page(request, found, wanted.count, lambda each: each.key)


@post("/v1/accounts/{account:str}/keys", opt=OPERATORS, status_code=201)
async def issue(account: FromPath[str], data: JSONBody[KeyRequest], market: NamedDependency[Market]) -> KeyView:
    """Issue one more API key; it is in this answer and nowhere else."""
    at = time_text(market.clock())

    def work(connection: Connection) -> KeyView:
        holder_of(connection, account)
        made = issue_key(connection, market.keyring, account, data.label, at)
        return key_view(connection, account, made.id, made.api_key)

    return await market.database.write(work)


@delete(
    "/v1/accounts/{account:str}/keys/{key:str}",
    opt={"roles": (Role.OPERATOR,), "refuses": (NotFoundError, ConflictError)},
    status_code=200,
)
async def revoke(
    request: Request[Caller, Any, Any], account: FromPath[str], key: FromPath[str], market: NamedDependency[Market]
) -> KeyView:
    """Revoke a key for good: at once in this worker, within a second in all. Repeating it changes nothing."""
    at, own = time_text(market.clock()), _digest_of(request, market)

    def work(connection: Connection) -> KeyView:
        revoke_key(connection, account, key, at, keep=own)
        return key_view(connection, account, key)

    revoked = await market.database.write(work)
    market.authenticator.forget()
    return revoked


@post(
    "/v1/accounts/{account:str}/suspension",
    opt={"roles": (Role.OPERATOR,), "refuses": (NotFoundError, ConflictError)},
    status_code=201,
)
async def suspend(
    request: Request[Caller, Any, Any],
    account: FromPath[str],
    data: JSONBody[SuspensionRequest],
    market: NamedDependency[Market],
) -> HolderView:
    """Suspend an account: its keys open nothing, here at once and everywhere within a second."""
    if account == request.user.id:
        raise ConflictError("account: expected another than the operator's own, got that one")
    return await _suspend(market, account, data.reason, time_text(market.clock()))


@delete("/v1/accounts/{account:str}/suspension", opt=OPERATORS, status_code=200)
async def lift(account: FromPath[str], market: NamedDependency[Market]) -> HolderView:
    """Lift a suspension; without one nothing changes."""
    return await _suspend(market, account, None, None)


@post(
    "/v1/accounts/{account:str}/ceiling",
    opt={"roles": (Role.OPERATOR,), "refuses": (NotFoundError, ConflictError)},
    status_code=201,
)
async def ceiling(
    account: FromPath[str], data: JSONBody[CeilingRequest], market: NamedDependency[Market]
) -> HolderView:
    """Give an analyst another ceiling: here at once and everywhere within a second; what is held stays held."""
    nano = nano_up(parse_epsilon(data.ceiling, name="ceiling"))

    def work(connection: Connection) -> HolderView:
        change_ceiling(connection, account, nano)
        return holder_view(connection, account)

    changed = await market.database.write(work)
    market.authenticator.forget()
    return changed


@get("/metrics", opt={"roles": (Role.OPERATOR,)}, media_type="text/plain")
async def metrics(request: Request[Caller, Any, Any], market: NamedDependency[Market]) -> Response[bytes]:
    """Return the metrics of all workers in Prometheus' text form: routes, statuses and times; nobody's id."""
    telemetry: Telemetry = request.app.state.telemetry
    held = await market.database.read(lambda connection: (count_frozen(connection), count_stopped(connection)))
    telemetry.frozen(*held)
    return Response(telemetry.metrics(), media_type=METRICS_TYPE)


async def _suspend(market: Market, account: str, reason: str | None, at: str | None) -> HolderView:
    def work(connection: Connection) -> HolderView:
        suspend_account(connection, account, reason, at)
        return holder_view(connection, account)

    changed = await market.database.write(work)
    market.authenticator.forget()
    return changed


def _digest_of(request: Request[Caller, Any, Any], market: Market) -> str:
    return market.keyring.key_digest(request.headers.get("authorization", "").partition(" ")[2])
