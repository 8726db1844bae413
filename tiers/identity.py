"""Who is who: the identity of a law, a tier, a chain and a draw. None of it can change after the first sale.

Every identity is a tagged SHA-256 over canonical JSON, and every draw has its own stream key, so two draws that differ
in anything never share a word of noise, and one that is repeated (retry, second worker, restored backup) is the same.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from fractions import Fraction
from functools import lru_cache

from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDF

from tiers.budget import NANO, decimal_text, nano_up
from tiers.canonical import Document, canonical_bytes, tagged_hash
from tiers.errors import InvalidParameterError
from tiers.noise.calibrate import least_integer
from tiers.noise.law import NoiseLaw, law_from, normal_form, parse_rational, parse_whole
from tiers.noise.msdlap import MultiScaleDiscreteLaplace
from tiers.noise.staircase import Staircase
from tiers.noise.tsg import TwoSidedGeometric
from tiers.sampling.words import STREAM_VERSION
from tiers.sensitivity import ChangeSet

__all__ = ["DrawSpec", "Role", "TierLaw", "chain_identity", "commitment", "key_hash", "opening_key", "stream_key"]

_HEX_64 = re.compile(r"[0-9a-f]{64}\Z")


class Role(StrEnum):
    """What a draw is made from: the truth (base, late-top), the tier above (residual), or both neighbours (bridge)."""

    BASE = "base"
    RESIDUAL = "residual"
    BRIDGE = "bridge"
    LATE_TOP = "late-top"

    @property
    def reads_truth(self) -> bool:
        """Return whether the truth was an input: such a draw's key is never disclosed."""
        return self in (Role.BASE, Role.LATE_TOP)


@dataclass(frozen=True, slots=True)
class TierLaw:
    """A tier as it is identified: its exact noise law, the change set it protects, and δ. ε is derived from these.

    Args:       noise: any lattice law. change_set: what one unit may change. delta: the nominal δ, one for all tiers of
                a chain, before any slack of its residuals; above 0 for laws without a pure ε.
    Raises:     InvalidParameterError: a δ that the law cannot have.
    Example:
        >>> tier = TierLaw(TwoSidedGeometric(Fraction(1, 4)), ChangeSet.scalar(4))
        >>> tier.epsilon()
        Fraction(1, 1)
    """

    noise: NoiseLaw
    change_set: ChangeSet
    delta: Fraction = Fraction(0)
    _hash: int = field(init=False, repr=False, compare=False, default=0)
    _name: str = field(init=False, repr=False, compare=False, default="")

    def __post_init__(self) -> None:
        object.__setattr__(self, "noise", normal_form(self.noise))  # equal laws are one tier, whatever their name
        object.__setattr__(self, "_hash", hash((self.noise, self.change_set, self.delta)))  # laws are looked up often
        if not isinstance(self.delta, Fraction) or not 0 <= self.delta < 1:
            raise InvalidParameterError("delta", "a Fraction with 0 ≤ δ < 1", self.delta)
        if self.delta == 0 and not self.pure:
            raise InvalidParameterError("delta", f"δ > 0, for no {self.noise.family} law is ε-DP", self.delta)

    def __hash__(self) -> int:
        return self._hash

    @property
    def pure(self) -> bool:
        """Return whether the law is ε-DP with δ = 0."""
        return isinstance(self.noise, TwoSidedGeometric | MultiScaleDiscreteLaplace | Staircase)

    def epsilon(self) -> Fraction:
        """Return the exact pure ε over the change set; with δ > 0 a label that holds.

        Law:        the label is the least multiple of 10⁻⁹ at which the law is (ε, δ)-DP; for a two-sided geometric
                    never above its pure ε, and that itself where there are too many change vectors to maximise over.
                    Laws of other pure families keep their pure ε. Tiers are ordered by rank (`tiers.rank`), not by it.
        Example:
            >>> from tiers.noise.skellam import Skellam
            >>> noise = Skellam.at(Fraction(1, 2), Fraction(1, 10**6), ChangeSet.scalar(1))
            >>> TierLaw(noise, ChangeSet.scalar(1), Fraction(1, 10**6)).epsilon()
            Fraction(1, 2)
        """
        match self.noise:
            case TwoSidedGeometric() if self.delta:
                pure = self.noise.epsilon(self.change_set)
                try:
                    return min(pure, _label(self))
                except InvalidParameterError:
                    return pure
            case TwoSidedGeometric() | MultiScaleDiscreteLaplace() | Staircase():
                return self.noise.epsilon(self.change_set)
            case _:
                return _label(self)

    def document(self) -> dict[str, Document]:
        """Return the canonical document whose hash is the law's identity."""
        return {
            "change_set": {
                "bins": str(self.change_set.bins),
                "step": str(self.change_set.step),
                "total": str(self.change_set.total),
            },
            "delta": decimal_text(self.delta),
            "family": self.noise.family,
            "parameters": self.noise.parameters(),
        }

    @classmethod
    def from_document(cls, document: object) -> "TierLaw":
        """Read a law back; refuses whatever `document()` would not have written.

        Raises:     InvalidParameterError: an unknown family, a parameter that is not canonical, a bad change set.
        """
        try:
            assert isinstance(document, Mapping)
            change = document["change_set"]
            change_set = ChangeSet(**{name: parse_whole(name, change[name]) for name in ("bins", "step", "total")})
            noise = law_from(document["family"], document["parameters"])
            law = cls(noise, change_set, parse_rational("delta", document["delta"]))
            canonical = law.document() == document
        except InvalidParameterError:
            raise
        except (AssertionError, KeyError, TypeError, ValueError, ZeroDivisionError):
            raise InvalidParameterError("law", "a law's canonical document", document) from None
        if not canonical:
            raise InvalidParameterError("law", "a law's canonical document", document)
        return law

    @property
    def identity(self) -> str:
        """Return the law's name: 64 hex digits, equal exactly for equal laws."""
        if not self._name:
            object.__setattr__(self, "_name", _identity(self))
        return self._name


