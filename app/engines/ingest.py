"""An owner's file becomes an immutable snapshot: declared columns, declared types, or nothing."""

import csv
import gzip
import os
import tempfile
import zipfile
import zlib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import duckdb
from sqlglot import exp

from app.engines.errors import IngestError
from app.queries.compile import ROWS_TABLE
from app.queries.expressions import SQL_TYPES
from app.queries.schema import Column, ColumnType, DatasetSchema

__all__ = ["UNPACKED_LIMIT", "ingest_csv", "ingest_parquet"]

UNPACKED_LIMIT = 8 * 2**30
_BLOCK_BYTES = 2**20

_CSV = (
    "CREATE TEMP TABLE staged AS SELECT * FROM read_csv(?, columns=?, nullstr=?, auto_detect=false, header=true, "
    "delim=',', quote='\"', escape='\"', comment='', strict_mode=true, null_padding=false, ignore_errors=false, "
    "compression='none', encoding='utf-8')"
)
_PARQUET_NAMES = "SELECT name FROM parquet_schema(?) WHERE num_children IS NULL OR num_children = 0"
_PARQUET = "CREATE TEMP TABLE staged AS SELECT COLUMNS(*)::VARCHAR FROM read_parquet(?)"
_UNREADABLE = "file: expected UTF-8 rows that all have the header's fields, got something else"
_DAY = r"[0-9]{4}-[0-9]{2}-[0-9]{2}"
_PATTERNS: dict[ColumnType, str] = {
    "integer": r"[+-]?[0-9]+(\.0*)?",
    "real": r"(?i)[+-]?(([0-9]+\.?[0-9]*|\.[0-9]+)(e[+-]?[0-9]+)?|nan|inf|infinity)",
    "boolean": r"(?i)true|false|t|f|1|0",
    "date": _DAY,
    "timestamp": _DAY + r"[ T][0-9]{2}:[0-9]{2}(:[0-9]{2}(\.[0-9]{1,6})?)?Z?",
}


def ingest_csv(
    source: Path, target: Path, schema: DatasetSchema, *, null_text: str = "", member: str | None = None
) -> None:
    """Write the declared columns of a CSV file to `target`, a new DuckDB file that is never changed again.

    Read as RFC 4180 in UTF-8 with one header line; undeclared columns are left out. An empty field, and one that is
    `null_text`, is null. Fields that are not text lose blanks at their ends. Integers may end in ".0"; booleans are
    true, false, t, f, 1, 0; times are UTC, with or without "Z". One field that does not parse refuses the whole file:
    skipping the row instead would make the table depend on a parser.

    Args:       source: .csv, .csv.gz, or .zip with one member that is a .csv (else `member` names it).
    Raises:     IngestError: `target` exists, a declared header is missing or comes twice, or a column does not parse.
                The message names the column and no value, row or count.
    """
    with tempfile.TemporaryDirectory(dir=target.parent, prefix=".ingest-") as folder:
        plain = _plain_csv(source, Path(folder) / "rows.csv", member)
        header = _header(plain)
        fields = {f"c{position}": "VARCHAR" for position in range(len(header))}
        _write(target, schema, header, _Stage(Path(folder), _CSV, [str(plain), fields, ["", null_text]]))


def ingest_parquet(source: Path, target: Path, schema: DatasetSchema) -> None:
    """Write the declared columns of a flat Parquet file to `target`; values are read as their texts, as in a CSV."""
    with tempfile.TemporaryDirectory(dir=target.parent, prefix=".ingest-") as folder:
        connection = duckdb.connect()
        header = [name for (name,) in _run(connection, _PARQUET_NAMES, [str(source)]).fetchall()]
        connection.close()
        _write(target, schema, header, _Stage(Path(folder), _PARQUET, [str(source)]))


@dataclass(frozen=True, slots=True)
class _Stage:
    """How the file becomes a table of texts: the folder to work in, and the statement that reads it."""

    folder: Path
    statement: str
    parameters: list[Any]


def _write(target: Path, schema: DatasetSchema, header: Sequence[str], stage: _Stage) -> None:
    positions = [_position(column, header) for column in schema.columns]
    built = stage.folder / "snapshot.duckdb"
    connection = duckdb.connect(config={"temp_directory": str(stage.folder / "spill")})
    try:
        _run(connection, stage.statement, stage.parameters)
        names = [name for (name,) in _run(connection, "SELECT column_name FROM (DESCRIBE staged)", []).fetchall()]
        values = [_parsed(column, names[place]) for column, place in zip(schema.columns, positions, strict=True)]
        _refuse_unparsed(connection, schema.columns, [names[place] for place in positions], values)
        _run(connection, f"ATTACH {exp.Literal.string(str(built)).sql(dialect='duckdb')} AS built", [])
        _run(connection, _create(schema.columns, values), [])
        _run(connection, "DETACH built", [])
    finally:
        connection.close()
    _publish(built, target)


