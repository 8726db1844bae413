"""Random walks of a whole market with bundles, against a slow model that keeps one number a chain and one a sale."""

import random
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any

import pytest

from app.audit.verify import verify_export
from app.store.schema import accounts, accruals, credit_notes, datasets, invoices, loans, orders, postings
from pricing.scarcity import ReserveCurve
from tests.app.test_bundles import balance, compose, lines, quoted, rows
from tests.app.test_readings import LADDER, MEAN
from tests.conftest import HISTOGRAM, PEOPLE, Fair, Person, tiers
from tiers.budget import NANO

DEPOSIT, BUDGET = 1_000_000, 9
NARROW = MEAN | {"measure": MEAN["measure"] | {"lower": "-8", "upper": "8"}}  # shares its count with the other mean
SETS = (((0, 1), (1, 1)), ((0, 0), (1, 2)), ((1, 0), (2, 1)), ((2, 1), (3, 1)), ((0, 2), (1, 1), (3, 2)))
ACTS = {"one": 8, "whole": 8, "credit": 2, "price": 1, "reprice": 1, "move": 1}
_Asked = list[tuple[str, str]]  # chain and law


@dataclass
class Buyer:
    """One buyer: by chain the best rank, what counts as paid, the lender, and the price without bundles; what is lent
    by sale; what may be credited by order."""

    who: Person
    rank: dict[str, int] = field(default_factory=dict)
    counts: dict[str, int] = field(default_factory=dict)
    lender: dict[str, int] = field(default_factory=dict)
    alone: dict[str, int] = field(default_factory=dict)
    lent: list[int] = field(default_factory=list)
    left: dict[str, tuple[str, int]] = field(default_factory=dict)
    spent: int = 0
    credited: int = 0

    def owes(self, chain: str) -> bool:
        return chain in self.lender and self.lent[self.lender[chain]] > 0


@dataclass
class Model:
    """Prices and budgets by chain and law (most accurate first), and what is charged."""

    prices: dict[str, dict[str, int]]
    nano: dict[str, dict[str, int]]
    curve: ReserveCurve | None
    charged: dict[str, int] = field(default_factory=dict)
    used: int = 0

    def charge(self, chain: str, law: str) -> int:
        """Charge a tier; return the least that its sale must bring."""
        due = max(0, self.nano[chain][law] - self.charged.get(chain, 0))
        self.charged[chain] = self.charged.get(chain, 0) + due
        self.used += due
        return 0 if self.curve is None else self.curve.between(self.used - due, self.used)

    def buy(self, buyer: Buyer, asked: _Asked, whole: int | None) -> list[int]:
        """Return what each line costs, alone or in a bundle at the price `whole`."""
        made: list[tuple[int, int, bool, bool]] = []  # amount alone, given back, new, lends
        counted = 0
        for chain, law in asked:
            price, place, held = self.prices[chain][law], list(self.prices[chain]).index(law), buyer.rank.get(chain)
            owes, paid = buyer.owes(chain), min(max(0, buyer.counts.get(chain, 0)), price)
            new = held is None or place < held
            back = min(paid, buyer.lent[buyer.lender[chain]]) if new and owes else 0
            if back:
                buyer.lent[buyer.lender[chain]] -= back
            counted += paid if (new or place == held) and not owes else 0
            made.append((price - paid + back if new else 0, back, new, new or (place == held and not owes)))
        together = sum(amount for amount, *_ in made)
        discount = 0 if whole is None else max(0, together - max(0, whole - counted))
        shares = hamilton(discount, [amount for amount, *_ in made])
        sale = len(buyer.lent)
        buyer.lent.append(0)
        costs = []
        for (chain, law), (amount, back, new, lends), share in zip(asked, made, shares, strict=True):
            least = self.charge(chain, law) if new else 0
            costs.append(max(amount - share, least))
            saved = max(0, amount - costs[-1])
            buyer.counts[chain] = buyer.counts.get(chain, 0) + costs[-1] + saved - back
            if new:
                before = buyer.alone.get(chain, 0)
                buyer.alone[chain] = max(before + least, self.prices[chain][law])
                buyer.rank[chain] = list(self.prices[chain]).index(law)
                buyer.lender.pop(chain, None)
            if discount and lends:
                buyer.lender[chain] = sale
                buyer.lent[sale] += saved
        buyer.spent += sum(costs)
        return costs


def hamilton(total: int, weights: list[int]) -> list[int]:
    """Whole shares by largest remainder, ties to the first."""
    exact = [Fraction(total * weight, sum(weights) or 1) for weight in weights]
    shares = [int(each) for each in exact]
    for place in sorted(range(len(weights)), key=lambda at: (shares[at] - exact[at], at))[: total - sum(shares)]:
        shares[place] += 1
    return shares


def listings(product: dict[str, Any]) -> list[dict[str, Any]]:
    """A product's chains as they are listed: a mean's are its sum's and its count's."""
    return [product, *([product["companion"]] if product.get("companion") else [])]


