"""The commands of a panel's auditors: they trust nothing of the market but a public key."""

import sys
from pathlib import Path

import rich_click as click

__all__ = ["panel", "replay"]

_FILE = click.Path(exists=True, dir_okay=False, path_type=Path)


@click.group()
def panel() -> None:
    """What a panel's rounds prove."""


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
