"""A private PostgreSQL from the system's binaries, in a temporary folder, on a unix socket, gone when the tests end."""

import atexit
import functools
import os
import pwd
import shutil
import subprocess
import tempfile
from pathlib import Path

import pytest

from app.engines.rendering import PostgresTable, postgres_name

READER = "reader"
SQL_TYPES = {
    "integer": "bigint",
    "real": "double precision",
    "text": 'text COLLATE "C"',
    "boolean": "boolean",
    "date": "date",
    "timestamp": "timestamp",
}


def binaries():
    """The folder of initdb and pg_ctl; installed by Debian's own means where that is possible, else the test is skipped."""
    found = sorted(Path("/usr/lib/postgresql").glob("*/bin/initdb"))
    if not found and os.geteuid() == 0 and shutil.which("apt-get"):
        subprocess.run(["apt-get", "install", "-y", "-q", "postgresql"], check=True, capture_output=True)
        found = sorted(Path("/usr/lib/postgresql").glob("*/bin/initdb"))
    if not found:
        pytest.skip("no PostgreSQL on this machine")
    return found[-1].parent


@functools.cache
def served():
    """The connection string of the superuser of a fresh server, one for all tests of a process."""
    pytest.importorskip("psycopg")
    folder, programs = Path(tempfile.mkdtemp(prefix="pg-")), binaries()
    as_user = []
    if os.geteuid() == 0:
        account = pwd.getpwnam("postgres")
        os.chown(folder, account.pw_uid, account.pw_gid)
        as_user = ["runuser", "-u", "postgres", "--"]
    data = str(folder / "data")

    def run(*command):
        subprocess.run([*as_user, *command], check=True, capture_output=True, cwd=folder)

    run(str(programs / "initdb"), "-D", data, "-A", "trust", "-U", "postgres", "-E", "UTF8", "--locale=C.UTF-8", "-N")
    options = f"-k {folder} -c listen_addresses='' -c fsync=off -c full_page_writes=off"
    run(str(programs / "pg_ctl"), "-D", data, "-w", "-o", options, "-l", str(folder / "log"), "start")

    @atexit.register
    def stop():
        run(str(programs / "pg_ctl"), "-D", data, "-w", "-m", "immediate", "stop")
        shutil.rmtree(folder, ignore_errors=True)

    address = f"host={folder} dbname=postgres"
    with admin(f"{address} user=postgres") as connection:
        connection.execute(f"CREATE ROLE {READER} LOGIN")
        connection.execute("CREATE ROLE owner LOGIN")
        connection.execute("GRANT CREATE ON DATABASE postgres TO owner")
    return address


def admin(address):
    import psycopg

    return psycopg.connect(address, autocommit=True)


@functools.cache
def _sessions():
    from app.engines import PostgresSnapshot

    connection = admin(f"{served()} user=postgres")
    connection.execute("CREATE SCHEMA tables")
    connection.execute(f"GRANT USAGE ON SCHEMA tables TO {READER}")
    table = PostgresTable("tables", "rows")
    connection.execute(f"CREATE TABLE {table.quoted()} ()")
    return connection, PostgresSnapshot(f"{served()} user={READER}", table), table


def load_postgres(rows, columns):
    """As the tests' `load_duckdb`: the table is made anew, and asked by the reader through the engine itself."""
    from psycopg import sql

    connection, snapshot, table = _sessions()
    names = [sql.Identifier(postgres_name(name)) for name in columns]
    typed = [sql.SQL("{} " + SQL_TYPES[kind]).format(name) for name, kind in zip(names, columns.values(), strict=True)]
    rows_table = sql.Identifier(table.schema, table.name)
    connection.execute(sql.SQL("DROP TABLE {}").format(rows_table))
    connection.execute(sql.SQL("CREATE TABLE {} ({})").format(rows_table, sql.SQL(", ").join(typed)))
    connection.execute(sql.SQL("GRANT SELECT ON {} TO {}").format(rows_table, sql.Identifier(READER)))
    with connection.cursor().copy(sql.SQL("COPY {} FROM STDIN").format(rows_table)) as copy:
        for row in rows:
            copy.write_row([row[name] for name in columns])
    return lambda canonical: list(snapshot.answer(canonical))
