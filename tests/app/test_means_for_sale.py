"""Means where other rules meet them: scarce budgets, new prices, caps, subscriptions. What holds for one chain holds for two."""

from typing import Any

from pricing.scarcity import ReserveCurve
from tests.app.test_priced_means import ALL, COUNT
from tests.conftest import Fair, tiers
from tiers.budget import NANO

SCARCE = {"unit": None, "ordering": [], "max_rows_per_unit": 1, "max_groups_per_unit": 1}


def scarce(fair: Fair, **fields: Any) -> str:
    return fair.dataset(**SCARCE, **fields)


def test_a_mean_is_sold_at_what_was_quoted_where_its_reserve_decides(fair: Fair) -> None:
    """Case 33 under a reserve: the sum is sold first and moves the curve, so the count is quoted from there."""
    dataset = scarce(fair, budget="10", reserve={"low_minor": 100, "high_minor": 2000})
    product = fair.product(dataset, ALL, title="Mean", tiers=tiers(("1", 10), ("0.5", 10)))
    buyer, curve = fair.person(), ReserveCurve(100, 2000, 10 * NANO)
    for epsilon, used, after in (("0.5", 0, NANO // 2), ("1", NANO // 2, NANO)):
        body = {"product": product["product"], "epsilon": epsilon}
        offered = fair.client.post("/v1/quotes", json=body, headers=buyer.headers).json()
        parts = [part["amount_minor"] for part in offered["parts"]]
        sold = fair.order(buyer, offered["quote"], epsilon)
        assert sold.status_code == 201, sold.text
        paid = [each["receipt"]["price_minor"] for each in (sold.json(), sold.json()["companion"])]
        assert paid == parts, "what is quoted is what is charged, part by part"
        assert sum(paid) == offered["amount_minor"] == curve.between(used, after), (
            "and splits of a stretch cost the same"
        )


def reprice(fair: Fair, product: str, *prices: int) -> Any:
    body = {"currency": "EUR", "prices_minor": prices}
    return fair.client.post(f"/v1/products/{product}/prices", json=body, headers=fair.owner().headers)


def test_a_mean_whose_count_has_tiers_of_its_own_gets_new_prices_for_its_own_tiers(fair: Fair) -> None:
    dataset = scarce(fair)
    mean = fair.product(dataset, ALL, title="Mean", tiers=tiers(("1", 1000), ("0.5", 400)))
    count = fair.product(dataset, COUNT, title="Count", tiers=tiers(("0.3", 170)))
    assert count["chain"] == mean["companion"]["chain"], "0.4 and 0.2 are the mean's, 0.3 is late"
    fresh = reprice(fair, mean["product"], 1100, 420)
    assert fresh.status_code == 201, fresh.text
    assert [tier["price_minor"] for tier in fresh.json()["tiers"]] == [1100, 420]
    seen = fair.client.get(f"/v1/products/{count['product']}", headers=fair.owner().headers).json()
    assert [tier["price_minor"] for tier in seen["tiers"]] == [170], "the count's own tier keeps its price"
    falls = reprice(fair, mean["product"], 1100, 430)
    assert (falls.status_code, "expected at most 170" in falls.text) == (400, True), falls.text
    assert reprice(fair, mean["product"], 1100).status_code == 400
    assert reprice(fair, mean["product"], 1100, 500, 420).status_code == 400


def test_the_caps_of_a_mean_are_of_both_its_chains(fair: Fair) -> None:
    dataset = scarce(fair, budget="3")
    mean = fair.product(dataset, ALL, title="Mean", tiers=tiers(("2", 1000), ("1", 400)))
    for epsilon in ("1", "1", "2"):
        fair.buy(fair.person(), mean, epsilon)
    told = fair.client.post(f"/v1/datasets/{dataset}/tier-caps", headers=fair.owner().headers).json()
    assert [(cap["title"], cap["epsilon"]) for cap in told["caps"]] == [("Mean", "2")]
    assert (told["uses"], told["up_to_minor"]) == ("0", 1800), "all of it was charged: two at 400, one at 1000"


def test_a_subscription_to_a_mean_is_refused(fair: Fair) -> None:
    mean = fair.product(scarce(fair), ALL, title="Mean", tiers=tiers(("1", 1000), ("0.5", 400)))
    body = {"epsilon": mean["tiers"][0]["epsilon"], "drift": "1"}
    path = f"/v1/products/{mean['product']}/subscription-floor"
    refused = fair.client.post(path, json=body, headers=fair.owner().headers)
    assert (refused.status_code, "got a mean" in refused.text) == (400, True)
