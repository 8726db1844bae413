"""A panel's tiers from its reports, run by run: each step under a key of its own, the same reports in every retry."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Protocol

import numpy as np
import numpy.typing as npt
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDF

from tiers.canonical import Document, canonical_bytes
from tiers.errors import InvalidParameterError
from tiers.local.columns.large import LargeStep, singletons, words_of
from tiers.local.columns.small import SMALL_DOMAIN, SmallStep
from tiers.local.planning import SubsetPlan
from tiers.local.signal import keep
from tiers.local.subset import Subset
from tiers.real import Real
from tiers.sampling.words import STREAM_VERSION, KeyedWords

__all__ = ["SAMPLER", "Identified", "SubsetChain", "check_sets", "encode_sets", "report_key", "step_for"]

Sets = npt.NDArray[np.unsignedinteger]
SAMPLER = "subset-columns/2"


class Identified(Protocol):
    """A law that its texts identify."""

    @property
    def family(self) -> str:
        """Return the name of its kind."""
        ...

    def parameters(self) -> dict[str, str]:
        """Return the canonical texts."""
        ...


def report_key(secret: bytes, panel: str, upper: Identified, lower: Identified) -> bytes:
    """Return the key of one step of a panel: HKDF-SHA256 over what distinguishes it; a report's number does the rest.

    Raises:     InvalidParameterError: a secret that is not 32 bytes.
    Example:
        >>> from fractions import Fraction
        >>> one, two = Subset.paying(9, 1, Fraction(2)), Subset.paying(9, 2, Fraction(1))
        >>> report_key(bytes(32), "p", one, two) == report_key(bytes(32), "q", one, two)
        False
    """
    if len(secret) != 32:
        raise InvalidParameterError("panel secret", "32 bytes", f"{len(secret)} bytes")
    document: dict[str, Document] = {
        "lower": lower.parameters(),
        "panel": panel,
        "sampler": SAMPLER,
        "stream": STREAM_VERSION,
        "upper": upper.parameters(),
    }
    info = b"tiermarket/panel-step/1\n" + canonical_bytes(document)
    return HKDF(algorithm=SHA256(), length=32, salt=None, info=info).derive(secret)


def step_for(domain_size: int, above_size: int, below_size: int, probability: Real) -> SmallStep | LargeStep:
    """Return the kernel of a step: by table up to 16 values, else down the tree."""
    kind = SmallStep if domain_size <= SMALL_DOMAIN else LargeStep
    return kind(domain_size, above_size, below_size, probability)


def encode_sets(law: Subset, words: KeyedWords, first: int, values: npt.NDArray[np.integer]) -> Sets:
    """Return everybody's report from everybody's value: what devices do one by one, for data that are at hand.

    Raises:     InvalidParameterError: a value outside the domain.
    Example:
        >>> from fractions import Fraction
        >>> encode_sets(Subset.paying(9, 2, Fraction(1)), KeyedWords(bytes(32)), 0, np.arange(9)).shape
        (9,)
    """
    if len(values) and not 0 <= int(values.min()) <= int(values.max()) < law.domain_size:
        raise InvalidParameterError("value", f"an integer from 0 to {law.domain_size - 1}", "one outside")
    step = step_for(law.domain_size, 1, law.subset_size, law.signal.ball)
    if isinstance(step, SmallStep):
        return step.apply(words, first, np.left_shift(np.uint16(1), values.astype(np.uint16)))
    return step.apply(words, first, singletons(law.domain_size, values))


def check_sets(law: Subset, sets: Sets) -> Sets:
    """Return reports as they are; refuses a wrong shape, a set of the wrong size, and values outside the domain.

    Raises:     InvalidParameterError: with the number of the first bad report.
    Example:
        >>> from fractions import Fraction
        >>> check_sets(Subset.paying(9, 2, Fraction(1)), np.array([0b11, 0b101], np.uint16)).tolist()
        [3, 5]
    """
    small = law.domain_size <= SMALL_DOMAIN
    right = sets.dtype == np.uint16 and sets.ndim == 1
    if not small:
        right = sets.dtype == np.uint64 and sets.ndim == 2 and sets.shape[0] == words_of(law.domain_size)
    if not right:
        raise InvalidParameterError("reports", f"sets of {law.domain_size} values", f"{sets.dtype} {sets.shape}")
    sizes = np.bitwise_count(sets) if small else np.bitwise_count(sets).sum(axis=0, dtype=np.int64)
    last = sets if small else sets[-1]
    bits = law.domain_size if small else law.domain_size - 64 * (len(sets) - 1)
    beyond = (last >> np.uint16(bits)) != 0 if bits < 8 * last.itemsize else np.zeros(len(last), np.bool_)
    bad = np.flatnonzero((sizes != law.subset_size) | beyond)
    if len(bad):
        rule = f"a set of {law.subset_size} of {law.domain_size} values"
        raise InvalidParameterError(f"report {int(bad[0])}", rule, f"{int(sizes[bad[0]])} values")
    return sets


@dataclass(frozen=True, slots=True)
class SubsetChain:
    """The steps of a planned chain, ready to run.

    Guarantee:  report j of tier i is the same in any run, chunk, order or process with the same secret and panel.
    """

    plan: SubsetPlan
    steps: tuple[SmallStep | LargeStep, ...]
    keys: tuple[bytes, ...]

    @classmethod
    def of(cls, plan: SubsetPlan, secret: bytes, panel: str) -> "SubsetChain":
        """Return the chain of a panel; builds its tables once.

        Example:
            >>> from tiers.budget import Ladder
            >>> from tiers.local.planning import plan_subset
            >>> chain = SubsetChain.of(plan_subset(9, Ladder.parse(["2", "1"])), bytes(32), "panel")
            >>> [tier.shape for tier in chain.derive(0, np.array([1, 2, 4], np.uint16))]
            [(3,), (3,)]
        """
        steps, keys = [], []
        for upper, lower in pairwise(plan.tiers):
            probability = keep(upper.signal, lower.signal)
            steps.append(step_for(upper.domain_size, upper.subset_size, lower.subset_size, probability))
            keys.append(report_key(secret, panel, upper, lower))
        return cls(plan, tuple(steps), tuple(keys))

    def derive(self, first: int, top: Sets) -> list[Sets]:
        """Return every tier of reports `first`, `first + 1`, …, the given top one included.

        Raises:     InvalidParameterError: a report that the top mechanism cannot give.
        """
        tiers = [check_sets(self.plan.tiers[0], top)]
        for step, key in zip(self.steps, self.keys, strict=True):
            tiers.append(step.apply(KeyedWords(key), first, tiers[-1]))
        return tiers

    def stream(self, runs: Iterable[Sets], first: int = 0) -> Iterator[Sequence[Sets]]:
        """Yield the tiers of each run of reports, numbered on: memory holds one run at a time."""
        for run in runs:
            yield self.derive(first, run)
            first += run.shape[-1]
