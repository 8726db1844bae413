"""Refusals."""

import msgspec

__all__ = ["ProblemView"]


class ProblemView(msgspec.Struct, frozen=True, kw_only=True):
    """A refusal (RFC 9457); some kinds add members of their own."""

    status: int
    type: str
    title: str
    detail: str
