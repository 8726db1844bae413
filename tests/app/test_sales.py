"""A sale: price, charge, answer and log, as one act."""

import json
from typing import Any

import pytest
from sqlalchemy import select

from app.log.heads import public_key, verify_document
from app.store.schema import accounts, draws, leaves, orders, postings
from tests.app.test_simulator import MEAN
from tests.conftest import BIG, HISTOGRAM, PEOPLE, TOTAL, Fair, tiers


def test_a_tier_sells_once_and_its_answer_is_the_same_for_every_buyer_for_ever(fair: Fair) -> None:
    product = fair.product(fair.dataset())
    first, second = fair.person(), fair.person()
    sold = fair.buy(first, product, "1")
    again = fair.buy(second, product, "1")
    assert again["answer"] == sold["answer"]
    assert fair.answer(first, sold).content == fair.answer(second, again).content
    assert sold["answer"]["keys"] == ["Athens", "Bergen", "Cork"]


def test_each_chain_is_charged_its_highest_issued_tier_whatever_the_order(fair: Fair) -> None:
    dataset = fair.dataset()
    product = fair.product(dataset)
    charges = [
        fair.buy(fair.person(), product, epsilon)["receipt"]["charge_nano"] for epsilon in ("0.5", "0.1", "2", "1", "2")
    ]
    assert charges == [500_000_000, 0, 1_500_000_000, 0, 0]
    assert fair.ledger(dataset)["spent"] == "2"


def test_upgrades_telescope_to_the_list_price_of_the_last_tier(fair: Fair) -> None:
    product = fair.product(fair.dataset())
    buyer = fair.person()
    paid = [fair.buy(buyer, product, epsilon)["receipt"]["price_minor"] for epsilon in ("0.1", "0.5", "1", "2")]
    assert paid == [500, 700, 1800, 6000]
    assert sum(paid) == 9000


def test_an_owned_or_lower_tier_costs_and_charges_nothing(fair: Fair) -> None:
    product = fair.product(fair.dataset())
    buyer = fair.person()
    fair.buy(buyer, product, "1")
    for key, epsilon in (("a", "1"), ("b", "0.1")):
        receipt = fair.buy(buyer, product, epsilon, key=key)["receipt"]
        assert (receipt["price_minor"], receipt["charge_nano"]) == (0, 0)


def test_money_is_conserved_and_balances_are_the_sum_of_postings(fair: Fair) -> None:
    product = fair.product(fair.dataset())
    for epsilon in ("2", "1", "0.5"):
        fair.buy(fair.person(), product, epsilon)

    def read(connection):  # type: ignore[no-untyped-def]
        return connection.execute(select(accounts)).all(), connection.execute(select(postings)).all()

    people, posted = fair.market.database.read_now(read)
    for person in people:
        assert person.balance_minor == sum(row.amount_minor for row in posted if row.account_id == person.id)
    assert sum(row.amount_minor for row in posted if row.kind != "deposit") == 0


def test_ten_tenths_of_a_budget_of_one_are_all_granted_and_nothing_remains(fair: Fair) -> None:
    dataset = fair.dataset(budget="1")
    buyer = fair.person()
    for month in range(1, 11):
        where = {"type": "comparison", "column": "day", "operator": "=", "value": f"2026-01-{month:02d}"}
        product = fair.product(dataset, PEOPLE | {"where": where}, tiers=tiers(("0.1", 10)))
        fair.buy(buyer, product, "0.1")
    ledger = fair.ledger(dataset)
    assert (ledger["spent"], ledger["remaining"]) == ("1", "0")


def test_a_refused_charge_says_what_fits_and_leaves_the_rest_usable(fair: Fair) -> None:
    dataset = fair.dataset(budget="1")
    product = fair.product(dataset, tiers=tiers(("5", 9000), ("0.1", 100)))
    buyer = fair.person()
    quote = fair.quote(buyer, product, "5")
    before = fair.stored()
    refused = fair.order(buyer, quote)
    problem = refused.json()
    assert refused.status_code == 409
    assert refused.headers["content-type"] == "application/problem+json"
    assert (problem["requested"], problem["remaining"]) == ("5", "1")
    assert [tier["epsilon"] for tier in problem["fits"]] == ["0.1"]
    assert fair.stored() == before
    assert fair.buy(buyer, product, "0.1")["receipt"]["charge_nano"] == 100_000_000


