"""Order is rank, not ε: for pure chains both agree, for approximate ones the laws decide; the auditor reads it so."""

import itertools
from fractions import Fraction
from typing import NamedTuple

import pytest

from tiers.audit.findings import Finding
from tiers.audit.provenance import Provenance
from tiers.audit.records import ClaimedTier, DrawRecord, Evidence, PlanRecord, SaleRecord
from tiers.audit.replay import openable, replay_chain
from tiers.budget import Ladder
from tiers.chain import Draw, answer_bytes, draw_chain, insert, plan, specs
from tiers.identity import DrawSpec, TierLaw, chain_identity, commitment, key_hash, opening_key, stream_key
from tiers.noise.discrete_gaussian import DiscreteGaussian
from tiers.noise.lattice_gaussian import LatticeGaussian
from tiers.noise.msdlap import MultiScaleDiscreteLaplace
from tiers.noise.skellam import Skellam
from tiers.noise.staircase import Staircase
from tiers.noise.tsg import TwoSidedGeometric
from tiers.rank import by_accuracy, more_accurate
from tiers.sensitivity import ChangeSet

ONE, LOOSE, SECRET = ChangeSet.scalar(1), Fraction(1, 1000), bytes(range(32))
CHAIN = chain_identity("data_1", "snap_1", "ab" * 32)


def law(noise: object, delta: Fraction = LOOSE) -> TierLaw:
    return TierLaw(noise, ONE, delta)  # type: ignore[arg-type]


LAWS = [
    law(MultiScaleDiscreteLaplace(2, Fraction(4))),
    law(TwoSidedGeometric(Fraction(2))),
    law(Staircase(3, 1, Fraction(3))),
    law(TwoSidedGeometric(Fraction(10**15 + 1, 10**15))),
    law(TwoSidedGeometric(Fraction(1))),
    law(Skellam(Fraction(2))),
    law(DiscreteGaussian(Fraction(3))),
    law(Skellam(Fraction(12))),
    law(LatticeGaussian(Fraction(1024))),
    law(Skellam(Fraction(1024**2 + 1, 2))),
]


def test_any_shuffle_is_put_into_the_order_of_variances() -> None:
    assert [each.noise.variance() for each in LAWS] == sorted(each.noise.variance() for each in LAWS)
    for turn in range(len(LAWS)):
        assert by_accuracy([*LAWS[turn:], *LAWS[:turn]]) == LAWS
        assert by_accuracy(reversed([*LAWS[turn:], *LAWS[:turn]])) == LAWS
    for one, other in itertools.combinations(LAWS, 2):
        assert more_accurate(one, other)
        assert not more_accurate(other, one)


@pytest.mark.parametrize(
    "pair",
    [
        (TwoSidedGeometric(Fraction(1)), MultiScaleDiscreteLaplace(1, Fraction(1))),
        (LatticeGaussian(Fraction(1024)), Skellam(Fraction(1024**2, 2))),
        (Skellam(Fraction(3)), Skellam(Fraction(3))),
    ],
    ids=str,
)
def test_one_law_under_two_names_stands_above_neither(pair: tuple[object, object]) -> None:
    one, other = (law(noise) for noise in pair)
    assert not more_accurate(one, other)
    assert not more_accurate(other, one)


def test_an_approximate_tier_with_a_smaller_epsilon_may_stand_above() -> None:
    loose = law(Skellam.at(Fraction(4, 5), Fraction(1, 1000), ONE), Fraction(1, 1000))
    tight = law(Skellam.at(Fraction(1), Fraction(1, 10**9), ONE), Fraction(1, 10**9))
    assert loose.epsilon() < tight.epsilon()
    assert more_accurate(loose, tight)
    assert openable(tight, loose)
    assert not openable(loose, tight)
    assert not openable(loose, None)


class Read(NamedTuple):
    """A log of one chain as it was read: what A2 found, its draws, its highest issued law."""

    found: tuple[Finding, ...]
    draws: tuple[DrawRecord, ...]
    issued: TierLaw | None


