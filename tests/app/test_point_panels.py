"""Panels over grids on the market: opened, reported, sold, read, replayed, and what is told of the promise."""

import math
from fractions import Fraction
from typing import Any

import msgspec
import numpy as np
import pytest

from app.audit.location_receipts import verify_any_bundle
from app.audit.panel_receipts import PanelBundle, verify_panel_bundle
from app.audit.panels import PanelAudit
from app.log.axes import Axis
from app.log.panel_leaves import PanelLeaf
from app.panels.device import encode
from app.panels.plans.points import PointsPlan
from app.panels.readings import Reading, read
from app.panels.replay import replay_round
from app.settings import Settings
from tests.app.panelling import buy, close, deliver, disclosure, lines, opened, quoted, reading, reports, stream
from tests.app.test_points import AXES, HOURS, MENU
from tests.conftest import Fair, open_fair, tiers
from tiers.budget import Ladder
from tiers.metric.products import half_width

LICENCE = "terms/1"
PEOPLE = 9_600
NOMINAL, RARE = Fraction(1, 20), Fraction(1, 10**12)


@pytest.fixture(scope="module")
def shop(tmp_path_factory: pytest.TempPathFactory) -> Any:
    yield from open_fair(Settings.at(tmp_path_factory.mktemp("points") / "market"))


def request(**fields: Any) -> dict[str, Any]:
    return {
        "title": "Flights by hour and delay",
        "axes": AXES,
        "promise": "steps",
        "tiers": tiers(*((epsilon, 900 - 100 * place) for place, epsilon in enumerate(MENU))),
        "currency": "EUR",
        "licence": LICENCE,
        "budget": "4",
    } | fields


def grid_panel(shop: Fair, **fields: Any) -> dict[str, Any]:
    response = shop.client.post("/v1/panels", json=request(**fields), headers=shop.owner().headers)
    assert response.status_code == 201, response.text
    return dict(response.json())


def rows(panel: dict[str, Any], points: list[tuple[int, int]], seed: int = 1) -> list[dict[str, Any]]:
    read, law, size = stream(seed), panel["device_law"], panel["domain_size"]
    return [{"device": f"d{place}", "report": encode(law, size, point, read)} for place, point in enumerate(points)]


def people(count: int) -> list[tuple[int, int]]:
    return [(place % 5, place % 3) for place in range(count)]


@pytest.mark.parametrize(
    "fields",
    [
        {"domain": ["a", "b"]},
        {"axes": []},
        {"axes": None},
        {"promise": "values"},
        {"mechanism": "flips"},
        {"mechanism": "subset"},
        {"axes": [AXES[0], AXES[0]]},
        {"axes": [AXES[0] | {"values": ["a", "a"]}]},
        {"axes": [AXES[0] | {"values": ["a"]}]},
        {"axes": [*AXES, *({"name": f"a{n}", "unit": "u", "values": ["x", "y"]} for n in range(2))]},
        {"axes": [{"name": f"a{n}", "unit": "u", "values": [str(v) for v in range(300)]} for n in range(2)]},
        {"axes": [{"name": "hour", "values": HOURS}]},
        {"budget": "1.9"},
    ],
)
def test_a_panel_that_is_no_grid_is_refused(shop: Fair, fields: dict[str, Any]) -> None:
    response = shop.client.post("/v1/panels", json=request(**fields), headers=shop.owner().headers)
    assert response.status_code == 400, response.text
    assert response.headers["content-type"] == "application/problem+json"


def test_axes_without_a_promise_are_told_which_one_is_due(shop: Fair) -> None:
    """A promise that is left out is of any two values: the refusal names it, and no mechanism that nobody sent."""
    sent = request()
    del sent["promise"]
    response = shop.client.post("/v1/panels", json=sent, headers=shop.owner().headers)
    assert response.status_code == 400
    assert response.json()["detail"] == 'promise: expected "steps" of a panel with axes, got "values"'


