"""Reports as they are sent: lists of whole numbers, kept flat."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import numpy.typing as npt

__all__ = ["Lists"]

Numbers = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Lists:
    """Lists of whole numbers: list j is `flat[ends[j] : ends[j + 1]]`."""

    flat: Numbers
    ends: Numbers

    @classmethod
    def of(cls, rows: Sequence[Sequence[int]]) -> "Lists":
        """Return lists from Python's own.

        Example:
            >>> Lists.of([[1, 2], [], [3]]).ends.tolist()
            [0, 2, 2, 3]
        """
        sizes = np.fromiter((len(row) for row in rows), np.int64, len(rows))
        ends = np.concatenate([np.zeros(1, np.int64), np.cumsum(sizes)])
        return cls(np.fromiter((number for row in rows for number in row), np.int64, int(ends[-1])), ends)

    @classmethod
    def table(cls, rows: npt.NDArray[np.integer]) -> "Lists":
        """Return lists of one size from the rows of a table."""
        count, size = rows.shape
        return cls(rows.astype(np.int64).reshape(-1), np.arange(count + 1, dtype=np.int64) * size)

    def __len__(self) -> int:
        return len(self.ends) - 1

    @property
    def sizes(self) -> Numbers:
        """Return the length of each list."""
        return np.diff(self.ends)

    @property
    def owners(self) -> Numbers:
        """Return, for each number, which list it stands in."""
        return np.repeat(np.arange(len(self)), self.sizes)

    def any_of(self, broken: npt.NDArray[np.bool_]) -> npt.NDArray[np.bool_]:
        """Return which lists hold a number that is marked."""
        found: npt.NDArray[np.bool_] = np.bincount(self.owners[broken], minlength=len(self)).astype(np.bool_)
        return found

    def heads(self, otherwise: int) -> Numbers:
        """Return the first number of each list; `otherwise` of an empty one."""
        found = np.full(len(self), otherwise, np.int64)
        filled = self.sizes > 0
        found[filled] = self.flat[self.ends[:-1][filled]]
        return found

    def tails(self) -> "Lists":
        """Return each list without its first number.

        Example:
            >>> Lists.of([[1, 2], [], [3]]).tails().rows()
            [[2], [], []]
        """
        keep = np.ones(len(self.flat), np.bool_)
        keep[self.ends[:-1][self.sizes > 0]] = False
        sizes = np.maximum(self.sizes - 1, 0)
        return Lists(self.flat[keep], np.concatenate([np.zeros(1, np.int64), np.cumsum(sizes)]))

    def headed(self, heads: npt.NDArray[np.integer]) -> "Lists":
        """Return each list with one more number in front."""
        grown = self.ends + np.arange(len(self) + 1)
        flat = np.empty(int(grown[-1]), np.int64)
        front = np.zeros(len(flat), np.bool_)
        front[grown[:-1]] = True
        flat[front], flat[~front] = heads, self.flat
        return Lists(flat, grown)

    def rows(self) -> list[list[int]]:
        """Return the lists as Python's own."""
        flat, ends = self.flat.tolist(), self.ends.tolist()
        return [flat[start:end] for start, end in pairwise(ends)]
