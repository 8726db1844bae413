"""Catalogues without arbitrage: what gives another good for less is refused by name, what is unchecked never called safe."""

import time
from typing import Any

import pytest

from tests.conftest import CITIES, HISTOGRAM, PEOPLE, Fair, tiers

CITY_ROWS = HISTOGRAM | {"rows_per_unit": 3, "groups_per_unit": 3}


def some_rows(cities: list[str], **fields: Any) -> dict[str, Any]:
    where = {"type": "in", "column": "city", "values": cities}
    return {"measure": {"type": "count", "of": "rows"}, "where": where, "rows_per_unit": 3} | fields


def publish(fair: Fair, dataset: str, query: dict[str, Any], *priced: tuple[str, int], title: str = "Total") -> Any:
    body = fair.product_body(dataset, query, title=title, tiers=tiers(*priced))
    return fair.client.post("/v1/products", json=body, headers=fair.owner().headers)


def test_a_total_that_its_histogram_gives_for_less_is_refused_by_name(fair: Fair) -> None:
    dataset = fair.dataset()
    fair.product(dataset, CITY_ROWS, title="By city", tiers=tiers(("1", 3000), ("0.5", 1200)))
    before = fair.stored()
    refused = publish(fair, dataset, some_rows(CITIES), ("0.1", 4000))
    problem = refused.json()
    assert (refused.status_code, problem["reason"]) == (409, "arbitrage")
    assert (problem["bundle"], problem["cost_minor"]) == (["By city @ ε 0.5"], 1200)
    assert "By city @ ε 0.5" in problem["detail"]
    assert fair.stored() == before
    assert publish(fair, dataset, some_rows(CITIES), ("0.1", 1200)).json()["arbitrage"] == "safe"


def test_a_histogram_too_cheap_for_a_total_on_sale_is_refused_as_well(fair: Fair) -> None:
    dataset = fair.dataset()
    assert publish(fair, dataset, some_rows(CITIES), ("0.1", 4000)).status_code == 201
    refused = publish(fair, dataset, CITY_ROWS, ("1", 3000), ("0.5", 1200), title="By city")
    assert refused.json()["good"] == "Total @ ε 0.1"


def test_what_is_not_a_sum_of_parts_is_no_arbitrage(fair: Fair) -> None:
    dataset = fair.dataset()
    people = PEOPLE | {"group_by": HISTOGRAM["group_by"], "groups_per_unit": 3}
    fair.product(dataset, people, title="People by city", tiers=tiers(("1", 100)))
    where = {"type": "in", "column": "city", "values": CITIES}
    assert publish(fair, dataset, PEOPLE | {"where": where}, ("0.1", 9000)).status_code == 201, "a person counts once"
    one = {"type": "in", "column": "city", "values": CITIES[:1]}
    assert publish(fair, dataset, PEOPLE | {"where": one}, ("0.1", 9000)).status_code == 409, "one city is one bin"
    later = {"type": "comparison", "column": "day", "operator": ">", "value": "2026-01-10"}
    both = {"type": "and", "operands": [later, where]}
    assert publish(fair, dataset, some_rows(CITIES, where=both), ("0.1", 9000)).status_code == 201, "other rows"


def test_two_products_on_one_chain_are_one_good_to_the_check(fair: Fair) -> None:
    dataset = fair.dataset()
    fair.product(dataset, CITY_ROWS, title="By city", tiers=tiers(("1", 3000)))
    fair.product(dataset, CITY_ROWS, title="The same again", tiers=tiers(("1", 3000)))
    assert publish(fair, dataset, some_rows(CITIES), ("0.1", 2900)).json()["arbitrage"] == "safe"


def test_a_catalogue_of_one_is_safe(fair: Fair) -> None:
    assert fair.product(fair.dataset())["arbitrage"] == "safe"


def test_a_catalogue_too_large_to_check_is_uncertified_never_safe(fair: Fair) -> None:
    dataset = fair.dataset()
    keys = [f"city {number}" for number in range(300)]
    wide = HISTOGRAM | {"group_by": {"type": "keys", "column": "city", "keys": keys}}
    assert fair.product(dataset, wide)["arbitrage"] == "uncertified"


def test_out_of_time_is_uncertified_never_safe(fair: Fair, monkeypatch: pytest.MonkeyPatch) -> None:
    from app.catalog import checking
    from pricing.limit import Limit

    dataset = fair.dataset()
    fair.product(dataset, CITY_ROWS, title="By city", tiers=tiers(("1", 3000), ("0.5", 1200)))
    monkeypatch.setattr(checking, "limit_of", lambda *_: Limit(seconds_left=lambda: 0.0))
    listed = publish(fair, dataset, some_rows(CITIES[:2]), ("1", 2999), title="Two cities")
    assert (listed.status_code, listed.json()["arbitrage"]) == (201, "uncertified")