def sold(product: dict[str, Any], place: int) -> _Asked:
    return [(each["chain"], each["tiers"][place]["law"]) for each in listings(product)]


def priced(product: dict[str, Any]) -> dict[str, dict[str, int]]:
    """Prices by chain and law; a mean's listing prices both, its companion the count."""
    own, *beside = [[tier["price_minor"] for tier in each["tiers"]] for each in listings(product)]
    split = [[whole - less for whole, less in zip(own, beside[0], strict=True)], *beside] if beside else [own]
    laws = [[tier["law"] for tier in each["tiers"]] for each in listings(product)]
    chains = [each["chain"] for each in listings(product)]
    return {chain: dict(zip(*pair, strict=True)) for chain, *pair in zip(chains, laws, split, strict=True)}


@dataclass
class Walk:
    """A market, its model, and the acts that are done in both."""

    fair: Fair
    rng: random.Random
    products: list[dict[str, Any]]
    model: Model
    buyers: list[Buyer]
    bundles: list[dict[str, Any]]

    def post(self, path: str, body: dict[str, Any], who: Person) -> Any:
        response = self.fair.client.post(f"/v1/{path}", json=body, headers=who.headers)
        assert response.status_code in (201, 409), response.text
        return response

    def keep(self, buyer: Buyer, expected: list[int], receipts: list[dict[str, Any]]) -> bool:
        assert [each["price_minor"] for each in receipts] == expected
        buyer.left |= {each["order"]: (each["chain"], each["price_minor"]) for each in receipts}
        assert balance(self.fair, buyer.who) == DEPOSIT - buyer.spent + buyer.credited
        assert buyer.spent <= sum(buyer.alone.values()) + buyer.credited, "dearer than one by one"
        return True

    def one(self, buyer: Buyer, key: str) -> bool:
        product, place = self.rng.choice(self.products), self.rng.randrange(3)
        expected = self.model.buy(buyer, sold(product, place), None)
        bought = self.fair.buy(buyer.who, product, product["tiers"][place]["epsilon"], key)
        return self.keep(buyer, expected, [each["receipt"] for each in (bought, bought.get("companion")) if each])

    def whole(self, buyer: Buyer, key: str) -> bool:
        bundle = self.rng.choice(self.bundles)
        if not bundle["live"]:
            path = f"bundles/{bundle['bundle']}/quotes"
            assert self.post(path, {}, buyer.who).status_code == 409
            return False
        expected = self.model.buy(buyer, bundle["asked"], bundle["price_minor"])
        quote = quoted(self.fair, buyer.who, bundle)
        assert [part["amount_minor"] for part in quote["parts"]] == expected
        response = self.fair.order(buyer.who, quote["quote"], key)
        assert response.status_code == 201, response.text
        return self.keep(buyer, expected, lines(response.json()))

    def credit(self, buyer: Buyer, _key: str) -> bool:
        able = [order for order, (_, left) in buyer.left.items() if left]  # in the order of sales: ids are random
        if not able:
            return False
        order = self.rng.choice(able)
        chain, left = buyer.left[order]
        amount = self.rng.choice([1, left, self.rng.randint(1, left)])
        over = {"amount_minor": left + 1, "reason": "pricing error"}
        refusal = self.fair.client.post(f"/v1/orders/{order}/credits", json=over, headers=self.fair.operator.headers)
        assert refusal.status_code == 400
        self.post(f"orders/{order}/credits", over | {"amount_minor": amount}, self.fair.operator)
        buyer.left[order] = (chain, left - amount)
        buyer.counts[chain] -= amount
        buyer.credited += amount
        return True

    def price(self, _buyer: Buyer, _key: str) -> bool:
        product = self.rng.choice(self.products)
        sent = [int(tier["price_minor"] * self.rng.choice([0.5, 0.9, 1, 1.1, 1.5])) for tier in product["tiers"]]
        body = {"currency": "EUR", "prices_minor": sorted(sent, reverse=True)}
        done = self.post(f"products/{product['product']}/prices", body, self.fair.owner()).status_code == 201
        for place, each in enumerate(self.products):
            path = f"/v1/products/{each['product']}"
            self.products[place] = self.fair.client.get(path, headers=self.fair.owner().headers).json()
            self.model.prices |= priced(self.products[place])
        return done

    def reprice(self, _buyer: Buyer, _key: str) -> bool:
        bundle = self.rng.choice(self.bundles)
        price = int(bundle["price_minor"] * self.rng.choice([0.6, 0.9, 1.1, 1.3]))
        body = {"currency": "EUR", "price_minor": price}
        done = self.post(f"bundles/{bundle['bundle']}/price", body, self.fair.owner()).status_code == 201
        bundle["price_minor"] = price if done else bundle["price_minor"]
        return done

    def move(self, _buyer: Buyer, _key: str) -> bool:
        bundle = self.rng.choice(self.bundles)
        body = {"state": "retired" if bundle["live"] else "live"}
        done = self.post(f"bundles/{bundle['bundle']}/state", body, self.fair.owner()).status_code == 201
        bundle["live"] ^= done
        return done


