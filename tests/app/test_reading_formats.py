"""Readings in four formats: the numbers of the JSON document, under a strong ETag each, after the right was checked."""

import csv
import io
from collections.abc import Iterator
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from app.formats.negotiate import Format
from app.formats.readings import ReadOff, panel_table
from app.formats.rows import Column, Table, write
from app.settings import Settings
from tests.app import test_panels as panels
from tests.app.test_readings import LADDER, MEANS, MEDIAN, REACHED
from tests.conftest import CITIES, HISTOGRAM, Fair, Person, open_fair

MEDIA = {kind.name.lower(): kind.value for kind in Format}
TABLES = ("csv", "arrow", "parquet")
REACHED_BY_CITY = {
    "measure": {"type": "threshold", "of": "units", "at": 20},
    "group_by": {"type": "keys", "column": "city", "keys": CITIES},
    "groups_per_unit": 2,
}
BY_DAY = {
    "measure": {"type": "quantile", "of": "rows", "fraction": "0.5"},
    "group_by": {"type": "bins", "column": "day", "edges": ["2026-01-01", "2026-01-14", "2026-02-01"]},
    "rows_per_unit": 3,
    "groups_per_unit": 2,
}
QUESTIONS = {
    "means": MEANS,
    "median": MEDIAN,
    "days": BY_DAY,
    "threshold": REACHED,
    "thresholds": REACHED_BY_CITY,
    "raw": HISTOGRAM,
}


@pytest.fixture(scope="module")
def shop(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Fair]:
    yield from open_fair(Settings.at(tmp_path_factory.mktemp("readings") / "market"))


@pytest.fixture(scope="module")
def sold(shop: Fair) -> dict[str, Any]:
    """A reading's path and JSON by the question's name, and who holds it."""
    dataset, buyer = shop.dataset(budget="40"), shop.person()
    found: dict[str, Any] = {"buyer": buyer, "products": {}}
    for name, query in QUESTIONS.items():
        product = shop.product(dataset, query, tiers=LADDER)
        placed = shop.buy(buyer, product, "1")
        path = f"/v1/products/{product['product']}/readings/{placed['answer']['law']}"
        found[name] = (path, placed["reading"])
        found["products"][name] = product["product"]
    return found


def get(shop: Fair, who: Person, path: str, **headers: str) -> Any:
    return shop.client.get(path, headers=who.headers | headers)


def table(kind: str, body: bytes) -> list[dict[str, Any]]:
    if kind == "csv":
        return [
            {name: cell or None for name, cell in row.items()}
            for row in csv.DictReader(io.StringIO(body.decode(), newline=""))
        ]
    if kind == "arrow":
        return list(pa.ipc.open_stream(body).read_all().to_pylist())
    return list(pq.read_table(io.BytesIO(body)).to_pylist())


def wanted(name: str, document: dict[str, Any]) -> list[dict[str, Any]]:
    """The rows that a document holds, by hand."""
    if name == "raw":
        return []
    if name in ("median", "days"):
        return [{key: value for key, value in document.items() if key != "type"} | {"epsilon": "1"}]
    keys = CITIES if len(document["entries"]) > 1 else [None]
    also = {name: document[name] for name in ("at", "confidence") if name in document}
    return [
        {"key": key} | entry | also | {"epsilon": "1"} for key, entry in zip(keys, document["entries"], strict=True)
    ]


def same(found: Any, expected: Any) -> bool:
    if isinstance(expected, bool):
        return bool(found is expected or found == str(expected).lower())
    if isinstance(found, int | Decimal):
        return Decimal(found) == Decimal(expected)
    try:
        return bool(found == expected or Decimal(found) == Decimal(expected))
    except (ArithmeticError, TypeError):
        return False


@pytest.mark.parametrize("kind", TABLES)
@pytest.mark.parametrize("name", QUESTIONS)
def test_every_format_holds_what_the_document_says(shop: Fair, sold: dict[str, Any], name: str, kind: str) -> None:
    path, document = sold[name]
    response = get(shop, sold["buyer"], path, Accept=MEDIA[kind])
    assert response.status_code == 200
    assert response.headers["content-type"].startswith(MEDIA[kind])
    assert f".{kind}" in response.headers["content-disposition"]
    found, expected = table(kind, response.content), wanted(name, document)
    assert len(found) == len(expected)
    for row, entry in zip(found, expected, strict=True):
        assert set(row) == set(entry)
        assert all(same(row[column], entry[column]) for column in entry), (row, entry)
        assert not any(isinstance(cell, float) for cell in row.values())


