"""A body that ends before it is whole is the client's doing: 400, no alarm, and nothing stored."""

import asyncio
import json
from typing import Any

import pytest

from tests.conftest import Fair


@pytest.mark.parametrize("first", [b"", b'{"quote": '])
def test_a_client_that_hangs_up_in_its_body_is_no_error_of_ours(fair: Fair, first: bytes) -> None:
    buyer = fair.person()
    quote = fair.quote(buyer, fair.product(fair.dataset()), "1")
    before = fair.stored()
    headers = {"authorization": f"Bearer {buyer.key}", "idempotency-key": "k", "content-type": "application/json"}
    scope: dict[str, Any] = {
        "type": "http",
        "http_version": "1.1",
        "method": "POST",
        "scheme": "http",
        "path": "/v1/orders",
        "raw_path": b"/v1/orders",
        "query_string": b"",
        "root_path": "",
        "server": ("test", 80),
        "client": ("127.0.0.1", 1),
        "headers": [(name.encode(), value.encode()) for name, value in headers.items()],
        "state": {},
    }
    coming: list[dict[str, Any]] = [
        {"type": "http.request", "body": first, "more_body": True},
        {"type": "http.disconnect"},
    ]
    sent: list[dict[str, Any]] = []

    async def receive() -> dict[str, Any]:
        return coming.pop(0) if coming else await asyncio.Event().wait()  # type: ignore[return-value]

    async def send(message: dict[str, Any]) -> None:
        sent.append(message)

    async def act() -> None:
        await fair.client.app(scope, receive, send)  # type: ignore[arg-type]

    fair.client.blocking_portal.call(act)
    assert sent[0]["status"] == 400, sent
    assert b"expected the whole of it" in sent[1]["body"]
    assert fair.stored() == before
    assert fair.order(buyer, quote).status_code == 201, "the key is still free"


@pytest.mark.parametrize("kind", ["text/plain", "multipart/form-data; boundary=x", "application/x-www-form-urlencoded"])
def test_a_body_that_says_it_is_no_json_is_refused(fair: Fair, kind: str) -> None:
    quote = {"product": fair.product(fair.dataset())["product"], "epsilon": "1"}
    raw, key = json.dumps(quote).encode(), fair.person().headers
    before = fair.stored()
    response = fair.client.post("/v1/quotes", content=raw, headers=key | {"Content-Type": kind})
    assert response.status_code == 400, response.text
    assert "application/json" in response.json()["detail"]
    assert fair.stored() == before
    for good in ({}, {"Content-Type": "application/json; charset=utf-8"}):
        assert fair.client.post("/v1/quotes", content=raw, headers=key | good).status_code == 201
