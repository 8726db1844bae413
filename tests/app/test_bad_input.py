"""Bad input at every door: one clear problem+json each, and nothing stored."""

from datetime import datetime, timedelta
from typing import Any

import pytest

from tests.conftest import HISTOGRAM, PEOPLE, Fair, tiers

BAD_EPSILONS = [
    '"NaN"',
    '"inf"',
    '"-inf"',
    '"Infinity"',
    '"1e999"',
    '"1e-3"',
    "1e999",
    "0.1",
    "1",
    "true",
    "null",
    '"0"',
    '"-1"',
    '"+1"',
    '"5e-324"',
    '"0.0000001"',
    '"51"',
    '""',
    '" 0.1"',
    '"0.1\\n"',
    '"1_0"',
    '"٠.١"',
    '"０.１"',
    '".5"',
    '"1."',
    '"1/2"',
    f'"{"1" * 31}"',
    f'"0.{"1" * 100}"',
    "NaN",
    "Infinity",
    "-Infinity",
    "[]",
    "{}",
    pytest.param("1" + "0" * 10_000, id="10⁴ digits"),
]


def refused(fair: Fair, path: str, raw: str, headers: dict[str, str], *, status: int = 400) -> dict[str, Any]:
    before = fair.stored()
    response = fair.client.post(path, content=raw.encode(), headers=headers | {"Content-Type": "application/json"})
    assert response.status_code == status, (response.status_code, response.text, raw[:200])
    assert response.headers["content-type"] == "application/problem+json"
    problem = dict(response.json())
    assert problem["status"] == status
    assert problem["type"].startswith("https://")
    assert problem["title"]
    assert "Traceback" not in response.text
    assert len(response.text) < 2_000
    assert fair.stored() == before
    return problem


@pytest.fixture(scope="module")
def shop(tmp_path_factory: pytest.TempPathFactory) -> Any:
    from app.settings import Settings
    from tests.conftest import open_fair

    opened = open_fair(Settings.at(tmp_path_factory.mktemp("bad") / "market"))
    fair = next(opened)
    fair.dataset_id = fair.dataset()  # type: ignore[attr-defined]
    fair.listed = fair.product(fair.dataset_id)  # type: ignore[attr-defined]
    fair.buyer = fair.person()  # type: ignore[attr-defined]
    yield fair
    opened.close()


@pytest.mark.parametrize("text", BAD_EPSILONS)
def test_a_bad_epsilon_is_refused_in_a_ladder(shop: Any, text: str) -> None:
    body = product_json(shop).replace('"2"', text, 1)
    refused(shop, "/v1/products", body, shop.owner().headers)


@pytest.mark.parametrize("text", BAD_EPSILONS)
def test_a_bad_epsilon_is_refused_in_a_quote(shop: Any, text: str) -> None:
    body = f'{{"product":"{shop.listed["product"]}","epsilon":{text}}}'
    refused(shop, "/v1/quotes", body, shop.buyer.headers)


@pytest.mark.parametrize("text", [*BAD_EPSILONS[:2], '"0"', '"-5"', '"5\\n"', "5", '"1001"', '"0.0000000001"'])
def test_a_bad_budget_is_refused(shop: Any, text: str) -> None:
    import msgspec

    body = msgspec.json.encode(dataset_body()).decode().replace('"budget":"5"', f'"budget":{text}')
    told = refused(shop, "/v1/datasets", body, shop.owner().headers)
    if text in ('"0"', '"1001"'):
        assert told["detail"].endswith(f"in steps of 10⁻⁹, got {text[1:-1]}")
    assert len(list(shop.market.settings.snapshots.iterdir())) == 1


