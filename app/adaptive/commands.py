"""`tiermarket adaptive`: experiments with queries that spend only what the data make them."""

import sys
from collections.abc import Sequence
from pathlib import Path

import rich_click as click

from app.adaptive.experiments import QUESTIONS, SPLITS, SequenceRow, Trial

__all__ = ["adaptive", "run_adaptive"]

_PLOT = click.Path(dir_okay=False, path_type=Path)


@click.group()
def adaptive() -> None:
    """Queries over people's places that spend only what the data make them."""


@adaptive.command("run")
@click.option("--data", default="city", show_default=True, help="city, airports, digits, or traffic (a sequence).")
@click.option("--question", "questions", multiple=True, help=f"{', '.join(QUESTIONS)}; may be repeated.")
@click.option("--people", default=2000, show_default=True, type=click.IntRange(2, 1_000_000))
@click.option("--budgets", default="0.1,1,10", show_default=True, help="ρ of a person a squared unit, as decimals.")
@click.option("--split", default="doubling10", show_default=True, help=", ".join(SPLITS))
@click.option("--mode", default="distance", show_default=True, help="What is released: distance or point.")
@click.option("--queries", default="2,5,10", show_default=True, help="Of traffic: how many, one after the other.")
@click.option("--json", "as_json", is_flag=True, help="Print the rows as one JSON document.")
@click.option("--plot", type=_PLOT, default=None, help="Draw them: FILE.svg or .png")
def run_adaptive(
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
    """Ask, save and compare with the baseline that spends everything. Exits 2 if refused."""
    import json

    from app.adaptive.experiments import document_of, savings, sequences
    from app.errors import AppError
    from tiers.errors import TierError

    rows: Sequence[Trial | SequenceRow]
    try:
        amounts = budgets.split(",")
        if data == "traffic":
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
            asked = questions or QUESTIONS
            trials = list(savings(people=people, budgets=amounts, split=split, mode=mode, data=data, questions=asked))
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


def _lengths(text: str) -> list[int]:
    from app.errors import InvalidRequestError

    parts = text.split(",")
    if not all(part.isascii() and part.isdigit() and len(part) < 4 and int(part) for part in parts):
        raise InvalidRequestError(f"--queries: expected whole numbers from 1 to 999 with commas, got {text[:50]!r}")
    return [int(part) for part in parts]


def _print(rows: Sequence[Trial | SequenceRow]) -> None:
    from rich.console import Console
    from rich.table import Table

    console = Console(highlight=False)
    console.width = max(console.width, 110)
    table = Table(box=None, header_style="dim")
    if isinstance(rows[0], SequenceRow):
        for name in ("queries", "savings carried over", "budget ρ", "mean CountErr", "baseline's", "budget left"):
            table.add_column(name)
    else:
        for name in ("question", "data", "released", "split", "budget ρ", "saved", "measure", "error", "baseline's"):
            table.add_column(name)
    for row in rows:
        match row:
            case SequenceRow():
                named = [str(row.queries), row.rule, row.budget]
                numbers = [f"{row.error:.4f}", f"{row.baseline_error:.4f}", f"{row.left:.1%}"]
            case Trial():
                named = [row.question, row.data, row.mode, row.split, row.budget]
                numbers = [f"{row.saved:.1%}", row.measure, f"{row.error:.4f}", f"{row.baseline_error:.4f}"]
        table.add_row(*named, *numbers)
    console.print(table)
