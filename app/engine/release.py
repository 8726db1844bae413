"""One answer for ever: tiers are drawn at once from one truth, late ones given what is known; first commit wins."""

from collections.abc import Callable, Mapping
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
from tiers.chain import ChainPlan, Draw, PlannedTier, answer_bytes, draw_chain, insert, late_spec, specs
from tiers.errors import TruthChangedError
from tiers.identity import DrawSpec, Role, TierLaw, commitment, key_hash, opening_key, stream_key
from tiers.sampling.words import STREAM_VERSION

__all__ = ["ComputedDraw", "ReleaseEngine", "Unsealed", "answer_context", "draw_leaf", "draw_row", "sealed_draw"]

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

    def due(self, chain: ChainState, tier: Tier) -> tuple[DrawSpec, ...]:
        """Return the draws that selling a tier calls for: of the whole chain top-down, of a late tier alone, or none.

        Raises:     TierError: no exact residual leads from the tier's nearest known neighbours.
        """
        if tier.drawn:
            return ()
        if not chain.drawn:
            return self._specs(chain)
        known = [Draw(_spec_of(chain, each), ()) for each in chain.drawn]
        return (late_spec(tier.document, known, epoch=self._keyring.noise_epoch),)

    def compute(self, chain: ChainState, tier: Tier) -> tuple[ComputedDraw, ...]:
        """Make the draws that are due. Slow; reveals and stores nothing.

        An undrawn chain's query runs once and all its tiers are drawn top-down. A late tier is drawn given its nearest
        known neighbours; above the top the query runs again, and its answer must be what the base draw was made from.

        Raises:     IntegrityError: the snapshot is not the one that was sealed, or the truth not the one that was
                    drawn from. EngineError: the query failed.
        """
        keys: dict[DrawSpec, bytes] = {}

        def key_of(spec: DrawSpec) -> bytes:
            keys[spec] = self.replay_key(chain.owner, spec)
            return keys[spec]

        if chain.drawn:
            drawn: tuple[Draw, ...] = (self._late(chain, tier, key_of),)
        else:
            drawn = draw_chain(self._truth(chain), self._specs(chain), key_of)
        return tuple(sealed_draw(self._keyring, chain.owner, draw, keys[draw.spec]) for draw in drawn)

    def again(self, chain: ChainState) -> tuple[ComputedDraw, ...]:
        """Make a chain's known draws anew, in the order of drawing, from its data and its keys: the same digits.

        Raises:     as `compute`, and IntegrityError: a draw that does not follow from those before it.
        """
        made: list[Draw] = []
        for tier in chain.drawn:
            spec = _spec_of(chain, tier)

            def key_of(drawn: DrawSpec) -> bytes:
                return self.replay_key(chain.owner, drawn)

            if spec.role is Role.BASE:
                made += draw_chain(self._truth(chain), [spec], key_of)
            else:
                made.append(self._insert(chain, tier.document, made, key_of, spec.epoch))
            if made[-1].spec != spec:
                raise IntegrityError("draws: expected each from its nearest known neighbours, got another")
        return tuple(
            sealed_draw(self._keyring, chain.owner, draw, self.replay_key(chain.owner, draw.spec)) for draw in made
        )

    def _truth(self, chain: ChainState) -> tuple[int, ...]:
        """Return the exact answer; one that is no answer to the question is the market's fault and names no value."""
        truth = self._files.truth(chain)
        if len(truth) != chain.length or not all(type(value) is int for value in truth):
            raise IntegrityError("truth: expected one whole number for each key, got something else")
        return truth

    def _late(self, chain: ChainState, tier: Tier, key_of: Callable[[DrawSpec], bytes]) -> Draw:
        known = []
        for each in chain.drawn:
            assert each.sealed is not None
            assert each.commitment is not None
            known.append(Draw(_spec_of(chain, each), self.unseal(chain, each, each.sealed, each.commitment).answer))
        return self._insert(chain, tier.document, known, key_of, self._keyring.noise_epoch)

    def _insert(
        self, chain: ChainState, law: TierLaw, known: list[Draw], key_of: Callable[[DrawSpec], bytes], epoch: int
    ) -> Draw:
        spec = late_spec(law, known, epoch=epoch)
        if spec.role is not Role.LATE_TOP:
            return insert(law, known, key_of, epoch=epoch)
        base = next(draw.spec for draw in known if draw.spec.role is Role.BASE)
        truth, base_key = self._truth(chain), self.replay_key(chain.owner, base)
        try:
            return insert(law, known, key_of, epoch=epoch, truth=truth, base_key=base_key)
        except TruthChangedError:
            raise IntegrityError("snapshot: expected the answer that the chain was drawn from, got another") from None

    def install(
        self, connection: Connection, chain: ChainState, computed: tuple[ComputedDraw, ...], at: str
    ) -> Mapping[str, ComputedDraw]:
        """Store and log draws in the caller's transaction, behind those that the chain has.

        Raises:     IntegrityError: these are not the draws that are due.
        """
        by_law = {draw.spec.law.identity: draw for draw in computed}
        if not by_law or tuple(draw.spec for draw in computed) != self.due(chain, chain.tier(next(iter(by_law)))):
            raise IntegrityError("draws: expected those that are due on this chain, got others")
        commitments = {tier.law: str(tier.commitment) for tier in chain.drawn}
        commitments |= {law: draw.commitment for law, draw in by_law.items()}
        placed = list(enumerate(computed, start=len(chain.drawn)))
        makers = [partial(draw_leaf, draw=draw, place=place, commitments=commitments, at=at) for place, draw in placed]
        logged = append(connection, self._keyring, at, makers)
        connection.execute(
            draws.insert(),
            [draw_row(draw, place, leaf.index) for (place, draw), leaf in zip(placed, logged, strict=True)],
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


def sealed_draw(keyring: Keyring, owner: str, draw: Draw, key: bytes) -> ComputedDraw:
    """Return a draw on an owner's data as it is stored: committed to, its answer sealed.

    Args:       key: the one that the draw was made with.
    """
    spec, raw = draw.spec, answer_bytes(draw.answer)
    opening = opening_key(keyring.owner_secret(owner, spec.epoch), spec.chain, spec.law)
    return ComputedDraw(
        spec=spec,
        commitment=commitment(opening, spec.chain, spec.law, raw),
        key_hash=key_hash(key),
        sealed=keyring.seal(opening + raw, answer_context(spec.chain, spec.law.identity)),
    )


def answer_context(chain: str, law: str) -> str:
    """Return the place in the store that a sealed answer is bound to."""
    return f"answer/{chain}/{law}"


def _spec_of(chain: ChainState, tier: Tier) -> DrawSpec:
    """Return the draw that made a tier, as the store has it."""
    made = tier.draw
    assert made is not None
    parents = tuple(chain.tier(law).document for law in made.parents)
    return DrawSpec(chain.id, made.epoch, made.role, tier.document, parents, chain.grain, chain.length, made.sampler)


def _planned(tier: Tier) -> PlannedTier:
    law = tier.document
    return PlannedTier(tier.rank, law, law.epsilon(), tier.level_nano, int(tier.half_width), law.noise.variance(), None)


def draw_row(draw: ComputedDraw, place: int, leaf_index: int) -> dict[str, object]:
    """Return the row of a draw, in its place among those of its chain."""
    return {
        "chain_id": draw.spec.chain,
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


def draw_leaf(index: int, *, draw: ComputedDraw, place: int, commitments: Mapping[str, str], at: str) -> DrawLeaf:
    """Return the leaf of a draw; `commitments` are those of its chain by law."""
    spec = draw.spec
    return DrawLeaf(
        index=index,
        at=at,
        chain=spec.chain,
        place=place,
        role=spec.role.value,
        law=spec.law.document(),
        parents=[parent.document() for parent in spec.parents],
        parent_commitments=[commitments[parent.identity] for parent in spec.parents],
        epoch=spec.epoch,
        sampler=spec.sampler,
        stream=STREAM_VERSION,
        grain=spec.grain,
        length=spec.length,
        commitment=draw.commitment,
        key_hash=draw.key_hash,
    )
