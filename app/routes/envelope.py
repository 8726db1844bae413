"""What surrounds every request: an id, limits on its head, HEAD and OPTIONS, and one line in the access log."""

import re
import secrets
import time
from collections.abc import Callable
from typing import Any

import msgspec
from litestar.status_codes import HTTP_200_OK
from litestar.types import ASGIApp, Message, Receive, Send

from app.cache.issued import Ready
from app.routes.problems import TYPES
from app.telemetry import Telemetry, request_id

__all__ = ["HEADERS_LIMIT", "TARGET_LIMIT", "envelope"]

HEADERS_LIMIT = 16_384
TARGET_LIMIT = 4_096
_COUNT_LIMIT = 100
_REQUEST_ID = re.compile(rb"[0-9A-Za-z._-]{8,64}\Z")
_METHODS = frozenset({"GET", "HEAD", "POST", "DELETE", "OPTIONS", "PUT", "PATCH"})
_UNROUTED = "TRACE"  # no route has it: the router answers 404 or 405 with what is allowed


Shortcut = Callable[[Any], tuple[Ready, int] | None]


def envelope(inner: ASGIApp, telemetry: Telemetry, shortcut: Shortcut) -> ASGIApp:
    """Return `inner` in its envelope.

    A GET is first given to `shortcut`; where that has a checked answer at hand, nothing else runs.

    A request id is taken over where it is well formed, else minted; it is returned, and in every log line. HEAD is GET
    without its body. OPTIONS is no method of any route. Encoded bodies and oversized heads are refused unread.
    """

    async def enveloped(scope: Any, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await inner(scope, receive, send)
            return
        started, method = time.perf_counter(), str(scope["method"])
        identity, refused = _read_head(scope)
        token = request_id.set(identity)
        status, without_body = 500, method == "HEAD"
        ready: Ready | None = None
        extra = [(b"x-request-id", identity.encode())]

        async def sending(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                headers = list(message["headers"])
                if not any(name == b"x-content-type-options" for name, _ in headers):
                    headers.append((b"x-content-type-options", b"nosniff"))
                message["headers"] = headers + extra
            elif without_body and message["type"] == "http.response.body":
                message["body"] = b""
            await send(message)

        try:
            if refused is not None:
                await _refuse(sending, *refused)
                return
            if without_body:
                scope["method"] = "GET"
            found = shortcut(scope) if scope["method"] == "GET" else None
            if found is not None:
                ready, status = found
                body = ready.body if status == HTTP_200_OK and not without_body else b""
                headers = [*(ready.headers if status == HTTP_200_OK else ready.kept), *extra]
                await send({"type": "http.response.start", "status": status, "headers": headers})
                await send({"type": "http.response.body", "body": body, "more_body": False})
                return
            if method == "OPTIONS":
                scope["method"] = _UNROUTED
            await inner(scope, receive, sending)
        finally:
            scope["method"] = method
            user: Any = scope.get("user") if ready is None else ready
            route = scope.get("path_template") or "unmatched"
            label = method if method in _METHODS else "other"
            seconds = time.perf_counter() - started
            telemetry.observe(label, route, status, seconds, user.pseudonym if user is not None else None)
            request_id.reset(token)

    return enveloped


_Refusal = tuple[int, str, str, str]


def _read_head(scope: Any) -> tuple[str, _Refusal | None]:
    """Return the request's id, and why it is refused unread, if it is."""
    headers = scope["headers"]
    size, given, encoded = 0, b"", False
    for name, value in headers:
        size += len(name) + len(value)
        if name == b"x-request-id":
            given = value if not given else b"-"
        elif name == b"content-encoding" and value.strip().lower() not in (b"", b"identity"):
            encoded = True
    identity = given.decode() if _REQUEST_ID.match(given) else secrets.token_hex(8)
    if size > HEADERS_LIMIT or len(headers) > _COUNT_LIMIT:
        detail = f"headers: expected at most {_COUNT_LIMIT} in {HEADERS_LIMIT} bytes, got more"
        return identity, (431, "headers-too-large", "The headers are too large", detail)
    if len(scope.get("raw_path") or b"") + len(scope.get("query_string") or b"") > TARGET_LIMIT:
        detail = f"target: expected a path and query of at most {TARGET_LIMIT} bytes, got more"
        return identity, (414, "target-too-long", "The path and query are too long", detail)
    if encoded:
        detail = "Content-Encoding: expected none (bodies are read as they are), got one"
        return identity, (415, "unsupported-media-type", "The body's form is not supported", detail)
    return identity, None


async def _refuse(send: Send, status: int, kind: str, title: str, detail: str) -> None:
    body = msgspec.json.encode({"status": status, "type": TYPES + kind, "title": title, "detail": detail})
    headers = [(b"content-type", b"application/problem+json"), (b"content-length", str(len(body)).encode())]
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": body, "more_body": False})
