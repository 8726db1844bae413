"""The auditor's check of a round: its record is the market's, and the disclosed tiers follow from each other."""

import hmac
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from hashlib import sha256

import numpy as np
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

from app.panels.mechanism import Plan
from app.panels.rounds import RUN, RoundRecord
from tiers.budget import Ladder
from tiers.errors import TierError

__all__ = ["Disclosure", "replay_round"]


@dataclass(frozen=True, slots=True, repr=False)
class Disclosure:
    """What an auditor is given of a round: from the highest tier sold down; nothing of what stands above it.

    Args:       rank: of that tier. reports: of it, as rising places. openings: of it and each below. keys: of the
                steps below it.
    """

    record: RoundRecord
    signature: str
    rank: int
    reports: Sequence[Sequence[int]]
    openings: Sequence[bytes]
    keys: Sequence[bytes]


def replay_round(disclosed: Disclosure, public_key: str) -> tuple[str, ...]:
    """Return what does not hold, in words; nothing where the round is as the record has it.

    The signature is checked, each step's key against its hash, the disclosed reports against their commitment and their
    law, and every tier below is derived again and compared with its own commitment, bit for bit.
    """
    record, rank = disclosed.record, disclosed.rank
    try:
        Ed25519PublicKey.from_public_bytes(bytes.fromhex(public_key)).verify(
            bytes.fromhex(disclosed.signature), record.encode()
        )
    except (InvalidSignature, ValueError):
        return ("record: expected the market's signature, got another",)
    try:
        ladder = Ladder.parse([Fraction(tier.epsilon) for tier in record.tiers])
        plan = Plan.of(record.mechanism, record.domain_size, ladder)  # type: ignore[arg-type]
        found = [
            f"tier {place}: expected the planned law, got another"
            for place, tier in enumerate(record.tiers)
            if tier.law != plan.parameters(place)
        ]
        for place, key in enumerate(disclosed.keys, start=rank + 1):
            if sha256(key).hexdigest() != record.tiers[place].key_hash:
                found.append(f"tier {place}: expected the key of its step, got another")
        if len(disclosed.reports) != record.reports:
            found.append(f"reports: expected {record.reports}, got {len(disclosed.reports)}")
        return (*found, *_derived(plan, disclosed))
    except (TierError, ValueError, IndexError) as error:
        return (f"record: expected one that can be replayed, got {type(error).__name__}",)


def _derived(plan: Plan, disclosed: Disclosure) -> list[str]:
    rank, first = disclosed.rank, 0
    digests = [hmac.new(opening, digestmod=sha256) for opening in disclosed.openings]
    for at in range(0, len(disclosed.reports), RUN):
        part = disclosed.reports[at : at + RUN]
        bits = np.zeros((len(part), plan.width), np.uint8)
        for row, places in enumerate(part):
            for place in places:
                bits[row, place >> 3] |= 1 << (place & 7)
        top = plan.check(rank, plan.columns(bits.tobytes()))
        for digest, sets in zip(digests, plan.derive(disclosed.keys, first, top, start=rank), strict=True):
            digest.update(plan.stored(sets))
        first += len(part)
    return [
        f"tier {place}: expected the reports that it is committed to, got others"
        for place, digest in enumerate(digests, start=rank)
        if digest.hexdigest() != disclosed.record.tiers[place].commitment
    ]
