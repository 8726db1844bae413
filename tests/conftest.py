"""A small market for tests: a store in a temporary folder, people with keys, one dataset, products on demand."""

import random
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import settings as hypothesis_settings
from litestar.testing import TestClient
from sqlalchemy import func, select

from app.auth.accounts import Role, create_account
from app.cache.issued import IssuedAnswers
from app.embedded import EmbeddedRedis, embedded_redis
from app.main import build_app
from app.market import Market
from app.settings import Settings
from app.store.schema import metadata

# Properties are tried on the same examples in every run: a red run is a defect, never the luck of the draw.
hypothesis_settings.register_profile("steady", derandomize=True, deadline=None)
hypothesis_settings.load_profile("steady")

COLUMNS = [
    {"name": "person", "type": "text"},
    {"name": "city", "type": "text"},
    {"name": "amount", "type": "integer"},
    {"name": "score", "type": "real"},
    {"name": "day", "type": "date"},
]
CITIES = ["Athens", "Bergen", "Cork"]
BIG = 10**14
LICENCE = "terms/1"


def rows(seed: int = 7, people: int = 60) -> str:
    """A table whose sums are so large that a digit string of an answer is unmistakable wherever it turns up."""
    rng = random.Random(seed)
    lines = ["person,city,amount,score,day"]
    for person in range(people):
        for _ in range(rng.randrange(1, 6)):
            city, score = rng.choice([*CITIES, "Derby"]), rng.choice(["1.5", "-2.25", "nan", "", "inf"])
            lines.append(f"p{person},{city},{BIG + rng.randrange(BIG)},{score},2026-01-{rng.randrange(1, 28):02d}")
    return "\n".join(lines) + "\n"


@dataclass
class Person:
    """Someone with a key."""

    account: str
    role: str
    key: str

    @property
    def headers(self) -> dict[str, str]:
        return {"Authorization": f"Bearer {self.key}"}


