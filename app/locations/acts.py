"""What happens on a location panel with its people at hand: a question is answered, and an auditor's file written.

Questions of one panel take turns, over all processes; what may happen once only is said by the store's constraints.
"""

from functools import partial

from sqlalchemy import Connection

from app.auth.accounts import Caller, active_caller
from app.clock import time_text
from app.locations.desk import (
    Due,
    LocationPanel,
    charge_round,
    charged_rounds,
    ledger_of,
    location_of,
    open_question,
    query_of,
    settle,
    table_of,
)
from app.locations.people import Table, numbered, read_points
from app.locations.running import run_question
from app.locations.sales import LocationPlaced, UnansweredError, order
from app.market import Market
from tiers.accounting.people import Nanos, PeopleLedger
from tiers.adaptive.space import Places

__all__ = ["answer_question", "buy", "buy_answered", "places_of"]


def buy_answered(
    market: Market, caller: Caller, panel: str, quote: str, key: str, licence: str | None
) -> LocationPlaced:
    """Sell what a quote offers, if its question has an answer: nobody is waited for.

    Raises:     as `sales.order`; UnansweredError: people have to be asked first, see `buy`.
    """
    now, fee = market.clock(), market.settings.fee_bps

    def sell(connection: Connection) -> LocationPlaced:
        return order(connection, market.keyring, caller, panel, quote, key, now, fee_bps=fee, licence=licence)

    return market.database.submit(sell).result()


def buy(market: Market, caller: Caller, panel: str, quote: str, key: str, licence: str | None) -> LocationPlaced:
    """Sell what a quote offers; where its question has no answer yet, people are asked now.

    An account asks one new question at a time: what pays for one may not have people of other panels asked as well.

    Raises:     as `sales.order`; BudgetRefusedError: nobody has enough left. ConflictError: another process was faster.
                AccountSuspendedError: of an account that was suspended while it waited.
                SnapshotAbsentError, IntegrityError: the people's places are not at hand, or were altered.
    """
    sell = partial(buy_answered, market, caller, panel, quote, key, licence)
    try:
        return sell()
    except UnansweredError:
        with market.turns.held("asker", caller.id), market.turns.held("location", panel):
            market.database.read_now(lambda connection: active_caller(connection, caller.id))  # it may have been long
            try:  # others that waited before may have asked the same, or taken the money
                return sell()
            except UnansweredError as unanswered:
                answer_question(market, panel, unanswered.due)
            return sell()


def answer_question(market: Market, panel: str, due: Due) -> None:
    """Answer a question once for ever, after the one that a crash left open; whoever calls holds the panel's turn."""
    begun = market.database.read_now(lambda connection: open_question(connection, panel))
    if begun is not None:
        _answer(market, panel, begun)
    if begun is None or begun.query != due.query:
        _answer(market, panel, due)


def _answer(market: Market, panel: str, due: Due) -> None:
    at = time_text(market.clock())
    found, ledger, charged, table = market.database.read_now(partial(_begun, market=market, panel=panel, due=due))
    if ledger is None:
        return
    secret = market.keyring.owner_secret(found.owner, found.epoch)
    places = places_of(market, found, table)

    def charge(place: int, charges: Nanos) -> None:
        market.database.submit(
            lambda connection: charge_round(connection, market.keyring, found, due, place, charges, at)
        ).result()

    settled = run_question(found, due, secret, places, ledger, charged, charge)
    market.database.submit(lambda connection: settle(connection, market.keyring, found, due, settled, at)).result()


def places_of(market: Market, panel: LocationPanel, table: Table) -> Places:
    """Return people's places, by their numbers in the panel."""
    names, points = read_points(market.files, table)
    return numbered(market.keyring, panel.id, names, points, panel.terms.space)


def _begun(
    connection: Connection, market: Market, panel: str, due: Due
) -> tuple[LocationPanel, PeopleLedger | None, list[Nanos], Table]:
    """Return what a question's rounds start from; no ledger where it is answered already."""
    found = location_of(connection, panel)
    table = table_of(connection, market.settings.snapshots, found)
    known = query_of(connection, panel, due.query)
    if known is not None and known.leaf_index is not None:
        return found, None, [], table
    charged = charged_rounds(connection, market.keyring, found, due.query)
    return found, ledger_of(connection, market.keyring, found), charged, table
