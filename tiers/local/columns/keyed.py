"""Words of a run of reports: report j of a draw owns the same words whatever chunk it comes in."""

from collections.abc import Iterator
from typing import Protocol

import numpy as np
import numpy.typing as npt

from tiers.errors import InvalidParameterError

__all__ = ["REPORT_LIMIT", "ReportWords", "Scratch", "check_run", "halves", "quarters"]

REPORT_LIMIT = 2**32
_BLOCK = 64


class ReportWords(Protocol):
    """What a kernel consumes: the keyed stream of one draw (`tiers.sampling.words.KeyedWords`)."""

    @property
    def bits(self) -> int:
        """Return the width of a word."""
        ...

    def read_into(self, start: int, count: int, buffer: bytearray) -> None:
        """Put bytes `start` to `start + count` of stream 0 at the front of `buffer`."""
        ...

    def tail(self, element: int) -> Iterator[int]:
        """Return the further words of `element`."""
        ...


class Scratch:
    """A buffer of one kernel's run: what was read last is valid until the next read."""

    __slots__ = ("_buffer", "_whole")

    def __init__(self, most: int) -> None:
        self._buffer = bytearray(most + 2 * _BLOCK)
        self._whole = np.frombuffer(self._buffer, np.uint8)

    def run(self, words: ReportWords, start: int, count: int) -> npt.NDArray[np.uint8]:
        """Return `count` bytes of stream 0 from byte `start` on, wherever the blocks of the cipher lie."""
        skip = start % _BLOCK
        words.read_into(start - skip, skip + count, self._buffer)
        return self._whole[skip : skip + count]


def halves(tail: Iterator[int], bits: int) -> Iterator[int]:
    """Yield the lower `bits` bits of each further word."""
    return (word & (1 << bits) - 1 for word in tail)


def quarters(tail: Iterator[int]) -> Iterator[int]:
    """Yield four numbers of 16 bits of each further word, from the lowest up."""
    return (word >> shift & 0xFFFF for word in tail for shift in (0, 16, 32, 48))


def check_run(first: int, count: int) -> None:
    """Refuse numbers of reports beyond the streams: `first` to `first + count` within 2³²."""
    if isinstance(first, bool) or not isinstance(first, int) or first < 0 or first + count > REPORT_LIMIT:
        raise InvalidParameterError("report numbers", "whole, from 0 to 2³² − 1", first)
