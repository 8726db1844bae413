"""A6 from an export: what a set of pseudonyms holds together, and what one more tier would add."""

from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass

from app.audit.statistics import holdings_of, panel_buyers
from tiers.audit.coalitions import CoalitionLoss, Purchase, coalition_loss, what_if
from tiers.budget import decimal_text
from tiers.errors import AuditError

__all__ = ["LineageLoss", "losses_of"]


@dataclass(frozen=True, slots=True)
class LineageLoss:
    """A coalition's loss on one dataset, exact; `added` and `epsilon_after`: with the tier in addition."""

    lineage: str
    chains: int
    epsilon: str
    delta: str
    rho: str | None
    epsilon_after: str | None = None
    added: str | None = None


def losses_of(
    read: Callable[[], Iterable[bytes]], buyers: Sequence[str], add: str | None = None
) -> tuple[LineageLoss, ...]:
    """Return what the buyers hold together of each dataset, from an export that has been verified.

    Memory grows with what they hold, not with the export.

    Args:       read: gives the export's lines from the first; it is called twice, and twice more where one of them
                bought no tier of a chain. add: CHAIN:LAW, a tier that a plan
                offers and that the first buyer would buy in addition.
    Raises:     AuditError: no buyer, a pseudonym that bought nothing, or a tier that no plan offers. UNREADABLE: as
                `holdings_of`.
    """
    chain, _, law = (add or "").partition(":")
    holdings, offered = holdings_of(read, buyers, (chain, law) if add is not None else None)
    held = [Purchase(each.buyer, each.lineage, each.chain, each.law) for each in holdings]
    _refuse_strangers(buyers, {each.buyer for each in held}, read)
    losses = dict(coalition_loss(held, buyers))
    if add is None:
        return tuple(_plain(lineage, loss) for lineage, loss in losses.items())
    if offered is None:
        raise AuditError("add: expected CHAIN:LAW of a tier that a plan offers, got another")
    lineage, tier = offered
    more = what_if(held, buyers, Purchase(buyers[0], lineage, chain, tier))
    losses.setdefault(lineage, more.before)
    after, added = decimal_text(more.after.basic().epsilon), decimal_text(more.added())
    return tuple(
        _plain(name, loss, after, added) if name == lineage else _plain(name, loss) for name, loss in losses.items()
    )


def _refuse_strangers(buyers: Collection[str], known: Collection[str], read: Callable[[], Iterable[bytes]]) -> None:
    strangers = sorted(set(buyers) - set(known))
    if strangers:
        strangers = sorted(set(strangers) - panel_buyers(read))
    if strangers:
        raise AuditError(f"buyer: expected pseudonyms of the export's sales, got {strangers[0][:60]!r}")


def _plain(lineage: str, loss: CoalitionLoss, after: str | None = None, added: str | None = None) -> LineageLoss:
    basic, rho = loss.basic(), loss.rho()
    bound = None if rho is None else decimal_text(rho)
    return LineageLoss(
        lineage, len(loss.best), decimal_text(basic.epsilon), decimal_text(basic.delta), bound, after, added
    )
