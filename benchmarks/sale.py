"""A thousand sales of fifty products by sixteen clients, on both stores, beside a bare script with the same commits."""

import asyncio
import http.client
import json
import os
import random
import shutil
import tempfile
import threading
import time
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sqlalchemy import create_engine, func, select

from app.auth.accounts import Caller, find_caller
from app.engine.quoting import Selection, offer
from app.market import Market
from app.settings import Settings
from app.store.schema import accounts, datasets, orders, postings
from benchmarks._postgres import durable_postgres
from benchmarks._replay import Statement, commit_again, recording
from benchmarks._stand import LICENCE, Stand, key_header, market
from benchmarks.row import Row, at_least, at_most, beside

CLIENTS, PRODUCTS, SALES = 16, 50, 1_000
TIERS = ("0.1", "0.5", "1", "2")
STORES = ("SQLite", "PostgreSQL")
EXPECTED = tuple(
    name
    for store in STORES
    for name in (f"{store}: sales lost or repeated", f"{store}: sales against a bare script of the same statements")
)


def rows(*, quick: bool) -> list[Row]:
    """Measure; `quick` sells a tenth."""
    sales = SALES // 10 if quick else SALES
    found: list[Row] = []
    for store in STORES:
        folder = Path(tempfile.mkdtemp(prefix="tiermarket-sale-"))
        try:
            with ExitStack() as stack:
                url = stack.enter_context(durable_postgres()) if store == "PostgreSQL" else ""
                found += _store_rows(store, folder, url, sales)
        finally:
            shutil.rmtree(folder, ignore_errors=True)
    return found


@dataclass(frozen=True, slots=True)
class _Wish:
    buyer: str
    product: str
    epsilon: str
    key: str


def _store_rows(store: str, folder: Path, url: str, sales: int) -> list[Row]:
    (folder / "market").mkdir()
    with market(folder / "market", database_url=url) as stand:
        wishes, dataset = _wishes(stand, sales)
        noted = asyncio.run(_one_sale(stand, dataset))
        before = _count(stand.settings)
        seconds, receipts = _sell(stand, wishes)
        lost = _faults(stand.settings, receipts, sales, before)
    bare = commit_again(stand.settings.database_url, noted, sales=sales, clients=CLIENTS)
    raw = _durable_commits(folder, 50 if sales < SALES else 400)
    writes = sum(bool(statement.text) for statement in noted)
    how = f"{sales} sales (a quote and an order each) of {PRODUCTS} products by {CLIENTS} clients over HTTP, 1 worker"
    ours = sales / seconds
    return [
        at_most(f"{store}: sales lost or repeated", lost, 0, "", f"{how}; receipts, money, budget against the store"),
        at_least(f"{store}: sales against a bare script of the same statements", ours / bare, 0.4, "ratio", how),
        beside(f"{store}: sales", ours, "sales/s", "authentication, price, budget, log, signatures, redo file"),
        beside(
            f"{store}: bare script", bare, "sales/s", f"{writes} statements and 2 commits each, {CLIENTS} connections"
        ),
        beside(f"{store}: raw durable commits", raw, "commits/s", "append of 512 bytes + fdatasync on the same disk"),
    ]


def _wishes(stand: Stand, sales: int) -> tuple[list[list[_Wish]], str]:
    """Return what each client will buy: different tiers of different products, in a fixed random order."""
    fair = stand.fair
    dataset = fair.dataset()
    products = [fair.product(dataset, number) for number in range(PRODUCTS)]
    buyers = [fair.person("buyer") for _ in range(CLIENTS)]
    every = [(buyer, product, tier) for buyer in range(CLIENTS) for product in products for tier in TIERS]
    wishes: list[list[_Wish]] = [[] for _ in buyers]
    for number, (buyer, product, tier) in enumerate(random.Random(1).sample(every, sales)):
        wishes[buyer].append(_Wish(buyers[buyer], product, tier, f"k{number}"))
    return wishes, dataset


