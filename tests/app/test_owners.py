"""What owners do after publication: snapshots, prices, states; and what paces a budget."""

from datetime import datetime, timedelta
from typing import Any

import pytest

from app.audit.verify import verify_export
from tests.conftest import HISTOGRAM, PEOPLE, TOTAL, Fair, Person, rows, tiers


def post(fair: Fair, path: str, body: dict[str, Any] | None = None, who: Person | None = None) -> Any:
    return fair.client.post(path, json=body or {}, headers=(who or fair.owner()).headers)


def add_snapshot(fair: Fair, dataset: str, seed: int = 8) -> Any:
    (fair.market.settings.data / f"day{seed}.csv").write_text(rows(seed=seed))
    return post(fair, f"/v1/datasets/{dataset}/snapshots", {"file": f"day{seed}.csv"})


def test_a_new_snapshot_is_a_new_chain_in_the_same_ledger_and_old_answers_stay(fair: Fair) -> None:
    dataset = fair.dataset()
    product, buyer = fair.product(dataset), fair.person()
    sold = fair.buy(buyer, product, "1")
    added = add_snapshot(fair, dataset)
    assert added.status_code == 201, added.text
    fresh = post(fair, f"/v1/products/{product['product']}/refresh").json()
    assert fresh["chain"] != product["chain"]
    assert fresh["fingerprint"] == product["fingerprint"]
    assert [tier["price_minor"] for tier in fresh["tiers"]] == [tier["price_minor"] for tier in product["tiers"]]
    again = fair.buy(buyer, fresh, "1")
    assert again["receipt"]["charge_nano"] == 10**9
    assert fair.ledger(dataset)["spent"] == "2"
    assert fair.answer(buyer, sold).json() == sold["answer"]
    assert [view["product"] for view in fair.client.get("/v1/products", headers=buyer.headers).json()] == [
        fresh["product"]
    ]
    assert verify_export(*fair.export()).findings == ()


def test_a_snapshot_of_known_content_and_a_refresh_without_one_are_refused(fair: Fair) -> None:
    dataset = fair.dataset()
    product = fair.product(dataset)
    before = fair.stored()
    assert add_snapshot(fair, dataset, seed=7).status_code == 409
    assert post(fair, f"/v1/products/{product['product']}/refresh").status_code == 409
    assert fair.stored() == before
    assert len(list(fair.market.settings.snapshots.iterdir())) == 1


def test_prices_change_for_later_quotes_and_what_was_quoted_goes_stale(fair: Fair) -> None:
    product, buyer = fair.product(fair.dataset()), fair.person()
    stale = fair.quote(buyer, product, "1")
    path = f"/v1/products/{product['product']}/prices"
    changed = post(fair, path, {"currency": "EUR", "prices_minor": [8000, 2500, 1000, 400]})
    assert changed.status_code == 201, changed.text
    assert changed.json()["book_version"] == 2
    assert fair.order(buyer, stale).json()["type"].endswith("quote-expired")
    assert fair.buy(buyer, product, "1")["receipt"]["price_minor"] == 2500
    assert verify_export(*fair.export()).findings == ()


@pytest.mark.parametrize("prices", [[1, 2, 3, 4], [9000, 3000], [-1, 0, 0, 0], [1.5, 1, 1, 1]])
def test_a_book_that_falls_with_accuracy_or_misses_a_tier_is_refused(fair: Fair, prices: list[Any]) -> None:
    product = fair.product(fair.dataset())
    before = fair.stored()
    refused = post(fair, f"/v1/products/{product['product']}/prices", {"currency": "EUR", "prices_minor": prices})
    assert refused.status_code in (400, 409)
    assert fair.stored() == before


def test_new_prices_that_make_arbitrage_are_refused(fair: Fair) -> None:
    dataset = fair.dataset()
    wide = HISTOGRAM | {"groups_per_unit": 3}
    histogram = fair.product(dataset, wide, title="By city", tiers=tiers(("1", 3000)))
    where = {"type": "in", "column": "city", "values": ["Athens", "Bergen", "Cork"]}
    total = {"measure": {"type": "count", "of": "rows"}, "where": where, "rows_per_unit": 3}
    fair.product(dataset, total, title="Total", tiers=tiers(("0.1", 2900)))
    cheaper = post(fair, f"/v1/products/{histogram['product']}/prices", {"currency": "EUR", "prices_minor": [2800]})
    assert cheaper.json()["reason"] == "arbitrage"
    assert cheaper.json()["good"] == "Total @ ε 0.1"


