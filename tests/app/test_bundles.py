"""Bundles on sale: composed, checked, quoted, sold in one transaction, credited, upgraded, audited."""

from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from sqlalchemy import select

from app.audit.verify import verify_export
from app.store.schema import accruals, entitlements, invoices, loans, orders
from tests.app.test_readings import LADDER, MEAN
from tests.app.test_simulator import check, killed_at
from tests.conftest import HISTOGRAM, LICENCE, PEOPLE, TOTAL, Fair, Person, tiers

BOOK = tiers(("2", 9000), ("1", 3000), ("0.5", 1200))
HEADS = tiers(("1", 2000), ("0.5", 800))


def body(*parts: tuple[dict[str, Any], str], price: int, **fields: Any) -> dict[str, Any]:
    return {
        "title": "Both",
        "parts": [{"product": product["product"], "epsilon": epsilon} for product, epsilon in parts],
        "currency": "EUR",
        "price_minor": price,
    } | fields


def compose(fair: Fair, *parts: tuple[dict[str, Any], str], price: int, **fields: Any) -> dict[str, Any]:
    response = fair.client.post("/v1/bundles", json=body(*parts, price=price, **fields), headers=fair.owner().headers)
    assert response.status_code == 201, response.text
    return dict(response.json())


def refused(fair: Fair, sent: dict[str, Any], status: int, path: str = "/v1/bundles") -> dict[str, Any]:
    before = fair.stored()
    response = fair.client.post(path, json=sent, headers=fair.owner().headers)
    assert response.status_code == status, response.text
    assert fair.stored() == before
    return dict(response.json())


def quoted(fair: Fair, who: Person, bundle: dict[str, Any]) -> dict[str, Any]:
    response = fair.client.post(f"/v1/bundles/{bundle['bundle']}/quotes", headers=who.headers)
    assert response.status_code == 201, response.text
    return dict(response.json())


def buy(fair: Fair, who: Person, bundle: dict[str, Any], key: str = "whole") -> dict[str, Any]:
    response = fair.order(who, quoted(fair, who, bundle)["quote"], key)
    assert response.status_code == 201, response.text
    return dict(response.json())


def lines(sold: dict[str, Any]) -> list[dict[str, Any]]:
    return [sold["receipt"], *(other["receipt"] for other in sold["others"])]


def balance(fair: Fair, who: Person) -> int:
    return int(fair.client.get("/v1/account", headers=who.headers).json()["balance_minor"])


def rows(fair: Fair, table: Any) -> list[Any]:
    return list(fair.market.database.read_now(lambda connection: connection.execute(select(table)).all()))


@pytest.fixture
def shop(fair: Fair) -> Fair:
    fair.dataset_id = fair.dataset()  # type: ignore[attr-defined]
    fair.cities = fair.product(fair.dataset_id, HISTOGRAM, tiers=BOOK)  # type: ignore[attr-defined]
    fair.heads = fair.product(fair.dataset_id, PEOPLE, title="People", tiers=HEADS)  # type: ignore[attr-defined]
    return fair


def both(shop: Any, price: int = 3500, **fields: Any) -> dict[str, Any]:
    return compose(shop, (shop.cities, "1"), (shop.heads, "0.5"), price=price, **fields)


def test_a_bundle_is_listed_with_what_it_holds_and_what_it_saves(shop: Any) -> None:
    bundle = both(shop)
    assert (bundle["alone_minor"], bundle["price_minor"], bundle["saving_minor"]) == (3800, 3500, 300)
    assert [(part["title"], part["epsilon"], part["price_minor"]) for part in bundle["parts"]] == [
        ("Rows by city", "1", 3000),
        ("People", "0.5", 800),
    ]
    assert (bundle["state"], bundle["version"], bundle["on_sale"], bundle["arbitrage"]) == ("live", 1, True, "safe")
    buyer = shop.person()
    assert shop.client.get("/v1/bundles", headers=buyer.headers).json() == [bundle]
    assert shop.client.get(f"/v1/bundles/{bundle['bundle']}", headers=buyer.headers).json() == bundle
    page = shop.client.get("/").text
    for shown in ("Both", "35.00 EUR", "38.00 EUR", "3.00 EUR"):
        assert shown in page


