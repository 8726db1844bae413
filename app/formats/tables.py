"""An answer as a table: key, value, the ends of its error bar, ε; exact numbers, in canonical order of keys."""

from dataclasses import dataclass
from decimal import Context, Decimal
from typing import Any

import msgspec

from app.formats.negotiate import Format
from app.formats.rows import Column, Table, write

__all__ = ["AnswerTable", "render"]

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

    def table(self) -> Table:
        """Return the table in which an answer travels; a question without keys has one row with no key."""
        numbers = zip(("value", "lower", "upper"), self.columns(), strict=True)
        exact = [Column(name, values, "value") for name, values in numbers]
        epsilon = Column("epsilon", [self.epsilon] * len(self.values))
        return Table((Column("key", self.keys), *exact, epsilon), self.about)


def render(body: bytes, wanted: Format) -> bytes:
    """Return an answer's JSON document in a format: the same bytes for the same document."""
    if wanted is Format.JSON:
        return body
    return write(AnswerTable.read(body).table(), wanted)


def _scaled(number: int, grain: int) -> Decimal:
    """number × 2^grain, exactly: 2^-g is 5^g / 10^g."""
    if grain >= 0:
        return Decimal(number << grain)
    return Decimal(number * 5**-grain).scaleb(grain, context=_EXACT)