@pytest.mark.parametrize(
    "raw",
    [
        "",
        "{",
        "[]",
        "null",
        '"text"',
        '{"product":"x","product":"y","epsilon":"1"}',
        '{"product":"x","epsilon":"1","epsilon":"2"}',
        '{"product":"x","epsilon":"1","extra":1}',
        '{"product":1,"epsilon":"1"}',
        '{"product":"X!","epsilon":"1"}',
        '{"product":"PRODUCT"}',
        '{"product":"PRODUCT","epsilon":"1","law":"' + "0" * 64 + '"}',
        '{"product":"PRODUCT","law":"short"}',
        '{"a":' * 5_000 + "1" + "}" * 5_000,
        "[" * 100_000,
        '{"product":"\\ud800","epsilon":"1"}',
        '{"product":"PRODUCT","within":"-1"}',
    ],
)
def test_a_bad_body_is_one_clear_problem(shop: Any, raw: str) -> None:
    refused(shop, "/v1/quotes", raw.replace("PRODUCT", shop.listed["product"]), shop.buyer.headers)


def test_a_repeated_key_is_named(shop: Any) -> None:
    problem = refused(shop, "/v1/quotes", '{"product":"x","product":"y"}', shop.buyer.headers)
    assert "repeated key" in problem["detail"]


def test_a_body_beyond_the_limit_is_refused(shop: Any) -> None:
    raw = '{"product":"' + "x" * (2 << 20) + '"}'
    refused(shop, "/v1/quotes", raw, shop.buyer.headers, status=413)


@pytest.mark.parametrize(
    "ladder",
    [
        [],
        [("1", 100), ("1", 100)],
        [("0.5", 100), ("1", 100)],
        [("1", 100), ("1.0", 100)],
        [("1", 100), ("0.5", 200)],
        [("2", -1)],
        [(str(value), 1) for value in range(1000, 0, -1)],
    ],
    ids=["empty", "repeated", "rising", "equal in value", "cheaper with accuracy", "negative price", "a thousand"],
)
def test_a_bad_ladder_or_book_is_refused_at_publication(shop: Any, ladder: list[tuple[str, int]]) -> None:
    import msgspec

    body = shop.product_body(shop.dataset_id, PEOPLE, tiers=tiers(*ladder))
    refused(shop, "/v1/products", msgspec.json.encode(body).decode(), shop.owner().headers)


@pytest.mark.parametrize("price", ["1.5", "1e2", "true", '"5"', "9007199254740993", "-1", "1" * 40])
def test_a_price_that_is_no_whole_number_of_minor_units_is_refused(shop: Any, price: str) -> None:
    body = product_json(shop, PEOPLE).replace("9000", price, 1)
    refused(shop, "/v1/products", body, shop.owner().headers)


@pytest.mark.parametrize("currency", ["XXX", "eur", "EU", "EURO", "€"])
def test_an_unknown_currency_is_refused(shop: Any, currency: str) -> None:
    body = product_json(shop, PEOPLE).replace('"EUR"', f'"{currency}"', 1)
    refused(shop, "/v1/products", body, shop.owner().headers)


@pytest.mark.parametrize(
    "query",
    [
        {"measure": {"type": "sum", "column": "amount"}},
        {"measure": {"type": "sum", "column": "amount", "lower": "0", "upper": "0", "grain_exponent": 0}},
        {"measure": {"type": "sum", "column": "city", "lower": "0", "upper": "9", "grain_exponent": 0}},
        {"measure": {"type": "sum", "column": "amount", "lower": "9", "upper": "1", "grain_exponent": 0}},
        {"measure": {"type": "sum", "column": "amount", "lower": "0", "upper": "1e9", "grain_exponent": 0}},
        {"measure": {"type": "sum", "column": "amount", "lower": "0", "upper": "9" * 30, "grain_exponent": -60}},
        {"measure": {"type": "count", "of": "rows"}},
        {"measure": {"type": "count", "of": "rows"}, "rows_per_unit": 0},
        {"measure": {"type": "count", "of": "rows"}, "rows_per_unit": 11},
        HISTOGRAM | {"groups_per_unit": 4},
        {"measure": {"type": "count", "of": "units"}, "group_by": {"type": "keys", "column": "city", "keys": []}},
        {
            "measure": {"type": "count", "of": "units"},
            "group_by": {"type": "keys", "column": "city", "keys": ["a", "a"]},
            "groups_per_unit": 1,
        },
        PEOPLE | {"where": {"type": "comparison", "column": "nobody", "operator": "=", "value": 1}},
        PEOPLE | {"where": {"type": "comparison", "column": "amount", "operator": "=", "value": "1\n"}},
        PEOPLE | {"where": {"type": "comparison", "column": "amount", "operator": "=", "value": "١"}},
        PEOPLE | {"where": {"type": "sql", "text": "1=1"}},
        {"measure": {"type": "median"}},
    ],
)
def test_a_query_outside_the_model_or_without_sensitivity_is_refused(shop: Any, query: dict[str, Any]) -> None:
    import msgspec

    body = shop.product_body(shop.dataset_id, query)
    refused(shop, "/v1/products", msgspec.json.encode(body).decode(), shop.owner().headers)


