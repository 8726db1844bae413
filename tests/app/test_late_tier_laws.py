"""The laws of tiers added to panels: every joint law is the planned one, by enumeration in rationals."""

from fractions import Fraction
from itertools import combinations, product

import numpy as np
import pytest

from app.panels.mechanism import plan_of
from app.panels.plans.late import Menu, law_of_late
from app.panels.plans.points import PointsPlan
from tiers.budget import Ladder
from tiers.local.flips import Flips, insertion_flip
from tiers.local.late import Between
from tiers.local.subset import Subset
from tiers.real import to_float


def exact_law(law: dict[str, str], d: int) -> Subset:
    """The law with its signal as a rational near it: sums over a domain are then exact."""
    from app.panels.plans.base import signal_of
    from tiers.local.signal import Signal

    size = int(law.get("subset_size", "1"))
    return Subset(d, size, Signal.rational(Fraction(signal_of(law).value()).limit_denominator(10**6)))


def channel(law: Subset, value: int) -> dict[int, Fraction]:
    """P(report | value): kept (a uniform set that holds the value), or any set of the size."""
    d, k, s = law.domain_size, law.subset_size, law.signal.fraction()
    every = [sum(1 << v for v in each) for each in combinations(range(d), k)]
    holding = [each for each in every if each >> value & 1]
    return {each: (1 - s) / len(every) + (s / len(holding) if each in holding else 0) for each in every}


def step(upper: Subset, lower: Subset, report: int) -> dict[int, Fraction]:
    d, k = upper.domain_size, lower.subset_size
    keep = lower.signal.fraction() / upper.signal.fraction()
    every = [sum(1 << v for v in each) for each in combinations(range(d), k)]
    holding = [each for each in every if each & report == report]
    return {each: (1 - keep) / len(every) + (keep / len(holding) if each in holding else 0) for each in every}


@pytest.mark.parametrize("mechanism", ["subset", "randomized-response"])
def test_the_joint_law_with_late_tiers_is_the_planned_one_and_every_coalition_keeps_its_best_epsilon(
    mechanism: str,
) -> None:
    """Top and bottom first, then a tier between them, then one between that and the bottom: all in rationals."""
    d = 4
    opening = Menu(plan_of(mechanism, d, Ladder.parse(["2", "0.5"])))  # type: ignore[arg-type]
    one = Menu(opening.opening, (Fraction(1),), (law_of_late(opening, Fraction(1)),))
    menu = Menu(opening.opening, (Fraction(1), Fraction(3, 4)), (*one.laws, law_of_late(one, Fraction(3, 4))))
    assert [menu.parents(number) for number in range(4)] == [(), (0,), (0, 1), (2, 1)]
    a, c, b, e = (exact_law(menu.law(number), d) for number in range(4))
    joint: list[dict[tuple[int, ...], Fraction]] = []
    for value in range(d):
        found = dict[tuple[int, ...], Fraction]()
        for top, chance in channel(a, value).items():
            for low, given in step(a, c, top).items():
                middle = Between(a, b, c, above=top, below=low)
                for mid in channel(b, 0):
                    last = Between(b, e, c, above=mid, below=low)
                    for other in channel(e, 0):
                        weight = chance * given * middle.probability(mid) * last.probability(other)
                        found[top, mid, other, low] = weight
                        if value == 0:
                            planned = chance * step(a, b, top)[mid] * step(b, e, mid)[other] * step(e, c, other)[low]
                            assert weight == planned
        assert sum(found.values()) == 1
        joint.append(found)
    allowed = [law.signal.epsilon_at(Fraction(law.subset_size, d)) for law in (a, b, e, c)]
    for members in (each for count in (1, 2, 3, 4) for each in combinations(range(4), count)):
        marginals = []
        for found in joint:
            seen = dict[tuple[int, ...], Fraction]()
            for reports_, weight in found.items():
                key = tuple(reports_[member] for member in members)
                seen[key] = seen.get(key, Fraction(0)) + weight
            marginals.append(seen)
        worst = max(float(one[key] / two[key]) for one, two in product(marginals, repeat=2) for key in one if one[key])
        most = max(allowed[member] for member in members)
        assert worst <= 2.718281828459045**most * (1 + 1e-9), members