def test_bits_are_bits_numbers_are_exact_and_dates_are_text(shop: Fair, sold: dict[str, Any]) -> None:
    def types(name: str) -> dict[str, Any]:
        raw = get(shop, sold["buyer"], sold[name][0], Accept=MEDIA["arrow"]).content
        schema = pa.ipc.open_stream(raw).schema
        assert schema.metadata[b"product"].decode() == sold["products"][name]
        return {field.name: field.type for field in schema}

    assert types("thresholds")["reached"] == pa.bool_()
    assert types("thresholds")["at"] == pa.int64()
    assert pa.types.is_decimal128(types("means")["estimate"])
    assert pa.types.is_decimal128(types("median")["interval_lower"])
    assert types("days")["interval_lower"] == pa.string()


@pytest.mark.parametrize("kind", ["arrow", "parquet"])
@pytest.mark.parametrize(
    ("texts", "numeric"), [(("2026-01-01", "2026-01-14"), False), (("1e+22", "3.0"), True), (("-3.0", "1.0"), True)]
)
def test_an_open_end_has_the_type_of_the_other_ends(kind: str, texts: tuple[str, str], *, numeric: bool) -> None:
    document = {"type": "quantile", "fraction": "0.5", "confidence": "0.95"}
    kinds = set()
    for lower, upper in ((None, texts[0]), texts, (texts[1], None)):
        ends = {"lower": lower, "upper": upper, "interval_lower": None, "interval_upper": upper}
        raw = ReadOff(document | ends, (), "1").table()
        body = write(raw, Format[kind.upper()])
        read = pa.ipc.open_stream(body).read_all() if kind == "arrow" else pq.read_table(io.BytesIO(body))
        kinds |= {pa.types.is_decimal(field.type) for field in read.schema if field.name in ends}
        assert [read[name].to_pylist()[0] is None for name in ends] == [end is None for end in ends.values()]
    assert kinds == {numeric}


def test_each_representation_has_a_strong_etag_that_saves_the_body(shop: Fair, sold: dict[str, Any]) -> None:
    path, document = sold["means"]
    etags = set()
    for kind, media in MEDIA.items():
        first = get(shop, sold["buyer"], path, Accept=media)
        etag = first.headers["etag"]
        assert etag[0] == etag[-1] == '"'
        again = shop.client.get(f"{path}?format={kind}", headers=sold["buyer"].headers)
        assert (again.content, again.headers["etag"]) == (first.content, etag)
        unchanged = get(shop, sold["buyer"], path, Accept=media, **{"If-None-Match": f'"x", W/{etag}'})
        assert (unchanged.status_code, unchanged.content, unchanged.headers["etag"]) == (304, b"", etag)
        etags.add(etag)
    assert len(etags) == 4
    assert get(shop, sold["buyer"], path).json() == document


def test_no_etag_and_no_format_opens_a_reading_to_who_does_not_hold_it(shop: Fair, sold: dict[str, Any]) -> None:
    stranger = shop.person()
    for media in MEDIA.values():
        etag = get(shop, sold["buyer"], sold["median"][0], Accept=media).headers["etag"]
        for match in (etag, "*"):
            refused = get(shop, stranger, sold["median"][0], Accept=media, **{"If-None-Match": match})
            assert refused.status_code == 403
    assert get(shop, sold["buyer"], sold["median"][0], Accept="image/png").status_code == 406


def test_a_rehearsed_reading_has_the_same_formats_and_says_that_it_is_made_up(shop: Fair, sold: dict[str, Any]) -> None:
    path = f"/v1/products/{sold['products']['means']}/rehearsal/reading"
    plain = shop.client.post(path, json={"epsilon": "1"}, headers=sold["buyer"].headers)
    assert plain.json()["dummy"] is True
    for kind in TABLES:
        asked = sold["buyer"].headers | {"Accept": MEDIA[kind]}
        found = shop.client.post(path, json={"epsilon": "1"}, headers=asked)
        assert found.headers["x-tiermarket-dummy"] == "true"
        rows = table(kind, found.content)
        assert all(
            same(row["estimate"], entry["estimate"])
            for row, entry in zip(rows, plain.json()["reading"]["entries"], strict=True)
        )
        if kind == "arrow":
            assert pa.ipc.open_stream(found.content).schema.metadata[b"dummy"] == b"true"


