"""One honest export that holds leaves of every kind; each test gets a copy of its own."""

import copy

import pytest

from app.audit.freezing import freeze
from app.audit.reports import audit_market
from app.audit.stopping import stop
from app.settings import Settings
from tests.app.locating import buy as buy_answer
from tests.app.locating import opened as opened_location
from tests.app.locating import points
from tests.app.panelling import buy as buy_tier
from tests.app.panelling import close, deliver
from tests.app.panelling import opened as opened_panel
from tests.app.panelling import rows as panel_rows
from tests.audit.exports import Export, parse
from tests.conftest import HISTOGRAM, PEOPLE, TOTAL, open_fair, rows, tiers
from tiers.audit.findings import Finding

WHERE = {"type": "comparison", "column": "city", "operator": "=", "value": "Cork"}


@pytest.fixture(scope="session")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Export:
    opened = open_fair(Settings.at(tmp_path_factory.mktemp("whole") / "market"))
    fair = next(opened)

    def post(path: str, body: dict[str, object], who: object = None) -> dict[str, str]:
        response = fair.client.post(path, json=body, headers=getattr(who or fair.owner(), "headers", {}))
        assert response.status_code == 201, response.text
        return dict(response.json())

    ada, bruno, analyst = fair.person(), fair.person(), fair.person("analyst")
    open_one = fair.dataset(adhoc=["1", "0.5"])
    cities, people = fair.product(open_one), fair.product(open_one, PEOPLE)
    total = fair.product(open_one, TOTAL | {"where": WHERE})
    fair.product(open_one, tiers=tiers(("1", 3000), ("0.1", 500)))
    sold = [fair.buy(ada, cities, "0.5"), fair.buy(ada, cities, "1"), fair.buy(bruno, people, "1")]
    post(f"/v1/products/{cities['product']}/prices", {"currency": "EUR", "prices_minor": [8000, 3000, 900, 0]})
    fair.buy(bruno, cities, "1")
    fair.buy(ada, total, "2")
    asked = post(
        "/v1/questions",
        {"dataset": open_one, "query": {"measure": {"type": "count", "of": "units"}, "where": WHERE}},
        analyst,
    )
    fair.buy(analyst, asked, "0.5")
    scarce = fair.dataset(
        name="scarce", budget="1", table=rows(seed=9), reserve={"low_minor": 100_000, "high_minor": 200_000}
    )
    dear = fair.product(scarce, HISTOGRAM | {"rows_per_unit": 2}, tiers=tiers(("0.5", 2000), ("0.1", 1000)))
    assert fair.buy(bruno, dear, "0.5")["receipt"]["price_minor"] > 2000, "the reserve is above the list"
    promised = fair.dataset(
        name="promised", budget_kind="approx", budget="3", budget_delta="0.000001", table=rows(seed=11)
    )
    noisy = fair.product(
        promised, HISTOGRAM, family="skellam", delta="0.000001", tiers=tiers(("0.5", 900), ("0.1", 90))
    )
    fair.buy(bruno, noisy, "0.1")
    panel = opened_panel(fair, mechanism="subset", tiers=tiers(("2", 900), ("1", 300), ("0.5", 100)))
    deliver(fair, panel, reports=panel_rows(panel, [place % 5 for place in range(30)]))
    close(fair, panel)
    for who, epsilon in ((ada, "1"), (bruno, "0.5"), (ada, "2")):
        assert buy_tier(fair, who, panel, epsilon).status_code == 201
    post(f"/v1/panels/{panel['panel']}/tiers", {"epsilon": "1.5", "price_minor": 500})
    post(f"/v1/panels/{panel['panel']}/tiers", {"epsilon": "1.25", "price_minor": 400})
    assert buy_tier(fair, bruno, panel, "1.5").status_code == 201
    axes = [{"name": name, "unit": "one", "values": ["a", "b", "c"]} for name in ("north", "east")]
    grid = {"title": "Points", "axes": axes, "promise": "steps", "tiers": tiers(("1", 300), ("0.5", 100))}
    post("/v1/panels", grid | {"currency": "EUR", "licence": "terms/1", "budget": "3"}, fair.owner())
    places = opened_location(fair, "places")
    other = opened_location(fair, "elsewhere", points(41, seed=6))
    for on in (places, other):
        for question in ({"type": "nearest", "point": ["50", "50"], "k": 3}, None):
            assert buy_answer(fair, ada, on, question).status_code == 201
    (fair.market.settings.data / "next.csv").write_text(rows(seed=10))
    post(f"/v1/datasets/{open_one}/snapshots", {"file": "next.csv"})
    for order in (sold[0], sold[2]):
        body: dict[str, object] = {"amount_minor": 100, "reason": "pricing error"}
        post(f"/v1/orders/{order['receipt']['order']}/credits", body, fair.operator)
    alarm = Finding("A5", "alarm", "chain", "noise of its law", "e-value above 10⁶", chain=cities["chain"])
    freezing = fair.market.database.submit(
        lambda connection: freeze(connection, fair.market.keyring, [alarm], "a test", "2026-01-01T00:00:00Z")
    )
    assert freezing.result() == [cities["chain"]]
    post(f"/v1/chains/{cities['chain']}/thaw", {"reason": "the alarm was a drill"}, fair.operator)
    fair.buy(bruno, cities, "0.5")
    halt = Finding("A7", "tier", f"{panel['panel']}/1", "tier 1 as committed to", "other reports")
    stopping = fair.market.database.submit(
        lambda connection: stop(connection, fair.market.keyring, [halt], "a test", "2026-01-01T00:00:00Z")
    )
    assert stopping.result() == [panel["panel"]]
    post(f"/v1/panels/{panel['panel']}/thaw", {"reason": "the file was restored"}, fair.operator)
    assert buy_tier(fair, bruno, panel, "1").status_code == 201
    doubt = Finding("A7", "transcript", f"{places['panel']}/question 1", "a transcript", "another")
    stopping = fair.market.database.submit(
        lambda connection: stop(connection, fair.market.keyring, [doubt], "a test", "2026-01-01T00:00:00Z")
    )
    assert stopping.result() == [places["panel"]]
    post(f"/v1/panels/{places['panel']}/thaw", {"reason": "the snapshot was restored"}, fair.operator)
    assert buy_answer(fair, bruno, places).status_code == 201
    assert buy_answer(fair, bruno, places, budget="1").status_code == 201
    for _ in range(2):
        audit_market(fair.market, lambda _: None)
    post(f"/v1/products/{people['product']}/withdrawal", {"reason": "faulty"})
    lines, public = fair.export()
    opened.close()
    return parse(lines, public)


@pytest.fixture
def export(whole: Export) -> Export:
    return copy.deepcopy(whole)