@pytest.fixture(scope="module")
def sold(shop: Fair) -> Any:
    """A round of points, the middle tier sold."""
    panel, buyer = grid_panel(shop), shop.person()
    bad = [{"device": "x1", "report": [8]}, {"device": "x2", "report": [3, 1]}, {"device": "d0", "report": [0]}]
    done = deliver(shop, panel, reports=[*rows(panel, people(PEOPLE)), *bad]).json()
    lines_of_bad = [PEOPLE + place for place in (1, 2, 3)]
    assert (done["accepted"], [refusal["line"] for refusal in done["refusals"]]) == (PEOPLE, lines_of_bad)
    closed = close(shop, panel)
    assert closed.status_code == 201, closed.text
    bought = buy(shop, buyer, panel, "1")
    assert bought.status_code == 201, bought.text
    return panel, buyer, bought.json(), closed.json()


def test_what_epsilon_promises_is_said_wherever_the_tier_is(shop: Fair, sold: Any) -> None:
    panel, buyer, bought, _ = sold
    due = (
        "ε = 1 for each step between neighbouring values, steps of all axes added up; "
        "ε = 8 for the two values farthest apart (8 steps)"
    )
    assert (panel["mechanism"], panel["promise"], panel["domain"], panel["domain_size"]) == ("points", "steps", [], 24)
    assert panel["metric"] == {"distance": "l1", "unit": "step", "diameter": 8}
    assert panel["axes"] == AXES
    assert [(tier["epsilon"], tier["across"]) for tier in panel["tiers"]] == [("2", "16"), ("1", "8"), ("0.5", "4")]
    assert panel["tiers"][1]["guarantee"] == due
    assert (panel["budget"], panel["budget_across"]) == ("4", "32")
    assert quoted(shop, buyer, panel, "0.5").json()["guarantee"] == due.replace("= 1 ", "= 0.5 ").replace("= 8", "= 4")
    assert bought["receipt"]["guarantee"] == due
    page = shop.client.get("/").text
    for told in ("hour (6 values, a step is one hour)", "delay (4 values, a step is one class of delay)", "ε = 16 for"):
        assert told in page
    (leaf,) = (
        record["leaf"]
        for record in map(msgspec.json.decode, shop.export()[0])
        if record.get("leaf", {}).get("panel") == panel["panel"] and record["leaf"]["kind"] == "panel"
    )
    assert leaf["metric"] == panel["metric"]
    assert leaf["axes"] == AXES
    assert [tier["across"] for tier in leaf["tiers"]] == ["16", "8", "4"]


def test_a_device_pays_a_step_of_the_top_tier_each_round_and_no_more_than_its_budget(shop: Fair) -> None:
    panel = grid_panel(shop)
    point = rows(panel, [(1, 1)])
    for number, accepted in ((1, 1), (2, 1), (3, 0)):
        done = deliver(shop, panel, round=number, reports=point).json()
        assert done["accepted"] == accepted
        if accepted:
            assert close(shop, panel).status_code == 201
    assert "budget" in done["refusals"][0]["rule"]


