"""The demo's panel: each aircraft's device reports its carrier, privately, and three buyers read three tiers of it."""

from pathlib import Path
from typing import Any

import msgspec

from app.demo.client import Person
from app.demo.flights import CARRIERS, Aircraft
from app.panels.device import encode

__all__ = ["PANEL", "PanelOutcome", "run_panel"]

_FILE = "carriers.ndjson"
PANEL: dict[str, Any] = {
    "title": "Aircraft by carrier, reported by the aircraft themselves",
    "domain": sorted(CARRIERS),
    "tiers": [
        {"epsilon": "4", "price_minor": 6_000},
        {"epsilon": "2", "price_minor": 2_500},
        {"epsilon": "1", "price_minor": 200},
    ],
    "currency": "EUR",
    "licence": "demo-terms/1",
    "budget": "8",
}
"""The panel as its owner opens it; the market never sees which carrier an aircraft has."""


class PanelOutcome(msgspec.Struct, frozen=True, kw_only=True):
    """What came of it: the listing, the delivery, and each buyer's order with the histogram read off its tier."""

    listing: dict[str, Any]
    delivery: dict[str, Any]
    sales: list[dict[str, Any]]


async def run_panel(
    owner: Person, buyers: list[tuple[Person, str]], data: Path, fleet: dict[str, Aircraft]
) -> PanelOutcome:
    """Open the panel, let every aircraft report once, close the round, and sell it to each buyer at an ε."""
    panel = await owner.post("/v1/panels", PANEL)
    (data / _FILE).write_bytes(_reports(panel, fleet))
    path = f"/v1/panels/{panel['panel']}"
    delivery = await owner.post(f"{path}/reports", {"version": 1, "round": 1, "file": _FILE})
    listing = await owner.post(f"{path}/close", {})
    sales = []
    for buyer, epsilon in buyers:
        wanted = {"round": 1, "epsilon": epsilon}
        quote = await buyer.post(f"{path}/quotes", wanted)
        accepted = {"quote": quote["quote"], "licence": quote["licence"]}
        order = await buyer.post(f"{path}/orders", accepted, **{"Idempotency-Key": f"panel-{epsilon}"})
        reading = await buyer.post(f"{path}/readings", wanted | {"reading": {"type": "histogram"}})
        sales.append({"buyer": buyer.name, "order": order, "reading": reading})
    return PanelOutcome(listing=listing, delivery=delivery, sales=sales)


def _reports(panel: dict[str, Any], fleet: dict[str, Aircraft]) -> bytes:
    """Every aircraft's report of the carrier of its first flight, encoded where only the device would see it."""
    size, places = len(panel["domain"]), {carrier: place for place, carrier in enumerate(panel["domain"])}
    rows = (
        {"device": tail, "report": encode(panel["device_law"], size, places[each.carrier])}
        for tail, each in fleet.items()
    )
    return b"".join(msgspec.json.encode(row) + b"\n" for row in rows)