def test_lower_tiers_of_an_open_chain_sell_when_the_budget_is_spent(fair: Fair) -> None:
    dataset = fair.dataset(budget="2")
    product = fair.product(dataset)
    fair.buy(fair.person(), product, "2")
    other = fair.product(dataset, PEOPLE)
    assert [tier["admitted"] for tier in other["tiers"]] == [False] * 4
    assert fair.buy(fair.person(), product, "0.5")["receipt"]["charge_nano"] == 0


def test_insufficient_funds_store_nothing_and_draw_nothing(fair: Fair) -> None:
    product = fair.product(fair.dataset())
    poor = fair.person(deposit=100)
    quote = fair.quote(poor, product, "2")
    before = fair.stored()
    refused = fair.order(poor, quote)
    assert refused.status_code == 402
    assert refused.json()["price"] == 9000
    assert fair.stored() == before


def test_an_analyst_pays_nothing_charges_the_budget_and_stops_at_the_ceiling(fair: Fair) -> None:
    dataset = fair.dataset()
    product = fair.product(dataset)
    analyst = fair.person("analyst", ceiling="1")
    sold = fair.buy(analyst, product, "1")
    assert sold["receipt"]["price_minor"] == 0
    assert sold["receipt"]["charge_nano"] == 1_000_000_000
    assert fair.ledger(dataset)["spent"] == "1"
    above = fair.client.post(
        "/v1/quotes", json={"product": product["product"], "epsilon": "2"}, headers=analyst.headers
    )
    assert above.status_code == 403


def test_an_analyst_cannot_order_above_the_ceiling_with_a_quote_that_was_made_before(fair: Fair) -> None:
    product = fair.product(fair.dataset())
    analyst, buyer = fair.person("analyst", ceiling="2"), fair.person()
    quote = fair.quote(analyst, product, "2")
    lower = accounts.update().where(accounts.c.id == analyst.account).values(ceiling_nano=10**9)
    fair.market.database.submit(lambda connection: connection.execute(lower)).result()
    fair.market.authenticator._known.clear()
    assert fair.order(analyst, quote).status_code == 403
    assert fair.order(buyer, quote).status_code == 404, "a quote belongs to the one who asked for it"


def test_a_quote_by_accuracy_is_the_cheapest_tier_whose_bar_suffices(fair: Fair) -> None:
    product = fair.product(fair.dataset())
    bars = {tier["epsilon"]: int(tier["half_width"]) for tier in product["tiers"]}
    buyer = fair.person()
    for asked, expected in ((bars["0.1"], "0.1"), (bars["0.5"] + 1, "0.5"), (bars["1"], "1"), (bars["2"], "2")):
        body = {"product": product["product"], "within": str(asked)}
        assert fair.client.post("/v1/quotes", json=body, headers=buyer.headers).json()["epsilon"] == expected
    body = {"product": product["product"], "within": str(bars["2"] - 1)}
    assert fair.client.post("/v1/quotes", json=body, headers=buyer.headers).status_code == 404


def test_a_tier_above_the_top_is_a_typed_refusal(fair: Fair) -> None:
    product = fair.product(fair.dataset())
    body = {"product": product["product"], "epsilon": "3"}
    refused = fair.client.post("/v1/quotes", json=body, headers=fair.person().headers)
    assert refused.status_code == 404
    assert refused.json()["highest"] == "2"


def test_the_receipt_is_signed_and_names_its_leaf(fair: Fair) -> None:
    product = fair.product(fair.dataset())
    sold = fair.buy(fair.person(), product, "1")
    receipt = dict(sold["receipt"])
    signature = receipt.pop("signature")
    public = public_key(fair.client.get("/v1/keys").json()["signing"]["1"])
    assert verify_document("receipt", receipt, signature, public)
    assert not verify_document("receipt", receipt | {"price_minor": 1}, signature, public)
    assert not verify_document("head", receipt, signature, public)
    row = fair.market.database.read_now(
        lambda connection: connection.execute(select(leaves).where(leaves.c.log_index == receipt["leaf_index"])).one()
    )
    assert row.leaf_hash.hex() == receipt["leaf_hash"]
    assert json.loads(row.body)["order"] == receipt["order"]


