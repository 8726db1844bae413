"""What happens in the demo, act by act, all of it over HTTP."""

import asyncio
import json
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import msgspec

from app.demo.client import ApiError, Person
from app.demo.flights import (
    DATASET,
    Aircraft,
    airport_points,
    by_airport,
    fleet,
    products,
    provide_file,
    undercut,
)
from app.demo.panel import PanelOutcome, run_panel
from app.demo.places import PlacesOutcome, replay_places, run_places

__all__ = ["Outcome", "play"]

Say = Callable[[str], None]


@dataclass(slots=True)
class Outcome:
    """Everything that happened, for the story and for the JSON."""

    dataset: dict[str, Any] = field(default_factory=dict)
    rules: list[dict[str, Any]] = field(default_factory=list)
    listings: dict[str, dict[str, Any]] = field(default_factory=dict)
    orders: list[dict[str, Any]] = field(default_factory=list)
    refusals: list[dict[str, Any]] = field(default_factory=list)
    panel: PanelOutcome | None = None
    locations: PlacesOutcome | None = None
    bundle: dict[str, Any] = field(default_factory=dict)
    threshold: dict[str, Any] = field(default_factory=dict)
    payout: dict[str, Any] = field(default_factory=dict)
    audit: dict[str, Any] = field(default_factory=dict)
    public_key: str = ""
    export: str = ""
    timings: dict[str, float] = field(default_factory=dict)


async def play(base: str, operator_key: str, state: Path, say: Say) -> Outcome:
    """Play the whole scenario against a running service and return what came of it."""
    stage = _Stage(base, state, say, Outcome())
    operator = Person(base, "operator", "operator", operator_key)
    stage.people.append(operator)
    try:
        await stage.gather_people(operator)
        await stage.publish()
        await stage.trade()
        await stage.bundle()
        await stage.ask()
        await stage.poll()
        await stage.locate()
        await stage.pay(operator)
        await stage.audit()
    finally:
        await asyncio.gather(*(person.close() for person in stage.people))
    return stage.out


