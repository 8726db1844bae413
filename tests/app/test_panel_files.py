"""Files of reports that lie about themselves: offsets that lead elsewhere, ends that are none, rows without bound."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from app.panels.acts import _reports
from app.panels.intake import Form, read_file
from app.panels.mechanism import choose
from app.settings import Settings
from tests.app.panelling import deliver, opened
from tests.conftest import Fair, open_fair
from tiers.budget import Ladder


@pytest.fixture(scope="module")
def shop(tmp_path_factory: pytest.TempPathFactory) -> Any:
    opening = open_fair(Settings.at(tmp_path_factory.mktemp("panel-files") / "market"))
    yield next(opening)
    opening.close()


@pytest.fixture
def panel(shop: Fair) -> dict[str, Any]:
    return opened(shop, mechanism="randomized-response")


def batch(devices: pa.Array, reports: pa.Array) -> pa.RecordBatch:
    return pa.RecordBatch.from_arrays([devices, reports], names=["device", "report"])


def stream(path: Path, batches: Sequence[pa.RecordBatch]) -> bytes:
    with pa.OSFile(str(path), "wb") as sink, pa.ipc.new_stream(sink, batches[0].schema) as writer:
        for each in batches:
            writer.write_batch(each)
    return path.read_bytes()


def refused_whole(shop: Fair, panel: dict[str, Any], path: Path) -> None:
    response = deliver(shop, panel, file=path.name)
    assert (response.status_code, response.headers["content-type"]) == (400, "application/problem+json"), response.text
    assert "whole, with columns device and report" in response.json()["detail"]
    assert _reports(shop.market, panel["panel"]).count(1) == 0


OFFSETS = {"reports": [0, 1111, 2222, 3333], "devices": [0, 111, 222, 333]}


@pytest.mark.parametrize("column", OFFSETS)
@pytest.mark.parametrize("bad", [-4096, 2**30, 3000], ids=str)
def test_offsets_that_lead_out_of_a_column_are_not_followed(
    shop: Fair, panel: dict[str, Any], column: str, bad: int
) -> None:
    """What stands there is the memory of the market: it must neither be read as reports nor end the process."""
    path = shop.market.settings.data / "offsets.arrow"
    reports = pa.array([[1] * 1111] * 3, pa.list_(pa.int64()))
    raw = stream(path, [batch(pa.array(["d" * 111, "e" * 111, "f" * 111]), reports)])
    honest = np.array(OFFSETS[column], np.int32).tobytes()
    assert raw.count(honest) == 1
    spoilt = np.array([OFFSETS[column][0], bad, *OFFSETS[column][2:]], np.int32).tobytes()
    path.write_bytes(raw.replace(honest, spoilt))
    refused_whole(shop, panel, path)


def test_a_place_in_a_dictionary_that_there_is_not_and_bytes_that_are_no_text_are_refused(
    shop: Fair, panel: dict[str, Any]
) -> None:
    path, one = shop.market.settings.data / "names.arrow", pa.array([[1], [2]])
    far = pa.DictionaryArray.from_arrays(pa.array([0, 10**6], pa.int32()), pa.array(["a", "b"]), safe=False)
    stream(path, [batch(far, one)])
    refused_whole(shop, panel, path)
    ends = pa.py_buffer(np.array([0, 1, 2], np.int32).tobytes())
    stream(path, [batch(pa.Array.from_buffers(pa.string(), 2, [None, ends, pa.py_buffer(b"a\xff")]), one)])
    refused_whole(shop, panel, path)


def test_a_stream_that_was_cut_between_its_batches_or_goes_on_after_its_end_leaves_nothing(
    shop: Fair, panel: dict[str, Any]
) -> None:
    path = shop.market.settings.data / "cut.arrow"
    parts = [batch(pa.array([f"d{n}"]), pa.array([[n % 5]])) for n in range(2)]
    both, first = stream(path, parts), stream(path, parts[:1])
    assert both.startswith(first[:-8]), "a stream ends in 8 bytes that say so"
    for raw in (first[:-8], both[:-8], both[:-4], first + both, first + b"\0" * 64):
        path.write_bytes(raw)
        refused_whole(shop, panel, path)
    path.write_bytes(both)
    assert deliver(shop, panel, file=path.name).json()["accepted"] == 2


@pytest.mark.parametrize("suffix", ["arrow", "parquet"])
def test_columns_of_other_kinds_are_refused_without_a_row_too(shop: Fair, panel: dict[str, Any], suffix: str) -> None:
    path = shop.market.settings.data / f"empty.{suffix}"
    for kind, fits in ((pa.list_(pa.int64()), True), (pa.list_(pa.float64()), False), (pa.int64(), False)):
        rows = batch(pa.array([], pa.string()), pa.array([], kind))
        if suffix == "arrow":
            stream(path, [rows])
        else:
            pq.write_table(pa.Table.from_batches([rows]), path)
        if fits:
            assert deliver(shop, panel, file=path.name).json()["accepted"] == 0
        else:
            refused_whole(shop, panel, path)


@pytest.mark.parametrize("suffix", ["arrow", "parquet"])
def test_rows_that_are_too_long_or_missing_are_refused_by_line_and_the_others_kept(
    shop: Fair, panel: dict[str, Any], suffix: str
) -> None:
    path = shop.market.settings.data / f"long.{suffix}"
    names = ["a", "b" * 10**6, "c", "d", None, "f", "g"]
    reports = pa.array([[1], [1], [1] * 4098, [4], [1], None, [1, None]], pa.list_(pa.int32()))
    rows = batch(pa.array(names), reports)
    if suffix == "arrow":
        stream(path, [rows])
    else:
        pq.write_table(pa.Table.from_batches([rows]), path)
    done = deliver(shop, panel, file=path.name).json()
    assert (done["accepted"], [each["line"] for each in done["refusals"]]) == (2, [2, 3, 5, 6, 7])
    assert {each["rule"] for each in done["refusals"]} == {
        "a device's name of at most 128 characters and a report of at most 4097 numbers, neither missing"
    }


def test_lists_of_a_fixed_size_and_views_of_text_are_read(shop: Fair, panel: dict[str, Any]) -> None:
    path = shop.market.settings.data / "fixed.arrow"
    stream(path, [batch(pa.array(["a", "b"], pa.string_view()), pa.array([[1], [4]], pa.list_(pa.uint8(), 1)))])
    assert deliver(shop, panel, file=path.name).json()["accepted"] == 2


def test_a_row_that_says_a_thing_twice_is_none_and_refusals_come_in_the_order_of_lines(
    shop: Fair, panel: dict[str, Any]
) -> None:
    """Parsers differ on which of two reports counts. What the file breaks, and what the round does, are found apart."""
    good, twice = '{"device":"a","report":[1]}', '{"device":"b","report":[1],"report":[2]}'
    path = shop.market.settings.data / "rows.ndjson"
    path.write_text("\n".join([good, good, twice, good, '{"device":"c","report":[9]}', good]) + "\n")
    done = deliver(shop, panel, file=path.name).json()
    assert (done["accepted"], [each["line"] for each in done["refusals"]]) == (1, [2, 3, 4, 5, 6])


def test_a_line_without_bound_hides_no_row_and_shifts_no_number(shop: Fair, panel: dict[str, Any]) -> None:
    path, good = shop.market.settings.data / "lines.ndjson", '{"device":"%s","report":[1]}'
    for length in (2**16 + 1, 2**17 + 2, 2**18):
        path.write_text(f"{'x' * length}{good % 'hidden'}\n{good % length}\nx\n")
        done = deliver(shop, panel, file=path.name).json()
        assert (done["accepted"], [each["line"] for each in done["refusals"]]) == (1, [1, 3])


@pytest.mark.parametrize(
    "name",
    ["../keys.json", "/etc/passwd", "a/b.ndjson", ".hidden.ndjson", "a\\b.ndjson", "a.ndjson\n", "", "nul\0.ndjson"],
)
def test_a_name_that_leads_elsewhere_is_no_file(shop: Fair, panel: dict[str, Any], name: str) -> None:
    assert deliver(shop, panel, file=name).status_code == 400


def test_a_link_or_a_folder_or_another_s_file_is_no_file(shop: Fair, panel: dict[str, Any], tmp_path: Path) -> None:
    data, row = shop.market.settings.data, '{"device":"a","report":[1]}\n'
    (tmp_path / "secret.ndjson").write_text(row)
    (data / "link.ndjson").symlink_to(tmp_path / "secret.ndjson")
    (data / "folder.ndjson").mkdir()
    other = shop.person()
    (data / f"{other.account}.own.ndjson").write_text(row)
    for name in ("link.ndjson", "folder.ndjson", f"{other.account}.own.ndjson", "none.ndjson"):
        assert deliver(shop, panel, file=name).status_code == 400
    assert _reports(shop.market, panel["panel"]).count(1) == 0


@pytest.mark.parametrize("suffix", ["ndjson", "arrow", "parquet"])
def test_a_run_is_bounded_by_its_numbers_and_not_by_its_rows_alone(tmp_path: Path, suffix: str) -> None:
    """Of 4,096 values a report holds 1,546 numbers: a run of 32,768 of them took 5 GB, and a file of 4 kB could too."""
    plan = choose("subset", 4_096, Ladder.parse(["0.5"]), ordered=False)
    size, rows, path = plan.laws[0].parameters()["subset_size"], 2_000, tmp_path / f"large.{suffix}"
    report, names = list(range(int(size))), [f"d{place}" for place in range(rows)]
    table = batch(pa.array(names), pa.array([report] * rows, pa.list_(pa.int16())))
    if suffix == "ndjson":
        path.write_text("".join(f'{{"device":"{name}","report":{report}}}\n' for name in names))
    elif suffix == "arrow":
        stream(path, [table])
    else:
        pq.write_table(pa.Table.from_batches([table]), path)
    runs = [len(run.lines) for run in read_file(Form("panel", plan), path)]
    assert sum(runs) == rows
    assert max(runs) * int(size) <= 1 << 21


def test_a_line_that_is_no_report_is_told_which_part_is_wrong_and_what_that_must_be(
    shop: Fair, panel: dict[str, Any]
) -> None:
    path = shop.market.settings.data / "wrong.ndjson"
    wrong = {
        '{"device": "", "report": [1]}': "a device's name: text of 1 to 128 characters, none of control",
        '{"device": "\\u0000", "report": [1]}': "a device's name: text of 1 to 128 characters, none of control",
        '{"device": "a", "report": [-1]}': "a report: a list of at most 4097 whole numbers from 0 to 4294967295",
        '{"device": "a", "report": [1.0]}': "a report: a list of at most 4097 whole numbers from 0 to 4294967295",
        '{"device": "a"}': "an object with device and report, and no more",
        '{"device": "a", "report": [1], "x": 1}': "an object with device and report, and no more",
        '{"device": "a", "device": "b", "report": [1]}': "one object of JSON, no name in it twice",
        '{"device": "a", "rep': "one object of JSON, no name in it twice",
    }
    path.write_text("\n".join(wrong))
    done = deliver(shop, panel, file=path.name).json()
    assert done["accepted"] == 0
    assert [each["rule"] for each in done["refusals"]] == list(wrong.values())
