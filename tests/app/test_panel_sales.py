"""Tiers of panels sold like anything else: quotes, keys, receipts that verify offline, invoices, credits, listings."""

import json
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner

from app.cli import main
from app.panels.acts import _reports
from app.panels.rounds import counts_commitment
from app.settings import Settings
from tests.app.panelling import (
    DOMAIN,
    LICENCE,
    buy,
    close,
    deliver,
    lines,
    opened,
    order,
    quoted,
    reading,
    reports,
    rows,
)
from tests.conftest import Fair, Person, open_fair
from tests.conftest import rows as people


@pytest.fixture(scope="module")
def shop(tmp_path_factory: pytest.TempPathFactory) -> Any:
    yield from open_fair(Settings.at(tmp_path_factory.mktemp("panel-sales") / "market"))


def closed(shop: Fair, people: int = 40, **fields: Any) -> dict[str, Any]:
    panel = opened(shop, **fields)
    size = len(panel["domain"])
    deliver(shop, panel, reports=rows(panel, [place % size for place in range(people)]))
    assert close(shop, panel).status_code == 201
    return panel


def got(shop: Fair, who: Person, path: str) -> Any:
    response = shop.client.get(path, headers=who.headers)
    assert response.status_code == 200, response.text
    return response.json()


def balance(shop: Fair, who: Person) -> int:
    return int(got(shop, who, "/v1/account")["balance_minor"])


# --- quotes and orders ------------------------------------------------------------------------------------------------


def test_upgrades_telescope_to_the_list_price_and_what_is_held_costs_nothing(shop: Fair) -> None:
    panel, buyer = closed(shop), shop.person()
    offered = quoted(shop, buyer, panel, "0.5").json()
    assert [line["kind"] for line in offered["lines"]] == ["LIST"]
    assert (offered["amount_minor"], offered["licence"], offered["reports"]) == (100, LICENCE, 40)
    paid = [buy(shop, buyer, panel, epsilon).json()["receipt"]["price_minor"] for epsilon in ("0.5", "1.5", "3")]
    assert paid == [100, 200, 600]
    assert balance(shop, buyer) == 1_000_000 - 900
    lower = quoted(shop, buyer, panel, "1.5").json()
    assert (lower["amount_minor"], lower["lines"][1]["kind"]) == (0, "UPGRADE_CREDIT")


def test_a_key_makes_a_retry_the_same_order_and_another_request_a_conflict(shop: Fair) -> None:
    panel, buyer = closed(shop), shop.person()
    quote, dearer = (quoted(shop, buyer, panel, epsilon).json()["quote"] for epsilon in ("0.5", "3"))
    before = shop.stored()
    first, again = (order(shop, buyer, panel, quote, "same").json() for _ in range(2))
    assert (first["replayed"], again["replayed"]) == (False, True)
    assert {**again, "replayed": False} == first
    assert balance(shop, buyer) == 1_000_000 - 100
    after = shop.stored()
    assert (after["panel_orders"] - before["panel_orders"], after["leaves"] - before["leaves"]) == (1, 1)
    assert order(shop, buyer, panel, dearer, "same").status_code == 422
    path = f"/v1/panels/{panel['panel']}/orders"
    keyless = shop.client.post(path, json={"quote": dearer, "licence": LICENCE}, headers=buyer.headers)
    assert keyless.status_code == 400
    assert shop.stored() == after


@pytest.mark.parametrize("licence", [None, "terms/2"])
def test_an_order_accepts_the_licence_or_is_refused(shop: Fair, licence: str | None) -> None:
    panel, buyer = closed(shop), shop.person()
    quote = quoted(shop, buyer, panel, "0.5").json()["quote"]
    before = shop.stored()
    assert order(shop, buyer, panel, quote, "k", licence=licence).status_code in (400, 409)
    assert shop.stored() == before


