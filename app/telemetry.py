"""Structured logs and metrics: events, kinds and times, never an answer, a key, a token, a body, a query or a row."""

import asyncio
import logging
import os
import sys
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


class Telemetry:
    """One worker's counters, and its access log where it has one; workers that share a folder add up.

    Access lines wait a quarter of a second for company: one write for many. `flush` writes what waits.
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
        self._findings = Counter(
            "tiermarket_audit_findings", "Findings of gate and audits, by rule.", ("rule",), registry=self._registry
        )
        self._frozen = Gauge(
            "tiermarket_frozen_chains",
            "Chains that an audit has frozen.",
            registry=self._registry,
            multiprocess_mode="mostrecent",
        )
        self._kept: dict[tuple[str, str, int], tuple[Any, Any]] = {}

    def observe(self, method: str, route: str, status: int, seconds: float, who: str | None) -> None:
        """Count a request and log it. `method` and `route` come from closed sets: they are labels."""
        name = (method, route, status)
        kept = self._kept.get(name)
        if kept is None:
            kept = self._kept[name] = (self._requests.labels(method, route, str(status)), self._seconds.labels(route))
        kept[0].inc()
        kept[1].observe(seconds)
        if self._sink is not None:
            at = datetime.now(UTC).isoformat(timespec="milliseconds")
            seen = Seen(method, route, status, round(seconds * 1000, 3), request_id.get(), who, at)
            self._lines.append(self._encode(seen) + b"\n")
            if self._due is None:
                self._due = asyncio.get_running_loop().call_later(_FLUSH_SECONDS, self.flush)

    def found(self, rule: str) -> None:
        """Count a finding of an audit; `rule` comes from a closed set."""
        self._findings.labels(rule).inc()

    def frozen(self, chains: int) -> None:
        """Say how many chains are frozen."""
        self._frozen.set(chains)

    def flush(self) -> None:
        """Write the access lines that wait."""
        lines, self._lines, self._due = self._lines, [], None
        if lines and self._sink is not None:
            self._sink(b"".join(lines))

    def metrics(self) -> bytes:
        """Return the metrics of all workers, in Prometheus' text form."""
        if not os.environ.get(_SHARED):
            return generate_latest(self._registry)
        together = CollectorRegistry()
        MultiProcessCollector(together)  # type: ignore[no-untyped-call]
        return generate_latest(together)


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
