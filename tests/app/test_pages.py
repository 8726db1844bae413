"""Lists in pages: walked one by one along their links they are what they are at once, and nobody else's."""

import asyncio
from typing import Any

import pytest

from app.audit.freezing import freeze
from app.audit.stopping import stop
from app.settings import Settings
from tests.app import locating, panelling, test_bundles
from tests.conftest import PEOPLE, Fair, Person, open_fair
from tests.contracts.test_lists import lists_of, schema_of
from tiers.audit.findings import Finding

OWN = {"/v1/dashboards": "dashboard", "/v1/datasets": "dataset", "/v1/accounts/{account}/keys": "key"}


@pytest.fixture(scope="module")
def shop(tmp_path_factory: pytest.TempPathFactory) -> Any:
    opened = open_fair(Settings.at(tmp_path_factory.mktemp("pages") / "market"))
    fair = next(opened)
    fill(fair)
    yield fair
    opened.close()


def fill(fair: Fair) -> None:
    """Three or more of everything that is listed, or two."""
    dataset = fair.dataset(budget="50")
    fair.dataset(name="more", table="person,city,amount,score,day\np,Cork,1,1,2026-01-01\n")
    first = fair.product(dataset, tiers=test_bundles.BOOK)
    second = fair.product(dataset, PEOPLE, tiers=test_bundles.HEADS)
    fair.product(dataset, PEOPLE, tiers=test_bundles.HEADS, state="draft")
    for price in (4500, 4400):
        test_bundles.compose(fair, (first, "1"), (second, "1"), price=price)
    buyer, analyst = fair._once("buyer"), fair._once("analyst")
    for product in (first, second):
        fair.buy(buyer, product, "1")
    panelling.opened(fair)
    panelling.opened(fair, title="Colours again")
    for name in ("places", "elsewhere"):
        locating.opened(fair, name)
    board = {"tiles": [{"product": first["product"], "epsilon": "1", "title": "t"}]}
    for name in ("one", "two", "three"):
        made = fair.client.post("/v1/dashboards", json=board | {"name": name}, headers=analyst.headers)
        assert made.status_code == 201, made.text
    path = f"/v1/accounts/{buyer.account}/keys"
    fair.client.post(path, json={"label": "laptop"}, headers=fair.operator.headers)
    for kind in ("csv", "json"):
        what = {"what": {"type": "answers", "format": kind}}
        fair.client.post("/v1/exports", json=what, headers=buyer.headers)
        fair.client.post("/v1/audits", headers=fair.operator.headers)
        fair.client.blocking_portal.call(asyncio.gather, *fair.market.jobs._running.values())
    found = [Finding("A4", "r", "", "", "", chain=each["chain"]) for each in (first, second)]
    of_log = [Finding("A4", "r", "log", "", "")]
    fair.market.database.submit(lambda c: stop(c, fair.market.keyring, of_log, "gate", "2026-01-01")).result()
    fair.market.database.submit(lambda c: freeze(c, fair.market.keyring, found, "gate", "2026-01-01")).result()


def documented(fair: Fair) -> dict[str, dict[str, Any]]:
    return lists_of(fair.client.get("/schema/openapi.json").json())


def reader_of(fair: Fair, operation: dict[str, Any]) -> Person:
    """Somebody who may read a list and has something in it."""
    for role in ("owner", "buyer", "analyst", "operator", "auditor"):
        if role in operation["x-roles"] and not (role == "owner" and len(operation["x-roles"]) == 5):
            return fair.operator if role == "operator" else fair._once(role)
    raise AssertionError(operation)


def path_of(fair: Fair, template: str) -> str:
    listed = fair.client.get("/v1/datasets", headers=fair.owner().headers).json()
    dataset = next(each for each in listed if each["name"] == "people")
    return template.format(account=fair._once("buyer").account, dataset=dataset["dataset"])


def walked(fair: Fair, path: str, who: Person) -> list[Any]:
    found: list[Any] = []
    following: str | None = path
    while following is not None:
        got = fair.client.get(following, headers=who.headers)
        assert got.status_code == 200, got.text
        assert len(got.json()) <= 1
        assert len(found) < 200, "the links go on and on"
        found += got.json()
        following = got.links.get("next", {}).get("url")
    return found


def test_every_list_of_the_document_is_whole_along_its_links(shop: Fair) -> None:
    paged = {path: each for path, each in documented(shop).items() if "maxItems" not in schema_of(each)}
    assert {"/v1/datasets", "/v1/datasets/{dataset}/products", "/v1/dashboards", "/v1/frozen-chains"} <= set(paged)
    for template, operation in paged.items():
        path, who = path_of(shop, template), reader_of(shop, operation)
        whole = shop.client.get(f"{path}?count=200", headers=who.headers)
        assert len(whole.json()) >= 2, f"{template}: nothing to page through"
        assert "next" not in whole.links
        assert walked(shop, f"{path}?count=1", who) == whole.json(), template
        assert shop.client.get(f"{path}?count=100000", headers=who.headers).status_code == 400
        assert shop.client.get(f"{path}?page=2", headers=who.headers).status_code == 400


@pytest.mark.parametrize(("template", "name"), OWN.items())
def test_a_cursor_is_of_the_list_that_it_came_from(shop: Fair, template: str, name: str) -> None:
    operation = documented(shop)[template]
    path, who = path_of(shop, template), reader_of(shop, operation)
    last = shop.client.get(path, headers=who.headers).json()[0][name]
    assert shop.client.get(f"{path}?after={last}", headers=who.headers).status_code == 200
    stranger, other = who, path
    if "{account}" in template:
        other = template.format(account=shop.person().account)
    else:
        stranger = shop.person(who.role)
    for cursor in (last, f"{name}_nobody"):
        assert shop.client.get(f"{other}?after={cursor}", headers=stranger.headers).status_code == 400
    assert shop.client.get("/v1/datasets", headers=shop.person("owner").headers).json() == []


@pytest.mark.parametrize(
    ("listing", "rows", "name", "thaw"),
    [("/v1/frozen-chains", "frozen", "chain", "/v1/chains"), ("/v1/stopped-panels", "stopped", "panel", "/v1/panels")],
)
def test_a_thaw_shows_the_first_page_of_what_stays_so(
    shop: Fair, monkeypatch: pytest.MonkeyPatch, listing: str, rows: str, name: str, thaw: str
) -> None:
    from app.routes import audits

    headers = shop.operator.headers
    everything = shop.client.get(listing, headers=headers).json()
    names = {f"c{place}" for place in range(60)}
    left = [
        each | {name: one, "leaf_index": place} for place, one in enumerate(sorted(names)) for each in everything[:1]
    ]
    monkeypatch.setattr(
        audits, rows, lambda _, *, after, count: [row for row in left if row["leaf_index"] > after][:count]
    )
    done = shop.client.post(f"{thaw}/{everything[0][name]}/thaw", json={"reason": "r"}, headers=headers)
    assert (done.status_code, len(done.json())) == (201, 50)
    rest = shop.client.get(done.links["next"]["url"], headers=headers).json()
    assert {row[name] for row in done.json() + rest} == names
