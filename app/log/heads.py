"""Signed tree heads: the market's word on how long its log is and what it holds (Ed25519)."""

from collections.abc import Iterable
from typing import Annotated

import msgspec
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

from app.log.leaf_base import Hex, Natural
from tiers.canonical import Document, canonical_bytes
from tiers.errors import AuditError

__all__ = ["TreeHead", "public_hex", "public_key", "public_keys", "sign", "sign_document", "verify_document"]


class TreeHead(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The head of a log of `size` leaves; `signature` covers all other fields, canonically."""

    size: Natural
    root: Hex
    at: Annotated[str, msgspec.Meta(max_length=40)]
    key: Annotated[int, msgspec.Meta(ge=1, le=2**31)]
    signature: Annotated[str, msgspec.Meta(pattern=r"^[0-9a-f]{128}\Z")]

    def signed_by(self, public: Ed25519PublicKey) -> bool:
        """Return whether the signature is this key's."""
        return verify_document("head", self.body(), self.signature, public)

    def body(self) -> dict[str, Document]:
        """Return what the signature covers."""
        return {"at": self.at, "key": self.key, "root": self.root, "size": self.size}


def sign(size: int, root: bytes, at: str, key_number: int, private: Ed25519PrivateKey) -> TreeHead:
    """Return the signed head of a tree."""
    body: dict[str, Document] = {"at": at, "key": key_number, "root": root.hex(), "size": size}
    signature = sign_document("head", body, private)
    return TreeHead(size=size, root=root.hex(), at=at, key=key_number, signature=signature)


def sign_document(purpose: str, document: Document, private: Ed25519PrivateKey) -> str:
    """Return the hex signature over a purpose and a canonical document: no signature serves two purposes."""
    return private.sign(_message(purpose, document)).hex()


def verify_document(purpose: str, document: Document, signature: str, public: Ed25519PublicKey) -> bool:
    """Return whether the signature over purpose and document is the key's."""
    try:
        public.verify(bytes.fromhex(signature), _message(purpose, document))
    except (InvalidSignature, ValueError):
        return False
    return True


def public_hex(private: Ed25519PrivateKey) -> str:
    """Return the raw public key as 64 hex digits."""
    return private.public_key().public_bytes(Encoding.Raw, PublicFormat.Raw).hex()


def public_key(text: str) -> Ed25519PublicKey:
    """Return the public key of 64 hex digits; raises ValueError otherwise."""
    return Ed25519PublicKey.from_public_bytes(bytes.fromhex(text))


def public_keys(publics: Iterable[str]) -> list[Ed25519PublicKey]:
    """Return the public keys that a check trusts; raises AuditError where there is none, or one that is none."""
    try:
        trusted = [public_key(public) for public in publics]
    except ValueError:
        raise AuditError("public key: expected 64 hex digits of an Ed25519 key, got something else") from None
    if not trusted:
        raise AuditError("public key: expected at least one, got none")
    return trusted


def _message(purpose: str, document: Document) -> bytes:
    return f"tiermarket/{purpose}/1\n".encode() + canonical_bytes(document)
