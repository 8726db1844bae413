"""One answer in four formats: the same numbers, exact; strong ETags after the entitlement check; 406 otherwise."""

import csv
import io
from collections.abc import Iterator
from decimal import Decimal
from fractions import Fraction
from typing import Any

import msgspec
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from app.formats.kept import Renderings
from app.formats.negotiate import Format, choose
from app.formats.rows import neutral
from app.formats.tables import render
from app.settings import Settings
from tests.conftest import HISTOGRAM, PEOPLE, TOTAL, Fair, open_fair

MEDIA = {kind.name.lower(): kind.value for kind in Format}


@pytest.fixture(scope="module")
def shop(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Fair]:
    yield from open_fair(Settings.at(tmp_path_factory.mktemp("formats") / "market"))


@pytest.fixture(scope="module")
def sold(shop: Fair) -> dict[str, Any]:
    """A sold answer of each kind, by name: its buyer, path and JSON."""
    dataset, buyer = shop.dataset(), shop.person()
    fine = TOTAL["measure"] | {"column": "score", "lower": "-4", "upper": "4", "grain_exponent": -4}
    found: dict[str, Any] = {"buyer": buyer}
    for name, query in {"histogram": HISTOGRAM, "one": PEOPLE, "wide": TOTAL, "fine": {"measure": fine}}.items():
        answer = shop.buy(buyer, shop.product(dataset, query), "1")["answer"]
        found[name] = (f"/v1/answers/{answer['chain']}/{answer['law']}", answer)
    return found


def get(shop: Fair, sold: dict[str, Any], name: str, **headers: str) -> Any:
    return shop.client.get(sold[name][0], headers=sold["buyer"].headers | headers)


def expected(answer: dict[str, Any]) -> list[tuple[str | None, Fraction, Fraction, Fraction]]:
    step, width = Fraction(2) ** answer["grain_exponent"], int(answer["half_width"])
    keys = answer["keys"] or [None]
    return [
        (key, int(value) * step, (int(value) - width) * step, (int(value) + width) * step)
        for key, value in zip(keys, answer["values"], strict=True)
    ]


def rows(kind: str, body: bytes) -> list[dict[str, Any]]:
    if kind == "csv":
        return [row | {"key": row["key"] or None} for row in csv.DictReader(io.StringIO(body.decode(), newline=""))]
    if kind == "arrow":
        return list(pa.ipc.open_stream(body).read_all().to_pylist())
    return list(pq.read_table(io.BytesIO(body)).to_pylist())


@pytest.mark.parametrize("kind", ["csv", "arrow", "parquet"])
@pytest.mark.parametrize("name", ["histogram", "one", "wide", "fine"])
def test_every_format_gives_the_same_numbers_exactly(shop: Fair, sold: dict[str, Any], name: str, kind: str) -> None:
    response = get(shop, sold, name, Accept=MEDIA[kind])
    assert response.status_code == 200
    assert response.headers["content-type"].startswith(MEDIA[kind])
    assert response.headers["vary"] == "accept"
    assert f".{kind}" in response.headers["content-disposition"]
    found = rows(kind, response.content)
    assert [(row["key"], *(Fraction(row[end]) for end in ("value", "lower", "upper"))) for row in found] == expected(
        sold[name][1]
    )
    assert {row["epsilon"] for row in found} == {"1"}
    assert not any(isinstance(value, float) for row in found for value in row.values())


def test_the_json_is_what_was_sold_and_the_default(shop: Fair, sold: dict[str, Any]) -> None:
    for accept in ("", "*/*", "application/json", "application/*", "image/png, */*;q=0.1", "text/csv;q=0.4,*/*"):
        response = get(shop, sold, "histogram", Accept=accept)
        assert response.json() == sold["histogram"][1], accept


def test_the_query_string_chooses_too_and_wins(shop: Fair, sold: dict[str, Any]) -> None:
    path, _ = sold["histogram"]
    for kind, media in MEDIA.items():
        response = shop.client.get(f"{path}?format={kind}", headers=sold["buyer"].headers | {"Accept": "text/csv"})
        assert response.headers["content-type"].startswith(media)


