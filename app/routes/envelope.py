"""What surrounds every request: an id, limits on its head, HEAD and OPTIONS, and one line in the access log."""

import itertools
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
_PROCESS, _COUNT = secrets.token_hex(4), itertools.count()
_METHODS = frozenset({"GET", "HEAD", "POST", "DELETE", "OPTIONS", "PUT", "PATCH"})
_UNROUTED = "TRACE"  # no route has it: the router answers 404 or 405 with what is allowed


Asked = tuple[bytes | None, bytes | None, bytes | None]
"""Authorization (empty where it is given twice), Accept and If-None-Match."""
Shortcut = Callable[[Any, Asked], tuple[Ready, int] | None]


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
        identity, refused, asked = _read_head(scope)
        token = request_id.set(identity)
        without_body = method == "HEAD"
        found = shortcut(scope, asked) if refused is None and (method == "GET" or without_body) else None
        if found is not None:
            ready, status = found
            try:
                await _send_ready(send, ready, status, identity, without_body=without_body)
            finally:
                telemetry.observe(method, ready.route, status, time.perf_counter() - started, ready.pseudonym)
                request_id.reset(token)
            return
        status = 500
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
            elif method == "OPTIONS":
                scope["method"] = _UNROUTED
            await inner(scope, receive, sending)
        finally:
            scope["method"] = method
            user: Any = scope.get("user")
            route = scope.get("path_template") or "unmatched"
            label = method if method in _METHODS else "other"
            seconds = time.perf_counter() - started
            telemetry.observe(label, route, status, seconds, user.pseudonym if user is not None else None)
            request_id.reset(token)

    return enveloped


async def _send_ready(send: Send, ready: Ready, status: int, identity: str, *, without_body: bool) -> None:
    whole = status == HTTP_200_OK
    headers = [*(ready.headers if whole else ready.kept), (b"x-request-id", identity.encode())]
    await send({"type": "http.response.start", "status": status, "headers": headers})
    body = ready.body if whole and not without_body else b""
    await send({"type": "http.response.body", "body": body, "more_body": False})


_Refusal = tuple[int, str, str, str]


def _read_head(scope: Any) -> tuple[str, _Refusal | None, Asked]:
    """Return the request's id, why it is refused unread, if it is, and the headers that decide who gets what."""
    headers = scope["headers"]
    size, given, encoded = 0, b"", False
    authorization: bytes | None = None
    accept: bytes | None = None
    none_match: bytes | None = None
    for name, value in headers:
        size += len(name) + len(value)
        if name == b"authorization":
            authorization = value if authorization is None else b""
        elif name == b"accept":
            accept = value if accept is None else accept + b"," + value
        elif name == b"if-none-match":
            none_match = value
        elif name == b"x-request-id":
            given = value if not given else b"-"
        elif name == b"content-encoding" and value.strip().lower() not in (b"", b"identity"):
            encoded = True
    identity = given.decode() if given and _REQUEST_ID.match(given) else _mint()
    asked = (authorization, accept, none_match)
    if size > HEADERS_LIMIT or len(headers) > _COUNT_LIMIT:
        detail = f"headers: expected at most {_COUNT_LIMIT} in {HEADERS_LIMIT} bytes, got more"
        return identity, (431, "headers-too-large", "The headers are too large", detail), asked
    if len(scope.get("raw_path") or b"") + len(scope.get("query_string") or b"") > TARGET_LIMIT:
        detail = f"target: expected a path and query of at most {TARGET_LIMIT} bytes, got more"
        return identity, (414, "target-too-long", "The path and query are too long", detail), asked
    if encoded:
        detail = "Content-Encoding: expected none (bodies are read as they are), got one"
        return identity, (415, "unsupported-media-type", "The body's form is not supported", detail), asked
    return identity, None, asked


def _mint() -> str:
    """Return an id that no other request of these days has: this process's own 32 random bits, and a count."""
    return f"{_PROCESS}{next(_COUNT) & 0xFFFFFFFF:08x}"


async def _refuse(send: Send, status: int, kind: str, title: str, detail: str) -> None:
    body = msgspec.json.encode({"status": status, "type": TYPES + kind, "title": title, "detail": detail})
    headers = [(b"content-type", b"application/problem+json"), (b"content-length", str(len(body)).encode())]
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": body, "more_body": False})
