"""The auditor at work: the gate of a release, an audit of a whole market, an export verified offline."""

import asyncio
import json
import os
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import msgspec
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from app.audit.export import FORMAT, Header, KeyRecord, LeafRecord, OpeningRecord, encode_line
from app.audit.gate import Gate
from app.audit.reports import audit_market
from app.audit.verify import verify_export
from app.demo.flights import DATASET, provide_file
from app.engine.release import answer_context
from app.log.heads import public_hex, sign
from app.log.journal import store_head, store_leaves
from app.log.leaves import Leaf, encode
from app.log.merkle import Frontier, leaf_hash
from app.main import build_app
from app.market import Market
from app.settings import Settings
from app.store import schema
from benchmarks._audit_market import KEYS, LINEAGE, SNAPSHOT, Product, Writer
from benchmarks.row import Row, at_least, at_most, beside
from tiers.chain import answer_bytes
from tiers.identity import stream_key

SIGNER = Ed25519PrivateKey.from_private_bytes(bytes(range(32)))
SECRET = bytes(range(1, 33))
EXPECTED = (
    "gate of a release, after the plan's first",
    "gate of a chain's first release",
    "full audit of issued answers in a store",
    "full audit, peak memory",
    "offline verification, one pass",
    "offline verification, peak memory",
)
MEBI = 2**20


def rows(*, quick: bool) -> list[Row]:
    """Measure; `quick` shortens the runs."""
    with tempfile.TemporaryDirectory(prefix="tiermarket-bench-") as folder:
        first, later = _gate(Path(folder) / "gate", 20 if quick else 200)
        _child("fill", str(Path(folder) / "market"), "500" if quick else "25000")
        whole = _child("audit", str(Path(folder) / "market"))
        shape = ("100", "95") if quick else ("10000", "95")
        export = Path(folder) / "export.ndjson"
        _child("write", str(export), *shape)
        offline = _child("verify", str(export))
        size = export.stat().st_size
    answers, leaves = whole["opened"], offline["leaves"]
    mix = f"{leaves} leaves, {offline['chains']} plans, {offline['draws']} draws, {offline['sales']} sales"
    how = f"{mix}; A2 to A4, A1 once a plan; one process, CPU time"
    whole_how = f"the same file to its end: {offline['opened']} opened, {offline['replayed']} replayed"
    return [
        at_most(EXPECTED[0], statistics.median(later), 1, "ms", f"median of {len(later)}, in the sale's transaction"),
        beside("gate of a release, 95th percentile", statistics.quantiles(later, n=20)[-1], "ms", "of the same"),
        beside(EXPECTED[1], first, "ms", "certificates, question and draws of the chain"),
        at_most(
            EXPECTED[2], whole["seconds"], 60, "s", f"{answers} answers, {whole['replayed']} replayed; wall, 1 process"
        ),
        at_most(EXPECTED[3], whole["mebibytes"], 1024, "MiB", "peak resident memory of that process"),
        at_least(EXPECTED[4], offline["leaves_per_second"], 50_000, "leaves/s", how),
        beside("offline verification with A7", leaves / offline["cpu"], "leaves/s", whole_how),
        at_most(EXPECTED[5], offline["mebibytes"], 1024, "MiB", f"an export of {size / MEBI:.0f} MiB"),
    ]


# --- the gate, on a market that sells ---------------------------------------------------------------------------------


def _gate(folder: Path, sales: int) -> tuple[float, list[float]]:
    """Return milliseconds of the gate at a chain's first release, and at each later one."""
    from litestar.testing import TestClient

    from app.demo.run import open_operator

    settings = Settings.at(folder)
    settings.prepare()
    provide_file(settings.data)
    operator = open_operator(settings)
    times: list[float] = []
    honest = Gate.check

    def timed(self: Gate, *arguments: Any) -> Any:
        started = time.perf_counter()
        found = honest(self, *arguments)
        times.append((time.perf_counter() - started) * 1000)
        return found

    Gate.check = timed  # type: ignore[method-assign]
    try:
        with TestClient(build_app(settings)) as client:

            def post(path: str, body: dict[str, Any], key: str, **headers: str) -> dict[str, Any]:
                made = client.post(path, json=body, headers={"Authorization": f"Bearer {key}"} | headers)
                made.raise_for_status()
                return dict(made.json())

            owner = post("/v1/accounts", {"role": "owner", "name": "owner"}, operator)["api_key"]
            buyer = post("/v1/accounts", {"role": "buyer", "name": "buyer"}, operator)
            money = {"amount_minor": 10**9, "currency": "EUR", "reference": "r"}
            post(f"/v1/accounts/{buyer['account']}/deposits", money, operator)
            dataset = post("/v1/datasets", DATASET | {"budget": "1000"}, owner)["dataset"]
            product = post("/v1/products", _product(dataset), owner)["product"]
            for number in range(sales + 1):
                epsilon = ("0.1", "2", "1", "0.5")[number % 4]
                quote = post("/v1/quotes", {"product": product, "epsilon": epsilon}, buyer["api_key"])["quote"]
                post("/v1/orders", {"quote": quote}, buyer["api_key"], **{"Idempotency-Key": f"k{number}"})
    finally:
        Gate.check = honest  # type: ignore[method-assign]
    return times[0], times[1:]


