"""A chain's ladder in the store: what laws it has, and how an owner's further tiers join it."""

from collections.abc import Iterable, Mapping, Sequence

import msgspec
from sqlalchemy import Connection, func, select

from app.catalog.datasets import DatasetRow
from app.errors import ConflictError, IntegrityError
from app.ledger.budget import nano_text
from app.queries.canonical import canonicalise, fingerprint
from app.queries.component import components
from app.queries.model import Query
from app.store.schema import chains, draws, entitlements, planned_tiers
from tiers.accounting.charges import ChargeRule, LedgerKind
from tiers.accounting.levels import LevelRule, level_rules, newest, rule_of, tier_level
from tiers.budget import decimal_text
from tiers.canonical import canonical_bytes
from tiers.chain import PlannedTier, plan_of
from tiers.identity import TierLaw, chain_identity
from tiers.rank import by_accuracy, more_accurate

__all__ = ["add_tiers", "laws_of_chain", "laws_of_question", "level_rule", "tier_row"]

_ASIDE = 100_000


def laws_of_question(connection: Connection, dataset: DatasetRow, query: Query) -> tuple[tuple[TierLaw, ...], ...]:
    """Return the laws of each chain that answers a question on the newest snapshot; none before it is opened."""
    digests = [
        fingerprint(part.query.fingerprint_document()) for part in components(canonicalise(query, dataset.schema))
    ]
    return tuple(laws_of_chain(connection, chain_identity(dataset.id, dataset.snapshot, digest)) for digest in digests)


def laws_of_chain(connection: Connection, chain: str) -> tuple[TierLaw, ...]:
    """Return a chain's laws, most accurate first."""
    wanted = select(planned_tiers.c.law_json).where(planned_tiers.c.chain_id == chain).order_by(planned_tiers.c.rank)
    return tuple(TierLaw.from_document(msgspec.json.decode(text)) for text in connection.execute(wanted).scalars())


def level_rule(kind: LedgerKind, chain: str, stored: Iterable[tuple[TierLaw, int]]) -> LevelRule:
    """Return the rule of a chain's levels: the newest that gives all that are stored.

    Raises:     IntegrityError: levels that no rule gives.
    """
    rules = level_rules(kind, stored)
    if not rules:
        raise IntegrityError("levels: expected those of the chain's laws, got others", chain=chain)
    return newest(rules)


def add_tiers(connection: Connection, kind: LedgerKind, chain: str, late: Sequence[TierLaw], at: str) -> None:
    """Put further tiers into a chain and give all of its tiers the ranks that they have together.

    What is drawn stays as it is. A further tier is drawn when it is first sold, from its nearest known neighbours.

    Raises:     TierError: no exact residual from an upper neighbour or to a lower one. ConflictError: the chain has
                been charged by reservation, and the tier would stand above what was reserved, by level or by noise.
                IntegrityError: stored levels that are not the chain's.
    """
    known = {law.identity for law in laws_of_chain(connection, chain)}
    whole = plan_of(by_accuracy([*laws_of_chain(connection, chain), *late]))
    wanted = select(planned_tiers.c.law_json, planned_tiers.c.level_nano).where(planned_tiers.c.chain_id == chain)
    stored = [(TierLaw.from_document(msgspec.json.decode(law)), level) for law, level in connection.execute(wanted)]
    by = level_rule(kind, chain, stored)
    charged = connection.execute(select(chains.c.highest_nano).where(chains.c.id == chain)).scalar_one()
    reserved = by_accuracy([law for law, _ in stored])[0]  # what came after the first sale stands below it
    for new in late:
        level = tier_level(kind, new, by)
        beyond = level > charged or more_accurate(new, reserved)
        if charged and rule_of(kind, new) is ChargeRule.RESERVE and beyond:
            raise ConflictError(
                f"ladder: expected tiers within ρ {nano_text(charged)}, which was reserved when the chain was opened, "
                f"and of no less noise than its best, got one of ρ {nano_text(level)}",
                reason="reserved",
            )
    drawn = connection.execute(select(func.count()).select_from(draws).where(draws.c.chain_id == chain)).scalar_one()
    of_chain = planned_tiers.c.chain_id == chain
    connection.execute(planned_tiers.update().where(of_chain).values(rank=planned_tiers.c.rank + _ASIDE))
    highest = select(chains.c.highest_rank).where(chains.c.id == chain)
    before = connection.execute(highest).scalar_one()
    for tier in whole.tiers:
        row, law = tier_row(kind, chain, tier, by), tier.law.identity
        if law not in known:
            connection.execute(planned_tiers.insert().values(**row, added_at=at if drawn else None))
            continue
        this = of_chain & (planned_tiers.c.law == law)
        old = connection.execute(select(planned_tiers.c.rank).where(this)).scalar_one() - _ASIDE
        moved = {"rank": tier.rank, "same_as_above": row["same_as_above"]}
        connection.execute(planned_tiers.update().where(this).values(**moved))
        held = (entitlements.c.chain_id == chain) & (entitlements.c.law == law)
        connection.execute(entitlements.update().where(held).values(rank=tier.rank))
        if old == before:
            connection.execute(chains.update().where(chains.c.id == chain).values(highest_rank=tier.rank))


def tier_row(
    kind: LedgerKind, chain: str, tier: PlannedTier, by: LevelRule = LevelRule.LATTICE
) -> Mapping[str, object]:
    """Return a planned tier as the store keeps it, its level in the units of the ledger, by the chain's rule."""
    return {
        "chain_id": chain,
        "law": tier.law.identity,
        "rank": tier.rank,
        "law_json": canonical_bytes(tier.law.document()).decode(),
        "epsilon": decimal_text(tier.epsilon),
        "level_nano": tier_level(kind, tier.law, by),
        "half_width": str(tier.half_width),
        "same_as_above": None if tier.same_as_above is None else f"{tier.same_as_above:.4f}",
    }
