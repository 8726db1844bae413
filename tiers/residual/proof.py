"""A proof for all k that a finite mix is a probability law, or the k at which it is negative."""

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction

from flint import acb, arb

from tiers.real import exact, precision
from tiers.residual.certificate import BallProof
from tiers.residual.laws import FiniteMix, Geometric, Rational, Term, as_scales
from tiers.sensitivity import ChangeSet

__all__ = ["OUTWEIGHED", "Negative", "outweighed", "prove"]

_BITS_LIMIT = 1 << 12
_BODY_LIMIT = 4096


OUTWEIGHED = "Π(1 + p² + 2p·e^L(ξ)) < 2·Π(1 + p²), L(ξ) the lower law's loss at a shift by ξ"


def outweighed(upper: Geometric, lower: Rational) -> bool:
    """Return whether the middle of the signed measure certainly outweighs all that it takes away, at every k.

    A product term that shifts the lower law by ξ₁ ± ξ₂ … weighs p a shift, and multiplies its probability by at most
    e^L(ξ₁)·e^L(ξ₂)…; all of them together are less than the one term without a shift. Enough, and not needed.

    Example:
        >>> from tiers.noise.msdlap import MultiScaleDiscreteLaplace
        >>> from tiers.noise.tsg import TwoSidedGeometric
        >>> outweighed(MultiScaleDiscreteLaplace(64, Fraction(12)), TwoSidedGeometric(Fraction(5, 64)))
        True
    """
    law = as_scales(upper)
    with precision(128):
        decay = (-exact(law.rate)).exp()
        middle, all_terms = 1 + decay * decay, arb(1)
        for scale in range(1, law.scales + 1):
            all_terms *= 1 + 2 * decay * exact(lower.epsilon(ChangeSet.scalar(scale))).exp() / middle
        return bool(all_terms < 2)


@dataclass(frozen=True, slots=True)
class Negative:
    """A k at which the only candidate residual is certainly negative."""

    place: int
    value: float


def prove(mix: FiniteMix) -> BallProof | Negative | None:
    """Return a proof that pmf(k) > 0 for all k, a k where it is negative, or None where balls cannot tell.

    From |k| = `start` on the pmf is a sum of powers of those roots of the lower law that the upper law has not. The
    slowest of these share one modulus and lie among ξ-th roots, so on each class of k modulo ξ they give a constant
    times e^(−fall·k); from some K on, the other roots together, which fall faster, are smaller than that. So finitely
    many k are left, and balls decide each. Where all roots cancel, the candidate is finite and all of it is checked.

    Example:
        >>> from tiers.noise.msdlap import MultiScaleDiscreteLaplace
        >>> from tiers.noise.tsg import TwoSidedGeometric
        >>> prove(FiniteMix(MultiScaleDiscreteLaplace(2, Fraction(4)), TwoSidedGeometric(Fraction(3, 4)))).checked_to
        3
    """
    bits = 256
    while bits <= _BITS_LIMIT:
        with precision(bits):
            found = _attempt(mix)
        if found is not None:
            return found
        bits *= 2
    return None


def _attempt(mix: FiniteMix) -> BallProof | Negative | None:
    terms, last = mix.terms(), mix.start
    tail = "beyond, all is 0: every root of the lower law cancels"
    if terms:
        fall = min(term.root.fall for term in terms)
        slowest = [term for term in terms if term.root.fall == fall]
        classes = max(term.root.turn.denominator for term in slowest)
        leading = [_leading(slowest, place) for place in range(classes)]
        if (place := next((place for place, value in enumerate(leading) if value < 0), None)) is not None:
            return _negative_in_class(mix, place, classes)
        if not all(value > 0 for value in leading):
            return None
        least = min(leading, key=lambda value: float(value.abs_lower()))
        reached = _others_vanish(mix, [term for term in terms if term.root.fall != fall], fall, least.abs_lower())
        if reached is None:
            return None
        last = reached
        tail = f"beyond, the leading terms e^(−{fall}·k) exceed all others, with a positive constant"
    body = [mix.pmf_ball(k) for k in range(last + 1)]
    worst = min(range(len(body)), key=lambda k: float(body[k].mid()))
    if body[worst] < 0:
        return Negative(worst, float(body[worst].mid()))
    if not all(value > 0 for value in body[: last + 1 if terms else last]):
        return None
    return BallProof(len(body) - 1, float(body[worst].mid()), tail)


def _leading(slowest: Sequence[Term], place: int) -> arb:
    """Return the constant of the slowest decay on one class of k, as the factor of e^(−fall·k)."""
    total = acb(0)
    for term in slowest:
        angle = exact(2 * term.root.turn * place)
        total += term.factor * acb(angle.cos_pi(), angle.sin_pi())
    return total.real


def _others_vanish(mix: FiniteMix, others: Sequence[Term], fall: Fraction, least: arb) -> int | None:
    """Return K from which on all other roots together stay below the leading term, or None."""
    sizes = [(abs(term.factor), (exact(fall) - exact(term.root.fall)).exp()) for term in others]
    k = mix.start
    while k <= max(_BODY_LIMIT, 2 * mix.start):
        rest = sum((factor * size**k for factor, size in sizes), arb(0))
        if rest < least:
            return k
        k += 1 + k // 8
    return None


def _negative_in_class(mix: FiniteMix, place: int, classes: int) -> Negative | None:
    k = mix.start + (place - mix.start) % classes
    while k <= 1 << 20:
        value = mix.pmf_ball(k)
        if value < 0:
            return Negative(k, float(value.mid()))
        k += classes * (1 + k // (8 * classes))
    return None
