"""A witness: it keeps the last head it saw, and refuses a log that does not continue it."""

from collections.abc import Callable, Collection, Sequence
from pathlib import Path

import msgspec

from app.errors import ForkedLogError, InvalidRequestError
from app.files import replace
from app.log.heads import TreeHead, public_key
from app.log.merkle import verify_consistency

__all__ = ["advance", "keep_head", "kept_head"]


def advance(
    kept: TreeHead | None, seen: TreeHead, publics: Collection[str], proof_of: Callable[[int, int], Sequence[str]]
) -> TreeHead:
    """Return the head to keep: the one seen, where a trusted key signed it and it continues the one kept.

    Args:       publics: trusted public keys, as hex. proof_of: asks the market for the consistency proof of two sizes.
    Raises:     ForkedLogError: no trusted key signed it; it is shorter or older than what was kept; another log.
    """
    if not any(seen.signed_by(public_key(public)) for public in publics):
        raise ForkedLogError(f"head: expected the signature of a trusted key, got one of key {seen.key} that is not")
    if kept is None:
        return seen
    if seen.size < kept.size or seen.at < kept.at:
        raise ForkedLogError(f"log: expected at least {kept.size} leaves of {kept.at}, got {seen.size} of {seen.at}")
    try:
        steps = [bytes.fromhex(step) for step in proof_of(kept.size, seen.size)]
    except ValueError:
        raise ForkedLogError("proof: expected hashes as hex, got something else") from None
    if not verify_consistency(kept.size, bytes.fromhex(kept.root), seen.size, bytes.fromhex(seen.root), steps):
        raise ForkedLogError(f"log: expected one that continues the head of {kept.size} leaves, got a fork")
    return seen


def kept_head(path: Path) -> TreeHead | None:
    """Return the head that a witness kept in a file, or None before the first; raises InvalidRequestError."""
    if not path.exists():
        return None
    try:
        return msgspec.json.decode(path.read_bytes(), type=TreeHead)
    except msgspec.MsgspecError:
        raise InvalidRequestError("witness file: expected a signed tree head as JSON, got something else") from None


def keep_head(path: Path, head: TreeHead) -> None:
    """Keep a head in a file, in one step: a crash leaves the one before."""
    beside = path.with_name(path.name + ".new")
    with beside.open("wb") as file:
        file.write(msgspec.json.encode(head, order="sorted") + b"\n")
    replace(beside, path)
