"""One guard for every route: default deny, roles declared beside the path."""

import time
from collections import OrderedDict
from typing import Any

from litestar.connection import ASGIConnection
from litestar.handlers import BaseRouteHandler

from app.auth.accounts import Caller, Role, find_caller
from app.errors import ForbiddenError, UnauthorizedError
from app.keyring import Keyring
from app.store.database import Database

__all__ = ["Authenticator", "authorise"]

_SECONDS = 1.0
_KEPT = 10_000


class Authenticator:
    """API keys to callers, with a copy in this process that is at most one second old."""

    def __init__(self, database: Database, keyring: Keyring) -> None:
        self._database, self._keyring = database, keyring
        self._known: OrderedDict[str, tuple[float, Caller]] = OrderedDict()

    async def caller(self, header: str | None) -> Caller:
        """Return the caller of an `Authorization: Bearer …` header; raises UnauthorizedError."""
        scheme, _, key = (header or "").partition(" ")
        if scheme.lower() != "bearer" or not key or len(key) > 128 or not key.isascii():
            raise UnauthorizedError("Authorization: expected 'Bearer <API key>', got none")
        digest = self._keyring.key_digest(key)
        known = self._known.get(digest)
        if known is not None and known[0] > time.monotonic():
            return known[1]
        caller = await self._database.read(lambda connection: find_caller(connection, digest))
        if caller is None:
            self._known.pop(digest, None)
            raise UnauthorizedError("Authorization: expected a live API key, got another")
        self._known[digest] = (time.monotonic() + _SECONDS, caller)
        while len(self._known) > _KEPT:
            self._known.popitem(last=False)
        return caller


async def authorise(connection: ASGIConnection[Any, Any, Any, Any], handler: BaseRouteHandler) -> None:
    """Let a request through only where its route is public or names the caller's role; anything unlisted is refused."""
    if handler.opt.get("public"):
        return
    caller = await connection.app.state.market.authenticator.caller(connection.headers.get("authorization"))
    roles: tuple[Role, ...] = handler.opt.get("roles", ())
    if caller.role not in roles:
        raise ForbiddenError(f"role: expected one of {', '.join(sorted(roles)) or 'none'}, got {caller.role}")
    connection.scope["user"] = caller
