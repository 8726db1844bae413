"""Location panels end to end: one answer a question, people charged once and before they are asked, whatever happens."""

import os
import threading
from concurrent.futures import ThreadPoolExecutor, wait
from fractions import Fraction
from typing import Any
from zlib import crc32

import numpy as np
import pytest
from sqlalchemy import select

from app.auth.accounts import Caller, Role
from app.locations import acts, listing, running
from app.locations.desk import (
    Due,
    LocationPanel,
    charge_round,
    ledger_of,
    location_of,
    open_question,
    spent_context,
    table_of,
)
from app.locations.questions import canonical, query_identity, question_text
from app.locations.transcript import packed
from app.locations.wire import DiscQuestion
from app.settings import Settings
from app.store.location_schema import location_panels, location_queries
from app.store.schema import accounts
from tests.app.locating import CENTRE, body, buy, dataset, disclosure, opened, order, points, quoted, table
from tests.conftest import LICENCE, Fair, Person, open_fair, tiers
from tiers.accounting.people import Nanos

NEAREST = {"type": "nearest", "point": ["50", "50"], "k": 3}
DENSITY = {"type": "density", "point": ["50", "50"], "bandwidth": "15"}
_DISC: Any = {"centre": ("50", "50"), "radius": "20"}
SURE = {"beta": "0.000000000001"}
"""Bars and decisions fail once in 10¹² answers: what the truth is held against them with."""
SQUARE = {"type": "polygon", "vertices": [["10", "10"], ["90", "10"], ["90", "90"], ["10", "90"]]}


@pytest.fixture(scope="module")
def shop(tmp_path_factory: pytest.TempPathFactory) -> Any:
    yield from open_fair(Settings.at(tmp_path_factory.mktemp("locations") / "market"))


@pytest.fixture
def name(request: pytest.FixtureRequest) -> str:
    """A name that no other test gives its dataset."""
    return f"set-{crc32(request.node.name.encode())}"


def spread(name: str, people: int = 40) -> np.ndarray:
    """Other people for each test: the same content may not be registered twice."""
    return points(people, seed=crc32(name.encode()))


def stored(shop: Fair, panel: dict[str, Any]) -> tuple[LocationPanel, Nanos]:
    """The panel as it is, and what each person has spent on its answered questions."""

    def read(connection: Any) -> tuple[LocationPanel, Nanos]:
        found = location_of(connection, panel["panel"])
        return found, ledger_of(connection, shop.market.keyring, found).spent

    return shop.market.database.read_now(read)


def due_of(panel: dict[str, Any], question: str, budget_nano: int = 2 * 10**9) -> Due:
    return Due(query_identity(panel["panel"], question, budget_nano), question, budget_nano)


def expected(shop: Fair, panel: dict[str, Any], due: Due) -> running.Settled:
    """What a question would come to now, on paper: nothing is written."""
    market = shop.market
    found, spent = stored(shop, panel)
    at = market.database.read_now(lambda connection: table_of(connection, market.settings.snapshots, found))
    secret, places = market.keyring.owner_secret(found.owner, found.epoch), acts.places_of(market, found, at)
    return running.run_question(found, due, secret, places, found.terms.ledger(spent), [], lambda *_: None)


def caller_of(shop: Fair, who: Person) -> Caller:
    wanted = select(accounts.c.pseudonym).where(accounts.c.id == who.account)
    pseudonym = shop.market.database.read_now(lambda connection: connection.execute(wanted).scalar_one())
    return Caller(who.account, Role.BUYER, pseudonym, None)


# --- before an answer -------------------------------------------------------------------------------------------------


def could_be_asked(shop: Fair, panel: dict[str, Any]) -> int:
    """How many can be asked a question that may spend everything, by decision 0046's rule, read off the ledger.

    What is left of each is rounded down to a power of 20/21 of the most that is left: who has a round's price, but by
    less than a twentieth, may be left out of one question and asked the next.
    """
    found, spent = stored(shop, panel)
    least = found.terms.plan.least
    left = [found.terms.budget_nano - int(one) for one in spent]
    top, count = max(left), 0
    for one in left:
        power = 0
        while top * 20**power // 21**power > one:
            power += 1
        count += top * 20**power // 21**power >= least
    return count


def test_a_quote_says_how_many_can_be_asked_and_the_answer_that_so_many_were(shop: Fair, name: str) -> None:
    """People who have spent their budget are left out of what a buyer pays in full for: that is told before."""
    panel, buyer = opened(shop, name, spread(name), budget="4", query_budget="4"), shop.person()
    seen = list[int]()
    for radius in range(20, 45):
        question = CENTRE | {"radius": str(radius)}
        told = quoted(shop, buyer, panel, question, "4").json()
        assert (told["people"], told["askable"]) == (40, could_be_asked(shop, panel))
        answered = order(shop, buyer, panel, told["quote"], told["quote"])
        assert answered.json()["answer"]["asked"] == told["askable"] > 0
        again = quoted(shop, shop.person(), panel, question, "4").json()
        assert again["askable"] == told["askable"], "of what is answered, as many as were asked"
        seen.append(told["askable"])
    assert seen[0] == 40 > seen[-1], "some had spent all they had"


