"""Listings of panels: what devices, buyers and auditors see of one, and of all that match words."""

from fractions import Fraction

import msgspec
from sqlalchemy import Connection, select

from app.catalog.products import LIVE, RETIRED
from app.catalog.search import folded
from app.ledger.budget import nano_text
from app.log.axes import read_axes
from app.panels.desk import panel_of, promise_of
from app.panels.weights import bar_text
from app.store.panel_schema import panel_rounds, panels
from app.views import PanelRoundView, PanelTierView, PanelView
from tiers.budget import decimal_text

__all__ = ["panel_view", "panels_after"]


def panels_after(
    connection: Connection, words: str, *, after: int, count: int, on_sale: bool = True
) -> list[PanelView]:
    """Return up to `count` panels whose title or values hold every word, in the log's order, after leaf `after`.

    Args:       on_sale: those on sale, or those off it.
    """
    columns = (panels.c.id, panels.c.title, panels.c.domain_json, panels.c.axes_json)
    wanted = select(*columns).where(panels.c.leaf_index > after)
    wanted = wanted.where(panels.c.state == (LIVE if on_sale else RETIRED))
    sought, found = folded(words).split(), list[PanelView]()
    for row in connection.execute(wanted.order_by(panels.c.leaf_index)):
        axes = read_axes(row.axes_json)
        named = [name for axis in axes for name in (axis.name, *axis.values)]
        text = folded("\n".join([row.title, *msgspec.json.decode(row.domain_json, type=list[str]), *named]))
        if all(word in text for word in sought):
            found.append(panel_view(connection, row.id))
        if len(found) == count:
            break
    return found


def panel_view(connection: Connection, panel: str) -> PanelView:
    """Return a panel's listing; raises NotFoundError."""
    found = panel_of(connection, panel)
    plan, menu = found.plan, found.menu
    rounds = connection.execute(
        select(panel_rounds).where(panel_rounds.c.panel_id == panel).order_by(panel_rounds.c.number)
    ).all()
    newest = rounds[-1].reports if rounds else None
    return PanelView(
        panel=found.id,
        leaf_index=found.leaf_index,
        title=found.title,
        domain=list(found.domain),
        domain_size=plan.domain_size,
        axes=list(found.axes) or None,
        promise=promise_of(plan),
        metric=plan.metric,
        mechanism=plan.mechanism,
        device_law=plan.parameters(0),
        tiers=[
            PanelTierView(
                rank=number,
                epsilon=decimal_text(menu.epsilon(number)),
                price_minor=found.prices[number],
                count_bar=f"{menu.plan.count_bar(place):.6f}",
                newest_half_width=None if newest is None else bar_text(menu.plan.count_width(place, newest)),
                law=menu.law(number),
                across=None if menu.plan.metric is None else menu.plan.metric.across(menu.epsilon(number)),
                guarantee=found.guarantee(number),
            )
            for place, number in enumerate(menu.numbers)
        ],
        currency=found.currency,
        licence=found.licence,
        state=found.state,
        budget=nano_text(found.budget_nano),
        budget_across=None if plan.metric is None else plan.metric.across(Fraction(found.budget_nano, 10**9)),
        open_round=found.round,
        rounds=[
            PanelRoundView(
                round=row.number,
                reports=row.reports,
                record=msgspec.json.decode(row.record),
                signing_key=row.signing_key,
                signature=row.signature,
                leaf_index=row.leaf_index,
            )
            for row in rounds
        ],
    )
