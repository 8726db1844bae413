"""Writes that need the catalogue checked: the check runs beside the writer, its verdict is compared inside."""

import asyncio
import time
from collections.abc import Callable
from typing import TypeVar

from sqlalchemy import Connection

from app.catalog.arbitrage import CatalogueChangedError, Checked, rivals_version
from app.catalog.shelf import Proposal, judge_proposal, rulings_around
from app.errors import ConflictError
from app.store.database import Database
from pricing.limit import limit_of

__all__ = ["ARBITRAGE_SECONDS", "write_checked"]

ARBITRAGE_SECONDS = 5.0
_ATTEMPTS = 5
T = TypeVar("T")


async def write_checked(
    database: Database,
    at: str,
    find: Callable[[Connection], Proposal | None],
    work: Callable[[Connection, Checked | None], T],
) -> T:
    """Check a proposal against what is on sale, then write; check again where others have changed that meanwhile.

    Args:       find: what will be on sale; None where nothing new is.
                work: the write; it hands the verdict to `check_offer`.
    Raises:     ConflictError: the catalogue changed under every attempt.
    """

    def read(connection: Connection) -> tuple[Proposal, str] | None:
        proposal = find(connection)
        return None if proposal is None else (proposal, rivals_version(connection, proposal.snapshot))

    for _ in range(_ATTEMPTS):
        found = await database.read(read)
        checked = None
        if found is not None:
            proposal, version = found
            limit = limit_of(ARBITRAGE_SECONDS, time.monotonic)
            ruling = await asyncio.to_thread(judge_proposal, proposal, limit)
            refused = ruling.verdict == "arbitrage"
            around = {} if refused else await asyncio.to_thread(rulings_around, proposal, limit)
            checked = Checked(proposal, version, ruling, at, around)

        def write(connection: Connection, checked: Checked | None = checked) -> T:
            return work(connection, checked)

        try:
            return await database.write(write)
        except CatalogueChangedError:
            continue
    raise ConflictError(
        f"catalogue: expected one that stands still while it is checked, got {_ATTEMPTS} changes (try again)",
        reason="catalogue-changed",
    )
