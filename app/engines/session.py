"""What open snapshots of every engine have in common: one connection, closed once, also by `with`."""

from types import TracebackType
from typing import Any, Self

__all__ = ["Session"]


class Session:
    """An open snapshot: its engine sets the connection.

    Example:
        >>> class Kept(Session):
        ...     def __init__(self, connection): self._connection = connection
        >>> import io
        >>> with Kept(io.StringIO("rows")) as kept:
        ...     pass
        >>> kept._connection.closed
        True
    """

    _connection: Any

    def close(self) -> None:
        """Close the connection."""
        self._connection.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()
