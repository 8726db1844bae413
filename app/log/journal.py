"""The only writer of the release log: leaves in, one signed head out, inside the caller's transaction."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import msgspec
from sqlalchemy import Connection, Row, select

from app.errors import IntegrityError
from app.keyring import Keyring
from app.log.heads import TreeHead, sign
from app.log.leaves import Leaf, encode
from app.log.merkle import Frontier, leaf_hash
from app.store.schema import heads, leaves

__all__ = [
    "Appended",
    "append",
    "current_head",
    "frontier_of",
    "head_at",
    "heads_after",
    "leaf_bodies",
    "leaf_hashes",
    "store_head",
    "store_leaves",
]


class _Kind(msgspec.Struct, frozen=True):
    kind: str


_KIND = msgspec.json.Decoder(_Kind)
_BATCH = 1_000
_NEWEST = select(heads).order_by(heads.c.size.desc()).limit(1)


@dataclass(frozen=True, slots=True)
class Appended:
    """Where a leaf stands in the log, and its hash."""

    index: int
    hash: bytes


def append(
    connection: Connection,
    keyring: Keyring,
    at: str,
    makers: Sequence[Callable[[int], Leaf]],
    *,
    signing: int | None = None,
) -> tuple[Appended, ...]:
    """Append one leaf a maker (given its index) and sign the new head; return where each stands, in order.

    The head row's primary key is the log's size: two writers that read the same head cannot both commit. The times in a
    log never run backwards: a leaf whose request began before the newest head was signed takes that head's time.

    Args:       signing: the number of the key that signs, where it is not the newest (which is only now announced).
    """
    newest = connection.execute(_NEWEST).one_or_none()
    at = at if newest is None else max(at, newest.at)
    frontier = _frontier(newest)
    bodies, appended = [], []
    for index, make in enumerate(makers, start=frontier.size):
        body = encode(msgspec.structs.replace(make(index), at=at))
        bodies.append(body)
        appended.append(Appended(index, leaf_hash(body)))
    frontier = store_leaves(connection, frontier, bodies)
    number = keyring.signing_number if signing is None else signing
    head = sign(frontier.size, frontier.root(), at, number, keyring.signer(number))
    store_head(connection, frontier, head)
    return tuple(appended)


def store_leaves(connection: Connection, frontier: Frontier, bodies: Sequence[bytes]) -> Frontier:
    """Store leaves after those of a frontier and return the frontier after them; a head is due next."""
    rows = []
    for body in bodies:
        digest, kind = leaf_hash(body), _KIND.decode(body).kind
        rows.append({"log_index": frontier.size, "kind": kind, "body": body, "leaf_hash": digest})
        frontier = frontier.append(digest)
    connection.execute(leaves.insert(), rows)
    return frontier


def store_head(connection: Connection, frontier: Frontier, head: TreeHead) -> None:
    """Store a signed head with the frontier it was signed over."""
    connection.execute(
        heads.insert(),
        {
            "size": head.size,
            "root": head.root,
            "frontier": frontier.encode(),
            "at": head.at,
            "signing_key": head.key,
            "signature": head.signature,
        },
    )


def current_head(connection: Connection) -> TreeHead | None:
    """Return the newest signed head, or None before the first leaf."""
    row = connection.execute(_NEWEST).one_or_none()
    return None if row is None else _head(row)


def head_at(connection: Connection, size: int) -> TreeHead:
    """Return the head that was signed at a size; raises IntegrityError where none was."""
    row = connection.execute(select(heads).where(heads.c.size == size)).one_or_none()
    if row is None:
        raise IntegrityError(f"release log: expected a head of {size} leaves, got none")
    return _head(row)


def heads_after(connection: Connection, size: int) -> list[TreeHead]:
    """Return the heads of all sizes above one, in order."""
    wanted = select(heads).where(heads.c.size > size).order_by(heads.c.size)
    return [_head(row) for row in connection.execute(wanted)]


def _head(row: Row[Any]) -> TreeHead:
    return TreeHead(size=row.size, root=row.root, at=row.at, key=row.signing_key, signature=row.signature)


def leaf_bodies(connection: Connection, start: int, count: int) -> Iterator[tuple[int, bytes, bytes]]:
    """Yield (index, body, hash) of up to `count` leaves from `start` on."""
    wanted = select(leaves).where(leaves.c.log_index >= start).order_by(leaves.c.log_index).limit(count)
    for row in connection.execute(wanted.execution_options(yield_per=_BATCH)):
        yield row.log_index, row.body, row.leaf_hash


def leaf_hashes(connection: Connection, size: int) -> list[bytes]:
    """Return the hashes of the first `size` leaves."""
    wanted = select(leaves.c.leaf_hash).where(leaves.c.log_index < size).order_by(leaves.c.log_index)
    return list(connection.execute(wanted).scalars())


def frontier_of(connection: Connection) -> Frontier:
    """Return what appending to the log needs; raises IntegrityError where it does not fit the log's size."""
    return _frontier(connection.execute(_NEWEST).one_or_none())


def _frontier(row: Row[Any] | None) -> Frontier:
    if row is None:
        return Frontier()
    try:
        return Frontier.decode(row.size, row.frontier)
    except ValueError as error:
        raise IntegrityError("release log: expected a frontier that fits its size, got another") from error