def test_readings_are_those_of_the_counts_that_were_bought(shop: Fair, sold: Any) -> None:
    panel, buyer, bought, _ = sold
    plan = PointsPlan.over((6, 4), Ladder.parse(list(MENU)))
    axes, counts = [Axis(**axis) for axis in AXES], np.array(bought["counts"])
    hours, delays = np.arange(6.0), np.arange(4.0)
    wanted: list[tuple[dict[str, Any], Any, Any]] = [
        (
            {"type": "box", "sides": [{"axis": "hour", "first": "01h", "last": "03h"}]},
            (hours >= 1) & (hours <= 3),
            delays >= 0,
        ),
        (
            {
                "type": "box",
                "sides": [
                    {"axis": "delay", "first": "none", "last": "short"},
                    {"axis": "hour", "first": "01h", "last": "02h"},
                ],
            },
            (hours >= 1) & (hours <= 2),
            delays <= 1,
        ),
        ({"type": "count", "axis": "delay", "key": "long"}, hours >= 0, delays == 2),
        ({"type": "range", "axis": "delay", "first": "short", "last": "cancelled"}, hours >= 0, delays >= 1),
        ({"type": "sum", "axis": "hour", "weights": ["0", "1", "2", "3", "4", "5"]}, hours, delays >= 0),
        ({"type": "sum", "weights": ["1", "0", "0", "0"] * 6}, hours >= 0, delays == 0),
        (
            {
                "type": "product",
                "factors": [
                    {"axis": "hour", "weights": ["0", "1", "2", "3", "4", "5"]},
                    {"axis": "delay", "weights": ["0", "1", "2", "3"]},
                ],
            },
            hours,
            delays,
        ),
    ]
    for asked, of_hour, of_delay in wanted:
        (row,) = reading(shop, buyer, panel, "1", asked).json()["values"]
        cells = np.outer(of_hour, of_delay) * 1.0
        bars = (plan.linear(1, counts, PEOPLE, cells.ravel().tolist(), miss) for miss in (NOMINAL, RARE))
        (estimate, bar), (_, sure) = bars
        if "variance" in row:  # of sums of products, whose bars are narrower than those of cells
            bar = half_width(plan.grid(1), PEOPLE, [of_hour * 1.0, of_delay * 1.0], NOMINAL)
        assert float(row["value"]) == pytest.approx(estimate, abs=1e-4), "as cell by cell"
        assert float(row["half_width"]) == pytest.approx(bar, abs=1e-4)
        truth, most = sum(float(cells[point]) for point in people(PEOPLE)), PEOPLE * float(cells.max())
        assert abs(estimate - truth) <= sure < most - estimate, "what these people give, and not the most that any can"
        assert ("variance" in row) == (asked != {"type": "sum", "weights": ["1", "0", "0", "0"] * 6})
        if "variance" in row:
            assert 0 <= float(row["variance"]) <= float(row["variance_bound"])
        again = read(plan, 1, [], counts, PEOPLE, msgspec.convert(asked, Reading), axes=axes)
        assert again == [row]
    histogram = reading(shop, buyer, panel, "1", {"type": "histogram", "axis": "hour"}).json()["values"]
    assert [row["key"] for row in histogram] == HOURS
    assert sum(float(row["value"]) for row in histogram) == pytest.approx(PEOPLE, abs=1e-4)
    (middle,) = reading(shop, buyer, panel, "1", {"type": "quantile", "axis": "delay", "share": "0.5"}).json()["values"]
    assert middle["key"] == "short"
    alpha = math.tanh(1 / 2)
    radius = math.sqrt(PEOPLE * math.log(2 * 2 / 0.05) / alpha)  # four values: two places on the path, two tails each
    assert float(middle["rank_radius"]) == pytest.approx(radius, abs=1e-6)
    (total,) = reading(shop, buyer, panel, "1", wanted[4][0]).json()["values"]
    assert float(total["variance_bound"]) == pytest.approx(PEOPLE * 5 * (1 / alpha**2 - 1) / 4, abs=1e-6)


@pytest.mark.parametrize(
    "asked",
    [
        {"type": "histogram"},
        {"type": "count", "key": "long"},
        {"type": "count", "axis": "minute", "key": "long"},
        {"type": "count", "axis": "hour", "key": "long"},
        {"type": "range", "axis": "hour", "first": "03h", "last": "01h"},
        {"type": "quantile", "axis": "hour", "share": "0"},
        {"type": "quantile", "share": "0.5"},
        {"type": "sum", "axis": "hour", "weights": ["1", "2"]},
        {"type": "sum", "weights": ["1", "2"]},
        {"type": "box", "sides": []},
        {"type": "box", "sides": [{"axis": "hour", "first": "03h", "last": "01h"}]},
        {"type": "box", "sides": [{"axis": "hour", "first": "03h", "last": "04h"}] * 2},
        {"type": "box", "sides": [{"axis": "day", "first": "03h", "last": "04h"}]},
        {"type": "product", "factors": [{"axis": "delay", "weights": ["1", "2", "3"]}]},
        {"type": "product", "factors": [{"axis": "delay", "weights": ["1", "2", "3", "nan"]}]},
    ],
)
def test_a_reading_that_the_grid_has_not_is_refused(shop: Fair, sold: Any, asked: dict[str, Any]) -> None:
    panel, buyer, _, _ = sold
    response = reading(shop, buyer, panel, "1", asked)
    assert response.status_code == 400, response.text


