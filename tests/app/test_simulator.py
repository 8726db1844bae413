"""A market that is killed, repeated, wiped and raced at every point, beside a slow and obvious model of what it owes."""

import shutil
import sqlite3
import tempfile
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass, field, replace
from fractions import Fraction
from pathlib import Path
from typing import Any, ClassVar

import pytest
import redis as redis_client
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule
from sqlalchemy import event, select

from app.audit.verify import verify_export
from app.embedded import embedded_redis
from app.rollback import replay
from app.settings import Settings
from app.store.schema import accounts, draws, orders, postings
from tests.conftest import HISTOGRAM, PEOPLE, TOTAL, Fair, Person, open_fair, rows, tiers

LADDER = ("2", "1", "0.5", "0.1")
PRICES = (9000, 3000, 1200, 500)


class KilledError(Exception):
    """The process ended here."""


@contextmanager
def killed_at(fair: Fair, place: int) -> Iterator[list[str]]:
    """Kill the writer before its statement number `place` (its COMMIT included); yield the statements that ran."""
    engine = fair.market.database._writing
    ran: list[str] = []

    def statement(_c: Any, _cursor: Any, text: str, *_: Any) -> None:
        if len(ran) == place:
            raise KilledError
        ran.append(text)

    def commit(_connection: Any) -> None:
        if len(ran) == place:
            raise KilledError
        ran.append("COMMIT")

    event.listen(engine, "before_cursor_execute", statement)
    event.listen(engine, "commit", commit)
    try:
        yield ran
    finally:
        event.remove(engine, "before_cursor_execute", statement)
        event.remove(engine, "commit", commit)


def test_a_sale_killed_before_any_of_its_writes_leaves_nothing_and_sells_the_same_digits_after(fair: Fair) -> None:
    dataset = fair.dataset(budget="50")
    buyer = fair.person()
    fair.buy(buyer, fair.product(dataset, TOTAL), "1")  # the market's own account is open from here on
    product = fair.product(dataset)
    quote = fair.quote(buyer, product, "1")
    before, place = fair.stored(), 0
    while True:
        with killed_at(fair, place):
            answered = fair.order(buyer, quote, "k")
        if answered.status_code == 201:
            break
        assert answered.status_code in (500, 503), place
        assert fair.stored() == before, place
        place += 1
    assert place > 40
    sold = answered.json()
    assert sold["replayed"] is True, "killed at its commit: recorded before it, carried out by the next writer"
    assert sold["receipt"]["charge_nano"] == 10**9
    with killed_at(fair, 10_000) as ran:
        assert fair.order(buyer, quote, "k").json()["replayed"] is True
    assert not [text for text in ran if text.startswith(("INSERT", "UPDATE", "DELETE"))], "a retry writes nothing"
    assert fair.answer(buyer, sold).json() == sold["answer"]
    check(fair, dataset)


def check(fair: Fair, *datasets: str) -> None:
    """What must hold at any time, from the store and the log alone."""

    def read(connection: Any) -> Any:
        return tuple(connection.execute(select(table)).all() for table in (draws, orders, postings, accounts))

    drawn, placed, posted, people = fair.market.database.read_now(read)
    assert len({(row.chain_id, row.law) for row in drawn}) == len(drawn)
    assert len({(row.chain_id, row.place) for row in drawn}) == len(drawn)
    assert sum(row.amount_minor for row in posted if row.kind != "deposit") == 0
    for person in people:
        assert person.balance_minor == sum(row.amount_minor for row in posted if row.account_id == person.id) >= 0
    spent = Fraction(0)
    for dataset in datasets:
        ledger = fair.ledger(dataset)
        assert Fraction(ledger["spent"]) == sum(Fraction(chain["charged"]) for chain in ledger["chains"])
        assert Fraction(ledger["spent"]) <= Fraction(ledger["budget"])
        spent += Fraction(ledger["spent"])
    assert sum(row.charge_nano for row in placed) == spent * 10**9


@dataclass
class Part:
    """One chain of an offer: what it costs in privacy and money, by the offer's own ε."""

    chain: str
    dataset: str
    losses: dict[str, Fraction]
    prices: dict[str, int]
    reserved: Fraction | None = None  # a reservation ledger charges this at the first sale, and then nothing


