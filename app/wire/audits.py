"""Bodies about audits: a thaw."""

from app.wire.base import Identity, Line, RequestBody

__all__ = ["ThawRequest"]


class ThawRequest(RequestBody, frozen=True, kw_only=True):
    """Why a frozen chain, or a stopped panel or location panel, may be sold again: it goes into the log.

    `report`: the newest report that was read; with it, a thaw is refused where a newer one is kept.
    """

    reason: Line
    report: Identity | None = None
