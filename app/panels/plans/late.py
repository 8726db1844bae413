"""A panel's menu with the tiers that were added to it, and the law by which each of those is drawn."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property

import numpy as np
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDF

from app.errors import ConflictError, InvalidRequestError
from app.panels.mechanism import read_plan
from app.panels.plans.base import Plan
from app.panels.plans.bits import BitsPlan, FlippedPlan
from app.panels.plans.points import PointsPlan
from app.panels.plans.sets import SetsPlan
from app.panels.plans.values import ValuesPlan
from tiers.budget import Ladder
from tiers.canonical import Document, canonical_bytes
from tiers.local.columns.between import LATE_SAMPLER, FlipsBetween, SetsBetween, ValuesBetween
from tiers.local.flips import Flips
from tiers.local.randomized_response import RandomizedResponse
from tiers.local.signal import Signal
from tiers.local.subset import Subset
from tiers.metric.ranges import Grid
from tiers.sampling.words import STREAM_VERSION

__all__ = ["LATE_MECHANISMS", "Menu", "law_of_late"]

LATE_MECHANISMS = ("subset", "randomized-response", "flips", "points")
"""Those for which the conditional law of a tier between two others is proved."""


@dataclass(frozen=True)
class Menu:
    """A panel's tiers by number: those it opened with, most accurate first, then the added ones as they came.

    A tier's number never changes, whatever comes between it and its neighbours; its rank, its place by accuracy, may.

    Args:       opening: the plan that every round is derived with first. epsilons, laws: of the added tiers.
    """

    opening: Plan
    epsilons: tuple[Fraction, ...] = ()
    laws: tuple[Mapping[str, str], ...] = ()

    def __len__(self) -> int:
        return len(self.opening.ladder) + len(self.epsilons)

    @property
    def late(self) -> range:
        """Return the numbers of the added tiers."""
        return range(len(self.opening.ladder), len(self))

    def epsilon(self, number: int) -> Fraction:
        """Return a tier's ε."""
        return (*self.opening.ladder.epsilons, *self.epsilons)[number]

    def law(self, number: int) -> dict[str, str]:
        """Return the texts of a tier's law."""
        known = len(self.opening.ladder)
        return self.opening.parameters(number) if number < known else dict(self.laws[number - known])

    @cached_property
    def numbers(self) -> tuple[int, ...]:
        """Return the tiers' numbers by accuracy, the most accurate first."""
        return tuple(sorted(range(len(self)), key=self.epsilon, reverse=True))

    def rank(self, number: int) -> int:
        """Return a tier's place by accuracy, from 0."""
        return self.numbers.index(number)

    @cached_property
    def plan(self) -> Plan:
        """Return the plan of all tiers by accuracy, every ε and every step checked; raises as `read_plan` does."""
        if not self.epsilons:
            return self.opening
        ladder = Ladder.parse([self.epsilon(number) for number in self.numbers])
        laws = [self.law(number) for number in self.numbers]
        return read_plan(self.opening.mechanism, self.opening.domain_size, ladder, laws)

    def known_to(self, number: int) -> "Menu":
        """Return the menu as it was when this added tier came: without it, and without those after it."""
        kept = number - len(self.opening.ladder)
        return Menu(self.opening, self.epsilons[:kept], self.laws[:kept])

    def parents(self, number: int) -> tuple[int, ...]:
        """Return the tiers that a tier was drawn from: none, the one above, or both neighbours of that time."""
        if number < len(self.opening.ladder):
            return (number - 1,) if number else ()
        known = self.known_to(number)
        place = sum(known.epsilon(other) > self.epsilon(number) for other in range(len(known)))
        return known.numbers[place - 1 : place + 1]

    def plan_of(self, *numbers: int) -> Plan:
        """Return the plan of some tiers alone, in falling order."""
        plan = self.opening
        ladder = Ladder.parse([self.epsilon(number) for number in numbers])
        return read_plan(plan.mechanism, plan.domain_size, ladder, [self.law(number) for number in numbers])

    def key(self, secret: bytes, name: str, number: int) -> bytes:
        """Return the key of an added tier's draw in a round: HKDF over the laws of the tier and its parents."""
        document: dict[str, Document] = {
            "parents": [{**self.law(parent)} for parent in self.parents(number)],
            "panel": name,
            "sampler": LATE_SAMPLER,
            "stream": STREAM_VERSION,
            "tier": {**self.law(number)},
        }
        info = b"tiermarket/panel-late/1\n" + canonical_bytes(document)
        return HKDF(algorithm=SHA256(), length=32, salt=None, info=info).derive(secret)

    def draw(self, key: bytes, number: int, first: int, parents: Sequence[bytes]) -> bytes:
        """Return an added tier's reports `first`, `first + 1`, …, given its parents' as stored.

        Law:        the conditional one between two neighbours; below the lowest tier, the step from it.
        Raises:     InvalidParameterError: a report that a parent's mechanism cannot give.
        Example:
            >>> from app.panels.mechanism import plan_of
            >>> opening = plan_of("randomized-response", 3, Ladder.parse(["3", "1"]))
            >>> menu = Menu(opening, (Fraction(2),), (law_of_late(Menu(opening), Fraction(2)),))
            >>> len(menu.draw(bytes(32), 2, 0, [bytes(8), bytes(8)])) // opening.width
            4
        """
        above, *lower = self.parents(number)
        if not lower:
            return self.plan_of(above, number).derive([key], first, parents[0])[1]
        between = self._between[number - len(self.opening.ladder)]
        assert between is not None
        plan, count = self.opening, len(parents[0]) // self.opening.width
        if isinstance(between, ValuesBetween):
            values = [np.frombuffer(raw, "<u2").astype(np.uint16) for raw in parents]
            return between.apply(key, first, *values).astype("<u2").tobytes()
        if isinstance(between, FlipsBetween):
            lines = plan.width // 8
            words = [np.frombuffer(raw, "<u8").astype(np.uint64) for raw in parents]
            bits = between.apply(key, first * lines, *words).reshape(-1, lines)
            assert isinstance(plan, FlippedPlan)
            bits[:, -1] &= np.uint64(2 ** (plan.bits - 64 * (lines - 1)) - 1)
            return bits.astype("<u8").tobytes()
        sets = [
            np.unpackbits(np.frombuffer(raw, np.uint8).reshape(count, -1), axis=1, bitorder="little") for raw in parents
        ]
        inside = [each[:, : plan.domain_size].astype(np.bool_) for each in sets]
        found = np.zeros((count, 8 * plan.width), np.bool_)
        found[:, : plan.domain_size] = between.apply(key, first, *inside)
        return np.packbits(found, axis=1, bitorder="little").tobytes()

    def check_draws(self) -> None:
        """Make what draws each added tier; raises as `draw` does, where no report is at hand yet."""
        assert len(self._between) == len(self.late)

    @cached_property
    def _between(self) -> tuple["SetsBetween | ValuesBetween | FlipsBetween | None", ...]:
        return tuple(self._kernel(number) for number in self.late)

    def _kernel(self, number: int) -> "SetsBetween | ValuesBetween | FlipsBetween | None":
        above, *lower = self.parents(number)
        if not lower:
            return None
        laws = self.plan_of(above, number, *lower).laws
        match laws:
            case (Flips() as one, Flips() as two, Flips() as three):
                return FlipsBetween(one, two, three)
            case (Grid() as one, Grid() as two, Grid() as three):  # every axis's bits, each on its own
                return FlipsBetween(one.flips, two.flips, three.flips)
            case (Subset() as one, Subset() as two, Subset() as three):
                return SetsBetween(one, two, three)
            case _:
                single = [Subset(law.domain_size, 1, law.signal) for law in laws if isinstance(law, RandomizedResponse)]
                return ValuesBetween(*single)


