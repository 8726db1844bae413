"""The panels' desk: opens them, takes rounds and orders down, and says who may read which tier."""

from dataclasses import dataclass
from functools import lru_cache

import msgspec
import numpy as np
from sqlalchemy import Connection, Row, func, select

from app.auth.accounts import Caller, Role
from app.clock import new_id
from app.errors import ConflictError, ForbiddenError, InvalidRequestError, NotEntitledError, NotFoundError
from app.keyring import Keyring
from app.ledger.budget import nano_text
from app.ledger.earnings import accrue_to
from app.ledger.money import balance, market_account, post
from app.panels.mechanism import Counts, Mechanism, Plan, choose
from app.panels.rounds import Closed, RoundRecord
from app.store.panel_schema import panel_orders, panel_rounds, panel_tiers, panels
from app.views import PanelOrderView, PanelRoundView, PanelTierView, PanelView
from app.wire import PanelRequest
from pricing.money import Money, check_currency
from tiers.budget import Ladder, decimal_text, nano_up, parse_epsilon

__all__ = [
    "Panel",
    "Planned",
    "counts_of",
    "disclosed_round",
    "held_rank",
    "open_panel",
    "order",
    "panel_of",
    "panel_view",
    "plan_panel",
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
    """A panel as stored."""

    id: str
    owner: str
    title: str
    domain: tuple[str, ...]
    plan: Plan
    prices: tuple[int, ...]
    currency: str
    licence: str
    budget_nano: int
    epoch: int
    round: int

    @property
    def cost_nano(self) -> int:
        """Return what a report costs its device: the top tier's ε, for that is what left it."""
        return nano_up(self.plan.ladder.epsilons[0])

    def rank(self, epsilon: str) -> int:
        """Return the tier of an ε, from 0; raises NotFoundError."""
        try:
            return self.plan.ladder.epsilons.index(parse_epsilon(epsilon))
        except ValueError:
            raise NotFoundError("epsilon: expected that of a tier of the panel's menu, got another") from None


def plan_panel(request: PanelRequest) -> Planned:
    """Return what a request opens; nothing is stored.

    Raises:     InvalidRequestError: values that repeat, prices that rise down the menu, a budget below one round's ε,
                or a mechanism that does not keep the promise. InvalidParameterError, BudgetOrderError: a menu's ε.
    """
    check_currency(request.currency)
    if len(set(request.domain)) != len(request.domain):
        raise InvalidRequestError("domain: expected values that differ, got one twice")
    ladder = Ladder.parse([tier.epsilon for tier in request.tiers])
    prices = [tier.price_minor for tier in request.tiers]
    if prices != sorted(prices, reverse=True):
        raise InvalidRequestError("tiers: expected prices that never rise down the menu, got one that does")
    budget, top = parse_epsilon(request.budget, name="budget", ceiling=parse_epsilon("50") * 10_000), ladder.epsilons[0]
    if budget < top:
        raise InvalidRequestError("budget: expected at least the top tier's ε (what one round costs), got less")
    plan = choose(request.mechanism, len(request.domain), ladder, ordered=request.promise == "steps")
    return Planned(request, plan, nano_up(budget))


def open_panel(connection: Connection, keyring: Keyring, owner: Caller, planned: Planned, at: str) -> str:
    """Store a panel, its first round open; return its id.

    Raises:     InvalidRequestError: another currency than the owner's account is kept in.
    """
    request = planned.request
    if balance(connection, owner.id).currency != request.currency:
        raise InvalidRequestError("currency: expected the one that the owner's account is kept in, got another")
    panel = new_id("panel")
    connection.execute(
        panels.insert().values(
            id=panel,
            owner_id=owner.id,
            title=request.title,
            mechanism=planned.plan.mechanism,
            domain_json=msgspec.json.encode(request.domain).decode(),
            menu_json=msgspec.json.encode([decimal_text(epsilon) for epsilon in planned.plan.ladder]).decode(),
            prices_json=msgspec.json.encode([tier.price_minor for tier in request.tiers]).decode(),
            currency=request.currency,
            licence=request.licence,
            budget_nano=planned.budget_nano,
            epoch=keyring.noise_epoch,
            round=1,
            created_at=at,
        )
    )
    return panel


def panel_of(connection: Connection, panel: str, owner: Caller | None = None) -> Panel:
    """Return a panel; raises NotFoundError where there is none, or none of this owner's."""
    row = connection.execute(select(panels).where(panels.c.id == panel)).one_or_none()
    if row is None or (owner is not None and row.owner_id != owner.id):
        raise NotFoundError("panel: expected an existing id, got another")
    domain = msgspec.json.decode(row.domain_json, type=tuple[str, ...])
    mechanism: Mechanism = row.mechanism
    plan = _planned(mechanism, len(domain), msgspec.json.decode(row.menu_json, type=tuple[str, ...]))
    prices = msgspec.json.decode(row.prices_json, type=tuple[int, ...])
    kept = (row.currency, row.licence, row.budget_nano, row.epoch, row.round)
    return Panel(row.id, row.owner_id, row.title, domain, plan, prices, *kept)


def panel_view(connection: Connection, panel: str) -> PanelView:
    """Return a panel's listing; raises NotFoundError."""
    found = panel_of(connection, panel)
    plan = found.plan
    rounds = connection.execute(
        select(panel_rounds).where(panel_rounds.c.panel_id == panel).order_by(panel_rounds.c.number)
    )
    return PanelView(
        panel=found.id,
        title=found.title,
        domain=list(found.domain),
        promise="values" if plan.subset else "steps",
        mechanism=plan.mechanism,
        device_law=plan.parameters(0),
        tiers=[
            PanelTierView(rank=rank, epsilon=decimal_text(epsilon), price_minor=price, law=plan.parameters(rank))
            for rank, (epsilon, price) in enumerate(zip(plan.ladder, found.prices, strict=True))
        ],
        currency=found.currency,
        licence=found.licence,
        budget=nano_text(found.budget_nano),
        open_round=found.round,
        rounds=[
            PanelRoundView(
                round=row.number,
                reports=row.reports,
                record=msgspec.json.decode(row.record),
                signing_key=row.signing_key,
                signature=row.signature,
            )
            for row in rounds
        ],
    )


def store_round(connection: Connection, keyring: Keyring, panel: Panel, closed: Closed) -> None:
    """Store a closed round with its signature and open the next one; raises ConflictError where it is closed."""
    record = closed.record
    if panel_of(connection, panel.id).round != record.round:
        raise ConflictError("round: expected the open one, got one that is closed")
    number = keyring.signing_number
    connection.execute(
        panel_rounds.insert().values(
            panel_id=panel.id,
            number=record.round,
            reports=record.reports,
            record=msgspec.json.encode(record).decode(),
            signing_key=number,
            signature=keyring.signer(number).sign(record.encode()).hex(),
            highest_rank=None,
        )
    )
    rows = [
        {
            "panel_id": panel.id,
            "number": record.round,
            "rank": rank,
            "commitment": tier.commitment,
            "sealed_counts": keyring.seal(counts.astype("<i8").tobytes(), _context(panel.id, record.round, rank)),
        }
        for rank, (tier, counts) in enumerate(zip(record.tiers, closed.counts, strict=True))
    ]
    connection.execute(panel_tiers.insert(), rows)
    connection.execute(panels.update().where(panels.c.id == panel.id).values(round=record.round + 1))


def order(
    connection: Connection, caller: Caller, panel: Panel, number: int, rank: int, fee_bps: int, at: str
) -> PanelOrderView:
    """Sell a tier of a closed round, once an account: whoever asks again gets the same order.

    The devices were charged when they reported, so a sale costs no budget. What an account has paid for tiers of the
    round is credited. Analysts pay nothing, within their ceiling.

    Raises:     NotFoundError: no such closed round. ForbiddenError: above the analyst's ceiling.
                InsufficientFundsError, CurrencyMismatchError: as money is posted.
    """
    sold = _round(connection, panel.id, number)
    mine = (
        (panel_orders.c.account_id == caller.id)
        & (panel_orders.c.panel_id == panel.id)
        & (panel_orders.c.number == number)
    )
    if caller.ceiling_nano is not None and nano_up(panel.plan.ladder.epsilons[rank]) > caller.ceiling_nano:
        raise ForbiddenError("tier: expected one at or below the role's ceiling, got one above it")
    row = connection.execute(select(panel_orders).where(mine, panel_orders.c.rank == rank)).one_or_none()
    if row is None:
        paid = select(func.coalesce(func.sum(panel_orders.c.amount_minor), 0)).where(mine)
        credit = int(connection.execute(paid).scalar_one())
        due = 0 if caller.role is Role.ANALYST else max(0, panel.prices[rank] - credit)
        identity, price = new_id("order"), Money(due, panel.currency)
        if caller.role is not Role.ANALYST:
            post(connection, caller.id, "payment", -price, identity, at)
            post(connection, market_account(connection, price.currency, at), "sale", price, identity, at)
            accrue_to(connection, panel.owner, price, fee_bps, identity, at)
        named = {"account_id": caller.id, "panel_id": panel.id, "number": number, "rank": rank}
        money = {"amount_minor": due, "currency": panel.currency}
        connection.execute(panel_orders.insert().values(id=identity, **named, **money, created_at=at))
        if sold.highest_rank is None or rank < sold.highest_rank:
            here = (panel_rounds.c.panel_id == panel.id) & (panel_rounds.c.number == number)
            connection.execute(panel_rounds.update().where(here).values(highest_rank=rank))
        row = connection.execute(select(panel_orders).where(panel_orders.c.id == identity)).one()
    return PanelOrderView(
        order=row.id,
        panel=panel.id,
        round=number,
        rank=rank,
        epsilon=decimal_text(panel.plan.ladder.epsilons[rank]),
        amount_minor=row.amount_minor,
        currency=row.currency,
        created_at=row.created_at,
    )


def held_rank(connection: Connection, caller: Caller, panel: str, number: int, rank: int) -> RoundRecord:
    """Return the record of a round of which the caller holds a tier; raises NotEntitledError."""
    wanted = (
        select(panel_rounds.c.record)
        .join(
            panel_orders,
            (panel_orders.c.panel_id == panel_rounds.c.panel_id) & (panel_orders.c.number == panel_rounds.c.number),
        )
        .where(
            panel_orders.c.account_id == caller.id,
            panel_orders.c.panel_id == panel,
            panel_orders.c.number == number,
            panel_orders.c.rank == rank,
        )
    )
    record = connection.execute(wanted).scalar_one_or_none()
    if record is None:
        raise NotEntitledError("tier: expected an order of the caller's for this tier of this round, got none")
    return msgspec.json.decode(record, type=RoundRecord)


def counts_of(connection: Connection, keyring: Keyring, panel: str, number: int, rank: int) -> Counts:
    """Return how many reports of a tier hold each place; whoever asks has checked the right to it."""
    wanted = select(panel_tiers.c.sealed_counts).where(
        panel_tiers.c.panel_id == panel, panel_tiers.c.number == number, panel_tiers.c.rank == rank
    )
    sealed = connection.execute(wanted).scalar_one()
    return np.frombuffer(keyring.unseal(sealed, _context(panel, number, rank)), "<i8").astype(np.int64)


def disclosed_round(connection: Connection, panel: str, number: int) -> tuple[RoundRecord, str, int]:
    """Return a round's record, its signature, and the highest rank sold; raises NotFoundError where none was."""
    row = _round(connection, panel, number)
    if row.highest_rank is None:
        raise NotFoundError("round: expected one of which a tier was sold, got one without a sale")
    return msgspec.json.decode(row.record, type=RoundRecord), row.signature, row.highest_rank


def _round(connection: Connection, panel: str, number: int) -> "Row[tuple[object, ...]]":
    here = (panel_rounds.c.panel_id == panel) & (panel_rounds.c.number == number)
    row = connection.execute(select(panel_rounds).where(here)).one_or_none()
    if row is None:
        raise NotFoundError("round: expected a closed round of the panel, got another")
    return row


@lru_cache(maxsize=64)
def _planned(mechanism: Mechanism, size: int, menu: tuple[str, ...]) -> Plan:
    return Plan.of(mechanism, size, Ladder.parse(menu))


def _context(panel: str, number: int, rank: int) -> str:
    return f"panel/{panel}/{number}/{rank}"
