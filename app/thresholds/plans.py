"""What a threshold question may look at and cost: a count's offered tiers from the lowest up, priced as they sell."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from fractions import Fraction

import msgspec
from sqlalchemy import Connection

from app.auth.accounts import Caller, Role
from app.catalog.books import book_of_chain
from app.catalog.lifecycle import parts_of
from app.engine.lines import below_ceiling, priced_lines, refuse_above_ceiling
from app.engine.quoting import refuse_off_sale
from app.engine.state import ChainState, Tier, chain_of_product, offered_laws
from app.errors import InvalidRequestError, UnknownTierError
from app.ledger.budget import due_of, reserve_of
from app.queries.measures import CountRows, CountUnits
from app.settings import Settings
from app.thresholds.shapes import ThresholdRequest
from pricing.book import PriceBook
from pricing.quote import Holding, quote
from tiers.adaptive.threshold import tier_widths
from tiers.budget import parse_decimal, parse_epsilon

__all__ = ["Look", "Plan", "Planned", "plan_threshold", "staircase"]


class Look(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A tier in its turn: it decides where its value is more than `half_width` from the half above the threshold."""

    law: str
    rank: int
    epsilon: str
    half_width: int


class Plan(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A question as it is quoted, ordered and stored: what may be looked at, in order, and the most it may cost."""

    product: str
    chain: str
    above: int
    beta: str
    key: str | None
    place: int
    looks: tuple[Look, ...]
    most_minor: int
    currency: str
    licence: str

    @property
    def widths(self) -> tuple[int, ...]:
        """Return the half-widths of all looks, in order."""
        return tuple(look.half_width for look in self.looks)


@dataclass(frozen=True, slots=True)
class Planned:
    """A plan beside what it was made from; `so_far` is (minor units, charge) of the question if a look ends it."""

    plan: Plan
    chain: ChainState
    top: Tier
    so_far: tuple[tuple[int, int], ...]


def plan_threshold(
    connection: Connection, settings: Settings, caller: Caller, product: str, asked: ThresholdRequest
) -> Planned:
    """Return what a question may look at and cost a caller now; no answer is read.

    Raises:     InvalidRequestError: the product is no count; a key that is not its, or none where there are several;
                β = 0. UnknownTierError, ForbiddenError: no such highest tier, or none that the role may have.
                NotFoundError, ConflictError, ChainFrozenError, CurrencyMismatchError: not for sale, or not to them.
    """
    chain, row = chain_of_product(connection, settings, product)
    refuse_off_sale(row, caller)
    if len(parts_of(connection, product)) > 1 or not isinstance(chain.query.measure, CountRows | CountUnits):
        raise InvalidRequestError("product: expected a count, got another measure")
    beta = parse_decimal("beta", asked.beta)
    if not 0 < beta < 1:
        raise InvalidRequestError("beta: expected 0 < β < 1, got another")
    tiers = _looked_at(chain, offered_laws(connection, product), caller, asked.highest)
    lowest = priced_lines(connection, settings, caller, [(product, tiers[0].law)])[0]
    book = book_of_chain(connection, chain.id)
    so_far = staircase(book, chain, tiers, lowest.holding, free=caller.role is Role.ANALYST)
    widths = tier_widths([tier.document.noise for tier in tiers], beta)
    plan = Plan(
        product=product,
        chain=chain.id,
        above=asked.above,
        beta=asked.beta,
        key=asked.key,
        place=_place(chain, asked.key),
        looks=tuple(Look(tier.law, tier.rank, tier.epsilon, width) for tier, width in zip(tiers, widths, strict=True)),
        most_minor=so_far[-1][0],
        currency=book.currency,
        licence=row.licence,
    )
    return Planned(plan, chain, tiers[-1], so_far)


def staircase(
    book: PriceBook, chain: ChainState, tiers: Sequence[Tier], holding: Holding, *, free: bool
) -> tuple[tuple[int, int], ...]:
    """Return what the orders of these tiers come to, one after another: minor units and charge after each.

    Each is priced as an order of its own, what was paid for the ones before being credited. So without a reserve the
    orders up to a tier cost what that tier costs alone; with one, a step never costs less than what its own charge must
    bring, and the steps together may cost more.

    Args:       tiers: lowest first. holding: what the buyer has of the chain now. free: for one who pays nothing.
    """
    paid = charged = 0
    made = []
    for tier in tiers:
        due, reserve = due_of(chain, tier), reserve_of(chain, tier)
        offered = quote(book, tier.law, holding, reserve=reserve)
        if holding.rank is None or offered.rank < holding.rank:  # an upgrade leaves the bundle that it stood in
            holding = Holding(offered.rank, max(0, holding.net_paid + offered.amount - offered.given_back))
        chain = replace(chain, spent_nano=chain.spent_nano + due, highest_nano=chain.highest_nano + due)
        paid, charged = paid + (0 if free else offered.amount), charged + due
        made.append((paid, charged))
    return tuple(made)


def _looked_at(chain: ChainState, laws: frozenset[str], caller: Caller, highest: str | None) -> list[Tier]:
    """The offered tiers up to the highest that is asked for, or that the caller may have: lowest first."""
    offered = [tier for tier in chain.tiers if tier.law in laws]
    wanted: Fraction | None = None if highest is None else parse_epsilon(highest)
    if wanted is None:
        tops = [tier for tier in offered if below_ceiling(caller, tier)] or offered[-1:]
    else:
        tops = [tier for tier in offered if tier.document.epsilon() == wanted]
    if not tops:
        raise UnknownTierError(
            f"highest: expected a tier that the product offers (its highest is ε {offered[0].epsilon}), got another",
            highest=offered[0].epsilon,
        )
    refuse_above_ceiling(caller, tops[0].document.epsilon())
    return [tier for tier in reversed(offered) if tier.rank >= tops[0].rank]


def _place(chain: ChainState, key: str | None) -> int:
    """Which entry of the answer is asked about."""
    if key is None and chain.length == 1:
        return 0
    if key is None or key not in chain.keys:
        rule = "none, of a count of one entry" if chain.length == 1 and not chain.keys else "one of the product's keys"
        raise InvalidRequestError(f"key: expected {rule}, got {'none' if key is None else 'another'}")
    return chain.keys.index(key)
