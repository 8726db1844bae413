"""Budgets as exact rationals: text in, Fraction inside, integers of 10⁻⁹ in a ledger."""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction

from tiers.errors import BudgetOrderError, InvalidParameterError

__all__ = [
    "EPSILON_CEILING",
    "EPSILON_FLOOR",
    "LADDER_LIMIT",
    "NANO",
    "Ladder",
    "decimal_text",
    "nano_up",
    "parse_decimal",
    "parse_epsilon",
]

NANO = 10**9
EPSILON_CEILING = Fraction(50)
EPSILON_FLOOR = Fraction(1, 10**6)
LADDER_LIMIT = 64
_TEXT_LIMIT = 30
_DECIMAL = re.compile(r"[0-9]+(?:\.[0-9]+)?\Z")


def parse_decimal(name: str, value: str | int | Fraction) -> Fraction:
    """Return a non-negative decimal exactly: the text "0.1" is 1/10, never a binary float near it.

    Args:       name: what the number is, for the message. value: decimal text (ASCII digits, one optional point, at
                most 30 characters), an int, or a Fraction.
    Raises:     InvalidParameterError: a float, a bool, a sign, an exponent, blanks, other scripts, or over-long text.
    Example:
        >>> parse_decimal("epsilon", "0.1")
        Fraction(1, 10)
    """
    rule = f"a decimal such as '0.5', of at most {_TEXT_LIMIT} ASCII characters"
    if isinstance(value, str):
        if len(value) > _TEXT_LIMIT or not _DECIMAL.match(value):
            raise InvalidParameterError(name, rule, value)
        return Fraction(value)
    if isinstance(value, bool) or not isinstance(value, int | Fraction) or value < 0:
        raise InvalidParameterError(name, rule, value)
    return Fraction(value)


def parse_epsilon(
    value: str | int | Fraction,
    *,
    name: str = "epsilon",
    floor: Fraction = EPSILON_FLOOR,
    ceiling: Fraction = EPSILON_CEILING,
) -> Fraction:
    """Return a privacy budget ε as an exact rational within [floor, ceiling].

    Raises:     InvalidParameterError: not a decimal (see `parse_decimal`), or outside the interval.
    Example:
        >>> parse_epsilon("0.5")
        Fraction(1, 2)
    """
    epsilon = parse_decimal(name, value)
    if not floor <= epsilon <= ceiling:
        raise InvalidParameterError(name, f"{decimal_text(floor)} ≤ ε ≤ {decimal_text(ceiling)}", value)
    return epsilon


def nano_up(amount: Fraction) -> int:
    """Return a level in units of 10⁻⁹, rounded up: the ledger never counts less than was spent.

    Example:
        >>> nano_up(Fraction(1, 3))
        333333334
    """
    return -((-amount.numerator * NANO) // amount.denominator)


def decimal_text(value: Fraction) -> str:
    """Return the one canonical text of a rational: a plain decimal if it ends, else "n/d".

    Example:
        >>> decimal_text(Fraction(1, 10)), decimal_text(Fraction(2)), decimal_text(Fraction(1, 3))
        ('0.1', '2', '1/3')
    """
    denominator, twos, fives = value.denominator, 0, 0
    while denominator % 2 == 0:
        denominator, twos = denominator // 2, twos + 1
    while denominator % 5 == 0:
        denominator, fives = denominator // 5, fives + 1
    places = max(twos, fives)
    if denominator != 1:
        return f"{value.numerator}/{value.denominator}"
    if places == 0:
        return str(value.numerator)
    digits = str(abs(value.numerator) * 10**places // value.denominator).rjust(places + 1, "0")
    return f"{'-' if value < 0 else ''}{digits[:-places]}.{digits[-places:]}"


@dataclass(frozen=True, slots=True)
class Ladder:
    """The strictly falling budgets of one product; tier 1 is the highest.

    Example:
        >>> Ladder.parse(["2", "1", "0.5"]).epsilons[2]
        Fraction(1, 2)
    """

    epsilons: tuple[Fraction, ...]

    def __post_init__(self) -> None:
        if not 1 <= len(self.epsilons) <= LADDER_LIMIT:
            raise InvalidParameterError("ladder", f"1 to {LADDER_LIMIT} tiers", len(self.epsilons))
        for tier, epsilon in enumerate(self.epsilons, start=1):
            if not isinstance(epsilon, Fraction):
                raise InvalidParameterError(f"tier {tier}", "a Fraction", epsilon)
            parse_epsilon(epsilon, name=f"tier {tier}")
        for tier, (above, epsilon) in enumerate(zip(self.epsilons, self.epsilons[1:], strict=False), start=2):
            if epsilon >= above:
                raise BudgetOrderError(tier, decimal_text(above), decimal_text(epsilon))

    @classmethod
    def parse(cls, values: Sequence[str | int | Fraction]) -> "Ladder":
        """Return the ladder of `values`, each parsed by `parse_epsilon`; raises as it and the constructor do."""
        if isinstance(values, str) or not isinstance(values, Sequence) or len(values) > LADDER_LIMIT:
            raise InvalidParameterError("ladder", f"a list of 1 to {LADDER_LIMIT} decimals", values)
        return cls(tuple(parse_epsilon(value, name=f"tier {tier}") for tier, value in enumerate(values, start=1)))

    def __iter__(self) -> Iterator[Fraction]:
        return iter(self.epsilons)

    def __len__(self) -> int:
        return len(self.epsilons)
