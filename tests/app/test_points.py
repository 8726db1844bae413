"""Panels over grids: reports of points, their laws by enumeration, what is read off them, what is told of the promise."""

import math
from fractions import Fraction
from itertools import chain, combinations, pairwise, product
from typing import Any

import msgspec
import numpy as np
import pytest

from app.audit.location_receipts import verify_any_bundle
from app.audit.panel_receipts import PanelBundle, verify_panel_bundle
from app.audit.panels import PanelAudit
from app.errors import InvalidRequestError
from app.log.axes import Axis
from app.log.panel_leaves import PanelLeaf
from app.panels.device import encode
from app.panels.grid_readings import GridTier, Side
from app.panels.mechanism import choose, plan_of, read_plan
from app.panels.plans.lists import Lists
from app.panels.plans.points import PointsPlan
from app.panels.readings import Box, Reading, read
from app.panels.replay import replay_round
from app.settings import Settings
from tests.app.panelling import buy, close, deliver, disclosure, lines, opened, quoted, reading, reports
from tests.app.test_panel_mechanisms import stream
from tests.conftest import Fair, open_fair, tiers
from tiers.budget import Ladder
from tiers.errors import InvalidParameterError, TierError
from tiers.local.flips import reflip
from tiers.metric.products import box_weights, product_variance_estimate
from tiers.metric.ranges import encode as true_bits
from tiers.real import to_float

HOURS, DELAYS = [f"{hour:02d}h" for hour in range(6)], ["none", "short", "long", "cancelled"]
AXES = [
    {"name": "hour", "unit": "one hour", "values": HOURS},
    {"name": "delay", "unit": "one class of delay", "values": DELAYS},
]
MENU = ("2", "1", "0.5")
LICENCE = "terms/1"


@pytest.fixture(scope="module")
def shop(tmp_path_factory: pytest.TempPathFactory) -> Any:
    opening = open_fair(Settings.at(tmp_path_factory.mktemp("points") / "market"))
    yield next(opening)
    opening.close()


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


# --- the law ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("sizes", [(4,), (3, 2), (2, 2, 3)], ids=str)
def test_a_device_turns_the_bits_of_its_point_and_nothing_else(sizes: tuple[int, ...]) -> None:
    """With the same randomness, two points' reports differ in as many bits as they are steps apart."""
    law = PointsPlan.over(sizes, Ladder.parse(["1"])).parameters(0)
    cells = list(product(*map(range, sizes)))
    for seed in range(5):
        sent = [set(encode(law, len(cells), point, stream(seed))) for point in cells]
        assert sent == [set(encode(law, len(cells), cell, stream(seed))) for cell in range(len(cells))]
        for one, two in combinations(range(len(cells)), 2):
            steps = sum(abs(a - b) for a, b in zip(cells[one], cells[two], strict=True))
            assert len(sent[one] ^ sent[two]) == steps
    silent = PointsPlan.over(sizes, Ladder.parse(["50"])).parameters(0)
    for point in cells:
        offsets = np.cumsum([0, *(size - 1 for size in sizes)]).tolist()
        bits = true_bits([[place + 1 for place in point]], sizes)
        due = [
            at + k for part, at in zip(bits, offsets, strict=False) for k in np.flatnonzero(part[0, :-1] > 0).tolist()
        ]
        assert encode(silent, len(cells), point, stream(3)) == due


