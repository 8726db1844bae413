"""“Is this count above X?”: cheap tiers first, each an ordinary order; money, charge, right, crash, race, refusal."""

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise
from typing import Any

import pytest
from sqlalchemy import select

from app.audit.verify import verify_export
from app.clock import later
from app.store.schema import draws, entitlements, orders, threshold_orders
from app.thresholds import asking
from app.thresholds.orders import Question
from app.thresholds.plans import Look, Plan
from tests.app.test_bundles import buy, compose
from tests.app.test_ledgers import ledger_of
from tests.app.test_readings import LADDER, MEAN
from tests.app.test_simulator import killed_at
from tests.conftest import CITIES, HISTOGRAM, LICENCE, PEOPLE, TOTAL, Fair, Person, tiers

PRICES = {"0.1": 500, "0.5": 1200, "1": 3000, "2": 9000}
TRUTH = 60  # people in the table of the tests
SURE = "0.000000000001"
"""A β so small that no tier decides about a number next to the count, whatever the noise of a run."""


@pytest.fixture
def shop(fair: Fair) -> Fair:
    fair.dataset_id = fair.dataset()  # type: ignore[attr-defined]
    fair.heads = fair.product(fair.dataset_id, PEOPLE, title="People")  # type: ignore[attr-defined]
    return fair


def quoted(fair: Fair, who: Person, product: dict[str, Any], above: Any, **asked: Any) -> Any:
    body = {"above": above} | asked
    return fair.client.post(f"/v1/products/{product['product']}/threshold-quotes", json=body, headers=who.headers)


def place(fair: Fair, who: Person, quote: str, key: str = "ask") -> Any:
    body = {"quote": quote} if who.role == "analyst" else {"quote": quote, "licence": LICENCE}
    return fair.client.post("/v1/threshold-orders", json=body, headers=who.headers | {"Idempotency-Key": key})


def ask(fair: Fair, who: Person, product: dict[str, Any], above: int, key: str = "ask", **asked: Any) -> dict[str, Any]:
    offered = quoted(fair, who, product, above, **asked)
    assert offered.status_code == 201, offered.text
    told = place(fair, who, offered.json()["quote"], key)
    assert told.status_code == 201, told.text
    return dict(told.json())


def balance(fair: Fair, who: Person) -> int:
    return int(fair.client.get("/v1/account", headers=who.headers).json()["balance_minor"])


def rows(fair: Fair, table: Any) -> list[Any]:
    return list(fair.market.database.read_now(lambda connection: connection.execute(select(table)).all()))


def epsilons(told: dict[str, Any]) -> list[str]:
    return [step["epsilon"] for step in told["steps"]]


def between(fair: Fair, who: Person, product: dict[str, Any]) -> int:
    """A number that no tier tells from the count: it lies within every tier's width of its value."""
    held = {epsilon: int(fair.buy(who, product, epsilon)["answer"]["values"][0]) for epsilon in PRICES}
    return held["2"] - 1


# --- what it costs ----------------------------------------------------------------------------------------------------


def test_a_quote_says_what_may_be_looked_at_and_the_most_that_is_paid_and_charged(shop: Any) -> None:
    before = shop.stored()
    told = quoted(shop, shop.person(), shop.heads, 40, beta="0.2").json()
    assert [look["epsilon"] for look in told["looks"]] == ["0.1", "0.5", "1", "2"]
    assert [look["amount_minor"] for look in told["looks"]] == [500, 1200, 3000, 9000]
    assert [look["charge"] for look in told["looks"]] == ["0.1", "0.5", "1", "2"]
    assert [look["half_width"] for look in told["looks"]] == ["30", "6", "3", "1"]  # P(|noise| > h) ≤ 0.2/4
    assert (told["most_minor"], told["most_charge"], told["currency"]) == (9000, "2", "EUR")
    assert (told["above"], told["beta"], told["key"], told["licence"]) == (40, "0.2", None, LICENCE)
    after = shop.stored()
    assert {name for name in before if after[name] != before[name]} <= {
        "threshold_quotes",
        "accounts",
        "api_keys",
        "postings",
    }


