"""The wealth of a row of bettors: one supermartingale made of many, which forgets losses block by block."""

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from tiers.errors import InvalidParameterError

__all__ = ["BLOCK", "ProcessState", "Wealth", "log_mean"]

BLOCK = 1 << 18
"""Values after which half of the stake starts afresh: a fault that begins late is found a block later at most."""

_Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class ProcessState:
    """A process in plain values: what it has seen, log wealths of its bets since ever and in this block, its peak."""

    values: int
    block: int
    whole: tuple[float, ...]
    recent: tuple[float, ...]
    peak: float


@dataclass(slots=True)
class Wealth:
    """Log wealths of bets that share one stake.

    Law:        e = ½·M(whole) + ½·(M(recent)/((b+1)(b+2)) + 1/(b+2)), M the mean over bets, b the blocks
                finished; what a finished block had won is given away. Both parts are supermartingales; e starts at 1.
    Example:
        >>> wealth = Wealth.of_bets(2)
        >>> wealth.add(np.log([2.0, 0.5]), count=1)
        >>> round(math.exp(wealth.log_e()), 6)
        1.1875
    """

    whole: _Floats
    recent: _Floats
    values: int = 0
    block: int = 0
    peak: float = 0.0

    @classmethod
    def of_bets(cls, count: int) -> "Wealth":
        """Return the unspent wealth of so many bets."""
        return cls(np.zeros(count), np.zeros(count))

    def add(self, gain: _Floats, count: int) -> None:
        """Book what each bet won, as logs, over so many values."""
        self.run(gain[None, :], np.array([count]))

    def run(self, gains: _Floats, counts: NDArray[np.int64]) -> _Floats:
        """Book several rows one after the other; return the logarithm of the process after each of them.

        Args:       gains: one row a booking, one column a bet. counts: the values of each row.
        Example:
            >>> made, rows = Wealth.of_bets(2), np.log([[2.0, 0.5], [2.0, 0.5]])
            >>> [round(math.exp(log), 6) for log in made.run(rows, np.array([1, 1]))]
            [1.1875, 1.84375]
        """
        found, at = np.empty(len(gains)), 0
        blocks = (self.values + np.cumsum(counts) - counts) // BLOCK
        while at < len(gains):
            if blocks[at] > self.block:
                self.block, self.recent = int(blocks[at]), np.zeros(len(self.recent))
            end = int(np.searchsorted(blocks, self.block, side="right"))
            whole, recent = (
                np.cumsum(np.concatenate([start[None, :], gains[at:end]]), axis=0)[1:]
                for start in (self.whole, self.recent)
            )
            found[at:end] = _log_e(whole, recent, self.block)
            self.whole, self.recent, at = whole[-1].copy(), recent[-1].copy(), end
        self.values += int(counts.sum())
        return found

    def log_e(self) -> float:
        """Return the logarithm of the process as it stands."""
        return float(_log_e(self.whole[None, :], self.recent[None, :], self.block)[0])

    def look(self, log_e: float) -> None:
        """Remember the largest value that any look has seen."""
        self.peak = max(self.peak, log_e)

    def state(self) -> ProcessState:
        """Return the process in plain values."""
        return ProcessState(self.values, self.block, tuple(self.whole.tolist()), tuple(self.recent.tolist()), self.peak)

    @classmethod
    def of(cls, state: ProcessState, bets: int) -> "Wealth":
        """Return the process that goes on from a state.

        Raises:     InvalidParameterError: a state of another number of bets.
        """
        if len(state.whole) != bets or len(state.recent) != bets:
            raise InvalidParameterError("state", f"that of {bets} bets", len(state.whole))
        return cls(np.array(state.whole), np.array(state.recent), state.values, state.block, state.peak)


def log_mean(wealth: _Floats) -> _Floats:
    """Return, for each row, log of the mean of e^wealth.

    Example:
        >>> [round(float(log), 9) for log in log_mean(np.log([[1.0, 3.0]]))] == [round(math.log(2), 9)]
        True
    """
    top = wealth.max(axis=1)
    logs: _Floats = top + np.log(np.exp(wealth - top[:, None]).mean(axis=1))
    return logs


def _log_e(whole: _Floats, recent: _Floats, blocks: int) -> _Floats:
    fresh = np.logaddexp(log_mean(recent) - math.log((blocks + 1) * (blocks + 2)), -math.log(blocks + 2))
    logs: _Floats = np.logaddexp(log_mean(whole), fresh) - math.log(2)
    return logs
