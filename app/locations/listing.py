"""Listings of location panels: what everybody sees of one, and what its owner sees of people's budgets."""

from fractions import Fraction

import msgspec
from sqlalchemy import Connection, func, select

from app.auth.accounts import Caller
from app.catalog.search import folded
from app.errors import NotFoundError
from app.keyring import Keyring
from app.ledger.budget import nano_text
from app.locations.desk import LocationPanel, ledger_of, location_of
from app.locations.terms import ADJACENCY, MEASURE
from app.locations.views import LocationLedgerView, LocationPromiseView, LocationView
from app.locations.wire import LocationPrices
from app.store.location_schema import location_panels, location_queries
from tiers.budget import NANO, decimal_text

__all__ = ["ledger_view", "location_view", "locations_after", "promise_view"]

_DIGITS = 10**6


def locations_after(connection: Connection, words: str, *, after: int, count: int) -> list[LocationView]:
    """Return up to `count` panels whose title holds every word, in the log's order, after leaf `after`."""
    wanted = select(location_panels.c.id, location_panels.c.title).where(location_panels.c.leaf_index > after)
    sought, found = folded(words).split(), list[LocationView]()
    for row in connection.execute(wanted.order_by(location_panels.c.leaf_index)):
        if all(word in folded(row.title) for word in sought):
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
    found = location_of(connection, panel)
    if found.owner != owner.id:
        raise NotFoundError("location panel: expected an existing id, got another")
    left = ledger_of(connection, keyring, found).remaining
    here = (location_queries.c.panel_id == panel) & location_queries.c.leaf_index.is_not(None)
    allowed = int(
        connection.execute(select(func.coalesce(func.sum(location_queries.c.budget_nano), 0)).where(here)).scalar_one()
    )
    people, whole = found.terms.people, int(left.astype(object).sum())
    spent = found.terms.budget_nano * people - whole
    saved = 1 - Fraction(spent, people * allowed) if allowed else Fraction(0)
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
