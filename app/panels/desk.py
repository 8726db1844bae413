"""The panels' desk: opens them, logs and stores closed rounds."""

import math
from dataclasses import dataclass
from functools import lru_cache
from typing import Literal

import msgspec
import numpy as np
from sqlalchemy import Connection, Row, select

from app.auth.accounts import Caller
from app.clock import new_id
from app.errors import ConflictError, InvalidRequestError, NotFoundError
from app.keyring import Keyring
from app.ledger.money import balance
from app.log.axes import Axis, read_axes
from app.log.journal import append
from app.log.panel_leaves import PanelLeaf, PanelTier, RoundLeaf, tier_identity
from app.panels.mechanism import choose, plan_of, read_plan
from app.panels.plans.base import Counts, Mechanism, Plan
from app.panels.plans.late import Menu
from app.panels.rounds import Closed
from app.panels.spending import SPENDING
from app.store.panel_schema import panel_rounds, panel_tiers, panels
from app.wire import PanelRequest
from pricing.money import check_currency
from tiers.budget import NANO, Ladder, decimal_text, nano_up, parse_decimal, parse_epsilon

__all__ = [
    "Panel",
    "Planned",
    "context_of",
    "counts_of",
    "log_panel",
    "open_panel",
    "panel_of",
    "plan_panel",
    "promise_of",
    "round_of",
    "sold_rounds",
    "store_round",
]


@dataclass(frozen=True, slots=True)
class Planned:
    """A panel that may be opened: its request, checked, and its plan."""

    request: PanelRequest
    plan: Plan
    budget_nano: int


@dataclass(frozen=True, slots=True)
class Panel:
    """A panel as stored.

    Args:       plan: of the tiers that it opened with. menu: those and the added ones, by number; so are the prices.
    """

    id: str
    owner: str
    title: str
    domain: tuple[str, ...]
    menu: Menu
    prices: tuple[int, ...]
    currency: str
    licence: str
    budget_nano: int
    epoch: int
    round: int
    leaf_index: int | None
    axes: tuple[Axis, ...] = ()

    @property
    def plan(self) -> Plan:
        """Return the plan of the tiers that the panel opened with: every round is derived with it first."""
        return self.menu.opening

    @property
    def book_version(self) -> int:
        """Return how often the panel has had a price list: once, and once a tier added."""
        return 1 + len(self.menu.late)

    @property
    def promise(self) -> str:
        """Return what ε means on the panel."""
        return promise_of(self.plan)

    def guarantee(self, number: int) -> str | None:
        """Return what a tier's ε promises, in words, where it is a step's."""
        metric = self.plan.metric
        return None if metric is None else metric.text(self.menu.epsilon(number))

    def tier(self, number: int) -> str:
        """Return what names a tier where other sales name a law."""
        return tier_identity(number, decimal_text(self.menu.epsilon(number)), self.menu.law(number))

    @property
    def cost_nano(self) -> int:
        """Return what a report costs its device: the top tier's ε, for that is what left it."""
        return nano_up(self.plan.ladder.epsilons[0])

    def rank(self, epsilon: str) -> int:
        """Return the number of the tier of an ε; raises NotFoundError, and InvalidParameterError where it is none."""
        wanted = parse_epsilon(epsilon)
        for number in range(len(self.menu)):
            if self.menu.epsilon(number) == wanted:
                return number
        raise NotFoundError("epsilon: expected that of a tier of the panel's menu, got another")


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


def panel_of(connection: Connection, panel: str, owner: Caller | None = None) -> Panel:
    """Return a panel; raises NotFoundError where there is none, or none of this owner's."""
    row = connection.execute(select(panels).where(panels.c.id == panel)).one_or_none()
    if row is None or (owner is not None and row.owner_id != owner.id):
        raise NotFoundError("panel: expected an existing id, got another")
    domain = msgspec.json.decode(row.domain_json, type=tuple[str, ...])
    mechanism: Mechanism = row.mechanism
    axes = read_axes(row.axes_json)
    size = math.prod(len(axis.values) for axis in axes) if axes else len(domain)
    epsilons = msgspec.json.decode(row.menu_json, type=tuple[str, ...])
    menu = _menu(mechanism, size, epsilons, row.laws_json, row.late_tiers)
    prices = msgspec.json.decode(row.prices_json, type=tuple[int, ...])
    kept = (row.currency, row.licence, row.budget_nano, row.epoch, row.round, row.leaf_index)
    return Panel(row.id, row.owner_id, row.title, domain, menu, prices, *kept, axes=axes)


