"""The chain's law, proved: marginals by convolution, coalitions by enumeration, bars by exact sums; then inputs."""

import itertools
import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tiers.budget import Ladder, decimal_text, nano_up, parse_decimal, parse_epsilon
from tiers.chain import CONFIDENCE, draw_chain, plan, specs
from tiers.errors import BudgetOrderError, InvalidParameterError, NoResidualError, TierError
from tiers.identity import DrawSpec, stream_key
from tiers.noise.tsg import TwoSidedGeometric
from tiers.sensitivity import ChangeSet

LADDERS = [("2", "1"), ("2", "1", "0.5"), ("1", "0.9"), ("5", "0.1")]
WINDOW = np.arange(-2000, 2001)


def pmf(law: object) -> np.ndarray:
    return np.array([law.pmf(int(k)) for k in WINDOW])  # type: ignore[attr-defined]


@pytest.mark.parametrize("ladder", LADDERS)
@pytest.mark.parametrize("sensitivity", [1, 3])
def test_a_tier_plus_its_residual_has_the_law_of_the_tier_below(ladder: tuple[str, ...], sensitivity: int) -> None:
    tiers = plan(Ladder.parse(ladder), ChangeSet.scalar(sensitivity), "tsg").tiers
    for upper, lower in itertools.pairwise(tiers):
        made = np.convolve(pmf(upper.law.noise), pmf(upper.law.noise.residual_to(lower.law.noise)), "same")
        np.testing.assert_allclose(made, pmf(lower.law.noise), atol=1e-12)


def joint(tiers: list[TwoSidedGeometric], truth: int, *, star: bool) -> dict[tuple[int, ...], float]:
    """The exact joint law of three tiers on a window, drawn as a chain, or as a star (each from the first)."""
    reach = range(-14, 15)
    found: dict[tuple[int, ...], float] = {}
    first, second, third = tiers
    to_second, to_third = first.residual_to(second), (first if star else second).residual_to(third)
    for a, b, c in itertools.product(reach, repeat=3):
        from_above = c - a if star else c - b
        found[a, b, c] = first.pmf(a - truth) * to_second.pmf(b - a) * to_third.pmf(from_above)
    return found


def worst_ratio(laws: list[dict[tuple[int, ...], float]], members: tuple[int, ...]) -> float:
    sides = []
    for law in laws:
        marginal: dict[tuple[int, ...], float] = {}
        for point, mass in law.items():
            seen = tuple(point[member] for member in members)
            marginal[seen] = marginal.get(seen, 0.0) + mass
        sides.append(marginal)
    inner = [point for point in sides[0] if all(abs(value) <= 4 for value in point)]
    return max(abs(math.log(sides[0][point] / sides[1][point])) for point in inner)


def test_a_coalition_learns_what_its_best_tier_tells_and_a_star_leaks_more() -> None:
    tiers = [TwoSidedGeometric(Fraction(text)) for text in ("2", "1", "0.5")]
    chain = [joint(tiers, truth, star=False) for truth in (0, 1)]
    star = [joint(tiers, truth, star=True) for truth in (0, 1)]
    for members in ((1, 2), (0, 1), (0, 2), (0, 1, 2)):
        best = float(tiers[members[0]].rate)
        assert worst_ratio(chain, members) == pytest.approx(best, abs=2e-3), "up to the window's edge"
    assert worst_ratio(star, (1, 2)) > 1.3, "tiers 2 and 3 both drawn from tier 1"


@pytest.mark.parametrize("rate", ["10", "2", "1", "0.5", "0.1", "0.01", "0.00025"])
@pytest.mark.parametrize("confidence", ["0.5", "0.95", "0.999999"])
def test_a_bar_covers_at_least_its_share_and_one_step_less_does_not(rate: str, confidence: str) -> None:
    law, share = TwoSidedGeometric(Fraction(rate)), Fraction(confidence)
    h = law.half_width(share)
    outside = [
        2 * math.exp(-float(Fraction(rate)) * (k + 1)) / (1 + math.exp(-float(Fraction(rate)))) for k in (h, h - 1)
    ]
    assert outside[0] <= float(1 - share) * (1 + 1e-12)
    assert h == 0 or outside[1] > float(1 - share) * (1 - 1e-12)