def test_quotes_are_their_caller_s_own_their_panel_s_and_of_a_price_that_still_holds(shop: Fair) -> None:
    panel, other, buyer, stranger = closed(shop), closed(shop), shop.person(), shop.person()
    quote = quoted(shop, buyer, panel, "3").json()["quote"]
    assert order(shop, stranger, panel, quote, "k").status_code == 404
    assert order(shop, buyer, other, quote, "k").status_code == 404
    buy(shop, buyer, panel, "0.5")
    assert order(shop, buyer, panel, quote, "k").status_code == 409, "its credit has changed"
    assert quoted(shop, buyer, panel, "2").status_code == 404
    assert quoted(shop, buyer, panel, "3", 2).status_code == 404


def test_who_cannot_pay_leaves_nothing_behind(shop: Fair) -> None:
    panel, poor = closed(shop), shop.person(deposit=0)
    quote = quoted(shop, poor, panel, "3").json()["quote"]
    before = shop.stored()
    refused = order(shop, poor, panel, quote, "k")
    assert refused.status_code == 402
    assert shop.stored() == before
    assert reports(shop, poor, panel, 0).status_code == 403


# --- papers -----------------------------------------------------------------------------------------------------------


def bundle(shop: Fair, buyer: Person, sold: dict[str, Any]) -> dict[str, Any]:
    return dict(got(shop, buyer, f"/v1/orders/{sold['receipt']['order']}/proof"))


def verified(shop: Fair, kept: dict[str, Any], tmp_path: Path) -> set[str]:
    file = tmp_path / "bundle.json"
    file.write_text(json.dumps(kept))
    public = shop.client.get("/v1/keys").json()["signing"]["1"]
    done = CliRunner().invoke(main, ["receipt", "verify", str(file), "--public-key", public, "--json"])
    found = json.loads(done.output)["findings"]
    assert done.exit_code == (1 if found else 0)
    return {f"{each['check']} {each['rule']}" for each in found}


def test_a_receipt_is_signed_chained_to_the_one_before_and_verifies_offline(shop: Fair, tmp_path: Path) -> None:
    panel, buyer = closed(shop), shop.person()
    product = shop.product(shop.dataset(name="beside", table=people(seed=21)))
    answer = shop.buy(buyer, product, "0.1")
    sold = buy(shop, buyer, panel, "1.5").json()
    assert sold["receipt"]["previous"] is not None
    assert shop.buy(buyer, product, "0.5")["receipt"]["previous"] not in (None, sold["receipt"]["previous"])
    kept = bundle(shop, buyer, sold)
    assert verified(shop, kept, tmp_path) == set()
    assert got(shop, buyer, f"/v1/orders/{sold['receipt']['order']}") == sold["receipt"]
    counts = np.array(sold["counts"])
    assert counts_commitment(bytes.fromhex(sold["opening"]), counts) == sold["receipt"]["commitment"]
    assert kept["counts"] == sold["counts"]
    held = [place for report in lines(reports(shop, buyer, panel, 1)) for place in report]
    assert np.bincount(held, minlength=5).tolist() == sold["counts"]
    assert verified(shop, bundle(shop, buyer, answer), tmp_path) == set(), "and a product's as before"


