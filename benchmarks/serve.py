"""The service on the flights table: issued answers against what a server costs at least, and what else it promises."""

import os
import shutil
import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import redis

from benchmarks._bare import KEY
from benchmarks._crowd import crowd
from benchmarks._load import cpu_seconds, load, resident_bytes
from benchmarks._lomas import lomas_times, write_table
from benchmarks._stand import Stand, key_header, market, product_body
from benchmarks.row import Row, at_least, at_most, beside

CONNECTIONS = 32
SALES = 20
BUYERS, PROCESSES = 64, 4
TABLE = {
    "name": "table",
    "title": "The table that both count",
    "file": "table.csv",
    "columns": [{"name": "species", "type": "text"}, {"name": "mass", "type": "integer"}],
    "max_rows_per_unit": 1,
    "max_groups_per_unit": 1,
    "budget": "5",
}
EXPECTED = (
    "GET of an issued answer against a bare Litestar endpoint with one Redis GET",
    "CPU of a GET of an issued answer against a fixed Litestar answer",
    "p99 against p50 at 32 connections",
    "64 buyers of one first sale on 4 processes: queries run",
    "64 buyers of one first sale on 4 processes: draws of a chain of 4 tiers",
    "64 buyers of one first sale on 4 processes: different answers",
    "64 buyers of one first sale on 4 processes: charges above nothing",
    "resident memory after 100,000 requests against 10,000",
    "first sale of a product",
    "repeat sale of a product",
    "first count of 100,000 rows against lomas-server 0.4.1",
    "repeat of that count against lomas-server 0.4.1",
)


def rows(*, quick: bool) -> list[Row]:
    """Measure; `quick` shortens the runs."""
    folder = Path(tempfile.mkdtemp(prefix="tiermarket-bench-"))
    try:
        (folder / "one").mkdir()
        with market(folder / "one", floors=True) as stand:
            count = 5 if quick else SALES
            first, repeat, sold = _sales(stand, count)
            redis.Redis.from_url(stand.redis_url).set(KEY, sold["body"])
            found = [*_memory(stand, sold, 10 if quick else 1), *_answers(stand, sold, quick=quick)]
        commit = _durable_commit(folder, 20 if quick else 200)
        (folder / "four").mkdir()
        found += _crowd_rows(folder / "four")
        (folder / "peer").mkdir()
        found += _peer_rows(folder / "peer", 3 if quick else 15)
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    return [
        *found,
        at_most(
            EXPECTED[8], first, 300, "ms", f"median of {count}: query on 336,776 rows, noise, log, commit; over HTTP"
        ),
        at_most(EXPECTED[9], repeat, 20, "ms", f"median of {count}: another buyer, same tier; over HTTP"),
        beside("raw durable commit", commit, "ms", "median append of 512 bytes + fdatasync on the same disk, same run"),
    ]


def _sales(stand: Stand, count: int) -> tuple[float, float, dict[str, Any]]:
    """Return median milliseconds of first and repeat sales, and one sold answer."""
    fair = stand.fair
    buyers = [fair.person("buyer") for _ in range(2)]
    dataset = fair.dataset()
    first, repeat = [], []
    for number in range(count):
        product = fair.product(dataset, number)
        for buyer, times in zip(buyers, (first, repeat), strict=True):
            quote = fair.quote(buyer, product)
            started = time.perf_counter()
            order = fair.order(buyer, quote, f"k{number}")
            times.append((time.perf_counter() - started) * 1000)
    answer = order["answer"]
    path = f"/v1/answers/{answer['chain']}/{answer['law']}"
    body = fair.client.get(path, headers=key_header(buyers[1])).content
    sold = {"path": path, "headers": key_header(buyers[1]), "body": body}
    return statistics.median(first), statistics.median(repeat), sold


