"""A file becomes exactly the declared table, or is refused by a sentence that holds no value of it."""

import gzip
import math
import traceback
import zipfile
from datetime import date, datetime

import duckdb
import pytest

from app.engines import IngestError, ingest_csv, ingest_parquet
from app.queries import ROWS_TABLE, Column, DatasetSchema

TYPES = {"i": "integer", "r": "real", "t": "text", "b": "boolean", "d": "date", "s": "timestamp"}
HEADER = "i,r,t,b,d,s"


def schema_of(columns=TYPES):
    return DatasetSchema(
        columns=tuple(Column(name=name, type=kind) for name, kind in columns.items()),
        salt="0" * 64,
        max_rows_per_unit=1,
        max_groups_per_unit=1,
    )


def ingested(folder, content, schema=None, **options):
    source, target = folder / "rows.csv", folder / "rows.duckdb"
    source.write_bytes(content if isinstance(content, bytes) else content.encode())
    ingest_csv(source, target, schema or schema_of(), **options)
    return table(target)


def table(target):
    with duckdb.connect(str(target), read_only=True) as connection:
        return connection.execute(f"SELECT * FROM {ROWS_TABLE}").fetchall()


def said(error):
    """The texts of an error and of all behind it: not the traceback's, which hold line numbers and folders."""
    while error is not None:
        yield f"{error} {error.args} {getattr(error, 'fields', {})}"
        error = error.__cause__ or error.__context__


def test_each_declared_type_is_read(tmp_path):
    line = "12,0.1,text,true,2013-01-31,2013-01-31T10:00:00Z"
    expected = (12, 0.1, "text", True, date(2013, 1, 31), datetime(2013, 1, 31, 10))
    assert ingested(tmp_path, f"{HEADER}\n{line}\n") == [expected]


@pytest.mark.parametrize("field", ["", "NA", '""', '"NA"'])
def test_an_empty_field_and_the_null_text_are_null(tmp_path, field):
    assert ingested(tmp_path, f"{HEADER}\n{','.join([field] * 6)}\n", null_text="NA") == [(None,) * 6]


@pytest.mark.parametrize(
    ("column", "field", "value"),
    [
        ("i", " -7 ", -7),
        ("i", "9007199254740993.0", 9007199254740993),
        ("i", "9223372036854775807", 2**63 - 1),
        ("r", "1e3", 1000.0),
        ("r", "-Inf", float("-inf")),
        ("r", ".5", 0.5),
        ("t", " kept ", " kept "),
        ("t", '"a ""b"", c"', 'a "b", c'),
        ("t", '"two\nlines"', "two\nlines"),
        ("b", "F", False),
        ("b", "1", True),
        ("s", "2013-01-31 10:00:00.000001", datetime(2013, 1, 31, 10, 0, 0, 1)),
    ],
)
def test_a_field_is_read_by_the_documented_rule(tmp_path, column, field, value):
    assert ingested(tmp_path, f"{column},z\n{field},\n", schema_of({column: TYPES[column]})) == [(value,)]


@pytest.mark.parametrize(
    ("column", "field"),
    [
        ("i", "1.5"),
        ("i", "9223372036854775808"),
        ("i", "1_000"),
        ("i", "1e3"),
        ("i", "0x10"),
        ("i", "٣"),
        ("r", "1_000"),
        ("r", "1.5.5"),
        ("r", "secret"),
        ("b", "yes"),
        ("b", "2"),
        ("d", "2013-02-30"),
        ("d", "infinity"),
        ("d", "01/02/2013"),
        ("s", "2013-01-31 25:00"),
        ("s", "2013-01-31T10:00:00+02:00"),
        ("s", "infinity"),
    ],
)
def test_a_field_of_another_type_refuses_the_file_and_is_not_repeated(tmp_path, column, field):
    schema = schema_of({"z": "text", column: TYPES[column]})
    with pytest.raises(IngestError) as refusal:
        ingested(tmp_path, f"z,{column}\nx,\nx,{field}\n", schema)
    assert str(refusal.value) == f"{column}: expected {TYPES[column]} values only, got another"
    assert field not in "".join(said(refusal.value))
    assert not (tmp_path / "rows.duckdb").exists()


