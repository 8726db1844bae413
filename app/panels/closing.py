"""How a closed round enters the store: signed, logged, its tiers' counts sealed, and the next round open."""

import msgspec
from sqlalchemy import Connection

from app.errors import ConflictError
from app.keyring import Keyring
from app.log.journal import append
from app.log.panel_leaves import RoundLeaf
from app.panels.desk import Panel, context_of, panel_of
from app.panels.opening import log_panel
from app.panels.rounds import Closed
from app.store.panel_schema import panel_rounds, panel_tiers, panels

__all__ = ["store_round"]


def store_round(connection: Connection, keyring: Keyring, panel: Panel, closed: Closed) -> None:
    """Sign, log and store a closed round, and open the next one; raises ConflictError where it is closed."""
    record = closed.record
    if panel_of(connection, panel.id).round != record.round:
        raise ConflictError("round: expected the open one, got one that is closed")
    at, number = record.at, keyring.signing_number
    signature = keyring.signer(number).sign(record.encode()).hex()
    if panel.leaf_index is None:  # opened by a version that did not log panels
        log_panel(connection, keyring, panel, at)

    def make(index: int) -> RoundLeaf:
        return RoundLeaf(index=index, at=at, record=record, key=number, signature=signature)

    (logged,) = append(connection, keyring, at, [make])
    connection.execute(
        panel_rounds.insert().values(
            panel_id=panel.id,
            number=record.round,
            reports=record.reports,
            record=msgspec.json.encode(record).decode(),
            signing_key=number,
            signature=signature,
            highest_rank=None,
            leaf_index=logged.index,
        )
    )
    rows = [
        {
            "panel_id": panel.id,
            "number": record.round,
            "rank": rank,
            "commitment": tier.commitment,
            "sealed_counts": keyring.seal(counts.astype("<i8").tobytes(), context_of(panel.id, record.round, rank)),
        }
        for rank, (tier, counts) in enumerate(zip(record.tiers, closed.counts, strict=True))
    ]
    connection.execute(panel_tiers.insert(), rows)
    connection.execute(panels.update().where(panels.c.id == panel.id).values(round=record.round + 1))
