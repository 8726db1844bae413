"""Poisson and Skellam by slabs: every trial word, the float bound, and the path through an element's words."""

import math
from collections import defaultdict
from fractions import Fraction

import numpy as np
import pytest

from tests.sampling.tree import Script, law_of
from tiers.errors import InvalidParameterError
from tiers.real import to_float
from tiers.sampling import skellam
from tiers.sampling.skellam import SkellamSlabs, skellam_slabs
from tiers.sampling.slabs import Fields, PoissonSlabs, _pmf, log_pmf, poisson_slabs
from tiers.sampling.words import KeyedWords

SMALL = Fields(cell=11, place=1, height=3)
RATE = Fraction(2**14) + Fraction(1, 3)


def test_every_trial_word_is_accepted_by_its_exact_share() -> None:
    """P(accepted trial = x) = f(x)/A for every x, tails included: all 2^15 words, and those that tie further on."""
    slabs = poisson_slabs(RATE, SMALL)
    accepted: dict[int, Fraction] = defaultdict(Fraction)
    loose: dict[int, Fraction] = defaultdict(Fraction)
    unit = Fraction(1, 2**15)
    for word in range(2**15):
        slab = slabs.slabs[word & 2047]
        if slab >= slabs.count:
            continue
        outcomes, undecided = law_of(lambda s, word=word: slabs.decide(word, s.tail(0), 4) or -1, 4, Fraction(1, 16))
        value = slabs.low + (slab << slabs.shift) + (word >> 11 & 1)
        assert set(outcomes) <= {value, -1}
        accepted[value] += outcomes.get(value, Fraction(0)) * unit
        loose[value] += undecided * unit
    for value in range(slabs.low, slabs.low + (slabs.count << slabs.shift)):
        exact = to_float(lambda value=value: _pmf(RATE, value)) / float(slabs.loss)
        assert float(accepted[value]) <= exact * (1 + 1e-12)
        assert exact <= float(accepted[value] + loose[value]) * (1 + 1e-12)
    assert sum(loose.values()) < Fraction(1, 100) < sum(accepted.values())


def test_a_tail_cell_draws_its_tail_under_the_law() -> None:
    """All first words of a tail's geometric proposal: P(accepted = x) = f(x)/A again."""
    slabs = poisson_slabs(RATE, SMALL)
    end = slabs.low + (slabs.count << slabs.shift)
    for side, cell in ((0, 2046), (1, 2047)):
        assert slabs.slabs[cell] == slabs.count + side
        for beyond in (0, 1, 5, 30):
            value = slabs.low - 1 - beyond if side == 0 else end + beyond
            share = to_float(slabs._tail_share(value, slabs.decays[side], beyond))
            proposal = -math.expm1(-float(slabs.decays[side])) * math.exp(-float(slabs.decays[side]) * beyond) / 2048
            assert 0 < share <= 1
            assert proposal * share == pytest.approx(
                to_float(lambda value=value: _pmf(RATE, value)) / float(slabs.loss), rel=1e-9
            )
        word = cell  # height 0: accepted whatever the envelope's share, once the further words say so
        for uniform in (0, 2**63, 2**64 - 2):
            value = slabs.decide(word, iter([uniform, *[0] * 20]), 64)
            assert value is not None
            assert (value < slabs.low, value >= end) == (side == 0, side == 1)


@pytest.mark.parametrize(("fields", "rate"), [(SMALL, RATE), (Fields(), RATE), (Fields(), Fraction(10**8))])
def test_vector_trials_agree_with_the_definition(fields: Fields, rate: Fraction) -> None:
    slabs = poisson_slabs(rate, fields)
    if fields is SMALL:
        words = np.arange(2**15, dtype=np.uint64)
    else:
        words = np.frombuffer(KeyedWords(bytes(32)).stream_zero(20_000), "<u8")
    values, rejected, unsure = (part.copy() for part in slabs.trials(words))
    lost, open_ = set(rejected.tolist()), set(unsure.tolist())
    assert not lost & open_
    for place in range(len(words)):
        if place in open_:
            continue
        certain = slabs.decide(int(words[place]), iter(()), 64)
        assert certain == (None if place in lost else slabs.low + int(values[place]))


