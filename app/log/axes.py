"""The axes of an ordered domain, and what a promise of ε a step means on them: told in full wherever it is sold."""

from collections.abc import Sequence
from fractions import Fraction
from typing import Annotated, Literal, TypeAlias

import msgspec
from msgspec import Meta

from tiers.budget import decimal_text

__all__ = ["AXES_LIMIT", "VALUES_LIMIT", "Axis", "Metric", "metric_of", "read_axes"]

AXES_LIMIT, VALUES_LIMIT = 3, 4_096
_Line: TypeAlias = Annotated[str, Meta(min_length=1, max_length=200, pattern=r"^[^\x00-\x1f\x7f]+\Z")]


class Axis(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One ordered dimension: its values in order, and what one step between neighbours is.

    Args:       unit: of one step, in the owner's words, such as "one hour".
    """

    name: _Line
    unit: _Line
    values: Annotated[tuple[_Line, ...], Meta(min_length=2, max_length=VALUES_LIMIT)]


class Metric(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How far apart two values are, where ε is a step's: the sum over axes of the steps between them (l1).

    Guarantee:  values t steps apart are told apart by tε at most; t is never more than `diameter`.
    Example:
        >>> metric = metric_of([24, 8])
        >>> metric.diameter, metric.across(Fraction(1, 2))
        (30, '15')
        >>> metric.text(Fraction(1, 2))[-51:]
        'ε = 15 for the two values farthest apart (30 steps)'
    """

    distance: Literal["l1"]
    unit: Literal["step"]
    diameter: Annotated[int, Meta(ge=1, le=2**53 - 1)]

    def across(self, epsilon: Fraction) -> str:
        """Return the ε between the two values farthest apart, as decimal text: what ε promises for any two."""
        return decimal_text(epsilon * self.diameter)

    def text(self, epsilon: Fraction) -> str:
        """Return the promise as a sentence."""
        return (
            f"ε = {decimal_text(epsilon)} for each step between neighbouring values, steps of all axes added up; "
            f"ε = {self.across(epsilon)} for the two values farthest apart ({self.diameter} steps)"
        )


def metric_of(sizes: Sequence[int]) -> Metric:
    """Return the metric of a domain with so many values on each axis."""
    return Metric(distance="l1", unit="step", diameter=sum(sizes) - len(sizes))


def read_axes(text: str | None) -> tuple[Axis, ...]:
    """Return the axes that a panel's row keeps: none of a plain domain."""
    return () if text is None else msgspec.json.decode(text, type=tuple[Axis, ...])
