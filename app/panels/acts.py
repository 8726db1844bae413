"""What happens on a panel with its files at hand: deliveries, the closing of a round, and what is read back.

Deliveries to a panel and the closing of its round take turns, over all processes of the machine that keeps its files.
"""

import hmac
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from hashlib import sha256
from pathlib import Path
from tempfile import TemporaryFile

import msgspec
from sqlalchemy import Connection

from app.audit.outages import asked_again
from app.audit.stopping import refuse_stopped
from app.auth.accounts import Caller, active_caller
from app.clock import time_text
from app.errors import AppError, ConflictError, InvalidRequestError
from app.files import is_anothers
from app.log.panel_leaves import RoundRecord
from app.market import Market
from app.panels.closing import store_round
from app.panels.desk import Panel, counts_of, panel_of, round_of, sold_rounds
from app.panels.intake import Form, read_file, read_rows
from app.panels.journal import Journal
from app.panels.late_tiers import (
    draw_late,
    draw_late_again,
    logged_rounds,
    restore,
    store_drawn,
    store_tier,
    whole_record,
    with_tier,
)
from app.panels.listing import panel_view
from app.panels.plans.base import Counts
from app.panels.plans.lists import Lists
from app.panels.proving import disclosed_round, head_line, lines_of, shown_spending, spending_panels
from app.panels.readings import read
from app.panels.replay import replay_round
from app.panels.reports import Delivered, Reports
from app.panels.rounds import RUN, Engine, close_round, derive_again, opening_of, put_in_place, read_tier
from app.panels.sales import held_rank
from app.panels.spending import blinding, replay_spending, root_of_round
from app.views import PanelReadingView, PanelView
from app.wire import PanelReadingRequest, PanelReportsRequest, TierRequest
from tiers.audit.findings import Finding
from tiers.budget import decimal_text, parse_epsilon
from tiers.errors import AuditError

__all__ = ["add_tier", "close", "deliver", "derive", "disclose", "reading", "replay_panels", "reports_of", "spending"]

_CHUNK = 1 << 20


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


