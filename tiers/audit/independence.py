"""Bets that noise repeats itself: between bins of one draw, between chains, between tiers of one chain.

Before a value is seen, part of the stake goes on the cell that an earlier value points to. If streams are independent
the earlier value says nothing, and the bet is fair; if one stream serves twice, nearly every bet wins.
"""

import math
from dataclasses import dataclass, field
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray
from scipy.special import gammaln

from tiers.audit.alphabet import BITS, Alphabet
from tiers.audit.bets import FAIR

__all__ = ["CLASSES", "LAGS", "REPEATS", "Classes", "Habits", "classes_of", "followed", "repeat_logs"]

LAGS = (1, 2, 4, 8, 16, 32, 64, 128, 256)
CLASSES = 5
_STAKES = (0.5, 0.05)
REPEATS = tuple(f"{what}, stake {stake}" for what in ("same value", "same class", "mirrored") for stake in _STAKES)
"""Every bet by name: what the next value is said to repeat, and how much of the stake goes on it."""

_Ints = NDArray[np.int64]
_Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True, eq=False)
class Classes:
    """Letters grouped into at most five classes, by order and of about equal probability: alike for all laws.

    Args:       of_letter: the class of each letter. odds: 1/P(class) at least, one a class; letter_odds: one a letter.
    """

    of_letter: _Ints
    odds: _Floats
    letter_odds: _Floats


@lru_cache(maxsize=1024)
def classes_of(alphabet: Alphabet) -> Classes:
    """Return the classes of an alphabet's letters, with what a unit staked on each may fairly pay.

    Law:        P(class)·odds ≤ 1, from the letters' certified bounds.
    Example:
        >>> coin = Alphabet((0,), (1 << 63, 1 << 63))
        >>> [int(group) for group in classes_of(coin).of_letter], round(float(classes_of(coin).letter_odds[0]), 9)
        ([1, 3], 2.0)
    """
    chances = alphabet.probabilities()
    middle = np.cumsum(chances) - chances / 2
    groups = np.minimum((middle * CLASSES).astype(np.int64), CLASSES - 1)
    masses = [0] * CLASSES
    for letter, group in enumerate(groups):
        masses[int(group)] += alphabet.masses[letter]
    odds = np.array([_odds(mass) for mass in masses])
    return Classes(groups, odds, np.array([_odds(mass) for mass in alphabet.masses]))


def _odds(mass: int) -> float:
    """2⁶⁴/mass, rounded down; an empty class pays nothing."""
    return math.nextafter((1 << BITS) / mass, 0.0) if mass else 0.0


@dataclass(slots=True)
class Habits:
    """A bettor who learns which class follows which: any dependence between a value and an earlier one pays in the end.

    Law:        after y he stakes (1 + n_yc)/(5 + n_y) on class c, n the times that c has followed y: each factor is
                that stake times the odds of the class, so its expectation is at most 1.
    Args:       table: n_yc. paid: the log odds won so far.
    Example:
        >>> coin = classes_of(Alphabet((0,), (1 << 63, 1 << 63)))
        >>> habits = Habits()
        >>> habits.see(np.array([1, 3]), np.array([3, 1]), coin)
        >>> round(math.exp(habits.log_e()), 6)
        0.16
    """

    table: _Ints = field(default_factory=lambda: np.zeros((CLASSES, CLASSES), np.int64))
    paid: float = 0.0

    def see(self, before: _Ints, classes: _Ints, groups: Classes) -> None:
        """Take in values' classes and those of the earlier values that they follow."""
        tables, paid = followed(before[None, :], classes[None, :], groups)
        self.run(tables, paid)

    def run(self, tables: _Ints, paid: _Floats) -> _Floats:
        """Take in several rows of `followed` one after the other; return the log wealth after each of them."""
        grown = self.table + np.cumsum(tables, axis=0)
        won = np.cumsum(np.concatenate([[self.paid], paid]))[1:]
        self.table, self.paid = grown[-1].copy(), float(won[-1])
        return _learnt(grown, won)

    def log_e(self) -> float:
        """Return his log wealth, rounded down by more than doubles can err."""
        return float(_learnt(self.table[None], np.array([self.paid]))[0])


def followed(before: _Ints, classes: _Ints, groups: Classes) -> tuple[_Ints, _Floats]:
    """Return, for each row of values' classes, how often which followed which, and the log odds that they paid.

    Example:
        >>> coin = classes_of(Alphabet((0,), (1 << 63, 1 << 63)))
        >>> tables, paid = followed(np.array([[1, 3]]), np.array([[3, 1]]), coin)
        >>> tables.shape, round(float(paid[0]), 6) == round(2 * math.log(2), 6)
        ((1, 5, 5), True)
    """
    rows = np.arange(len(before))[:, None] * CLASSES**2
    counted = np.bincount((rows + before * CLASSES + classes).ravel(), minlength=len(before) * CLASSES**2)
    logs = np.log(groups.odds, out=np.zeros(CLASSES), where=groups.odds > 0)
    paid: _Floats = logs[classes].sum(axis=1) - FAIR * classes.shape[1]
    return counted.reshape(len(before), CLASSES, CLASSES), paid


def _learnt(tables: _Ints, paid: _Floats) -> _Floats:
    rows = tables.sum(axis=2)
    parts = gammaln(1 + tables).sum(axis=(1, 2)) - gammaln(CLASSES + rows).sum(axis=1)
    logs: _Floats = gammaln(CLASSES) * CLASSES + parts + paid - FAIR * (1 + 4 * rows.sum(axis=1))
    return logs


def repeat_logs(letters: _Ints, groups: Classes, before: _Ints | None, before_classes: _Ints) -> _Floats:
    """Return what each bet of `REPEATS` adds to its log wealth over a row of values and the earlier ones they follow.

    Law:        a factor is 1 − stake + stake·odds(y)·[the value falls in the cell y], y known before: its expectation
                is 1 − stake + stake·odds(y)·P(y) ≤ 1.
    Args:       letters: of the values, or several rows of them. before: letters of the earlier values, or None where
                those have another law. before_classes: their classes. All of one shape.
    Returns:    one number a bet, for each row.
    Example:
        >>> coin = Alphabet((0,), (1 << 63, 1 << 63))
        >>> seen = np.array([0, 1, 1])
        >>> gain = repeat_logs(seen, classes_of(coin), seen, classes_of(coin).of_letter[seen])
        >>> [round(float(each), 3) for each in gain]
        [1.216, 0.146, 1.216, 0.146, -2.079, -0.154]
    """
    own = groups.of_letter[letters]
    mirrored = CLASSES - 1 - before_classes
    wins = [
        np.zeros(letters.shape) if before is None else np.where(letters == before, groups.letter_odds[letters], 0.0),
        np.where(own == before_classes, groups.odds[own], 0.0),
        np.where(own == mirrored, groups.odds[own], 0.0),
    ]
    found = np.zeros((*letters.shape[:-1], len(REPEATS)))
    for place, win in enumerate(wins):
        if place == 0 and before is None:
            continue
        for bet, stake in enumerate(_STAKES, start=place * len(_STAKES)):
            found[..., bet] = np.log(1 - stake + stake * win).sum(axis=-1) - FAIR * letters.shape[-1]
    return found