@pytest.mark.parametrize("sizes", [(3,), (3, 2), (2, 2, 2)], ids=str)
def test_guarantee_points_plan_every_coalition_of_tiers_tells_points_apart_by_its_best_epsilon_exactly(
    sizes: tuple[int, ...],
) -> None:
    """In exact rationals: signals 9/10, 1/2, 1/5 stand for tanh(ε/2), so that e^ε is 19, 3 and 3/2."""
    signals = [Fraction(9, 10), Fraction(1, 2), Fraction(1, 5)]
    turned = [(1 - below / above) / 2 for above, below in pairwise(signals)]
    cells = list(product(*(range(1, size + 1) for size in sizes)))
    bits = [np.hstack([part[0, :-1] > 0 for part in true_bits([cell], sizes)]).tolist() for cell in cells]

    def of_bit(true: bool, held: tuple[int, ...]) -> dict[tuple[bool, ...], Fraction]:
        """The law of one bit as a coalition holds it."""
        found: dict[tuple[bool, ...], Fraction] = {}
        for seen in product((False, True), repeat=3):
            chance = (1 + signals[0]) / 2 if seen[0] == true else (1 - signals[0]) / 2
            for (before, after), q in zip(pairwise(seen), turned, strict=True):
                chance *= q if before != after else 1 - q
            part = tuple(seen[at] for at in held)
            found[part] = found.get(part, Fraction(0)) + chance
        return found

    for held in chain.from_iterable(combinations(range(3), size) for size in (1, 2, 3)):
        laws = {true: of_bit(true, held) for true in (False, True)}
        ratio = (1 + signals[held[0]]) / (1 - signals[held[0]])
        for one, two in combinations(range(len(cells)), 2):
            steps = sum(abs(a - b) for a, b in zip(cells[one], cells[two], strict=True))
            worst = max(
                math.prod(
                    (laws[first][seen] / laws[second][seen] for first, second, seen in zip(*bits_of, strict=True)),
                    start=Fraction(1),
                )
                for outcome in product(list(laws[True]), repeat=len(bits[one]))
                for bits_of in [(bits[one], bits[two], outcome)]
            )
            assert worst == ratio**steps


def test_a_tier_below_turns_every_bit_at_the_rate_of_the_law() -> None:
    """Two arms: the right rate is accepted for every bit, the next tier's refused."""
    plan = PointsPlan.over((3, 4), Ladder.parse(["2", "1", "0.5"]))
    count = 40_000
    packed, _ = plan.pack(Lists.of([encode(plan.parameters(0), 12, (1, 2), stream(9))] * count))
    derived = plan.derive(plan.keys(bytes(32), "p"), 0, packed.tobytes())
    signs = [np.hstack([part[:, :-1] for part in plan._signs(raw)]) for raw in derived]
    for above, below in pairwise(range(3)):
        rate = to_float(reflip(plan.flips[above], plan.flips[below]))
        changed = (signs[above] != signs[below]).mean(axis=0)
        spread = math.sqrt(rate * (1 - rate) / count)
        assert (np.abs(changed - rate) < 5.5 * spread).all()
        assert (np.abs(changed - rate * 0.95) > 5.5 * spread).any()


@pytest.mark.parametrize("sizes", [(5,), (3, 4), (2, 3, 2), (9, 9)], ids=str)
def test_estimates_are_read_off_counts_that_add_up_over_runs(sizes: tuple[int, ...]) -> None:
    plan = PointsPlan.over(sizes, Ladder.parse(["1.5", "0.5"]))
    cells = list(product(*map(range, sizes)))
    values = [cells[place * 7 % len(cells)] for place in range(120)]
    read = stream(4)
    packed, faults = plan.pack(Lists.of([encode(plan.parameters(0), plan.domain_size, each, read) for each in values]))
    assert not any(broken.any() for broken, _ in faults)
    raw = packed.tobytes()
    counts = plan.count(0, raw)
    parts = [plan.count(0, raw[at : at + 11 * plan.width]) for at in range(0, len(raw), 11 * plan.width)]
    assert (sum(parts) == counts).all()
    assert counts.min() >= 0
    assert counts[-1] == 120
    observed = plan.observed(counts, 120)
    assert (observed == plan.grid(0).observe(plan._signs(raw))).all()
    again = read_plan("points", plan.domain_size, plan.ladder, [plan.parameters(rank) for rank in range(2)])
    assert again == plan
    assert plan.unpack(raw).rows() == Lists.of(plan.unpack(raw).rows()).rows()


# --- refusals ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("sizes", [(), (1, 5), (2, 2, 2, 2), (4097,), (257, 256), (4096, 17), (40, 41, 40)], ids=str)
def test_a_grid_that_is_too_large_or_none_is_refused(sizes: tuple[int, ...]) -> None:
    with pytest.raises(InvalidRequestError, match="axes"):
        PointsPlan.over(sizes, Ladder.parse(["1"]))


