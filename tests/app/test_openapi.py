"""The API's document holds for every role: no 5xx, documented statuses, types and bodies only, whatever is sent."""

import asyncio
import json
import random
from collections.abc import Iterator
from typing import Any

import pytest
import schemathesis
from hypothesis import HealthCheck, Phase, given, seed
from hypothesis import settings as examples
from schemathesis.checks import CHECKS

from app import errors as app_errors
from app import wire
from app.settings import Settings
from tests.app.test_simulator import MEAN
from tests.conftest import HISTOGRAM, PEOPLE, TOTAL, Fair, open_fair

ROLES = ("owner", "buyer", "analyst", "auditor", "operator", "nobody")
HELD = ("status_code_conformance", "content_type_conformance", "response_schema_conformance", "not_a_server_error")
SLOW = {
    "/v1/datasets": ("POST", 3),
    "/v1/price-audits": ("POST", 1),
    "/v1/audit/export": ("GET", 2),
    "/v1/questions": ("POST", 3),
}


@pytest.fixture(scope="module")
def shop(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Fair]:
    yield from open_fair(Settings.at(tmp_path_factory.mktemp("openapi") / "market"))


@pytest.fixture(scope="module")
def document(shop: Fair) -> dict[str, Any]:
    return dict(shop.client.get("/schema/openapi.json").json())


@pytest.fixture(scope="module")
def world(shop: Fair) -> dict[str, Any]:
    """People of every role, and things that exist: half of the requests are about them."""
    dataset = shop.dataset(budget="50", adhoc=["1"])
    product = shop.product(dataset)
    buyer, analyst = shop.person(), shop.person("analyst")
    sold, asked = shop.buy(buyer, product, "1"), shop.buy(analyst, product, "0.5")
    victim = shop.person()
    headers = shop.operator.headers
    (key,) = shop.client.get(f"/v1/accounts/{victim.account}/keys", headers=headers).json()
    tiles = [{"product": product["product"], "epsilon": "0.5", "title": "t"}]
    made = shop.client.post("/v1/dashboards", json={"name": "n", "tiles": tiles}, headers=analyst.headers)
    kept = made.json()["dashboard"]
    job = shop.client.post("/v1/price-audits", headers=headers).json()["job"]
    mean = shop.product(dataset, MEAN)
    draft = shop.product(dataset, TOTAL, state="draft")
    question = {"dataset": dataset, "query": PEOPLE}
    inside = shop.client.post("/v1/questions", json=question, headers=analyst.headers).json()
    products = [product, mean, mean["companion"], draft, inside]
    return {
        "keys": {
            "owner": shop.owner().headers,
            "buyer": buyer.headers,
            "analyst": analyst.headers,
            "auditor": shop.person("auditor").headers,
            "operator": headers,
            "nobody": {},
        },
        "ids": {
            "export": [exported(shop, analyst)],
            "account": [victim.account],
            "dataset": [dataset],
            "product": [each["product"] for each in products],
            "order": [sold["receipt"]["order"], asked["receipt"]["order"]],
            "job": [job],
            "dashboard": [kept],
            "key": [key["key"]],
            "chain": [sold["answer"]["chain"]],
            "law": [sold["answer"]["law"], asked["answer"]["law"]],
            "quote": [shop.quote(buyer, product, "0.1"), shop.quote(analyst, product, "0.1")],
        },
    }


def exported(shop: Fair, who: Any) -> str:
    asked = shop.client.post("/v1/exports", json={"what": {"type": "answers"}}, headers=who.headers).json()["job"]
    shop.client.blocking_portal.call(asyncio.gather, *shop.market.jobs._running.values())
    return str(shop.client.get(f"/v1/jobs/{asked}", headers=who.headers).json()["result"]["export"])


def known(value: Any, ids: dict[str, list[str]], rng: random.Random, name: str = "") -> Any:
    """A copy in which half of the ids are of things that exist."""
    if isinstance(value, dict):
        return {key: known(inner, ids, rng, key) for key, inner in value.items()}
    if isinstance(value, list):
        return [known(inner, ids, rng) for inner in value]
    return rng.choice(ids[name]) if name in ids and isinstance(value, str) and rng.random() < 0.5 else value


def fuzz(shop: Fair, world: dict[str, Any], document: dict[str, Any], role: str, own: int, others: int) -> int:
    """Send generated requests to every operation as one role; return how many were sent."""
    schema = schemathesis.openapi.from_dict(document)
    sent = 0
    for found in schema.get_all_operations():
        operation = found.ok()
        allowed = document["paths"][operation.path][operation.method]["x-roles"]
        count = own if role in allowed or not allowed else others
        method, most = SLOW.get(operation.path, ("", count))
        count = min(count, most) if method == operation.method.upper() else count
        sent += fuzz_operation(shop, world, operation, role, count)
    return sent


