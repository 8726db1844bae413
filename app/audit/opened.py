"""What an export opens of its chains, held against their draws: A7, chain by chain."""

from collections.abc import Callable, Sequence
from dataclasses import replace

from app.audit.export import KeyRecord, OpeningRecord
from app.audit.pictures import ChainPicture, picture_of
from app.audit.statistics import EdgeCheck, opened_edges
from app.audit.stream import BROKEN, LogAudit
from tiers.audit.findings import Finding
from tiers.audit.provenance import ChainDraws
from tiers.audit.records import ChainKey, Evidence
from tiers.audit.replay import NotReplayable, Replay, replay_chain

__all__ = ["PICTURES_LIMIT", "OpenedChains"]

PICTURES_LIMIT = 24
"""Chains that a report shows; those with findings come in addition, as many again."""
_NOTHING = Replay(0, 0, (), (), {})


class OpenedChains:
    """Openings and keys while they are read; none is kept longer than its chain needs it.

    Args:       log: what the leaves before them came to. edges: statistical checks, fed with the noise that is opened.
                say: takes a finding.
    """

    def __init__(self, log: LogAudit, edges: Sequence[EdgeCheck], say: Callable[[Finding], None]) -> None:
        self._log, self._edges, self._say = log, edges, say
        self._openings: dict[ChainKey, tuple[bytes, tuple[int, ...]]] = {}
        self._keys: dict[ChainKey, bytes] = {}
        self._chain: str | None = None
        self._settled: set[str] = set()
        self.opened = self.replayed = 0
        self.closed: list[NotReplayable] = []
        self._whole: list[ChainPicture] = []
        self._broken: list[ChainPicture] = []

    @property
    def begun(self) -> bool:
        """Return whether a chain's openings or keys have been read."""
        return self._chain is not None

    @property
    def pictures(self) -> tuple[ChainPicture, ...]:
        """Return the chains to show: first those with findings."""
        return (*self._broken, *self._whole)

    def finish(self) -> None:
        """Settle the chain at hand, and then each of which nothing was opened."""
        self._settle()
        for chain in self._log.chains():
            if chain not in self._settled:
                self._chain = chain
                self._settle()

    def take(self, record: OpeningRecord | KeyRecord, where: str) -> None:
        """Take an opening or a key: what is not of the chain at hand settles that one."""
        draw = self._log.provenance.chains.get(record.chain, ChainDraws()).draws.get(record.law)
        if draw is None and record.chain not in self._settled:  # not kept: a file may hold any number of them
            place = f"chain {record.chain[:12]}"
            self._say(Finding("A7", "evidence-of-nothing", place, record.law[:12], "no such draw"))
            return
        if record.chain != self._chain:
            self._settle()
            self._chain = record.chain
        if record.chain in self._settled:
            self._say(Finding("A4", "record-order", where, "one chain's openings and keys together", "more of them"))
            return
        name = (record.chain, record.law)
        if isinstance(record, OpeningRecord):
            if name in self._openings:
                self._say(Finding("A4", "repeated-record", where, "one opening a tier", "a second"))
            enough = 1 + (0 if draw is None else draw.spec.length)
            answer = tuple(int(value) for value in record.answer[:enough])
            self._openings[name] = (bytes.fromhex(record.opening), answer)
        else:
            if name in self._keys:
                self._say(Finding("A4", "repeated-record", where, "one key a draw", "a second"))
            self._keys[name] = bytes.fromhex(record.key)

    def _settle(self) -> None:
        """Hold what was opened of the chain at hand against its draws, and let both go."""
        chain = self._chain
        if chain is None or chain in self._settled:
            return
        self._settled.add(chain)
        drawn = self._log.provenance.chains.get(chain) or ChainDraws()
        evidence = Evidence(self._openings, self._keys)
        self._openings, self._keys = {}, {}
        outcome, found = _NOTHING, list[Finding]()
        try:
            outcome = replay_chain(drawn.draws.values(), drawn.issued, evidence)
            found = [replace(finding, chain=chain) for finding in outcome.findings]
            for edge in opened_edges(drawn.draws.values(), outcome.answers) if self._edges else ():
                for check in self._edges:
                    check.take(edge)
        except BROKEN as error:
            wanted = "one that can be checked"
            found = [Finding("A4", "unreadable-log", f"chain {chain[:12]}", wanted, type(error).__name__, chain=chain)]
        for finding in found:
            self._say(finding)
        self.replayed += outcome.replayed
        self.opened += outcome.opened
        self.closed += outcome.not_replayable
        self._picture(chain, drawn, outcome, found)
        drawn.draws.clear()

    def _picture(self, chain: str, drawn: ChainDraws, outcome: Replay, found: list[Finding]) -> None:
        kept = self._broken if found else self._whole
        if len(kept) >= PICTURES_LIMIT or chain not in self._log.plans:
            return
        of_log = [finding for finding in self._log.found if finding.chain == chain][:PICTURES_LIMIT]
        try:
            kept.append(picture_of(chain, self._log.plans[chain], drawn, outcome, [*of_log, *found]))
        except BROKEN:
            return  # the findings stand without a picture
