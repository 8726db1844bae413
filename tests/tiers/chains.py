"""Small chains that the tests on late tiers share."""

import hashlib
from fractions import Fraction

from tiers.identity import DrawSpec, TierLaw, stream_key
from tiers.noise.msdlap import MultiScaleDiscreteLaplace
from tiers.noise.skellam import Skellam
from tiers.noise.tsg import TwoSidedGeometric
from tiers.sensitivity import ChangeSet

CHAIN, ONE, SMALL = "0" * 64, ChangeSet.scalar(1), Fraction(1, 1000)


def tsg(*rates: str) -> list[TierLaw]:
    return [TierLaw(TwoSidedGeometric(Fraction(rate)), ONE) for rate in rates]


def skellam(*rates: str) -> list[TierLaw]:
    return [TierLaw(Skellam(Fraction(rate)), ONE, SMALL) for rate in rates]


def mixed() -> list[TierLaw]:
    multi = [MultiScaleDiscreteLaplace(2, Fraction(rate)) for rate in (5, 4)]
    plain = [TwoSidedGeometric(Fraction(rate)) for rate in (Fraction(3, 4), Fraction(2, 5))]
    return [TierLaw(noise, ChangeSet.scalar(2)) for noise in (*multi, *plain)]


def key_of(spec: DrawSpec) -> bytes:
    return stream_key(hashlib.sha256(b"insertion").digest(), spec)
