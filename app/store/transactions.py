"""One transaction of the store: recorded just before its commit, and run again where another process was faster."""

from collections.abc import Callable
from typing import TypeVar

from sqlalchemy import Connection, Engine
from sqlalchemy.exc import DataError, DBAPIError, IntegrityError, SQLAlchemyError

from app.errors import InvalidRequestError, StoreUnavailableError
from app.store.recording import Recorder
from app.store.redo import RedoRecord

__all__ = ["T", "Work", "transact", "unstorable"]

T = TypeVar("T")
Work = Callable[[Connection], T]
_ATTEMPTS = 5
_LOST_RACES = {"40001", "40P01", "23505"}  # serialization failure, deadlock, unique violation


def transact(engine: Engine, recorder: Recorder | None, work: Work[T]) -> tuple[T, RedoRecord | None]:
    """Run work in a transaction, again from the start while others win races against it, a few times at most.

    Returns:    what the work returned, and the record that must be durable before anybody is told.
    Raises:     StoreUnavailableError: no durable commit. InvalidRequestError: values that the store cannot hold.
    """
    for attempt in range(1, _ATTEMPTS + 1):
        try:
            return _attempt(engine, recorder, work)
        except DBAPIError as error:
            lost = getattr(error.orig, "sqlstate", None) in _LOST_RACES
            if lost and attempt < _ATTEMPTS:
                continue
            if isinstance(error, IntegrityError):
                raise
            if isinstance(error, DataError):
                raise unstorable() from None
            raise StoreUnavailableError("store: expected a durable commit, got none") from error
        except SQLAlchemyError as error:
            raise StoreUnavailableError("store: expected a durable commit, got none") from error
    raise AssertionError("unreachable: the last attempt returns or raises")


def _attempt(engine: Engine, recorder: Recorder | None, work: Work[T]) -> tuple[T, RedoRecord | None]:
    if recorder is None:
        with engine.begin() as connection:
            return work(connection), None
    record: RedoRecord | None = None
    with engine.connect() as connection:
        try:
            with connection.begin():
                try:
                    position = recorder.begin(connection)
                    result = work(connection)
                    record = recorder.finish(connection, position)
                finally:
                    recorder.drop(connection)
        except DBAPIError as error:  # after its record is written, only the commit itself can fail
            if record is not None and not error.connection_invalidated:
                recorder.refused(record)
            raise
        except BaseException:
            if record is not None:
                connection.invalidate()  # whether it committed is unknown: the next writer looks
            raise
    return result, record


def unstorable() -> InvalidRequestError:
    """Return the refusal of values that the store cannot hold."""
    return InvalidRequestError("request: expected values that the store can hold, got others")
