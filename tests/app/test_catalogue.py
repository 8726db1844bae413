"""Finding, reading about and rehearsing what is on sale: public words only, pages that never shift, no data touched."""

import re
from typing import Any

import pytest

from app.engine.release import ReleaseEngine
from app.engine.snapshots import SnapshotFiles
from app.keyring import Keyring
from tests.conftest import CITIES, HISTOGRAM, PEOPLE, TOTAL, Fair, Person, tiers


def find(fair: Fair, who: Person, query: str = "") -> Any:
    return fair.client.get(f"/v1/products?{query}", headers=who.headers)


def titles(fair: Fair, who: Person, query: str = "") -> list[str]:
    response = find(fair, who, query)
    assert response.status_code == 200, response.text
    return [product["title"] for product in response.json()]


@pytest.fixture
def stocked(fair: Fair) -> tuple[Fair, Person, str]:
    dataset = fair.dataset(description="Persons of the ÉTÉ survey")
    fair.product(dataset, title="Rows by city", description="A histogram")
    fair.product(dataset, PEOPLE, title="100% of people", tiers=tiers(("2", 400), ("0.5", 100)))
    fair.product(dataset, TOTAL, title="Total_amount", tiers=tiers(("1", 90)))
    return fair, fair.person(), dataset


def test_words_are_found_in_titles_descriptions_and_datasets_whatever_their_case(
    stocked: tuple[Fair, Person, str],
) -> None:
    fair, who, _ = stocked
    assert titles(fair, who) == ["Rows by city", "100% of people", "Total_amount"]
    assert titles(fair, who, "q=CITY") == ["Rows by city"]
    assert titles(fair, who, "q=histogram rows") == ["Rows by city"]
    assert titles(fair, who, "q=histogram people total") == []
    assert len(titles(fair, who, "q=%C3%A9t%C3%A9")) == 3
    assert len(titles(fair, who, "q=e%CC%81te%CC%81")) == 3
    for wild, matched in (("%25", ["100% of people"]), ("_", ["Total_amount"]), ("'", []), ("%5C", [])):
        assert titles(fair, who, f"q={wild}") == matched, "wildcards are letters"


def test_one_tier_must_meet_both_price_and_accuracy(stocked: tuple[Fair, Person, str]) -> None:
    fair, who, dataset = stocked
    assert titles(fair, who, "epsilon=0.5") == ["Rows by city", "100% of people"]
    assert titles(fair, who, "epsilon=0.5&max_price_minor=100") == ["100% of people"]
    assert titles(fair, who, "epsilon=2.0&max_price_minor=399") == []
    assert titles(fair, who, "max_price_minor=90") == ["Total_amount"]
    assert titles(fair, who, "currency=USD") == []
    assert len(titles(fair, who, f"dataset={dataset}")) == 3
    assert titles(fair, who, "dataset=data_other") == []


def test_on_sale_means_that_the_budget_still_admits_a_tier(fair: Fair) -> None:
    dataset, who = fair.dataset(budget="2"), fair.person()
    first = fair.product(dataset, title="first")
    fair.product(dataset, PEOPLE, title="second", tiers=tiers(("1", 10)))
    gone = fair.product(dataset, TOTAL, title="third", tiers=tiers(("1", 10)))
    path = f"/v1/products/{gone['product']}/withdrawal"
    fair.client.post(path, json={"reason": "wrong"}, headers=fair.owner().headers)
    assert titles(fair, who, "on_sale=true") == ["first", "second"]
    fair.buy(who, first, "2")
    assert titles(fair, who, "on_sale=true") == ["first"], "tiers at or below the highest issued stay on sale"
    assert titles(fair, who, "on_sale=false") == ["second", "third"]
    assert titles(fair, who) == ["first", "second"]
    assert {product["budget_state"] for product in find(fair, who).json()} == {"exhausted"}


def test_pages_show_each_product_once_while_others_are_published(stocked: tuple[Fair, Person, str]) -> None:
    fair, who, dataset = stocked
    seen, path = [], "/v1/products?count=1&q=e"
    while path:
        response = fair.client.get(path, headers=who.headers)
        seen += [product["title"] for product in response.json()]
        link = re.fullmatch(r'<(.+)>; rel="next"', response.headers.get("link", ""))
        path = link.group(1) if link else ""
        if len(seen) == 1:
            fair.product(dataset, PEOPLE | {"where": {"type": "is_null", "column": "score"}}, title="Late")
            assert "q=e" in path
    assert seen == ["Rows by city", "100% of people", "Total_amount", "Late"]


@pytest.mark.parametrize(
    "query",
    ["count=0", "count=201", "count=x", "after=-2", "after=9" * 4, "max_price_minor=-1", "epsilon=0.1%0A", "on_sale=2",
     "q=a&q=b", "sort=price", "dataset=X%21", "currency=eur", "q=%00", "q=" + "a" * 201, "after=99999999999999999999"],
)  # fmt: skip
def test_a_bad_search_is_one_clear_problem(stocked: tuple[Fair, Person, str], query: str) -> None:
    fair, who, _ = stocked
    response = find(fair, who, query)
    assert response.status_code == 400, query
    assert response.json()["type"].endswith("/invalid-request")


