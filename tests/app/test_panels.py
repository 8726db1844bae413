"""Panels over HTTP: what is taken and refused, that tiers are derived once, who reads what, and what an auditor finds."""

import json
import math
import os
from concurrent.futures import ThreadPoolExecutor, wait
from fractions import Fraction
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from app import files
from app.panels.acts import _folder, _reports
from app.panels.mechanism import MECHANISMS, choose, plan_of
from app.panels.plans.lists import Lists
from app.panels.replay import replay_round
from app.panels.rounds import close_round
from app.settings import Settings
from tests.app.panelling import (
    body,
    buy,
    close,
    deliver,
    disclosure,
    lines,
    opened,
    order,
    quoted,
    reading,
    reports,
    rows,
)
from tests.conftest import Fair, open_fair, tiers
from tiers.budget import Ladder
from tiers.local.estimate import estimate, half_width
from tiers.local.flips import Flips
from tiers.local.subset import Subset
from tiers.metric.products import box_weights
from tiers.metric.products import half_width as grid_half_width
from tiers.metric.quantiles import rank_radius
from tiers.metric.ranges import Grid

MENU = Ladder.parse([f"{tenths / 10:g}" for tenths in range(40, 2, -3)])


@pytest.fixture(scope="module")
def shop(tmp_path_factory: pytest.TempPathFactory) -> Any:
    yield from open_fair(Settings.at(tmp_path_factory.mktemp("panels") / "market"))


# --- a panel's life ---------------------------------------------------------------------------------------------------


def test_a_tier_that_is_bought_gives_the_estimates_of_its_own_reports(shop: Fair) -> None:
    panel, buyer = opened(shop), shop.person()
    values = [place % 5 if place % 3 else 0 for place in range(900)]
    assert deliver(shop, panel, reports=rows(panel, values)).json()["accepted"] == 900
    assert close(shop, panel).json()["open_round"] == 2
    assert buy(shop, buyer, panel, "1.5").status_code == 201
    held = lines(reports(shop, buyer, panel, 1))
    law = plan_of("subset", 5, Ladder.parse(["3", "1.5", "0.5"])).laws[1]
    assert isinstance(law, Subset)
    assert {len(report) for report in held} == {law.subset_size}
    covered = np.bincount([place for report in held for place in report], minlength=5)
    expected = estimate(law.rates(), covered, 900)
    rows_read = reading(shop, buyer, panel, "1.5", {"type": "histogram"}).json()["values"]
    assert [float(row["value"]) for row in rows_read] == pytest.approx(expected.tolist(), abs=1e-6)
    bar = half_width([(law.rates(), 900)], Fraction(95, 100))
    assert {row["half_width"] for row in rows_read} == {f"{math.ceil(bar * 10**6 + 0.5) / 10**6:.6f}"}, "rounded up"
    one = reading(shop, buyer, panel, "1.5", {"type": "range", "first": "green", "last": "black"}).json()["values"]
    assert float(one[0]["value"]) == pytest.approx(expected[1:4].sum(), abs=1e-5)
    whole = {"type": "range", "first": "red", "last": "white"}
    (everybody,) = reading(shop, buyer, panel, "1.5", whole).json()["values"]
    assert (everybody["value"], float(everybody["half_width"])) == ("900.000000", pytest.approx(0, abs=1e-6))
    weights = {"type": "sum", "weights": ["-1", "0.5", "2", "0", "7"]}
    (total,) = reading(shop, buyer, panel, "1.5", weights).json()["values"]
    assert float(total["value"]) == pytest.approx(expected @ [-1, 0.5, 2, 0, 7], abs=1e-5)


