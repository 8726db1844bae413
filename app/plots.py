"""Pictures of chains, made from the tested functions of `tiers`: the same input gives the same bytes."""

from collections.abc import Callable, Sequence
from fractions import Fraction
from itertools import pairwise
from pathlib import Path

import matplotlib as mpl
import numpy as np
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from numpy.typing import NDArray

from tiers.accounting.baselines import chain_mse, gradual_release_mse
from tiers.accounting.joint import LatticeLaw, Node, chain_nodes, independent_nodes, joint_loss, star_nodes
from tiers.budget import Ladder, decimal_text
from tiers.chain import ChainPlan, draw_chain, plan, specs
from tiers.errors import InvalidParameterError
from tiers.noise.skellam import Skellam
from tiers.noise.tsg import TwoSidedGeometric
from tiers.residual.plan import residual
from tiers.sensitivity import ChangeSet

__all__ = ["FORMATS", "PICTURES", "plot_alternatives", "plot_chain", "plot_delta", "plot_residual", "save_figure"]

FORMATS = (".png", ".svg")
_ILLUSTRATION = bytes(32)  # a public key: the drawn example is an illustration, and never noise of a market
_INK, _ACCENT, _PALE, _GREY = "#1b3a57", "#c4552d", "#9fb6c9", "#777777"
_COLOURS = {"chain": _ACCENT, "gradual release": _INK, "independent draws": _PALE, "star": _GREY}
_WINDOW = 20


def plot_chain(chain: ChainPlan, path: Path) -> None:
    """Draw one example of the chain as a staircase over the truth, each tier with its 95 % error bar.

    Raises:     InvalidParameterError: a file name that ends in neither .svg nor .png.
    """

    def paint(axes: Axes) -> None:
        ranks = np.arange(1, len(chain.tiers) + 1)
        draws = specs("0" * 64, chain, epoch=0, grain=0, length=1)
        answers = [float(draw.answer[0]) for draw in draw_chain([0], draws, lambda _: _ILLUSTRATION)]
        bars = [float(tier.half_width) for tier in chain.tiers]
        edges = np.arange(len(ranks) + 1) + 0.5
        axes.axhline(0, color=_PALE, linestyle="--", linewidth=1, label="the truth")
        axes.stairs(answers, edges, baseline=None, color=_INK, linewidth=2, label="one answer, tier by tier")
        axes.errorbar(ranks, answers, yerr=bars, fmt="o", color=_ACCENT, capsize=5, label="95 % error bar")
        if max(bars) > 30 * max(1.0, min(bars)):
            axes.set_yscale("symlog", linthresh=max(1.0, min(bars)))
        axes.set_xticks(ranks, [_tick(chain, place) for place in range(len(ranks))])
        axes.set_ylabel("answer − truth (steps)")
        axes.set_title("A chain: each tier is the tier before, and noise")
        axes.legend(frameon=False, loc="upper left")

    save_figure((paint,), path, wide=max(5.0, 1.4 * len(chain.tiers)))


def plot_residual(chain: ChainPlan, path: Path) -> None:
    """Draw the first step's residual pmf beside the two tiers' own laws, on a logarithmic scale."""

    def paint(axes: Axes) -> None:
        upper, lower = (tier.law.noise for tier in chain.tiers[:2])
        step = residual(upper, lower, allow_slack=True)
        reach = 2 * chain.tiers[1].half_width + 2
        places = np.arange(-reach, reach + 1)
        for law, colour, name in ((upper, _PALE, "tier 1"), (lower, _INK, "tier 2"), (step, _ACCENT, "what is added")):
            axes.plot(places, [law.pmf(int(k)) for k in places], "o-", color=colour, markersize=4, label=name)
        axes.set_yscale("log")
        axes.set_xlabel("noise k (steps)")
        axes.set_ylabel("probability")
        axes.set_title(f"P(nothing is added) = {step.same_probability():.3f}")
        axes.legend(frameon=False)

    save_figure((paint,), path)


def plot_alternatives(ladder: Ladder, path: Path) -> None:
    """Draw a chain beside its alternatives, for one number of sensitivity 1.

    Left: the variance of each tier where all buyers together lose the same ε. Right: at the same accuracy of each tier,
    the largest log ratio that the buyers of a tier and of all below it see together, enumerated.
    """

    def accuracy(axes: Axes) -> None:
        change_set = ChangeSet.scalar(1)
        best = np.array(chain_mse(ladder, change_set))
        share = ladder.epsilons[0] / sum(ladder.epsilons)
        cut = Ladder(tuple(epsilon * share for epsilon in ladder))
        _lines(
            axes,
            ladder,
            {
                "chain": best / best,
                "gradual release": np.array(gradual_release_mse(ladder, change_set)) / best,
                "independent draws": np.array(chain_mse(cut, change_set)) / best,
            },
        )
        axes.set_ylabel("variance ÷ variance sold alone")
        axes.set_title("at one loss of all buyers together")

    def loss(axes: Axes) -> None:
        laws = [TwoSidedGeometric(epsilon) for epsilon in ladder]
        chain: list[LatticeLaw] = [laws[0], *(upper.residual_to(lower) for upper, lower in pairwise(laws))]
        star: list[LatticeLaw] = [laws[0], *(laws[0].residual_to(lower) for lower in laws[1:])]
        releases = {
            "chain": chain_nodes(chain, 2 * _WINDOW + 1),
            "star": star_nodes(star, 2 * _WINDOW + 1),
            "independent draws": independent_nodes(laws, 2 * _WINDOW + 1),
        }
        losses = {
            name: np.array([_loss(nodes, place) for place in range(len(ladder))]) for name, nodes in releases.items()
        }
        _lines(axes, ladder, losses)
        axes.set_ylabel("loss ε of this tier and all below, together")
        axes.set_title("at one accuracy of each tier")

    save_figure((accuracy, loss), path, wide=10.0)


