"""JSON that every parser reads the same way: no key twice, no NaN or infinity, endless nesting, number in text."""

import json
import re
from functools import lru_cache
from typing import Any

import msgspec
from msgspec import inspect

from app.errors import InvalidRequestError

__all__ = ["check_json", "decode_body", "told"]

_AT = re.compile(r" - at `\$\.?(.*)`\Z")
_NO_CHOICE = re.compile(r"Invalid (?:enum )?value (.*)\Z", re.DOTALL)
_STEP = re.compile(r"\[(?:[0-9]+|\.\.\.)\]|[^.\[]+")
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
        key, message = told(error, kind)
        wrong = {"message": message, "key": key, "source": "body"}
        detail = "body: expected the documented fields within their bounds, got others"
        raise InvalidRequestError(detail, errors=[wrong]) from None


def told(error: msgspec.ValidationError, kind: Any) -> tuple[str, str]:
    """Return where a document that was to be a `kind` is wrong, and what was expected there.

    Example:
        >>> from typing import Literal
        >>> class Side(msgspec.Struct):
        ...     axis: Literal["x", "y"]
        >>> try:
        ...     msgspec.json.decode(b'[{"axis": "z"}]', type=list[Side])
        ... except msgspec.ValidationError as error:
        ...     told(error, list[Side])
        ('[0].axis', "Expected one of 'x', 'y', got 'z'")
    """
    text = str(error)
    at = _AT.search(text)
    key, message = at[1] if at else "", _AT.sub("", text)
    other = _NO_CHOICE.match(message)
    if other and (choices := _choices(kind, key)):
        message = f"Expected one of {', '.join(map(repr, choices))}, got {other[1]}"
    return key[:_LIMIT], message[:_LIMIT]


def _choices(kind: Any, key: str) -> tuple[object, ...]:
    """What may stand at the end of a path: of enumerations, and of the tags that tell kinds apart."""
    found = [inspect.type_info(kind)]
    for step in _STEP.findall(key):
        found = [below for each in found for option in _options(each) for below in _below(option, step)]
    ends = [option for each in found for option in _options(each)]
    literal = [choice for end in ends if isinstance(end, inspect.LiteralType) for choice in end.values]
    named = [each.value for end in ends if isinstance(end, inspect.EnumType) for each in end.cls]
    return tuple(dict.fromkeys(literal + named))


def _options(node: inspect.Type) -> tuple[inspect.Type, ...]:
    if isinstance(node, inspect.Metadata):
        return _options(node.type)
    return node.types if isinstance(node, inspect.UnionType) else (node,)


def _below(node: inspect.Type, step: str) -> list[inspect.Type]:
    if isinstance(node, inspect.StructType):
        tag = [inspect.LiteralType((node.tag,))] if node.tag_field == step and node.tag is not None else []
        return tag + [field.type for field in node.fields if field.encode_name == step]
    if isinstance(node, inspect.CollectionType):
        return [node.item_type]
    if isinstance(node, inspect.TupleType):
        return list(node.item_types)
    return [node.value_type] if isinstance(node, inspect.DictType) else []


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
