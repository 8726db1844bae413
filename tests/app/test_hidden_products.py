"""Products that somebody may not see are as if they were not there, on every route; a mean is one thing to all acts."""

from datetime import datetime, timedelta
from typing import Any

import pytest
from sqlalchemy import select

from app.store.schema import quotes
from tests.app.test_simulator import MEAN
from tests.conftest import PEOPLE, TOTAL, Fair, Person, rows, tiers

NOWHERE = "prod_000000000000000000000000"
LAW = "0" * 64
ABOVE = PEOPLE | {"where": {"type": "comparison", "column": "amount", "operator": ">", "value": 7}}
READS: list[tuple[str, str, Any]] = [
    ("GET", "/v1/products/{}", None),
    ("POST", "/v1/products/{}/rehearsal", {"epsilon": "1"}),
    ("POST", "/v1/products/{}/rehearsal/reading", {"epsilon": "1"}),
]
TRADES: list[tuple[str, str, Any]] = [
    ("POST", "/v1/quotes", {"product": "{}", "epsilon": "1"}),
    ("POST", "/v1/quotes", {"product": "{}", "law": LAW}),
    ("POST", "/v1/quotes", {"product": "{}", "within": "10"}),
    ("GET", "/v1/products/{}/readings/" + LAW, None),
]
ACTS: list[tuple[str, str, Any]] = [
    ("POST", "/v1/products/{}/withdrawal", {"reason": "x"}),
    ("POST", "/v1/products/{}/refresh", None),
    ("POST", "/v1/products/{}/state", {"state": "retired"}),
    ("POST", "/v1/products/{}/prices", {"currency": "EUR", "prices_minor": [2, 1]}),
    ("POST", "/v1/products/{}/subscription-floor", {"epsilon": "1", "drift": "1"}),
    ("GET", "/v1/products/{}/verdict", None),
    ("POST", "/v1/price-simulations", {"demand": [{"count": 1, "values_minor": [2, 1]}], "product": "{}"}),
]
BOARD = ("POST", "/v1/dashboards", {"name": "n", "tiles": [{"product": "{}", "epsilon": "1", "title": "t"}]})


def put(product: str, part: Any) -> Any:
    if isinstance(part, dict):
        return {key: put(product, value) for key, value in part.items()}
    if isinstance(part, list):
        return [put(product, value) for value in part]
    return part.replace("{}", product) if isinstance(part, str) else part


def asked(fair: Fair, who: Person, act: tuple[str, str, Any], product: str) -> tuple[int, str]:
    method, path, body = act
    reply = fair.client.request(method, put(product, path), json=put(product, body), headers=who.headers)
    return reply.status_code, reply.text.replace(product, "it")


def next_snapshot(fair: Fair, dataset: str) -> None:
    (fair.market.settings.data / "next.csv").write_text(rows(seed=99))
    made = fair.client.post(
        f"/v1/datasets/{dataset}/snapshots", json={"file": "next.csv"}, headers=fair.owner().headers
    )
    assert made.status_code == 201, made.text


def act(fair: Fair, path: str, body: Any = None) -> Any:
    return fair.client.post(path, json=body, headers=fair.owner().headers)


def test_what_may_not_be_seen_is_answered_as_what_does_not_exist_on_every_route(fair: Fair) -> None:
    dataset = fair.dataset(budget="50", adhoc=["1", "0.5"])
    live = fair.product(dataset)["product"]
    draft = fair.product(dataset, ABOVE, state="draft")["product"]
    part = fair.product(dataset, MEAN, tiers=tiers(("2", 900), ("1", 300)))["companion"]["product"]
    analyst, buyer, stranger = fair.person("analyst"), fair.person(), fair.person("owner")
    question = {"dataset": dataset, "query": PEOPLE}
    inside = fair.client.post("/v1/questions", json=question, headers=analyst.headers).json()["product"]
    before = fair.stored()
    for who, hidden, acts in (
        (buyer, (draft, part, inside), READS + TRADES),
        (analyst, (draft, part), [*READS, *TRADES, BOARD]),
        (stranger, (draft, part, inside), READS + ACTS),
        (stranger, (live,), ACTS),
    ):
        for one in acts:
            absent = asked(fair, who, one, NOWHERE)
            assert absent[0] == 404
            for product in hidden:
                assert asked(fair, who, one, product) == absent, (who.role, one)
    assert fair.stored() == before


def test_the_count_of_a_mean_is_acted_on_through_its_mean_alone(fair: Fair) -> None:
    dataset = fair.dataset(budget="50")
    mean = fair.product(dataset, MEAN, tiers=tiers(("2", 900), ("1", 300)))
    part, buyer = mean["companion"]["product"], fair.person()
    next_snapshot(fair, dataset)
    before = fair.stored()
    for one in ACTS:
        status, text = asked(fair, fair.owner(), one, part)
        assert (status, "count of a mean" in text) == (409, True), one
    assert fair.stored() == before
    fair.buy(buyer, mean, "1")
    fresh = act(fair, f"/v1/products/{mean['product']}/refresh")
    assert (fresh.status_code, [tier["price_minor"] for tier in fresh.json()["tiers"]]) == (201, [900, 300])


