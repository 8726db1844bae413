"""A small HTTP client for load: keep-alive connections in lockstep, no parsing beyond the length of an answer."""

import asyncio
import time
from dataclasses import dataclass
from pathlib import Path
from typing import cast

import uvloop

__all__ = ["Load", "cpu_seconds", "descendants", "load", "resident_bytes"]

_TICKS = 100


@dataclass(frozen=True, slots=True)
class Load:
    """What a load met: answers, the seconds it took, and each answer's seconds in order."""

    answers: int
    seconds: float
    latencies: tuple[float, ...]

    @property
    def rate(self) -> float:
        """Return answers a second."""
        return self.answers / self.seconds

    def quantile(self, part: float) -> float:
        """Return the latency that `part` of the answers stay within."""
        return self.latencies[min(len(self.latencies) - 1, int(part * len(self.latencies)))]


class _Loop(asyncio.Protocol):
    """One connection: send, wait for the whole answer, send again, until told to stop."""

    def __init__(self, request: bytes, until: float, most: int, done: asyncio.Future[list[float]]) -> None:
        self._request, self._until, self._most, self._done = request, until, most, done
        self._buffer = b""
        self._times: list[float] = []

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)
        self._send()

    def data_received(self, data: bytes) -> None:
        self._buffer += data
        head, separator, body = self._buffer.partition(b"\r\n\r\n")
        if not separator:
            return
        length = int(head.lower().split(b"content-length: ")[1].split(b"\r\n")[0])
        if len(body) < length:
            return
        assert head.startswith(b"HTTP/1.1 200"), head
        now = time.perf_counter()
        self._buffer = b""
        self._times.append(now - self._sent)
        if now < self._until and len(self._times) < self._most:
            self._send()
        else:
            self._transport.close()
            self._done.set_result(self._times)

    def connection_lost(self, error: Exception | None) -> None:
        if not self._done.done():
            self._done.set_exception(error or ConnectionError("closed before its answer"))

    def _send(self) -> None:
        self._sent = time.perf_counter()
        self._transport.write(self._request)


def load(
    port: int, path: str, headers: dict[str, str], *, connections: int, seconds: float = 1e9, answers: int = 10**9
) -> Load:
    """Ask 127.0.0.1 over keep-alive connections until the seconds or the answers are over."""
    lines = [f"GET {path} HTTP/1.1", "Host: 127.0.0.1", *(f"{name}: {value}" for name, value in headers.items())]
    request = ("\r\n".join(lines) + "\r\n\r\n").encode()

    async def run() -> Load:
        loop = asyncio.get_running_loop()
        started = time.perf_counter()
        dones = [loop.create_future() for _ in range(connections)]
        for done in dones:
            made = _Loop(request, started + seconds, -(-answers // connections), done)
            await loop.create_connection(lambda made=made: made, "127.0.0.1", port)
        times = [one for each in await asyncio.gather(*dones) for one in each]
        return Load(len(times), time.perf_counter() - started, tuple(sorted(times)))

    return uvloop.run(run())


def descendants(pid: int) -> list[int]:
    """Return a process and everything below it."""
    found = [pid]
    for task in Path(f"/proc/{pid}/task").iterdir():
        for child in (task / "children").read_text().split():
            found += descendants(int(child))
    return found


def cpu_seconds(pid: int) -> float:
    """Return the processor time that a process and those below it have used."""
    total = 0
    for one in descendants(pid):
        fields = Path(f"/proc/{one}/stat").read_text().rpartition(")")[2].split()
        total += int(fields[11]) + int(fields[12])
    return total / _TICKS


def resident_bytes(pid: int) -> int:
    """Return the resident memory of the largest process below (and including) one: a server's only worker."""
    sizes = [int(Path(f"/proc/{one}/statm").read_text().split()[1]) for one in descendants(pid)]
    return max(sizes) * 4096