@pytest.mark.parametrize(
    "accept", ["image/png", "*/*;q=0", "text/csv;q=2", "text/html, image/*", "text/csv;q=0", "," * 2_000, "nonsense"]
)
def test_what_no_format_satisfies_is_406(shop: Fair, sold: dict[str, Any], accept: str) -> None:
    response = get(shop, sold, "histogram", Accept=accept)
    assert response.status_code == 406
    assert response.json()["formats"] == list(MEDIA.values())
    assert response.headers["content-type"] == "application/problem+json"


@pytest.mark.parametrize("query", ["format=xml", "format=", "format=CSV", "format=csv&format=json", "format=csv%00"])
def test_an_unknown_format_is_406(shop: Fair, sold: dict[str, Any], query: str) -> None:
    path, _ = sold["histogram"]
    assert shop.client.get(f"{path}?{query}", headers=sold["buyer"].headers).status_code == 406


@pytest.mark.parametrize("query", ["&".join(["format=csv"] * 25), "format&" * 25, "&" * 300 + "format=csv"])
def test_more_fields_than_anybody_needs_are_406_and_no_error_of_ours(
    shop: Fair, sold: dict[str, Any], query: str
) -> None:
    path, _ = sold["histogram"]
    assert shop.client.get(f"{path}?{query}", headers=sold["buyer"].headers).status_code == 406


def test_a_name_that_is_escaped_is_the_same_name(shop: Fair, sold: dict[str, Any]) -> None:
    path, _ = sold["histogram"]
    response = shop.client.get(f"{path}?f%6Frmat=csv", headers=sold["buyer"].headers)
    assert response.headers["content-type"].startswith("text/csv")


def test_qualities_and_specificity_decide() -> None:
    assert choose("text/csv;q=0.2, application/json;q=0.1") is Format.CSV
    assert choose("application/*;q=0.9, application/json;q=0") is Format.ARROW
    assert choose("*/*;q=0.1, application/vnd.apache.parquet") is Format.PARQUET
    assert choose(None) is Format.JSON


def test_each_representation_has_a_strong_etag_of_its_own_that_saves_the_body(shop: Fair, sold: dict[str, Any]) -> None:
    etags = {}
    for kind, media in MEDIA.items():
        first, again = get(shop, sold, "histogram", Accept=media), get(shop, sold, "histogram", Accept=media)
        assert first.content == again.content
        assert first.headers["etag"] == again.headers["etag"]
        etags[kind] = first.headers["etag"]
        assert etags[kind][0] == etags[kind][-1] == '"'
        for match in (etags[kind], f'"x", {etags[kind]}', f"W/{etags[kind]}", "*"):
            unchanged = get(shop, sold, "histogram", Accept=media, **{"If-None-Match": match})
            assert (unchanged.status_code, unchanged.content) == (304, b"")
            assert unchanged.headers["etag"] == etags[kind]
    assert len(set(etags.values())) == 4
    other = get(shop, sold, "histogram", Accept="text/csv", **{"If-None-Match": etags["json"]})
    assert other.status_code == 200


def test_an_etag_tells_nothing_to_somebody_who_is_not_entitled(shop: Fair, sold: dict[str, Any]) -> None:
    stranger = shop.person()
    for media in MEDIA.values():
        etag = get(shop, sold, "histogram", Accept=media).headers["etag"]
        for match in (etag, "*", '"wrong"'):
            headers = stranger.headers | {"Accept": media, "If-None-Match": match}
            assert shop.client.get(sold["histogram"][0], headers=headers).status_code == 403


def document(keys: list[str], values: list[int], grain: int = 0, half_width: int = 3) -> bytes:
    return msgspec.json.encode(
        {
            "chain": "c",
            "confidence": "0.95",
            "epsilon": "1",
            "grain_exponent": grain,
            "half_width": str(half_width),
            "keys": keys,
            "law": "l",
            "snapshot": "s",
            "values": [str(value) for value in values],
        }
    )


