"""Kept exports: a row and a sealed file each, one a job; they lapse, and beyond a few an account's oldest gives way."""

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from sqlalchemy import Connection, Row, delete, select

from app.errors import NotFoundError
from app.store.schema import exports, jobs

__all__ = ["MOST_KEPT", "drop", "export_id", "export_of", "exports_of", "keep", "same_export", "sweep_files", "view_of"]

MOST_KEPT = 8


def export_id(job: str) -> str:
    """Return the id of the export that a job makes.

    Example:
        >>> export_id("job_0a")
        'export_0a'
    """
    return "export_" + job.partition("_")[2]


def keep(connection: Connection, row: dict[str, Any], now: str) -> Row[Any]:
    """Store what a job has made, once; what has lapsed, and an account's oldest beyond the most kept, go."""
    known = connection.execute(select(exports).where(exports.c.id == row["id"])).one_or_none()
    if known is None:
        connection.execute(exports.insert().values(row))
    connection.execute(delete(exports).where(exports.c.expires_at <= now))
    newest = (
        select(exports.c.id)
        .where(exports.c.account_id == row["account_id"], exports.c.id != row["id"])
        .order_by(exports.c.created_at.desc(), exports.c.id)
    )
    for surplus in connection.execute(newest).scalars().all()[MOST_KEPT - 1 :]:
        connection.execute(delete(exports).where(exports.c.id == surplus))
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
    export_of(connection, account, export, now)
    connection.execute(delete(exports).where(exports.c.id == export))


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


def sweep_files(connection: Connection, files: Iterable[Path]) -> None:
    """Remove files that no export names and no job is at work on: what lapsed, and what dead workers left.

    Args:       connection: of a read that began after the files were listed: whatever made one of them was then at
                work already. What another worker has begun since is not among them.
    """
    working = {
        export_id(job) for job in connection.execute(select(jobs.c.id).where(jobs.c.state == "running")).scalars()
    }
    kept = set(
        connection.execute(select(exports.c.id)).scalars()
    )  # after the jobs: an export is kept, then its job ends
    for path in files:
        if path.name.removesuffix(".part") not in kept | working:
            path.unlink(missing_ok=True)
