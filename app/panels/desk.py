"""The panels' desk: panels as they are stored, their closed rounds, and what those came to."""

import math
from dataclasses import dataclass
from functools import lru_cache
from typing import Literal

import msgspec
import numpy as np
from sqlalchemy import Connection, Row, select

from app.auth.accounts import Caller
from app.errors import NotFoundError
from app.keyring import Keyring
from app.log.axes import Axis, read_axes
from app.log.panel_leaves import tier_identity
from app.panels.mechanism import plan_of, read_plan
from app.panels.plans.base import Counts, Mechanism, Plan
from app.panels.plans.late import Menu
from app.store.panel_schema import panel_rounds, panel_tiers, panels
from tiers.budget import Ladder, decimal_text, nano_up, parse_epsilon

__all__ = [
    "Panel",
    "context_of",
    "counts_of",
    "panel_of",
    "promise_of",
    "round_of",
    "sold_rounds",
]


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
    state: str
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
    kept = (row.currency, row.licence, row.budget_nano, row.epoch, row.round, row.leaf_index, row.state)
    return Panel(row.id, row.owner_id, row.title, domain, menu, prices, *kept, axes=axes)


def promise_of(plan: Plan) -> Literal["values", "steps"]:
    """Return what ε means: for any two values, or for each step of an ordered domain."""
    return "values" if plan.metric is None else "steps"


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
