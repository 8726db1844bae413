"""Means on the live catalogue: judged as the packs they are sold in, refused by name, and never left uncompared."""

from typing import Any

import pytest

from app.catalog.arbitrage import live_offers, offer_of
from tests.app.test_verdicts import finish, verdict
from tests.conftest import CITIES, Fair, tiers

MEASURE = {
    "type": "mean",
    "column": "score",
    "centre": "1",
    "lower": "-16",
    "upper": "16",
    "grain_exponent": -2,
    "sum_share": "0.6",
}
BY_CITY: dict[str, Any] = {"measure": MEASURE, "group_by": {"type": "keys", "column": "city", "keys": CITIES}}
WHERE = {"type": "in", "column": "city", "values": CITIES}
ALL = {"measure": MEASURE, "where": WHERE}
KNOWN = {"type": "not", "operand": {"type": "is_null", "column": "score"}}
COUNT = {"measure": {"type": "count", "of": "rows"}, "where": {"type": "and", "operands": [WHERE, KNOWN]}}
LADDER = tiers(("1", 3000), ("0.5", 1201))


@pytest.fixture
def rows_of_nobody(fair: Fair) -> str:
    return fair.dataset(unit=None, ordering=[], max_rows_per_unit=1, max_groups_per_unit=1)


def published(fair: Fair, dataset: str, query: dict[str, Any], *priced: tuple[str, int], title: str = "Mean") -> Any:
    body = fair.product_body(dataset, query, title=title, tiers=tiers(*priced))
    return fair.client.post("/v1/products", json=body, headers=fair.owner().headers)


def reprice(fair: Fair, product: str, *prices: int) -> Any:
    body = {"currency": "EUR", "prices_minor": prices}
    return fair.client.post(f"/v1/products/{product}/prices", json=body, headers=fair.owner().headers)


def move(fair: Fair, product: str, state: str) -> Any:
    return fair.client.post(f"/v1/products/{product}/state", json={"state": state}, headers=fair.owner().headers)


def test_a_mean_is_on_the_shelf_as_a_pack_a_tier_and_its_chains_have_no_price_of_their_own(
    fair: Fair, rows_of_nobody: str
) -> None:
    product = fair.product(rows_of_nobody, BY_CITY, title="By city", tiers=LADDER)
    assert product["arbitrage"] == product["companion"]["arbitrage"] == "safe"
    shelf = fair.market.database.read_now(live_offers)
    assert [(pack.title, pack.price) for pack in shelf.packs] == [("By city @ ε 1", 3000), ("By city @ ε 0.5", 1201)]
    assert [[price for _, _, price in offer.tiers] for offer in shelf.offers] == [[None, None], [None, None]]
    assert {chain for pack in shelf.packs for chain, _ in pack.parts} == {offer.chain for offer in shelf.offers}


def test_a_mean_dearer_than_what_gives_both_its_parts_is_refused_by_name(fair: Fair, rows_of_nobody: str) -> None:
    """Case 33 for a mean: the sum and the count of all cities are in the table by city, bought once for both."""
    fair.product(rows_of_nobody, BY_CITY, title="By city", tiers=LADDER)
    before = fair.stored()
    refused = published(fair, rows_of_nobody, ALL, ("0.1", 1202))
    assert (refused.status_code, refused.json()["reason"]) == (409, "arbitrage")
    found = refused.json()
    assert (found["good"], found["price_minor"], found["bundle"], found["cost_minor"]) == (
        "Mean @ ε 0.1",
        1202,
        ["By city @ ε 0.5"],
        1201,
    )
    assert fair.stored() == before
    fine = published(fair, rows_of_nobody, ALL, ("0.1", 1201))
    assert (fine.status_code, fine.json()["arbitrage"]) == (201, "safe")
    assert verdict(fair, fine.json()["product"]).json()["verdict"] == "safe"
    dearer = reprice(fair, fine.json()["product"], 1202)
    assert (dearer.status_code, dearer.json()["bundle"]) == (409, ["By city @ ε 0.5"])
    assert reprice(fair, fine.json()["product"], 1000).status_code == 201


