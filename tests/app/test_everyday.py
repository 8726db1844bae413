"""Everyday acts of each role: terms, faulty products, ceilings, lists of one's own, dashboards."""

from typing import Any

import pytest

from app.audit.verify import verify_export
from tests.conftest import PEOPLE, TOTAL, Fair, tiers


def post(fair: Fair, who: Any, path: str, body: dict[str, Any]) -> Any:
    return fair.client.post(path, json=body, headers=who.headers)


def balance(fair: Fair, who: Any) -> int:
    return int(fair.client.get("/v1/account", headers=who.headers).json()["balance_minor"])


def test_an_order_that_names_other_terms_is_refused_and_leaves_nothing(fair: Fair) -> None:
    product = fair.product(fair.dataset())
    buyer = fair.person()
    quote, before = fair.quote(buyer, product, "1"), fair.stored()
    headers = buyer.headers | {"Idempotency-Key": "k"}
    bad = fair.client.post("/v1/orders", json={"quote": quote, "licence": "terms/2"}, headers=headers)
    assert (bad.status_code, bad.json()["licence"]) == (409, "terms/1")
    assert fair.stored() == before
    none = fair.client.post("/v1/orders", json={"quote": quote}, headers=headers)
    assert (none.status_code, none.json()["detail"]) == (400, "licence: expected the one in the quote, got none")
    assert fair.stored() == before
    good = fair.client.post("/v1/orders", json={"quote": quote, "licence": "terms/1"}, headers=headers)
    assert (good.status_code, good.json()["receipt"]["licence"]) == (201, "terms/1")
    for body in ({"quote": quote}, {"quote": quote, "licence": "terms/2"}):
        retried = fair.client.post("/v1/orders", json=body, headers=headers)
        assert retried.status_code in (400, 409), "a retry is the same request"


def test_an_analyst_who_buys_nothing_accepts_no_licence(fair: Fair) -> None:
    product = fair.product(fair.dataset())
    analyst = fair.person("analyst")
    assert fair.order(analyst, fair.quote(analyst, product, "1")).status_code == 201


def test_a_faulty_product_is_withdrawn_and_every_order_paid_back_once(fair: Fair) -> None:
    dataset = fair.dataset()
    product, other = fair.product(dataset), fair.product(dataset, PEOPLE)
    ada, bruno, analyst = fair.person(), fair.person(), fair.person("analyst")
    sold = fair.buy(ada, product, "1")
    fair.buy(ada, product, "2")
    fair.buy(bruno, product, "0.5")
    fair.buy(analyst, product, "1")
    kept = fair.buy(bruno, other, "1")["receipt"]["price_minor"]
    credit = {"amount_minor": 100, "reason": "pricing error"}
    assert post(fair, fair.operator, f"/v1/orders/{sold['receipt']['order']}/credits", credit).status_code == 201
    spent = fair.ledger(dataset)["spent"]
    path = f"/v1/products/{product['product']}/withdrawal"
    assert post(fair, fair.owner(), path, {"reason": "a column was wrong", "faulty": True}).status_code == 201
    assert (balance(fair, ada), balance(fair, bruno)) == (1_000_000, 1_000_000 - kept)
    assert fair.ledger(dataset)["spent"] == spent, "what was learned stays charged"
    assert fair.answer(ada, sold).json() == sold["answer"], "and stays readable"
    assert post(fair, fair.owner(), path, {"reason": "again", "faulty": True}).status_code == 409
    assert balance(fair, ada) == 1_000_000
    lines, public = fair.export()
    assert verify_export(iter(lines), public).findings == ()


def test_buyers_are_paid_back_at_once_even_where_the_owner_was_paid_before(fair: Fair) -> None:
    product = fair.product(fair.dataset())
    ada = fair.person()
    sold = fair.buy(ada, product, "1")
    assert post(fair, fair.operator, "/v1/payouts", {"currency": "EUR"}).status_code == 201
    path = f"/v1/products/{product['product']}/withdrawal"
    assert post(fair, fair.owner(), path, {"reason": "faulty", "faulty": True}).status_code == 201
    assert balance(fair, ada) == 1_000_000, "the market owes meanwhile; the owner's later earnings make it up"
    more = {"amount_minor": 1, "reason": "again"}
    order = sold["receipt"]["order"]
    assert post(fair, fair.operator, f"/v1/orders/{order}/credits", more).status_code == 400, "no more than was paid"


