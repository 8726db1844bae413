"""What a location panel promises and sells by: its space, its budgets, its plan of rounds; and what ρ comes to."""

import math
from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from tiers.accounting.charges import LedgerKind
from tiers.accounting.people import Nanos, PeopleLedger
from tiers.adaptive.asking import Plan
from tiers.adaptive.budgeting import doubling_split
from tiers.adaptive.rounds import Mode, round_law
from tiers.adaptive.space import FARTHEST_STEPS, Space
from tiers.budget import NANO, decimal_text, nano_up, parse_decimal
from tiers.errors import InvalidParameterError

__all__ = [
    "ADJACENCY",
    "FINE",
    "LAW",
    "MEASURE",
    "PEOPLE_MOST",
    "Terms",
    "coordinate_of",
    "list_price",
    "space_of",
]

MEASURE = "rho-cgp"
"""What is promised: D_α ≤ ρ·α·dist² for two places of one person, at every order above 1."""
ADJACENCY = "one person at another place"
FINE = 256
"""Steps of noise a grain: a distance rounded to a step is stretched by 2/256 at most, which its price counts."""
LAW = "lattice-gaussian distances, doubling rounds/1"
"""What is released, by which rule of rounds, charged by which curve; another version of any of them is another name."""
PEOPLE_MOST = 2**20


@dataclass(frozen=True, slots=True)
class Terms:
    """What a panel's leaf says of it, as numbers.

    Args:       people: n, which is public. budget_nano, query_nano: of each person, in all and on one question at most,
                in units of 10⁻⁹ ρ a squared unit of distance. beta: of every answer. rounds: at most so many.
    Raises:     InvalidParameterError: β outside (0, 1), nobody, a question that may spend more than there is, or no
                question that this grid could answer within it.
    """

    space: Space
    people: int
    budget_nano: int
    query_nano: int
    beta: Fraction
    rounds: int

    def __post_init__(self) -> None:
        if not 0 < self.beta < 1:
            raise InvalidParameterError("beta", "a decimal with 0 < β < 1", decimal_text(self.beta))
        if not 1 <= self.people <= PEOPLE_MOST:
            raise InvalidParameterError("people", f"1 to {PEOPLE_MOST}", self.people)
        if not 1 <= self.query_nano <= self.budget_nano:
            raise InvalidParameterError(
                "query_budget", f"above 0, at most the budget of {_rho(self.budget_nano)}", _rho(self.query_nano)
            )
        if self.query_nano < self.plan.least:
            raise InvalidParameterError("query_budget", f"at least {_rho(self.plan.least)} here", _rho(self.query_nano))

    @property
    def plan(self) -> Plan:
        """Return how everybody is asked."""
        return Plan(self.space, Mode.DISTANCE, doubling_split(self.rounds), float(self.beta))

    @property
    def diagonal(self) -> Fraction:
        """Return Λ: no two places of the space are farther apart; rounded up to a noise step."""
        return self.space.reach_steps * self.space.step

    @property
    def whole_nano(self) -> int:
        """Return ρ·Λ² of a person's whole budget: what is promised to two places at opposite ends of the space."""
        return nano_up(Fraction(self.budget_nano, NANO) * self.diagonal**2)

    def precision(self, budget_nano: int) -> Fraction:
        """Return Σ 1/σ² over a question's rounds at a budget, σ in noise steps: what an average of all of them has.

        It is hardly off proportion to the budget, but where the rounds' noise is near the least there is (1,024 steps):
        more budget buys no more there.

        Raises:     InvalidParameterError: a budget that does not pay every round.
        """
        plan = self.plan
        laws = (round_law(int(budget_nano * part), plan.space, plan.mode) for part in plan.parts)
        return sum((Fraction(1, law.sigma**2) for law in laws), Fraction(0))

    @property
    def unspent(self) -> PeopleLedger:
        """Return everybody's ledger before the first question."""
        return self.ledger(np.zeros(self.people, np.int64))

    def ledger(self, spent: Nanos) -> PeopleLedger:
        """Return everybody's ledger with these sums spent; raises InvalidParameterError where one is above budget."""
        return PeopleLedger(LedgerKind.ZCDP, np.full(self.people, self.budget_nano, np.int64), spent)

    def allowed(self, budget_nano: int) -> Nanos:
        """Return what each may spend on one question, before what is left of each."""
        return np.full(self.people, budget_nano, np.int64)


def space_of(low: tuple[Fraction, ...], high: tuple[Fraction, ...], grain: Fraction) -> Space:
    """Return the grid of a declared box.

    Raises:     InvalidParameterError: a box that is not a whole number of grains wide, or so wide or far off that
                doubles could not tell its noise steps.
    Example:
        >>> space_of((Fraction(0),), (Fraction(10),), Fraction(1, 2)).sides
        (21,)
    """
    if grain <= 0:
        raise InvalidParameterError("grain", "above 0", decimal_text(grain))
    widths = [(upper - lower) / grain for lower, upper in zip(low, high, strict=True)]
    if any(width < 0 or width.denominator != 1 for width in widths):
        raise InvalidParameterError("axes", "low ≤ high, a whole number of grains apart", tuple(map(str, widths)))
    far = max(abs(end) for end in (*low, *high)) / grain * FINE
    if far > FARTHEST_STEPS:
        raise InvalidParameterError("axes", f"ends within {FARTHEST_STEPS // FINE} grains of 0", math.ceil(far / FINE))
    return Space(low, grain, tuple(int(width) + 1 for width in widths), FINE)


def coordinate_of(name: str, text: str) -> Fraction:
    """Return a decimal that may have a sign, exactly; raises InvalidParameterError.

    Example:
        >>> coordinate_of("low", "-0.5")
        Fraction(-1, 2)
    """
    size = parse_decimal(name, text.removeprefix("-"))
    return -size if text.startswith("-") else size


def list_price(terms: Terms, price_minor: int, budget_nano: int) -> int:
    """Return a question's list price: in proportion to the precision that its budget buys, rounded up.

    Precisions of answers add up in their average, so cheap answers together never cost less than one as good.

    Example:
        >>> space = space_of((Fraction(0),), (Fraction(10),), Fraction(1, 100))
        >>> terms = Terms(space, 9, 10**10, 10**9, Fraction(1, 20), 10)
        >>> [list_price(terms, 900, budget) for budget in (10**9, 5 * 10**8)]
        [900, 451]
    """
    return math.ceil(price_minor * terms.precision(budget_nano) / terms.precision(terms.query_nano))


def _rho(nano: int) -> str:
    return decimal_text(Fraction(nano, NANO))