def test_no_buyer_is_named_in_the_log(fair: Fair) -> None:
    product = fair.product(fair.dataset())
    buyer = fair.person()
    fair.buy(buyer, product, "1")
    lines, _ = fair.export()
    log = b"\n".join(line for line in lines if b'"record":"leaf"' in line)
    assert buyer.account.encode() not in log
    assert b"a buyer" not in log


def test_an_exact_sum_of_huge_numbers_is_sold_without_wrapping(fair: Fair) -> None:
    product = fair.product(fair.dataset(), TOTAL, tiers=tiers(("2", 9000)))
    (value,) = fair.buy(fair.person(), product, "2")["answer"]["values"]
    bar = int(product["tiers"][0]["half_width"])
    assert 60 * BIG / 2 < int(value) < 60 * 6 * 2 * BIG
    assert bar > BIG


def test_a_true_answer_of_zero_is_an_answer(fair: Fair) -> None:
    empty = "person,city,amount,score,day\n"
    product = fair.product(fair.dataset(table=empty))
    sold = fair.buy(fair.person(), product, "2")
    assert len(sold["answer"]["values"]) == 3
    assert fair.answer(fair.person(), sold).status_code == 403


def test_a_second_product_on_a_published_question_shares_its_chain(fair: Fair) -> None:
    dataset = fair.dataset()
    first = fair.product(dataset)
    same = HISTOGRAM | {"group_by": {"type": "keys", "column": "city", "keys": ["Cork", "Athens", "Bergen"]}}
    second = fair.product(dataset, same, tiers=tiers(("1", 3000), ("0.1", 500)))
    assert second["chain"] == first["chain"]
    assert second["keys"] == ["Cork", "Athens", "Bergen"]
    sold = fair.buy(fair.person(), first, "1")
    again = fair.buy(fair.person(), second, "1")
    assert again["answer"]["values"] == sold["answer"]["values"]
    assert again["receipt"]["charge_nano"] == 0
    buyer = fair.person()
    body = {"product": second["product"], "epsilon": "2"}
    assert fair.client.post("/v1/quotes", json=body, headers=buyer.headers).status_code == 404


def test_another_price_for_the_same_tier_of_a_published_question_is_a_typed_refusal(fair: Fair) -> None:
    dataset = fair.dataset()
    fair.product(dataset)
    before = fair.stored()
    body = fair.product_body(dataset, tiers=tiers(("4", 9500), ("1", 2999)))
    refused = fair.client.post("/v1/products", json=body, headers=fair.owner().headers)
    assert (refused.status_code, refused.json()["type"].rsplit("/")[-1]) == (409, "conflict")
    assert fair.stored() == before


def test_a_refusal_names_only_tiers_that_the_caller_could_buy(fair: Fair) -> None:
    dataset = fair.dataset(budget="1")
    fair.product(dataset, tiers=tiers(("5", 900), ("0.5", 300), ("0.1", 100)))
    narrow = fair.product(dataset, tiers=tiers(("5", 900), ("0.1", 100)))
    buyer = fair.person()
    refused = fair.order(buyer, fair.quote(buyer, narrow, "5")).json()
    assert [tier["epsilon"] for tier in refused["fits"]] == ["0.1"]


def test_currencies_that_do_not_meet_are_refused_before_a_quote(fair: Fair) -> None:
    dataset = fair.dataset()
    body = fair.product_body(dataset, currency="USD")
    assert fair.client.post("/v1/products", json=body, headers=fair.owner().headers).status_code == 400
    product = fair.product(dataset)
    made = {"role": "buyer", "name": "yen", "currency": "JPY"}
    foreign = fair.client.post("/v1/accounts", json=made, headers=fair.operator.headers).json()
    asked = {"product": product["product"], "epsilon": "1"}
    headers = {"Authorization": f"Bearer {foreign['api_key']}"}
    assert fair.client.post("/v1/quotes", json=asked, headers=headers).status_code == 400


def test_fewer_columns_or_other_names_do_not_make_another_budget(fair: Fair) -> None:
    from tests.conftest import COLUMNS, rows

    fair.dataset()
    (fair.market.settings.data / "same.csv").write_text(rows())
    fewer = COLUMNS[:3]
    renamed = [column | ({"id": "sum", "source": "amount"} if column["name"] == "amount" else {}) for column in COLUMNS]
    before = fair.stored()
    for number, columns in enumerate((fewer, renamed)):
        body = {"name": f"same-{number}", "title": "Same", "file": "same.csv", "columns": columns, "unit": "person"}
        body |= {"max_rows_per_unit": 10, "max_groups_per_unit": 3, "budget": "9"}
        refused = fair.client.post("/v1/datasets", json=body, headers=fair.owner().headers)
        assert refused.status_code == 409, refused.text
    assert fair.stored() == before