def test_an_ordered_panel_reads_ranges_and_quantiles_off_flips(shop: Fair) -> None:
    domain = [str(age) for age in range(90)]
    panel, buyer = opened(shop, domain=domain, promise="steps"), shop.person()
    assert (panel["mechanism"], panel["promise"]) == ("flips", "steps")
    values, people = [(place * 7) % 90 for place in range(2700)], 2700
    assert deliver(shop, panel, reports=rows(panel, values, seed=2)).json()["accepted"] == people
    assert close(shop, panel).status_code == 201
    assert buy(shop, buyer, panel, "1.5").status_code == 201
    grid, rare = Grid((90,), Flips(Fraction("1.5"))), Fraction(1, 10**12)
    held = np.bincount([bit for report in lines(reports(shop, buyer, panel, 1)) for bit in report], minlength=89)
    upto = np.append(people / 2 + (2 * held - people) / (2 * grid.signal), people)  # at or below each age, estimated
    wanted, ages = {"type": "range", "first": "30", "last": "59"}, box_weights(grid, [(31, 60)])
    (row,) = reading(shop, buyer, panel, "1.5", wanted).json()["values"]
    bar, sure = (grid_half_width(grid, people, ages, miss) for miss in (Fraction(1, 20), rare))
    assert float(row["value"]) == pytest.approx(upto[59] - upto[29], abs=1e-5)
    assert float(row["half_width"]) == pytest.approx(bar, abs=1e-5)
    assert abs(float(row["value"]) - 900) <= sure < min(float(row["value"]), people - float(row["value"]))
    (middle,) = reading(shop, buyer, panel, "1.5", {"type": "quantile", "share": "0.5"}).json()["values"]
    radius, sure = (rank_radius(grid, people, miss) for miss in (Fraction(1, 20), rare))
    at = int(middle["key"])
    assert upto[at] >= people / 2 > upto[at - 1]
    assert float(middle["rank_radius"]) == pytest.approx(radius, abs=1e-5)
    assert 30 * at - sure < people / 2 <= 30 * (at + 1) + sure, "30 people of each age"


def test_orders_are_credited_repeat_for_free_and_open_only_their_own_tier(shop: Fair) -> None:
    panel, buyer, stranger = opened(shop), shop.person(), shop.person()
    deliver(shop, panel, reports=rows(panel, [0, 1, 2]))
    assert buy(shop, buyer, panel, "1.5").status_code == 404
    close(shop, panel)
    first = buy(shop, buyer, panel, "1.5").json()
    key, quote = f"{panel['panel']}-1-1.5", quoted(shop, buyer, panel, "1.5").json()
    assert quote["amount_minor"] == 0, "it is held"
    assert order(shop, buyer, panel, quote["quote"], key).status_code == 422, "the key is another request's"
    better = buy(shop, buyer, panel, "3").json()
    assert [each["receipt"]["price_minor"] for each in (first, better)] == [300, 600]
    assert shop.client.get("/v1/account", headers=buyer.headers).json()["balance_minor"] == 1_000_000 - 900
    assert reports(shop, buyer, panel, 2).status_code == 403
    assert reading(shop, buyer, panel, "0.5", {"type": "histogram"}).status_code == 403
    assert reports(shop, stranger, panel, 0).status_code == 403
    earned = shop.client.get("/v1/earnings", headers=shop.owner().headers).json()
    assert int(earned["accrued_units"]) >= 810 * 1_000_000


def test_an_analyst_pays_nothing_and_stays_under_the_ceiling(shop: Fair) -> None:
    panel, analyst = opened(shop), shop.person("analyst", ceiling="1.5")
    deliver(shop, panel, reports=rows(panel, [0, 1, 2]))
    close(shop, panel)
    assert buy(shop, analyst, panel, "3").status_code == 403
    sold = buy(shop, analyst, panel, "1.5").json()
    assert (sold["receipt"]["price_minor"], sold["receipt"]["charge_type"]) == (0, "INTERNAL_ZERO")


# --- deliveries -------------------------------------------------------------------------------------------------------


def test_bad_rows_are_refused_with_their_lines_and_good_ones_kept(shop: Fair) -> None:
    panel = opened(shop, mechanism="subset", domain=[str(n) for n in range(40)], tiers=tiers(("1", 5), ("0.5", 3)))
    size = int(panel["device_law"]["subset_size"])
    good = list(range(size))
    sent = [
        {"device": "a", "report": good},
        {"device": "b", "report": good[:-1]},
        {"device": "c", "report": [*good[:-1], 40]},
        {"device": "d", "report": good[::-1]},  # the kept value first would say which one it is
        {"device": "e", "report": [*good[:-1], good[-2]]},
        {"device": "a", "report": good},
        {"device": "f", "report": [place + 3 for place in good]},
    ]
    done = deliver(shop, panel, reports=sent).json()
    assert (done["accepted"], done["refused"]) == (2, 5)
    assert [refusal["line"] for refusal in done["refusals"]] == [2, 3, 4, 5, 6]
    assert "rise" in done["refusals"][2]["rule"]
    assert "one report a device and round" in done["refusals"][4]["rule"]
    assert deliver(shop, panel, reports=sent).json()["accepted"] == 0


