"""An answer as a table: key, value, the ends of its error bar, ε; exact numbers, in canonical order of keys."""

import csv
import io
from dataclasses import dataclass
from decimal import Context, Decimal
from typing import TYPE_CHECKING, Any

import msgspec

from app.formats.negotiate import Format

if TYPE_CHECKING:
    import pyarrow

__all__ = ["AnswerTable", "neutral", "render"]

COLUMNS = ("key", "value", "lower", "upper", "epsilon")
_FORMULA = tuple("=+-@\t\r\n'＝＋－＠")
_INT64 = 2**63
_DECIMAL_DIGITS = 38
_EXACT = Context(prec=400)
_ABOUT = ("chain", "confidence", "epsilon", "law", "snapshot")


@dataclass(frozen=True, slots=True)
class AnswerTable:
    """An answer's rows as lattice integers; `grain` is the step's exponent, `about` the labels that travel along."""

    keys: tuple[str | None, ...]
    values: tuple[int, ...]
    half_width: int
    grain: int
    epsilon: str
    about: dict[str, str]

    @classmethod
    def read(cls, body: bytes) -> "AnswerTable":
        """Return the table of an answer's JSON document: all formats come from the one issued document."""
        document: dict[str, Any] = msgspec.json.decode(body)
        values = tuple(int(value) for value in document["values"])
        about = {name: document[name] for name in _ABOUT}
        if document.get("dummy"):
            about["dummy"] = "true"
        return cls(
            keys=tuple(document["keys"]) or (None,) * len(values),
            values=values,
            half_width=int(document["half_width"]),
            grain=document["grain_exponent"],
            epsilon=document["epsilon"],
            about=about,
        )

    def columns(self) -> tuple[list[Decimal], list[Decimal], list[Decimal]]:
        """Return value, lower and upper, exactly.

        Example:
            >>> AnswerTable(("a",), (3,), 1, -2, "1", {}).columns()
            ([Decimal('0.75')], [Decimal('0.50')], [Decimal('1.00')])
        """
        steps = [(value, value - self.half_width, value + self.half_width) for value in self.values]
        exact = [tuple(_scaled(number, self.grain) for number in row) for row in steps]
        return [row[0] for row in exact], [row[1] for row in exact], [row[2] for row in exact]


def render(body: bytes, wanted: Format) -> bytes:
    """Return an answer's JSON document in a format: the same bytes for the same document."""
    if wanted is Format.JSON:
        return body
    table = AnswerTable.read(body)
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


def _scaled(number: int, grain: int) -> Decimal:
    """number × 2^grain, exactly: 2^-g is 5^g / 10^g."""
    if grain >= 0:
        return Decimal(number << grain)
    return Decimal(number * 5**-grain).scaleb(grain, context=_EXACT)


def _csv(table: AnswerTable) -> bytes:
    """RFC 4180, in UTF-8, with a header; a question without keys has one row with an empty key."""
    lines = io.StringIO()
    writer = csv.writer(lines, lineterminator="\r\n")
    writer.writerow(COLUMNS)
    for key, *numbers in zip(table.keys, *table.columns(), strict=True):
        exact = [format(number, "f") for number in numbers]
        writer.writerow(["" if key is None else neutral(key), *exact, table.epsilon])
    return lines.getvalue().encode()


def _table(table: AnswerTable) -> "pyarrow.Table":
    """Whole numbers of 64 bits where all fit, else decimals of 128 bits, else decimal text: never a float."""
    import pyarrow as pa

    columns = table.columns()
    every = [number for column in columns for number in column]
    digits = max(len(number.as_tuple().digits) for number in every)
    kind: Any
    arrays: list[Any]
    if table.grain >= 0 and all(-_INT64 <= number < _INT64 for number in every):
        kind, arrays = pa.int64(), [[int(number) for number in column] for column in columns]
    elif max(digits, -min(table.grain, 0)) <= _DECIMAL_DIGITS:
        kind, arrays = pa.decimal128(_DECIMAL_DIGITS, -min(table.grain, 0)), list(columns)
    else:
        kind, arrays = pa.string(), [[format(number, "f") for number in column] for column in columns]
    fields = [("key", pa.string()), *((name, kind) for name in COLUMNS[1:4]), ("epsilon", pa.string())]
    schema = pa.schema(fields, metadata=table.about)
    rows = len(table.values)
    return pa.Table.from_arrays(
        [
            pa.array(table.keys, pa.string()),
            *(pa.array(values, kind) for values in arrays),
            pa.array([table.epsilon] * rows, pa.string()),
        ],
        schema=schema,
    )


def _arrow(table: AnswerTable) -> bytes:
    import pyarrow as pa

    sink = io.BytesIO()
    filled = _table(table)
    with pa.ipc.new_stream(sink, filled.schema) as writer:
        writer.write_table(filled)
    return sink.getvalue()


def _parquet(table: AnswerTable) -> bytes:
    import pyarrow.parquet as pq

    sink = io.BytesIO()
    pq.write_table(_table(table), sink, compression="snappy")
    return sink.getvalue()
