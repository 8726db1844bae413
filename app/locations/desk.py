"""The location panels' desk: opens them, charges rounds and settles questions; the only writer of people's ledgers."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
from sqlalchemy import Connection, Row, select

from app.audit.stopping import refuse_stopped
from app.auth.accounts import Caller
from app.catalog.panel_states import refuse_off_sale
from app.errors import BudgetRefusedError, ConflictError, NotFoundError
from app.keyring import Keyring
from app.ledger.budget import nano_text
from app.locations.people import Table, people_of
from app.locations.questions import query_identity, question_text
from app.locations.terms import LAW, Terms, coordinate_of, space_of
from app.locations.transcript import packed, unpacked
from app.locations.wire import AskedQuestion, LocationAxis, NearestQuestion
from app.log.journal import append
from app.log.location_leaves import LocationAnswerLeaf
from app.queries.schema import DatasetSchema
from app.store.location_schema import location_panels, location_queries, location_rounds
from app.store.schema import datasets, snapshots
from tiers.accounting.people import Nanos, PeopleLedger
from tiers.adaptive.asking import askable
from tiers.canonical import Document, canonical_bytes
from tiers.errors import InvalidParameterError

__all__ = [
    "LAW",
    "Due",
    "LocationPanel",
    "Settled",
    "answer_of",
    "answered_context",
    "askable_now",
    "charge_round",
    "charged_rounds",
    "check_somebody",
    "ledger_of",
    "location_of",
    "open_question",
    "query_of",
    "round_context",
    "settle",
    "spent_context",
    "table_of",
]


@dataclass(frozen=True, slots=True)
class LocationPanel:
    """A location panel as stored; `answered` questions are in its people's ledger."""

    id: str
    owner: str
    dataset: str
    snapshot: str
    title: str
    unit: str
    axes: tuple[LocationAxis, ...]
    terms: Terms
    prices: dict[str, int]
    currency: str
    licence: str
    epoch: int
    answered: int
    leaf_index: int
    state: str


@dataclass(frozen=True, slots=True)
class Due:
    """A question that is to be answered: its name, its canonical text, and what each person may spend on it."""

    query: str
    question: str
    budget_nano: int


@dataclass(frozen=True, slots=True)
class Settled:
    """What a question's rounds came to, to be stored and logged."""

    answer: dict[str, Document]
    leaf: LocationAnswerLeaf


def location_of(connection: Connection, panel: str, owner: Caller | None = None) -> LocationPanel:
    """Return a location panel; raises NotFoundError where there is none, or none of this owner's."""
    row = connection.execute(select(location_panels).where(location_panels.c.id == panel)).one_or_none()
    if row is None or (owner is not None and row.owner_id != owner.id):
        raise NotFoundError("location panel: expected an existing id, got another")
    axes = msgspec.json.decode(row.axes_json, type=tuple[LocationAxis, ...])
    ends = [tuple(coordinate_of(name, getattr(axis, name)) for axis in axes) for name in ("low", "high")]
    space = space_of(ends[0], ends[1], coordinate_of("grain", row.grain))
    budget, beta = (row.budget_nano, row.query_nano), coordinate_of("beta", row.beta)
    terms = Terms(space, row.people, *budget, beta, row.rounds)
    prices = msgspec.json.decode(row.prices_json, type=dict[str, int])
    named = (row.id, row.owner_id, row.dataset_id, row.snapshot_id, row.title, row.unit)
    kept = (row.currency, row.licence, row.epoch, row.answered, row.leaf_index, row.state)
    return LocationPanel(*named, axes, terms, prices, *kept)


def table_of(connection: Connection, folder: Path, panel: LocationPanel) -> Table:
    """Return where a panel's people stand."""
    schema = select(datasets.c.schema_json).where(datasets.c.id == panel.dataset)
    declared = msgspec.json.decode(connection.execute(schema).scalar_one(), type=DatasetSchema)
    row = connection.execute(select(snapshots).where(snapshots.c.id == panel.snapshot)).one()
    return people_of(row, folder, declared, tuple(axis.column for axis in panel.axes))


