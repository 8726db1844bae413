"""Location panels that an audit stopped: stopped, told, answered and thawed as panels are, and no question is lost."""

from collections.abc import Iterator
from typing import Any

import pytest
import structlog
from alembic.autogenerate import compare_metadata
from alembic.migration import MigrationContext
from sqlalchemy import select, text
from sqlalchemy.exc import IntegrityError

from app.audit import reports
from app.errors import ChainFrozenError
from app.locations import acts, running
from app.locations.desk import open_question
from app.locations.replay import replay_location
from app.settings import Settings
from app.store.database import migrate, open_engine, upgrade
from app.store.location_schema import location_panels, location_rounds
from app.store.metadata import metadata
from app.store.panel_schema import panel_stops
from tests.app import panelling
from tests.app.locating import CENTRE, buy, disclosure, opened, order, points, quoted
from tests.app.test_locations import due_of, expected
from tests.app.test_panel_upgrade import ACCOUNT, PANEL
from tests.app.test_stopped_panels import OF_LOG, REASON, audited, halted, kinds, rules, stopped, thaw
from tests.conftest import Fair, open_fair
from tiers.audit.findings import Finding

NEAREST = {"type": "nearest", "point": ["50", "50"], "k": 3}
DENSITY = {"type": "density", "point": ["50", "50"], "bandwidth": "15"}


@pytest.fixture
def shop(settings: Settings) -> Iterator[Fair]:
    yield from open_fair(settings)


def told(monkeypatch: pytest.MonkeyPatch, *findings: Finding) -> None:
    """Let what audits find of panels be this, from here on."""
    monkeypatch.setattr(reports, "replay_rounds", lambda market, progress: list(findings))


def false_leaf(panel: dict[str, Any]) -> Finding:
    return Finding("A1", "location-law", f"leaf {panel['leaf_index']}", "a law", "another")


def lost_rounds(shop: Fair, panel: dict[str, Any]) -> Any:
    """Take a panel's charges out of the store; what is returned puts them back."""
    here = location_rounds.c.panel_id == panel["panel"]

    def take(connection: Any) -> list[dict[str, Any]]:
        rows = [dict(row) for row in connection.execute(select(location_rounds).where(here)).mappings()]
        connection.execute(location_rounds.delete().where(here))
        return rows

    rows = shop.market.database.submit(take).result()
    return lambda: shop.market.database.submit(lambda held: held.execute(location_rounds.insert(), rows)).result()


def test_a_stopped_location_panel_sells_nothing_until_an_operator_thaws_it_in_the_open(shop: Fair) -> None:
    """In a market that sells nothing else."""
    panel, other, buyer = opened(shop, "here"), opened(shop, "there", points(41, seed=6)), shop.person()
    pending, kept = (quoted(shop, buyer, panel, question).json()["quote"] for question in (NEAREST, CENTRE))
    sold = order(shop, buyer, panel, kept, "kept").json()
    mend = lost_rounds(shop, panel)
    with structlog.testing.capture_logs() as logs:
        assert audited(shop) == "refuted"
    assert [line["panel"] for line in logs if line["event"] == "panel stopped"] == [panel["panel"]]
    listed = shop.client.get("/v1/stopped-panels", headers=shop._once("auditor").headers).json()
    (newest,) = shop.client.get("/v1/audits", headers=shop.operator.headers).json()
    leaves = shop.client.get("/v1/log/leaves?count=100", headers=shop.operator.headers).json()
    leaf = leaves[newest["leaf_index"] + 1]["leaf"]
    assert (leaf["kind"], leaf["panel"], f"{leaf['check']} {leaf['rule']}") == (
        "panel-stop",
        panel["panel"],
        "A7 unreadable-location",
    )
    assert listed == [
        {
            "panel": panel["panel"],
            "finding": "A7 unreadable-location",
            "found_by": newest["report"],
            "at": newest["at"],
            "leaf_index": newest["leaf_index"] + 1,
        }
    ]
    assert shop.client.get("/health/ready").json()["audit"] == "1 panels are stopped"
    assert "tiermarket_stopped_panels 1.0" in shop.client.get("/metrics", headers=shop.operator.headers).text
    before = shop.stored()
    for refused in (
        quoted(shop, buyer, panel),
        quoted(shop, buyer, panel, DENSITY),
        order(shop, buyer, panel, pending),
    ):
        assert (refused.status_code, refused.json()["type"].endswith("chain-frozen")) == (409, True), refused.text
        assert refused.json()["detail"] == "panel: expected one that may be sold, got one that an audit has stopped"
    assert shop.stored() == before
    assert buy(shop, buyer, other).status_code == 201, "other panels go on"
    path = f"/v1/locations/{panel['panel']}/answers/{sold['query']}"
    assert shop.client.get(path, headers=buyer.headers).json()["answer"] == sold["answer"], "it stays readable"
    assert order(shop, buyer, panel, kept, "kept").json() == sold | {"replayed": True}
    mend()
    path = f"/v1/panels/{panel['panel']}/thaw"
    assert shop.client.post(path, json={}, headers=shop.operator.headers).status_code == 400
    assert shop.client.post(path, json=REASON, headers=buyer.headers).status_code == 403
    assert shop.client.post(path, json=REASON | {"report": "r"}, headers=shop.operator.headers).status_code == 409
    assert thaw(shop, panel).json() == []
    assert thaw(shop, panel).status_code == 409, "it is not stopped"
    assert order(shop, buyer, panel, pending).status_code == 201
    assert shop.client.get("/health/ready").json()["audit"] == "clear"
    assert kinds(shop)[-3:] == ["panel-thaw", "location-answer", "location-sale"]
    assert (audited(shop), stopped(shop), rules(shop)) == ("verified", {}, set())


