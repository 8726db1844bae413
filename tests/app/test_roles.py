"""Who may do what: every route of the OpenAPI document against every role, and against nobody."""

from typing import Any

import pytest
from litestar import get

from app.settings import Settings
from tests.conftest import open_fair

ALL = {"owner", "buyer", "analyst", "auditor", "operator"}
MATRIX: dict[tuple[str, str], set[str]] = {
    ("POST", "/v1/accounts"): {"operator"},
    ("POST", "/v1/accounts/{account}/deposits"): {"operator"},
    ("GET", "/v1/account"): ALL,
    ("GET", "/v1/account/postings"): ALL,
    ("GET", "/v1/accounts"): {"operator"},
    ("GET", "/v1/accounts/{account}"): {"operator"},
    ("GET", "/v1/accounts/{account}/keys"): {"operator"},
    ("POST", "/v1/accounts/{account}/keys"): {"operator"},
    ("DELETE", "/v1/accounts/{account}/keys/{key}"): {"operator"},
    ("POST", "/v1/accounts/{account}/suspension"): {"operator"},
    ("DELETE", "/v1/accounts/{account}/suspension"): {"operator"},
    ("GET", "/metrics"): {"operator"},
    ("POST", "/v1/datasets"): {"owner"},
    ("GET", "/v1/datasets/{dataset}"): {"owner"},
    ("GET", "/v1/datasets"): {"owner"},
    ("GET", "/v1/datasets/{dataset}/products"): {"owner"},
    ("POST", "/v1/accounts/{account}/ceiling"): {"operator"},
    ("DELETE", "/v1/dashboards/{dashboard}"): {"analyst"},
    ("POST", "/v1/products"): {"owner"},
    ("GET", "/v1/products"): ALL,
    ("GET", "/v1/products/{product}"): ALL,
    ("POST", "/v1/products/{product}/rehearsal"): {"buyer", "analyst", "owner"},
    ("POST", "/v1/products/{product}/rehearsal/reading"): {"buyer", "analyst", "owner"},
    ("GET", "/v1/datasets/{dataset}/dictionary"): ALL,
    ("GET", "/v1/orders"): {"buyer", "analyst"},
    ("GET", "/v1/entitlements"): {"buyer", "analyst"},
    ("POST", "/v1/products/{product}/withdrawal"): {"owner"},
    ("POST", "/v1/quotes"): {"buyer", "analyst"},
    ("POST", "/v1/orders"): {"buyer", "analyst"},
    ("GET", "/v1/orders/{order}"): {"buyer", "analyst"},
    ("GET", "/v1/products/{product}/readings/{law}"): {"buyer", "analyst"},
    ("GET", "/v1/answers/{chain}/{law}"): {"buyer", "analyst"},
    ("POST", "/v1/datasets/{dataset}/contract"): {"owner"},
    ("GET", "/v1/datasets/{dataset}/rules"): {"owner"},
    ("POST", "/v1/datasets/{dataset}/snapshots"): {"owner"},
    ("POST", "/v1/products/{product}/refresh"): {"owner"},
    ("POST", "/v1/products/{product}/state"): {"owner"},
    ("POST", "/v1/products/{product}/prices"): {"owner"},
    ("POST", "/v1/locations"): {"owner"},
    ("GET", "/v1/locations"): ALL,
    ("GET", "/v1/locations/{location}"): ALL,
    ("GET", "/v1/locations/{location}/ledger"): {"owner"},
    ("POST", "/v1/locations/{location}/state"): {"owner"},
    ("POST", "/v1/locations/{location}/quotes"): {"buyer"},
    ("POST", "/v1/locations/{location}/orders"): {"buyer"},
    ("GET", "/v1/locations/{location}/answers/{question}"): {"buyer"},
    ("GET", "/v1/locations/{location}/replay"): {"auditor"},
    ("POST", "/v1/panels"): {"owner"},
    ("POST", "/v1/panels/{panel}/state"): {"owner"},
    ("GET", "/v1/panels"): ALL,
    ("GET", "/v1/panels/{panel}"): ALL,
    ("POST", "/v1/panels/{panel}/quotes"): {"buyer", "analyst"},
    ("POST", "/v1/panels/{panel}/reports"): {"owner"},
    ("POST", "/v1/panels/{panel}/close"): {"owner"},
    ("POST", "/v1/panels/{panel}/orders"): {"buyer", "analyst"},
    ("POST", "/v1/panels/{panel}/readings"): {"buyer", "analyst"},
    ("GET", "/v1/panels/{panel}/rounds/{round}/tiers/{tier}/reports"): {"buyer", "analyst"},
    ("GET", "/v1/panels/{panel}/rounds/{round}/replay"): {"auditor"},
    ("POST", "/v1/bundles"): {"owner"},
    ("GET", "/v1/bundles"): ALL,
    ("GET", "/v1/bundles/{bundle}"): ALL,
    ("POST", "/v1/bundles/{bundle}/price"): {"owner"},
    ("POST", "/v1/bundles/{bundle}/state"): {"owner"},
    ("GET", "/v1/bundles/{bundle}/verdict"): {"owner"},
    ("POST", "/v1/bundles/{bundle}/quotes"): {"buyer", "analyst"},
    ("GET", "/v1/bundle-orders/{order}"): {"buyer", "analyst"},
    ("POST", "/v1/products/{product}/threshold-quotes"): {"buyer", "analyst"},
    ("POST", "/v1/threshold-orders"): {"buyer", "analyst"},
    ("GET", "/v1/threshold-orders/{order}"): {"buyer", "analyst"},
    ("POST", "/v1/questions"): {"analyst"},
    ("POST", "/v1/dashboards"): {"analyst"},
    ("GET", "/v1/dashboards"): {"analyst"},
    ("GET", "/v1/dashboards/{dashboard}"): {"analyst"},
    ("GET", "/v1/earnings"): {"owner"},
    ("POST", "/v1/payouts"): {"operator"},
    ("POST", "/v1/orders/{order}/credits"): {"operator"},
    ("GET", "/v1/orders/{order}/invoice"): {"buyer", "analyst"},
    ("POST", "/v1/price-simulations"): {"owner"},
    ("POST", "/v1/price-audits"): {"owner", "operator"},
    ("GET", "/v1/products/{product}/verdict"): {"owner"},
    ("POST", "/v1/datasets/{dataset}/tier-caps"): {"owner"},
    ("POST", "/v1/products/{product}/subscription-floor"): {"owner"},
    ("POST", "/v1/exports"): {"buyer", "analyst", "owner", "auditor"},
    ("GET", "/v1/exports"): {"buyer", "analyst", "owner", "auditor"},
    ("GET", "/v1/exports/{export}"): {"buyer", "analyst", "owner", "auditor"},
    ("DELETE", "/v1/exports/{export}"): {"buyer", "analyst", "owner", "auditor"},
    ("GET", "/v1/jobs"): ALL,
    ("GET", "/v1/jobs/{job}"): ALL,
    ("GET", "/v1/log/head"): ALL,
    ("GET", "/v1/log/leaves"): {"auditor", "operator"},
    ("GET", "/v1/log/proofs/inclusion"): ALL,
    ("GET", "/v1/log/proofs/consistency"): ALL,
    ("GET", "/v1/audit/export"): {"auditor"},
    ("POST", "/v1/audits"): {"auditor", "operator"},
    ("GET", "/v1/audits"): {"auditor", "operator"},
    ("GET", "/v1/audits/{report}"): {"auditor", "operator"},
    ("GET", "/v1/audits/{report}/page"): {"auditor", "operator"},
    ("GET", "/v1/frozen-chains"): {"auditor", "operator"},
    ("POST", "/v1/chains/{chain}/thaw"): {"operator"},
    ("GET", "/v1/stopped-panels"): {"auditor", "operator"},
    ("POST", "/v1/panels/{panel}/thaw"): {"operator"},
    ("POST", "/v1/panels/{panel}/tiers"): {"owner"},
    ("GET", "/v1/panels/{panel}/spending"): {"owner"},
    ("GET", "/v1/orders/{order}/proof"): {"buyer", "analyst"},
}
PUBLIC = {
    ("GET", "/"),
    ("GET", "/static/site.css"),
    ("GET", "/v1/keys"),
    ("GET", "/health/live"),
    ("GET", "/health/ready"),
}


