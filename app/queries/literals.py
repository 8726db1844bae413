"""One text for one value: literals read by the type of the column they meet."""

import re
from collections.abc import Callable
from datetime import UTC, date, datetime, timedelta
from fractions import Fraction

from app.errors import InvalidQueryError
from app.queries.model import Scalar
from app.queries.schema import Column, ColumnType

__all__ = ["INTEGER_MAX", "INTEGER_MIN", "canonical_text", "neighbour", "ordered", "sort_key"]

INTEGER_MIN, INTEGER_MAX = -(2**63), 2**63 - 1
_DECIMAL = re.compile(r"-?[0-9]{1,30}(?:\.[0-9]{1,30})?\Z")
_DATE = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}\Z")
_TIMESTAMP = re.compile(
    r"[0-9]{4}-[0-9]{2}-[0-9]{2}[T ][0-9]{2}:[0-9]{2}(?::[0-9]{2}(?:\.[0-9]{1,6})?)?(?:Z|[+-][0-9]{2}:[0-9]{2})?\Z"
)
_RULES: dict[ColumnType, str] = {
    "integer": "a whole number of 64 bits",
    "real": "a decimal such as '-0.5'",
    "text": "text in Unicode without NUL",
    "boolean": "true or false",
    "date": "a date such as '2013-01-31'",
    "timestamp": "a time such as '2013-01-31T10:00:00Z'",
}


def canonical_text(column: Column, value: Scalar) -> str:
    """Return the one text of `value` as a value of `column`: 1, "1" and "1.00" are "1" in an integer column.

    A decimal meeting a real column becomes the nearest binary64 (ties to even), written shortest. A time without an
    offset is UTC; with one it is moved to UTC.

    Raises:     InvalidQueryError: the value is not one of the column's type.
    Example:    >>> canonical_text(Column(name="delay", type="real"), "1.00")
                '1.0'
    """
    try:
        return _READERS[column.type](value)
    except (ValueError, OverflowError) as error:
        raise InvalidQueryError(
            f"{column.name}: expected {_RULES[column.type]}, got {repr(value)[:60]}", column=column.name
        ) from error


def ordered(kind: ColumnType) -> bool:
    """Return whether values of `kind` may be compared by size."""
    return kind not in ("text", "boolean")


def sort_key(kind: ColumnType, text: str) -> tuple[int, str]:
    """Return what puts canonical texts of `kind` in canonical order: whole numbers by size, all else by code point."""
    return (int(text), "") if kind == "integer" else (0, text)


def neighbour(kind: ColumnType, text: str, steps: int) -> str | None:
    """Return the value `steps` after `text` where values are countable (whole numbers, dates), else nothing."""
    if kind == "integer":
        return str(int(text) + steps) if INTEGER_MIN <= int(text) + steps <= INTEGER_MAX else None
    if kind == "date":
        ordinal = date.fromisoformat(text).toordinal() + steps
        return date.fromordinal(ordinal).isoformat() if 1 <= ordinal <= date.max.toordinal() else None
    return None


def _fraction(value: Scalar) -> Fraction:
    if isinstance(value, bool) or (isinstance(value, str) and not _DECIMAL.match(value)):
        raise ValueError
    return Fraction(value)


def _integer(value: Scalar) -> str:
    number = _fraction(value)
    if number.denominator != 1 or not INTEGER_MIN <= number <= INTEGER_MAX:
        raise ValueError
    return str(number.numerator)


def _real(value: Scalar) -> str:
    return repr(float(_fraction(value)))


def _text(value: Scalar) -> str:
    if not isinstance(value, str) or "\0" in value:
        raise ValueError
    value.encode("utf-8")  # a lone surrogate has no UTF-8: UnicodeEncodeError, a ValueError
    return value


def _boolean(value: Scalar) -> str:
    if not isinstance(value, bool):
        raise ValueError
    return "true" if value else "false"


def _date(value: Scalar) -> str:
    if not isinstance(value, str) or not _DATE.match(value):
        raise ValueError
    return date.fromisoformat(value).isoformat()


def _timestamp(value: Scalar) -> str:
    if not isinstance(value, str) or not _TIMESTAMP.match(value):
        raise ValueError
    moment = datetime.fromisoformat(_padded(value))
    moment = moment.replace(tzinfo=UTC) if moment.tzinfo is None else moment
    return (moment.replace(tzinfo=None) - (moment.utcoffset() or timedelta())).isoformat(" ", "microseconds")


def _padded(value: str) -> str:
    """The same time with six digits after its point: what datetime reads in every version."""
    return re.sub(r"\.[0-9]+", lambda digits: digits.group().ljust(7, "0"), value)


_READERS: dict[ColumnType, Callable[[Scalar], str]] = {
    "integer": _integer,
    "real": _real,
    "text": _text,
    "boolean": _boolean,
    "date": _date,
    "timestamp": _timestamp,
}