@pytest.mark.parametrize(
    ("first", "second"),
    [
        (("in", ["Athens", "Cork"]), ("in", ["Cork", "Athens"])),
        (("in", ["Athens"]), ("=", "Athens")),
        (("amount>", 1), ("amount>", "1.0")),
    ],
)
def test_two_ways_to_say_one_question_are_one_chain(fair: Fair, first: Any, second: Any) -> None:
    def where(said: tuple[str, Any]) -> dict[str, Any]:
        operator, value = said
        if operator == "in":
            return {"type": "in", "column": "city", "values": value}
        if operator == "amount>":
            return {"type": "comparison", "column": "amount", "operator": ">", "value": value}
        return {"type": "comparison", "column": "city", "operator": operator, "value": value}

    dataset = fair.dataset()
    chains = {fair.product(dataset, PEOPLE | {"where": where(said)})["chain"] for said in (first, second)}
    assert len(chains) == 1


@pytest.mark.parametrize(
    "file",
    ["../keys.json", "/etc/passwd", "..", ".hidden.csv", "missing.csv", "people.txt", "a/b.csv", "", "link.csv"],
)
def test_a_file_outside_the_data_folder_is_refused(shop: Any, file: str) -> None:
    import msgspec

    link = shop.market.settings.data / "link.csv"
    if not link.is_symlink():
        link.symlink_to(shop.market.settings.keys)
    raw = msgspec.json.encode(dataset_body(file=file)).decode()
    refused(shop, "/v1/datasets", raw, shop.owner().headers)
    assert len(list(shop.market.settings.snapshots.iterdir())) == 1


