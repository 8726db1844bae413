"""Listings of location panels: what everybody sees of one, and what its owner sees of people's budgets."""

from fractions import Fraction
from itertools import accumulate

import msgspec
import numpy as np
from sqlalchemy import Connection, select

from app.auth.accounts import Caller
from app.catalog.products import LIVE, RETIRED
from app.catalog.search import folded
from app.errors import IntegrityError
from app.keyring import Keyring
from app.ledger.budget import nano_text
from app.locations.desk import LocationPanel, charged_rounds, ledger_of, location_of
from app.locations.terms import ADJACENCY, MEASURE
from app.locations.views import LocationLedgerView, LocationPromiseView, LocationView
from app.locations.wire import LocationAxis, LocationPrices
from app.store.location_schema import location_panels, location_queries
from tiers.accounting.people import Nanos
from tiers.adaptive.asking import askable
from tiers.budget import NANO, decimal_text

__all__ = ["ledger_view", "location_view", "locations_after", "promise_view"]

_DIGITS = 10**6


def locations_after(
    connection: Connection, words: str, *, after: int, count: int, on_sale: bool = True
) -> list[LocationView]:
    """Return up to `count` panels whose title, unit or axes hold every word, in the log's order, after leaf `after`.

    Args:       on_sale: those on sale, or those off it.
    """
    columns = (location_panels.c.id, location_panels.c.title, location_panels.c.unit, location_panels.c.axes_json)
    wanted = select(*columns).where(location_panels.c.leaf_index > after)
    wanted = wanted.where(location_panels.c.state == (LIVE if on_sale else RETIRED))
    sought, found = folded(words).split(), list[LocationView]()
    for row in connection.execute(wanted.order_by(location_panels.c.leaf_index)):
        axes = msgspec.json.decode(row.axes_json, type=list[LocationAxis])
        text = folded("\n".join([row.title, row.unit, *(axis.column for axis in axes)]))
        if all(word in text for word in sought):
            found.append(location_view(location_of(connection, row.id)))
        if len(found) == count:
            break
    return found


def location_view(panel: LocationPanel) -> LocationView:
    """Return a panel's listing."""
    return LocationView(
        panel=panel.id,
        leaf_index=panel.leaf_index,
        title=panel.title,
        dataset=panel.dataset,
        snapshot=panel.snapshot,
        people=panel.terms.people,
        axes=list(panel.axes),
        grain=decimal_text(panel.terms.space.grain),
        promise=promise_view(panel),
        least_budget=nano_text(panel.terms.plan.least),
        beta=decimal_text(panel.terms.beta),
        rounds=panel.terms.rounds,
        prices=msgspec.convert(panel.prices, LocationPrices),
        currency=panel.currency,
        licence=panel.licence,
        answered=panel.answered,
        state=panel.state,
    )


def promise_view(panel: LocationPanel) -> LocationPromiseView:
    """Return what a panel promises, in numbers and in words."""
    terms, unit = panel.terms, panel.unit
    budget, diagonal = nano_text(terms.budget_nano), decimal_text(terms.diagonal)
    whole = nano_text(terms.whole_nano)
    return LocationPromiseView(
        measure=MEASURE,
        adjacency=ADJACENCY,
        unit=unit,
        diagonal=diagonal,
        budget=budget,
        query_budget=nano_text(terms.query_nano),
        rho_whole=whole,
        sentence=(
            f"All answers together tell two places of one person apart by at most ρ = {budget} times the square of "
            f"their distance in {unit}: {budget} at a distance of 1, {whole} across the whole space ({diagonal}). "
            "Places are those of the grid, to which people are moved. Who is in the panel is not hidden."
        ),
    )


def ledger_view(connection: Connection, keyring: Keyring, owner: Caller, panel: str) -> LocationLedgerView:
    """Return what people's budgets come to; raises NotFoundError for another's panel."""
    found = location_of(connection, panel, owner)
    ledger = ledger_of(connection, keyring, found)
    left, people = ledger.remaining, found.terms.people
    whole, payable = _total(left), _payable(connection, keyring, found, ledger.spent)
    saved = 1 - Fraction(found.terms.budget_nano * people - whole, payable) if payable else Fraction(0)
    return LocationLedgerView(
        people=people,
        budget=nano_text(found.terms.budget_nano),
        answered=found.answered,
        least_left=nano_text(int(left.min())),
        mean_left=decimal_text(Fraction(whole // people, NANO)),
        most_left=nano_text(int(left.max())),
        exhausted=int((left < found.terms.plan.least).sum()),
        saved_share=decimal_text(Fraction(saved * _DIGITS // 1, _DIGITS)),
    )


def _payable(connection: Connection, keyring: Keyring, panel: LocationPanel, spent: Nanos) -> int:
    """Return what people could have paid at most for the answered questions, in units of 10⁻⁹.

    That is a question's budget, or what a person had left before it, if that was less, of all whom it asked. Questions
    are gone through from the last one back. Up to one at which nobody can have had less left than it allowed, all were
    asked for the whole of it, and no round need be read: a short history costs nothing, of a long one its later
    questions' rounds are read.

    Args:       spent: of each person, on all of them.
    Raises:     IntegrityError: less than their rounds charged.
    """
    kept, terms, payable = location_queries.c, panel.terms, 0
    wanted = select(kept.query, kept.budget_nano).where(kept.panel_id == panel.id, kept.leaf_index.is_not(None))
    rows = connection.execute(wanted.order_by(kept.number)).all()
    budgets = [int(row.budget_nano) for row in rows]
    earlier, dearest = list(accumulate(budgets, initial=0)), list(accumulate(budgets, max))
    for place in reversed(range(len(rows))):
        if min(int(spent.max()), earlier[place]) + dearest[place] <= terms.budget_nano:
            return payable + terms.people * earlier[place + 1]
        spent = spent - sum(charged_rounds(connection, keyring, panel, rows[place].query))
        if (spent < 0).any():
            raise IntegrityError("location ledger: expected all that its rounds charged, got less")
        ledger, allowed = terms.ledger(spent), terms.allowed(budgets[place])
        payable += _total(np.minimum(allowed, ledger.remaining)[askable(terms.plan, allowed, ledger)])
    return payable


def _total(units: Nanos) -> int:
    """Return the sum of numbers of which int64 may not hold the sum."""
    return (int((units >> 32).sum()) << 32) + int((units & 0xFFFFFFFF).sum())