def test_a_table_of_means_that_would_give_a_dearer_mean_is_refused_with_it(fair: Fair, rows_of_nobody: str) -> None:
    fair.product(rows_of_nobody, ALL, title="All", tiers=tiers(("0.1", 4000)))
    refused = published(fair, rows_of_nobody, BY_CITY, ("1", 3999), title="By city")
    assert (refused.status_code, refused.json()["good"], refused.json()["bundle"]) == (
        409,
        "All @ ε 0.1",
        ["By city @ ε 1"],
    )
    assert published(fair, rows_of_nobody, BY_CITY, ("1", 4000), title="By city").json()["arbitrage"] == "safe"


def test_a_count_dearer_than_the_mean_that_holds_it_is_refused(fair: Fair, rows_of_nobody: str) -> None:
    fair.product(rows_of_nobody, BY_CITY, title="By city", tiers=LADDER)
    refused = published(fair, rows_of_nobody, COUNT, ("0.1", 1202), title="Count")
    assert (refused.status_code, refused.json()["good"], refused.json()["bundle"]) == (
        409,
        "Count @ ε 0.1",
        ["By city @ ε 0.5"],
    )
    assert published(fair, rows_of_nobody, COUNT, ("0.1", 1201), title="Count").json()["arbitrage"] == "safe"


def test_a_part_that_is_also_sold_alone_has_its_books_price(fair: Fair, rows_of_nobody: str) -> None:
    mean = fair.product(rows_of_nobody, ALL, title="All", tiers=tiers(("1", 1000), ("0.5", 400)))
    count = published(fair, rows_of_nobody, COUNT, ("0.2", 160), title="Count")
    assert (count.status_code, count.json()["chain"]) == (201, mean["companion"]["chain"])
    shelf = fair.market.database.read_now(live_offers)
    tiers_of = {offer.chain: offer.tiers for offer in shelf.offers}
    assert [(name, price) for name, _, price in tiers_of[count.json()["chain"]]] == [
        ("Count @ ε 0.2", 160),
        ("part of All @ ε 0.4", None),
    ]
    held = dict(shelf.packs[1].parts)
    assert (shelf.packs[1].title, held[count.json()["chain"]]) == ("All @ ε 0.5", "Count @ ε 0.2")
    dearer = fair.market.database.read_now(lambda connection: offer_of(connection, mean["product"]))
    assert dearer.shelf == shelf
    changed = reprice(fair, count.json()["product"], 500, 200)
    assert changed.status_code == 201
    after = fair.market.database.read_now(live_offers)
    assert [pack.price for pack in after.packs] == [1100, 440], "a mean costs what its parts' books say"


def test_a_mean_back_on_sale_is_judged_again_and_off_sale_bears_on_nothing(fair: Fair, rows_of_nobody: str) -> None:
    by_city = fair.product(rows_of_nobody, BY_CITY, title="By city", tiers=LADDER)["product"]
    assert move(fair, by_city, "retired").status_code == 201
    assert fair.market.database.read_now(live_offers).packs == ()
    dear = published(fair, rows_of_nobody, ALL, ("0.1", 4000))
    assert (dear.status_code, dear.json()["arbitrage"]) == (201, "safe")
    refused = move(fair, by_city, "live")
    assert (refused.status_code, refused.json()["good"]) == (409, "Mean @ ε 0.1")
    assert reprice(fair, dear.json()["product"], 1201).status_code == 201
    assert move(fair, by_city, "live").json()["arbitrage"] == "safe"


def test_an_audit_judges_means_too(fair: Fair, rows_of_nobody: str, monkeypatch: pytest.MonkeyPatch) -> None:
    from app.catalog import shelf

    fair.product(rows_of_nobody, BY_CITY, title="By city", tiers=LADDER)
    monkeypatch.setattr(shelf, "check_catalogue", lambda *_, **__: [])  # a leak that got past publication
    leak = fair.product(rows_of_nobody, ALL, title="All", tiers=tiers(("0.1", 4000)))["product"]
    monkeypatch.undo()
    headers = fair.operator.headers
    done = finish(fair, fair.client.post("/v1/price-audits", headers=headers).json()["job"], headers)
    assert (done["result"]["verdict"], done["result"]["changed_meanwhile"]) == ("arbitrage", [])
    seen = verdict(fair, leak).json()
    assert (seen["verdict"], seen["good"], seen["bundle"], seen["cost_minor"]) == (
        "arbitrage",
        "All @ ε 0.1",
        ["By city @ ε 0.5"],
        1201,
    )


