"""Invoices and credit notes: numbered without a gap, on lines that exist; money given back whatever the market holds."""

from typing import Any

import pytest
from sqlalchemy import select, text
from sqlalchemy.exc import IntegrityError

from app.store.database import open_engine, upgrade
from app.store.schema import accounts, invoices, orders, postings
from pricing.owners import SUB
from tests.conftest import Fair, Person, tiers


def credit(fair: Fair, sold: dict[str, Any], amount: int, **fields: Any) -> Any:
    body = {"amount_minor": amount, "reason": "pricing error"} | fields
    return fair.client.post(f"/v1/orders/{sold['receipt']['order']}/credits", json=body, headers=fair.operator.headers)


def invoice(fair: Fair, who: Person, sold: dict[str, Any]) -> dict[str, Any]:
    return dict(fair.client.get(f"/v1/orders/{sold['receipt']['order']}/invoice", headers=who.headers).json())


def pay(fair: Fair) -> dict[str, int]:
    return dict(
        fair.client.post("/v1/payouts", json={"currency": "EUR"}, headers=fair.operator.headers).json()["paid_minor"]
    )


def market_holds(fair: Fair) -> int:
    wanted = select(accounts.c.balance_minor).where(accounts.c.id == "market_eur")
    return int(fair.market.database.read_now(lambda connection: connection.execute(wanted).scalar_one()))


def booked(fair: Fair) -> int:
    rows = fair.market.database.read_now(lambda connection: connection.execute(select(postings)).all())
    held = fair.market.database.read_now(lambda connection: connection.execute(select(accounts)).all())
    assert sum(row.amount_minor for row in rows) == sum(row.balance_minor for row in held), "every cent is somewhere"
    return sum(row.amount_minor for row in rows if row.kind != "deposit")


def test_invoices_are_one_series_without_a_gap_whatever_fails_between(fair: Fair) -> None:
    product = fair.product(fair.dataset())
    first, second, poor = fair.person(), fair.person(), fair.person(deposit=1)
    numbers = []
    for who, epsilon in ((first, "0.5"), (second, "1"), (first, "1")):
        assert fair.order(poor, fair.quote(poor, product, "2"), f"no-{epsilon}").status_code == 402
        quote = fair.quote(who, product, epsilon)
        sold = fair.order(who, quote, epsilon).json()
        assert fair.order(who, quote, epsilon).json()["replayed"]
        numbers.append(invoice(fair, who, sold)["invoice"]["number"])
    assert numbers == ["INV-000001", "INV-000002", "INV-000003"]


def test_credit_notes_are_their_own_series_and_cite_the_invoice_s_lines(fair: Fair) -> None:
    dataset = fair.dataset(budget="10", reserve={"low_minor": 100, "high_minor": 2000})
    product, buyer = fair.product(dataset, tiers=tiers(("1", 10), ("0.5", 10))), fair.person()
    sold = fair.buy(buyer, product, "0.5")
    lines = invoice(fair, buyer, sold)["invoice"]["lines"]
    assert [(line["kind"], line["amount"]) for line in lines] == [("LIST", 10), ("RESERVE", 11)]
    assert credit(fair, sold, 3, line_no=2).json()["credit_notes"][0]["line_no"] == 2
    assert credit(fair, sold, 9, line_no=2).status_code == 400, "8 are left of that line"
    assert credit(fair, sold, 1, line_no=3).status_code == 400, "there is no third line"
    notes = credit(fair, sold, 18).json()["credit_notes"]
    assert [(note["number"], note["line_no"], note["amount"]) for note in notes] == [
        ("CN-000002", 1, 10),
        ("CN-000003", 2, 8),
    ]
    assert {note["invoice"] for note in notes} == {"INV-000001"}
    assert credit(fair, sold, 1).status_code == 400
    assert booked(fair) == 0


def test_the_market_gives_back_what_it_paid_out_and_owners_make_it_up(fair: Fair) -> None:
    owner, buyer = fair.owner(), fair.person()
    product = fair.product(fair.dataset())
    sold = fair.buy(buyer, product, "1")
    assert pay(fair) == {owner.account: 2700}
    assert market_holds(fair) == 300
    assert credit(fair, sold, 3000).status_code == 201
    assert market_holds(fair) == -2700, "what the owner was paid for a sale that is undone"
    assert booked(fair) == 0
    earned = fair.client.get("/v1/earnings", headers=owner.headers).json()
    assert earned["suspense_units"] == str(-2700 * SUB)
    assert pay(fair) == {}
    fair.buy(fair.person(), product, "1")  # 2700 for the owner, who owes as much
    assert pay(fair) == {}
    assert market_holds(fair) == 300
    fair.buy(fair.person(), product, "0.5")
    assert pay(fair) == {owner.account: 1080}
    assert market_holds(fair) == 420, "the fees of the two sales that stand"
    assert booked(fair) == 0


def test_nobody_but_the_market_may_owe(fair: Fair) -> None:
    product, poor = fair.product(fair.dataset()), fair.person(deposit=2999)
    assert fair.order(poor, fair.quote(poor, product, "1")).status_code == 402


def test_an_older_store_gets_its_numbers_and_keeps_its_rows(tmp_path: Any) -> None:
    engine = open_engine(f"sqlite:///{tmp_path / 'old.db'}")
    upgrade(engine, "0001")
    with engine.begin() as connection:
        run = connection.execute
        connection.exec_driver_sql("PRAGMA defer_foreign_keys = ON")
        for place, who in enumerate(("acc_1", "market_eur")):
            row = {"id": who, "role": "market" if place else "buyer", "name": who, "pseudonym": who, "currency": "EUR"}
            run(accounts.insert().values(**row, balance_minor=5, created_at="2026"))
        run(
            postings.insert().values(
                account_id="acc_1", kind="deposit", amount_minor=5, currency="EUR", reference="r", at="2026"
            )
        )
    upgrade(engine, "0002")
    with engine.begin() as connection:
        run = connection.execute
        assert run(select(accounts.c.id).order_by(accounts.c.id)).scalars().all() == ["acc_1", "market_eur"]
        assert run(text("PRAGMA foreign_key_check")).all() == []
        run(accounts.update().where(accounts.c.id == "market_eur").values(balance_minor=-7))
        assert run(select(invoices)).all() == []
        assert run(select(orders.c.id)).all() == []
    with pytest.raises(IntegrityError, match="balance_not_negative"), engine.begin() as connection:
        connection.execute(accounts.update().where(accounts.c.id == "acc_1").values(balance_minor=-1))
    engine.dispose()