def fuzz_operation(shop: Fair, world: dict[str, Any], operation: Any, role: str, count: int) -> int:
    checks, sent = CHECKS.get_by_names(list(HELD)), [0]
    rng = random.Random(f"{role} {operation.label}")
    quiet = list(HealthCheck)

    @seed(7)
    @examples(max_examples=count, deadline=None, database=None, phases=[Phase.generate], suppress_health_check=quiet)
    @given(case=operation.as_strategy())
    def send(case: Any) -> None:
        sent[0] += 1
        case.path_parameters = known(case.path_parameters or {}, world["ids"], rng)
        if isinstance(case.body, dict):
            case.body = known(case.body, world["ids"], rng)
        raw = case.as_transport_kwargs(base_url="http://testserver.local")
        raw = {key: value for key, value in raw.items() if key not in ("timeout", "cookies")}
        if "data" in raw:
            raw["content"] = raw.pop("data")
        raw["headers"] = dict(raw["headers"]) | world["keys"][role]
        response = shop.client.request(**raw)
        case.validate_response(response, checks=checks)

    send()
    return sent[0]


@pytest.mark.parametrize("role", ROLES)
def test_every_operation_keeps_to_the_document(
    shop: Fair, world: dict[str, Any], document: dict[str, Any], role: str
) -> None:
    assert fuzz(shop, world, document, role, own=6, others=1) >= len(document["paths"])


@pytest.mark.long
@pytest.mark.parametrize("role", ROLES)
def test_every_operation_keeps_to_the_document_at_length(
    shop: Fair, world: dict[str, Any], document: dict[str, Any], role: str
) -> None:
    fuzz(shop, world, document, role, own=150, others=10)


# --- the document itself ----------------------------------------------------------------------------------------------


def operations(document: dict[str, Any]) -> list[tuple[str, str, dict[str, Any]]]:
    return [(method, path, body) for path, methods in document["paths"].items() for method, body in methods.items()]


def test_request_bodies_are_closed_and_patterns_are_of_no_one_dialect(document: dict[str, Any]) -> None:
    schemas = document["components"]["schemas"]
    for name in wire.__all__:
        if name.endswith("Request"):
            assert schemas[name]["additionalProperties"] is False, name
    assert "\\Z" not in json.dumps(document)


def test_every_path_parameter_has_a_pattern_and_a_404(document: dict[str, Any]) -> None:
    for _, path, operation in operations(document):
        named = [parameter for parameter in operation["parameters"] if parameter["in"] == "path"]
        assert len(named) == path.count("{"), path
        assert all(parameter["schema"]["pattern"] for parameter in named)
        assert not named or "404" in operation["responses"], path


def test_every_refusal_is_a_problem_of_a_named_kind(document: dict[str, Any]) -> None:
    kinds = {kind for kind, _ in app_kinds()}
    for method, path, operation in operations(document):
        assert operation["description"], path
        for status, response in operation["responses"].items():
            if status[0] in "45" and (path, status) != ("/health/ready", "503"):
                (media, content), *none = response["content"].items()
                assert (media, none) == ("application/problem+json", []), (method, path)
                named = content["schema"]["allOf"][1]["properties"]["type"]["enum"]
                assert all(name.startswith("https://") for name in named)
                assert named
    assert kinds


def test_ids_of_operations_are_unique(document: dict[str, Any]) -> None:
    ids = [operation["operationId"] for _, _, operation in operations(document)]
    assert len(ids) == len(set(ids))


def app_kinds() -> set[tuple[str, int]]:
    """Kind and status of every error of the service."""
    import app.engines.errors  # noqa: F401 - its errors join the tree

    found, todo = set(), [app_errors.AppError]
    while todo:
        error = todo.pop()
        found.add((error.kind, error.status))
        todo += error.__subclasses__()
    return found


def test_the_real_answer_of_each_route_matches_its_schema(shop: Fair, document: dict[str, Any]) -> None:
    product, buyer = shop.product(shop.dataset(name="again", table=_other()), HISTOGRAM), shop.person()
    sold = shop.buy(buyer, product, "1")
    schema = document["paths"]["/v1/orders"]["post"]["responses"]["201"]["content"]["application/json"]["schema"]
    assert schema == {"$ref": "#/components/schemas/PlacedView"}
    assert set(document["components"]["schemas"]["PlacedView"]["required"]) == set(sold)
    answered = document["components"]["schemas"]["AnswerView"]
    assert set(answered["required"]) == set(sold["answer"])


def _other() -> str:
    return "person,city,amount,score,day\n" + "".join(f"q{n},Cork,{n},1.5,2026-01-02\n" for n in range(50))
