"""A proof for all k that a finite mix is a probability law, or the k at which it is negative."""

from dataclasses import dataclass
from fractions import Fraction

from flint import acb, arb

from tiers.real import exact, precision
from tiers.residual.certificate import BallProof
from tiers.residual.laws import FiniteMix, as_scales

__all__ = ["Negative", "prove"]

_BITS_LIMIT = 1 << 12
_BODY_LIMIT = 4096


@dataclass(frozen=True, slots=True)
class Negative:
    """A k at which the only candidate residual is certainly negative."""

    place: int
    value: float


def prove(mix: FiniteMix) -> BallProof | Negative | None:
    """Return a proof that pmf(k) > 0 for all k, a k where it is negative, or None where balls cannot tell.

    Beyond |k| = D the pmf is a sum of powers of the lower law's roots. Those of the largest modulus, w^Δ′ = p′, give
    on each class of k modulo Δ′ a positive constant times e^(−rate′·k/Δ′); from some K on, the other roots together,
    which fall faster, are smaller than that. So finitely many k are left, and balls decide each.

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
    lower = as_scales(mix.lower)
    leading = [_leading(mix, place) for place in range(lower.scales)]
    for place, value in enumerate(leading):
        if value < 0:
            return _negative_in_class(mix, place)
    if not all(value > 0 for value in leading):
        return None
    least = min(leading, key=lambda value: float(value.abs_lower()))
    last = _others_vanish(mix, least.abs_lower())
    if last is None:
        return None
    body = [mix.pmf_ball(k) for k in range(max(last, mix.degree) + 1)]
    worst = min(range(len(body)), key=lambda k: float(body[k].mid()))
    if body[worst] < 0:
        return Negative(worst, float(body[worst].mid()))
    if not all(value > 0 for value in body):
        return None
    tail = f"beyond, the leading terms e^(−{lower.rate}·k/{lower.scales}) exceed all others, with a positive constant"
    return BallProof(len(body) - 1, float(body[worst].mid()), tail)


def _leading(mix: FiniteMix, place: int) -> arb:
    """Return the constant of the slowest decay on k ≡ place, as the factor of e^(−rate·k/Δ)."""
    lower = as_scales(mix.lower)
    slowest = mix.terms()[-lower.scales :]
    total = acb(0)
    for turn, (_, factor) in enumerate(slowest):
        angle = exact(Fraction(2 * turn * place, lower.scales))
        total += factor * acb(angle.cos_pi(), angle.sin_pi())
    return total.real


def _others_vanish(mix: FiniteMix, least: arb) -> int | None:
    """Return K from which on all other roots together stay below the leading term, or None."""
    lower = as_scales(mix.lower)
    others = mix.terms()[: -lower.scales]
    size = (-exact(lower.rate) / lower.scales).exp()
    k = mix.degree
    while k <= _BODY_LIMIT:
        rest = sum(((abs(factor) * (abs(root) / size) ** k) for root, factor in others), arb(0))
        if rest < least:
            return k
        k += 1 + k // 8
    return None


def _negative_in_class(mix: FiniteMix, place: int) -> Negative | None:
    scales = as_scales(mix.lower).scales
    k = mix.degree + (place - mix.degree) % scales
    while k <= 1 << 20:
        value = mix.pmf_ball(k)
        if value < 0:
            return Negative(k, float(value.mid()))
        k += scales * (1 + k // (8 * scales))
    return None
