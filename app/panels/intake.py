"""Deliveries as they are read: rows of (device, report) from JSON, NDJSON, Arrow or Parquet, good ones and bad ones.

A report is a list of whole numbers, as its panel's mechanism writes them; a set is the rising list of its places: it
has one form, so nothing but membership is carried.
"""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import msgspec
import numpy as np
from msgspec import Meta

from app.errors import InvalidRequestError
from app.panels.plans.base import Labels, Plan
from app.panels.plans.lists import Lists
from app.panels.plans.mixture import label_of
from app.strict import check_json

if TYPE_CHECKING:
    import pyarrow

__all__ = ["Batch", "Form", "Refusal", "ReportRow", "read_file", "read_rows"]

_ROWS = 1 << 15
_LINE = 1 << 16
_DEVICE = r"^[^\x00-\x1f\x7f]{1,128}\Z"
_NAMED = re.compile(_DEVICE)
_LARGEST = 2**32 - 1


class ReportRow(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One device's report of a round, as `app.panels.device.encode` writes it."""

    device: Annotated[str, Meta(min_length=1, max_length=128, pattern=_DEVICE)]
    report: Annotated[tuple[Annotated[int, Meta(ge=0, le=_LARGEST)], ...], Meta(max_length=4_097)]


@dataclass(frozen=True, slots=True)
class Form:
    """What a report of a panel must be: its plan, and the panel, whose name is in each device's public label."""

    panel: str
    plan: Plan

    def labels(self, devices: Sequence[str]) -> Labels:
        """Return the devices' labels, where the plan has paths."""
        if not self.plan.by_path:
            return np.zeros(len(devices), np.int64)
        return np.fromiter((label_of(self.panel, device) for device in devices), np.int64, len(devices))


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


def read_rows(form: Form, rows: Sequence[ReportRow]) -> Iterator[Batch]:
    """Yield the rows of a request's body; their lines are their places in it, from 1."""
    yield _checked(form, range(1, len(rows) + 1), [row.device for row in rows], [row.report for row in rows], [])


def read_file(form: Form, path: Path) -> Iterator[Batch]:
    """Yield a file's rows, a run at a time.

    Raises:     InvalidRequestError: no such format, or a file that ends early or cannot be read as what it says it is.
    """
    readers = {".ndjson": _lines, ".arrow": _arrow, ".parquet": _parquet}
    if path.suffix not in readers:
        raise InvalidRequestError("file: expected a name that ends in .ndjson, .arrow or .parquet, got another")
    yield from readers[path.suffix](form, path)


def _lines(form: Form, path: Path) -> Iterator[Batch]:
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
                yield _checked(form, lines, [row.device for row in rows], [row.report for row in rows], refused)
                lines, rows, refused = [], [], []
    yield _checked(form, lines, [row.device for row in rows], [row.report for row in rows], refused)


def _arrow(form: Form, path: Path) -> Iterator[Batch]:
    import pyarrow as pa

    try:
        with pa.OSFile(str(path)) as file, pa.ipc.open_stream(file) as reader:
            yield from _tables(form, reader)
    except (pa.ArrowException, OSError, ValueError) as error:
        raise _unreadable("an Arrow stream") from error


def _parquet(form: Form, path: Path) -> Iterator[Batch]:
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        with pq.ParquetFile(path) as file:
            yield from _tables(form, file.iter_batches(batch_size=_ROWS))
    except (pa.ArrowException, OSError, ValueError) as error:
        raise _unreadable("a Parquet file") from error


def _unreadable(kind: str) -> InvalidRequestError:
    return InvalidRequestError(f"file: expected {kind}, whole, with columns device and report, got another or a part")


def _tables(form: Form, batches: "Iterator[pyarrow.RecordBatch]") -> Iterator[Batch]:
    import pyarrow as pa

    first = 1
    for batch in batches:
        if sorted(batch.schema.names) != ["device", "report"] or not _fitting(batch.schema):
            raise ValueError("columns")
        for at in range(0, batch.num_rows, _ROWS):
            part = batch.slice(at, _ROWS)
            devices = part.column("device").cast(pa.string()).to_pylist()
            reports = part.column("report").to_pylist()
            lines, refused = [], []
            for place, (device, report) in enumerate(zip(devices, reports, strict=True)):
                if device is None or not _NAMED.match(device) or report is None or None in report:
                    refused.append(Refusal(first + place, "a device's name and a report, neither missing"))
                elif report and not 0 <= min(report) <= max(report) <= _LARGEST:
                    refused.append(Refusal(first + place, f"numbers from 0 to {_LARGEST}"))
                else:
                    lines.append(place)
            kept = [first + place for place in lines]
            taken = [devices[place] for place in lines], [reports[place] for place in lines]
            yield _checked(form, kept, *taken, refused)
            first += part.num_rows


def _fitting(schema: "pyarrow.Schema") -> bool:
    """Return whether the columns are text and lists of whole numbers; nothing else is read as these."""
    import pyarrow.types as of

    device, report = schema.field("device").type, schema.field("report").type
    device = device.value_type if of.is_dictionary(device) else device
    lists = of.is_list(report) or of.is_large_list(report) or of.is_fixed_size_list(report)
    text = of.is_string(device) or of.is_large_string(device) or of.is_string_view(device)
    return bool(text and lists and (of.is_integer(report.value_type) or of.is_null(report.value_type)))


def _checked(
    form: Form, lines: Sequence[int], devices: Sequence[str], reports: Sequence[Sequence[int]], bad: Sequence[Refusal]
) -> Batch:
    """Refuse what the mechanism cannot have given, and pack the rest, all at once."""
    labels = form.labels(devices)
    packed, faults = form.plan.pack(Lists.of(reports), labels)
    fine = ~np.any([broken for broken, _ in faults], axis=0)
    refused = list(bad)
    for row in np.flatnonzero(~fine).tolist():
        rule = next(rule for broken, rule in faults if broken[row])
        refused.append(Refusal(lines[row], rule))
    good = np.flatnonzero(fine).tolist()
    return Batch(
        [lines[row] for row in good],
        [devices[row] for row in good],
        [packed[row].tobytes() for row in good],
        sorted(refused, key=lambda refusal: refusal.line),
    )