def chain_identity(lineage: str, snapshot: str, fingerprint: str) -> str:
    """Return the chain's name: one question on one immutable snapshot of one lineage, and nothing else.

    Args:       lineage, snapshot: identities minted once, never derived from the data. fingerprint: 64 hex digits of
                the question's canonical form.
    """
    if not _HEX_64.match(fingerprint):
        raise InvalidParameterError("fingerprint", "64 hex digits", fingerprint)
    document: Document = {"fingerprint": fingerprint, "lineage": lineage, "snapshot": snapshot}
    return tagged_hash("chain/1", canonical_bytes(document)).hex()


@dataclass(frozen=True, slots=True)
class DrawSpec:
    """All that distinguishes one draw of noise from another; its canonical encoding is the key's HKDF info.

    Args:       chain: 64 hex digits. epoch: number of the owner's secret. role: see `Role`. law: of the drawn tier.
                parents: laws of the known neighbours it is drawn from, upper first; none for a base draw.
                grain: exponent j of the lattice step 2^j. length: entries of the vector. sampler: its name and version.
    """

    chain: str
    epoch: int
    role: Role
    law: TierLaw
    parents: tuple[TierLaw, ...]
    grain: int
    length: int
    sampler: str

    def __post_init__(self) -> None:
        wanted = {Role.BASE: 0, Role.RESIDUAL: 1, Role.BRIDGE: 2, Role.LATE_TOP: 1}[self.role]
        if len(self.parents) != wanted:
            raise InvalidParameterError("parents", f"{wanted} for a {self.role} draw", len(self.parents))
        if not 1 <= self.length <= 2**31:
            raise InvalidParameterError("length", "1 to 2³¹ entries", self.length)

    def document(self) -> dict[str, Document]:
        """Return the canonical document of the draw."""
        return {
            "chain": self.chain,
            "epoch": self.epoch,
            "grain": self.grain,
            "law": self.law.document(),
            "length": self.length,
            "parents": [parent.document() for parent in self.parents],
            "role": self.role.value,
            "sampler": self.sampler,
            "stream": STREAM_VERSION,
        }

    def canonical(self) -> bytes:
        """Return the canonical bytes of the document.

        Example:
            >>> law = TierLaw(TwoSidedGeometric(Fraction(1)), ChangeSet.scalar(1))
            >>> spec = DrawSpec("0" * 64, 1, Role.BASE, law, (), 0, 1, "tsg-digits/2")
            >>> spec.canonical() == canonical_bytes(spec.document())
            True
        """
        beside = self.epoch, self.role, self.law, self.parents, self.grain, self.length, self.sampler
        return b'{"chain":' + canonical_bytes(self.chain) + _beside_chain(*beside)


@lru_cache(maxsize=4096)
def _beside_chain(
    epoch: int, role: Role, law: TierLaw, parents: tuple[TierLaw, ...], grain: int, length: int, sampler: str
) -> bytes:
    """The canonical bytes of a draw's document behind its chain, which stands first: many chains have the same."""
    spec = DrawSpec("", epoch, role, law, parents, grain, length, sampler)
    return canonical_bytes(spec.document()).removeprefix(b'{"chain":""')


def stream_key(secret: bytes, spec: DrawSpec) -> bytes:
    """Return the draw's 256-bit key: HKDF-SHA256 of the owner's epoch secret over the draw's canonical encoding.

    Guarantee:  deterministic in (secret, spec); independent-looking between any two specs (computational).
    Reference:  RFC 5869.
    """
    return _derive(secret, b"tiermarket/draw/1\n" + spec.canonical())


def opening_key(secret: bytes, chain: str, law: TierLaw) -> bytes:
    """Return the 256-bit opening of a tier's commitment: from the owner's secret, never from a draw's key."""
    return _derive(secret, b"tiermarket/opening/1\n" + canonical_bytes({"chain": chain, "law": law.document()}))


def commitment(opening: bytes, chain: str, law: TierLaw, answer: bytes) -> str:
    """Return the hiding commitment to a canonical answer: SHA-256 over tag, opening, chain, law and answer."""
    if len(opening) != 32:
        raise InvalidParameterError("opening", "32 bytes", f"{len(opening)} bytes")
    return tagged_hash("answer/1", opening, chain.encode(), _encoded(law), answer).hex()


def key_hash(key: bytes) -> str:
    """Return the commitment to a draw's key (256 bits of entropy, so a bare hash hides it)."""
    return tagged_hash("draw-key/1", key).hex()


@lru_cache(maxsize=4096)
def _encoded(law: TierLaw) -> bytes:
    return canonical_bytes(law.document())


@lru_cache(maxsize=4096)
def _identity(law: TierLaw) -> str:
    return tagged_hash("law/1", _encoded(law)).hex()


@lru_cache(maxsize=1024)
def _label(law: TierLaw) -> Fraction:
    noise = law.noise
    assert not isinstance(noise, MultiScaleDiscreteLaplace | Staircase)
    near = nano_up(Fraction(noise.epsilon_at(law.delta, law.change_set)))
    nano = least_integer(lambda n: Fraction(noise.delta(Fraction(n, NANO), law.change_set)) <= law.delta, near)
    return Fraction(nano, NANO)


def _derive(secret: bytes, info: bytes) -> bytes:
    if len(secret) != 32:
        raise InvalidParameterError("owner secret", "32 bytes", f"{len(secret)} bytes")
    return HKDF(algorithm=SHA256(), length=32, salt=None, info=info).derive(secret)
