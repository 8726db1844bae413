"""What bodies are made of: bounded texts and numbers, and a struct that refuses what it does not know."""

from typing import Annotated, Literal, TypeAlias

import msgspec
from msgspec import Meta

__all__ = [
    "Contract",
    "Currency",
    "Decimal",
    "Family",
    "Identity",
    "LawName",
    "Line",
    "Minor",
    "Paragraph",
    "RequestBody",
    "RoundNumber",
]


Identity: TypeAlias = Annotated[str, Meta(min_length=1, max_length=64, pattern=r"^[0-9a-z_]+\Z")]
LawName: TypeAlias = Annotated[str, Meta(pattern=r"^[0-9a-f]{64}\Z")]
Decimal: TypeAlias = Annotated[str, Meta(min_length=1, max_length=30)]
Currency: TypeAlias = Annotated[str, Meta(pattern=r"^[A-Z]{3}\Z")]
Line: TypeAlias = Annotated[str, Meta(min_length=1, max_length=200, pattern=r"^[^\x00-\x1f\x7f]+\Z")]
Paragraph: TypeAlias = Annotated[str, Meta(max_length=4_000, pattern=r"^[^\x00]*\Z")]
Contract: TypeAlias = Annotated[
    dict[Identity, Annotated[int, Meta(ge=0, le=10**9)]], Meta(min_length=1, max_length=1_000)
]
Family: TypeAlias = Literal["auto", "tsg", "msdlap", "skellam", "lattice-gaussian", "discrete-gaussian"]
Minor: TypeAlias = Annotated[int, Meta(ge=0, le=10**12)]  # in millionths, owners' shares still fit 64 bits
RoundNumber: TypeAlias = Annotated[int, Meta(ge=1, le=10**9)]


class RequestBody(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A body that names what it knows and refuses the rest."""
