"""Deliveries as they are read: rows of (device, report) from JSON, NDJSON, Arrow or Parquet, good ones and bad ones.

A report is a list of whole numbers, as its panel's mechanism writes them; a set is the rising list of its places: it
has one form, so nothing but membership is carried.
"""

import os
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import msgspec
import numpy as np
from msgspec import Meta

from app.errors import InvalidRequestError
from app.panels.plans.base import Fault, Labels, Plan
from app.panels.plans.lists import Lists
from app.panels.plans.mixture import label_of
from app.strict import check_json, told

if TYPE_CHECKING:
    import pyarrow

__all__ = ["Batch", "Form", "Refusal", "ReportRow", "read_file", "read_rows"]

_ROWS, _NUMBERS = 1 << 15, 1 << 20  # of a run, at most: a report of a large domain holds thousands of numbers
_LINE = 1 << 16
_NAME, _LONG = 128, 4_097
_DEVICE = r"^[^\x00-\x1f\x7f]{1,128}\Z"
_NAMED = re.compile(_DEVICE)
_LARGEST = 2**32 - 1
_END = b"\xff\xff\xff\xff\x00\x00\x00\x00"
_BOTH = f"a device's name of at most {_NAME} characters and a report of at most {_LONG} numbers, neither missing"
_PARTS = {
    "device": f"a device's name: text of 1 to {_NAME} characters, none of control",
    "report": f"a report: a list of at most {_LONG} whole numbers from 0 to {_LARGEST}",
}


