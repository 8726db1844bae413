"""Analysts: questions of their own, the same chain for the same question, dashboards with what they hold."""

from typing import Any

from tests.conftest import HISTOGRAM, PEOPLE, Fair, Person, tiers


def ask(fair: Fair, who: Person, dataset: str, query: dict[str, Any]) -> Any:
    return fair.client.post("/v1/questions", json={"dataset": dataset, "query": query}, headers=who.headers)


def test_a_question_opens_a_chain_that_is_charged_when_it_is_read(fair: Fair) -> None:
    dataset = fair.dataset(adhoc=["1", "0.5"])
    analyst = fair.person("analyst", ceiling="0.5")
    asked = ask(fair, analyst, dataset, HISTOGRAM)
    assert asked.status_code == 201, asked.text
    assert fair.ledger(dataset)["spent"] == "0"
    sold = fair.buy(analyst, asked.json(), "0.5")
    assert (sold["receipt"]["price_minor"], sold["receipt"]["charge_nano"]) == (0, 500_000_000)
    above = {"product": asked.json()["product"], "epsilon": "1"}
    assert fair.client.post("/v1/quotes", json=above, headers=analyst.headers).status_code == 403


def test_the_same_question_again_is_the_same_chain_and_answer(fair: Fair) -> None:
    dataset = fair.dataset(adhoc=["1", "0.5"])
    first, second = fair.person("analyst"), fair.person("analyst")
    sold = fair.buy(first, ask(fair, first, dataset, HISTOGRAM).json(), "1")
    turned = HISTOGRAM | {"group_by": {"type": "keys", "column": "city", "keys": ["Cork", "Bergen", "Athens"]}}
    again = fair.buy(second, ask(fair, second, dataset, turned).json(), "1")
    assert again["answer"] == sold["answer"]
    assert fair.ledger(dataset)["spent"] == "1"


def test_questions_need_the_owner_s_leave_and_stay_inside(fair: Fair) -> None:
    closed = fair.dataset()
    analyst, buyer = fair.person("analyst"), fair.person()
    assert ask(fair, analyst, closed, PEOPLE).status_code == 403
    assert ask(fair, buyer, closed, PEOPLE).status_code == 403
    table = "person,city,amount,score,day\np1,Athens,1,1.0,2026-01-01\n"
    dataset = fair.dataset(name="open", adhoc=["1"], table=table)
    asked = ask(fair, analyst, dataset, PEOPLE).json()
    path = f"/v1/products/{asked['product']}"
    assert fair.client.get(path, headers=buyer.headers).status_code == 404
    assert fair.client.get(path, headers=fair.owner().headers).status_code == 200
    refused = fair.client.post("/v1/quotes", json={"product": asked["product"], "epsilon": "1"}, headers=buyer.headers)
    assert refused.status_code == 404
    assert fair.client.get("/v1/products", headers=buyer.headers).json() == []


def test_a_question_that_was_asked_inside_can_be_published_at_a_price(fair: Fair) -> None:
    dataset = fair.dataset(adhoc=["1", "0.5"])
    analyst = fair.person("analyst")
    sold = fair.buy(analyst, ask(fair, analyst, dataset, HISTOGRAM).json(), "1")
    product = fair.product(dataset, tiers=tiers(("1", 3000), ("0.5", 1000)))
    bought = fair.buy(fair.person(), product, "1")
    assert bought["receipt"]["price_minor"] == 3000
    assert bought["receipt"]["charge_nano"] == 0
    assert bought["answer"] == sold["answer"]


def test_a_question_whose_chain_has_other_tiers_is_a_typed_refusal(fair: Fair) -> None:
    dataset = fair.dataset(adhoc=["1.5"])
    fair.product(dataset)
    analyst = fair.person("analyst", ceiling="2")
    before = fair.stored()
    refused = ask(fair, analyst, dataset, HISTOGRAM)
    assert (refused.status_code, refused.json()["reason"]) == (409, "late-tier")
    assert fair.stored() == before


def test_a_dashboard_shows_what_its_analyst_holds_and_nothing_else(fair: Fair) -> None:
    dataset = fair.dataset()
    histogram, people = fair.product(dataset), fair.product(dataset, PEOPLE)
    analyst, other = fair.person("analyst"), fair.person("analyst")
    fair.buy(fair.person(), people, "1")
    sold = fair.buy(analyst, histogram, "1")
    body = {
        "name": "Monday",
        "tiles": [
            {"product": histogram["product"], "epsilon": "1", "title": "By city", "display": "bars"},
            {"product": people["product"], "epsilon": "1", "title": "People", "display": "number"},
        ],
    }
    saved = fair.client.post("/v1/dashboards", json=body, headers=analyst.headers).json()
    path = f"/v1/dashboards/{saved['dashboard']}"
    shown = fair.client.get(path, headers=analyst.headers).json()["tiles"]
    assert shown[0]["answer"] == sold["answer"]
    assert shown[1]["answer"] is None, "bought by others, not by this analyst"
    assert fair.client.get(path, headers=other.headers).status_code == 404
    assert [row["name"] for row in fair.client.get("/v1/dashboards", headers=analyst.headers).json()] == ["Monday"]
    bad = body | {"tiles": [{"product": histogram["product"], "epsilon": "3", "title": "x"}]}
    assert fair.client.post("/v1/dashboards", json=bad, headers=analyst.headers).status_code == 404
