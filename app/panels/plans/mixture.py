"""Mixed plans: everybody follows one of several chains of Subset, by a public label; each path is its own estimate."""

import hashlib
import hmac
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property, lru_cache
from itertools import accumulate, pairwise
from typing import ClassVar

import msgspec
import numpy as np
import numpy.typing as npt

from app.panels.plans.base import CONFIDENCE, Counts, Fault, Labels, Law, Plan, Weights, half_width_of
from app.panels.plans.lists import Lists
from app.panels.plans.sets import SetsPlan, chain_of, pack_sets, set_span, set_variance, set_width, unpack_sets
from tiers.budget import Ladder
from tiers.canonical import canonical_bytes
from tiers.errors import InvalidParameterError
from tiers.local.estimate import mixed_estimate
from tiers.local.mixed import MixedPlan, plan_mixed
from tiers.local.subset import Subset

__all__ = ["MixedTier", "MixturePlan", "label_of", "paths_of"]

PATHS_LIMIT = 255


@dataclass(frozen=True, slots=True)
class MixedTier:
    """One tier of a mixed plan: each path's Subset, and the shares of people in units of 2⁻³²."""

    laws: tuple[Subset, ...]
    shares: tuple[int, ...]
    family: ClassVar[str] = "mixed"

    def parameters(self) -> dict[str, str]:
        """Return the canonical texts that identify the tier: its paths as one JSON text."""
        laws = [{"family": law.family} | law.parameters() for law in self.laws]
        return {"paths": canonical_bytes(laws).decode(), "shares": ",".join(str(share) for share in self.shares)}


def label_of(panel: str, device: str) -> int:
    """Return a device's public label on a panel, a word of 32 bits: which path it follows, whatever its value.

    Example:
        >>> label_of("panel_1", "d7") == label_of("panel_1", "d7") < 2**32
        True
    """
    named = b"tiermarket/panel-label/1\n" + panel.encode() + b"\n" + device.encode()
    return int.from_bytes(hashlib.sha256(named).digest()[:4], "big")


def paths_of(law: Law) -> tuple[tuple[Law, ...], tuple[int, ...]]:
    """Return the paths' laws and shares of one tier's texts.

    Raises:     InvalidParameterError: texts that name none.
    """
    if law.get("family") != MixedTier.family:
        raise InvalidParameterError("law", "one of a mixed plan", "another")
    return _paths(law.get("paths", ""), law.get("shares", ""))


@lru_cache(maxsize=64)
def _paths(paths: str, named: str) -> tuple[tuple[Law, ...], tuple[int, ...]]:
    """Read once what every device of a panel has."""
    try:
        laws = msgspec.json.decode(paths, type=tuple[dict[str, str], ...])
        shares = tuple(int(text) for text in named.split(",") if text.isascii() and len(text) < 12)
    except (msgspec.MsgspecError, ValueError):
        raise InvalidParameterError("law", "paths and shares of a mixed plan", "others") from None
    if not 0 < len(laws) == len(shares) <= PATHS_LIMIT:
        raise InvalidParameterError("law", f"1 to {PATHS_LIMIT} paths, each with its share", "others")
    return laws, shares


