"""Pages of rows in order of time: a cursor is the id of the last row seen."""

from collections.abc import Sequence
from typing import Any

from sqlalchemy import ColumnElement, Connection, Row, Select, select, tuple_

from app.errors import InvalidRequestError

__all__ = ["rows_after"]


def rows_after(
    connection: Connection,
    wanted: Select[Any],
    place: tuple[ColumnElement[str], ColumnElement[str]],
    *,
    of: ColumnElement[bool],
    after: str | None,
    count: int,
    newest: bool = False,
) -> Sequence[Row[Any]]:
    """Return up to `count` rows of `wanted`, oldest or `newest` first, from the one after `after`.

    Args:       place: when a row was made, and its id. of: what any row of the list fulfils, and so what a cursor may
                name; `wanted` may ask for more, which a row may cease to fulfil while somebody pages on.
    Raises:     InvalidRequestError: `after` is no row of the list.
    """
    wanted = wanted.where(of).order_by(*((each.desc() for each in place) if newest else place)).limit(count)
    if after is not None:
        last = connection.execute(select(*place).where(of, place[1] == after)).one_or_none()
        if last is None:
            raise InvalidRequestError("after: expected the last id seen of this list, got another")
        here = tuple_(*place)
        wanted = wanted.where(here < tuple_(*last) if newest else here > tuple_(*last))
    return connection.execute(wanted).all()