@dataclass
class Offer:
    """A product: one part, or a mean's two."""

    view: dict[str, Any]
    parts: list[Part]


@dataclass
class Model:
    """The market as a child would keep it: who paid what, what each chain has issued, what each buyer holds."""

    budgets: dict[str, Fraction] = field(default_factory=dict)
    charged: dict[str, Fraction] = field(default_factory=dict)
    of: dict[str, str] = field(default_factory=dict)
    paid: dict[tuple[str, str], int] = field(default_factory=dict)
    held: dict[tuple[str, str], Fraction] = field(default_factory=dict)
    money: dict[str, int] = field(default_factory=dict)
    answers: dict[tuple[str, Fraction], Any] = field(default_factory=dict)
    refundable: list[tuple[str, str, str, int]] = field(default_factory=list)

    def spent(self, dataset: str) -> Fraction:
        return sum((charge for chain, charge in self.charged.items() if self.of[chain] == dataset), Fraction(0))

    def price(self, buyer: str, part: Part, epsilon: str) -> int:
        if self.held.get((buyer, part.chain), Fraction(0)) >= part.losses[epsilon]:
            return 0
        return max(0, part.prices[epsilon] - self.paid.get((buyer, part.chain), 0))

    def due(self, part: Part, epsilon: str) -> Fraction:
        before = self.charged.get(part.chain, Fraction(0))
        wanted = part.losses[epsilon] if part.reserved is None else part.reserved
        return max(Fraction(0), wanted - before)

    def sell(self, buyer: str, offer: Offer, epsilon: str) -> str:
        kept = (dict(self.charged), dict(self.paid), dict(self.held), dict(self.money))
        for part in offer.parts:
            price, due = self.price(buyer, part, epsilon), self.due(part, epsilon)
            over = self.spent(part.dataset) + due > self.budgets[part.dataset]
            if over or price > self.money[buyer]:
                self.charged, self.paid, self.held, self.money = kept
                return "budget" if over else "funds"
            key = (buyer, part.chain)
            self.of[part.chain] = part.dataset
            self.money[buyer] -= price
            self.paid[key] = self.paid.get(key, 0) + price
            self.charged[part.chain] = self.charged.get(part.chain, Fraction(0)) + due
            self.held[key] = max(self.held.get(key, Fraction(0)), part.losses[epsilon])
        return "sold"


STATUS = {"sold": 201, "budget": 409, "funds": 402}
MEAN = {
    "measure": {"type": "mean", "column": "score", "centre": "1", "lower": "-16", "upper": "16", "grain_exponent": -2}
    | {"sum_share": "0.6"},
    "rows_per_unit": 4,
}
LATE = [("0.7", 2000), ("4", 20_000), ("0.05", 300)]