def close(market: Market, owner: Caller | None, panel: str, engine: Engine | None = None) -> PanelView:
    """Close the open round: derive its tiers once, sign its record, open the next.

    Args:       owner: the panel's, or none for the market's operator. engine: what derives, this process unless told.

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
        devices = reports.devices(number, blinding(secret, panel))
        spent = root_of_round(devices, number, found.cost_nano)
        closed = close_round(
            found.plan, secret, panel, number, found.epoch, runs, folder, at, spent=spent, engine=engine
        )
        late = [draw_late(found.menu, secret, panel, number, each, folder) for each in found.menu.late]

        def work(connection: Connection) -> PanelView:
            store_round(connection, market.keyring, found, closed)
            for drawn in late:
                store_drawn(connection, market.keyring, panel, number, drawn, at)
            return panel_view(connection, panel)

        return market.database.submit(work).result()


def add_tier(market: Market, owner: Caller, panel: str, wanted: TierRequest) -> PanelView:
    """Add a tier to a panel's menu: draw it for every closed round, given what is drawn there, and put it on sale.

    Guarantee:  what was sold stays as it is; a retry after a crash draws the same reports. The tiers' joint law is the
                one that they had been derived with, had the tier been there from the start.
    Raises:     NotFoundError: no panel of the owner's. ConflictError: an ε that the menu has, a price that rises down
                the menu, a menu that is full, or a panel from before rounds were leaves. InvalidRequestError: as
                `law_of_late`. ChainFrozenError: an audit stopped it.
    """
    epsilon = parse_epsilon(wanted.epsilon)
    with _turn(market, panel, owner) as found:
        added = with_tier(found, epsilon, wanted.price_minor)
        market.database.read_now(lambda connection: refuse_stopped(connection, panel))
        secret, at = market.keyring.owner_secret(found.owner, found.epoch), time_text(market.clock())
        rounds = market.database.read_now(lambda connection: logged_rounds(connection, panel))
        number, drawn = len(found.menu), []
        for record in rounds:
            folder = _folder(market, panel) / f"round-{record.round}"
            restore(found.menu, secret, _reports(market, panel), record, folder)
            drawn.append((record.round, draw_late(added, secret, panel, record.round, number, folder)))

        def work(connection: Connection) -> PanelView:
            refuse_stopped(connection, panel)
            store_tier(connection, market.keyring, found, added, wanted.price_minor, at)
            for round_number, each in drawn:
                store_drawn(connection, market.keyring, panel, round_number, each, at)
            return panel_view(connection, panel)

        return market.database.submit(work).result()


def reading(
    connection: Connection, market: Market, who: Caller, panel: str, asked: PanelReadingRequest
) -> Callable[[], PanelReadingView]:
    """Return how to read something off a tier that the caller holds; raises NotEntitledError.

    The reading itself may take a second or more, and needs no store: it is not done where others wait to read.
    """
    found = panel_of(connection, panel)
    rank = found.rank(asked.epsilon)
    record = held_rank(connection, who, panel, asked.round, rank)
    counts = counts_of(connection, market.keyring, panel, asked.round, rank)
    return partial(_read_off, found, rank, record.reports, counts, asked)


def _read_off(panel: Panel, rank: int, reports: int, counts: Counts, asked: PanelReadingRequest) -> PanelReadingView:
    """Return what is read off a tier's counts; raises as `readings.read` does."""
    menu = panel.menu
    return PanelReadingView(
        panel=panel.id,
        round=asked.round,
        epsilon=decimal_text(menu.epsilon(rank)),
        reports=reports,
        confidence="0.95",
        values=read(menu.plan, menu.rank(rank), panel.domain, counts, reports, asked.reading, axes=panel.axes),
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
            restore(panel.menu, secret, _reports(market, panel.id), record, folder)
    opening = opening_of(secret, f"{panel.id}/{record.round}", rank)
    return read_tier(panel.menu.plan, folder, rank, opening, record.tiers[rank].commitment)


def derive(market: Market, panel: str, number: int, engine: Engine) -> bool:
    """Derive a round by an engine: close it where it is the open one, else write a closed round's files anew.

    Returns whether it was closed. The files of a closed round come out as they were signed, or stay as they are.

    Raises:     NotFoundError: no such panel or round. ConflictError, IntegrityError: as `close` and `restore` do.
    """
    found = market.database.read_now(lambda connection: panel_of(connection, panel))
    if number == found.round:
        close(market, None, panel, engine)
        return True
    with _turn(market, panel, None) as found:
        record = market.database.read_now(lambda held: whole_record(held, round_of(held, panel, number)))
        secret, folder = (
            market.keyring.owner_secret(found.owner, record.epoch),
            _folder(market, panel) / f"round-{number}",
        )
        reports = _reports(market, panel)
        again = folder.with_name(f"{folder.name}.again")  # what is there stays until it is known to be the same
        derive_again(found.plan, secret, reports, record, again, engine)
        put_in_place(again, folder)
        draw_late_again(found.menu, secret, record, folder)
    return False


def disclose(market: Market, panel: str, number: int) -> Iterator[bytes]:
    """Yield what an auditor may have of a round, one JSON record a line: from the highest tier sold down.

    Raises:     NotFoundError: no such round, or none of whose tiers was sold. ConflictError: it is not in the log.
                IntegrityError: a file that changed.
    """
    found, record, rank, proved = market.database.read_now(
        lambda connection: disclosed_round(connection, panel, number)
    )
    head, roots = head_line(market.keyring, found, record, rank, proved)
    return lines_of(head, [reports_of(market, found, record, each) for each in roots])


def spending(market: Market, owner: Caller | None, panel: str) -> Iterator[bytes]:
    """Yield what an owner may show of what devices spent, one JSON record a line: see `app.panels.spending`.

    The lines are sorted into a file first, so that a slow reader holds up no delivery.

    Raises:     NotFoundError: no panel of the owner's, or no round of it in the log.
    """
    found, last, head = market.database.read_now(
        lambda connection: shown_spending(connection, market.keyring, panel, owner)
    )
    blind = blinding(market.keyring.owner_secret(found.owner, found.epoch), panel)
    with TemporaryFile() as file:
        with market.turns.held("panel", panel):
            for commitment, rounds in _reports(market, panel).spenders(last, blind):
                file.write(msgspec.json.encode([commitment.hex(), rounds]) + b"\n")
        file.seek(0)
        yield msgspec.json.encode(head) + b"\n"
        while chunk := b"".join(file.readlines(_CHUNK)):
            yield chunk


def replay_panels(market: Market) -> Iterator[tuple[str, int, tuple[Finding, ...]]]:
    """Yield each round of which a tier was sold, and as 0 each panel's spending, with what its replay found."""
    publics = list(market.keyring.public_keys().values())

    def of_round(panel: str, number: int) -> tuple[Finding, ...]:
        return replay_round(_lines(disclose(market, panel, number)), publics).findings

    def of_spending(panel: str) -> tuple[Finding, ...]:
        return replay_spending(_lines(spending(market, None, panel)), publics).findings

    for panel, number in market.database.read_now(sold_rounds):
        try:
            found = asked_again(partial(of_round, panel, number))
        except (AppError, AuditError) as error:
            found = (Finding("A7", "round-withheld", "round", "a round that was sold", type(error).__name__),)
        yield panel, number, found
    for panel in market.database.read_now(spending_panels):
        try:
            found = asked_again(partial(of_spending, panel))
        except (AppError, AuditError) as error:
            found = (Finding("A3", "spending-withheld", "spending", "what devices spent", type(error).__name__),)
        yield panel, 0, found


def _lines(chunks: Iterator[bytes]) -> Iterator[bytes]:
    return (line for chunk in chunks for line in chunk.splitlines())


@contextmanager
def _turn(market: Market, panel: str, owner: Caller | None) -> Iterator[Panel]:
    """Hold a panel's turn; whose owner was suspended meanwhile is refused, as one may have waited for long."""
    with market.turns.held("panel", panel):
        if owner is not None:
            market.database.read_now(lambda connection: active_caller(connection, owner.id))
        yield market.database.read_now(lambda connection: panel_of(connection, panel, owner))


def _folder(market: Market, panel: str) -> Path:
    return market.settings.state / "panels" / panel


def _reports(market: Market, panel: str) -> Reports:
    key = hmac.digest(market.keyring.content, b"tiermarket/panel-device/1\n" + panel.encode(), sha256)
    return Reports(_folder(market, panel), key, Journal.of(market.settings, market.keyring, panel))
