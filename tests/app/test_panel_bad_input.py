"""Bad input of panels, one by one: each is refused with a name, nothing is left behind."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import msgspec
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from app.panels.acts import _reports
from app.settings import Settings
from tests.app.panelling import LICENCE, body, buy, close, deliver, lines, opened, quoted, reading, reports, rows
from tests.conftest import Fair, open_fair, tiers

EPSILONS = [
    "NaN",
    "Infinity",
    "-Infinity",
    "1e999",
    "0",
    "-1",
    "5e-324",
    "1" * 1000,
    "",
    "1,5",
    "٣",
    True,
    1,
    0.5,
    None,
]


@pytest.fixture(scope="module")
def shop(tmp_path_factory: pytest.TempPathFactory) -> Any:
    yield from open_fair(Settings.at(tmp_path_factory.mktemp("panel-input") / "market"))


@pytest.fixture(scope="module")
def panel(shop: Fair) -> dict[str, Any]:
    made = opened(shop)
    deliver(shop, made, reports=rows(made, [place % 5 for place in range(20)]))
    assert close(shop, made).status_code == 201
    return made


def refused(response: Any, *statuses: int) -> None:
    assert response.status_code in (statuses or (400,)), response.text
    assert response.headers["content-type"] == "application/problem+json"
    assert response.json()["detail"]


# --- ε (case 36), wherever one is asked for ---------------------------------------------------------------------------


@pytest.mark.parametrize("epsilon", EPSILONS, ids=str)
@pytest.mark.parametrize("act", ["quotes", "readings"])
def test_a_bad_epsilon_of_a_quote_or_a_reading_is_one_problem(
    shop: Fair, panel: dict[str, Any], act: str, epsilon: object
) -> None:
    sent: dict[str, Any] = {"round": 1, "epsilon": epsilon}
    if act == "readings":
        sent["reading"] = {"type": "histogram"}
    buyer = shop._once("buyer")
    before = shop.stored()
    refused(shop.client.post(f"/v1/panels/{panel['panel']}/{act}", json=sent, headers=buyer.headers))
    assert shop.stored() == before


@pytest.mark.parametrize("budget", [*EPSILONS, "2.9", "5.9999999999"], ids=str)
def test_a_bad_budget_of_a_device_opens_nothing(shop: Fair, budget: object) -> None:
    owner = shop.owner()
    before = shop.stored()
    refused(shop.client.post("/v1/panels", json=body(budget=budget), headers=owner.headers))
    assert shop.stored() == before


@pytest.mark.parametrize("raw", ['"epsilon": 1e999', '"epsilon": NaN', '"epsilon": "1.5", "epsilon": "3"'])
def test_numbers_and_repeated_keys_that_parsers_differ_on_are_refused(
    shop: Fair, panel: dict[str, Any], raw: str
) -> None:
    headers = shop._once("buyer").headers | {"Content-Type": "application/json"}
    text = '{"round": 1, ' + raw + "}"
    before = shop.stored()
    refused(shop.client.post(f"/v1/panels/{panel['panel']}/quotes", content=text, headers=headers))
    assert shop.stored() == before


# --- files: a column of another kind is none ---------------------------------------------------------------------------

COLUMNS: dict[str, tuple[pa.Array, ...]] = {
    "floats": (pa.array(["a"]), pa.array([[1.0]])),
    "no number": (pa.array(["a"]), pa.array([[float("nan")]])),
    "bits": (pa.array(["a"]), pa.array([[True]])),
    "texts": (pa.array(["a"]), pa.array([["0x1"]])),
    "bytes": (pa.array(["a"]), pa.array([[b"1"]])),
    "times": (pa.array(["a"]), pa.array([[1]], pa.list_(pa.timestamp("s")))),
    "numbers alone": (pa.array(["a"]), pa.array([1])),
    "numbered devices": (pa.array([1]), pa.array([[1]])),
    "measured devices": (pa.array([0.5]), pa.array([[1]])),
    "twice": (pa.array(["a"]), pa.array([[1]]), pa.array([[1]])),
}


def write(path: Path, columns: Sequence[pa.Array]) -> None:
    batch = pa.RecordBatch.from_arrays(list(columns), names=["device", "report", "report"][: len(columns)])
    if path.suffix == ".parquet":
        pq.write_table(pa.Table.from_batches([batch]), path)
        return
    with pa.OSFile(str(path), "wb") as sink, pa.ipc.new_stream(sink, batch.schema) as writer:
        writer.write_batch(batch)


@pytest.mark.parametrize("suffix", ["arrow", "parquet"])
@pytest.mark.parametrize("kind", COLUMNS)
def test_a_column_of_another_kind_is_refused_and_leaves_nothing(
    shop: Fair, panel: dict[str, Any], kind: str, suffix: str
) -> None:
    write(shop.market.settings.data / f"kind.{suffix}", COLUMNS[kind])
    refused(deliver(shop, panel, round=2, file=f"kind.{suffix}"))
    assert _reports(shop.market, panel["panel"]).count(2) == 0


@pytest.mark.parametrize("suffix", ["arrow", "parquet"])
def test_every_form_of_text_and_of_whole_numbers_is_read_row_by_row(shop: Fair, suffix: str) -> None:
    """The second number fits no int64: its row alone is refused; and a name is what it is in a row of a request."""
    made = opened(shop, mechanism="randomized-response")
    names = ["a", "b", "no\u00a0break", "c\u0085", "tab\t", "x" * 129, ""]
    wide = pa.array([[1], [2**63], [4], [0], [1], [1], [1]], pa.large_list(pa.uint64()))
    path = shop.market.settings.data / f"wide.{suffix}"
    write(path, (pa.array(names).dictionary_encode(), wide))
    done = deliver(shop, made, file=path.name).json()
    assert (done["accepted"], [each["line"] for each in done["refusals"]]) == (3, [2, 5, 6, 7])
    again = deliver(shop, made, reports=[{"device": name, "report": [1]} for name in names[:4]]).json()
    assert (again["accepted"], [each["line"] for each in again["refusals"]]) == (1, [1, 3, 4])


# --- domains, sizes, tiers --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("mechanism", ["auto", "subset", "randomized-response", "local-hash", "mixed"])
@pytest.mark.parametrize("domain", [[], ["one"], ["one", "one"], [""], ["a\nb", "c"], ["x" * 201, "y"]], ids=str)
def test_a_domain_that_is_none_is_refused_whatever_the_mechanism(shop: Fair, mechanism: str, domain: list[str]) -> None:
    owner = shop.owner()
    before = shop.stored()
    sent = body(domain=domain, mechanism=mechanism)
    refused(shop.client.post("/v1/panels", json=sent, headers=owner.headers))
    assert shop.stored() == before


@pytest.mark.parametrize("epsilon", ["4", "3.5", "0.1", "2"])
def test_a_tier_that_the_panel_does_not_have_is_not_quoted_or_read(
    shop: Fair, panel: dict[str, Any], epsilon: str
) -> None:
    buyer = shop._once("buyer")
    refused(quoted(shop, buyer, panel, epsilon), 404)
    refused(reading(shop, buyer, panel, epsilon, {"type": "histogram"}), 404)
    for rank in (3, 99, 10**8):
        refused(reports(shop, buyer, panel, rank), 403)


@pytest.mark.parametrize("number", [0, -1, 2, 10**9, 10**10, "one", 1.5, True])
def test_a_round_that_is_not_closed_or_no_number_is_refused(shop: Fair, panel: dict[str, Any], number: Any) -> None:
    buyer, before = shop._once("buyer"), shop.stored()
    refused(quoted(shop, buyer, panel, "3", number), 400, 404)
    refused(
        deliver(shop, panel, round=number, reports=rows(panel, [1], first=90)[:1]), 400, 409
    ) if number != 2 else None
    assert shop.stored() == before


@pytest.mark.parametrize("version", [0, 2, "one", None, True])
def test_another_version_of_reports_is_refused(shop: Fair, panel: dict[str, Any], version: Any) -> None:
    kept = _reports(shop.market, panel["panel"])
    refused(deliver(shop, panel, version=version, round=2, reports=rows(panel, [1], first=90)))
    assert kept.count(2) == 0


# --- reports ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "row",
    [
        {"device": "d", "report": [5]},
        {"device": "d", "report": [-1]},
        {"device": "d", "report": [0, 1]},
        {"device": "d", "report": []},
        {"device": "d", "report": [2**32]},
        {"device": "d", "report": ["one"]},
        {"device": "d", "report": [1.5]},
        {"device": "d", "report": [True]},
        {"device": "d", "report": 1},
        {"device": "", "report": [1]},
        {"device": "d\n", "report": [1]},
        {"device": "d" * 129, "report": [1]},
        {"device": 7, "report": [1]},
        {"report": [1]},
        {"device": "d"},
        {"device": "d", "report": [1], "value": 1},
    ],
    ids=str,
)
def test_a_bad_row_of_a_request_is_refused_or_named_and_never_kept(
    shop: Fair, panel: dict[str, Any], row: dict[str, Any]
) -> None:
    response = deliver(shop, panel, round=2, reports=[row])
    if response.status_code == 201:
        assert (response.json()["accepted"], [each["line"] for each in response.json()["refusals"]]) == (0, [1])
    else:
        refused(response)
    assert _reports(shop.market, panel["panel"]).count(2) == 0
    path = shop.market.settings.data / "bad.ndjson"
    path.write_text(json.dumps(row) + "\n")
    done = deliver(shop, panel, round=2, file="bad.ndjson").json()
    assert (done["accepted"], [each["line"] for each in done["refusals"]]) == (0, [1])


def test_one_report_makes_a_round_and_none_makes_no_round(shop: Fair) -> None:
    panel, buyer = opened(shop), shop.person()
    refused(close(shop, panel), 409)
    deliver(shop, panel, reports=rows(panel, [3]))
    assert close(shop, panel).status_code == 201
    refused(close(shop, panel), 409)
    assert buy(shop, buyer, panel, "3").status_code == 201
    assert len(lines(reports(shop, buyer, panel, 0))) == 1
    (row,) = reading(shop, buyer, panel, "3", {"type": "count", "key": "red"}).json()["values"]
    assert float(row["half_width"]) > 1, "one report tells little, and the bar says so"


@pytest.mark.long
def test_a_million_duplicates_are_counted_and_one_is_kept(shop: Fair) -> None:
    panel = opened(shop)
    line = msgspec.json.encode(rows(panel, [1])[0]) + b"\n"
    with (shop.market.settings.data / "million.ndjson").open("wb") as file:
        for _ in range(100):
            file.write(line * 10_000)
    done = deliver(shop, panel, file="million.ndjson").json()
    assert (done["accepted"], done["refused"], len(done["refusals"])) == (1, 999_999, 100)


# --- formats ----------------------------------------------------------------------------------------------------------


def test_a_tier_s_reports_are_the_same_in_every_format_and_no_other_is_given(shop: Fair) -> None:
    import io

    import pyarrow as pa
    import pyarrow.parquet as pq

    panel, buyer = opened(shop, mechanism="local-hash"), shop.person()
    deliver(shop, panel, reports=rows(panel, [place % 5 for place in range(50)]))
    close(shop, panel)
    buy(shop, buyer, panel, "3")
    path = f"/v1/panels/{panel['panel']}/rounds/1/tiers/0/reports"
    plain = lines(reports(shop, buyer, panel, 0))

    def asked(accept: str) -> Any:
        return shop.client.get(path, headers=buyer.headers | {"Accept": accept})

    arrow = asked("application/vnd.apache.arrow.stream")
    table = pa.ipc.open_stream(arrow.content).read_all()
    assert table.column("report").to_pylist() == plain
    assert table.schema.metadata[b"epsilon"] == b"3"
    assert table.schema.metadata[b"mechanism"] == b"local-hash"
    parquet = shop.client.get(f"{path}?format=parquet", headers=buyer.headers)
    assert parquet.headers["content-type"].startswith("application/vnd.apache.parquet")
    assert pq.read_table(io.BytesIO(parquet.content)).column("report").to_pylist() == plain
    assert lines(asked("application/x-ndjson")) == plain
    refused(asked("text/csv"), 406)
    refused(shop.client.get(f"{path}?format=csv", headers=buyer.headers), 406)


def test_an_order_names_a_quote_and_nothing_else(shop: Fair, panel: dict[str, Any]) -> None:
    buyer, before = shop._once("buyer"), shop.stored()
    path, headers = f"/v1/panels/{panel['panel']}/orders", buyer.headers | {"Idempotency-Key": "k"}
    for sent in ({}, {"round": 1, "epsilon": "3"}, {"quote": 7}, {"quote": "x" * 65}, {"quote": "q", "more": 1}):
        refused(shop.client.post(path, json=sent, headers=headers))
    refused(shop.client.post(path, json={"quote": "quote_none", "licence": LICENCE}, headers=headers), 404)
    other = shop.client.post("/v1/panels/panel_none/orders", json={"quote": "quote_none"}, headers=headers)
    refused(other, 404)
    assert shop.stored() == before


def test_prices_that_rise_and_menus_of_nothing_open_no_panel(shop: Fair) -> None:
    headers, before = shop.owner().headers, shop.stored()
    for menu in ([], tiers(("1", 5), ("0.5", 6)), tiers(("1", 5), ("1", 5)), tiers(("1", -5))):
        refused(shop.client.post("/v1/panels", json=body(tiers=menu), headers=headers))
    assert shop.stored() == before
