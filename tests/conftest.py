"""A small market for tests: a store in a temporary folder, people with keys, one dataset, products on demand."""

import asyncio
import random
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck
from hypothesis import settings as hypothesis_settings
from litestar.testing import TestClient
from mpmath import mp
from sqlalchemy import func, select

from app import embedded
from app.auth.accounts import Role, create_account
from app.cache import answers, limits
from app.cache.issued import IssuedAnswers
from app.catalog import auditing, checking
from app.embedded import EmbeddedRedis, embedded_redis
from app.jobs import schedule
from app.log import witness
from app.main import build_app
from app.market import Market
from app.routes import prices
from app.settings import Settings
from app.store.schema import metadata
from tests.entropy import ENTROPY, drawn_from

# Properties are tried on the same examples in every run, for as long as that takes: a red run is a defect, never the
# luck of the draw or a busy machine.
hypothesis_settings.register_profile(
    "steady", derandomize=True, deadline=None, suppress_health_check=[HealthCheck.too_slow]
)
hypothesis_settings.load_profile("steady")

FOREVER = 1e6  # seconds

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

    def unwatched(self) -> None:
        """Leave it to the test to say when jobs whose worker died are looked for."""

        async def stop() -> None:
            watching = self.market.jobs._watching
            assert watching is not None
            watching.cancel()
            await asyncio.gather(watching, return_exceptions=True)

        self.client.blocking_portal.call(stop)

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


def open_fair(settings: Settings, **parts: Any) -> Iterator[Fair]:
    """A market over HTTP with its operator; `parts` as `build_app` takes them: a clock, a log."""
    app = build_app(settings, **parts)
    with TestClient(app) as client:
        market: Market = app.state.market
        made = market.database.submit(
            lambda connection: create_account(
                connection, market.keyring, role=Role.OPERATOR, name="operator", currency="EUR", at="2026-01-01"
            )
        ).result()
        yield Fair(client, market, Person(made.id, "operator", made.api_key))


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> None:
    ENTROPY.begin(item.nodeid)
    mp.dps = 60  # of the whole process: an oracle may not have what the test before it left


@pytest.fixture(scope="session", autouse=True)
def entropy() -> Iterator[None]:
    """Secrets, keys, names and so all noise are the same in every run: the luck of the draw fails no test."""
    with drawn_from(ENTROPY):
        yield


@pytest.fixture(scope="session", autouse=True)
def patience() -> Iterator[None]:
    """No test hears of the machine's load: nothing is done by the clock beside it, and what may be waited for is."""
    with pytest.MonkeyPatch.context() as patch:
        for module in (schedule, auditing):
            patch.setattr(module, "_LOOK_SECONDS", FOREVER)
        for module in (answers, limits, witness):
            patch.setattr(module, "_WAIT_SECONDS", 120.0)
        patch.setattr(checking, "ARBITRAGE_SECONDS", 600.0)
        patch.setattr(prices, "_SIMULATION_SECONDS", 600.0)
        patch.setattr(embedded, "_SECONDS", 120.0)
        yield


@pytest.fixture
def dated(tmp_path: Path) -> Iterator[tuple[Fair, list[datetime]]]:
    """A market whose clock a test moves."""
    now = [datetime(2026, 1, 1, tzinfo=UTC)]
    for fair in open_fair(Settings.at(tmp_path / "m"), clock=lambda: now[0]):
        yield fair, now


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
