"""What is read off an answer, as a table: thresholds' bits, a quantile's bin, means, and readings of panels."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Any

import msgspec

from app.formats.negotiate import Format
from app.formats.rows import Column, Table, exact_or_text, write

__all__ = ["ReadOff", "panel_table", "render_reading"]


@dataclass(frozen=True, slots=True)
class ReadOff:
    """A reading's document as JSON has it, the keys of its entries, the tier's whole ε, and labels for its table."""

    document: Mapping[str, Any]
    keys: tuple[str, ...]
    epsilon: str
    about: Mapping[str, str] = field(default_factory=dict)

    @property
    def json(self) -> bytes:
        """Return the document: the same bytes for the same answers."""
        return msgspec.json.encode(self.document)

    def table(self) -> Table:
        """Return the rows that the document holds, one a key; numbers to the digits that the document has.

        Example:
            >>> entries = [{"reached": True, "confidence": "0.9981"}]
            >>> table = ReadOff({"type": "threshold", "at": 40, "entries": entries}, (), "1").table()
            >>> [(column.name, column.values[0]) for column in table.columns][:3]
            [('key', None), ('at', Decimal('40')), ('reached', True)]
        """
        columns = _columns(self.document.get("reading", self.document), self.keys)
        rows = len(columns[0].values)
        return Table((*columns, Column("epsilon", [self.epsilon] * rows)), self.about)


def render_reading(read: ReadOff, wanted: Format) -> bytes:
    """Return a reading in a format: the same bytes for the same answers."""
    return read.json if wanted is Format.JSON else write(read.table(), wanted)


def panel_table(values: Sequence[Mapping[str, str]], epsilon: str, about: Mapping[str, str]) -> Table:
    """Return a panel's reading: value and both ends of its bar a key; of a quantile the key, and its radius in rank.

    Of a panel with axes the variances come last: the bound, and the estimate.

    Example:
        >>> table = panel_table([{"key": "a", "value": "1.5", "half_width": "2.0"}], "1", {})
        >>> [str(column.values[0]) for column in table.columns]
        ['a', '1.5', '-0.5', '3.5', '1']
    """
    key, last = Column("key", [row["key"] for row in values]), Column("epsilon", [epsilon] * len(values))
    extra = tuple(
        Column(name, [Decimal(row[name]) for row in values], name)
        for name in ("rank_radius", "variance_bound", "variance")
        if values and all(name in row for row in values)
    )
    if any("value" not in row for row in values):
        return Table((key, last, *extra), about)
    exact = [(Decimal(row["value"]), Decimal(row["half_width"])) for row in values]
    numbers = (
        Column("value", [value for value, _ in exact], "value"),
        Column("lower", [value - width for value, width in exact], "value"),
        Column("upper", [value + width for value, width in exact], "value"),
    )
    return Table((key, *numbers, last, *extra), about)


def _columns(document: Mapping[str, Any], keys: tuple[str, ...]) -> list[Column]:
    match document["type"]:
        case "threshold" | "mean":
            entries = document["entries"]
            key = Column("key", keys or [None] * len(entries))
            return [key, *(_mean if document["type"] == "mean" else _threshold)(document, entries)]
        case "quantile":
            ends = ("lower", "upper", "interval_lower", "interval_upper")
            bins = exact_or_text({name: [document[name]] for name in ends}, "bin")
            confidence = Column("confidence", [document["confidence"]])
            return [Column("fraction", [Decimal(document["fraction"])], "fraction"), *bins, confidence]
        case _:
            return [Column("key", [])]


def _threshold(document: Mapping[str, Any], entries: Sequence[Mapping[str, Any]]) -> list[Column]:
    return [
        Column("at", [Decimal(document["at"])] * len(entries), "at"),
        Column("reached", [entry["reached"] for entry in entries]),
        Column("confidence", [entry["confidence"] for entry in entries]),
    ]


def _mean(document: Mapping[str, Any], entries: Sequence[Mapping[str, Any]]) -> list[Column]:
    names = ("estimate", "half_width", "lower", "upper")
    numbers = exact_or_text({name: [entry[name] for entry in entries] for name in names}, "value")
    shape = Column("shape", [entry["shape"] for entry in entries])
    return [*numbers, shape, Column("confidence", [document["confidence"]] * len(entries))]