def plot_delta(epsilon: Fraction, delta: Fraction, path: Path) -> None:
    """Draw what δ buys a vector of one step a bin: variance over that of the pure law, by the bins a unit touches."""

    def paint(axes: Axes) -> None:
        bins = [1, 2, 3, 5, 8, 12, 20, 30, 50, 80, 120, 200, 300, 500]
        changes = [ChangeSet(count, 1, count) for count in bins]
        pure = np.array([TwoSidedGeometric.at(epsilon, change).variance() for change in changes])
        families = {
            "two-sided geometric": [TwoSidedGeometric.at(epsilon, change, delta).variance() for change in changes],
            "Skellam": [Skellam.at(epsilon, delta, change).variance() for change in changes],
        }
        for (name, variances), colour in zip(families.items(), (_ACCENT, _INK), strict=True):
            axes.plot(bins, np.array(variances) / pure, "o-", color=colour, markersize=4, label=name)
        axes.axhline(1, color=_PALE, linestyle="--", linewidth=1, label="pure ε")
        axes.set_xscale("log")
        axes.set_yscale("log")
        axes.set_xlabel("entries that one unit touches, each by 1")
        axes.set_ylabel("variance ÷ that of the pure law")
        axes.set_title(f"ε = {decimal_text(epsilon)}, δ = {decimal_text(delta)}")
        axes.legend(frameon=False)

    save_figure((paint,), path)


def _loss(nodes: Sequence[Node], place: int) -> float:
    coalition = range(place, len(nodes))
    return joint_loss(nodes, coalition, epsilon=1.0, window=_WINDOW, core=_WINDOW // 2).ratio_low


def _lines(axes: Axes, ladder: Ladder, values: dict[str, NDArray[np.float64]]) -> None:
    ranks = np.arange(1, len(ladder) + 1)
    for name, heights in values.items():
        axes.plot(ranks, heights, "o-", color=_COLOURS[name], label=name)
    axes.set_xticks(ranks, [f"tier {rank}\nε = {decimal_text(ladder.epsilons[rank - 1])}" for rank in ranks])
    axes.set_ylim(0)
    axes.legend(frameon=False)


def _example() -> ChainPlan:
    return plan(Ladder.parse(["2", "1", "0.5", "0.1"]), 1)


PICTURES: dict[str, Callable[[Path], None]] = {
    "tiers-staircase.svg": lambda path: plot_chain(_example(), path),
    "tiers-residual.svg": lambda path: plot_residual(_example(), path),
    "tiers-delta.svg": lambda path: plot_delta(Fraction(1), Fraction(1, 10**6), path),
    "tiers-alternatives.svg": lambda path: plot_alternatives(Ladder.parse(["2", "1", "0.5"]), path),
}


def _tick(chain: ChainPlan, place: int) -> str:
    tier = chain.tiers[place]
    same = "" if tier.same_as_above is None else f"\nsame: {tier.same_as_above:.0%}"
    return f"tier {tier.rank}\nε = {decimal_text(tier.epsilon)}\n± {tier.half_width}{same}"


def save_figure(paints: Sequence[Callable[[Axes], None]], path: Path, wide: float = 7.0) -> None:
    """Write a row of axes, the same bytes for the same input; raises InvalidParameterError for another format."""
    if path.suffix not in FORMATS:
        raise InvalidParameterError("plot", f"a file name that ends in {' or '.join(FORMATS)}", path.name)
    with mpl.rc_context({"svg.hashsalt": "tiermarket", "svg.fonttype": "none", "font.family": "DejaVu Sans"}):
        figure = Figure(figsize=(wide, 4.2), layout="constrained")
        FigureCanvasAgg(figure)
        for place, paint in enumerate(paints, start=1):
            axes = figure.add_subplot(1, len(paints), place)
            axes.spines[["top", "right"]].set_visible(False)
            paint(axes)
        figure.savefig(path, dpi=144, metadata={"Date": None} if path.suffix == ".svg" else {"Software": None})


if __name__ == "__main__":
    folder = Path(__file__).parent.parent / "docs" / "img"
    for name, draw in PICTURES.items():
        draw(folder / name)
