"""Who waits in a line for long acts as they may act by then, and not as they might when they came."""

import threading
from collections.abc import Callable
from typing import Any

import pytest

from app.panels.readings import read
from app.store.exclusive import Turns
from tests.app import locating, panelling
from tests.conftest import Fair, Person


def waited(fair: Fair, kind: str, name: str, act: Callable[[], Any], meanwhile: Callable[[], Any]) -> Any:
    """What an act that waits for a turn came to, after something else was done meanwhile."""
    held, inside, found = Turns.held, threading.Event(), list[Any]()

    def told(turns: Turns, *asked: str, wait: bool = True) -> Any:
        inside.set()
        return held(turns, *asked, wait=wait)

    with fair.market.turns.held(kind, name), pytest.MonkeyPatch.context() as patch:
        patch.setattr(Turns, "held", told)
        thread = threading.Thread(target=lambda: found.append(act()))
        thread.start()
        assert inside.wait(60)
        meanwhile()
    thread.join(60)
    return found[0]


def suspend(fair: Fair, who: Person) -> None:
    path = f"/v1/accounts/{who.account}/suspension"
    response = fair.client.post(path, json={"reason": "stolen"}, headers=fair.operator.headers)
    assert response.status_code == 201, response.text


def test_nobody_is_asked_for_a_buyer_who_was_suspended_in_the_line(fair: Fair) -> None:
    panel, buyer = locating.opened(fair, "a"), fair.person()
    quote = locating.quoted(fair, buyer, panel).json()["quote"]
    response = waited(
        fair,
        "location",
        panel["panel"],
        lambda: locating.order(fair, buyer, panel, quote),
        lambda: suspend(fair, buyer),
    )
    assert (response.status_code, response.json()["type"].rpartition("/")[2]) == (403, "account-suspended")
    assert fair.stored()["location_rounds"] == fair.stored()["location_orders"] == 0


def test_nothing_is_drawn_for_a_buyer_who_was_suspended_in_the_line(fair: Fair) -> None:
    product, buyer = fair.product(fair.dataset()), fair.person()
    quote = fair.quote(buyer, product, "1")
    response = waited(fair, "draw", product["chain"], lambda: fair.order(buyer, quote), lambda: suspend(fair, buyer))
    assert (response.status_code, response.json()["type"].rpartition("/")[2]) == (403, "account-suspended")
    assert fair.stored()["draws"] == fair.stored()["orders"] == 0


def test_an_analyst_whose_ceiling_fell_in_the_line_is_held_to_it(fair: Fair) -> None:
    product, analyst = fair.product(fair.dataset()), fair.person("analyst", ceiling="1")
    quote = fair.quote(analyst, product, "1")

    def lower() -> None:
        path = f"/v1/accounts/{analyst.account}/ceiling"
        response = fair.client.post(path, json={"ceiling": "0.1"}, headers=fair.operator.headers)
        assert response.status_code in (200, 201), response.text

    response = waited(fair, "draw", product["chain"], lambda: fair.order(analyst, quote), lower)
    assert response.status_code == 403
    assert fair.stored()["orders"] == 0


def test_no_report_is_taken_from_an_owner_who_was_suspended_in_the_line(fair: Fair) -> None:
    panel, owner = panelling.opened(fair), fair.owner()
    rows = panelling.rows(panel, [0, 1])
    response = waited(
        fair,
        "panel",
        panel["panel"],
        lambda: panelling.deliver(fair, panel, reports=rows),
        lambda: suspend(fair, owner),
    )
    assert response.status_code == 403
    fair.client.delete(f"/v1/accounts/{owner.account}/suspension", headers=fair.operator.headers)
    assert panelling.deliver(fair, panel, reports=rows).json()["accepted"] == 2


def test_readings_of_one_buyer_hold_up_nobody_else(fair: Fair, monkeypatch: pytest.MonkeyPatch) -> None:
    """A histogram of 4,096 values takes a second: four at once were all of the store's readers, for everybody."""
    panel, buyer, other = panelling.opened(fair), fair.person(), fair.person()
    panelling.deliver(fair, panel, reports=panelling.rows(panel, [0, 1, 2]))
    panelling.close(fair, panel)
    assert panelling.buy(fair, buyer, panel, "1.5").status_code == 201
    begun, leave, found = threading.Event(), threading.Event(), list[Any]()
    at_once, most = [0], [0]

    def slow(*asked: Any, **more: Any) -> Any:
        at_once[0] += 1
        most[0] = max(most[0], at_once[0])
        begun.set()
        leave.wait(60)
        at_once[0] -= 1
        return read(*asked, **more)

    def ask() -> None:
        found.append(panelling.reading(fair, buyer, panel, "1.5", {"type": "histogram"}))

    monkeypatch.setattr("app.panels.acts.read", slow)
    readers = [threading.Thread(target=ask) for _ in range(8)]
    for each in readers:
        each.start()
    assert begun.wait(60)
    try:
        fair.market.authenticator.forget()
        assert fair.client.get(f"/v1/panels/{panel['panel']}", headers=other.headers).status_code == 200
        assert not found
    finally:
        leave.set()
        for each in readers:
            each.join(60)
    assert [each.status_code for each in found] == [201] * 8
    assert len({each.text for each in found}) == most[0] == 1


def test_nobody_stands_in_the_line_of_anothers_panel(fair: Fair) -> None:
    panel, other = panelling.opened(fair), fair.person("owner")
    path, rows = f"/v1/panels/{panel['panel']}", panelling.rows(panel, [0, 1])
    sent = {"version": 1, "round": 1, "reports": rows}
    with fair.market.turns.held("panel", panel["panel"]):
        told = [
            fair.client.post(f"{path}/reports", json=sent, headers=other.headers),
            fair.client.post(f"{path}/close", headers=other.headers),
            fair.client.post(f"{path}/tiers", json={"epsilon": "1", "price_minor": 200}, headers=other.headers),
            fair.client.get(f"{path}/spending", headers=other.headers),
        ]
    assert [each.status_code for each in told] == [404] * 4
