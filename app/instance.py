"""One service a state folder, one service a port: claims that end with the process that made them.

The server binds with SO_REUSEPORT, so the system itself would let two services share a port and split its requests.
"""

import errno
import fcntl
import os
import socket
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from app.embedded import free_port
from app.errors import ConflictError

__all__ = ["claim_port", "claim_state", "read_address", "write_address"]

_ADDRESS = "service.address"


@contextmanager
def claim_state(state: Path) -> Iterator[None]:
    """Hold a state folder; raises ConflictError where another process serves it."""
    with _locked(state / "service.lock", f"state: expected a folder that nobody serves, got {state}"):
        yield


@contextmanager
def claim_port(host: str, port: int, *, otherwise_free: bool) -> Iterator[int]:
    """Hold a port of this machine and yield it; with `otherwise_free`, another one where it is taken.

    Raises:     ConflictError: somebody listens there, or another service of this kind has claimed it.
    """
    with ExitStack() as stack:
        try:
            stack.enter_context(_claimed(host, port))
        except ConflictError:
            if not otherwise_free:
                raise
            port = free_port()
            stack.enter_context(_claimed(host, port))
        yield port


def write_address(state: Path, host: str, port: int) -> None:
    """Say where the service of a state folder listens."""
    (state / _ADDRESS).write_text(f"{host}:{port}")


def read_address(state: Path) -> str | None:
    """Return where the service of a state folder said it listens, or None."""
    path = state / _ADDRESS
    return path.read_text() if path.exists() else None


@contextmanager
def _claimed(host: str, port: int) -> Iterator[None]:
    refusal = f"port: expected one that nobody listens on, got {port}"
    with _locked(Path(tempfile.gettempdir()) / f"tiermarket-port-{port}.lock", refusal):
        if _somebody_answers(host, port):
            raise ConflictError(refusal)
        yield


def _somebody_answers(host: str, port: int) -> bool:
    try:
        with socket.create_server((host, port)):
            return False
    except OSError as error:
        return error.errno in (errno.EADDRINUSE, errno.EACCES)


@contextmanager
def _locked(path: Path, refusal: str) -> Iterator[None]:
    handle = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise ConflictError(refusal) from None
        yield
    finally:
        os.close(handle)
