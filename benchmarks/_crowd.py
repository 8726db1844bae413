"""Many buyers who want the same first sale at the same moment, from several processes that share one store."""

import threading
import time
from dataclasses import dataclass
from typing import Any

import httpx
import msgspec
from sqlalchemy import func, select

from app.store.database import open_engine
from app.store.schema import draws, orders
from benchmarks._stand import LICENCE, Stand, key_header

__all__ = ["Crowd", "crowd"]


@dataclass(frozen=True, slots=True)
class Crowd:
    """What became of a crowd: queries run, draws stored, different answers, orders that cost budget, all orders."""

    queries: int
    draws: int
    answers: int
    charges: int
    sold: int
    seconds: float


def crowd(stand: Stand, buyers: int) -> Crowd:
    """Let `buyers` order the top tier of one undrawn product at once, each at the next process in turn."""
    fair, ports = stand.fair, [server.port for name, server in stand.servers.items() if name.startswith("market")]
    product = fair.product(fair.dataset(), 0)
    people = [fair.person("buyer") for _ in range(buyers)]
    quotes = [fair.quote(person, product, "2") for person in people]
    queries = fair.metric("tiermarket_queries_total")
    gate = threading.Barrier(buyers + 1)
    replies: list[Any] = [None] * buyers

    def buy(number: int) -> None:
        base = f"http://127.0.0.1:{ports[number % len(ports)]}"
        headers = key_header(people[number]) | {"Idempotency-Key": "k"}
        with httpx.Client(base_url=base, timeout=60) as client:
            client.get("/health/live")
            gate.wait()
            body = {"quote": quotes[number], "licence": LICENCE}
            replies[number] = client.post("/v1/orders", json=body, headers=headers)

    threads = [threading.Thread(target=buy, args=(number,)) for number in range(buyers)]
    for thread in threads:
        thread.start()
    gate.wait()
    started = time.perf_counter()
    for thread in threads:
        thread.join()
    seconds = time.perf_counter() - started
    engine = open_engine(stand.settings.database_url)
    with engine.connect() as connection:
        drawn = connection.execute(select(func.count()).select_from(draws)).scalar_one()
        sold = connection.execute(select(func.count()).select_from(orders)).scalar_one()
        charged = connection.execute(select(func.count()).where(orders.c.charge_nano > 0)).scalar_one()
    engine.dispose()
    answers = {msgspec.json.encode(reply.raise_for_status().json()["answer"], order="sorted") for reply in replies}
    return Crowd(int(fair.metric("tiermarket_queries_total") - queries), drawn, len(answers), charged, sold, seconds)
