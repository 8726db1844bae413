"""Orders that a buyer does not wait for: their chain is drawn by a job, and the order's own key makes it one order."""

from collections.abc import Callable, Mapping
from typing import Any, TypeAlias

import msgspec

from app.auth.accounts import Caller, active_caller
from app.engine.sales import PlacedOrder
from app.jobs.runner import Task
from app.store.database import Database
from tiers.canonical import canonical_bytes

__all__ = ["LOCATION_ORDER", "ORDER", "OrderJob", "Place", "order_job"]

ORDER, LOCATION_ORDER = "order", "location-order"


class OrderJob(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What was ordered, as the order's own request said it."""

    quote: str
    key: str
    licence: str | None

    def text(self) -> str:
        """Return the one text of this request: equal requests of an account are one job while it runs."""
        return canonical_bytes(msgspec.to_builtins(self)).decode()


Place: TypeAlias = Callable[[Caller, OrderJob], PlacedOrder]


def order_job(place: Place) -> Callable[[Database, Task], Mapping[str, Any]]:
    """Return the work of such a job: place the order as its account may order now, and say what was bought.

    The result holds no answer: that is read with the right to it. A second run finds the order under its key.
    """

    def work(database: Database, task: Task) -> Mapping[str, Any]:
        caller = database.read_now(lambda connection: active_caller(connection, task.account))
        task("drawing")
        placed = place(caller, msgspec.json.decode(task.request, type=OrderJob))
        order = msgspec.json.decode(placed.receipt)["order"]
        bundle = {} if placed.sale is None else {"bundle_order": placed.sale}
        return {"order": order, "product": placed.product, "chain": placed.chain.id, "law": placed.tier.law, **bundle}

    return work