@pytest.mark.parametrize("above", [0, 40, 59, 60, 62, 10**6])
def test_every_path_costs_what_its_highest_tier_costs_and_charges_its_budget(shop: Any, above: int) -> None:
    buyer = shop.person()
    before = balance(shop, buyer)
    told = ask(shop, buyer, shop.heads, above)
    looked = epsilons(told)
    assert looked == list(PRICES)[: len(looked)] != []
    assert told["paid_minor"] == before - balance(shop, buyer) == PRICES[looked[-1]] <= told["most_minor"]
    assert [step["amount_minor"] for step in told["steps"]] == [
        after - paid for paid, after in pairwise([0, *(PRICES[each] for each in looked)])
    ]
    assert told["charge"] == looked[-1] == shop.ledger(shop.dataset_id)["spent"]
    widths, values = ([int(step[name]) for step in told["steps"]] for name in ("half_width", "value"))
    open_at = [abs(value - above - 0.5) < h + 0.5 for value, h in zip(values, widths, strict=True)]
    assert all(open_at[:-1]), "it went on only where the last tier did not decide"
    assert told["ended"] == ("looked at all" if open_at[-1] else "decided")
    assert told["seems_above"] is (values[-1] > above)
    assert told["answer"] == ("undecided" if open_at[-1] else "above" if values[-1] > above else "not above")
    assert len(looked) == 1 or above < 10**6
    found, key = shop.export()
    assert verify_export(iter(found), key).findings == ()


def test_a_tier_that_is_revealed_is_sold_like_any_other(shop: Any) -> None:
    buyer = shop.person()
    told = ask(shop, buyer, shop.heads, TRUTH)
    for step in told["steps"]:
        assert shop.client.get(f"/v1/orders/{step['order']}", headers=buyer.headers).json() == step["receipt"]
        read = shop.client.get(f"/v1/answers/{told['chain']}/{step['law']}", headers=buyer.headers).json()
        assert read["values"] == [step["value"]]
        invoice = shop.client.get(f"/v1/orders/{step['order']}/invoice", headers=buyer.headers).json()["invoice"]
        assert invoice["total"] == step["amount_minor"] == step["receipt"]["price_minor"]
    assert {row.law for row in rows(shop, entitlements)} == {step["law"] for step in told["steps"]}
    assert shop.client.get(f"/v1/threshold-orders/{told['order']}", headers=buyer.headers).json() == told
    stranger = shop.person()
    assert shop.client.get(f"/v1/threshold-orders/{told['order']}", headers=stranger.headers).status_code == 404


def test_what_is_held_counts_and_what_is_credited_does_not(shop: Any) -> None:
    """Who holds the top tier asks for nothing; an upgrade by hand and one by asking cost the same."""
    holder = shop.person()
    above = between(shop, holder, shop.heads)
    assert ask(shop, holder, shop.heads, above)["paid_minor"] == 0
    half = shop.person()
    shop.buy(half, shop.heads, "0.5")
    offered = quoted(shop, half, shop.heads, above, beta=SURE).json()
    assert [look["amount_minor"] for look in offered["looks"]] == [0, 0, 1800, 7800]
    assert [look["charge"] for look in offered["looks"]] == ["0"] * 4, "the chain is issued to its top"
    told = place(shop, half, offered["quote"]).json()
    assert (len(told["steps"]), told["paid_minor"]) == (4, 7800)
    given = {"amount_minor": 700, "reason": "pricing error"}
    order = told["steps"][2]["order"]
    credited = shop.client.post(f"/v1/orders/{order}/credits", json=given, headers=shop.operator.headers)
    assert credited.status_code == 201, credited.text
    again = ask(shop, half, shop.heads, above, key="again", beta=SURE)
    assert (again["answer"], again["paid_minor"]) == (told["answer"], 0), "what was credited stays sold"


def test_with_a_reserve_a_step_brings_what_its_charge_must(fair: Fair) -> None:
    """A staircase may then cost more than its top alone; it costs what was quoted."""
    dataset = fair.dataset(reserve={"low_minor": 100, "high_minor": 30_000})
    product = fair.product(dataset, PEOPLE)
    buyer = fair.person()
    offered = quoted(fair, buyer, product, TRUTH, beta=SURE).json()
    before = balance(fair, buyer)
    told = place(fair, buyer, offered["quote"]).json()
    assert len(told["steps"]) == 4, "a β so small decides nothing this near"
    assert before - balance(fair, buyer) == told["paid_minor"] == offered["most_minor"]
    assert [step["receipt"]["price_minor"] for step in told["steps"]] == [
        after - paid for paid, after in pairwise([0, *(look["amount_minor"] for look in offered["looks"])])
    ]