def _publish(built: Path, target: Path) -> None:
    """Give the file its name in one step that never overwrites, readable and no more."""
    built.chmod(0o444)
    try:
        os.link(built, target)
    except FileExistsError:
        raise IngestError("target: expected a new file, got one that exists") from None


def _refuse_unparsed(
    connection: Any, columns: Sequence[Column], names: Sequence[str], values: Sequence[exp.Expression]
) -> None:
    checks = []
    for name, value in zip(names, values, strict=True):
        given = exp.Not(this=exp.Is(this=exp.column(name, quoted=True), expression=exp.Null()))
        lost = exp.And(this=given, expression=exp.Is(this=value.copy(), expression=exp.Null()))
        checks.append(exp.Coalesce(this=exp.LogicalOr(this=lost), expressions=[exp.false()]))
    (verdicts,) = _run(connection, exp.select(*checks).from_("staged").sql(dialect="duckdb"), []).fetchall()
    for column, unparsed in zip(columns, verdicts, strict=True):
        if unparsed:
            raise IngestError(f"{column.name}: expected {column.type} values only, got another", column=column.name)


def _create(columns: Sequence[Column], values: Sequence[exp.Expression]) -> str:
    selected = [exp.alias_(value, column.stable_id, quoted=True) for column, value in zip(columns, values, strict=True)]
    create = exp.Create(
        this=exp.to_table(f"built.main.{ROWS_TABLE}"), kind="TABLE", expression=exp.select(*selected).from_("staged")
    )
    statement: str = create.sql(dialect="duckdb")
    return statement


def _parsed(column: Column, name: str) -> exp.Expression:
    """The field as a value of its declared type, null where it is not one."""
    field = exp.column(name, quoted=True)
    if column.type == "text":
        return field
    trimmed = exp.Trim(this=field)
    fits = exp.func("REGEXP_FULL_MATCH", trimmed, exp.Literal.string(_PATTERNS[column.type]))
    whole = exp.func("REGEXP_REPLACE", trimmed.copy(), exp.Literal.string(r"\.0*$"), exp.Literal.string(""))
    text = whole if column.type == "integer" else trimmed.copy()
    typed = exp.TryCast(this=text, to=exp.DataType.build(SQL_TYPES[column.type], dialect="duckdb"))
    return exp.Case(ifs=[exp.If(this=fits, true=typed)])


def _position(column: Column, header: Sequence[str]) -> int:
    if header.count(column.source_name) != 1:
        raise IngestError(f"{column.name}: expected its header once in the file, got it missing or repeated")
    return header.index(column.source_name)


def _header(source: Path) -> list[str]:
    header: list[str] | None
    try:
        with source.open(encoding="utf-8-sig", newline="") as file:
            header = next(csv.reader(file, strict=True), None)
    except (UnicodeDecodeError, csv.Error):
        header = None
    if not header:
        raise IngestError("file: expected a header line in UTF-8, got none")
    return header


def _plain_csv(source: Path, plain: Path, member: str | None) -> Path:
    """The uncompressed file; a member's own name never becomes a path."""
    try:
        if source.name.endswith(".zip"):
            with zipfile.ZipFile(source) as archive, archive.open(_member(archive, member)) as packed:
                return _copied(packed, plain)
        if source.name.endswith(".gz"):
            with gzip.open(source) as packed:
                return _copied(packed, plain)
    except (zipfile.BadZipFile, zlib.error, OSError, EOFError, KeyError, RuntimeError, NotImplementedError):
        # damaged, encrypted, of an unknown method: the libraries' texts may hold names and bytes of the file
        raise IngestError("file: expected a whole, plain .zip or .gz archive, got another") from None
    if not source.is_file():
        raise IngestError("file: expected a file, got none")
    return source


def _copied(packed: Any, plain: Path) -> Path:
    written = 0
    with plain.open("wb") as file:
        while block := packed.read(_BLOCK_BYTES):
            written += len(block)
            if written > UNPACKED_LIMIT:
                raise IngestError(f"file: expected at most {UNPACKED_LIMIT} bytes unpacked, got more")
            file.write(block)
    return plain


def _member(archive: zipfile.ZipFile, member: str | None) -> str:
    names = [name for name in archive.namelist() if name.endswith(".csv")]
    if member is not None:
        return member
    if len(names) != 1:
        raise IngestError("file: expected one .csv in the archive, or its name, got none or several")
    return names[0]


def _run(connection: Any, statement: str, parameters: list[Any]) -> Any:
    """Run a statement; DuckDB's own text holds values of rows, so it ends here, cause and all."""
    result = None
    try:
        result = connection.execute(statement, parameters)
    except duckdb.Error:
        result = None
    if result is None:
        raise IngestError(_UNREADABLE)
    return result
