"""Bets against a claimed law: factors whose expectation is at most 1, proved letter by letter in integers.

A bet is another law of the letters, divided by the bounds of the claimed one. Which laws are chosen decides only how
soon a wrong one is found; that no choice is unfair is checked in exact integers when the bet is made.
"""

import math
from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray
from scipy.special import gammaln, ndtr
from scipy.stats import skellam

from tiers.audit.alphabet import BITS, Alphabet, alphabet_of, residues_of
from tiers.chain.balls import StepLaw
from tiers.errors import InvalidParameterError, TierError
from tiers.noise.skellam import Skellam
from tiers.noise.tsg import TwoSidedGeometric, ZeroInflated

__all__ = [
    "BETS",
    "FACTOR_BITS",
    "FAIR",
    "Bets",
    "bets_on",
    "dirichlet_log",
    "dirichlet_logs",
    "factors_of",
    "plain_bets",
]

FACTOR_BITS = 32
_UNIT = 1 << FACTOR_BITS
FAIR = 1e-12
"""Taken off every log factor: more than the rounding of a sum of logs up to 4,000 can add."""
_KEPT = 2.0**-10
_NARROW = 100.0

_SCALES = (0.99, 1.01, 0.98, 1.02, 0.95, 1.05, 0.8, 1.25)
_SHIFTS = (-0.25, -0.03, 0.03, 0.25)
_ZEROS = (0.5, 0.95, 1.05, 2.0)
_CLIPS = (4, 6, 8, 10, 12, 14)
BETS = (
    *(f"rate of the lower tier × {c}" for c in _SCALES),
    *(f"rate of the upper tier × {c}" for c in _SCALES),
    *(f"both rates × {c}" for c in _SCALES),
    *(f"spread × {c}" for c in _SCALES),
    *(f"shift by {c} deviations" for c in _SHIFTS),
    *(f"zeros × {c}" for c in _ZEROS),
    *(f"no tail below 2^-{c}" for c in _CLIPS),
    *(f"tail below 2^-{c} moved to its edge" for c in _CLIPS),
    *(f"multiples of {m}" for m in (2, 4, 8)),
    "an outlier in 64",
)
"""Every bet by name; one that a law has no use for pays exactly 1."""

_Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True, eq=False)
class Bets:
    """The logs of all factors on one law: one row a bet, one column a letter.

    Guarantee:  for every bet Σ P(letter)·factor(letter) ≤ 1 under the claimed law, both tails included: checked in
                integers when the factors were made; the logs are rounded down by more than doubles can err.
    Args:       alphabet: of the law. logs: rows as `BETS`. residues, residue_logs: low digits of wide laws.
    """

    alphabet: Alphabet
    logs: _Floats
    residues: Alphabet | None
    residue_logs: _Floats | None


