"""How much an auditor's file holds, signed by the market: one cut after a whole record is none of its own."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Annotated, TypeAlias, TypeVar

import msgspec
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

from app.errors import InvalidRequestError
from app.keyring import Keyring
from app.log.heads import TreeHead, sign_document, verify_document
from app.strict import check_json
from tiers.canonical import Document
from tiers.errors import AuditError

__all__ = ["Extent", "Signature", "first_line", "read_line"]

Signature: TypeAlias = Annotated[str, msgspec.Meta(pattern=r"^[0-9a-f]{128}\Z")]
_PURPOSE = "disclosure"
_Line = TypeVar("_Line")


class _Form(msgspec.Struct, frozen=True):
    format: str


@dataclass(frozen=True, slots=True)
class Extent:
    """What a disclosure of a panel holds, under a head.

    Args:       form: the file's format, so that no signature serves two kinds of file. holds: how many of what.
    """

    form: str
    panel: str
    head: TreeHead
    holds: dict[str, int]

    def sign(self, keyring: Keyring) -> str:
        """Return the signature by the key that signed the head: who trusts the one needs no other."""
        return sign_document(_PURPOSE, self._document(), keyring.signer(self.head.key))

    def signed(self, signature: str, trusted: Collection[Ed25519PublicKey]) -> bool:
        """Return whether a trusted key signed this extent, of this panel, under this head."""
        return any(verify_document(_PURPOSE, self._document(), signature, key) for key in trusted)

    def _document(self) -> Document:
        holds: dict[str, Document] = dict(self.holds)
        return {"format": self.form, "panel": self.panel, "head": self.head.body(), "holds": holds}


def read_line(line: bytes, kind: type[_Line]) -> _Line:
    """Return a line of a disclosure as what is due: every parser reads the same in it, so no name twice.

    Raises:     InvalidRequestError: JSON that parsers differ on. msgspec.MsgspecError: something else than is due.
    Example:
        >>> read_line(b'{"format": "a", "format": "b"}', dict)
        Traceback (most recent call last):
        app.errors.InvalidRequestError: line: expected JSON, got a repeated key
    """
    check_json("line", line)
    return msgspec.json.decode(line, type=kind)


def first_line(what: str, line: bytes, kinds: Mapping[str, type[_Line]]) -> _Line:
    """Return a disclosure's first line, read as its format says.

    Args:       what: the file is of. kinds: by format.
    Raises:     AuditError: no such line, or a name twice in it; one of an older or a newer format says what to do.
    """
    none = AuditError(f"{what}: expected a disclosure's first line, got something else")
    try:
        form = read_line(line, _Form).format
        if form in kinds:
            return msgspec.json.decode(line, type=kinds[form])
    except (InvalidRequestError, msgspec.MsgspecError, ValueError, RecursionError):
        raise none from None
    name, _, version = form.partition("/")
    if version.isdecimal() and any(kind.startswith(f"{name}/") for kind in kinds):
        known = " or ".join(kinds)
        raise AuditError(f"{what}: expected a file of {known}, got one of {form[:40]}: ask the market for it again")
    raise none
