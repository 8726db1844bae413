"""PostgreSQL servers that may keep owners' snapshots: named by the operator, in a file, never by a request."""

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated

import msgspec
from msgspec import Meta

from app.errors import InvalidRequestError

__all__ = ["Source", "read_sources"]

_Text = Annotated[str, Meta(min_length=1, max_length=1_000, pattern=r"^[^\x00]+\Z")]
_Part = Annotated[str, Meta(min_length=1, max_length=63, pattern=r"^[a-z_][a-z0-9_]*\Z")]
_Name = Annotated[str, Meta(min_length=1, max_length=40, pattern=r"^[a-z][a-z0-9-]*\Z")]


class Source(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A server and two roles on it: one that writes snapshots once, one that may only read them.

    Args:       writer, reader: connection strings of libpq; they may hold passwords and have no text here. role: the
                reader's name. schema: where the tables go, made if need be.
    Example:
        >>> Source(writer="host=db password=x", reader="host=db password=y", role="reader")
        Source(<secret>)
    """

    writer: _Text
    reader: _Text
    role: _Part
    schema: _Part = "tiermarket"

    def __repr__(self) -> str:
        return "Source(<secret>)"


def read_sources(path: str) -> Mapping[str, Source]:
    """Return the sources of a JSON file, by name; none without a file.

    Raises:     InvalidRequestError: no such file, or not the documented JSON; the message holds nothing of it.
    Example:
        >>> read_sources("")
        {}
    """
    if not path:
        return {}
    found: Mapping[str, Source] | None
    try:
        found = msgspec.json.decode(Path(path).read_bytes(), type=dict[_Name, Source])
    except (OSError, msgspec.MsgspecError, UnicodeDecodeError):
        found = None  # raised outside the handler: what the decoder says may quote a password
    if found is None:
        raise InvalidRequestError("TIERMARKET_SOURCES: expected a file of named sources, got none or another")
    return found
