"""Tier caps from the sales so far, the floor of a subscription, and what copies would cost a seller without a chain."""

from typing import Any

import pytest

from pricing.menu import menu_threshold
from tests.conftest import PEOPLE, Fair, Person, tiers


def caps(fair: Fair, dataset: str, who: Person | None = None) -> Any:
    return fair.client.post(f"/v1/datasets/{dataset}/tier-caps", headers=(who or fair.owner()).headers)


def test_caps_follow_the_sales_so_far_and_fit_the_budget_left(fair: Fair) -> None:
    dataset = fair.dataset(budget="3")
    rows = fair.product(dataset, tiers=tiers(("2", 9000), ("1", 3000)))
    people = fair.product(dataset, PEOPLE, tiers=tiers(("2", 100), ("0.5", 90)), title="People")
    for _ in range(3):
        fair.buy(fair.person(), rows, "1")
    fair.buy(fair.person(), people, "0.5")
    told = caps(fair, dataset).json()
    chosen = {cap["title"]: cap["epsilon"] for cap in told["caps"]}
    assert chosen == {"Rows by city": "1", "People": "0.5"}, "nobody bought the tops: nothing is spent on them"
    assert (told["budget"], told["uses"], told["up_to_minor"]) == ("1.5", "0", 9090)
    assert told["label"].startswith("up to")
    fair.buy(fair.person(), people, "2")
    assert caps(fair, dataset).json()["budget"] == "0"


def test_caps_are_the_owner_s_and_need_something_on_sale(fair: Fair) -> None:
    dataset = fair.dataset()
    assert caps(fair, dataset).status_code == 404
    fair.product(dataset)
    stranger, buyer = fair.person("owner"), fair.person()
    before = fair.stored()
    assert caps(fair, dataset).json()["up_to_minor"] == 0
    assert {cap["rank"] for cap in caps(fair, dataset).json()["caps"]} == {None}
    assert caps(fair, dataset, stranger).status_code == 404
    assert caps(fair, dataset, buyer).status_code == 403
    assert fair.stored() == before


def test_a_buyer_who_upgraded_counts_once_and_what_was_given_back_does_not(fair: Fair) -> None:
    dataset = fair.dataset()
    product = fair.product(dataset, tiers=tiers(("2", 9000), ("1", 3000)))
    buyer, other = fair.person(), fair.person()
    for epsilon in ("1", "2"):
        fair.buy(buyer, product, epsilon)
    sold = fair.buy(other, product, "1")
    assert caps(fair, dataset).json()["up_to_minor"] == 9000 + 3000, "3000 and then 6000 is 9000"
    path, amount = f"/v1/orders/{sold['receipt']['order']}/credits", 2999
    for part in (amount, 1):
        body = {"amount_minor": part, "reason": "pricing error"}
        assert fair.client.post(path, json=body, headers=fair.operator.headers).status_code == 201
        assert caps(fair, dataset).json()["up_to_minor"] == 9000 + (3000 if part == amount else 0)


def floor(fair: Fair, product: dict[str, Any], **fields: Any) -> Any:
    body = {"epsilon": "0.5", "drift": "1"} | fields
    return fair.client.post(
        f"/v1/products/{product['product']}/subscription-floor", json=body, headers=fair.owner().headers
    )


def test_a_subscription_is_priced_as_the_tier_it_comes_to(fair: Fair) -> None:
    priced = tiers(("1", 3000), ("0.89", 2000), ("0.5", 1200))
    product = fair.product(fair.dataset(), PEOPLE, tiers=priced)
    told = floor(fair, product).json()
    assert told["variance_of_one"] == pytest.approx(7.835396, rel=1e-6), "the reference table's variance at 0.5"
    assert told["variance_of_all"] == pytest.approx(2.3435, rel=1e-4), "and its long-run variance at drift 1"
    assert (told["emulates"], told["price_at_least_minor"], told["snapshots_to_settle"]) == ("0.89", 2000, 6)
    assert floor(fair, product, drift="0.1").json()["emulates"] == "1"
    assert floor(fair, product, epsilon="0.50").json()["epsilon"] == "0.5", "one number, however it is written"


@pytest.mark.parametrize(
    ("fields", "status"),
    [({"drift": "0"}, 400), ({"drift": "-1"}, 400), ({"drift": "x"}, 400), ({"epsilon": "0.7"}, 404)],
)
def test_a_faulty_subscription_is_refused(fair: Fair, fields: dict[str, str], status: int) -> None:
    product = fair.product(fair.dataset(), PEOPLE, tiers=tiers(("1", 3000), ("0.5", 1200)))
    assert floor(fair, product, **fields).status_code == status


def test_a_simulation_shows_what_copies_would_cost_a_seller_without_a_chain(fair: Fair) -> None:
    product = fair.product(fair.dataset(), PEOPLE, tiers=tiers(("1", 3000), ("0.5", 1200)))
    demand = [{"count": 5, "values_minor": [9000, 0]}, {"count": 10, "values_minor": [100, 100]}]
    body = {"demand": demand, "product": product["product"]}
    told = fair.client.post("/v1/price-simulations", json=body, headers=fair.owner().headers).json()
    chain = menu_threshold([[9000] * 5, [100] * 10]).revenue
    assert told["menus"]["threshold"]["predicted_minor"] == chain == 46_000
    assert told["independent_draws_predicted_minor"] == 45_000, (
        "five copies of the lower tier would do: sell the top alone"
    )
    assert fair.client.post(
        "/v1/price-simulations", json={"demand": demand}, headers=fair.owner().headers
    ).json().keys() == {"label", "menus", "best"}