def _product(dataset: str) -> dict[str, Any]:
    return {
        "dataset": dataset,
        "title": "Late by more than 30",
        "unit_label": "flights",
        "left_out": "flights of one aircraft beyond 10",
        "licence": "bench/1",
        "currency": "EUR",
        "query": {
            "measure": {"type": "count", "of": "rows"},
            "where": {"type": "comparison", "column": "arr_delay", "operator": ">", "value": 30},
            "group_by": {"type": "keys", "column": "carrier", "keys": list(KEYS)},
            "rows_per_unit": 10,
            "groups_per_unit": 2,
        },
        "tiers": [{"epsilon": text, "price_minor": 100} for text in ("2", "1", "0.5", "0.1")],
    }


# --- an export, written and verified ----------------------------------------------------------------------------------


def write(path: Path, products: int, sales: int) -> dict[str, Any]:
    """Write an export of `products` chains with `sales` sales each; its answers are opened, its draws replayable."""
    writer = Writer(SECRET, products, sales, top=True)
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
            for leaf in writer.published(frontier.size, made[-1]):
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
        opening = writer.opening(product, draw).hex()
        answer = [str(value) for value in draw.answer]
        yield encode_line(OpeningRecord(chain=product.chain, law=law, opening=opening, answer=answer))
        if not draw.spec.role.reads_truth:
            key = stream_key(writer.secret, draw.spec).hex()
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


# --- a store with many issued answers, audited whole ------------------------------------------------------------------


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
    ring, owner, at = opened.keyring, "acc_" + "0" * 24, "2026-01-01T00:00:00Z"
    writer = Writer(ring.owner_secret(owner, 1), products, 1, top=True)

    def work(connection: Any) -> None:
        from app.log.journal import frontier_of

        frontier = frontier_of(connection)
        connection.execute(
            schema.accounts.insert().values(
                id=owner,
                role="owner",
                name="owner",
                pseudonym="p_owner",
                currency="EUR",
                balance_minor=0,
                created_at=at,
            )
        )
        connection.execute(schema.datasets.insert().values(**_row(schema.datasets, id=LINEAGE, owner_id=owner)))
        connection.execute(
            schema.snapshots.insert().values(
                **_row(schema.snapshots, id=SNAPSHOT, dataset_id=LINEAGE, number=1, content="1" * 64)
            )
        )
        bodies = [encode(leaf) for leaf in writer.opened("")[2:]]
        highest: dict[str, int] = {}
        chains, drawn, size = [], [], frontier.size + len(bodies)
        for number in range(products):
            product = writer.product(number)
            leaves: list[Leaf] = list(writer.published(size, product))
            leaves.append(writer.sold(size + len(leaves), product, 0, highest))
            bodies += [encode(leaf) for leaf in leaves]
            chains.append(
                _row(
                    schema.chains,
                    id=product.chain,
                    dataset_id=LINEAGE,
                    snapshot_id=SNAPSHOT,
                    fingerprint=product.fingerprint,
                    epoch=1,
                    highest_nano=product.plan.tiers[0].level_nano,
                )
            )
            for place, draw in enumerate(product.draws):
                law = draw.spec.law.identity
                kept = writer.opening(product, draw) + answer_bytes(draw.answer)
                made = writer.computed(product, draw, ring.seal(kept, answer_context(product.chain, law)))
                drawn.append(
                    _row(
                        schema.draws,
                        chain_id=product.chain,
                        law=law,
                        place=place,
                        commitment=made.commitment,
                        key_hash=made.key_hash,
                        sealed_answer=made.sealed,
                        leaf_index=size + 1 + place,
                        epoch=1,
                    )
                )
            size += len(leaves)
        frontier = store_leaves(connection, frontier, bodies)
        last = json.loads(bodies[-1])["at"]
        store_head(connection, frontier, sign(frontier.size, frontier.root(), last, 1, ring.signer(1)))
        connection.execute(schema.chains.insert(), chains)
        connection.execute(schema.draws.insert(), drawn)

    opened.database.submit(work).result()


def _row(table: Any, **values: Any) -> dict[str, Any]:
    """A row with something of the right type wherever an audit does not look."""
    empty = {"INTEGER": 1, "BIGINT": 1, "BLOB": b""}
    return {
        column.name: empty.get(column.type.__visit_name__.upper(), "0")
        for column in table.columns
        if not column.nullable
    } | values


def _child(act: str, *arguments: str) -> dict[str, Any]:
    command = [sys.executable, "-m", "benchmarks._audit_app", act, *arguments]
    ended = subprocess.run(command, check=True, stdout=subprocess.PIPE, env=os.environ)
    return dict(json.loads(ended.stdout))


def main() -> None:
    """Run one act in a process of its own, so that its memory is its own."""
    act, where, *numbers = sys.argv[1:]
    acts: dict[str, Callable[..., dict[str, Any]]] = {"write": write, "verify": verify, "fill": fill, "audit": audit}
    outcome = acts[act](Path(where), *(int(number) for number in numbers))
    sys.stdout.write(json.dumps(outcome | {"mebibytes": _peak()}))


def _peak() -> float:
    """Peak resident memory in MiB. Linux counts a parent's into `getrusage` of what it starts, so it is asked first."""
    status = Path("/proc/self/status")
    if status.exists():
        line = next(line for line in status.read_text().splitlines() if line.startswith("VmHWM:"))
        return int(line.split()[1]) / 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / MEBI


if __name__ == "__main__":
    main()