def test_the_three_kinds_of_files_give_the_same_round(shop: Fair) -> None:
    data = shop.market.settings.data
    for suffix in ("ndjson", "arrow", "parquet"):
        panel = opened(shop)
        table = rows(panel, [place % 5 for place in range(50)])
        bad = [{"device": "x", "report": [9]}]
        write(data / f"reports.{suffix}", [*table[:20], *bad, *table[20:]])
        done = deliver(shop, panel, file=f"reports.{suffix}").json()
        assert (done["accepted"], done["refused"], done["refusals"][0]["line"]) == (50, 1, 21)
        raw = b"".join(_reports(shop.market, panel["panel"]).runs(1, 7))
        expected = sorted(sum(1 << place for place in row["report"]).to_bytes(2, "little") for row in table)
        assert sorted(raw[at : at + 2] for at in range(0, len(raw), 2)) == expected


def write(path: Path, table: list[dict[str, Any]]) -> None:
    if path.suffix == ".ndjson":
        path.write_bytes(b"".join(msgspec.json.encode(row) + b"\n" for row in table))
        return
    columns = pa.table({"device": [row["device"] for row in table], "report": [row["report"] for row in table]})
    if path.suffix == ".parquet":
        pq.write_table(columns, path)
        return
    with pa.OSFile(str(path), "wb") as sink, pa.ipc.new_stream(sink, columns.schema) as writer:
        writer.write_table(columns, max_chunksize=8)