@pytest.mark.parametrize(
    "content",
    [
        "t\n",
        "t,u,u\na-secret,b\n",
        "t,u\na-secret,b,c\n",
        "t,u\nx,y\na-secret\n",
        't,u\na-secret,"open\n',
        b"t,u\na-secret,\xff\n",
        b"t,\xff\n",
        "",
        "\n",
        "u,u,t\n1,2,3\n",
        "T,U\n1,2\n",
    ],
)
def test_a_file_that_does_not_hold_the_declared_columns_is_refused_without_its_text(tmp_path, content):
    with pytest.raises(IngestError) as refusal:
        ingested(tmp_path, content, schema_of({"t": "text", "u": "text"}))
    assert "secret" not in "".join(traceback.format_exception(refusal.value))
    assert [each.name for each in tmp_path.iterdir()] == ["rows.csv"]


def test_a_header_alone_is_an_empty_table(tmp_path):
    assert ingested(tmp_path, HEADER + "\n") == []


def test_columns_are_found_by_header_kept_by_id_and_others_left_out(tmp_path):
    columns = (
        Column(name="Carrier name", type="text", id="carrier", source="The Carrier"),
        Column(name="n", type="integer"),
    )
    schema = DatasetSchema(columns=columns, salt="0" * 64, max_rows_per_unit=1, max_groups_per_unit=1)
    assert ingested(tmp_path, "other,n,The Carrier,other\n9,1,AA,9\n", schema) == [("AA", 1)]
    with duckdb.connect(str(tmp_path / "rows.duckdb"), read_only=True) as connection:
        assert [name for name, *_ in connection.execute(f"DESCRIBE {ROWS_TABLE}").fetchall()] == ["carrier", "n"]


def test_packed_files_are_read(tmp_path):
    with gzip.open(tmp_path / "rows.csv.gz", "wt") as packed:
        packed.write("t\nx\n")
    with zipfile.ZipFile(tmp_path / "rows.zip", "w") as packed:
        packed.writestr("../../rows.csv", "t\nx\n")
        packed.writestr("readme.txt", "no")
    for name in ("rows.csv.gz", "rows.zip"):
        ingest_csv(tmp_path / name, tmp_path / f"{name}.duckdb", schema_of({"t": "text"}))
        assert table(tmp_path / f"{name}.duckdb") == [("x",)]


def test_an_archive_of_several_files_needs_the_members_name(tmp_path):
    with zipfile.ZipFile(tmp_path / "rows.zip", "w") as packed:
        packed.writestr("a.csv", "t\nx\n")
        packed.writestr("b.csv", "t\ny\n")
    with pytest.raises(IngestError, match=r"expected one \.csv"):
        ingest_csv(tmp_path / "rows.zip", tmp_path / "a.duckdb", schema_of({"t": "text"}))
    ingest_csv(tmp_path / "rows.zip", tmp_path / "b.duckdb", schema_of({"t": "text"}), member="b.csv")
    assert table(tmp_path / "b.duckdb") == [("y",)]


@pytest.mark.parametrize(("name", "content"), [("x.zip", b"no"), ("x.csv.gz", b"no"), ("x.csv", None)])
def test_a_broken_or_missing_file_is_refused(tmp_path, name, content):
    if content is not None:
        (tmp_path / name).write_bytes(content)
    with pytest.raises(IngestError):
        ingest_csv(tmp_path / name, tmp_path / "x.duckdb", schema_of())


def test_a_snapshot_is_never_written_again(tmp_path):
    ingested(tmp_path, "t\nx\n", schema_of({"t": "text"}))
    with pytest.raises(IngestError, match="expected a new file"):
        ingested(tmp_path, "t\ny\n", schema_of({"t": "text"}))
    assert table(tmp_path / "rows.duckdb") == [("x",)]
    assert (tmp_path / "rows.duckdb").stat().st_mode & 0o777 == 0o444


def test_a_parquet_file_is_read_by_the_same_rules(tmp_path):
    source = tmp_path / "rows.parquet"
    with duckdb.connect() as connection:
        connection.execute(
            "COPY (SELECT 1::DOUBLE AS i, 'nan'::DOUBLE AS r, 'x' AS t, true AS b, DATE '2013-01-31' AS d, "
            f"TIMESTAMP '2013-01-31 10:00:00.5' AS s, 1.5 AS other) TO '{source}' (FORMAT parquet)"
        )
    ingest_parquet(source, tmp_path / "rows.duckdb", schema_of())
    ((whole, real, *rest),) = table(tmp_path / "rows.duckdb")
    assert (whole, math.isnan(real), rest) == (
        1,
        True,
        ["x", True, date(2013, 1, 31), datetime(2013, 1, 31, 10, 0, 0, 500000)],
    )
    with pytest.raises(IngestError, match="other: expected integer"):
        ingest_parquet(source, tmp_path / "y.duckdb", schema_of({"other": "integer"}))
