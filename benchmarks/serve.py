"""The service on the flights table: issued answers against a bare endpoint, sales, the durable commit beside them."""

import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
import redis

from app.demo.flights import DATASET, provide_file
from app.demo.run import open_operator
from app.embedded import die_with_parent, embedded_redis, free_port
from app.settings import Settings
from benchmarks._bare import KEY
from benchmarks._load import throughput
from benchmarks.row import Row, at_least, at_most, beside

CONNECTIONS = 32
SALES = 20
EXPECTED = (
    "GET of an issued answer against a bare Litestar endpoint with one Redis GET",
    "GET of an issued answer",
    "bare Litestar endpoint with one Redis GET",
    "first sale of a product",
    "repeat sale of a product",
    "raw durable commit",
)


def rows(*, quick: bool) -> list[Row]:
    """Measure; `quick` shortens the runs."""
    folder = Path(tempfile.mkdtemp(prefix="tiermarket-bench-"))
    try:
        with _market(folder) as (port, bare_port, settings):
            client = httpx.Client(base_url=f"http://127.0.0.1:{port}", timeout=60)
            fair = _Fair(client, open_operator(settings))
            count = 5 if quick else SALES
            first, repeat, sold = fair.sales(count)
            redis.Redis.from_url(os.environ["TIERMARKET_REDIS_URL"]).set(KEY, sold["body"])
            ours, floor = _race(port, bare_port, sold, runs=3 if quick else 7, seconds=0.5 if quick else 2.0)
        commit = _durable_commit(folder, 20 if quick else 200)
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    ratio = statistics.median(a / b for a, b in zip(ours, floor, strict=True))
    how = f"median of {len(ours)} interleaved runs, {CONNECTIONS} connections, 1 worker each, same Redis, same value"
    return [
        at_least(EXPECTED[0], ratio, 0.6, "ratio", how),
        beside(EXPECTED[1], statistics.median(ours), "answers/s", "authentication, entitlement, Redis, MAC, ETag"),
        beside(EXPECTED[2], statistics.median(floor), "answers/s", "one GET of the same bytes"),
        at_most(
            EXPECTED[3], first, 300, "ms", f"median of {count}: query on 336,776 rows, noise, log, commit; over HTTP"
        ),
        at_most(EXPECTED[4], repeat, 20, "ms", f"median of {count}: another buyer, same tier; over HTTP"),
        beside(EXPECTED[5], commit, "ms", "median append of 512 bytes + fdatasync on the same disk, same run"),
    ]


class _Fair:
    """The people of the benchmark and what they do."""

    def __init__(self, client: httpx.Client, operator: str) -> None:
        self._client, self._operator = client, operator
        self.owner, self.buyers = self._person("owner"), [self._person("buyer") for _ in range(2)]

    def sales(self, count: int) -> tuple[float, float, dict[str, Any]]:
        """Return median milliseconds of first and repeat sales, and one sold answer."""
        dataset = self._post("/v1/datasets", DATASET | {"budget": "1000"}, self.owner)["dataset"]
        first, repeat = [], []
        for number in range(count):
            product = self._post("/v1/products", _product(dataset, number), self.owner)["product"]
            for buyer, times in zip(self.buyers, (first, repeat), strict=True):
                quote = self._post("/v1/quotes", {"product": product, "epsilon": "1"}, buyer)["quote"]
                started = time.perf_counter()
                order = self._post("/v1/orders", {"quote": quote}, buyer, **{"Idempotency-Key": f"k{number}"})
                times.append((time.perf_counter() - started) * 1000)
        answer = order["answer"]
        path = f"/v1/answers/{answer['chain']}/{answer['law']}"
        held = self._client.get(path, headers=_key(self.buyers[1]))
        sold = {"path": path, "headers": _key(self.buyers[1]), "body": held.content}
        return statistics.median(first), statistics.median(repeat), sold

    def _person(self, role: str) -> str:
        made = self._post("/v1/accounts", {"role": role, "name": role}, self._operator)
        if role == "buyer":
            body = {"amount_minor": 10**9, "currency": "EUR", "reference": "r"}
            self._post(f"/v1/accounts/{made['account']}/deposits", body, self._operator)
        return str(made["api_key"])

    def _post(self, path: str, body: dict[str, Any], key: str, **headers: str) -> dict[str, Any]:
        response = self._client.post(path, json=body, headers=_key(key) | headers)
        response.raise_for_status()
        return dict(response.json())


