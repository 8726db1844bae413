"""Credit notes: each is in the log, none passes its line, and parts come to exactly what the whole would have."""

from typing import Any

import msgspec
import pytest

from tests.conftest import PEOPLE, Fair, Person, tiers


def credit(fair: Fair, order: str, amount: int, line: int | None = None) -> Any:
    body: dict[str, Any] = {"amount_minor": amount, "reason": "pricing error"}
    if line is not None:
        body["line_no"] = line
    return fair.client.post(f"/v1/orders/{order}/credits", json=body, headers=fair.operator.headers)


def accrued(fair: Fair, owner: Person) -> int:
    path = "/v1/earnings?currency=EUR"
    return int(fair.client.get(path, headers=owner.headers).json()["accrued_units"])


def balance(fair: Fair, who: Person) -> int:
    return int(fair.client.get("/v1/account", headers=who.headers).json()["balance_minor"])


def test_every_credit_note_is_a_leaf_of_the_log(fair: Fair) -> None:
    buyer = fair.person()
    order = fair.buy(buyer, fair.product(fair.dataset()), "1")["receipt"]["order"]
    notes = [credit(fair, order, amount).json()["credit_notes"][0] for amount in (100, 250)]
    lines = (msgspec.json.decode(line) for line in fair.export()[0])
    leaves = [line["leaf"] for line in lines if isinstance(line.get("leaf"), dict)]
    logged = [(leaf["note"], leaf["order"], leaf["amount_minor"]) for leaf in leaves if leaf["kind"] == "credit-note"]
    assert logged == [(note["number"], order, note["amount"]) for note in notes]


@pytest.mark.parametrize("line", [None, 1])
def test_no_credit_passes_what_is_left_of_its_line_however_it_is_named(fair: Fair, line: int | None) -> None:
    buyer = fair.person()
    before = balance(fair, buyer)
    order = fair.buy(buyer, fair.product(fair.dataset()), "1")["receipt"]["order"]
    assert credit(fair, order, 2_000, line).status_code == 201
    stored = fair.stored()
    assert credit(fair, order, 1_001, line).status_code == 400
    assert fair.stored() == stored
    assert credit(fair, order, 1_000, line).status_code == 201
    assert credit(fair, order, 1, line).status_code == 400
    assert balance(fair, buyer) == before


@pytest.mark.parametrize("parts", [(997,), (1, 995, 1), (332, 332, 333), (1,) * 7 + (990,)])
def test_parts_of_a_credit_take_from_owners_what_the_whole_would(fair: Fair, parts: tuple[int, ...]) -> None:
    """At shares that no amount divides, every rounding is undone: nobody keeps a millionth."""
    dataset, other, third = fair.dataset(), fair.person("owner"), fair.person("owner")
    owners = [fair.owner(), other, third]
    rates = {who.account: rate for who, rate in zip(owners, (3, 2, 2), strict=True)}
    made = fair.client.post(f"/v1/datasets/{dataset}/contract", json={"owners": rates}, headers=fair.owner().headers)
    assert made.status_code == 201
    product = fair.product(dataset, PEOPLE, tiers=tiers(("1", 997)))
    order = fair.buy(fair.person(), product, "1")["receipt"]["order"]
    assert all(accrued(fair, who) > 0 for who in owners)
    for amount in parts:
        assert credit(fair, order, amount).status_code == 201
    assert [accrued(fair, who) for who in owners] == [0, 0, 0]


def test_a_line_that_is_credited_whole_takes_nothing_from_the_others(fair: Fair) -> None:
    dataset = fair.dataset(budget="5", reserve={"low_minor": 10_000, "high_minor": 20_000})
    order = fair.buy(fair.person(), fair.product(dataset, PEOPLE, tiers=tiers(("1", 3000))), "1")["receipt"]
    one, rest = order["list_minor"], order["price_minor"] - order["list_minor"]
    assert rest > 0, "two lines"
    assert credit(fair, order["order"], one, 1).status_code == 201
    stored = fair.stored()
    for line, amount in ((1, 1), (2, rest + 1)):
        assert credit(fair, order["order"], amount, line).status_code == 400
    assert fair.stored() == stored
    assert credit(fair, order["order"], rest, 2).status_code == 201