def test_what_a_replay_finds_of_its_questions_stops_a_panel_after_every_thaw_until_it_is_mended(
    shop: Fair, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Even what names a leaf: whether its proof leads to the head is another thing at every head."""
    panel, buyer = opened(shop, "here"), shop.person()
    assert buy(shop, buyer, panel).status_code == 201
    mend = lost_rounds(shop, panel)
    for _ in range(2):
        assert (audited(shop), set(stopped(shop))) == ("refuted", {panel["panel"]})
        thaw(shop, panel)
    mend()
    assert (audited(shop), stopped(shop)) == ("verified", {})
    for where in (f"{panel['panel']}/question 3", "panel_unknown/1"):
        told(monkeypatch, Finding("A4", "inclusion", where, "leaf 7", "the proof does not lead to the head"))
        for _ in range(2):
            assert (audited(shop), set(stopped(shop))) == ("refuted", {panel["panel"]}), where
            thaw(shop, panel)


def test_what_a_thaw_answered_is_told_as_a_notice_and_another_panel_s_thaw_answers_nothing(
    shop: Fair, monkeypatch: pytest.MonkeyPatch
) -> None:
    panel, devices = opened(shop, "here"), panelling.opened(shop)
    told(monkeypatch, false_leaf(panel), false_leaf(devices))
    assert (audited(shop), set(stopped(shop))) == ("refuted", {panel["panel"], devices["panel"]})
    thaw(shop, devices)
    assert (audited(shop), set(stopped(shop))) == ("refuted", {panel["panel"]})
    thaw(shop, panel)
    assert (audited(shop), stopped(shop)) == ("answered", {})
    other = opened(shop, "there", points(41, seed=6))
    told(monkeypatch, false_leaf(panel), false_leaf(other))
    assert (audited(shop), set(stopped(shop))) == ("refuted", {other["panel"]})


def test_a_finding_of_the_whole_log_stops_panels_of_both_kinds_and_is_answered_on_each(
    shop: Fair, monkeypatch: pytest.MonkeyPatch
) -> None:
    panel, devices = opened(shop, "here"), panelling.opened(shop)
    assert halted(shop, Finding("A5", "alarm", "all", "noise of its law", "another")) == []
    assert halted(shop, Finding("A3", "price", "leaf 3", "a price", "another", chain="c" * 64)) == []
    wrong = Finding("A4", "key-purpose", "leaf 0", "a purpose", "another")
    told(monkeypatch, wrong)
    assert (audited(shop), set(stopped(shop))) == ("refuted", {panel["panel"], devices["panel"]})
    assert halted(shop, OF_LOG) == [], "they are stopped"
    thaw(shop, devices)
    assert (audited(shop), set(stopped(shop))) == ("refuted", {panel["panel"]}), "it is not answered everywhere"
    later = opened(shop, "there", points(41, seed=6))
    assert (audited(shop), set(stopped(shop))) == ("refuted", {panel["panel"]}), "nor held against one that came later"
    thaw(shop, panel)
    assert (audited(shop), stopped(shop)) == ("answered", {})
    assert quoted(shop, shop.person(), later).status_code == 201


def stops_after(shop: Fair, patch: pytest.MonkeyPatch, place: int) -> None:
    """Let an audit stop every panel once a question's round is drawn (from 0), or before the first."""
    released, places = running._Notes.released, acts.places_of

    def late(notes: Any, at: int, who: Any, values: Any) -> None:
        released(notes, at, who, values)
        if at == place:
            halted(shop, OF_LOG)

    def early(*given: Any) -> Any:
        halted(shop, OF_LOG)
        return places(*given)

    if place < 0:
        patch.setattr(acts, "places_of", early)
    else:
        patch.setattr(running._Notes, "released", late)


def rounds_of(shop: Fair, panel: dict[str, Any]) -> list[int]:
    wanted = select(location_rounds.c.place).where(location_rounds.c.panel_id == panel["panel"])
    return list(
        shop.market.database.read_now(lambda held: held.execute(wanted.order_by(location_rounds.c.place)).scalars())
    )


@pytest.mark.parametrize("after", ["nothing", "a round", "the last round"])
def test_a_question_that_is_open_when_the_stop_comes_is_charged_no_further_and_finished_first_after_the_thaw(
    shop: Fair, monkeypatch: pytest.MonkeyPatch, after: str
) -> None:
    panel, buyer, other = opened(shop, "here"), shop.person(), shop.person()
    due = due_of(panel, '{"k":3,"point":["50","50"],"type":"nearest"}')
    paper = expected(shop, panel, due)
    last = len(paper.leaf.rounds) - 1
    assert last > 1
    place = {"nothing": -1, "a round": 0, "the last round": last}[after]
    quote = quoted(shop, buyer, panel, NEAREST).json()["quote"]
    before = shop.stored()
    with monkeypatch.context() as patch:
        stops_after(shop, patch, place)
        refused = order(shop, buyer, panel, quote)
    assert (refused.status_code, refused.json()["type"].endswith("chain-frozen")) == (409, True), refused.text
    opens = place >= 0
    grown = {"panel_stops": 1, "leaves": 1, "heads": 1, "location_queries": opens, "location_rounds": place + 1}
    after_it = shop.stored()
    assert {name: after_it[name] - before[name] for name in grown} == grown
    assert {name for name in before if before[name] != after_it[name]} <= {*grown, "redo_records"}
    assert rounds_of(shop, panel) == list(range(place + 1))
    begun = shop.market.database.read_now(lambda held: open_question(held, panel["panel"]))
    assert begun == (due if opens else None)
    with pytest.raises(ChainFrozenError):  # whoever was admitted before the stop
        acts.answer_question(shop.market, panel["panel"], due)
    assert rounds_of(shop, panel) == list(range(place + 1))
    assert kinds(shop)[-1] == "panel-stop"
    thaw(shop, panel)
    assert buy(shop, other, panel, DENSITY).status_code == 201
    sold = order(shop, buyer, panel, quote).json()
    if opens:
        assert (sold["answer"], sold["receipt"]["commitment"]) == (paper.answer, paper.leaf.answer)
    lines, public = disclosure(shop, panel)
    replayed = replay_location(lines, [public])
    assert (replayed.findings, replayed.answers) == ((), 2)
    assert (audited(shop), rules(shop)) == ("verified", set())


def test_a_market_that_sells_or_asks_a_stopped_location_panel_is_found_by_whoever_verifies_its_log(
    shop: Fair, monkeypatch: pytest.MonkeyPatch
) -> None:
    panel, buyer = opened(shop, "here"), shop.person()
    assert buy(shop, shop.person(), panel).status_code == 201
    halted(shop, OF_LOG)
    with monkeypatch.context() as lying:
        lying.setattr("app.locations.sales.refuse_stopped", lambda *_: None)
        assert buy(shop, buyer, panel).status_code == 201
        assert buy(shop, buyer, panel, NEAREST).status_code == 409, "nobody is asked"
    assert kinds(shop)[-2:] == ["panel-stop", "location-sale"]
    assert rules(shop) == {"A3 panel-stopped"}
    thaw(shop, panel)
    assert rules(shop) == {"A3 panel-stopped"}, "a thaw takes nothing back"


def test_a_market_that_asks_on_when_a_panel_was_stopped_is_found(shop: Fair, monkeypatch: pytest.MonkeyPatch) -> None:
    panel, buyer = opened(shop, "here"), shop.person()
    with monkeypatch.context() as lying:
        stops_after(shop, lying, 0)
        lying.setattr("app.locations.desk.refuse_stopped", lambda *_: None)
        assert buy(shop, buyer, panel).status_code == 409
    assert kinds(shop)[-2:] == ["panel-stop", "location-answer"]
    assert rules(shop) == {"A3 panel-stopped"}


# --- stops from before they were leaves ------------------------------------------------------------------------------


def test_a_stop_from_before_stops_were_leaves_holds_and_is_logged_when_it_ends(shop: Fair) -> None:
    panel, buyer = opened(shop, "here"), shop.person()
    kept = {"panel_id": panel["panel"], "finding": "A7 location-withheld", "found_by": "an audit"}
    shop.market.database.submit(lambda held: held.execute(panel_stops.insert().values(**kept))).result()
    listed = shop.client.get("/v1/stopped-panels", headers=shop.operator.headers).json()
    assert [(each["at"], each["leaf_index"]) for each in listed] == [(None, None)]
    assert quoted(shop, buyer, panel).status_code == 409
    assert halted(shop, OF_LOG) == []
    assert thaw(shop, panel).status_code == 201
    assert kinds(shop)[-2:] == ["panel-stop", "panel-thaw"]
    assert buy(shop, buyer, panel).status_code == 201
    assert rules(shop) == set()


BEFORE = (
    ACCOUNT,
    PANEL,
    "INSERT INTO datasets (id, owner_id, name, title, description, notice, salt, schema_json, budget_nano, spent_nano, "
    "contract_version, created_at) VALUES ('d', 'a', 'n', 't', '', '', 's', '{}', 1, 0, 1, 'now')",
    "INSERT INTO snapshots (id, dataset_id, number, content, seal, file, created_at) "
    "VALUES ('s', 'd', 1, 'c', 's', 'f', 'now')",
    "INSERT INTO location_panels (id, owner_id, dataset_id, snapshot_id, title, unit, axes_json, grain, people, "
    "budget_nano, query_nano, beta, rounds, prices_json, currency, licence, epoch, answered, sealed_spent, leaf_index, "
    "stopped, created_at) VALUES ('location_1', 'a', 'd', 's', 't', 'km', '[]', '1', 2, 1, 1, '0.1', 1, '{}', 'EUR', "
    "'l', 1, 0, x'00', 5, :stopped, 'now')",
    "INSERT INTO panel_stops VALUES ('p', 'A7 tier', 'report_1', '2026', 7)",
)


@pytest.mark.parametrize("finding", ["A7 location-withheld", "A7 " + "x" * 100, None])
def test_the_stops_of_a_store_from_before_are_kept(settings: Settings, finding: str | None) -> None:
    settings.prepare()
    engine = open_engine(settings.database_url)
    upgrade(engine, "0018")
    with engine.begin() as connection:
        for statement in BEFORE:
            connection.execute(text(statement), {"stopped": finding} if ":stopped" in statement else {})
    migrate(engine)
    with engine.connect() as connection:
        rows = {row.panel_id: tuple(row)[1:] for row in connection.execute(panel_stops.select())}
        of_panel = {"p": ("A7 tier", "report_1", "2026", 7)}
        kept = {} if finding is None else {"location_1": (finding[:80], "an audit", None, None)}
        assert rows == of_panel | kept
        assert connection.execute(select(location_panels.c.id)).scalars().all() == ["location_1"]
        assert compare_metadata(MigrationContext.configure(connection), metadata) == []
    with engine.begin() as connection, pytest.raises(IntegrityError):
        connection.execute(panel_stops.insert().values(panel_id="p", finding="A7 tier", found_by="twice"))
    engine.dispose()
