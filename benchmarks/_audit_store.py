"""A store with many issued answers, filled as sales fill one, and audited whole."""

import asyncio
import time
from pathlib import Path
from typing import Any

from sqlalchemy import Connection

from app.audit.reports import audit_market
from app.engine.release import draw_row
from app.log.heads import sign
from app.log.journal import frontier_of, store_head, store_leaves
from app.log.leaves import Leaf, encode
from app.market import Market
from app.settings import Settings
from app.store import schema
from benchmarks._audit_market import LINEAGE, OWNER, SNAPSHOT, Writer

__all__ = ["audit", "fill"]

_TOGETHER = 100


def fill(folder: Path, products: int) -> dict[str, Any]:
    """Fill a store with chains whose four answers are all issued."""

    async def work() -> None:
        opened = Market(Settings.at(folder))
        try:
            _fill(opened, products)
        finally:
            await opened.close()

    asyncio.run(work())
    return {"products": products}


def audit(folder: Path) -> dict[str, Any]:
    """Audit a store; return how long that took."""

    async def work() -> dict[str, Any]:
        opened = Market(Settings.at(folder))
        try:
            started = time.perf_counter()
            kept = await asyncio.to_thread(audit_market, opened, lambda _: None)
            seconds = time.perf_counter() - started
        finally:
            await opened.close()
        assert kept["findings"] == [], kept["findings"][:3]
        return {"seconds": seconds, "opened": kept["opened"], "replayed": kept["replayed"]}

    return asyncio.run(work())


def _fill(opened: Market, products: int) -> None:
    writer = Writer(opened.keyring, products, 1, top=True)
    opened.database.submit(lambda connection: _found(connection, opened, writer)).result()
    for first in range(0, products, _TOGETHER):
        numbers = range(first, min(first + _TOGETHER, products))
        opened.database.submit(lambda connection, due=numbers: _sell(connection, opened, writer, due)).result()


def _found(connection: Connection, opened: Market, writer: Writer) -> None:
    """Store what stands before the first product: the owner, the data, their leaves."""
    at = "2026-01-01T00:00:00Z"
    person = {"role": "owner", "name": "owner", "pseudonym": "p_owner", "currency": "EUR"}
    connection.execute(schema.accounts.insert().values(id=OWNER, balance_minor=0, created_at=at, **person))
    connection.execute(schema.datasets.insert().values(**_row(schema.datasets, id=LINEAGE, owner_id=OWNER)))
    snapshot = _row(schema.snapshots, id=SNAPSHOT, dataset_id=LINEAGE, number=1, content="1" * 64)
    connection.execute(schema.snapshots.insert().values(**snapshot))
    _log(connection, opened, writer.opened("")[2:])


def _sell(connection: Connection, opened: Market, writer: Writer, numbers: range) -> None:
    """Publish, draw and sell some products in one transaction."""
    size = frontier_of(connection).size
    logged, chains, drawn = list[Leaf](), list[dict[str, Any]](), list[dict[str, object]]()
    for product in map(writer.product, numbers):
        start, computed = size + len(logged), writer.computed(product)
        logged += writer.published(start, product, computed)
        logged.append(writer.sold(size + len(logged), product, 0, {}))
        ids = {"id": product.chain, "dataset_id": LINEAGE, "snapshot_id": SNAPSHOT, "fingerprint": product.fingerprint}
        chains.append(_row(schema.chains, **ids, epoch=1, highest_nano=product.plan.tiers[0].level_nano))
        drawn += [draw_row(draw, place, start + 1 + place) for place, draw in enumerate(computed)]
    _log(connection, opened, logged)
    connection.execute(schema.chains.insert(), chains)
    connection.execute(schema.draws.insert(), drawn)


def _log(connection: Connection, opened: Market, logged: list[Leaf]) -> None:
    frontier = store_leaves(connection, frontier_of(connection), [encode(leaf) for leaf in logged])
    store_head(connection, frontier, sign(frontier.size, frontier.root(), logged[-1].at, 1, opened.keyring.signer(1)))


def _row(table: Any, **values: Any) -> dict[str, Any]:
    """A row with something of the right type wherever an audit does not look."""
    empty = {"INTEGER": 1, "BIGINT": 1, "BLOB": b""}
    return {
        column.name: empty.get(column.type.__visit_name__.upper(), "0")
        for column in table.columns
        if not column.nullable
    } | values