def test_a_link_holds_nothing_that_ends_a_header(stocked: tuple[Fair, Person, str]) -> None:
    fair, who, _ = stocked
    response = find(fair, who, "count=1&q=%0d%0aSet-Cookie:%20a=b%20%3E")
    assert response.status_code == 200
    response = find(fair, who, "count=1&q=%20%0d%0a%20e")
    assert "\n" not in response.headers["link"]
    assert "set-cookie" not in response.headers


# --- dictionaries --------------------------------------------------------------------------------------------------


def test_a_dictionary_says_what_was_declared_and_no_more(stocked: tuple[Fair, Person, str]) -> None:
    fair, who, dataset = stocked
    found = fair.client.get(f"/v1/datasets/{dataset}/dictionary", headers=who.headers).json()
    assert found["columns"][0] == {"name": "person", "type": "text", "id": "person"}
    assert len(found["columns"]) == 5
    assert (found["unit"], found["ordering"]) == ("person", ["day", "amount"])
    assert (found["max_rows_per_unit"], found["max_groups_per_unit"]) == (10, 3)
    assert found["budget_state"] == "enough"
    assert set(found) == {
        "dataset", "name", "title", "description", "notice", "columns", "unit", "adjacency", "ordering",
        "max_rows_per_unit", "max_groups_per_unit", "budget_state",
    }  # fmt: skip
    assert "people.csv" not in str(found)


def test_a_dictionary_is_its_owners_until_something_is_published(fair: Fair) -> None:
    dataset, who = fair.dataset(), fair.person()
    path = f"/v1/datasets/{dataset}/dictionary"
    assert fair.client.get(path, headers=who.headers).status_code == 404
    assert fair.client.get(path, headers=fair.person("owner").headers).status_code == 404
    assert fair.client.get(path, headers=fair.owner().headers).status_code == 200
    fair.product(dataset)
    assert fair.client.get(path, headers=who.headers).status_code == 200


def test_the_budget_has_three_states_and_buyers_see_no_number(fair: Fair) -> None:
    dataset, who = fair.dataset(budget="5"), fair.person()
    path = f"/v1/datasets/{dataset}/dictionary"
    products = [fair.product(dataset), fair.product(dataset, PEOPLE), fair.product(dataset, TOTAL)]
    seen = []
    for product, epsilon in zip(products, ("2", "2", "1"), strict=True):
        seen.append(fair.client.get(path, headers=who.headers).json()["budget_state"])
        fair.buy(who, product, epsilon)
    seen.append(fair.client.get(path, headers=who.headers).json()["budget_state"])
    assert seen == ["enough", "enough", "enough", "exhausted"]
    listing = find(fair, who).json()[0]
    assert not {"budget", "spent", "remaining"} & set(listing)


def test_a_budget_with_less_than_a_tenth_left_is_nearly_exhausted() -> None:
    from app.ledger.budget import budget_state

    states = [budget_state(100, spent) for spent in (0, 90, 91, 99, 100)]
    assert states == ["enough", "enough", "nearly exhausted", "nearly exhausted", "exhausted"]


def test_drafts_and_analysts_questions_are_shown_to_nobody_who_may_not_see_them(fair: Fair) -> None:
    dataset, who, analyst = fair.dataset(adhoc=["1", "0.5"]), fair.person(), fair.person("analyst")
    path = f"/v1/datasets/{dataset}/dictionary"
    draft = fair.product(dataset, title="Draft", state="draft")
    body = {"dataset": dataset, "query": PEOPLE, "title": "Asked"}
    asked = fair.client.post("/v1/questions", json=body, headers=analyst.headers).json()
    for query in ("", "on_sale=true", "on_sale=false", "q=draft", "q=asked"):
        assert titles(fair, who, query) == titles(fair, analyst, query) == []
    assert fair.client.get(path, headers=who.headers).status_code == 404
    assert fair.client.get(path, headers=analyst.headers).status_code == 200, "they are let to ask"
    assert rehearse(fair, who, draft).status_code == rehearse(fair, who, asked).status_code == 404
    assert rehearse(fair, fair.person("owner"), draft).status_code == 404
    assert rehearse(fair, fair.owner(), draft).status_code == 200
    assert rehearse(fair, analyst, asked).status_code == 200


# --- rehearsals ----------------------------------------------------------------------------------------------------


def rehearse(fair: Fair, who: Person, product: dict[str, Any], accept: str = "*/*", **body: str) -> Any:
    path = f"/v1/products/{product['product']}/rehearsal"
    return fair.client.post(path, json=body, headers=who.headers | {"Accept": accept})


