"""What happens on a panel with its files at hand: deliveries, the closing of a round, and what is read back.

Deliveries to a panel and the closing of its round take turns, over all processes of the machine that keeps its files.
"""

import hmac
from collections.abc import Iterator
from contextlib import contextmanager
from hashlib import sha256
from pathlib import Path
from typing import Any

from sqlalchemy import Connection

from app.auth.accounts import Caller
from app.clock import time_text
from app.errors import AppError, ConflictError, InvalidRequestError
from app.files import is_anothers
from app.log.panel_leaves import RoundRecord
from app.market import Market
from app.panels.desk import Panel, counts_of, panel_of, sold_rounds, store_round
from app.panels.intake import Form, read_file, read_rows
from app.panels.journal import Journal
from app.panels.listing import panel_view
from app.panels.plans.lists import Lists
from app.panels.proving import disclosed_round, head_line, lines_of
from app.panels.readings import read
from app.panels.replay import replay_round
from app.panels.reports import Delivered, Reports
from app.panels.rounds import RUN, close_round, derive_again, opening_of, read_tier
from app.panels.sales import held_rank
from app.views import PanelReadingView, PanelView
from app.wire import PanelReadingRequest, PanelReportsRequest
from tiers.audit.findings import Finding
from tiers.budget import decimal_text
from tiers.errors import AuditError

__all__ = ["close", "deliver", "disclose", "reading", "replay_panels", "reports_of"]


def deliver(market: Market, owner: Caller, panel: str, request: PanelReportsRequest) -> Delivered:
    """Take a delivery into the open round, all of its good rows together.

    Raises:     NotFoundError: no panel of the owner's. ConflictError: another round than the open one.
                InvalidRequestError: not exactly one of rows and file, or a file that cannot be read to its end.
    """
    with _turn(market, panel, owner) as found:
        if request.round != found.round:
            raise ConflictError(f"round: expected the open one ({found.round}), got another")
        if (request.reports is None) == (request.file is None):
            raise InvalidRequestError("reports: expected rows or a file, exactly one of both, got none or two")
        form = Form(panel, found.plan)
        if request.reports is not None:
            batches = read_rows(form, request.reports)
        else:
            path = market.settings.data / str(request.file)
            if path.is_symlink() or not path.is_file() or is_anothers(path.name, owner.id):
                raise InvalidRequestError("file: expected a file of the data folder, got none")
            batches = read_file(form, path)
        return _reports(market, panel).add(found.round, batches, found.cost_nano, found.budget_nano)


def close(market: Market, owner: Caller, panel: str) -> PanelView:
    """Close the open round: derive its tiers once, sign its record, open the next.

    Raises:     NotFoundError: no panel of the owner's. ConflictError: a round without reports.
    """
    with _turn(market, panel, owner) as found:
        reports, number = _reports(market, panel), found.round
        if not reports.count(number):
            raise ConflictError("round: expected at least one report in it, got none: an empty panel has no estimate")
        secret = market.keyring.owner_secret(found.owner, found.epoch)
        at = time_text(market.clock())
        runs = reports.runs(number, RUN, by_path=found.plan.by_path)
        folder = _folder(market, panel) / f"round-{number}"
        closed = close_round(found.plan, secret, panel, number, found.epoch, runs, folder, at)

        def work(connection: Connection) -> PanelView:
            store_round(connection, market.keyring, found, closed)
            return panel_view(connection, panel)

        return market.database.submit(work).result()


def reading(connection: Connection, market: Market, who: Caller, panel: str, asked: PanelReadingRequest) -> Any:
    """Return what is read off a tier that the caller holds; raises NotEntitledError, and as `readings.read` does."""
    found = panel_of(connection, panel)
    rank = found.rank(asked.epsilon)
    record = held_rank(connection, who, panel, asked.round, rank)
    counts = counts_of(connection, market.keyring, panel, asked.round, rank)
    return PanelReadingView(
        panel=panel,
        round=asked.round,
        epsilon=decimal_text(found.plan.ladder.epsilons[rank]),
        reports=record.reports,
        confidence="0.95",
        values=read(found.plan, rank, found.domain, counts, record.reports, asked.reading, axes=found.axes),
    )


def reports_of(market: Market, panel: Panel, record: RoundRecord, rank: int) -> Iterator[Lists]:
    """Yield a tier's reports, as committed to; whoever asks has checked the right to them.

    Where the round's files are gone, they are derived again from its reports: the same bytes, or none.

    Raises:     IntegrityError: a file is not what was committed to, or nothing that was is left.
    """
    secret = market.keyring.owner_secret(panel.owner, record.epoch)
    folder = _folder(market, panel.id) / f"round-{record.round}"
    if not (folder / f"{rank}.bin").exists():
        with market.turns.held("panel", panel.id):
            derive_again(panel.plan, secret, _reports(market, panel.id), record, folder)
    opening = opening_of(secret, f"{panel.id}/{record.round}", rank)
    return read_tier(panel.plan, folder, rank, opening, record.tiers[rank].commitment)


def disclose(market: Market, panel: str, number: int) -> Iterator[bytes]:
    """Yield what an auditor may have of a round, one JSON record a line: from the highest tier sold down.

    Raises:     NotFoundError: no such round, or none of whose tiers was sold. ConflictError: it is not in the log.
                IntegrityError: a file that changed.
    """
    found, record, rank, proved = market.database.read_now(
        lambda connection: disclosed_round(connection, panel, number)
    )
    runs = reports_of(market, found, record, rank)
    return lines_of(head_line(market.keyring, found, record, rank, proved), runs)


def replay_panels(market: Market) -> Iterator[tuple[str, int, tuple[Finding, ...]]]:
    """Yield each round of which a tier was sold with what its replay found: a part of the audit of the whole log."""
    publics = list(market.keyring.public_keys().values())
    for panel, number in market.database.read_now(sold_rounds):
        try:
            found = replay_round(_lines(disclose(market, panel, number)), publics).findings
        except (AppError, AuditError) as error:
            found = (Finding("A7", "round-withheld", "round", "a round that was sold", type(error).__name__),)
        yield panel, number, found


def _lines(chunks: Iterator[bytes]) -> Iterator[bytes]:
    return (line for chunk in chunks for line in chunk.splitlines())


@contextmanager
def _turn(market: Market, panel: str, owner: Caller) -> Iterator[Panel]:
    with market.turns.held("panel", panel):
        yield market.database.read_now(lambda connection: panel_of(connection, panel, owner))


def _folder(market: Market, panel: str) -> Path:
    return market.settings.state / "panels" / panel


def _reports(market: Market, panel: str) -> Reports:
    key = hmac.digest(market.keyring.content, b"tiermarket/panel-device/1\n" + panel.encode(), sha256)
    return Reports(_folder(market, panel), key, Journal.of(market.settings, market.keyring, panel))
