"""Write the auditor's export: the log, the openings of issued ranks, the keys that tiers may be replayed with."""

from collections.abc import Iterator

import msgspec
from sqlalchemy import Connection, select

from app.audit.export import FORMAT, Header, HeadRecord, KeyRecord, LeafRecord, OpeningRecord, encode_line
from app.audit.reading import read_history
from app.engine.state import ChainState, chain_of_product
from app.errors import IntegrityError
from app.log.journal import current_head, head_at, leaf_bodies
from app.log.leaves import EpochLeaf, decode
from app.market import Market
from app.store.schema import products
from tiers.audit.records import DrawRecord
from tiers.audit.replay import openable, replayable

__all__ = ["export_lines"]


def export_lines(connection: Connection, market: Market) -> Iterator[bytes]:
    """Yield the lines of an export of the whole log, from one consistent read.

    What it discloses is decided from the log itself by the same rules that the verifier applies.
    """
    head = current_head(connection)
    if head is None:
        raise IntegrityError("log: expected at least one leaf, got none")
    yield encode_line(Header(format=FORMAT, head=head, public_key=market.keyring.public_hex()))
    leaves = []
    for index, body, digest in leaf_bodies(connection, 0, head.size):
        leaves.append(decode(body))
        yield encode_line(LeafRecord(index=index, hash=digest.hex(), leaf=msgspec.json.decode(body)))
        if isinstance(leaves[-1], EpochLeaf) and leaves[-1].purpose == "signing" and index > 0:
            yield encode_line(HeadRecord(head=head_at(connection, index + 1)))
    history, _ = read_history(leaves)
    highest = history.highest_issued()
    for draw in history.draws:
        top = highest.get(draw.spec.chain)
        if openable(draw.spec.law, top):
            yield _opening(connection, market, draw)
    for draw in history.draws:
        if replayable(draw, highest.get(draw.spec.chain)) is None:
            chain = _chain(connection, market, draw.spec.chain)
            key = market.engine.replay_key(chain, draw.spec)
            yield encode_line(KeyRecord(chain=draw.spec.chain, law=draw.spec.law.identity, key=key.hex()))


def _opening(connection: Connection, market: Market, draw: DrawRecord) -> bytes:
    chain = _chain(connection, market, draw.spec.chain)
    tier = chain.tier(draw.spec.law.identity)
    if tier.sealed is None or tier.commitment is None:
        raise IntegrityError("store: expected the answer that the log says was drawn, got none")
    unsealed = market.engine.unseal(chain, tier, tier.sealed, tier.commitment)
    return encode_line(
        OpeningRecord(
            chain=chain.id,
            law=tier.law,
            opening=unsealed.opening.hex(),
            answer=[str(value) for value in unsealed.answer],
        )
    )


def _chain(connection: Connection, market: Market, chain: str) -> ChainState:
    product = connection.execute(select(products.c.id).where(products.c.chain_id == chain).limit(1)).scalar_one()
    return chain_of_product(connection, market.settings, product)[0]
