"""Pictures of adaptive queries: what is saved and at what error, and what carrying savings over is worth."""

from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
from matplotlib.axes import Axes

from app.adaptive.experiments import SequenceRow, Trial, savings, sequences
from app.adaptive.panel import PanelRow, panel_rows
from app.plots import save_figure
from tiers.adaptive.widths import chi_width, chi_width_bound

__all__ = ["ADAPTIVE_PICTURES", "plot_panel", "plot_sequences", "plot_trials", "plot_widths"]

_INK, _ACCENT, _PALE, _GREY = "#1b3a57", "#c4552d", "#9fb6c9", "#777777"
_COLOURS = {"count": _INK, "density": _ACCENT, "nearest": _GREY}
_RULES = {"even": _INK, "fixed": _ACCENT, "linear": _GREY}


def plot_trials(rows: Sequence[Trial], path: Path) -> None:
    """Draw, by budget: the share saved, and the error beside the baseline's (dashed)."""
    questions = list(dict.fromkeys(row.question for row in rows))

    def saved(axes: Axes) -> None:
        for question in questions:
            mine = [row for row in rows if row.question == question]
            budgets = [float(row.budget) for row in mine]
            axes.plot(budgets, [row.saved for row in mine], "o-", color=_COLOURS[question], label=question)
        axes.set_xscale("log")
        axes.set_ylim(0, 1)
        axes.set_xlabel(f"budget ρ of a person, a squared unit ({rows[0].unit})")
        axes.set_ylabel("share of the budget that is saved")
        axes.set_title(f"{rows[0].data}, {rows[0].people} people, {rows[0].mode}s, {rows[0].split}")
        axes.legend(frameon=False)

    def errors(axes: Axes) -> None:
        for question in questions:
            mine = [row for row in rows if row.question == question]
            budgets, colour = [float(row.budget) for row in mine], _COLOURS[question]
            axes.plot(budgets, [row.error for row in mine], "o-", color=colour, label=f"{question}: {mine[0].measure}")
            axes.plot(budgets, [row.baseline_error for row in mine], "--", color=colour)
        axes.set_xscale("log")
        axes.set_yscale("log")
        axes.set_xlabel(f"budget ρ of a person, a squared unit ({rows[0].unit})")
        axes.set_ylabel("error (dashed: the baseline, which spends all)")
        axes.legend(frameon=False)

    save_figure((saved, errors), path, wide=10.0)


def plot_sequences(rows: Sequence[SequenceRow], path: Path) -> None:
    """Draw the mean error of m queries by how savings are carried over, with the baseline; and what is left."""
    lengths = sorted({row.queries for row in rows})

    def errors(axes: Axes) -> None:
        plain = [next(row.baseline_error for row in rows if row.queries == length) for length in lengths]
        axes.plot(lengths, plain, "s--", color=_PALE, label="baseline: B/m each")
        _by_rule(axes, rows, lengths, "error")
        axes.set_ylabel("mean CountErr of the m queries")
        axes.set_title(f"trajectories, {rows[0].people} people, B = {rows[0].budget} a km²")
        axes.legend(frameon=False)

    def left(axes: Axes) -> None:
        _by_rule(axes, rows, lengths, "left")
        axes.set_ylim(0, 1)
        axes.set_ylabel("share of the budget that is left")
        axes.legend(frameon=False)

    save_figure((errors, left), path, wide=10.0)


def _by_rule(axes: Axes, rows: Sequence[SequenceRow], lengths: Sequence[int], field: str) -> None:
    for rule, colour in _RULES.items():
        mine = [row for row in rows if row.rule == rule]
        axes.plot(lengths, [getattr(row, field) for row in mine], "o-", color=colour, label=f"{rule} reallocation")
    axes.set_xlabel("m, queries one after the other")


def plot_panel(rows: Sequence[PanelRow], path: Path) -> None:
    """Draw what people of a location panel have left after each question; and how many could still be asked."""
    numbers = [row.question for row in rows]

    def left(axes: Axes) -> None:
        axes.plot(numbers, [row.mean_left for row in rows], "o-", color=_INK, label="mean of all people")
        axes.plot(numbers, [row.least_left for row in rows], "o-", color=_ACCENT, label="whoever has least")
        axes.plot(numbers, [row.baseline_left for row in rows], "s--", color=_PALE, label="baseline: everybody")
        axes.set_ylim(0, 1)
        axes.set_xlabel("questions, one after the other")
        axes.set_ylabel("share of the budget that is left")
        axes.set_title(f"a panel of {rows[0].people} people, B = {rows[0].budget} a km²")
        axes.legend(frameon=False)

    def asked(axes: Axes) -> None:
        people, least = rows[0].people, rows[0].baseline_left
        axes.plot(numbers, [row.asked / people for row in rows], "o-", color=_INK, label="adaptive rounds")
        spent = [float(place * (1 - least) < 1 + 1e-9) for place in numbers]
        axes.plot(numbers, spent, "s--", color=_PALE, label="baseline")
        axes.set_ylim(0, 1.05)
        axes.set_xlabel("questions, one after the other")
        axes.set_ylabel("share of people who can be asked")
        axes.legend(frameon=False)

    save_figure((left, asked), path, wide=10.0)


def plot_widths(path: Path) -> None:
    """Draw the exact width of a Gaussian vector beside the classical bound, by the chance of a miss."""

    def paint(axes: Axes) -> None:
        betas = 10.0 ** -np.arange(1, 13)
        for dimensions, colour in ((1, _INK), (2, _ACCENT)):
            exact = [chi_width(dimensions, float(beta)) for beta in betas]
            bound = [chi_width_bound(dimensions, float(beta)) for beta in betas]
            axes.plot(betas, exact, "o-", color=colour, markersize=4, label=f"exact, d = {dimensions}")
            axes.plot(betas, bound, "--", color=colour, label=f"classical bound, d = {dimensions}")
        axes.set_xscale("log")
        axes.invert_xaxis()
        axes.set_ylim(0)
        axes.set_xlabel("β of one interval")
        axes.set_ylabel("width, in standard deviations")
        axes.legend(frameon=False)

    save_figure((paint,), path)


def _plot_city(path: Path) -> None:
    plot_trials(list(savings(people=4000, budgets=("0.01", "0.1", "1", "10", "100"), centres=8)), path)


def _plot_traffic(path: Path) -> None:
    plot_sequences(list(sequences(people=1000, budget="1", lengths=(2, 5, 10, 15))), path)


def _plot_panel(path: Path) -> None:
    plot_panel(list(panel_rows(people=1000, budget="100", questions=30)), path)


ADAPTIVE_PICTURES: dict[str, Callable[[Path], None]] = {
    "adaptive-panel.svg": _plot_panel,
    "adaptive-savings.svg": _plot_city,
    "adaptive-sequence.svg": _plot_traffic,
    "adaptive-widths.svg": plot_widths,
}


if __name__ == "__main__":
    folder = Path(__file__).parent.parent.parent / "docs" / "img"
    for name, draw in ADAPTIVE_PICTURES.items():
        draw(folder / name)
