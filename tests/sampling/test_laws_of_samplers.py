"""Whole draws against their laws: fixed keys, the right law accepted, near-misses rejected, alpha 10⁻⁹."""

import ast
import hashlib
import math
from collections.abc import Callable
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest
from scipy import stats

import tiers
from tiers.noise.skellam import Skellam
from tiers.noise.tsg import TwoSidedGeometric
from tiers.real import to_float
from tiers.sampling.bridge import Bridge
from tiers.sampling.choose import sampler_named
from tiers.sampling.rejection import skellam_bridge_sampler, skellam_pmf
from tiers.sampling.words import KeyedWords

ALPHA = 1e-9
N = 200_000


def p_value(draws: np.ndarray, pmf: Callable[[int], float]) -> float:
    """Return the chi-square p-value of draws against a law, cells below 25 expected joined."""
    low, high = int(draws.min()), int(draws.max())
    seen = np.bincount(draws - low).astype(float)
    wanted = np.array([pmf(k) for k in range(low, high + 1)]) * len(draws)
    body = wanted >= 25
    seen = np.append(seen[body], len(draws) - seen[body].sum())
    wanted = np.append(wanted[body], len(draws) - wanted[body].sum())
    if wanted[-1] < 25:
        seen[-2], wanted[-2] = seen[-2] + seen[-1], wanted[-2] + wanted[-1]
        seen, wanted = seen[:-1], wanted[:-1]
    return float(stats.chi2.sf(((seen - wanted) ** 2 / wanted).sum(), len(seen) - 1))


def key(label: str) -> bytes:
    return hashlib.sha256(label.encode()).digest()


def tsg(rate: float) -> Callable[[int], float]:
    return lambda k: math.tanh(rate / 2) * math.exp(-rate * abs(k))


def skellam(rate: float) -> Callable[[int], float]:
    return lambda k: float(stats.skellam.pmf(k, rate, rate))


CASES: dict[str, tuple[str, object, Callable[[int], float], list[Callable[[int], float]]]] = {
    "digits": (
        "tsg-digits/2",
        TwoSidedGeometric(Fraction(1)),
        tsg(1),
        [tsg(1.03), tsg(0.97), lambda k: 0.39347 if k == 0 else math.exp(-abs(k)) * math.sinh(0.5)],
    ),
    "cells": ("cells/2", TwoSidedGeometric(Fraction(1)), tsg(1), [tsg(1.03), tsg(0.97)]),
    "cells, two words": ("cells/2", TwoSidedGeometric(Fraction(1, 20)), tsg(0.05), [tsg(0.0515), tsg(0.0485)]),
    "residual": (
        "cells/2",
        TwoSidedGeometric(Fraction(2)).residual_to(TwoSidedGeometric(Fraction(1))),
        TwoSidedGeometric(Fraction(2)).residual_to(TwoSidedGeometric(Fraction(1))).pmf,
        [tsg(1), TwoSidedGeometric(Fraction(2)).residual_to(TwoSidedGeometric(Fraction(97, 100))).pmf],
    ),
    "skellam cells": ("cells/2", Skellam(Fraction(5)), skellam(5), [skellam(5.15), skellam(4.85)]),
}


@pytest.mark.statistical
@pytest.mark.parametrize("case", CASES)
def test_draws_have_their_law_and_no_near_miss(case: str) -> None:
    name, law, right, wrong = CASES[case]
    draws = np.array(sampler_named(name, law).draw(KeyedWords(key(case)), N))  # type: ignore[arg-type]
    assert p_value(draws, right) > ALPHA
    for miss in wrong:
        assert p_value(draws, miss) < ALPHA


