"""The auditor's check of a location panel, offline: every person's filter replayed, every answer read again.

A disclosure is a file of lines: what the log says of the panel and how many answered questions follow, signed; then for
each its leaf, its openings and its answer, and a line a round with whom it asked and what was released. No noise is
needed: who is asked next, what each is charged and what is answered are functions of values that were released before.
"""

import base64
import binascii
import hmac
import zlib
from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass
from typing import Annotated, Any

import msgspec
import numpy as np
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

from app.audit.locations import LocationAudit
from app.audit.reading import UNREADABLE
from app.errors import AppError
from app.locations.answers import answer_document
from app.locations.questions import ask_rounds, read_question
from app.locations.terms import Terms
from app.locations.transcript import ANSWER, LEDGER, TRANSCRIPT, Transcript, committed, committed_ledger
from app.locations.wire import DensityQuestion
from app.log.disclosures import Extent, Signature, first_line, read_line
from app.log.heads import TreeHead, public_keys
from app.log.leaf_base import Hex
from app.log.location_leaves import LocationAnswerLeaf, LocationLeaf, LocationRound
from app.log.proofs import Proved
from tiers.accounting.people import Nanos, People, PeopleLedger
from tiers.adaptive.replay import replaying
from tiers.adaptive.space import Places
from tiers.audit.findings import Finding
from tiers.canonical import canonical_bytes

__all__ = ["FORMAT", "LINE_LIMIT", "LocationReport", "replay_location"]

FORMAT = "tiermarket-locations/2"
LINE_LIMIT = 2**25


