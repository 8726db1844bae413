"""Owners take panels of either kind off sale and put them back: nothing is sold meanwhile, nobody asked, nothing lost."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import pytest
from sqlalchemy import select, text

from app.audit.verify import verify_export
from app.locations import running
from app.settings import Settings
from app.store.database import migrate, open_engine, upgrade
from app.store.location_schema import location_panels, location_rounds
from app.store.panel_schema import panels
from tests.app import locating, panelling
from tests.app.test_stopped_locations import BEFORE
from tests.conftest import Fair, Person, open_fair


@pytest.fixture
def shop(settings: Settings) -> Iterator[Fair]:
    yield from open_fair(settings)


@dataclass(frozen=True)
class Kind:
    """A panel that is on sale, and how it is quoted, bought and read."""

    path: str
    panel: dict[str, Any]
    quote: Callable[[Person], Any]
    order: Callable[[Person, str, str], Any]
    held: Callable[[Person, dict[str, Any]], Any]

    @property
    def own(self) -> str:
        return f"{self.path}/{self.panel['panel']}"


def of_devices(shop: Fair) -> Kind:
    panel = panelling.opened(shop)
    panelling.deliver(shop, panel, reports=panelling.rows(panel, [0, 1, 2, 3]))
    assert panelling.close(shop, panel).status_code == 201
    return Kind(
        "/v1/panels",
        panel,
        lambda who: panelling.quoted(shop, who, panel, "1.5"),
        lambda who, quote, key: panelling.order(shop, who, panel, quote, key),
        lambda who, _placed: panelling.reading(shop, who, panel, "1.5", {"type": "histogram"}),
    )


def of_places(shop: Fair) -> Kind:
    panel = locating.opened(shop, "here")
    return Kind(
        "/v1/locations",
        panel,
        lambda who: locating.quoted(shop, who, panel),
        lambda who, quote, key: locating.order(shop, who, panel, quote, key),
        lambda who, placed: shop.client.get(
            f"/v1/locations/{panel['panel']}/answers/{placed['query']}", headers=who.headers
        ),
    )


KINDS = pytest.mark.parametrize("kind", [of_devices, of_places], ids=["devices", "places"])


def move(shop: Fair, kind: Kind, state: str, who: Person | None = None) -> Any:
    headers = (who or shop.owner()).headers
    return shop.client.post(f"{kind.own}/state", json={"state": state}, headers=headers)


def listed(shop: Fair, kind: Kind, **wanted: Any) -> list[str]:
    sent = shop.client.get(kind.path, params=wanted, headers=shop.person().headers)
    assert sent.status_code == 200, sent.text
    return [each["panel"] for each in sent.json()]


@KINDS
def test_off_sale_nothing_is_sold_and_what_was_sold_is_read_as_before(shop: Fair, kind: Any) -> None:
    kind = kind(shop)
    ada, bruno = shop.person(), shop.person()
    quote = kind.quote(ada).json()["quote"]
    placed = kind.order(ada, quote, "first")
    assert placed.status_code == 201, placed.text
    open_quote = kind.quote(bruno).json()["quote"]
    read = kind.held(ada, placed.json())
    assert read.status_code in {200, 201}, read.text
    page = shop.client.get("/").text
    assert kind.panel["panel"] in page

    gone = move(shop, kind, "retired")
    assert (gone.status_code, gone.json()["state"]) == (201, "retired"), gone.text
    before = shop.stored()
    for refused in (kind.quote(bruno), kind.order(bruno, open_quote, "second")):
        assert refused.status_code == 409, refused.text
        assert refused.json()["detail"] == "panel: expected one on sale, got one that is retired"
    assert shop.stored() == before
    assert kind.held(ada, placed.json()).content == read.content
    again = kind.order(ada, quote, "first")
    assert again.status_code == 201
    assert again.json() == placed.json() | {"replayed": True}
    assert shop.client.get(kind.own, headers=bruno.headers).json()["state"] == "retired"
    assert kind.panel["panel"] not in shop.client.get("/").text
    assert (listed(shop, kind), listed(shop, kind, on_sale="false")) == ([], [kind.panel["panel"]])

    assert move(shop, kind, "live").json()["state"] == "live"
    assert (listed(shop, kind), listed(shop, kind, on_sale="false")) == ([kind.panel["panel"]], [])
    assert kind.order(bruno, open_quote, "second").status_code == 201
    lines, public = shop.export()
    assert verify_export(iter(lines), public).findings == ()


@KINDS
def test_only_its_owner_moves_a_panel_and_only_to_where_it_is_not(shop: Fair, kind: Any) -> None:
    kind = kind(shop)
    other, buyer = shop.person("owner"), shop.person()
    before = shop.stored()
    assert move(shop, kind, "live").status_code == 409
    stranger = move(shop, kind, "retired", other)
    missing = shop.client.post(f"{kind.path}/nothing/state", json={"state": "retired"}, headers=other.headers)
    assert (stranger.status_code, stranger.json()["detail"]) == (404, missing.json()["detail"])
    assert move(shop, kind, "retired", buyer).status_code == 403
    assert move(shop, kind, "draft").status_code == 400
    assert shop.stored() == before
    assert shop.client.get(kind.own, headers=other.headers).json()["state"] == "live"
    assert move(shop, kind, "retired").status_code == 201
    again = move(shop, kind, "retired")
    assert (again.status_code, "retired to retired" in again.json()["detail"]) == (409, True)


def test_off_sale_a_panel_takes_reports_and_its_next_round_is_sold_when_it_is_back(shop: Fair) -> None:
    kind, buyer = of_devices(shop), shop.person()
    move(shop, kind, "retired")
    sent = panelling.rows(kind.panel, [4, 4], first=10)
    assert panelling.deliver(shop, kind.panel, round=2, reports=sent).json()["accepted"] == 2
    assert panelling.close(shop, kind.panel).status_code == 201
    assert panelling.buy(shop, buyer, kind.panel, "1.5", 2).status_code == 409
    move(shop, kind, "live")
    assert panelling.buy(shop, buyer, kind.panel, "1.5", 2).status_code == 201


@pytest.mark.parametrize("place", [0, 1])
def test_a_question_that_is_open_when_its_panel_goes_off_sale_asks_nobody_further_and_goes_on_when_it_is_back(
    shop: Fair, monkeypatch: pytest.MonkeyPatch, place: int
) -> None:
    kind, buyer = of_places(shop), shop.person()
    quote = kind.quote(buyer).json()["quote"]
    released = running._Notes.released

    def rounds() -> list[int]:
        wanted = select(location_rounds.c.place).order_by(location_rounds.c.place)
        return list(shop.market.database.read_now(lambda connection: connection.execute(wanted).scalars()))

    def retires(notes: Any, at: int, who: Any, values: Any) -> None:
        released(notes, at, who, values)
        if at == place:
            here = location_panels.update().where(location_panels.c.id == kind.panel["panel"])
            shop.market.database.submit(lambda connection: connection.execute(here.values(state="retired"))).result()

    paid = shop.client.get("/v1/account", headers=buyer.headers).json()
    with monkeypatch.context() as patch:
        patch.setattr(running._Notes, "released", retires)
        refused = kind.order(buyer, quote, "k")
    assert (refused.status_code, "retired" in refused.json()["detail"]) == (409, True), refused.text
    assert rounds() == list(range(place + 1))
    assert shop.client.get("/v1/account", headers=buyer.headers).json() == paid
    move(shop, kind, "live")
    assert kind.order(buyer, quote, "k").status_code == 201
    assert len(rounds()) > place + 1
    lines, public = shop.export()
    assert verify_export(iter(lines), public).findings == ()


def test_panels_of_a_store_from_before_are_on_sale(settings: Settings) -> None:
    settings.prepare()
    engine = open_engine(settings.database_url)
    upgrade(engine, "0018")
    with engine.begin() as connection:
        for statement in BEFORE:
            connection.execute(text(statement), {"stopped": None} if ":stopped" in statement else {})
    migrate(engine)
    with engine.connect() as connection:
        for table in (panels, location_panels):
            assert connection.execute(select(table.c.state)).scalars().all() == ["live"]
    engine.dispose()
