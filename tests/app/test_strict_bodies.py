"""Bodies mean what they say: text where a number is due is refused, on every route that the OpenAPI document has."""

import json
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest

from app.settings import Limits, Settings
from tests.conftest import Fair, open_fair

Path = tuple[Any, ...]
ANSWERS = {"integer": ["1", 1.5, True, None, [1]], "number": ["1", True], "boolean": ["true", 1, "1", 0]}


@pytest.fixture(scope="module")
def shop(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Fair]:
    yield from open_fair(replace(Settings.at(tmp_path_factory.mktemp("strict") / "market"), limits=Limits(0, 0, 0)))


def leaves(schema: dict[str, Any], schemas: dict[str, Any], seen: Path = ()) -> Iterator[tuple[Path, str]]:
    """Every number and truth value that a body may hold: the steps to it, tags with them, and its type."""
    if "$ref" in schema:
        name = schema["$ref"].rsplit("/", 1)[-1]
        if name not in seen:  # conditions hold conditions
            yield from leaves(schemas[name], schemas, (*seen, name))
    options = schema.get("anyOf", ())
    for option in options:
        if not any(each.get("type") == "string" for each in options):  # there, text is as good as a number
            yield from leaves(option, schemas, seen)
    kind = schema.get("type") or next((type(each).__name__ for each in schema.get("enum", ())), None)
    kind = {"int": "integer", "bool": "boolean", "float": "number"}.get(str(kind), kind)
    if kind in ANSWERS:
        yield (), str(kind)
    for at in schema.get("prefixItems", ()) or filter(None, [schema.get("items")]):
        if isinstance(at, dict):
            yield from (((0, *path), found) for path, found in leaves(at, schemas, seen))
    more = schema.get("additionalProperties")
    if isinstance(more, dict):
        yield from ((("acc_1", *path), found) for path, found in leaves(more, schemas, seen))
    properties = schema.get("properties", {})
    tags = {name: each["enum"][0] for name, each in properties.items() if name == "type" and "enum" in each}
    for name, each in properties.items():
        if name not in tags:
            yield from ((((name, tags), *path), found) for path, found in leaves(each, schemas, seen))


def body(path: Path, value: Any) -> Any:
    """The least body in which `value` stands at the end of the path, first to be read."""
    if not path:
        return value
    step, *rest = path
    inner = body(tuple(rest), value)
    if step == 0:
        return [inner]
    name, tags = (step, {}) if isinstance(step, str) else step
    return {**tags, name: inner}


def key_of(path: Path) -> str:
    names = ["[0]" if step == 0 else "[...]" if isinstance(step, str) else step[0] for step in path]
    return ".".join(names).replace(".[", "[")


def bodies(shop: Fair) -> list[tuple[str, str, str, Path, str]]:
    document = shop.client.get("/schema/openapi.json").json()
    schemas = document["components"]["schemas"]
    found = [
        (method.upper(), template, operation["x-roles"][0], path, kind)
        for template, methods in document["paths"].items()
        for method, operation in methods.items()
        if method in ("post", "put", "patch") and "requestBody" in operation
        for path, kind in leaves(operation["requestBody"]["content"]["application/json"]["schema"], schemas)
    ]
    return list({str(each): each for each in found}.values())


def test_no_number_of_any_body_is_taken_from_text(shop: Fair) -> None:
    people: dict[str, Any] = {"operator": shop.operator.headers}
    found = bodies(shop)
    assert {template for _, template, *_ in found} >= {"/v1/datasets", "/v1/products", "/v1/panels", "/v1/quotes"}
    assert len(found) >= 30, "the numbers of the document were not found"
    before = None
    for method, template, role, path, kind in found:
        if role not in people:
            people[role] = shop.person(role).headers
            before = shop.stored()
        target = template.replace("{", "").replace("}", "")
        for wrong in ANSWERS[kind]:
            got = shop.client.request(method, target, json=body(path, wrong), headers=people[role])
            told = (method, template, key_of(path), wrong, got.text)
            assert (got.status_code, got.headers["content-type"]) == (400, "application/problem+json"), told
            (error,) = got.json().get("errors", [{}])
            if wrong is None and error.get("key") != key_of(path):
                continue  # it may be left out
            assert (error["key"], error["source"]) == (key_of(path), "body"), told
            assert error["message"].startswith("Expected `"), told
    assert shop.stored() == before


