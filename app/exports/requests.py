"""What can be exported, and by whom."""

from typing import Annotated, Literal, TypeAlias

import msgspec
from msgspec import Meta

from app.auth.accounts import Caller, Role
from app.errors import ForbiddenError
from app.formats.negotiate import Format

__all__ = ["AnswersExport", "Exported", "LogExport", "SalesExport", "media_of", "refuse_role"]

_Format: TypeAlias = Literal["json", "csv", "arrow", "parquet"]
_Dataset: TypeAlias = Annotated[str, Meta(min_length=1, max_length=64, pattern=r"^[0-9a-z_]+\Z")]


class _Exported(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, tag_field="type"):
    """What every export has: a type."""


class AnswersExport(_Exported, frozen=True, kw_only=True, tag="answers"):
    """All answers that the caller holds (of one dataset, where it is named) with what is read off them: a ZIP."""

    format: _Format = "csv"
    dataset: _Dataset | None = None


class SalesExport(_Exported, frozen=True, kw_only=True, tag="sales"):
    """The sales of an owner's dataset as one table: what was sold, for how much, what it charged; not to whom."""

    dataset: _Dataset
    format: _Format = "csv"


class LogExport(_Exported, frozen=True, kw_only=True, tag="log"):
    """Everything an auditor may have, one JSON record a line: what `tiermarket audit verify` reads."""


Exported: TypeAlias = AnswersExport | SalesExport | LogExport


def refuse_role(caller: Caller, wanted: Exported) -> None:
    """Refuse an export that is not for the caller's role; raises ForbiddenError."""
    match wanted:
        case AnswersExport():
            roles: tuple[Role, ...] = (Role.BUYER, Role.ANALYST)
        case SalesExport():
            roles = (Role.OWNER,)
        case LogExport():
            roles = (Role.AUDITOR,)
    if caller.role not in roles:
        raise ForbiddenError(f"export: expected a role that it is for ({' or '.join(roles)}), got another")


def media_of(wanted: Exported) -> tuple[str, str]:
    """Return an export's media type and the ending of its file's name.

    Example:
        >>> media_of(LogExport()), media_of(AnswersExport())
        (('application/x-ndjson', 'ndjson'), ('application/zip', 'zip'))
    """
    match wanted:
        case AnswersExport():
            return "application/zip", "zip"
        case SalesExport():
            return Format[wanted.format.upper()].value, wanted.format
        case LogExport():
            return "application/x-ndjson", "ndjson"
