"""A person at the API: a key, and the few acts a scenario needs."""

import asyncio
import contextlib
import json
from typing import Any

import httpx

__all__ = ["ApiError", "Person"]


class ApiError(Exception):
    """A problem+json that came back."""

    def __init__(self, status: int, problem: dict[str, Any]) -> None:
        self.status, self.problem = status, problem
        super().__init__(f"{status}: {problem.get('detail')}")


class Person:
    """Someone with an API key."""

    def __init__(self, base: str, name: str, role: str, key: str, account: str = "") -> None:
        self.name, self.role, self.account = name, role, account
        self._base, self._key = base, key
        self._http = httpx.AsyncClient(base_url=base, headers={"Authorization": f"Bearer {key}"}, timeout=300)

    async def get(self, path: str) -> httpx.Response:
        """GET a path; raises ApiError on a refusal."""
        return _checked(await self._http.get(path))

    async def post(self, path: str, body: dict[str, Any], **headers: str) -> dict[str, Any]:
        """POST a body; raises ApiError on a refusal."""
        found: dict[str, Any] = _checked(await self._http.post(path, json=body, headers=headers)).json()
        return found

    async def quote(self, product: str, epsilon: str) -> dict[str, Any]:
        """Ask what a tier costs me now."""
        return await self.post("/v1/quotes", {"product": product, "epsilon": epsilon})

    async def buy(
        self, product: str, epsilon: str, *, key: str, quoted: dict[str, Any] | None = None
    ) -> dict[str, Any]:
        """Quote and order a tier."""
        quote = quoted or await self.quote(product, epsilon)
        return await self.post("/v1/orders", _accepting(quote), **{"Idempotency-Key": key})

    async def buy_bundle(self, bundle: str, *, key: str) -> dict[str, Any]:
        """Quote and order a whole bundle."""
        quote = await self.post(f"/v1/bundles/{bundle}/quotes", {})
        return await self.post("/v1/orders", _accepting(quote), **{"Idempotency-Key": key})

    async def ask_above(self, product: str, above: int, highest: str, *, key: str) -> dict[str, Any]:
        """Quote and order “is this count above X?”, looking no further than a tier."""
        quote = await self.post(f"/v1/products/{product}/threshold-quotes", {"above": above, "highest": highest})
        return await self.post("/v1/threshold-orders", _accepting(quote), **{"Idempotency-Key": key})

    async def order_and_hang_up(self, quoted: dict[str, Any], key: str) -> None:
        """Send an order and drop the connection before any answer can be read."""
        host, port = self._base.removeprefix("http://").split(":")
        reader, writer = await asyncio.open_connection(host, int(port))
        body = json.dumps(_accepting(quoted))
        lines = [
            "POST /v1/orders HTTP/1.1",
            f"Host: {host}",
            f"Authorization: Bearer {self._key}",
            f"Idempotency-Key: {key}",
            "Content-Type: application/json",
            f"Content-Length: {len(body)}",
        ]
        writer.write("\r\n".join([*lines, "", body]).encode())
        await writer.drain()
        await asyncio.sleep(0.05)
        writer.close()
        with contextlib.suppress(ConnectionError):
            await writer.wait_closed()
        del reader

    async def close(self) -> None:
        """Close the connections."""
        await self._http.aclose()


def _accepting(quoted: dict[str, Any]) -> dict[str, str]:
    """An order of what was quoted, under the licence that the quote names."""
    return {"quote": quoted["quote"], "licence": quoted["licence"]}


def _checked(response: httpx.Response) -> httpx.Response:
    if response.is_success:
        return response
    kind = response.headers.get("content-type", "")
    raise ApiError(response.status_code, response.json() if "json" in kind else {"detail": response.text[:200]})
