"""The Merkle tree of RFC 6962: roots from a compact frontier, inclusion and consistency proofs and their checks."""

import hashlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

__all__ = [
    "EMPTY_ROOT",
    "Accumulator",
    "Frontier",
    "consistency_proof",
    "inclusion_proof",
    "leaf_hash",
    "root_of",
    "verify_consistency",
    "verify_inclusion",
]

EMPTY_ROOT = hashlib.sha256(b"").digest()


def leaf_hash(leaf: bytes) -> bytes:
    """Return SHA-256(0x00 ‖ leaf)."""
    return hashlib.sha256(b"\x00" + leaf).digest()


def _node(left: bytes, right: bytes) -> bytes:
    return hashlib.sha256(b"\x01" + left + right).digest()


@dataclass(frozen=True, slots=True)
class Frontier:
    """The perfect subtrees that cover a log of `size` leaves, largest first: all that appending needs.

    Example:
        >>> Frontier().append(leaf_hash(b"a")).root() == root_of([leaf_hash(b"a")])
        True
    """

    size: int = 0
    peaks: tuple[bytes, ...] = ()

    def append(self, leaf: bytes) -> "Frontier":
        """Return the frontier after one more leaf hash."""
        peaks, rest, node = list(self.peaks), self.size, leaf
        while rest & 1:
            node, rest = _node(peaks.pop(), node), rest >> 1
        return Frontier(self.size + 1, (*peaks, node))

    def root(self) -> bytes:
        """Return the root of the log so far."""
        if not self.peaks:
            return EMPTY_ROOT
        node = self.peaks[-1]
        for peak in reversed(self.peaks[:-1]):
            node = _node(peak, node)
        return node

    def encode(self) -> bytes:
        """Return the peaks as one byte string; `decode` reads it back with the size."""
        return b"".join(self.peaks)

    @classmethod
    def decode(cls, size: int, raw: bytes) -> "Frontier":
        """Return the frontier of `size` leaves; raises ValueError where the peaks do not fit it."""
        if len(raw) != 32 * size.bit_count():
            raise ValueError(f"frontier: expected {size.bit_count()} peaks, got {len(raw)} bytes")
        return cls(size, tuple(raw[at : at + 32] for at in range(0, len(raw), 32)))


class Accumulator:
    """A frontier that grows in place: what reading a long log needs.

    Example:
        >>> grown = Accumulator()
        >>> grown.append(leaf_hash(b"a")), grown.append(leaf_hash(b"b"))
        (None, None)
        >>> grown.frontier() == Frontier().append(leaf_hash(b"a")).append(leaf_hash(b"b"))
        True
    """

    __slots__ = ("_peaks", "size")

    def __init__(self) -> None:
        self.size = 0
        self._peaks: list[bytes] = []

    def append(self, leaf: bytes) -> None:
        """Take one more leaf hash."""
        node, rest = leaf, self.size
        while rest & 1:
            node, rest = hashlib.sha256(b"\x01" + self._peaks.pop() + node).digest(), rest >> 1
        self._peaks.append(node)
        self.size += 1

    def frontier(self) -> Frontier:
        """Return the frontier so far."""
        return Frontier(self.size, tuple(self._peaks))

    def root(self) -> bytes:
        """Return the root of the log so far."""
        return self.frontier().root()


def root_of(leaves: Iterable[bytes]) -> bytes:
    """Return the root over leaf hashes (RFC 6962, section 2.1)."""
    grown = Accumulator()
    for leaf in leaves:
        grown.append(leaf)
    return grown.root()


def _split(size: int) -> int:
    return 1 << (size - 1).bit_length() - 1


def inclusion_proof(leaves: Sequence[bytes], index: int) -> list[bytes]:
    """Return the audit path of leaf `index` in the tree over `leaves` (leaf hashes)."""
    if not 0 <= index < len(leaves):
        raise ValueError(f"index: expected 0 to {len(leaves) - 1}, got {index}")
    if len(leaves) == 1:
        return []
    split = _split(len(leaves))
    if index < split:
        return [*inclusion_proof(leaves[:split], index), root_of(leaves[split:])]
    return [*inclusion_proof(leaves[split:], index - split), root_of(leaves[:split])]


def verify_inclusion(leaf: bytes, index: int, size: int, proof: Sequence[bytes], root: bytes) -> bool:
    """Return whether `proof` shows the leaf hash at `index` of the tree with `size` leaves and this root."""
    if not 0 <= index < size:
        return False
    node, at, last = leaf, index, size - 1
    for step in proof:
        if last == 0:
            return False
        if at & 1 or at == last:
            node = _node(step, node)
            while not at & 1 and at:
                at, last = at >> 1, last >> 1
        else:
            node = _node(node, step)
        at, last = at >> 1, last >> 1
    return last == 0 and node == root


def consistency_proof(leaves: Sequence[bytes], earlier: int) -> list[bytes]:
    """Return the proof that the tree over the first `earlier` leaves is a prefix of the tree over all of them."""
    if not 0 < earlier <= len(leaves):
        raise ValueError(f"earlier size: expected 1 to {len(leaves)}, got {earlier}")
    return _subproof(leaves, earlier, whole=True)


def _subproof(leaves: Sequence[bytes], earlier: int, *, whole: bool) -> list[bytes]:
    if earlier == len(leaves):
        return [] if whole else [root_of(leaves)]
    split = _split(len(leaves))
    if earlier <= split:
        return [*_subproof(leaves[:split], earlier, whole=whole), root_of(leaves[split:])]
    return [*_subproof(leaves[split:], earlier - split, whole=False), root_of(leaves[:split])]


def verify_consistency(earlier: int, earlier_root: bytes, size: int, root: bytes, proof: Sequence[bytes]) -> bool:
    """Return whether `proof` shows that the log of `earlier` leaves is a prefix of the log of `size` leaves."""
    if not 0 < earlier <= size:
        return False
    if earlier == size:
        return not proof and earlier_root == root
    path = list(proof)
    at, last = earlier - 1, size - 1
    while at & 1:
        at, last = at >> 1, last >> 1
    if not path and at:
        return False
    first = second = path.pop(0) if at else earlier_root
    for step in path:
        if last == 0:
            return False
        if at & 1 or at == last:
            first, second = _node(step, first), _node(step, second)
            while not at & 1 and at:
                at, last = at >> 1, last >> 1
        else:
            second = _node(second, step)
        at, last = at >> 1, last >> 1
    return last == 0 and first == earlier_root and second == root
