"""Owners paid to the cent, money given back, menus simulated."""

import hashlib
import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st
from sqlalchemy import select

from app.catalog.simulation import Demand, simulate
from app.store.schema import accounts, accruals, postings
from pricing.errors import InvalidDemandError
from pricing.limit import UNLIMITED
from pricing.owners import SUB
from tests.conftest import PEOPLE, Fair, Person, tiers


def earned(fair: Fair, owner: Person) -> dict[str, Any]:
    return dict(fair.client.get("/v1/earnings", headers=owner.headers).json())


def pay(fair: Fair) -> dict[str, int]:
    paid = fair.client.post("/v1/payouts", json={"currency": "EUR"}, headers=fair.operator.headers)
    assert paid.status_code == 201, paid.text
    return dict(paid.json()["paid_minor"])


def balance(fair: Fair, who: Person) -> int:
    return int(fair.client.get("/v1/account", headers=who.headers).json()["balance_minor"])


def test_a_sale_is_shared_by_contract_and_paid_out_by_floor(fair: Fair) -> None:
    first, second = fair.owner(), fair.person("owner")
    dataset = fair.dataset(owners={first.account: 2, second.account: 1})
    fair.buy(fair.person(), fair.product(dataset), "1")  # 3000, the market's tenth off
    assert earned(fair, first)["accrued_units"] == str(1800 * SUB)
    assert earned(fair, second)["accrued_units"] == str(900 * SUB)
    assert pay(fair) == {first.account: 1800, second.account: 900}
    assert (balance(fair, first), balance(fair, second)) == (1800, 900)
    assert pay(fair) == {}, "what is paid is paid once"


def test_remainders_stay_in_suspense_and_are_never_lost(fair: Fair) -> None:
    first, second = fair.owner(), fair.person("owner")
    dataset = fair.dataset(owners={first.account: 1, second.account: 2})
    fair.buy(fair.person(), fair.product(dataset, tiers=tiers(("1", 5))), "1")
    assert pay(fair) == {first.account: 1, second.account: 3}
    assert int(earned(fair, first)["suspense_units"]) + int(earned(fair, second)["suspense_units"]) == SUB
    rows = fair.market.database.read_now(lambda connection: connection.execute(select(accruals)).all())
    assert sum(row.units for row in rows) == 5 * SUB


def test_a_new_contract_holds_for_later_sales_only(fair: Fair) -> None:
    first, second = fair.owner(), fair.person("owner")
    dataset = fair.dataset()
    product = fair.product(dataset)
    fair.buy(fair.person(), product, "0.5")
    path = f"/v1/datasets/{dataset}/contract"
    changed = fair.client.post(path, json={"owners": {second.account: 1}}, headers=first.headers)
    assert changed.json()["version"] == 2
    fair.buy(fair.person(), product, "1")
    assert earned(fair, first)["accrued_units"] == str(1080 * SUB)
    assert earned(fair, second)["accrued_units"] == str(2700 * SUB)


@pytest.mark.parametrize(
    "owners", [{}, {"acc_nobody": 1}, {"OWNER": 0}, {"OWNER": -1}, {"OWNER": 1.5}, {"BUYER": 1}, {"OWNER": 10**10}]
)
def test_a_contract_that_pays_nobody_or_strangers_is_refused(fair: Fair, owners: dict[str, Any]) -> None:
    owner, buyer = fair.owner(), fair.person()
    dataset = fair.dataset()
    named = {key.replace("OWNER", owner.account).replace("BUYER", buyer.account): rate for key, rate in owners.items()}
    before = fair.stored()
    refused = fair.client.post(f"/v1/datasets/{dataset}/contract", json={"owners": named}, headers=owner.headers)
    assert refused.status_code in (400, 403, 404)
    assert fair.stored() == before


