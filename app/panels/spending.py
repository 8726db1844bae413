"""What devices spend, bound by the log without naming one: a root a round over who reported, under blind names.

A device stands under a commitment, keyed by panel and owner: the same in every round, so that its spending adds up, and
in another order than the reports, so that it cannot be laid beside them. Who holds no key learns nothing from a root.
"""

import hmac
from collections.abc import Callable, Collection, Iterable, Iterator
from dataclasses import dataclass
from hashlib import sha256
from typing import Annotated, TypeAlias

import msgspec
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDF

from app.log.disclosures import Extent, Signature, first_line
from app.log.heads import TreeHead, public_keys
from app.log.leaf_base import Hex
from app.log.merkle import Accumulator, leaf_hash
from app.log.panel_leaves import PanelLeaf, RoundLeaf
from app.log.proofs import Proved
from app.panels.replay import Checks
from tiers.audit.findings import Finding
from tiers.budget import nano_up
from tiers.noise.law import parse_rational

__all__ = ["FORMAT", "SPENDING", "SpendingReport", "blinding", "replay_spending", "root_of_round"]

FORMAT = "tiermarket-spending/2"
SPENDING = "devices/1"
"""What a panel's leaf says where each of its rounds has a root."""
_Rounds: TypeAlias = Annotated[list[Annotated[int, msgspec.Meta(ge=1)]], msgspec.Meta(min_length=1)]


class _Shown(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The first line: the panel's leaf and those of all its rounds, with proofs, and how many these are, signed."""

    format: str
    head: TreeHead
    panel: Proved
    rounds: Annotated[list[Proved], msgspec.Meta(min_length=1)]
    signature: Signature


@dataclass(frozen=True, slots=True)
class SpendingReport:
    """What a replay came to.

    Args:       rounds: those shown, all that the log had by the market's signature. size: of the log that they are in.
                most_nano, budget_nano: what the device that spent most has spent, and what each may, in 10⁻⁹ of ε.
    """

    panel: str
    size: int
    rounds: int
    devices: int
    most_nano: int
    budget_nano: int
    findings: tuple[Finding, ...]

    @property
    def verdict(self) -> str:
        """Return the outcome in a word."""
        return "refuted" if self.findings else "verified"


def blinding(secret: bytes, panel: str) -> Callable[[bytes], bytes]:
    """Return the map from a device's digest, as the panel's file keeps it, to its commitment.

    Example:
        >>> blinding(bytes(32), "p")(b"tag").hex()[:8] != blinding(bytes(32), "q")(b"tag").hex()[:8]
        True
    """
    info = b"tiermarket/panel-spending/1\n" + panel.encode()
    key = HKDF(algorithm=SHA256(), length=32, salt=None, info=info).derive(secret)
    return lambda tag: hmac.digest(key, tag, sha256)


def _entry(commitment: bytes, number: int, cost_nano: int) -> bytes:
    """Return the leaf of a device in a round's tree: its commitment, the round, and what the round cost it."""
    return commitment + number.to_bytes(8, "big") + cost_nano.to_bytes(8, "big")


def root_of_round(commitments: Iterable[bytes], number: int, cost_nano: int) -> str:
    """Return the root (RFC 6962) of a round over its devices' entries, commitments rising.

    Example:
        >>> root_of_round([b"a" * 32], 1, 5) == root_of_round([b"a" * 32], 2, 5)
        False
    """
    tree = Accumulator()
    for commitment in commitments:
        tree.append(leaf_hash(_entry(commitment, number, cost_nano)))
    return tree.root().hex()


def replay_spending(lines: Iterable[bytes], publics: Collection[str]) -> SpendingReport:
    """Return what an owner's file proves: nobody above the panel's budget, and the rounds as they are in the log.

    Every round costs the top tier's ε of the panel's leaf. Rounds from before the panel was in the log count against
    the budget as the file tells them; nothing binds them. Memory grows with rounds, not with devices.

    Args:       lines: the head, then a line a device, commitments rising: its commitment and its rounds. publics: as
                in `app.panels.replay.replay_round`.
    Raises:     AuditError: nothing to check, no key, or one that is none.
    """
    trusted = public_keys(publics)
    read = iter(lines)
    shown = first_line("spending", next(read, b""), {FORMAT: _Shown})
    checks = Checks(trusted, "spending")
    try:
        return _replayed(checks, shown, read)
    except (msgspec.MsgspecError, ValueError, LookupError) as error:
        checks.need(False, "A3", "unreadable-spending", "a line a device", type(error).__name__)
        return SpendingReport("", 0, 0, 0, 0, 0, tuple(checks.found))


def _replayed(checks: Checks, shown: _Shown, lines: Iterator[bytes]) -> SpendingReport:
    head = shown.head
    signed = any(head.signed_by(key) for key in checks.trusted)
    checks.need(signed, "A4", "head-signature", f"key {head.key}", "no trusted key")
    panel = checks.leaf(head, "panel", shown.panel, PanelLeaf)
    rounds = [checks.leaf(head, "round", each, RoundLeaf) for each in shown.rounds]
    if panel is None or None in rounds:
        return SpendingReport("", 0, 0, 0, 0, 0, tuple(checks.found))
    checks.extent(Extent(FORMAT, panel.panel, head, {"rounds": len(rounds)}), shown.signature)
    trees: dict[int, Accumulator] = {}
    roots: dict[int, tuple[str | None, int]] = {}
    bound, opening = panel.spending is not None, rounds[0]
    assert opening is not None
    entered = (opening.index, opening.at) == (panel.index + 1, panel.at)  # a panel from before panels were logged
    first = max(1, opening.record.round) if entered else 1
    for place, leaf in enumerate(rounds, start=first):
        assert leaf is not None
        record = leaf.record
        checks.round_of(panel, leaf)
        checks.need(record.round == place, "A4", "round-order", f"round {record.round}", f"round {place} is due")
        bound = bound or record.spent is not None
        told = record.spent is not None or not bound
        checks.need(told, "A3", "round-spending", f"round {place}", "no root of what devices spent")
        roots[place], trees[place] = (record.spent, record.reports), Accumulator()
    cost = nano_up(parse_rational("epsilon", panel.tiers[0].epsilon))
    decoder = msgspec.json.Decoder(tuple[Hex, _Rounds])
    last, devices, most = "", 0, 0
    for line in lines:
        name, taken = decoder.decode(line)
        checks.need(name > last, "A3", "device-once", f"device {devices + 1}", "commitments that do not rise")
        checks.need(taken == sorted(set(taken)), "A3", "device-once", f"device {devices + 1}", "a round told twice")
        spent = cost * len(taken)
        within = spent <= panel.budget_nano
        checks.need(within, "A3", "device-budget", f"device {devices + 1}: {spent}", f"at most {panel.budget_nano}")
        for number in taken:
            if number >= first:
                trees[number].append(leaf_hash(_entry(bytes.fromhex(name), number, cost)))
        last, devices, most = name, devices + 1, max(most, spent)
    for number, (root, reports) in roots.items():
        if root is not None:
            counted = trees[number].frontier().size
            checks.need(counted == reports, "A3", "spending-count", f"{reports} reports of round {number}", counted)
            same = trees[number].root().hex() == root
            checks.need(same, "A3", "spending-root", f"round {number}", "other devices than the log binds")
    return SpendingReport(panel.panel, head.size, len(rounds), devices, most, panel.budget_nano, tuple(checks.found))
