"""Answers: the one hot path, written against ASGI; its entry in the API's document is in `app.routes.document`."""

import re
from typing import Any

from litestar import asgi
from litestar.exceptions import MethodNotAllowedException
from litestar.status_codes import HTTP_200_OK, HTTP_304_NOT_MODIFIED
from litestar.types import Receive, Send

from app.auth.accounts import Caller
from app.cache.issued import Ready, RequestName
from app.engine.state import etag_of
from app.errors import NotAcceptableError, NotEntitledError, NotFoundError
from app.formats.negotiate import Format, choose
from app.market import Answer, Market
from app.routes.representation import matches
from app.routes.trade import TRADERS

__all__ = ["ANSWER_PATH", "answer", "answer_response", "issued"]

ANSWER_PATH = "/v1/answers/{chain}/{law}"
_NAME = "tiermarket.request_name"
_NAME_LIMIT = 256
_NO_SNIFF = (b"x-content-type-options", b"nosniff")
_ROOT = "/v1/answers/"
_VALIDATORS = 3  # ETag, Vary and Cache-Control come first, and are all that a 304 has
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
    name = scope.get(_NAME)
    if status == HTTP_200_OK and name is not None:
        await _keep(market, scope, name, chain, law, headers, body)
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


def issued(
    market: Market, scope: Any, asked: tuple[bytes | None, bytes | None, bytes | None]
) -> tuple[Ready, int] | None:
    """Return an answer that is at hand and the status it is sent with, once every check has passed.

    All that a request goes through on its way to `answer` holds here too: the key's digest, the entitlement (both read
    at the epoch of rights that stands now), the caller's limit, the format, If-None-Match. None sends it that way.
    """
    path, query = scope["path"], scope["query_string"]
    authorization, accept, none_match = asked
    if not path.startswith(_ROOT) or not authorization or len(path) + len(query) + len(accept or b"") > _NAME_LIMIT:
        return None
    named = market.issued.name(authorization, path, query, accept)
    epoch = market.rights.standing(market.database.read)
    ready = None if epoch is None else market.issued.find(named, epoch)
    if ready is None:
        scope[_NAME] = named
        return None
    if not market.limits.admits_read(ready.account):
        return None
    if none_match is not None and matches(none_match.decode("latin-1"), ready.etag):
        return ready, HTTP_304_NOT_MODIFIED
    return ready, HTTP_200_OK


async def _keep(
    market: Market, scope: Any, name: RequestName, chain: str, law: str, headers: list[tuple[bytes, bytes]], body: bytes
) -> None:
    """Keep an answer that is about to be sent, under the rights as they stand now; raises where they are gone."""
    key = next(value for header, value in scope["headers"] if header == b"authorization").decode("latin-1")
    epoch, caller = await market.rights_to(market.keyring.key_digest(key.partition(" ")[2]), chain, law)
    kept, sent = (*headers[:_VALIDATORS], _NO_SNIFF), (*headers, _NO_SNIFF)
    market.issued.keep(
        name, Ready(ANSWER_PATH, epoch, caller.id, caller.pseudonym, headers[0][1].decode(), kept, sent, body)
    )
