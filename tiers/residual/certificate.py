"""What the validity of a residual rests on, as a value that an auditor can recompute and compare."""

from dataclasses import dataclass
from fractions import Fraction
from typing import ClassVar, TypeAlias

__all__ = ["BallProof", "Certificate", "ClosedForm", "SlackBound"]


@dataclass(frozen=True, slots=True)
class ClosedForm:
    """Valid: the residual is a known law, by an identity of characteristic functions that holds at every t.

    Example:
        >>> ClosedForm("Skellam rates add").tau
        Fraction(0, 1)
    """

    identity: str
    rests_on: ClassVar[str] = "closed form"
    tau: ClassVar[Fraction] = Fraction(0)


@dataclass(frozen=True, slots=True)
class BallProof:
    """Valid for every k: balls prove pmf(k) > 0 for |k| ≤ `checked_to`, the sign of the leading terms proves the rest.

    Args:       checked_to: last k checked one by one. least: the least of these. tail: why the rest holds.

    Example:
        >>> BallProof(checked_to=3, least=0.01, tail="one positive geometric term").rests_on
        'ball arithmetic and the analytic sign of the tail'
    """

    checked_to: int
    least: float
    tail: str
    rests_on: ClassVar[str] = "ball arithmetic and the analytic sign of the tail"
    tau: ClassVar[Fraction] = Fraction(0)


@dataclass(frozen=True, slots=True)
class SlackBound:
    """Valid with slack τ: the law sold differs from the lower tier's by at most τ in total variation, proved.

    The residual is a finite table, found numerically; that upper * table is within τ of lower is then proved on
    certified integers, whatever the table came from.

    Args:       tau: the bound; at least the negative mass that was clipped, and at least the distance proved.
                least: least value of the inverse transform. negative: its total negative mass. ring: points of the
                inversion, 0 where the table came from elsewhere. wrap: bound on the mass of both laws outside half a
                ring. distance: the proved bound.

    Example:
        >>> SlackBound(Fraction(1, 10**9), -1e-10, 1e-9, 64, 1e-30, 1e-10).rests_on
        'a finite table and a proved bound on its distance'
    """

    tau: Fraction
    least: float
    negative: float
    ring: int
    wrap: float
    distance: float
    rests_on: ClassVar[str] = "a finite table and a proved bound on its distance"


Certificate: TypeAlias = ClosedForm | BallProof | SlackBound
