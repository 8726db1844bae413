"""Time as an argument: one function of no arguments that returns UTC, and its one text form."""

import secrets
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import TypeAlias

__all__ = ["Clock", "later", "new_id", "time_text", "utc_now"]

Clock: TypeAlias = Callable[[], datetime]


def utc_now() -> datetime:
    """Return the time now, in UTC."""
    return datetime.now(UTC)


def time_text(moment: datetime) -> str:
    """Return the moment as text that sorts by time, to the second."""
    return moment.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def later(moment: datetime, seconds: int) -> datetime:
    """Return the moment `seconds` later."""
    return moment + timedelta(seconds=seconds)


def new_id(kind: str) -> str:
    """Return a fresh identity: unguessable, derived from nothing."""
    return f"{kind}_{secrets.token_hex(12)}"