def move(fair: Fair, product: str, state: str) -> Any:
    return fair.client.post(f"/v1/products/{product}/state", json={"state": state}, headers=fair.owner().headers)


def test_a_draft_goes_live_only_where_it_could_have_been_published(fair: Fair) -> None:
    dataset = fair.dataset()
    dear = fair.product(dataset, some_rows(CITIES), title="Total", tiers=tiers(("0.1", 4000)), state="draft")
    fair.product(dataset, CITY_ROWS, title="By city", tiers=tiers(("1", 3000), ("0.5", 1200)))
    refused = move(fair, dear["product"], "live")
    assert (refused.status_code, refused.json()["reason"]) == (409, "arbitrage")


def test_a_retired_product_is_repriced_and_relisted_at_its_new_prices(fair: Fair) -> None:
    dataset = fair.dataset()
    total = publish(fair, dataset, some_rows(CITIES), ("0.1", 1200)).json()["product"]
    fair.product(dataset, CITY_ROWS, title="By city", tiers=tiers(("1", 3000), ("0.5", 1200)))
    assert move(fair, total, "retired").status_code == 201
    body = {"currency": "EUR", "prices_minor": [9000]}
    refused = fair.client.post(f"/v1/products/{total}/prices", json=body, headers=fair.owner().headers)
    assert refused.json()["reason"] == "arbitrage"
    assert move(fair, total, "live").json()["arbitrage"] == "safe"


def test_another_snapshot_s_answers_are_no_substitute(fair: Fair) -> None:
    from tests.conftest import rows

    dataset = fair.dataset()
    fair.product(dataset, CITY_ROWS, title="By city", tiers=tiers(("1", 3000), ("0.5", 1200)))
    (fair.market.settings.data / "next.csv").write_text(rows(seed=99))
    path = f"/v1/datasets/{dataset}/snapshots"
    assert fair.client.post(path, json={"file": "next.csv"}, headers=fair.owner().headers).status_code == 201
    assert publish(fair, dataset, some_rows(CITIES), ("0.1", 4000)).status_code == 201


def test_what_could_be_combined_in_ways_that_are_not_checked_is_uncertified(fair: Fair) -> None:
    dataset = fair.dataset()
    early = {"type": "comparison", "column": "day", "operator": "<", "value": "2026-01-10"}
    assert publish(fair, dataset, some_rows(CITIES), ("0.1", 4000)).json()["arbitrage"] == "safe"
    partly = publish(fair, dataset, some_rows(CITIES, where=early), ("1", 10), title="Early")
    assert partly.json()["arbitrage"] == "uncertified"
    whole = {"measure": {"type": "count", "of": "rows"}, "rows_per_unit": 3}
    assert publish(fair, dataset, whole, ("0.1", 9000), title="All").json()["arbitrage"] == "uncertified"


def test_what_others_have_on_sale_blocks_no_third(fair: Fair, monkeypatch: pytest.MonkeyPatch) -> None:
    from app.catalog import shelf

    dataset = fair.dataset()
    monkeypatch.setattr(shelf, "check_catalogue", lambda *_, **__: [])
    publish(fair, dataset, some_rows(CITIES), ("0.1", 4000))
    fair.product(dataset, CITY_ROWS, title="By city", tiers=tiers(("0.5", 1200)))
    monkeypatch.undo()
    assert publish(fair, dataset, some_rows(["Derby"]), ("1", 10), title="Derby").status_code == 201


def test_the_full_check_is_a_job_with_a_result(fair: Fair) -> None:
    dataset = fair.dataset()
    fair.product(dataset, CITY_ROWS, title="By city", tiers=tiers(("1", 3000), ("0.5", 1200)))
    publish(fair, dataset, some_rows(CITIES), ("0.1", 1200))
    started = fair.client.post("/v1/price-audits", headers=fair.owner().headers)
    assert started.status_code == 202
    path = f"/v1/jobs/{started.json()['job']}"
    while (job := fair.client.get(path, headers=fair.owner().headers).json())["state"] == "running":
        time.sleep(0.05)
    assert (job["state"], job["result"]["verdict"]) == ("done", "safe")
    assert len(job["result"]["findings"]) == 3
    assert fair.client.get(path, headers=fair.person().headers).status_code == 404
