"""The `tiermarket` command."""

import sys
from pathlib import Path

import rich_click as click

from app.adaptive.commands import adaptive
from app.audit.commands import audit, receipt
from app.locations.commands import locations
from app.operations import OPERATORS, settings_at, spoken
from app.panels.commands import panel

__all__ = [
    "demo",
    "main",
    "operator_key",
    "plan",
    "price",
    "serve",
    "simulate_menu",
]

_STATE = click.Path(file_okay=False, path_type=Path)
_FILE = click.Path(exists=True, dir_okay=False, path_type=Path)


@click.group(context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(package_name="tiermarket")
def main() -> None:
    """Sell one differentially private answer at several levels of accuracy."""


@main.command()
@click.option("--state", type=_STATE, default=None, help="Keep the market in this folder (new or empty).")
@click.option("--once", is_flag=True, help="End after the story, instead of leaving the market open.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON document and nothing else.")
def demo(state: Path | None, once: bool, as_json: bool) -> None:
    """Run a whole market on real flights: owner, buyers, analyst, auditor."""
    from app.demo.run import demo as run_demo

    if state is not None and state.exists() and any(state.iterdir()):
        raise click.ClickException(f"--state: expected a new or empty folder, got {state}")
    try:
        with spoken():
            sys.exit(run_demo(state=state, once=once, as_json=as_json))
    except KeyboardInterrupt:
        sys.exit(130)


@main.command()
@click.option("--state", type=_STATE, required=True, help="Folder of the store, snapshots, data and keys.")
@click.option("--host", default="127.0.0.1", show_default=True)
@click.option("--port", default=8000, show_default=True, type=click.IntRange(1, 65535))
@click.option("--workers", default=1, show_default=True, type=click.IntRange(1, 64))
@click.option("--redis/--no-redis", "embed", default=True, help="Run a Redis beside it where no URL is set.")
@click.option("--or-free", is_flag=True, help="Take a free port where that one is taken (see service.address).")
def serve(state: Path, host: str, port: int, workers: int, embed: bool, or_free: bool) -> None:
    """Serve a market. Settings beside these: TIERMARKET_REDIS_URL, _DATABASE_URL, _KEYS."""
    from app.server import serve as run_server

    with spoken():
        run_server(settings_at(state), host=host, port=port, workers=workers, embed=embed, otherwise_free=or_free)


@main.command("operator-key")
@click.option("--state", type=_STATE, required=True, help="Folder of the market.")
def operator_key(state: Path) -> None:
    """Create an operator and print the API key, once."""
    from app.demo.run import open_operator

    with spoken():
        click.echo(open_operator(settings_at(state)))


for command in (*OPERATORS, adaptive, audit, receipt, panel, locations):
    main.add_command(command)


@main.command()
@click.option("--ladder", required=True, help="Budgets ε, falling, as decimals: 2,1,0.5,0.1")
@click.option("--sensitivity", default=None, help="How far one unit moves one number, in whole steps.")
@click.option("--bins", default=None, help="For a vector: how many entries a unit touches ...")
@click.option("--step", default=None, help="... by how much each at most ...")
@click.option("--total", default=None, help="... and by how much in all.")
@click.option("--family", default="auto", show_default=True, help="Noise of all tiers; auto picks tier by tier.")
@click.option("--delta", default="0", show_default=True, help="The chain's nominal δ; 0 means pure ε-DP.")
@click.option("--allow-slack", is_flag=True, help="Accept steps that are off by a proved, booked τ.")
@click.option("--json", "as_json", is_flag=True, help="Print the plan as one JSON document.")
@click.option("--plot", type=click.Path(dir_okay=False, path_type=Path), default=None, help="Draw it: FILE.svg or .png")
def plan(
    ladder: str,
    sensitivity: str | None,
    bins: str | None,
    step: str | None,
    total: str | None,
    family: str,
    delta: str,
    allow_slack: bool,
    as_json: bool,
    plot: Path | None,
) -> None:
    """Plan a chain of tiers: noise, guarantee, error bar and certificate of each. Reads no data. Exits 2 if refused."""
    import json

    from rich.console import Console

    from app.planning import change_set_of, document_of, plan_of_texts, table_of
    from tiers.errors import TierError

    try:
        changes = change_set_of(sensitivity, bins, step, total)
        chain = plan_of_texts(ladder, changes, family, delta, allow_slack=allow_slack)
        if plot is not None:
            from app.plots import plot_chain

            plot_chain(chain, plot)
    except (TierError, OSError) as error:
        click.echo(f"{type(error).__name__}: {error}", err=True)
        sys.exit(2)
    if as_json:
        click.echo(json.dumps(document_of(chain, family), ensure_ascii=False, sort_keys=True))
        return
    console = Console(highlight=False)
    console.width = max(console.width, 128)
    console.print(table_of(chain))


@main.group()
def price() -> None:
    """What menus would earn."""


def _minor_units(text: str) -> list[int]:
    """Return prices as written on the command line: "9000,3000,1200"."""
    import re

    if not re.fullmatch(r"[0-9]{1,16}(,[0-9]{1,16})*", text):
        raise ValueError(
            f"--current: expected whole numbers of minor units with commas between them, got {text[:50]!r}"
        )
    return [int(price) for price in text.split(",")]


@price.command("simulate")
@click.argument("demand", type=_FILE)
@click.option("--current", default=None, help="Prices of now, most accurate first, in minor units: 9000,3000,1200")
@click.option("--seconds", default=10.0, show_default=True, type=click.FloatRange(0.1, 3600))
@click.option("--json", "as_json", is_flag=True, help="Print the outcome as JSON.")
def simulate_menu(demand: Path, current: str | None, seconds: float, as_json: bool) -> None:
    """Compare menus on the DEMAND file: [{"count": 5, "values_minor": [9000, 4000, 1000]}, …], most accurate first.

    The file may also be the API's own request, {"demand": […]}, without a product.
    """
    import time

    import msgspec

    from app.catalog.simulation import Demand, simulate
    from app.errors import InvalidRequestError
    from app.strict import check_json
    from app.wire import DemandRequest, SimulationRequest
    from pricing.errors import PricingError
    from pricing.limit import limit_of

    try:
        raw = demand.read_bytes()
        check_json(demand.name, raw)
        given = msgspec.json.decode(raw, type=list[DemandRequest] | SimulationRequest)
        if isinstance(given, SimulationRequest) and given.product is not None:
            raise InvalidRequestError(
                "product: expected none without a server (give its prices with --current), got one"
            )
        kinds = given.demand if isinstance(given, SimulationRequest) else given
        prices = None if current is None else _minor_units(current)
        data = Demand(tuple(kind.count for kind in kinds), tuple(kind.values_minor for kind in kinds))
        outcome = simulate(data, prices, limit_of(seconds, time.monotonic))
    except (msgspec.MsgspecError, InvalidRequestError, OSError, PricingError, ValueError) as error:
        raise click.ClickException(str(error)[:300]) from None
    if as_json:
        click.echo(msgspec.json.encode(outcome).decode())
        return
    from rich.console import Console
    from rich.table import Table

    table = Table(
        "menu", "prices, minor units", "predicted", "up to", "if ties walk away", box=None, header_style="dim"
    )
    for name, menu in outcome["menus"].items():
        listed = ", ".join("–" if price is None else f"{price:,}" for price in menu["prices_minor"])
        predicted = "" if menu["predicted_minor"] is None else f"{menu['predicted_minor']:,}"
        marked = f"[bold]{name}[/bold]" if name == outcome["best"] else name
        up_to, at_least = menu["self_selected_at_best_minor"], menu["self_selected_minor"]
        table.add_row(marked, listed, predicted, f"{up_to:,}", f"{at_least:,}")
    console = Console(highlight=False)
    console.print(table)
    console.print(f"[dim]{outcome['label']}[/dim]")


if __name__ == "__main__":
    main()
