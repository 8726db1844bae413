"""Residuals by numbers: a finite table from the wrapped inverse, and a proved bound on what it is off by."""

import math
from fractions import Fraction

from flint import arb, fmpz_poly

from tiers.errors import InvalidParameterError
from tiers.noise.discrete_gaussian import DiscreteGaussian
from tiers.noise.hockey import float_above
from tiers.noise.table import LatticeTable
from tiers.real import exact, precision
from tiers.residual.certificate import SlackBound
from tiers.residual.spectrum import AnyLaw, Ring, invert, witness

__all__ = ["SLACK_LIMIT", "approximate", "distance"]

SLACK_LIMIT = Fraction(1, 10**6)
_BITS = 128
_NEAR = 1e-18
_POINTS_LIMIT = 1 << 15


def approximate(upper: AnyLaw, lower: AnyLaw) -> tuple[LatticeTable, SlackBound] | str:
    """Return a table and its certificate, or a witness that no residual exists.

    The quotient is inverted on a ring that holds both laws. Negative mass above 10⁻⁶ in all is refused, with the
    witness of the smallest ring that has one; less is clipped, and is a part of τ.

    Raises:     InvalidParameterError: laws too wide for a ring of 2¹⁵ points.
    Example:
        >>> from tiers.noise.discrete_gaussian import DiscreteGaussian
        >>> table, bound = approximate(DiscreteGaussian(Fraction(1)), DiscreteGaussian(Fraction(2)))
        >>> f"{float(bound.tau):.1e}", bound.distance <= bound.tau
        ('1.4e-09', True)
    """
    tables = [law if isinstance(law, LatticeTable) else law.table(_BITS) for law in (upper, lower)]
    if isinstance(upper, DiscreteGaussian) and isinstance(lower, DiscreteGaussian):
        near = _nearly_gaussian(upper, lower, tables)
        if near is not None:
            return near
    above, below = tables
    ends = (above.first, above.last, below.first, below.last, below.first - above.first, below.last - above.last)
    points = 1 << (2 * max(abs(end) for end in ends) + 1).bit_length()  # the residual has to fit as well
    if points > _POINTS_LIMIT:
        raise InvalidParameterError("laws", f"two that fit a ring of {_POINTS_LIMIT} points", points)
    ring = invert(upper, lower, points)
    negative = math.fsum(max(0.0, -float(entry.mid())) for entry in ring.entries)
    if negative > SLACK_LIMIT:
        return _first_witness(upper, lower, points)
    table = _clipped(ring)
    apart = distance(tables[0], table, tables[1])
    wrap = sum(each.outside + each.error for each in tables) / 2**_BITS
    least = min(float(entry.mid()) for entry in ring.entries)
    tau = max(Fraction(negative), Fraction(apart)) + Fraction(ring.accuracy() * points) + Fraction(wrap)
    if tau > SLACK_LIMIT:
        return f"the only candidate is off by {float(tau):.3g} in total variation, more than 10⁻⁶"
    return table, SlackBound(tau, least, negative, points, wrap, apart)


def _nearly_gaussian(
    upper: DiscreteGaussian, lower: DiscreteGaussian, tables: list[LatticeTable]
) -> tuple[LatticeTable, SlackBound] | None:
    """Return the discrete Gaussian of the missing variance, if it is proved to be within 10⁻¹⁸: no inversion then."""
    with precision(192):
        sigma = exact(lower.sigma**2 - upper.sigma**2).sqrt().mid()
        missing = Fraction(int((sigma * 10**30).floor().unique_fmpz()), 10**30) if sigma > 0.5 else None
    if missing is None:
        return None
    table = DiscreteGaussian(missing).table(_BITS)
    whole = list(table.masses)
    whole[-table.first] += (1 << _BITS) - sum(whole)
    step = LatticeTable(table.first, tuple(whole), _BITS)
    apart = distance(tables[0], step, tables[1])
    if apart > _NEAR:
        return None
    return step, SlackBound(Fraction(apart), step.pmf(step.last), 0.0, 0, 0.0, apart)


def _first_witness(upper: AnyLaw, lower: AnyLaw, most: int) -> str:
    """Return the witness of the smallest ring that holds one."""
    points = 2
    while points <= most:
        found = witness(invert(upper, lower, points))
        if found is not None:
            return found
        points *= 2
    raise InvalidParameterError("laws", "a quotient that balls can place", f"none certain on {most} points")


def distance(upper: LatticeTable, step: LatticeTable, lower: LatticeTable) -> float:
    """Return a proved bound on the total variation between upper * step and lower, whatever `step` is.

    Law:        ½·Σ_k |(upper * step)(k) − lower(k)|, with every table's errors added.
    Example:
        >>> from tiers.noise.skellam_table import skellam_table
        >>> one, two = (skellam_table(Fraction(rate), 128) for rate in (1, 2))
        >>> distance(one, one, two) < 2**-118
        True
    """
    shift = upper.bits + step.bits - lower.bits
    sums = (fmpz_poly(list(upper.masses)) * fmpz_poly(list(step.masses))).coeffs()
    first = upper.first + step.first
    both = range(min(first, lower.first), max(first + len(sums), lower.last + 1))
    total = 0
    for k in both:
        mass = int(sums[k - first]) if 0 <= k - first < len(sums) else 0
        total += abs(mass - (lower.mass(k) << shift))
    unit = Fraction(1, 1 << (upper.bits + step.bits))
    errors = sum(
        Fraction(table.outside + table.error * len(table.masses), 1 << table.bits) for table in (upper, step, lower)
    )
    return float_above((total * unit + 2 * errors) / 2)


def _clipped(ring: Ring) -> LatticeTable:
    points, masses = ring.points, []
    with precision(256):
        for k in range(-(points // 2) + 1, points // 2 + 1):
            scaled = ring.entries[k % points].mid() * arb(2) ** _BITS
            masses.append(max(0, int(scaled.floor().unique_fmpz())))
    peak = max(range(points), key=masses.__getitem__)
    masses[peak] += (1 << _BITS) - sum(masses)
    return LatticeTable(-(points // 2) + 1, tuple(masses), _BITS)
