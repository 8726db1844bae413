"""The same snapshot in both engines: one answer, to the integer; and a table that the market alone wrote."""

import itertools
import math
import threading
import traceback

import pytest

from app.engines import (
    DuckDBSnapshot,
    EngineError,
    IngestError,
    PostgresSnapshot,
    PostgresTable,
    copy_to_postgres,
    ingest_csv,
)
from app.engines.postgres_connection import connect_reading
from app.queries import Column, DatasetSchema, canonicalise, components
from app.queries.conditions import ColumnRef
from app.queries.model import (
    And,
    Comparison,
    Count,
    GroupByBins,
    GroupByKeys,
    GroupByRanges,
    IsNull,
    Mean,
    Not,
    Query,
    Range,
    Sum,
)
from tests.engines.postgres import READER, admin, served

pytestmark = pytest.mark.long

SCHEMA = DatasetSchema(
    columns=(
        Column(name="who", type="text"),
        Column(name="delay", type="real"),
        Column(name="carrier", type="text", id="xmin"),
        Column(name="number", type="integer"),
        Column(name="flag", type="boolean"),
        Column(name="day", type="date"),
        Column(name="at", type="timestamp", id="t" * 128),
    ),
    unit="who",
    ordering=("number", "flag", "day", "at", "carrier"),
    salt="7b" * 32,
    max_rows_per_unit=100,
    max_groups_per_unit=100,
)
HEADER = "who,delay,xmin,number,flag,day," + "t" * 128
DELAYS = ["0.1", "-0.5", "1e-320", "-5e-324", "1.7976931348623157e308", "nan", "-inf", "", "2.5", "1e18", "-0.0"]
DAYS = ["0001-01-01", "1969-12-31", "2013-01-31", "", "9999-12-31", "0000-02-29"]
TIMES = ["2013-01-31T10:00:00Z", "1969-12-31 23:59:59.999999", "", "0000-01-01 00:00:00", "9999-12-31 23:59:59.5"]
CARRIERS = ["A", "B", "é'", '"x ""y"" \\"', "", "Å"]
NUMBERS = ["0", "1", "-1", "9223372036854775807", "-9223372036854775808", "", "7"]


def line(number):
    cells = [f"u{number % 7}" if number % 11 else "", DELAYS[number % 11], CARRIERS[number % 6], NUMBERS[number % 7]]
    return ",".join([*cells, ["t", "f", ""][number % 3], DAYS[number % 5 if number % 9 else 5], TIMES[number % 5]])