def test_a_plain_panel_has_no_axes_to_read(shop: Fair) -> None:
    plain, buyer = opened(shop, promise="steps", mechanism="flips"), shop.person()
    sent = [{"device": f"d{n}", "report": encode(plain["device_law"], 5, n % 5, stream(n))} for n in range(40)]
    deliver(shop, plain, reports=sent)
    close(shop, plain)
    bought = buy(shop, buyer, plain, "1.5")
    proof = shop.client.get(f"/v1/orders/{bought.json()['receipt']['order']}/proof", headers=buyer.headers)
    bundle = msgspec.json.decode(proof.content, type=PanelBundle)
    public = shop.client.get("/v1/keys").json()["signing"]["1"]
    assert verify_panel_bundle(bundle, [public]) == ()
    older = bundle.panel.leaf  # as a version that did not tell steps wrote it
    del older["metric"]
    for tier in older["tiers"]:
        del tier["across"]
    for told, false in ((bundle.receipt["guarantee"], False), (None, False), ("ε = 1.5", True)):
        receipt = bundle.receipt | {"guarantee": told}
        found = {each.rule for each in verify_panel_bundle(msgspec.structs.replace(bundle, receipt=receipt), [public])}
        assert ("promise-of-receipt" in found) == false
        assert not {"panel-metric", "panel-across"} & found
    assert "ε = 6 for the two values farthest apart (4 steps)" in bought.json()["receipt"]["guarantee"]
    for asked in (
        {"type": "count", "axis": "hour", "key": "red"},
        {"type": "box", "sides": [{"axis": "hour", "first": "red", "last": "red"}]},
    ):
        assert reading(shop, buyer, plain, "1.5", asked).status_code == 400
    (row,) = reading(shop, buyer, plain, "1.5", {"type": "quantile", "share": "0.5"}).json()["values"]
    assert float(row["rank_radius"]) > 0


def test_the_bars_of_a_plain_promise_say_nothing_of_steps(shop: Fair) -> None:
    plain = opened(shop)
    assert (plain["metric"], plain["axes"], plain["budget_across"]) == (None, None, None)
    assert all(tier["across"] is None and tier["guarantee"] is None for tier in plain["tiers"])


def test_files_of_points_are_taken_as_rows_are(shop: Fair, tmp_path: Any) -> None:
    import pyarrow as pa
    import pyarrow.parquet as pq

    made = rows(grid_panel(shop), people(90), seed=5)
    table = pa.table(
        {
            "device": [row["device"] for row in made],
            "report": pa.array([row["report"] for row in made], pa.list_(pa.int64())),
        }
    )
    data = shop.market.settings.data
    (data / "points.ndjson").write_bytes(b"".join(msgspec.json.encode(row) + b"\n" for row in made))
    with pa.OSFile(str(data / "points.arrow"), "w") as file, pa.ipc.new_stream(file, table.schema) as writer:
        writer.write_table(table)
    pq.write_table(table, data / "points.parquet")
    found = []
    for name in ("points.ndjson", "points.arrow", "points.parquet"):
        panel, buyer = grid_panel(shop), shop.person()
        assert deliver(shop, panel, file=name).json()["accepted"] == 90
        assert close(shop, panel).status_code == 201
        assert buy(shop, buyer, panel, "2").status_code == 201
        found.append(sorted(map(tuple, lines(reports(shop, buyer, panel, 0)))))
    assert found[0] == found[1] == found[2] == sorted(tuple(row["report"]) for row in made)


