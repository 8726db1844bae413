"""The commands of a panel's auditors: they trust nothing of the market but a public key."""

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import rich_click as click

__all__ = ["panel", "replay", "spending"]

_FILE = click.Path(exists=True, dir_okay=False, path_type=Path)


@click.group()
def panel() -> None:
    """What a panel's rounds prove."""


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
    from app.panels.spending import replay_spending

    _tell(
        replay_spending,
        file,
        keys,
        as_json,
        lambda made: (
            f"verified: {made.devices} devices of {made.panel} in {made.rounds} rounds; "
            f"the most spent is {made.most_nano} of {made.budget_nano} (10⁻⁹ of ε)"
        ),
    )


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
