"""A market that is killed, repeated, wiped and raced at every point, beside a slow and obvious model of what it owes."""

import shutil
import sqlite3
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass, field
from fractions import Fraction
from pathlib import Path
from typing import Any

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


def statements_of_a_first_sale(fair: Fair, buyer: Person, quote: str) -> int:
    with killed_at(fair, 10_000) as ran:
        assert fair.order(buyer, quote, "counted").status_code == 201
    return len(ran)


def test_a_sale_killed_before_any_of_its_writes_leaves_nothing_and_sells_the_same_digits_after(fair: Fair) -> None:
    dataset = fair.dataset(budget="50")
    buyer = fair.person()
    fair.buy(buyer, fair.product(dataset, TOTAL), "1")  # the market's own account is open from here on
    counting = fair.product(dataset, PEOPLE)
    count = statements_of_a_first_sale(fair, buyer, fair.quote(buyer, counting, "1"))
    assert count > 20
    product = fair.product(dataset)
    quote = fair.quote(buyer, product, "1")
    before = fair.stored()
    for place in range(count):
        with killed_at(fair, place) as ran:
            assert fair.order(buyer, quote, "k").status_code in (500, 503), place
        assert fair.stored() == before, place
    assert len(ran) == count - 1, "the last place is the commit: recorded before it, carried out by the next writer"
    sold = fair.order(buyer, quote, "k").json()
    assert sold["replayed"] is True
    assert sold["receipt"]["charge_nano"] == 10**9
    with killed_at(fair, 10_000) as ran:
        assert fair.order(buyer, quote, "k").json()["replayed"] is True
    assert not [text for text in ran if text.startswith(("INSERT", "UPDATE", "DELETE"))], "a retry writes nothing"
    assert fair.answer(buyer, sold).json() == sold["answer"]
    check(fair, dataset)


def check(fair: Fair, dataset: str) -> None:
    """What must hold at any time, from the store and the log alone."""

    def read(connection: Any) -> Any:
        return tuple(connection.execute(select(table)).all() for table in (draws, orders, postings, accounts))

    drawn, placed, posted, people = fair.market.database.read_now(read)
    assert len({(row.chain_id, row.law) for row in drawn}) == len(drawn)
    assert len({(row.chain_id, row.place) for row in drawn}) == len(drawn)
    assert sum(row.amount_minor for row in posted if row.kind != "deposit") == 0
    for person in people:
        assert person.balance_minor == sum(row.amount_minor for row in posted if row.account_id == person.id) >= 0
    ledger = fair.ledger(dataset)
    assert Fraction(ledger["spent"]) == sum(Fraction(chain["charged"]) for chain in ledger["chains"])
    assert Fraction(ledger["spent"]) <= Fraction(ledger["budget"])
    assert sum(row.charge_nano for row in placed) == Fraction(ledger["spent"]) * 10**9


@dataclass
class Model:
    """The market as a child would keep it: who paid what, what each chain has issued, what each buyer holds."""

    budget: Fraction
    issued: dict[str, Fraction] = field(default_factory=dict)
    paid: dict[tuple[str, str], int] = field(default_factory=dict)
    held: dict[tuple[str, str], Fraction] = field(default_factory=dict)
    money: dict[str, int] = field(default_factory=dict)
    answers: dict[tuple[str, str], Any] = field(default_factory=dict)

    def spent(self) -> Fraction:
        return sum(self.issued.values(), Fraction(0))

    def price(self, buyer: str, chain: str, epsilon: str, prices: dict[str, int]) -> int:
        if self.held.get((buyer, chain), Fraction(0)) >= Fraction(epsilon):
            return 0
        return max(0, prices[epsilon] - self.paid.get((buyer, chain), 0))

    def sell(self, buyer: str, chain: str, epsilon: str, prices: dict[str, int]) -> str:
        price = self.price(buyer, chain, epsilon, prices)
        due = max(Fraction(0), Fraction(epsilon) - self.issued.get(chain, Fraction(0)))
        if self.spent() + due > self.budget:
            return "budget"
        if price > self.money[buyer]:
            return "funds"
        self.money[buyer] -= price
        self.paid[buyer, chain] = self.paid.get((buyer, chain), 0) + price
        self.issued[chain] = max(self.issued.get(chain, Fraction(0)), Fraction(epsilon))
        self.held[buyer, chain] = max(self.held.get((buyer, chain), Fraction(0)), Fraction(epsilon))
        return "sold"