def test_a_bar_is_right_for_enormous_scales() -> None:
    law = TwoSidedGeometric(Fraction(1, 10**15))
    assert law.half_width(CONFIDENCE) == pytest.approx(math.log(20) * 1e15, rel=1e-9)


def test_the_same_number_probability_is_the_residual_s_atom() -> None:
    tiers = plan(Ladder.parse(["2", "1", "0.9", "0.5"]), ChangeSet.scalar(1)).tiers
    assert tiers[0].same_as_above is None
    for upper, lower in itertools.pairwise(tiers):
        w = math.sinh(float(lower.epsilon) / 2) ** 2 / math.sinh(float(upper.epsilon) / 2) ** 2
        assert lower.same_as_above == pytest.approx(w + (1 - w) * math.tanh(float(lower.epsilon) / 2), rel=1e-12)
    assert tiers[1].same_as_above == pytest.approx(0.5678713428285432, rel=1e-12)


def test_a_vector_is_noised_at_its_whole_change_set() -> None:
    """A unit that moves 3 bins by up to 2 each, 4 in all: every change costs at most ε, and the worst exactly ε."""
    change = ChangeSet(bins=3, step=2, total=4)
    law = TwoSidedGeometric.at(Fraction(1), change)
    changes = [
        d for d in itertools.product(range(-2, 3), repeat=3) if sum(map(abs, d)) <= 4 and sum(v != 0 for v in d) <= 3
    ]
    losses = [
        sum(max(abs(law.log_pmf(x) - law.log_pmf(x - shift)) for x in range(-9, 10)) for shift in d) for d in changes
    ]
    assert max(losses) == pytest.approx(1.0, abs=1e-12)


def keys(spec: DrawSpec) -> bytes:
    return stream_key(bytes(32), spec)


def test_huge_truths_do_not_wrap() -> None:
    chain = plan(Ladder.parse(["2", "1"]), ChangeSet.scalar(1))
    draws = specs("0" * 64, chain, epoch=1, grain=0, length=2)
    for truth in (2**127, -(2**127), 2**63 - 1):
        for draw in draw_chain([truth, truth], draws, keys):
            assert all(abs(value - truth) < 200 for value in draw.answer)


@pytest.mark.parametrize("truth", [2.0**70, float("nan"), True, np.int64(5), np.uint8(5), None, "5"], ids=repr)
def test_a_truth_that_is_no_python_integer_is_refused_before_any_draw(truth: object) -> None:
    chain = plan(Ladder.parse(["1"]), ChangeSet.scalar(1))

    def never(_: DrawSpec) -> bytes:
        raise AssertionError("a key was asked for")

    with pytest.raises(InvalidParameterError, match="truth"):
        draw_chain([truth], specs("0" * 64, chain, epoch=1, grain=0, length=1), never)  # type: ignore[list-item]


@pytest.mark.parametrize("epsilons", [(60, 1), (1, Fraction(1, 10**9)), (1.0, 0.5), (Fraction(1), Fraction(-1)), ()])
def test_a_ladder_keeps_ceiling_floor_and_type_however_it_is_made(epsilons: tuple[object, ...]) -> None:
    made = tuple(Fraction(value) if isinstance(value, int) else value for value in epsilons)
    with pytest.raises(InvalidParameterError):
        Ladder(made)  # type: ignore[arg-type]


