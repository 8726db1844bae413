"""A round's tiers on a Spark cluster: the very kernels of `tiers/local/columns/`, by `mapInArrow`.

A report's words belong to its number, so it does not matter which executor meets it, in which batch, or how often: the
tiers are those of `close_round`, bit for bit. Reports are told apart by their numbers, and sorted by them within a
partition, so that most batches are one run of the kernels.

    spark-submit app/panels/spark.py JOB REPORTS TARGET

`JOB` is a file as `Job` has it. It holds the keys of the steps, which the executors need: whoever reads it learns from
a tier's reports what the tiers below keep of them. `REPORTS` are Parquet files of `number` (whole, from 0) and `report`
(as the market stores it) of the top tier; `TARGET` becomes a folder of `number`, `tier_0`, `tier_1`, …, numbers rising.
"""

import sys
from argparse import ArgumentParser
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec
import numpy as np
import numpy.typing as npt
import pyarrow as pa

from app.errors import InvalidRequestError
from app.panels.mechanism import plan_of, read_plan
from app.panels.plans.base import Mechanism, Plan
from tiers.budget import Ladder

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

__all__ = ["Derive", "Job", "derive_batches", "derive_frame", "main"]

Derive = Callable[[int, bytes], list[bytes]]
"""From the number of a run's first report, and the run as stored, to every tier of it as stored."""


class Job(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What a cluster is told of a round: mechanism, domain (of points its sizes), menu, and each step's key, in hex.

    Args:       laws: of each tier, as the panel has them; without them the mechanism is planned again.
    """

    mechanism: Mechanism
    domain_size: int
    ladder: tuple[str, ...]
    keys: tuple[str, ...]
    sizes: tuple[int, ...] = ()
    laws: tuple[dict[str, str], ...] = ()

    def plan(self) -> Plan:
        """Return the plan; raises what a mechanism raises that cannot be."""
        ladder = Ladder.parse(list(self.ladder))
        if self.laws:
            return read_plan(self.mechanism, self.domain_size, ladder, self.laws)
        return plan_of(self.mechanism, self.domain_size, ladder, sizes=self.sizes)

    def derive(self) -> Derive:
        """Return the derivation of a run.

        Raises:     InvalidRequestError: another number of keys than of steps, or keys that are not 32 bytes.
        """
        try:
            keys = [bytes.fromhex(key) for key in self.keys]
        except ValueError:
            keys = []
        if len(keys) != len(self.ladder) - 1 or any(len(key) != 32 for key in keys):
            raise InvalidRequestError(f"keys: expected {len(self.ladder) - 1} of 32 bytes, in hex, got others")
        return partial(_derived, self.plan(), keys)


def derive_batches(derive: Derive, width: int, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Return every tier of batches of reports whose numbers rise, from batch to batch as well.

    Args:       width: the bytes of a stored report.
    Raises:     InvalidRequestError: numbers that do not rise from at least 0, or a report of another size.
    Example:
        >>> batch = pa.RecordBatch.from_pydict({"number": [3, 4, 9], "report": [b"a", b"b", b"c"]})
        >>> next(derive_batches(lambda first, raw: [raw, raw.upper()], 1, [batch]))["tier_1"].to_pylist()
        [b'A', b'B', b'C']
    """
    last = -1
    for batch in batches:
        if not batch.num_rows:
            continue
        numbers, raw = _columns(batch, width)
        if numbers[0] <= last or (np.diff(numbers) <= 0).any():
            raise InvalidRequestError("number: expected whole numbers that rise from 0, got others")
        last = int(numbers[-1])
        ends = [*(np.flatnonzero(np.diff(numbers) != 1) + 1).tolist(), len(numbers)]
        runs = [
            derive(int(numbers[start]), raw[start * width : end * width])
            for start, end in zip([0, *ends], ends, strict=False)
        ]
        tiers = [_binary(b"".join(parts), len(numbers)) for parts in zip(*runs, strict=True)]
        names = ["number", *(f"tier_{rank}" for rank in range(len(tiers)))]
        yield pa.RecordBatch.from_arrays([pa.array(numbers), *tiers], names)


def derive_frame(frame: "DataFrame", derive: Derive, width: int, tiers: int) -> "DataFrame":
    """Return the frame of every tier of a frame of numbered reports, sorted by number within rising partitions."""
    columns = ", ".join(["number bigint", *(f"tier_{rank} binary" for rank in range(tiers))])
    sorted_by_number = frame.repartitionByRange("number").sortWithinPartitions("number")
    return sorted_by_number.mapInArrow(partial(derive_batches, derive, width), columns)


def main(arguments: list[str]) -> int:
    """Derive the tiers of a job's reports; see the module."""
    from pyspark.sql import SparkSession

    parser = ArgumentParser(prog="spark.py", description="Derive every tier of a round's reports.")
    for name in ("job", "reports", "target"):
        parser.add_argument(name)
    asked = parser.parse_args(arguments)
    job = msgspec.json.decode(Path(asked.job).read_bytes(), type=Job)
    session = SparkSession.builder.appName("tiermarket panel").getOrCreate()
    try:
        frame = session.read.parquet(asked.reports).select("number", "report")
        derive_frame(frame, job.derive(), job.plan().width, len(job.ladder)).write.parquet(asked.target)
    finally:
        session.stop()
    return 0


def _derived(plan: Plan, keys: list[bytes], first: int, raw: bytes) -> list[bytes]:
    return plan.derive(keys, first, raw)


def _columns(batch: pa.RecordBatch, width: int) -> tuple[npt.NDArray[np.int64], bytes]:
    """Return a batch's numbers, and its reports one after another."""
    numbers, reports = batch.column("number"), batch.column("report").cast(pa.binary())
    ends = np.frombuffer(reports.buffers()[1], np.int32)[reports.offset : reports.offset + len(reports) + 1]
    if numbers.null_count or reports.null_count or (np.diff(ends) != width).any():
        raise InvalidRequestError(f"report: expected {width} bytes under a number, got others")
    whole: npt.NDArray[np.int64] = numbers.cast(pa.int64()).to_numpy()
    return whole, bytes(memoryview(reports.buffers()[2])[int(ends[0]) : int(ends[-1])])


def _binary(raw: bytes, count: int) -> pa.Array:
    """Return as many values of one size as there are."""
    ends = np.arange(count + 1, dtype=np.int32) * np.int32(len(raw) // count)
    return pa.Array.from_buffers(pa.binary(), count, [None, pa.py_buffer(ends), pa.py_buffer(raw)])


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
