"""Spark derives the tiers that this process derives, bit for bit; the kernels' batches are told apart by numbers."""

import hashlib
from itertools import pairwise
from pathlib import Path

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from app.errors import InvalidRequestError
from app.panels.plans.base import Plan
from app.panels.plans.bits import BitsPlan
from app.panels.plans.sets import SetsPlan, stored_sets
from app.panels.spark import Job, derive_batches
from tests.engines.spark import submit
from tiers.local.columns.chain import encode_sets
from tiers.sampling.words import KeyedWords

MENU = ["3", "1.5", "0.5"]
KEYS = tuple(hashlib.sha256(bytes([step])).hexdigest() for step in range(2))


def job(mechanism: str, domain_size: int) -> Job:
    return Job(mechanism=mechanism, domain_size=domain_size, ladder=tuple(MENU), keys=KEYS)  # type: ignore[arg-type]


def top(plan: Plan, count: int) -> bytes:
    values, words = np.arange(count) * 7 % plan.domain_size, KeyedWords(bytes(32))
    if isinstance(plan, SetsPlan):
        return stored_sets(encode_sets(plan.laws[0], words, 0, values))
    assert isinstance(plan, BitsPlan)
    raw = np.frombuffer(words.read(8 * count), "<u8")
    return (raw & np.uint64((1 << plan.bits) - 1)).tobytes()


def batch(numbers: list[int], reports: list[bytes]) -> pa.RecordBatch:
    return pa.RecordBatch.from_pydict({"number": numbers, "report": reports})


def reports(raw: bytes, width: int) -> list[bytes]:
    return [raw[at : at + width] for at in range(0, len(raw), width)]


@pytest.mark.parametrize(("mechanism", "domain"), [("subset", 9), ("subset", 90), ("flips", 30)])
def test_batches_with_gaps_give_each_number_its_own_tiers(mechanism: str, domain: int) -> None:
    given = job(mechanism, domain)
    plan, derive = given.plan(), given.derive()
    raw = top(plan, 400)
    whole = derive(0, raw)
    assert whole[0] == raw
    rows = reports(raw, plan.width)
    numbers = [3, 4, 5, 90, 200, 201, 399]
    first, later = ([1, *numbers[:4]], numbers[4:])
    batches = [batch(some, [rows[at] for at in some]) for some in (first, [], later)]
    parts = [batches[0].slice(1), *batches[1:]]  # a slice begins within its buffers
    found = pa.Table.from_batches(derive_batches(derive, plan.width, parts))
    assert found["number"].to_pylist() == numbers
    for rank, tier in enumerate(whole):
        own = reports(tier, plan.width)
        assert found[f"tier_{rank}"].to_pylist() == [own[at] for at in numbers]


@pytest.mark.parametrize(
    "batches",
    [
        [batch([1, 1], [b"ab", b"ab"])],
        [batch([2, 1], [b"ab", b"ab"])],
        [batch([-1], [b"ab"])],
        [batch([1], [b"ab"]), batch([1], [b"ab"])],
        [batch([1], [b"abc"])],
        [batch([1, 2], [b"ab", b"a"])],
        [batch([1, 2], [b"a", b"abc"])],
        [pa.RecordBatch.from_pydict({"number": pa.array([None], pa.int64()), "report": [b"ab"]})],
        [pa.RecordBatch.from_pydict({"number": [1], "report": pa.array([None], pa.binary())})],
    ],
)
def test_reports_without_a_number_of_their_own_are_refused(batches: list[pa.RecordBatch]) -> None:
    with pytest.raises(InvalidRequestError, match="number"):
        list(derive_batches(lambda first, raw: [raw], 2, batches))


@pytest.mark.parametrize("keys", [(), KEYS[:1], (KEYS[0], "12"), (KEYS[0], "zz")])
def test_a_job_needs_the_key_of_every_step(keys: tuple[str, ...]) -> None:
    with pytest.raises(InvalidRequestError, match="keys"):
        Job(mechanism="subset", domain_size=9, ladder=tuple(MENU), keys=keys).derive()


@pytest.mark.long
def test_spark_derives_the_tiers_of_this_process_bit_for_bit(tmp_path: Path) -> None:
    """Numbers in no order, over several files: Spark sorts them into its own partitions and batches."""
    given, count = job("subset", 90), 40_000
    plan, derive = given.plan(), given.derive()
    raw = top(plan, count)
    rows, order = reports(raw, plan.width), np.random.default_rng(5).permutation(count).tolist()
    (tmp_path / "in").mkdir()
    for file, (start, end) in enumerate(pairwise([0, 1, 25_000, count])):
        numbers = order[start:end]
        table = pa.Table.from_batches([batch(numbers, [rows[at] for at in numbers])])
        pq.write_table(table, tmp_path / "in" / f"{file}.parquet")
    (tmp_path / "job.json").write_bytes(msgspec.json.encode(given))
    submit("-m", "app.panels.spark", str(tmp_path / "job.json"), str(tmp_path / "in"), str(tmp_path / "out"))
    files = sorted((tmp_path / "out").glob("*.parquet"))
    found = pa.concat_tables([pq.read_table(file) for file in files])
    assert found["number"].to_pylist() == list(range(count))
    for rank, tier in enumerate(derive(0, raw)):
        assert b"".join(found[f"tier_{rank}"].to_pylist()) == tier