def test_an_open_question_is_counted_as_spent_but_not_against_itself(shop: Fair, name: str) -> None:
    panel, buyer = opened(shop, name, spread(name), budget="4", query_budget="4"), shop.person()
    mine, other = (quoted(shop, buyer, panel, CENTRE | {"radius": radius}, "4").json() for radius in ("20", "21"))
    found, _ = stored(shop, panel)
    due = Due(mine["query"], question_text(canonical(found.terms, DiscQuestion(**_DISC))), 4 * 10**9)
    charges = np.full(40, 4 * 10**9, np.int64)

    def charged(connection: Any) -> None:
        charge_round(connection, shop.market.keyring, found, due, 0, charges, "now")

    shop.market.database.submit(charged).result()
    counts = [quoted(shop, buyer, panel, CENTRE | {"radius": radius}, "4").json()["askable"] for radius in ("20", "21")]
    assert (mine["askable"], other["askable"], counts) == (40, 40, [40, 0])


def test_more_nearest_than_can_be_asked_are_refused_at_the_quote_as_at_the_order(shop: Fair, name: str) -> None:
    """Twelve on the edge spend all they have, three far away do not: from then on there are no three nearest."""
    rows = np.array([[50, 50 + 0.1 * place] for place in range(12)] + [[10, 90], [11, 90], [12, 90]])
    panel, buyer = opened(shop, name, rows, budget="4", query_budget="2"), shop.person()
    five, three, two = (NEAREST | {"k": k} for k in (5, 3, 2))
    answered = buy(shop, buyer, panel, five, "0.5").json()["answer"]
    before = quoted(shop, buyer, panel, three).json()
    assert before["askable"] == 15
    for place in range(20):
        edge = {"type": "disc", "centre": ["50", "20"], "radius": f"30.{place:02}"}
        if quoted(shop, buyer, panel, edge).json()["askable"] == 3:
            break
        assert buy(shop, buyer, panel, edge).status_code == 201
    kept = shop.stored()
    late, again = order(shop, buyer, panel, before["quote"]), quoted(shop, buyer, panel, three)
    assert (late.status_code, late.json()["detail"]) == (400, "k: expected an integer with 1 ≤ k < n = 3, got 3")
    assert again.status_code == 400
    assert again.json() | {"instance": 0} == late.json() | {"instance": 0}
    assert shop.stored() == kept, "nothing was charged, and no quote is kept"
    other = shop.person()
    assert buy(shop, other, panel, five, "0.5").json()["answer"] == answered, "what is answered is sold on"
    assert buy(shop, other, panel, two).json()["answer"]["asked"] == 3


def test_where_nobody_can_be_asked_the_nearest_are_refused_at_the_quote_as_at_the_order(shop: Fair, name: str) -> None:
    rows = np.array([[50, 50 + 0.1 * place] for place in range(3)])
    panel, buyer = opened(shop, name, rows, budget="4", query_budget="4"), shop.person()
    one = NEAREST | {"k": 1}
    before = quoted(shop, buyer, panel, one, "4").json()["quote"]
    for place in range(20):
        edge = {"type": "disc", "centre": ["50", "20"], "radius": f"30.{place:02}"}
        if quoted(shop, buyer, panel, edge, "4").json()["askable"] == 0:
            break
        assert buy(shop, buyer, panel, edge, "4").status_code == 201
    late, again = order(shop, buyer, panel, before), quoted(shop, buyer, panel, one, "4")
    assert (late.status_code, late.json()["type"].rsplit("/", 1)[-1]) == (409, "budget-refused")
    assert again.status_code == 409
    assert again.json() | {"instance": 0} == late.json() | {"instance": 0}


# --- one answer -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("question", [CENTRE, SQUARE, NEAREST, DENSITY])
def test_an_answer_is_drawn_once_and_sold_again_at_no_further_charge(shop: Fair, name: str, question: Any) -> None:
    panel, ada, bob = opened(shop, name, spread(name)), shop.person(), shop.person()
    first = buy(shop, ada, panel, question)
    assert first.status_code == 201, first.text
    before, (_, spent) = shop.stored(), stored(shop, panel)
    second = buy(shop, bob, panel, question).json()
    assert second["answer"] == first.json()["answer"]
    assert first.json()["receipt"]["charge_nano"] == int(spent.max()) > 0
    assert second["receipt"]["charge_nano"] == 0
    assert (stored(shop, panel)[1] == spent).all()
    after = shop.stored()
    grown = {table: after[table] - before[table] for table in after if after[table] != before[table]}
    assert (grown["location_orders"], grown["leaves"], grown["invoices"]) == (1, 1, 1)
    assert "location_rounds" not in grown
    assert "location_queries" not in grown


