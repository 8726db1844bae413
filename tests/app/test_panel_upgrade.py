"""Panels of a store from before rounds were logged: what was bought stays readable, the open round goes on, in the log."""

from collections.abc import Iterator
from typing import Any

import msgspec
import pytest
from alembic.migration import MigrationContext
from sqlalchemy import select, text

from app.panels import opening
from app.panels.acts import _folder, _reports
from app.panels.mechanism import plan_of
from app.panels.replay import replay_round
from app.panels.rounds import RUN, close_round
from app.settings import Settings
from app.store.database import migrate, open_engine, upgrade
from app.store.metadata import metadata
from app.store.panel_schema import panel_orders, panel_rounds, panels
from tests.app.panelling import buy, close, deliver, disclosure, lines, opened, quoted, reading, reports, rows
from tests.audit.exports import found, parse
from tests.conftest import Fair, open_fair

PANEL = (
    "INSERT INTO panels (id, owner_id, title, mechanism, domain_json, menu_json, prices_json, currency, licence, budget_nano, "
    "epoch, round, created_at) VALUES ('p', 'a', 't', 'randomized-response', '[\"x\",\"y\"]', '[\"1\"]', '[5]', 'EUR', 'l', 9, "
    "1, 2, 'now')"
)
ORDER = (
    "INSERT INTO panel_orders (id, account_id, panel_id, number, rank, amount_minor, currency, created_at) "
    "VALUES ('o', 'a', 'p', 1, 0, 5, 'EUR', 'now')"
)
ACCOUNT = (
    "INSERT INTO accounts (id, role, name, pseudonym, currency, balance_minor, created_at) "
    "VALUES ('a', 'owner', 'o', 'p', 'EUR', 0, 'now')"
)


def test_a_store_from_before_keeps_its_panels_and_its_orders(settings: Settings) -> None:
    settings.prepare()
    engine = open_engine(settings.database_url)
    upgrade(engine, "0007")
    with engine.begin() as connection:
        for statement in (ACCOUNT, PANEL, ORDER):
            connection.execute(text(statement))
    migrate(engine)
    with engine.connect() as connection:
        from alembic.autogenerate import compare_metadata

        assert compare_metadata(MigrationContext.configure(connection), metadata) == []
        panel = connection.execute(select(panels)).one()
        assert (panel.mechanism, panel.laws_json, panel.leaf_index) == ("singletons", None, None)
        order = connection.execute(select(panel_orders)).one()
        assert (order.id, order.account_id, order.amount_minor, order.list_minor) == ("o", "a", 5, 5)
        assert (order.receipt_json, order.leaf_index) == (None, None)
    engine.dispose()


@pytest.fixture
def shop(settings: Settings) -> Iterator[Fair]:
    yield from open_fair(settings)


def aged(shop: Fair) -> tuple[dict[str, Any], Any]:
    """A panel as the version before left it: one closed round that was sold, one open with reports in it."""
    panel, buyer = opened(shop, mechanism="subset"), shop.person()
    name = panel["panel"]
    deliver(shop, panel, reports=rows(panel, [place % 5 for place in range(30)]))
    close(shop, panel)
    assert buy(shop, buyer, panel, "1.5").status_code == 201

    def forget(connection: Any) -> None:
        record = msgspec.json.decode(connection.execute(select(panel_rounds.c.record)).scalar_one())
        for tier in record["tiers"]:
            del tier["counts"]
        kept = {"record": msgspec.json.encode(record).decode(), "leaf_index": None}
        connection.execute(panel_rounds.update().where(panel_rounds.c.panel_id == name).values(**kept))
        connection.execute(panel_orders.update().values(leaf_index=None, receipt_json=None))
        connection.execute(panels.update().where(panels.c.id == name).values(leaf_index=None, laws_json=None))

    shop.market.database.submit(forget).result()
    return panel, buyer


def test_what_was_bought_before_is_read_and_not_sold_and_the_next_round_is_logged(shop: Fair) -> None:
    panel, buyer = aged(shop)
    assert len(lines(reports(shop, buyer, panel, 1))) == 30
    assert reading(shop, buyer, panel, "1.5", {"type": "histogram"}).status_code == 201
    refused = quoted(shop, buyer, panel, "3")
    assert refused.status_code == 409
    assert "before rounds were logged" in refused.json()["detail"]
    path = f"/v1/panels/{panel['panel']}/rounds/1/replay"
    assert shop.client.get(path, headers=shop._once("auditor").headers).status_code == 409
    deliver(shop, panel, round=2, reports=rows(panel, [0, 1, 2, 3]))
    assert close(shop, panel).status_code == 201
    listing = shop.client.get(f"/v1/panels/{panel['panel']}", headers=buyer.headers).json()
    assert [each["leaf_index"] is None for each in listing["rounds"]] == [True, False]
    assert listing["leaf_index"] < listing["rounds"][1]["leaf_index"]
    assert buy(shop, buyer, panel, "1.5", 2).status_code == 201
    assert len(disclosure(shop, panel, 2)[0]) == 5


def test_a_round_of_the_old_form_of_randomised_response_has_the_files_it_had(shop: Fair, settings: Settings) -> None:
    plan = plan_of("singletons", 20, plan_of("subset", 20, _menu()).ladder)
    folder = _folder(shop.market, "panel_old")
    held = _reports(shop.market, "panel_old")
    assert held.count(1) == 0
    raw = plan.pack(_lists())[0].tobytes()
    made = close_round(plan, bytes(32), "panel_old", 1, 1, [raw], folder / "round-1", "now")
    assert made.record.mechanism == "singletons"
    assert len((folder / "round-1" / "0.bin").read_bytes()) == 3 * 8
    assert RUN > 3


def test_a_panel_from_before_the_log_enters_it_with_the_round_it_closes(
    shop: Fair, monkeypatch: pytest.MonkeyPatch
) -> None:
    shop.product(shop.dataset())
    monkeypatch.setattr(opening, "log_panel", lambda *_: None)
    panel, buyer = opened(shop, mechanism="randomized-response"), shop.person()
    monkeypatch.undo()
    old = panels.update().where(panels.c.id == panel["panel"]).values(mechanism="singletons", laws_json=None, round=3)
    shop.market.database.submit(lambda connection: connection.execute(old)).result()
    for number in (3, 4):
        deliver(shop, panel, round=number, reports=rows(panel, [0, 1, 2, 3]))
        assert close(shop, panel).status_code == 201
        assert buy(shop, buyer, panel, "1.5", number).status_code == 201
    export = parse(*shop.export())
    assert export.verify().findings == ()
    for number in (3, 4):
        lines, public = disclosure(shop, panel, number)
        assert replay_round(lines, [public]).verdict == "verified"
    late = parse(*shop.export())
    at = next(at for at, each in enumerate(late.leaves) if each["leaf"]["kind"] == "panel-round")
    del late.leaves[at]  # now the fourth round comes first, and not at the panel's own moment
    assert "A4 round-order" in found(late.signed_anew().verify())


def _menu() -> Any:
    from tiers.budget import Ladder

    return Ladder.parse(["2", "1"])


def _lists() -> Any:
    from app.panels.plans.lists import Lists

    return Lists.of([[0], [7], [19]])