def test_an_analysts_ceiling_may_change_and_holds_from_then_on(fair: Fair) -> None:
    product = fair.product(fair.dataset())
    analyst = fair.person("analyst", ceiling="0.5")
    path, quote = f"/v1/accounts/{analyst.account}/ceiling", {"product": product["product"], "epsilon": "1"}
    assert post(fair, analyst, "/v1/quotes", quote).status_code == 403
    assert post(fair, fair.operator, path, {"ceiling": "1"}).json()["ceiling"] == "1"
    sold = fair.buy(analyst, product, "1")
    open_quote = fair.quote(analyst, product, "1")
    assert post(fair, fair.operator, path, {"ceiling": "0.1"}).status_code == 201
    assert fair.order(analyst, open_quote, "late").status_code == 403
    assert fair.answer(analyst, sold).status_code == 200
    for bad in ("0", "-1", "nan", "1e999", ""):
        assert post(fair, fair.operator, path, {"ceiling": bad}).status_code == 400
    buyer = fair.person()
    assert post(fair, fair.operator, f"/v1/accounts/{buyer.account}/ceiling", {"ceiling": "1"}).status_code == 409


def test_an_owner_lists_what_is_theirs_and_nobody_elses(fair: Fair) -> None:
    dataset = fair.dataset(adhoc=["1"])
    live, draft = fair.product(dataset), fair.product(dataset, PEOPLE, state="draft")
    mean = {
        "measure": {
            "type": "mean",
            "column": "score",
            "centre": "0",
            "lower": "-9",
            "upper": "9",
            "grain_exponent": 0,
            "sum_share": "0.5",
        },
        "rows_per_unit": 3,
    }
    average = fair.product(dataset, mean, tiers=tiers(("1", 100)))
    body = {"dataset": dataset, "query": TOTAL}
    asked = post(fair, fair.person("analyst"), "/v1/questions", body).json()
    headers = fair.owner().headers
    assert [each["dataset"] for each in fair.client.get("/v1/datasets", headers=headers).json()] == [dataset]
    listed = fair.client.get(f"/v1/datasets/{dataset}/products", headers=headers).json()
    assert [each["product"] for each in listed] == [each["product"] for each in (live, draft, average, asked)]
    other = fair.person("owner")
    assert fair.client.get("/v1/datasets", headers=other.headers).json() == []
    assert fair.client.get(f"/v1/datasets/{dataset}/products", headers=other.headers).status_code == 404
    part = f"/v1/products/{average['companion']['product']}"
    assert fair.client.get(part, headers=fair.person().headers).status_code == 404


def test_a_dashboard_shows_readings_and_is_deleted_by_its_analyst_only(fair: Fair) -> None:
    reached = {"measure": {"type": "threshold", "of": "units", "at": 5}}
    product = fair.product(fair.dataset(), reached)
    analyst, other = fair.person("analyst"), fair.person("analyst")
    sold = fair.buy(analyst, product, "1")
    tile = {"product": product["product"], "epsilon": "1", "title": "enough people"}
    made = post(fair, analyst, "/v1/dashboards", {"name": "n", "tiles": [tile]}).json()
    path = f"/v1/dashboards/{made['dashboard']}"
    (shown,) = fair.client.get(path, headers=analyst.headers).json()["tiles"]
    assert shown["reading"] == sold["reading"]
    assert fair.client.delete(path, headers=other.headers).status_code == 404
    assert fair.client.delete(path, headers=analyst.headers).status_code == 200
    assert fair.client.get(path, headers=analyst.headers).status_code == 404
    assert fair.answer(analyst, sold).status_code == 200


@pytest.mark.parametrize("role", ["owner", "buyer", "auditor", "operator"])
def test_only_analysts_keep_dashboards(fair: Fair, role: str) -> None:
    assert fair.client.delete("/v1/dashboards/dash_1", headers=fair.person(role).headers).status_code == 403
