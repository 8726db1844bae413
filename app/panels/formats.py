"""A tier's reports as NDJSON, Arrow or Parquet: one column of lists, written run by run."""

from collections.abc import Iterator, Mapping
from enum import Enum
from typing import TYPE_CHECKING, Any

from app.panels.plans.lists import Lists
from app.panels.proving import report_lines

if TYPE_CHECKING:
    import pyarrow

__all__ = ["ReportFormat", "written"]


class ReportFormat(Enum):
    """A format with its media type, in the market's order of preference."""

    NDJSON = "application/x-ndjson"
    ARROW = "application/vnd.apache.arrow.stream"
    PARQUET = "application/vnd.apache.parquet"


def written(runs: Iterator[Lists], wanted: ReportFormat, about: Mapping[str, str]) -> Iterator[bytes]:
    """Yield reports in a format, in pieces; memory holds one run.

    Args:       about: labels that travel in the schema of Arrow and Parquet.
    """
    if wanted is ReportFormat.NDJSON:
        return (report_lines(run.rows()) for run in runs)
    return _tables(runs, wanted, about)


class _Sink:
    """A file that is taken away as it is written: nothing is sought in it."""

    closed = False

    def __init__(self) -> None:
        self._written, self._pieces = 0, list[bytes]()

    def write(self, piece: Any) -> int:
        self._pieces.append(bytes(piece))
        self._written += len(self._pieces[-1])
        return len(self._pieces[-1])

    def tell(self) -> int:
        return self._written

    def flush(self) -> None:
        """Nothing waits."""

    def close(self) -> None:
        """What was written is taken by others."""

    def taken(self) -> bytes:
        pieces, self._pieces = self._pieces, []
        return b"".join(pieces)


def _tables(runs: Iterator[Lists], wanted: ReportFormat, about: Mapping[str, str]) -> Iterator[bytes]:
    import pyarrow as pa
    import pyarrow.parquet as pq

    schema = pa.schema([("report", pa.list_(pa.int64()))], metadata=dict(about))
    sink = _Sink()
    writer = (
        pa.ipc.new_stream(pa.PythonFile(sink, "w"), schema)
        if wanted is ReportFormat.ARROW
        else pq.ParquetWriter(pa.PythonFile(sink, "w"), schema, compression="snappy")
    )
    with writer:
        for run in runs:
            writer.write_batch(_batch(run, schema))
            if piece := sink.taken():
                yield piece
    yield sink.taken()


def _batch(run: Lists, schema: "pyarrow.Schema") -> "pyarrow.RecordBatch":
    import pyarrow as pa

    lists = pa.ListArray.from_arrays(pa.array(run.ends, pa.int32()), pa.array(run.flat, pa.int64()))
    return pa.RecordBatch.from_arrays([lists], schema=schema)
