"""What tests of panels do over HTTP: open, report, close, buy, read, disclose."""

import json
from collections.abc import Callable
from typing import Any

from app.panels.device import encode, label_of
from tests.conftest import Fair, Person, tiers
from tiers.sampling.words import KeyedWords

DOMAIN = ["red", "green", "blue", "black", "white"]
LICENCE = "terms/1"


def body(**fields: Any) -> dict[str, Any]:
    return {
        "title": "Colours",
        "domain": DOMAIN,
        "tiers": tiers(("3", 900), ("1.5", 300), ("0.5", 100)),
        "currency": "EUR",
        "licence": "terms/1",
        "budget": "6",
    } | fields


def opened(shop: Fair, **fields: Any) -> dict[str, Any]:
    response = shop.client.post("/v1/panels", json=body(**fields), headers=shop.owner().headers)
    assert response.status_code == 201, response.text
    return dict(response.json())


def stream(seed: int) -> Callable[[int], bytes]:
    """A keyed stream in place of a device's random bytes."""
    words, at = KeyedWords(seed.to_bytes(32, "big")), 0

    def read(count: int) -> bytes:
        nonlocal at
        buffer = bytearray(-(-(at % 64 + count) // 64) * 64 + 64)
        words.read_into(at - at % 64, at % 64 + count, buffer)
        at += count
        return bytes(buffer[(at - count) % 64 :][:count])

    return read


def rows(panel: dict[str, Any], values: list[int], seed: int = 1, first: int = 0) -> list[dict[str, Any]]:
    """Everybody's device at work, with a keyed stream in place of the system's."""
    read = stream(seed)
    law, size, named = panel["device_law"], panel.get("domain_size") or len(panel["domain"]), panel.get("panel", "")
    return [
        {"device": f"d{place}", "report": encode(law, size, value, read, label=label_of(named, f"d{place}"))}
        for place, value in enumerate(values, start=first)
    ]


def deliver(shop: Fair, panel: dict[str, Any], **fields: Any) -> Any:
    sent = {"version": 1, "round": 1} | fields
    return shop.client.post(f"/v1/panels/{panel['panel']}/reports", json=sent, headers=shop.owner().headers)


def close(shop: Fair, panel: dict[str, Any]) -> Any:
    return shop.client.post(f"/v1/panels/{panel['panel']}/close", headers=shop.owner().headers)


def quoted(shop: Fair, who: Person, panel: dict[str, Any], epsilon: str, round_number: int = 1) -> Any:
    sent = {"round": round_number, "epsilon": epsilon}
    return shop.client.post(f"/v1/panels/{panel['panel']}/quotes", json=sent, headers=who.headers)


def order(shop: Fair, who: Person, panel: dict[str, Any], quote: str, key: str, **fields: Any) -> Any:
    sent = {"quote": quote, "licence": LICENCE} | fields
    headers = who.headers | {"Idempotency-Key": key}
    return shop.client.post(f"/v1/panels/{panel['panel']}/orders", json=sent, headers=headers)


def buy(shop: Fair, who: Person, panel: dict[str, Any], epsilon: str, round_number: int = 1) -> Any:
    """Quote and order, under a key of the tier's own; a refused quote is what comes back."""
    asked = quoted(shop, who, panel, epsilon, round_number)
    if asked.status_code != 201:
        return asked
    return order(shop, who, panel, asked.json()["quote"], f"{panel['panel']}-{round_number}-{epsilon}")


def reading(shop: Fair, who: Person, panel: dict[str, Any], epsilon: str, wanted: dict[str, Any]) -> Any:
    sent = {"round": 1, "epsilon": epsilon, "reading": wanted}
    return shop.client.post(f"/v1/panels/{panel['panel']}/readings", json=sent, headers=who.headers)


def reports(shop: Fair, who: Person, panel: dict[str, Any], rank: int) -> Any:
    return shop.client.get(f"/v1/panels/{panel['panel']}/rounds/1/tiers/{rank}/reports", headers=who.headers)


def lines(response: Any) -> list[Any]:
    return [json.loads(line) for line in response.content.splitlines()]


def disclosure(shop: Fair, panel: dict[str, Any], round_number: int = 1) -> tuple[list[bytes], str]:
    """An auditor's file of a round, line by line, and the market's public key."""
    path = f"/v1/panels/{panel['panel']}/rounds/{round_number}/replay"
    response = shop.client.get(path, headers=shop._once("auditor").headers)
    assert response.status_code == 200, response.text
    return response.content.splitlines(), shop.client.get("/v1/keys").json()["signing"]["1"]