def history(chain: list[Draw], sold: TierLaw, *more: TierLaw) -> tuple[Read, Evidence]:
    committed = {}
    openings, keys, draws, claims = {}, {}, [], []
    for place, draw in enumerate(chain):
        opening = opening_key(SECRET, CHAIN, draw.spec.law)
        committed[draw.spec.law] = commitment(opening, CHAIN, draw.spec.law, answer_bytes(draw.answer))
        parents = tuple(committed[parent] for parent in draw.spec.parents)
        key = stream_key(SECRET, draw.spec)
        draws.append(DrawRecord(place + 3, draw.spec, place, parents, committed[draw.spec.law], key_hash(key)))
        claims.append(ClaimedTier(1, draw.spec.law, draw.spec.law.epsilon(), 1, 1))
        if not more_accurate(draw.spec.law, sold):
            openings[CHAIN, draw.spec.law.identity] = (opening, draw.answer)
            if not draw.spec.role.reads_truth and not any(more_accurate(p, sold) for p in draw.spec.parents):
                keys[CHAIN, draw.spec.law.identity] = key
    read = Provenance()
    read.epoch(1)
    read.plan(PlanRecord(2, "prod", CHAIN, "data_1", "snap_1", "ab" * 32, tuple(claims)))
    found = [finding for draw in draws for finding in read.draw(draw)]
    for leaf, law in enumerate((sold, *more), start=20):
        found += read.sale(SaleRecord(leaf, f"order {leaf}", "prod", CHAIN, law.identity, 1, 1))
    found += read.finish()
    return Read(tuple(found), tuple(draws), read.chains[CHAIN].issued), Evidence(openings, keys)


def key_of(spec: DrawSpec) -> bytes:
    return stream_key(SECRET, spec)


def grown(family: str) -> list[Draw]:
    """Drawn in the order 3, 4, 2, 1: base, residual, bridge, late top... the base being tier 3 of four."""
    delta = "0" if family == "tsg" else "0.001"
    tiers = [tier.law for tier in plan(Ladder.parse(["3", "2", "1", "0.5"]), 1, family, delta).tiers]
    alone = plan(Ladder.parse(["1"]), 1, family, delta)
    chain = list(draw_chain([7, 8], specs(CHAIN, alone, epoch=1, grain=0, length=2), key_of))
    base = key_of(chain[0].spec)
    chain.append(insert(tiers[3], chain, key_of, epoch=1))
    chain.append(insert(tiers[0], chain, key_of, epoch=1, truth=[7, 8], base_key=base))
    chain.append(insert(tiers[1], chain, key_of, epoch=1))
    return chain


@pytest.mark.parametrize("family", ["tsg", "skellam"])
def test_the_auditor_follows_late_tiers_and_replays_bridges(family: str) -> None:
    chain = grown(family)
    assert [draw.spec.role.value for draw in chain] == ["base", "residual", "late-top", "bridge"]
    read, evidence = history(chain, chain[2].spec.law)
    assert read.found == ()
    report = replay_chain(read.draws, read.issued, evidence)
    assert report.findings == ()
    assert (report.opened, report.replayed) == (4, 2)
    assert {closed.law for closed in report.not_replayable} == {chain[at].spec.law.identity for at in (0, 2)}


@pytest.mark.parametrize("family", ["tsg", "skellam"])
def test_the_auditor_finds_a_bridge_that_was_not_drawn_from_its_key(family: str) -> None:
    chain = grown(family)
    spoiled = Draw(chain[3].spec, (chain[3].answer[0] + 1, chain[3].answer[1]))
    read, evidence = history([*chain[:3], spoiled], chain[2].spec.law)
    assert [finding.rule for finding in replay_chain(read.draws, read.issued, evidence).findings] == ["replay"]


def test_the_auditor_finds_a_star_and_a_wrong_neighbour() -> None:
    chain = grown("skellam")
    bridge = chain[3].spec
    star = DrawSpec(CHAIN, 1, chain[1].spec.role, bridge.law, (chain[2].spec.law,), 0, 2, "cells/2")
    answer = chain[3].answer
    read, _ = history([*chain[:3], Draw(star, answer)], chain[2].spec.law)
    assert {finding.rule for finding in read.found} == {"bridge"}
    far = DrawSpec(CHAIN, 1, bridge.role, bridge.law, (bridge.parents[0], chain[1].spec.law), 0, 2, bridge.sampler)
    read, _ = history([*chain[:3], Draw(far, answer)], chain[2].spec.law)
    assert {finding.rule for finding in read.found} == {"nearest-parents"}


def test_the_highest_issued_tier_is_that_of_the_highest_rank() -> None:
    chain = grown("skellam")
    one, other = chain[0].spec.law, chain[3].spec.law
    for sold in ((one, other), (other, one)):
        assert history(chain, *sold)[0].issued == other
