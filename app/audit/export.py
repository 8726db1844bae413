"""The auditor's export: one line of JSON a record, so that it can be written and read as a stream.

Line 1 is the header (format, signed head, public key); then every leaf in order, with the head that announces a new
signing key right after that leaf; then, chain by chain and in the order of drawing, the openings and keys that an
auditor may have (tiers at or below each chain's highest issued rank; never a truth draw's key).
"""

from collections.abc import Iterator
from typing import Annotated, BinaryIO, TypeAlias

import msgspec

from app.log.heads import TreeHead
from app.log.leaf_base import Hex
from app.log.leaves import Leaf

__all__ = [
    "FORMAT",
    "ExportRecord",
    "HeadRecord",
    "Header",
    "KeyRecord",
    "LeafRecord",
    "OpeningRecord",
    "ReadLeaf",
    "bounded_lines",
    "decode_line",
    "encode_line",
    "read_leaf",
]

FORMAT = "tiermarket-export/3"
Integer: TypeAlias = Annotated[str, msgspec.Meta(pattern=r"^(0|-?[1-9][0-9]{0,59})\Z")]


class Header(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, tag_field="record", tag="header"):
    """What the export claims to be: the whole log up to a signed head."""

    format: str
    head: TreeHead
    public_key: Hex


class LeafRecord(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, tag_field="record", tag="leaf"):
    """One leaf as it is in the log, its index and its hash."""

    index: int
    hash: Hex
    leaf: msgspec.Raw


class HeadRecord(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, tag_field="record", tag="head"):
    """The head that covers a new signing key's announcement, right after that leaf: the key before it signed it."""

    head: TreeHead


class OpeningRecord(
    msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, tag_field="record", tag="opening"
):
    """The answer of one tier with the opening of its commitment."""

    chain: Hex
    law: Hex
    opening: Hex
    answer: list[Integer]


class KeyRecord(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, tag_field="record", tag="key"):
    """The key of one draw that may be replayed."""

    chain: Hex
    law: Hex
    key: Hex


class ReadLeaf(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, tag_field="record", tag="leaf"):
    """A leaf's record as it is read: the leaf itself, of a known kind."""

    index: int
    hash: Hex
    leaf: Leaf


ExportRecord: TypeAlias = Header | LeafRecord | HeadRecord | OpeningRecord | KeyRecord

_ENCODER = msgspec.json.Encoder(order="sorted")
_DECODER = msgspec.json.Decoder(ExportRecord)
_LEAVES = msgspec.json.Decoder(ReadLeaf)
_LEAF_ENDS = (b'"record":"leaf"}\n', b'"record":"leaf"}')


def encode_line(record: ExportRecord) -> bytes:
    """Return the record as one line, newline included."""
    return _ENCODER.encode(record) + b"\n"


def bounded_lines(file: BinaryIO, limit: int) -> Iterator[bytes]:
    """Yield the lines of a file; of one above the limit only limit + 1 bytes, so that no file fills the memory.

    Example:
        >>> from io import BytesIO
        >>> list(bounded_lines(BytesIO(b"ab\\ncdefgh\\nij"), 4))
        [b'ab\\n', b'cdefg', b'ij']
    """
    while line := file.readline(limit + 1):
        yield line
        while len(line) > limit and not line.endswith(b"\n"):
            line = file.readline(limit + 1)


def read_leaf(line: bytes) -> ReadLeaf | None:
    """Return the record of a line that ends as `encode_line` ends leaves; None where it is none that can be read so."""
    if not line.endswith(_LEAF_ENDS):
        return None
    try:
        return _LEAVES.decode(line)
    except (ValueError, RecursionError):
        return None


def decode_line(line: bytes) -> ExportRecord:
    """Return the record of one line; raises msgspec.MsgspecError where it is none."""
    record: ExportRecord = _DECODER.decode(line)
    return record
