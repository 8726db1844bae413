"""Which format a request gets: by `?format=` where it is given, else by Accept (RFC 9110, section 12.5.1)."""

import re
from enum import Enum
from typing import TypeVar
from urllib.parse import parse_qs

from app.errors import NotAcceptableError

__all__ = ["Format", "choose", "choose_of"]

_QUALITY = re.compile(r"(?:0(?:\.[0-9]{0,3})?|1(?:\.0{0,3})?)\Z")
_ACCEPT_LIMIT = 1_000


class Format(Enum):
    """A format with its media type, in the market's order of preference."""

    JSON = "application/json"
    CSV = "text/csv"
    ARROW = "application/vnd.apache.arrow.stream"
    PARQUET = "application/vnd.apache.parquet"


Kind = TypeVar("Kind", bound=Enum)


def choose(accept: str | None, query: str = "") -> Format:
    """Return the format of an answer that is asked for; raises as `choose_of` does.

    Example:
        >>> choose("text/csv;q=0.5, application/vnd.apache.parquet").name
        'PARQUET'
        >>> choose("application/json", "format=csv").name
        'CSV'
    """
    return choose_of(Format, accept, query)


def choose_of(kinds: type[Kind], accept: str | None, query: str = "") -> Kind:
    """Return the format asked for, of some: their names in lower case are those of the query, their values media types.

    Args:       accept: the Accept header, if any. query: the query string; `format` in it wins.
    Raises:     NotAcceptableError: nothing that the market has is accepted, or the header cannot be read.
    """
    first = next(iter(kinds))
    try:
        wanted = parse_qs(query, keep_blank_values=True, max_num_fields=20).get("format") if query else None
    except ValueError:  # more fields than any request needs
        raise _refused(kinds) from None
    if wanted is not None:
        if len(wanted) != 1 or wanted[0].upper() not in kinds.__members__ or wanted[0] != wanted[0].lower():
            raise _refused(kinds)
        return kinds[wanted[0].upper()]
    if accept is None or accept in ("*/*", first.value):
        return first
    try:
        ranges = _ranges(accept)
    except ValueError:
        raise _refused(kinds) from None
    scored = [(_quality(ranges, kind.value), -place, kind) for place, kind in enumerate(kinds)]
    best = max(scored, key=lambda score: score[:2])
    if not best[0]:
        raise _refused(kinds)
    return best[2]


def _ranges(accept: str) -> dict[str, float]:
    """Quality by media range; a range that is given twice keeps its highest; raises ValueError."""
    if len(accept) > _ACCEPT_LIMIT:
        raise ValueError("Accept")
    found: dict[str, float] = {}
    for part in accept.lower().split(","):
        name, *parameters = (piece.strip() for piece in part.split(";"))
        if not name:
            continue
        quality = 1.0
        for parameter in parameters:
            key, _, value = parameter.partition("=")
            if key.strip() == "q":
                if not _QUALITY.match(value.strip()):
                    raise ValueError("Accept")
                quality = float(value)
        found[name] = max(quality, found.get(name, 0.0))
    return found or {"*/*": 1.0}


def _quality(ranges: dict[str, float], media: str) -> float:
    """The most specific range decides, also where it says no."""
    for name in (media, f"{media.partition('/')[0]}/*", "*/*"):
        if name in ranges:
            return ranges[name]
    return 0.0


def _refused(kinds: type[Enum]) -> NotAcceptableError:
    return NotAcceptableError(
        "Accept: expected one of the formats that answers have, got none", formats=[kind.value for kind in kinds]
    )
