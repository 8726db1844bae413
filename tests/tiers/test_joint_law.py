"""Late tiers: the joint law is the same in every order of insertion, proved by enumeration; so is every sampler."""

import itertools
import math
from collections.abc import Sequence
from fractions import Fraction
from functools import cache

import numpy as np
import pytest

from tests.sampling.tree import assert_law, law_of
from tests.tiers.chains import CHAIN, mixed, skellam, tsg
from tiers.chain import Draw, late_spec
from tiers.chain.steps import between, step_law, step_sampler
from tiers.identity import DrawSpec, Role, TierLaw
from tiers.noise.discrete_gaussian import DiscreteGaussian
from tiers.noise.law import NoiseLaw
from tiers.noise.msdlap import MultiScaleDiscreteLaplace

CHAINS = {
    "tsg-3": tsg("2", "1", "0.5"),
    "tsg-4": tsg("3", "1", "0.9", "0.2"),
    "skellam-4": skellam("0.5", "1", "2.5", "4"),
    "mixed-3": mixed()[1:],
    "mixed-4": mixed(),
}
TRUTH = 2
WINDOW = range(-2, 6)


@cache
def conditional(role: Role, law: NoiseLaw, parents: tuple[NoiseLaw, ...], noise: int, gap: int) -> float:
    """What the product's own sampler gives to one value, given what it may depend on."""
    if role in (Role.BRIDGE, Role.LATE_TOP):
        return between(role, law, parents).pmf(noise, gap)
    return step_law(role, law, parents).pmf(noise)


def joint(tiers: Sequence[TierLaw], order: Sequence[int]) -> dict[tuple[int, ...], float]:
    """The joint pmf on a window when tiers are put in one by one: roles and parents as the product chooses them."""
    drawn: list[Draw] = []
    made: list[DrawSpec] = []
    for at in order:
        law = tiers[at]
        spec = late_spec(law, drawn, epoch=1) if drawn else DrawSpec(CHAIN, 1, Role.BASE, law, (), 0, 1, "tsg-digits/2")
        drawn.append(Draw(spec, (0,)))
        made.append(spec)
    place = {law: at for at, law in enumerate(tiers)}
    table = {}
    for point in itertools.product(WINDOW, repeat=len(tiers)):
        chance = 1.0
        for spec in made:
            ends = [point[place[parent]] for parent in spec.parents]
            upper = TRUTH if spec.role.reads_truth else ends[0]
            gap = ends[-1] - upper if spec.role in (Role.BRIDGE, Role.LATE_TOP) else 0
            noises = tuple(parent.noise for parent in spec.parents)
            chance *= conditional(spec.role, spec.law.noise, noises, point[place[spec.law]] - upper, gap)
        table[point] = chance
    return table


@pytest.mark.parametrize("name", CHAINS)
def test_every_order_of_insertion_has_the_joint_law_of_drawing_top_down(name: str) -> None:
    tiers = CHAINS[name]
    orders = list(itertools.permutations(range(len(tiers))))
    wanted = joint(tiers, orders[0])
    assert len(orders) == math.factorial(len(tiers))
    assert sum(wanted.values()) > 0.02, "the window holds a share of the law worth comparing"
    points = list(wanted)
    for order in orders[1:]:
        found = joint(tiers, order)
        np.testing.assert_allclose([found[p] for p in points], [wanted[p] for p in points], rtol=1e-12, atol=1e-300)


def test_enumeration_tells_a_wrong_bridge() -> None:
    """The same comparison is red when the middle tier ignores the tier below: the proof has teeth."""
    tiers = CHAINS["tsg-3"]
    wanted = joint(tiers, (0, 1, 2))
    upper, middle, lower = (tier.noise for tier in tiers)
    star = {
        (a, b, c): conditional(Role.BASE, upper, (), a - TRUTH, 0)
        * conditional(Role.RESIDUAL, middle, (upper,), b - a, 0)
        * conditional(Role.RESIDUAL, lower, (upper,), c - a, 0)
        for a, b, c in wanted
    }
    assert max(abs(star[p] - wanted[p]) for p in wanted) > 1e-2


@pytest.mark.parametrize("bits", [2, 3])
def test_every_word_of_a_counted_bridge_leads_to_its_law(bits: int) -> None:
    tiers = [tier.noise for tier in mixed()]
    late = between(Role.BRIDGE, tiers[2], (tiers[0], tiers[3]))
    assert late.name == "enumeration/1"
    for gap in (0, 3):
        sampler = late._enumerated(gap)
        decided, undecided = law_of(lambda script, each=sampler: each.draw_one(script, 0), bits, Fraction(1, 2**12))
        assert_law(decided, undecided, lambda j, gap=gap: late.pmf(j, gap), most=0.02)


LAWS = {
    "msdlap": MultiScaleDiscreteLaplace(2, Fraction(2)),
    "mix": step_law(Role.RESIDUAL, mixed()[2].noise, (mixed()[1].noise,)),
    "discrete-gaussian": DiscreteGaussian(Fraction(1)),
    "slack": step_law(Role.RESIDUAL, DiscreteGaussian(Fraction(2)), (DiscreteGaussian(Fraction(1)),)),
}


@pytest.mark.parametrize("name", LAWS)
@pytest.mark.parametrize("bits", [2, 3])
def test_every_word_of_an_inverted_step_leads_to_its_law(name: str, bits: int) -> None:
    law = LAWS[name]
    sampler = step_sampler("inversion/1", law)
    decided, undecided = law_of(lambda script: sampler.draw_one(script, 0), bits, Fraction(1, 2**12))  # type: ignore[attr-defined]
    assert_law(decided, undecided, law.pmf, most=0.05)
