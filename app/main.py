"""The ASGI application of one worker process."""

import asyncio
import gc
import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from litestar import Litestar
from litestar.datastructures import State
from litestar.di import Provide
from litestar.openapi import OpenAPIConfig
from litestar.router import Router

from app import __version__
from app.auth.guard import authorise
from app.clock import Clock, utc_now
from app.embedded import die_with_parent
from app.jobs.schedule import keep_auditing
from app.market import Market
from app.pages import storefront
from app.routes import (
    accounts,
    analysts,
    answers,
    audits,
    browse,
    catalog,
    commerce,
    health,
    holdings,
    log,
    operators,
    owners,
    trade,
)
from app.routes.document import DocumentPlugin
from app.routes.envelope import envelope
from app.routes.problems import BODY_LIMIT, check_body, problems_plugin
from app.settings import Settings
from app.telemetry import Sink, Telemetry, access_sink, configure_logging

__all__ = ["build_app", "create_app"]

HANDLERS = [
    accounts.create,
    accounts.deposit,
    accounts.whoami,
    operators.accounts,
    operators.account,
    operators.keys,
    operators.issue,
    operators.revoke,
    operators.suspend,
    operators.lift,
    operators.metrics,
    catalog.register,
    catalog.dataset,
    catalog.publish,
    catalog.product,
    catalog.withdraw,
    browse.products,
    browse.dictionary,
    browse.rehearsal,
    trade.quote,
    trade.place,
    trade.order,
    answers.answer,
    holdings.orders,
    holdings.entitlements,
    owners.snapshot,
    owners.refresh,
    owners.change_state,
    owners.change_prices,
    analysts.ask,
    analysts.save,
    analysts.dashboards,
    analysts.dashboard,
    commerce.change_contract,
    commerce.earnings,
    commerce.pay,
    commerce.credit,
    commerce.invoice,
    commerce.simulate_prices,
    commerce.audit_prices,
    commerce.job,
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

    @asynccontextmanager
    async def lifespan(app: Litestar) -> AsyncIterator[None]:
        market = Market(settings, clock=clock, alert=telemetry.found)
        audits_by_clock = asyncio.create_task(keep_auditing(market))
        app.state.market, app.state.telemetry = market, telemetry
        gc.collect()
        gc.freeze()  # what lives as long as the process is not scanned again: it was the tail of the latency
        try:
            yield
        finally:
            audits_by_clock.cancel()
            await market.close()
            telemetry.flush()

    app = Litestar(
        HANDLERS,
        lifespan=[lifespan],
        dependencies={"market": Provide(_market, sync_to_thread=False)},
        guards=[authorise],
        before_request=check_body,
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
    app.asgi_handler = envelope(app.asgi_handler, telemetry)
    return app


def _market(state: State) -> Market:
    market: Market = state.market
    return market
