"""Closing a round: every tier derived once, out of core, committed to, and written down in one signed record."""

import hmac
import os
import shutil
from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from typing import IO

import msgspec
import numpy as np
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDF

from app.errors import IntegrityError
from app.panels.mechanism import Counts, Plan
from tiers.budget import decimal_text
from tiers.canonical import canonical_bytes
from tiers.local.columns.chain import SAMPLER

__all__ = ["RUN", "Closed", "RoundRecord", "TierRecord", "close_round", "opening_of", "read_tier"]

RUN = 1 << 15


class TierRecord(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One tier of a round: its law, the commitment to its reports, and the hash of the key of the step to it."""

    epsilon: str
    law: dict[str, str]
    commitment: str
    key_hash: str | None


class RoundRecord(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What the market signs when a round closes: enough to derive every lower tier again from a disclosed one."""

    panel: str
    round: int
    mechanism: str
    domain_size: int
    reports: int
    sampler: str
    epoch: int
    at: str
    tiers: tuple[TierRecord, ...]

    def encode(self) -> bytes:
        """Return the canonical bytes: what is signed."""
        return b"tiermarket/panel-round/1\n" + canonical_bytes(msgspec.to_builtins(self))


@dataclass(frozen=True, slots=True, repr=False)
class Closed:
    """A closed round: its record, and how many reports of each tier hold each place."""

    record: RoundRecord
    counts: tuple[Counts, ...]


def close_round(
    plan: Plan, secret: bytes, panel: str, number: int, epoch: int, runs: Iterable[bytes], folder: Path, at: str
) -> Closed:
    """Derive every tier of a round into files of `folder`; memory holds one run at a time.

    Guarantee:  the same reports, secret and panel give the same files, whatever happened before: what a crash left is
                written anew, and a file has its name only once it is whole.
    """
    name, keys = f"{panel}/{number}", plan.keys(secret, f"{panel}/{number}")
    partial = folder.with_name(f"{folder.name}.part")
    shutil.rmtree(partial, ignore_errors=True)
    partial.mkdir(mode=0o700, parents=True)
    ranks = range(len(plan.ladder))
    digests = [hmac.new(opening_of(secret, name, rank), digestmod=sha256) for rank in ranks]
    counts = [np.zeros(plan.bits, np.int64) for _ in ranks]
    first = 0
    with ExitStack() as stack:
        files = [stack.enter_context(_private(partial / f"{rank}.bin")) for rank in ranks]
        for raw in runs:
            tiers = plan.derive(keys, first, plan.columns(raw))
            for rank, sets in enumerate(tiers):
                stored = plan.stored(sets)
                files[rank].write(stored)
                digests[rank].update(stored)
                counts[rank] += plan.count(sets)
            first += len(raw) // plan.width
        for file in files:
            file.flush()
            os.fsync(file.fileno())
    shutil.rmtree(folder, ignore_errors=True)
    partial.rename(folder)
    hashes = [None, *(sha256(key).hexdigest() for key in keys)]
    tiers_of = tuple(
        TierRecord(
            epsilon=decimal_text(epsilon),
            law=plan.parameters(rank),
            commitment=digests[rank].hexdigest(),
            key_hash=hashes[rank],
        )
        for rank, epsilon in enumerate(plan.ladder)
    )
    record = RoundRecord(
        panel=panel,
        round=number,
        mechanism=plan.mechanism,
        domain_size=plan.domain_size,
        reports=first,
        sampler=SAMPLER,
        epoch=epoch,
        at=at,
        tiers=tiers_of,
    )
    return Closed(record, tuple(counts))


def opening_of(secret: bytes, name: str, rank: int) -> bytes:
    """Return what opens the commitment to a tier's reports: a key of its own, shown only with the reports."""
    info = b"tiermarket/panel-opening/1\n" + f"{name}/{rank}".encode()
    return HKDF(algorithm=SHA256(), length=32, salt=None, info=info).derive(secret)


def read_tier(plan: Plan, folder: Path, rank: int, opening: bytes, commitment: str) -> Iterator[Sequence[list[int]]]:
    """Yield a tier's reports in their order, in runs; the file is compared with its commitment before anything is.

    Raises:     IntegrityError: the file is not what was committed to.
    """
    path = folder / f"{rank}.bin"
    digest = hmac.new(opening, digestmod=sha256)
    try:
        with path.open("rb") as file:
            while raw := file.read(plan.width * RUN):
                digest.update(raw)
    except OSError:
        raise IntegrityError("panel: expected the file of a tier, got none") from None
    if not hmac.compare_digest(digest.hexdigest(), commitment):
        raise IntegrityError("panel: expected a tier's reports as committed to, got others")
    return _members(plan, path)


def _members(plan: Plan, path: Path) -> Iterator[Sequence[list[int]]]:
    with path.open("rb") as file:
        while raw := file.read(plan.width * 1_024):
            bits = np.unpackbits(np.frombuffer(raw, np.uint8).reshape(-1, plan.width), axis=1, bitorder="little")
            rows, places = np.nonzero(bits)
            ends = np.searchsorted(rows, np.arange(1, len(bits)))
            yield [part.tolist() for part in np.split(places, ends)]


def _private(path: Path) -> IO[bytes]:
    return os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb")