def test_a_discount_that_a_bundle_lent_is_given_back_as_quoted(shop: Any) -> None:
    buyer, cities = shop.person(), shop.product(shop.dataset_id, HISTOGRAM)
    bundle = compose(shop, (cities, "1"), (shop.heads, "0.5"), price=3700)
    buy(shop, buyer, bundle)
    before = balance(shop, buyer)
    offered = quoted(shop, buyer, shop.heads, TRUTH, beta=SURE).json()
    assert [look["amount_minor"] for look in offered["looks"]] == [0, 0, 2300, 8300]  # 1800 and the 500 that were lent
    assert place(shop, buyer, offered["quote"]).json()["paid_minor"] == before - balance(shop, buyer) == 8300


@pytest.mark.parametrize(
    ("value", "answer", "seems"),
    [
        (17, "above", True),
        (16, "undecided", True),
        (11, "undecided", True),
        (10, "undecided", False),
        (5, "undecided", False),
        (4, "not above", False),
    ],
)
def test_above_is_more_than(value: int, answer: str, seems: bool) -> None:
    """X = 10 and h = 6: a count of 10 is not above it. Decided where none of value − h … value + h is on the other side."""
    looks = (Look("a" * 64, 1, "1", 6),)
    plan = Plan("prod_1", "c" * 64, 10, "0.05", None, 0, looks, 100, "EUR", LICENCE)
    told = asking._view(Question("order_1", plan, "2026-01-01", ()), [value], None)
    assert (told.answer, told.seems_above) == (answer, seems)
    assert told.ended == ("looked at all" if answer == "undecided" else "decided")


# --- who asks again ---------------------------------------------------------------------------------------------------


def test_a_retry_is_the_same_question_and_another_key_or_quote_is_not(shop: Any) -> None:
    buyer = shop.person()
    quote = quoted(shop, buyer, shop.heads, TRUTH).json()["quote"]
    first = place(shop, buyer, quote).json()
    before = shop.stored()
    assert place(shop, buyer, quote).json() == first
    assert shop.stored() == before
    assert place(shop, buyer, quote, "another").status_code == 404, "a quote is one question's"
    other = quoted(shop, buyer, shop.heads, 3).json()["quote"]
    assert place(shop, buyer, other).status_code == 422
    assert shop.order(buyer, quote, "plain").status_code == 404, "nor is it a tier's"
    plain = shop.quote(buyer, shop.heads, "2")
    assert place(shop, buyer, plain, "plain").status_code == 404


def test_a_second_buyer_with_another_threshold_gets_the_same_tiers(shop: Any) -> None:
    first = ask(shop, shop.person(), shop.heads, TRUTH)
    spent = shop.ledger(shop.dataset_id)["spent"]
    second = ask(shop, shop.person(), shop.heads, 10**6)
    assert (second["answer"], len(second["steps"])) == ("not above", 1)
    assert second["steps"][0]["value"] == first["steps"][0]["value"]
    assert second["paid_minor"] == 500, "a buyer pays for what was revealed to them"
    assert (second["charge"], shop.ledger(shop.dataset_id)["spent"]) == ("0", spent), "the chain is charged once"


def test_a_question_and_its_retry_raced_by_eight_buy_each_tier_once(shop: Any) -> None:
    buyer = shop.person()
    quote = quoted(shop, buyer, shop.heads, TRUTH, beta=SURE).json()["quote"]
    with ThreadPoolExecutor(8) as pool:
        told = list(pool.map(lambda _: place(shop, buyer, quote), range(8)))
    assert {each.status_code for each in told} == {201}
    assert len({each.content for each in told}) == 1
    assert len(rows(shop, orders)) == len(told[0].json()["steps"]) == 4
    assert balance(shop, buyer) == 1_000_000 - 9000
    assert len(rows(shop, threshold_orders)) == 1


