"""Any table in the market's formats: text, bits and exact numbers by column; the same bytes for the same table."""

import io
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import TYPE_CHECKING, Any, TypeAlias

from app.formats.negotiate import Format

if TYPE_CHECKING:
    import pyarrow

__all__ = ["Column", "Table", "exact_or_text", "neutral", "write"]

Cell: TypeAlias = str | bool | Decimal | None
_FORMULA = tuple("=+-@\t\r\n'＝＋－＠")
_QUOTED = frozenset('",;|\t\r\n')
_NUMBER = re.compile(r"-?[0-9]+(?:\.[0-9]+)?(?:e[+-]?[0-9]{1,3})?\Z")  # a binary64 at its shortest has an exponent
_INT64 = 2**63
_DECIMAL_DIGITS = 38


@dataclass(frozen=True, slots=True)
class Column:
    """One column: text, bits, or exact numbers; `unit` is shared by columns of numbers that have one type together."""

    name: str
    values: Sequence[Cell]
    unit: str | None = None


@dataclass(frozen=True, slots=True)
class Table:
    """Columns of equal length; `about` are the labels that travel along where the format has a place for them."""

    columns: tuple[Column, ...]
    about: Mapping[str, str]


def exact_or_text(columns: Mapping[str, Sequence[str | None]], unit: str) -> list[Column]:
    """Return columns of exact numbers where every text in them is a number, else all of them of the texts.

    They have one type together, so that a column without any text has the type that it has where there is one.

    Example:
        >>> [column.values for column in exact_or_text({"lower": [None], "upper": ["-3.0"]}, "bin")]
        [[None], [Decimal('-3.0')]]
        >>> [column.unit for column in exact_or_text({"lower": [None], "upper": ["2026-01-02"]}, "bin")]
        [None, None]
    """
    texts = [text for values in columns.values() for text in values if text is not None]
    if all(_NUMBER.match(text) for text in texts):
        return [
            Column(name, [None if text is None else Decimal(text) for text in values], unit)
            for name, values in columns.items()
        ]
    return [Column(name, values) for name, values in columns.items()]


def write(table: Table, wanted: Format) -> bytes:
    """Return a table in a format other than JSON, whose document is each table's own.

    Example:
        >>> write(Table((Column("key", ["=a"]), Column("value", [Decimal("0.50")], "value")), {}), Format.CSV)
        b"key,value\\r\\n'=a,0.50\\r\\n"
    """
    if wanted is Format.CSV:
        return _csv(table)
    return _arrow(table) if wanted is Format.ARROW else _parquet(table)


def neutral(text: str) -> str:
    """Return a cell that no spreadsheet takes for a formula; a leading apostrophe is doubled, so nothing collides.

    Example:
        >>> neutral("=1+1"), neutral("'=1+1"), neutral(" @x"), neutral("a=b")
        ("'=1+1", "''=1+1", "' @x", 'a=b')
    """
    return "'" + text if text.startswith(_FORMULA) or text.lstrip().startswith(_FORMULA) else text


def _csv(table: Table) -> bytes:
    """RFC 4180, in UTF-8, with a header; what is absent is an empty cell.

    Cells with a semicolon, a tab or a bar are quoted too: where a spreadsheet splits at those and not at commas, what
    follows one would otherwise begin a cell, and might be a formula.
    """
    header = [column.name for column in table.columns]
    rows = zip(*(map(_cell, column.values) for column in table.columns), strict=True)
    return "".join(",".join(map(_quoted, row)) + "\r\n" for row in (header, *rows)).encode()


def _quoted(cell: str) -> str:
    return cell if _QUOTED.isdisjoint(cell) else '"' + cell.replace('"', '""') + '"'


def _cell(cell: Cell) -> str:
    match cell:
        case None:
            return ""
        case bool():
            return "true" if cell else "false"
        case Decimal():
            return format(cell, "f")
        case str():
            return neutral(cell)


def _filled(table: Table) -> "pyarrow.Table":
    import pyarrow as pa

    units = {column.unit for column in table.columns if column.unit is not None}
    kinds = {unit: _numeric(table, unit) for unit in units}
    arrays = []
    for column in table.columns:
        values: Sequence[Any] = column.values
        kind = pa.string() if column.unit is None else kinds[column.unit]
        if column.unit is None:
            kind = pa.bool_() if values and isinstance(values[0], bool) else kind
        elif pa.types.is_int64(kind):
            values = [None if number is None else int(number) for number in values]
        elif pa.types.is_string(kind):
            values = [None if number is None else format(number, "f") for number in values]
        arrays.append(pa.array(values, kind))
    fields = [(column.name, array.type) for column, array in zip(table.columns, arrays, strict=True)]
    return pa.Table.from_arrays(arrays, schema=pa.schema(fields, metadata=dict(table.about)))


def _numeric(table: Table, unit: str) -> Any:
    """Whole numbers of 64 bits where all of a unit fit, else decimals of 128 bits, else decimal text: never a float."""
    import pyarrow as pa

    every = [
        number
        for column in table.columns
        if column.unit == unit
        for number in column.values
        if isinstance(number, Decimal)
    ]
    whole, scale = 1, 0  # digits before and after the point
    for number in every:
        parts = number.as_tuple()
        assert isinstance(parts.exponent, int)
        whole, scale = max(whole, len(parts.digits) + parts.exponent), max(scale, -parts.exponent)
    if scale == 0 and all(-_INT64 <= number < _INT64 for number in every):
        return pa.int64()
    if whole + scale <= _DECIMAL_DIGITS:
        return pa.decimal128(_DECIMAL_DIGITS, scale)
    return pa.string()


def _arrow(table: Table) -> bytes:
    import pyarrow as pa

    sink = io.BytesIO()
    filled = _filled(table)
    with pa.ipc.new_stream(sink, filled.schema) as writer:
        writer.write_table(filled)
    return sink.getvalue()


def _parquet(table: Table) -> bytes:
    import pyarrow.parquet as pq

    sink = io.BytesIO()
    pq.write_table(_filled(table), sink, compression="snappy")
    return sink.getvalue()
