"""The exact dynamic programme over (tier, set size, strength): the best path of a menu, for any weights of its tiers.

A path chooses a size k_i for each tier. Sizes never fall, and the strength c_i = k_i(e^ε_i − 1) of a tier may not
exceed the one above (the nesting law); more strength is always better, so c_i is the least cap of the tiers so far.
A state is therefore (k, which cap binds), and each tier costs one pass over the states.
"""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from tiers.local.menu import Floats, Menu, report_variance

__all__ = ["Path", "cheapest_path", "least_worst_ratio"]

_ROOM = 1 + 1e-12
_RATIO_LIMIT = 1e100


@dataclass(frozen=True, slots=True)
class Path:
    """One chain of a menu: each tier's set size, the (tier, size) whose cap its strength is, and the ratios so had."""

    sizes: tuple[int, ...]
    binding: tuple[tuple[int, int], ...]
    ratios: tuple[float, ...]


def least_worst_ratio(menu: Menu) -> float:
    """Return the least possible worst ratio to the single-tier optima, over all paths, to a part in 10¹³.

    For a bound on the ratios the most strength that can reach (tier, k) follows by one pass; the bound is bisected.
    """
    high, low = 2.0, 1.0
    while _reach(menu, high) is None:
        low, high = high, high * 2
    if _reach(menu, _ROOM) is not None:
        return _ROOM
    while high - low > 1e-13 * high:
        middle = (low + high) / 2
        low, high = (middle, high) if _reach(menu, middle) is None else (low, middle)
    return high


def _reach(menu: Menu, bound: float) -> list[Floats] | None:
    """Return the most strength at each (tier, size) with all ratios within the bound; None where no path is."""
    sizes, most, found = menu.size_column[:, 0], np.full(len(menu.sizes), np.inf), []
    for cap, optimum in zip(menu.caps, menu.optima, strict=True):
        strength = np.minimum(np.maximum.accumulate(most), cap)
        with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
            fits = (strength > 0) & (report_variance(menu.domain_size, sizes, strength) <= bound * optimum)
        most = np.where(fits, strength, -np.inf)
        if not fits.any():
            return None
        found.append(most)
    return found


def cheapest_path(menu: Menu, weights: Floats, *, bound: float = np.inf) -> Path:
    """Return the path of least Σ weight_i·ratio_i among those whose ratios are all within `bound`.

    Law:        exact over the menu's sizes: S_i(k, c) = min over k′ ≤ k of S_{i−1}(k′, c) plus the tier's cost, where
                c stays if it is below the tier's cap, and else falls to it.
    Args:       weights: one a tier, of at least 0. bound: at least `least_worst_ratio`.
    Example:
        >>> from tiers.budget import Ladder
        >>> cheapest_path(Menu.of(10, Ladder.parse(["2.1", "1", "0.1"])), np.ones(3)).sizes
        (1, 3, 5)
    """
    reached = _reach(menu, bound * _ROOM)
    assert reached is not None
    live = np.array([np.isfinite(most) for most in reached])
    order = np.argsort(-menu.caps[live], kind="stable")
    where = np.argwhere(live)[order]
    strengths = np.concatenate([[np.inf], menu.caps[live][order]])
    place = np.zeros(menu.caps.shape, dtype=np.int64)
    place[where[:, 0], where[:, 1]] = np.arange(1, len(where) + 1)
    with np.errstate(invalid="ignore"):
        spread = report_variance(menu.domain_size, menu.size_column, strengths)
    spread[:, 0] = np.finfo(np.float64).max
    state = np.full(spread.shape, np.inf)
    state[0, 0] = 0.0
    columns, rows = np.arange(len(strengths)), np.arange(len(menu.sizes), dtype=np.int32)
    back: list[tuple[npt.NDArray[np.int32], npt.NDArray[np.int64]]] = []
    for tier, optimum in enumerate(menu.optima):
        best = np.minimum.accumulate(state, axis=0)
        came = np.maximum.accumulate(np.where(state <= best, rows[:, None], np.int32(0)), axis=0)
        at = np.where(live[tier], place[tier], 0)
        source = np.where(columns <= at[:, None], best, np.inf).argmin(axis=1)
        limit = min(bound * _ROOM, _RATIO_LIMIT) * optimum
        allowed = (spread <= limit) & live[tier][:, None]
        cost = np.where(allowed, spread, 0) * (weights[tier] / optimum)
        state = np.where((columns > at[:, None]) & allowed, best + cost, np.inf)
        state[rows, at] = np.where(allowed[rows, at], best[rows, source] + cost[rows, at], np.inf)
        back.append((came, source))
    row, column = divmod(int(state.argmin()), len(strengths))
    return _traced(menu, back, place, strengths, where, row, column)


def _traced(
    menu: Menu,
    back: list[tuple[npt.NDArray[np.int32], npt.NDArray[np.int64]]],
    place: npt.NDArray[np.int64],
    strengths: Floats,
    where: npt.NDArray[np.int64],
    row: int,
    column: int,
) -> Path:
    sizes, binding, used = [], [], []
    for tier in reversed(range(len(menu.optima))):
        came, source = back[tier]
        sizes.append(menu.sizes[row])
        bound_tier, bound_row = where[column - 1]
        binding.append((int(bound_tier), menu.sizes[bound_row]))
        used.append(float(strengths[column]))
        if column == place[tier, row]:
            column = int(source[row])
        row = int(came[row, column])
    ratios = menu.ratios(sizes[::-1], used[::-1])
    return Path(tuple(sizes[::-1]), tuple(binding[::-1]), tuple(ratios.tolist()))
