"""A PostgreSQL of the suite's own, from Debian's binaries: in a temporary folder, on a unix socket, gone afterwards."""

import os
import pwd
import shutil
import subprocess
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import psycopg
import pytest

BINARIES = Path("/usr/lib/postgresql")


def binaries() -> Path:
    """The newest installed version's programs; installed first where we may and they are missing."""
    if not list(BINARIES.glob("*/bin/initdb")) and os.geteuid() == 0:
        for words in ("update -q", "install -qy postgresql"):
            quiet = os.environ | {"DEBIAN_FRONTEND": "noninteractive"}
            subprocess.run(["apt-get", *words.split()], env=quiet, check=True, capture_output=True)
    return max(BINARIES.glob("*/bin/initdb"), key=lambda path: int(path.parts[-3])).parent


def as_postgres(*command: str) -> None:
    """Run a program as the user `postgres`, or as ourselves where we are not root (it refuses to run as root)."""
    prefix = ("runuser", "-u", "postgres", "--") if os.geteuid() == 0 else ()
    subprocess.run([*prefix, *command], check=True, capture_output=True, cwd="/")


@pytest.fixture(scope="session")
def postgres() -> Iterator[Callable[[str], str]]:
    """A running server: give it a database's name, get the URL of a new, empty one."""
    programs = binaries()
    folder = Path(tempfile.mkdtemp(prefix="pg-"))
    if os.geteuid() == 0:
        user = pwd.getpwnam("postgres")
        os.chown(folder, user.pw_uid, user.pw_gid)
    data = folder / "data"
    options = f"-c listen_addresses='' -c unix_socket_directories={folder} -c fsync=off -c max_connections=200"
    as_postgres(str(programs / "initdb"), "-D", str(data), "-A", "trust", "-U", "postgres", "-E", "UTF8", "-N")
    control = (str(programs / "pg_ctl"), "-D", str(data), "-w", "-t", "600", "-l", str(folder / "server.log"))
    as_postgres(*control, "-o", options, "start")
    try:

        def create(name: str) -> str:
            with psycopg.connect(host=str(folder), user="postgres", autocommit=True) as connection:
                connection.execute(f'CREATE DATABASE "{name}"')  # type: ignore[arg-type]
            return f"postgresql+psycopg://postgres@/{name}?host={folder}"

        yield create
    finally:
        as_postgres(*control, "-m", "immediate", "stop")
        shutil.rmtree(folder, ignore_errors=True)
