"""Means, quantiles and thresholds as products: planned, priced, sold, read, rehearsed, withdrawn and audited."""

import json
from fractions import Fraction
from typing import Any

import pytest

from app.audit.verify import verify_export
from app.queries.readings import read_mean, read_quantile, read_threshold
from tests.audit.exports import found, parse
from tests.conftest import CITIES, PEOPLE, Fair, tiers
from tiers.identity import TierLaw

MEAN: dict[str, Any] = {
    "measure": {
        "type": "mean",
        "column": "score",
        "centre": "1",
        "lower": "-16",
        "upper": "16",
        "grain_exponent": -2,
        "sum_share": "0.6",
    },
    "rows_per_unit": 4,
}
MEANS = MEAN | {"group_by": {"type": "keys", "column": "city", "keys": CITIES}, "groups_per_unit": 2}
MEDIAN = {
    "measure": {"type": "quantile", "of": "rows", "fraction": "0.5"},
    "group_by": {"type": "bins", "column": "score", "edges": [-3, 0, 1, 2], "below": "kept", "above": "kept"},
    "rows_per_unit": 3,
    "groups_per_unit": 2,
}
BINNED = MEDIAN | {"measure": {"type": "count", "of": "rows"}}
REACHED = {"measure": {"type": "threshold", "of": "units", "at": 40}}
LADDER = tiers(("2", 9001), ("1", 3000), ("0.5", 1001))


def verified(fair: Fair) -> Any:
    lines, public = fair.export()
    report = verify_export(iter(lines), public)
    assert report.findings == ()
    return report


def law_of(fair: Fair, sold: dict[str, Any]) -> TierLaw:
    (draw,) = (
        leaf
        for leaf in parse(*fair.export()).kind("draw")
        if TierLaw.from_document(leaf["law"]).identity == sold["answer"]["law"]
        and leaf["chain"] == sold["answer"]["chain"]
    )
    return TierLaw.from_document(draw["law"])


def reading(fair: Fair, who: Any, product: dict[str, Any], law: str) -> Any:
    return fair.client.get(f"/v1/products/{product['product']}/readings/{law}", headers=who.headers)


def test_a_threshold_is_the_bit_beside_the_count_that_is_sold(fair: Fair) -> None:
    dataset = fair.dataset()
    product, count = fair.product(dataset, REACHED, tiers=LADDER), fair.product(dataset, PEOPLE, tiers=LADDER)
    assert product["chain"] == count["chain"], "one count, one chain, one charge"
    buyer = fair.person()
    sold = fair.buy(buyer, product, "1")
    (raw,) = (int(value) for value in sold["answer"]["values"])
    bit = read_threshold(raw, 40, law_of(fair, sold).noise)
    (entry,) = sold["reading"]["entries"]
    assert entry["reached"] is bit.reached
    assert 0 <= float(bit.confidence) - float(entry["confidence"]) < 1e-4
    assert reading(fair, buyer, product, sold["answer"]["law"]).json() == sold["reading"]
    again = fair.buy(fair.person(), count, "1")
    assert (again["receipt"]["charge_nano"], again["answer"]) == (0, sold["answer"])
    assert again["reading"] == {"type": "nothing"}
    verified(fair)


def test_a_quantile_is_read_off_the_histogram_that_is_sold(fair: Fair) -> None:
    dataset = fair.dataset()
    product, histogram = fair.product(dataset, MEDIAN, tiers=LADDER), fair.product(dataset, BINNED, tiers=LADDER)
    assert product["chain"] == histogram["chain"]
    sold = fair.buy(fair.person(), product, "2")
    raw = [int(value) for value in sold["answer"]["values"]]
    bin_ = read_quantile(raw, Fraction(1, 2), law_of(fair, sold).noise, Fraction(95, 100))
    edges = [None, "-3.0", "0.0", "1.0", "2.0", None]
    assert (sold["reading"]["lower"], sold["reading"]["upper"]) == (edges[bin_.place], edges[bin_.place + 1])
    assert sold["reading"]["interval_lower"] == edges[bin_.first]
    assert sold["reading"]["interval_upper"] == edges[bin_.last + 1]
    verified(fair)