def test_means_of_one_title_are_told_apart(fair: Fair, rows_of_nobody: str) -> None:
    fair.product(rows_of_nobody, ALL, title="Mean", tiers=tiers(("0.5", 500)))
    second = published(fair, rows_of_nobody, BY_CITY, ("0.5", 600))
    assert (second.status_code, second.json()["arbitrage"]) == (201, "safe")
    one, other = fair.market.database.read_now(live_offers).packs
    assert (one.title, other.title) == ("Mean @ ε 0.5", f"Mean @ ε 0.5 ({second.json()['product'][-8:]})")


def test_a_means_verdict_is_found_again_when_its_counts_book_changes(fair: Fair, rows_of_nobody: str) -> None:
    """The mean costs what its parts' books say: a dearer count makes it dear, and what was found before says nothing."""
    by_city = fair.product(rows_of_nobody, BY_CITY, title="By city", tiers=LADDER)["product"]
    mean = fair.product(rows_of_nobody, ALL, title="All", tiers=tiers(("0.1", 1000)))["product"]
    count = published(fair, rows_of_nobody, COUNT, ("0.04", 400), title="Count").json()["product"]
    assert verdict(fair, mean).json()["verdict"] == "safe"
    assert reprice(fair, count, 600).status_code == 201
    seen = verdict(fair, mean).json()
    assert (seen["verdict"], seen["at"]) == ("safe", verdict(fair, count).json()["at"])
    assert verdict(fair, by_city).json()["at"] == seen["at"], "and of what stands beside them"
    assert reprice(fair, count, 602).status_code == 201
    seen = verdict(fair, mean).json()
    assert (seen["verdict"], seen["reason"]) == (
        "uncertified",
        "each part can be had for less than the whole; whether all can is not settled",
    ), "600 + 602 is more than the 1201 of the table by city"
    listing = fair.client.get(f"/v1/products/{mean}", headers=fair.owner().headers).json()
    assert listing["arbitrage"] == "uncertified"
    assert verdict(fair, count).json()["verdict"] == "safe", "each has its own"


def test_a_verdict_is_found_again_when_something_goes_on_sale_that_it_did_not_know(
    fair: Fair, rows_of_nobody: str
) -> None:
    """The histogram by score bears on the sum of scores in ways that are not compared: safe it was, before."""
    summed = {"measure": {"type": "sum", "column": "score", "lower": "0", "upper": "5", "grain_exponent": 0}}
    alone = fair.product(rows_of_nobody, summed | {"where": WHERE}, title="Sum", tiers=tiers(("1", 3000)))["product"]
    assert verdict(fair, alone).json()["verdict"] == "safe"
    edges = {"type": "bins", "column": "score", "edges": [-3, 0, 1, 2], "below": "kept", "above": "kept"}
    query = {"measure": {"type": "count", "of": "rows"}, "group_by": edges}
    body = fair.product_body(rows_of_nobody, query, title="By score", tiers=tiers(("1", 10)), state="draft")
    draft = fair.client.post("/v1/products", json=body, headers=fair.owner().headers).json()["product"]
    assert verdict(fair, alone).json()["verdict"] == "safe", "a draft bears on nothing"
    assert move(fair, draft, "live").status_code == 201
    seen = verdict(fair, alone).json()
    assert (seen["verdict"], "By score" in seen["reason"]) == ("uncertified", True)
    listing = fair.client.get(f"/v1/products/{alone}", headers=fair.owner().headers).json()
    assert listing["arbitrage"] == "uncertified"


def test_verdicts_beside_a_write_that_time_did_not_suffice_for_are_not_called_safe(
    fair: Fair, rows_of_nobody: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    from app.catalog import checking
    from app.catalog.shelf import rulings_around
    from pricing.limit import Limit

    by_city = fair.product(rows_of_nobody, BY_CITY, title="By city", tiers=LADDER)["product"]
    late = Limit(seconds_left=lambda: 0.0)
    monkeypatch.setattr(checking, "rulings_around", lambda proposal, _limit: rulings_around(proposal, late))
    fair.product(rows_of_nobody, ALL, title="All", tiers=tiers(("0.1", 1000)))
    seen = verdict(fair, by_city).json()
    assert (seen["verdict"], seen["reason"]) == ("uncertified", "out of time before it was settled")
