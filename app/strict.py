"""JSON that every parser reads the same way: no key twice, no NaN or infinity, endless nesting, number in text."""

import json
import re
from functools import lru_cache
from typing import Any

import msgspec

from app.errors import InvalidRequestError

__all__ = ["check_json", "decode_body"]

_AT = re.compile(r" - at `\$\.?(.*)`\Z")
_LIMIT = 200


def check_json(name: str, raw: bytes) -> None:
    """Pass if `raw` is JSON that parsers cannot differ on.

    Raises:     InvalidRequestError: what it is not.
    Example:
        >>> check_json("body", b'{"count": 1, "count": 2}')
        Traceback (most recent call last):
        app.errors.InvalidRequestError: body: expected JSON, got a repeated key
    """
    try:
        json.loads(raw, object_pairs_hook=_unique, parse_constant=_no_constant)
        msgspec.json.decode(raw)  # stricter elsewhere: UTF-8 alone, no half of a pair, no number beyond all bounds
    except RecursionError:
        raise InvalidRequestError(f"{name}: expected JSON of bounded depth, got deeper nesting") from None
    except (ValueError, msgspec.MsgspecError) as error:
        raise InvalidRequestError(f"{name}: expected JSON, got {_reason(error)}") from None


def decode_body(raw: bytes, kind: Any) -> Any:
    """Return a body as what is due, converting nothing: "1" is no number, 1.0 no whole one, 1 neither text nor true.

    Raises:     InvalidRequestError: it is something else; `errors` says which field, what was expected and what came.
    Example:
        >>> decode_body(b'"100"', int)
        Traceback (most recent call last):
        app.errors.InvalidRequestError: body: expected the documented fields within their bounds, got others
    """
    try:
        return _decoder(kind).decode(raw)
    except msgspec.ValidationError as error:
        text = str(error)
        at = _AT.search(text)
        wrong = {"message": _AT.sub("", text)[:_LIMIT], "key": at[1][:_LIMIT] if at else "", "source": "body"}
        detail = "body: expected the documented fields within their bounds, got others"
        raise InvalidRequestError(detail, errors=[wrong]) from None


@lru_cache(maxsize=256)
def _decoder(kind: Any) -> msgspec.json.Decoder[Any]:
    return msgspec.json.Decoder(kind, strict=True)


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        raise _RepeatedKeyError
    return found


def _no_constant(name: str) -> None:
    raise _ConstantError


class _RepeatedKeyError(ValueError):
    pass


class _ConstantError(ValueError):
    pass


def _reason(error: Exception) -> str:
    if isinstance(error, _RepeatedKeyError):
        return "a repeated key"
    if isinstance(error, _ConstantError):
        return "a number that JSON does not have"
    return "something else"