@pytest.mark.parametrize("question", [MEAN, MEANS], ids=["one", "by city"])
def test_a_mean_is_a_sum_and_a_count_quoted_charged_and_shown_both(fair: Fair, question: dict[str, Any]) -> None:
    dataset = fair.dataset(budget="5")
    product = fair.product(dataset, question, tiers=LADDER)
    assert [tier["epsilon"] for tier in product["tiers"]] == ["2", "1", "0.5"]
    assert [tier["price_minor"] for tier in product["tiers"]] == [9001, 3000, 1001]
    assert [tier["epsilon"] for tier in product["companion"]["tiers"]] == ["0.8", "0.4", "0.2"]
    buyer = fair.person()
    body = {"product": product["product"], "epsilon": "1"}
    quote = fair.client.post("/v1/quotes", json=body, headers=buyer.headers).json()
    assert (quote["epsilon"], quote["amount_minor"]) == ("1", 3000)
    assert [(part["epsilon"], part["amount_minor"]) for part in quote["parts"]] == [("0.6", 1800), ("0.4", 1200)]
    sold = fair.order(buyer, quote["quote"], "key").json()
    receipts = sold["receipt"], sold["companion"]["receipt"]
    assert sum(receipt["price_minor"] for receipt in receipts) == 3000
    assert [receipt["charge_nano"] for receipt in receipts] == [600_000_000, 400_000_000]
    assert fair.ledger(dataset)["spent"] == "1"
    laws = law_of(fair, sold).noise, law_of(fair, sold["companion"]).noise
    raws = ([int(value) for value in part["answer"]["values"]] for part in (sold, sold["companion"]))
    for total, count, shown in zip(*raws, sold["reading"]["entries"], strict=True):
        mean = read_mean(total, count, laws, centre=Fraction(1), grain=Fraction(1, 4), confidence=Fraction(95, 100))
        assert abs(Fraction(shown["estimate"]) - mean.estimate) <= abs(mean.estimate) * Fraction(1, 10**11)
        assert shown["shape"] == mean.shape
        if mean.lower is not None and mean.upper is not None:
            assert Fraction(shown["lower"]) <= mean.lower <= mean.upper <= Fraction(shown["upper"])
    assert fair.order(buyer, quote["quote"], "key").json() == sold | {
        "replayed": True,
        "companion": sold["companion"] | {"replayed": True},
    }
    assert reading(fair, buyer, product, sold["answer"]["law"]).json() == sold["reading"]
    assert fair.answer(buyer, sold["companion"]).json() == sold["companion"]["answer"]
    upgrade = fair.buy(buyer, product, "2")
    assert upgrade["receipt"]["price_minor"] + upgrade["companion"]["receipt"]["price_minor"] == 6001
    assert fair.ledger(dataset)["spent"] == "2"
    assert verified(fair).sales == 4


def test_a_mean_that_the_budget_or_the_purse_admits_by_half_is_refused_whole(fair: Fair) -> None:
    dataset = fair.dataset(budget="0.9")
    product = fair.product(dataset, MEAN, tiers=LADDER)
    assert [tier["admitted"] for tier in product["tiers"]] == [False, False, True]
    buyer = fair.person()
    quote, before = fair.quote(buyer, product, "1"), fair.stored()
    assert fair.order(buyer, quote).status_code == 409, "0.6 of 0.9 fits, 0.4 more does not"
    assert fair.stored() == before
    poor = fair.person(deposit=700)
    quote, before = fair.quote(poor, product, "0.5"), fair.stored()
    assert fair.order(poor, quote).status_code == 402, "the sum's 600 are there, the count's 401 are not"
    assert fair.stored() == before


def test_the_parts_of_a_mean_are_not_sold_alone_nor_listed(fair: Fair) -> None:
    dataset = fair.dataset()
    product = fair.product(dataset, MEAN, tiers=LADDER)
    buyer = fair.person()
    count = {"product": product["companion"]["product"], "epsilon": "0.4"}
    assert fair.client.post("/v1/quotes", json=count, headers=buyer.headers).status_code == 404, "as when it is read"
    listed = fair.client.get("/v1/products", headers=buyer.headers).json()
    assert [each["product"] for each in listed] == [product["product"]]
    within = {"product": product["product"], "within": "1"}
    refused = fair.client.post("/v1/quotes", json=within, headers=buyer.headers)
    assert (refused.status_code, "interval" in refused.json()["detail"]) == (400, True)
    one = {"product": product["product"], "epsilon": "0.6"}
    assert fair.client.post("/v1/quotes", json=one, headers=buyer.headers).status_code == 404


