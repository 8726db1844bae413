"""What two readers could understand in two ways is refused: repeated headers, unknown names, JSON at its edges."""

import json
from typing import Any

import pytest

from tests.conftest import LICENCE, PEOPLE, Fair, Person


def sent(
    fair: Fair, method: str, path: str, headers: list[tuple[str, str]], body: bytes = b""
) -> tuple[int, dict[str, Any]]:
    """Send a request with its headers as they are (clients put equal ones together), and return status and JSON."""
    raw = [(name.lower().encode(), value.encode()) for name, value in headers]
    scope = {
        "type": "http",
        "http_version": "1.1",
        "method": method,
        "path": path,
        "raw_path": path.encode(),
        "root_path": "",
        "scheme": "http",
        "query_string": b"",
        "headers": [*raw, (b"content-length", str(len(body)).encode())],
        "client": ("127.0.0.1", 1),
        "server": ("127.0.0.1", 80),
        "extensions": {},
        "state": {},
    }
    got: list[Any] = []

    async def receive() -> dict[str, Any]:
        return {"type": "http.request", "body": body, "more_body": False}

    async def send(message: Any) -> None:
        got.append(message)

    async def ask() -> None:
        await fair.client.app(scope, receive, send)  # type: ignore[arg-type]

    fair.client.blocking_portal.call(ask)
    whole = b"".join(message.get("body", b"") for message in got)
    return got[0]["status"], json.loads(whole)


def test_of_two_keys_in_one_request_neither_counts(fair: Fair) -> None:
    product = fair.product(fair.dataset())
    buyer, stranger = fair.person(), fair.person()
    sold = fair.buy(buyer, product, "1")
    path = f"/v1/answers/{sold['answer']['chain']}/{sold['answer']['law']}"
    mine, theirs = (("Authorization", f"Bearer {who.key}") for who in (buyer, stranger))
    for pair in ([mine, theirs], [theirs, mine], [mine, mine]):
        for target in ("/v1/account", path):
            assert sent(fair, "GET", target, pair)[0] == 401
    assert sent(fair, "GET", path, [mine])[1] == sold["answer"]


def test_of_two_idempotency_keys_neither_counts(fair: Fair) -> None:
    product, buyer = fair.product(fair.dataset()), fair.person()
    body = {"quote": fair.quote(buyer, product, "1"), "licence": LICENCE}
    before = fair.stored()
    keys = [("Idempotency-Key", "a"), ("Idempotency-Key", "b"), *buyer.headers.items()]
    status, problem = sent(fair, "POST", "/v1/orders", keys, json.dumps(body).encode())
    assert (status, problem["detail"]) == (400, "Idempotency-Key: expected one, got several")
    assert fair.stored() == before


def test_a_name_in_the_query_string_that_says_nothing_is_refused_everywhere(fair: Fair) -> None:
    dataset = fair.dataset()
    product, buyer = fair.product(dataset), fair.person()
    sold = fair.buy(buyer, product, "1")
    answer = f"/v1/answers/{sold['answer']['chain']}/{sold['answer']['law']}"

    def status(who: Person, method: str, target: str, body: Any = None) -> int:
        return fair.client.request(method, target, json=body, headers=who.headers).status_code

    for who, target in (
        (buyer, "/v1/account"),
        (buyer, "/v1/log/head"),
        (buyer, answer),
        (buyer, f"/v1/products/{product['product']}"),
        (buyer, f"/v1/orders/{sold['receipt']['order']}"),
        (buyer, "/v1/orders"),
        (fair.owner(), f"/v1/datasets/{dataset}"),
        (fair.operator, "/metrics"),
    ):
        assert status(who, "GET", target) == 200
        for query in ("x=1", "fromat=csv", "format=csv&x", "=", "%", "%00=1"):
            assert status(who, "GET", f"{target}?{query}") == 400, (target, query)
    before = fair.stored()
    quote = {"product": product["product"], "epsilon": "1"}
    assert status(buyer, "POST", "/v1/quotes?dry_run=true", quote) == 400
    assert fair.stored() == before
    assert status(buyer, "GET", f"{answer}?format=csv") == 200
    assert status(buyer, "GET", f"{answer}?%66ormat=csv") == 200, "the same name, written otherwise"


@pytest.mark.parametrize(
    "raw",
    [
        b'{"product": "p", "epsilon": 1e999}',
        b'{"product": "p", "epsilon": -1e999}',
        b'{"product": "p", "epsilon": "\\ud800"}',
        b'{"product": "p", "epsilon": "\\udc00\\ud800"}',
        b'{"product": "p", "epsilon": "\xed\xa0\x80"}',
        b'\xef\xbb\xbf{"product": "p", "epsilon": "1"}',
        '{"product": "p", "epsilon": "1"}'.encode("utf-16"),
        '{"product": "p", "epsilon": "1"}'.encode("utf-32-le"),
    ],
)
def test_json_that_one_parser_takes_and_another_does_not_is_no_json(fair: Fair, raw: bytes) -> None:
    headers = fair.person().headers | {"Content-Type": "application/json"}
    refused = fair.client.post("/v1/quotes", content=raw, headers=headers)
    assert (refused.status_code, refused.json()["detail"]) == (400, "body: expected JSON, got something else")


def test_a_tier_is_named_by_a_number_however_it_is_written(fair: Fair) -> None:
    """1 and 1.0 are one ε for a quote, a search, a rehearsal and a dashboard; what is no number is refused by each."""
    product = fair.product(fair.dataset(adhoc=["1"]), PEOPLE)["product"]
    buyer, analyst = fair.person(), fair.person("analyst")

    def asked(epsilon: str) -> list[int]:
        named = {"product": product, "epsilon": epsilon}
        tiles = {"name": "n", "tiles": [named | {"title": "t"}]}
        client = fair.client
        return [
            client.post("/v1/quotes", json=named, headers=buyer.headers).status_code // 100,
            client.get("/v1/products", params={"epsilon": epsilon}, headers=buyer.headers).status_code // 100,
            client.post(
                f"/v1/products/{product}/rehearsal", json={"epsilon": epsilon}, headers=buyer.headers
            ).status_code
            // 100,
            client.post("/v1/dashboards", json=tiles, headers=analyst.headers).status_code // 100,
        ]

    for epsilon in ("1", "1.0", "01.00"):
        assert asked(epsilon) == [2, 2, 2, 2], epsilon
    for epsilon in ("NaN", "1e0", "1 ", "１"):
        assert asked(epsilon) == [4, 4, 4, 4], epsilon