def test_two_buyers_who_ask_at_once_see_one_chain(shop: Any) -> None:
    buyers = [shop.person() for _ in range(4)]
    quotes = [
        quoted(shop, buyer, shop.heads, 57 + place_, beta="0.01").json()["quote"] for place_, buyer in enumerate(buyers)
    ]
    with ThreadPoolExecutor(4) as pool:
        told = [each.json() for each in pool.map(lambda pair: place(shop, *pair), zip(buyers, quotes, strict=True))]
    values: dict[str, set[str]] = {}
    for each in told:
        for step in each["steps"]:
            values.setdefault(step["epsilon"], set()).add(step["value"])
    assert all(len(found) == 1 for found in values.values())
    assert shop.ledger(shop.dataset_id)["spent"] == max((each for told_ in told for each in epsilons(told_)), key=float)
    found, key = shop.export()
    assert verify_export(iter(found), key).findings == ()


def test_killed_anywhere_a_question_goes_on_and_pays_once(fair: Fair) -> None:
    product = fair.product(fair.dataset(budget="50"), PEOPLE, tiers=tiers(("1", 3000), ("0.5", 1200)))
    fair.buy(fair.person(), product, "1")
    at, ran = 0, True
    while ran:
        buyer = fair.person(deposit=3000)
        quote = quoted(fair, buyer, product, TRUTH, beta=SURE).json()["quote"]
        with killed_at(fair, at):
            killed = place(fair, buyer, quote)
        ran = killed.status_code != 201
        assert not ran or killed.status_code in (500, 503), at
        told = place(fair, buyer, quote).json()
        assert (len(told["steps"]), told["ended"], told["paid_minor"], balance(fair, buyer)) == (
            2,
            "looked at all",
            3000,
            0,
        )
        at += 3
    assert at > 100
    sold = [row.idempotency_key for row in rows(fair, orders)]
    assert len(sold) == len(set(sold))
    found, key = fair.export()
    assert verify_export(iter(found), key).findings == ()


# --- who is refused ---------------------------------------------------------------------------------------------------


def test_a_question_is_admitted_whole_or_not_at_all(shop: Any) -> None:
    poor, rich = shop.person(deposit=8999), shop.person()
    quote = quoted(shop, poor, shop.heads, 5).json()["quote"]
    before = shop.stored()
    refused = place(shop, poor, quote)
    assert (refused.status_code, refused.json()["price"]) == (402, 9000)
    assert shop.stored() == before
    shop.buy(rich, shop.product(shop.dataset_id, HISTOGRAM), "2")
    shop.buy(rich, shop.product(shop.dataset_id, TOTAL, tiers=tiers(("1.5", 9000), ("1", 50))), "1.5")
    refused = place(shop, rich, quoted(shop, rich, shop.heads, 5).json()["quote"], "big")
    assert (refused.status_code, refused.json()["type"].rsplit("/", 1)[-1]) == (409, "budget-refused")
    assert (refused.json()["requested"], refused.json()["remaining"]) == ("2", "1.5")
    assert [each["epsilon"] for each in refused.json()["fits"]] == ["1", "0.5", "0.1"]
    assert rows(shop, threshold_orders) == []
    told = ask(shop, rich, shop.heads, 10**6, highest="1")
    assert (told["answer"], told["most_minor"]) == ("not above", 3000)


def test_quotas_and_windows_hold_for_the_whole_question(fair: Fair) -> None:
    product = fair.product(fair.dataset(quota="1"), PEOPLE)
    buyer = fair.person()
    refused = place(fair, buyer, quoted(fair, buyer, product, 5).json()["quote"]).json()
    assert (refused["reason"], refused["requested"], refused["remaining"]) == ("quota", "2", "1")
    assert ask(fair, buyer, product, 10**6, highest="1")["charge"] == "0.1"


def halted(
    fair: Any, monkeypatch: pytest.MonkeyPatch, act: Callable[[], Any], *, before: int = 2
) -> tuple[Person, str, dict[str, Any]]:
    """Ask what no tier decides, and do something before the tier in this place is looked at."""
    buyer = fair.person(deposit=9000)
    quote = quoted(fair, buyer, fair.heads, TRUTH, beta=SURE).json()["quote"]
    look = asking._look

    async def first_this(*asked: Any) -> None:
        if asked[3] == before:
            await asyncio.to_thread(act)
        await look(*asked)

    monkeypatch.setattr(asking, "_look", first_this)
    answered = place(fair, buyer, quote)
    monkeypatch.setattr(asking, "_look", look)
    return buyer, quote, {"status": answered.status_code, **answered.json()}