def test_the_largest_grids_are_taken() -> None:
    for sizes in ((4096,), (256, 256), (2048, 32), (40, 40, 40)):
        assert PointsPlan.over(sizes, Ladder.parse(["1"])).sizes == sizes


@pytest.mark.parametrize("text", ["", "3", "3,", "03,4", "3, 4", "4,3,1", "12", "-3,-4", "3,4,1,1", "²,6", "3,4" * 99])
def test_laws_of_another_grid_are_refused(text: str) -> None:
    plan = PointsPlan.over((3, 4), Ladder.parse(["2", "1"]))
    laws = [plan.parameters(rank) for rank in range(2)]
    for spoilt in ([law | {"sizes": text} for law in laws], [laws[0], laws[1] | {"sizes": text}]):
        if text == "12" and spoilt[0]["sizes"] == "12" == spoilt[1]["sizes"]:
            assert read_plan("points", 12, plan.ladder, spoilt) == PointsPlan.over((12,), plan.ladder)
            continue
        with pytest.raises((TierError, InvalidRequestError)):
            read_plan("points", 12, plan.ladder, spoilt)
    with pytest.raises(TierError):
        read_plan("points", 13, plan.ladder, laws)
    with pytest.raises(TierError):
        read_plan("points", 12, plan.ladder, [])


@pytest.mark.parametrize(
    "value", [(0,), (0, 4), (3, 0), (-1, 0), (0, 0, 0), (0.0, 1), (True, 1), "00", None, -1, 12, True]
)
def test_a_device_refuses_a_point_outside_before_it_reads_a_word(value: Any) -> None:
    law = PointsPlan.over((3, 4), Ladder.parse(["1"])).parameters(0)

    def read(count: int) -> bytes:
        raise AssertionError("nothing is read")

    with pytest.raises(InvalidParameterError, match="value"):
        encode(law, 12, value, read)


def test_a_point_is_no_value_of_a_plain_panel() -> None:
    law = plan_of("subset", 12, Ladder.parse(["1"])).parameters(0)
    with pytest.raises(InvalidParameterError, match="value"):
        encode(law, 12, (1, 2))


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


def test_points_need_axes_and_auto_takes_them() -> None:
    ladder = Ladder.parse(["1"])
    assert choose("auto", 24, ladder, ordered=True, sizes=(6, 4)).mechanism == "points"
    assert choose("auto", 24, ladder, ordered=True).mechanism == "flips"
    for asked, ordered, sizes in (("points", True, ()), ("points", False, (6, 4)), ("auto", False, (6, 4))):
        with pytest.raises(InvalidRequestError, match="mechanism"):
            choose(asked, 24, ladder, ordered=ordered, sizes=sizes)