@pytest.mark.parametrize("rate", [Fraction(2**14), RATE, Fraction(10**8) + Fraction(1, 7), Fraction(2**52)])
def test_the_float_mass_is_far_closer_than_the_slack(rate: Fraction) -> None:
    reach = 5 * math.isqrt(math.floor(rate))
    places = np.unique(np.linspace(-reach, reach, 301).astype(np.int64))
    found = log_pmf(rate, places)
    for place, value in zip(places.tolist(), found.tolist(), strict=True):
        exact = to_float(lambda place=place: _pmf(rate, math.floor(rate) + place).log())
        assert abs(value - exact) < 2.0**-40
    wrong = log_pmf(rate, places + 1 + math.isqrt(math.floor(rate)) // 1000)
    assert np.abs(wrong - found).max() > 2.0**-30


def test_slabs_have_room_under_every_stair() -> None:
    for rate in (RATE, Fraction(10**6), Fraction(10**10)):
        slabs = poisson_slabs(rate)
        assert 1 < slabs.loss < Fraction(102, 100)
        assert sum(slabs.owned) + 2 == 2**18
        for slab in {*range(0, slabs.count, 37), slabs.count // 2, slabs.count // 2 - 1, slabs.count // 2 + 1}:
            first = slabs.low + (slab << slabs.shift)
            best = min(max(math.floor(rate), first), first + (1 << slabs.shift) - 1)
            assert to_float(slabs._share(best, slab)) <= 1


def test_a_vector_of_skellam_draws_is_the_definition_element_by_element() -> None:
    sampler, key = skellam_slabs(Fraction(10**6)), bytes(range(32))
    vector = sampler.draw(KeyedWords(key), 90_000)
    words = KeyedWords(key)
    for element in [*range(3000), 16_383, 16_384, 16_385, 89_999]:
        assert sampler.draw_by_words(words, element) == vector[element]
    for length in (0, 1, 5, 16_384, 16_385, 32_769):
        assert sampler.draw(KeyedWords(key), length) == vector[:length]


@pytest.mark.parametrize("pending", [1, 400, 10**9])
def test_high_proposals_are_mended_whenever_and_wherever_they_are_judged(
    pending: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Every element with a high proposal is the definition's draw, in place too, however many are judged together."""
    monkeypatch.setattr(skellam, "_PENDING", pending)
    sampler, key, length = skellam_slabs(RATE), bytes(range(32)), 150_000
    counts = np.arange(length, dtype=np.int64) - 7
    whole = sampler.add_to(KeyedWords(key), counts, np.empty_like(counts)) - counts
    assert (sampler.perturb(KeyedWords(key), counts.copy(), counts) - np.arange(length) + 7 == whole).all()
    groups = np.frombuffer(KeyedWords(key).stream_zero(3 * length), "<u8").reshape(-1, 3)
    high = {place for column in (0, 1) for place in sampler.poisson.propose(groups[:, column].copy())[1].tolist()}
    lost = [set(sampler.poisson.trials(groups[:, column].copy())[1].tolist()) for column in (0, 1)]
    assert len(high) > 300
    assert lost[0] & lost[1], "some elements lose both"
    words = KeyedWords(key)
    for place in sorted(high):
        assert sampler.draw_by_words(words, place) == whole[place]


def test_rejected_and_tied_trials_go_on_in_the_tail() -> None:
    slabs = poisson_slabs(RATE, SMALL)
    sampler = SkellamSlabs(slabs)
    _, lost, unsure = slabs.trials(np.arange(2**15, dtype=np.uint64))
    refused = int(lost[0])
    fine = min(
        set(range(700, 2**15)) - set(lost.tolist()) - set(unsure.tolist()) - {place - 1 for place in (*lost, *unsure)}
    )
    both = sampler.draw_by_words(Script([refused, refused, fine, refused, fine + 1], 15), 0)
    value = slabs.decide(fine, iter(()), 15)
    assert value is not None
    assert both == value - (slabs.decide(fine + 1, iter(()), 15) or 0)
    assert sampler.draw_by_words(Script([fine, refused, fine + 1], 15), 0) == both


@pytest.mark.parametrize("rate", [Fraction(2**14 - 1), Fraction(2**52 + 1)])
def test_other_rates_are_refused(rate: Fraction) -> None:
    with pytest.raises(InvalidParameterError, match="for slabs"):
        poisson_slabs(rate)
    assert isinstance(poisson_slabs(Fraction(2**14)), PoissonSlabs)