def law_of_late(menu: Menu, epsilon: Fraction) -> dict[str, str]:
    """Return the law of a tier that is added at an ε: of least variance among those that its neighbours admit.

    Raises:     InvalidRequestError: a mechanism for whose late tiers no law is proved, or an ε not below the top one.
                ConflictError: an ε that a tier of the menu has.
    Example:
        >>> from app.panels.mechanism import plan_of
        >>> menu = Menu(plan_of("subset", 16, Ladder.parse(["3", "1"])))
        >>> law_of_late(menu, Fraction(2))["subset_size"]
        '2'
    """
    plan = menu.opening
    if plan.mechanism not in LATE_MECHANISMS:
        named = ", ".join(LATE_MECHANISMS)
        raise InvalidRequestError(
            f"panel: expected {named}, of which a late tier's law is proved, got another mechanism"
        )
    if epsilon in [menu.epsilon(number) for number in range(len(menu))]:
        raise ConflictError("epsilon: expected one that no tier of the panel has, got another")
    if epsilon > plan.ladder.epsilons[0]:
        raise InvalidRequestError("epsilon: expected one below the top tier's: nothing above it has left a device")
    law: Flips | Grid | RandomizedResponse | Subset
    if isinstance(plan, PointsPlan):
        law = Grid(plan.sizes, Flips(epsilon))
    elif isinstance(plan, BitsPlan):
        law = Flips(epsilon)
    elif isinstance(plan, ValuesPlan):
        law = RandomizedResponse.paying(plan.domain_size, epsilon)
    else:
        law = _best_between(menu, epsilon)
    return {"family": law.family} | law.parameters()


def _best_between(menu: Menu, epsilon: Fraction) -> Subset:
    """The set size, between the neighbours', of least variance; its signal spends ε, or what the tier above left."""
    assert isinstance(menu.plan, SetsPlan)
    laws, ladder = menu.plan.laws, menu.plan.ladder.epsilons
    place = sum(other > epsilon for other in ladder)
    upper, d = laws[place - 1], laws[0].domain_size
    most = laws[place].subset_size if place < len(laws) else d - 1
    found = []
    for size in range(upper.subset_size, most + 1):
        signal = Signal.paying(epsilon, coverage=Fraction(size, d))
        if not upper.signal.reaches(signal):
            signal = upper.signal
        if place == len(laws) or signal.reaches(laws[place].signal):
            found.append(Subset(d, size, signal))
    return min(found, key=Subset.variance)
