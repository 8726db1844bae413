"""An export of any length, written as a market writes one, and verified offline."""

import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec

from app.audit.export import FORMAT, Header, KeyRecord, LeafRecord, OpeningRecord, encode_line
from app.audit.verify import verify_export
from app.keyring import PURPOSES, Keyring
from app.log.heads import public_hex, sign
from app.log.leaves import Leaf, encode
from app.log.merkle import Frontier, leaf_hash
from benchmarks._audit_market import Product, Writer

__all__ = ["SIGNER", "verify", "write"]

KEYRING = Keyring(*({1: bytes(range(number, number + 32))} for number in range(len(PURPOSES))))
SIGNER = KEYRING.signer()
MEBI = 2**20


def write(path: Path, products: int, sales: int) -> dict[str, Any]:
    """Write an export of `products` chains with `sales` sales each; its answers are opened, its draws replayable."""
    writer = Writer(KEYRING, products, sales, top=True)
    frontier, made = Frontier(), []
    beside_it = path.with_suffix(".leaves")
    with beside_it.open("wb") as file:

        def put(leaf: Leaf) -> None:
            nonlocal frontier
            body = encode(leaf)
            digest = leaf_hash(body)
            frontier = frontier.append(digest)
            file.write(encode_line(LeafRecord(index=leaf.index, hash=digest.hex(), leaf=msgspec.Raw(body))))

        for leaf in writer.opened(public_hex(SIGNER)):
            put(leaf)
        highest: dict[str, int] = {}
        for number in range(products):
            made.append(writer.product(number))
            for leaf in writer.published(frontier.size, made[-1], writer.computed(made[-1])):
                put(leaf)
        for number in range(sales):
            for product in made:
                put(leaf := writer.sold(frontier.size, product, number, highest))
    head = sign(frontier.size, frontier.root(), leaf.at, 1, SIGNER)
    with path.open("wb") as file:
        file.write(encode_line(Header(format=FORMAT, head=head, public_key=public_hex(SIGNER))))
        with beside_it.open("rb") as leaves:
            while chunk := leaves.read(MEBI):
                file.write(chunk)
        for product in made:
            file.writelines(_evidence(writer, product))
    beside_it.unlink()
    return {"leaves": frontier.size}


def _evidence(writer: Writer, product: Product) -> Iterator[bytes]:
    for draw in product.draws:
        law = draw.spec.law.identity
        opening = writer.opening(draw).hex()
        answer = [str(value) for value in draw.answer]
        yield encode_line(OpeningRecord(chain=product.chain, law=law, opening=opening, answer=answer))
        if not draw.spec.role.reads_truth:
            key = writer.key(draw).hex()
            yield encode_line(KeyRecord(chain=product.chain, law=law, key=key))


def verify(path: Path) -> dict[str, Any]:
    """Verify an export; return the speed of its leaves (A1 once a plan, A2 to A4), and the time of all with A7."""
    marks: list[tuple[int, float]] = []
    started = time.process_time()
    with path.open("rb") as lines:
        report = verify_export(
            lines, public_hex(SIGNER), progress=lambda read: marks.append((read, time.process_time()))
        )
    cpu = time.process_time() - started
    assert report.findings == (), report.findings[:3]
    read, then = max((mark for mark in marks if mark[0] <= report.leaves), default=(report.leaves, started + cpu))
    return {
        "leaves_per_second": read / (then - started),
        "chains": report.chains,
        "cpu": cpu,
        "draws": report.draws,
        "leaves": report.leaves,
        "opened": report.opened,
        "replayed": report.replayed,
        "sales": report.sales,
    }