@pytest.mark.parametrize("query", [HISTOGRAM, PEOPLE, TOTAL])
def test_a_rehearsal_has_the_shape_of_the_answer_and_says_that_it_is_dummy(fair: Fair, query: dict[str, Any]) -> None:
    product, who = fair.product(fair.dataset(), query), fair.person()
    dummy = rehearse(fair, who, product, epsilon="1")
    assert dummy.status_code == 200
    assert dummy.headers["x-tiermarket-dummy"] == "true"
    real = fair.buy(who, product, "1")["answer"]
    found = dummy.json()
    assert found["dummy"] is True
    assert "dummy" in found["notice"].lower()
    assert set(found) == {*real, "dummy", "notice"}
    same = ("chain", "law", "keys", "epsilon", "half_width", "grain_exponent", "snapshot", "confidence")
    assert {name: found[name] for name in same} == {name: real[name] for name in same}
    assert len(found["values"]) == len(real["values"])
    assert query is not TOTAL or found["values"] != real["values"], "short numbers may agree by chance, long ones not"
    assert rehearse(fair, fair.person(), product, epsilon="1").json() == found, "one dummy for everybody"
    assert rehearse(fair, who, product).json()["epsilon"] == "2"


def test_a_rehearsal_reads_no_data_and_no_secret_and_stores_nothing(
    fair: Fair, monkeypatch: pytest.MonkeyPatch
) -> None:
    product, who = fair.product(fair.dataset()), fair.person()
    fair.client.get("/v1/account", headers=who.headers)  # so that the caller is known, and the pepper not needed
    before = fair.stored()

    def forbidden(*_: object, **__: object) -> None:
        raise AssertionError("a rehearsal must not come here")

    for kind, names in (
        (ReleaseEngine, ("compute", "install", "unseal", "open", "replay_key")),
        (SnapshotFiles, ("truth",)),
        (Keyring, ("owner_secret", "seal", "unseal", "signer")),
    ):
        for name in names:
            monkeypatch.setattr(kind, name, forbidden)
    monkeypatch.setattr(fair.market.database, "write", forbidden)
    for file in fair.market.settings.snapshots.iterdir():
        file.unlink()
    for accept in ("application/json", "text/csv", "application/vnd.apache.arrow.stream"):
        assert rehearse(fair, who, product, accept, epsilon="0.5").status_code == 200
    assert fair.stored() == before


def test_a_rehearsal_comes_in_every_format_and_is_marked_in_each(fair: Fair) -> None:
    import pyarrow as pa

    product, who = fair.product(fair.dataset()), fair.person()
    arrow = rehearse(fair, who, product, "application/vnd.apache.arrow.stream", epsilon="1")
    table = pa.ipc.open_stream(arrow.content).read_all()
    assert table.schema.metadata[b"dummy"] == b"true"
    assert table.column("key").to_pylist() == sorted(CITIES)
    csv = rehearse(fair, who, product, "text/csv", epsilon="1")
    assert csv.headers["content-type"] == "text/csv; header=present; charset=utf-8"
    assert csv.headers["x-tiermarket-dummy"] == "true"
    assert csv.text.startswith("key,value,lower,upper,epsilon\r\n")
    assert rehearse(fair, who, product, "image/png", epsilon="1").status_code == 406


@pytest.mark.parametrize("body", [{"epsilon": "3"}, {"law": "0" * 64}])
def test_a_tier_that_is_not_offered_cannot_be_rehearsed(fair: Fair, body: dict[str, str]) -> None:
    product, who = fair.product(fair.dataset()), fair.person()
    assert rehearse(fair, who, product, **body).status_code == 404


# --- holdings ------------------------------------------------------------------------------------------------------


def test_orders_and_entitlements_are_listed_in_pages_for_their_holder_alone(fair: Fair) -> None:
    dataset, who, other = fair.dataset(), fair.person(), fair.person()
    products = [fair.product(dataset), fair.product(dataset, PEOPLE)]
    sold = [fair.buy(who, products[0], "0.5"), fair.buy(who, products[0], "1"), fair.buy(who, products[1], "1")]
    fair.buy(other, products[0], "1")
    for path, name in (("/v1/orders", "order"), ("/v1/entitlements", "order")):
        seen, at = [], f"{path}?count=2"
        while at:
            response = fair.client.get(at, headers=who.headers)
            seen += response.json()
            link = re.fullmatch(r'<(.+)>; rel="next"', response.headers.get("link", ""))
            at = link.group(1) if link else ""
        assert [row[name] for row in seen] == [order["receipt"]["order"] for order in sold]
        assert [row["epsilon"] for row in seen] == ["0.5", "1", "1"]
        assert not any("values" in row for row in seen)
    for row in seen:
        assert fair.client.get(row["answer"], headers=who.headers).status_code == 200
    assert len(fair.client.get("/v1/orders", headers=other.headers).json()) == 1