@pytest.mark.parametrize(
    "key", ["=1+1", "+1", "-1", "@SUM(A1)", "\t=1", "\r=1", "  =1", "＝1", "'=1", '=HYPERLINK("x")']
)
def test_a_key_that_a_spreadsheet_would_run_is_text(key: str) -> None:
    body = render(document([key, "b"], [-5, 5]), Format.CSV)
    found = rows("csv", body)
    assert found[0]["key"] == neutral(key) == "'" + key
    assert (found[0]["value"], found[1]["key"]) == ("-5", "b")
    for kind in (Format.ARROW, Format.PARQUET):
        assert rows(kind.name.lower(), render(document([key, "b"], [-5, 5]), kind))[0]["key"] == key


@pytest.mark.parametrize("separator", [",", ";", "\t", "|"])
def test_no_cell_is_a_formula_whichever_character_a_spreadsheet_splits_at(separator: str) -> None:
    keys = [f"a{split}={place}+1" for place, split in enumerate((",", ";", "\t", "|", "\r", "\n", '";', '"', ' ;"'))]
    body = render(document(keys, [5] * len(keys)), Format.CSV).decode()
    assert [row["key"] for row in csv.DictReader(io.StringIO(body, newline=""))] == keys
    cells = [cell for row in csv.reader(io.StringIO(body, newline=""), delimiter=separator) for cell in row]
    assert [cell for cell in cells if cell.lstrip().startswith(("=", "+", "-", "@"))] == []


def test_neutral_cells_never_collide() -> None:
    cells = ["=a", "'=a", "''=a", "a", "'a", "-a", "'-a"]
    assert len({neutral(cell) for cell in cells}) == len(cells)


@pytest.mark.parametrize(
    ("values", "grain", "kind"),
    [
        ([1, -2], 0, pa.int64()),
        ([2**63 - 4, -(2**63) + 3], 0, pa.int64()),
        ([2**63 - 3, 0], 0, pa.decimal128(38, 0)),
        ([1, 2], 4, pa.int64()),
        ([1, 2], -3, pa.decimal128(38, 3)),
        ([10**38 - 9, 0], 0, pa.decimal128(38, 0)),
        ([10**38, 0], 0, pa.string()),
        ([1, 0], -39, pa.string()),
        ([2**80, -(2**80)], -62, pa.string()),
    ],
)
def test_numbers_are_64_bit_where_they_fit_else_decimals_else_text(values: list[int], grain: int, kind: Any) -> None:
    body = document(["a", "b"], values, grain)
    step = Fraction(2) ** grain
    for name in ("arrow", "parquet"):
        raw = render(body, Format[name.upper()])
        schema = pa.ipc.open_stream(raw).schema if name == "arrow" else pq.read_schema(io.BytesIO(raw))
        assert {schema.field(column).type for column in ("value", "lower", "upper")} == {kind}
        found = rows(name, raw)
        assert [Fraction(row["value"]) for row in found] == [value * step for value in values]
        assert [Fraction(row["upper"]) for row in found] == [(value + 3) * step for value in values]
    cells = rows("csv", render(body, Format.CSV))
    assert [Fraction(row["lower"]) for row in cells] == [(value - 3) * step for value in values]
    assert all("E" not in row["value"] and str(Decimal(row["value"])) for row in cells)


async def test_kept_renderings_are_bounded_in_bytes_and_by_document() -> None:
    kept = Renderings(limit_bytes=200)
    first = await kept.render('"1"', document(["a"], [1]), Format.CSV)
    second = await kept.render('"2"', document(["a"], [2]), Format.CSV)
    assert first != second
    assert await kept.render('"1"', document(["a"], [1]), Format.CSV) == first
    for place in range(50):
        await kept.render(f'"{place}"', document(["a"], [place]), Format.CSV)
    assert kept._held <= 200
    assert kept._held == sum(len(body) for body in kept._kept.values())