@dataclass(frozen=True)
class MixturePlan(Plan):
    """Tiers of a mixed plan; a report is its path's number and then the rising values of that path's set.

    A step's key gives each path one of its own, so no two reports share a word.
    """

    mixed: MixedPlan

    @classmethod
    def of(cls, domain_size: int, ladder: Ladder, mean_weight: Fraction = Fraction(0)) -> "MixturePlan":
        """Return the mixture of least worst (or mean, by its weight) ratio."""
        return cls("mixed", domain_size, ladder, plan_mixed(domain_size, ladder, mean_weight=mean_weight))

    @classmethod
    def read(cls, domain_size: int, ladder: Ladder, laws: Sequence[Law]) -> "MixturePlan":
        """Return the plan that stored laws name, every path's ε and steps checked; raises InvalidParameterError."""
        tiers = [paths_of(law) for law in laws]
        shares = tiers[0][1] if tiers else ()
        if len(tiers) != len(ladder) or any(other != shares for _, other in tiers):
            raise InvalidParameterError("laws", f"{len(ladder)} tiers of the same shares", "others")
        paths = tuple(chain_of(domain_size, ladder, [laws[path] for laws, _ in tiers]) for path in range(len(shares)))
        parts = [[share / 2**32 * ratio for ratio in path.ratios] for path, share in zip(paths, shares, strict=True)]
        ratios = tuple(sum(of_tier) for of_tier in zip(*parts, strict=True))
        return cls("mixed", domain_size, ladder, MixedPlan(paths, shares, ratios, 1.0))

    @property
    def laws(self) -> tuple[MixedTier, ...]:
        """Return the law of each tier."""
        tiers = zip(*(path.tiers for path in self.mixed.paths), strict=True)
        return tuple(MixedTier(laws, self.mixed.shares) for laws in tiers)

    @property
    def ratios(self) -> tuple[float, ...]:
        """Return each tier's variance against the best single mechanism's."""
        return self.mixed.ratios

    @property
    def width(self) -> int:
        """Return the bytes of a stored report: its path, and its set."""
        return 1 + set_width(self.domain_size)

    @property
    def by_path(self) -> bool:
        """Return True: reports of a path stand together."""
        return True

    def pack(
        self, reports: Lists, labels: Labels | None = None, rank: int = 0
    ) -> tuple[npt.NDArray[np.uint8], list[Fault]]:
        """Return reports as path and bits, and the rows that are not their device's path's, or no set of its size."""
        named, paths = reports.heads(-1), len(self.chains)
        due = np.clip(named, 0, paths - 1)
        if labels is not None:
            due = np.searchsorted(list(accumulate(self.mixed.shares)), labels, side="right")
        sizes = np.array([chain.laws[rank].subset_size for chain in self.chains])[due]
        wrong = (named != due, "the path of the device's public label, first")
        packed, faults = pack_sets(reports.tails(), self.domain_size, sizes)
        return np.column_stack([due.astype(np.uint8), packed]), [wrong, *faults]

    def unpack(self, raw: bytes) -> Lists:
        """Return the path, and the rising values, of stored reports."""
        rows = np.frombuffer(raw, np.uint8).reshape(-1, self.width)
        return unpack_sets(rows[:, 1:]).headed(rows[:, 0])

    def derive(self, keys: Sequence[bytes], first: int, top: bytes, *, start: int = 0) -> list[bytes]:
        """Return every tier from `start` down, path by path."""
        parts: list[list[bytes]] = []
        for path, offset, raw in self._parts(top):
            own = [hmac.digest(key, b"path %d" % path, hashlib.sha256) for key in keys]
            derived = self.chains[path].derive(own, first + offset, raw, start=start)
            parts.append([self._headed(path, tier) for tier in derived])
        return [b"".join(tier) for tier in zip(*parts, strict=True)]

    def count(self, rank: int, raw: bytes) -> Counts:
        """Return, for each path in turn, its reports and how many of them hold each value."""
        table = np.zeros((len(self.chains), 1 + self.domain_size), np.int64)
        for path, _, part in self._parts(raw):
            table[path, 0] += len(part) // (self.width - 1)
            table[path, 1:] += self.chains[path].count(rank, part)
        return table.reshape(-1)

    def count_bar(self, rank: int) -> float:
        """Return the half-width of one count from one report, at the planned shares."""
        return half_width_of(
            [
                (1 / chain.laws[rank].rates().gap * (share / 2**32) ** 0.5, 1)
                for chain, share in zip(self.chains, self.mixed.shares, strict=True)
            ]
        )

    def count_width(self, rank: int, reports: int) -> float:
        """Return the half-width of one count among so many reports, at the planned shares."""
        table = np.zeros((len(self.chains), 1 + self.domain_size), np.int64)
        table[:, 0] = np.ceil([share / 2**32 * reports for share in self.mixed.shares])
        return self.linear(rank, table.reshape(-1), reports, np.eye(1, self.domain_size)[0])[1]

    def linear(
        self, rank: int, counts: Counts, reports: int, weights: Weights, miss: Fraction = 1 - CONFIDENCE
    ) -> tuple[float, float]:
        """Return Σ over paths of each path's own estimate; what reports may do adds up over the people on each."""
        wanted, table = np.asarray(weights, np.float64), counts.reshape(-1, 1 + self.domain_size)
        held = [(chain.laws[rank], row) for chain, row in zip(self.chains, table, strict=True) if row[0]]
        counted = mixed_estimate([(law.rates(), row[1:], int(row[0])) for law, row in held])
        spans = [(set_span(law, wanted), int(row[0])) for law, row in held]
        return float(wanted @ counted), half_width_of(spans, [set_variance(law, wanted) for law, _ in held], miss)

    @cached_property
    def chains(self) -> tuple[SetsPlan, ...]:
        """Return each path's plan."""
        return tuple(SetsPlan.of("subset", path) for path in self.mixed.paths)

    def _parts(self, raw: bytes) -> Iterator[tuple[int, int, bytes]]:
        """Yield runs of one path: its number, where it starts, its sets."""
        rows = np.frombuffer(raw, np.uint8).reshape(-1, self.width)
        edges = [0, *(np.flatnonzero(np.diff(rows[:, 0])) + 1).tolist(), len(rows)]
        for start, end in pairwise(edges):
            path = int(rows[start, 0])
            if path >= len(self.chains):
                raise InvalidParameterError("report", f"a path from 0 to {len(self.chains) - 1}", path)
            yield path, start, rows[start:end, 1:].tobytes()

    def _headed(self, path: int, raw: bytes) -> bytes:
        sets = np.frombuffer(raw, np.uint8).reshape(-1, self.width - 1)
        return np.insert(sets, 0, path, axis=1).tobytes()