def test_the_same_data_or_name_keep_their_lineage(fair: Fair) -> None:
    fair.dataset()
    shuffled = rows_shuffled()
    (fair.market.settings.data / "other.csv").write_text(shuffled)
    before = fair.stored()
    body = {
        "name": "other",
        "title": "Again",
        "file": "other.csv",
        "columns": [
            {"name": name, "type": kind}
            for name, kind in (
                ("person", "text"),
                ("city", "text"),
                ("amount", "integer"),
                ("score", "real"),
                ("day", "date"),
            )
        ],
        "unit": "person",
        "ordering": ["day", "amount"],
        "max_rows_per_unit": 10,
        "max_groups_per_unit": 3,
        "budget": "100",
    }
    refused = fair.client.post("/v1/datasets", json=body, headers=fair.owner().headers)
    assert refused.status_code == 409, "the same rows in another order must not open a second budget"
    assert fair.stored() == before
    assert len(list(fair.market.settings.snapshots.iterdir())) == 1


def rows_shuffled() -> str:
    from tests.conftest import rows

    head, *rest = rows().splitlines()
    return "\n".join([head, *reversed(rest)]) + "\n"


def test_a_withdrawn_product_sells_no_more_and_its_answers_stay(fair: Fair) -> None:
    product = fair.product(fair.dataset())
    buyer = fair.person()
    sold = fair.buy(buyer, product, "1")
    path = f"/v1/products/{product['product']}/withdrawal"
    assert fair.client.post(path, json={"reason": "wrong clamp"}, headers=fair.owner().headers).status_code == 201
    assert fair.client.post(path, json={"reason": "twice"}, headers=fair.owner().headers).status_code == 409
    body = {"product": product["product"], "epsilon": "2"}
    assert fair.client.post("/v1/quotes", json=body, headers=buyer.headers).status_code == 409
    assert fair.answer(buyer, sold).status_code == 200
    assert fair.client.get("/v1/products", headers=buyer.headers).json() == []


@pytest.mark.parametrize("query", [HISTOGRAM, MEAN], ids=["one chain", "a mean"])
@pytest.mark.parametrize(("path", "body"), [("withdrawal", {"reason": "wrong clamp"}), ("state", {"state": "retired"})])
def test_a_quote_from_before_its_product_went_off_sale_buys_nothing(
    fair: Fair, path: str, body: dict[str, str], query: dict[str, Any]
) -> None:
    product, buyer = fair.product(fair.dataset(), query), fair.person()
    quote = fair.quote(buyer, product, "1")
    act = f"/v1/products/{product['product']}/{path}"
    assert fair.client.post(act, json=body, headers=fair.owner().headers).status_code == 201
    before = fair.stored()
    assert fair.order(buyer, quote).status_code == 409
    assert fair.stored() == before


def test_an_answer_carries_a_strong_etag_that_is_checked_after_the_entitlement(fair: Fair) -> None:
    product = fair.product(fair.dataset())
    buyer, stranger = fair.person(), fair.person()
    sold = fair.buy(buyer, product, "1")
    got = fair.answer(buyer, sold)
    etag = got.headers["etag"]
    assert etag.startswith('"')
    path = f"/v1/answers/{sold['answer']['chain']}/{sold['answer']['law']}"
    assert fair.client.get(path, headers=buyer.headers | {"If-None-Match": etag}).status_code == 304
    assert fair.client.get(path, headers=stranger.headers | {"If-None-Match": etag}).status_code == 403


def test_one_order_and_one_draw_a_law_are_what_the_store_holds(fair: Fair) -> None:
    product = fair.product(fair.dataset())
    for _ in range(3):
        fair.buy(fair.person(), product, "1")
    drawn = fair.market.database.read_now(lambda connection: connection.execute(select(draws.c.law)).scalars().all())
    placed = fair.market.database.read_now(lambda connection: connection.execute(select(orders.c.id)).scalars().all())
    assert len(drawn) == len(set(drawn)) == 4
    assert len(placed) == 3