@pytest.mark.statistical
@pytest.mark.parametrize("rate", [2**14, 10**6, 10**8])
def test_slabs_have_the_skellam_law(rate: int) -> None:
    draws = np.array(sampler_named("skellam-slabs/1", Skellam(Fraction(rate))).draw(KeyedWords(key(str(rate))), N))
    step = max(1, math.isqrt(2 * rate) // 16)
    assert p_value(draws // step, _binned(rate, step)) > ALPHA
    assert p_value(draws // step, _binned(rate * 1.06, step)) < ALPHA
    assert p_value((draws + math.isqrt(rate) // 20) // step, _binned(rate, step)) < ALPHA
    for modulus in (2, 3, 256):
        low = np.bincount(draws % modulus, minlength=modulus)
        assert stats.chisquare(low).pvalue > ALPHA


def _binned(rate: float, step: int) -> Callable[[int], float]:
    deviation = math.sqrt(2 * rate)  # Skellam at 2¹⁴ and above is the normal law to 10⁻⁵ a bin

    def pmf(k: int) -> float:
        edges = ((k * step - 0.5) / deviation, ((k + 1) * step - 0.5) / deviation)
        return float(stats.norm.cdf(edges[1]) - stats.norm.cdf(edges[0]))

    return pmf


@pytest.mark.statistical
def test_grid_noise_is_laplace_with_uniform_low_digits() -> None:
    law = TwoSidedGeometric(Fraction(1, 2**20))
    draws = np.array(sampler_named("tsg-grid/2", law).draw(KeyedWords(key("grid")), N))
    right = stats.laplace(scale=2**20)
    assert stats.kstest(draws + 0.5, right.cdf).pvalue > ALPHA
    assert stats.kstest(draws + 0.5, stats.laplace(scale=2**20 * 1.04).cdf).pvalue < ALPHA
    for shift in (0, 8):
        low = np.bincount(draws >> shift & 255, minlength=256)
        assert stats.chisquare(low).pvalue > ALPHA
    negative = int((draws < 0).sum())
    assert stats.binomtest(negative, N, 0.5 - 2.0**-22).pvalue > ALPHA


@pytest.mark.statistical
def test_bridges_have_their_law_and_no_near_miss() -> None:
    laws = [TwoSidedGeometric(Fraction(rate)) for rate in ("2", "1", "0.5")]
    bridge, gap = Bridge.between(*laws), 3
    draws = np.array(bridge.draw(KeyedWords(key("bridge")), [gap] * 20_000))
    assert p_value(draws, lambda j: bridge.pmf(j, gap)) > ALPHA
    assert p_value(draws, lambda j: bridge.pmf(j, gap + 1)) < ALPHA
    assert p_value(draws, laws[0].residual_to(laws[1]).pmf) < ALPHA


@pytest.mark.statistical
def test_a_skellam_bridge_has_its_law_and_no_near_miss() -> None:
    draws = np.array(skellam_bridge_sampler(Fraction(2), Fraction(3), 4).draw(KeyedWords(key("skellam")), 4000))

    def pmf(first: Fraction, second: Fraction, gap: int) -> Callable[[int], float]:
        whole = to_float(skellam_pmf(first + second, gap))
        return lambda j: to_float(skellam_pmf(first, j)) * to_float(skellam_pmf(second, gap - j)) / whole

    assert p_value(draws, pmf(Fraction(2), Fraction(3), 4)) > ALPHA
    assert p_value(draws, pmf(Fraction(2), Fraction(3), 6)) < ALPHA
    assert p_value(draws, pmf(Fraction(3), Fraction(2), 4)) < ALPHA


@pytest.mark.statistical
def test_elements_and_keys_are_independent() -> None:
    """Case 25: neighbours of one vector, one element under two keys, and the digits' two halves do not correlate."""
    for name in ("tsg-digits/2", "cells/2"):
        one = np.array(sampler_named(name, TwoSidedGeometric(Fraction(1))).draw(KeyedWords(key("a")), N))
        two = np.array(sampler_named(name, TwoSidedGeometric(Fraction(1))).draw(KeyedWords(key("b")), N))
        for left, right in ((one[1:], one[:-1]), (one, two), (abs(one[1:]), abs(one[:-1])), (abs(one), abs(two))):
            assert stats.pearsonr(left, right).pvalue > ALPHA
        assert stats.pearsonr(one, one + two).pvalue < ALPHA


def test_skellam_probabilities_at_any_rate_are_certain() -> None:
    """Case 28: no NaN, no underflow to 0/0: at λ = 10¹⁵ as at 10³."""
    for rate in (10**3, 10**6, 10**9, 10**15):
        for k in (0, 1, math.isqrt(2 * rate)):
            normal = math.exp(-k * k / (4 * rate)) / math.sqrt(4 * math.pi * rate)
            assert to_float(skellam_pmf(Fraction(rate), k)) == pytest.approx(normal, rel=1e-3)


def test_no_general_purpose_generator_is_imported_or_named_in_tiers() -> None:
    """Case 26: noise comes from the keyed stream alone."""
    files = sorted(Path(tiers.__file__).parent.rglob("*.py"))
    assert len(files) > 15
    assert not [path.name for path in files if _generators(path.read_text())]
    for wrong in (
        "import random",
        "from random import gauss",
        "import numpy as np\nnp.random.default_rng()",
        "from secrets import token_bytes",
        "x.rvs(3)",
        "import os\nos.urandom(3)",
    ):
        assert _generators(wrong)


def _generators(source: str) -> list[str]:
    found = []
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            found += [
                alias.name for alias in node.names if alias.name.split(".")[0] in {"random", "secrets", "randomgen"}
            ]
        elif isinstance(node, ast.ImportFrom) and (node.module or "").split(".")[0] in {
            "random",
            "secrets",
            "randomgen",
        }:
            found.append(node.module or "")
        elif isinstance(node, ast.Attribute) and node.attr in {
            "random",
            "urandom",
            "rvs",
            "default_rng",
            "RandomState",
            "uuid4",
        }:
            found.append(node.attr)
    return found
