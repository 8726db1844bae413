"""The raw vectors that answer a question: itself for all measures but a mean, which is a sum and a count."""

from fractions import Fraction

import msgspec

from app.queries.canonical import CanonicalQuery, CountRows, MeanSteps, settled
from app.queries.conditions import Atom, conjunction

__all__ = ["Component", "components"]


class Component(msgspec.Struct, frozen=True):
    """One raw vector to sell: a canonical question of its own, with its own chain, at `share` of each tier's ε."""

    name: str
    query: CanonicalQuery
    share: Fraction


def components(canonical: CanonicalQuery) -> tuple[Component, ...]:
    """Return the raw vectors of a question and what part of each tier's ε is spent on each; the parts add up to 1.

    A mean is answered by "sum", Σ over units of its clamped centred total, and "count", how many rows that sum was
    taken over: both drop rows whose value is unknown, choose the same groups of a unit, and keep the same k of its rows
    (least hash, then least group, then least value: rows that are still tied are the same to both). Each is the very
    question that could have been asked alone, and shares its chain.

    Example:
        >>> [(each.name, each.share) for each in components(CanonicalQuery(measure=CountRows(), rows=3))]
        [('answer', Fraction(1, 1))]
    """
    measure = canonical.measure
    if not isinstance(measure, MeanSteps):
        return (Component("answer", canonical, Fraction(1)),)
    share, known = Fraction(measure.sum_share), Atom(measure.total.column, "is not null")
    where = known if canonical.where is None else conjunction(canonical.where, known)
    total = msgspec.structs.replace(canonical, measure=measure.total)
    count = msgspec.structs.replace(canonical, measure=CountRows(), where=where)
    return (
        Component("sum", settled(total, canonical.salt, canonical.ordering), share),
        Component("count", settled(count, canonical.salt, canonical.ordering), 1 - share),
    )
