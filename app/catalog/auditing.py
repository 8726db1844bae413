"""The full arbitrage check of what is on sale, all three stages: a job, on demand and once a night."""

import asyncio
import time
from collections.abc import Mapping
from contextlib import suppress
from datetime import datetime
from functools import partial
from typing import Any

from sqlalchemy import Connection, select

from app.catalog.arbitrage import live_offers, store_bundle_ruling, store_ruling
from app.catalog.bundle_verdicts import ruling_of_bundle
from app.catalog.classes import Judged, check_catalogue
from app.catalog.listing import rivals_version
from app.catalog.shelf import Shelf
from app.catalog.verdicts import rulings_of
from app.clock import Clock, later, time_text
from app.errors import AppError
from app.jobs.runner import Jobs, Progress
from app.ledger.money import market_account
from app.store.database import Database
from app.store.schema import jobs as jobs_table
from pricing.limit import limit_of

__all__ = ["AUDIT", "audit_due", "nightly", "price_audit"]

AUDIT = "price-audit"
AUDIT_SECONDS = 600.0
_NIGHT_HOUR = 2  # UTC
_LOOK_SECONDS = 600.0
_RECENT_SECONDS = 20 * 3600


def price_audit(database: Database, at: str, progress: Progress) -> Mapping[str, Any]:
    """Check all that is on sale, and keep every verdict that is still about it.

    A chain whose price, or whose rivals, changed while the audit ran keeps the verdict that the change itself brought,
    and is named in `changed_meanwhile`. What time did not suffice for is uncertified and says so.
    """

    def read(connection: Connection) -> tuple[Shelf, dict[str, str]]:
        shelf = live_offers(connection)
        snapshots = {offer.snapshot for offer in shelf.offers}
        return shelf, {snapshot: rivals_version(connection, {snapshot}) for snapshot in snapshots}

    shelf, versions = database.read_now(read)
    limit = limit_of(AUDIT_SECONDS, time.monotonic, lambda stage, done, of: progress(f"{stage}: {done} of {of} goods"))
    judged = check_catalogue(shelf.offers, level=3, limit=limit, packs=shelf.packs)
    rulings = rulings_of(shelf.offers, judged, shelf.packs)
    of_bundles = {
        pack.bundle: ruling_of_bundle(pack, shelf.offers, shelf.packs, judged) for pack in shelf.packs if pack.bundle
    }
    snapshot_of = {offer.chain: offer.snapshot for offer in shelf.offers}

    def keep(connection: Connection) -> list[str]:
        now = {snapshot: rivals_version(connection, {snapshot}) for snapshot in versions}
        changed = []
        for offer in shelf.offers:
            if offer.chain not in rulings:
                continue
            if now[offer.snapshot] == versions[offer.snapshot]:
                store_ruling(connection, offer.chain, rulings[offer.chain], at)
            else:
                changed.append(offer.title)
        for pack in shelf.packs:
            if pack.bundle:
                spans = {snapshot_of[chain] for chain, _ in pack.parts}
                if all(now[snapshot] == versions[snapshot] for snapshot in spans):
                    store_bundle_ruling(connection, pack.bundle, of_bundles[pack.bundle], at)
                else:
                    changed.append(pack.title)
        return changed

    changed = database.submit(keep).result()
    worst = {ruling.verdict for ruling in (*rulings.values(), *of_bundles.values())}
    verdict = next((name for name in ("arbitrage", "uncertified") if name in worst), "safe")
    return {
        "verdict": verdict,
        "findings": [_finding(each) for each in judged],
        "changed_meanwhile": sorted(changed),
    }


async def nightly(jobs: Jobs, clock: Clock) -> None:
    """Start an audit in the first hour after two at night, UTC, as a job of the market's: by one process of all."""
    while True:
        await asyncio.sleep(_LOOK_SECONDS)
        now = clock()
        if now.hour == _NIGHT_HOUR:
            with suppress(AppError):  # a store that is away is asked again
                await jobs.start_for(partial(_payer, now=now), AUDIT)


def _payer(connection: Connection, now: datetime) -> str | None:
    return market_account(connection, "EUR", time_text(now)) if audit_due(connection, now) else None


def audit_due(connection: Connection, now: datetime) -> bool:
    """Return whether no audit began within the last twenty hours."""
    since = time_text(later(now, -_RECENT_SECONDS))
    wanted = select(jobs_table.c.id).where(jobs_table.c.kind == AUDIT, jobs_table.c.created_at > since).limit(1)
    return connection.execute(wanted).one_or_none() is None


def _finding(judged: Judged) -> dict[str, Any]:
    finding = judged.finding
    return {
        "good": finding.name,
        "verdict": finding.verdict.value,
        "reason": judged.reason,
        "price_minor": finding.price,
        "stage": finding.stage,
        "bundle": list(finding.bundle),
        "cost_minor": finding.cost,
    }