def test_a_number_itself_is_read(shop: Fair) -> None:
    money = {"amount_minor": 100, "currency": "EUR", "reference": "r"}
    path, headers = f"/v1/accounts/{shop.person(deposit=0).account}/deposits", shop.operator.headers
    assert shop.client.post(path, json=money | {"amount_minor": "100"}, headers=headers).status_code == 400
    done = shop.client.post(path, json=money, headers=headers)
    assert (done.status_code, done.json()["balance_minor"]) == (201, 100)


@pytest.mark.parametrize(
    ("raw", "why"),
    [
        ('{"amount_minor": 1, "amount_minor": 1}', "a repeated key"),
        ('{"amount_minor": 1, "amount\\u005fminor": 1}', "a repeated key"),
        ('{"amount_minor": NaN}', "a number that JSON does not have"),
        ('{"amount_minor": -Infinity}', "a number that JSON does not have"),
        ('{"amount_minor": 1e400}', "something else"),
        ('{"amount_minor": 01}', "something else"),
        ('{"amount_minor": 1}{}', "something else"),
        ('{"amount_minor": 1.0}', "got `float`"),
        ('{"amount_minor": 1e2}', "got `float`"),
        ('{"amount_minor": ' + "9" * 40 + "}", "Expected `int`"),
        ('{"amount_minor": 9007199254740992}', "Expected `int` <= 9007199254740991"),
        ("[]", "Expected `object`, got `array`"),
        ("null", "Expected `object`, got `null`"),
    ],
)
def test_what_parsers_read_differently_is_refused(shop: Fair, raw: str, why: str) -> None:
    path = f"/v1/accounts/{shop.operator.account}/deposits"
    for sent in (raw, raw.replace("{", '{"currency": "EUR", "reference": "r", ', 1) if raw.startswith("{") else raw):
        got = shop.client.post(path, content=sent, headers=shop.operator.headers)
        assert (got.status_code, got.headers["content-type"]) == (400, "application/problem+json")
        assert why in got.text, got.text


def test_query_strings_stay_text(shop: Fair) -> None:
    assert shop.client.get("/v1/accounts?count=2", headers=shop.operator.headers).status_code == 200
    assert shop.client.get("/v1/accounts?count=two", headers=shop.operator.headers).status_code == 400
    assert shop.client.get("/v1/products?on_sale=true", headers=shop.operator.headers).status_code == 200


def test_a_route_without_a_body_reads_none_and_one_with_needs_it(shop: Fair) -> None:
    headers = shop.operator.headers
    assert shop.client.post("/v1/price-audits", json={"x": 1}, headers=headers).status_code == 202
    missing = shop.client.post("/v1/payouts", headers=headers)
    assert (missing.status_code, missing.headers["content-type"]) == (400, "application/problem+json")
    assert json.loads(missing.text)["type"].endswith("invalid-request")


@pytest.mark.parametrize(
    ("path", "wrong", "key", "why"),
    [
        ("/v1/panels", {"mechanism": "rr"}, "mechanism", "'randomized-response'"),
        ("/v1/datasets", {"columns": [{"name": "x", "type": "float"}]}, "columns[0].type", "'text'"),
        ("/v1/panels/p/readings", {"reading": {"type": "mode"}}, "reading.type", "'quantile'"),
        ("/v1/locations/l/quotes", {"question": {"type": "circle"}}, "question.type", "'disc'"),
        ("/v1/panels/p/reports", {"version": 2}, "version", "one of 1, got 2"),
    ],
)
def test_a_choice_that_is_none_is_told_what_the_choices_are(
    shop: Fair, path: str, wrong: dict[str, Any], key: str, why: str
) -> None:
    seller = path in ("/v1/panels", "/v1/datasets", "/v1/panels/p/reports")
    headers = shop.person("owner" if seller else "buyer").headers
    got = shop.client.post(path, json=wrong, headers=headers)
    (error,) = got.json()["errors"]
    assert (got.status_code, error["key"]) == (400, key)
    assert error["message"].startswith("Expected one of ")
    assert why in error["message"]