def test_what_a_buyer_gets_is_within_its_bar_and_opens_the_log_s_commitment(shop: Fair, name: str) -> None:
    rows = spread(name, 300)
    panel, buyer = opened(shop, name, rows, **SURE), shop.person()
    told = buy(shop, buyer, panel, budget="4").json()
    inside = int((np.hypot(*(rows - 50).T) < 20).sum())
    answer = told["answer"]
    assert answer["low"] <= inside <= answer["high"]
    assert answer["high"] - answer["low"] < 60, "at most a fifth of them are undecided"
    assert answer["low"] <= answer["estimate"] <= answer["high"]
    nearest = buy(shop, buyer, panel, NEAREST, budget="4").json()["answer"]
    assert len(set(nearest["people"])) == 3
    assert all(1 <= number <= 300 for number in nearest["people"])
    density = buy(shop, buyer, panel, DENSITY, budget="4").json()["answer"]
    true = float(np.exp(-0.5 * ((rows - 50) ** 2).sum(axis=1) / 15**2).mean())
    assert float(density["low"]) <= true <= float(density["high"])
    path = f"/v1/locations/{panel['panel']}/answers/{told['query']}"
    held = shop.client.get(path, headers=buyer.headers)
    assert held.json()["answer"] == answer
    assert shop.client.get(path, headers=shop.person().headers).status_code == 403


def test_the_page_the_leaf_and_the_receipt_say_what_the_promise_comes_to_across_the_space(
    shop: Fair, name: str
) -> None:
    panel, buyer = opened(shop, name, spread(name)), shop.person()
    promise = panel["promise"]
    assert promise["diagonal"] in promise["sentence"]
    assert promise["rho_whole"] in promise["sentence"]
    assert float(promise["rho_whole"]) == pytest.approx(10 * float(promise["diagonal"]) ** 2)
    assert float(promise["diagonal"]) >= 100 * 2**0.5
    assert buy(shop, buyer, panel).json()["receipt"]["diagonal"] == promise["diagonal"]
    leaves, _ = shop.export()
    leaf = next(line for line in leaves if panel["panel"].encode() in line)
    assert promise["diagonal"].encode() in leaf


def test_the_same_region_in_other_words_is_the_same_question(shop: Fair, name: str) -> None:
    panel, buyer = opened(shop, name, spread(name)), shop.person()
    turned = [["90.0", "90"], ["50", "90"], ["10", "90"], ["10", "10"], ["90", "10"]]
    once, again = (quoted(shop, buyer, panel, question).json() for question in (SQUARE, SQUARE | {"vertices": turned}))
    backwards = quoted(shop, buyer, panel, SQUARE | {"vertices": SQUARE["vertices"][::-1]}).json()
    assert once["query"] == again["query"] == backwards["query"]
    assert quoted(shop, buyer, panel, SQUARE, budget="1").json()["query"] != once["query"]


# --- money ------------------------------------------------------------------------------------------------------------


def test_prices_are_in_proportion_to_precision_and_what_is_held_costs_nothing(shop: Fair, name: str) -> None:
    panel, buyer = opened(shop, name, spread(name)), shop.person()
    amounts = [quoted(shop, buyer, panel, budget=budget).json()["amount_minor"] for budget in ("4", "1", "0.01")]
    assert amounts == [900, 226, 3], "rounded up, and a little more than the budget's share"
    assert buy(shop, buyer, panel, budget="4").status_code == 201
    assert quoted(shop, buyer, panel, budget="4").json()["amount_minor"] == 0
    assert quoted(shop, buyer, panel, budget="1").json()["amount_minor"] == 226
    held = shop.client.get("/v1/account", headers=buyer.headers).json()["balance_minor"]
    assert held == 1_000_000 - 900


def test_a_key_makes_a_retry_the_same_order_and_another_request_a_conflict(shop: Fair, name: str) -> None:
    panel, buyer = opened(shop, name, spread(name)), shop.person()
    one, two = (quoted(shop, buyer, panel, budget=budget).json()["quote"] for budget in ("1", "2"))
    first, again = (order(shop, buyer, panel, one, "same").json() for _ in range(2))
    assert {**again, "replayed": False} == first
    assert order(shop, buyer, panel, two, "same").status_code == 422
    assert order(shop, buyer, panel, two, "other", licence=None).status_code == 400


def test_who_cannot_pay_asks_nobody(shop: Fair, name: str) -> None:
    panel, poor = opened(shop, name, spread(name)), shop.person(deposit=0)
    quote = quoted(shop, poor, panel).json()["quote"]
    before = shop.stored()
    assert order(shop, poor, panel, quote).status_code == 402
    assert shop.stored() == before


def test_one_purse_has_people_of_one_panel_asked_and_not_of_all_panels_at_once(shop: Fair, name: str) -> None:
    open_panels = [opened(shop, f"{name}-{place}", spread(f"{name}-{place}")) for place in range(3)]
    buyer = shop.person(deposit=500)
    quotes = [quoted(shop, buyer, panel).json()["quote"] for panel in open_panels]
    gate = threading.Barrier(3)

    def at_once(panel: Any, quote: str) -> int:
        gate.wait()
        return int(order(shop, buyer, panel, quote, quote).status_code)

    with ThreadPoolExecutor(3) as pool:
        found = sorted(pool.map(at_once, open_panels, quotes))
    assert found == [201, 402, 402]
    paths = [f"/v1/locations/{panel['panel']}" for panel in open_panels]
    answered = [shop.client.get(path, headers=buyer.headers).json()["answered"] for path in paths]
    assert sorted(answered) == [0, 0, 1], "those who were not paid for were not asked"