def test_a_bundle_is_one_order_with_a_receipt_a_part_and_one_invoice(shop: Any) -> None:
    bundle, buyer = both(shop), shop.person()
    quote = quoted(shop, buyer, bundle)
    assert (quote["amount_minor"], quote["discount_minor"], quote["version"]) == (3500, 300, 1)
    assert [part["amount_minor"] for part in quote["parts"]] == [2763, 737]  # 300 shared as 3000 : 800
    assert [line["amount_minor"] for line in quote["parts"][0]["lines"]] == [3000, -237]
    before = balance(shop, buyer)
    sold = shop.order(buyer, quote["quote"], "k").json()
    assert before - balance(shop, buyer) == 3500
    assert [line["price_minor"] for line in lines(sold)] == [2763, 737]
    assert [line["charge_nano"] for line in lines(sold)] == [10**9, 5 * 10**8]
    assert shop.ledger(shop.dataset_id)["spent"] == "1.5"
    whole = shop.client.get(f"/v1/bundle-orders/{sold['bundle_order']}", headers=buyer.headers).json()
    assert (whole["amount_minor"], whole["discount_minor"], whole["version"]) == (3500, 300, 1)
    assert whole["receipts"] == lines(sold)
    assert lines(sold)[1]["previous"] is not None
    for order in (sold["bundle_order"], *(line["order"] for line in lines(sold))):
        told = shop.client.get(f"/v1/orders/{order}/invoice", headers=buyer.headers).json()["invoice"]
        assert [line["amount"] for line in told["lines"]] == [2763, 737]
        assert (told["total"], told["number"]) == (3500, "INV-000001")
    assert len(rows(shop, invoices)) == 1
    for part in (sold, *sold["others"]):
        assert shop.answer(buyer, part).json() == part["answer"]
    assert len(rows(shop, entitlements)) == 2
    assert verify_export(iter(shop.export()[0]), shop.export()[1]).findings == ()
    stranger = shop.person()
    gone = shop.client.get(f"/v1/bundle-orders/{sold['bundle_order']}", headers=stranger.headers)
    assert gone.status_code == 404


