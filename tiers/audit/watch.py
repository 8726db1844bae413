"""Watching residuals: e-processes against the law that a chain claims for them, looked at as often as one likes.

Every process here is a mixture of fair bets: a non-negative supermartingale that starts at 1. If the claims hold, the
probability that it *ever* reaches 1/α is at most α (Ville); so a log can be tested after each answer, for years, and
the alarms of all processes together have the stated rate.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from tiers.audit.bets import BETS, dirichlet_logs
from tiers.audit.independence import CLASSES, Habits
from tiers.audit.repeats import KINDS, WIDTHS, Repeats, mixed
from tiers.audit.steps import Edge, Seen, Step, pair_name, steps_of
from tiers.audit.wealth import ProcessState, Wealth
from tiers.errors import InvalidParameterError

__all__ = ["ALPHA", "Alarm", "Answered", "PairState", "Watch", "WatchState", "pair_name"]

ALPHA = Fraction(1, 10**6)
"""The probability of any false alarm over a market's life: half for the pairs, a quarter pooled, a quarter repeats."""

_LAW, _POOLED, _REPEATS = "law", "pooled", "repeats between"
_ALL = "all pairs"
_Ints = NDArray[np.int64]


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
class Answered:
    """An alarm after which its process was started anew, and the leaf up to which it had seen the log by then."""

    alarm: Alarm
    leaf: int


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
                (habits) and what these were paid. places: of the pairs' and the shared processes' limits in the series
                of all limits; none for a state of a watch that has never started a process anew. answered: alarms
                after which it did.
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
    places: tuple[int, ...] = ()
    answered: tuple[Answered, ...] = ()


@dataclass(slots=True)
class _Pair:
    place: int
    counts: _Ints
    wealth: Wealth = field(default_factory=lambda: Wealth.of_bets(len(BETS)))