# --- on the market ----------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def sold(shop: Fair) -> Any:
    """A round of 600 points, the middle tier sold."""
    panel, buyer = grid_panel(shop), shop.person()
    bad = [{"device": "x1", "report": [8]}, {"device": "x2", "report": [3, 1]}, {"device": "d0", "report": [0]}]
    done = deliver(shop, panel, reports=[*rows(panel, people(600)), *bad]).json()
    assert (done["accepted"], [refusal["line"] for refusal in done["refusals"]]) == (600, [601, 602, 603])
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
    wanted: list[tuple[dict[str, Any], float]] = [
        ({"type": "box", "sides": [{"axis": "hour", "first": "01h", "last": "03h"}]}, 360),
        (
            {
                "type": "box",
                "sides": [
                    {"axis": "delay", "first": "none", "last": "short"},
                    {"axis": "hour", "first": "01h", "last": "02h"},
                ],
            },
            160,
        ),
        ({"type": "count", "axis": "delay", "key": "long"}, 200),
        ({"type": "range", "axis": "delay", "first": "short", "last": "cancelled"}, 400),
        ({"type": "sum", "axis": "hour", "weights": ["0", "1", "2", "3", "4", "5"]}, 1200),
        ({"type": "sum", "weights": ["1", "0", "0", "0"] * 6}, 200),
        (
            {
                "type": "product",
                "factors": [
                    {"axis": "hour", "weights": ["0", "1", "2", "3", "4", "5"]},
                    {"axis": "delay", "weights": ["0", "1", "2", "3"]},
                ],
            },
            1200,
        ),
    ]
    for asked, truth in wanted:
        (row,) = reading(shop, buyer, panel, "1", asked).json()["values"]
        assert abs(float(row["value"]) - truth) <= float(row["half_width"])
        assert ("variance" in row) == (asked != {"type": "sum", "weights": ["1", "0", "0", "0"] * 6})
        if "variance" in row:
            assert 0 <= float(row["variance"]) <= float(row["variance_bound"])
        again = read(plan, 1, [], counts, 600, msgspec.convert(asked, Reading), axes=axes)
        assert again == [row]
    histogram = reading(shop, buyer, panel, "1", {"type": "histogram", "axis": "hour"}).json()["values"]
    assert [row["key"] for row in histogram] == HOURS
    assert sum(float(row["value"]) for row in histogram) == pytest.approx(600, abs=1e-4)
    (middle,) = reading(shop, buyer, panel, "1", {"type": "quantile", "axis": "delay", "share": "0.5"}).json()["values"]
    assert middle["key"] == "short"
    alpha = math.tanh(1 / 2)
    radius = math.sqrt(600 * math.log(2 * 2 / 0.05) / alpha)  # four values: two places on the path, each with two tails
    assert float(middle["rank_radius"]) == pytest.approx(radius, abs=1e-6)
    (total,) = reading(shop, buyer, panel, "1", wanted[4][0]).json()["values"]
    assert float(total["variance_bound"]) == pytest.approx(600 * 5 * (1 / alpha**2 - 1) / 4, abs=1e-6)


def test_an_estimated_variance_is_held_within_what_any_people_can_give() -> None:
    """Of one report the estimate of a box's variance may be negative, or above the bound: it is told as neither."""
    plan = PointsPlan.over((3, 3), Ladder.parse(["0.5"]))
    axes = [Axis(name=name, unit="step", values=("a", "b", "c")) for name in ("x", "y")]
    sides = [Side(axis=name, first="b", last="b") for name in ("x", "y")]
    told = set()
    for byte in range(16):
        counts = plan.count(0, byte.to_bytes(plan.width, "little"))
        tier = GridTier(plan, 0, axes, counts, 1)
        (row,) = tier.box(sides)
        weights = box_weights(tier.grid, [(2, 2), (2, 2)])
        raw, bound = product_variance_estimate(tier.grid, tier.observed, weights), float(row["variance_bound"])
        assert float(row["variance"]) == pytest.approx(min(max(raw, 0), bound), abs=1e-6)
        told.add((raw < 0, raw > bound))
    assert {(True, False), (False, True)} <= told


def test_a_box_along_one_axis_has_the_exact_variance_of_any_people() -> None:
    plan = PointsPlan.over((6, 4), Ladder.parse(["1"]))
    axes, tables = [Axis(**axis) for axis in AXES], []
    for values in ([(0, 0)] * 50, [(2, 1)] * 50):
        read_words = stream(6)
        packed, _ = plan.pack(Lists.of([encode(plan.parameters(0), 24, value, read_words) for value in values]))
        tables.append(plan.count(0, packed.tobytes()))
    side, other = Side(axis="hour", first="01h", last="03h"), Side(axis="delay", first="short", last="long")
    for sides, same in (((side,), True), ((side, other), False)):
        found = [read(plan, 0, [], table, 50, Box(sides=sides), axes=axes)[0] for table in tables]
        assert found[0]["half_width"] == found[1]["half_width"]
        assert found[0]["variance_bound"] == found[1]["variance_bound"]
        assert all(row["variance"] == row["variance_bound"] for row in found) == same


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
    assert (found.findings, found.rank, found.tiers, found.reports) == ((), 1, 2, 600)
    spoilt = [shown[0], msgspec.json.encode([0, 1, 2, 3, 4, 5, 6]), *shown[2:]]
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
