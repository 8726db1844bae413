"""A log of location panels, as an auditor reads it: of a market that sells nothing else, and with false leaves in it."""

from fractions import Fraction
from typing import Any

import msgspec
import numpy as np
import pytest

from app.audit.locations import LocationAudit
from app.audit.reports import audit_market
from app.audit.verify import verify_export
from app.locations.questions import ask_rounds, canonical, phi_of, query_identity, question_text
from app.locations.terms import LAW, MEASURE, Terms, space_of
from app.locations.wire import DiscQuestion
from app.log.leaves import SnapshotLeaf, decode
from app.log.location_leaves import (
    LocationAnswerLeaf,
    LocationLeaf,
    LocationRound,
    LocationSaleLeaf,
    LocationSpace,
)
from app.store.location_schema import location_rounds
from tests.app.locating import buy, opened, quoted
from tests.conftest import Fair
from tiers.adaptive.asking import drawing
from tiers.adaptive.budgeting import doubling_split
from tiers.adaptive.release import keyed_streams
from tiers.adaptive.rounds import Mode, round_law
from tiers.budget import NANO, decimal_text
from tiers.canonical import canonical_bytes
from tiers.errors import AuditError


def test_a_market_that_sells_places_alone_can_be_audited_and_its_panel_stopped(fair: Fair) -> None:
    with pytest.raises(AuditError, match="at least one"):
        verify_export(*fair.export())
    panel, buyer = opened(fair, "alone"), fair.person()
    assert buy(fair, buyer, panel).status_code == 201
    made = verify_export(*fair.export())
    assert (made.verdict, made.sales, made.chains) == ("verified", 1, 0)
    assert audit_market(fair.market, lambda _: None)["verdict"] == "verified"

    def gone(connection: Any) -> None:
        connection.execute(location_rounds.delete().where(location_rounds.c.panel_id == panel["panel"]))

    fair.market.database.submit(gone).result()
    assert audit_market(fair.market, lambda _: None)["verdict"] == "refuted"
    assert quoted(fair, buyer, panel, None, "1").status_code == 409


def leaves(fair: Fair) -> list[Any]:
    """A panel without prices of distances, and one answer about it that was sold."""
    panel = opened(fair, "logged", prices={"range": 900, "density": 500})
    assert buy(fair, fair.person(), panel).status_code == 201
    kept: list[Any] = []
    for line in fair.export()[0]:
        record = msgspec.json.decode(line)
        if "leaf" in record:
            kept.append(decode(canonical_bytes(record["leaf"])))
    return kept


def found(kept: list[Any]) -> list[str]:
    audit, made = LocationAudit(), list[Any]()
    lineages = {leaf.snapshot: leaf.lineage for leaf in kept if isinstance(leaf, SnapshotLeaf)}
    for leaf in kept:
        match leaf:
            case LocationLeaf():
                made += audit.panel(leaf, lineages)
            case LocationAnswerLeaf():
                made += audit.answer(leaf)
            case LocationSaleLeaf():
                made += audit.sale(leaf)
            case _:
                pass
    return [f"{finding.check} {finding.rule}" for finding in made]


def false(leaf: Any, **fields: Any) -> Any:
    """The leaf with other fields, its question named as it would have been, and of its charge in all what is given."""
    made = msgspec.structs.replace(leaf, **({"most_nano": None} | fields))
    named = query_identity(made.panel, made.question, made.budget_nano)
    return msgspec.structs.replace(made, query=named)


