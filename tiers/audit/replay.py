"""A7: commitments open, and every draw that may be replayed re-derives its answer bit for bit."""

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import lru_cache

from tiers.audit.findings import Finding
from tiers.audit.provenance import due_sampler
from tiers.audit.records import ChainKey, DrawRecord, Evidence, History
from tiers.chain import answer_bytes, answer_of
from tiers.errors import TierError
from tiers.identity import TierLaw, commitment, key_hash
from tiers.noise.tsg import TwoSidedGeometric
from tiers.rank import more_accurate

__all__ = ["NotReplayable", "Replay", "openable", "replay", "replay_chain", "replayable"]

_REACH = 256
"""Two-sided geometric noise of one rate exceeds 128/rate with probability below 2⁻¹⁸⁰; twice that, for two steps."""


@dataclass(frozen=True, slots=True)
class NotReplayable:
    """A draw whose key nobody may have, with the reason."""

    chain: str
    law: str
    reason: str


@dataclass(frozen=True, slots=True)
class Replay:
    """What was replayed, what may not be, what broke, and the answers that opened (for statistics)."""

    replayed: int
    opened: int
    not_replayable: tuple[NotReplayable, ...]
    findings: tuple[Finding, ...]
    answers: Mapping[ChainKey, tuple[int, ...]]


def openable(law: TierLaw, highest_issued: TierLaw | None) -> bool:
    """Return whether an auditor may open this tier's answer: it lies at or below the chain's highest issued rank."""
    return highest_issued is not None and not more_accurate(law, highest_issued)


def replayable(draw: DrawRecord, highest_issued: TierLaw | None) -> str | None:
    """Return None if the draw's key may be disclosed to an auditor, else the reason why not."""
    if draw.spec.role.reads_truth:
        return "a truth draw: its key would reveal the true answer"
    if not all(openable(parent, highest_issued) for parent in draw.spec.parents):
        return "a parent lies above the chain's highest issued tier"
    return None


def replay_chain(draws: Iterable[DrawRecord], highest_issued: TierLaw | None, evidence: Evidence) -> Replay:
    """Open every openable answer of one chain, replay its replayable draws, and refuse what nobody may hold.

    Args:       draws: in the order of drawing. evidence: of this chain alone.
    """
    found: list[Finding] = []
    answers: dict[tuple[str, str], tuple[int, ...]] = {}
    closed: list[NotReplayable] = []
    replayed, known = 0, set()
    for draw in draws:
        name = (draw.spec.chain, draw.spec.law.identity)
        known.add(name)
        opened = _open(draw, evidence, allowed=openable(draw.spec.law, highest_issued))
        if isinstance(opened, Finding):
            found.append(opened)
        elif opened is not None:
            answers[name] = opened
        reason = replayable(draw, highest_issued)
        if reason is not None:
            closed.append(NotReplayable(*name, reason))
            if name in evidence.keys:
                found.append(Finding("A7", "forbidden-key", _where(draw), "a key that may be disclosed", reason))
            continue
        problem = _replay_one(draw, evidence, answers)
        replayed += problem is None
        if problem is not None:
            found.append(problem)
    for stray in (set(evidence.openings) | set(evidence.keys)) - known:
        found.append(Finding("A7", "evidence-of-nothing", f"chain {stray[0][:12]}", stray[1][:12], "no such draw"))
    return Replay(replayed, len(answers), tuple(closed), tuple(found), answers)


def replay(history: History, evidence: Evidence) -> Replay:
    """Replay every chain of a history that is at hand as a whole."""
    highest = history.highest_issued()
    chains: dict[str, dict[str, DrawRecord]] = {}
    for draw in history.draws:
        chains.setdefault(draw.spec.chain, {}).setdefault(draw.spec.law.identity, draw)
    held: dict[str, tuple[dict[ChainKey, tuple[bytes, tuple[int, ...]]], dict[ChainKey, bytes]]] = {}
    for name, opening in evidence.openings.items():
        held.setdefault(name[0], ({}, {}))[0][name] = opening
    for name, key in evidence.keys.items():
        held.setdefault(name[0], ({}, {}))[1][name] = key
    outcomes = [
        replay_chain(chains.get(chain, {}).values(), highest.get(chain), Evidence(*held.get(chain, ({}, {}))))
        for chain in {**chains, **dict.fromkeys(held)}
    ]
    return Replay(
        sum(outcome.replayed for outcome in outcomes),
        sum(outcome.opened for outcome in outcomes),
        tuple(closed for outcome in outcomes for closed in outcome.not_replayable),
        tuple(finding for outcome in outcomes for finding in outcome.findings),
        {name: answer for outcome in outcomes for name, answer in outcome.answers.items()},
    )


