"""What proves an order of an answer about places to whoever bought it."""

from typing import Any

import msgspec
from sqlalchemy import Connection, select

from app.auth.accounts import Caller
from app.errors import NotFoundError
from app.keyring import Keyring
from app.locations.desk import answer_of, location_of, query_of
from app.locations.transcript import ANSWER, opening
from app.panels.proving import proved
from app.store.location_schema import location_orders

__all__ = ["location_bundle"]


def location_bundle(connection: Connection, keyring: Keyring, caller: Caller, order: str) -> dict[str, Any]:
    """Return one of the caller's orders with all that proves it, as `app.audit.location_receipts` reads it.

    Raises:     NotFoundError: no such order of the caller's.
    """
    wanted = select(location_orders).where(location_orders.c.id == order, location_orders.c.account_id == caller.id)
    row = connection.execute(wanted).one_or_none()
    if row is None:
        raise NotFoundError("order: expected one of the caller's own, got another id")
    panel, answered = location_of(connection, row.panel_id), query_of(connection, row.panel_id, row.chain_id)
    assert answered is not None, "what was sold was answered"
    key = opening(keyring.owner_secret(panel.owner, panel.epoch), panel.id, row.chain_id, ANSWER)
    return {
        "receipt": msgspec.Raw(row.receipt_json.encode()),
        **proved(connection, {"panel": panel.leaf_index, "question": answered.leaf_index, "sale": row.leaf_index}),
        "opening": key.hex(),
        "answer": answer_of(keyring, panel.id, answered),
    }
