"""What a coalition sees, exactly: the joint law of any tiers of a small release, enumerated on a finite window.

A release is a tree: each tier adds noise to the truth or to another tier. A chain is a path, a star hangs every tier on
the first, independent draws hang on the truth. Unseen tiers are summed out. Whatever the window leaves out only ever
lowers an entry, by a bound that is carried, so that every number comes as an interval.
"""

import math
import string
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Protocol, TypeAlias

import numpy as np
from numpy.typing import NDArray

from tiers.errors import InvalidParameterError
from tiers.noise.tsg import TwoSidedGeometric, ZeroInflated

__all__ = [
    "JointLoss",
    "LatticeLaw",
    "Node",
    "chain_nodes",
    "coalitions",
    "independent_nodes",
    "joint_loss",
    "star_nodes",
]

_Array: TypeAlias = NDArray[np.float64]
_ROUNDING = 1e-12  # relative: of a pmf in doubles, and of sums of products of them
_CELLS = 2**24


class LatticeLaw(Protocol):
    """Any symmetric integer noise that knows its own pmf."""

    def pmf(self, k: int, /) -> float:
        """Return P(X = k)."""


@dataclass(frozen=True, slots=True, eq=False)
class Node:
    """One tier of a release: its noise on [−reach, reach], what lies outside, and what it was added to.

    Args:       parent: index of the tier it was drawn from, None for the truth. pmf: 2·reach + 1 probabilities.
                outside: an upper bound on the probability beyond the table.
    Raises:     InvalidParameterError: a table that is not a pmf (even length, negative, not finite, sum over 1).
    Example:
        >>> Node(None, np.array([0.25, 0.5, 0.25]), 0.0).reach
        1
    """

    parent: int | None
    pmf: _Array
    outside: float

    def __post_init__(self) -> None:
        if self.pmf.ndim != 1 or len(self.pmf) % 2 == 0:
            raise InvalidParameterError("pmf", "a table of odd length, centred on 0", self.pmf.shape)
        total = float(self.pmf.sum())
        if not (np.isfinite(self.pmf).all() and (self.pmf >= 0).all() and total <= 1 + _ROUNDING):
            raise InvalidParameterError("pmf", "finite probabilities whose sum is at most 1", total)
        if not (self.outside >= 0 and total + self.outside >= 1 - _ROUNDING):
            raise InvalidParameterError("outside", "a bound on what the table leaves out", self.outside)

    @property
    def reach(self) -> int:
        """Return the largest |k| in the table."""
        return len(self.pmf) // 2

    def tail(self, k: int) -> float:
        """Return an upper bound on P(|X| > k)."""
        inside = self.pmf[self.reach + k + 1 :].sum() + self.pmf[: max(0, self.reach - k)].sum()
        return float(inside) * (1 + _ROUNDING) + self.outside


@dataclass(frozen=True, slots=True)
class JointLoss:
    """Intervals that hold a coalition's largest |log ratio| over the core, and its δ at one ε over all outputs.

    `ratio_low` also bounds the supremum over *all* outputs from below: it is a proof that a claim of less is false.
    """

    ratio_low: float
    ratio_high: float
    delta_low: float
    delta_high: float


def chain_nodes(laws: Sequence[LatticeLaw], reach: int) -> tuple[Node, ...]:
    """Return a chain: `laws` are the base noise and then each residual from the tier above.

    Example:
        >>> from tiers.noise.tsg import TwoSidedGeometric
        >>> upper, lower = TwoSidedGeometric(Fraction(2)), TwoSidedGeometric(Fraction(1))
        >>> [node.parent for node in chain_nodes([upper, upper.residual_to(lower)], reach=40)]
        [None, 0]
    """
    return tuple(_node(place - 1 if place else None, law, reach) for place, law in enumerate(laws))


def star_nodes(laws: Sequence[LatticeLaw], reach: int) -> tuple[Node, ...]:
    """Return the mistake that hangs every lower tier on the first: `laws` are the base and residuals from tier 1."""
    return tuple(_node(0 if place else None, law, reach) for place, law in enumerate(laws))


def independent_nodes(laws: Sequence[LatticeLaw], reach: int) -> tuple[Node, ...]:
    """Return independent draws: `laws` are the tiers' own noises."""
    return tuple(_node(None, law, reach) for law in laws)


def coalitions(tiers: int) -> tuple[tuple[int, ...], ...]:
    """Return every non-empty set of tiers, by index from 0.

    Example:
        >>> coalitions(2)
        ((0,), (1,), (0, 1))
    """
    return tuple(chosen for size in range(1, tiers + 1) for chosen in combinations(range(tiers), size))


