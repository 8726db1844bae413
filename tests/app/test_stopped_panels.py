"""Panels that an audit stopped: a stop and its thaw are leaves, nothing is sold in between, and what is answered stays so."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import text

from app.audit import reports
from app.audit.reports import audit_market
from app.audit.stopping import stop
from app.audit.verify import verify_export
from app.panels import acts
from app.panels.acts import _folder
from app.settings import Settings
from app.store.database import migrate, open_engine, upgrade
from app.store.panel_schema import panel_stops
from tests.app.panelling import buy, close, deliver, opened, order, quoted, rows
from tests.app.panelling import reports as held_reports
from tests.app.test_panel_upgrade import ACCOUNT, PANEL
from tests.conftest import Fair, open_fair
from tiers.audit.findings import Finding

REASON = {"reason": "the file was restored"}
OF_LOG = Finding("A4", "root", "header", "a root", "another")


@pytest.fixture
def shop(settings: Settings) -> Iterator[Fair]:
    yield from open_fair(settings)


def closed(shop: Fair) -> dict[str, Any]:
    panel = opened(shop, mechanism="subset")
    deliver(shop, panel, reports=rows(panel, [place % 5 for place in range(30)]))
    assert close(shop, panel).status_code == 201
    return panel


def spoilt(shop: Fair, panel: dict[str, Any]) -> Path:
    file = _folder(shop.market, panel["panel"]) / "round-1" / "1.bin"
    file.write_bytes(file.read_bytes()[::-1])
    return file


def audited(shop: Fair) -> str:
    return str(audit_market(shop.market, lambda _: None)["verdict"])


def stopped(shop: Fair) -> dict[str, str]:
    listed = shop.client.get("/v1/stopped-panels", headers=shop._once("auditor").headers).json()
    return {each["panel"]: each["finding"] for each in listed}


def thaw(shop: Fair, panel: dict[str, Any]) -> Any:
    return shop.client.post(f"/v1/panels/{panel['panel']}/thaw", json=REASON, headers=shop.operator.headers)


def halted(shop: Fair, *findings: Finding) -> list[str]:
    return list(
        shop.market.database.submit(
            lambda connection: stop(connection, shop.market.keyring, findings, "a test", "2026-01-01T00:00:00Z")
        ).result()
    )


def kinds(shop: Fair) -> list[str]:
    leaves = shop.client.get("/v1/log/leaves?start=0&count=100", headers=shop.operator.headers).json()
    return [each["leaf"]["kind"] for each in leaves]


def rules(shop: Fair) -> set[str]:
    return {f"{each.check} {each.rule}" for each in verify_export(*shop.export()).findings}


def test_a_stopped_panel_sells_nothing_until_an_operator_thaws_it_in_the_open(shop: Fair) -> None:
    panel, other, buyer = closed(shop), closed(shop), shop.person()
    assert buy(shop, buyer, panel, "1.5").status_code == 201
    pending = quoted(shop, buyer, panel, "3").json()["quote"]
    file = spoilt(shop, panel)
    assert audited(shop) == "refuted"
    assert stopped(shop) == {panel["panel"]: "A7 round-withheld"}
    assert shop.client.get("/health/ready").json()["audit"] == "1 panels are stopped"
    metrics = shop.client.get("/metrics", headers=shop.operator.headers).text
    assert "tiermarket_stopped_panels 1.0" in metrics
    assert "tiermarket_frozen_chains 0.0" in metrics
    assert quoted(shop, buyer, panel, "3").json()["type"].endswith("chain-frozen")
    assert order(shop, buyer, panel, pending, "late").status_code == 409, "a quote from before is no way around"
    assert quoted(shop, buyer, other, "3").status_code == 201, "other panels go on"
    file.write_bytes(file.read_bytes()[::-1])
    assert len(held_reports(shop, buyer, panel, 1).content.splitlines()) == 30, "what was sold stays readable"
    assert (
        shop.client.post(f"/v1/panels/{panel['panel']}/thaw", json={}, headers=shop.operator.headers).status_code == 400
    )
    assert shop.client.post(f"/v1/panels/{panel['panel']}/thaw", json=REASON, headers=buyer.headers).status_code == 403
    assert thaw(shop, panel).json() == []
    assert thaw(shop, panel).status_code == 409, "it is not stopped"
    assert buy(shop, buyer, panel, "3").status_code == 201
    assert shop.client.get("/health/ready").json()["audit"] == "clear"
    assert kinds(shop)[-3:] == ["panel-stop", "panel-thaw", "panel-sale"]
    assert (audited(shop), rules(shop)) == ("verified", set())


def test_what_a_thaw_of_a_panel_answered_stops_nothing_again_and_another_panel_s_does(
    shop: Fair, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A leaf stays what it is, so what was told of it is answered for good: of its own panel alone."""
    panel, other = closed(shop), closed(shop)

    def found(*of: dict[str, Any]) -> None:
        wrong = [Finding("A1", "panel-law", f"leaf {each['leaf_index']}", "a law", "another") for each in of]
        monkeypatch.setattr(reports, "replay_rounds", lambda market, progress: wrong)

    found(panel)
    assert (audited(shop), set(stopped(shop))) == ("refuted", {panel["panel"]})
    thaw(shop, panel)
    assert (audited(shop), stopped(shop)) == ("answered", {}), "the finding is told as a notice"
    found(panel, other)
    assert (audited(shop), set(stopped(shop))) == ("refuted", {other["panel"]}), "another panel's is not answered"
    thaw(shop, other)
    assert (audited(shop), stopped(shop)) == ("answered", {})
    found(other)
    assert audited(shop) == "answered"
    found(panel, other)
    assert (audited(shop), set(stopped(shop))) == ("refuted", {panel["panel"]}), "it was mended, and broke again"
    assert audited(shop) == "refuted", "it has been told now, but its thaw came before"


