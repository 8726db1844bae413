"""Watching residuals: e-processes against the law that a chain claims for them, looked at as often as one likes.

Every process here is a mixture of fair bets: a non-negative supermartingale that starts at 1. If the claims hold, the
probability that it *ever* reaches 1/α is at most α (Ville); so a log can be tested after each answer, for years, and
the alarms of all processes together have the stated rate.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from tiers.audit.alphabet import Alphabet, bridge_alphabet
from tiers.audit.bets import BETS, Bets, bets_on, dirichlet_log, plain_bets
from tiers.audit.independence import CLASSES, LAGS, REPEATS, Classes, Habits, classes_of, repeat_logs
from tiers.audit.wealth import ProcessState, Wealth
from tiers.chain.steps import Between, between, step_law
from tiers.errors import InvalidParameterError
from tiers.identity import Role, TierLaw
from tiers.noise.law import NoiseLaw

__all__ = ["ALPHA", "Alarm", "Edge", "PairState", "Watch", "WatchState", "pair_name"]

ALPHA = Fraction(1, 10**6)
"""The probability of any false alarm over a market's life: half for the pairs, a quarter pooled, a quarter repeats."""

_LEARNER = 0.25
_MEMORY = 4096
_WIDTHS = (len(LAGS) * len(REPEATS), len(REPEATS), len(REPEATS))
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


@dataclass(frozen=True, slots=True)
class Alarm:
    """A process that reached its limit: the claim it bets against is refuted at the stated rate.

    Args:       process: "law", "pooled", or "repeats between" bins, chains or tiers. pair: the step that is meant.
                log_e, limit: natural logarithms of the largest e seen and of the alarm's level. values: seen so far.
    """

    process: str
    pair: str
    log_e: float
    limit: float
    values: int


@dataclass(frozen=True, slots=True)
class PairState:
    """What is kept of one step between two tiers: letters seen, its process, the last draw up to 4,096 entries."""

    name: str
    counts: tuple[int, ...]
    process: ProcessState
    last: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class WatchState:
    """Everything a watch remembers, in plain values: what is written down between two looks.

    Args:       leaf: of the log up to which draws are in it. pairs: in the order in which they were first seen.
                pooled: the process over all pairs. repeats: between bins, chains and tiers, with the learners' tables
                (habits) and what these were paid.
    """

    alpha: str
    leaf: int
    pairs: tuple[PairState, ...]
    pooled: ProcessState
    repeats: tuple[ProcessState, ...]
    habits: tuple[tuple[int, ...], ...]
    paid: tuple[float, ...]
    chain: str
    above: tuple[int, ...]


@dataclass(slots=True)
class _Pair:
    place: int
    counts: _Ints
    wealth: Wealth = field(default_factory=lambda: Wealth.of_bets(len(BETS)))
    last: _Ints = field(default_factory=lambda: np.zeros(0, np.int64))