LINES = [line(number * number + number // 3) for number in range(400)]
OWNER = "owner"
_names = (f"rows {number}" for number in itertools.count())


def snapshot(folder, lines=LINES, schema=SCHEMA, header=HEADER):
    name = next(_names)
    source, target = folder / f"{name}.csv", folder / f"{name}.duckdb"
    source.write_text("\n".join([header, *lines]) + "\n", encoding="utf-8")
    ingest_csv(source, target, schema)
    return target


def copied(path, schema=SCHEMA):
    table = PostgresTable('the "market"', next(_names))
    copy_to_postgres(path, schema, f"{served()} user={OWNER}", table, READER)
    return table


def opened(table):
    return PostgresSnapshot(f"{served()} user={READER}", table)


@pytest.fixture(scope="module")
def both(tmp_path_factory):
    path = snapshot(tmp_path_factory.mktemp("snapshot"))
    with DuckDBSnapshot(path) as local, opened(copied(path)) as remote:
        yield local, remote


KEYS = GroupByKeys(column="carrier", keys=("A", "é'", "Z", 'x "y" \\'))
NUMBERED = GroupByKeys(column="number", keys=(0, 1, 7, -1, 2**63 - 1, -(2**63)))
DATED = GroupByBins(
    column="day", edges=("0001-01-01", "1970-01-01", "2013-01-31", "9999-12-31"), below="kept", above="kept"
)
TIMED = GroupByBins(
    column="at", edges=("1969-12-31T23:59:59.999999Z", "2013-01-31T10:00:00Z"), below="kept", above="kept"
)
REALS = GroupByRanges(
    column="delay",
    ranges=(
        Range(upper=0),
        Range(lower="-0.5", upper="0.1", end="closed"),
        Range(lower=0),
        Range(lower=0, upper="2.5"),
    ),
)
GROUPS = {"none": None, "keys": KEYS, "numbers": NUMBERED, "days": DATED, "times": TIMED, "reals": REALS}
GRAINS = (-62, -3, 0, 1, 40, 62)


def questions(group_by):
    where = And(operands=(Not(operand=IsNull(column="flag")), Comparison(column="delay", operator="<=", value="2.5")))
    mean = Mean(column="delay", centre="0.5", lower="-9", upper="9", grain_exponent=-1, sum_share="0.5")
    sums = [
        Sum(column=column, lower="-1", upper=str(2 ** max(grain, 0)), grain_exponent=grain)
        for column, grain in itertools.product(("delay", "number"), GRAINS)
    ]
    for groups in (1, 2, 3) if group_by else (None,):
        fields = {"group_by": group_by, "groups_per_unit": groups}
        for measure in (Count(of="units"), *sums):
            yield Query(measure=measure, **fields)
        for k in (1, 3, 50):
            yield Query(measure=Count(of="rows"), where=where, rows_per_unit=k, **fields)
            yield Query(measure=mean, rows_per_unit=k, **fields)


@pytest.mark.parametrize("name", list(GROUPS))
def test_guarantee_answer(both, name):
    local, remote = both
    told = 0
    for query in questions(GROUPS[name]):
        for part in components(canonicalise(query, SCHEMA)):
            answer = local.answer(part.query)
            assert remote.answer(part.query) == answer
            told += any(answer)
    assert told > 9


def test_where_each_row_is_a_unit_both_engines_agree(tmp_path):
    schema = DatasetSchema(columns=SCHEMA.columns, salt="7b" * 32, max_rows_per_unit=1, max_groups_per_unit=1)
    path = snapshot(tmp_path)
    with DuckDBSnapshot(path) as local, opened(copied(path)) as remote:
        for name, group_by in GROUPS.items():
            for measure in (Count(of="rows"), Sum(column="number", lower="-1", upper="9", grain_exponent=0)):
                canonical = canonicalise(Query(measure=measure, group_by=group_by), schema)
                assert remote.answer(canonical) == local.answer(canonical), name


def test_sums_pass_64_bits_exactly(tmp_path):
    schema = DatasetSchema(
        columns=(Column(name="n", type="integer"),), salt="0" * 64, max_rows_per_unit=1, max_groups_per_unit=1
    )
    path = snapshot(tmp_path, [str(2**62)] * 9, schema, "n")
    canonical = canonicalise(Query(measure=Sum(column="n", lower="0", upper=str(2**62), grain_exponent=0)), schema)
    with opened(copied(path, schema)) as remote:
        assert remote.answer(canonical) == (9 * 2**62,)


def test_an_empty_table_answers_zero(tmp_path):
    with opened(copied(snapshot(tmp_path, []))) as remote:
        assert remote.answer(canonicalise(next(iter(questions(KEYS))), SCHEMA)) == (0,) * 4
        assert remote.answer(canonicalise(Query(measure=Count(of="units")), SCHEMA)) == (0,)


def test_ten_thousand_keys_and_bins_are_answered(both):
    keys = GroupByKeys(column="number", keys=tuple(range(-1, 9_999)))
    bins = GroupByBins(column="number", edges=tuple(range(-1, 9_999)), above="kept")
    for group_by in (keys, bins):
        canonical = canonicalise(Query(measure=Count(of="units"), group_by=group_by, groups_per_unit=9), SCHEMA)
        local, remote = (engine.answer(canonical) for engine in both)
        assert (local, len(local)) == (remote, 10_000)


def test_every_value_is_copied_as_it_is(tmp_path):
    path = snapshot(tmp_path)
    table = copied(path)
    with admin(f"{served()} user=postgres") as connection:
        rows = connection.execute(f'SELECT "c:delay", "c:xmin", "c:number" FROM {table.quoted()}').fetchall()
    with DuckDBSnapshot(path) as local:
        kept = local._connection.execute('SELECT delay, "xmin", number FROM dataset_rows').fetchall()
    assert sorted(map(repr, rows)) == sorted(map(repr, kept))
    assert len(rows) == 400
    assert any(isinstance(delay, float) and math.isnan(delay) for delay, *_ in rows)


def test_threads_share_one_snapshot(both):
    canonical, found = canonicalise(next(iter(questions(KEYS))), SCHEMA), []
    threads = [
        threading.Thread(target=lambda: found.extend(both[1].answer(canonical) for _ in range(5))) for _ in range(4)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == [both[0].answer(canonical)] * 20


def test_a_lost_session_is_opened_again(both):
    canonical = canonicalise(Query(measure=Count(of="units")), SCHEMA)
    both[1].close()
    assert both[1].answer(canonical) == both[0].answer(canonical)


@pytest.mark.parametrize(
    "statement",
    [
        "INSERT INTO {} DEFAULT VALUES",
        "DELETE FROM {}",
        "TRUNCATE {}",
        "DROP TABLE {}",
        "ALTER TABLE {} ADD x int",
        "CREATE TEMP TABLE t (x int)",
        "COPY {} TO '/tmp/out'",
        "SET default_transaction_read_only = off; DELETE FROM {}",
    ],
)
def test_the_reader_writes_nothing(both, statement):
    import psycopg

    _, remote = both
    connection = connect_reading(f"{served()} user={READER}")
    with pytest.raises(psycopg.Error), connection:
        connection.execute(statement.format(remote._table.quoted()))


def test_the_owner_has_given_up_writing(tmp_path):
    import psycopg

    table = copied(snapshot(tmp_path, LINES[:3]))
    with admin(f"{served()} user={OWNER}") as connection, pytest.raises(psycopg.errors.InsufficientPrivilege):
        connection.execute(f"DELETE FROM {table.quoted()}")


@pytest.mark.parametrize("role", ["postgres", "writer"])
def test_a_role_that_could_write_is_not_used_for_answering(tmp_path, role):
    table = copied(snapshot(tmp_path, LINES[:3]))
    if role == "writer":
        with admin(f"{served()} user=postgres") as connection:
            connection.execute("CREATE ROLE writer LOGIN")
            connection.execute('GRANT USAGE ON SCHEMA "the ""market""" TO writer')
            connection.execute(f"GRANT SELECT, DELETE ON {table.quoted()} TO writer")
    with pytest.raises(EngineError):
        PostgresSnapshot(f"{served()} user={role}", table)


@pytest.mark.parametrize(
    ("address", "name"),
    [("host=127.0.0.1 port=1", "x"), ("nonsense", "x"), ("{} user=nobody", "x"), ("{} user=reader", "gone")],
)
def test_what_is_not_there_does_not_open(address, name):
    with pytest.raises(EngineError) as refusal:
        PostgresSnapshot(address.format(served()), PostgresTable("tables", name))
    assert refusal.value.__context__ is None


def test_a_failing_engine_says_nothing_of_the_data(tmp_path):
    table = copied(snapshot(tmp_path, LINES[:9]))
    with admin(f"{served()} user=postgres") as connection:
        connection.execute(f"ALTER TABLE {table.quoted()} ALTER \"c:number\" TYPE text USING 'a-secret-value'")
    canonical = canonicalise(Query(measure=Sum(column="number", lower="0", upper="9", grain_exponent=0)), SCHEMA)
    with opened(table) as remote, pytest.raises(EngineError) as refusal:
        remote.answer(canonical)
    told = "".join(traceback.format_exception(refusal.value)) + repr(refusal.value.fields)
    assert "secret" not in told
    assert refusal.value.__context__ is None


def test_a_column_that_the_snapshot_lacks_is_the_same_opaque_error(both):
    canonical = canonicalise(Query(measure=Count(of="units")), SCHEMA)
    lacking = type(canonical)(measure=canonical.measure, unit=ColumnRef("nowhere", "text"))
    with pytest.raises(EngineError) as refusal:
        both[1].answer(lacking)
    assert "nowhere" not in str(refusal.value)


def test_a_table_is_never_written_again_and_a_failed_copy_leaves_none(tmp_path):
    path = snapshot(tmp_path, LINES[:3])
    table = copied(path)
    with pytest.raises(IngestError, match="expected a new one"):
        copy_to_postgres(path, SCHEMA, f"{served()} user={OWNER}", table, READER)
    other = PostgresTable("the market", next(_names))
    with pytest.raises(IngestError, match="a reader that exists"):
        copy_to_postgres(path, SCHEMA, f"{served()} user={OWNER}", other, "no such role")
    with admin(f"{served()} user=postgres") as connection:
        assert connection.execute("SELECT to_regclass(%s)", (other.quoted(),)).fetchall() == [(None,)]


def test_text_with_a_nul_is_refused_without_being_told(tmp_path):
    schema = DatasetSchema(
        columns=(Column(name="t", type="text"),), salt="0" * 64, max_rows_per_unit=1, max_groups_per_unit=1
    )
    path = snapshot(tmp_path, ["a-secret\0"], schema, "t")
    with pytest.raises(IngestError) as refusal:
        copied(path, schema)
    assert refusal.value.__context__ is None
    assert "secret" not in str(refusal.value)


def test_a_server_that_does_not_keep_utf_8_is_refused():
    with admin(f"{served()} user=postgres") as connection:
        connection.execute("CREATE DATABASE bytes ENCODING 'SQL_ASCII' LC_COLLATE 'C' LC_CTYPE 'C' TEMPLATE template0")
    with pytest.raises(EngineError):
        connect_reading(f"{served()} dbname=bytes user={READER}".replace("dbname=postgres ", ""))