def test_what_an_answer_s_leaf_says_is_held_against_the_panel_s_terms(fair: Fair) -> None:
    kept = leaves(fair)
    *before, answer, _ = kept
    assert found(kept) == []
    (panel,) = (leaf for leaf in before if isinstance(leaf, LocationLeaf))
    least = int(
        Fraction(fair.client.get(f"/v1/locations/{panel.panel}", headers=fair.owner().headers).json()["least_budget"])
        * NANO
    )
    rounds = answer.rounds
    most = int(answer.budget_nano * doubling_split(panel.rounds)[0])
    told = {
        "none": answer,
        "too little": false(answer, budget_nano=least - 1),
        "far too little": false(answer, budget_nano=2),
        "nothing": false(answer, budget_nano=0),
        "too much": false(answer, budget_nano=panel.query_nano + 1),
        "one person too many": false(answer, rounds=[LocationRound(asked=41, most_nano=rounds[0].most_nano)]),
        "nobody": false(answer, rounds=[rounds[0], LocationRound(asked=0, most_nano=1)]),
        "more people": false(answer, rounds=[LocationRound(asked=1, most_nano=1), LocationRound(asked=2, most_nano=1)]),
        "a round too many": false(answer, rounds=[LocationRound(asked=1, most_nano=1)] * (panel.rounds + 1)),
        "all rounds": false(answer, rounds=[LocationRound(asked=1, most_nano=1)] * panel.rounds),
        "free": false(answer, rounds=[LocationRound(asked=1, most_nano=0)]),
        "dear": false(answer, rounds=[LocationRound(asked=1, most_nano=most + 1)]),
        "as dear": false(answer, rounds=[LocationRound(asked=1, most_nano=most)]),
    }
    assert {name: found([*before, leaf]) for name, leaf in told.items()} == {
        "none": [],
        "too little": ["A3 query-budget"],
        "far too little": ["A3 query-budget"],
        "nothing": ["A3 query-budget"],
        "too much": ["A3 query-budget"],
        "one person too many": ["A3 rounds"],
        "nobody": ["A3 rounds"],
        "more people": ["A3 rounds"],
        "a round too many": ["A3 rounds"],
        "all rounds": [],
        "free": ["A3 round-charge"],
        "dear": ["A3 round-charge"],
        "as dear": [],
    }
    at_least = false(answer, budget_nano=least, rounds=[LocationRound(asked=1, most_nano=1)])
    assert found([*before, at_least]) == []


