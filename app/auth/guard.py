"""One guard for every route: default deny, roles declared beside the path, limits before any work."""

import ipaddress
import re
import time
from collections import OrderedDict
from collections.abc import Callable
from typing import Any, cast
from urllib.parse import parse_qsl

from litestar.connection import ASGIConnection
from litestar.handlers import BaseRouteHandler

from app.auth.accounts import Caller, Role, find_caller
from app.errors import ForbiddenError, InvalidRequestError, NotFoundError, UnauthorizedError
from app.keyring import Keyring
from app.store.database import Database

__all__ = ["Authenticator", "address_of", "authorise"]

_SECONDS = 1.0
_KEPT = 10_000
_KEY_LIMIT = 128
_IDENTITY = re.compile(r"[0-9a-z_]{1,64}\Z")


class Authenticator:
    """API keys to callers, with a copy in this process that is at most one second old."""

    def __init__(self, database: Database, keyring: Keyring, clock: Callable[[], float] = time.monotonic) -> None:
        self._database, self._keyring, self._clock = database, keyring, clock
        self._known: OrderedDict[str, tuple[float, Caller]] = OrderedDict()
        self._changes = 0

    async def caller(self, header: str | None) -> Caller:
        """Return the caller of an `Authorization: Bearer …` header.

        Raises:     UnauthorizedError: no live API key. AccountSuspendedError: one of a suspended account.
        """
        scheme, _, key = (header or "").partition(" ")
        if scheme.lower() != "bearer" or not key or len(key) > _KEY_LIMIT or not key.isascii():
            raise UnauthorizedError("Authorization: expected 'Bearer <API key>', got none")
        digest = self._keyring.key_digest(key)
        known = self._known.get(digest)
        if known is not None and known[0] > self._clock():
            return known[1]
        changes, asked = self._changes, self._clock()
        caller = await self._database.read(lambda connection: find_caller(connection, digest))
        if caller is None:
            self._known.pop(digest, None)
            raise UnauthorizedError("Authorization: expected a live API key, got another")
        if changes == self._changes:  # else what was read may be older than a revocation made here
            self._known[digest] = (asked + _SECONDS, caller)
            while len(self._known) > _KEPT:
                self._known.popitem(last=False)
        return caller

    def forget(self) -> None:
        """Drop every copy: called after a key or an account changed in this process, so that it holds at once."""
        self._changes += 1
        self._known.clear()


def address_of(connection: ASGIConnection[Any, Any, Any, Any]) -> str:
    """Return what a client is limited by when it has no key: its IPv4 address, or the /64 of its IPv6 address."""
    host = connection.client.host if connection.client else ""
    try:
        address = ipaddress.ip_address(host)
    except ValueError:
        return host[:64]
    if address.version == 4:
        return str(address)
    return str(ipaddress.ip_network((address, 64), strict=False))


async def authorise(connection: ASGIConnection[Any, Any, Any, Any], handler: BaseRouteHandler) -> None:
    """Let a request through only where its route is public or names the caller's role; anything unlisted is refused.

    Of two keys in one request neither counts: whoever stands in front may have looked at the other one.

    A bad key costs its sender's address a token; once those are spent, bad keys are told to wait. Good keys from the
    same address still work: nobody can lock out the neighbours.
    """
    market, scope = connection.app.state.market, cast("dict[str, Any]", connection.scope)
    if handler.opt.get("public"):
        if not handler.opt.get("unlimited"):
            await market.limits.visitor(address_of(connection))
        return
    given = connection.headers.getall("authorization", [])
    try:
        caller = await market.authenticator.caller(given[0] if len(given) == 1 else None)
    except UnauthorizedError:
        await market.limits.failure(address_of(connection))
        raise
    scope["user"] = caller
    if scope["method"] == "GET":
        await market.limits.read(caller.id)
    else:
        await market.limits.act(caller.id)
    roles: tuple[Role, ...] = handler.opt.get("roles", ())
    if caller.role not in roles:
        raise ForbiddenError(f"role: expected one of {', '.join(sorted(roles)) or 'none'}, got {caller.role}")
    for name, value in scope["path_params"].items():
        if not _IDENTITY.match(str(value)):
            raise NotFoundError(f"{name}: expected an existing id, got another")
    _refuse_unknown_names(scope, handler)


def _refuse_unknown_names(scope: dict[str, Any], handler: BaseRouteHandler) -> None:
    """Refuse a query string where there is nothing to ask; routes that read one read it whole."""
    if not scope["query_string"] or handler.opt.get("query"):
        return
    known = {"format"} if handler.opt.get("formats") else set()
    pairs = parse_qsl(scope["query_string"].decode("latin-1"), keep_blank_values=True)
    if {name for name, _ in pairs} - known:
        expected = f"only {', '.join(known)}" if known else "none"
        raise InvalidRequestError(f"query: expected {expected}, got another name")
