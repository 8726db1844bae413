"""The market's secrets: numbered, read once from one file, never stored with the data, never shown."""

import hmac
import json
import os
import secrets
from collections.abc import Mapping
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDF

from app.errors import IntegrityError, StoreUnavailableError
from app.log.heads import public_hex

__all__ = ["Keyring"]

_NONCE = 12
_SINGLE = ("cache", "content", "pepper", "storage")


@dataclass(frozen=True, slots=True, repr=False)
class Keyring:
    """Secrets by purpose: owners' noise roots by epoch, signing keys by number, and one key each for the rest.

    An owner's secret of an epoch is HKDF of the epoch's root and the owner's id, so no owner's secret gives another's.
    """

    noise_roots: Mapping[int, bytes]
    signing: Mapping[int, bytes]
    cache: bytes
    content: bytes
    pepper: bytes
    storage: bytes

    @classmethod
    def create(cls, path: Path) -> "Keyring":
        """Mint a key ring and write it to a new file that only its owner can read."""
        document = {
            "noise": {"1": secrets.token_hex(32)},
            "signing": {"1": secrets.token_hex(32)},
            **{name: secrets.token_hex(32) for name in _SINGLE},
        }
        handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        with os.fdopen(handle, "w") as file:
            json.dump(document, file)
            file.flush()
            os.fsync(file.fileno())
        return cls.load(path)

    @classmethod
    def load(cls, path: Path) -> "Keyring":
        """Read a key ring; raises StoreUnavailableError, without saying what is in it, where it cannot be read."""
        try:
            document = json.loads(path.read_text())
            numbered = {
                purpose: {int(number): _key(text) for number, text in document[purpose].items()}
                for purpose in ("noise", "signing")
            }
            single = {name: _key(document[name]) for name in _SINGLE}
        except (OSError, ValueError, KeyError, TypeError, AttributeError):
            raise StoreUnavailableError("key ring: expected a readable key file, got none") from None
        return cls(numbered["noise"], numbered["signing"], **single)

    @property
    def noise_epoch(self) -> int:
        """Return the epoch under which new chains draw."""
        return max(self.noise_roots)

    @property
    def signing_number(self) -> int:
        """Return the number of the key that signs now."""
        return max(self.signing)

    def signer(self) -> Ed25519PrivateKey:
        """Return the key that signs now."""
        return Ed25519PrivateKey.from_private_bytes(self.signing[self.signing_number])

    def public_hex(self) -> str:
        """Return the public half of the signing key, as 64 hex digits."""
        return public_hex(self.signer())

    def owner_secret(self, owner: str, epoch: int) -> bytes:
        """Return an owner's 256-bit secret of an epoch; an epoch that is gone freezes its chains' new draws."""
        root = self.noise_roots.get(epoch)
        if root is None:
            raise StoreUnavailableError(f"noise secret: expected epoch {epoch} in the key ring, got none")
        info = b"tiermarket/owner/1\n" + owner.encode()
        return HKDF(algorithm=SHA256(), length=32, salt=None, info=info).derive(root)

    def seal(self, answer: bytes, context: str) -> bytes:
        """Return an answer encrypted for storage, bound to its place (`context`)."""
        nonce = os.urandom(_NONCE)
        return nonce + AESGCM(self.storage).encrypt(nonce, answer, context.encode())

    def unseal(self, sealed: bytes, context: str) -> bytes:
        """Return the answer; raises IntegrityError where it is not what was sealed in this place."""
        try:
            return AESGCM(self.storage).decrypt(sealed[:_NONCE], sealed[_NONCE:], context.encode())
        except (InvalidTag, ValueError):
            raise IntegrityError("stored answer: expected what was sealed, got something else") from None

    def mac(self, name: str, value: bytes) -> bytes:
        """Return the MAC that binds a cached value to its key in the cache."""
        return hmac.digest(self.cache, len(name).to_bytes(4, "big") + name.encode() + value, "sha256")

    def key_digest(self, api_key: str) -> str:
        """Return what is stored of an API key: an HMAC under the pepper."""
        return hmac.new(self.pepper, api_key.encode(), sha256).hexdigest()

    def __repr__(self) -> str:
        return "Keyring(<secret>)"


def _key(text: object) -> bytes:
    if not isinstance(text, str) or len(text) != 64:
        raise ValueError("key: expected 64 hex digits")
    return bytes.fromhex(text)
