"""The commands of panels: an auditor's, who trusts a public key alone, and an owner's who plans or derives a round."""

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import rich_click as click

__all__ = ["derive", "panel", "plan", "replay", "spending"]

_FILE = click.Path(exists=True, dir_okay=False, path_type=Path)


@click.group()
def panel() -> None:
    """What a panel's rounds prove, and what queries on one would cost."""


_KEYS = click.option(
    "--public-key",
    "keys",
    required=True,
    multiple=True,
    help="The market's public key (64 hex digits), from a source you trust. Repeat it after a rotation.",
)
_JSON = click.option("--json", "as_json", is_flag=True, help="Print the outcome as JSON.")


@panel.command()
@click.argument("file", type=_FILE)
@_KEYS
@_JSON
def replay(file: Path, keys: tuple[str, ...], as_json: bool) -> None:
    """Derive a round again, offline (GET /v1/panels/PANEL/rounds/ROUND/replay gives the file). Exits 1 on findings."""
    from app.panels.replay import replay_round

    _tell(
        replay_round,
        file,
        keys,
        as_json,
        lambda made: (
            f"verified: round {made.round} of {made.panel}, {made.reports} reports at tier {made.rank}\n"
            f"{made.tiers} tiers opened, {made.tiers - 1} of them derived again bit for bit"
        ),
    )


@panel.command()
@click.argument("file", type=_FILE)
@_KEYS
@_JSON
def spending(file: Path, keys: tuple[str, ...], as_json: bool) -> None:
    """Show that no device passed its budget (GET /v1/panels/PANEL/spending gives the file). Exits 1 on findings."""
    from app.ledger.budget import nano_text
    from app.panels.spending import replay_spending

    _tell(
        replay_spending,
        file,
        keys,
        as_json,
        lambda made: (
            f"verified: {made.devices} devices of {made.panel} in {made.rounds} rounds, "
            f"which the market signed to be all in its log of {made.size} leaves; "
            f"the most spent is ε {nano_text(made.most_nano)} of {nano_text(made.budget_nano)}"
        ),
    )


@panel.command()
@click.argument("name", metavar="PANEL")
@click.argument("round_number", metavar="ROUND", type=click.IntRange(min=1))
@click.option("--state", type=click.Path(file_okay=False, path_type=Path), required=True, help="Folder of the market.")
@click.option("--engine", type=click.Choice(["process", "spark"]), default="process", help="What derives the tiers.")
@click.option("--with", "command", default=None, help="What runs app/panels/spark.py; JOB REPORTS TARGET follow it.")
def derive(name: str, round_number: int, state: Path, engine: str, command: str | None) -> None:
    """Derive ROUND of PANEL here or on Spark: close it if it is open, else write a closed round's files anew."""
    import asyncio

    from app.market import Market
    from app.operations import market_at, spoken
    from app.panels.acts import derive as derive_round
    from app.panels.cluster import on_cluster
    from app.panels.rounds import here

    async def work() -> bool:
        market = Market(settings)
        try:
            chosen = here if engine == "process" else on_cluster(market.settings.state / "cluster" / name, command)
            return await asyncio.to_thread(derive_round, market, name, round_number, chosen)
        finally:
            await market.close()

    settings = market_at(state)
    with spoken():
        closed = asyncio.run(work())
    click.echo(f"round {round_number} of {name}: {'closed' if closed else 'its files are as they were signed'}")


def _tell(
    replayed: Callable[..., Any], file: Path, keys: tuple[str, ...], as_json: bool, words: Callable[[Any], str]
) -> None:
    from dataclasses import asdict

    import msgspec

    from app.audit.export import bounded_lines
    from app.panels.replay import LINE_LIMIT
    from tiers.errors import AuditError

    try:
        with file.open("rb") as lines:
            made = replayed(bounded_lines(lines, LINE_LIMIT), keys)
    except AuditError as error:
        raise click.ClickException(str(error)) from None
    if as_json:
        click.echo(msgspec.json.encode(asdict(made) | {"verdict": made.verdict}).decode())
    elif not made.findings:
        click.echo(words(made))
    for finding in () if as_json else made.findings:
        click.echo(finding.text(), err=True)
    sys.exit(1 if made.findings else 0)


@panel.command()
@click.argument("file", type=_FILE)
@click.option("--json", "as_json", is_flag=True, help="Print the plan as one JSON document.")
def plan(file: Path, as_json: bool) -> None:
    """Tell what linear queries over ordered values cost under a metric. Reads no data. Exits 2 if refused.

    FILE: {"values": 8, "metric": {"type": "line"}, "epsilons": ["2", "1"], "queries": "ranges"}. Metrics: line, any,
    secret (with "secret": 2, how many of the first values are), table (with "rows": [["0", "1"], ["1", "0"]]). Queries:
    ranges, prefixes, values, or rows of weights ([["1", "0.5"]]).
    """
    import msgspec
    from rich.console import Console

    from app.errors import InvalidRequestError
    from app.panels.strategies import StrategyRequest, plan_strategies, table_of
    from app.strict import check_json, told
    from tiers.errors import TierError

    try:
        raw = file.read_bytes()
        check_json("FILE", raw)
        made = plan_strategies(msgspec.json.decode(raw, type=StrategyRequest))
    except msgspec.ValidationError as error:
        key, message = told(error, StrategyRequest)
        click.echo(f"{type(error).__name__}: {key or 'FILE'}: {message}", err=True)
        sys.exit(2)
    except (TierError, InvalidRequestError, msgspec.MsgspecError, UnicodeDecodeError) as error:
        click.echo(f"{type(error).__name__}: {error}", err=True)
        sys.exit(2)
    if as_json:
        click.echo(msgspec.json.encode(made).decode())
        return
    console = Console(highlight=False)
    console.width = max(console.width, 110)
    console.print(table_of(made))
    for upper, lower, stay in zip(made.epsilons, made.epsilons[1:], made.stay, strict=False):
        console.print(f"Laplace, ε {upper} to {lower}: a coordinate's step is 0 with probability {stay:.6g}")
