"""The only writer of the release log: leaves in, one signed head out, inside the caller's transaction."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import msgspec
from sqlalchemy import Connection, select

from app.errors import IntegrityError
from app.keyring import Keyring
from app.log.heads import TreeHead, sign
from app.log.leaves import Leaf, encode
from app.log.merkle import Frontier, leaf_hash
from app.store.schema import heads, leaves

__all__ = ["Appended", "append", "current_head", "leaf_bodies", "leaf_hashes"]


@dataclass(frozen=True, slots=True)
class Appended:
    """Where a leaf stands in the log, and its hash."""

    index: int
    hash: bytes


def append(
    connection: Connection, keyring: Keyring, at: str, makers: Sequence[Callable[[int], Leaf]]
) -> tuple[Appended, ...]:
    """Append one leaf a maker (given its index) and sign the new head; return where each stands, in order.

    The head row's primary key is the log's size: two writers that read the same head cannot both commit. The times in a
    log never run backwards: a leaf whose request began before the newest head was signed takes that head's time.
    """
    newest = current_head(connection)
    at = at if newest is None else max(at, newest.at)
    frontier = _frontier(connection)
    rows, appended = [], []
    for make in makers:
        leaf = msgspec.structs.replace(make(frontier.size), at=at)
        body = encode(leaf)
        digest = leaf_hash(body)
        kind = str(leaf.__struct_config__.tag)
        rows.append({"log_index": frontier.size, "kind": kind, "body": body, "leaf_hash": digest})
        appended.append(Appended(frontier.size, digest))
        frontier = frontier.append(digest)
    connection.execute(leaves.insert(), rows)
    head = sign(frontier.size, frontier.root(), at, keyring.signing_number, keyring.signer())
    connection.execute(
        heads.insert().values(
            size=head.size,
            root=head.root,
            frontier=frontier.encode(),
            at=head.at,
            signing_key=head.key,
            signature=head.signature,
        )
    )
    return tuple(appended)


def current_head(connection: Connection) -> TreeHead | None:
    """Return the newest signed head, or None before the first leaf."""
    row = connection.execute(select(heads).order_by(heads.c.size.desc()).limit(1)).one_or_none()
    if row is None:
        return None
    return TreeHead(size=row.size, root=row.root, at=row.at, key=row.signing_key, signature=row.signature)


def leaf_bodies(connection: Connection, start: int, count: int) -> Iterator[tuple[int, bytes, bytes]]:
    """Yield (index, body, hash) of up to `count` leaves from `start` on."""
    wanted = select(leaves).where(leaves.c.log_index >= start).order_by(leaves.c.log_index).limit(count)
    for row in connection.execute(wanted):
        yield row.log_index, row.body, row.leaf_hash


def leaf_hashes(connection: Connection, size: int) -> list[bytes]:
    """Return the hashes of the first `size` leaves."""
    wanted = select(leaves.c.leaf_hash).where(leaves.c.log_index < size).order_by(leaves.c.log_index)
    return list(connection.execute(wanted).scalars())


def _frontier(connection: Connection) -> Frontier:
    wanted = select(heads.c.size, heads.c.frontier).order_by(heads.c.size.desc()).limit(1)
    row = connection.execute(wanted).one_or_none()
    if row is None:
        return Frontier()
    try:
        return Frontier.decode(row.size, row.frontier)
    except ValueError as error:
        raise IntegrityError("release log: expected a frontier that fits its size, got another") from error
