"""What the log says of what is kept beside it: the digest of a report, and in the report that of the watch's state."""

import hashlib
from typing import Any

import msgspec

from tiers.canonical import Document, canonical_bytes

__all__ = ["report_digest", "report_of", "watch_digest"]


def report_digest(body: dict[str, Document]) -> str:
    """Return the digest by which the log names a report: of all but its signature."""
    return hashlib.sha256(canonical_bytes(body)).hexdigest()


def watch_digest(state: str) -> str:
    """Return the digest by which a report names the watch's state that is kept beside it."""
    return hashlib.sha256(state.encode()).hexdigest()


def report_of(text: str, digest: str) -> dict[str, Any]:
    """Return a kept report without its signature; raises ValueError where the log names another."""
    report = dict(msgspec.json.decode(text))
    report.pop("signature", None)
    if report_digest(report) != digest:
        raise ValueError("report: expected the digest in the log, got another")
    return report
