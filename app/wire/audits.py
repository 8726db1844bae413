"""Bodies about audits: a thaw."""

from app.wire.base import Line, RequestBody

__all__ = ["ThawRequest"]


class ThawRequest(RequestBody, frozen=True, kw_only=True):
    """Why a frozen chain may be sold again: it goes into the log."""

    reason: Line
