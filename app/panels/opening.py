"""How a panel opens: its menu planned and checked, the panel stored, its leaf logged."""

import math
from dataclasses import dataclass

import msgspec
from sqlalchemy import Connection

from app.auth.accounts import Caller
from app.clock import new_id
from app.errors import InvalidRequestError
from app.keyring import Keyring
from app.ledger.money import balance
from app.log.journal import append
from app.log.panel_leaves import PanelLeaf, PanelTier
from app.panels.desk import Panel, panel_of
from app.panels.mechanism import choose
from app.panels.plans.base import Plan
from app.panels.spending import SPENDING
from app.store.panel_schema import panels
from app.wire import PanelRequest
from pricing.money import check_currency
from tiers.budget import NANO, Ladder, decimal_text, nano_up, parse_decimal, parse_epsilon

__all__ = ["Planned", "log_panel", "open_panel", "plan_panel"]


@dataclass(frozen=True, slots=True)
class Planned:
    """A panel that may be opened: its request, checked, and its plan."""

    request: PanelRequest
    plan: Plan
    budget_nano: int


def plan_panel(request: PanelRequest) -> Planned:
    """Return what a request opens; nothing is stored.

    Raises:     InvalidRequestError: no domain or two, values that repeat, a grid too large, prices that rise down the
                menu, a budget below one round's ε, or a mechanism that does not keep the promise.
                InvalidParameterError, BudgetOrderError: a menu's ε.
    """
    check_currency(request.currency)
    if bool(request.domain) == bool(request.axes):
        raise InvalidRequestError("domain: expected values or axes, exactly one of both, got none or two")
    for values in (request.domain, [axis.name for axis in request.axes], *(axis.values for axis in request.axes)):
        if len(set(values)) != len(values):
            raise InvalidRequestError("domain: expected values, and axes, that differ, got one twice")
    ladder = Ladder.parse([tier.epsilon for tier in request.tiers])
    prices = [tier.price_minor for tier in request.tiers]
    if prices != sorted(prices, reverse=True):
        raise InvalidRequestError("tiers: expected prices that never rise down the menu, got one that does")
    budget, top = parse_epsilon(request.budget, name="budget", ceiling=parse_epsilon("50") * 10_000), ladder.epsilons[0]
    if (budget * NANO).denominator != 1:
        raise InvalidRequestError("budget: expected steps of 10⁻⁹, got a finer one")
    if budget < top:
        raise InvalidRequestError("budget: expected at least the top tier's ε (what one round costs), got less")
    weight = parse_decimal("mean weight", request.mean_weight)
    if not 0 <= weight <= 1:
        raise InvalidRequestError("mean_weight: expected a part from 0 to 1, got another")
    ordered = request.promise == "steps"
    sizes = tuple(len(axis.values) for axis in request.axes)
    size = math.prod(sizes) if sizes else len(request.domain)
    plan = choose(request.mechanism, size, ladder, ordered=ordered, mean_weight=weight, sizes=sizes)
    return Planned(request, plan, nano_up(budget))


def open_panel(connection: Connection, keyring: Keyring, owner: Caller, planned: Planned, at: str) -> str:
    """Store a panel, its first round open; return its id.

    Raises:     InvalidRequestError: another currency than the owner's account is kept in.
    """
    request = planned.request
    if balance(connection, owner.id).currency != request.currency:
        raise InvalidRequestError("currency: expected the one that the owner's account is kept in, got another")
    panel, ranks = new_id("panel"), range(len(planned.plan.ladder))
    connection.execute(
        panels.insert().values(
            id=panel,
            owner_id=owner.id,
            title=request.title,
            mechanism=planned.plan.mechanism,
            domain_json=msgspec.json.encode(request.domain).decode(),
            axes_json=msgspec.json.encode(request.axes).decode() if request.axes else None,
            menu_json=msgspec.json.encode([decimal_text(epsilon) for epsilon in planned.plan.ladder]).decode(),
            prices_json=msgspec.json.encode([tier.price_minor for tier in request.tiers]).decode(),
            currency=request.currency,
            licence=request.licence,
            budget_nano=planned.budget_nano,
            epoch=keyring.noise_epoch,
            round=1,
            laws_json=msgspec.json.encode([planned.plan.parameters(rank) for rank in ranks]).decode(),
            created_at=at,
        )
    )
    log_panel(connection, keyring, panel_of(connection, panel), at)
    return panel


def log_panel(connection: Connection, keyring: Keyring, panel: Panel, at: str) -> None:
    """Put a panel's leaf into the log."""
    plan, metric = panel.plan, panel.plan.metric
    tiers = [
        PanelTier(
            epsilon=decimal_text(epsilon),
            law=plan.parameters(rank),
            price_minor=price,
            across=None if metric is None else metric.across(epsilon),
        )
        for rank, (epsilon, price) in enumerate(zip(plan.ladder, panel.prices, strict=True))
    ]

    def make(index: int) -> PanelLeaf:
        return PanelLeaf(
            index=index,
            at=at,
            panel=panel.id,
            domain=list(panel.domain),
            promise=panel.promise,
            mechanism=plan.mechanism,
            tiers=tiers,
            currency=panel.currency,
            licence=panel.licence,
            budget_nano=panel.budget_nano,
            axes=list(panel.axes) or None,
            metric=metric,
            spending=SPENDING,
        )

    (logged,) = append(connection, keyring, at, [make])
    connection.execute(panels.update().where(panels.c.id == panel.id).values(leaf_index=logged.index))