def query_of(connection: Connection, panel: str, query: str) -> "Row[Any] | None":
    """Return a question's row, if its first round was charged; it is answered where it has a leaf."""
    here = (location_queries.c.panel_id == panel) & (location_queries.c.query == query)
    return connection.execute(select(location_queries).where(here)).one_or_none()


def open_question(connection: Connection, panel: str) -> Due | None:
    """Return the question whose rounds are not over, if there is one: a crash, or another process, is amid it."""
    wanted = select(location_queries).where(location_queries.c.panel_id == panel)
    row = connection.execute(wanted.where(location_queries.c.leaf_index.is_(None))).one_or_none()
    return None if row is None else Due(row.query, row.question, row.budget_nano)


def ledger_of(connection: Connection, keyring: Keyring, panel: LocationPanel) -> PeopleLedger:
    """Return everybody's ledger after the answered questions, without the open one's rounds."""
    wanted = select(location_panels.c.sealed_spent).where(location_panels.c.id == panel.id)
    raw = keyring.unseal(connection.execute(wanted).scalar_one(), spent_context(panel.id, panel.answered))
    return panel.terms.ledger(unpacked(raw, panel.terms.people))


def charged_rounds(connection: Connection, keyring: Keyring, panel: LocationPanel, query: str) -> list[Nanos]:
    """Return what each round of a question has charged each person so far."""
    here = (location_rounds.c.panel_id == panel.id) & (location_rounds.c.query == query)
    rows = connection.execute(select(location_rounds).where(here).order_by(location_rounds.c.place)).all()
    if [row.place for row in rows] != list(range(len(rows))):
        raise ConflictError("location ledger: expected rounds one after another, got a gap")
    return [
        unpacked(keyring.unseal(row.sealed_charges, round_context(panel.id, query, row.place)), panel.terms.people)
        for row in rows
    ]


def askable_now(
    connection: Connection, keyring: Keyring, panel: LocationPanel, question: AskedQuestion, budget_nano: int
) -> int:
    """Return how many people can be asked a canonical question now; of one that has an answer, how many were.

    It follows from what was charged, so from what was released and paid for before.

    Raises:     BudgetRefusedError, InvalidParameterError: it asks for the k nearest of no more than k, as its order
                would say.
    """
    query = query_identity(panel.id, question_text(question), budget_nano)
    known = query_of(connection, panel.id, query)
    if known is not None and known.leaf_index is not None:
        return int(str(answer_of(keyring, panel.id, known)["asked"]))
    spent, begun = ledger_of(connection, keyring, panel).spent, open_question(connection, panel.id)
    if begun is not None and begun.query != query:
        spent = sum(charged_rounds(connection, keyring, panel, begun.query), spent)
    terms, ledger = panel.terms, panel.terms.ledger(spent)
    count = len(askable(terms.plan, terms.allowed(budget_nano), ledger))
    if isinstance(question, NearestQuestion) and question.k >= count:
        check_somebody(terms, ledger, budget_nano)
        raise InvalidParameterError("k", f"an integer with 1 ≤ k < n = {count}", question.k)
    return count


def check_somebody(terms: Terms, ledger: PeopleLedger, budget_nano: int) -> None:
    """Pass if somebody can pay for a first round; raises BudgetRefusedError."""
    least, left = terms.plan.least, ledger.remaining
    if not (np.minimum(left, budget_nano) >= least).any():
        raise BudgetRefusedError(
            f"budget: expected somebody with at least ρ {nano_text(least)} left, got nobody",
            requested=nano_text(least),
            remaining=nano_text(int(left.max())),
        )