@dataclass(slots=True)
class Watch:
    """The e-processes over all residuals of a log, fed draw by draw.

    Law:        pair i (in the order of first sight): e = ¼·learner + ¾·wealth, alarm at e ≥ 2·i(i+1)/α; pooled: the
                wealth of each bet multiplied over all pairs, alarm at 4/α; repeats between bins, between chains,
                between tiers: mixed as for a pair, alarm at 12/α each. The rates sum to at most α.
    Guarantee:  if every draw that is fed has its claimed law given all before it, the probability of any alarm, ever,
                is at most α.
    Args:       alpha: the rate, a Fraction in (0, 1).
    Raises:     InvalidParameterError: another α.
    Reference:  Ville 1939; Shafer 2021, Testing by betting; Waudby-Smith and Ramdas 2024.
    Example:
        >>> Watch().alarms()
        ()
    """

    alpha: Fraction = ALPHA
    leaf: int = -1
    _pairs: dict[str, _Pair] = field(default_factory=dict)
    _pooled: Wealth = field(default_factory=lambda: Wealth.of_bets(len(BETS)))
    _repeats: list[Wealth] = field(default_factory=lambda: [Wealth.of_bets(size) for size in _WIDTHS])
    _habits: list[Habits] = field(default_factory=lambda: [Habits() for _ in _WIDTHS])
    _chain: str = ""
    _above: _Ints = field(default_factory=lambda: np.zeros(0, np.int64))

    def __post_init__(self) -> None:
        if not isinstance(self.alpha, Fraction) or not 0 < self.alpha < 1:
            raise InvalidParameterError("alpha", "a Fraction with 0 < α < 1", self.alpha)

    def see(self, spec: Edge, values: Sequence[int] | _Ints, gaps: Sequence[int] | None = None) -> None:
        """Take in one draw: what it added to its upper parent, entry by entry.

        Args:       spec: a residual or a bridge. values: the draw's answer minus its upper parent's. gaps: for a bridge
                    the lower parent's answer minus the upper one's.
        Raises:     InvalidParameterError: a truth draw, values off the lattice, or gaps of another length.
        """
        noises = tuple(parent.noise for parent in spec.parents)
        if spec.role is Role.RESIDUAL:
            self._residual(spec, bets_on(step_law(spec.role, spec.law.noise, noises)), values)
        elif spec.role is Role.BRIDGE and gaps is not None and len(gaps) == len(values):
            self._bridge(spec, between(spec.role, spec.law.noise, noises), values, gaps)
        else:
            raise InvalidParameterError("draw", "a residual, or a bridge with one gap an entry", spec.role.value)

    def alarms(self) -> tuple[Alarm, ...]:
        """Return every process that has reached its limit at any look so far; an alarm is never taken back."""
        processes = [
            ("law", name, 2 * (pair.place + 1) * (pair.place + 2), pair.wealth) for name, pair in self._pairs.items()
        ]
        processes += [(name, "all pairs", share, wealth) for name, share, wealth in self._shared()]
        return tuple(
            Alarm(kind, pair, wealth.peak, self._limit(share), wealth.values)
            for kind, pair, share, wealth in processes
            if wealth.peak >= self._limit(share)
        )

    def peaks(self) -> Mapping[str, float]:
        """Return the largest log wealth of every process so far, for a page to draw."""
        named = {f"law {name}": pair.wealth.peak for name, pair in self._pairs.items()}
        return named | {name: wealth.peak for name, _, wealth in self._shared()}

    def state(self) -> WatchState:
        """Return what must be kept to go on later."""
        return WatchState(
            alpha=str(self.alpha),
            leaf=self.leaf,
            pairs=tuple(
                PairState(name, tuple(pair.counts.tolist()), pair.wealth.state(), tuple(pair.last.tolist()))
                for name, pair in self._pairs.items()
            ),
            pooled=self._pooled.state(),
            repeats=tuple(wealth.state() for wealth in self._repeats),
            habits=tuple(tuple(habits.table.ravel().tolist()) for habits in self._habits),
            paid=tuple(habits.paid for habits in self._habits),
            chain=self._chain,
            above=tuple(self._above.tolist()),
        )

    @classmethod
    def of(cls, state: WatchState) -> "Watch":
        """Return the watch that goes on from a state.

        Raises:     InvalidParameterError: a state of another version, with other bets.
        """
        made = cls(Fraction(state.alpha), state.leaf)
        for place, pair in enumerate(state.pairs):
            made._pairs[pair.name] = _Pair(
                place,
                np.array(pair.counts, np.int64),
                Wealth.of(pair.process, len(BETS)),
                np.array(pair.last, np.int64),
            )
        made._pooled = Wealth.of(state.pooled, len(BETS))
        made._repeats = [Wealth.of(each, width) for each, width in zip(state.repeats, _WIDTHS, strict=True)]
        made._habits = [
            Habits(np.array(table, np.int64).reshape(CLASSES, CLASSES), paid)
            for table, paid in zip(state.habits, state.paid, strict=True)
        ]
        made._chain, made._above = state.chain, np.array(state.above, np.int64)
        return made

    def _shared(self) -> list[tuple[str, int, Wealth]]:
        repeats = zip(("bins", "chains", "tiers"), self._repeats, strict=True)
        return [("pooled", 4, self._pooled), *((f"repeats between {kind}", 12, wealth) for kind, wealth in repeats)]

    def _limit(self, share: int) -> float:
        return math.log(share) - math.log(self.alpha)

    def _pair(self, name: str, letters: int) -> _Pair:
        if name not in self._pairs:
            self._pairs[name] = _Pair(len(self._pairs), np.zeros(letters, np.int64))
        return self._pairs[name]

    def _residual(self, spec: Edge, bets: Bets, values: Sequence[int] | _Ints) -> None:
        letters = bets.alphabet.letters(values)
        pair = self._pair(pair_name(spec), bets.alphabet.size)
        seen = np.bincount(letters, minlength=bets.alphabet.size)
        gain = bets.logs @ seen
        if bets.residues is not None and bets.residue_logs is not None:
            gain = gain + bets.residue_logs @ np.bincount(bets.residues.letters(values), minlength=bets.residues.size)
        pair.counts += seen
        self._law(pair, gain, len(letters), dirichlet_log(pair.counts, bets.alphabet))
        self._between(spec, pair, bets.alphabet, letters)

    def _bridge(self, spec: Edge, law: Between, values: Sequence[int] | _Ints, gaps: Sequence[int]) -> None:
        pair = self._pair(pair_name(spec), 0)
        gain, tested = np.zeros(len(BETS)), 0
        deviation = (law.first.variance() * law.second.variance() / law.whole.variance()) ** 0.5
        for gap in sorted(set(gaps)):
            alphabet = bridge_alphabet(law, gap)
            if alphabet is None:
                continue
            here = [int(value) for value, each in zip(values, gaps, strict=True) if each == gap]
            seen = np.bincount(alphabet.letters(here), minlength=alphabet.size)
            gain, tested = gain + plain_bets(alphabet, deviation) @ seen, tested + len(here)
        self._law(pair, gain, tested, 0.0)

    def _law(self, pair: _Pair, gain: _Floats, count: int, learner: float) -> None:
        for wealth in (pair.wealth, self._pooled):
            wealth.add(gain, count)
        pair.wealth.look(_mixed(learner, pair.wealth))
        self._pooled.look(self._pooled.log_e())

    def _between(self, spec: Edge, pair: _Pair, alphabet: Alphabet, letters: _Ints) -> None:
        groups = classes_of(alphabet)
        classes = groups.of_letter[letters]
        bins, chains, tiers = self._repeats
        if len(letters) > 1:
            gains = [
                repeat_logs(letters[lag:], groups, letters[:-lag], classes[:-lag])
                if lag < len(letters)
                else np.zeros(len(REPEATS))
                for lag in LAGS
            ]
            bins.add(np.concatenate(gains), len(letters) - 1)
            self._repeat(0, classes[:-1], classes[1:], groups)
        size = min(len(letters), len(pair.last))
        if size:
            before = pair.last[:size]
            chains.add(repeat_logs(letters[:size], groups, before, groups.of_letter[before]), size)
            self._repeat(1, groups.of_letter[before], classes[:size], groups)
        shared = min(len(letters), len(self._above)) if spec.chain == self._chain else 0
        if shared:
            tiers.add(repeat_logs(letters[:shared], groups, None, self._above[:shared]), shared)
            self._repeat(2, self._above[:shared], classes[:shared], groups)
        pair.last, self._chain, self._above = letters[:_MEMORY], spec.chain, classes[:_MEMORY]

    def _repeat(self, kind: int, before: _Ints, classes: _Ints, groups: Classes) -> None:
        habits, wealth = self._habits[kind], self._repeats[kind]
        habits.see(before, classes, groups)
        wealth.look(_mixed(habits.log_e(), wealth))


def _mixed(learner: float, wealth: Wealth) -> float:
    return float(np.logaddexp(math.log(_LEARNER) + learner, math.log(1 - _LEARNER) + wealth.log_e()))


def pair_name(spec: Edge) -> str:
    """Return the name of a step: the laws it leads from and to, whatever the chain.

    Example:
        >>> from tiers.budget import Ladder
        >>> from tiers.chain import plan, specs
        >>> pair_name(specs("0" * 64, plan(Ladder.parse(["2", "1"]), 1), epoch=1, grain=0, length=1)[1])
        'residual tsg rate=2 → tsg rate=1'
    """
    laws = [spec.parents[0].noise, spec.law.noise, *(parent.noise for parent in spec.parents[1:])]
    return f"{spec.role.value} {' → '.join(_law_name(law) for law in laws)}"


def _law_name(law: NoiseLaw) -> str:
    return " ".join([law.family, *(f"{name}={text}" for name, text in sorted(law.parameters().items()))])
