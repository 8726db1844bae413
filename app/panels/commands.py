"""The commands of panels: an auditor's, who trusts nothing of the market but a public key, and an owner's who plans."""

import sys
from pathlib import Path

import rich_click as click

__all__ = ["panel", "plan", "replay"]

_FILE = click.Path(exists=True, dir_okay=False, path_type=Path)


@click.group()
def panel() -> None:
    """What a panel's rounds prove, and what queries on one would cost."""


@panel.command()
@click.argument("file", type=_FILE)
@click.option(
    "--public-key",
    "keys",
    required=True,
    multiple=True,
    help="The market's public key (64 hex digits), from a source you trust. Repeat it after a rotation.",
)
@click.option("--json", "as_json", is_flag=True, help="Print the outcome as JSON.")
def replay(file: Path, keys: tuple[str, ...], as_json: bool) -> None:
    """Derive a round again, offline (GET /v1/panels/PANEL/rounds/ROUND/replay gives the file). Exits 1 on findings."""
    from dataclasses import asdict

    import msgspec

    from app.audit.export import bounded_lines
    from app.panels.replay import LINE_LIMIT, replay_round
    from tiers.errors import AuditError

    try:
        with file.open("rb") as lines:
            made = replay_round(bounded_lines(lines, LINE_LIMIT), keys)
    except AuditError as error:
        raise click.ClickException(str(error)) from None
    if as_json:
        click.echo(msgspec.json.encode(asdict(made) | {"verdict": made.verdict}).decode())
    elif not made.findings:
        click.echo(f"verified: round {made.round} of {made.panel}, {made.reports} reports at tier {made.rank}")
        click.echo(f"{made.tiers} tiers opened, {made.tiers - 1} of them derived again bit for bit")
    for finding in () if as_json else made.findings:
        click.echo(finding.text(), err=True)
    sys.exit(1 if made.findings else 0)


@panel.command()
@click.argument("file", type=_FILE)
@click.option("--json", "as_json", is_flag=True, help="Print the plan as one JSON document.")
def plan(file: Path, as_json: bool) -> None:
    """Tell what linear queries over ordered values cost under a metric. Reads no data. Exits 2 if refused.

    FILE: {"values": 8, "metric": {"type": "line"}, "epsilons": ["2", "1"], "queries": "ranges"}. Metrics: line, any,
    secret (with "secret"), table (with "rows"). Queries: ranges, prefixes, values, or rows of weights.
    """
    import msgspec
    from rich.console import Console

    from app.errors import InvalidRequestError
    from app.panels.strategies import StrategyRequest, plan_strategies, table_of
    from tiers.errors import TierError

    try:
        made = plan_strategies(msgspec.json.decode(file.read_bytes(), type=StrategyRequest))
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