@dataclass
class Fair:
    """A running market and the acts that tests need."""

    client: TestClient
    market: Market
    operator: Person
    people: dict[str, Person] = field(default_factory=dict)

    def person(self, role: str = "buyer", *, deposit: int = 1_000_000, ceiling: str | None = None) -> Person:
        body: dict[str, Any] = {"role": role, "name": f"a {role}"}
        if role == "analyst":
            body["ceiling"] = ceiling or "1"
        made = self.client.post("/v1/accounts", json=body, headers=self.operator.headers).json()
        person = Person(made["account"], role, made["api_key"])
        if role == "buyer" and deposit:
            paid = {"amount_minor": deposit, "currency": "EUR", "reference": "start"}
            response = self.client.post(
                f"/v1/accounts/{person.account}/deposits", json=paid, headers=self.operator.headers
            )
            assert response.status_code == 201, response.text
        return person

    def owner(self) -> Person:
        return self._once("owner")

    def _once(self, role: str) -> Person:
        if role not in self.people:
            self.people[role] = self.person(role)
        return self.people[role]

    def dataset(self, *, budget: str = "5", name: str = "people", table: str | None = None, **fields: Any) -> str:
        (self.market.settings.data / f"{name}.csv").write_text(rows() if table is None else table)
        body = {
            "name": name,
            "title": "People",
            "file": f"{name}.csv",
            "columns": COLUMNS,
            "unit": "person",
            "ordering": ["day", "amount"],
            "max_rows_per_unit": 10,
            "max_groups_per_unit": 3,
            "budget": budget,
        } | fields
        response = self.client.post("/v1/datasets", json=body, headers=self.owner().headers)
        assert response.status_code == 201, response.text
        return str(response.json()["dataset"])

    def product_body(self, dataset: str, query: dict[str, Any] | None = None, **fields: Any) -> dict[str, Any]:
        return {
            "dataset": dataset,
            "title": "Rows by city",
            "unit_label": "rows",
            "left_out": "rows beyond 3 of a person",
            "licence": LICENCE,
            "currency": "EUR",
            "query": query or HISTOGRAM,
            "tiers": tiers(("2", 9000), ("1", 3000), ("0.5", 1200), ("0.1", 500)),
        } | fields

    def product(self, dataset: str, query: dict[str, Any] | None = None, **fields: Any) -> dict[str, Any]:
        body = self.product_body(dataset, query, **fields)
        response = self.client.post("/v1/products", json=body, headers=self.owner().headers)
        assert response.status_code == 201, response.text
        return dict(response.json())

    def quote(self, who: Person, product: dict[str, Any], epsilon: str) -> str:
        body = {"product": product["product"], "epsilon": epsilon}
        response = self.client.post("/v1/quotes", json=body, headers=who.headers)
        assert response.status_code == 201, response.text
        return str(response.json()["quote"])

    def order(self, who: Person, quote: str, key: str = "k") -> Any:
        body = {"quote": quote} if who.role == "analyst" else {"quote": quote, "licence": LICENCE}
        return self.client.post("/v1/orders", json=body, headers=who.headers | {"Idempotency-Key": key})

    def buy(self, who: Person, product: dict[str, Any], epsilon: str, key: str | None = None) -> dict[str, Any]:
        response = self.order(who, self.quote(who, product, epsilon), key or f"k-{product['product']}-{epsilon}")
        assert response.status_code == 201, response.text
        return dict(response.json())

    def answer(self, who: Person, sold: dict[str, Any]) -> Any:
        answer = sold["answer"]
        return self.client.get(f"/v1/answers/{answer['chain']}/{answer['law']}", headers=who.headers)

    def forget(self) -> None:
        """Drop this process's own copies of answers: the next read goes to Redis, or to the store."""
        self.market.issued = IssuedAnswers()

    def ledger(self, dataset: str) -> dict[str, Any]:
        return dict(self.client.get(f"/v1/datasets/{dataset}", headers=self.owner().headers).json())

    def export(self) -> tuple[list[bytes], str]:
        auditor = self._once("auditor")
        lines = self.client.get("/v1/audit/export", headers=auditor.headers).content.splitlines()
        return lines, self.client.get("/v1/keys").json()["signing"]["1"]

    def stored(self) -> dict[str, int]:
        """How many rows each table holds: a refusal must leave this as it was (quotes aside, where one was made)."""
        return self.market.database.read_now(
            lambda connection: {
                table.name: connection.execute(select(func.count()).select_from(table)).scalar_one()
                for table in metadata.sorted_tables
            }
        )


HISTOGRAM = {
    "measure": {"type": "count", "of": "rows"},
    "group_by": {"type": "keys", "column": "city", "keys": CITIES},
    "rows_per_unit": 3,
    "groups_per_unit": 2,
}
PEOPLE = {"measure": {"type": "count", "of": "units"}}
TOTAL = {
    "measure": {"type": "sum", "column": "amount", "lower": "0", "upper": str(3 * BIG), "grain_exponent": 0},
}


def tiers(*priced: tuple[str, int]) -> list[dict[str, Any]]:
    return [{"epsilon": epsilon, "price_minor": price} for epsilon, price in priced]


def open_fair(settings: Settings) -> Iterator[Fair]:
    app = build_app(settings)
    with TestClient(app) as client:
        market: Market = app.state.market
        made = market.database.submit(
            lambda connection: create_account(
                connection, market.keyring, role=Role.OPERATOR, name="operator", currency="EUR", at="2026-01-01"
            )
        ).result()
        yield Fair(client, market, Person(made.id, "operator", made.api_key))


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    return Settings.at(tmp_path / "market")


@pytest.fixture
def fair(settings: Settings) -> Iterator[Fair]:
    """A market without Redis."""
    yield from open_fair(settings)


@pytest.fixture
def redis(tmp_path: Path) -> Iterator[EmbeddedRedis]:
    (tmp_path / "r").mkdir()
    with embedded_redis(tmp_path / "r") as served:
        yield served


@pytest.fixture
def cached_fair(settings: Settings, redis: EmbeddedRedis) -> Iterator[Fair]:
    """A market with a real Redis beside it."""
    yield from open_fair(replace(settings, redis_url=redis.url))
