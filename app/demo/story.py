"""The demo as a person reads it: progress while it works, then what was sold, what it cost and what was proved."""

from fractions import Fraction
from typing import Any

from rich.console import Console
from rich.panel import Panel
from rich.rule import Rule
from rich.table import Table
from rich.text import Text

from app.demo.flights import CARRIERS
from app.demo.panel import PanelOutcome
from app.demo.places import PlacesOutcome
from app.demo.scenario import Outcome
from pricing.money import Money

__all__ = ["Story"]


class Story:
    """Progress goes to standard error where the outcome is to be JSON, else to the terminal with the rest."""

    def __init__(self, *, as_json: bool) -> None:
        self._out = Console(stderr=as_json, highlight=False)

    def say(self, act: str) -> None:
        """Show that an act begins."""
        self._out.print(f"[dim]›[/dim] {act}")

    def leave_open(self, base: str) -> None:
        """Say where the market stays open."""
        self._out.print(Panel.fit(f"The market stays open at [bold]{base}/[/bold]   (Ctrl-C closes it)", style="green"))

    def tell(self, outcome: Outcome) -> None:
        """Print the whole story."""
        out = self._out
        out.print()
        for name, listing in outcome.listings.items():
            sold = [order for order in outcome.orders if order["product"] == name]
            out.print(Rule(f"[bold]{listing['title']}[/bold]", align="left"))
            out.print(_tiers(listing, sold))
            if listing["keys"]:
                out.print(_histogram(listing, sold))
            out.print(f"[dim]Not in the bar: {listing['left_out']}.[/dim]")
            out.print(f"[dim]{' '.join(listing['derivation'])}[/dim]\n")
        out.print(Rule("[bold]Sold together[/bold]", align="left"))
        out.print(_bundle(outcome.bundle), "\n")
        out.print(Rule("[bold]More than 4,000 aircraft?[/bold]", align="left"))
        out.print(_threshold(outcome.threshold), "\n")
        if outcome.panel is not None:
            out.print(Rule(f"[bold]{outcome.panel.listing['title']}[/bold]", align="left"))
            out.print(_panel(outcome.panel), "\n")
        if outcome.locations is not None:
            self._locations(outcome.locations)
        out.print(Rule("[bold]Refused[/bold]", align="left"))
        for refusal in outcome.refusals:
            out.print(_refusal(refusal))
        out.print()
        out.print(Rule("[bold]Privacy budget[/bold]", align="left"))
        out.print(_budget(outcome))
        out.print(_payout(outcome.payout), "\n")
        out.print(Rule("[bold]Audit[/bold]", align="left"))
        out.print(_audit(outcome.audit, outcome.public_key))
        out.print(f"[dim]Took {outcome.timings['total_s']:.1f} s.[/dim]")

    def _locations(self, told: PlacesOutcome) -> None:
        out = self._out
        out.print(Rule(f"[bold]{told.listing['title']}[/bold]", align="left"))
        out.print(_places(told))
        out.print(_places_promise(told.listing))
        out.print(_places_ledger(told), "\n")


def _value(order: dict[str, Any], place: int) -> str:
    answer = order["answer"]
    return f"{int(int(answer['values'][place]) * Fraction(2) ** answer['grain_exponent']):,}"


def _tiers(listing: dict[str, Any], sold: list[dict[str, Any]]) -> Table:
    table = Table(box=None, pad_edge=False, header_style="dim")
    for title in ("tier", "ε", "price", "95 % of the noise", "answer", "bought by", "ε charged"):
        table.add_column(title, justify="right" if title in ("price", "answer", "ε charged") else "left")
    for tier in listing["tiers"]:
        orders = [order for order in sold if order["receipt"]["law"] == tier["law"]]
        answer = "–" if not orders else _value(orders[0], 0) if not listing["keys"] else "below"
        charged = sum(order["receipt"]["charge_nano"] for order in orders)
        table.add_row(
            str(tier["rank"]),
            tier["epsilon"],
            Money(tier["price_minor"], listing["currency"]).text(),
            f"± {int(Fraction(tier['half_width_value'])):,} {listing['unit_label']}",
            f"[bold]{answer}[/bold]",
            _buyers(orders) or "[dim]nobody[/dim]",
            f"{charged / 1e9:g}" if orders else "",
        )
    return table


def _buyers(orders: list[dict[str, Any]]) -> str:
    said = []
    for order in orders:
        receipt = order["receipt"]
        paid = Money(receipt["price_minor"], receipt["currency"]).text()
        note = f", {order['note']}" if order["note"] else ""
        said.append(f"{order['buyer']} [dim]({paid}{note})[/dim]")
    return ", ".join(said)


