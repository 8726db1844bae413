"""One answer for ever: the truth is read once, every tier is derived at once, and the first commit wins."""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial

import msgspec
from sqlalchemy import Connection

from app.engine.snapshots import SnapshotFiles
from app.engine.state import ChainState, Tier
from app.errors import IntegrityError
from app.keyring import Keyring
from app.log.journal import append
from app.log.leaves import DrawLeaf
from app.store.schema import draws
from tiers.canonical import canonical_bytes
from tiers.chain import ChainPlan, Draw, PlannedTier, answer_bytes, draw_chain, specs
from tiers.identity import DrawSpec, TierLaw, commitment, key_hash, opening_key, stream_key
from tiers.sampling.words import STREAM_VERSION

__all__ = ["ComputedDraw", "ReleaseEngine", "Unsealed", "answer_context"]

_OPENING_BYTES = 32


@dataclass(frozen=True, slots=True, repr=False)
class ComputedDraw:
    """A draw ready to be stored: sealed, committed, and shown to nobody."""

    spec: DrawSpec
    commitment: str
    key_hash: str
    sealed: bytes


@dataclass(frozen=True, slots=True, repr=False)
class Unsealed:
    """One tier's answer in clear, with the opening of its commitment: for the entitled only."""

    answer: tuple[int, ...]
    opening: bytes


class ReleaseEngine:
    """The only writer of chains: computes draws outside any transaction, installs them inside the sale's.

    Guarantee:  a retry, a second worker or a restored copy computes the same draws, digit for digit: the streams are
                keyed by the owner's secret and the draw's identity. Of several that race, the store keeps one.
    """

    def __init__(self, keyring: Keyring, files: SnapshotFiles) -> None:
        self._keyring, self._files = keyring, files

    def compute(self, chain: ChainState) -> tuple[ComputedDraw, ...]:
        """Run the chain's query once and draw all its tiers top-down. Slow; reveals and stores nothing.

        Raises:     IntegrityError: the snapshot is not the one that was sealed. EngineError: the query failed.
        """
        truth = self._files.truth(chain)
        secret = self._keyring.owner_secret(chain.owner, chain.epoch)
        keys: dict[DrawSpec, bytes] = {}

        def key_of(spec: DrawSpec) -> bytes:
            keys[spec] = stream_key(secret, spec)
            return keys[spec]

        drawn = draw_chain(truth, self._specs(chain), key_of)
        return tuple(self._seal(chain, draw, keys[draw.spec], secret) for draw in drawn)

    def install(
        self, connection: Connection, chain: ChainState, computed: tuple[ComputedDraw, ...], at: str
    ) -> Mapping[str, ComputedDraw]:
        """Store and log a chain's draws in the caller's transaction; refuse any that are not due in this place.

        Raises:     IntegrityError: the chain has draws already, or these are not the draws of its tiers.
        """
        if any(tier.drawn for tier in chain.tiers) or [draw.spec for draw in computed] != list(self._specs(chain)):
            raise IntegrityError("draws: expected those of an undrawn chain, top-down, got others")
        by_law = {draw.spec.law.identity: draw for draw in computed}
        makers = [partial(_leaf, draw=draw, place=place, by_law=by_law, at=at) for place, draw in enumerate(computed)]
        logged = append(connection, self._keyring, at, makers)
        connection.execute(
            draws.insert(),
            [_row(chain, draw, place, logged[place].index) for place, draw in enumerate(computed)],
        )
        return by_law

    def unseal(self, chain: ChainState, tier: Tier, sealed: bytes, committed: str) -> Unsealed:
        """Return a stored answer in clear, checked against its commitment; what was sold outlives the noise secret.

        Raises:     IntegrityError: what is stored is not what the log committed to.
        """
        return self.open(chain.id, tier.document, sealed, committed)

    def open(self, chain: str, law: TierLaw, sealed: bytes, committed: str) -> Unsealed:
        """Return a stored answer as `unseal` does, by the chain's id and the tier's law."""
        kept = self._keyring.unseal(sealed, answer_context(chain, law.identity))
        opening, raw = kept[:_OPENING_BYTES], kept[_OPENING_BYTES:]
        if commitment(opening, chain, law, raw) != committed:
            raise IntegrityError("stored answer: expected what the log committed to, got something else")
        return Unsealed(tuple(int(value) for value in msgspec.json.decode(raw, type=list[str])), opening)

    def replay_key(self, owner: str, spec: DrawSpec) -> bytes:
        """Return the key of a draw on an owner's data; its caller answers for who may have it."""
        return stream_key(self._keyring.owner_secret(owner, spec.epoch), spec)

    def _specs(self, chain: ChainState) -> tuple[DrawSpec, ...]:
        planned = ChainPlan(chain.tiers[0].document.change_set, tuple(_planned(tier) for tier in chain.tiers))
        return specs(chain.id, planned, epoch=chain.epoch, grain=chain.grain, length=chain.length)

    def _seal(self, chain: ChainState, draw: Draw, key: bytes, secret: bytes) -> ComputedDraw:
        raw = answer_bytes(draw.answer)
        opening = opening_key(secret, chain.id, draw.spec.law)
        return ComputedDraw(
            spec=draw.spec,
            commitment=commitment(opening, chain.id, draw.spec.law, raw),
            key_hash=key_hash(key),
            sealed=self._keyring.seal(opening + raw, answer_context(chain.id, draw.spec.law.identity)),
        )


def answer_context(chain: str, law: str) -> str:
    """Return the place in the store that a sealed answer is bound to."""
    return f"answer/{chain}/{law}"


def _planned(tier: Tier) -> PlannedTier:
    law = tier.document
    return PlannedTier(tier.rank, law, law.epsilon(), tier.level_nano, int(tier.half_width), law.noise.variance(), None)


def _row(chain: ChainState, draw: ComputedDraw, place: int, leaf_index: int) -> dict[str, object]:
    return {
        "chain_id": chain.id,
        "law": draw.spec.law.identity,
        "place": place,
        "role": draw.spec.role.value,
        "parents_json": canonical_bytes([parent.identity for parent in draw.spec.parents]).decode(),
        "epoch": draw.spec.epoch,
        "sampler": draw.spec.sampler,
        "commitment": draw.commitment,
        "key_hash": draw.key_hash,
        "sealed_answer": draw.sealed,
        "leaf_index": leaf_index,
    }


def _leaf(index: int, *, draw: ComputedDraw, place: int, by_law: Mapping[str, ComputedDraw], at: str) -> DrawLeaf:
    spec = draw.spec
    return DrawLeaf(
        index=index,
        at=at,
        chain=spec.chain,
        place=place,
        role=spec.role.value,
        law=spec.law.document(),
        parents=[parent.document() for parent in spec.parents],
        parent_commitments=[by_law[parent.identity].commitment for parent in spec.parents],
        epoch=spec.epoch,
        sampler=spec.sampler,
        stream=STREAM_VERSION,
        grain=spec.grain,
        length=spec.length,
        commitment=draw.commitment,
        key_hash=draw.key_hash,
    )
