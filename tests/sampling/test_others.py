"""Grid, bridge, inversion and rejection samplers: enumerated laws, golden values, refusals."""

import json
import math
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest

from tests.sampling.tree import Script, assert_law, law_of, pmf_of
from tiers.errors import InvalidParameterError, NoResidualError
from tiers.noise.lattice_gaussian import LatticeGaussian
from tiers.noise.skellam import Skellam
from tiers.noise.tsg import TwoSidedGeometric
from tiers.real import exact, to_float
from tiers.sampling.bridge import Bridge
from tiers.sampling.choose import sampler_for, sampler_named, vector_sampler
from tiers.sampling.grid import grid_sampler
from tiers.sampling.inversion import InversionSampler
from tiers.sampling.rejection import log_concave_sampler, skellam_bridge_sampler, skellam_pmf
from tiers.sampling.survival import skellam_law, tsg_law
from tiers.sampling.words import KeyedWords

GOLDEN = json.loads((Path(__file__).parent / "golden_bridge.json").read_text())
TSG = {rate: TwoSidedGeometric(Fraction(rate)) for rate in ("2", "1", "0.9", "0.5", "0.4", "0.1")}


@pytest.mark.parametrize(("bits", "block_bits", "blocks"), [(3, 1, 1), (2, 1, 2), (2, 2, 1), (4, 1, 0)])
def test_every_word_of_a_grid_leads_to_the_law(bits: int, block_bits: int, blocks: int) -> None:
    sampler = grid_sampler(Fraction(1, 2), bits=bits, block_bits=block_bits, blocks=blocks)
    law = TwoSidedGeometric(Fraction(1, 2))
    decided, undecided = law_of(lambda s: sampler.draw(s, 1)[0], 4, Fraction(1, 2**14), 2 * bits, 4)
    assert_law(decided, undecided, law.pmf, most=0.15)


def test_an_element_of_a_grid_owns_its_words() -> None:
    sampler = grid_sampler(Fraction(1, 2**20))
    whole = sampler.draw(KeyedWords(bytes(32)), 140_000)
    assert sampler.draw(KeyedWords(bytes(32)), 70_001) == whole[:70_001]
    counts = np.arange(1000, dtype=np.int64)
    sampler.add_to(KeyedWords(bytes(32)), counts, counts)
    assert counts.tolist() == [place + whole[place] for place in range(1000)]


@pytest.mark.parametrize("case", GOLDEN["tsg_bridge"], ids=lambda c: f"{c['eps']}:{c['gap']}")
def test_bridges_have_the_golden_probabilities(case: dict[str, object]) -> None:
    bridge = Bridge.between(*(TSG[rate] for rate in case["eps"]))  # type: ignore[attr-defined]
    for j, wanted in case["pmf"].items():  # type: ignore[attr-defined]
        assert bridge.pmf(int(j), case["gap"]) == pytest.approx(float(wanted), rel=1e-15)  # type: ignore[arg-type]


@pytest.mark.parametrize("case", GOLDEN["chain_noise"], ids=str)
def test_bridges_and_late_tops_have_the_independent_values(case: dict[str, list[float]]) -> None:
    if "tsg_bridge" in case:
        bridge = Bridge.between(*(TwoSidedGeometric(Fraction(str(rate))) for rate in case["tsg_bridge"]))
        gap, first, wanted = case["total_residual"], -2, case["p_first_residual_minus2_to_4"]
    else:
        bridge = Bridge.above(*(TwoSidedGeometric(Fraction(str(rate))) for rate in case["tsg_upward"]))
        gap, first, wanted = case["low_noise"], -4, case["p_high_noise_minus4_to_4"]
    for j, probability in enumerate(wanted, start=first):
        assert bridge.pmf(j, gap) == pytest.approx(probability, rel=1e-12)  # type: ignore[arg-type]


@pytest.mark.parametrize("gap", [0, 1, -1, 7, -30])
def test_a_bridge_is_the_product_of_both_steps_over_the_whole(gap: int) -> None:
    """Bayes' rule, and the normaliser: the sum over j is the pmf of the direct residual."""
    upper, middle, lower = TSG["2"], TSG["1"], TSG["0.4"]
    bridge, first, second = Bridge.between(upper, middle, lower), upper.residual_to(middle), middle.residual_to(lower)
    late, step = Bridge.above(upper, middle), upper.residual_to(middle)
    for j in (-40, -2, -1, 0, 1, 3, gap, gap + 1, gap - 1):
        bayes = first.pmf(j) * second.pmf(gap - j) / upper.residual_to(lower).pmf(gap)
        assert bridge.pmf(j, gap) == pytest.approx(bayes, rel=1e-12)
        assert late.pmf(j, gap) == pytest.approx(upper.pmf(j) * step.pmf(gap - j) / middle.pmf(gap), rel=1e-12)


@pytest.mark.parametrize("gap", [0, 2, -3])
@pytest.mark.parametrize("width", [3, 5])
def test_every_word_of_a_bridge_leads_to_the_law(gap: int, width: int) -> None:
    for bridge in (Bridge.between(TSG["2"], TSG["1"], TSG["0.4"]), Bridge.above(TSG["2"], TSG["1"])):
        decided, undecided = law_of(lambda s, b=bridge: b.draw(s, [gap])[0], width, Fraction(1, 2**11))
        assert_law(decided, undecided, lambda j, b=bridge: b.pmf(j, gap), most=0.02)


def test_bridges_of_one_key_do_not_share_words() -> None:
    bridge = Bridge.between(TSG["2"], TSG["1"], TSG["0.1"])
    alone = [bridge.draw(KeyedWords(bytes(32)), [5] * length)[-1] for length in range(1, 30)]
    assert tuple(alone) == bridge.draw(KeyedWords(bytes(32)), [5] * 29)
    assert len(set(alone)) > 3


