"""One measured line of a benchmark."""

from dataclasses import asdict, dataclass

__all__ = ["Row", "at_least", "at_most", "beside"]


@dataclass(frozen=True, slots=True)
class Row:
    """`holds` is None for a row that is printed beside others and has no bar of its own."""

    name: str
    value: float
    unit: str
    bar: str
    holds: bool | None
    how: str

    def document(self) -> dict[str, object]:
        """Return the row as it is printed in JSON."""
        return asdict(self)


def at_least(name: str, value: float, bar: float, unit: str, how: str) -> Row:
    """Return a row that holds where the value reaches the bar."""
    return Row(name, value, unit, f"≥ {bar:g}", value >= bar, how)


def at_most(name: str, value: float, bar: float, unit: str, how: str) -> Row:
    """Return a row that holds where the value stays within the bar."""
    return Row(name, value, unit, f"≤ {bar:g}", value <= bar, how)


def beside(name: str, value: float, unit: str, how: str) -> Row:
    """Return a row without a bar: context for the others."""
    return Row(name, value, unit, "", None, how)