class MarketMachine(RuleBasedStateMachine):
    """Random people do random things to a market and to its model; now and then it is killed, repeated or restarted."""

    database: ClassVar[Callable[[], str] | None] = None

    def __init__(self) -> None:
        super().__init__()
        self.folder = Path(tempfile.mkdtemp(prefix="tm-machine-"))
        self.ended = ExitStack()
        (self.folder / "r").mkdir()
        self.redis = self.ended.enter_context(embedded_redis(self.folder / "r"))
        self.settings = Settings.at(self.folder / "market", redis_url=self.redis.url)
        if type(self).database is not None:
            self.settings = replace(self.settings, database_url=type(self).database())
        self.opened = open_fair(self.settings)
        self.fair = next(self.opened)
        self.model = Model()
        self.late: list[tuple[Person, Offer, str, str, list[int]]] = []
        self.buyers: list[Person] = []
        self.offers: list[Offer] = []
        self.to_add = list(LATE)
        self.keys = 0
        self.seed = 20

    def teardown(self) -> None:
        self.opened.close()
        self.ended.close()
        shutil.rmtree(self.folder, ignore_errors=True)

    @initialize()
    def open(self) -> None:
        self.pure = self.fair.dataset(budget="6")
        self.reserving = self.fair.dataset(budget="3", budget_kind="zcdp", name="reserving", table=rows(seed=8))
        self.model.budgets = {self.pure: Fraction(6), self.reserving: Fraction(3)}
        for deposit in (1_000, 4_000, 50_000):
            buyer = self.fair.person(deposit=deposit)
            self.buyers.append(buyer)
            self.model.money[buyer.account] = deposit
        for query in (HISTOGRAM, PEOPLE):
            self.publish(self.pure, query)
        self.publish(self.reserving, PEOPLE)
        self.publish(self.pure, MEAN)

    def publish(self, dataset: str, query: dict[str, Any], *priced: tuple[str, int]) -> None:
        ladder = priced or tuple(zip(LADDER, PRICES, strict=True))
        self.offers.append(self.offer(self.fair.product(dataset, query, tiers=tiers(*ladder)), dataset, query, ladder))

    def offer(
        self, view: dict[str, Any], dataset: str, query: dict[str, Any], ladder: tuple[tuple[str, int], ...]
    ) -> Offer:
        losses = {epsilon: Fraction(epsilon) for epsilon, _ in ladder}
        if query is MEAN:
            return Offer(view, self.parts_of_a_mean(view, dataset, ladder))
        reserved = None if dataset == self.pure else max(losses.values()) ** 2 / 2
        return Offer(view, [Part(view["chain"], dataset, losses, dict(ladder), reserved)])

    def parts_of_a_mean(self, view: dict[str, Any], dataset: str, ladder: tuple[tuple[str, int], ...]) -> list[Part]:
        """The split of the price is read off what somebody new is quoted; that it adds up is checked here."""
        newcomer = self.fair.person(deposit=0)
        parts: list[Part] = []
        for epsilon, price in ladder:
            body = {"product": view["product"], "epsilon": epsilon}
            quoted = self.fair.client.post("/v1/quotes", json=body, headers=newcomer.headers).json()["parts"]
            parts = parts or [Part(part["chain"], dataset, {}, {}) for part in quoted]
            assert sum(part["amount_minor"] for part in quoted) == price
            for part, share, told in zip(parts, (Fraction(3, 5), Fraction(2, 5)), quoted, strict=True):
                part.losses[epsilon] = share * Fraction(epsilon)
                part.prices[epsilon] = told["amount_minor"]
        return parts

    def chosen(self, what: int, tier: int) -> tuple[Offer, str]:
        offer = self.offers[what % len(self.offers)]
        ladder = list(offer.parts[0].losses)
        return offer, ladder[tier % len(ladder)]

    def key(self) -> str:
        self.keys += 1
        return f"k{self.keys}"

    def agrees(self, reply: Any, buyer: Person, offer: Offer, epsilon: str) -> None:
        """A reply is what the model expects, and the digits are those that anybody was ever given."""
        expected = self.model.sell(buyer.account, offer, epsilon)
        assert reply.status_code == STATUS[expected], reply.text
        if expected != "sold":
            return
        sold = reply.json()
        for part, placed in zip(offer.parts, [sold, sold["companion"]][: len(offer.parts)], strict=True):
            answer, receipt = placed["answer"], placed["receipt"]
            assert answer["chain"] == part.chain
            assert self.model.answers.setdefault((part.chain, part.losses[epsilon]), answer) == answer
            assert self.fair.answer(buyer, placed).json() == answer
            if receipt["price_minor"]:
                owed = (receipt["order"], buyer.account, part.chain, receipt["price_minor"])
                self.model.refundable.append(owed)

    @rule(who=st.integers(0, 2), what=st.integers(0, 19), tier=st.integers(0, 3), again=st.booleans())
    def buy(self, who: int, what: int, tier: int, *, again: bool) -> None:
        buyer, (offer, epsilon) = self.buyers[who], self.chosen(what, tier)
        quote, key = self.fair.quote(buyer, offer.view, epsilon), self.key()
        first = self.fair.order(buyer, quote, key)
        if again:
            second = self.fair.order(buyer, quote, key)
            assert second.status_code == first.status_code
            if first.status_code == 201:
                replayed = first.json() | {"replayed": True}
                if first.json()["companion"]:
                    replayed["companion"] |= {"replayed": True}
                assert second.json() == replayed
        self.agrees(first, buyer, offer, epsilon)

    @rule(who=st.integers(0, 2), what=st.integers(0, 19), tier=st.integers(0, 3), place=st.integers(0, 80))
    def is_killed_while_buying(self, who: int, what: int, tier: int, place: int) -> None:
        buyer, (offer, epsilon) = self.buyers[who], self.chosen(what, tier)
        quote, key = self.fair.quote(buyer, offer.view, epsilon), self.key()
        with killed_at(self.fair, place):
            self.fair.order(buyer, quote, key)
        self.agrees(self.fair.order(buyer, quote, key), buyer, offer, epsilon)

    @precondition(lambda self: len(self.offers) < 10)
    @rule()
    def publishes_a_sum(self) -> None:
        if all(offer.view["title"] != "Sum" for offer in self.offers):
            ladder = tuple(zip(LADDER, PRICES, strict=True))
            view = self.fair.product(self.pure, TOTAL, title="Sum", tiers=tiers(*ladder))
            self.offers.append(self.offer(view, self.pure, TOTAL, ladder))

    @precondition(lambda self: self.to_add)
    @rule()
    def adds_a_late_tier(self) -> None:
        """In the middle, above and below; a quote of the chain's older book no longer holds.

        On a newer snapshot the question has a chain of its own: its first such tier is then no late one.
        """
        self.publish(self.pure, PEOPLE, self.to_add.pop(0))
        chain = self.offers[-1].view["chain"]
        assert self.seed > 20 or chain == self.offers[1].view["chain"]
        self.late = [message for message in self.late if message[1].view["chain"] != chain]

    @precondition(lambda self: self.seed < 24)
    @rule()
    def adds_a_snapshot(self) -> None:
        self.seed += 1
        (self.fair.market.settings.data / "next.csv").write_text(rows(seed=self.seed))
        path = f"/v1/datasets/{self.pure}/snapshots"
        headers = self.fair.owner().headers
        assert self.fair.client.post(path, json={"file": "next.csv"}, headers=headers).status_code == 201
        path = f"/v1/products/{self.offers[0].view['product']}/refresh"
        ladder = tuple(zip(LADDER, PRICES, strict=True))
        self.offers[0] = self.offer(self.fair.client.post(path, headers=headers).json(), self.pure, HISTOGRAM, ladder)

    @precondition(lambda self: self.model.refundable)
    @rule(place=st.integers(0, 9), share=st.integers(1, 4))
    def is_refunded(self, place: int, share: int) -> None:
        """Money comes back and is no credit for an upgrade any more; what was learned stays charged and readable."""
        order, account, chain, left = self.model.refundable.pop(place % len(self.model.refundable))
        amount = max(1, left * share // 4)
        path, who = f"/v1/orders/{order}/credits", self.fair.operator.headers
        body = {"amount_minor": amount, "reason": "pricing error"}
        assert self.fair.client.post(path, json=body, headers=who).status_code == 201
        over = {"amount_minor": left - amount + 1, "reason": "pricing error"}
        assert self.fair.client.post(path, json=over, headers=who).status_code == 400
        self.model.money[account] += amount
        self.model.paid[account, chain] -= amount

    @rule(who=st.integers(0, 2), what=st.integers(0, 19), tier=st.integers(0, 3))
    def sends_a_message_that_is_late(self, who: int, what: int, tier: int) -> None:
        buyer, (offer, epsilon) = self.buyers[who], self.chosen(what, tier)
        prices = [self.model.price(buyer.account, part, epsilon) for part in offer.parts]
        self.late.append((buyer, offer, epsilon, self.fair.quote(buyer, offer.view, epsilon), prices))

    @precondition(lambda self: self.late)
    @rule(place=st.integers(0, 9))
    def delivers_a_late_message_twice(self, place: int) -> None:
        buyer, offer, epsilon, quote, quoted = self.late.pop(place % len(self.late))
        if offer not in self.offers:
            return  # its question is asked of a newer snapshot by now
        key = self.key()
        if [self.model.price(buyer.account, part, epsilon) for part in offer.parts] != quoted:
            assert self.fair.order(buyer, quote, key).json()["type"].endswith(("quote-expired", "budget-refused"))
            return
        replies = [self.fair.order(buyer, quote, key) for _ in range(2)]
        assert replies[0].status_code == replies[1].status_code
        if replies[0].status_code == 201:
            assert (replies[0].json()["replayed"], replies[1].json()["replayed"]) == (False, True)
            assert replies[1].json()["receipt"] == replies[0].json()["receipt"]
        self.agrees(replies[0], buyer, offer, epsilon)

    @rule()
    def redis_is_wiped(self) -> None:
        redis_client.Redis.from_url(self.redis.url).flushall()

    @precondition(lambda self: type(self).database is None)
    @rule()
    def is_copied(self) -> None:
        (self.folder / "yesterday.db").unlink(missing_ok=True)
        with (
            closing(sqlite3.connect(self.settings.state / "market.db")) as store,
            closing(sqlite3.connect(self.folder / "yesterday.db")) as copy,
        ):
            store.backup(copy)

    @precondition(lambda self: (self.folder / "yesterday.db").exists())
    @rule()
    def is_put_back_to_yesterday_and_replayed(self) -> None:
        people = self.fair.people
        self.opened.close()
        for path in self.settings.state.glob("market.db*"):
            path.unlink()
        shutil.copy(self.folder / "yesterday.db", self.settings.state / "market.db")
        replay(self.settings)
        self.late.clear()  # quotes lapse, and are not brought back
        self.reopen(people)

    @rule()
    def restarts(self) -> None:
        people = self.fair.people
        self.opened.close()
        self.reopen(people)

    def reopen(self, people: dict[str, Person]) -> None:
        self.opened = open_fair(self.settings)
        self.fair = next(self.opened)
        self.fair.people = people

    @invariant()
    def agrees_with_the_model(self) -> None:
        if not self.offers:
            return
        for dataset, budget in self.model.budgets.items():
            assert Fraction(self.fair.ledger(dataset)["spent"]) == self.model.spent(dataset) <= budget
        for buyer in self.buyers:
            shown = self.fair.client.get("/v1/account", headers=buyer.headers).json()
            assert shown["balance_minor"] == self.model.money[buyer.account]
        check(self.fair, *self.model.budgets)

    @rule()
    def is_audited(self) -> None:
        if self.model.answers:
            assert verify_export(*self.fair.export()).findings == ()


QUIET = [HealthCheck.too_slow, HealthCheck.data_too_large, HealthCheck.filter_too_much]


def test_a_short_random_life_of_a_market_agrees_with_its_model() -> None:
    from hypothesis.stateful import run_state_machine_as_test

    profile = settings(
        max_examples=6, stateful_step_count=14, deadline=None, derandomize=True, suppress_health_check=QUIET
    )
    run_state_machine_as_test(MarketMachine, settings=profile)


@pytest.mark.long
def test_long_random_lives_of_markets_agree_with_their_model() -> None:
    from hypothesis.stateful import run_state_machine_as_test

    profile = settings(
        max_examples=40, stateful_step_count=30, deadline=None, derandomize=True, suppress_health_check=QUIET
    )
    run_state_machine_as_test(MarketMachine, settings=profile)


def test_a_life_with_every_kind_of_event_agrees_with_its_model() -> None:
    """The random lives are short; this one meets late tiers, a mean, a reservation, refunds, kills and a restored copy."""
    life = MarketMachine()
    try:
        life.open()
        for what in range(4):  # a histogram, a count, a count on a reserving ledger, a mean
            life.buy(2, what, 3, again=True)
            life.sends_a_message_that_is_late(1, what, 2)
            life.agrees_with_the_model()
        life.is_copied()
        life.is_refunded(0, 2)
        for place in (3, 30, 60):
            life.adds_a_late_tier()
            life.is_killed_while_buying(2, len(life.offers) - 1, 0, place)
            life.agrees_with_the_model()
        while life.late:
            life.delivers_a_late_message_twice(0)
        life.is_killed_while_buying(2, 3, 1, 45)
        life.redis_is_wiped()
        life.is_put_back_to_yesterday_and_replayed()
        life.adds_a_snapshot()
        life.buy(2, 0, 2, again=True)
        life.buy(0, 2, 1, again=False)
        life.agrees_with_the_model()
        assert len(life.model.charged) >= 6
        assert len(life.model.answers) >= 10
        life.is_audited()
    finally:
        life.teardown()