def charge_round(
    connection: Connection, keyring: Keyring, panel: LocationPanel, due: Due, place: int, charges: Nanos, at: str
) -> None:
    """Write what a round charges, before it is drawn; the first one opens the question.

    The ledger that admitted the charges is that of `panel.answered` questions and of this one's rounds before: where
    another process was faster, nothing is written.

    Raises:     ConflictError: other questions were answered meanwhile, the round is charged, or the panel is off sale.
                ChainFrozenError: an audit stopped the panel.
    """
    refuse_stopped(connection, panel.id)
    row = connection.execute(select(location_panels).where(location_panels.c.id == panel.id)).one()
    refuse_off_sale(row.state)
    known = query_of(connection, panel.id, due.query)
    rounds = charged_rounds(connection, keyring, panel, due.query)
    if row.answered != panel.answered or len(rounds) != place or (known is None) != (place == 0):
        raise ConflictError("location panel: expected the ledger as it was read, got one that has changed (ask again)")
    if known is None:
        if open_question(connection, panel.id) is not None:
            raise ConflictError("location panel: expected no other open question, got one (ask again)")
        connection.execute(
            location_queries.insert().values(
                panel_id=panel.id,
                query=due.query,
                number=panel.answered + 1,
                question=due.question,
                budget_nano=due.budget_nano,
                created_at=at,
            )
        )
    spent = ledger_of(connection, keyring, panel).spent + sum(rounds, np.zeros(panel.terms.people, np.int64))
    panel.terms.ledger(spent + charges)  # nobody above budget, whatever led here
    connection.execute(
        location_rounds.insert().values(
            panel_id=panel.id,
            query=due.query,
            place=place,
            sealed_charges=keyring.seal(packed(charges), round_context(panel.id, due.query, place)),
            created_at=at,
        )
    )


def settle(connection: Connection, keyring: Keyring, panel: LocationPanel, due: Due, settled: Settled, at: str) -> None:
    """Store and log a question's answer, and take its rounds into the ledger; nothing where that is done already.

    Raises:     ConflictError: its rounds are not charged. ChainFrozenError: an audit stopped the panel; the question
                stays open.
    """
    known = query_of(connection, panel.id, due.query)
    if known is None:
        raise ConflictError("location panel: expected a question whose rounds are charged, got another")
    if known.leaf_index is not None:
        return
    refuse_stopped(connection, panel.id)
    rounds = charged_rounds(connection, keyring, panel, due.query)
    after = panel.terms.ledger(ledger_of(connection, keyring, panel).spent + sum(rounds))
    (logged,) = append(
        connection, keyring, at, [lambda index: msgspec.structs.replace(settled.leaf, index=index, at=at)]
    )
    here = (location_queries.c.panel_id == panel.id) & (location_queries.c.query == due.query)
    connection.execute(
        location_queries.update()
        .where(here)
        .values(
            most_nano=settled.leaf.most_nano,
            commitment=settled.leaf.answer,
            sealed_answer=keyring.seal(canonical_bytes(settled.answer), answered_context(panel.id, due.query)),
            leaf_index=logged.index,
        )
    )
    sealed = keyring.seal(packed(after.spent), spent_context(panel.id, known.number))
    values = {"answered": known.number, "sealed_spent": sealed}
    connection.execute(location_panels.update().where(location_panels.c.id == panel.id).values(**values))


def answer_of(keyring: Keyring, panel: str, row: "Row[Any]") -> dict[str, Document]:
    """Return a stored answer; whoever asks has checked the right to it."""
    raw = keyring.unseal(row.sealed_answer, answered_context(panel, row.query))
    found: dict[str, Document] = msgspec.json.decode(raw)
    return found


def spent_context(panel: str, answered: int) -> str:
    """Return what a sealed ledger is bound to: its panel, and after how many questions it is."""
    return f"location/{panel}/spent/{answered}"


def round_context(panel: str, query: str, place: int) -> str:
    """Return what a round's sealed charges are bound to."""
    return f"location/{panel}/{query}/{place}"


def answered_context(panel: str, query: str) -> str:
    """Return what a question's sealed answer is bound to."""
    return f"location/{panel}/{query}/answer"
