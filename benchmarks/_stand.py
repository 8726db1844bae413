"""A market on this machine for benchmarks: its server, the floors beside it, the people who trade."""

import os
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx

from app.demo.flights import DATASET, provide_file
from app.demo.run import open_operator
from app.embedded import die_with_parent, embedded_redis, free_port
from app.settings import Settings

__all__ = ["LICENCE", "Fair", "Server", "Stand", "key_header", "market", "product_body"]

LICENCE = "bench/1"
_GRANIAN = ("granian", "--interface", "asgi", "--factory", "--loop", "uvloop", "--log-level", "warning")


@dataclass(frozen=True, slots=True)
class Server:
    """A server that answers: where, and as which process."""

    port: int
    pid: int


@dataclass(frozen=True, slots=True)
class Stand:
    """A running market: one server for each name of `_FLOORS` beside its own."""

    settings: Settings
    redis_url: str
    servers: dict[str, Server]
    fair: "Fair"


_FLOORS = {"redis": "create_app", "fixed": "create_fixed", "asgi": "create_asgi"}


@contextmanager
def market(folder: Path, *, processes: int = 1, floors: bool = False, database_url: str = "") -> Iterator[Stand]:
    """Serve a market of the flights table below `folder`, as one server or as several that share its state."""
    settings = Settings.at(folder)
    if database_url:
        settings = Settings(settings.state, database_url, "", settings.keys)
    settings.prepare()
    provide_file(settings.data)
    with ExitStack() as stack:
        served = stack.enter_context(embedded_redis(folder))
        environment = os.environ | {
            "TIERMARKET_STATE": str(settings.state),
            "TIERMARKET_DATABASE_URL": settings.database_url,
            "TIERMARKET_REDIS_URL": served.url,
            "TIERMARKET_ACCESS_LOG": str(folder / "access.log"),
            "TIERMARKET_READS_PER_MINUTE": str(10**9),  # limits are at work, and nobody meets one
            "TIERMARKET_ACTS_PER_MINUTE": str(10**9),
        }
        operator = open_operator(settings)
        applications = {f"market{number or ''}": "app.main:create_app" for number in range(processes)}
        applications |= {name: f"benchmarks._bare:{made}" for name, made in _FLOORS.items() if floors}
        servers = {}
        for name, application in applications.items():
            metrics = folder / ("metrics-market" if name.startswith("market") else f"metrics-{name}")
            metrics.mkdir(exist_ok=True)
            own = environment | {"PROMETHEUS_MULTIPROC_DIR": str(metrics)}
            servers[name] = stack.enter_context(_served(application, own))
        for name, server in servers.items():
            _wait(f"http://127.0.0.1:{server.port}{'/health/ready' if name.startswith('market') else '/bare'}")
        yield Stand(settings, served.url, servers, Fair(servers["market"].port, operator))


@contextmanager
def _served(application: str, environment: dict[str, str]) -> Iterator[Server]:
    port = free_port()
    command = [sys.executable, "-m", *_GRANIAN, "--port", str(port), application]
    server = subprocess.Popen(
        command,
        stdout=sys.stderr,
        stderr=sys.stderr,
        env=environment,
        start_new_session=True,
        preexec_fn=die_with_parent,  # noqa: PLW1509 - before any thread starts
    )
    try:
        yield Server(port, server.pid)
    finally:
        server.terminate()
        try:
            server.wait(15)
        except subprocess.TimeoutExpired:
            server.kill()
            server.wait()


def _wait(url: str) -> None:
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline:
        try:
            if httpx.get(url).status_code < httpx.codes.INTERNAL_SERVER_ERROR or url.endswith("/bare"):
                return
        except httpx.HTTPError:
            pass
        time.sleep(0.05)
    raise RuntimeError(f"{url} does not answer")


class Fair:
    """The people of a benchmark and what they do, by HTTP."""

    def __init__(self, port: int, operator: str) -> None:
        self.client = httpx.Client(base_url=f"http://127.0.0.1:{port}", timeout=60)
        self._operator = operator
        self.owner = self.person("owner")

    def person(self, role: str) -> str:
        """Open an account, with money where it buys; return its API key."""
        made = self.post("/v1/accounts", {"role": role, "name": role}, self._operator)
        if role == "buyer":
            body = {"amount_minor": 10**9, "currency": "EUR", "reference": "r"}
            self.post(f"/v1/accounts/{made['account']}/deposits", body, self._operator)
        return str(made["api_key"])

    def dataset(self, budget: str = "1000") -> str:
        """Register the flights table."""
        return str(self.post("/v1/datasets", DATASET | {"budget": budget}, self.owner)["dataset"])

    def product(self, dataset: str, number: int) -> str:
        """Publish the product of a number: a chain of its own."""
        return str(self.post("/v1/products", product_body(dataset, number), self.owner)["product"])

    def quote(self, buyer: str, product: str, epsilon: str = "1") -> str:
        """Ask for a price."""
        return str(self.post("/v1/quotes", {"product": product, "epsilon": epsilon}, buyer)["quote"])

    def order(self, buyer: str, quote: str, key: str) -> dict[str, Any]:
        """Buy."""
        return self.post("/v1/orders", {"quote": quote, "licence": LICENCE}, buyer, **{"Idempotency-Key": key})

    def metric(self, name: str) -> float:
        """Return a metric, summed over all processes and labels."""
        lines = self.client.get("/metrics", headers=key_header(self._operator)).text.splitlines()
        return sum(float(line.split()[-1]) for line in lines if line.startswith(name))

    def post(self, path: str, body: dict[str, Any], key: str, **headers: str) -> dict[str, Any]:
        """Send a body and return the answer's; anything but success is an error of the benchmark."""
        response = self.client.post(path, json=body, headers=key_header(key) | headers)
        response.raise_for_status()
        return dict(response.json())


def key_header(key: str) -> dict[str, str]:
    """Return the header that an API key travels in."""
    return {"Authorization": f"Bearer {key}"}


def product_body(dataset: str, number: int) -> dict[str, Any]:
    """A histogram by carrier of flights late by more than 30 + `number` minutes: a chain of its own each."""
    return {
        "dataset": dataset,
        "title": f"Late by more than {30 + number}",
        "unit_label": "flights",
        "left_out": "flights of one aircraft beyond 10",
        "licence": LICENCE,
        "currency": "EUR",
        "query": {
            "measure": {"type": "count", "of": "rows"},
            "where": {"type": "comparison", "column": "arr_delay", "operator": ">", "value": 30 + number},
            "group_by": {"type": "keys", "column": "carrier", "keys": ["AA", "B6", "DL", "EV", "MQ", "UA", "US", "WN"]},
            "rows_per_unit": 10,
            "groups_per_unit": 2,
        },
        "tiers": [{"epsilon": text, "price_minor": 100} for text in ("2", "1", "0.5", "0.1")],
    }
