"""How a budget is laid out over a sequence of queries, and over the rounds of one: savings are carried over."""

from collections.abc import Sequence
from enum import Enum
from fractions import Fraction

import numpy as np

from tiers.accounting.conversions import is_rational
from tiers.accounting.people import Nanos
from tiers.errors import InvalidParameterError

__all__ = ["Reallocation", "allocation", "allocations_nano", "doubling_split", "even_split", "share_of_savings"]


class Reallocation(Enum):
    """How much of what was saved so far the next query may use."""

    EVEN = "even"
    FIXED = "fixed"
    LINEAR = "linear"


def share_of_savings(rule: Reallocation, query: int, queries: int) -> Fraction:
    """Return p_l, the share of the savings that query l of m may use.

    Law:        even 1/(m − l + 1); fixed 3/4; linear 3/4 + (1/4)(l − 2)/(m − 2), from 3/4 at l = 2 to 1 at l = m (1 if
                m = 2). Before the first query nothing is saved.
    Raises:     InvalidParameterError: a query that is not one of 1 to m.
    Reference:  Liang and Yi, Adaptive Privacy Budgeting, section 5.1.
    Example:
        >>> [str(share_of_savings(rule, 3, 5)) for rule in Reallocation]
        ['1/3', '3/4', '5/6']
    """
    for name, value in (("query", query), ("queries", queries)):
        if type(value) is not int or value < 1:
            raise InvalidParameterError(name, "an integer ≥ 1", value)
    if query > queries:
        raise InvalidParameterError("query", f"one of 1 to {queries}", query)
    match rule:
        case Reallocation.EVEN:
            return Fraction(1, queries - query + 1)
        case Reallocation.FIXED:
            return Fraction(3, 4)
        case Reallocation.LINEAR:
            if queries == 2:
                return Fraction(1)
            return Fraction(3, 4) + Fraction(max(query - 2, 0), 4 * (queries - 2)) if queries > 2 else Fraction(3, 4)


def allocation(rule: Reallocation, query: int, queries: int, budget: Fraction, remaining: Fraction) -> Fraction:
    """Return what query l of m may spend: its even share of the first budget, and a share of what was saved.

    Law:        r = B/m + p_l·(remaining − (m − l + 1)·B/m); with 0 ≤ p_l ≤ 1 always B/m ≤ r ≤ remaining, if earlier
                queries kept to theirs.
    Args:       budget: B, before the first query. remaining: now.
    Raises:     InvalidParameterError: not rationals, or less left than the even shares of the queries to come.
    Reference:  Liang and Yi, Adaptive Privacy Budgeting, algorithm 3.
    Example:
        >>> allocation(Reallocation.EVEN, 2, 5, Fraction(1), Fraction(9, 10))
        Fraction(9, 40)
    """
    if not is_rational(budget) or budget <= 0:
        raise InvalidParameterError("budget", "a positive rational", budget)
    share = share_of_savings(rule, query, queries)
    each = Fraction(budget) / queries
    saved = remaining - (queries - query + 1) * each if is_rational(remaining) else Fraction(-1)
    if saved < 0:
        raise InvalidParameterError("remaining", f"at least {(queries - query + 1) * each}", remaining)
    return each + share * saved


def allocations_nano(rule: Reallocation, query: int, queries: int, budget: Nanos, remaining: Nanos) -> Nanos:
    """Return everybody's allocation in units of 10⁻⁹, rounded down; who has less left than an even share gets that.

    Law:        ⌊allocation⌋ for those who kept to their allocations; min(remaining, ⌊B/m⌋) for those who did not (other
                queries spent of their budget).
    Example:
        >>> allocations_nano(Reallocation.FIXED, 2, 4, np.array([100, 100]), np.array([90, 10])).tolist()
        [36, 10]
    """
    share = share_of_savings(rule, query, queries)
    if int(budget.max(initial=0)) > 2**62 // (queries * share.denominator):
        raise InvalidParameterError("budget", "units that leave room for the shares", int(budget.max()))
    saved = queries * remaining - (queries - query + 1) * budget  # of B/m, in m-ths of a unit
    whole = (share.denominator * budget + share.numerator * np.maximum(saved, 0)) // (queries * share.denominator)
    allocated: Nanos = np.minimum(whole, remaining)
    return allocated


def even_split(rounds: int) -> tuple[Fraction, ...]:
    """Return c equal parts of 1.

    Example:
        >>> even_split(2)
        (Fraction(1, 2), Fraction(1, 2))
    """
    return _parts([1] * _rounds(rounds))


def doubling_split(rounds: int) -> tuple[Fraction, ...]:
    """Return c parts of 1, each twice the one before: 2^(j−1)/(2^c − 1).

    Example:
        >>> [str(part) for part in doubling_split(3)]
        ['1/7', '2/7', '4/7']
    """
    return _parts([1 << place for place in range(_rounds(rounds))])


def _rounds(rounds: int) -> int:
    if type(rounds) is not int or not 1 <= rounds <= 64:
        raise InvalidParameterError("rounds", "an integer from 1 to 64", rounds)
    return rounds


def _parts(weights: Sequence[int]) -> tuple[Fraction, ...]:
    return tuple(Fraction(weight, sum(weights)) for weight in weights)
