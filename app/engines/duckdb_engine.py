"""Immutable snapshots in DuckDB files: exact answers, sealed bytes, and a digest of the content."""

import hashlib
import threading
from pathlib import Path

import duckdb
import numpy as np
import numpy.typing as npt
from sqlglot import exp

from app.engines.connection import fetch_all, open_snapshot
from app.engines.errors import EngineError
from app.engines.rendering import for_duckdb
from app.engines.session import Session
from app.errors import IntegrityError
from app.queries.canonical import CanonicalQuery
from app.queries.compile import ROWS_TABLE, compile_query

__all__ = ["DuckDBSnapshot", "content_digest", "named_numbers", "seal", "units_digest"]

_KEY_BYTES = (16, 64)


class DuckDBSnapshot(Session):
    """One snapshot, open for reading: a DuckDB file that can reach nothing outside itself.

    Safe to share between threads: each answer has a cursor of its own.

    Raises:     EngineError: no such file, or not a DuckDB file.
    Example:
        >>> DuckDBSnapshot(Path("missing.duckdb"))
        Traceback (most recent call last):
        app.engines.errors.EngineError: engine: expected an answer, got none
    """

    def __init__(self, path: Path) -> None:
        self._connection = open_snapshot(path)
        self._opening_cursors = threading.Lock()

    def answer(self, canonical: CanonicalQuery) -> tuple[int, ...]:
        """Return the exact answer: one integer a key in canonical order, or one alone without groups.

        Guarantee:  the same table in another row order, on more threads, or read again gives the same integers.
        Raises:     EngineError: the engine failed; nothing of the data is in the message, the fields or the cause.
        """
        statement = for_duckdb(compile_query(canonical))
        with self._opening_cursors:
            cursor = self._connection.cursor()
        try:
            answers = tuple(answer for _, answer in fetch_all(cursor, statement))
        finally:
            cursor.close()
        if len(answers) != canonical.length or not all(type(answer) is int for answer in answers):
            raise EngineError
        return answers


def named_numbers(path: Path, question: exp.Select) -> tuple[list[str], npt.NDArray[np.float64]]:
    """Return a compiled question's rows: the texts that come first, and the numbers after them, NaN for none.

    Raises:     EngineError: the engine failed; nothing of the data is in the message, the fields or the cause.
    """
    connection, found = open_snapshot(path), None
    try:
        found = connection.execute(for_duckdb(question)).fetchnumpy()
    except duckdb.Error:
        found = None
    finally:
        connection.close()
    if found is None:
        raise EngineError
    names, *numbers = (found[each.alias_or_name] for each in question.selects)
    columns = [np.ma.filled(np.ma.asarray(column, np.float64), np.nan) for column in numbers]
    return [str(name) for name in names], np.column_stack(columns)


def seal(path: Path, key: bytes) -> str:
    """Return a keyed BLAKE2b digest, in hex, of the file's bytes: fast, checked before each truth draw.

    Raises:     IntegrityError: the file is gone. ValueError: a key not of 16 to 64 bytes.
    """
    _check_key(key)
    if not path.is_file():
        raise IntegrityError("snapshot: expected a file, got none")
    with path.open("rb") as file:
        return hashlib.file_digest(file, lambda: hashlib.blake2b(key=key, digest_size=32)).hexdigest()


def content_digest(path: Path, key: bytes) -> str:
    """Return a keyed digest, in hex, of the logical rows: equal for equal multisets of rows, in whatever order or file.

    SHA-256 of each row (fields by column id, length-prefixed, null marked), sorted, under keyed BLAKE2b with the
    columns' ids and types. The key never enters SQL.

    Raises:     EngineError: the file cannot be read as a snapshot. ValueError: a key not of 16 to 64 bytes.
    """
    _check_key(key)
    digest = hashlib.blake2b(key=key, digest_size=32)
    connection = open_snapshot(path)
    try:
        columns = fetch_all(
            connection,
            "SELECT column_name, data_type FROM duckdb_columns() WHERE table_name = ? ORDER BY column_name",
            [ROWS_TABLE],
        )
        if not columns:
            raise EngineError
        digest.update(repr(columns).encode())
        for (row,) in fetch_all(connection, _row_hashes([name for name, _ in columns])):
            digest.update(bytes.fromhex(row))
    finally:
        connection.close()
    return digest.hexdigest()


def units_digest(path: Path, key: bytes, column: str) -> str | None:
    """Return a keyed digest, in hex, of who is in a snapshot and how often: each unit with its number of rows.

    Two files with one digest are taken to be about the same people, whatever columns they hold and are called. None
    where nobody is in the snapshot.

    Args:       column: the unit column's id.
    Raises:     EngineError: the file cannot be read as a snapshot. ValueError: a key not of 16 to 64 bytes.
    """
    _check_key(key)
    digest = hashlib.blake2b(key=key, digest_size=32, person=b"units")
    unit = exp.cast(exp.column(column, quoted=True), "TEXT")
    known = exp.Not(this=exp.Is(this=exp.column(column, quoted=True), expression=exp.Null()))
    grouped = exp.select(exp.alias_(unit, "unit"), exp.alias_(exp.Count(this=exp.Star()), "amount")).from_(ROWS_TABLE)
    statement = grouped.where(known).group_by("unit").order_by("unit").sql(dialect="duckdb")
    connection = open_snapshot(path)
    try:
        rows = fetch_all(connection, statement)
    finally:
        connection.close()
    for text, amount in rows:
        digest.update(f"{len(text)}:{text}{amount};".encode())
    return digest.hexdigest() if rows else None


def _row_hashes(columns: list[str]) -> str:
    fields = []
    for name in columns:
        text = exp.cast(exp.column(name, quoted=True), "TEXT")
        length = exp.cast(exp.Length(this=text), "TEXT")
        prefixed = exp.DPipe(this=exp.DPipe(this=length, expression=exp.Literal.string(":")), expression=text.copy())
        fields.append(exp.Coalesce(this=prefixed, expressions=[exp.Literal.string("-")]))
    joined = exp.Concat(expressions=fields, safe=True, coalesce=False)
    row = exp.alias_(exp.SHA2(this=joined, length=exp.Literal.number(256)), "row_hash")
    statement: str = exp.select(row).from_(ROWS_TABLE).order_by("row_hash").sql(dialect="duckdb")
    return statement


def _check_key(key: bytes) -> None:
    if not _KEY_BYTES[0] <= len(key) <= _KEY_BYTES[1]:
        raise ValueError(f"key: expected {_KEY_BYTES[0]} to {_KEY_BYTES[1]} bytes, got {len(key)}")
