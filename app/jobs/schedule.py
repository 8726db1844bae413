"""What is done by the clock: audits, which the worker that looks first starts, and sweeps of lapsed exports."""

import asyncio
from datetime import timedelta

import structlog
from sqlalchemy import Connection, func, select

from app.audit.reports import AUDIT
from app.auth.accounts import Role
from app.clock import time_text
from app.errors import AppError
from app.exports.work import sweep_exports
from app.market import Market
from app.store.catalog_schema import chains
from app.store.location_schema import location_panels
from app.store.panel_schema import panels
from app.store.schema import accounts, jobs

__all__ = ["audit_if_due", "keep_auditing", "keep_sweeping"]

_LOOK_SECONDS = 60.0
_log = structlog.get_logger("audit")


async def keep_auditing(market: Market) -> None:
    """Start an audit whenever one is due, until cancelled."""
    while True:
        await asyncio.sleep(_LOOK_SECONDS)
        try:
            await audit_if_due(market)
        except AppError as error:
            _log.warning("no audit could be started", error=type(error).__name__)


async def keep_sweeping(market: Market) -> None:
    """Sweep lapsed exports, until cancelled."""
    while True:
        await asyncio.sleep(_LOOK_SECONDS)
        try:
            await sweep_exports(market)
        except AppError as error:
            _log.warning("no sweep of exports", error=type(error).__name__)


async def audit_if_due(market: Market) -> str | None:
    """Start an audit where the last one began longer ago than the settings want; return its job.

    A market in which nothing was published yet has nothing to audit: none is due until there is.
    """
    hours = market.settings.audit_hours
    if hours == 0:
        return None
    since = time_text(market.clock() - timedelta(hours=hours))

    def due(connection: Connection) -> str | None:
        if not any(
            connection.execute(select(each.c.id).limit(1)).first() for each in (chains, panels, location_panels)
        ):
            return None
        newest = connection.execute(select(func.max(jobs.c.created_at)).where(jobs.c.kind == AUDIT)).scalar_one()
        if newest is not None and newest > since:
            return None
        operator = select(accounts.c.id).where(accounts.c.role == Role.OPERATOR.value).order_by(accounts.c.created_at)
        return connection.execute(operator.limit(1)).scalar_one_or_none()

    return await market.jobs.start_for(due, AUDIT)