def opened(fair: Fair, seed: int, *, reserve: bool) -> Walk:
    rng = random.Random(seed)
    dataset = fair.dataset(
        budget=str(BUDGET), **({"reserve": {"low_minor": 200, "high_minor": 4000}} if reserve else {})
    )
    products = [
        fair.product(dataset, HISTOGRAM, tiers=tiers(("2", 900), ("1", 300), ("0.5", 120))),
        fair.product(dataset, PEOPLE, title="People", tiers=tiers(("1", 250), ("0.5", 80), ("0.25", 70))),
        fair.product(dataset, MEAN, title="Score", tiers=LADDER),
        fair.product(dataset, NARROW, title="Narrow", tiers=LADDER),
    ]
    prices = {chain: laws for product in products for chain, laws in priced(product).items()}
    nano: dict[str, dict[str, int]] = {chain: {} for chain in prices}
    asker = fair.person(deposit=0)
    for product in products:
        for tier in product["tiers"]:  # a mean's listing names the ε of both parts; a quote names each
            body = {"product": product["product"], "epsilon": tier["epsilon"]}
            told = fair.client.post("/v1/quotes", json=body, headers=asker.headers).json()
            for part in told.get("parts", [told]):
                nano[part["chain"]][part["law"]] = int(Fraction(part["epsilon"]) * NANO)
    (row,) = rows(fair, datasets)
    curve = ReserveCurve(row.reserve_low_minor, row.reserve_high_minor, BUDGET * NANO) if reserve else None
    bundles = []
    for parts in SETS:
        asked = list(dict.fromkeys(each for which, place in parts for each in sold(products[which], place)))
        least = max(products[which]["tiers"][place]["price_minor"] for which, place in parts)
        price = rng.randint(least, sum(prices[chain][law] for chain, law in asked))
        named = [(products[which], products[which]["tiers"][place]["epsilon"]) for which, place in parts]
        bundles.append({**compose(fair, *named, price=price), "asked": asked, "live": True})
    return Walk(fair, rng, products, Model(prices, nano, curve), [Buyer(fair.person()) for _ in range(2)], bundles)


def check_books(walk: Walk) -> None:
    """Every cent is somewhere, every invoice adds up, and what is lent is what the model says."""
    fair, buyers = walk.fair, walk.buyers
    assert sum(row.balance_minor for row in rows(fair, accounts)) == DEPOSIT * len(buyers)
    assert sum(row.amount_minor for row in rows(fair, postings)) == DEPOSIT * len(buyers)
    bought, notes = rows(fair, orders), rows(fair, credit_notes)
    net = sum(row.amount_minor for row in bought) - sum(note.amount_minor for note in notes)
    assert sum(buyer.spent - buyer.credited for buyer in buyers) == net
    fees = net * 10**6 - sum(row.units for row in rows(fair, accruals))
    exact = net * 10**6 * fair.market.settings.fee_bps // 10_000
    assert exact - (len(bought) + len(notes)) * 10**6 <= fees <= exact + len(notes) * 10**6, "a fee is rounded down"
    lent: dict[str, int] = {}
    for loan in rows(fair, loans):
        lent[loan.sale_id] = lent.get(loan.sale_id, 0) + loan.amount_minor
    assert sorted(filter(None, lent.values())) == sorted(each for buyer in buyers for each in buyer.lent if each)
    sales: dict[str, list[Any]] = {}
    for row in bought:
        assert row.amount_minor == max(row.list_minor - row.credit_minor - row.discount_minor, row.reserve_minor)
        sales.setdefault(row.sale_id or row.id, []).append(row)
    assert sorted(row.number for row in rows(fair, invoices)) == list(range(1, len(sales) + 1))
    by_account = {buyer.who.account: buyer.who for buyer in buyers}
    for whole, parts in sales.items():
        path = f"/v1/orders/{whole}/invoice"
        told = fair.client.get(path, headers=by_account[parts[0].account_id].headers).json()["invoice"]
        assert told["total"] == sum(line["amount"] for line in told["lines"]) == sum(row.amount_minor for row in parts)
    exported, public = fair.export()
    assert verify_export(iter(exported), public).findings == ()


@pytest.mark.parametrize("reserve", [False, True], ids=["no reserve", "reserve"])
def test_every_line_of_a_walk_costs_what_a_slow_model_says_and_every_cent_is_kept(fair: Fair, reserve: bool) -> None:
    walk = opened(fair, 5 + reserve, reserve=reserve)
    done = dict.fromkeys(ACTS, 0)
    for step in range(60):
        (act,) = walk.rng.choices(list(ACTS), list(ACTS.values()))
        done[act] += getattr(walk, act)(walk.rng.choice(walk.buyers), f"k{step}")
    check_books(walk)
    assert min(done["one"], done["whole"]) >= 10
