"""Query strings by struct, and pages: a JSON array, and where it goes on in a Link header (RFC 8288)."""

from collections.abc import Callable, Sequence
from typing import Any, TypeVar
from urllib.parse import urlencode

import msgspec
from litestar import Request, Response

from app.errors import InvalidRequestError

__all__ = ["page", "read_query"]

T = TypeVar("T")
Q = TypeVar("Q", bound=msgspec.Struct)


def read_query(request: Request[Any, Any, Any], kind: type[Q]) -> Q:
    """Return the query string as a struct: unknown or repeated names and values out of bounds are refused."""
    pairs = list(request.query_params.multi_items())
    given = dict(pairs)
    if len(given) < len(pairs):
        raise InvalidRequestError("query: expected each name once, got one twice")
    try:
        return msgspec.convert(given, kind, strict=False)
    except msgspec.ValidationError as error:
        raise InvalidRequestError(f"query: {str(error)[:200]}") from None


def page(
    request: Request[Any, Any, Any],
    found: Sequence[T],
    count: int,
    cursor: Callable[[T], str | int],
    *,
    name: str = "after",
    path: str | None = None,
    status: int = 200,
) -> Response[list[T]]:
    """Return the first `count` of what was found (one more was asked for) and, if there is more, the next page's link.

    The link repeats the request's own query, encoded anew, with the parameter `name` at the cursor of the last item
    shown; it leads to the list itself, or to `path`, whose first page this is.
    """
    shown = list(found[:count])
    headers = {}
    if len(found) > count:
        query = [pair for pair in request.query_params.multi_items() if pair[0] != name]
        target = urlencode([*query, (name, str(cursor(shown[-1])))])
        headers["Link"] = f'<{path or request.url.path}?{target}>; rel="next"'
    return Response(shown, headers=headers, status_code=status)
