"""What an export hands out is closed: nothing in it, nor all of it together, leads to a truth or to an unissued tier."""

import itertools
import json
from fractions import Fraction

import pytest

from app.audit.exporting import export_lines
from app.engine.state import chain_of_product
from tests.conftest import Fair
from tiers.audit.records import DrawRecord
from tiers.audit.replay import openable, replayable
from tiers.budget import Ladder
from tiers.chain import Draw, answer_bytes, draw_chain, insert, late_spec, specs
from tiers.chain.planner import plan
from tiers.identity import DrawSpec, Role, TierLaw, commitment, opening_key, stream_key
from tiers.rank import by_accuracy, more_accurate

SECRET = bytes(range(32))
LADDER = ("4", "2", "1", "0.5")


def chain_in(order: tuple[int, ...]) -> list[Draw]:
    """A chain whose tiers were added in this order, by the functions that a market adds them with."""
    whole = plan(Ladder.parse(list(LADDER)), 1)
    first = plan(Ladder.parse([LADDER[order[0]]]), 1)
    (base,) = specs("0" * 64, first, epoch=1, grain=0, length=1)
    drawn = list(draw_chain((100,), [base], lambda spec: stream_key(SECRET, spec)))
    for rank in order[1:]:
        law = whole.tiers[rank].law
        late = late_spec(law, drawn, epoch=1).role is Role.LATE_TOP
        given = {"truth": (100,), "base_key": stream_key(SECRET, base)} if late else {}
        drawn.append(insert(law, drawn, lambda spec: stream_key(SECRET, spec), epoch=1, **given))
    return drawn


def knows(drawn: list[Draw], highest: TierLaw) -> set[str]:
    """All that follows from openings and keys: along each disclosed draw, whoever knows all ends but one knows all."""
    records = [DrawRecord(at, draw.spec, at, (), "", "") for at, draw in enumerate(drawn)]
    known = {draw.spec.law.identity for draw in drawn if openable(draw.spec.law, highest)}
    ends = [
        {record.spec.law.identity, *(parent.identity for parent in record.spec.parents)}
        | ({"truth"} if record.spec.role.reads_truth else set())
        for record in records
        if replayable(record, highest) is None
    ]
    while any(len(each - known) == 1 for each in ends):
        for each in ends:
            if len(each - known) == 1:
                known |= each
    return known


def test_whatever_the_order_of_drawing_nothing_above_the_highest_issued_tier_follows() -> None:
    roles = set()
    for order in itertools.permutations(range(len(LADDER))):
        drawn = chain_in(order)
        roles |= {draw.spec.role.value for draw in drawn}
        laws = by_accuracy([draw.spec.law for draw in drawn])
        for highest in laws:
            known = knows(drawn, highest)
            assert "truth" not in known
            assert known == {law.identity for law in laws if not more_accurate(law, highest)}, order
    assert roles == {"base", "residual", "bridge", "late-top"}


@pytest.mark.parametrize("rule", ["a truth draw's key", "a parent above"])
def test_the_closure_would_see_a_rule_that_is_too_lax(rule: str, monkeypatch: pytest.MonkeyPatch) -> None:
    lax = {
        "a truth draw's key": lambda draw, top: None if openable(draw.spec.law, top) else "above",
        "a parent above": lambda draw, _: "truth" if draw.spec.role.reads_truth else None,
    }[rule]
    monkeypatch.setitem(globals(), "replayable", lax)
    drawn = chain_in((0, 1, 2, 3))
    laws = by_accuracy([draw.spec.law for draw in drawn])
    highest = laws[0] if rule == "a truth draw's key" else laws[1]
    assert knows(drawn, highest) > {law.identity for law in laws if not more_accurate(law, highest)}


def test_a_late_top_leaves_the_first_top_s_key_closed() -> None:
    drawn = chain_in((2, 3, 0))
    late = next(draw for draw in drawn if draw.spec.role.value == "late-top")
    known = [draw for draw in drawn if draw is not late]
    assert late_spec(late.spec.law, known, epoch=1) == late.spec
    assert knows(drawn, late.spec.law) == {draw.spec.law.identity for draw in drawn}
    below = known[0].spec.law
    assert knows(drawn, below) == {draw.spec.law.identity for draw in known}


def test_a_real_export_holds_no_truth_no_unissued_answer_and_no_opening_of_one(fair: Fair) -> None:
    product = fair.product(fair.dataset())
    fair.buy(fair.person(), product, "1")
    market = fair.market

    def read(connection: object) -> tuple[list[bytes], object]:
        state, _ = chain_of_product(connection, market.settings, product["product"])  # type: ignore[arg-type]
        return list(export_lines(connection, market)), state  # type: ignore[arg-type]

    lines, state = market.database.read_now(read)
    records = [json.loads(line) for line in lines]
    top = state.tiers[0]  # type: ignore[attr-defined]
    hidden = market.engine.unseal(state, top, top.sealed, top.commitment)  # type: ignore[arg-type]
    secrets = [record[name] for record in records for name in ("key", "opening") if name in record]
    assert len(secrets) == 5, "three openings, two keys"
    for text in secrets:
        guess = commitment(bytes.fromhex(text), state.id, top.document, answer_bytes(hidden.answer))  # type: ignore[attr-defined]
        assert guess != top.commitment, "even the right answer is not confirmed by what is disclosed"
    secret = market.keyring.owner_secret(state.owner, state.epoch)  # type: ignore[attr-defined]
    text = b"".join(lines).decode()
    assert hidden.opening.hex() == opening_key(secret, state.id, top.document).hex()  # type: ignore[attr-defined]
    assert hidden.opening.hex() not in text
    assert secret.hex() not in text
    closed = [draw for draw in specs_of(state) if draw.role.reads_truth or draw.parents[0] == top.document]
    assert len(closed) == 2
    for spec in closed:
        assert stream_key(secret, spec).hex() not in text
    opened = {record["law"]: record for record in records if record["record"] == "opening"}
    assert top.law not in opened


def specs_of(state: object) -> list[DrawSpec]:
    from app.engine.release import ReleaseEngine

    return list(ReleaseEngine._specs(None, state))  # type: ignore[arg-type]


def test_levels_are_those_of_the_ladder() -> None:
    assert [law.epsilon() for law in by_accuracy([draw.spec.law for draw in chain_in((3, 1, 0, 2))])] == [
        Fraction(text) for text in LADDER
    ]