class _Head(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    format: str
    head: TreeHead
    panel: Proved
    answers: Annotated[int, msgspec.Meta(ge=0, le=2**31)]
    signature: Signature


class _Openings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    transcript: Hex = msgspec.field(name=TRANSCRIPT)
    ledger: Hex = msgspec.field(name=LEDGER)
    answer: Hex = msgspec.field(name=ANSWER)


class _Answer(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    leaf: Proved
    openings: _Openings
    answer: dict[str, Any]


class _Round(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    round: int
    asked: str
    values: str


@dataclass(frozen=True, slots=True)
class LocationReport:
    """What a replay came to: "verified" where nothing was found.

    Args:       size: of the log under whose head the file was made. people: n. answers: how many were replayed.
                charges: how many decisions of people's filters. most_spent_nano: of one person, after all of them,
                beside everybody's budget.
    """

    panel: str
    size: int
    people: int
    answers: int
    charges: int
    most_spent_nano: int
    budget_nano: int
    findings: tuple[Finding, ...]

    @property
    def verdict(self) -> str:
        """Return the outcome in a word."""
        return "refuted" if self.findings else "verified"


def replay_location(lines: Iterable[bytes], publics: Collection[str]) -> LocationReport:
    """Return what a disclosure proves: nobody is above budget, each round charged what its law costs, answers follow.

    All questions that were answered under the file's head are in it, by the market's signature.

    Args:       lines: the disclosure, line by line. publics: the market's public keys (hex), got from elsewhere; one of
                them must have signed the head, and how many answers the file holds.
    Raises:     AuditError: nothing to check, no key, or one that is none.
    """
    trusted = public_keys(publics)
    read = iter(lines)
    return _Replay(first_line("location panel", next(read, b""), {FORMAT: _Head}), trusted).report(read)


class _StoppedError(Exception):
    """What follows cannot be replayed; why is among the findings."""


class _Replay:
    """One disclosure while it is read."""

    def __init__(self, head: _Head, trusted: list[Ed25519PublicKey]) -> None:
        self.head, self.trusted, self.found = head, trusted, list[Finding]()
        self.audit, self.answers, self.charges = LocationAudit(), 0, 0
        self.where = "panel"

    def need(self, holds: bool, check: str, rule: str, claimed: object, otherwise: object) -> bool:
        if not holds:
            self.found.append(Finding(check, rule, self.where, str(claimed)[:60], str(otherwise)[:200]))
        return holds

    def report(self, lines: Iterator[bytes]) -> LocationReport:
        signed = any(self.head.head.signed_by(key) for key in self.trusted)
        self.need(signed, "A4", "head-signature", f"key {self.head.head.key}", "no trusted key")
        panel, ledger = self._leaf(self.head.panel, LocationLeaf), None
        if panel is None:
            return LocationReport("", self.head.head.size, 0, 0, 0, 0, 0, tuple(self.found))
        self._extent(panel)
        self.found += self.audit.panel(panel, {panel.snapshot: panel.lineage})
        terms = self.audit.terms.get(panel.panel)
        try:
            ledger = None if terms is None else terms.unspent
            while terms is not None and ledger is not None and (line := next(lines, None)) is not None:
                ledger = self._answer(terms, panel, ledger, line, lines)
        except _StoppedError:
            pass
        except (msgspec.MsgspecError, AppError, LookupError, AssertionError, *UNREADABLE) as error:
            self.need(False, "A7", "unreadable-location", "one that can be replayed", type(error).__name__)
        self.where = "panel"
        self.need(self.answers == self.head.answers, "A7", "answers", self.head.answers, self.answers)
        most = 0 if ledger is None else int(ledger.spent.max())
        told = (self.head.head.size, panel.people, self.answers, self.charges, most, panel.budget_nano)
        return LocationReport(panel.panel, *told, tuple(self.found))

    def _extent(self, panel: LocationLeaf) -> None:
        """Hold how many answers the file says it has against the market's signature, and the log's length."""
        head, answers = self.head.head, self.head.answers
        extent = Extent(FORMAT, panel.panel, head, {"answers": answers})
        signed = extent.signed(self.head.signature, self.trusted)
        self.need(
            signed, "A4", "disclosure-signature", f"{answers} answers", "no trusted key signed so many of it here"
        )
        after = head.size - panel.index - 1
        self.need(answers <= after, "A4", "disclosure-size", f"{answers} answers", f"{after} leaves after the panel's")

    def _leaf(self, proved: Proved, kind: Any) -> Any:
        try:
            leaf, _, included = proved.read(self.head.head)
        except (msgspec.MsgspecError, *UNREADABLE):
            self.need(False, "A4", "unreadable-leaf", self.where, "no leaf of a known kind")
            return None
        self.need(included, "A4", "inclusion", f"leaf {leaf.index}", "the proof does not lead to the head")
        return leaf if self.need(isinstance(leaf, kind), "A4", "leaf-kind", self.where, type(leaf).__name__) else None

    def _answer(
        self, terms: Terms, panel: LocationLeaf, ledger: PeopleLedger, line: bytes, lines: Iterator[bytes]
    ) -> PeopleLedger:
        """Replay one question; return everybody's ledger after it."""
        self.answers += 1
        self.where = f"question {self.answers}"
        shown = read_line(line, _Answer)
        leaf: LocationAnswerLeaf | None = self._leaf(shown.leaf, LocationAnswerLeaf)
        if leaf is None:
            raise _StoppedError
        self.need(leaf.panel == panel.panel, "A4", "panel-of-answer", leaf.panel, panel.panel)
        self.found += self.audit.answer(leaf)
        openings = shown.openings
        rounds = _Rounds(self, terms.people, Transcript(bytes.fromhex(openings.transcript)), lines)
        question = read_question(leaf.question)
        answer = ask_rounds(terms, question, leaf.budget_nano, ledger, replaying(ledger, rounds))
        charged = [each.most_nano for each in leaf.rounds]
        self.need(
            rounds.told == leaf.rounds, "A3", "charge-of-round", charged, [each.most_nano for each in rounds.told]
        )
        most = int(answer.spent.max())
        self.need(leaf.most_nano in (None, most), "A3", "charge-of-question", str(leaf.most_nano), str(most))
        self._same("A7", "transcript", leaf.transcript, rounds.transcript.commitment())
        self._same("A3", "ledger", leaf.ledger, committed_ledger(bytes.fromhex(openings.ledger), answer.ledger.spent))
        document = answer_document(answer, float(question.bandwidth) if isinstance(question, DensityQuestion) else None)
        same = canonical_bytes(shown.answer) == canonical_bytes(document)  # 0 is no false, and no 0.0
        self.need(same, "A7", "answer-of-rounds", "the answer that was sold", "the rounds say another")
        self._same("A7", "answer", leaf.answer, committed(bytes.fromhex(openings.answer), document))
        self.charges += sum(each.asked for each in rounds.told)
        return answer.ledger

    def _same(self, check: str, rule: str, claimed: str, found: str) -> None:
        self.need(hmac.compare_digest(claimed, found), check, rule, claimed[:16], found[:16])


class _Rounds:
    """Reads rounds off the file as they are due: of those whom their own filters and the values before admit."""

    def __init__(self, replay: _Replay, people: int, transcript: Transcript, lines: Iterator[bytes]) -> None:
        self._replay, self._people, self._lines = replay, people, lines
        self.transcript, self.told = transcript, list[LocationRound]()

    def __call__(self, place: int, who: People, charges: Nanos) -> Places:
        need = self._replay.need
        shown = read_line(next(self._lines, b""), _Round)
        asked = np.unpackbits(
            np.frombuffer(_inflated(shown.asked, -(-self._people // 8)), np.uint8), count=self._people
        )
        due = np.zeros(self._people, np.uint8)
        due[who] = 1
        if not need(shown.round == place + 1, "A3", "round-order", f"round {shown.round}", f"round {place + 1} is due"):
            raise _StoppedError
        if not need(np.array_equal(asked, due), "A3", "asked", f"{int(asked.sum())} people", f"{len(who)} were due"):
            raise _StoppedError
        values = np.frombuffer(_inflated(shown.values, 8 * len(who)), "<i8").astype(np.int64)
        self.told.append(LocationRound(asked=len(who), most_nano=int(charges.max(initial=0))))
        self.transcript.round(place, who, values)
        return values


def _inflated(text: str, size: int) -> bytes:
    """Return packed bytes, whole and of the size that is due; raises ValueError."""
    try:
        stream = zlib.decompressobj()
        raw = stream.decompress(base64.b64decode(text, validate=True), size + 1)
    except (zlib.error, binascii.Error):
        raw = b""
    if len(raw) != size or not stream.eof or stream.unused_data:
        raise ValueError(f"values: expected {size} packed bytes, got others")
    return raw