def _histogram(listing: dict[str, Any], sold: list[dict[str, Any]]) -> Table:
    first: dict[str, dict[str, Any]] = {}
    for order in sold:
        first.setdefault(order["receipt"]["epsilon"], order)
    epsilons = [tier["epsilon"] for tier in listing["tiers"] if tier["epsilon"] in first]
    table = Table(box=None, pad_edge=False, header_style="dim", padding=(0, 2, 0, 0))
    table.add_column("carrier")
    for epsilon in epsilons:
        table.add_column(f"ε = {epsilon}", justify="right")
    for key in listing["keys"]:
        name = Text.assemble(key, (f" {CARRIERS.get(key, '')}", "dim"))
        place = {epsilon: first[epsilon]["answer"]["keys"].index(key) for epsilon in epsilons}
        table.add_row(name, *(_value(first[epsilon], place[epsilon]) for epsilon in epsilons))
    return table


def _bundle(bundle: dict[str, Any]) -> str:
    listing = bundle["listing"]
    price, alone = (Money(listing[name], listing["currency"]).text() for name in ("price_minor", "alone_minor"))
    paid = [Money(each["price_minor"], each["currency"]).text() for each in bundle["receipts"]]
    parts = " + ".join(f"{part['title']} (ε = {part['epsilon']})" for part in listing["parts"])
    return f"{parts}: {price} instead of {alone}. {bundle['buyer']} paid {' + '.join(paid)}: what was held counts."


def _threshold(asked: dict[str, Any]) -> str:
    looks = ", ".join(
        f"ε = {step['epsilon']}: {int(step['value']):,} ± {step['half_width']}" for step in asked["steps"]
    )
    paid, most = (Money(asked[name], asked["currency"]).text() for name in ("paid_minor", "most_minor"))
    return (
        f"{asked['buyer']} looked at {looks}: [bold]{asked['answer']}[/bold], wrong with at most {asked['beta']}. "
        f"Paid {paid} of {most} at most; ε charged {asked['charge']}, as that chain was open to its top."
    )


def _panel(panel: PanelOutcome) -> Table:
    """One column a sale: the estimates, which may be negative, with the half-width of the 95 % bar in the head."""
    table = Table(box=None, pad_edge=False, header_style="dim", padding=(0, 2, 0, 0))
    table.add_column(f"{panel.delivery['accepted']:,} reports")
    for sale in panel.sales:
        order, (first, *_) = sale["order"], sale["reading"]["values"]
        paid = Money(order["receipt"]["price_minor"], order["receipt"]["currency"]).text()
        bar = f"± {float(first['half_width']):,.0f}"
        table.add_column(f"{sale['buyer']}, ε = {order['receipt']['epsilon']} ({paid}), {bar}", justify="right")
    for place, key in enumerate(panel.listing["domain"]):
        name = Text.assemble(key, (f" {CARRIERS[key]}", "dim"))
        table.add_row(name, *(f"{round(float(sale['reading']['values'][place]['value'])):,}" for sale in panel.sales))
    return table


def _places(told: PlacesOutcome) -> Table:
    """One row a question: who asked first paid for the people's budgets, who asked again for the answer alone."""
    table = Table(box=None, pad_edge=False, header_style="dim")
    for title in ("question", "answer", "bought by", "ρ an aircraft", "saved"):
        table.add_column(title, justify="right" if title in ("ρ an aircraft", "saved") else "left")
    for asked in told.questions:
        first, again = asked["sales"]
        paid = Money(first["receipt"]["price_minor"], first["receipt"]["currency"]).text()
        table.add_row(
            asked["words"],
            f"[bold]{_place_answer(first['answer'])}[/bold]",
            f"{first['buyer']} [dim]({paid})[/dim], then {again['buyer']}",
            f"{float(asked['mean_charged']):.6f}, then {asked['charged_again']}",
            f"{100 * float(asked['saved_share']):.0f} %",
        )
    return table


def _place_answer(answer: dict[str, Any]) -> str:
    match answer["kind"]:
        case "range":
            return f"{answer['estimate']:,} ({answer['low']:,} to {answer['high']:,})"
        case "density":
            low, middle, high = (f"{float(answer[name]):.3f}" for name in ("low", "estimate", "high"))
            return f"{middle} ({low} to {high})"
    nearer = "the nearest" if answer["exact"] else f"at most {float(answer['farther']):,.0f} km too far"
    return f"{len(answer['people'])}, {nearer}"


