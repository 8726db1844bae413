"""Canonical JSON and tagged hashes: one byte string for one value, so that hashes and keys mean one thing."""

import hashlib
import json
from collections.abc import Mapping, Sequence
from typing import TypeAlias

from tiers.errors import InvalidParameterError

__all__ = ["INTEGER_LIMIT", "Document", "canonical_bytes", "tagged_hash"]

Document: TypeAlias = "bool | int | str | Sequence[Document] | Mapping[str, Document] | None"
INTEGER_LIMIT = 2**53 - 1
_ENCODER = json.JSONEncoder(sort_keys=True, separators=(",", ":"), ensure_ascii=False)


def canonical_bytes(document: Document) -> bytes:
    """Return the one encoding of `document`: sorted keys, no blanks, UTF-8, no floats.

    Law:        every integer within ±(2⁵³ − 1); anything larger, and every fraction, travels as a decimal string.
    Raises:     InvalidParameterError: a float, an integer beyond the limit, a key that is not text, a lone surrogate.
    Example:
        >>> canonical_bytes({"b": [1, "é"], "a": None})
        b'{"a":null,"b":[1,"\\xc3\\xa9"]}'
    """
    _check(document)
    try:
        return _ENCODER.encode(document).encode()
    except UnicodeEncodeError:
        raise InvalidParameterError("document", "text that UTF-8 can encode", "a lone surrogate") from None


def tagged_hash(tag: str, *parts: bytes) -> bytes:
    """Return SHA-256 over `tag` and length-prefixed parts, so that no two meanings share a preimage.

    Example:
        >>> tagged_hash("a", b"bc") == tagged_hash("a", b"b", b"c")
        False
    """
    digest = hashlib.sha256()
    for part in (f"tiermarket/{tag}".encode(), *parts):
        digest.update(len(part).to_bytes(8, "big"))
        digest.update(part)
    return digest.digest()


def _check(value: object) -> None:
    if value is None or isinstance(value, bool | str):
        return
    if isinstance(value, int):
        if abs(value) > INTEGER_LIMIT:
            raise InvalidParameterError("document", "integers within ±(2⁵³ − 1); larger ones as text", value)
    elif isinstance(value, Mapping):
        for key, item in value.items():
            if not isinstance(key, str):
                raise InvalidParameterError("document", "keys that are text", key)
            _check(item)
    elif isinstance(value, list | tuple):
        for item in value:
            _check(item)
    else:
        raise InvalidParameterError("document", "text, integers, lists and mappings (no floats)", type(value).__name__)
