"""Draws shown to a watch, taken together where they are of one step and one length: what each bet gains on each draw.

Nothing here depends on how many draws are taken together: rows are summed one by one, so the numbers are the same.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from tiers.audit.alphabet import Alphabet, bridge_alphabet
from tiers.audit.bets import BETS, Bets, bets_on, plain_bets
from tiers.chain.steps import between, step_law
from tiers.errors import InvalidParameterError
from tiers.identity import Role, TierLaw
from tiers.noise.law import NoiseLaw

__all__ = ["Edge", "Seen", "Step", "pair_name", "steps_of"]

_FEW = 64
_Ints = NDArray[np.int64]
_Floats = NDArray[np.float64]


class Edge(Protocol):
    """A step between two tiers of one chain: all of a draw that a watch needs to know; a `DrawSpec` is one."""

    @property
    def chain(self) -> str:
        """Return the chain's name."""

    @property
    def role(self) -> Role:
        """Return what the draw was made from."""

    @property
    def law(self) -> TierLaw:
        """Return the law of the drawn tier."""

    @property
    def parents(self) -> tuple[TierLaw, ...]:
        """Return the laws of its parents, upper first."""


@dataclass(frozen=True, slots=True, eq=False)
class Seen:
    """One draw to look at: what it added to its upper parent, entry by entry.

    Args:       edge: a residual or a bridge. values: the draw's answer minus its upper parent's. gaps: for a bridge the
                lower parent's answer minus the upper one's.
    """

    edge: Edge
    values: Sequence[int] | _Ints
    gaps: Sequence[int] | None = None


@dataclass(frozen=True, slots=True, eq=False)
class Step:
    """Draws of one step and length, in the order in which they are seen.

    Args:       places: theirs among the draws that are shown together. gains: one row a draw, one column a bet. counts:
                the values tested of each. alphabet, letters: of residuals; one row of letters a draw.
    """

    name: str
    places: tuple[int, ...]
    gains: _Floats
    counts: _Ints
    alphabet: Alphabet | None = None
    letters: _Ints | None = None


def steps_of(draws: Sequence[Seen]) -> tuple[Step, ...]:
    """Return the draws by step and length: those of one step in their order, the steps in that of their first draw.

    Raises:     InvalidParameterError: a truth draw, values off the lattice, or gaps of another length.
    Example:
        >>> from tiers.budget import Ladder
        >>> from tiers.chain import plan, specs
        >>> draw = specs("0" * 64, plan(Ladder.parse(["2", "1"]), 1), epoch=1, grain=0, length=2)[1]
        >>> (step,) = steps_of([Seen(draw, [0, 1]), Seen(draw, [2, 0])])
        >>> step.places, step.letters.shape
        ((0, 1), (2, 2))
    """
    runs: list[tuple[str, int, list[int]]] = []
    open_run: dict[str, tuple[int, list[int]]] = {}
    for place, draw in enumerate(draws):
        name, length = pair_name(draw.edge), len(draw.values)
        known = open_run.get(name)
        if known is not None and known[0] == length and draw.edge.role is Role.RESIDUAL:
            known[1].append(place)
            continue
        open_run[name] = length, [place]
        runs.append((name, length, open_run[name][1]))
    return tuple(_step(name, places, [draws[place] for place in places]) for name, _, places in runs)


def pair_name(spec: Edge) -> str:
    """Return the name of a step: the laws it leads from and to, whatever the chain.

    Example:
        >>> from tiers.budget import Ladder
        >>> from tiers.chain import plan, specs
        >>> pair_name(specs("0" * 64, plan(Ladder.parse(["2", "1"]), 1), epoch=1, grain=0, length=1)[1])
        'residual tsg rate=2 → tsg rate=1'
    """
    return _name(spec.role, spec.law, spec.parents)


@lru_cache(maxsize=4096)
def _name(role: Role, law: TierLaw, parents: tuple[TierLaw, ...]) -> str:
    laws = [*(parent.noise for parent in parents[:1]), law.noise, *(parent.noise for parent in parents[1:])]
    return f"{role.value} {' → '.join(_law_name(law) for law in laws)}"


def _law_name(law: NoiseLaw) -> str:
    return " ".join([law.family, *(f"{name}={text}" for name, text in sorted(law.parameters().items()))])


@lru_cache(maxsize=512)
def _bets(role: Role, law: TierLaw, parents: tuple[TierLaw, ...]) -> Bets:
    return bets_on(step_law(role, law.noise, tuple(parent.noise for parent in parents)))


def _step(name: str, places: list[int], draws: list[Seen]) -> Step:
    first = draws[0]
    if first.edge.role is Role.BRIDGE and first.gaps is not None and len(first.gaps) == len(first.values):
        gain, tested = _bridge(first.edge, first.values, first.gaps)
        return Step(name, tuple(places), gain[None, :], np.array([tested]))
    if first.edge.role is not Role.RESIDUAL:
        raise InvalidParameterError("draw", "a residual, or a bridge with one gap an entry", first.edge.role.value)
    bets = _bets(first.edge.role, first.edge.law, first.edge.parents)
    letters = _letters(bets.alphabet, draws)
    gains = _gains(bets.logs, letters)
    if bets.residues is not None and bets.residue_logs is not None:
        gains += _gains(bets.residue_logs, _letters(bets.residues, draws))
    counts = np.full(len(draws), letters.shape[1])
    return Step(name, tuple(places), gains, counts, bets.alphabet, letters)


def _letters(alphabet: Alphabet, draws: list[Seen]) -> _Ints:
    if all(isinstance(draw.values, np.ndarray) for draw in draws):
        rows = np.stack([np.asarray(draw.values) for draw in draws])
        return alphabet.letters(rows.ravel()).reshape(rows.shape)
    return np.stack([alphabet.letters(draw.values) for draw in draws])


def _gains(logs: _Floats, letters: _Ints) -> _Floats:
    """The sum of each bet's logs over each row of letters."""
    if letters.shape[1] <= _FEW:
        gains: _Floats = logs.T[letters].sum(axis=1)
        return gains
    return np.array([logs @ np.bincount(row, minlength=logs.shape[1]) for row in letters])


def _bridge(spec: Edge, values: Sequence[int] | _Ints, gaps: Sequence[int]) -> tuple[_Floats, int]:
    """What each bet gains on a bridge, gap by gap, and how many of its values are tested."""
    law = between(spec.role, spec.law.noise, tuple(parent.noise for parent in spec.parents))
    gain, tested = np.zeros(len(BETS)), 0
    deviation = (law.first.variance() * law.second.variance() / law.whole.variance()) ** 0.5
    for gap in sorted(set(gaps)):
        alphabet = bridge_alphabet(law, gap)
        if alphabet is None:
            continue
        here = [int(value) for value, each in zip(values, gaps, strict=True) if each == gap]
        seen = np.bincount(alphabet.letters(here), minlength=alphabet.size)
        gain, tested = gain + plain_bets(alphabet, deviation) @ seen, tested + len(here)
    return gain, tested
