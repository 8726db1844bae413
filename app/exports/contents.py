"""What exports hold: answers as they are read one by one, sales of a dataset, the auditor's export."""

import zipfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import TYPE_CHECKING, Any, Protocol, cast

import msgspec
from sqlalchemy import Connection, func, select

from app.audit.exporting import export_lines
from app.catalog.holdings import held_answers
from app.catalog.products import NewProduct
from app.catalog.readings import read_off, reading_of
from app.engine.state import etag_of
from app.exports.requests import AnswersExport
from app.formats.negotiate import Format
from app.formats.readings import render_reading
from app.formats.rows import Column, Table, write
from app.formats.tables import render
from app.ledger.budget import nano_text
from app.queries.model import Mean, Quantile, Threshold
from app.store.schema import credit_notes, orders, planned_tiers, products

if TYPE_CHECKING:
    from app.market import Market  # which does exports as jobs

__all__ = ["Held", "find_held", "sales_of", "write_answers", "write_log"]

_EPOCH = (1980, 1, 1, 0, 0, 0)  # an archive of the same answers has the same bytes, whenever it is made
_TELL = 1_000


class _Sink(Protocol):
    """What contents are written to."""

    def write(self, data: bytes) -> int:
        """Append."""


@dataclass(frozen=True, slots=True)
class Held:
    """What an account holds: rows of answers in order of the log, and (product, law) of what is read off them."""

    answers: tuple[Mapping[str, Any], ...]
    readings: tuple[tuple[str, str], ...]


def find_held(connection: Connection, account: str, wanted: AnswersExport) -> Held:
    """Return what an account may read now, of one dataset or of all."""
    answers = held_answers(connection, account, wanted.dataset)
    readable = {(answer["chain"], answer["law"]) for answer in answers}
    bought = (
        select(products.c.id, products.c.chain_id, products.c.request_json, products.c.parts_json, orders.c.law)
        .join(products, products.c.id == orders.c.product_id)
        .where(orders.c.account_id == account)
        .order_by(orders.c.leaf_index)
    )
    found: dict[tuple[str, str], None] = {}
    for row in connection.execute(bought):
        measure = msgspec.json.decode(row.request_json, type=NewProduct).query.measure
        shows = isinstance(measure, Quantile | Threshold) or (isinstance(measure, Mean) and row.parts_json is not None)
        if shows and (row.chain_id, row.law) in readable:
            found[row.id, row.law] = None
    return Held(tuple(answers), tuple(found))


def write_answers(
    out: _Sink, market: "Market", held: Held, kind: Format, size: int, progress: Callable[[str], None]
) -> None:
    """Write a ZIP of answers, the bytes of each as `GET` of it gives them, of readings, and an index with all ETags.

    Nothing is compressed and nothing dated: the same answers are the same bytes.
    """
    ending, index = kind.name.lower(), []
    with zipfile.ZipFile(cast(Any, out), "w", zipfile.ZIP_STORED) as archive:
        for number, answer in enumerate(held.answers, start=1):
            chain, law = answer["chain"], answer["law"]
            body = render(market.stored_answer(answer["product"], chain, law), kind)
            name = f"answers/{chain}-{law}.{ending}"
            index.append({"file": name, "etag": etag_of(chain, law, body), **answer})
            archive.writestr(zipfile.ZipInfo(name, _EPOCH), body)
            progress(f"{number} of {len(held.answers)} answers")
        for number, (product, law) in enumerate(held.readings, start=1):
            body = render_reading(_read(market, product, law), kind)
            name = f"readings/{product}-{law}.{ending}"
            index.append({"file": name, "etag": etag_of(product, law, body), "product": product, "law": law})
            archive.writestr(zipfile.ZipInfo(name, _EPOCH), body)
            progress(f"{number} of {len(held.readings)} readings")
        listed = msgspec.json.format(msgspec.json.encode({"log_size": size, "files": index}), indent=1)
        archive.writestr(zipfile.ZipInfo("index.json", _EPOCH), listed)


def _read(market: "Market", product: str, law: str) -> Any:
    found = market.database.read_now(lambda connection: reading_of(connection, product, law))
    parts = zip(found.products, found.parts, strict=True)
    bodies = [market.stored_answer(part, chain, tier.identity) for part, (chain, tier) in parts]
    return read_off(found, bodies, {"product": product, "law": law})


def sales_of(connection: Connection, dataset: str, kind: Format) -> bytes:
    """Return the sales of a dataset in order of the log, without who bought; money in minor units, charges as text."""
    credited = (
        select(func.coalesce(func.sum(credit_notes.c.amount_minor), 0))
        .where(credit_notes.c.order_id == orders.c.id)
        .scalar_subquery()
    )
    wanted = (
        select(orders, products.c.title, planned_tiers.c.epsilon, credited.label("credited_minor"))
        .join(products, products.c.id == orders.c.product_id)
        .join(planned_tiers, (planned_tiers.c.chain_id == orders.c.chain_id) & (planned_tiers.c.law == orders.c.law))
        .where(products.c.dataset_id == dataset)
        .order_by(orders.c.leaf_index)
    )
    rows = [
        {
            "leaf_index": row.leaf_index,
            "at": row.created_at,
            "order": row.id,
            "product": row.product_id,
            "title": row.title,
            "chain": row.chain_id,
            "law": row.law,
            "epsilon": row.epsilon,
            "charged": nano_text(row.charge_nano),
            "amount_minor": row.amount_minor,
            "credited_minor": int(row.credited_minor),
            "currency": row.currency,
        }
        for row in connection.execute(wanted)
    ]
    if kind is Format.JSON:
        return msgspec.json.encode(rows)
    return write(Table(tuple(_columns(rows)), {"dataset": dataset}), kind)


def _columns(rows: Sequence[Mapping[str, Any]]) -> list[Column]:
    texts = ("at", "order", "product", "title", "chain", "law", "epsilon", "charged")
    numbers = ("amount_minor", "credited_minor")

    def counted(name: str) -> Column:
        return Column(name, [Decimal(row[name]) for row in rows], name)

    def text(name: str) -> Column:
        return Column(name, [row[name] for row in rows])

    return [counted("leaf_index"), *map(text, texts), *map(counted, numbers), text("currency")]


def write_log(out: _Sink, connection: Connection, market: "Market", size: int, progress: Callable[[str], None]) -> None:
    """Write the auditor's export, from one consistent read."""
    for number, line in enumerate(export_lines(connection, market), start=1):
        out.write(line)
        if number % _TELL == 0:
            progress(f"{number} records; the log has {size} leaves")