def joint_loss(
    nodes: Sequence[Node],
    coalition: Collection[int],
    *,
    epsilon: float,
    shift: int = 1,
    window: int = 40,
    core: int = 20,
) -> JointLoss:
    """Return what a coalition can tell between the truths 0 and `shift`, both ways round, as intervals.

    Law:        δ(ε) = Σ max(P_0 − e^ε·P_1, 0); largest |log P_0/P_1|; P_x the joint law of the coalition's tiers.
    Args:       nodes: parents before children. coalition: indices. window: tiers are enumerated on [−window, window].
                core: log ratios are taken where every seen tier is in [−core, core], core < window.
    Raises:     InvalidParameterError: no coalition, an index outside the release, or more cells than fit.
    Example:
        >>> from tiers.noise.tsg import TwoSidedGeometric
        >>> two, one = TwoSidedGeometric(Fraction(2)), TwoSidedGeometric(Fraction(1))
        >>> loss = joint_loss(independent_nodes([two, one], reach=81), (0, 1), epsilon=1.0)
        >>> round(loss.ratio_low, 6)
        3.0
    """
    seen = sorted(set(coalition))
    if not seen or not set(seen) <= set(range(len(nodes))):
        raise InvalidParameterError("coalition", f"some of the tiers 0 to {len(nodes) - 1}", tuple(coalition))
    if not 0 < core < window or (2 * window + 1) ** len(seen) > _CELLS:
        raise InvalidParameterError("window", "0 < core < window, small enough to enumerate", (core, window))
    if any(node.reach < 2 * window + abs(shift) for node in nodes):
        raise InvalidParameterError("reach", f"tables on at least ±{2 * window + abs(shift)}", [n.reach for n in nodes])
    laws = [_joint(nodes, seen, truth, window) for truth in (0, shift)]
    middle = (slice(window - core, window + core + 1),) * len(seen)
    missing = _missing(nodes, seen, window, shift)
    both = (laws, laws[::-1])
    deltas = [_delta(p, q, math.exp(epsilon)) for p, q in both]
    ratios = [_ratios(p[middle], q[middle], missing) for p, q in both]
    return JointLoss(
        ratio_low=max(low for low, _ in ratios),
        ratio_high=max(high for _, high in ratios),
        delta_low=max(low for low, _ in deltas),
        delta_high=max(high for _, high in deltas),
    )


def _node(parent: int | None, law: LatticeLaw, reach: int) -> Node:
    """Tabulate a law; what lies beyond is its geometric tail where it has one, else what the sum leaves, rounded up."""
    half = [law.pmf(k) for k in range(reach + 1)]
    pmf = np.array(half[:0:-1] + half)
    outside = max(0.0, 1 - math.fsum(pmf)) + _ROUNDING
    if isinstance(law, TwoSidedGeometric | ZeroInflated):
        rate = law.rate if isinstance(law, TwoSidedGeometric) else law.lower.rate
        outside = 2 * half[-1] / math.expm1(float(rate)) * (1 + _ROUNDING)
    return Node(parent, pmf, outside)


def _joint(nodes: Sequence[Node], seen: Sequence[int], truth: int, window: int) -> _Array:
    letters = string.ascii_letters
    operands: list[_Array] = []
    terms: list[str] = []
    cells = np.arange(-window, window + 1)
    for index in sorted(_ancestry(nodes, seen)):  # what hangs below the seen tiers sums to 1
        node = nodes[index]
        if node.parent is None:
            operands.append(_at(node, cells - truth))
            terms.append(letters[index])
        else:
            operands.append(_at(node, cells[None, :] - cells[:, None]))
            terms.append(letters[node.parent] + letters[index])
    wanted = "".join(letters[index] for index in seen)
    law: _Array = np.einsum(f"{','.join(terms)}->{wanted}", *operands, optimize=True)
    return law


def _at(node: Node, k: NDArray[np.int64]) -> _Array:
    inside = np.abs(k) <= node.reach
    return np.where(inside, node.pmf[np.clip(k + node.reach, 0, 2 * node.reach)], 0.0)


def _missing(nodes: Sequence[Node], seen: Sequence[int], window: int, shift: int) -> float:
    """Bound what one entry can lack: some unseen tier outside the window (seen ones are where they are)."""
    total = 0.0
    for index in _ancestry(nodes, seen) - set(seen):
        path = _ancestry(nodes, [index])
        total += sum(nodes[step].tail((window - abs(shift)) // len(path)) for step in path)
    return total


def _ancestry(nodes: Sequence[Node], tiers: Sequence[int]) -> set[int]:
    """The tiers and everything they were drawn from."""
    found: set[int] = set()
    for tier in tiers:
        step: int | None = tier
        while step is not None:
            found.add(step)
            step = nodes[step].parent
    return found


def _delta(p: _Array, q: _Array, factor: float) -> tuple[float, float]:
    """Entries only lack mass: the gain may rise by all that p lacks, or fall by all that q lacks."""
    gain = float(np.maximum(p - factor * q, 0).sum())
    lacks_p, lacks_q = (max(0.0, 1 - float(law.sum())) + _ROUNDING for law in (p, q))
    return max(0.0, gain - factor * lacks_q - _ROUNDING), gain + lacks_p + factor * _ROUNDING


def _ratios(p: _Array, q: _Array, missing: float) -> tuple[float, float]:
    """Bound the largest log p/q from both sides; outputs that neither truth can give say nothing."""
    with np.errstate(divide="ignore"):
        low = np.log(p[p > 0]) - np.log(q[p > 0] + missing)
        possible = p + missing > 0
        high = np.log(p[possible] + missing) - np.log(q[possible])
    return float(low.max(initial=0.0)) - 2 * _ROUNDING, float(high.max(initial=0.0)) + 2 * _ROUNDING
