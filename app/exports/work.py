"""An export as a job: made once, whoever dies over it, and read only by who may still read all that is in it."""

from collections.abc import Iterator, Mapping, Sequence
from itertools import chain
from typing import TYPE_CHECKING, Any

import msgspec
from sqlalchemy import Connection, Row

from app.auth.accounts import Caller, active_caller
from app.catalog.datasets import dataset_of
from app.catalog.holdings import held_answers
from app.clock import later, new_id, time_text
from app.errors import NotEntitledError, NotFoundError, StoreUnavailableError
from app.exports.contents import find_held, sales_of, write_answers, write_log
from app.exports.requests import AnswersExport, Exported, LogExport, SalesExport, media_of, refuse_role
from app.exports.sealed import Sealer, unsealed
from app.exports.shelf import (
    export_id,
    export_of,
    frame_of,
    is_whole,
    keep,
    put_frames,
    same_export,
    sweep,
    sweep_is_due,
    view_of,
)
from app.formats.negotiate import Format
from app.jobs.runner import Task
from app.log.journal import current_head
from tiers.canonical import canonical_bytes

if TYPE_CHECKING:
    from app.market import Market

__all__ = ["EXPORT", "admit", "export_job", "opened", "request_text", "sweep_exports"]

EXPORT = "export"
_HOUR = 3_600


def request_text(wanted: Exported) -> str:
    """Return the one text of a request: equal requests of an account are one job while it runs."""
    return canonical_bytes(msgspec.to_builtins(wanted)).decode()


def admit(connection: Connection, caller: Caller, wanted: Exported) -> None:
    """Refuse an export that the caller may not have; raises ForbiddenError, NotFoundError."""
    refuse_role(caller, wanted)
    named = None if isinstance(wanted, LogExport) else wanted.dataset
    if named is not None:
        owner = dataset_of(connection, named).owner
        if isinstance(wanted, SalesExport) and owner != caller.id:
            raise NotFoundError("dataset: expected an existing id, got another")


def export_job(market: "Market", task: Task) -> Mapping[str, Any]:
    """Make an export, or return one of the same request that was made since the log last grew.

    A second worker writes a blob of its own, or finds the first one's row: one job, one export.

    Raises:     ForbiddenError, NotFoundError, AccountSuspendedError: the account may not have it any more.
    """
    wanted = msgspec.json.decode(task.request, type=Exported)
    now = time_text(market.clock())

    def ask(connection: Connection) -> tuple[int, list[Row[Any]]]:
        caller = active_caller(connection, task.account)
        admit(connection, caller, wanted)
        size = _size(connection)
        same = same_export(connection, task.account, task.request, size, now)
        return size, [row for row in same if is_whole(connection, row)]

    size, known = market.database.read_now(ask)
    if known:
        return view_of(known[0])
    made = _make(market, task, wanted, size)
    kept = market.database.submit(lambda connection: keep(connection, made, now)).result()
    return view_of(kept)


def _make(market: "Market", task: Task, wanted: Exported, size: int) -> dict[str, Any]:
    """Write the sealed frames; the log may have grown meanwhile, what is written is of one read."""
    read = market.database.read_now
    keyring, blob = market.keyring, new_id("blob")

    def put(place: int, sealed: Sequence[bytes]) -> None:
        market.database.submit(lambda connection: put_frames(connection, blob, task.job, place, sealed)).result()

    match wanted:
        case AnswersExport():
            size, held = read(lambda connection: (_size(connection), find_held(connection, task.account, wanted)))
            label = msgspec.json.encode([(answer["chain"], answer["law"]) for answer in held.answers])
            with Sealer(put, keyring, blob, label) as out:
                write_answers(out, market, held, Format[wanted.format.upper()], size, task.progress)
        case SalesExport():
            kind = Format[wanted.format.upper()]
            size, body = read(lambda connection: (_size(connection), sales_of(connection, wanted.dataset, kind)))
            with Sealer(put, keyring, blob, b"[]") as out:
                out.write(body)
        case LogExport():
            with Sealer(put, keyring, blob, b"[]") as out:

                def log(connection: Connection) -> int:
                    now = _size(connection)
                    write_log(out, connection, market, now, task.progress)
                    return now

                size = read(log)
    at = market.clock()
    return {
        "id": export_id(task.job),
        "job_id": task.job,
        "account_id": task.account,
        "request_json": task.request,
        "log_size": size,
        "etag": out.etag,
        "size": out.size,
        "blob": blob,
        "frames": out.frames,
        "created_at": time_text(at),
        "expires_at": time_text(later(at, market.settings.export_hours * _HOUR)),
    }


def opened(market: "Market", caller: Caller, export: str) -> tuple[Row[Any], tuple[str, str], Iterator[bytes]]:
    """Return an export's row, its media type and ending, and its bytes.

    Who asked for it may read it while the right to everything in it stands.

    Raises:     NotFoundError: none of the caller's, or lapsed. NotEntitledError: the right to an answer in it is gone.
                StoreUnavailableError: what it held is lost. IntegrityError: it is not what was made.
    """
    now, read = time_text(market.clock()), market.database.read_now

    def find(connection: Connection) -> tuple[Row[Any], set[tuple[str, str]]]:
        row = export_of(connection, caller.id, export, now)
        if not is_whole(connection, row):
            raise StoreUnavailableError("export: expected what it held in the store, got none (ask for it again)")
        admit(connection, caller, msgspec.json.decode(row.request_json, type=Exported))
        return row, {(held["chain"], held["law"]) for held in held_answers(connection, caller.id, None)}

    row, held = read(find)

    def frame(place: int) -> bytes | None:
        return read(lambda connection: frame_of(connection, row.blob, place))

    frames = unsealed(frame, row.frames, market.keyring, row.blob)
    label, first = next(frames), next(frames)
    needed = {(chain_id, law) for chain_id, law in msgspec.json.decode(label)}
    if not needed <= held:
        raise NotEntitledError("export: expected the right to all that is in it, got less")
    return row, media_of(msgspec.json.decode(row.request_json, type=Exported)), chain([first], frames)


async def sweep_exports(market: "Market") -> None:
    """Remove exports that have lapsed and what no job is writing any more; without any, nothing is written."""
    now = time_text(market.clock())
    if await market.database.read(lambda connection: sweep_is_due(connection, now)):
        await market.database.write(lambda connection: sweep(connection, now))


def _size(connection: Connection) -> int:
    head = current_head(connection)
    return 0 if head is None else head.size
