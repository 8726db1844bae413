"""The change set of a question, derived from its bounds alone, with the derivation in words."""

from dataclasses import dataclass
from fractions import Fraction

from app.errors import InvalidQueryError
from app.queries.canonical import STEPS_LIMIT, CanonicalQuery, CountRows, CountUnits, SumSteps
from app.queries.measures import raw
from tiers.budget import decimal_text
from tiers.sensitivity import ChangeSet

__all__ = ["Derivation", "derive"]


@dataclass(frozen=True, slots=True)
class Derivation:
    """A change set, and the sentences that prove it to an owner; both follow from the query and never from data."""

    change_set: ChangeSet
    sentences: tuple[str, ...]


def derive(canonical: CanonicalQuery) -> Derivation:
    """Return every change that one unit, added or removed with all its rows, can make to the answer.

    Guarantee:  the answers on two tables that differ by one unit differ by a member of the change set.
    Raises:     InvalidQueryError: the clamp leaves only 0 (nothing to protect, nothing to sell), Δ₁ exceeds 2⁶², or the
                question is a mean, which has a change set for each of its components.
    Reference:  tiers, "Everything is an integer": sensitivity is a set of change vectors, not a number.
    Example:
        >>> derive(CanonicalQuery(measure=CountUnits())).change_set
        ChangeSet(bins=1, step=1, total=1)
    """
    bins, step, total, reason = _bounds(canonical)
    if step == 0:
        raise InvalidQueryError("clamp: expected a sensitivity above 0, got bounds that both round to 0 steps")
    if total > STEPS_LIMIT:
        raise InvalidQueryError(f"sensitivity: expected Δ₁ ≤ 2⁶² steps, got {bins} groups of {step} steps")
    return Derivation(
        ChangeSet(bins=bins, step=step, total=total),
        (
            _neighbours(canonical),
            *reason,
            f"So at most {_number(bins, 'entry', 'entries')} of the answer can change, each by at most {step}, "
            f"and all together by at most Δ₁ = {total}.",
        ),
    )


def _bounds(canonical: CanonicalQuery) -> tuple[int, int, int, tuple[str, ...]]:
    groups, rows = canonical.groups, canonical.rows
    cover = min(canonical.cover, groups)
    touched = min(groups, rows * cover) if rows else groups
    match raw(canonical.measure):
        case CountUnits():
            return groups, 1, groups, (*_spread(canonical), "It adds 1 to each of them, however many rows it has.")
        case CountRows():
            kept = f"At most k = {rows} of its rows are counted, over all groups, and each adds 1"
            each = "." if cover == 1 else f" to each of at most {cover} ranges, in all {rows} · {cover}."
            return touched, rows, rows * cover, (*_spread(canonical), kept + each)
        case SumSteps(lower=lower, upper=upper, grain_exponent=exponent, centre=centre, step=step):
            grain = decimal_text(Fraction(2) ** exponent)
            few = (f"At most k = {rows} of its rows are added up, over all groups.",) if rows else ()
            off = f", each less {centre} steps," if centre else ""
            clamp = (
                f"There its total is rounded row by row to steps of γ = 2^{exponent} = {grain}{off} and clamped to "
                f"[{lower}, {upper}] steps: it adds at most c = {step} steps in size, and 0 where it has no row."
            )
            return touched, step, touched * step, (*_spread(canonical), *few, clamp)


def _neighbours(canonical: CanonicalQuery) -> str:
    unit = "one row" if canonical.unit is None else f"one unit (a value of {canonical.unit.id!r}) with all its rows"
    return f"Two tables are neighbours when one has {unit} more."


def _spread(canonical: CanonicalQuery) -> tuple[str, ...]:
    if canonical.group is None:
        return ("There are no groups: the answer is one number.",)
    one, many = ("declared range", "declared ranges") if canonical.ranges else ("declared key", "declared keys")
    groups, cover = _number(canonical.length, one, many), canonical.cover
    overlap = (f"At most {cover} of the ranges cover one value.",) if cover > 1 else ()
    if canonical.unit is None:
        return (*overlap, f"A row falls into at most {'one' if cover == 1 else cover} of the {groups}.")
    return (*overlap, f"A unit adds to at most g = {canonical.groups} of the {groups}.")


def _number(count: int, one: str, many: str) -> str:
    return f"{count} {one if count == 1 else many}"