def test_a_budget_that_others_use_up_leaves_what_was_revealed_sold_and_the_question_open(
    shop: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    rich, total = shop.person(), shop.product(shop.dataset_id, TOTAL, tiers=tiers(("2.5", 9000)))
    shop.buy(rich, shop.product(shop.dataset_id, HISTOGRAM), "2")
    buyer, quote, told = halted(shop, monkeypatch, lambda: shop.buy(rich, total, "2.5"))
    assert (told["status"], told["answer"], told["ended"], epsilons(told)) == (201, "undecided", "open", ["0.1", "0.5"])
    assert (told["paid_minor"], told["charge"], balance(shop, buyer)) == (1200, "0.5", 9000 - 1200)
    assert told["seems_above"] is (int(told["steps"][1]["value"]) > TRUTH)
    halt = told["halt"]
    assert (halt["type"], halt["status"], halt["requested"], halt["remaining"]) == ("budget-refused", 409, "0.5", "0")
    before = shop.stored()
    again = place(shop, buyer, quote)
    assert (again.status_code, again.json()["steps"], again.json()["halt"]) == (201, told["steps"], halt)
    assert {name for name, count in shop.stored().items() if count != before[name]} <= {"quotes"}
    shown = shop.client.get(f"/v1/threshold-orders/{told['order']}", headers=buyer.headers).json()
    assert (shown["steps"], shown["ended"], shown["halt"]) == (told["steps"], "open", None)
    found, key = shop.export()
    assert verify_export(iter(found), key).findings == ()


def test_a_question_out_of_money_goes_on_when_there_is_some(shop: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    other = shop.product(shop.dataset_id, HISTOGRAM)
    people: list[Person] = []

    def spend() -> None:
        (asker,) = [row.account_id for row in rows(shop, threshold_orders)]
        spender = next(each for each in people if each.account == asker)
        shop.buy(spender, other, "0.1", "spent")

    made = shop.person
    monkeypatch.setattr(shop, "person", lambda *a, **k: people.append(made(*a, **k)) or people[-1])
    buyer, quote, told = halted(shop, monkeypatch, spend)
    assert (epsilons(told), told["halt"]["type"]) == (["0.1", "0.5", "1"], "insufficient-funds")
    paid = {"amount_minor": 500, "currency": "EUR", "reference": "more"}
    shop.client.post(f"/v1/accounts/{buyer.account}/deposits", json=paid, headers=shop.operator.headers)
    again = place(shop, buyer, quote).json()
    assert (again["steps"][:3], again["ended"], again["halt"]) == (told["steps"], "looked at all", None)
    assert (again["paid_minor"], balance(shop, buyer)) == (9000, 0)


@pytest.mark.parametrize(
    ("prices", "paid", "looked", "halt"),
    [
        ([9500, 3100, 1200, 500], 3100, 3, "quote-expired"),
        ([9000, 9000, 1200, 500], 9000, 4, None),
        ([5000, 2000, 1100, 500], 5000, 4, None),
        ([900, 800, 700, 500], 1200, 4, None),
    ],
)
def test_prices_that_move_are_paid_up_to_what_was_agreed(
    shop: Any, monkeypatch: pytest.MonkeyPatch, prices: list[int], paid: int, looked: int, halt: str | None
) -> None:
    path = f"/v1/products/{shop.heads['product']}/prices"
    book = {"currency": "EUR", "prices_minor": prices}
    _, _, told = halted(shop, monkeypatch, lambda: shop.client.post(path, json=book, headers=shop.owner().headers))
    assert (told["status"], told["paid_minor"], len(told["steps"])) == (201, paid, looked)
    assert (told["halt"] and told["halt"]["type"]) == halt


def test_owners_stop_a_question_as_they_stop_any_sale(shop: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    def state(name: str) -> Any:
        path = f"/v1/products/{shop.heads['product']}/state"
        return shop.client.post(path, json={"state": name}, headers=shop.owner().headers)

    buyer, quote, told = halted(shop, monkeypatch, lambda: state("retired"), before=1)
    assert (told["ended"], len(told["steps"]), told["halt"]["type"]) == ("open", 1, "conflict")
    assert quoted(shop, buyer, shop.heads, 3).status_code == 409
    assert state("live").status_code == 201
    assert place(shop, buyer, quote).json()["ended"] == "looked at all"
    other, late, refused = halted(shop, monkeypatch, lambda: state("retired"), before=0)
    assert (refused["status"], balance(shop, other)) == (409, 9000), "before the first tier a refusal is a refusal"
    assert state("live").status_code == 201
    assert len(place(shop, other, late).json()["steps"]) == 4
    taken = {"reason": "a faulty file", "faulty": True}
    path = f"/v1/products/{shop.heads['product']}/withdrawal"
    assert shop.client.post(path, json=taken, headers=shop.owner().headers).status_code == 201
    assert balance(shop, buyer) == 9000, "of a faulty product every step is credited"


def test_a_quote_that_is_over_or_is_not_what_it_was_is_not_taken(shop: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    buyer = shop.person()
    stale = quoted(shop, buyer, shop.heads, 10**6).json()["quote"]
    path = f"/v1/products/{shop.heads['product']}/prices"
    book = {"currency": "EUR", "prices_minor": [9001, 3000, 1200, 500]}
    assert shop.client.post(path, json=book, headers=shop.owner().headers).status_code == 201
    refused = place(shop, buyer, stale)
    assert (refused.status_code, refused.json()["type"].rsplit("/", 1)[-1]) == (409, "quote-expired")
    book = {"currency": "EUR", "prices_minor": [8000, 3000, 1200, 500]}
    assert shop.client.post(path, json=book, headers=shop.owner().headers).status_code == 201
    over, now = quoted(shop, buyer, shop.heads, 10**6).json()["quote"], shop.market.clock()
    monkeypatch.setattr(shop.market, "clock", lambda: later(now, 901))
    assert place(shop, buyer, over).json()["type"].endswith("/quote-expired")
    monkeypatch.setattr(shop.market, "clock", lambda: now)
    assert place(shop, buyer, stale).json()["paid_minor"] == 500, "cheaper than agreed is no reason to refuse"
    assert len(rows(shop, threshold_orders)) == 1


# --- what may be asked ------------------------------------------------------------------------------------------------


def test_a_bad_question_is_refused(shop: Any) -> None:
    buyer = shop.person()
    path, before = f"/v1/products/{shop.heads['product']}/threshold-quotes", shop.stored()
    betas = ("0", "1", "1.5", "-0.1", "0.0", "0.000", "NaN", "1e-3", "", 0.05, "0.0000000000001")
    for body in (
        {},
        *({"above": above} for above in (-1, 2**50, 10**40, 1.5, True, None, "many")),
        *({"above": 5, "beta": beta} for beta in betas),
        {"above": 5, "key": "Cork"},
        {"above": 5, "highest": "one"},
        {"above": 5, "highest": "-1"},
        {"above": 5, "more": 1},
    ):
        answered = shop.client.post(path, json=body, headers=buyer.headers)
        assert (answered.status_code, answered.headers["content-type"]) == (400, "application/problem+json"), body
    assert shop.stored() == before


def test_nan_and_infinities_are_no_numbers_of_people(shop: Any) -> None:
    path, headers = f"/v1/products/{shop.heads['product']}/threshold-quotes", shop.person().headers
    for text in ("NaN", "Infinity", "-Infinity", "1e400"):
        body = '{"above": ' + text + "}"
        sent = headers | {"Content-Type": "application/json"}
        assert shop.client.post(path, content=body, headers=sent).status_code == 400, text


def test_only_counts_have_thresholds(shop: Any) -> None:
    buyer = shop.person()
    for query, ladder in ((TOTAL, LADDER), (MEAN, LADDER)):
        refused = quoted(shop, buyer, shop.product(shop.dataset_id, query, tiers=ladder), 5)
        assert (refused.status_code, refused.json()["detail"]) == (
            400,
            "product: expected a count, got another measure",
        )
    assert quoted(shop, buyer, {"product": "prod_0123456789abcdef01234567"}, 5).status_code == 404
    missing = quoted(shop, buyer, shop.heads, 5, highest="0.7")
    assert (missing.status_code, missing.json()["highest"]) == (404, "2")


def test_a_group_of_a_histogram_has_one_too(shop: Any) -> None:
    buyer, cities = shop.person(), shop.product(shop.dataset_id, HISTOGRAM, tiers=tiers(("2", 9000), ("1", 3000)))
    assert quoted(shop, buyer, cities, 5).status_code == 400
    assert quoted(shop, buyer, cities, 5, key="Derby").status_code == 400
    quote = quoted(shop, buyer, cities, 10**6, key="Cork").json()
    told = place(shop, buyer, quote["quote"]).json()
    held = shop.client.get(f"/v1/answers/{told['chain']}/{told['steps'][0]['law']}", headers=buyer.headers).json()
    assert (told["answer"], told["key"], len(told["steps"])) == ("not above", "Cork", 1)
    assert told["steps"][0]["value"] == held["values"][held["keys"].index("Cork")], "what is sold is the histogram"
    assert [quoted(shop, buyer, cities, 5, key=city).status_code for city in CITIES] == [201] * 3


def test_a_chain_of_one_tier_is_looked_at_once(fair: Fair) -> None:
    product = fair.product(fair.dataset(), PEOPLE, tiers=tiers(("1", 3000)))
    buyer = fair.person()
    offered = quoted(fair, buyer, product, TRUTH, beta="0.05").json()
    assert [(look["half_width"], look["amount_minor"]) for look in offered["looks"]] == [("3", 3000)]  # all of β
    told = place(fair, buyer, offered["quote"]).json()
    assert (len(told["steps"]), told["paid_minor"], told["ended"] in ("decided", "looked at all")) == (1, 3000, True)
    assert ask(fair, buyer, product, 0, key="again")["answer"] == "above"


def test_an_analyst_asks_up_to_the_ceiling_for_nothing(shop: Any) -> None:
    analyst = shop.person("analyst", ceiling="0.5")
    told = ask(shop, analyst, shop.heads, TRUTH, beta=SURE)
    assert (epsilons(told), told["paid_minor"], told["most_minor"]) == (["0.1", "0.5"], 0, 0)
    assert quoted(shop, analyst, shop.heads, 5, highest="1").status_code == 403
    assert {step["receipt"]["price_minor"] for step in told["steps"]} == {0}
    assert shop.ledger(shop.dataset_id)["spent"] == "0.5", "budget is charged as for anybody"


@pytest.mark.parametrize("kind", ["zcdp", "approx"])
def test_where_increments_are_unsound_the_first_tier_is_charged_the_top(fair: Fair, kind: str) -> None:
    product = fair.product(fair.dataset(**ledger_of(kind, "5")), PEOPLE, tiers=tiers(("0.5", 1200), ("0.1", 500)))
    buyer = fair.person()
    offered = quoted(fair, buyer, product, 10**6).json()
    assert {look["charge"] for look in offered["looks"]} == {offered["most_charge"]}
    told = place(fair, buyer, offered["quote"]).json()
    assert (len(told["steps"]), told["charge"], told["paid_minor"]) == (1, offered["most_charge"], 500)
    found, key = fair.export()
    assert verify_export(iter(found), key).findings == ()


def test_a_tier_that_came_later_is_looked_at_in_its_turn(shop: Any) -> None:
    first = ask(shop, shop.person(), shop.heads, TRUTH, beta=SURE)
    longer = tiers(("3", 12_000), ("2", 9000), ("1", 3000), ("0.5", 1200), ("0.3", 700), ("0.1", 500))
    late = shop.product(shop.dataset_id, PEOPLE, title="People, again", tiers=longer)
    told = ask(shop, shop.person(), late, TRUTH, beta=SURE)
    assert epsilons(told) == ["0.1", "0.3", "0.5", "1", "2", "3"]
    known = {step["law"]: step["value"] for step in first["steps"]}
    assert {step["law"]: step["value"] for step in told["steps"] if step["law"] in known} == known
    assert (told["paid_minor"], told["charge"]) == (12_000, "1")
    found, key = shop.export()
    assert verify_export(iter(found), key).findings == ()


def test_no_answer_of_a_tier_that_was_not_revealed_is_told(shop: Any) -> None:
    told = ask(shop, shop.person(), shop.heads, 10**6)
    assert len(told["steps"]) == 1
    sealed = [row.law for row in rows(shop, draws) if row.law != told["steps"][0]["law"]]
    assert len(sealed) == 3
    buyer = shop.person()
    shop.buy(buyer, shop.heads, "0.1")
    for law in sealed:
        path = f"/v1/answers/{told['chain']}/{law}"
        assert shop.client.get(path, headers=buyer.headers).status_code == 403