def test_a_round_of_points_is_replayed_and_its_receipt_verified(shop: Fair, sold: Any) -> None:
    panel, buyer, bought, _ = sold
    shown, public = disclosure(shop, panel)
    found = replay_round(shown, [public])
    assert (found.findings, found.rank, found.tiers, found.reports) == ((), 1, 2, PEOPLE)
    turned = sorted(set(msgspec.json.decode(shown[1])) ^ {0})
    spoilt = [shown[0], msgspec.json.encode(turned), *shown[2:]]
    assert {each.rule for each in replay_round(spoilt, [public]).findings} >= {"tier", "counts"}
    name = bought["receipt"]["order"]
    bundle = shop.client.get(f"/v1/orders/{name}/proof", headers=buyer.headers)
    assert bundle.status_code == 200
    proved, findings = verify_any_bundle(bundle.content, [public])
    assert findings == ()
    assert isinstance(proved, PanelBundle)
    told = msgspec.structs.replace(proved, receipt=proved.receipt | {"guarantee": "ε = 1 for any two values"})
    assert "promise-of-receipt" in {each.rule for each in verify_panel_bundle(told, [public])}


@pytest.mark.parametrize(
    ("rule", "change"),
    [
        ("panel-promise", {"promise": "values"}),
        ("panel-axes", {"axes": [AXES[0], AXES[1] | {"name": "hour"}]}),
        ("panel-axes", {"axes": AXES[::-1]}),
        ("panel-axes", {"domain": ["a", "b"]}),
        ("panel-metric", {"metric": None}),
        ("panel-metric", {"metric": {"distance": "l1", "unit": "step", "diameter": 7}}),
        ("panel-across", {"across": "15"}),
        ("panel-across", {"across": None}),
        ("panel-plan", {"axes": None}),
    ],
)
def test_a_leaf_that_says_less_or_else_of_the_promise_is_refuted(
    shop: Fair, sold: Any, rule: str, change: dict[str, Any]
) -> None:
    (leaf,) = (
        record["leaf"]
        for record in map(msgspec.json.decode, shop.export()[0])
        if record.get("leaf", {}).get("panel") == sold[0]["panel"] and record["leaf"]["kind"] == "panel"
    )
    assert PanelAudit().panel(msgspec.convert(leaf, PanelLeaf)) == []
    if "across" in change:
        leaf["tiers"][0] |= change
    else:
        leaf |= change
    assert rule in {each.rule for each in PanelAudit().panel(msgspec.convert(leaf, PanelLeaf))}


def test_panels_are_found_by_the_words_of_their_axes(shop: Fair, sold: Any) -> None:
    panel = sold[0]["panel"]
    for words, there in (("delay cancelled", True), ("05h", True), ("minute", False)):
        found = shop.client.get("/v1/panels", params={"q": words, "count": 200}, headers=shop.owner().headers).json()
        assert (panel in {each["panel"] for each in found}) == there


def test_readings_of_a_grid_are_tables_with_their_variances(shop: Fair, sold: Any) -> None:
    panel, buyer, _, _ = sold
    heads = {
        "histogram": "key,value,lower,upper,epsilon,variance_bound,variance",
        "quantile": "key,epsilon,rank_radius",
    }
    for kind, head in heads.items():
        wanted = {"type": kind, "axis": "delay"} | ({"share": "0.5"} if kind == "quantile" else {})
        sent = {"round": 1, "epsilon": "1", "reading": wanted}
        headers = buyer.headers | {"Accept": "text/csv"}
        response = shop.client.post(f"/v1/panels/{panel['panel']}/readings", json=sent, headers=headers)
        assert response.status_code == 201, response.text
        assert response.text.splitlines()[0] == head
        assert len(response.text.splitlines()) == (5 if kind == "histogram" else 2)
