"""A PostgreSQL of the benchmark's own, from Debian's binaries, with every commit on the disk."""

import os
import pwd
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import psycopg

from tests.postgres import as_postgres, binaries

__all__ = ["durable_postgres"]


@contextmanager
def durable_postgres() -> Iterator[str]:
    """Run a server for as long as the block lasts; yield the URL of an empty database."""
    programs, folder = binaries(), Path(tempfile.mkdtemp(prefix="pg-bench-"))
    if os.geteuid() == 0:
        user = pwd.getpwnam("postgres")
        os.chown(folder, user.pw_uid, user.pw_gid)
    data = folder / "data"
    as_postgres(str(programs / "initdb"), "-D", str(data), "-A", "trust", "-U", "postgres", "-E", "UTF8")
    control = (str(programs / "pg_ctl"), "-D", str(data), "-w", "-l", str(folder / "server.log"))
    as_postgres(*control, "-o", f"-c listen_addresses='' -c unix_socket_directories={folder}", "start")
    try:
        with psycopg.connect(host=str(folder), user="postgres", autocommit=True) as connection:
            connection.execute("CREATE DATABASE market")
        yield f"postgresql+psycopg://postgres@/market?host={folder}"
    finally:
        as_postgres(*control, "-m", "fast", "stop")
        shutil.rmtree(folder, ignore_errors=True)