def test_files_of_a_round_that_are_not_mended_stop_their_panel_after_every_thaw(shop: Fair) -> None:
    """What is wrong with a file may be something else at the next audit, whatever it is called."""
    panel, buyer = closed(shop), shop.person()
    buy(shop, buyer, panel, "1.5")
    file = spoilt(shop, panel)
    for _ in range(2):
        assert (audited(shop), set(stopped(shop))) == ("refuted", {panel["panel"]})
        thaw(shop, panel)
    file.write_bytes(file.read_bytes()[::-1])
    assert (audited(shop), stopped(shop)) == ("verified", {})


def test_a_thaw_that_cites_an_older_report_than_the_newest_is_refused(shop: Fair) -> None:
    panel, buyer = closed(shop), shop.person()
    buy(shop, buyer, panel, "1.5")
    spoilt(shop, panel)
    read = audit_market(shop.market, lambda _: None)["report"]
    newest = audit_market(shop.market, lambda _: None)["report"]
    path = f"/v1/panels/{panel['panel']}/thaw"
    before = shop.stored()
    refusal = shop.client.post(path, json=REASON | {"report": read}, headers=shop.operator.headers)
    assert refusal.status_code == 409, refusal.text
    assert "report" in refusal.json()["detail"]
    assert shop.stored() == before
    assert shop.client.post(path, json=REASON | {"report": newest}, headers=shop.operator.headers).status_code == 201


def test_a_finding_of_the_whole_log_stops_all_panels_and_one_of_the_noise_of_chains_none(shop: Fair) -> None:
    panels = sorted(closed(shop)["panel"] for _ in range(2))
    assert halted(shop, Finding("A5", "alarm", "all", "noise of its law", "another")) == []
    assert halted(shop, Finding("A3", "price", "leaf 3", "a price", "another", chain="c" * 64)) == []
    assert sorted(halted(shop, OF_LOG)) == panels
    assert halted(shop, OF_LOG) == [], "they are stopped"


def test_a_finding_about_a_panel_that_the_store_does_not_know_is_one_of_the_whole_log(shop: Fair) -> None:
    panel = closed(shop)["panel"]
    assert halted(shop, Finding("A7", "tier", "panel_unknown/1", "a tier", "another")) == [panel]


def test_a_market_that_sells_a_stopped_panel_is_found_by_whoever_verifies_its_log(
    shop: Fair, monkeypatch: pytest.MonkeyPatch
) -> None:
    panel, buyer = closed(shop), shop.person()
    shop.product(shop.dataset())
    halted(shop, OF_LOG)
    with monkeypatch.context() as lying:
        lying.setattr("app.panels.sales.refuse_stopped", lambda *_: None)
        assert buy(shop, buyer, panel, "1.5").status_code == 201
    assert "A3 panel-stopped" in rules(shop)


def test_a_tier_that_is_drawn_when_the_stop_comes_does_not_join_the_menu(
    shop: Fair, monkeypatch: pytest.MonkeyPatch
) -> None:
    panel, drawn = closed(shop), acts.draw_late

    def late(*given: Any) -> Any:
        halted(shop, OF_LOG)
        return drawn(*given)

    path, tier = f"/v1/panels/{panel['panel']}/tiers", {"epsilon": "2", "price_minor": 400}
    with monkeypatch.context() as patch:
        patch.setattr(acts, "draw_late", late)
        refused = shop.client.post(path, json=tier, headers=shop.owner().headers)
    assert (refused.status_code, refused.json()["type"].endswith("chain-frozen")) == (409, True), refused.text
    assert kinds(shop)[-1] == "panel-stop"
    assert shop.client.post(path, json=tier, headers=shop.owner().headers).status_code == 409
    thaw(shop, panel)
    assert shop.client.post(path, json=tier, headers=shop.owner().headers).status_code == 201
    assert rules(shop) == set()


def test_a_stop_from_before_stops_were_leaves_holds_and_is_logged_when_it_ends(shop: Fair) -> None:
    panel = closed(shop)
    kept = {"panel_id": panel["panel"], "finding": "A7 tier", "found_by": "an audit"}
    shop.market.database.submit(lambda held: held.execute(panel_stops.insert().values(**kept))).result()
    assert quoted(shop, shop.person(), panel, "3").status_code == 409
    assert thaw(shop, panel).status_code == 201
    assert kinds(shop)[-2:] == ["panel-stop", "panel-thaw"]


def test_the_stops_of_a_store_from_before_are_kept(settings: Settings) -> None:
    settings.prepare()
    engine = open_engine(settings.database_url)
    upgrade(engine, "0013")
    with engine.begin() as connection:
        for statement in (ACCOUNT, PANEL, "UPDATE panels SET stopped = 'A7 tier'"):
            connection.execute(text(statement))
    migrate(engine)
    with engine.connect() as connection:
        row = connection.execute(panel_stops.select()).one()
        assert (row.panel_id, row.finding, row.leaf_index) == ("p", "A7 tier", None)
    engine.dispose()
