"""A mean is two chains and two orders: killed before each statement of its sale, it is all of both or nothing of either."""

from fractions import Fraction
from typing import Any

import pytest
from sqlalchemy import select

from app.store.schema import entitlements
from tests.app.test_simulator import LADDER, MEAN, check, killed_at
from tests.conftest import TOTAL, Fair, Person

# What one sale of a mean adds to the store, whatever was drawn before it.
ORDERED = {"orders": 2, "entitlements": 2, "invoices": 2, "postings": 4, "accruals": 2}
WRITES = ("INSERT", "UPDATE", "DELETE")


def sold_in_spite_of_kills(fair: Fair, buyer: Person, quote: str, key: str) -> tuple[dict[str, Any], int]:
    """Order with one key until it goes through, killed one statement later each time; nothing is left in between."""
    before, place = fair.stored(), 0
    while True:
        with killed_at(fair, place):
            answered = fair.order(buyer, quote, key)
        if answered.status_code == 201:
            return answered.json(), place
        assert answered.status_code in (500, 503), (place, answered.text)
        assert fair.stored() == before, place
        place += 1


@pytest.mark.parametrize("drawn", [False, True], ids=["first-sale", "drawn-before"])
def test_a_mean_killed_before_any_of_its_writes_is_two_orders_and_two_charges_or_nothing(
    fair: Fair, *, drawn: bool
) -> None:
    dataset = fair.dataset(budget="50")
    buyer = fair.person()
    fair.buy(buyer, fair.product(dataset, TOTAL), "1")  # the market's own account is open from here on
    mean = fair.product(dataset, MEAN)
    if drawn:
        fair.buy(fair.person(), mean, "0.1")
    quote, spent = fair.quote(buyer, mean, "1"), Fraction(fair.ledger(dataset)["spent"])
    balance = fair.client.get("/v1/account", headers=buyer.headers).json()["balance_minor"]
    before = fair.stored()
    sold, places = sold_in_spite_of_kills(fair, buyer, quote, "k")
    assert places > (60 if drawn else 90)
    assert sold["replayed"] is sold["companion"]["replayed"] is True, "recorded, then carried out by the next writer"
    pair = (sold, sold["companion"])
    charges = [Fraction(placed["receipt"]["charge_nano"], 10**9) for placed in pair]
    shares = [Fraction("0.6"), Fraction("0.4")]
    assert charges == [share * (1 - (Fraction("0.1") if drawn else 0)) for share in shares]
    assert Fraction(fair.ledger(dataset)["spent"]) - spent == sum(charges)
    paid = [placed["receipt"]["price_minor"] for placed in pair]
    assert sum(paid) == 3000
    assert fair.client.get("/v1/account", headers=buyer.headers).json()["balance_minor"] == balance - 3000
    after = fair.stored()
    draws = 0 if drawn else 2 * len(LADDER)
    grown = {name: after[name] - before[name] for name in after if after[name] != before[name]}
    heads = grown.pop("heads")
    assert heads == (2 if drawn else 4), "one head an append: draws and sale of each part"
    assert grown == ORDERED | {"leaves": draws + 2} | ({"draws": draws} if draws else {})
    for placed in pair:
        assert fair.answer(buyer, placed).json() == placed["answer"]
    with killed_at(fair, 10_000) as ran:
        again = fair.order(buyer, quote, "k").json()
    assert again == sold
    assert not [text for text in ran if text.startswith(WRITES)], "a retry writes nothing"
    assert fair.stored() == after
    check(fair, dataset)


def test_a_retry_of_a_killed_mean_gives_each_part_to_its_buyer_once(fair: Fair) -> None:
    """Killed in the middle, and asked again with another key from the same quote: still one order of each part."""
    dataset, buyer = fair.dataset(budget="50"), fair.person()
    mean = fair.product(dataset, MEAN)
    quote = fair.quote(buyer, mean, "0.5")
    for place in (20, 60, 90):
        with killed_at(fair, place):
            assert fair.order(buyer, quote, f"k{place}").status_code in (500, 503)
    first = fair.order(buyer, quote, "k").json()
    assert first["replayed"] is False
    second = fair.order(buyer, quote, "another")
    assert (second.status_code, second.json()["type"].rpartition("/")[2]) == (409, "quote-expired")
    held = fair.market.database.read_now(
        lambda connection: (
            connection.execute(select(entitlements.c.chain_id).where(entitlements.c.account_id == buyer.account))
            .scalars()
            .all()
        )
    )
    assert sorted(held) == sorted(placed["answer"]["chain"] for placed in (first, first["companion"]))
    check(fair, dataset)