def test_an_invoice_is_numbered_and_a_credit_reverses_what_the_owner_earned(shop: Fair, name: str) -> None:
    panel, buyer = opened(shop, name, spread(name)), shop.person()
    sold = buy(shop, buyer, panel, budget="4").json()["receipt"]["order"]
    paper = shop.client.get(f"/v1/orders/{sold}/invoice", headers=buyer.headers).json()
    assert paper["invoice"]["total"] == 900
    body = {"amount_minor": 400, "reason": "pricing error"}
    credited = shop.client.post(f"/v1/orders/{sold}/credits", json=body, headers=shop.operator.headers)
    assert credited.status_code == 201, credited.text
    assert shop.client.get("/v1/account", headers=buyer.headers).json()["balance_minor"] == 1_000_000 - 500
    assert shop.client.get(f"/v1/orders/{sold}", headers=buyer.headers).json()["order"] == sold


# --- races and crashes ------------------------------------------------------------------------------------------------


def test_two_buyers_of_one_question_at_once_cause_one_draw_and_one_charge(shop: Fair, name: str) -> None:
    panel, buyers = opened(shop, name, spread(name)), [shop.person() for _ in range(4)]
    quotes = [quoted(shop, who, panel).json()["quote"] for who in buyers]
    callers, gate = [caller_of(shop, who) for who in buyers], threading.Barrier(4)

    def act(place: int) -> Any:
        gate.wait()
        return acts.buy(shop.market, callers[place], panel["panel"], quotes[place], "k", LICENCE)

    with ThreadPoolExecutor(4) as pool:
        placed = list(pool.map(act, range(4)))
    assert len({str(each.answer) for each in placed}) == 1
    found, spent = stored(shop, panel)
    assert found.answered == 1
    assert int(spent.max()) <= 2 * 10**9
    written = shop.market.database.read_now(
        lambda connection: len(
            connection.execute(select(location_queries).where(location_queries.c.panel_id == found.id)).all()
        )
    )
    assert written == 1


def test_different_questions_at_once_keep_every_ledger_within_its_budget(shop: Fair, name: str) -> None:
    panel = opened(shop, name, spread(name), budget="5", query_budget="4")
    questions = [CENTRE, SQUARE, NEAREST, DENSITY]
    buyers = [shop.person() for _ in questions]
    pairs = zip(buyers, questions, strict=True)
    quotes = [quoted(shop, who, panel, question, budget="4").json()["quote"] for who, question in pairs]
    callers, gate = [caller_of(shop, who) for who in buyers], threading.Barrier(4)

    def act(place: int) -> Any:
        gate.wait()
        return acts.buy(shop.market, callers[place], panel["panel"], quotes[place], "k", LICENCE)

    with ThreadPoolExecutor(4) as pool:
        placed = list(pool.map(act, range(4)))
    assert len({each.query for each in placed}) == 4
    found, spent = stored(shop, panel)
    assert found.answered == 4
    assert int(spent.max()) <= 5 * 10**9


class CrashError(Exception):
    """The process is gone."""


@pytest.mark.parametrize("place", [0, 1, 2])
@pytest.mark.parametrize("when", ["before the charge", "before the draw", "after the draw"])
def test_a_crash_between_rounds_resumes_with_the_same_noise_and_charges_nothing_twice(
    shop: Fair, name: str, monkeypatch: pytest.MonkeyPatch, place: int, when: str
) -> None:
    rows = np.concatenate([np.full((10, 2), 50.0), spread(name, 30)])  # ten at the point: no round tells three of them
    panel, buyer = opened(shop, name, rows), shop.person()
    quote = quoted(shop, buyer, panel, NEAREST).json()
    due = due_of(panel, '{"k":3,"point":["50","50"],"type":"nearest"}')
    assert due.query == quote["query"]
    paper = expected(shop, panel, due)
    assert len(paper.leaf.rounds) > place, "the crash is amid the rounds"
    whole, drawn = acts.charge_round, running._Notes.released

    def charge(connection: Any, keyring: Any, found: Any, of: Any, at: int, *rest: Any) -> None:
        if when == "before the charge" and at == place:
            raise CrashError
        whole(connection, keyring, found, of, at, *rest)

    def released(notes: Any, at: int, who: Any, values: Any) -> None:
        if when == "after the draw" and at == place:
            raise CrashError
        drawn(notes, at, who, values)

    noted = running._Notes.charged

    def charged(notes: Any, at: int, who: Any, charges: Any) -> None:
        noted(notes, at, who, charges)
        if when == "before the draw" and at == place:
            raise CrashError

    with monkeypatch.context() as patch:
        patch.setattr(acts, "charge_round", charge)
        patch.setattr(running._Notes, "released", released)
        patch.setattr(running._Notes, "charged", charged)
        with pytest.raises(CrashError):
            acts.buy(shop.market, caller_of(shop, buyer), panel["panel"], quote["quote"], "k", LICENCE)
    begun = shop.market.database.read_now(lambda connection: open_question(connection, panel["panel"]))
    assert (begun is None) == (when == "before the charge" and place == 0)
    assert stored(shop, panel)[0].answered == 0
    if place == 2:  # somebody else comes first, with another question: the open one is finished before it
        other = buy(shop, shop.person(), panel, CENTRE)
        assert other.status_code == 201, other.text
    resumed = order(shop, buyer, panel, quote["quote"]).json()
    assert resumed["answer"] == paper.answer
    assert resumed["receipt"]["commitment"] == paper.leaf.answer
    row = shop.market.database.read_now(
        lambda connection: connection.execute(
            select(location_queries).where(location_queries.c.query == due.query)
        ).one()
    )
    assert (row.number, row.most_nano) == (1, paper.leaf.most_nano)
    lines, public = disclosure(shop, panel)
    from app.locations.replay import replay_location

    report = replay_location(lines, [public])
    assert report.findings == ()
    if place < 2:
        assert report.charges == sum(each.asked for each in paper.leaf.rounds)
        assert report.most_spent_nano == paper.leaf.most_nano == int(stored(shop, panel)[1].max())


