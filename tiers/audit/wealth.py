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
        if self.values // BLOCK > self.block:
            self.block = self.values // BLOCK
            self.recent = np.zeros(len(gain))
        self.whole += gain
        self.recent += gain
        self.values += count

    def log_e(self) -> float:
        """Return the logarithm of the process as it stands."""
        blocks = self.block
        fresh = np.logaddexp(log_mean(self.recent) - math.log((blocks + 1) * (blocks + 2)), -math.log(blocks + 2))
        return float(np.logaddexp(log_mean(self.whole), fresh)) - math.log(2)

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


def log_mean(wealth: _Floats) -> float:
    """Return log of the mean of e^wealth.

    Example:
        >>> round(log_mean(np.log([1.0, 3.0])), 9) == round(math.log(2), 9)
        True
    """
    top = float(wealth.max())
    return top + math.log(float(np.exp(wealth - top).mean()))