SPOILT: list[tuple[Any, str]] = [
    (lambda kept: kept["counts"].__setitem__(0, kept["counts"][0] + 1), "A7 commitment"),
    (lambda kept: kept.update(opening="0" * 64), "A7 commitment"),
    (lambda kept: kept["receipt"].update(price_minor=1), "A4 receipt-signature"),
    (lambda kept: kept["receipt"].update(price_minor=1), "A3 receipt-of-leaf"),
    (lambda kept: kept["receipt"].update(epsilon="1"), "A1 tier-of-receipt"),
    (lambda kept: kept["sale"]["leaf"].update(rank=2), "A4 inclusion"),
    (lambda kept: kept["sale"]["leaf"].update(rank=2), "A4 leaf-hash"),
    (lambda kept: kept["round"]["leaf"]["record"].update(reports=41), "A4 round-signature"),
    (lambda kept: kept["panel"]["leaf"]["domain"].reverse(), "A1 panel-of-receipt"),
    (lambda kept: kept["panel"]["leaf"]["domain"].append("grey"), "A1 laws-of-panel"),
    (lambda kept: kept["head"].update(root="0" * 64), "A4 head-signature"),
    (lambda kept: kept.update(sale=kept["round"]), "A4 leaf-kind"),
    (lambda kept: kept["panel"]["leaf"].update(index=10**6), "A4 leaf-order"),
    (lambda kept: kept["receipt"].update(leaf_index=0), "A4 leaf-index"),
    (lambda kept: kept["receipt"].update(commitment="0" * 64), "A7 counts-of-round"),
    (lambda kept: kept["sale"]["leaf"].update(kind="hearsay"), "A4 unreadable-bundle"),
    (lambda kept: kept["sale"]["leaf"].update(rank=9), "A3 tier-of-round"),
    (lambda kept: kept["sale"]["leaf"].update(round=2), "A3 round-of-sale"),
    (lambda kept: kept["panel"]["leaf"]["tiers"][1]["law"].update(epsilon="1e9999999999"), "A1 panel-plan"),
]


@pytest.mark.parametrize(("spoil", "rule"), SPOILT)
def test_a_bundle_that_was_spoilt_is_refuted(shop: Fair, tmp_path: Path, spoil: Any, rule: str) -> None:
    panel, buyer = closed(shop), shop.person()
    kept = bundle(shop, buyer, buy(shop, buyer, panel, "1.5").json())
    spoil(kept)
    assert rule in verified(shop, kept, tmp_path)


def test_an_invoice_is_numbered_with_the_others_and_a_credit_reverses_what_the_owner_earned(shop: Fair) -> None:
    panel, buyer = closed(shop), shop.person()
    sold = buy(shop, buyer, panel, "3").json()["receipt"]["order"]
    paper = got(shop, buyer, f"/v1/orders/{sold}/invoice")
    assert paper["invoice"]["number"].startswith("INV-")
    assert (paper["invoice"]["total"], paper["credit_notes"]) == (900, [])
    earned = int(got(shop, shop.owner(), "/v1/earnings")["accrued_units"])
    body = {"amount_minor": 400, "reason": "pricing error"}
    credited = shop.client.post(f"/v1/orders/{sold}/credits", json=body, headers=shop.operator.headers)
    assert credited.status_code == 201, credited.text
    assert balance(shop, buyer) == 1_000_000 - 500
    assert int(got(shop, shop.owner(), "/v1/earnings")["accrued_units"]) == earned - 360 * 1_000_000
    assert len(got(shop, buyer, f"/v1/orders/{sold}/invoice")["credit_notes"]) == 1
    more = shop.client.post(
        f"/v1/orders/{sold}/credits", json=body | {"amount_minor": 501}, headers=shop.operator.headers
    )
    assert more.status_code in (400, 409, 422)
    assert reports(shop, buyer, panel, 0).status_code == 200, "what was learned stays readable"
    exported, _ = shop.export()
    assert b'"kind":"panel-sale"' in b"".join(exported)


def test_what_was_credited_is_no_credit_for_an_upgrade(shop: Fair) -> None:
    panel, buyer = closed(shop), shop.person()
    sold = buy(shop, buyer, panel, "1.5").json()["receipt"]["order"]
    body = {"amount_minor": 300, "reason": "duplicate charge"}
    assert shop.client.post(f"/v1/orders/{sold}/credits", json=body, headers=shop.operator.headers).status_code == 201
    assert quoted(shop, buyer, panel, "3").json()["amount_minor"] == 900


# --- listings ---------------------------------------------------------------------------------------------------------