@pytest.mark.parametrize(("rate", "t"), [("0.000001", 1.0), ("0.0001", 1e-6), ("1", 1.0), ("5", 3.0)])
def test_the_characteristic_function_keeps_its_digits(rate: str, t: float) -> None:
    import mpmath

    with mpmath.workdps(50):
        low, turn = mpmath.sinh(mpmath.mpf(rate) / 2), mpmath.sin(mpmath.mpf(t) / 2)
        want = low**2 / (low**2 + turn**2)
        assert abs(TwoSidedGeometric(Fraction(rate)).cf(t).real / want - 1) < 1e-14
        upper, lower = TwoSidedGeometric(Fraction(1)), TwoSidedGeometric(Fraction("0.999999"))
        stay = (mpmath.sinh(mpmath.mpf("0.4999995")) / mpmath.sinh(mpmath.mpf("0.5"))) ** 2
        moved = (1 - stay) * mpmath.tanh(mpmath.mpf("0.4999995")) * mpmath.exp(mpmath.mpf("-0.999999"))
        assert abs(upper.residual_to(lower).pmf(1) / moved - 1) < 1e-13


def test_a_truth_of_another_length_is_refused() -> None:
    chain = plan(Ladder.parse(["1"]), ChangeSet.scalar(1))
    with pytest.raises(InvalidParameterError, match="truth"):
        draw_chain([1, 2], specs("0" * 64, chain, epoch=1, grain=0, length=3), keys)


def test_a_residual_upwards_does_not_exist() -> None:
    upper, lower = TwoSidedGeometric(Fraction(2)), TwoSidedGeometric(Fraction(1))
    for pair in ((lower, upper), (upper, upper)):
        with pytest.raises(NoResidualError):
            pair[0].residual_to(pair[1])


BAD = ["", "0", "-1", "1e3", "nan", "inf", "0.1\n", "٠.١", " 1", "1 ", "1_0", ".5", "1.", "5e-324", "51", "0.0000001"]


@pytest.mark.parametrize("text", [*BAD, "1" * 31, "0." + "1" * 40])
def test_a_text_that_is_no_budget_is_refused(text: str) -> None:
    with pytest.raises(InvalidParameterError) as refusal:
        parse_epsilon(text)
    assert len(str(refusal.value)) < 250


@pytest.mark.parametrize("value", [0.1, 1.0, float("nan"), True, None, 10**40, Fraction(-1), b"1", []])
def test_a_value_that_is_no_budget_is_refused(value: object) -> None:
    with pytest.raises(InvalidParameterError):
        parse_epsilon(value)  # type: ignore[arg-type]


def test_a_decimal_text_is_that_decimal_exactly() -> None:
    assert parse_epsilon("0.1") == Fraction(1, 10)
    assert parse_epsilon("0.10") == parse_epsilon("0.1")
    assert parse_decimal("x", "0") == 0


@given(st.fractions(min_value=-(10**6), max_value=10**6, max_denominator=10**6))
@settings(max_examples=200, deadline=None)
def test_the_text_of_a_rational_is_canonical(value: Fraction) -> None:
    assert Fraction(decimal_text(value)) == value
    assert nano_up(value) - 1 < value * 10**9 <= nano_up(value)


@pytest.mark.parametrize(
    "ladder", [[], ["1", "1"], ["1", "1.0"], ["1", "2"], ["2", "1", "1.5"], "2,1", ["1"] * 65], ids=repr
)
def test_a_ladder_that_does_not_fall_is_refused(ladder: list[str]) -> None:
    with pytest.raises(TierError):
        Ladder.parse(ladder)
    if ladder[:2] == ["1", "2"]:
        with pytest.raises(BudgetOrderError, match="tier 2"):
            Ladder.parse(ladder)


@pytest.mark.parametrize(
    "bounds", [(0, 1, 1), (1, 0, 1), (1, 1, 0), (1, 2, 1), (1, 1, 2), (2, 1, 3), (1, 2**63, 2**63)]
)
def test_a_change_set_that_no_unit_could_have_is_refused(bounds: tuple[int, int, int]) -> None:
    with pytest.raises(InvalidParameterError):
        ChangeSet(*bounds)
    for value in (1.0, True, "1", None):
        with pytest.raises(InvalidParameterError):
            ChangeSet(bins=value, step=1, total=1)  # type: ignore[arg-type]
