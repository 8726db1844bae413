"""The release log in public, and the auditor's export."""

import asyncio
import tempfile
from collections.abc import AsyncIterator, Iterable
from typing import IO, Any

import msgspec
from litestar import Request, Response, get
from litestar.di import NamedDependency
from litestar.response import Stream
from sqlalchemy import Connection

from app.asks import ConsistencyQuery, InclusionQuery, LeavesQuery
from app.audit.exporting import export_lines
from app.auth.accounts import Role
from app.errors import InvalidRequestError, NotFoundError
from app.log.heads import TreeHead
from app.log.journal import current_head, leaf_bodies, leaf_hashes
from app.log.merkle import consistency_proof, inclusion_proof
from app.market import Market
from app.routes.accounts import EVERYBODY
from app.routes.paging import page, read_query

__all__ = ["consistency", "export", "head", "inclusion", "leaves", "public_keys"]

_CHUNK = 2**18
_IN_MEMORY = 2**24


@get("/v1/keys", opt={"public": True})
async def public_keys(market: NamedDependency[Market]) -> dict[str, Any]:
    """Return the market's public signing keys by number: compare one with what you got elsewhere."""
    return {"signing": {str(number): key for number, key in market.keyring.public_keys().items()}}


@get("/v1/log/head", opt={"roles": EVERYBODY, "refuses": (NotFoundError,)})
async def head(market: NamedDependency[Market]) -> TreeHead:
    """Return the newest signed tree head."""
    return await market.database.read(_head)


@get("/v1/log/leaves", opt={"roles": (Role.AUDITOR, Role.OPERATOR), "query": LeavesQuery})
async def leaves(request: Request[Any, Any, Any], market: NamedDependency[Market]) -> Response[list[dict[str, Any]]]:
    """Return leaves in order, in pages: no leaf holds an answer, but they hold every charge and purchase.

    `start` is the index of the first one wanted.
    """
    wanted = read_query(request, LeavesQuery)

    def read(connection: Connection) -> list[dict[str, Any]]:
        return [
            {"index": index, "hash": digest.hex(), "leaf": msgspec.json.decode(body)}
            for index, body, digest in leaf_bodies(connection, wanted.start, wanted.count + 1)
        ]

    found = await market.database.read(read)
    return page(request, found, wanted.count, lambda leaf: int(leaf["index"]) + 1, name="start")


@get("/v1/log/proofs/inclusion", opt={"roles": EVERYBODY, "query": InclusionQuery, "refuses": (NotFoundError,)})
async def inclusion(request: Request[Any, Any, Any], market: NamedDependency[Market]) -> dict[str, Any]:
    """Return the RFC 6962 audit path of a leaf in the tree of a given size."""
    wanted = read_query(request, InclusionQuery)
    index, size = wanted.index, wanted.size

    def read(connection: Connection) -> dict[str, Any]:
        hashes = leaf_hashes(connection, _size(connection, size))
        if not 0 <= index < size:
            raise InvalidRequestError("index: expected a leaf of that tree, got another")
        return {"index": index, "size": size, "proof": [step.hex() for step in inclusion_proof(hashes, index)]}

    return await market.database.read(read)


@get("/v1/log/proofs/consistency", opt={"roles": EVERYBODY, "query": ConsistencyQuery, "refuses": (NotFoundError,)})
async def consistency(request: Request[Any, Any, Any], market: NamedDependency[Market]) -> dict[str, Any]:
    """Return the RFC 6962 proof that the log of `earlier` leaves is a prefix of the log of `size` leaves."""
    wanted = read_query(request, ConsistencyQuery)
    earlier, size = wanted.earlier, wanted.size

    def read(connection: Connection) -> dict[str, Any]:
        hashes = leaf_hashes(connection, _size(connection, size))
        if not 1 <= earlier <= size:
            raise InvalidRequestError("earlier: expected 1 ≤ earlier ≤ size, got another")
        return {"earlier": earlier, "size": size, "proof": [s.hex() for s in consistency_proof(hashes, earlier)]}

    return await market.database.read(read)


@get("/v1/audit/export", opt={"roles": (Role.AUDITOR,)})
async def export(market: NamedDependency[Market]) -> Stream:
    """Return everything an auditor may have, one JSON record a line, verifiable offline."""
    spooled = await market.database.read(lambda connection: _spooled(export_lines(connection, market)))

    async def body() -> AsyncIterator[bytes]:
        with spooled:
            while chunk := await asyncio.to_thread(spooled.read, _CHUNK):
                yield chunk

    return Stream(body(), media_type="application/x-ndjson")


def _spooled(lines: Iterable[bytes]) -> IO[bytes]:
    """Write lines to a file that has no name: what is sent stems from one read, and never stands in memory whole."""
    spooled: IO[bytes] = tempfile.SpooledTemporaryFile(max_size=_IN_MEMORY)  # noqa: SIM115 - the stream closes it
    for line in lines:
        spooled.write(line)
    spooled.seek(0)
    return spooled


def _head(connection: Connection) -> TreeHead:
    newest = current_head(connection)
    if newest is None:
        raise NotFoundError("log: expected at least one leaf, got none")
    return newest


def _size(connection: Connection, size: int) -> int:
    if not 1 <= size <= _head(connection).size:
        raise InvalidRequestError("size: expected a size that the log has had, got another")
    return size