def _places_promise(listing: dict[str, Any]) -> str:
    promise = listing["promise"]
    rho, unit = Fraction(promise["budget"]), promise["unit"]
    near, far = (f"{float(rho * apart**2):g} at {apart} {unit}" for apart in (10, 100))
    whole, diagonal = (f"{float(promise[name]):,.0f}" for name in ("rho_whole", "diagonal"))
    across = f"{whole} at opposite ends of the space (Λ = {diagonal} {unit})"
    return (
        f"Bars hold with {100 - 100 * float(listing['beta']):.0f} %. Each of {listing['people']:,} aircraft may spend "
        f"ρ = {promise['budget']} × distance² in all: {near}, {far}, {across}. "
        "That hides in which part of a city an aircraft is at home, not in which city. The products above count the "
        "same aircraft and promise something else; what is lost to both adds up."
    )


def _places_ledger(told: PlacesOutcome) -> str:
    ledger, replay = told.ledger, told.replay
    least, mean, most = (f"{float(ledger[f'{which}_left']):.6f}" for which in ("least", "mean", "most"))
    left = Fraction(ledger["budget"]) - sum(Fraction(asked["budget"]) for asked in told.questions)
    return (
        f"Left of {ledger['budget']} after {ledger['answered']} answers: {least} to {most}, {mean} on average; asking "
        f"everybody once a question would have left {float(left):g}. "
        f"Saved: {100 * float(ledger['saved_share']):.0f} % of what those who were asked could have paid.\n"
        f"Aldo replays it offline: [bold]{replay['verdict']}[/bold], {replay['answers']} answers, "
        f"{replay['charges']:,} charges; nobody spent more than {replay['most_spent_nano'] / 1e9:.6f}."
    )


def _refusal(refusal: dict[str, Any]) -> str:
    said = f"{refusal['who']}, {refusal['what']}: {refusal['title']}."
    if "bundle" in refusal:
        said += f" {' + '.join(refusal['bundle'])} gives it for {Money(refusal['cost_minor'], 'EUR').text()}."
    if "requested" in refusal:
        fits = ", ".join(tier["epsilon"] for tier in refusal["fits"])
        said += f" Requested {refusal['requested']}, remaining {refusal['remaining']}; would fit: ε = {fits}."
    if "price" in refusal:
        price, held = (Money(refusal[name], refusal["currency"]).text() for name in ("price", "balance"))
        said += f" Price {price}, balance {held}."
    return said


def _budget(outcome: Outcome) -> Table:
    table = Table(box=None, pad_edge=False, header_style="dim")
    table.add_column("chain")
    table.add_column("charged (its highest tier issued)", justify="right")
    titles = {listing["chain"]: listing["title"] for listing in outcome.listings.values()}
    for row in outcome.dataset["chains"]:
        if row["highest_issued_rank"] is not None:
            table.add_row(titles[row["chain"]], f"ε {row['charged']}")
    table.add_row("[bold]spent[/bold]", f"[bold]ε {outcome.dataset['spent']} of {outcome.dataset['budget']}[/bold]")
    table.add_row("remaining", f"ε {outcome.dataset['remaining']}")
    apart = next(rule["total"] for rule in outcome.rules if (rule["rule"], rule["unit"]) == ("apart", "ε"))
    table.add_row("the same sales, each a draw of its own, would have spent", f"ε {apart}")
    return table


def _payout(payout: dict[str, Any]) -> str:
    paid = Money(payout["paid_now_minor"], payout["currency"]).text()
    left = Fraction(int(payout["suspense_units"]), payout["units_per_minor"])
    return f"{payout['owner']} is paid {paid}; {float(left):g} minor units stay in suspense."


def _audit(audit: dict[str, Any], public_key: str) -> Text:
    good = audit["verdict"] == "verified"
    text = Text.assemble((f"{audit['verdict']}: ", "bold green" if good else "bold red"))
    text.append(
        f"{audit['leaves']} leaves, {audit['chains']} chains, {audit['panels']} panels, {audit['sales']} sales; "
        f"{audit['opened']} answers opened, {audit['replayed']} draws replayed bit for bit, "
        f"{len(audit['not_replayable'])} not replayable "
        f"(truth draws, or a parent that is not issued).\n"
    )
    for finding in audit["findings"]:
        text.append(f"  {finding['check']} {finding['rule']} at {finding['where']}\n", "red")
    return text.append(f"Signed with {public_key}", "dim")