def _far(draw: DrawRecord, answers: list[tuple[int, ...]]) -> bool:
    """Whether a draw and its parents lie further apart than noise of these rates ever does (2⁻¹²⁸ an entry)."""
    limit = _limit(draw.spec.law, draw.spec.parents)
    if limit is None:
        return False
    if len(answers) == 2:
        return any(abs(own - above) > limit for own, above in zip(*answers, strict=True))
    return any(max(entries) - min(entries) > limit for entries in zip(*answers, strict=True))


@lru_cache(maxsize=4096)
def _limit(law: TierLaw, parents: tuple[TierLaw, ...]) -> int | None:
    """How far entries may lie apart; None for families whose samplers do not mind."""
    noises = [each.noise for each in (law, *parents)]
    rates = [noise.rate for noise in noises if isinstance(noise, TwoSidedGeometric)]
    return math.ceil(_REACH / min(rates)) if len(rates) == len(noises) else None


def _where(draw: DrawRecord) -> str:
    return f"leaf {draw.leaf}"


def _open(draw: DrawRecord, evidence: Evidence, *, allowed: bool) -> tuple[int, ...] | Finding | None:
    held = evidence.openings.get((draw.spec.chain, draw.spec.law.identity))
    if not allowed:
        if held is None:
            return None
        return Finding("A7", "forbidden-opening", _where(draw), "an issued rank", "above the highest issued tier")
    if held is None:
        return Finding("A7", "missing-opening", _where(draw), "an opening of an issued tier", "none in the export")
    opening, answer = held
    if len(answer) != draw.spec.length:
        return Finding("A7", "answer-length", _where(draw), str(draw.spec.length), str(len(answer)))
    sealed = commitment(opening, draw.spec.chain, draw.spec.law, answer_bytes(answer))
    if sealed != draw.commitment:
        return Finding("A7", "commitment", _where(draw), draw.commitment[:16], sealed[:16])
    return answer


def _replay_one(
    draw: DrawRecord, evidence: Evidence, answers: dict[tuple[str, str], tuple[int, ...]]
) -> Finding | None:
    name = (draw.spec.chain, draw.spec.law.identity)
    key = evidence.keys.get(name)
    if key is None:
        return Finding("A7", "missing-key", _where(draw), "the key of a replayable draw", "none in the export")
    if key_hash(key) != draw.key_hash:
        return Finding("A7", "key", _where(draw), draw.key_hash[:16], key_hash(key)[:16])
    parents = [answers.get((draw.spec.chain, parent.identity)) for parent in draw.spec.parents]
    known = [parent for parent in parents if parent is not None]
    answer = answers.get(name)
    if len(known) != len(parents) or answer is None:
        return Finding("A7", "unopened", _where(draw), "answers of the draw and its parents", "not all opened")
    if draw.spec.sampler != due_sampler(draw.spec):
        return Finding("A7", "sampler", _where(draw), draw.spec.sampler[:60], "not the sampler of such a draw")
    if _far(draw, [answer, *known]):
        return Finding("A7", "reach", _where(draw), "answers that keyed noise can reach", "a gap beyond its tails")
    try:
        derived = answer_of(draw.spec, key, known)
    except (TierError, ArithmeticError) as error:
        return Finding("A7", "sampler", _where(draw), draw.spec.sampler[:60], str(error))
    if derived != answer:
        return Finding("A7", "replay", _where(draw), "the answer that parent and key give", "another answer")
    return None
