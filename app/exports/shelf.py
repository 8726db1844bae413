"""Kept exports: a row and sealed frames each, one a job; they lapse, beyond a few an account's oldest gives way."""

from collections.abc import Sequence
from typing import Any

from sqlalchemy import ColumnElement, Connection, Row, delete, func, select

from app.errors import IntegrityError, NotFoundError
from app.store.schema import export_frames, exports, jobs

__all__ = [
    "MOST_KEPT",
    "drop",
    "export_id",
    "export_of",
    "exports_of",
    "frame_of",
    "is_whole",
    "keep",
    "put_frames",
    "same_export",
    "sweep",
    "sweep_is_due",
    "view_of",
]

MOST_KEPT = 8


def export_id(job: str) -> str:
    """Return the id of the export that a job makes.

    Example:
        >>> export_id("job_0a")
        'export_0a'
    """
    return "export_" + job.partition("_")[2]


def keep(connection: Connection, row: dict[str, Any], now: str) -> Row[Any]:
    """Store what a job has made, once; what has lapsed, and an account's oldest beyond the most kept, go.

    Of two workers that made the same export the first is kept, and the other's frames go.

    Raises:     IntegrityError: its frames are not all there.
    """
    if connection.execute(select(exports.c.id).where(exports.c.id == row["id"])).one_or_none() is None:
        if not _has_frames(connection, row["blob"], row["frames"]):
            raise IntegrityError("export: expected all frames that were written, got fewer")
        connection.execute(exports.insert().values(row))
    newest = (
        select(exports.c.id)
        .where(exports.c.account_id == row["account_id"], exports.c.id != row["id"])
        .order_by(exports.c.created_at.desc(), exports.c.id)
    )
    for surplus in connection.execute(newest).scalars().all()[MOST_KEPT - 1 :]:
        connection.execute(delete(exports).where(exports.c.id == surplus))
    sweep(connection, now, ended=row["job_id"])
    return connection.execute(select(exports).where(exports.c.id == row["id"])).one()


def same_export(connection: Connection, account: str, request: str, size: int, now: str) -> Sequence[Row[Any]]:
    """Return the account's exports of the same request at the same size of the log, newest first."""
    wanted = select(exports).where(
        exports.c.account_id == account,
        exports.c.request_json == request,
        exports.c.log_size == size,
        exports.c.expires_at > now,
    )
    return connection.execute(wanted.order_by(exports.c.created_at.desc())).all()


def exports_of(connection: Connection, account: str, now: str) -> list[dict[str, Any]]:
    """Return an account's exports, newest first."""
    wanted = select(exports).where(exports.c.account_id == account, exports.c.expires_at > now)
    return [view_of(row) for row in connection.execute(wanted.order_by(exports.c.created_at.desc(), exports.c.id))]


def export_of(connection: Connection, account: str, export: str, now: str) -> Row[Any]:
    """Return an export of the account's that has not lapsed; raises NotFoundError."""
    wanted = select(exports).where(exports.c.id == export, exports.c.account_id == account, exports.c.expires_at > now)
    row = connection.execute(wanted).one_or_none()
    if row is None:
        raise NotFoundError("export: expected one of the caller's own that is still kept, got another id")
    return row


def drop(connection: Connection, account: str, export: str, now: str) -> None:
    """Drop an export; raises NotFoundError."""
    row = export_of(connection, account, export, now)
    connection.execute(delete(exports).where(exports.c.id == export))
    connection.execute(delete(export_frames).where(export_frames.c.blob == row.blob))


def view_of(row: Row[Any]) -> dict[str, Any]:
    """Return what is said of an export: where it is, its ETag, how long it is kept; nothing that is in it."""
    return {
        "export": row.id,
        "path": f"/v1/exports/{row.id}",
        "etag": row.etag,
        "bytes": row.size,
        "log_size": row.log_size,
        "created_at": row.created_at,
        "expires_at": row.expires_at,
    }


def put_frames(connection: Connection, blob: str, job: str, place: int, sealed: Sequence[bytes]) -> None:
    """Store frames of what a job is writing, from a place on."""
    rows = [{"blob": blob, "place": at, "job_id": job, "sealed": frame} for at, frame in enumerate(sealed, place)]
    connection.execute(export_frames.insert(), rows)


def frame_of(connection: Connection, blob: str, place: int) -> bytes | None:
    """Return a sealed frame, or None where there is none."""
    wanted = select(export_frames.c.sealed).where(export_frames.c.blob == blob, export_frames.c.place == place)
    found = connection.execute(wanted).scalar_one_or_none()
    return None if found is None else bytes(found)


def is_whole(connection: Connection, row: Row[Any]) -> bool:
    """Return whether all of an export is in the store: it is not where the store was restored, or is older."""
    return _has_frames(connection, row.blob, row.frames)


def sweep(connection: Connection, now: str, *, ended: str | None = None) -> None:
    """Remove what has lapsed, and frames that no export names and no job is writing; `ended`: one that ends now."""
    connection.execute(delete(exports).where(exports.c.expires_at <= now))
    connection.execute(delete(export_frames).where(_abandoned(ended)))


def sweep_is_due(connection: Connection, now: str) -> bool:
    """Return whether an export has lapsed, or somebody left frames behind."""
    lapsed = select(exports.c.id).where(exports.c.expires_at <= now).limit(1)
    left = select(export_frames.c.blob).where(_abandoned(None)).limit(1)
    return any(connection.execute(found).one_or_none() is not None for found in (lapsed, left))


def _abandoned(ended: str | None) -> ColumnElement[bool]:
    writing = select(jobs.c.id).where(jobs.c.state == "running", jobs.c.id != (ended or ""))
    return export_frames.c.blob.not_in(select(exports.c.blob)) & export_frames.c.job_id.not_in(writing)


def _has_frames(connection: Connection, blob: str, frames: int) -> bool:
    held = select(func.count()).select_from(export_frames).where(export_frames.c.blob == blob)
    return 0 < frames == connection.execute(held).scalar_one()
