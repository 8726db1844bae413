"""Servers that tests start in a process group of their own."""

import itertools
import os
import signal
import socket
import subprocess
import sys
from pathlib import Path

from app.embedded import die_with_parent
from app.settings import Settings

_ports = itertools.count(10_000 + os.getpid() * 20 % 20_000)


def quiet_port() -> int:
    """A port that nobody listens on, below those that the kernel hands out: nobody is given it before it is used."""
    for port in _ports:
        try:
            with socket.create_server(("127.0.0.1", port)):
                return port
        except OSError:
            continue
    raise AssertionError("there is always another port")


def serve(settings: Settings, port: int, log: Path, *options: str) -> "subprocess.Popen[bytes]":
    """Serve a market without Redis, what it says going to a file."""
    command = [sys.executable, "-m", "app.cli", "serve", "--state", str(settings.state), "--port", str(port)]
    with log.open("wb") as file:
        return subprocess.Popen(
            [*command, *options, "--no-redis"],
            stdout=file,
            stderr=file,
            start_new_session=True,
            preexec_fn=die_with_parent,  # noqa: PLW1509 - before any thread starts
        )


def end(server: "subprocess.Popen[bytes]") -> None:
    """Stop a server and its workers, at last by force."""
    os.killpg(server.pid, signal.SIGTERM)
    try:
        server.wait(60)
    except subprocess.TimeoutExpired:
        os.killpg(server.pid, signal.SIGKILL)
        server.wait()