def test_a_bridge_the_wrong_way_round_is_refused() -> None:
    with pytest.raises(NoResidualError):
        Bridge.between(TSG["1"], TSG["2"], TSG["0.4"])
    with pytest.raises(NoResidualError):
        Bridge.above(TSG["1"], TSG["2"])
    with pytest.raises(InvalidParameterError, match="gap"):
        Bridge.between(TSG["2"], TSG["1"], TSG["0.4"]).draw(KeyedWords(bytes(32)), [1.5])  # type: ignore[list-item]


@pytest.mark.parametrize("width", [2, 4])
def test_every_word_of_an_inversion_leads_to_the_law(width: int) -> None:
    for law in (tsg_law(TSG["0.5"]), skellam_law(Fraction(3))):
        sampler = InversionSampler(law.cdf, centre=3, spread=2)
        decided, undecided = law_of(lambda s, c=sampler: c.draw(s, 1)[0], width, Fraction(1, 2**12))
        assert_law(decided, undecided, pmf_of(law.cdf), most=0.02)


@pytest.mark.parametrize("rate", ["1", "0.4"])
def test_every_word_of_a_rejection_trial_leads_to_the_law(rate: str) -> None:
    """A trial accepts k with probability weight(k)/Σ envelope, so accepted trials have the law."""
    law, refused = TSG[rate], 10**6

    def weight(k: int):  # type: ignore[no-untyped-def]
        return lambda: 1 / (exact(law.rate) * abs(k - 1)).exp()

    sampler = log_concave_sampler(weight, centre=1, spread=1)
    fall = float(sampler.fall)
    envelope = math.exp(0.5) * (2 * sampler.width + 1) + 2 * math.exp(-fall * (sampler.width + 1)) / -math.expm1(-fall)

    def one_trial(words: Script) -> int:
        value = sampler.trial(*words.group(0, 2), words.tail(0), 4)
        return refused if value is None else value

    decided, undecided = law_of(one_trial, 4, Fraction(1, 2**13))
    del decided[refused]
    assert undecided < Fraction(1, 20)
    for k in range(-8, 11):
        mass, wanted = float(decided.get(k, 0)), math.exp(-float(law.rate) * abs(k - 1)) / envelope
        assert mass <= wanted * (1 + 1e-12)
        assert wanted <= (mass + float(undecided)) * (1 + 1e-12)
    assert sum(decided.values()) > Fraction(1, 4)


@pytest.mark.parametrize("rate", [Fraction(1, 2), Fraction(100), Fraction(10**15)])
def test_the_envelope_lies_above_the_law_everywhere(rate: Fraction) -> None:
    for gap in (0, 5, -round(float(rate) ** 0.5)):
        sampler = skellam_bridge_sampler(rate, 2 * rate, gap)
        for away in (0, 1, -1, sampler.width, -sampler.width, sampler.width + 1, -sampler.width - 1, 3 * sampler.width):
            assert 0 < to_float(sampler._share(away)) <= 1
        assert to_float(sampler._envelope_cdf(-sampler.width - 1)) < to_float(sampler._envelope_cdf(sampler.width)) < 1
        assert to_float(sampler._envelope_cdf(60 * sampler.width)) == pytest.approx(1, abs=1e-12)


def test_a_centre_far_from_the_mode_is_refused() -> None:
    with pytest.raises(InvalidParameterError, match="near the mode"):
        log_concave_sampler(lambda k: skellam_pmf(Fraction(100), k + 60), centre=0, spread=200)


@pytest.mark.parametrize(
    ("law", "length", "name"),
    [
        (TSG["1"], 1, "tsg-digits/2"),
        (TSG["1"], 15, "tsg-digits/2"),
        (TSG["1"], 16, "cells/2"),
        (TSG["2"].residual_to(TSG["1"]), 1, "tsg-digits/2"),
        (TSG["2"].residual_to(TSG["1"]), 10**6, "cells/2"),
        (TwoSidedGeometric(Fraction(1, 2**20)), 1000, "tsg-grid/2"),
        (TwoSidedGeometric(Fraction(1, 2**20)), 1, "tsg-digits/2"),
        (TSG["2"].residual_to(TwoSidedGeometric(Fraction(1, 2**20))), 1000, "tsg-digits/2"),
        (Skellam(Fraction(5)), 1, "cells/2"),
        (Skellam(Fraction(10**8)), 1000, "skellam-slabs/1"),
        (Skellam(Fraction(10**20)), 3, "log-concave/1"),
        (LatticeGaussian(Fraction(1024)), 3, "cells/2"),
    ],
)
def test_each_law_has_its_sampler(law, length: int, name: str) -> None:  # type: ignore[no-untyped-def]
    assert sampler_for(law, length) == name
    drawn = sampler_named(name, law).draw(KeyedWords(bytes(32)), min(length, 3))
    assert len(drawn) == min(length, 3)
    assert drawn == sampler_named(name, law).draw(KeyedWords(bytes(32)), min(length, 3))


def test_a_sampler_that_cannot_draw_the_law_is_refused() -> None:
    for name, law in (("nobody/1", TSG["1"]), ("tsg-digits/2", Skellam(Fraction(1))), ("skellam-slabs/1", TSG["1"])):
        with pytest.raises(InvalidParameterError, match="sampler"):
            sampler_named(name, law)
    with pytest.raises(InvalidParameterError, match="sampler"):
        vector_sampler("tsg-digits/2", TSG["1"])