def test_the_joint_law_of_flips_with_a_late_tier_is_the_planned_one() -> None:
    menu = Menu(plan_of("flips", 2, Ladder.parse(["2", "0.5"])))
    late = Menu(menu.opening, (Fraction(1),), (law_of_late(menu, Fraction(1)),))
    upper, middle, lower = late.plan_of(0, 2, 1).laws
    assert isinstance(upper, Flips)
    assert isinstance(middle, Flips)
    assert isinstance(lower, Flips)
    from tiers.local.flips import reflip

    first, second, both = (to_float(reflip(x, y)) for x, y in ((upper, middle), (middle, lower), (upper, lower)))
    agree, differ = (to_float(coin) for coin in insertion_flip(upper, middle, lower))
    for low, mid in product((0, 1), repeat=2):  # given a bit above of 0
        given = (both if low else 1 - both) * ((differ if low else agree) if mid else 1 - (differ if low else agree))
        planned = (first if mid else 1 - first) * (second if low != mid else 1 - second)
        assert given == pytest.approx(planned, rel=1e-12)


def test_a_late_tier_is_of_least_variance_between_its_neighbours_and_below_the_lowest_too() -> None:
    menu = Menu(plan_of("subset", 16, Ladder.parse(["3", "0.5"])))
    laws = menu.plan.laws
    found = law_of_late(menu, Fraction(1))
    assert int(laws[0].parameters()["subset_size"]) <= int(found["subset_size"])
    assert int(found["subset_size"]) <= int(laws[1].parameters()["subset_size"])
    below = Menu(menu.opening, (Fraction(1, 5),), (law_of_late(menu, Fraction(1, 5)),))
    assert below.parents(2) == (1,)
    assert below.plan.ratios[-1] < 1.6
    steep = Menu(plan_of("subset", 16, Ladder.parse(["3"])))
    law = law_of_late(steep, Fraction(1))
    assert int(law["subset_size"]) > int(steep.law(0)["subset_size"]), "below the lowest tier sets may grow"
    assert Menu(steep.opening, (Fraction(1),), (law,)).plan.ratios[-1] < 1.3


@pytest.mark.parametrize("sizes", [(5,), (3, 3), (2, 2, 3), (40, 30), (33, 33), (60, 70)], ids=str)
def test_points_are_drawn_bit_by_bit_as_flips_of_as_many_thresholds_are(sizes: tuple[int, ...]) -> None:
    """So that the law of one bit, which is enumerated, is that of a point: bits have coins of their own."""
    ladder, bits = Ladder.parse(["3", "1"]), sum(sizes) - len(sizes)
    points, flips = PointsPlan.over(sizes, ladder), plan_of("flips", bits + 1, ladder)
    menus = [Menu(plan, (Fraction(2),), (law_of_late(Menu(plan), Fraction(2)),)) for plan in (points, flips)]
    assert menus[0].law(2) == {"family": "points", "sizes": ",".join(map(str, sizes))} | Flips(Fraction(2)).parameters()
    last = np.full(8 * -(-bits // 64), 255, np.uint8)
    last[-8:] = np.frombuffer(np.uint64(2 ** (bits - 64 * ((bits - 1) // 64)) - 1).tobytes(), np.uint8)
    parents = [
        (np.random.default_rng(seed).integers(0, 256, (50, len(last)), np.uint8) & last).tobytes() for seed in (1, 2)
    ]
    drawn = [menu.draw(bytes(32), 2, 7, parents) for menu in menus]
    assert drawn[0] == drawn[1]
    assert drawn[0] not in parents
    assert points.pack(points.unpack(drawn[0]))[0].tobytes() == drawn[0], "no bit beyond the thresholds"


@pytest.mark.parametrize(
    ("mechanism", "sizes"), [("points", (40, 30)), ("points", (33, 33)), ("flips", (200,))], ids=str
)
def test_reports_drawn_in_runs_are_those_drawn_at_once(mechanism: str, sizes: tuple[int, ...]) -> None:
    """Every report has coins of its own, however many words it is: no run begins in those of another."""
    ladder = Ladder.parse(["3", "1"])
    plan = PointsPlan.over(sizes, ladder) if mechanism == "points" else plan_of("flips", sizes[0], ladder)
    menu, width = Menu(plan, (Fraction(2),), (law_of_late(Menu(plan), Fraction(2)),)), plan.width
    parents = [bytes(50 * width), bytes(50 * width)]
    whole = menu.draw(bytes(32), 2, 0, parents)
    runs = [menu.draw(bytes(32), 2, at, [bytes(10 * width)] * 2) for at in range(0, 50, 10)]
    assert b"".join(runs) == whole
    assert len(set(runs)) == 5
