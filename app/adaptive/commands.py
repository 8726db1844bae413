"""`tiermarket adaptive`: experiments with queries that spend only what the data make them."""

import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

import rich_click as click
from click.core import ParameterSource

from app.adaptive.experiments import QUESTIONS, SPLITS, SequenceRow, Trial
from app.adaptive.panel import PanelRow

__all__ = ["adaptive", "run_adaptive"]

_PLOT = click.Path(dir_okay=False, path_type=Path)
_SINGLE = ("question", "split", "mode")
_TAKEN = {
    "airports": _SINGLE,
    "city": _SINGLE,
    "digits": _SINGLE,
    "panel": ("queries",),
    "traffic": ("split", "mode", "queries"),
}
"""Which of the options that are not for all data each of them takes."""


@click.group()
def adaptive() -> None:
    """Queries over people's places that spend only what the data make them."""


@adaptive.command("run")
@click.option("--data", default="city", show_default=True, help="city, airports, digits, traffic or panel.")
@click.option("--question", "questions", multiple=True, help=f"{', '.join(QUESTIONS)}; may be repeated.")
@click.option("--people", default=2000, show_default=True, type=click.IntRange(2, 1_000_000))
@click.option("--budgets", default="0.1,1,10", show_default=True, help="ρ of a person a squared unit, as decimals.")
@click.option("--split", default="doubling10", show_default=True, help=", ".join(SPLITS))
@click.option("--mode", default="distance", show_default=True, help="What is released: distance or point.")
@click.option("--queries", default="2,5,10", show_default=True, help="Of traffic: how many; of panel: up to how many.")
@click.option("--json", "as_json", is_flag=True, help="Print the rows as one JSON document.")
@click.option("--plot", type=_PLOT, default=None, help="Draw them: FILE.svg or .png")
@click.pass_context
def run_adaptive(
    context: click.Context,
    data: str,
    questions: tuple[str, ...],
    people: int,
    budgets: str,
    split: str,
    mode: str,
    queries: str,
    as_json: bool,
    plot: Path | None,
) -> None:
    """Ask, save and compare with the baseline that spends everything. Exits 2 if refused.

    traffic: sequences of counts on people who move. panel: questions of a location panel, one after the other, each of
    which may spend a tenth of a person's budget.
    """
    import json

    from app.adaptive.experiments import document_of, savings, sequences
    from app.errors import AppError
    from tiers.errors import TierError

    rows: Sequence[Trial | SequenceRow | PanelRow]
    try:
        _drawable(plot)
        _check_taken(context, data, {"question": questions, "split": split, "mode": mode, "queries": queries})
        amounts = budgets.split(",")
        if data == "panel":
            from app.adaptive.panel import panel_rows

            most = max(_lengths(queries))
            asked = [row for budget in amounts for row in panel_rows(people=people, budget=budget, questions=most)]
            rows = asked
            if plot is not None:
                from app.adaptive.plots import plot_panel

                plot_panel([row for row in asked if row.budget == amounts[0]], plot)
        elif data == "traffic":
            lengths = _lengths(queries)
            made = [
                row
                for budget in amounts
                for row in sequences(people=people, budget=budget, lengths=lengths, split=split, mode=mode)
            ]
            rows = made
            if plot is not None:
                from app.adaptive.plots import plot_sequences

                plot_sequences([row for row in made if row.budget == amounts[0]], plot)
        else:
            wanted = questions or QUESTIONS
            trials = list(savings(people=people, budgets=amounts, split=split, mode=mode, data=data, questions=wanted))
            rows = trials
            if plot is not None:
                from app.adaptive.plots import plot_trials

                plot_trials(trials, plot)
    except (AppError, TierError, OSError) as error:
        click.echo(f"{type(error).__name__}: {error}", err=True)
        sys.exit(2)
    if as_json:
        click.echo(json.dumps(document_of(rows), ensure_ascii=False, sort_keys=True))
        return
    _print(rows)


def _check_taken(context: click.Context, data: str, given: Mapping[str, str | tuple[str, ...]]) -> None:
    """Refuse other data, and an option that these data would not heed; one that was not given is no matter."""
    from app.errors import InvalidRequestError, NotFoundError

    if data not in _TAKEN:
        raise NotFoundError(f"data: expected one of {sorted(_TAKEN)}, got {data[:50]!r}")
    for name, value in given.items():
        parameter = "questions" if name == "question" else name
        if name not in _TAKEN[data] and context.get_parameter_source(parameter) is not ParameterSource.DEFAULT:
            came = value if isinstance(value, str) else ",".join(value)
            raise InvalidRequestError(f"--{name}: expected none with --data {data}, got {came[:50]!r}")


def _drawable(plot: Path | None) -> None:
    """Refuse a picture that cannot be kept before anything is asked, which may take minutes."""
    if plot is None:
        return
    from app.errors import InvalidRequestError
    from app.plots import FORMATS

    if plot.suffix not in FORMATS:
        ends = " or ".join(FORMATS)
        raise InvalidRequestError(f"--plot: expected a file name that ends in {ends}, got {plot.name!r}")
    if not plot.parent.is_dir():
        raise InvalidRequestError(f"--plot: expected a file in a folder that is there, got {str(plot)!r}")


def _lengths(text: str) -> list[int]:
    from app.errors import InvalidRequestError

    parts = text.split(",")
    if not all(part.isascii() and part.isdigit() and len(part) < 4 and int(part) for part in parts):
        raise InvalidRequestError(f"--queries: expected whole numbers from 1 to 999 with commas, got {text[:50]!r}")
    return [int(part) for part in parts]


def _print(rows: Sequence[Trial | SequenceRow | PanelRow]) -> None:
    from rich.console import Console
    from rich.table import Table

    console = Console(highlight=False)
    console.width = max(console.width, 110)
    table = Table(box=None, header_style="dim")
    if isinstance(rows[0], PanelRow):
        for name in ("budget ρ", "question", "asked", "left out", "charged", "left: mean", "least", "baseline's"):
            table.add_column(name)
    elif isinstance(rows[0], SequenceRow):
        for name in ("queries", "savings carried over", "budget ρ", "mean CountErr", "baseline's", "budget left"):
            table.add_column(name)
    else:
        for name in ("question", "data", "released", "split", "budget ρ", "saved", "measure", "error", "baseline's"):
            table.add_column(name)
    for row in rows:
        match row:
            case PanelRow():
                named = [row.budget, f"{row.question} {row.kind}", str(row.asked), str(row.left_out)]
                shares = (row.charged, row.mean_left, row.least_left, row.baseline_left)
                numbers = [f"{share:.1%}" for share in shares]
            case SequenceRow():
                named = [str(row.queries), row.rule, row.budget]
                numbers = [f"{row.error:.4f}", f"{row.baseline_error:.4f}", f"{row.left:.1%}"]
            case Trial():
                named = [row.question, row.data, row.mode, row.split, row.budget]
                numbers = [f"{row.saved:.1%}", row.measure, f"{row.error:.4f}", f"{row.baseline_error:.4f}"]
        table.add_row(*named, *numbers)
    console.print(table)