def test_a_credit_returns_money_not_information(fair: Fair) -> None:
    dataset = fair.dataset()
    product, buyer = fair.product(dataset), fair.person()
    sold = fair.buy(buyer, product, "1")
    held, order = balance(fair, buyer), sold["receipt"]["order"]

    def credit(amount: int) -> Any:
        body = {"amount_minor": amount, "reason": "pricing error"}
        return fair.client.post(f"/v1/orders/{order}/credits", json=body, headers=fair.operator.headers)

    assert credit(1000).status_code == 201
    before = fair.stored()
    assert credit(2001).status_code == 400, "never more than was paid, in all"
    assert fair.stored() == before
    assert credit(2000).status_code == 201
    assert balance(fair, buyer) == held + 3000
    assert earned(fair, fair.owner())["accrued_units"] == "0"
    assert fair.answer(buyer, sold).status_code == 200
    assert fair.ledger(dataset)["spent"] == "1", "a charge is never returned"
    assert fair.buy(buyer, product, "2")["receipt"]["price_minor"] == 9000, "what came back is no credit any more"
    kept = fair.client.get(f"/v1/orders/{order}/invoice", headers=buyer.headers).json()
    assert kept["invoice"]["total"] == 3000
    assert [note["amount"] for note in kept["credit_notes"]] in ([1000, 2000], [2000, 1000])
    posted = fair.market.database.read_now(lambda connection: connection.execute(select(postings)).all())
    assert sum(row.amount_minor for row in posted if row.kind != "deposit") == 0


def test_a_credited_market_still_verifies(fair: Fair) -> None:
    from app.audit.verify import verify_export

    sold = fair.buy(fair.person(), fair.product(fair.dataset()), "1")
    body = {"amount_minor": 500, "reason": "duplicate charge"}
    path = f"/v1/orders/{sold['receipt']['order']}/credits"
    assert fair.client.post(path, json=body, headers=fair.operator.headers).status_code == 201
    assert verify_export(*fair.export()).findings == ()


def test_an_invoice_s_lines_add_up_to_what_was_paid(fair: Fair) -> None:
    product, buyer = fair.product(fair.dataset()), fair.person()
    fair.buy(buyer, product, "0.5")
    sold = fair.buy(buyer, product, "1")
    path = f"/v1/orders/{sold['receipt']['order']}/invoice"
    invoice = fair.client.get(path, headers=buyer.headers).json()["invoice"]
    assert [(line["kind"], line["amount"]) for line in invoice["lines"]] == [("LIST", 3000), ("UPGRADE_CREDIT", -1200)]
    assert invoice["total"] == sold["receipt"]["price_minor"] == 1800
    assert invoice["tax"] is None
    assert fair.client.get(path, headers=fair.person().headers).status_code == 404


def test_a_reserve_makes_scarce_budget_dearer_and_telescopes(fair: Fair) -> None:
    dataset = fair.dataset(budget="10", reserve={"low_minor": 100, "high_minor": 2000})
    product = fair.product(dataset, tiers=tiers(("1", 10), ("0.5", 10)))
    buyer = fair.person()
    amounts = [fair.buy(buyer, product, epsilon)["receipt"]["price_minor"] for epsilon in ("0.5", "1")]
    assert amounts == [21, 25], "pricing's reference numbers: R(0→.5) = 21, R(.5→1) = 25"
    assert fair.buy(fair.person(), product, "1")["receipt"]["price_minor"] == 10, "no budget used, no reserve"


def test_owners_compensation_lifts_the_reserve_and_reaches_them(fair: Fair) -> None:
    reserve = {"low_minor": 100, "high_minor": 5000, "compensation_minor": 900}
    dataset = fair.dataset(budget="10", reserve=reserve)
    product = fair.product(dataset, tiers=tiers(("1", 10)))
    paid = fair.buy(fair.person(), product, "1")["receipt"]["price_minor"]
    assert paid >= 1000, "900 after the market's tenth"
    earned = fair.client.get("/v1/earnings?currency=EUR", headers=fair.owner().headers).json()
    assert int(earned["accrued_units"]) >= 900 * earned["units_per_minor"]


