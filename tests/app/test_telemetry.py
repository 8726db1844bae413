"""Metrics that are added up a quarter of a second at a time are those that each request would have made; no line is lost."""

import asyncio
import os
from pathlib import Path

import msgspec
import pytest
from litestar.testing import TestClient
from prometheus_client import CollectorRegistry, Counter, Histogram, generate_latest

from app import telemetry as module
from app.main import build_app
from app.settings import Settings
from app.telemetry import Telemetry, access_sink

BUCKETS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)
# On a bound, on both sides of one, below all, beyond all; sums of powers of two are exact in any order.
TIMES = (2**-12, 0.25, 0.5, 0.5 + 2**-20, 1.0, 8.0, 16.0, 2**-4)
SEEN = [("GET", "/a", 200), ("GET", "/a", 404), ("POST", "/a", 200), ("GET", "/b", 200)]


def one_by_one(times: int) -> str:
    """What prometheus_client itself makes of the same requests."""
    registry = CollectorRegistry()
    requests = Counter("tiermarket_requests", "", ("method", "route", "status"), registry=registry)
    seconds = Histogram("tiermarket_request_seconds", "", ("route",), buckets=BUCKETS, registry=registry)
    for _ in range(times):
        for method, route, status in SEEN:
            for took in TIMES:
                requests.labels(method, route, str(status)).inc()
                seconds.labels(route).observe(took)
    return numbers(generate_latest(registry))


def numbers(text: bytes) -> str:
    """The samples of requests and their times, without help texts."""
    lines = text.decode().splitlines()
    return "\n".join(sorted(line for line in lines if line.startswith("tiermarket_request")))


def observe_all(telemetry: Telemetry) -> None:
    for method, route, status in SEEN:
        for took in TIMES:
            telemetry.observe(method, route, status, took, None)


async def test_what_is_added_up_is_what_each_request_would_have_made() -> None:
    telemetry = Telemetry()
    for times in (1, 2):
        observe_all(telemetry)
        assert numbers(telemetry.metrics()) == one_by_one(times), "and what waits is in it"
    telemetry.flush()
    telemetry.flush()
    assert numbers(telemetry.metrics()) == one_by_one(2), "once"


async def test_what_waits_is_written_by_itself_soon_and_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_FLUSH_SECONDS", 0.0)
    lines: list[bytes] = []
    telemetry = Telemetry(lines.append)
    observe_all(telemetry)
    assert lines == [], "in company"
    for _ in range(5):
        await asyncio.sleep(0)
    assert len(lines) == 1
    assert lines[0].count(b"\n") == len(SEEN) * len(TIMES)
    assert numbers(generate_latest(telemetry._registry)) == one_by_one(1)
    telemetry.observe("GET", "/a", 200, 1.0, None)
    for _ in range(5):
        await asyncio.sleep(0)
    assert len(lines) == 2, "and again for what came after"


async def test_lines_wait_for_so_many_others_and_no_more() -> None:
    lines: list[bytes] = []
    telemetry = Telemetry(lines.append)
    for count in range(1, 601):
        telemetry.observe("GET", "/a", 200, 1.0, f"p{count}")
        waiting = count - b"".join(lines).count(b"\n")
        assert waiting <= 200
    assert len(lines) <= 3
    telemetry.flush()
    seen = [msgspec.json.decode(line)["who"] for line in b"".join(lines).splitlines()]
    assert seen == [f"p{count}" for count in range(1, 601)], "each once, in order"


def test_a_line_of_which_the_system_takes_a_part_is_written_whole(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    sink, write = access_sink(str(tmp_path / "access.log")), os.write
    assert sink is not None
    monkeypatch.setattr(os, "write", lambda handle, raw: write(handle, raw[:3]))
    sink(b"one line of several\nand another\n")
    assert (tmp_path / "access.log").read_bytes() == b"one line of several\nand another\n"
    assert (tmp_path / "access.log").stat().st_mode & 0o777 == 0o600


def test_the_last_requests_of_a_process_are_in_its_log(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_FLUSH_SECONDS", 3_600.0)
    lines: list[bytes] = []
    with TestClient(build_app(Settings.at(tmp_path / "m"), access=lines.append)) as client:
        assert client.get("/health/live").status_code == 200
        assert lines == []
    (line,) = b"".join(lines).splitlines()
    assert msgspec.json.decode(line)["route"] == "/health/live"