class MarketMachine(RuleBasedStateMachine):
    """Random people do random things to a market and to its model; now and then it is killed, repeated or restarted."""

    def __init__(self) -> None:
        super().__init__()
        self.folder = Path(tempfile.mkdtemp(prefix="tm-machine-"))
        self.ended = ExitStack()
        (self.folder / "r").mkdir()
        self.redis = self.ended.enter_context(embedded_redis(self.folder / "r"))
        self.settings = Settings.at(self.folder / "market", redis_url=self.redis.url)
        self.opened = open_fair(self.settings)
        self.fair = next(self.opened)
        self.model = Model(Fraction(6))
        self.late: list[tuple[Person, dict[str, Any], str, str, int]] = []
        self.buyers: list[Person] = []
        self.products: list[dict[str, Any]] = []
        self.keys = 0
        self.seed = 20

    def teardown(self) -> None:
        self.opened.close()
        self.ended.close()
        shutil.rmtree(self.folder, ignore_errors=True)

    @initialize()
    def open(self) -> None:
        self.dataset = self.fair.dataset(budget="6")
        for query in (HISTOGRAM, PEOPLE):
            self.publish(query)
        for deposit in (1_000, 4_000, 50_000):
            buyer = self.fair.person(deposit=deposit)
            self.buyers.append(buyer)
            self.model.money[buyer.account] = deposit

    def publish(self, query: dict[str, Any]) -> None:
        ladder = tiers(*zip(LADDER, PRICES, strict=True))
        self.products.append(self.fair.product(self.dataset, query, tiers=ladder))

    @rule(who=st.integers(0, 2), what=st.integers(0, 9), epsilon=st.sampled_from(LADDER), again=st.booleans())
    def buy(self, who: int, what: int, epsilon: str, *, again: bool) -> None:
        buyer, product = self.buyers[who], self.products[what % len(self.products)]
        prices = dict(zip(LADDER, PRICES, strict=True))
        chain = product["chain"]
        quote = self.fair.quote(buyer, product, epsilon)
        self.keys += 1
        first = self.fair.order(buyer, quote, f"k{self.keys}")
        expected = self.model.sell(buyer.account, chain, epsilon, prices)
        assert first.status_code == {"sold": 201, "budget": 409, "funds": 402}[expected]
        if again:
            second = self.fair.order(buyer, quote, f"k{self.keys}")
            assert second.status_code == first.status_code
            if expected == "sold":
                assert second.json() == first.json() | {"replayed": True}
        if expected == "sold":
            answer = first.json()["answer"]
            assert self.model.answers.setdefault((chain, epsilon), answer) == answer
            assert self.fair.answer(buyer, first.json()).json() == answer

    @rule(who=st.integers(0, 2), what=st.integers(0, 9), epsilon=st.sampled_from(LADDER), place=st.integers(0, 40))
    def is_killed_while_buying(self, who: int, what: int, epsilon: str, place: int) -> None:
        buyer, product = self.buyers[who], self.products[what % len(self.products)]
        quote = self.fair.quote(buyer, product, epsilon)
        self.keys += 1
        with killed_at(self.fair, place):
            self.fair.order(buyer, quote, f"k{self.keys}")
        retried = self.fair.order(buyer, quote, f"k{self.keys}")
        prices = dict(zip(LADDER, PRICES, strict=True))
        expected = self.model.sell(buyer.account, product["chain"], epsilon, prices)
        assert retried.status_code == {"sold": 201, "budget": 409, "funds": 402}[expected]
        if expected == "sold":
            answer = retried.json()["answer"]
            assert self.model.answers.setdefault((product["chain"], epsilon), answer) == answer

    @precondition(lambda self: len(self.products) < 4)
    @rule()
    def publishes_a_sum(self) -> None:
        if all(product["title"] != "Sum" for product in self.products):
            ladder = tiers(*zip(LADDER, PRICES, strict=True))
            self.products.append(self.fair.product(self.dataset, TOTAL, title="Sum", tiers=ladder))

    @precondition(lambda self: len(self.products) < 6)
    @rule()
    def adds_a_snapshot(self) -> None:
        self.seed += 1
        (self.fair.market.settings.data / "next.csv").write_text(rows(seed=self.seed))
        path = f"/v1/datasets/{self.dataset}/snapshots"
        headers = self.fair.owner().headers
        assert self.fair.client.post(path, json={"file": "next.csv"}, headers=headers).status_code == 201
        path = f"/v1/products/{self.products[0]['product']}/refresh"
        self.products[0] = self.fair.client.post(path, headers=headers).json()

    @rule(who=st.integers(0, 2), what=st.integers(0, 9), epsilon=st.sampled_from(LADDER))
    def sends_a_message_that_is_late(self, who: int, what: int, epsilon: str) -> None:
        buyer, product = self.buyers[who], self.products[what % len(self.products)]
        prices = dict(zip(LADDER, PRICES, strict=True))
        price = self.model.price(buyer.account, product["chain"], epsilon, prices)
        self.late.append((buyer, product, epsilon, self.fair.quote(buyer, product, epsilon), price))

    @precondition(lambda self: self.late)
    @rule(place=st.integers(0, 9))
    def delivers_a_late_message_twice(self, place: int) -> None:
        buyer, product, epsilon, quote, quoted = self.late.pop(place % len(self.late))
        if product not in self.products:
            return  # its question is asked of a newer snapshot by now
        prices = dict(zip(LADDER, PRICES, strict=True))
        self.keys += 1
        if self.model.price(buyer.account, product["chain"], epsilon, prices) != quoted:
            assert self.fair.order(buyer, quote, f"k{self.keys}").json()["type"].endswith("quote-expired")
            return
        replies = [self.fair.order(buyer, quote, f"k{self.keys}") for _ in range(2)]
        expected = self.model.sell(buyer.account, product["chain"], epsilon, prices)
        assert [reply.status_code for reply in replies] == [{"sold": 201, "budget": 409, "funds": 402}[expected]] * 2
        if expected == "sold":
            assert replies[1].json() == replies[0].json() | {"replayed": True}
            answer = replies[0].json()["answer"]
            assert self.model.answers.setdefault((product["chain"], epsilon), answer) == answer

    @rule()
    def redis_is_wiped(self) -> None:
        redis_client.Redis.from_url(self.redis.url).flushall()

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
        self.opened = open_fair(self.settings)
        self.fair = next(self.opened)
        self.fair.people = people

    @rule()
    def restarts(self) -> None:
        people = self.fair.people
        self.opened.close()
        self.opened = open_fair(self.settings)
        self.fair = next(self.opened)
        self.fair.people = people

    @invariant()
    def agrees_with_the_model(self) -> None:
        if not self.buyers:
            return
        ledger = self.fair.ledger(self.dataset)
        assert Fraction(ledger["spent"]) == self.model.spent() <= self.model.budget
        for buyer in self.buyers:
            shown = self.fair.client.get("/v1/account", headers=buyer.headers).json()
            assert shown["balance_minor"] == self.model.money[buyer.account]
        check(self.fair, self.dataset)

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
