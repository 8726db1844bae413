"""A round's tiers derived elsewhere: the job and its numbered reports written for a cluster, its answers read back.

Whatever runs the job, a round's record is made from the bytes that come back: where they are not those of the kernels
here, an auditor's replay finds it, and a round that is closed already refuses them.
"""

import shlex
import shutil
import subprocess
import sys
from collections.abc import Iterable, Iterator, Sequence
from functools import partial
from importlib.util import find_spec
from pathlib import Path

import msgspec

from app.errors import InvalidRequestError, StoreUnavailableError
from app.panels.plans.base import Plan
from app.panels.rounds import RUN, Engine, private_file
from app.panels.spark import Job
from tiers.budget import decimal_text

__all__ = ["on_cluster"]

_SPARK = f"{shlex.quote(sys.executable)} -m app.panels.spark"


def on_cluster(folder: Path, command: str | None = None) -> Engine:
    """Return the engine that runs `app/panels/spark.py`.

    Args:       folder: for the job (which holds the keys of the steps), the reports and the answers: nobody else may
                read it, and it is removed at the end; where the job runs on other machines they must see it. command:
                what runs the module; JOB REPORTS TARGET are appended. Without one it runs in this interpreter.
    Raises:     InvalidRequestError: no command, and no pyspark here.
    """
    if command is None and find_spec("pyspark") is None:
        raise InvalidRequestError(
            "engine: expected pyspark (pip install 'tiermarket[spark]') or a command by --with, got neither"
        )
    return partial(_derived, folder, shlex.split(command or _SPARK))


def _derived(
    folder: Path, command: Sequence[str], plan: Plan, keys: Sequence[bytes], runs: Iterable[bytes]
) -> Iterator[Sequence[bytes]]:
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(mode=0o700, parents=True)
    try:
        job, reports, target = folder / "job.json", folder / "reports", folder / "tiers"
        ranks = range(len(plan.ladder))
        told = Job(
            mechanism=plan.mechanism,
            domain_size=plan.domain_size,
            ladder=tuple(decimal_text(epsilon) for epsilon in plan.ladder),
            keys=tuple(key.hex() for key in keys),
            laws=tuple(plan.parameters(rank) for rank in ranks),
        )
        with private_file(job) as file:
            file.write(msgspec.json.encode(told))
        count = _write(reports, plan.width, runs)
        whole = [*command, *map(str, (job, reports, target))]  # the operator's own words, and our paths
        done = subprocess.run(whole, capture_output=True, check=False)  # noqa: S603
        if done.returncode:
            raise StoreUnavailableError(f"cluster: expected the job to end well, got exit status {done.returncode}")
        yield from _read(target, plan.width, len(ranks), count)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _write(folder: Path, width: int, runs: Iterable[bytes]) -> int:
    import pyarrow as pa
    import pyarrow.parquet as pq

    folder.mkdir(mode=0o700)
    first = 0
    schema = pa.schema([("number", pa.int64()), ("report", pa.binary())])
    with pq.ParquetWriter(folder / "reports.parquet", schema) as file:
        for raw in runs:
            rows = [raw[at : at + width] for at in range(0, len(raw), width)]
            numbers = pa.array(range(first, first + len(rows)), pa.int64())
            file.write_batch(pa.RecordBatch.from_arrays([numbers, pa.array(rows, pa.binary())], schema=schema))
            first += len(rows)
    return first


def _read(folder: Path, width: int, tiers: int, count: int) -> Iterator[Sequence[bytes]]:
    """Yield the tiers in the order of the reports' numbers: all of them, each once, each of its size."""
    import pyarrow.parquet as pq

    due, names = 0, [f"tier_{rank}" for rank in range(tiers)]
    for path in sorted(folder.glob("*.parquet"), key=_first):
        with pq.ParquetFile(path) as file:
            for batch in file.iter_batches(batch_size=RUN, columns=["number", *names]):
                numbers = batch.column("number").to_pylist()
                parts = [batch.column(name).to_pylist() for name in names]
                sized = all(each is not None and len(each) == width for part in parts for each in part)
                if numbers != list(range(due, due + len(numbers))) or not sized:
                    raise StoreUnavailableError(
                        "cluster: expected every report once, in order and of its size, got others"
                    )
                due += len(numbers)
                yield [b"".join(part) for part in parts]
    if due != count:
        raise StoreUnavailableError(f"cluster: expected {count} reports back, got {due}")


def _first(path: Path) -> int:
    import pyarrow.parquet as pq

    with pq.ParquetFile(path) as file:
        batch = next(file.iter_batches(batch_size=1, columns=["number"]), None)
        return -1 if batch is None or not batch.num_rows else int(batch.column("number")[0].as_py())
