"""The black-box check: exact intervals, engines that keep their claims, and engines that do not."""

from collections.abc import Sequence
from fractions import Fraction
from pathlib import Path

import pytest

from app.audit.blackbox import Canaries, measure, plant
from tests.audit.saboteurs import claimed
from tiers.audit.blackbox import Counts, clopper_pearson, epsilon_lower, tail_event
from tiers.chain import draw_chain
from tiers.errors import InvalidParameterError
from tiers.noise.skellam import Skellam
from tiers.noise.tsg import TwoSidedGeometric

LADDER = ("2", "1", "0.5")
FAMILIES = {
    "tsg": {"step": 1, "family": "tsg"},
    "msdlap": {"step": 2, "family": "msdlap"},
    "skellam": {"step": 1, "family": "skellam", "delta": "0.01"},
    "discrete-gaussian": {"step": 1, "family": "discrete-gaussian", "delta": "0.01"},
    "lattice-gaussian": {"step": 3000, "family": "lattice-gaussian", "delta": "0.01"},
}


@pytest.mark.parametrize(("hits", "trials"), [(0, 5), (2, 5), (5, 5)])
def test_intervals_are_those_of_the_binomial_law(hits: int, trials: int) -> None:
    """Against the definition, summed as rationals: each bound, as a probability, makes what was seen 1 in 40."""
    from math import comb

    low, high = clopper_pearson(Counts(hits, trials), Fraction(1, 40))

    def at_least(p: float, k: int) -> Fraction:
        chance = Fraction(p)
        return sum(
            (comb(trials, i) * chance**i * (1 - chance) ** (trials - i) for i in range(k, trials + 1)), Fraction(0)
        )

    if hits:
        assert float(at_least(low, hits)) == pytest.approx(1 / 40, rel=1e-6)
        assert at_least(low, hits) <= Fraction(1, 40)
    else:
        assert low == 0
    if hits < trials:
        assert float(1 - at_least(high, hits + 1)) == pytest.approx(1 / 40, rel=1e-6)
        assert 1 - at_least(high, hits + 1) <= Fraction(1, 40)
    else:
        assert high == 1


def test_intervals_cover_by_enumeration() -> None:
    """Every probability in a grid, every outcome: either bound misses with probability at most 1/20."""
    from math import comb

    bounds = [clopper_pearson(Counts(hits, 12), Fraction(1, 20)) for hits in range(13)]
    for percent in range(1, 100):
        p = percent / 100
        chances = [comb(12, hits) * p**hits * (1 - p) ** (12 - hits) for hits in range(13)]
        assert sum(c for c, (low, _) in zip(chances, bounds, strict=True) if low > p) <= 1 / 20
        assert sum(c for c, (_, high) in zip(chances, bounds, strict=True) if high < p) <= 1 / 20


@pytest.mark.parametrize("wrong", [(-1, 3), (4, 3), (0, 0), (1.0, 3)], ids=str)
def test_counts_that_are_none_are_refused(wrong: tuple[object, object]) -> None:
    with pytest.raises(InvalidParameterError, match="counts"):
        Counts(*wrong)  # type: ignore[arg-type]
    with pytest.raises(InvalidParameterError, match="miss"):
        epsilon_lower(Counts(1, 2), Counts(1, 2), Fraction(1))


def test_the_event_is_a_tail_that_tells_most() -> None:
    law = TwoSidedGeometric(Fraction(1))
    assert tail_event(law.cdf, 1, 20, 10**6) in (-1, 0), "every t ≤ 0 has the full ratio; the likeliest proves most"
    event = tail_event(Skellam(Fraction(20)).cdf, 1, 60, 10**8, Fraction(1, 100))
    assert -16 < event < -4
    with pytest.raises(InvalidParameterError, match="trials"):
        tail_event(Skellam(Fraction(10**6)).cdf, 1, 100, 100, Fraction(1, 100))


@pytest.fixture(scope="module")
def planted(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Canaries]:
    return {
        name: plant(tmp_path_factory.mktemp("canaries"), LADDER, **fields)  # type: ignore[arg-type]
        for name, fields in FAMILIES.items()
    }


def test_the_engine_bounds_each_canary_to_one_step(planted: dict[str, Canaries]) -> None:
    for name, canaries in planted.items():
        step = FAMILIES[name]["step"]
        assert set(canaries.without) == {0}
        assert set(canaries.holding) == {step}
        assert canaries.plan.change_set.total == step


@pytest.mark.statistical
@pytest.mark.parametrize(
    "name", [pytest.param(n, marks=[pytest.mark.long] if n == "discrete-gaussian" else []) for n in FAMILIES]
)
def test_outputs_prove_four_fifths_of_each_claim_and_no_more_than_it(name: str, planted: dict[str, Canaries]) -> None:
    for tier in measure(planted[name], bytes(32), releases=400):
        assert tier.family == name
        assert 0.8 * tier.claim < tier.lower <= tier.claim
        assert tier.claim == pytest.approx(float(Fraction(tier.tier)), rel=1e-6)


def _rows(truth: Sequence[int], made: object, key_of: object, *, times: int) -> list[tuple[int, ...]]:
    """Noise for less data than there is: what a missing clamp does."""
    return [draw.answer for draw in draw_chain([times * value for value in truth], made, key_of)]  # type: ignore[arg-type]


@pytest.mark.statistical
def test_an_engine_that_does_not_bound_is_found(planted: dict[str, Canaries]) -> None:
    worst = measure(planted["tsg"], bytes(32), releases=40, draw=lambda *how: _rows(*how, times=3))
    assert all(tier.lower > tier.claim for tier in worst)


@pytest.mark.statistical
def test_an_engine_with_a_tenth_less_noise_is_found(planted: dict[str, Canaries]) -> None:
    def less(truth: Sequence[int], made: object, key_of: object) -> list[tuple[int, ...]]:
        louder = claimed(len(truth), ladder=("2.4", "1.2", "0.6"))
        keys = dict(zip(louder, made, strict=True))  # type: ignore[call-overload]
        return [draw.answer for draw in draw_chain(truth, louder, lambda spec: key_of(keys[spec]))]  # type: ignore[operator]

    assert all(tier.lower > tier.claim for tier in measure(planted["tsg"], bytes(32), releases=100, draw=less))


@pytest.mark.statistical
def test_too_much_noise_proves_too_little(planted: dict[str, Canaries]) -> None:
    """The other arm: an engine that is noisier than was paid for stays below four fifths."""

    def more(truth: Sequence[int], made: object, key_of: object) -> list[tuple[int, ...]]:
        quieter = claimed(len(truth), ladder=("1.4", "0.7", "0.35"))
        keys = dict(zip(quieter, made, strict=True))  # type: ignore[call-overload]
        return [draw.answer for draw in draw_chain(truth, quieter, lambda spec: key_of(keys[spec]))]  # type: ignore[operator]

    assert all(tier.lower < 0.8 * tier.claim for tier in measure(planted["tsg"], bytes(32), releases=100, draw=more))


def test_nothing_is_left_of_a_folder_that_is_missing(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        plant(tmp_path / "none", LADDER)
    assert list(tmp_path.iterdir()) == []