def test_drafts_are_their_owner_s_alone_until_they_are_live(fair: Fair) -> None:
    draft = fair.product(fair.dataset(), state="draft")
    buyer = fair.person()
    path = f"/v1/products/{draft['product']}"
    assert fair.client.get(path, headers=buyer.headers).status_code == 404
    assert fair.client.get(path, headers=fair.owner().headers).status_code == 200
    assert post(fair, "/v1/quotes", {"product": draft["product"], "epsilon": "1"}, buyer).status_code == 404
    assert fair.client.get("/v1/products", headers=buyer.headers).json() == []
    assert post(fair, f"{path}/state", {"state": "live"}).status_code == 201
    fair.buy(buyer, draft, "1")


def test_a_retired_product_relisted_sells_the_same_answer(fair: Fair) -> None:
    product = fair.product(fair.dataset())
    sold = fair.buy(fair.person(), product, "1")
    path = f"/v1/products/{product['product']}"
    assert post(fair, f"{path}/state", {"state": "retired"}).status_code == 201
    assert post(fair, f"{path}/state", {"state": "retired"}).status_code == 409
    refused = post(fair, "/v1/quotes", {"product": product["product"], "epsilon": "1"}, fair.person())
    assert refused.status_code == 409
    assert post(fair, f"{path}/state", {"state": "live"}).status_code == 201
    assert fair.buy(fair.person(), product, "1")["answer"] == sold["answer"]
    assert post(fair, f"{path}/withdrawal", {"reason": "faulty"}).status_code == 201
    assert post(fair, f"{path}/state", {"state": "live"}).status_code == 409, "withdrawn is for good"


def test_a_quota_keeps_one_buyer_from_spending_everybody_s_budget(fair: Fair) -> None:
    dataset = fair.dataset(quota="1")
    product, other = fair.product(dataset), fair.product(dataset, PEOPLE)
    greedy, late = fair.person(), fair.person()
    fair.buy(greedy, product, "0.5")
    quote = fair.quote(greedy, other, "1")
    before = fair.stored()
    refused = fair.order(greedy, quote, "q").json()
    assert (refused["reason"], refused["requested"], refused["remaining"]) == ("quota", "1", "0.5")
    assert fair.stored() == before
    fair.buy(greedy, other, "0.5")
    fair.buy(late, other, "1")
    assert fair.buy(greedy, other, "1")["receipt"]["charge_nano"] == 0, "what others opened costs no quota"


def test_a_window_paces_the_budget_and_gives_none_back(dated: tuple[Fair, list[datetime]]) -> None:
    fair, now = dated
    dataset = fair.dataset(budget="2", window={"days": 7, "budget": "1"})
    products = [fair.product(dataset, query) for query in (HISTOGRAM, PEOPLE, TOTAL)]
    buyer = fair.person()
    fair.buy(buyer, products[0], "1")
    refused = fair.order(buyer, fair.quote(buyer, products[1], "0.5"), "w").json()
    assert (refused["reason"], refused["remaining"]) == ("window", "0")
    now[0] += timedelta(days=8)
    fair.buy(buyer, products[1], "1")
    now[0] += timedelta(days=8)
    refused = fair.order(buyer, fair.quote(buyer, products[2], "0.5"), "l").json()
    assert (refused["requested"], refused["remaining"]) == ("0.5", "0"), "the lifetime budget is spent"


@pytest.mark.parametrize(
    "fields",
    [
        {"quota": "0"},
        {"quota": "x"},
        {"window": {"days": 0, "budget": "1"}},
        {"window": {"days": 7, "budget": "-1"}},
        {"window": {"days": 7}},
        {"adhoc": ["1", "2"]},
        {"adhoc": ["nan"]},
        {"reserve": {"low_minor": 5, "high_minor": 1}},
    ],
)
def test_limits_that_are_none_are_refused(fair: Fair, fields: dict[str, Any]) -> None:
    from tests.app.test_bad_input import dataset_body

    (fair.market.settings.data / "people.csv").write_text(rows())
    fair.owner()
    before = fair.stored()
    refused = post(fair, "/v1/datasets", dataset_body(**fields))
    assert refused.status_code == 400
    assert fair.stored() == before
    assert list(fair.market.settings.snapshots.iterdir()) == []
