"""The ASGI application of one worker process."""

import asyncio
import gc
import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from litestar import Litestar
from litestar.datastructures import State
from litestar.di import Provide
from litestar.openapi import OpenAPIConfig
from litestar.router import Router

from app import __version__
from app.auth.guard import authorise
from app.cache.issued import Ready
from app.catalog.auditing import nightly
from app.clock import Clock, utc_now
from app.embedded import die_with_parent
from app.jobs.schedule import keep_auditing, keep_sweeping
from app.market import Market
from app.pages import storefront
from app.routes import (
    accounts,
    analysts,
    answers,
    audits,
    browse,
    bundles,
    catalog,
    commerce,
    exports,
    health,
    holdings,
    jobs,
    ledgers,
    locations,
    log,
    operators,
    owners,
    panels,
    prices,
    thresholds,
    trade,
)
from app.routes.bodies import StrictRequest
from app.routes.document import DocumentPlugin
from app.routes.envelope import Asked, envelope
from app.routes.problems import BODY_LIMIT, check_body, problems_plugin
from app.settings import Settings
from app.telemetry import Sink, Telemetry, access_sink, configure_logging

__all__ = ["build_app", "create_app"]

HANDLERS = [
    accounts.create,
    accounts.deposit,
    accounts.whoami,
    accounts.statement,
    operators.accounts,
    operators.account,
    operators.keys,
    operators.issue,
    operators.revoke,
    operators.suspend,
    operators.ceiling,
    operators.lift,
    operators.metrics,
    catalog.register,
    catalog.dataset,
    catalog.owned,
    catalog.published,
    catalog.publish,
    catalog.product,
    catalog.withdraw,
    browse.products,
    browse.dictionary,
    browse.rehearsal,
    browse.rehearsed_reading,
    bundles.compose_bundle,
    bundles.listed,
    bundles.bundle,
    bundles.change_price,
    bundles.move,
    bundles.verdict,
    bundles.quote,
    bundles.order,
    thresholds.quote,
    thresholds.place,
    thresholds.order,
    trade.quote,
    trade.place,
    trade.order,
    trade.reading,
    answers.answer,
    holdings.orders,
    holdings.entitlements,
    ledgers.rules,
    owners.snapshot,
    owners.refresh,
    owners.change_state,
    owners.change_prices,
    locations.open_location,
    locations.locations,
    locations.location,
    locations.change_location_state,
    locations.ledger,
    locations.quote,
    locations.order,
    locations.answer,
    locations.replay,
    panels.open_panel,
    panels.panels,
    panels.panel,
    panels.quote,
    panels.deliver,
    panels.close,
    panels.add_tier,
    panels.change_panel_state,
    panels.spending,
    panels.order,
    panels.reading,
    panels.reports,
    panels.replay,
    analysts.ask,
    analysts.save,
    analysts.dashboards,
    analysts.dashboard,
    analysts.discard,
    commerce.change_contract,
    commerce.earnings,
    commerce.pay,
    commerce.credit,
    commerce.invoice,
    prices.simulate_prices,
    prices.verdict,
    prices.caps,
    prices.subscription,
    prices.audit_prices,
    jobs.jobs,
    jobs.job,
    exports.ask,
    exports.kept,
    exports.fetch,
    exports.discard,
    log.public_keys,
    log.head,
    log.leaves,
    log.inclusion,
    log.consistency,
    log.export,
    audits.start,
    audits.reports,
    audits.report,
    audits.report_as_page,
    audits.frozen_chains,
    audits.thaw_chain,
    audits.stopped_panels,
    audits.thaw_stopped,
    audits.proof,
    health.live,
    health.ready,
    storefront.storefront,
    storefront.stylesheet,
]


def create_app() -> Litestar:
    """Return the application that the environment describes: what a server's workers load."""
    configure_logging()
    die_with_parent()  # a worker whose server was killed must not serve on
    return build_app(Settings.from_environment(), access=access_sink(os.environ.get("TIERMARKET_ACCESS_LOG", "")))


def build_app(settings: Settings, *, clock: Clock = utc_now, access: Sink | None = None) -> Litestar:
    """Return the application over a market with these settings; access lines go to `access`."""
    telemetry = Telemetry(access)
    opened: Market | None = None

    @asynccontextmanager
    async def lifespan(app: Litestar) -> AsyncIterator[None]:
        nonlocal opened
        opened = market = Market(settings, clock=clock, on_query=telemetry.count_query, alert=telemetry.found)
        app.state.market, app.state.telemetry = market, telemetry
        market.jobs.watch()
        gc.collect()
        gc.freeze()  # what lives as long as the process is not scanned again: it was the tail of the latency
        audits = asyncio.create_task(nightly(market.jobs, clock))
        by_clock = [audits, *(asyncio.create_task(each(market)) for each in (keep_auditing, keep_sweeping))]
        try:
            yield
        finally:
            for task in by_clock:
                task.cancel()
            await asyncio.gather(*by_clock, return_exceptions=True)
            await market.close()
            telemetry.flush()

    app = Litestar(
        HANDLERS,
        lifespan=[lifespan],
        dependencies={"market": Provide(_market, sync_to_thread=False)},
        guards=[authorise],
        before_request=check_body,
        request_class=StrictRequest,
        request_max_body_size=BODY_LIMIT,
        plugins=[problems_plugin()],
        openapi_config=OpenAPIConfig(
            title="tiermarket",
            version=__version__,
            render_plugins=[DocumentPlugin()],
            openapi_router=Router(path="/schema", route_handlers=[], opt={"public": True}, include_in_schema=False),
        ),
        logging_config=None,
    )

    def shortcut(scope: Any, asked: Asked) -> tuple[Ready, int] | None:
        return None if opened is None else answers.issued(opened, scope, asked)

    app.asgi_handler = envelope(app.asgi_handler, telemetry, shortcut)
    return app


def _market(state: State) -> Market:
    market: Market = state.market
    return market