def factors_of(alphabet: Alphabet, other: _Floats) -> tuple[int, ...]:
    """Return the factors of a bet on another law of the letters, in units of 2⁻³², so that it is certainly fair.

    A 2⁻¹⁰ of the stake is kept back, so that no single letter ever loses all of it.

    Law:        Σ masses·factors ≤ 2⁹⁶, in integers: the expectation is at most 1 whatever law the masses bound.
    Raises:     InvalidParameterError: not a weight of at least 0 for each letter.
    Example:
        >>> coin = Alphabet((0,), (1 << 63, 1 << 63))
        >>> [round(factor / 2**32, 3) for factor in factors_of(coin, np.array([0.25, 0.75]))]
        [0.5, 1.5]
    """
    if other.shape != (alphabet.size,) or not np.all(np.isfinite(other)) or other.min() < 0 or other.sum() <= 0:
        raise InvalidParameterError("bet", "a finite weight of at least 0 for each letter", other.shape)
    mixed = (1 - _KEPT) * other / other.sum() + _KEPT * alphabet.probabilities()
    factors = [int(share * 2.0**BITS / mass * _UNIT) for share, mass in zip(mixed, alphabet.masses, strict=True)]
    stake = sum(mass * factor for mass, factor in zip(alphabet.masses, factors, strict=True))
    limit = 1 << (BITS + FACTOR_BITS)
    fair = tuple(factor * limit // stake for factor in factors) if stake > limit else tuple(factors)
    assert sum(mass * factor for mass, factor in zip(alphabet.masses, fair, strict=True)) <= limit
    return fair


def _logs(factors: tuple[int, ...]) -> _Floats:
    assert min(factors) > 0, "a part of the stake is kept back on every letter"
    return np.array([math.log(factor / _UNIT) for factor in factors]) - FAIR


@lru_cache(maxsize=512)
def bets_on(law: StepLaw) -> Bets:
    """Return every bet against a residual's law.

    Raises:     as `alphabet_of`.
    Example:
        >>> step = TwoSidedGeometric(Fraction(2)).residual_to(TwoSidedGeometric(Fraction(1)))
        >>> bets = bets_on(step)
        >>> bets.logs.shape == (len(BETS), bets.alphabet.size)
        True
    """
    alphabet = alphabet_of(law)
    logs = plain_bets(alphabet, law.variance() ** 0.5).copy()
    for row, name in enumerate(BETS):
        for near in _near(law, name):
            logs[row] = _logs(factors_of(alphabet, _weights(near, alphabet)))
    residues = residues_of(law)
    residue_logs = None
    if residues is not None:
        residue_logs = np.zeros((len(BETS), residues.size))
        for step in (2, 4, 8):
            row = BETS.index(f"multiples of {step}")
            even = np.array([1.0 if r % step == 0 else 0.0 for r in range(residues.size)])
            residue_logs[row] = _logs(factors_of(residues, even))
    return Bets(alphabet, logs, residues, residue_logs)


@lru_cache(maxsize=4096)
def plain_bets(alphabet: Alphabet, deviation: float) -> _Floats:
    """Return the bets that need no second law of the family: wider, narrower, shifted, other zeros, cut tails.

    Example:
        >>> coin = Alphabet((0,), (1 << 63, 1 << 63))
        >>> bool(plain_bets(coin, 1.0).max() < math.log(2))
        True
    """
    chances = alphabet.probabilities()
    places = alphabet.centres() / max(deviation, 1e-9)
    zero = int(alphabet.letters([0])[0])
    logs = np.zeros((len(BETS), alphabet.size))
    for row, name in enumerate(BETS):
        for other in _plain(name, chances, places, zero):
            logs[row] = _logs(factors_of(alphabet, other))
    return logs


def _plain(name: str, chances: _Floats, places: _Floats, zero: int) -> Iterator[_Floats]:
    words = name.split()
    if name.startswith("spread"):
        tilt = math.log(float(words[-1])) * np.minimum(np.abs(places), 40.0) * 2**0.5
        yield chances * np.exp(tilt)
    elif name.startswith("shift"):
        yield chances * np.exp(float(words[2]) * np.clip(places, -8.0, 8.0))
    elif name.startswith("zeros"):
        other = chances.copy()
        other[zero] *= float(words[-1])
        yield other
    elif name.startswith("an outlier"):
        other = chances * 63 / 64
        other[[0, -1]] += 1 / 128
        yield other
    elif "tail below" in name:
        yield from _clipped(chances, 2.0 ** -int(name.split("2^-")[1].split(maxsplit=1)[0]), moved="moved" in name)


def _clipped(chances: _Floats, level: float, *, moved: bool) -> Iterator[_Floats]:
    below, above = np.cumsum(chances) < level / 2, np.cumsum(chances[::-1])[::-1] < level / 2
    if not below.any() or not above.any() or (below | above).all():
        return
    other = np.where(below | above, 0.0, chances)
    if moved:
        first, last = np.flatnonzero(other)[[0, -1]]
        other[first] += chances[below].sum()
        other[last] += chances[above].sum()
    yield other


def _near(law: StepLaw, name: str) -> Iterator[StepLaw]:
    """The residual that a market with a wrong parameter would really draw, if there is one."""
    if "rate" not in name:
        return
    factor = Fraction(name.rsplit(maxsplit=1)[-1])
    try:
        if isinstance(law, ZeroInflated):
            upper = law.upper if name.startswith("rate of the lower") else TwoSidedGeometric(law.upper.rate * factor)
            lower = law.lower if name.startswith("rate of the upper") else TwoSidedGeometric(law.lower.rate * factor)
            yield upper.residual_to(lower)
        elif isinstance(law, Skellam):
            power = 1 if name.startswith("rate of the lower") else 2 if name.startswith("both") else 4
            yield Skellam(law.rate * factor**power)
    except TierError:
        return


def _weights(law: StepLaw, alphabet: Alphabet) -> _Floats:
    """The letters' probabilities under another law, about: a bet may be on anything."""
    edges = np.array(alphabet.edges, np.float64)
    if isinstance(law, ZeroInflated):
        rate, moves = float(law.lower.rate), 1 - law.stay_probability()
        tail = moves / (1 + math.exp(-rate))
        below = tail * np.exp(rate * (np.minimum(edges, 1) - 1))
        upto = np.where(edges <= 0, below, 1 - tail * np.exp(-rate * np.maximum(edges, 0)))
    else:
        deviation = law.variance() ** 0.5
        narrow = isinstance(law, Skellam) and deviation < _NARROW
        rate = law.variance() / 2
        upto = skellam.cdf(edges - 1, rate, rate) if narrow else ndtr((edges - 0.5) / deviation)
    return np.maximum(np.diff(np.concatenate([[0.0], upto, [1.0]])), 0.0)


def dirichlet_log(counts: NDArray[np.int64], alphabet: Alphabet) -> float:
    """Return the log wealth of a bettor who at each value stakes on every letter as often as he has seen it.

    Law:        Γ(A)/Γ(A + n)·Π Γ(a_i + c_i)/Γ(a_i)/P(i)^c_i with a_i = A·P(i), A the number of letters: each factor
                is (a_i + c_i)/(A + n)/P(i), whose expectation is at most 1 whatever came before.
    Example:
        >>> coin = Alphabet((0,), (1 << 63, 1 << 63))
        >>> round(math.exp(dirichlet_log(np.array([2, 0]), coin)), 6)
        1.333333
    """
    return float(dirichlet_logs(counts[None, :], alphabet)[0])


def dirichlet_logs(counts: NDArray[np.int64], alphabet: Alphabet) -> _Floats:
    """Return `dirichlet_log` of each row of counts.

    Example:
        >>> [round(math.exp(log), 6) for log in dirichlet_logs(np.array([[2, 0]]), Alphabet((0,), (1 << 63, 1 << 63)))]
        [1.333333]
    """
    prior, of_prior, bounds = _prior(alphabet)
    total, prior_total = counts.sum(axis=1), float(prior.sum())
    paid = (gammaln(prior + counts) - of_prior - counts * bounds).sum(axis=1)
    logs: _Floats = paid + gammaln(prior_total) - gammaln(prior_total + total) - (FAIR * (1 + total) * 4 + 1e-9)
    return logs


@lru_cache(maxsize=1024)
def _prior(alphabet: Alphabet) -> tuple[_Floats, _Floats, _Floats]:
    """What the learner holds of each letter at first, the log of its Γ, and the log of the letter's bound."""
    prior = np.maximum(alphabet.size * alphabet.probabilities(), 1e-12)
    bounds = np.array([math.log(mass) - BITS * math.log(2) for mass in alphabet.masses])
    return prior, gammaln(prior), bounds
