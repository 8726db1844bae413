"""Orders of answers about places that a buyer does not wait for: a job asks people, then places the order."""

from collections.abc import Mapping
from typing import Any

import msgspec

from app.auth.accounts import Caller, active_caller
from app.jobs.orders import LOCATION_ORDER, OrderJob
from app.jobs.runner import Task
from app.locations.acts import buy
from app.locations.sales import LocationPlaced, UnansweredError, order
from app.market import Market

__all__ = ["LocationOrderJob", "buy_or_job", "location_order_job"]


class LocationOrderJob(OrderJob, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What was ordered of which panel."""

    panel: str


async def buy_or_job(
    market: Market, caller: Caller, panel: str, quote: str, key: str, licence: str | None
) -> LocationPlaced | str:
    """Sell an answer that there is, or refuse it; else return the job that asks people and places the order.

    Raises:     as `app.locations.sales.order`.
    """
    wanted, now = LocationOrderJob(panel=panel, quote=quote, key=key, licence=licence), market.clock()
    fee = market.settings.fee_bps
    try:
        return await market.database.write(
            lambda held: order(held, market.keyring, caller, panel, quote, key, now, fee_bps=fee, licence=licence)
        )
    except UnansweredError:
        return await market.jobs.start(caller.id, LOCATION_ORDER, wanted.text())


def location_order_job(market: Market, task: Task) -> Mapping[str, Any]:
    """Place an order as its account may order now, and say what was bought; the answer is read with the right to it.

    A second run finds the rounds that are charged, and the order under its key.
    """
    caller = market.database.read_now(lambda connection: active_caller(connection, task.account))
    wanted = msgspec.json.decode(task.request, type=LocationOrderJob)
    task("asking people")
    placed = buy(market, caller, wanted.panel, wanted.quote, wanted.key, wanted.licence)
    return {"order": msgspec.json.decode(placed.receipt)["order"], "panel": placed.panel, "query": placed.query}
