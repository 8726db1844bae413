"""Structured logs and metrics: events, kinds and times, never an answer, a key, a token, a body, a query or a row."""

import asyncio
import logging
import os
import sys
import time
from bisect import bisect_left
from collections.abc import Callable
from contextvars import ContextVar
from datetime import UTC, datetime
from typing import Any

import msgspec
import structlog
from prometheus_client import (
    CONTENT_TYPE_LATEST,
    CollectorRegistry,
    Counter,
    Gauge,
    Histogram,
    disable_created_metrics,
    generate_latest,
)
from prometheus_client.multiprocess import MultiProcessCollector

__all__ = ["METRICS_TYPE", "Seen", "Sink", "Telemetry", "access_sink", "configure_logging", "request_id"]

METRICS_TYPE = CONTENT_TYPE_LATEST
_SHARED = "PROMETHEUS_MULTIPROC_DIR"
_FLUSH_SECONDS = 0.25
_LINES_TOGETHER = 200
_BUCKETS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)

request_id: ContextVar[str] = ContextVar("request_id", default="")
"""The id of the request that this task serves; every log line under it names it."""

disable_created_metrics()  # type: ignore[no-untyped-call]

Sink = Callable[[bytes], object]


class Seen(msgspec.Struct, frozen=True):
    """All that an access log may say of a request: `who` is the account's pseudonym, or nobody."""

    method: str
    route: str
    status: int
    milliseconds: float
    request: str
    who: str | None
    at: str
    event: str = "request"


class _Counted:
    """Requests of one method, route and status since the last flush: their seconds, and how many in each bucket."""

    __slots__ = ("buckets", "seconds")

    def __init__(self) -> None:
        self.seconds, self.buckets = 0.0, [0] * (len(_BUCKETS) + 1)


class Telemetry:
    """One worker's counters, and its access log where it has one; workers that share a folder add up.

    Counts and access lines wait a quarter of a second for company: one write for many. `flush` writes what waits.
    """

    def __init__(self, sink: Sink | None = None) -> None:
        self._sink = sink
        self._lines: list[bytes] = []
        self._due: asyncio.TimerHandle | None = None
        self._encode = msgspec.json.Encoder().encode
        self._registry = CollectorRegistry()
        self._requests = Counter(
            "tiermarket_requests",
            "Requests by route and status.",
            ("method", "route", "status"),
            registry=self._registry,
        )
        self._seconds = Histogram(
            "tiermarket_request_seconds",
            "Time from a request's headers to its last byte.",
            ("route",),
            buckets=_BUCKETS,
            registry=self._registry,
        )
        self._queries = Counter("tiermarket_queries", "Queries run on owners' data.", registry=self._registry)
        self._counted: dict[tuple[str, str, int], _Counted] = {}
        self._findings = Counter(
            "tiermarket_audit_findings", "Findings of gate and audits, by rule.", ("rule",), registry=self._registry
        )
        self._frozen = Gauge(
            "tiermarket_frozen_chains",
            "Chains that an audit has frozen.",
            registry=self._registry,
            multiprocess_mode="mostrecent",
        )
        self._stopped = Gauge(
            "tiermarket_stopped_panels",
            "Panels and location panels that an audit has stopped.",
            registry=self._registry,
            multiprocess_mode="mostrecent",
        )
        self._kept: dict[tuple[str, str, int], tuple[Any, Any]] = {}

    def observe(self, method: str, route: str, status: int, seconds: float, who: str | None) -> None:
        """Count a request and log it. `method` and `route` come from closed sets: they are labels."""
        name = (method, route, status)
        counted = self._counted.get(name)
        if counted is None:
            counted = self._counted[name] = _Counted()
        counted.seconds += seconds
        counted.buckets[bisect_left(_BUCKETS, seconds)] += 1
        if self._sink is not None:
            seen = Seen(method, route, status, round(seconds * 1000, 3), request_id.get(), who, _now())
            self._lines.append(self._encode(seen) + b"\n")
        if self._due is None:
            self._due = asyncio.get_running_loop().call_later(_FLUSH_SECONDS, self.flush)
        elif len(self._lines) >= _LINES_TOGETHER:
            self._write()

    def count_query(self) -> None:
        """Count a query that is about to run on an owner's data."""
        self._queries.inc()

    def found(self, rule: str) -> None:
        """Count a finding of an audit; `rule` comes from a closed set."""
        self._findings.labels(rule).inc()

    def frozen(self, chains: int, panels: int) -> None:
        """Say how many chains are frozen, and how many panels stopped."""
        self._frozen.set(chains)
        self._stopped.set(panels)

    def flush(self) -> None:
        """Write the access lines that wait, and add up what was counted."""
        if self._due is not None:
            self._due.cancel()
            self._due = None
        self._write()
        counted, self._counted = self._counted, {}
        for (method, route, status), found in counted.items():
            requests, times = self._labelled(method, route, status)
            requests.inc(sum(found.buckets))
            times._sum.inc(found.seconds)  # many observations in one step, which the library has no call for
            for bucket, count in zip(times._buckets, found.buckets, strict=True):
                if count:
                    bucket.inc(count)

    def _labelled(self, method: str, route: str, status: int) -> tuple[Any, Any]:
        name = (method, route, status)
        if name not in self._kept:
            self._kept[name] = (self._requests.labels(method, route, str(status)), self._seconds.labels(route))
        return self._kept[name]

    def _write(self) -> None:
        lines, self._lines = self._lines, []
        if lines and self._sink is not None:
            self._sink(b"".join(lines))

    def metrics(self) -> bytes:
        """Return the metrics of all workers, in Prometheus' text form; other workers' are a quarter of a second old."""
        self.flush()
        if not os.environ.get(_SHARED):
            return generate_latest(self._registry)
        together = CollectorRegistry()
        MultiProcessCollector(together)  # type: ignore[no-untyped-call]
        return generate_latest(together)


_second: tuple[int, str] = (-1, "")


def _now() -> str:
    """Return the time as ISO 8601 text in UTC, to the millisecond; the seconds are written once each."""
    global _second  # noqa: PLW0603 - a memo of one value
    now = time.time_ns() // 1_000_000
    second = now // 1000
    if second != _second[0]:
        _second = (second, datetime.fromtimestamp(second, UTC).isoformat()[:19])
    return f"{_second[1]}.{now % 1000:03d}+00:00"


def access_sink(name: str) -> Sink | None:
    """Return where access lines go: `stderr`, a file that is appended to, or nowhere for an empty name."""
    if not name:
        return None
    handle = 2 if name == "stderr" else os.open(name, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)

    def write(lines: bytes) -> None:
        while lines:
            lines = lines[os.write(handle, lines) :]

    return write


def configure_logging() -> None:
    """Log JSON lines from `warning` up, each with the id of the request it belongs to."""
    structlog.configure(
        processors=[
            _add_request,
            structlog.processors.add_log_level,
            structlog.processors.TimeStamper(fmt="iso", utc=True),
            structlog.processors.JSONRenderer(),
        ],
        wrapper_class=structlog.make_filtering_bound_logger(logging.WARNING),
        logger_factory=structlog.PrintLoggerFactory(sys.stderr),
        cache_logger_on_first_use=True,
    )


def _add_request(_logger: Any, _name: str, event: structlog.typing.EventDict) -> structlog.typing.EventDict:
    if request_id.get():
        event["request"] = request_id.get()
    return event
