"""Snapshots: locked, exact from several threads, sealed, digested, and silent about why they fail."""

import threading
import traceback

import duckdb
import pytest

from app.engines import DuckDBSnapshot, EngineError, content_digest, ingest_csv, seal
from app.errors import IntegrityError
from app.queries import Column, DatasetSchema, canonicalise
from app.queries.conditions import ColumnRef
from app.queries.model import Comparison, Count, GroupByKeys, Query, Sum

KEY = bytes(range(32))
SCHEMA = DatasetSchema(
    columns=(
        Column(name="who", type="text"),
        Column(name="delay", type="real"),
        Column(name="carrier", type="text"),
        Column(name="number", type="integer"),
    ),
    unit="who",
    ordering=("number",),
    salt="7b" * 32,
    max_rows_per_unit=100,
    max_groups_per_unit=9,
)
LINES = [f"u{number % 7},{number * 0.25},{'ABC'[number % 3]},{number}" for number in range(60)]
GROUPED = Query(
    measure=Count(of="rows"),
    where=Comparison(column="delay", operator=">", value="1.5"),
    group_by=GroupByKeys(column="carrier", keys=("C", "A", "Z")),
    rows_per_unit=2,
    groups_per_unit=2,
)


def snapshot(folder, name, lines):
    source, target = folder / f"{name}.csv", folder / f"{name}.duckdb"
    source.write_text("\n".join(["who,delay,carrier,number", *lines]) + "\n", encoding="utf-8")
    ingest_csv(source, target, SCHEMA, null_text="NA")
    return target


@pytest.fixture(scope="module")
def built(tmp_path_factory):
    return snapshot(tmp_path_factory.mktemp("snapshot"), "rows", LINES)


def test_an_answer_holds_one_integer_a_key(built):
    with DuckDBSnapshot(built) as opened:
        answer = opened.answer(canonicalise(GROUPED, SCHEMA))
    assert [type(each) for each in answer] == [int] * 3
    assert (sum(answer), answer[2]) == (14, 0)


def test_guarantee_answer(built, tmp_path):
    shuffled = snapshot(tmp_path, "shuffled", LINES[::-1])
    canonical = canonicalise(GROUPED, SCHEMA)
    with DuckDBSnapshot(built) as first, DuckDBSnapshot(shuffled) as second:
        assert first.answer(canonical) == first.answer(canonical) == second.answer(canonical)


def test_threads_share_one_snapshot(built):
    canonical, found = canonicalise(GROUPED, SCHEMA), []
    with DuckDBSnapshot(built) as opened:
        threads = [
            threading.Thread(target=lambda: found.extend(opened.answer(canonical) for _ in range(10))) for _ in range(8)
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert found == [opened.answer(canonical)] * 80


def test_ten_thousand_keys_are_answered(built):
    keys = GroupByKeys(column="number", keys=tuple(range(9_999, -1, -1)))
    with DuckDBSnapshot(built) as opened:
        answer = opened.answer(canonicalise(Query(measure=Count(of="units"), group_by=keys, groups_per_unit=9), SCHEMA))
    assert (len(answer), answer[:60], sum(answer)) == (10_000, (1,) * 60, 60)


@pytest.mark.parametrize(
    "statement",
    [
        "INSERT INTO dataset_rows VALUES ('x', 1, 'A', 1)",
        "SET enable_external_access = true",
        "SET threads = 1",
        "COPY dataset_rows TO 'out.csv'",
        "SELECT * FROM read_csv('/etc/hosts')",
        "ATTACH 'other.duckdb'",
        "INSTALL httpfs",
        "LOAD httpfs",
    ],
)
def test_a_snapshot_reaches_nothing_but_its_rows(built, statement):
    with DuckDBSnapshot(built) as opened, pytest.raises(duckdb.Error):
        opened._connection.cursor().execute(statement)


def test_a_failing_engine_says_nothing_of_the_data(built, tmp_path):
    target = tmp_path / "other.duckdb"
    with duckdb.connect(str(target)) as connection:
        connection.execute("CREATE TABLE dataset_rows AS SELECT 'a-secret-value' AS who, 'a-secret-value' AS number")
    canonical = canonicalise(Query(measure=Sum(column="number", lower="0", upper="9", grain_exponent=0)), SCHEMA)
    with DuckDBSnapshot(target) as opened, pytest.raises(EngineError) as refusal:
        opened.answer(canonical)
    told = "".join(traceback.format_exception(refusal.value)) + repr(refusal.value.fields)
    assert "secret" not in told
    assert refusal.value.__context__ is None


def test_a_column_that_the_snapshot_lacks_is_the_same_opaque_error(built):
    canonical = canonicalise(Query(measure=Count(of="units")), SCHEMA)
    lacking = type(canonical)(measure=canonical.measure, unit=ColumnRef("nowhere", "text"))
    with DuckDBSnapshot(built) as opened, pytest.raises(EngineError) as refusal:
        opened.answer(lacking)
    assert "nowhere" not in str(refusal.value)


@pytest.mark.parametrize("content", [None, b"", b"not a database" * 500])
def test_what_is_not_a_snapshot_does_not_open(tmp_path, content):
    path = tmp_path / "x.duckdb"
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(EngineError):
        DuckDBSnapshot(path)


def test_the_content_digest_is_of_the_rows_whatever_their_order_and_file(built, tmp_path):
    assert content_digest(snapshot(tmp_path, "again", LINES[::-1]), KEY) == content_digest(built, KEY)


@pytest.mark.parametrize(
    "lines",
    [
        LINES[:-1],
        [*LINES, LINES[0]],
        [LINES[0].replace("u0", "u1"), *LINES[1:]],
        [LINES[0].replace("u0", "NA"), *LINES[1:]],
        ["u0,0.0,A0,", *LINES[1:]],
        [],
    ],
)
def test_another_content_has_another_digest(built, tmp_path, lines):
    assert content_digest(snapshot(tmp_path, "other", lines), KEY) != content_digest(built, KEY)


def test_digest_and_seal_depend_on_the_key(built):
    other = bytes(32)
    assert content_digest(built, KEY) != content_digest(built, other)
    assert seal(built, KEY) != seal(built, other)


def test_the_seal_is_of_every_byte(built, tmp_path):
    copy = tmp_path / "copy.duckdb"
    content = bytearray(built.read_bytes())
    copy.write_bytes(content)
    assert seal(copy, KEY) == seal(built, KEY)
    content[-1] ^= 1
    copy.write_bytes(content)
    assert seal(copy, KEY) != seal(built, KEY)
    with pytest.raises(IntegrityError):
        seal(tmp_path / "gone.duckdb", KEY)


@pytest.mark.parametrize("key", [b"", bytes(15), bytes(65)])
def test_a_short_or_long_key_is_refused(built, key):
    with pytest.raises(ValueError, match="16 to 64 bytes"):
        seal(built, key)
    with pytest.raises(ValueError, match="16 to 64 bytes"):
        content_digest(built, key)