def test_every_receipt_names_the_buyers_receipt_before_it(fair: Fair) -> None:
    product = fair.product(fair.dataset(), tiers=tiers(("1", 30), ("0.5", 10)))
    buyer, other = fair.person(), fair.person()
    first, _, second = (fair.buy(who, product, e)["receipt"] for who, e in ((buyer, "0.5"), (other, "1"), (buyer, "1")))
    path = f"/v1/orders/{first['order']}"
    issued = fair.client.get(path, headers=buyer.headers).content
    assert first["previous"] is None
    assert second["previous"] == hashlib.sha256(issued).hexdigest()


def test_a_quote_goes_stale_when_others_used_the_budget(fair: Fair) -> None:
    dataset = fair.dataset(budget="10", reserve={"low_minor": 100, "high_minor": 2000})
    product = fair.product(dataset, tiers=tiers(("1", 10)))
    other = fair.product(dataset, PEOPLE, tiers=tiers(("5", 10)))
    buyer = fair.person()
    quote = fair.quote(buyer, product, "1")
    fair.buy(fair.person(), other, "5")
    assert fair.order(buyer, quote).json()["type"].endswith("quote-expired")


def test_owners_of_another_currency_join_no_contract(fair: Fair) -> None:
    made = {"role": "owner", "name": "dollar", "currency": "USD"}
    dollar = fair.client.post("/v1/accounts", json=made, headers=fair.operator.headers).json()["account"]
    dataset = fair.dataset()
    body = {"owners": {fair.owner().account: 1, dollar: 1}}
    refused = fair.client.post(f"/v1/datasets/{dataset}/contract", json=body, headers=fair.owner().headers)
    assert refused.status_code == 400


def test_one_owner_s_shortfall_keeps_no_other_from_being_paid(fair: Fair) -> None:
    first, second = fair.owner(), fair.person("owner")
    dataset = fair.dataset(owners={first.account: 1})
    product, buyer = fair.product(dataset), fair.person()
    sold = fair.buy(buyer, product, "1")
    assert pay(fair) == {first.account: 2700}
    path = f"/v1/datasets/{dataset}/contract"
    fair.client.post(path, json={"owners": {second.account: 1}}, headers=first.headers)
    fair.buy(fair.person(), product, "0.5")
    body = {"amount_minor": 1400, "reason": "pricing error"}
    order = sold["receipt"]["order"]
    credited = fair.client.post(f"/v1/orders/{order}/credits", json=body, headers=fair.operator.headers)
    assert credited.status_code == 201
    assert pay(fair) == {second.account: 100}, "all that the market holds of the second owner's 1080"
    fair.buy(fair.person(), product, "2")
    assert pay(fair) == {second.account: 9000}
    assert earned(fair, second)["suspense_units"] == str(80 * SUB), "what the first owner owes is still missing"


def test_nobody_simulates_with_another_owner_s_prices(fair: Fair) -> None:
    product = fair.product(fair.dataset(), tiers=tiers(("2", 900), ("1", 700), ("0.5", 250)))
    body = {"demand": DEMAND, "product": product["product"]}
    other = fair.person("owner")
    assert fair.client.post("/v1/price-simulations", json=body, headers=other.headers).status_code == 404


DEMAND = [
    {"count": 5, "values_minor": [2000, 800, 300]},
    {"count": 20, "values_minor": [900, 700, 300]},
    {"count": 40, "values_minor": [320, 300, 250]},
]


def test_a_simulation_compares_menus_on_the_owner_s_demand(fair: Fair) -> None:
    product = fair.product(fair.dataset(), tiers=tiers(("2", 900), ("1", 700), ("0.5", 250)))
    body = {"demand": DEMAND, "product": product["product"]}
    before = fair.stored()
    outcome = fair.client.post("/v1/price-simulations", json=body, headers=fair.owner().headers).json()
    menus = outcome["menus"]
    assert outcome["label"].startswith("up to")
    assert set(menus) == {"threshold", "envy_free", "single_tier", "current"}
    assert menus["current"]["prices_minor"] == [900, 700, 250]
    best = menus["envy_free"]
    assert best["self_selected_at_best_minor"] >= menus["single_tier"]["self_selected_at_best_minor"]
    assert best["prices_minor"] == sorted(best["prices_minor"], reverse=True)
    assert fair.stored() == before


