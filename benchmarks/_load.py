"""A small HTTP client for load: keep-alive connections in lockstep, no parsing beyond the length of an answer."""

import asyncio
import time

__all__ = ["throughput"]


class _Loop(asyncio.Protocol):
    """One connection: send, wait for the whole answer, send again, until told to stop."""

    def __init__(self, request: bytes, until: float, done: asyncio.Future[int]) -> None:
        self._request, self._until, self._done = request, until, done
        self._buffer, self._count = b"", 0

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport
        transport.write(self._request)

    def data_received(self, data: bytes) -> None:
        self._buffer += data
        head, separator, body = self._buffer.partition(b"\r\n\r\n")
        if not separator:
            return
        length = int(head.lower().split(b"content-length: ")[1].split(b"\r\n")[0])
        if len(body) < length:
            return
        assert head.startswith(b"HTTP/1.1 200"), head
        self._buffer, self._count = b"", self._count + 1
        if time.perf_counter() < self._until:
            self._transport.write(self._request)
        else:
            self._transport.close()
            self._done.set_result(self._count)


def throughput(port: int, path: str, headers: dict[str, str], *, connections: int, seconds: float) -> float:
    """Return answers a second over `connections` keep-alive connections to 127.0.0.1."""
    lines = [f"GET {path} HTTP/1.1", "Host: 127.0.0.1", *(f"{name}: {value}" for name, value in headers.items())]
    request = ("\r\n".join(lines) + "\r\n\r\n").encode()

    async def run() -> float:
        loop = asyncio.get_running_loop()
        started = time.perf_counter()
        dones = [loop.create_future() for _ in range(connections)]
        for done in dones:
            made = _Loop(request, started + seconds, done)
            await loop.create_connection(lambda made=made: made, "127.0.0.1", port)
        counts = await asyncio.gather(*dones)
        return sum(counts) / (time.perf_counter() - started)

    return asyncio.run(run())
