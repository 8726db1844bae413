"""Late tiers: a new tier in a chain that has been drawn, in any place, as if it had been there from the start.

Between two known tiers it is a bridge, below the lowest a residual, above the top a bridge to the truth. The joint law
of all tiers is the same in every order of insertion (tests enumerate all orders of small chains).
"""

from collections.abc import Callable, Sequence
from itertools import pairwise

from tiers.chain.draw import Draw, noise_of
from tiers.chain.steps import between, sampler_of, step_law
from tiers.errors import BudgetOrderError, InvalidParameterError, SlackNotAllowedError, TruthChangedError
from tiers.identity import DrawSpec, Role, TierLaw
from tiers.rank import by_accuracy
from tiers.residual.plan import residual

__all__ = ["check_truth", "insert", "late_spec"]


def late_spec(law: TierLaw, known: Sequence[Draw], *, epoch: int) -> DrawSpec:
    """Return the draw that puts a further tier into a chain: its role, its parents and its sampler follow from its law.

    Guarantee:  refused, not approximated, where a residual to a known neighbour is not certified as exact.
    Args:       known: all draws of the chain so far, in any order. epoch: of the owner's secret that makes the new key.
    Raises:     NoResidualError, SlackNotAllowedError: no exact residual from the upper or to the lower neighbour.
                InvalidParameterError: no known draw, another chain, change set or δ, or a law that the chain has.
                BudgetOrderError: its ε does not lie strictly between those of its neighbours.
    """
    first = _one_chain(law, known)
    order = by_accuracy([*(draw.spec.law for draw in known), law])
    place = order.index(law)
    above, below = order[place - 1 : place], order[place + 1 : place + 2]
    for rank, (upper, lower) in enumerate(pairwise(order), start=2):
        if lower.epsilon() >= upper.epsilon():
            raise BudgetOrderError(rank, upper.epsilon(), lower.epsilon())
    if below and (slack := _slack_edge(known)) is not None:
        raise slack
    role = Role.RESIDUAL if not below else Role.BRIDGE if above else Role.LATE_TOP
    parents = (*above, *below)
    noises = tuple(parent.noise for parent in parents)
    if role is Role.RESIDUAL:
        residual(above[0].noise, law.noise)
        sampler = sampler_of(step_law(role, law.noise, noises), first.length)
    else:
        sampler = between(role, law.noise, noises).name
    return DrawSpec(first.chain, epoch, role, law, parents, first.grain, first.length, sampler)


def insert(
    law: TierLaw,
    known: Sequence[Draw],
    key_of: Callable[[DrawSpec], bytes],
    *,
    epoch: int,
    truth: Sequence[int] | None = None,
    base_key: bytes | None = None,
) -> Draw:
    """Return a further tier of a drawn chain.

    Guarantee:  the joint law of all tiers is the same as if they had been drawn top-down at once; a tier above the top
                is drawn from the very integers that the chain was drawn from, or not at all.
    Args:       known: all draws of the chain so far. key_of: the new draw's stream key. truth, base_key: for a late top
                only, the query's exact integers, computed again, and the key of the chain's base draw.
    Raises:     TruthChangedError: the truth is not what the base draw was made from. InvalidParameterError: a late top
                without truth and base key, or either of them for another role; else as `late_spec`.
    Example:
        >>> from tiers.budget import Ladder
        >>> from tiers.chain import draw_chain, plan, specs
        >>> full, key_of = plan(Ladder.parse(["2", "1", "0.5"]), 1), lambda spec: bytes(32)
        >>> top, _, low = draw_chain([70], specs("0" * 64, full, epoch=1, grain=0, length=1), key_of)
        >>> insert(full.tiers[1].law, [top, low], key_of, epoch=1).spec.role.value
        'bridge'
    """
    spec = late_spec(law, known, epoch=epoch)
    answers = {draw.spec.law: draw.answer for draw in known}
    if (spec.role is Role.LATE_TOP) != (truth is not None) or (truth is None) != (base_key is None):
        raise InvalidParameterError(
            "truth and base key", "both for a tier above the top, else neither", spec.role.value
        )
    if truth is not None and base_key is not None:
        check_truth(truth, known, base_key)
        upper: Sequence[int] = truth
    else:
        upper = answers[spec.parents[0]]
    gaps: Sequence[int] = ()
    if spec.role is not Role.RESIDUAL:
        gaps = [below - above for above, below in zip(upper, answers[spec.parents[-1]], strict=True)]
    noise = noise_of(spec, key_of(spec), gaps)
    return Draw(spec, tuple(value + extra for value, extra in zip(upper, noise, strict=True)))


def check_truth(truth: Sequence[int], known: Sequence[Draw], base_key: bytes) -> None:
    """Refuse a truth other than the integers that the chain's base draw was made from: q = r_b − η(base draw).

    r_b is the tier that the base draw made, which after a late top is not the present top.

    Raises:     TruthChangedError: a mismatch, which says nothing of either value: refuse, and alarm.
                InvalidParameterError: not exactly one base draw, or a truth of another length.
    """
    bases = [draw for draw in known if draw.spec.role is Role.BASE]
    if len(bases) != 1:
        raise InvalidParameterError("known draws", "exactly one base draw", len(bases))
    if len(truth) != bases[0].spec.length:
        raise InvalidParameterError("truth", f"{bases[0].spec.length} entries", len(truth))
    noise = noise_of(bases[0].spec, base_key)
    if any(value + extra != made for value, extra, made in zip(truth, noise, bases[0].answer, strict=True)):
        raise TruthChangedError(bases[0].spec.chain)


def _one_chain(law: TierLaw, known: Sequence[Draw]) -> DrawSpec:
    if not known:
        raise InvalidParameterError("known draws", "the draws of a chain, one or more", 0)
    first = known[0].spec
    shapes = {(draw.spec.chain, draw.spec.grain, draw.spec.length) for draw in known}
    if len(shapes) != 1 or len({draw.spec.law for draw in known}) != len(known):
        raise InvalidParameterError("known draws", "one draw a law, all of one chain", "others")
    if law in {draw.spec.law for draw in known}:
        raise InvalidParameterError("law", "one that the chain has not: a tier has one answer, for ever", law.identity)
    for name in ("change_set", "delta"):
        if any(getattr(draw.spec.law, name) != getattr(law, name) for draw in known):
            raise InvalidParameterError(name, "that of the chain", getattr(law, name))
    return first


def _slack_edge(known: Sequence[Draw]) -> SlackNotAllowedError | None:
    """Return the refusal of a chain with a step that is not exact: it is drawn top-down only."""
    for draw in known:
        if draw.spec.role is Role.RESIDUAL:
            upper, lower = draw.spec.parents[0].noise, draw.spec.law.noise
            tau = residual(upper, lower, allow_slack=True).certificate.tau
            if tau:
                return SlackNotAllowedError(repr(upper), repr(lower), float(tau))
    return None
