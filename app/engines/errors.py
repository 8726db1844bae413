"""What an engine may say when it fails: a code, never a value, a row, a count or a path."""

from typing import ClassVar

from app.errors import AppError, InvalidRequestError

__all__ = ["EngineError", "IngestError"]


class EngineError(AppError):
    """The engine failed. One opaque answer whatever the cause: a failure that depends on data is itself a leak."""

    status: ClassVar[int] = 503
    kind: ClassVar[str] = "engine"
    title: ClassVar[str] = "The data engine could not answer"

    def __init__(self) -> None:
        super().__init__("engine: expected an answer, got none")


class IngestError(InvalidRequestError):
    """An owner's file does not hold what its schema declares; names a column at most."""

    kind, title = "ingest", "The file does not match the declared schema"
