"""Questions of a location panel, one after the other, on a made-up city: what they charge, and what that leaves."""

from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from app.adaptive.data import city
from app.locations.answers import answer_document
from app.locations.questions import ask_rounds, canonical, kind_of, phi_of
from app.locations.terms import Terms
from app.locations.wire import AskedQuestion, DensityQuestion, DiscQuestion, NearestQuestion
from tiers.accounting.people import PeopleLedger
from tiers.adaptive.asking import drawing
from tiers.adaptive.release import keyed_streams
from tiers.adaptive.space import Places
from tiers.budget import nano_up, parse_decimal

__all__ = ["SHARE", "PanelRow", "panel_rows"]

SHARE = 10
"""A question may spend a tenth of a person's budget: the baseline has spent everything after ten."""
_BETA, _ROUNDS = Fraction(1, 20), 10
_EXAMPLE = bytes(32)  # a public key, on made-up people: an illustration, and never the noise of a market


@dataclass(frozen=True, slots=True)
class PanelRow:
    """A question, and people's ledgers after it, in shares of their whole budget.

    Args:       charged: what this question cost a person on average. mean_left, least_left: of all people, and of the
                one who has least. baseline_left: had every question so far charged everybody what it may. asked,
                left_out: how many could be asked, and how many had too little left for a first round.
    """

    question: int
    kind: str
    budget: str
    people: int
    asked: int
    left_out: int
    charged: float
    mean_left: float
    least_left: float
    baseline_left: float


def panel_rows(*, people: int, budget: str, questions: int) -> Iterator[PanelRow]:
    """Yield the questions of a panel in turn: discs of 10 km, densities of 3 km, the ten nearest, each somewhere else.

    They are asked as the market asks: each at the same ρ, of everybody at most what is left of their own ledger.

    Raises:     InvalidParameterError: a budget of which a tenth does not admit a question, too few people.
    """
    found = city(people)
    whole = nano_up(parse_decimal("budget", budget))
    terms = Terms(found.space, people, whole, whole // SHARE, _BETA, _ROUNDS)
    ledger = terms.unspent
    for number in range(1, questions + 1):
        asked = canonical(terms, _question(terms, found.places, number))
        streams = keyed_streams(_EXAMPLE, f"panel/{number}")
        opening = drawing(terms.plan, found.places, phi_of(asked), ledger, streams)
        answer = ask_rounds(terms, asked, terms.query_nano, ledger, opening)
        document = answer_document(answer, float(asked.bandwidth) if isinstance(asked, DensityQuestion) else None)
        before, ledger = ledger, answer.ledger
        left = ledger.remaining / whole
        yield PanelRow(
            question=number,
            kind=kind_of(asked),
            budget=budget,
            people=people,
            asked=int(str(document["asked"])),
            left_out=int(str(document["left_out"])),
            charged=_share(before, ledger, whole),
            mean_left=float(left.mean()),
            least_left=float(left.min()),
            baseline_left=max(0.0, 1 - number * terms.query_nano / whole),
        )


def _share(before: PeopleLedger, after: PeopleLedger, whole: int) -> float:
    return float(np.mean((after.spent - before.spent) / whole))


def _question(terms: Terms, places: Places, number: int) -> AskedQuestion:
    """The kinds in turn, each about somebody's place, moved a little."""
    row = places[(number * 7919) % len(places)]
    point = tuple(f"{float(each):.3f}" for each in terms.space.coordinates(row[None])[0] + 0.5)
    match number % 3:
        case 1:
            return DiscQuestion(centre=point, radius="10")
        case 2:
            return DensityQuestion(point=point, bandwidth="3")
    return NearestQuestion(point=point, k=10)