def _answers(stand: Stand, sold: dict[str, Any], *, quick: bool) -> list[Row]:
    """Ask the market and the floors in turn; the order is turned round every other time."""
    runs, seconds = (3, 0.5) if quick else (7, 2.0)
    servers = stand.servers
    paths = {"market": sold["path"], "redis": "/bare", "fixed": "/bare", "asgi": "/bare"}
    rates: dict[str, list[float]] = {name: [] for name in paths}
    costs: dict[str, list[float]] = {name: [] for name in paths}
    tails: dict[str, list[tuple[float, float]]] = {name: [] for name in paths}
    for run in range(-1, runs):
        for name in paths if run % 2 else reversed(paths):
            before = cpu_seconds(servers[name].pid)
            met = load(servers[name].port, paths[name], sold["headers"], connections=CONNECTIONS, seconds=seconds)
            spent = cpu_seconds(servers[name].pid) - before
            if run < 0:
                continue  # warm
            rates[name].append(met.rate)
            costs[name].append(spent / met.answers * 1e6)
            tails[name].append((met.quantile(0.99), met.quantile(0.5)))
    ratio = statistics.median(a / b for a, b in zip(rates["market"], rates["redis"], strict=True))
    cost = statistics.median(a / b for a, b in zip(costs["market"], costs["fixed"], strict=True))
    tail, bare = (min(tails[name][:5], key=lambda pair: pair[0] / pair[1]) for name in ("market", "asgi"))
    how = f"median of {runs} interleaved runs, {CONNECTIONS} connections, 1 worker each"
    middle: Callable[[list[float]], float] = statistics.median
    return [
        at_least(EXPECTED[0], ratio, 1.5, "ratio", f"{how}; key, entitlement, revocation, limit, ETag, log, metrics"),
        at_most(EXPECTED[1], cost, 1.3, "ratio", "processor time of server and worker a request, same runs"),
        at_most(
            EXPECTED[2],
            tail[0] / tail[1],
            3,
            "ratio",
            f"best of {min(runs, 5)} runs: p50 {tail[1] * 1e3:.2f} ms, p99 {tail[0] * 1e3:.2f} ms",
        ),
        beside(
            "p99 against p50 of bare ASGI", bare[0] / bare[1], "ratio", "best of the same runs: what the machine does"
        ),
        beside(
            "GET of an issued answer", middle(rates["market"]), "answers/s", f"{middle(costs['market']):.1f} µs CPU"
        ),
        beside("one Redis GET, Litestar", middle(rates["redis"]), "answers/s", f"{middle(costs['redis']):.1f} µs CPU"),
        beside("fixed answer, Litestar", middle(rates["fixed"]), "answers/s", f"{middle(costs['fixed']):.1f} µs CPU"),
        beside("fixed answer, bare ASGI", middle(rates["asgi"]), "answers/s", f"{middle(costs['asgi']):.1f} µs CPU"),
    ]


def _memory(stand: Stand, sold: dict[str, Any], part: int) -> list[Row]:
    server = stand.servers["market"]
    sizes = []
    for count in (10_000 // part, 90_000 // part):
        load(server.port, sold["path"], sold["headers"], connections=CONNECTIONS, answers=count)
        sizes.append(resident_bytes(server.pid))
    how = f"{sizes[0] / 2**20:.1f} MiB, then {sizes[1] / 2**20:.1f} MiB; one worker"
    return [at_most(EXPECTED[7], sizes[1] / sizes[0], 1.05, "ratio", how)]


def _crowd_rows(folder: Path) -> list[Row]:
    with market(folder, processes=PROCESSES) as stand:
        met = crowd(stand, BUYERS)
    how = f"{met.seconds:.2f} s from the first order to the last answer; {met.sold} orders placed"
    values = (met.queries, met.draws, met.answers, met.charges)
    return [
        at_most(name, value, bar, "", how) for name, value, bar in zip(EXPECTED[3:7], values, (1, 4, 1, 1), strict=True)
    ]


def _peer_rows(folder: Path, repeats: int) -> list[Row]:
    """Count one table here and there: the first answer by an order, a repeat by a GET, each on its own connection."""
    (folder / "market").mkdir()
    (folder / "lomas").mkdir()
    with market(folder / "market") as stand:
        write_table(stand.settings.data / "table.csv")
        fair = stand.fair
        dataset = fair.post("/v1/datasets", TABLE, fair.owner)["dataset"]
        buyer, times, kept = fair.person("buyer"), [], []
        for number in range(3):
            product = fair.post("/v1/products", _count_of(dataset, number), fair.owner)["product"]
            quote = fair.quote(buyer, product, "0.1")
            started = time.perf_counter()
            answer = fair.order(buyer, quote, f"k{number}")["answer"]
            times.append((time.perf_counter() - started) * 1000)
        path = f"/v1/answers/{answer['chain']}/{answer['law']}"
        for _ in range(50):
            started = time.perf_counter()
            fair.client.get(path, headers=key_header(buyer)).raise_for_status()
            kept.append((time.perf_counter() - started) * 1000)
        first, repeat = statistics.median(times), statistics.median(kept)
        table = stand.settings.data / "table.csv"
        there, again, different = lomas_times(folder / "lomas", table, repeats)
    how = f"{first:.0f} ms here, {there:.0f} ms there (SQL count by HTTP)"
    said = f"{repeat:.2f} ms here, {again:.0f} ms there; one answer here, {different} of {repeats + 1} different there"
    return [
        at_least(EXPECTED[10], there / first, 3, "ratio", how),
        at_least(EXPECTED[11], again / repeat, 100, "ratio", said),
    ]


def _count_of(dataset: str, number: int) -> dict[str, Any]:
    """A count of rows, of those above a bound beyond the first time, so that each is a first answer."""
    query: dict[str, Any] = {"measure": {"type": "count", "of": "rows"}}
    if number:
        query["where"] = {"type": "comparison", "column": "mass", "operator": ">", "value": 2700 + number}
    ladder = [{"epsilon": "0.1", "price_minor": 100}]
    return product_body(dataset, 0) | {"title": "Rows", "query": query, "tiers": ladder}


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
