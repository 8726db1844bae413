"""Representations: one document in the format asked for, each with a strong ETag of its own; 304 where it is known."""

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator
from typing import Any

from litestar import Request, Response

from app.engine.state import etag_of
from app.formats.negotiate import Format, choose

__all__ = ["asked_format", "matches", "represent", "streamed"]

_CSV = "text/csv; header=present"  # Litestar adds the charset


def asked_format(request: Request[Any, Any, Any]) -> Format:
    """Return the format that a request asks for; raises NotAcceptableError."""
    accept = ",".join(request.headers.getall("accept", [])) or None
    return choose(accept, request.scope["query_string"].decode("latin-1"))


async def represent(
    render: Callable[[Format], bytes],
    wanted: Format,
    place: tuple[str, str],
    *,
    none_match: str | None = None,
    status: int = 200,
) -> Response[bytes]:
    """Return a document in a format; whoever asks has checked who may have it.

    Args:       render: the bytes of each format, the same for the same document. place: what the document is of; it
                goes into the ETag and the name of the file. none_match: the If-None-Match of a GET, if any.
    """
    body = await asyncio.to_thread(render, wanted)
    etag = etag_of(*place, body)
    headers = {"ETag": etag, "Vary": "accept", "Cache-Control": "private, no-cache"}
    if none_match is not None and matches(none_match, etag):
        return Response(b"", status_code=304, headers=headers)
    if wanted is not Format.JSON:
        name = f"reading-{place[0][:29]}-{place[1][:8]}.{wanted.name.lower()}"
        headers["Content-Disposition"] = f'attachment; filename="{name}"'
    media = _CSV if wanted is Format.CSV else wanted.value
    return Response(body, status_code=status, media_type=media, headers=headers)


def matches(none_match: str, etag: str) -> bool:
    """Return whether If-None-Match names this ETag (RFC 9110, section 13.1.2: compared weakly, `*` is any).

    Example:
        >>> matches('"a", W/"b"', '"b"'), matches("*", '"b"'), matches('"b', '"b"')
        (True, True, False)
    """
    if none_match == etag or none_match.strip() == "*":
        return True
    return etag in (part.strip().removeprefix("W/") for part in none_match.split(","))


async def streamed(lines: Iterator[bytes]) -> AsyncIterator[bytes]:
    """Yield what an iterator that may block gives, each of it read in a thread."""
    while (line := await asyncio.to_thread(next, lines, None)) is not None:
        yield line
