"""The one place where people's data meet noise: charge, then draw, then forget.

A round's draw is named by the query, the round, the class's law and the people in it, and its words come from a key
made of all that: a repeated round gives the same digits, and two draws that differ in anything share none.
"""

from collections.abc import Callable, Mapping
from fractions import Fraction
from typing import Protocol, TypeAlias

import numpy as np
import numpy.typing as npt
from cryptography.hazmat.primitives.hashes import SHA256, Hash
from cryptography.hazmat.primitives.kdf.hkdf import HKDF

from tiers.accounting.charges import LedgerKind
from tiers.accounting.people import Nanos, People, PeopleLedger
from tiers.adaptive.rounds import Mode, Schedule
from tiers.adaptive.space import FARTHEST_STEPS, Places, Space
from tiers.canonical import Document, canonical_bytes
from tiers.errors import InvalidParameterError
from tiers.noise.lattice_gaussian import LatticeGaussian
from tiers.sampling.choose import sampler_for, vector_sampler
from tiers.sampling.words import KeyedWords

__all__ = ["Lipschitz", "PeopleRounds", "RoundNotes", "Streams", "keyed_streams", "released_values"]

Streams: TypeAlias = Callable[[Mapping[str, Document]], KeyedWords]
Lipschitz: TypeAlias = Callable[[npt.NDArray[np.float64]], npt.NDArray[np.float64]]


def keyed_streams(secret: bytes, query: str) -> Streams:
    """Return the streams of one query: HKDF-SHA256 of the secret over the query's name and a draw's description.

    Args:       secret: 32 bytes. query: minted once for one question about one version of the data, never reused.
    Raises:     InvalidParameterError: another secret, or an empty name.
    Example:
        >>> one, again, other = (keyed_streams(bytes(32), name)({"round": "1"}).read(8) for name in ("q", "q", "p"))
        >>> one == again, one == other
        (True, False)
    """
    if not isinstance(secret, bytes) or len(secret) != 32:
        raise InvalidParameterError("secret", "32 bytes", "something else")
    if not isinstance(query, str) or not query:
        raise InvalidParameterError("query", "a name", query)

    def words(draw: Mapping[str, Document]) -> KeyedWords:
        info = b"tiermarket/adaptive/1\n" + canonical_bytes({"draw": dict(draw), "query": query})
        return KeyedWords(HKDF(algorithm=SHA256(), length=32, salt=None, info=info).derive(secret))

    return words


def released_values(space: Space, mode: Mode, places: Places, phi: Lipschitz | None) -> Places:
    """Return what noise is added to, in steps: the points themselves, or φ of each, rounded to a step.

    Args:       phi: of coordinates in units; it must not stretch distances (by more than half a step, for rounding).
    Raises:     InvalidParameterError: distances without a φ, a φ that gives NaN, infinity or another shape, or a space
                so far from 0 that doubles do not tell its noise steps: neighbours would seem farther apart.
    """
    if mode is Mode.POINT:
        steps: Places = space.check(places) * space.fine
        return steps
    if phi is None:
        raise InvalidParameterError("phi", "a function of points that stretches no distance", phi)
    if space.farthest_steps > FARTHEST_STEPS:
        raise InvalidParameterError(
            "space", f"coordinates within {FARTHEST_STEPS} noise steps of 0", space.farthest_steps
        )
    found = np.asarray(phi(space.coordinates(space.check(places))), np.float64)
    if found.shape != (len(places),) or not np.isfinite(found).all():
        raise InvalidParameterError("phi", "a finite number a point", found.shape)
    rounded: Places = np.floor(found / float(space.step) + 0.5).astype(np.int64)
    return rounded


class RoundNotes(Protocol):
    """Who is told of a round as it goes: a caller that keeps a ledger, and may stop the round by raising."""

    def charged(self, place: int, who: People, charges: Nanos, /) -> None:
        """Take what those of the ledger who were admitted are charged, before anything is drawn for them."""
        ...

    def released(self, place: int, who: People, values: Places, /) -> None:
        """Take their noisy values, in steps."""
        ...


class PeopleRounds:
    """Releases rounds of one query to an elimination, and keeps everybody's ledger as it goes.

    Guarantee:  every person's transcript keeps their budget: each round's value is released only after its charge was
                admitted by that person's own filter, whatever was released before and whoever else is asked.
    Args:       values: of the people who are asked, in steps. ledger: everybody's, zCDP or (ε, δ), of any reach: a
                round's cost holds for all pairs of places. members: who of the ledger is asked, rising. streams: of
                this query. notes: told of each round's charges before its draw; where it raises, nothing is drawn.
    Raises:     InvalidParameterError: other people, or a pure ledger.
    """

    __slots__ = ("_costs", "_members", "_notes", "_schedule", "_streams", "_values", "ledger")

    def __init__(
        self,
        schedule: Schedule,
        values: Places,
        ledger: PeopleLedger,
        members: People,
        streams: Streams,
        notes: RoundNotes | None = None,
    ) -> None:
        if not len(values) == len(schedule.classes) == len(members):
            raise InvalidParameterError("people", "values and classes of the people who are asked", len(values))
        if ledger.kind is LedgerKind.PURE:
            raise InvalidParameterError("ledger", "zCDP or (ε, δ): lattice Gaussian noise has no pure ε", "pure")
        self._schedule, self._values, self._streams = schedule, values, streams
        self._costs, self._members, self._notes = schedule.costs, members, notes
        self.ledger = ledger

    def __call__(self, place: int, who: People) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.bool_]]:
        """Charge a round, draw for those admitted, and return their values in units; raises as the ledger does."""
        classes = self._schedule.classes[who]
        self.ledger, admitted = self.ledger.charge(self._members[who], self._costs[:, place][classes])
        asked, classes = who[admitted], classes[admitted]
        if self._notes is not None:
            self._notes.charged(place, self._members[asked], self._costs[:, place][classes])
        noisy = self._values[asked]
        rows = [np.flatnonzero(classes == row) for row in np.unique(classes)] if len(self._costs) > 1 else [...]
        for at in rows:
            group = asked[at]
            if len(group):
                noisy[at] = self._draw(place, int(classes[at][0]), self._members[group], noisy[at])
        if self._notes is not None:
            self._notes.released(place, self._members[asked], noisy)
        return np.multiply(noisy, float(self._schedule.space.step), dtype=np.float64), admitted

    def _draw(self, place: int, row: int, group: People, values: Places) -> Places:
        sigma = self._schedule.laws[row][place].sigma
        members = Hash(SHA256())
        members.update(np.ascontiguousarray(group, "<i8").tobytes())
        draw: dict[str, Document] = {
            "law": str(sigma),
            "members": members.finalize().hex(),
            "mode": self._schedule.mode.value,
            "round": str(place + 1),
        }
        flat = np.ascontiguousarray(values).reshape(-1)
        law = LatticeGaussian(Fraction(sigma))
        vector_sampler(sampler_for(law, len(flat)), law).add_to(self._streams(draw), flat, flat)
        return flat.reshape(values.shape)
