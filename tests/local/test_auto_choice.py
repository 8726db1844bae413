"""The choice of "auto": the plan that planning every mechanism would have chosen, and no planning of what cannot win."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from app.panels import mechanism
from app.panels.mechanism import BY_STEPS, MECHANISMS, choose, plan_of
from tiers.budget import Ladder
from tiers.local.hash_planning import hash_bounds, plan_hash
from tiers.local.menu import Menu
from tiers.local.paths import Paths, cheapest_path


def dense(count: int, low: str = "0.1", high: str = "5") -> Ladder:
    first, last = float(low), float(high)
    return Ladder.parse([f"{last - (last - first) * place / (count - 1):.4f}" for place in range(count)])


def merit(plan: Any) -> tuple[float, float]:
    return max(plan.ratios), sum(plan.ratios) / len(plan.ratios)


@pytest.mark.parametrize(("size", "tiers"), [(2, 3), (4, 20), (10, 5), (12, 2), (32, 12), (40, 3)])
def test_auto_is_the_best_of_all_plans(size: int, tiers: int) -> None:
    ladder = dense(tiers)
    plans = [plan_of(name, size, ladder) for name in MECHANISMS if name not in BY_STEPS]
    best = min(plans, key=merit)
    found = choose("auto", size, ladder, ordered=False)
    assert (found.mechanism, merit(found)) == (best.mechanism, merit(best))
    assert [found.parameters(rank) for rank in range(tiers)] == [best.parameters(rank) for rank in range(tiers)]


def test_what_cannot_win_is_not_planned(monkeypatch: pytest.MonkeyPatch) -> None:
    planned: list[str] = []
    real: Callable[..., Any] = mechanism.plan_of

    def noted(name: str, *given: Any, **more: Any) -> Any:
        planned.append(name)
        return real(name, *given, **more)

    monkeypatch.setattr(mechanism, "plan_of", noted)
    assert choose("auto", 10, dense(5, "0.5", "4"), ordered=False).mechanism == "subset"
    assert set(planned) == {"subset", "randomized-response"}, "every tier is at its optimum: no mixture is better"
    planned.clear()
    assert choose("auto", 10, dense(12), ordered=False).mechanism == "mixed"
    assert "local-hash" not in planned


@pytest.mark.parametrize(("size", "tiers"), [(3, 2), (16, 4), (100, 6)])
def test_no_chain_of_local_hashes_is_below_their_bound(size: int, tiers: int) -> None:
    ladder = dense(tiers)
    for bound, ratio in zip(hash_bounds(size, ladder), plan_hash(size, ladder).ratios, strict=True):
        assert bound <= ratio
    one = Ladder.parse(["1.5"])
    assert hash_bounds(size, one)[0] == pytest.approx(plan_hash(size, one).ratios[0], rel=1e-6), "and it is attained"


@pytest.mark.parametrize(("size", "tiers", "bound"), [(4, 4, 8.0), (6, 3, np.inf), (5, 4, 2.5)])
def test_tables_that_are_shared_between_weights_give_the_least_path(size: int, tiers: int, bound: float) -> None:
    """Against every choice of sizes, each tier's strength the least cap so far."""
    from itertools import combinations_with_replacement

    menu, generator = Menu.of(size, dense(tiers)), np.random.default_rng(7)
    paths = Paths(menu, bound)
    chains = list(combinations_with_replacement(range(1, size), tiers))
    for _ in range(8):
        weights = generator.random(tiers) * (generator.random(tiers) < 0.7) + 1e-3
        least = np.inf
        for sizes in chains:
            caps = [menu.caps[tier, k - 1] for tier, k in enumerate(sizes)]
            ratios = menu.ratios(sizes, np.minimum.accumulate(caps).tolist())
            if ratios.max() <= bound * (1 + 1e-12):
                least = min(least, float(weights @ ratios))
        found = paths.cheapest(weights)
        assert float(weights @ np.array(found.ratios)) == pytest.approx(least, rel=1e-12)
        assert found == cheapest_path(menu, weights, bound=bound)