def _key(key: str) -> dict[str, str]:
    return {"Authorization": f"Bearer {key}"}


def _product(dataset: str, number: int) -> dict[str, Any]:
    """A histogram by carrier of flights late by more than 30 + `number` minutes: a chain of its own each."""
    return {
        "dataset": dataset,
        "title": f"Late by more than {30 + number}",
        "unit_label": "flights",
        "left_out": "flights of one aircraft beyond 10",
        "licence": "bench/1",
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


def _race(
    port: int, bare_port: int, sold: dict[str, Any], *, runs: int, seconds: float
) -> tuple[list[float], list[float]]:
    def measure(where: int, path: str, headers: dict[str, str]) -> float:
        return throughput(where, path, headers, connections=CONNECTIONS, seconds=seconds)

    sides: list[Callable[[], float]] = [
        lambda: measure(port, sold["path"], sold["headers"]),
        lambda: measure(bare_port, "/bare", {}),
    ]
    for side in sides:
        side()
    ours, floor = [], []
    for run in range(runs):
        pair = {which: sides[which]() for which in ((0, 1) if run % 2 else (1, 0))}
        ours.append(pair[0])
        floor.append(pair[1])
    return ours, floor


@contextmanager
def _market(folder: Path) -> Iterator[tuple[int, int, Settings]]:
    settings = Settings.at(folder)
    settings.prepare()
    provide_file(settings.data)
    port, bare_port = free_port(), free_port()
    bare = ["granian", "--interface", "asgi", "--factory", "--loop", "uvloop", "--log-level", "warning"]
    with embedded_redis(folder) as served:
        os.environ["TIERMARKET_REDIS_URL"] = served.url
        os.environ["TIERMARKET_ACCESS_LOG"] = str(folder / "access.log")
        os.environ["TIERMARKET_READS_PER_MINUTE"] = str(10**9)  # limits are at work, and nobody meets one
        commands = [
            [sys.executable, "-m", "app.cli", "serve", "--state", str(folder), "--port", str(port)],
            [sys.executable, "-m", *bare, "--port", str(bare_port), "benchmarks._bare:create_app"],
        ]
        started = [
            subprocess.Popen(
                command,
                stdout=sys.stderr,
                stderr=sys.stderr,
                start_new_session=True,
                preexec_fn=die_with_parent,  # noqa: PLW1509 - before any thread starts
            )
            for command in commands
        ]
        try:
            _wait(f"http://127.0.0.1:{port}/health/ready")
            _wait(f"http://127.0.0.1:{bare_port}/bare")
            yield port, bare_port, settings
        finally:
            for server in started:
                server.terminate()
            for server in started:
                server.wait(20)


def _wait(url: str) -> None:
    for _ in range(400):
        try:
            if httpx.get(url).status_code < httpx.codes.INTERNAL_SERVER_ERROR or url.endswith("/bare"):
                return
        except httpx.HTTPError:
            pass
        time.sleep(0.05)
    raise RuntimeError(f"{url} does not answer")


def _durable_commit(folder: Path, count: int) -> float:
    handle = os.open(folder / "raw", os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    times = []
    for _ in range(count):
        started = time.perf_counter()
        os.write(handle, bytes(512))
        os.fdatasync(handle)
        times.append((time.perf_counter() - started) * 1000)
    os.close(handle)
    return statistics.median(times)