@dataclass(slots=True)
class Watch:
    """The e-processes over all residuals of a log, fed draw by draw.

    Law:        pair i (in the order of first sight): e = ¼·learner + ¾·wealth, alarm at e ≥ 2·i(i+1)/α; pooled: the
                wealth of each bet multiplied over all pairs, alarm at 4/α; repeats between bins, between chains,
                between tiers: mixed as for a pair, alarm at 12/α each. A process that starts anew after an alarm takes
                the next i. The rates sum to at most α.
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
    _repeats: Repeats = field(default_factory=Repeats)
    _anew: dict[str, int] = field(default_factory=dict)
    _answered: list[Answered] = field(default_factory=list)

    def __post_init__(self) -> None:
        if not isinstance(self.alpha, Fraction) or not 0 < self.alpha < 1:
            raise InvalidParameterError("alpha", "a Fraction with 0 < α < 1", self.alpha)

    def see(self, spec: Edge, values: Sequence[int] | _Ints, gaps: Sequence[int] | None = None) -> None:
        """Take in one draw; as `see_all` of it alone."""
        self.see_all([Seen(spec, values, gaps)])

    def see_all(self, draws: Sequence[Seen]) -> None:
        """Take in draws, each after those before it, and look at every process after each of them.

        However they are taken together, they leave the same state; where one is refused, none of them leaves anything.

        Raises:     InvalidParameterError: a truth draw, values off the lattice, or gaps of another length.
        Example:
            >>> from tiers.budget import Ladder
            >>> from tiers.chain import plan, specs
            >>> draw = specs("0" * 64, plan(Ladder.parse(["2", "1"]), 1), epoch=1, grain=0, length=2)[1]
            >>> together, alone = Watch(), Watch()
            >>> together.see_all([Seen(draw, [0, 1]), Seen(draw, [2, 0])])
            >>> alone.see(draw, [0, 1]), alone.see(draw, [2, 0]), together.state() == alone.state()
            (None, None, True)
        """
        steps = steps_of(draws)
        gains, counts = np.zeros((len(draws), len(BETS))), np.zeros(len(draws), np.int64)
        for step in steps:
            places = list(step.places)
            gains[places], counts[places] = step.gains, step.counts
            self._law(step)
        if steps:
            self._pooled.look(float(self._pooled.run(gains, counts).max()))
            self._repeats.see([draw.edge.chain for draw in draws], steps)

    def _law(self, step: Step) -> None:
        pair = self._pairs.get(step.name)
        if pair is None:
            letters = 0 if step.alphabet is None else step.alphabet.size
            pair = self._pairs[step.name] = _Pair(self._next(), np.zeros(letters, np.int64))
        learnt = np.zeros(len(step.places))
        if step.alphabet is not None and step.letters is not None:
            size = step.alphabet.size
            rows = np.arange(len(step.letters))[:, None] * size
            seen = np.bincount((rows + step.letters).ravel(), minlength=len(step.letters) * size)
            grown = pair.counts + np.cumsum(seen.reshape(-1, size), axis=0)
            learnt, pair.counts = dirichlet_logs(grown, step.alphabet), grown[-1].copy()
        pair.wealth.look(mixed(learnt, pair.wealth.run(step.gains, step.counts)))

    def alarms(self) -> tuple[Alarm, ...]:
        """Return every process that has reached its limit at any look since it was last started anew."""
        return tuple(
            Alarm(kind, pair, wealth.peak, self._limit(share), wealth.values)
            for kind, pair, share, wealth in self._processes()
            if wealth.peak >= self._limit(share)
        )

    def answered(self) -> tuple[Answered, ...]:
        """Return the alarms after which a process was started anew: none of them is ever taken back."""
        return tuple(self._answered)

    def answer(self, alarm: Alarm) -> None:
        """Keep an alarm among the answered ones and start its process anew, so that it tells what is wrong from now on.

        The new start takes the next i of the pairs' limits 2·i(i+1)/α, so that all rates ever given sum to at most α.

        Raises:     InvalidParameterError: an alarm that this watch has not raised.
        Example:
            >>> Watch().answer(Alarm("pooled", "all pairs", 20.0, 15.0, 8))
            Traceback (most recent call last):
            tiers.errors.InvalidParameterError: alarm: expected one that stands, got 'pooled all pairs'
        """
        if alarm not in self.alarms():
            raise InvalidParameterError("alarm", "one that stands", f"{alarm.process} {alarm.pair}")
        place = self._next()
        self._answered.append(Answered(alarm, self.leaf))
        if alarm.process == _LAW:
            self._pairs[alarm.pair] = _Pair(place, np.zeros_like(self._pairs[alarm.pair].counts))
            return
        self._anew[alarm.process] = place
        if alarm.process == _POOLED:
            self._pooled = Wealth.of_bets(len(BETS))
            return
        kind = KINDS.index(alarm.process.removeprefix(_REPEATS).strip())
        self._repeats.wealths[kind], self._repeats.habits[kind] = Wealth.of_bets(WIDTHS[kind]), Habits()

    def peaks(self) -> Mapping[str, float]:
        """Return the largest log wealth of every process so far, for a page to draw."""
        return {f"{kind} {pair}" if kind == _LAW else kind: wealth.peak for kind, pair, _, wealth in self._processes()}

    def state(self) -> WatchState:
        """Return what must be kept to go on later."""
        repeats, nothing = self._repeats, np.zeros(0, np.int64)
        shared = [self._anew.get(kind, -1) for kind, _, _ in self._shared()]
        return WatchState(
            alpha=str(self.alpha),
            leaf=self.leaf,
            pairs=tuple(
                PairState(
                    name,
                    tuple(pair.counts.tolist()),
                    pair.wealth.state(),
                    tuple(repeats.last.get(name, nothing).tolist()),
                )
                for name, pair in self._pairs.items()
            ),
            pooled=self._pooled.state(),
            repeats=tuple(wealth.state() for wealth in repeats.wealths),
            habits=tuple(tuple(habits.table.ravel().tolist()) for habits in repeats.habits),
            paid=tuple(habits.paid for habits in repeats.habits),
            chain=repeats.chain,
            above=tuple(repeats.above.tolist()),
            places=(*(pair.place for pair in self._pairs.values()), *shared) if self._answered else (),
            answered=self.answered(),
        )

    @classmethod
    def of(cls, state: WatchState) -> "Watch":
        """Return the watch that goes on from a state.

        Raises:     InvalidParameterError: a state of another version, with other bets.
        """
        made = cls(Fraction(state.alpha), state.leaf)
        places = state.places or (*range(len(state.pairs)), *(-1 for _ in made._shared()))
        if len(places) != len(state.pairs) + len(made._shared()):
            raise InvalidParameterError("state", "a place for each process", len(places))
        for place, pair in zip(places, state.pairs, strict=False):
            counts = np.array(pair.counts, np.int64)
            made._pairs[pair.name] = _Pair(place, counts, Wealth.of(pair.process, len(BETS)))
        shared = zip(made._shared(), places[len(state.pairs) :], strict=True)
        made._anew = {kind: place for (kind, _, _), place in shared if place >= 0}
        made._answered = list(state.answered)
        made._pooled = Wealth.of(state.pooled, len(BETS))
        made._repeats = Repeats(
            wealths=[Wealth.of(each, width) for each, width in zip(state.repeats, WIDTHS, strict=True)],
            habits=[
                Habits(np.array(table, np.int64).reshape(CLASSES, CLASSES), paid)
                for table, paid in zip(state.habits, state.paid, strict=True)
            ],
            chain=state.chain,
            above=np.array(state.above, np.int64),
            last={pair.name: np.array(pair.last, np.int64) for pair in state.pairs if pair.last},
        )
        return made

    def _processes(self) -> list[tuple[str, str, int, Wealth]]:
        """Every process: its kind, its pair, the share of α that it has (one part in so many), its wealth."""
        pairs = [(_LAW, name, _share(pair.place), pair.wealth) for name, pair in self._pairs.items()]
        shared = [
            (kind, _ALL, _share(self._anew[kind]) if kind in self._anew else share, wealth)
            for kind, share, wealth in self._shared()
        ]
        return pairs + shared

    def _shared(self) -> list[tuple[str, int, Wealth]]:
        repeats = zip(KINDS, self._repeats.wealths, strict=True)
        return [(_POOLED, 4, self._pooled), *((f"{_REPEATS} {kind}", 12, wealth) for kind, wealth in repeats)]

    def _limit(self, share: int) -> float:
        return math.log(share) - math.log(self.alpha)

    def _next(self) -> int:
        """The first place in the series of limits that has never been given."""
        return 1 + max((*(pair.place for pair in self._pairs.values()), *self._anew.values()), default=-1)


def _share(place: int) -> int:
    return 2 * (place + 1) * (place + 2)
