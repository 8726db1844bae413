"""A question's rounds: each charged in one durable write before it is drawn; a crash between them changes nothing."""

from collections.abc import Callable
from typing import TypeAlias

import numpy as np

from app.errors import IntegrityError
from app.locations.answers import answer_document
from app.locations.desk import Due, LocationPanel, Settled, check_somebody
from app.locations.questions import ask_rounds, phi_of, read_question
from app.locations.transcript import ANSWER, LEDGER, TRANSCRIPT, Transcript, committed, committed_ledger, opening
from app.locations.wire import DensityQuestion
from app.log.location_leaves import LocationAnswerLeaf, LocationRound
from tiers.accounting.people import Nanos, People, PeopleLedger
from tiers.adaptive.asking import drawing
from tiers.adaptive.release import keyed_streams
from tiers.adaptive.space import Places
from tiers.canonical import Document

__all__ = ["Charge", "Kept", "run_question", "streams_name"]

Charge: TypeAlias = Callable[[int, Nanos], None]
"""Writes what a round (from 0) charges each person of the panel, and returns once that is durable."""
Kept: TypeAlias = Callable[[int, People, Places], None]
"""Takes what a round released to whom; for an auditor's disclosure."""


def streams_name(panel: str, query: str) -> str:
    """Return what names a question's noise: the same question of the same panel at the same budget, for ever.

    Example:
        >>> streams_name("location_1", "ab")
        'location_1/ab'
    """
    return f"{panel}/{query}"


def run_question(
    panel: LocationPanel,
    due: Due,
    secret: bytes,
    places: Places,
    ledger: PeopleLedger,
    charged: list[Nanos],
    charge: Charge,
    keep: Kept | None = None,
) -> Settled:
    """Ask a question's rounds, or those that a crash left out, and return what they came to.

    Guarantee:  every round's noise is a function of the secret, the question, the round and whom it asks: a round that
                is run again gives the same values. Nothing is drawn before its charge is written, and a round that is
                written is not charged again.
    Args:       ledger: after the questions before. charged: what this one's rounds charged already, in order.
    Raises:     BudgetRefusedError: nobody has enough left. InvalidParameterError: as the question. IntegrityError: a
                round that is run again would charge otherwise than it did. What `charge` raises.
    """
    check_somebody(panel.terms, ledger, due.budget_nano)
    question = read_question(due.question)
    keys = {what: opening(secret, panel.id, due.query, what) for what in (TRANSCRIPT, LEDGER, ANSWER)}
    notes = _Notes(panel.terms.people, charged, charge, Transcript(keys[TRANSCRIPT]), keep)
    streams = keyed_streams(secret, streams_name(panel.id, due.query))
    drawn = drawing(panel.terms.plan, places, phi_of(question), ledger, streams, notes)
    answer = ask_rounds(panel.terms, question, due.budget_nano, ledger, drawn)
    if len(notes.rounds) < len(charged):
        raise IntegrityError("location ledger: expected the rounds that are written, got fewer")
    document: dict[str, Document] = answer_document(
        answer, float(question.bandwidth) if isinstance(question, DensityQuestion) else None
    )
    leaf = LocationAnswerLeaf(
        index=0,
        at="",
        panel=panel.id,
        number=panel.answered + 1,
        query=due.query,
        question=due.question,
        budget_nano=due.budget_nano,
        rounds=notes.rounds,
        transcript=notes.transcript.commitment(),
        ledger=committed_ledger(keys[LEDGER], answer.ledger.spent),
        answer=committed(keys[ANSWER], document),
        most_nano=int(answer.spent.max()),
    )
    return Settled(document, leaf)


class _Notes:
    """Told of each round: writes its charges, or holds them against what is written, and commits to its values."""

    def __init__(
        self, people: int, written: list[Nanos], charge: Charge, transcript: Transcript, keep: Kept | None
    ) -> None:
        self._people, self._written, self._charge, self._keep = people, written, charge, keep
        self.transcript = transcript
        self.rounds: list[LocationRound] = []

    def charged(self, place: int, who: People, charges: Nanos) -> None:
        whole = np.zeros(self._people, np.int64)
        whole[who] = charges
        if place < len(self._written):
            if not np.array_equal(whole, self._written[place]):
                raise IntegrityError("location ledger: expected a round that charges as it is written, got another")
        else:
            self._charge(place, whole)
        self.rounds.append(LocationRound(asked=len(who), most_nano=int(charges.max(initial=0))))

    def released(self, place: int, who: People, values: Places) -> None:
        self.transcript.round(place, who, values)
        if self._keep is not None:
            self._keep(place, who, values)
