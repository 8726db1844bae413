"""Rounds with somebody told of them: of charges before anything is drawn, of values after; and rounds read again."""

from fractions import Fraction
from typing import Any

import numpy as np
import pytest

from tiers.accounting.charges import LedgerKind
from tiers.accounting.people import Nanos, People, PeopleLedger
from tiers.adaptive.asking import Plan, drawing
from tiers.adaptive.budgeting import doubling_split
from tiers.adaptive.queries import count_rounds, density_rounds, distances_from, nearest_rounds
from tiers.adaptive.release import keyed_streams
from tiers.adaptive.replay import replaying
from tiers.adaptive.rounds import Mode
from tiers.adaptive.shapes import Disc
from tiers.adaptive.space import Places, Space

SPACE = Space((Fraction(0), Fraction(0)), Fraction(1, 10), (201, 201), 256)
PLAN = Plan(SPACE, Mode.DISTANCE, doubling_split(5), 0.1)
DISC = Disc((10.0, 10.0), 4.0)


class RefusedError(Exception):
    """The charge cannot be written."""


class Notes:
    def __init__(self, refuse: int | None = None) -> None:
        self.told: list[tuple[str, int]] = []
        self.charges: list[tuple[People, Nanos]] = []
        self.values: list[tuple[People, Places]] = []
        self.refuse = refuse

    def charged(self, place: int, who: People, charges: Nanos) -> None:
        self.told.append(("charged", place))
        self.charges.append((who, charges))
        if place == self.refuse:
            raise RefusedError

    def released(self, place: int, who: People, values: Places) -> None:
        self.told.append(("released", place))
        self.values.append((who, values.copy()))


def people(count: int = 30) -> Places:
    return np.random.default_rng(3).integers(0, 201, (count, 2)).astype(np.int64)


def ledger_of(budgets: list[int]) -> PeopleLedger:
    return PeopleLedger(LedgerKind.ZCDP, np.array(budgets, np.int64), np.zeros(len(budgets), np.int64))


@pytest.mark.parametrize("refuse", [0, 1, 2])
def test_a_round_whose_charge_is_not_taken_draws_nothing(refuse: int) -> None:
    notes, ledger, drawn = Notes(refuse), ledger_of([4 * 10**9] * 30), list[str]()
    keyed = keyed_streams(bytes(32), "noted")

    def streams(draw: Any) -> Any:
        drawn.append(str(draw["round"]))
        return keyed(draw)

    opening = drawing(PLAN, people(), DISC.signed_distance, ledger, streams, notes)
    with pytest.raises(RefusedError):
        count_rounds(PLAN, DISC, ledger.remaining, ledger, opening)
    assert drawn == [str(place + 1) for place in range(refuse)]
    assert notes.told[-1] == ("charged", refuse)
    assert notes.told[:-1] == [each for place in range(refuse) for each in (("charged", place), ("released", place))]


@pytest.mark.parametrize("kind", ["count", "density", "nearest"])
def test_what_was_released_gives_the_same_charges_and_the_same_answer_again(kind: str) -> None:
    budgets = [4 * 10**9] * 20 + [2 * 10**9] * 7 + [5_000, 1, 0]  # classes, somebody with hardly anything, two without
    ledger, notes, allowed = ledger_of(budgets), Notes(), np.full(30, 4 * 10**9, np.int64)
    phi = DISC.signed_distance if kind == "count" else distances_from((10.0, 10.0))

    def ask(opening: Any) -> Any:
        if kind == "count":
            return count_rounds(PLAN, DISC, allowed, ledger, opening)
        if kind == "density":
            return density_rounds(PLAN, (10.0, 10.0), 3.0, allowed, ledger, opening)
        return nearest_rounds(PLAN, (10.0, 10.0), 4, allowed, ledger, opening)

    once = ask(drawing(PLAN, people(), phi, ledger, keyed_streams(bytes(32), kind), notes))
    spent = np.zeros(30, np.int64)
    for who, charges in notes.charges:
        spent[who] += charges
    assert (spent == once.spent).all()
    assert once.excluded >= 2
    rounds = iter(notes.values)

    def kept(_place: int, who: People, _charges: Nanos) -> Places:
        asked, values = next(rounds)
        assert (asked == who).all()
        return values

    again = ask(replaying(ledger, kept))
    assert (again.ended.fate == once.ended.fate).all()
    assert (again.ledger.spent == once.ledger.spent).all()
    assert str(again.reading) == str(once.reading)
    assert np.array_equal(again.width, once.width, equal_nan=True)