def promise_of(plan: Plan) -> Literal["values", "steps"]:
    """Return what ε means: for any two values, or for each step of an ordered domain."""
    return "values" if plan.metric is None else "steps"


def store_round(connection: Connection, keyring: Keyring, panel: Panel, closed: Closed) -> None:
    """Sign, log and store a closed round, and open the next one; raises ConflictError where it is closed."""
    record = closed.record
    if panel_of(connection, panel.id).round != record.round:
        raise ConflictError("round: expected the open one, got one that is closed")
    at, number = record.at, keyring.signing_number
    signature = keyring.signer(number).sign(record.encode()).hex()
    if panel.leaf_index is None:  # opened by a version that did not log panels
        log_panel(connection, keyring, panel, at)

    def make(index: int) -> RoundLeaf:
        return RoundLeaf(index=index, at=at, record=record, key=number, signature=signature)

    (logged,) = append(connection, keyring, at, [make])
    connection.execute(
        panel_rounds.insert().values(
            panel_id=panel.id,
            number=record.round,
            reports=record.reports,
            record=msgspec.json.encode(record).decode(),
            signing_key=number,
            signature=signature,
            highest_rank=None,
            leaf_index=logged.index,
        )
    )
    rows = [
        {
            "panel_id": panel.id,
            "number": record.round,
            "rank": rank,
            "commitment": tier.commitment,
            "sealed_counts": keyring.seal(counts.astype("<i8").tobytes(), context_of(panel.id, record.round, rank)),
        }
        for rank, (tier, counts) in enumerate(zip(record.tiers, closed.counts, strict=True))
    ]
    connection.execute(panel_tiers.insert(), rows)
    connection.execute(panels.update().where(panels.c.id == panel.id).values(round=record.round + 1))


def sold_rounds(connection: Connection) -> list[tuple[str, int]]:
    """Return every round in the log of which a tier was sold, in its order."""
    wanted = select(panel_rounds.c.panel_id, panel_rounds.c.number)
    logged = panel_rounds.c.leaf_index.is_not(None) & panel_rounds.c.highest_rank.is_not(None)
    found = connection.execute(wanted.where(logged).order_by(panel_rounds.c.leaf_index))
    return [(row.panel_id, row.number) for row in found]


def counts_of(connection: Connection, keyring: Keyring, panel: str, number: int, rank: int) -> Counts:
    """Return how many reports of a tier hold each place; whoever asks has checked the right to it."""
    wanted = select(panel_tiers.c.sealed_counts).where(
        panel_tiers.c.panel_id == panel, panel_tiers.c.number == number, panel_tiers.c.rank == rank
    )
    sealed = connection.execute(wanted).scalar_one()
    return np.frombuffer(keyring.unseal(sealed, context_of(panel, number, rank)), "<i8").astype(np.int64)


def round_of(connection: Connection, panel: str, number: int) -> "Row[tuple[object, ...]]":
    """Return a closed round's row; raises NotFoundError."""
    here = (panel_rounds.c.panel_id == panel) & (panel_rounds.c.number == number)
    row = connection.execute(select(panel_rounds).where(here)).one_or_none()
    if row is None:
        raise NotFoundError("round: expected a closed round of the panel, got another")
    return row


@lru_cache(maxsize=64)
def _menu(mechanism: Mechanism, size: int, epsilons: tuple[str, ...], laws: str | None, late: int) -> Menu:
    known = len(epsilons) - late
    ladder = Ladder.parse(epsilons[:known])
    if laws is None:  # opened by a version that kept none: its mechanisms plan the same again
        return Menu(plan_of(mechanism, size, ladder))
    named = msgspec.json.decode(laws, type=list[dict[str, str]])
    opening = read_plan(mechanism, size, ladder, named[:known])
    return Menu(opening, tuple(parse_epsilon(each) for each in epsilons[known:]), tuple(named[known:]))


def context_of(panel: str, number: int, rank: int) -> str:
    """Return the place that a tier's sealed counts are bound to."""
    return f"panel/{panel}/{number}/{rank}"
