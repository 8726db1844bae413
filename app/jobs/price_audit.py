"""The full arbitrage check of the live catalogue, as a job: what it reads is in the store, so any worker can do it."""

import time
from collections.abc import Callable, Mapping
from typing import Any

from app.catalog.arbitrage import check_catalogue, live_offers
from app.store.database import Database
from pricing.limit import limit_of

__all__ = ["price_audit"]

_SECONDS = 600.0


def price_audit(database: Database, progress: Callable[[str], None]) -> Mapping[str, Any]:
    """Check every live product in three stages; return the verdict and the findings."""
    offers = database.read_now(live_offers)
    limit = limit_of(_SECONDS, time.monotonic, lambda stage, done, of: progress(f"{stage}: {done} of {of} goods"))
    findings, _ = check_catalogue(offers, level=3, limit=limit)
    worst = {finding.verdict.value for finding in findings}
    verdict = next((name for name in ("arbitrage", "uncertified") if name in worst), "safe")
    return {"verdict": verdict, "findings": [_finding(finding) for finding in findings]}


def _finding(finding: Any) -> dict[str, Any]:
    return {
        "good": finding.name,
        "verdict": finding.verdict.value,
        "price_minor": finding.price,
        "stage": finding.stage,
        "bundle": list(finding.bundle),
        "cost_minor": finding.cost,
    }
