"""The commands of a location panel's auditors: they trust nothing of the market but a public key."""

import sys
from pathlib import Path

import rich_click as click

__all__ = ["locations", "replay"]

_FILE = click.Path(exists=True, dir_okay=False, path_type=Path)


@click.group()
def locations() -> None:
    """What a location panel's answers prove."""


@locations.command()
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
    """Replay every person's filter, offline (GET /v1/locations/LOCATION/replay gives the file). Exits 1 on findings."""
    from dataclasses import asdict

    import msgspec

    from app.audit.export import bounded_lines
    from app.ledger.budget import nano_text
    from app.locations.replay import LINE_LIMIT, replay_location
    from tiers.errors import AuditError

    try:
        with file.open("rb") as lines:
            made = replay_location(bounded_lines(lines, LINE_LIMIT), keys)
    except AuditError as error:
        raise click.ClickException(str(error)) from None
    if as_json:
        click.echo(msgspec.json.encode(asdict(made) | {"verdict": made.verdict}).decode())
    elif not made.findings:
        click.echo(f"verified: {made.answers} answers of {made.panel}, {made.charges} charges of {made.people} people")
        click.echo(f"the market signed that these are all in its log of {made.size} leaves")
        most, whole = nano_text(made.most_spent_nano), nano_text(made.budget_nano)
        click.echo(f"nobody is above budget: the most that one person has spent is ρ {most} of {whole}")
    for finding in () if as_json else made.findings:
        click.echo(finding.text(), err=True)
    sys.exit(1 if made.findings else 0)
