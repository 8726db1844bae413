"""What tests of location panels do over HTTP: a dataset of one row a person, a panel on it, questions, disclosures."""

import json
from typing import Any

import numpy as np

from tests.conftest import LICENCE, Fair, Person

CENTRE = {"type": "disc", "centre": ["50", "50"], "radius": "20"}
COLUMNS = [{"name": "id", "type": "text"}, {"name": "x", "type": "real"}, {"name": "y", "type": "real"}]


def points(people: int = 40, seed: int = 5) -> np.ndarray:
    """People spread over the box of 100 by 100."""
    return np.random.default_rng(seed).uniform(0, 100, (people, 2)).round(3)


def table(rows: Any, named: str) -> str:
    """People of their own for each dataset: the same ones may be in no two."""
    return "id,x,y\n" + "".join(f"{named}-{place},{x},{y}\n" for place, (x, y) in enumerate(rows))


def dataset(shop: Fair, name: str, text: str, **fields: Any) -> str:
    given = {"columns": COLUMNS, "unit": "id", "ordering": [], "max_rows_per_unit": 1, "max_groups_per_unit": 1}
    return shop.dataset(name=name, table=text, **(given | fields))


def body(dataset_id: str, **fields: Any) -> dict[str, Any]:
    return {
        "dataset": dataset_id,
        "title": "A city",
        "axes": [{"column": "x", "low": "0", "high": "100"}, {"column": "y", "low": "0", "high": "100"}],
        "grain": "0.01",
        "unit": "km",
        "budget": "10",
        "query_budget": "4",
        "rounds": 6,
        "prices": {"range": 900, "density": 500, "nearest": 700},
        "currency": "EUR",
        "licence": LICENCE,
    } | fields


def opened(shop: Fair, name: str, rows: Any = None, keep_in: str | None = None, **fields: Any) -> dict[str, Any]:
    given = {} if keep_in is None else {"keep_in": keep_in}
    made = dataset(shop, name, table(points() if rows is None else rows, name), **given)
    response = shop.client.post("/v1/locations", json=body(made, **fields), headers=shop.owner().headers)
    assert response.status_code == 201, response.text
    return dict(response.json()["opened"])


def quoted(shop: Fair, who: Person, panel: dict[str, Any], question: Any = None, budget: str = "2") -> Any:
    sent = {"question": question or CENTRE, "budget": budget}
    return shop.client.post(f"/v1/locations/{panel['panel']}/quotes", json=sent, headers=who.headers)


def order(shop: Fair, who: Person, panel: dict[str, Any], quote: str, key: str = "k", **fields: Any) -> Any:
    sent = {"quote": quote, "licence": LICENCE} | fields
    headers = who.headers | {"Idempotency-Key": key}
    return shop.client.post(f"/v1/locations/{panel['panel']}/orders", json=sent, headers=headers)


def buy(shop: Fair, who: Person, panel: dict[str, Any], question: Any = None, budget: str = "2") -> Any:
    """Quote and order, under a key of the quote's own; a refused quote is what comes back."""
    asked = quoted(shop, who, panel, question, budget)
    if asked.status_code != 201:
        return asked
    return order(shop, who, panel, asked.json()["quote"], asked.json()["quote"])


def disclosure(shop: Fair, panel: dict[str, Any]) -> tuple[list[bytes], str]:
    """An auditor's file of a panel, line by line, and the market's public key."""
    path = f"/v1/locations/{panel['panel']}/replay"
    response = shop.client.get(path, headers=shop._once("auditor").headers)
    assert response.status_code == 200, response.text
    return response.content.splitlines(), shop.client.get("/v1/keys").json()["signing"]["1"]


def spoilt(lines: list[bytes], at: int, change: Any) -> list[bytes]:
    """The same file with one line changed."""
    record = json.loads(lines[at])
    change(record)
    return [*lines[:at], json.dumps(record).encode(), *lines[at + 1 :]]
