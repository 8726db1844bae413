"""Answers: the one hot path, written against ASGI; its entry in the API's document is in `app.routes.document`."""

import re
from typing import Any

from litestar import asgi
from litestar.exceptions import MethodNotAllowedException
from litestar.types import Receive, Send

from app.auth.accounts import Caller
from app.engine.state import etag_of
from app.errors import NotAcceptableError, NotEntitledError, NotFoundError
from app.formats.negotiate import Format, choose
from app.market import Answer, Market
from app.routes.trade import TRADERS

__all__ = ["ANSWER_PATH", "answer", "answer_response", "matches"]

ANSWER_PATH = "/v1/answers/{chain}/{law}"
_PLACE = re.compile(r"/([0-9a-z_]{1,64})/([0-9a-z_]{1,64})/\Z")


@asgi(
    "/v1/answers",
    is_mount=True,  # Litestar routes no path parameters to ASGI handlers: they are read here
    opt={"roles": TRADERS, "refuses": (NotEntitledError, NotAcceptableError), "formats": True},
    copy_scope=False,
)
async def answer(scope: Any, receive: Receive, send: Send) -> None:
    """Return an answer that the caller has bought: the same bytes for ever, under a strong ETag a format."""
    scope["path_template"] = ANSWER_PATH
    if scope["method"] != "GET":
        raise MethodNotAllowedException(headers={"allow": "GET"})
    place = _PLACE.match(scope["path"])
    if place is None:
        raise NotFoundError("answer: expected a chain and a law, got another path")
    chain, law = place.groups()
    caller: Caller = scope["user"]
    market: Market = scope["app"].state.market
    accept = none_match = None
    for name, value in scope["headers"]:
        if name == b"accept":
            accept = value.decode("latin-1") if accept is None else f"{accept},{value.decode('latin-1')}"
        elif name == b"if-none-match":
            none_match = value.decode("latin-1")
    query = scope["query_string"]
    wanted = choose(accept, query.decode("latin-1") if query else "")
    held = await market.answer(caller, chain, law)
    status, headers, body = await answer_response(market, held, chain, law, wanted, none_match)
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": body, "more_body": False})


async def answer_response(
    market: Market, held: Answer, chain: str, law: str, wanted: Format, none_match: str | None = None
) -> tuple[int, list[tuple[bytes, bytes]], bytes]:
    """Return status, headers and body of an answer in a format; the caller has checked who may have it."""
    body, etag = held.body, held.etag
    if wanted is not Format.JSON:
        body = await market.renderings.render(etag, body, wanted)
        etag = etag_of(chain, law, body)
    headers = [(b"etag", etag.encode()), (b"vary", b"accept"), (b"cache-control", b"private, no-cache")]
    if none_match is not None and matches(none_match, etag):
        return 304, headers, b""
    media = b"text/csv; charset=utf-8; header=present" if wanted is Format.CSV else wanted.value.encode()
    headers += [(b"content-type", media), (b"content-length", str(len(body)).encode())]
    if wanted is not Format.JSON:
        name = f'attachment; filename="answer-{chain[:12]}-{law[:8]}.{wanted.name.lower()}"'
        headers.append((b"content-disposition", name.encode()))
    return 200, headers, body


def matches(none_match: str, etag: str) -> bool:
    """Return whether If-None-Match names this ETag (RFC 9110, section 13.1.2: compared weakly, `*` is any).

    Example:
        >>> matches('"a", W/"b"', '"b"'), matches("*", '"b"'), matches('"b', '"b"')
        (True, True, False)
    """
    if none_match == etag or none_match.strip() == "*":
        return True
    return etag in (part.strip().removeprefix("W/") for part in none_match.split(","))