@pytest.mark.parametrize("step", ["settle", "sell"])
def test_a_crash_after_the_last_round_leaves_an_answer_that_the_next_order_sells(
    shop: Fair, name: str, monkeypatch: pytest.MonkeyPatch, step: str
) -> None:
    panel, buyer = opened(shop, name, spread(name)), shop.person()
    quote = quoted(shop, buyer, panel).json()
    paper = expected(shop, panel, due_of(panel, '{"centre":["50","50"],"radius":"20","type":"disc"}'))

    def crash(*_: Any) -> None:
        raise CrashError

    def after(*given: Any) -> None:
        whole(*given)
        raise CrashError

    whole = acts._answer
    with monkeypatch.context() as patch:
        patch.setattr(acts, *(("settle", crash) if step == "settle" else ("_answer", after)))
        with pytest.raises(CrashError):
            acts.buy(shop.market, caller_of(shop, buyer), panel["panel"], quote["quote"], "k", LICENCE)
    assert shop.client.get("/v1/account", headers=buyer.headers).json()["balance_minor"] == 1_000_000
    sold = order(shop, buyer, panel, quote["quote"]).json()
    assert sold["answer"] == paper.answer
    assert int(stored(shop, panel)[1].max()) == paper.leaf.most_nano


def test_a_round_that_would_charge_otherwise_than_it_is_written_draws_nothing(
    shop: Fair, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    panel, buyer = opened(shop, name, spread(name)), shop.person()
    quote = quoted(shop, buyer, panel).json()["quote"]
    whole = acts.charge_round

    def dearer(connection: Any, keyring: Any, found: Any, of: Any, at: int, charges: Nanos, when: str) -> None:
        whole(connection, keyring, found, of, at, charges + 1, when)
        raise_later.append(at)

    raise_later: list[int] = []

    def crash(*_: Any) -> None:
        raise CrashError

    with monkeypatch.context() as patch:
        patch.setattr(acts, "charge_round", dearer)
        patch.setattr(running._Notes, "released", crash)
        with pytest.raises(CrashError):
            acts.buy(shop.market, caller_of(shop, buyer), panel["panel"], quote, "k", LICENCE)
    drawn: list[int] = []
    monkeypatch.setattr(running._Notes, "released", lambda _, at, *__: drawn.append(at))
    assert order(shop, buyer, panel, quote).status_code == 500
    assert drawn == []


def test_those_who_wait_for_a_panel_s_turn_hold_up_nobody_else(shop: Fair, name: str) -> None:
    """Not those who ask of another panel, nor those who buy what this one has answered."""
    busy, other = opened(shop, name, spread(name)), opened(shop, f"{name}-b", spread(f"{name}-b"))
    buyer = shop.person()
    assert [buy(shop, buyer, panel).status_code for panel in (busy, other)] == [201, 201]
    waiting = min(32, (os.cpu_count() or 1) + 4) + 2  # more than there are threads
    with ThreadPoolExecutor(waiting + 3) as clients:
        with shop.market.turns.held("location", busy["panel"]):
            sent = [
                clients.submit(buy, shop, buyer, busy, CENTRE | {"radius": str(10 + place)}, "0.5")
                for place in range(waiting)
            ]
            assert not wait(sent, timeout=1).done
            bought = [clients.submit(buy, shop, shop.person(), panel) for panel in (busy, other)]
            fresh = clients.submit(buy, shop, shop.person(), other, SQUARE)
            assert len(wait([*bought, fresh], timeout=60).done) == 3
        assert [each.result().status_code for each in (*sent, *bought, fresh)] == [201] * (waiting + 3)


# --- ledgers ----------------------------------------------------------------------------------------------------------


def test_ledgers_are_a_slow_model_s_and_budgets_end_in_the_middle_of_a_sequence(shop: Fair, name: str) -> None:
    rows = np.array([[50, 50 + 0.1 * place] for place in range(12)] + [[10 + 0.1 * place, 90] for place in range(12)])
    panel, buyer = opened(shop, name, rows, budget="5", query_budget="3"), shop.person()
    found, _ = stored(shop, panel)
    left, answers, many, payable = [5 * 10**9] * 24, [], 0, 0
    for place in range(40):  # the edge runs amid one dozen until it has spent all, then amid the other
        question = {"type": "disc", "centre": (["50", "20"], ["10", "60"])[place > 3], "radius": f"30.{place:02}"}
        due = quoted(shop, buyer, panel, question, budget="3").json()
        sold = order(shop, buyer, panel, due["quote"], due["quote"])
        if sold.status_code != 201:
            assert (sold.status_code, sold.json()["type"].rsplit("/", 1)[-1]) == (409, "budget-refused"), sold.text
            assert due["askable"] == 0 < len(answers)
            break
        answers.append(sold.json()["answer"])
        lines = disclosure(shop, panel)[0]
        charged = shop.market.database.read_now(
            lambda connection, query=due["query"]: acts.charged_rounds(connection, shop.market.keyring, found, query)
        )
        payable += sum(min(3 * 10**9, left[person]) for person in range(24) if charged[0][person] > 0)
        for charges in charged:
            for person in range(24):  # plain integers, one person after another
                assert int(charges[person]) <= left[person]
                left[person] -= int(charges[person])
        assert [5 * 10**9 - spent for spent in stored(shop, panel)[1].tolist()] == left
        many = len(lines)
    else:
        pytest.fail("somebody could still be asked")
    assert many > 0
    assert any(answer["left_out"] > 0 for answer in answers), "somebody has nothing left, and the answer says so"
    assert any(0 < answer["left_out"] < 24 for answer in answers)
    assert all(answer["asked"] + answer["left_out"] == 24 for answer in answers)
    assert all(answer["high"] >= answer["low"] + answer["left_out"] for answer in answers), "they may be inside"
    told = shop.client.get(f"/v1/locations/{panel['panel']}/ledger", headers=shop.owner().headers).json()
    assert told["exhausted"] == sum(each < found.terms.plan.least for each in left)
    assert float(told["least_left"]) == min(left) / 1e9
    saved = 1 - Fraction(24 * 5 * 10**9 - sum(left), payable)
    assert payable < len(answers) * 24 * 3 * 10**9
    assert 0 <= saved - Fraction(told["saved_share"]) < Fraction(1, 10**6)


def saved_share(shop: Fair, panel: dict[str, Any]) -> Fraction:
    told = shop.client.get(f"/v1/locations/{panel['panel']}/ledger", headers=shop.owner().headers)
    assert told.status_code == 200, told.text
    return Fraction(told.json()["saved_share"])


def test_what_people_no_longer_have_is_not_saved(shop: Fair, name: str) -> None:
    """Three on the edge pay nearly all they may, until they have nothing left: they saved nothing on the way."""
    panel = opened(shop, name, [[50, 50 + 0.1 * place] for place in range(3)], budget="4", query_budget="4")
    buyer, asked = shop.person(), 0
    assert saved_share(shop, panel) == 0
    for place in range(20):
        edge = {"type": "disc", "centre": ["50", "20"], "radius": f"30.{place:02}"}
        told = quoted(shop, buyer, panel, edge, "4").json()
        if told["askable"] == 0:
            break
        assert order(shop, buyer, panel, told["quote"], told["quote"]).status_code == 201
        asked += 1
    assert asked > 1
    assert 0 <= saved_share(shop, panel) < Fraction(1, 10)


def test_what_is_saved_where_nobody_was_short_is_of_all_that_questions_allowed(
    shop: Fair, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    panel, buyer = opened(shop, name, spread(name), budget="10", query_budget="4"), shop.person()
    for question, budget in ((CENTRE, "4"), (NEAREST, "2"), (DENSITY, "4")):
        assert buy(shop, buyer, panel, question, budget).status_code == 201
    spent = int(stored(shop, panel)[1].sum())
    monkeypatch.setattr(listing, "charged_rounds", None)  # no round is read for it
    saved = 1 - Fraction(spent, 40 * 10 * 10**9)
    assert 0 <= saved - saved_share(shop, panel) < Fraction(1, 10**6)


def test_a_ledger_that_lacks_what_its_rounds_charged_is_no_answer(shop: Fair, name: str) -> None:
    panel, buyer = opened(shop, name, spread(name), budget="4", query_budget="4"), shop.person()
    for question in (CENTRE, DENSITY):
        assert buy(shop, buyer, panel, question, "4").status_code == 201
    found, spent = stored(shop, panel)
    less = np.where(spent == spent.max(), spent, 0)
    assert (less < spent).any()
    sealed = shop.market.keyring.seal(packed(less), spent_context(found.id, 2))
    here = location_panels.c.id == found.id
    shop.market.database.submit(
        lambda connection: connection.execute(location_panels.update().where(here).values(sealed_spent=sealed))
    ).result()
    told = shop.client.get(f"/v1/locations/{panel['panel']}/ledger", headers=shop.owner().headers)
    assert (told.status_code, told.json()["type"].rsplit("/", 1)[-1]) == (500, "integrity")


def test_somebody_eliminated_early_has_more_left(shop: Fair, name: str) -> None:
    rows = np.array(
        [[50 + 20.001 * np.cos(each), 50 + 20.001 * np.sin(each)] for each in range(10)]
        + [[0, 0.5 * each] for each in range(10)]
    )
    panel, buyer = opened(shop, name, rows.round(4), grain="0.001", **SURE), shop.person()
    assert buy(shop, buyer, panel, budget="4").status_code == 201
    spent = np.sort(stored(shop, panel)[1])
    assert spent[9] * 20 < spent[10], "ten are far from the border and were asked once, ten on it and all the way"


# --- what is refused --------------------------------------------------------------------------------------------------


BAD_PANELS: list[tuple[dict[str, Any], int]] = [
    ({"beta": "0"}, 400),
    ({"beta": "1"}, 400),
    ({"beta": "NaN"}, 400),
    ({"budget": "0"}, 400),
    ({"budget": "-1"}, 400),
    ({"query_budget": "0"}, 400),
    ({"query_budget": "11"}, 400),
    ({"query_budget": "0.000000001"}, 400),
    ({"grain": "0"}, 400),
    ({"grain": "0.3"}, 400),
    ({"grain": "0.0000000001"}, 400),
    ({"rounds": 0}, 400),
    ({"prices": {}}, 400),
    ({"currency": "USD"}, 400),
    ({"axes": []}, 400),
    ({"axes": [{"column": "x", "low": "0", "high": "0"}]}, 400),
    ({"axes": [{"column": "x", "low": "1", "high": "0"}]}, 400),
    ({"axes": [{"column": "id", "low": "0", "high": "1"}]}, 400),
    ({"axes": [{"column": "x", "low": "0", "high": "1"}] * 2}, 400),
    ({"axes": [{"column": "z", "low": "0", "high": "1"}]}, 400),
    ({"dataset": "data_0"}, 404),
]


def test_panels_that_cannot_be_kept_are_not_opened(shop: Fair, name: str) -> None:
    made = dataset(shop, name, table(spread(name), name))
    before = shop.stored()
    for fields, status in BAD_PANELS:
        response = shop.client.post("/v1/locations", json=body(made, **fields), headers=shop.owner().headers)
        assert response.status_code == status, (fields, response.text)
        if fields == {"query_budget": "11"}:
            told = "query_budget: expected above 0, at most the budget of 10, got '11'"
            assert response.json()["detail"] == told, "in the ρ that was sent, not in nanos"
    other = shop.person("owner")
    assert shop.client.post("/v1/locations", json=body(made), headers=other.headers).status_code == 404
    assert shop.stored() == before | {"accounts": before["accounts"] + 1, "api_keys": before["api_keys"] + 1}


@pytest.mark.parametrize(
    "text",
    [
        "id,x,y\na,1,nan\nb,2,2\n",
        "id,x,y\na,1,\nb,3,3\n",
        "id,x,y\na,inf,1\nb,4,4\n",
        "id,x,y\na,1,1\na,5,5\n",
    ],
)
def test_people_without_a_place_or_with_two_are_no_panel(shop: Fair, name: str, text: str) -> None:
    made = dataset(shop, name, text.replace("a,", f"{name},"), max_rows_per_unit=2)
    response = shop.client.post("/v1/locations", json=body(made), headers=shop.owner().headers)
    assert response.status_code == 400
    assert "dataset" in response.json()["detail"]


def test_one_person_all_in_one_place_and_people_outside_the_space(shop: Fair, name: str) -> None:
    buyer = shop.person()
    one = opened(shop, name + "-one", [[3.25, 4.5]])
    assert buy(shop, buyer, one).json()["answer"]["asked"] == 1
    assert quoted(shop, buyer, one, NEAREST | {"k": 1}).status_code == 400
    same = opened(shop, name + "-same", [[7.5, 7.5]] * 9)
    assert buy(shop, buyer, same, NEAREST).json()["answer"]["exact"] is False
    made = dataset(shop, name + "-out", table([[-5, 50], [200, 50], [50, 50]], name))
    response = shop.client.post("/v1/locations", json=body(made, **SURE), headers=shop.owner().headers).json()
    assert response["outside"] == 2
    answer = buy(shop, buyer, response["opened"], CENTRE, budget="4").json()["answer"]
    assert answer["low"] == answer["high"] == 1


BAD_QUESTIONS: list[dict[str, Any]] = [
    {"type": "disc", "centre": ["50", "50"], "radius": "0"},
    {"type": "disc", "centre": ["50"], "radius": "1"},
    {"type": "disc", "centre": ["50", "NaN"], "radius": "1"},
    {"type": "disc", "centre": ["50", "1e9"], "radius": "1"},
    {"type": "disc", "centre": ["50", "999999999"], "radius": "1"},
    {"type": "rectangle", "low": ["1", "1"], "high": ["1", "2"]},
    {"type": "polygon", "vertices": [["0", "0"], ["1", "1"], ["2", "2"]]},
    {"type": "polygon", "vertices": [["0", "0"], ["1", "1"], ["1", "1"], ["0", "2"]]},
    {"type": "polygon", "vertices": [["0", "0"], ["2", "2"], ["2", "0"], ["0", "2"]]},
    {"type": "polygon", "vertices": [["0"], ["2"], ["3"]]},
    {"type": "polygon", "vertices": [["0.1", "0.3"], ["0.2", "0.6"], ["0.3", "0.9"]]},
    {"type": "density", "point": ["50", "50"], "bandwidth": "0"},
    {"type": "density", "point": ["50", "50"], "bandwidth": "-1"},
    {"type": "nearest", "point": ["50", "50"], "k": 0},
    {"type": "nearest", "point": ["50", "50"], "k": 40},
    {"type": "sphere"},
]


def test_questions_that_are_none_are_refused_before_anybody_is_asked(shop: Fair, name: str) -> None:
    panel, buyer = opened(shop, name, spread(name), prices={"range": 5, "nearest": 5, "density": 5}), shop.person()
    before = shop.stored()
    for question in BAD_QUESTIONS:
        assert quoted(shop, buyer, panel, question).status_code == 400, question
    for budget in ("0", "-1", "5", "0.000000001", "1e3"):
        assert quoted(shop, buyer, panel, budget=budget).status_code == 400, budget
    assert shop.stored() == before


def test_a_kind_without_a_price_is_not_sold(shop: Fair, name: str) -> None:
    panel, buyer = opened(shop, name, spread(name), prices={"range": 5}), shop.person()
    assert quoted(shop, buyer, panel, NEAREST).status_code == 404
    assert quoted(shop, buyer, panel, DENSITY).status_code == 404


def test_a_dataset_feeds_products_or_one_location_panel_never_both(shop: Fair, name: str) -> None:
    made = dataset(shop, name, table(spread(name), name))
    assert shop.client.post("/v1/locations", json=body(made), headers=shop.owner().headers).status_code == 201
    assert shop.client.post("/v1/locations", json=body(made), headers=shop.owner().headers).status_code == 409
    count = {"measure": {"type": "count", "of": "units"}}
    product = shop.product_body(made, count, tiers=tiers(("1", 5)))
    refused = shop.client.post("/v1/products", json=product, headers=shop.owner().headers)
    assert refused.status_code == 409, refused.text
    sold = dataset(shop, name + "-sold", table(spread(name + "-sold"), "sold"))
    shop.product(sold, count, tiers=tiers(("1", 5)))
    assert shop.client.post("/v1/locations", json=body(sold), headers=shop.owner().headers).status_code == 409


def test_owners_and_strangers_see_what_is_theirs(shop: Fair, name: str) -> None:
    panel, other = opened(shop, name, spread(name)), shop.person("owner")
    path = f"/v1/locations/{panel['panel']}"
    assert shop.client.get(f"{path}/ledger", headers=other.headers).status_code == 404
    assert shop.client.get(path, headers=other.headers).json() == panel
    buyer, stranger = shop.person(), shop.person()
    quote = quoted(shop, buyer, panel).json()["quote"]
    assert order(shop, stranger, panel, quote).status_code == 404
    second = opened(shop, name + "-2", spread(name + "-2"))
    assert order(shop, buyer, second, quote).status_code == 404
    listed = shop.client.get("/v1/locations?count=200", headers=buyer.headers).json()
    assert [each["panel"] for each in listed[-2:]] == [panel["panel"], second["panel"]]


def test_orders_and_entitlements_list_answers_about_places_beside_the_others(shop: Fair, name: str) -> None:
    panel, buyer = opened(shop, name, spread(name)), shop.person()
    sold = [buy(shop, buyer, panel, question).json() for question in (CENTRE, NEAREST, CENTRE)]
    listed = shop.client.get("/v1/orders", headers=buyer.headers).json()
    assert [each["order"] for each in listed] == [each["receipt"]["order"] for each in sold]
    assert {(each["product"], each["epsilon"]) for each in listed} == {(panel["panel"], "2")}
    held = shop.client.get("/v1/entitlements", headers=buyer.headers).json()
    assert [each["chain"] for each in held] == [sold[0]["query"], sold[1]["query"]], "an answer is held once"
    for each, bought in zip(held, sold, strict=False):
        assert shop.client.get(each["answer"], headers=buyer.headers).json()["answer"] == bought["answer"]
    paged = shop.client.get(f"/v1/orders?after={listed[0]['leaf_index']}&count=1", headers=buyer.headers).json()
    assert paged == listed[1:2]


def test_an_order_s_key_stands_in_the_document_and_is_required(shop: Fair, name: str) -> None:
    operation = shop.client.get("/schema/openapi.json").json()["paths"]["/v1/locations/{location}/orders"]["post"]
    assert {"Idempotency-Key", "Prefer", "location"} == {each["name"] for each in operation["parameters"]}
    assert "202" in operation["responses"]
    panel, buyer = opened(shop, name, spread(name)), shop.person()
    sent = {"quote": quoted(shop, buyer, panel).json()["quote"], "licence": LICENCE}
    path = f"/v1/locations/{panel['panel']}/orders"
    assert shop.client.post(path, json=sent, headers=buyer.headers).status_code == 400
