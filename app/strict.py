"""JSON that every parser reads the same way: no key twice, no NaN, no infinity, no endless nesting, no "1" for 1."""

import json
from typing import Any

import msgspec

from app.errors import InvalidRequestError

__all__ = ["check_json", "check_typed"]


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


def check_typed(name: str, raw: bytes, kind: Any) -> None:
    """Pass unless JSON becomes a `kind` only where text is taken for a number or a bit, as lenient readers take it.

    What is no `kind` to them either passes: they say what is wrong with it, and where.

    Raises:     InvalidRequestError: it is one to lenient readers alone.
    Example:
        >>> check_typed("body", b"[1, 2]", list[int])
        >>> check_typed("body", b'[1, "2"]', list[int])
        Traceback (most recent call last):
        app.errors.InvalidRequestError: body: expected numbers and bits as JSON writes them, got another form of one
    """
    try:
        msgspec.json.decode(raw, type=kind)
    except msgspec.ValidationError:
        try:
            msgspec.convert(msgspec.json.decode(raw), kind, strict=False, str_keys=True)
        except msgspec.ValidationError:
            return
        detail = f"{name}: expected numbers and bits as JSON writes them, got another form of one"
        raise InvalidRequestError(detail) from None


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