@pytest.mark.parametrize("kind", TABLES)
def test_a_reading_of_a_panel_is_a_table_of_bars(kind: str) -> None:
    values = [
        {"key": "=red", "value": "12.250000", "half_width": "20.000001"},
        {"key": "blue", "value": "-3.000000", "half_width": "4.500000"},
    ]
    rows = table(kind, write(panel_table(values, "1", {"panel": "p"}), Format[kind.upper()]))
    assert [row["key"] for row in rows] == ["'=red" if kind == "csv" else "=red", "blue"]
    ends = [tuple(Decimal(row[end]) for end in ("lower", "value", "upper")) for row in rows]
    assert ends == [
        (Decimal("-7.750001"), Decimal("12.25"), Decimal("32.250001")),
        (Decimal("-7.5"), Decimal("-3"), Decimal("1.5")),
    ]
    assert [set(row) for row in table(kind, write(panel_table([{"key": "a"}], "1", {}), Format[kind.upper()]))] == [
        {"key", "epsilon"}
    ]


def test_a_panel_gives_a_range_in_every_format_to_who_holds_the_tier(shop: Fair) -> None:
    panel, buyer, stranger = panels.opened(shop), shop.person(), shop.person()
    panels.deliver(shop, panel, reports=panels.rows(panel, [0, 1, 2, 3, 4] * 20))
    panels.close(shop, panel)
    assert panels.buy(shop, buyer, panel, "1.5").status_code == 201
    asked = {"round": 1, "epsilon": "1.5", "reading": {"type": "range", "first": "red", "last": "blue"}}
    path = f"/v1/panels/{panel['panel']}/readings"
    plain = shop.client.post(path, json=asked, headers=buyer.headers)
    (value,) = plain.json()["values"]
    etags = {plain.headers["etag"]}
    for kind in TABLES:
        found = shop.client.post(path, json=asked, headers=buyer.headers | {"Accept": MEDIA[kind]})
        (row,) = table(kind, found.content)
        middle, width = Decimal(value["value"]), Decimal(value["half_width"])
        assert [Decimal(row[end]) for end in ("lower", "value", "upper")] == [middle - width, middle, middle + width]
        assert (row["key"], row["epsilon"]) == ("red to blue", "1.5")
        etags.add(found.headers["etag"])
        assert shop.client.post(path, json=asked, headers=stranger.headers | {"Accept": MEDIA[kind]}).status_code == 403
    assert len(etags) == 4


def test_numbers_with_more_digits_than_a_decimal_holds_stay_exact_as_text() -> None:
    """38 digits in all: those before the point of one number and behind it of another are not of the same number."""
    wide = [Decimal("123456789012345678901234567890"), Decimal("0.123456789012345678901234567890")]
    table = Table((Column("value", wide, "value"),), {})
    read = pa.ipc.open_stream(write(table, Format.ARROW)).read_all()["value"]
    assert [Decimal(text) for text in read.to_pylist()] == wide
    assert pq.read_table(io.BytesIO(write(table, Format.PARQUET)))["value"].to_pylist() == read.to_pylist()
    fits = Table((Column("value", [Decimal("12345678901234567890"), Decimal("0.123456789012345678")], "value"),), {})
    assert pa.types.is_decimal(pa.ipc.open_stream(write(fits, Format.ARROW)).schema.field("value").type)


@pytest.mark.parametrize("kind", MEDIA)
def test_a_mean_s_count_is_read_as_a_count(shop: Fair, sold: dict[str, Any], kind: str) -> None:
    listing = shop.client.get(f"/v1/products/{sold['products']['means']}", headers=sold["buyer"].headers).json()
    part = listing["companion"]["product"]
    path = f"/v1/products/{part}/rehearsal/reading?format={kind}"
    shown = shop.client.post(path, json={}, headers=shop.owner().headers)
    assert shown.status_code == 200, shown.text
    if kind == "json":
        assert shown.json()["reading"] == {"type": "nothing"}