def test_who_may_spend_less_may_be_charged_more_in_a_round_and_that_is_no_lie() -> None:
    """Wide spaces under little noise: a law's price falls by leaps, and the class below may come nearer to its part."""
    query = 262_381_025_947
    space = space_of((Fraction(0),) * 2, (Fraction(100),) * 2, Fraction(1, 100))
    terms = Terms(space, 2, 10 * query, query, Fraction(1, 20), 1)
    top, below = (round_law(each, space, Mode.DISTANCE).cost_nano for each in (query, query * 20 // 21))
    assert below > top, "else there is nothing to see here"
    ledger = terms.ledger(np.array([0, terms.budget_nano - query * 20 // 21]))
    question = canonical(terms, DiscQuestion(centre=("50", "50"), radius="20"))
    text, places = question_text(question), np.array([[5000, 7000], [5000, 7001]])
    streams = keyed_streams(bytes(32), "a question")
    opening = drawing(terms.plan, places, phi_of(question), ledger, streams)
    answer = ask_rounds(terms, question, query, ledger, opening)
    assert answer.spent.tolist() == [top, below]
    at: dict[str, Any] = {"at": "", "panel": "location_1"}
    panel = LocationLeaf(
        index=0,
        lineage="data",
        snapshot="snap",
        people=2,
        unit="km",
        space=LocationSpace(low=["0", "0"], high=["100", "100"], grain="0.01", diagonal=decimal_text(terms.diagonal)),
        promise=MEASURE,
        budget_nano=terms.budget_nano,
        query_nano=query,
        beta="0.05",
        rounds=1,
        law=LAW,
        prices_minor={"range": 900},
        currency="EUR",
        licence="any",
        **at,
    )
    leaf = LocationAnswerLeaf(
        index=1,
        number=1,
        query=query_identity("location_1", text, query),
        question=text,
        budget_nano=query,
        rounds=[LocationRound(asked=2, most_nano=below)],
        transcript="0" * 64,
        ledger="0" * 64,
        answer="0" * 64,
        most_nano=below,
        **at,
    )
    audit = LocationAudit()
    assert audit.panel(panel, {"snap": "data"}) + audit.answer(leaf) == []


def test_the_most_that_somebody_was_charged_lies_between_the_rounds_most_and_their_sum(fair: Fair) -> None:
    *before, answer, _ = leaves(fair)
    one, two = LocationRound(asked=3, most_nano=5), LocationRound(asked=2, most_nano=7)
    least, most = 7, 12
    for said, wrong in (
        (None, []),
        (least - 1, ["A3 question-charge"]),
        (least, []),
        (most, []),
        (most + 1, ["A3 question-charge"]),
    ):
        assert found([*before, false(answer, rounds=[one, two], most_nano=said)]) == wrong
    whole = answer.rounds[0].most_nano
    assert found([*before, false(answer, rounds=answer.rounds[:1], most_nano=whole)]) == []
    assert found([*before, false(answer, rounds=answer.rounds[:1], most_nano=whole + 1)]) == ["A3 question-charge"]
    assert max(each.most_nano for each in answer.rounds) <= answer.most_nano <= answer.budget_nano


def test_once_answers_say_the_most_that_somebody_was_charged_no_later_one_of_the_panel_leaves_it_out(
    fair: Fair,
) -> None:
    """Left out, it would let receipts claim any charge."""
    *before, answer, _ = leaves(fair)

    def asked(number: int, radius: int, **fields: Any) -> Any:
        question = answer.question.replace('"radius":"20"', f'"radius":"{radius}"')
        assert radius == 20 or question != answer.question
        return false(answer, index=answer.index + number, number=number, question=question, **fields)

    most = answer.most_nano
    (panel,) = (leaf for leaf in before if isinstance(leaf, LocationLeaf))
    other = msgspec.structs.replace(panel, panel="location_other", lineage="data_other", snapshot="snap_other")
    elsewhere = asked(1, 20, panel=other.panel)
    made = found([*before, asked(1, 20, most_nano=most), other, elsewhere])
    assert made == ["A4 snapshot-of-location"], "another panel's answers may be from before"
    assert found([*before, asked(1, 20), asked(2, 21), asked(3, 22, most_nano=most)]) == []
    assert found([*before, asked(1, 20, most_nano=most), asked(2, 21, most_nano=most)]) == []
    assert found([*before, asked(1, 20, most_nano=most), asked(2, 21), asked(3, 22)]) == ["A3 question-charge"] * 2


def test_a_sale_is_of_a_kind_that_has_a_price_and_at_most_at_it(fair: Fair) -> None:
    *before, answer, sale = leaves(fair)
    nearest = false(answer, question='{"k":3,"point":["50","50"],"type":"nearest"}', rounds=answer.rounds[:1])
    given = msgspec.structs.replace(sale, query=nearest.query, price_minor=0)
    assert found([*before, nearest, given]) == ["A3 location-price"], "what is not for sale is not given away either"
    for price, wrong in ((0, []), (sale.price_minor, []), (sale.price_minor + 1, ["A3 location-price"])):
        assert found([*before, answer, msgspec.structs.replace(sale, price_minor=price)]) == wrong


def test_a_question_is_answered_once_in_its_turn_and_of_its_own_panel(fair: Fair) -> None:
    *before, answer, sale = leaves(fair)
    assert found([*before, answer, answer]) == ["A4 question-order", "A3 one-answer"]
    assert found([*before, msgspec.structs.replace(answer, number=2)]) == ["A4 question-order"]
    assert found([*before, msgspec.structs.replace(answer, query="0" * 64)]) == ["A1 query-identity"]
    assert found([*before, sale]) == ["A3 answer-of-sale"]
    other = msgspec.structs.replace(sale, panel="location_0")
    assert found([*before, answer, other]) == ["A3 answer-of-sale"]
    twin = [
        msgspec.structs.replace(leaf, panel="location_0", lineage="data_0")
        for leaf in before
        if isinstance(leaf, LocationLeaf)
    ]
    assert found([*before, *twin, answer, other])[-1] == "A3 answer-of-sale", "another panel's answer is not sold"