@pytest.fixture(scope="module")
def shop(tmp_path_factory: pytest.TempPathFactory) -> Any:
    yield from open_fair(Settings.at(tmp_path_factory.mktemp("roles") / "market"))


def routes(shop: Any) -> set[tuple[str, str]]:
    paths = shop.client.get("/schema/openapi.json").json()["paths"]
    return {(method.upper(), path) for path, methods in paths.items() for method in methods}


def test_the_matrix_names_every_route_and_no_other(shop: Any) -> None:
    assert routes(shop) == set(MATRIX) | PUBLIC


def test_the_document_names_the_roles_that_the_matrix_does(shop: Any) -> None:
    paths = shop.client.get("/schema/openapi.json").json()["paths"]
    for (method, path), roles in MATRIX.items():
        operation = paths[path][method.lower()]
        assert set(operation["x-roles"]) == roles, (method, path)
        assert operation["security"] == [{"key": []}]
    assert all(paths[path][method.lower()]["security"] == [] for method, path in PUBLIC)


def test_each_route_serves_its_roles_and_refuses_the_others_and_strangers(shop: Any) -> None:
    people = {role: shop.person(role) for role in ALL}
    for (method, template), allowed in MATRIX.items():
        path = template.replace("{", "").replace("}", "")
        for role, person in people.items():
            status = shop.client.request(method, path, headers=person.headers, json={}).status_code
            if role in allowed:
                assert status not in (401, 403) or template.startswith("/v1/answers"), (method, template, role, status)
            else:
                assert status == 403, (method, template, role, status)
        for header in ({}, {"Authorization": "Bearer tm_wrong"}, {"Authorization": "Basic x"}):
            assert shop.client.request(method, path, headers=header, json={}).status_code == 401


