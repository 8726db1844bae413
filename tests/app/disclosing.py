"""Signing what a disclosure holds anew: what the market itself would sign of a file that lies."""

from typing import Any

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from app.log.heads import sign_document
from tests.audit.exports import SIGNER


def extent_signature(
    line: dict[str, Any], key: Ed25519PrivateKey = SIGNER, purpose: str = "disclosure", **holds: int
) -> str:
    """A signature over what the first line's own covers, but for how much there is."""
    head = {name: each for name, each in line["head"].items() if name != "signature"}
    covered = {"format": line["format"], "panel": line["panel"]["leaf"]["panel"], "head": head, "holds": holds}
    return sign_document(purpose, covered, key)
