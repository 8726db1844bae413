"""The processes that bet on noise repeating itself, over all residuals: between bins, between chains, between tiers."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from tiers.audit.independence import CLASSES, LAGS, REPEATS, Classes, Habits, classes_of, followed, repeat_logs
from tiers.audit.steps import Step
from tiers.audit.wealth import Wealth

__all__ = ["KINDS", "WIDTHS", "Repeats", "mixed"]

KINDS = ("bins", "chains", "tiers")
WIDTHS = (len(LAGS) * len(REPEATS), len(REPEATS), len(REPEATS))
"""How many bets each process holds."""

_LEARNER = 0.25
_MEMORY = 4096
_BINS, _CHAINS, _TIERS = range(3)
_Ints = NDArray[np.int64]
_Floats = NDArray[np.float64]


def mixed(learner: _Floats, log_e: _Floats) -> float:
    """Return the largest of ¼·learner + ¾·wealth over several looks, as a log.

    Example:
        >>> abs(mixed(np.zeros(2), np.zeros(2))) < 1e-12
        True
    """
    return float(np.logaddexp(math.log(_LEARNER) + learner, math.log(1 - _LEARNER) + log_e).max())


@dataclass(slots=True)
class Repeats:
    """Bets that a value repeats one before it: in its own draw, in the last draw of its step, in the tier above.

    Guarantee:  each process is a supermartingale if all draws are independent and have their claimed laws.
    Args:       wealths, habits: one a kind. chain, above: of the last draw, with the classes of its first 4,096 values.
                last: the letters of each step's last draw.
    """

    wealths: list[Wealth] = field(default_factory=lambda: [Wealth.of_bets(size) for size in WIDTHS])
    habits: list[Habits] = field(default_factory=lambda: [Habits() for _ in WIDTHS])
    chain: str = ""
    above: _Ints = field(default_factory=lambda: np.zeros(0, np.int64))
    last: dict[str, _Ints] = field(default_factory=dict)

    def see(self, chains: Sequence[str], steps: Sequence[Step]) -> None:
        """Take in draws, each after those before it.

        Args:       chains: of the draws, in their order. steps: the same draws; bridges are passed over.
        """
        sheets = [_Sheet.of(len(chains), width) for width in WIDTHS]
        shown: dict[int, _Ints] = {}
        for step in steps:
            if step.alphabet is None or step.letters is None:
                continue
            groups = classes_of(step.alphabet)
            classes = groups.of_letter[step.letters]
            shown.update(zip(step.places, classes[:, :_MEMORY], strict=True))
            places = np.array(step.places)
            sheets[_BINS].bins(places, step.letters, groups)
            self._chains(sheets[_CHAINS], step.name, places, step.letters, groups)
        above = self._above(chains, shown)
        for step in steps:
            if step.alphabet is not None and step.letters is not None:
                _tiers(sheets[_TIERS], step.places, step.letters, classes_of(step.alphabet), above)
        for sheet, wealth, habits in zip(sheets, self.wealths, self.habits, strict=True):
            seen = np.flatnonzero(sheet.counts)
            if len(seen):
                learnt = habits.run(sheet.tables[seen], sheet.paid[seen])
                wealth.look(mixed(learnt, wealth.run(sheet.gains[seen], sheet.counts[seen])))

    def _chains(self, sheet: "_Sheet", name: str, places: _Ints, letters: _Ints, groups: Classes) -> None:
        """Each draw of a step against the one before it; the first against the last one of an earlier look."""
        width = min(letters.shape[1], _MEMORY)
        earlier = self.last.get(name, letters[0, :0])[:width]
        if len(earlier):
            sheet.book(places[:1], letters[:1, : len(earlier)], groups, earlier[None, :])
        if len(places) > 1:
            sheet.book(places[1:], letters[1:, :width], groups, letters[:-1, :width])
        self.last[name] = letters[-1, :width].copy()

    def _above(self, chains: Sequence[str], shown: dict[int, _Ints]) -> dict[int, _Ints]:
        """The classes of the draw that was seen just before each draw, where it is of the same chain."""
        found = {}
        for place in sorted(shown):
            if chains[place] == self.chain:
                found[place] = self.above
            self.chain, self.above = chains[place], shown[place]
        self.above = self.above.copy()
        return found


@dataclass(frozen=True, slots=True, eq=False)
class _Sheet:
    """What one process books for each draw that is shown: 0 values where it has nothing to bet on."""

    gains: _Floats
    counts: _Ints
    tables: _Ints
    paid: _Floats

    @classmethod
    def of(cls, draws: int, width: int) -> "_Sheet":
        tables = np.zeros((draws, CLASSES, CLASSES), np.int64)
        return cls(np.zeros((draws, width)), np.zeros(draws, np.int64), tables, np.zeros(draws))

    def bins(self, places: _Ints, letters: _Ints, groups: Classes) -> None:
        classes, length = groups.of_letter[letters], letters.shape[1]
        if length < 2:
            return
        for number, lag in enumerate(lag for lag in LAGS if lag < length):
            columns = slice(number * len(REPEATS), (number + 1) * len(REPEATS))
            before = letters[:, :-lag]
            self.gains[places, columns] = repeat_logs(letters[:, lag:], groups, before, classes[:, :-lag])
        self._learn(places, classes[:, :-1], classes[:, 1:], groups)

    def book(self, places: _Ints, letters: _Ints, groups: Classes, before: _Ints) -> None:
        """Rows of letters, each after an earlier row of the same law."""
        classes = groups.of_letter[before]
        self.gains[places] = repeat_logs(letters, groups, before, classes)
        self._learn(places, classes, groups.of_letter[letters], groups)

    def book_classes(self, places: _Ints, letters: _Ints, groups: Classes, before: _Ints) -> None:
        """Rows of letters, each after a row of another law, of which the classes are known."""
        self.gains[places] = repeat_logs(letters, groups, None, before)
        self._learn(places, before, groups.of_letter[letters], groups)

    def _learn(self, places: _Ints, before: _Ints, classes: _Ints, groups: Classes) -> None:
        self.tables[places], self.paid[places] = followed(before, classes, groups)
        self.counts[places] = classes.shape[1]


def _tiers(sheet: _Sheet, places: Sequence[int], letters: _Ints, groups: Classes, above: dict[int, _Ints]) -> None:
    """Each draw against the tier above it, where that was seen just before it."""
    rows: dict[int, list[int]] = {}
    for row, place in enumerate(places):
        shared = min(letters.shape[1], len(above.get(place, ())))
        if shared:
            rows.setdefault(shared, []).append(row)
    for shared, alike in rows.items():
        at = np.array([places[row] for row in alike])
        before = np.stack([above[places[row]][:shared] for row in alike])
        sheet.book_classes(at, letters[alike, :shared], groups, before)
