"""Slow, obvious versions of eliminations and distances, in plain Python, sharing nothing with the library."""

import math
from collections.abc import Callable, Sequence


def far(
    r: Sequence[Sequence[float]],
    widths: Sequence[Sequence[float]],
    value: Callable[[int, int], float | None],
    low: float,
    high: float,
) -> tuple[list[str], list[int], list[float]]:
    """Algorithm 4, person by person: fate, rounds answered, last estimate. A value of None is a refused charge."""
    fates, answered, found = [], [], []
    for person, budgets in enumerate(r):
        fate, total, mean, rounds = "UNDECIDED", 0.0, math.nan, 0
        for place, budget in enumerate(budgets):
            shown = value(person, place)
            if shown is None:
                fate = "DROPPED"
                break
            mean = shown if place == 0 else (total * mean + budget * shown) / (total + budget)
            total, rounds = total + budget, place + 1
            if mean < low - widths[person][place]:
                fate = "BELOW"
                break
            if mean > high + widths[person][place]:
                fate = "ABOVE"
                break
        fates.append(fate)
        answered.append(rounds)
        found.append(mean)
    return fates, answered, found


def near(
    r: Sequence[Sequence[float]],
    widths: Sequence[Sequence[float]],
    value: Callable[[int, int], float],
    nearest: int,
) -> list[set[int]]:
    """Algorithm 5: the sets G_1, G_2, …"""
    left, sets = set(range(len(r))), []
    place = 0
    while place < len(r[0]) and len(left) > nearest:
        means = {}
        for person in left:
            weights = r[person][: place + 1]
            means[person] = sum(w * value(person, s) for s, w in enumerate(weights)) / sum(weights)
        bar = sorted(means[person] + widths[person][place] for person in left)[nearest - 1]
        left = {person for person in left if means[person] - widths[person][place] <= bar}
        sets.append(set(left))
        place += 1
    return sets


def to_segment(p: tuple[float, float], a: tuple[float, float], b: tuple[float, float]) -> float:
    length = (b[0] - a[0]) ** 2 + (b[1] - a[1]) ** 2
    t = ((p[0] - a[0]) * (b[0] - a[0]) + (p[1] - a[1]) * (b[1] - a[1])) / length
    t = min(1.0, max(0.0, t))
    return math.hypot(p[0] - a[0] - t * (b[0] - a[0]), p[1] - a[1] - t * (b[1] - a[1]))


def winding(p: tuple[float, float], vertices: Sequence[tuple[float, float]]) -> int:
    """How often the border runs round the point, by the sum of its angles: no rays."""
    turned = 0.0
    for (ax, ay), (bx, by) in zip(vertices, [*vertices[1:], vertices[0]], strict=True):
        one, two = (ax - p[0], ay - p[1]), (bx - p[0], by - p[1])
        turned += math.atan2(one[0] * two[1] - one[1] * two[0], one[0] * two[0] + one[1] * two[1])
    return round(turned / (2 * math.pi))


def polygon_distance(p: tuple[float, float], vertices: Sequence[tuple[float, float]]) -> float:
    away = min(to_segment(p, a, b) for a, b in zip(vertices, [*vertices[1:], vertices[0]], strict=True))
    return -away if winding(p, vertices) else away
