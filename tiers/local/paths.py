"""The exact dynamic programme over (tier, set size, strength): the best path of a menu, for any weights of its tiers.

A path chooses a size k_i for each tier. Sizes never fall, and the strength c_i = k_i(e^ε_i − 1) of a tier may not
exceed the one above (the nesting law); more strength is always better, so c_i is the least cap of the tiers so far.
A state is therefore (k, which cap binds), and each tier costs one pass over the states.
"""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from tiers.local.menu import Floats, Menu, report_variance

__all__ = ["Path", "Paths", "cheapest_path", "least_worst_ratio"]

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

    Args:       weights: one a tier, of at least 0. bound: at least `least_worst_ratio`.
    Example:
        >>> from tiers.budget import Ladder
        >>> cheapest_path(Menu.of(10, Ladder.parse(["2.1", "1", "0.1"])), np.ones(3)).sizes
        (1, 3, 5)
    """
    return Paths(menu, bound).cheapest(weights)


class Paths:
    """The paths of a menu whose ratios are all within a bound: what does not depend on the weights is made once.

    Law:        exact over the menu's sizes: S_i(k, c) = min over k′ ≤ k of S_{i−1}(k′, c) plus the tier's cost, where
                c stays if it is below the tier's cap, and else falls to it.
    Args:       bound: at least `least_worst_ratio`.
    Example:
        >>> from tiers.budget import Ladder
        >>> paths = Paths(Menu.of(10, Ladder.parse(["2.1", "1", "0.1"])), 8.0)
        >>> paths.cheapest(np.ones(3)).sizes, paths.cheapest(np.array([0.0, 0.0, 1.0])).sizes[-1]
        ((1, 3, 5), 5)
    """

    def __init__(self, menu: Menu, bound: float) -> None:
        self.menu = menu
        reached = _reach(menu, bound * _ROOM)
        assert reached is not None
        live = np.array([np.isfinite(most) for most in reached])
        order = np.argsort(-menu.caps[live], kind="stable")
        self._where = np.argwhere(live)[order]
        self._strengths = np.concatenate([[np.inf], menu.caps[live][order]])
        place = np.zeros(menu.caps.shape, dtype=np.int64)
        place[self._where[:, 0], self._where[:, 1]] = np.arange(1, len(self._where) + 1)
        self._place = np.where(live, place, 0)
        with np.errstate(invalid="ignore"):
            self._spread = report_variance(menu.domain_size, menu.size_column, self._strengths)
        self._spread[:, 0] = np.finfo(np.float64).max
        columns, rows = np.arange(len(self._strengths)), np.arange(len(menu.sizes))
        self._frames = []
        for tier, optimum in enumerate(menu.optima):
            allowed = (self._spread <= min(bound * _ROOM, _RATIO_LIMIT) * optimum) & live[tier][:, None]
            at = self._place[tier]
            fits = np.flatnonzero(allowed[rows, at])
            stays = allowed & (columns > at[:, None])
            first, last = (
                int(at[fits].min()),
                max(int(at[fits].max()), int(np.flatnonzero(stays.any(axis=0)).max(initial=0))),
            )
            height = int(fits[-1]) + 1
            self._frames.append(_Frame(first, last + 1, height, fits, at[fits], ~stays[:height, first : last + 1]))

    def cheapest(self, weights: Floats) -> Path:
        """Return the path of least Σ weight_i·ratio_i; weights of at least 0, one a tier."""
        states, start = [np.zeros((1, 1))], 0
        for weight, optimum, frame in zip(weights, self.menu.optima, self._frames, strict=True):
            best, price = np.minimum.accumulate(states[-1], axis=0), weight / optimum
            best = best[: frame.height]
            if len(best) < frame.height:  # further rows have the least of those above them
                best = np.concatenate([best, np.broadcast_to(best[-1], (frame.height - len(best), best.shape[1]))])
            reach = np.minimum(frame.at - start, best.shape[1] - 1)  # below 0: nothing of the tier above comes so far
            least = np.minimum.accumulate(best, axis=1)[frame.fits, np.maximum(reach, 0)]
            least = np.where(reach >= 0, least, np.inf)
            state = np.full((frame.height, frame.end - frame.start), np.inf)
            low, high = max(frame.start, start), min(frame.end, start + best.shape[1])
            if low < high:
                with np.errstate(over="ignore", invalid="ignore"):  # of what is out of bounds: blocked below
                    cost = self._spread[: frame.height, low:high] * price
                np.add(best[:, low - start : high - start], cost, out=state[:, low - frame.start : high - frame.start])
                np.copyto(state, np.inf, where=frame.blocked)
            state[frame.fits, frame.at - frame.start] = least + self._spread[frame.fits, frame.at] * price
            states.append(state)
            start = frame.start
        return self._traced(states)

    def _traced(self, states: list[Floats]) -> Path:
        """Follow the least cost back: only the rows that it passes are looked at."""
        starts = [0, *(frame.start for frame in self._frames)]
        row, column = divmod(int(states[-1].argmin()), states[-1].shape[1])
        column += starts[-1]
        sizes, binding, used = [], [], []
        for tier in reversed(range(len(self.menu.optima))):
            sizes.append(self.menu.sizes[row])
            bound_tier, bound_row = self._where[column - 1]
            binding.append((int(bound_tier), self.menu.sizes[bound_row]))
            used.append(float(self._strengths[column]))
            above, start = states[tier][: row + 1], starts[tier]
            if column == self._place[tier, row]:
                column = start + int(above[:, : column + 1 - start].min(axis=0).argmin())
            found = above[:, column - start]
            row = int(np.flatnonzero(found <= found.min())[-1])
        ratios = self.menu.ratios(sizes[::-1], used[::-1])
        return Path(tuple(sizes[::-1]), tuple(binding[::-1]), tuple(ratios.tolist()))


@dataclass(frozen=True, slots=True, eq=False)
class _Frame:
    """Where the states of a tier are finite: strengths `start` to `end`, sizes below `height`.

    Args:       fits, at: the sizes that may fall to the tier's own cap, and the cap's place. blocked: of the frame, the
                states that are above the bound or do not stay.
    """

    start: int
    end: int
    height: int
    fits: npt.NDArray[np.int64]
    at: npt.NDArray[np.int64]
    blocked: npt.NDArray[np.bool_]