class _Stage:
    """The people, the products, and the acts."""

    def __init__(self, base: str, state: Path, say: Say, out: Outcome) -> None:
        self.base, self.state, self.say, self.out = base, state, say, out
        self.people: list[Person] = []
        self.cast: dict[str, Person] = {}
        self.product: dict[str, str] = {}
        self.airports = airport_points()
        self.fleet: dict[str, Aircraft] = {}

    async def gather_people(self, operator: Person) -> None:
        self.say("The operator opens accounts and books deposits")
        for name, role, deposit in (
            ("Olga", "owner", 0),
            ("Ada", "buyer", 40_000),
            ("Bruno", "buyer", 15_000),
            ("Chiara", "buyer", 11_000),
            ("Dev", "buyer", 500),
            ("Ines", "analyst", 0),
            ("Aldo", "auditor", 0),
        ):
            extra = {"ceiling": "1"} if role == "analyst" else {}
            made = await operator.post("/v1/accounts", {"role": role, "name": name, **extra})
            person = Person(self.base, name, role, made["api_key"], made["account"])
            self.people.append(person)
            self.cast[name] = person
            if deposit:
                body = {"amount_minor": deposit, "currency": "EUR", "reference": f"opening-{name}"}
                await operator.post(f"/v1/accounts/{made['account']}/deposits", body)

    async def publish(self) -> None:
        owner = self.cast["Olga"]
        self.say("Olga, the owner, registers 336,776 flights: unit = the aircraft, budget ε = 5")
        provide_file(self.state / "data")
        started = time.perf_counter()
        self.out.dataset = await owner.post("/v1/datasets", DATASET)
        self.out.timings["register_dataset_s"] = _since(started)
        self.say("Olga publishes three products at ε = 2, 1, 0.5 and 0.1")
        for name, body in products(self.out.dataset["dataset"]).items():
            listing = await owner.post("/v1/products", body)
            self.product[name] = listing["product"]
            self.out.listings[name] = listing
        self.say("A fourth one is a histogram over all airports; a total of it that is dearer is refused")
        await owner.post("/v1/products", by_airport(self.out.dataset["dataset"]))
        try:
            await owner.post("/v1/products", undercut(self.out.dataset["dataset"]))
        except ApiError as refused:
            self.out.refusals.append(
                {"who": "Olga", "what": "a total at ε = 0.1 for 40.00 EUR", "status": refused.status, **refused.problem}
            )
        else:
            raise AssertionError("the undercut product should have been refused")

    async def trade(self) -> None:
        ada, bruno, chiara, dev, ines = (self.cast[name] for name in ("Ada", "Bruno", "Chiara", "Dev", "Ines"))
        self.say("Four buyers order at once; Bruno's connection drops, and he sends his order again")
        quoted = await bruno.quote(self.product["late"], "1")

        async def bruno_twice() -> None:
            await bruno.order_and_hang_up(quoted, "bruno-1")
            await self.buys(bruno, "late", "1", key="bruno-1", quoted=quoted, note="sent twice")

        started = time.perf_counter()
        await asyncio.gather(
            self.buys(ada, "late", "2", key="ada-1"),
            bruno_twice(),
            self.buys(chiara, "late", "0.5", key="chiara-1"),
            self.buys(dev, "aircraft", "0.1", key="dev-1"),
        )
        self.out.timings["four_buyers_at_once_s"] = _since(started)
        self.say("Chiara upgrades from ε = 0.5 to ε = 1")
        await self.buys(chiara, "late", "1", key="chiara-2", note="upgrade")
        self.say("Dev asks for more than the account holds")
        await self.is_refused(dev, "late", "2", key="dev-2")
        self.say("Ines, an analyst, reads the histogram at ε = 1, the highest tier of her role")
        await self.buys(ines, "late", "1", key="ines-1", note="internal")
        self.say("Ada opens a second chain at its top, then asks for a third")
        await self.buys(ada, "aircraft", "2", key="ada-2")
        await self.is_refused(ada, "delay", "2", key="ada-3")
        self.say("The budget refuses it; Ada takes the tier that fits, and nothing remains")
        await self.buys(ada, "delay", "1", key="ada-4", note="what fitted")
        self.say("Lower tiers of open chains still sell")
        await self.buys(bruno, "aircraft", "0.5", key="bruno-2", note="budget spent")
        await self.buys(chiara, "delay", "0.1", key="chiara-3", note="budget spent")
        olga, dataset = self.cast["Olga"], self.out.dataset["dataset"]
        self.out.dataset = (await olga.get(f"/v1/datasets/{dataset}")).json()
        self.out.rules = (await olga.get(f"/v1/datasets/{dataset}/rules")).json()["rules"]
        for name, product in self.product.items():
            self.out.listings[name] = (await ada.get(f"/v1/products/{product}")).json()

    async def bundle(self) -> None:
        self.say("Olga sells the aircraft and the delay at ε = 0.5 together; Bruno, who holds the one, pays the rest")
        parts = [{"product": self.product[name], "epsilon": "0.5"} for name in ("aircraft", "delay")]
        alone = sum(
            tier["price_minor"]
            for name in ("aircraft", "delay")
            for tier in self.out.listings[name]["tiers"]
            if tier["epsilon"] == "0.5"
        )
        body = {"title": "Aircraft and their delays", "parts": parts, "currency": "EUR", "price_minor": alone - 500}
        listing = await self.cast["Olga"].post("/v1/bundles", body)
        sold = await self.cast["Bruno"].buy_bundle(listing["bundle"], key="bruno-3")
        receipts = [sold["receipt"], *(other["receipt"] for other in sold["others"])]
        self.out.bundle = {"listing": listing, "buyer": "Bruno", "order": sold["bundle_order"], "receipts": receipts}

    async def ask(self) -> None:
        self.say("Chiara asks whether there were more than 4,000 aircraft: cheap tiers first, at most ε = 1")
        asked = await self.cast["Chiara"].ask_above(self.product["aircraft"], 4_000, "1", key="chiara-4")
        self.out.threshold = {"buyer": "Chiara", **asked}

    async def poll(self) -> None:
        self.say(
            "Olga opens a panel: every aircraft reports its carrier, private before it is sent; three tiers are sold"
        )
        started = time.perf_counter()
        buyers = [(self.cast[name], epsilon) for name, epsilon in (("Ada", "4"), ("Bruno", "2"), ("Dev", "1"))]
        self.fleet = fleet(self.airports)
        self.out.panel = await run_panel(self.cast["Olga"], buyers, self.state / "data", self.fleet)
        self.out.timings["panel_s"] = _since(started)

    async def locate(self) -> None:
        self.say(
            "Olga opens a location panel: where each aircraft flies to most, asked in rounds; a ledger an aircraft"
        )
        self.say("Ada asks three questions; Bruno and Chiara ask the same again, and nobody is charged for that")
        started = time.perf_counter()
        ada, bruno, chiara = (self.cast[name] for name in ("Ada", "Bruno", "Chiara"))
        buyers = [(ada, bruno), (ada, chiara), (ada, chiara)]
        data = self.state / "data"
        self.out.locations = await run_places(self.cast["Olga"], buyers, data, self.fleet, self.airports)
        self.out.timings["locations_s"] = _since(started)

    async def pay(self, operator: Person) -> None:
        self.say("The operator pays the owner what is due")
        paid = await operator.post("/v1/payouts", {"currency": "EUR"})
        owner = self.cast["Olga"]
        earned = (await owner.get("/v1/earnings")).json()
        self.out.payout = {**earned, "owner": owner.name, "paid_now_minor": paid["paid_minor"][owner.account]}

    async def buys(
        self, who: Person, name: str, epsilon: str, *, key: str, quoted: dict[str, Any] | None = None, note: str = ""
    ) -> None:
        started = time.perf_counter()
        sold = await who.buy(self.product[name], epsilon, key=key, quoted=quoted)
        self.out.orders.append({"buyer": who.name, "role": who.role, "product": name, "note": note, **sold})
        self.out.timings[f"order_{key}_s"] = _since(started)

    async def is_refused(self, who: Person, name: str, epsilon: str, *, key: str) -> None:
        try:
            await who.buy(self.product[name], epsilon, key=key)
        except ApiError as refused:
            self.out.refusals.append(
                {
                    "who": who.name,
                    "what": f"ε = {epsilon} of “{self.out.listings[name]['title']}”",
                    "product": name,
                    "epsilon": epsilon,
                    "status": refused.status,
                    **refused.problem,
                }
            )
        else:
            raise AssertionError(f"{who.name} should have been refused {name} at ε = {epsilon}")

    async def audit(self) -> None:
        auditor = self.cast["Aldo"]
        self.say(
            "Aldo, the auditor, downloads the release log and verifies it offline, and replays the aircraft's ledgers"
        )
        keys = (await auditor.get("/v1/keys")).json()["signing"]
        self.out.public_key = keys[max(keys, key=int)]
        file = self.state / "export.ndjson"
        file.write_bytes((await auditor.get("/v1/audit/export")).content)
        self.out.export = str(file)
        command = [sys.executable, "-m", "app.cli", "audit", "verify", str(file)]
        command += ["--public-key", self.out.public_key, "--json"]
        located, started = self.out.locations, time.perf_counter()
        assert located is not None
        ran, replayed = await asyncio.gather(
            asyncio.to_thread(subprocess.run, command, capture_output=True, text=True, check=False),
            replay_places(auditor, located.listing["panel"], self.state, self.out.public_key),
        )
        self.out.timings["verify_offline_s"] = _since(started)
        self.out.audit = json.loads(ran.stdout)
        self.out.locations = msgspec.structs.replace(located, replay=replayed)


def _since(started: float) -> float:
    return round(time.perf_counter() - started, 3)