def test_a_route_that_names_no_role_serves_nobody(shop: Any) -> None:
    @get("/v1/forgotten", include_in_schema=False)
    async def forgotten() -> str:
        return "open"

    shop.client.app.register(forgotten)
    for role in ALL:
        assert shop.client.get("/v1/forgotten", headers=shop.person(role).headers).status_code == 403
    assert shop.client.get("/v1/forgotten").status_code == 401


def test_public_routes_need_no_key_and_hold_no_answer(shop: Any) -> None:
    product = shop.product(shop.dataset())
    sold = shop.buy(shop.person(), product, "2")
    for method, path in PUBLIC:
        response = shop.client.request(method, path)
        assert response.status_code == 200
        assert '"values"' not in response.text
        assert str(sold["opening"]) not in response.text


def test_other_peoples_things_are_not_there(shop: Any) -> None:
    dataset = shop.dataset(name="mine", table="person,city,amount,score,day\np1,Athens,1,1.0,2026-01-01\n")
    other = shop.person("owner")
    product = shop.product(dataset)
    sold = shop.buy(shop.person(), product, "1")
    stranger = shop.person()
    body = shop.product_body(dataset)
    checks = [
        shop.client.get(f"/v1/datasets/{dataset}", headers=other.headers),
        shop.client.post("/v1/products", json=body, headers=other.headers),
        shop.client.post(
            f"/v1/products/{product['product']}/withdrawal", json={"reason": "mine now"}, headers=other.headers
        ),
        shop.client.get(f"/v1/orders/{sold['receipt']['order']}", headers=stranger.headers),
        shop.client.get(f"/v1/orders/{sold['receipt']['order']}/invoice", headers=stranger.headers),
        shop.client.post(
            f"/v1/datasets/{dataset}/contract", json={"owners": {other.account: 1}}, headers=other.headers
        ),
    ]
    assert [check.status_code for check in checks] == [404] * 6
    answer = f"/v1/answers/{sold['answer']['chain']}/{sold['answer']['law']}"
    for accept in ("application/json", "text/csv", "application/vnd.apache.parquet"):
        assert shop.client.get(answer, headers=stranger.headers | {"Accept": accept}).status_code == 403
    for path in ("/v1/orders", "/v1/entitlements"):
        assert shop.client.get(path, headers=stranger.headers).json() == []
    audit = shop.client.post("/v1/price-audits", headers=other.headers).json()["job"]
    assert shop.client.get(f"/v1/jobs/{audit}", headers=stranger.headers).status_code == 404


def test_an_api_key_is_stored_as_a_keyed_hash_and_shown_once(shop: Any) -> None:
    person = shop.person()
    settings = shop.market.settings
    heap = b"".join(path.read_bytes() for path in settings.state.glob("market.db*"))
    assert person.key.encode() not in heap
    assert "api_key" not in shop.client.get("/v1/account", headers=person.headers).json() or (
        shop.client.get("/v1/account", headers=person.headers).json()["api_key"] is None
    )


def test_a_secret_has_no_text(shop: Any) -> None:
    for secret in (shop.market.keyring,):
        assert repr(secret) == "Keyring(<secret>)"
        assert str(secret) == "Keyring(<secret>)"