def test_a_truncated_file_leaves_nothing_or_a_named_last_line(shop: Fair) -> None:
    data, panel = shop.market.settings.data, opened(shop)
    table = rows(panel, [place % 5 for place in range(50)])
    for suffix in ("arrow", "parquet"):
        write(data / f"cut.{suffix}", table)
        whole = (data / f"cut.{suffix}").read_bytes()
        (data / f"cut.{suffix}").write_bytes(whole[: len(whole) * 2 // 3])
        response = deliver(shop, panel, file=f"cut.{suffix}")
        assert response.status_code == 400, suffix
        assert "file" in response.json()["detail"]
        assert _reports(shop.market, panel["panel"]).count(1) == 0
        assert _reports(shop.market, panel["panel"]).spent("d0") == 0
    write(data / "cut.ndjson", table)
    whole = (data / "cut.ndjson").read_bytes()
    (data / "cut.ndjson").write_bytes(whole[:-5])
    done = deliver(shop, panel, file="cut.ndjson").json()
    assert (done["accepted"], [refusal["line"] for refusal in done["refusals"]]) == (49, [50])


def test_many_duplicates_are_counted_and_the_first_hundred_named(shop: Fair) -> None:
    panel = opened(shop)
    line = msgspec.json.encode(rows(panel, [1])[0]) + b"\n"
    (shop.market.settings.data / "same.ndjson").write_bytes(line * 40_000)
    done = deliver(shop, panel, file="same.ndjson").json()
    assert (done["accepted"], done["refused"], len(done["refusals"])) == (1, 39_999, 100)


def test_a_device_spends_the_top_tier_a_round_until_its_budget_is_gone(shop: Fair) -> None:
    panel = opened(shop, budget="6")
    kept = _reports(shop.market, panel["panel"])
    for number in (1, 2):
        assert deliver(shop, panel, round=number, reports=rows(panel, [0, 1])).json()["accepted"] == 2
        assert kept.spent("d0") == number * 3 * 10**9
        close(shop, panel)
    done = deliver(shop, panel, round=3, reports=[*rows(panel, [0, 1]), *rows(panel, [2], first=7)]).json()
    assert (done["accepted"], [refusal["line"] for refusal in done["refusals"]]) == (1, [1, 2])
    assert kept.count(3) == 1
    assert kept.spent("d0") == 6 * 10**9


def test_devices_are_not_named_at_rest(shop: Fair) -> None:
    panel = opened(shop)
    deliver(shop, panel, reports=[{"device": "a-telling-name", "report": rows(panel, [1])[0]["report"]}])
    close(shop, panel)
    for path in shop.market.settings.state.rglob("*"):
        if path.is_file() and path.parent != shop.market.settings.data:
            assert b"a-telling-name" not in path.read_bytes(), path.name


def test_other_rounds_other_versions_and_other_owners_are_refused(shop: Fair) -> None:
    panel = opened(shop)
    sent = rows(panel, [1])
    assert deliver(shop, panel, round=2, reports=sent).status_code == 409
    assert deliver(shop, panel, version=2, reports=sent).status_code == 400
    assert deliver(shop, panel).status_code == 400
    assert deliver(shop, panel, reports=sent, file="x.ndjson").status_code == 400
    assert deliver(shop, panel, file="none.ndjson").status_code == 400
    assert deliver(shop, panel, file="../keys.json").status_code == 400
    assert close(shop, panel).status_code == 409
    other = shop.person("owner")
    path = f"/v1/panels/{panel['panel']}/reports"
    refused = shop.client.post(path, json={"version": 1, "round": 1, "reports": sent}, headers=other.headers)
    assert refused.status_code == 404
    assert not _folder(shop.market, panel["panel"]).exists() or not _reports(shop.market, panel["panel"]).count(1)


# --- bad panels -------------------------------------------------------------------------------------------------------


BAD_EPSILONS = ["NaN", "Infinity", "-Infinity", "1e999", "0", "-1", "5e-324", "1" * 1000, "", "1,5", "٣"]


@pytest.mark.parametrize("epsilon", [*BAD_EPSILONS, True, 1, 0.5, None])
def test_every_bad_epsilon_is_one_problem_and_nothing_stored(shop: Fair, epsilon: object) -> None:
    headers, before = shop.owner().headers, shop.stored()
    sent = body(tiers=[{"epsilon": epsilon, "price_minor": 1}])
    refused = shop.client.post("/v1/panels", json=sent, headers=headers)
    check_problem(refused)
    assert shop.stored() | {"rights_epoch": 0} == before | {"rights_epoch": 0}


@pytest.mark.parametrize("raw", ['"epsilon": 1e999', '"epsilon": NaN', '"epsilon": "1", "epsilon": "2"'])
def test_numbers_and_repeated_keys_that_parsers_differ_on_are_refused(shop: Fair, raw: str) -> None:
    headers = shop.owner().headers | {"Content-Type": "application/json"}
    before = shop.stored()
    text = json.dumps(body(tiers=[{"price_minor": 1, "X": 1}])).replace('"X": 1', raw)
    check_problem(shop.client.post("/v1/panels", content=text, headers=headers))
    assert shop.stored() == before


def check_problem(response: Any) -> None:
    assert response.status_code == 400, response.text
    assert response.headers["content-type"] == "application/problem+json"
    assert response.json()["detail"]


@pytest.mark.parametrize(
    "fields",
    [
        {"domain": ["one"]},
        {"domain": ["one", "one"]},
        {"domain": [str(n) for n in range(4_097)]},
        {"mechanism": "flips"},
        {"mechanism": "subset", "promise": "steps"},
        {"tiers": tiers(("1", 5), ("1", 5))},
        {"tiers": tiers(("1", 5), ("2", 5))},
        {"tiers": tiers(("2", 5), ("1", 6))},
        {"budget": "2"},
        {"currency": "USD"},
        {"tiers": []},
    ],
    ids=str,
)
def test_panels_that_cannot_be_are_refused(shop: Fair, fields: dict[str, Any]) -> None:
    check_problem(shop.client.post("/v1/panels", json=body(**fields), headers=shop.owner().headers))


def test_auto_takes_the_least_variance_over_the_menu() -> None:
    ladder = Ladder.parse(["2", "1", "0.5"])
    for size in (2, 3, 10, 60):
        plans = [plan_of(name, size, ladder) for name in MECHANISMS if name != "flips"]
        chosen = choose("auto", size, ladder, ordered=False)
        assert max(chosen.ratios) == min(max(plan.ratios) for plan in plans)


# --- derived once, and again ------------------------------------------------------------------------------------------


KINDS = [("subset", 9), ("subset", 100), ("flips", 9), ("flips", 130), ("randomized-response", 300), ("local-hash", 40)]


@pytest.mark.parametrize(("mechanism", "size"), [*KINDS, ("mixed", 10), ("mixed", 40), ("singletons", 20)])
@pytest.mark.parametrize("run", [1, 7, 64])
def test_a_retry_in_other_runs_gives_the_same_files(mechanism: Any, size: int, run: int, tmp_path: Path) -> None:
    plan = plan_of(mechanism, size, MENU if mechanism == "mixed" else Ladder.parse(["3", "1", "0.5"]))
    listing = {"device_law": plan.parameters(0), "domain": [""] * size}
    table = rows(listing, [place % size for place in range(70)])
    packed, faults = plan.pack(Lists.of([row["report"] for row in table]))
    assert not any(broken.any() for broken, _ in faults)
    stored = sorted(row.tobytes() for row in packed)
    made = []
    for name, rows_a_run in (("one", 70), ("two", run)):
        runs = (b"".join(stored[at : at + rows_a_run]) for at in range(0, 70, rows_a_run))
        made.append(close_round(plan, bytes(32), "panel", 1, 1, runs, tmp_path / name, "now"))
    assert made[0].record == made[1].record
    assert all((one == two).all() for one, two in zip(made[0].counts, made[1].counts, strict=True))
    other = close_round(plan, bytes(31) + b"1", "panel", 1, 1, [b"".join(stored)], tmp_path / "three", "now")
    files = [(tmp_path / name / "2.bin").read_bytes() for name in ("one", "two", "three")]
    assert files[0] == files[1] != files[2]
    assert other.record.tiers[0].commitment != made[0].record.tiers[0].commitment


def test_a_round_s_name_is_durable_before_it_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """After a power failure the store must not know a round whose folder was never written."""
    plan, synced = plan_of("subset", 9, Ladder.parse(["3", "1"])), list[tuple[str, bool]]()
    folder, really = tmp_path / "round-1", files.sync

    def sync(path: Path) -> None:
        synced.append((path.name, folder.exists()))
        really(path)

    monkeypatch.setattr(files, "sync", sync)
    close_round(plan, bytes(32), "panel", 1, 1, [(1).to_bytes(plan.width, "little")], folder, "now")
    assert synced == [("round-1.part", False), (tmp_path.name, True)]


@pytest.mark.parametrize("promise", ["values", "steps"])
def test_an_auditor_derives_what_was_sold_again_and_sees_nothing_above_it(shop: Fair, promise: str) -> None:
    panel = opened(shop, promise=promise, domain=[str(n) for n in range(70)])
    deliver(shop, panel, reports=rows(panel, [place % 70 for place in range(200)]))
    close(shop, panel)
    path = f"/v1/panels/{panel['panel']}/rounds/1/replay"
    assert shop.client.get(path, headers=shop._once("auditor").headers).status_code == 404  # nothing is sold yet
    buy(shop, shop.person(), panel, "1.5")
    shown, public = disclosure(shop, panel)
    head = json.loads(shown[0])
    assert (head["sale"]["leaf"]["rank"], len(head["keys"]), len(head["openings"])) == (1, 1, 2)
    made = replay_round(shown, [public])
    assert (made.findings, made.rank, made.reports, made.tiers) == ((), 1, 200, 2)


def test_a_file_that_changed_is_never_sold(shop: Fair) -> None:
    panel, buyer = opened(shop), shop.person()
    deliver(shop, panel, reports=rows(panel, [0, 1, 2, 3]))
    close(shop, panel)
    buy(shop, buyer, panel, "3")
    file = _folder(shop.market, panel["panel"]) / "round-1" / "0.bin"
    kept = file.read_bytes()
    file.write_bytes(kept[:-2] + bytes([kept[-2] ^ 3, kept[-1]]))
    assert reports(shop, buyer, panel, 0).status_code == 500
    file.write_bytes(kept)
    assert len(lines(reports(shop, buyer, panel, 0))) == 4


def test_those_who_wait_for_a_panel_s_turn_hold_up_nobody_else(shop: Fair) -> None:
    """A client that repeats a long delivery waits for it many times over: that is no reason to answer nobody."""
    busy, other, buyer = opened(shop), opened(shop), shop.person()
    deliver(shop, other, reports=rows(other, [1, 2, 3]))
    close(shop, other)
    assert buy(shop, buyer, other, "3").status_code == 201
    waiting = min(32, (os.cpu_count() or 1) + 4) + 2  # more than there are threads
    with ThreadPoolExecutor(waiting + 1) as clients:
        with shop.market.turns.held("panel", busy["panel"]):
            sent = [clients.submit(deliver, shop, busy, reports=rows(busy, [n % 5], first=n)) for n in range(waiting)]
            assert not wait(sent, timeout=1).done
            answered = clients.submit(reading, shop, buyer, other, "3", {"type": "histogram"})
            assert wait([answered], timeout=30).done, "a reading of another panel"
        assert answered.result().status_code == 201
        assert [each.result().json()["accepted"] for each in sent] == [1] * waiting