def test_a_refresh_puts_nothing_on_sale_that_its_owner_did_not(fair: Fair) -> None:
    dataset = fair.dataset(budget="50", adhoc=["1"])
    question = {"dataset": dataset, "query": PEOPLE}
    inside = fair.client.post("/v1/questions", json=question, headers=fair.person("analyst").headers).json()["product"]
    draft = fair.product(dataset, state="draft")["product"]
    retired = fair.product(dataset, TOTAL)["product"]
    assert act(fair, f"/v1/products/{retired}/state", {"state": "retired"}).status_code == 201
    next_snapshot(fair, dataset)
    refused = act(fair, f"/v1/products/{inside}/refresh")
    assert (refused.status_code, "analyst's question" in refused.json()["detail"]) == (409, True)
    fresh = act(fair, f"/v1/products/{draft}/refresh").json()
    assert fresh["state"] == "draft"
    assert act(fair, f"/v1/products/{fresh['product']}/state", {"state": "live"}).status_code == 201
    assert act(fair, f"/v1/products/{retired}/refresh").json()["state"] == "live", "which is what it is for"
    states = {
        each["product"]: each["state"]
        for each in fair.client.get(f"/v1/datasets/{dataset}/products", headers=fair.owner().headers).json()
    }
    assert (states[inside], states[draft]) == ("internal", "retired")


def test_a_means_tier_is_both_its_parts_to_an_analysts_ceiling(fair: Fair) -> None:
    mean = fair.product(fair.dataset(), MEAN, tiers=tiers(("2", 9000), ("1", 3000), ("0.5", 1200)))
    analyst = fair.person("analyst", ceiling="0.6")
    before = fair.stored()
    body = {"product": mean["product"], "epsilon": "1"}
    assert fair.client.post("/v1/quotes", json=body, headers=analyst.headers).status_code == 403
    assert fair.stored() == before
    quote = fair.quote(analyst, mean, "0.5")
    path = f"/v1/accounts/{analyst.account}/ceiling"
    assert fair.client.post(path, json={"ceiling": "0.4"}, headers=fair.operator.headers).status_code == 201
    drawn, refused = fair.stored()["draws"], fair.order(analyst, quote)
    assert (refused.status_code, fair.stored()["draws"]) == (403, drawn)
    assert fair.client.post(path, json={"ceiling": "0.5"}, headers=fair.operator.headers).status_code == 201
    assert fair.order(analyst, quote).status_code == 201


def test_a_mean_is_rehearsed_and_simulated_at_its_whole_epsilon_and_price(fair: Fair) -> None:
    mean = fair.product(fair.dataset(), MEAN, tiers=tiers(("2", 9000), ("1", 3000)))
    buyer, path = fair.person(), f"/v1/products/{mean['product']}"
    for tier in mean["tiers"]:
        for named in ({"epsilon": tier["epsilon"]}, {"law": tier["law"]}):
            shown = fair.client.post(f"{path}/rehearsal", json=named, headers=buyer.headers)
            assert (shown.status_code, shown.json()["law"]) == (200, tier["law"])
            assert fair.client.post(f"{path}/rehearsal/reading", json=named, headers=buyer.headers).status_code == 200
    for epsilon in ("1.2", "0.6"):
        named = {"epsilon": epsilon}
        refused = fair.client.post(f"{path}/rehearsal", json=named, headers=buyer.headers)
        assert (refused.status_code, refused.json()["type"].rpartition("/")[2]) == (404, "unknown-tier")
    demand = {"demand": [{"count": 3, "values_minor": [9000, 3000]}], "product": mean["product"]}
    assert act(fair, "/v1/price-simulations", demand).json()["menus"]["current"]["prices_minor"] == [9000, 3000]
    assert act(fair, f"{path}/subscription-floor", {"epsilon": "1", "drift": "1"}).status_code == 400


@pytest.mark.parametrize(("grain", "narrowest"), [(0, "6"), (-3, "6"), (4, "48")])
def test_a_bar_narrower_than_any_is_an_unknown_tier_in_the_answers_own_unit(
    fair: Fair, grain: int, narrowest: str
) -> None:
    query = {"measure": {"type": "sum", "column": "amount", "lower": "0", "upper": "2", "grain_exponent": grain}}
    if grain == 4:
        query["measure"]["upper"] = "16"
    product = fair.product(fair.dataset(), query, tiers=tiers(("1", 3000), ("0.5", 1000)))
    bar = product["tiers"][0]["half_width_value"]
    buyer = fair.person()
    for asked_for, status in ((bar, 201), ("0.0001", 404)):
        body = {"product": product["product"], "within": asked_for}
        reply = fair.client.post("/v1/quotes", json=body, headers=buyer.headers)
        assert reply.status_code == status, reply.text
    assert reply.json()["type"].endswith("/unknown-tier")
    assert (reply.json()["narrowest"], bar) == (narrowest, narrowest)
    assert "Fraction" not in reply.text


def test_quotes_that_lapsed_long_ago_are_forgotten_and_no_others(dated: tuple[Fair, list[datetime]]) -> None:
    fair, now = dated
    product, mean = fair.product(dataset := fair.dataset(), PEOPLE), fair.product(dataset, MEAN)
    buyer, other = fair.person(), fair.person()

    def kept() -> set[str]:
        return fair.market.database.read_now(lambda connection: set(connection.execute(select(quotes.c.id)).scalars()))

    theirs, first = fair.quote(other, product, "1"), fair.quote(buyer, mean, "1")
    assert len(kept()) == 3, "a mean's quote is two"
    now[0] += timedelta(seconds=960)
    late = fair.quote(buyer, product, "1")
    expired = fair.order(buyer, first)
    assert expired.json()["type"].endswith("/quote-expired"), "and still says why"
    now[0] += timedelta(seconds=4_000)
    last = fair.quote(buyer, product, "0.5")
    assert kept() == {theirs, late, last}, "another's are forgotten when they ask"
    now[0] += timedelta(seconds=600)
    sold = fair.order(buyer, last)
    assert sold.status_code == 201
    now[0] += timedelta(days=30)
    again = fair.quote(buyer, product, "0.1")
    assert kept() == {theirs, again}
    assert fair.order(buyer, last).json()["receipt"] == sold.json()["receipt"], "a retry needs no quote"