def test_orders_and_entitlements_list_panels_beside_products_in_the_order_of_the_log(shop: Fair) -> None:
    panel, buyer = closed(shop), shop.person()
    product = shop.product(shop.dataset(name="listed", table=people(seed=22)))
    shop.buy(buyer, product, "0.1")
    for epsilon in ("0.5", "1.5"):
        buy(shop, buyer, panel, epsilon)
    order(shop, buyer, panel, quoted(shop, buyer, panel, "0.5").json()["quote"], "again")
    shop.buy(buyer, product, "0.5")
    listed = got(shop, buyer, "/v1/orders")
    assert [each["product"] for each in listed] == [product["product"], *[panel["panel"]] * 3, product["product"]]
    assert [each["epsilon"] for each in listed] == ["0.1", "0.5", "1.5", "0.5", "0.5"]
    assert [each["leaf_index"] for each in listed] == sorted(each["leaf_index"] for each in listed)
    paged = got(shop, buyer, f"/v1/orders?after={listed[1]['leaf_index']}&count=2")
    assert paged == listed[2:4]
    held = got(shop, buyer, "/v1/entitlements")
    assert [each["epsilon"] for each in held] == ["0.1", "0.5", "1.5", "0.5"], "a tier is held once"
    assert shop.client.get(held[1]["answer"], headers=buyer.headers).status_code == 200


def test_panels_are_found_by_words_and_shown_on_the_storefront(shop: Fair) -> None:
    panel = closed(shop, title="Colours of <b>kites</b>")
    unsold = opened(shop, title="Not yet a round of anything")
    anybody = shop.person("auditor")
    found = got(shop, anybody, "/v1/panels?q=KITES white")
    assert [each["panel"] for each in found] == [panel["panel"]]
    assert got(shop, anybody, "/v1/panels?q=kites purple") == []
    every = got(shop, anybody, "/v1/panels?count=200")
    assert [each["leaf_index"] for each in every] == sorted(each["leaf_index"] for each in every)
    page = shop.client.get("/").text
    assert "Colours of &lt;b&gt;kites&lt;/b&gt;" in page
    assert panel["panel"] in page
    assert unsold["panel"] not in page
    top = got(shop, anybody, f"/v1/panels/{panel['panel']}")["tiers"][0]
    buyer = shop.person()
    buy(shop, buyer, panel, "3")
    row = reading(shop, buyer, panel, "3", {"type": "count", "key": DOMAIN[0]}).json()["values"][0]
    bound = float(top["count_bar"]) * math.sqrt(40)
    assert 0.7 * bound < float(row["half_width"]) <= bound, "a listing tells the most that a bar can be"
    inner = reading(shop, buyer, panel, "3", {"type": "count", "key": DOMAIN[1]}).json()["values"][0]
    assert top["newest_half_width"] == inner["half_width"], "and, of the newest round, what a bar is"
    assert f"± {float(inner['half_width']):,.0f} reports" in page
    assert got(shop, anybody, f"/v1/panels/{unsold['panel']}")["tiers"][0]["newest_half_width"] is None


def test_a_round_whose_stored_counts_were_changed_is_not_sold(shop: Fair) -> None:
    from app.store.panel_schema import panel_tiers

    panel, buyer = closed(shop), shop.person()
    twin = closed(shop)
    name = panel_tiers.c.panel_id == panel["panel"]

    def swap(connection: Any) -> None:
        changed = shop.market.keyring.seal(np.arange(5).astype("<i8").tobytes(), f"panel/{panel['panel']}/1/0")
        connection.execute(panel_tiers.update().where(name, panel_tiers.c.rank == 0).values(sealed_counts=changed))

    shop.market.database.submit(swap).result()
    before = balance(shop, buyer)
    quote = quoted(shop, buyer, panel, "3").json()["quote"]
    assert order(shop, buyer, panel, quote, "k").status_code == 500
    assert balance(shop, buyer) == before
    assert buy(shop, buyer, twin, "3").status_code == 201
    assert _reports(shop.market, twin["panel"]).count(1) == 40