def _sell(stand: Stand, wishes: list[list[_Wish]]) -> tuple[float, list[dict[str, Any]]]:
    """Let every client buy what it wishes, one after the other; return the seconds and what was answered."""
    port, sold, failures = stand.servers["market"].port, list[dict[str, Any]](), list[BaseException]()

    def client(mine: list[_Wish]) -> None:
        connection = http.client.HTTPConnection("127.0.0.1", port, timeout=120)
        try:
            for wish in mine:
                asked = {"product": wish.product, "epsilon": wish.epsilon}
                quote = _post(connection, "/v1/quotes", asked, wish.buyer)["quote"]
                wanted = {"quote": quote, "licence": LICENCE}
                sold.append(_post(connection, "/v1/orders", wanted, wish.buyer, wish.key))
        except BaseException as error:
            failures.append(error)
        finally:
            connection.close()

    threads = [threading.Thread(target=client, args=(mine,)) for mine in wishes]
    started = time.perf_counter()
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    seconds = time.perf_counter() - started
    if failures:
        raise failures[0]
    return seconds, sold


def _post(connection: http.client.HTTPConnection, path: str, body: Any, key: str, once: str = "") -> dict[str, Any]:
    headers = key_header(key) | {"Content-Type": "application/json"} | ({"Idempotency-Key": once} if once else {})
    connection.request("POST", path, json.dumps(body), headers)
    response = connection.getresponse()
    raw = response.read()
    if response.status != http.HTTPStatus.CREATED:
        raise RuntimeError(f"{path}: {response.status} {raw[:200]!r}")
    return dict(json.loads(raw))


async def _one_sale(stand: Stand, dataset: str) -> list[Statement]:
    """Record a sale of a tier that was sold before, made by a second process of the same market: this one."""
    fair = stand.fair
    product = fair.product(dataset, PRODUCTS)
    first = fair.person("buyer")
    fair.order(first, fair.quote(first, product), "first")
    second = Market(stand.settings)
    try:
        digest = second.keyring.key_digest(fair.person("buyer"))
        engine = second.database._writing

        def sell() -> None:
            now = second.clock()

            def found(connection: Any) -> Caller:
                caller = find_caller(connection, digest)
                assert caller is not None
                return caller

            def quoted(connection: Any) -> Any:
                return offer(connection, second.settings, found(connection), product, Selection(epsilon="1"), now)

            def ordered(connection: Any) -> Any:
                return second.desk.order(connection, found(connection), quote["quote"], "once", now, licence=LICENCE)

            quote = second.database.submit(quoted).result()
            second.database.submit(ordered).result()

        return recording(engine, sell)
    finally:
        await second.close()


def _count(settings: Settings) -> int:
    engine = create_engine(settings.database_url)
    with engine.connect() as connection:
        found = int(connection.execute(select(func.count()).select_from(orders)).scalar_one())
    engine.dispose()
    return found


def _faults(settings: Settings, sold: list[dict[str, Any]], sales: int, before: int) -> int:
    """Count what is not as it must be: orders, receipts, answers, money, budget."""
    engine = create_engine(settings.database_url)
    with engine.connect() as connection:
        kept = {row.id: row for row in connection.execute(select(orders))}
        balanced = connection.execute(
            select(func.sum(postings.c.amount_minor)).where(postings.c.kind != "deposit")
        ).scalar_one()
        spent = connection.execute(select(datasets.c.spent_nano)).scalar_one()
        charged = connection.execute(select(func.sum(orders.c.charge_nano))).scalar_one()
        poor = connection.execute(select(func.count()).where(accounts.c.balance_minor < 0)).scalar_one()
    engine.dispose()
    answers: dict[tuple[str, str], Any] = {}
    faults = abs(len(kept) - before - sales) + abs(len({one["receipt"]["order"] for one in sold}) - sales)
    for one in sold:
        receipt, answer = one["receipt"], one["answer"]
        row = kept.get(receipt["order"])
        faults += row is None or (row.amount_minor, row.law) != (receipt["price_minor"], answer["law"])
        faults += answers.setdefault((answer["chain"], answer["law"]), answer) != answer
    return int(faults + (balanced != 0) + (spent != charged) + poor)


def _durable_commits(folder: Path, count: int) -> float:
    handle = os.open(folder / "raw", os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    started = time.perf_counter()
    for _ in range(count):
        os.write(handle, bytes(512))
        os.fdatasync(handle)
    seconds = time.perf_counter() - started
    os.close(handle)
    return count / seconds