def test_owners_earn_each_part_by_its_datasets_contract(shop: Any) -> None:
    other = shop.person("owner")
    contract = {"owners": {shop.owner().account: 1, other.account: 3}}
    path = f"/v1/datasets/{shop.dataset_id}/contract"
    assert shop.client.post(path, json=contract, headers=shop.owner().headers).status_code == 201
    sold = buy(shop, shop.person(), both(shop))
    fee = shop.market.settings.fee_bps
    for line in lines(sold):
        pool = (line["price_minor"] - line["price_minor"] * fee // 10_000) * 10**6
        earned = {row.account_id: row.units for row in rows(shop, accruals) if row.reference == line["order"]}
        assert sum(earned.values()) == pool
        assert abs(earned[other.account] - 3 * pool // 4) <= 1


def test_a_retry_is_the_same_order_and_another_request_under_its_key_is_refused(shop: Any) -> None:
    bundle, buyer = both(shop), shop.person()
    quote = quoted(shop, buyer, bundle)["quote"]
    sold = shop.order(buyer, quote, "k").json()
    before = shop.stored()
    again = shop.order(buyer, quote, "k").json()
    assert shop.stored() == before
    assert again["replayed"] is True
    assert lines(again) == lines(sold)
    assert again["bundle_order"] == sold["bundle_order"]
    other = quoted(shop, buyer, bundle)["quote"]
    assert shop.order(buyer, other, "k").status_code == 422
    free = buy(shop, buyer, bundle, "another")
    assert [line["price_minor"] for line in lines(free)] == [0, 0]


def test_a_bundle_killed_before_any_of_its_writes_leaves_nothing_and_sells_the_same_after(shop: Any) -> None:
    bundle, buyer = both(shop), shop.person()
    total = shop.product(shop.dataset_id, TOTAL, title="t", tiers=tiers(("0.1", 10)))
    shop.buy(buyer, total, "0.1")  # the market's own account is open from here on
    quote = quoted(shop, buyer, bundle)["quote"]
    before, place = shop.stored(), 0
    while True:
        with killed_at(shop, place):
            answered = shop.order(buyer, quote, "k")
        if answered.status_code == 201:
            break
        assert answered.status_code in (500, 503), place
        assert shop.stored() == before, place
        place += 1
    assert place > 80
    sold = answered.json()
    assert [line["price_minor"] for line in lines(sold)] == [2763, 737]
    assert [shop.answer(buyer, part).json() for part in (sold, *sold["others"])] == [
        part["answer"] for part in (sold, *sold["others"])
    ]
    assert len(rows(shop, loans)) == 2
    check(shop, shop.dataset_id)


def test_racing_orders_under_one_key_and_under_many_sell_one_answer_each(shop: Any) -> None:
    bundle, buyer = both(shop), shop.person()
    others = [shop.person() for _ in range(3)]
    quote = quoted(shop, buyer, bundle)["quote"]
    jobs = [(buyer, quote, "same")] * 4 + [(each, quoted(shop, each, bundle)["quote"], "own") for each in others]
    with ThreadPoolExecutor(8) as pool:
        sold = [reply.json() for reply in pool.map(lambda job: shop.order(*job), jobs)]
    assert len({each["bundle_order"] for each in sold[:4]}) == 1
    assert len({str([part["answer"] for part in (each, *each["others"])]) for each in sold}) == 1
    assert sum(line["charge_nano"] for each in sold[3:] for line in lines(each)) <= 15 * 10**8
    assert shop.ledger(shop.dataset_id)["spent"] == "1.5"
    assert len(rows(shop, orders)) == 8
    check(shop, shop.dataset_id)


def test_all_charges_are_checked_together_before_anything_is_drawn(fair: Fair) -> None:
    dataset = fair.dataset(budget="1.4")
    cities, heads = fair.product(dataset, HISTOGRAM, tiers=BOOK), fair.product(dataset, PEOPLE, tiers=HEADS)
    bundle, buyer = compose(fair, (cities, "1"), (heads, "0.5"), price=3500), fair.person()
    quote = quoted(fair, buyer, bundle)["quote"]
    asked: list[int] = []
    fair.market._on_query = lambda: asked.append(1)
    before = fair.stored()
    refusal = fair.order(buyer, quote)
    assert (refusal.status_code, refusal.json()["requested"], refusal.json()["remaining"]) == (409, "0.5", "0.4")
    assert fair.stored() == before
    assert asked == [], "no query ran for a sale that was never admitted"
    poor = fair.person(deposit=3499)
    short = fair.order(poor, quoted(fair, poor, bundle)["quote"])
    assert short.status_code == 409, "the budget is asked first"
    assert fair.ledger(dataset)["spent"] == "0"


def test_who_cannot_pay_for_all_of_it_gets_none_of_it(shop: Any) -> None:
    bundle, poor = both(shop), shop.person(deposit=3499)
    quote = quoted(shop, poor, bundle)["quote"]
    before = shop.stored()
    refusal = shop.order(poor, quote)
    assert (refusal.status_code, refusal.json()["price"]) == (402, 3500)
    assert shop.stored() == before


def test_an_upgrade_of_a_part_gives_the_discount_back_once(shop: Any) -> None:
    buyer = shop.person()
    buy(shop, buyer, both(shop))
    offered = shop.client.post(
        "/v1/quotes", json={"product": shop.cities["product"], "epsilon": "2"}, headers=buyer.headers
    ).json()
    assert (offered["amount_minor"], offered["given_back_minor"]) == (6300, 300)
    shop.buy(buyer, shop.cities, "2")
    assert shop.buy(buyer, shop.heads, "1")["receipt"]["price_minor"] == 1200
    assert 1_000_000 - balance(shop, buyer) == 9000 + 2000
    assert sum(row.amount_minor for row in rows(shop, loans)) == 0
    assert shop.buy(buyer, shop.cities, "1", key="low")["receipt"]["price_minor"] == 0


def test_who_holds_a_part_completes_the_bundle_and_who_holds_better_pays_the_rest(shop: Any) -> None:
    bundle, first, second = both(shop), shop.person(), shop.person()
    shop.buy(first, shop.cities, "1")
    assert [line["price_minor"] for line in lines(buy(shop, first, bundle))] == [0, 500]
    assert 1_000_000 - balance(shop, first) == 3500
    shop.buy(second, shop.cities, "2")
    assert [line["price_minor"] for line in lines(buy(shop, second, bundle))] == [0, 800]


def test_credits_are_a_parts_own_and_never_more_than_was_paid_for_it(shop: Any) -> None:
    buyer = shop.person()
    sold = buy(shop, buyer, both(shop))
    whole, part = sold["bundle_order"], lines(sold)[1]["order"]

    def credit(order: str, amount: int, **more: Any) -> Any:
        sent = {"amount_minor": amount, "reason": "pricing error"} | more
        return shop.client.post(f"/v1/orders/{order}/credits", json=sent, headers=shop.operator.headers)

    assert credit(part, 738).status_code == 400
    given = credit(part, 700).json()["credit_notes"]
    assert [(note["line_no"], note["amount"], note["invoice"]) for note in given] == [(2, 700, "INV-000001")]
    assert credit(whole, 38, line_no=2).status_code == 400
    assert credit(whole, 2801).status_code == 400
    spread = credit(whole, 2800).json()["credit_notes"]
    assert [(note["line_no"], note["amount"]) for note in spread] == [(1, 2763), (2, 37)]
    assert balance(shop, buyer) == 1_000_000
    assert sum(row.units for row in rows(shop, accruals)) == 0
    assert shop.buy(buyer, shop.cities, "2")["receipt"]["price_minor"] == 9000
    assert shop.buy(buyer, shop.heads, "1")["receipt"]["price_minor"] == 2000
    check(shop, shop.dataset_id)


def test_a_faulty_part_is_paid_back_by_its_line(shop: Any) -> None:
    buyer = shop.person()
    buy(shop, buyer, both(shop))
    path = f"/v1/products/{shop.heads['product']}/withdrawal"
    sent = {"reason": "wrong", "faulty": True}
    assert shop.client.post(path, json=sent, headers=shop.owner().headers).status_code == 201
    assert 1_000_000 - balance(shop, buyer) == 2763
    (bundle,) = shop.client.get("/v1/bundles", headers=buyer.headers).json()
    assert bundle["on_sale"] is False
    refusal = shop.client.post(f"/v1/bundles/{bundle['bundle']}/quotes", headers=buyer.headers)
    assert refusal.status_code == 409


def test_who_bought_a_part_that_was_faulty_pays_list_price_for_the_rest_and_no_more(shop: Any) -> None:
    """The faulty part's share of the discount is forgiven: only what the other part was lent is given back."""
    upgraded, kept = shop.person(), shop.person()
    bundle = both(shop)
    for buyer in (upgraded, kept):
        buy(shop, buyer, bundle)
    path = f"/v1/products/{shop.heads['product']}/withdrawal"
    sent = {"reason": "wrong", "faulty": True}
    assert shop.client.post(path, json=sent, headers=shop.owner().headers).status_code == 201
    assert sorted(row.amount_minor for row in rows(shop, loans)) == [0, 0, 237, 237]
    assert shop.buy(upgraded, shop.cities, "2")["receipt"]["price_minor"] == 9000 - 2763
    assert 1_000_000 - balance(shop, upgraded) == 9000
    assert 1_000_000 - balance(shop, kept) == 2763
    check(shop, shop.dataset_id)


def test_what_an_upgrade_gave_back_already_is_not_forgiven_again(shop: Any) -> None:
    buyer = shop.person()
    buy(shop, buyer, both(shop))
    assert shop.buy(buyer, shop.cities, "2")["receipt"]["price_minor"] == 6300
    path = f"/v1/products/{shop.heads['product']}/withdrawal"
    sent = {"reason": "wrong", "faulty": True}
    assert shop.client.post(path, json=sent, headers=shop.owner().headers).status_code == 201
    assert sorted(row.amount_minor for row in rows(shop, loans)) == [-300, 63, 237]
    assert 1_000_000 - balance(shop, buyer) == 2763 + 6300
    check(shop, shop.dataset_id)


def test_a_mean_in_a_bundle_is_both_its_parts(shop: Any) -> None:
    mean = shop.product(shop.dataset_id, MEAN, title="Score", tiers=LADDER)
    bundle, buyer = compose(shop, (mean, "1"), (shop.cities, "1"), price=5000), shop.person()
    assert bundle["alone_minor"] == 6000
    quote = quoted(shop, buyer, bundle)
    assert [part["amount_minor"] for part in quote["parts"]] == [1500, 1000, 2500]
    sold = shop.order(buyer, quote["quote"], "k").json()
    assert sold["reading"]["type"] == "mean"
    assert [line["charge_nano"] for line in lines(sold)] == [6 * 10**8, 4 * 10**8, 10**9]
    assert shop.buy(buyer, mean, "2")["receipt"]["price_minor"] + 5000 < 9001 + 3000 + 1000


@pytest.mark.parametrize("place", [1, 2])
def test_a_bundles_quote_is_ordered_whole_so_no_sum_is_sold_without_its_count(shop: Any, place: int) -> None:
    """Two means share a count, and the bundle saves nothing: each line costs by itself what it costs in the whole."""
    narrow = MEAN | {"measure": MEAN["measure"] | {"lower": "-8", "upper": "8"}}
    means = [shop.product(shop.dataset_id, each, title="Mean", tiers=LADDER) for each in (MEAN, narrow)]
    assert means[0]["companion"]["chain"] == means[1]["companion"]["chain"]
    alone = 2 * 3000 - means[0]["companion"]["tiers"][1]["price_minor"]
    bundle = compose(shop, *((mean, "1") for mean in means), price=alone)
    buyer = shop.person()
    parts = quoted(shop, buyer, bundle)["parts"]
    before = shop.stored()
    refusal = shop.order(buyer, parts[place]["quote"])
    assert refusal.status_code == 400, refusal.text
    assert shop.stored() == before
    assert len(lines(shop.order(buyer, parts[0]["quote"]).json())) == 3


def test_an_analyst_orders_a_bundle_for_nothing_up_to_the_ceiling(shop: Any) -> None:
    bundle = both(shop)
    sold = buy(shop, shop.person("analyst", ceiling="1"), bundle)
    assert [line["price_minor"] for line in lines(sold)] == [0, 0]
    low = shop.person("analyst", ceiling="0.5")
    assert shop.client.post(f"/v1/bundles/{bundle['bundle']}/quotes", headers=low.headers).status_code == 403
    assert rows(shop, loans) == []


def test_new_prices_make_quotes_stale_and_are_checked(shop: Any) -> None:
    bundle, buyer = both(shop), shop.person()
    quote = quoted(shop, buyer, bundle)["quote"]
    path = f"/v1/bundles/{bundle['bundle']}/price"
    owner = shop.owner().headers
    found = refused(shop, {"currency": "EUR", "price_minor": 3801}, 409, path)
    assert (found["good"], found["price_minor"], found["cost_minor"]) == ("Both", 3801, 3800)
    found = refused(shop, {"currency": "EUR", "price_minor": 2999}, 409, path)
    assert (found["good"], found["bundle"], found["cost_minor"]) == ("Rows by city @ ε 1", ["Both"], 2999)
    assert refused(shop, {"currency": "USD", "price_minor": 3600}, 400, path)
    changed = shop.client.post(path, json={"currency": "EUR", "price_minor": 3600}, headers=owner).json()
    assert (changed["version"], changed["price_minor"]) == (2, 3600)
    assert shop.order(buyer, quote).status_code == 409
    assert [line["price_minor"] for line in lines(buy(shop, buyer, changed))] == [2842, 758]
    book = {"currency": "EUR", "prices_minor": [9000, 2000, 1200]}
    cut = refused(shop, book, 409, f"/v1/products/{shop.cities['product']}/prices")
    assert cut["good"] == "Both", "a book that would make the bundle dearer than its parts names it"
    raised = refused(
        shop, book | {"prices_minor": [9000, 4000, 1200]}, 409, f"/v1/products/{shop.cities['product']}/prices"
    )
    assert raised["bundle"] == ["Both"]


def test_a_draft_is_its_owners_alone_and_a_retired_one_is_sold_to_nobody(shop: Any) -> None:
    bundle, buyer = both(shop, state="draft"), shop.person()
    path = f"/v1/bundles/{bundle['bundle']}"
    assert shop.client.get(path, headers=buyer.headers).status_code == 404
    assert shop.client.post(f"{path}/quotes", headers=buyer.headers).status_code == 404
    assert shop.client.get(path, headers=shop.owner().headers).json()["state"] == "draft"
    owner = shop.owner().headers
    assert shop.client.post(f"{path}/state", json={"state": "live"}, headers=owner).json()["arbitrage"] == "safe"
    quote = quoted(shop, buyer, bundle)["quote"]
    assert shop.client.post(f"{path}/state", json={"state": "retired"}, headers=owner).status_code == 201
    assert shop.order(buyer, quote).status_code == 409
    assert shop.client.get("/v1/bundles", headers=buyer.headers).json() == []
    stranger = shop.person("owner")
    for what, sent in (("state", {"state": "live"}), ("price", {"currency": "EUR", "price_minor": 3500})):
        assert shop.client.post(f"{path}/{what}", json=sent, headers=stranger.headers).status_code == 404
    assert shop.client.get(f"{path}/verdict", headers=stranger.headers).status_code == 404
    assert shop.client.get(f"{path}/verdict", headers=owner).json()["verdict"] == "safe"


def test_bad_bundles_are_refused_and_leave_nothing(shop: Any) -> None:
    cities, heads = shop.cities, shop.heads
    refused(shop, body((cities, "1"), price=3000), 400)
    refused(shop, body((cities, "1"), (cities, "0.5"), price=3000), 400)
    refused(shop, body((cities, "1"), (heads, "3"), price=3000), 404)
    refused(shop, body((cities, "1"), ({"product": "prod_none"}, "1"), price=3000), 404)
    refused(shop, body((cities, "1"), (heads, "1"), price=3500, currency="USD"), 400)
    twin = shop.product(shop.dataset_id, HISTOGRAM, title="The same", tiers=BOOK)
    refused(shop, body((cities, "1"), (twin, "1"), price=3000), 400)
    refused(shop, body((cities, "1"), (twin, "0.5"), (heads, "1"), price=4000), 400)
    strict = shop.product(shop.dataset_id, TOTAL, title="x", licence="other/1", tiers=tiers(("0.1", 10)))
    refused(shop, body((cities, "1"), (strict, "0.1"), price=3000), 400)
    other = shop.person("owner")
    sent = body((cities, "1"), (heads, "1"), price=3500)
    assert shop.client.post("/v1/bundles", json=sent, headers=other.headers).status_code == 404
    draft = shop.product(shop.dataset_id, TOTAL, title="d", state="draft", tiers=tiers(("0.2", 10)))
    refused(shop, body((cities, "1"), (draft, "0.2"), price=3000), 409)


def test_a_bundle_that_gives_another_good_for_less_is_refused_by_name(fair: Fair) -> None:
    dataset = fair.dataset(unit=None, ordering=[], max_rows_per_unit=1, max_groups_per_unit=1)

    def product(title: str, values: list[str], epsilon: str, price: int) -> dict[str, Any]:
        where = {"type": "in", "column": "city", "values": values}
        question = {"measure": {"type": "count", "of": "rows"}, "where": where}
        return fair.product(dataset, question, title=title, tiers=tiers((epsilon, price)))

    parts = [(product(city, [city], "0.5", 500), "0.5") for city in ("Athens", "Bergen")]
    product("Two cities", ["Athens", "Bergen"], "0.25", 900)
    found = refused(fair, body(*parts, price=800), 409)
    assert (found["good"], found["bundle"], found["cost_minor"]) == ("Two cities @ ε 0.25", ["Both"], 800)
    bundle = compose(fair, *parts, price=950)
    assert bundle["arbitrage"] == "safe"
    path = f"/v1/bundles/{bundle['bundle']}/price"
    assert refused(fair, {"currency": "EUR", "price_minor": 899}, 409, path)["good"] == "Two cities @ ε 0.25"
    dear = {"type": "in", "column": "city", "values": ["Athens", "Bergen", "Cork"]}
    third = product("Cork", ["Cork"], "0.5", 100)
    assert third["state"] == "live"
    body_ = fair.product_body(
        dataset,
        {"measure": {"type": "count", "of": "rows"}, "where": dear},
        title="Three cities",
        tiers=tiers(("0.2", 1060)),
    )
    undercut = refused(fair, body_, 409, "/v1/products")
    assert (undercut["good"], sorted(undercut["bundle"])) == ("Three cities @ ε 0.2", ["Both", "Cork @ ε 0.5"])


def test_an_audit_of_prices_writes_a_bundles_verdict_back(shop: Any) -> None:
    bundle = both(shop)
    job = shop.client.post("/v1/price-audits", headers=shop.owner().headers).json()["job"]
    while (told := shop.client.get(f"/v1/jobs/{job}", headers=shop.owner().headers).json())["state"] != "done":
        assert told["state"] != "failed", told
    assert told["result"]["changed_meanwhile"] == []
    verdict = shop.client.get(f"/v1/bundles/{bundle['bundle']}/verdict", headers=shop.owner().headers).json()
    assert verdict["verdict"] == "safe"


def test_a_reserve_is_counted_along_the_parts(fair: Fair) -> None:
    dataset = fair.dataset(reserve={"low_minor": 2000, "high_minor": 40_000}, budget="3")
    cities, heads = fair.product(dataset, HISTOGRAM, tiers=BOOK), fair.product(dataset, PEOPLE, tiers=HEADS)
    bundle, buyer = compose(fair, (cities, "2"), (heads, "0.5"), price=9500), fair.person()
    quote = quoted(fair, buyer, bundle)
    sold = fair.order(buyer, quote["quote"], "k").json()
    assert [line["price_minor"] for line in lines(sold)] == [part["amount_minor"] for part in quote["parts"]]
    assert lines(sold)[1]["price_minor"] == lines(sold)[1]["reserve_minor"] > 800
    assert verify_export(iter(fair.export()[0]), fair.export()[1]).findings == ()
    whole = fair.client.get(f"/v1/bundle-orders/{sold['bundle_order']}", headers=buyer.headers).json()
    assert whole["discount_minor"] <= 300
    assert lines(sold)[0]["licence"] == LICENCE


def test_a_pace_is_asked_for_all_parts_together(fair: Fair) -> None:
    dataset = fair.dataset(quota="1.4")
    cities, heads = fair.product(dataset, HISTOGRAM, tiers=BOOK), fair.product(dataset, PEOPLE, tiers=HEADS)
    bundle, buyer = compose(fair, (cities, "1"), (heads, "0.5"), price=3500), fair.person()
    quote = quoted(fair, buyer, bundle)["quote"]
    before = fair.stored()
    refusal = fair.order(buyer, quote).json()
    assert (refusal["reason"], refusal["requested"], refusal["remaining"]) == ("quota", "1.5", "1.4")
    assert fair.stored() == before


def test_a_bundle_that_is_not_waited_for_is_drawn_and_placed_by_a_job(shop: Any) -> None:
    bundle, buyer = both(shop), shop.person()
    quote = quoted(shop, buyer, bundle)["quote"]
    sent = {"quote": quote, "licence": LICENCE}
    headers = buyer.headers | {"Idempotency-Key": "k", "Prefer": "respond-async"}
    begun = shop.client.post("/v1/orders", json=sent, headers=headers)
    assert begun.status_code == 202
    while (told := shop.client.get(begun.headers["location"], headers=buyer.headers).json())["state"] != "done":
        assert told["state"] != "failed", told
    again = shop.order(buyer, quote, "k").json()
    assert again["replayed"] is True
    assert again["bundle_order"] == told["result"]["bundle_order"]
    assert len(rows(shop, orders)) == 2


def test_bundles_over_two_datasets_are_charged_to_each_and_linked_in_the_check(shop: Any) -> None:
    table = "person,city,amount,score,day\n" + "".join(f"q{n},Cork,1,1.0,2026-01-01\n" for n in range(9))
    second = shop.dataset(name="second", table=table)
    there = shop.product(second, PEOPLE, title="There", tiers=HEADS)
    bundle, buyer = compose(shop, (shop.cities, "1"), (there, "1"), price=4500), shop.person()
    assert bundle["arbitrage"] == "safe"
    buy(shop, buyer, bundle)
    assert (shop.ledger(shop.dataset_id)["spent"], shop.ledger(second)["spent"]) == ("1", "1")
    book = {"currency": "EUR", "prices_minor": [1400, 800]}
    cut = refused(shop, book, 409, f"/v1/products/{there['product']}/prices")
    assert (cut["good"], cut["cost_minor"]) == ("Both", 4400)
