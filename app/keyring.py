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

from app.errors import IntegrityError, InvalidRequestError, StoreUnavailableError
from app.files import sync
from app.log.heads import public_hex

__all__ = ["PURPOSES", "ROTATED", "Keyring", "add_key", "repepper"]

_NONCE = 12
_NUMBER = 4
PURPOSES = ("noise", "signing", "cache", "content", "pepper", "storage")
ROTATED = ("noise", "signing", "cache", "pepper", "storage")


@dataclass(frozen=True, slots=True, repr=False)
class Keyring:
    """Secrets by purpose, each under its number; the highest number of a purpose is the one in force.

    An owner's secret of an epoch is HKDF of the epoch's root and the owner's id, so no owner's secret gives another's.
    """

    noise_roots: Mapping[int, bytes]
    signing: Mapping[int, bytes]
    caches: Mapping[int, bytes]
    contents: Mapping[int, bytes]
    peppers: Mapping[int, bytes]
    storages: Mapping[int, bytes]

    @classmethod
    def create(cls, path: Path) -> "Keyring":
        """Mint a key ring and write it to a new file that only its owner can read."""
        _write_new(path, {purpose: {"1": secrets.token_hex(32)} for purpose in PURPOSES})
        return cls.load(path)

    @classmethod
    def load(cls, path: Path) -> "Keyring":
        """Read a key ring; raises StoreUnavailableError, without saying what is in it, where it cannot be read."""
        try:
            document = json.loads(path.read_text())
            rings = [{int(number): _key(text) for number, text in document[purpose].items()} for purpose in PURPOSES]
            if not all(rings[1:]) or any(number < 1 for ring in rings for number in ring):
                raise ValueError("key ring: expected at least one key a purpose (noise roots may be lost)")
        except (OSError, ValueError, KeyError, TypeError, AttributeError):
            raise StoreUnavailableError("key ring: expected a readable key file, got none") from None
        return cls(*rings)

    @property
    def noise_epoch(self) -> int:
        """Return the epoch under which new chains draw; raises StoreUnavailableError where every root is lost."""
        if not self.noise_roots:
            raise StoreUnavailableError("noise secret: expected an epoch in the key ring, got none")
        return max(self.noise_roots)

    @property
    def signing_number(self) -> int:
        """Return the number of the key that signs now."""
        return max(self.signing)

    @property
    def content(self) -> bytes:
        """Return the key that binds snapshots to their content; it is never rotated, or equal data would not meet."""
        return self.contents[max(self.contents)]

    @property
    def numbers(self) -> dict[str, int]:
        """Return the number in force of every purpose; a purpose whose keys are all lost has number 0."""
        rings = (self.noise_roots, self.signing, self.caches, self.contents, self.peppers, self.storages)
        return {purpose: max(ring, default=0) for purpose, ring in zip(PURPOSES, rings, strict=True)}

    @property
    def generation(self) -> int:
        """Return how far the ring has been rotated; noise roots may be lost and do not count."""
        return sum(number for purpose, number in self.numbers.items() if purpose != "noise")

    def signer(self, number: int | None = None) -> Ed25519PrivateKey:
        """Return the signing key of a number, or the one that signs now."""
        return Ed25519PrivateKey.from_private_bytes(self.signing[number or self.signing_number])

    def public_hex(self) -> str:
        """Return the public half of the signing key, as 64 hex digits."""
        return public_hex(self.signer())

    def public_keys(self) -> dict[int, str]:
        """Return the public halves of all signing keys, by number."""
        return {number: public_hex(Ed25519PrivateKey.from_private_bytes(key)) for number, key in self.signing.items()}

    def owner_secret(self, owner: str, epoch: int) -> bytes:
        """Return an owner's 256-bit secret of an epoch; an epoch that is gone freezes its chains' new draws."""
        root = self.noise_roots.get(epoch)
        if root is None:
            raise StoreUnavailableError(f"noise secret: expected epoch {epoch} in the key ring, got none")
        info = b"tiermarket/owner/1\n" + owner.encode()
        return HKDF(algorithm=SHA256(), length=32, salt=None, info=info).derive(root)

    def seal(self, answer: bytes, context: str) -> bytes:
        """Return an answer encrypted for storage under the newest storage key, bound to its place (`context`)."""
        number = max(self.storages)
        prefix, nonce = number.to_bytes(_NUMBER, "big"), os.urandom(_NONCE)
        return prefix + nonce + AESGCM(self.storages[number]).encrypt(nonce, answer, prefix + context.encode())

    def unseal(self, sealed: bytes, context: str) -> bytes:
        """Return the answer, whichever storage key sealed it; raises IntegrityError where it is not what was sealed."""
        prefix, nonce = sealed[:_NUMBER], sealed[_NUMBER : _NUMBER + _NONCE]
        try:
            key = self.storages[int.from_bytes(prefix, "big")]
            return AESGCM(key).decrypt(nonce, sealed[_NUMBER + _NONCE :], prefix + context.encode())
        except (InvalidTag, ValueError, KeyError):
            raise IntegrityError("stored answer: expected what was sealed, got something else") from None

    def sealed_under(self, sealed: bytes) -> int:
        """Return the number of the storage key that sealed this."""
        return int.from_bytes(sealed[:_NUMBER], "big")

    def mac(self, name: str, value: bytes) -> bytes:
        """Return the MAC that binds a cached value to its key in the cache; values under older keys count as absent."""
        return hmac.digest(
            self.caches[max(self.caches)], len(name).to_bytes(4, "big") + name.encode() + value, "sha256"
        )

    def key_digest(self, api_key: str) -> str:
        """Return what is stored of an API key: an HMAC under every pepper in turn, so that old keys stay valid."""
        first, *later = (self.peppers[number] for number in sorted(self.peppers))
        digest = hmac.new(first, api_key.encode(), sha256).hexdigest()
        for pepper in later:
            digest = repepper(digest, pepper)
        return digest

    def __repr__(self) -> str:
        return "Keyring(<secret>)"


def repepper(digest: str, pepper: bytes) -> str:
    """Return a stored key's digest under one pepper more: what rotation makes of every stored one."""
    return hmac.new(pepper, digest.encode(), sha256).hexdigest()


def add_key(path: Path, purpose: str, *, above: int = 0) -> Keyring:
    """Add the next number of a purpose to the key file, in one step that a crash cannot halve; return the new ring.

    Args:       above: the highest number ever in force: a number is never given twice, not even to a lost key's heir.
    Raises:     InvalidRequestError: a purpose that is not rotated. StoreUnavailableError: no readable key file.
    """
    if purpose not in ROTATED:
        raise InvalidRequestError(f"purpose: expected one of {', '.join(ROTATED)}, got another")
    number = max(Keyring.load(path).numbers[purpose], above) + 1
    document = json.loads(path.read_text())
    document[purpose][str(number)] = secrets.token_hex(32)
    partial = path.with_name(f".{path.name}.{secrets.token_hex(8)}")
    try:
        _write_new(partial, document)
        partial.replace(path)
    finally:
        partial.unlink(missing_ok=True)
    sync(path.parent)
    return Keyring.load(path)


def _write_new(path: Path, document: Mapping[str, object]) -> None:
    handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(handle, "w") as file:
        json.dump(document, file)
        file.flush()
        os.fsync(file.fileno())
    sync(path.parent)


def _key(text: object) -> bytes:
    if not isinstance(text, str) or len(text) != 64:
        raise ValueError("key: expected 64 hex digits")
    return bytes.fromhex(text)
