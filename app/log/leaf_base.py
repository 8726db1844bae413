"""What every leaf has, and the bounds of what stands in one."""

from typing import Annotated, TypeAlias

import msgspec

__all__ = ["Hex", "LeafBase", "Natural", "Text"]

Text: TypeAlias = Annotated[str, msgspec.Meta(max_length=4096)]
Hex: TypeAlias = Annotated[str, msgspec.Meta(pattern=r"^[0-9a-f]{64}\Z")]
Natural: TypeAlias = Annotated[int, msgspec.Meta(ge=0, le=2**53 - 1)]


class LeafBase(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, tag_field="kind"):
    """What every leaf has: its place in the log and its time (UTC, to the second)."""

    index: Natural
    at: Text
