"""Location panels end to end: one answer a question, people charged once and before they are asked, whatever happens."""

import threading
from concurrent.futures import ThreadPoolExecutor
from typing import Any
from zlib import crc32

import numpy as np
import pytest
from sqlalchemy import select

from app.auth.accounts import Caller, Role
from app.locations import acts, running
from app.locations.desk import Due, LocationPanel, ledger_of, location_of, open_question, table_of
from app.locations.questions import query_identity
from app.settings import Settings
from app.store.location_schema import location_queries
from app.store.schema import accounts
from tests.app.locating import CENTRE, body, buy, dataset, disclosure, opened, order, points, quoted, table
from tests.conftest import LICENCE, Fair, Person, open_fair, tiers
from tiers.accounting.people import Nanos

NEAREST = {"type": "nearest", "point": ["50", "50"], "k": 3}
DENSITY = {"type": "density", "point": ["50", "50"], "bandwidth": "15"}
SQUARE = {"type": "polygon", "vertices": [["10", "10"], ["90", "10"], ["90", "90"], ["10", "90"]]}


@pytest.fixture(scope="module")
def shop(tmp_path_factory: pytest.TempPathFactory) -> Any:
    opening = open_fair(Settings.at(tmp_path_factory.mktemp("locations") / "market"))
    yield next(opening)
    opening.close()


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
    panel, buyer = opened(shop, name, rows), shop.person()
    told = buy(shop, buyer, panel, budget="4").json()
    inside = int((np.hypot(*(rows - 50).T) < 20).sum())
    answer = told["answer"]
    assert answer["low"] <= inside <= answer["high"]
    assert answer["high"] - answer["low"] < 60
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


def test_prices_are_in_proportion_to_rho_and_what_is_held_costs_nothing(shop: Fair, name: str) -> None:
    panel, buyer = opened(shop, name, spread(name)), shop.person()
    amounts = [quoted(shop, buyer, panel, budget=budget).json()["amount_minor"] for budget in ("4", "1", "0.01")]
    assert amounts == [900, 225, 3]
    assert buy(shop, buyer, panel, budget="4").status_code == 201
    assert quoted(shop, buyer, panel, budget="4").json()["amount_minor"] == 0
    assert quoted(shop, buyer, panel, budget="1").json()["amount_minor"] == 225
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
    panel, buyer = opened(shop, name, spread(name)), shop.person()
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
    assert (row.number, row.most_nano) == (1, paper.most_nano)
    lines, public = disclosure(shop, panel)
    from app.locations.replay import replay_location

    report = replay_location(lines, [public])
    assert report.findings == ()
    if place < 2:
        assert report.charges == sum(each.asked for each in paper.leaf.rounds)
        assert report.most_spent_nano == paper.most_nano == int(stored(shop, panel)[1].max())


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
    assert int(stored(shop, panel)[1].max()) == paper.most_nano


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


# --- ledgers ----------------------------------------------------------------------------------------------------------


def test_ledgers_are_a_slow_model_s_and_budgets_end_in_the_middle_of_a_sequence(shop: Fair, name: str) -> None:
    rows = np.array([[50, 50 + 0.1 * place] for place in range(12)] + [[place, 99] for place in range(12)])
    panel, buyer = opened(shop, name, rows, budget="5", query_budget="3"), shop.person()
    found, _ = stored(shop, panel)
    left, answers, many = [5 * 10**9] * 24, [], 0
    for radius in range(20, 60):
        question = {"type": "disc", "centre": ["50", str(30 + radius)], "radius": str(radius)}
        due = quoted(shop, buyer, panel, question, budget="3").json()
        sold = order(shop, buyer, panel, due["quote"], due["quote"])
        if sold.status_code != 201:
            assert (sold.status_code, sold.json()["type"].rsplit("/", 1)[-1]) == (409, "budget-refused"), sold.text
            break
        answers.append(sold.json()["answer"])
        lines = disclosure(shop, panel)[0]
        charged = shop.market.database.read_now(
            lambda connection, query=due["query"]: acts.charged_rounds(connection, shop.market.keyring, found, query)
        )
        for charges in charged:
            for person in range(24):  # plain integers, one person after another
                assert int(charges[person]) <= left[person]
                left[person] -= int(charges[person])
        assert [5 * 10**9 - spent for spent in stored(shop, panel)[1].tolist()] == left
        many = len(lines)
    assert many > 0
    assert any(answer["left_out"] > 0 for answer in answers), "somebody has nothing left, and the answer says so"
    assert any(0 < answer["left_out"] < 24 for answer in answers)
    assert all(answer["asked"] + answer["left_out"] == 24 for answer in answers)
    assert all(answer["high"] >= answer["low"] + answer["left_out"] for answer in answers), "they may be inside"
    told = shop.client.get(f"/v1/locations/{panel['panel']}/ledger", headers=shop.owner().headers).json()
    assert told["exhausted"] == sum(each < found.terms.plan.least for each in left)
    assert float(told["least_left"]) == min(left) / 1e9


def test_somebody_eliminated_early_has_more_left(shop: Fair, name: str) -> None:
    rows = np.array(
        [[50 + 20.001 * np.cos(each), 50 + 20.001 * np.sin(each)] for each in range(10)]
        + [[0, 0.5 * each] for each in range(10)]
    )
    panel, buyer = opened(shop, name, rows.round(4), grain="0.001"), shop.person()
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
    response = shop.client.post("/v1/locations", json=body(made), headers=shop.owner().headers).json()
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
    assert {"Idempotency-Key", "location"} == {parameter["name"] for parameter in operation["parameters"]}
    panel, buyer = opened(shop, name, spread(name)), shop.person()
    sent = {"quote": quoted(shop, buyer, panel).json()["quote"], "licence": LICENCE}
    path = f"/v1/locations/{panel['panel']}/orders"
    assert shop.client.post(path, json=sent, headers=buyer.headers).status_code == 400