def test_a_withdrawn_mean_is_withdrawn_whole_and_an_analysts_costs_nothing(fair: Fair) -> None:
    dataset = fair.dataset(adhoc=["1"])
    analyst = fair.person("analyst")
    asked = fair.client.post("/v1/questions", json={"dataset": dataset, "query": MEAN}, headers=analyst.headers)
    sold = fair.buy(analyst, asked.json(), "1")
    assert (sold["receipt"]["price_minor"], sold["reading"]["type"]) == (0, "mean")
    product = fair.product(dataset, MEANS, tiers=LADDER)
    buyer = fair.person()
    quote = fair.quote(buyer, product, "1")
    path = f"/v1/products/{product['product']}/withdrawal"
    assert fair.client.post(path, json={"reason": "faulty"}, headers=fair.owner().headers).status_code == 201
    assert fair.order(buyer, quote).status_code == 409
    assert len(parse(*fair.export()).kind("withdrawal")) == 2
    verified(fair)


def test_only_holders_of_both_answers_read_a_mean(fair: Fair) -> None:
    product = fair.product(fair.dataset(), MEAN, tiers=LADDER)
    sold = fair.buy(fair.person(), product, "1")
    stranger = fair.person()
    assert reading(fair, stranger, product, sold["answer"]["law"]).status_code == 403
    assert reading(fair, stranger, product, "0" * 64).status_code == 404


@pytest.mark.parametrize(("question", "kind"), [(MEAN, "mean"), (MEDIAN, "quantile"), (REACHED, "threshold")])
def test_a_rehearsal_shows_the_shape_of_what_is_read(fair: Fair, question: dict[str, Any], kind: str) -> None:
    product = fair.product(fair.dataset(), question, tiers=LADDER)
    path = f"/v1/products/{product['product']}/rehearsal/reading"
    made = fair.client.post(path, json={"epsilon": "1"}, headers=fair.person().headers).json()
    assert (made["dummy"], made["reading"]["type"]) == (True, kind)
    assert made == fair.client.post(path, json={"epsilon": "1"}, headers=fair.person().headers).json()


def test_a_mean_is_refreshed_on_a_new_snapshot_at_its_whole_prices(fair: Fair) -> None:
    dataset = fair.dataset()
    product = fair.product(dataset, MEAN, tiers=LADDER)
    (fair.market.settings.data / "next.csv").write_text("person,city,amount,score,day\np1,Cork,1,1.5,2026-01-01\n")
    path, headers = f"/v1/datasets/{dataset}/snapshots", fair.owner().headers
    assert fair.client.post(path, json={"file": "next.csv"}, headers=headers).status_code == 201
    fresh = fair.client.post(f"/v1/products/{product['product']}/refresh", headers=headers).json()
    assert [tier["price_minor"] for tier in fresh["tiers"]] == [9001, 3000, 1001]
    assert [tier["epsilon"] for tier in fresh["tiers"]] == ["2", "1", "0.5"]
    assert fresh["chain"] != product["chain"]
    fair.buy(fair.person(), fresh, "0.5")
    verified(fair)


def test_the_auditor_finds_a_centred_sum_that_no_mean_of_the_schema_has(fair: Fair) -> None:
    fair.product(fair.dataset(), MEAN, tiers=LADDER)
    export = parse(*fair.export())
    plans = export.kind("product-plan")
    total = next(plan for plan in plans if '"type":"sum"' in plan["question"])
    question = json.loads(total["question"])
    question["ordering"] = question["ordering"][:1]
    total["question"] = json.dumps(question, sort_keys=True, separators=(",", ":"))
    assert {"A1 fingerprint"} <= found(export.signed_anew().verify())


def test_a_means_new_prices_are_shared_between_its_chains(fair: Fair) -> None:
    product = fair.product(fair.dataset(), MEAN, tiers=LADDER)
    buyer = fair.person()
    stale = fair.quote(buyer, product, "1")
    path, body = f"/v1/products/{product['product']}/prices", {"currency": "EUR", "prices_minor": [8000, 2001, 7]}
    fresh = fair.client.post(path, json=body, headers=fair.owner().headers).json()
    assert [tier["price_minor"] for tier in fresh["tiers"]] == [8000, 2001, 7]
    assert [tier["price_minor"] for tier in fresh["companion"]["tiers"]] == [3200, 801, 3]
    assert fair.order(buyer, stale).status_code == 409
    sold = fair.buy(buyer, product, "1", "again")
    assert sold["receipt"]["price_minor"] + sold["companion"]["receipt"]["price_minor"] == 2001
    verified(fair)
