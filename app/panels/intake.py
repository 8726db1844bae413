"""Deliveries as they are read: rows of (device, report) from JSON, NDJSON, Arrow or Parquet, good ones and bad ones.

A report is the rising list of its places: a set has one form, so nothing but membership is carried.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import msgspec
import numpy as np
import numpy.typing as npt
from msgspec import Meta

from app.errors import InvalidRequestError
from app.panels.mechanism import Plan
from app.strict import check_json

if TYPE_CHECKING:
    import pyarrow

__all__ = ["Batch", "Refusal", "ReportRow", "read_file", "read_rows"]

_ROWS = 1 << 15
_LINE = 1 << 16
_DEVICE = 128
Numbers = npt.NDArray[np.int64]


class ReportRow(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One device's report of a round: the rising places that it holds."""

    device: Annotated[str, Meta(min_length=1, max_length=_DEVICE, pattern=r"^[^\x00-\x1f\x7f]+\Z")]
    report: Annotated[tuple[Annotated[int, Meta(ge=0, le=4_096)], ...], Meta(max_length=4_096)]


@dataclass(frozen=True, slots=True)
class Refusal:
    """A row that is not taken: its line (from 1) and the rule that it breaks. What came is not repeated."""

    line: int
    rule: str


@dataclass(frozen=True, slots=True)
class Batch:
    """Rows that are well formed, with their reports as stored bytes, and those that are not."""

    lines: Sequence[int]
    devices: Sequence[str]
    reports: Sequence[bytes]
    refused: Sequence[Refusal]


def read_rows(plan: Plan, rows: Sequence[ReportRow]) -> Iterator[Batch]:
    """Yield the rows of a request's body; their lines are their places in it, from 1."""
    yield _checked(plan, range(1, len(rows) + 1), [row.device for row in rows], [row.report for row in rows], [])


def read_file(plan: Plan, path: Path) -> Iterator[Batch]:
    """Yield a file's rows, a run at a time.

    Raises:     InvalidRequestError: no such format, or a file that ends early or cannot be read as what it says it is.
    """
    readers = {".ndjson": _lines, ".arrow": _arrow, ".parquet": _parquet}
    if path.suffix not in readers:
        raise InvalidRequestError("file: expected a name that ends in .ndjson, .arrow or .parquet, got another")
    yield from readers[path.suffix](plan, path)


def _lines(plan: Plan, path: Path) -> Iterator[Batch]:
    decoder = msgspec.json.Decoder(ReportRow)
    lines: list[int] = []
    rows: list[ReportRow] = []
    refused: list[Refusal] = []
    with path.open("rb") as file:
        number = 0
        while raw := file.readline(_LINE + 1):
            number += 1
            if len(raw) > _LINE:
                refused.append(Refusal(number, f"a line of at most {_LINE} bytes"))
                while raw and not raw.endswith(b"\n"):
                    raw = file.readline(_LINE)
                continue
            try:
                row = decoder.decode(raw)
                check_json("row", raw)
            except (msgspec.MsgspecError, InvalidRequestError, UnicodeDecodeError):
                refused.append(Refusal(number, "an object with device and report, as documented"))
            else:
                lines.append(number)
                rows.append(row)
            if len(rows) + len(refused) >= _ROWS:
                yield _checked(plan, lines, [row.device for row in rows], [row.report for row in rows], refused)
                lines, rows, refused = [], [], []
    yield _checked(plan, lines, [row.device for row in rows], [row.report for row in rows], refused)


def _arrow(plan: Plan, path: Path) -> Iterator[Batch]:
    import pyarrow as pa

    try:
        with pa.OSFile(str(path)) as file, pa.ipc.open_stream(file) as reader:
            yield from _tables(plan, reader)
    except (pa.ArrowException, OSError, ValueError) as error:
        raise _unreadable("an Arrow stream") from error


def _parquet(plan: Plan, path: Path) -> Iterator[Batch]:
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        with pq.ParquetFile(path) as file:
            yield from _tables(plan, file.iter_batches(batch_size=_ROWS))
    except (pa.ArrowException, OSError, ValueError) as error:
        raise _unreadable("a Parquet file") from error


def _unreadable(kind: str) -> InvalidRequestError:
    return InvalidRequestError(f"file: expected {kind}, whole, with columns device and report, got another or a part")


def _tables(plan: Plan, batches: "Iterator[pyarrow.RecordBatch]") -> Iterator[Batch]:
    import pyarrow as pa

    first = 1
    for batch in batches:
        if set(batch.schema.names) != {"device", "report"}:
            raise ValueError("columns")
        for at in range(0, batch.num_rows, _ROWS):
            part = batch.slice(at, _ROWS)
            devices = part.column("device").cast(pa.string()).to_pylist()
            reports = part.column("report").cast(pa.list_(pa.int64())).to_pylist()
            lines, refused = [], []
            for place, (device, report) in enumerate(zip(devices, reports, strict=True)):
                known = device is not None and 0 < len(device) <= _DEVICE and device.isprintable()
                if known and report is not None and None not in report:
                    lines.append(place)
                else:
                    refused.append(Refusal(first + place, "a device's name and a report, neither missing"))
            kept = [first + place for place in lines]
            taken = [devices[place] for place in lines], [reports[place] for place in lines]
            yield _checked(plan, kept, *taken, refused)
            first += part.num_rows


def _checked(
    plan: Plan, lines: Sequence[int], devices: Sequence[str], reports: Sequence[Sequence[int]], bad: Sequence[Refusal]
) -> Batch:
    """Refuse what the mechanism cannot have given, and pack the rest into bits, all at once."""
    sizes = np.fromiter((len(report) for report in reports), np.int64, len(reports))
    flat = np.fromiter((place for report in reports for place in report), np.int64, int(sizes.sum()))
    rows = np.repeat(np.arange(len(reports)), sizes)
    size = plan.size(0)
    wrong = [
        (_any(rows, (flat < 0) | (flat >= plan.bits), len(reports)), f"places from 0 to {plan.bits - 1}"),
        (
            _any(rows[1:], (rows[1:] == rows[:-1]) & (flat[1:] <= flat[:-1]), len(reports)),
            "places that rise: a set has one form",
        ),
        (sizes != size if size else np.zeros(len(reports), np.bool_), f"a set of {size} places"),
    ]
    fine = ~np.any([broken for broken, _ in wrong], axis=0)
    refused = list(bad)
    for row in np.flatnonzero(~fine).tolist():
        rule = next(rule for broken, rule in wrong if broken[row])
        refused.append(Refusal(lines[row], rule))
    keep = fine[rows] if len(rows) else np.zeros(0, np.bool_)
    packed = np.zeros((len(reports), plan.width), np.uint8)
    places, owners = flat[keep], rows[keep]
    np.bitwise_or.at(packed, (owners, places >> 3), (1 << (places & 7)).astype(np.uint8))
    good = np.flatnonzero(fine).tolist()
    return Batch(
        [lines[row] for row in good],
        [devices[row] for row in good],
        [packed[row].tobytes() for row in good],
        sorted(refused, key=lambda refusal: refusal.line),
    )


def _any(rows: Numbers, broken: npt.NDArray[np.bool_], count: int) -> npt.NDArray[Any]:
    return np.bincount(rows[broken], minlength=count).astype(np.bool_)