@pytest.mark.parametrize("kind", ["damaged.csv.gz", "damaged.zip", "encrypted.zip", "bomb.zip"])
def test_an_archive_that_is_not_whole_or_too_large_is_refused(
    shop: Any, kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    import gzip
    import zipfile

    import msgspec

    from app.engines import ingest
    from tests.conftest import rows

    path = shop.market.settings.data / kind
    if kind.endswith(".gz"):
        path.write_bytes(gzip.compress(rows().encode())[:-20] + b"x" * 20)
    else:
        with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
            archive.writestr("rows.csv", rows())
        raw = bytearray(path.read_bytes())
        if kind == "damaged.zip":
            raw[60:90] = b"\xff" * 30
        if kind == "encrypted.zip":
            raw[6] |= 1
            raw[raw.rindex(b"PK\x01\x02") + 8] |= 1
        path.write_bytes(bytes(raw))
    if kind == "bomb.zip":
        monkeypatch.setattr(ingest, "UNPACKED_LIMIT", 1_000)
    problem = refused(shop, "/v1/datasets", msgspec.json.encode(dataset_body(file=kind)).decode(), shop.owner().headers)
    assert "file: expected" in problem["detail"]
    assert len(list(shop.market.settings.snapshots.iterdir())) == 1


def test_a_book_that_falls_is_told_by_epsilon_and_price(shop: Any) -> None:
    import msgspec

    body = shop.product_body(shop.dataset_id, PEOPLE, tiers=tiers(("1", 100), ("0.5", 200)))
    problem = refused(shop, "/v1/products", msgspec.json.encode(body).decode(), shop.owner().headers)
    assert problem["detail"] == "prices: expected none that falls with accuracy, got 200 at ε 0.5 above 100 at ε 1"


def test_the_hardest_plan_that_may_be_asked_for_is_made_at_once(shop: Any) -> None:
    """Δ₁ = 2⁶², ε = 10⁻⁶: a billion steps of search once; the bar must be the least one, and found by bisection."""
    measure = {"type": "sum", "column": "score", "lower": "-1", "upper": "1", "grain_exponent": -62}
    product = shop.product(shop.dataset_id, {"measure": measure}, tiers=tiers(("50", 9), ("0.000001", 1)))
    assert int(product["tiers"][1]["half_width"]) > 10**25


def test_a_file_that_does_not_parse_is_refused_without_saying_what_is_in_it(shop: Any) -> None:
    import msgspec

    (shop.market.settings.data / "bad.csv").write_text(
        "person,city,amount,score,day\np1,Athens,sevenhundred,1.0,2026-01-01\n"
    )
    raw = msgspec.json.encode(dataset_body(file="bad.csv")).decode()
    problem = refused(shop, "/v1/datasets", raw, shop.owner().headers)
    assert "sevenhundred" not in str(problem)
    assert "amount" in problem["detail"]


@pytest.mark.parametrize("key", [None, "", '""', "a" * 201, "caf\u00e9", "a\tb"])
def test_an_order_needs_an_idempotency_key(shop: Any, key: str | None) -> None:
    quote = shop.quote(shop.buyer, shop.listed, "1")
    headers = shop.buyer.headers | ({} if key is None else {"Idempotency-Key": key.encode("latin-1")})
    before = shop.stored()
    assert (
        shop.client.post("/v1/orders", json={"quote": quote, "licence": "terms/1"}, headers=headers).status_code == 400
    )
    assert shop.stored() == before


def test_an_expired_quote_is_refused(dated: tuple[Fair, list[datetime]]) -> None:
    fair, now = dated
    product, buyer = fair.product(fair.dataset()), fair.person()
    quote = fair.quote(buyer, product, "1")
    now[0] += timedelta(seconds=901)
    expired = fair.order(buyer, quote)
    assert expired.status_code == 409
    assert expired.json()["type"].endswith("quote-expired")


def test_a_quote_whose_credit_has_changed_is_refused(fair: Fair) -> None:
    product, buyer = fair.product(fair.dataset()), fair.person()
    stale = fair.quote(buyer, product, "2")
    fair.buy(buyer, product, "1")
    assert fair.order(buyer, stale, "z").json()["type"].endswith("quote-expired")


def test_one_deposit_a_reference_and_only_to_buyers(fair: Fair) -> None:
    buyer, owner = fair.person(), fair.owner()
    body = {"amount_minor": 5, "currency": "EUR", "reference": "start"}
    again = fair.client.post(f"/v1/accounts/{buyer.account}/deposits", json=body, headers=fair.operator.headers)
    assert again.status_code == 409
    wrong = body | {"reference": "r", "currency": "USD"}
    for account, sent, status in ((buyer.account, wrong, 400), (owner.account, body, 403), ("acc_no", body, 404)):
        before = fair.stored()
        response = fair.client.post(f"/v1/accounts/{account}/deposits", json=sent, headers=fair.operator.headers)
        assert response.status_code == status, response.text
        assert fair.stored() == before


def test_html_in_names_is_shown_as_text(fair: Fair) -> None:
    nasty = "<script>alert(1)</script>"
    fair.product(fair.dataset(title=nasty), title=nasty, left_out=nasty)
    page = fair.client.get("/")
    assert nasty not in page.text
    assert "&lt;script&gt;" in page.text
    assert "default-src 'none'" in page.headers["content-security-policy"]


def product_json(fair: Any, query: dict[str, Any] | None = None) -> str:
    import msgspec

    return msgspec.json.encode(fair.product_body(fair.dataset_id, query)).decode()


def dataset_body(**fields: Any) -> dict[str, Any]:
    from tests.conftest import COLUMNS

    return {
        "name": "other",
        "title": "Other",
        "file": "people.csv",
        "columns": COLUMNS,
        "unit": "person",
        "max_rows_per_unit": 10,
        "max_groups_per_unit": 3,
        "budget": "5",
    } | fields
