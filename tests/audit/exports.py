"""An export taken apart, spoilt, and put together again under a market's own signature."""

import json
from dataclasses import dataclass, field
from typing import Any

import msgspec
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from app.audit.verify import AuditReport, verify_export
from app.log.heads import TreeHead, public_hex, public_key, sign
from app.log.merkle import leaf_hash, root_of
from app.log.panel_leaves import RoundRecord
from tiers.canonical import canonical_bytes
from tiers.identity import TierLaw

SIGNER = Ed25519PrivateKey.from_private_bytes(bytes(range(32)))


@dataclass
class Export:
    """An export taken apart, so that a test can spoil one thing and put it together again."""

    public: str
    header: dict[str, Any]
    leaves: list[dict[str, Any]] = field(default_factory=list)
    openings: list[dict[str, Any]] = field(default_factory=list)
    keys: list[dict[str, Any]] = field(default_factory=list)

    def lines(self) -> list[bytes]:
        evidence = [*self.openings, *self.keys]
        chains = [json.dumps(record.get("chain")) for record in evidence]
        together = [evidence[at] for at in sorted(range(len(chains)), key=lambda at: chains.index(chains[at]))]
        return [json.dumps(record).encode() for record in (self.header, *self.leaves, *together)]

    def verify(self, **how: Any) -> AuditReport:
        return verify_export(self.lines(), self.public, **how)

    def signed_anew(self, *, announce: bool = True) -> "Export":
        """The same claims under a fresh log and head: what a market with a bad will would publish."""
        for leaf in self.kind("panel-round") if announce else []:
            self._sign_round(leaf)
        for leaf in self.kind("key-epoch"):
            if announce and leaf["purpose"] == "signing" and leaf["public_key"] == self.public:
                leaf["public_key"] = public_hex(SIGNER)
        at = max((record["leaf"]["at"] for record in self.leaves), default="2026-01-01T00:00:00Z")
        for index, record in enumerate(self.leaves):
            record["leaf"]["index"] = record["index"] = index
            record["hash"] = leaf_hash(canonical_bytes(record["leaf"])).hex()
        root = root_of(bytes.fromhex(record["hash"]) for record in self.leaves)
        head = sign(len(self.leaves), root, at, 1, SIGNER)
        self.public = public_hex(SIGNER)
        fields = {name: getattr(head, name) for name in TreeHead.__struct_fields__}
        self.header = {**self.header, "head": fields, "public_key": self.public}
        return self

    def _sign_round(self, leaf: dict[str, Any]) -> None:
        """Sign what the market's own key had signed; a false record stays as falsely signed as it is."""
        record = msgspec.convert(leaf["record"], RoundRecord)
        try:
            public_key(self.public).verify(bytes.fromhex(leaf["signature"]), record.encode())
        except InvalidSignature:
            return
        leaf["signature"] = SIGNER.sign(record.encode()).hex()

    def kind(self, name: str) -> list[dict[str, Any]]:
        return [record["leaf"] for record in self.leaves if record["leaf"]["kind"] == name]


def parse(lines: list[bytes], public: str) -> Export:
    records = [json.loads(line) for line in lines]
    kinds: dict[str, list[dict[str, Any]]] = {"leaf": [], "opening": [], "key": []}
    for record in records[1:]:
        kinds[record["record"]].append(record)
    return Export(public, records[0], kinds["leaf"], kinds["opening"], kinds["key"])


def law_id(document: dict[str, Any]) -> str:
    return TierLaw.from_document(document).identity


def found(report: AuditReport) -> set[str]:
    assert report.verdict == ("refuted" if report.findings else "verified")
    return {f"{finding.check} {finding.rule}" for finding in report.findings}
