"""Pictures of panels: what a menu costs beside the single-tier optimum, and what a range costs as the grid grows."""

from collections.abc import Callable
from fractions import Fraction
from pathlib import Path

import numpy as np
from matplotlib.axes import Axes

from app.plots import save_figure
from tiers.budget import Ladder
from tiers.local.flips import Flips
from tiers.local.mixed import plan_mixed
from tiers.local.planning import plan_subset, template_ratios
from tiers.metric.linear import prefix_strategy
from tiers.metric.ranges import Grid, variance_bound

__all__ = ["PANEL_PICTURES", "dense_menu", "plot_menu", "plot_points", "plot_ranges"]

_DOMAIN = 32


def dense_menu() -> Ladder:
    """Return twenty tiers, evenly spaced from 5 to 0.1."""
    top, bottom = Fraction(5), Fraction(1, 10)
    return Ladder(tuple(top - (top - bottom) * place / 19 for place in range(20)))


def plot_menu(path: Path) -> None:
    """Draw each tier's variance against the single-tier optimum, for one path, a mixture and the paper's templates."""
    menu = dense_menu()
    budgets = [float(epsilon) for epsilon in menu]

    def paint(axes: Axes) -> None:
        axes.plot(budgets, template_ratios(_DOMAIN, menu), "s:", color="#999999", label="fixed templates")
        axes.plot(budgets, plan_subset(_DOMAIN, menu).ratios, "o-", color="#b35900", label="one path, planned")
        axes.plot(budgets, plan_mixed(_DOMAIN, menu).ratios, "o-", color="#1f5f99", label="mixed paths")
        axes.set_xlabel(f"ε of the tier (20 tiers, d = {_DOMAIN})")
        axes.set_ylabel("variance / best single tier")
        axes.set_ylim(0.9, 4)
        axes.legend(frameon=False)

    save_figure([paint], path)


def plot_ranges(path: Path) -> None:
    """Draw the variance of a range as the grid grows: flips do not notice it, a binary tree does."""
    sizes, flips = 2 ** np.arange(2, 11), Flips(Fraction(1))

    def paint(axes: Axes) -> None:
        flat = [variance_bound(Grid((int(m),), flips), 1, [(2, 3)]) for m in sizes]
        prefix = [float(prefix_strategy(min(int(m), 64), 1.0).errors(1).max()) for m in sizes]
        axes.plot(sizes, prefix, "s-", color="#999999", label="Laplace prefixes, ε a step")
        axes.plot(sizes, flat, "o-", color="#1f5f99", label="flips, ε a step")
        axes.set_xscale("log", base=2)
        axes.set_ylim(0)
        axes.set_xlabel("values m")
        axes.set_ylabel("variance of an interior range, a person")
        axes.legend(frameon=False)

    save_figure([paint], path)


def plot_points(path: Path) -> None:
    """Draw the variance bound of a box of three axes by ε a step: sides that are whole cost nothing."""
    steps = [Fraction(n, 10) for n in range(2, 41, 2)]

    def paint(axes: Axes) -> None:
        for sides, colour in ((1, "#999999"), (2, "#b35900"), (3, "#1f5f99")):
            box = [(2, 3)] * sides + [(1, 16)] * (3 - sides)
            bounds = [variance_bound(Grid((16, 16, 16), Flips(epsilon)), 1, box) for epsilon in steps]
            axes.plot([float(e) for e in steps], bounds, "o-", color=colour, label=f"{sides} of 3 sides not whole")
        axes.set_yscale("log")
        axes.set_xlabel("ε a step")
        axes.set_ylabel("variance bound of a box, a person")
        axes.legend(frameon=False)

    save_figure([paint], path)


PANEL_PICTURES: dict[str, Callable[[Path], None]] = {
    "panels-menu.svg": plot_menu,
    "panels-ranges.svg": plot_ranges,
    "panels-points.svg": plot_points,
}


if __name__ == "__main__":
    folder = Path(__file__).parent.parent / "docs" / "img"
    for name, draw in PANEL_PICTURES.items():
        draw(folder / name)
