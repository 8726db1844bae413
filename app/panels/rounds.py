"""Closing a round: every tier derived once, out of core, committed to, and written down in one signed record."""

import hmac
import os
import shutil
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from typing import IO, TypeAlias

import msgspec
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDF

from app.errors import IntegrityError, StoreUnavailableError
from app.files import replace
from app.log.panel_leaves import RoundRecord, TierRecord
from app.panels.plans.base import Counts, Plan
from app.panels.plans.lists import Lists
from app.panels.reports import Reports
from tiers.budget import decimal_text
from tiers.local.columns.chain import SAMPLER

__all__ = [
    "COUNTS",
    "REPORTS",
    "RUN",
    "Closed",
    "Engine",
    "close_round",
    "counts_commitment",
    "derive_again",
    "here",
    "opening_of",
    "private_file",
    "put_in_place",
    "read_tier",
]

RUN = 1 << 15
_LEAST, _UNPACKED = 1 << 10, 1 << 25
COUNTS, REPORTS = "counts", "opening"
Engine: TypeAlias = Callable[[Plan, Sequence[bytes], Iterable[bytes]], Iterator[Sequence[bytes]]]
"""From a plan, the key of each step and the top tier's reports in runs, to every tier of each run, in order."""


@dataclass(frozen=True, slots=True, repr=False)
class Closed:
    """A closed round: its record, and the counts of each tier."""

    record: RoundRecord
    counts: tuple[Counts, ...]


def here(plan: Plan, keys: Sequence[bytes], runs: Iterable[bytes]) -> Iterator[Sequence[bytes]]:
    """Yield every tier of each run, derived in this process."""
    first = 0
    for raw in runs:
        yield plan.derive(keys, first, raw)
        first += len(raw) // plan.width


def close_round(
    plan: Plan,
    secret: bytes,
    panel: str,
    number: int,
    epoch: int,
    runs: Iterable[bytes],
    folder: Path,
    at: str,
    *,
    spent: str | None = None,
    engine: Engine | None = None,
) -> Closed:
    """Derive every tier of a round into files of `folder`; memory holds one run at a time.

    Args:       spent: the root over what devices spent. engine: what derives, in this process unless told.
    Guarantee:  the same reports, secret and panel give the same files, whatever happened before: what a crash left is
                written anew, and a file has its name only once it is whole.
    """
    name, keys = f"{panel}/{number}", plan.keys(secret, f"{panel}/{number}")
    partial = folder.with_name(f"{folder.name}.part")
    shutil.rmtree(partial, ignore_errors=True)
    partial.mkdir(mode=0o700, parents=True)
    ranks = range(len(plan.ladder))
    digests = [hmac.new(opening_of(secret, name, rank), digestmod=sha256) for rank in ranks]
    counts: list[Counts | None] = [None for _ in ranks]
    first = 0
    with ExitStack() as stack:
        files = [stack.enter_context(private_file(partial / f"{rank}.bin")) for rank in ranks]
        for derived in (engine or here)(plan, keys, runs):
            for rank, stored in enumerate(derived):
                files[rank].write(stored)
                digests[rank].update(stored)
                counted, before = plan.count(rank, stored), counts[rank]
                counts[rank] = counted if before is None else before + counted
            first += len(derived[0]) // plan.width
        for file in files:
            file.flush()
            os.fsync(file.fileno())
    put_in_place(partial, folder)
    counted_all = tuple(each for each in counts if each is not None)
    hashes = [None, *(sha256(key).hexdigest() for key in keys)]
    tiers_of = tuple(
        TierRecord(
            epsilon=decimal_text(epsilon),
            law=plan.parameters(rank),
            commitment=digests[rank].hexdigest(),
            counts=counts_commitment(opening_of(secret, name, rank, COUNTS), counted_all[rank]),
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
        spent=spent,
    )
    return Closed(record, counted_all)


def put_in_place(written: Path, folder: Path) -> None:
    """Put a round's files where they are read, each at once: readers of the same bytes miss none meanwhile."""
    if not folder.exists():
        replace(written, folder)
        return
    for file in sorted(written.iterdir()):
        replace(file, folder / file.name)
    written.rmdir()


def derive_again(
    plan: Plan, secret: bytes, reports: Reports, record: RoundRecord, folder: Path, engine: Engine | None = None
) -> None:
    """Write a closed round's files anew from its reports, where they are gone: the bytes that it was signed with.

    Raises:     IntegrityError: the reports are not those that it was closed with; then no file is left.
    """
    if reports.count(record.round) != record.reports:
        raise IntegrityError("panel: expected the reports of a closed round, got others or none")
    runs = reports.runs(record.round, RUN, by_path=plan.by_path)
    record = msgspec.structs.replace(record, tiers=record.tiers[: len(plan.ladder)])
    named = (record.panel, record.round, record.epoch)
    closed = close_round(plan, secret, *named, runs, folder, record.at, spent=record.spent, engine=engine)
    again = closed.record
    if again != record:
        shutil.rmtree(folder, ignore_errors=True)
        raise IntegrityError("panel: expected the reports of a closed round, got others")


def opening_of(secret: bytes, name: str, rank: int, what: str = REPORTS) -> bytes:
    """Return what opens a commitment of a tier: a key of its own, shown only with what it commits to.

    Args:       name: of panel and round. what: its reports or their counts.
    """
    info = f"tiermarket/panel-{what}/1\n{name}/{rank}".encode()
    return HKDF(algorithm=SHA256(), length=32, salt=None, info=info).derive(secret)


def counts_commitment(opening: bytes, counts: Counts) -> str:
    """Return the commitment to a tier's counts: all that its buyers' estimates are read off.

    Example:
        >>> import numpy as np
        >>> counts_commitment(bytes(32), np.array([1, 2]))[:8]
        '50ab24b8'
    """
    return hmac.digest(opening, counts.astype("<i8").tobytes(), sha256).hex()


def read_tier(plan: Plan, folder: Path, rank: int, opening: bytes, commitment: str) -> Iterator[Lists]:
    """Yield a tier's reports in their order, in runs; the file is compared with its commitment before anything is.

    Raises:     IntegrityError: the file is not what was committed to, or not there. StoreUnavailableError: the disk
                does not give it.
    """
    path = folder / f"{rank}.bin"
    digest = hmac.new(opening, digestmod=sha256)
    try:
        with path.open("rb") as file:
            while raw := file.read(plan.width * RUN):
                digest.update(raw)
    except FileNotFoundError:
        raise IntegrityError("panel: expected the file of a tier, got none") from None
    except OSError as error:
        raise StoreUnavailableError("panel: expected the file of a tier, got an error of the disk") from error
    if not hmac.compare_digest(digest.hexdigest(), commitment):
        raise IntegrityError("panel: expected a tier's reports as committed to, got others")
    return _lists(plan, path)


def _lists(plan: Plan, path: Path) -> Iterator[Lists]:
    with path.open("rb") as file:
        while raw := file.read(plan.width * max(_LEAST, min(RUN, _UNPACKED // (64 * plan.width)))):
            yield plan.unpack(raw)


def private_file(path: Path) -> IO[bytes]:
    """Open a new file for writing that nobody else may read."""
    return os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb")