@pytest.mark.parametrize(
    "demand",
    [
        [],
        [{"count": 0, "values_minor": [1]}],
        [{"count": 1, "values_minor": []}],
        [{"count": 1, "values_minor": [1, 2]}, {"count": 1, "values_minor": [1]}],
        [{"count": 1, "values_minor": [-1]}],
        [{"count": 1, "values_minor": [1.5]}],
        [{"count": 100_000, "values_minor": [1]}] * 2,
    ],
)
def test_demand_that_says_nothing_is_refused(fair: Fair, demand: list[dict[str, Any]]) -> None:
    refused = fair.client.post("/v1/price-simulations", json={"demand": demand}, headers=fair.owner().headers)
    assert refused.status_code == 400
    assert refused.headers["content-type"] == "application/problem+json"


def test_the_command_prints_the_menus_and_refuses_nonsense(tmp_path: Path) -> None:
    from click.testing import CliRunner

    from app.cli import main

    good, bad = tmp_path / "good.json", tmp_path / "bad.json"
    good.write_text(json.dumps(DEMAND))
    bad.write_text("[]")
    shown = CliRunner().invoke(main, ["price", "simulate", str(good), "--current", "900,700,250"])
    assert shown.exit_code == 0, shown.output
    assert "envy_free" in shown.output
    assert "up to" in shown.output
    refused = CliRunner().invoke(main, ["price", "simulate", str(bad)])
    assert refused.exit_code == 1
    assert "Traceback" not in refused.output


@pytest.mark.parametrize(
    ("current", "said"),
    [
        ("2,1", "one a tier"),
        ("250,700,900", "none above the tier before it"),
        *(
            (text, "--current: expected")
            for text in ("x", ",,", "", "9_0,8,7", "\u0661,1,1", "-3,-3,-3", "9" * 17, " 9,8,7")
        ),
    ],
)
def test_the_command_refuses_prices_that_are_none(tmp_path: Path, current: str, said: str) -> None:
    from click.testing import CliRunner

    from app.cli import main

    (tmp_path / "good.json").write_text(json.dumps(DEMAND))
    refused = CliRunner().invoke(main, ["price", "simulate", str(tmp_path / "good.json"), "--current", current])
    assert refused.exit_code == 1
    assert said in " ".join(refused.output.replace("│", " ").split())


def test_empty_demand_is_a_named_error() -> None:
    with pytest.raises(InvalidDemandError):
        simulate(Demand((), ()), None, UNLIMITED)


@given(
    st.lists(st.tuples(st.integers(1, 9), st.lists(st.integers(0, 50), min_size=3, max_size=3)), min_size=1, max_size=5)
)
@hypothesis_settings(max_examples=40, deadline=None)
def test_no_menu_is_claimed_to_earn_more_than_buyers_hold(kinds: list[tuple[int, list[int]]]) -> None:
    demand = Demand(tuple(count for count, _ in kinds), tuple(tuple(sorted(row, reverse=True)) for _, row in kinds))
    if not any(any(row) for row in demand.values):
        return
    held = sum(count * max(row) for count, row in zip(demand.counts, demand.values, strict=True))
    for menu in simulate(demand, None, UNLIMITED)["menus"].values():
        assert 0 <= menu["self_selected_minor"] <= menu["self_selected_at_best_minor"] <= held


def test_the_market_s_own_account_holds_the_fee(fair: Fair) -> None:
    fair.buy(fair.person(), fair.product(fair.dataset()), "1")
    pay(fair)
    held = select(accounts.c.balance_minor).where(accounts.c.id == "market_eur")
    assert fair.market.database.read_now(lambda connection: connection.execute(held).scalar_one()) == 300
