"""Channels of small domains as exact matrices: what every tier, every step and every coalition tells, in rationals."""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from fractions import Fraction
from itertools import combinations, pairwise
from math import comb
from typing import TypeAlias

from tiers.errors import InvalidParameterError
from tiers.local.local_hash import LocalHash
from tiers.local.randomized_response import RandomizedResponse
from tiers.local.subset import Subset

__all__ = ["CHANNEL_LIMIT", "Mechanism", "channel", "coalition", "reports", "step", "worst_ratio"]

Mechanism: TypeAlias = Subset | RandomizedResponse | LocalHash
Row: TypeAlias = Mapping[tuple[int, ...], Fraction]

CHANNEL_LIMIT = 4096


def reports(law: Mechanism) -> list[int]:
    """Return every report of a small mechanism: sets as their bits, else the values or buckets themselves.

    Raises:     InvalidParameterError: more than 4096 of them.
    Example:
        >>> from tiers.local.signal import Signal
        >>> [bin(report) for report in reports(Subset(3, 2, Signal.rational(Fraction(1, 2))))]
        ['0b11', '0b101', '0b110']
    """
    count = comb(law.domain_size, law.subset_size) if isinstance(law, Subset) else law.coverage.denominator
    if count > CHANNEL_LIMIT:
        raise InvalidParameterError("channel", f"at most {CHANNEL_LIMIT} reports", count)
    if isinstance(law, Subset):
        chosen = combinations(range(law.domain_size), law.subset_size)
        return [sum(1 << value for value in values) for values in chosen]
    return list(range(count))


def channel(law: Mechanism) -> list[list[Fraction]]:
    """Return P(report | value), a row for each value; the values of a local hash are its buckets.

    Law:        every row sums to 1, and the largest ratio within a column is e^ε = 1 + s/((1−s)κ).
    Raises:     InvalidParameterError: a signal that is not rational, or too many reports.
    Example:
        >>> from tiers.local.signal import Signal
        >>> law = RandomizedResponse(3, Signal.rational(Fraction(1, 4)))
        >>> [str(chance) for chance in channel(law)[0]], str(worst_ratio(channel(law)))
        (['1/2', '1/4', '1/4'], '2')
    """
    values = law.domain_size if isinstance(law, Subset) else law.coverage.denominator
    return [[law.probability(report, value) for report in reports(law)] for value in range(values)]


def step(upper: Mechanism, lower: Mechanism) -> list[list[Fraction]]:
    """Return P(report below | report above), a row for each report above.

    Law:        keep·(expand or merge) + (1 − keep)·(uniform), keep = s′/s; channel(upper)·step = channel(lower).
    Raises:     NoResidualError: the nesting law forbids the step. InvalidParameterError: as `channel`.
    Example:
        >>> from tiers.local.signal import Signal
        >>> above, below = (LocalHash(g, Signal.rational(Fraction(s))) for g, s in ((4, "1/2"), (2, "1/4")))
        >>> [str(chance) for chance in step(above, below)[3]]
        ['1/4', '3/4']
    """
    upper.check_step(lower)  # type: ignore[arg-type]
    kept = lower.signal.fraction() / upper.signal.fraction()
    below = reports(lower)
    return [[_moved(upper, lower, kept, a, b, len(below)) for b in below] for a in reports(upper)]


def _moved(upper: Mechanism, lower: Mechanism, kept: Fraction, above: int, below: int, count: int) -> Fraction:
    match upper, lower:
        case Subset(), Subset():
            follows = Fraction(
                above & below == above, comb(upper.domain_size - upper.subset_size, _added(upper, lower))
            )
        case LocalHash(), LocalHash():
            follows = Fraction(above % lower.buckets == below)
        case _:
            follows = Fraction(above == below)
    return kept * follows + (1 - kept) / count


def _added(upper: Subset, lower: Subset) -> int:
    return lower.subset_size - upper.subset_size


def coalition(laws: Sequence[Mechanism], members: Iterable[int]) -> list[Row]:
    """Return, for each value, the joint law of the reports that a coalition of tiers holds (tiers count from 0).

    Law:        the chain is drawn top-down, each tier from the one above; the others are summed out.
    Example:
        >>> from tiers.local.signal import Signal
        >>> chain = [RandomizedResponse(3, Signal.rational(Fraction(s))) for s in ("1/2", "1/4")]
        >>> str(worst_ratio(coalition(chain, [0, 1])))
        '4'
    """
    held = sorted(set(members))
    steps = [step(upper, lower) for upper, lower in pairwise(laws)]
    found: list[Row] = []
    for row in channel(laws[0]):
        state: dict[tuple[tuple[int, ...], int], Fraction] = defaultdict(Fraction)
        for at, chance in enumerate(row):
            state[(at,) if 0 in held else (), at] += chance
        for tier, moves in enumerate(steps, start=1):
            after: dict[tuple[tuple[int, ...], int], Fraction] = defaultdict(Fraction)
            for (seen, at), mass in state.items():
                for to, chance in enumerate(moves[at]):
                    after[(*seen, to) if tier in held else seen, to] += mass * chance
            state = after
        total: dict[tuple[int, ...], Fraction] = defaultdict(Fraction)
        for (seen, _), mass in state.items():
            total[seen] += mass
        found.append(dict(total))
    return found


def worst_ratio(rows: Sequence[Sequence[Fraction]] | Sequence[Row]) -> Fraction:
    """Return the largest ratio of two values' chances of one outcome: e^ε of a channel.

    Raises:     InvalidParameterError: an outcome that some value cannot give: the ratio has no bound.
    """
    columns = [dict(enumerate(row)) if not isinstance(row, Mapping) else dict(row) for row in rows]
    worst = Fraction(1)
    for outcome in set().union(*columns):
        chances = [column.get(outcome, Fraction(0)) for column in columns]  # type: ignore[call-overload]
        if min(chances) == 0:
            if max(chances) > 0:
                raise InvalidParameterError("channel", "chances that are positive for every value", outcome)
            continue
        worst = max(worst, max(chances) / min(chances))
    return worst