class ReportRow(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One device's report of a round, as `app.panels.device.encode` writes it."""

    device: Annotated[str, Meta(min_length=1, max_length=_NAME, pattern=_DEVICE)]
    report: Annotated[tuple[Annotated[int, Meta(ge=0, le=_LARGEST)], ...], Meta(max_length=_LONG)]


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
    lists = Lists.of([row.report for row in rows])
    yield _checked(form, range(1, len(rows) + 1), [row.device for row in rows], lists, [])


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

    def checked() -> Batch:
        return _checked(form, lines, [row.device for row in rows], Lists.of([row.report for row in rows]), refused)

    with path.open("rb") as file:
        number = held = 0
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
            except msgspec.ValidationError as error:
                part = told(error, ReportRow)[0].partition("[")[0]
                refused.append(Refusal(number, _PARTS.get(part, "an object with device and report, and no more")))
            except (msgspec.MsgspecError, InvalidRequestError, UnicodeDecodeError):
                refused.append(Refusal(number, "one object of JSON, no name in it twice"))
            else:
                lines.append(number)
                rows.append(row)
                held += len(row.report)
            if len(rows) + len(refused) >= _ROWS or held >= _NUMBERS:
                yield checked()
                lines, rows, refused, held = [], [], [], 0
    yield checked()


def _arrow(form: Form, path: Path) -> Iterator[Batch]:
    import pyarrow as pa

    try:
        with pa.OSFile(str(path)) as file, pa.ipc.open_stream(file) as reader:
            yield from _tables(form, reader.schema, reader)
            if file.tell() != file.size() or not _ended(path):
                raise ValueError("end")
    except (pa.ArrowException, OSError, ValueError) as error:
        raise _unreadable("an Arrow stream") from error


def _ended(path: Path) -> bool:
    """Return whether a stream says that it ends: one that was cut between batches reads well."""
    with path.open("rb") as file:
        file.seek(-len(_END), os.SEEK_END)
        return file.read() == _END


def _parquet(form: Form, path: Path) -> Iterator[Batch]:
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        with pq.ParquetFile(path) as file:
            groups = [file.metadata.row_group(place) for place in range(file.metadata.num_row_groups)]
            counts = [
                (group.column(place).num_values, group.num_rows)
                for group in groups
                for place in range(group.num_columns)
            ]
            longest = max((-(-numbers // rows) for numbers, rows in counts if rows > 0), default=1)  # a mean
            yield from _tables(form, file.schema_arrow, file.iter_batches(batch_size=_rows_of(longest)))
    except (pa.ArrowException, OSError, ValueError) as error:
        raise _unreadable("a Parquet file") from error


def _unreadable(kind: str) -> InvalidRequestError:
    return InvalidRequestError(f"file: expected {kind}, whole, with columns device and report, got another or a part")


def _tables(form: Form, schema: "pyarrow.Schema", batches: "Iterable[pyarrow.RecordBatch]") -> Iterator[Batch]:
    import pyarrow.compute as pc

    if sorted(schema.names) != ["device", "report"] or not _fitting(schema):
        raise ValueError("columns")
    first = 1
    for batch in batches:
        batch.validate(full=True)  # offsets are a file's word: unchecked, they lead anywhere in memory
        rows = _rows_of(pc.max(pc.list_value_length(batch.column("report"))).as_py())
        for at in range(0, batch.num_rows, rows):
            part = batch.slice(at, rows)
            yield _part(form, part, first)
            first += part.num_rows


def _rows_of(longest: int | None) -> int:
    """Return how many rows are read at once, by the longest report; of one that is too long no number is read."""
    return min(_ROWS, _NUMBERS // min(max(longest or 1, 1), _LONG))


def _part(form: Form, part: "pyarrow.RecordBatch", first: int) -> Batch:
    import pyarrow as pa
    import pyarrow.compute as pc

    named, sent = part.column("device").cast(pa.large_string()), part.column("report")
    short = pc.and_(pc.less_equal(pc.binary_length(named), 4 * _NAME), pc.less_equal(pc.list_value_length(sent), _LONG))
    whole = pc.fill_null(short, False).to_numpy(zero_copy_only=False)
    devices, sent = named.filter(pa.array(whole)).to_pylist(), sent.filter(pa.array(whole))
    ends = np.append(0, np.cumsum(pc.list_value_length(sent).to_numpy(zero_copy_only=False), dtype=np.int64))
    numbers = pc.list_flatten(sent).cast(pa.int64(), safe=False)  # one of 64 bits without a sign turns negative
    reports = Lists(pc.fill_null(numbers, 0).to_numpy(zero_copy_only=False), ends)
    missing = pc.is_null(numbers).to_numpy(zero_copy_only=False)
    beyond = (reports.flat < 0) | (reports.flat > _LARGEST)
    nameless = np.fromiter((not _NAMED.match(device) for device in devices), np.bool_, len(devices))
    found = [
        (nameless | reports.any_of(missing), _BOTH),
        (reports.any_of(beyond), f"numbers from 0 to {_LARGEST}"),
    ]
    lines = (first + np.flatnonzero(whole)).tolist()
    refused = [Refusal(first + place, _BOTH) for place in np.flatnonzero(~whole).tolist()]
    return _checked(form, lines, devices, reports, refused, found)


def _fitting(schema: "pyarrow.Schema") -> bool:
    """Return whether the columns are text and lists of whole numbers; nothing else is read as these."""
    import pyarrow.types as of

    device, report = schema.field("device").type, schema.field("report").type
    device = device.value_type if of.is_dictionary(device) else device
    lists = of.is_list(report) or of.is_large_list(report) or of.is_fixed_size_list(report)
    text = of.is_string(device) or of.is_large_string(device) or of.is_string_view(device)
    return bool(text and lists and (of.is_integer(report.value_type) or of.is_null(report.value_type)))


def _checked(
    form: Form,
    lines: Sequence[int],
    devices: Sequence[str],
    reports: Lists,
    bad: Sequence[Refusal],
    found: Sequence[Fault] = (),
) -> Batch:
    """Refuse what the mechanism cannot have given, and pack the rest, all at once.

    Args:       bad: rows that were refused before. found: faults of these rows that are known by now.
    """
    labels = form.labels(devices)
    packed, of_plan = form.plan.pack(reports, labels)
    faults = [*found, *of_plan]
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
