"""Hostile requests: every text field of every body, heads, methods, encodings, logs. Nothing breaks, nothing leaks."""

import gzip
import json
import re
from collections.abc import Iterator
from datetime import datetime, timedelta
from typing import Any, get_type_hints

import msgspec
import pytest
import structlog

from app import wire
from app.routes.envelope import HEADERS_LIMIT, TARGET_LIMIT, envelope
from app.settings import Settings
from app.store.schema import metadata
from app.telemetry import Telemetry, configure_logging, request_id
from tests.conftest import COLUMNS, Fair, Person, open_fair

NASTY = {
    "sql": "x'; DROP TABLE accounts; --",
    "union": "' UNION SELECT key_digest FROM api_keys --",
    "path": "../../../../etc/passwd",
    "absolute": "/etc/passwd",
    "encoded": "..%2f..%2fkeys.json",
    "html": "<script>alert(1)</script>",
    "formula": "=cmd|' /C calc'!A0",
    "template": "{{7*7}}${7*7}#{7*7}",
    "header": "a\r\nSet-Cookie: stolen=1",
    "nul": "a\x00b",
    "escape": "\x1b[2J",
    "bidi": "\u202eevil",
    "long": "A" * 5_000,
    "digits": "９" * 10,
    "percent": "%s%n%d%%",
}


@pytest.fixture(scope="module")
def lines() -> list[bytes]:
    """The access log."""
    return []


@pytest.fixture(scope="module")
def shop(tmp_path_factory: pytest.TempPathFactory, lines: list[bytes]) -> Iterator[Fair]:
    yield from open_fair(Settings.at(tmp_path_factory.mktemp("security") / "market"), access=lines.append)


@pytest.fixture(scope="module")
def world(shop: Fair) -> dict[str, Any]:
    dataset = shop.dataset()
    product, buyer = shop.product(dataset), shop.person()
    sold = shop.buy(buyer, product, "0.5")
    return {"dataset": dataset, "product": product, "buyer": buyer, "analyst": shop.person("analyst"), "sold": sold}


# --- every text field of every request ------------------------------------------------------------------------------


def samples(shop: Fair, world: dict[str, Any]) -> dict[str, tuple[str, Person, dict[str, Any]]]:
    """A good body for every request struct: where it is sent, and by whom."""
    operator, owner, buyer, analyst = shop.operator, shop.owner(), world["buyer"], world["analyst"]
    dataset, product = world["dataset"], world["product"]["product"]
    law = world["product"]["tiers"][0]["law"]
    where = {
        "type": "and",
        "operands": [
            {"type": "comparison", "column": "city", "operator": "=", "value": "Cork"},
            {"type": "in", "column": "city", "values": ["Cork"]},
            {"type": "between", "column": "day", "lower": "2026-01-01", "upper": "2026-01-02"},
            {"type": "not", "operand": {"type": "is_null", "column": "score"}},
        ],
    }
    total = {"type": "sum", "column": "amount", "lower": "0", "upper": "9", "grain_exponent": 0}
    query = {"measure": total, "where": where, "group_by": {"type": "keys", "column": "city", "keys": ["Cork"]}}
    body = shop.product_body(
        dataset, query | {"groups_per_unit": 1}, description="d", state="live", family="auto", delta="0"
    )
    table = {
        "name": "other", "title": "Other", "description": "d", "notice": "n", "file": "people.csv", "null_text": "NA",
        "columns": [column | {"id": f"i{place}", "source": column["name"]} for place, column in enumerate(COLUMNS)],
        "unit": "person", "ordering": ["day"], "max_rows_per_unit": 10, "max_groups_per_unit": 3, "budget": "5",
        "budget_kind": "approx", "budget_delta": "0.000001", "owners": {owner.account: 1}, "quota": "1", "window": {"days": 1, "budget": "1"},
        "adhoc": ["1"], "keep_in": None,
    }  # fmt: skip
    deposits = f"/v1/accounts/{buyer.account}/deposits"
    return {
        "AccountRequest": ("/v1/accounts", operator, {"role": "buyer", "name": "n", "currency": "EUR", "ceiling": "1"}),
        "DepositRequest": (deposits, operator, {"amount_minor": 1, "currency": "EUR", "reference": "r"}),
        "KeyRequest": (f"/v1/accounts/{buyer.account}/keys", operator, {"label": "l"}),
        "SuspensionRequest": (f"/v1/accounts/{owner.account}/suspension", operator, {"reason": "r"}),
        "CeilingRequest": (f"/v1/accounts/{world['analyst'].account}/ceiling", operator, {"ceiling": "1"}),
        "ContractRequest": (f"/v1/datasets/{dataset}/contract", owner, {"owners": {owner.account: 1}}),
        "DatasetRequest": ("/v1/datasets", owner, table),
        "ProductRequest": ("/v1/products", owner, body),
        "SnapshotRequest": (f"/v1/datasets/{dataset}/snapshots", owner, {"file": "people.csv", "null_text": "NA"}),
        "StateRequest": (f"/v1/products/{product}/state", owner, {"state": "live"}),
        "BookRequest": (f"/v1/products/{product}/prices", owner, {"currency": "USD", "prices_minor": [4, 3, 2, 1]}),
        "BundleRequest": (
            "/v1/bundles",
            owner,
            {
                "title": "t",
                "description": "d",
                "parts": [{"product": product, "law": law, "epsilon": "1"}, {"product": "prod_2", "epsilon": "1"}],
                "currency": "EUR",
                "price_minor": 1,
                "state": "live",
            },
        ),
        "BundlePriceRequest": ("/v1/bundles/bundle_1/price", owner, {"currency": "EUR", "price_minor": 1}),
        "QuestionRequest": ("/v1/questions", analyst, {"dataset": dataset, "title": "t", "query": query}),
        "DashboardRequest": (
            "/v1/dashboards",
            analyst,
            {"name": "n", "tiles": [{"product": product, "epsilon": "1", "title": "t", "display": "bars"}]},
        ),
        "PanelRequest": (
            "/v1/panels",
            owner,
            {
                "title": "t",
                "domain": ["a", "b"],
                "axes": [{"name": "hour", "unit": "one hour", "values": ["8h", "9h"]}],
                "promise": "values",
                "mechanism": "auto",
                "mean_weight": "0.5",
                "currency": "EUR",
                "tiers": [{"epsilon": "1", "price_minor": 1}],
                "licence": "terms/1",
                "budget": "1",
            },
        ),
        "PanelReportsRequest": (
            f"/v1/panels/{product}/reports",
            owner,
            {"version": 1, "round": 1, "reports": [{"device": "d", "report": [0]}], "file": "a.ndjson"},
        ),
        "PanelQuoteRequest": (f"/v1/panels/{product}/quotes", buyer, {"round": 1, "epsilon": "1"}),
        "PanelReadingRequest": (
            f"/v1/panels/{product}/readings",
            buyer,
            {"round": 1, "epsilon": "1", "reading": {"type": "range", "first": "a", "last": "b"}},
        ),
        "ThawRequest": (f"/v1/chains/{'c' * 64}/thaw", operator, {"reason": "r", "report": "report_1"}),
        "WithdrawalRequest": (f"/v1/products/{product}x/withdrawal", owner, {"reason": "r", "faulty": False}),
        "QuoteRequest": ("/v1/quotes", buyer, {"product": product, "law": law, "epsilon": "1", "within": "5"}),
        "ThresholdRequest": (
            f"/v1/products/{product}/threshold-quotes",
            buyer,
            {"above": 5, "beta": "0.05", "highest": "1", "key": "Cork"},
        ),
        "RehearsalRequest": (f"/v1/products/{product}/rehearsal", buyer, {"law": law, "epsilon": "2"}),
        "OrderRequest": ("/v1/orders", buyer, {"quote": "quote_1", "licence": "terms/1"}),
        "CreditRequest": (
            f"/v1/orders/{product}/credits",
            operator,
            {"amount_minor": 1, "reason": "pricing error", "line_no": 1},
        ),
        "ExportRequest": ("/v1/exports", owner, {"what": {"type": "sales", "dataset": dataset, "format": "csv"}}),
        "PayoutRequest": ("/v1/payouts", operator, {"currency": "USD"}),
        "SimulationRequest": (
            "/v1/price-simulations",
            owner,
            {"demand": [{"count": 1, "values_minor": [1] * 4}], "product": product},
        ),
        "SubscriptionRequest": (
            f"/v1/products/{product}/subscription-floor",
            owner,
            {"epsilon": "1", "drift": "1"},
        ),
    }


def text_fields(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Paths of every text in a body, names of maps included (their path ends in `None`)."""
    if isinstance(value, str):
        yield path
    elif isinstance(value, dict):
        for key, inner in value.items():
            yield from text_fields(inner, (*path, key))
        if path and path[-1] == "owners":
            yield (*path, None)
    elif isinstance(value, list):
        for place, inner in enumerate(value[:1] if path and path[-1] != "operands" else value):
            yield from text_fields(inner, (*path, place))


def replaced(value: Any, path: tuple[Any, ...], text: str) -> Any:
    if not path:
        return text
    if path == (None,):
        return {text: 1}
    copy = list(value) if isinstance(value, list) else dict(value)
    copy[path[0]] = replaced(copy[path[0]], path[1:], text)
    return copy


STRUCTS = sorted(name for name in wire.__all__ if name.endswith("Request"))
NESTED = {"BundlePartRequest", "DemandRequest", "ReserveRequest", "TierRequest", "TileRequest", "WindowRequest"}


def test_every_request_struct_has_a_sample_with_all_its_text(shop: Fair, world: dict[str, Any]) -> None:
    found = samples(shop, world)
    assert set(found) | NESTED == set(STRUCTS)
    for name, (_, _, body) in found.items():
        texts = {field for field, hint in get_type_hints(getattr(wire, name)).items() if hint is not int}
        assert texts - {"reserve", "tiers", "amount_minor", "rows"} <= set(body), name


@pytest.mark.parametrize("name", sorted(set(STRUCTS) - NESTED))
def test_hostile_text_in_any_field_is_refused_or_stays_text(shop: Fair, world: dict[str, Any], name: str) -> None:
    path, who, body = samples(shop, world)[name]
    fields = list(text_fields(body)) + [(field,) for field, value in body.items() if value is None]
    assert fields
    for field in fields:
        for kind, text in NASTY.items():
            response = shop.client.post(
                path,
                json=replaced(body, field, text),
                headers=who.headers | {"Idempotency-Key": f"{name}-{field}-{kind}"},
            )
            where = (name, field, kind, response.status_code, response.text[:300])
            assert response.status_code < 500, where
            assert "set-cookie" not in response.headers, where
            for word in ("Traceback", "sqlite", "root:", "sqlalchemy", "duckdb"):
                assert word not in response.text.replace(json.dumps(text)[1:-1], ""), where
            if response.status_code >= 400:
                assert response.headers["content-type"] == "application/problem+json", where
                assert len(response.text) < 2_000, where
    if name == "SuspensionRequest":
        shop.client.delete(path, headers=shop.operator.headers)
    assert set(shop.stored()) == {table.name for table in metadata.sorted_tables}, "no table is gone"


# --- heads and bodies ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("encoding", ["gzip", "deflate", "br", "zstd", "GZIP", "identity, gzip"])
def test_an_encoded_body_is_refused_unread(shop: Fair, world: dict[str, Any], encoding: str) -> None:
    bomb = gzip.compress(b'{"product":"' + b"x" * 50_000_000 + b'"}')
    headers = world["buyer"].headers | {"Content-Encoding": encoding, "Content-Type": "application/json"}
    response = shop.client.post("/v1/quotes", content=bomb, headers=headers)
    assert response.status_code == 415
    assert response.json()["type"].endswith("/unsupported-media-type")


def test_a_body_beyond_the_limit_is_refused_however_its_length_is_told(shop: Fair, world: dict[str, Any]) -> None:
    headers = world["buyer"].headers | {"Content-Type": "application/json"}
    large = b'{"product":"' + b"x" * 2_000_000 + b'"}'

    def pieces() -> Iterator[bytes]:
        for start in range(0, len(large), 65_536):
            yield large[start : start + 65_536]

    for content in (large, pieces()):
        response = shop.client.post("/v1/quotes", content=content, headers=headers)
        assert response.status_code == 413
        assert response.headers["content-type"] == "application/problem+json"


def test_huge_heads_are_refused(shop: Fair, world: dict[str, Any]) -> None:
    headers = world["buyer"].headers
    for more in ({"X-Large": "a" * HEADERS_LIMIT}, {f"X-{place}": "a" for place in range(120)}):
        response = shop.client.get("/v1/account", headers=headers | more)
        assert (response.status_code, response.headers["content-type"]) == (431, "application/problem+json")
    response = shop.client.get("/v1/products?q=" + "a" * TARGET_LIMIT, headers=headers)
    assert response.status_code == 414
    assert (
        shop.client.get("/v1/account", headers=headers | {"Authorization": "Bearer " + "a" * 5_000}).status_code == 401
    )


@pytest.mark.parametrize(
    "path", ["/v1/answers/%00/%00", "/v1/orders/%00", "/v1/products/..%2f..%2fkeys.json", "/v1/orders/a'b", "/v1/jobs/%ff",
             "/v1/products/" + "a" * 2_000, "/v1/answers/a/b/c", "/v1/answers", "/v1/answersx/a/b", "//v1//orders//x"],
)  # fmt: skip
def test_hostile_paths_are_not_there(shop: Fair, world: dict[str, Any], path: str) -> None:
    response = shop.client.get(path, headers=world["buyer"].headers)
    assert response.status_code in (403, 404), (response.status_code, response.text)
    assert response.headers["content-type"] == "application/problem+json"


def test_an_id_that_is_none_is_refused_before_the_store_is_asked(
    shop: Fair, world: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    headers = world["buyer"].headers
    assert shop.client.get("/v1/account", headers=headers).status_code == 200
    monkeypatch.setattr(shop.market.authenticator, "_clock", lambda: 0.0)
    asked: list[str] = []

    async def read(work: Any) -> list[Any]:
        asked.append(work.__qualname__)
        return []

    monkeypatch.setattr(shop.market.database, "read", read)
    for identity in ("a%00b", "a'b", "A", "a" * 65, "%2e%2e"):
        assert shop.client.get(f"/v1/orders/{identity}", headers=headers).status_code == 404
    assert [who for who in asked if not who.startswith("Jobs.take_over")] == [], "only jobs are looked for meanwhile"


def test_wrong_methods_name_the_right_ones_and_head_is_get_without_a_body(shop: Fair, world: dict[str, Any]) -> None:
    paths = shop.client.get("/schema/openapi.json").json()["paths"]
    answer = world["sold"]["answer"]
    for template, operations in paths.items():
        path = template.replace("{chain}", answer["chain"]).replace("{law}", answer["law"])
        path = re.sub(r"{([a-z]+)}", r"\1", path)
        allowed = {method.upper() for method in operations} | ({"HEAD"} if "get" in operations else set())
        for method in ("PUT", "PATCH", "OPTIONS", "TRACE", "BREW"):
            refused = shop.client.request(method, path, headers=world["buyer"].headers)
            assert refused.status_code == 405, (method, path)
            assert {name.strip() for name in refused.headers["allow"].split(",")} == allowed, (method, path)
        for headers in (world["buyer"].headers, {}):
            if "get" in operations and path not in ("/v1/audit/export", "/health/ready"):
                got, head = (shop.client.request(method, path, headers=headers) for method in ("GET", "HEAD"))
                assert (head.status_code, head.content) == (got.status_code, b""), path
                assert head.headers["content-type"] == got.headers["content-type"]


def test_options_without_a_key_tells_no_more_than_the_document(shop: Fair) -> None:
    assert shop.client.options("/v1/accounts").status_code == 405
    assert shop.client.options("/nowhere").status_code == 404
    assert (
        "access-control-allow-origin"
        not in shop.client.options("/v1/accounts", headers={"Origin": "https://x"}).headers
    )


# --- request ids and logs --------------------------------------------------------------------------------------------


def test_a_well_formed_request_id_is_taken_over_and_any_other_replaced(shop: Fair) -> None:
    assert shop.client.get("/health/live", headers={"X-Request-ID": "client-1234.a_b"}).headers["x-request-id"] == (
        "client-1234.a_b"
    )
    for bad in (
        "short",
        "a" * 65,
        "has space in it",
        "a\tbbbbbbbbb",
        "semi;colon;;;",
        "caf\u00e9\u00e9\u00e9\u00e9\u00e9",
        "{}{}{}{}{}",
    ):
        minted = shop.client.get("/health/live", headers={"X-Request-ID": bad.encode("latin-1")}).headers[
            "x-request-id"
        ]
        assert re.fullmatch(r"[0-9a-f]{16}", minted), bad
    twice = shop.client.get("/health/live", headers=[("X-Request-ID", "aaaaaaaa"), ("X-Request-ID", "bbbbbbbb")])
    assert re.fullmatch(r"[0-9a-f]{16}", twice.headers["x-request-id"])
    ids = {shop.client.get("/health/live").headers["x-request-id"] for _ in range(50)}
    assert len(ids) == 50


def test_every_answer_has_an_id_and_says_that_its_type_is_meant(shop: Fair, world: dict[str, Any]) -> None:
    for path in ("/", "/v1/account", "/nowhere", "/schema/openapi.json", "/v1/answers/a/b"):
        response = shop.client.get(path, headers=world["buyer"].headers)
        assert response.headers["x-request-id"]
        assert response.headers["x-content-type-options"] == "nosniff"


def logged(shop: Fair, lines: list[bytes]) -> list[dict[str, Any]]:
    telemetry = shop.client.app.state.telemetry  # type: ignore[attr-defined]
    shop.client.blocking_portal.call(telemetry.flush)  # where it is flushed by itself, too: one at a time
    return [json.loads(line) for line in b"".join(lines).splitlines()]


def test_the_access_log_names_route_status_time_id_and_pseudonym_and_nothing_else(
    shop: Fair, world: dict[str, Any], lines: list[bytes]
) -> None:
    logged(shop, lines)
    lines.clear()
    buyer, answer = world["buyer"], world["sold"]["answer"]
    response = shop.client.get(
        f"/v1/answers/{answer['chain']}/{answer['law']}?format=csv",
        headers=buyer.headers | {"X-Request-ID": "my-request"},
    )
    assert response.status_code == 200
    shop.client.get("/v1/account")
    shop.client.request("BREW", "/v1/secret-path?token=hush")
    first, second, third = logged(shop, lines)
    pseudonym = shop.client.get("/v1/account", headers=buyer.headers).json()["pseudonym"]
    assert first["milliseconds"] > 0
    assert (first["method"], first["route"], first["status"]) == ("GET", "/v1/answers/{chain}/{law}", 200)
    assert (first["request"], first["who"]) == ("my-request", pseudonym)
    assert (second["route"], second["status"], second["who"]) == ("/v1/account", 401, None)
    assert (third["method"], third["route"], third["status"]) == ("other", "unmatched", 404)
    for line in (first, second, third):
        # What every field holds is known, so that no answer is in any: a short number could be there by chance.
        assert set(line) == {"at", "event", "method", "milliseconds", "request", "route", "status", "who"}
        assert (type(line["milliseconds"]), line["event"]) == (float, "request")
        assert datetime.fromisoformat(line["at"]).utcoffset() == timedelta(0)
    assert third["who"] is None
    assert all(re.fullmatch("[0-9a-f]{16}", line["request"]) for line in (second, third))
    raw = b"".join(lines).decode()
    for secret in (buyer.key, buyer.account, answer["chain"], answer["law"], "hush", "secret-path", "format=csv"):
        assert secret not in raw, secret


def test_nothing_that_is_sent_can_forge_a_line_of_the_log(shop: Fair, lines: list[bytes]) -> None:
    forged = '","status":200,"event":"forged'
    for path in ("/v1/%0a%0d" + forged.replace('"', "%22"), "/" + forged.replace('"', "%22")):
        shop.client.get(
            path, headers={"X-Request-ID": forged, "User-Agent": forged, "Authorization": f"Bearer {forged}"}
        )
    found = logged(shop, lines)
    assert all(line["event"] == "request" for line in found)
    assert b"forged" not in b"".join(lines)


def test_a_failure_says_nothing_of_itself_and_logs_no_key(tmp_path: Any) -> None:
    opened = open_fair(Settings.at(tmp_path / "m"))
    fair = next(opened)
    read = fair.market.database.read
    fair.market.database.read = None  # type: ignore[assignment, method-assign]
    with structlog.testing.capture_logs() as logs:
        response = fair.client.get("/v1/account", headers={"Authorization": "Bearer tm_secret"})
    fair.market.database.read = read  # type: ignore[method-assign]
    opened.close()
    assert (response.status_code, response.json()["detail"]) == (500, "The request failed")
    assert [log["event"] for log in logs] == ["unforeseen error"]
    assert "tm_secret" not in str(logs)


def test_every_line_of_the_log_names_its_request(monkeypatch: pytest.MonkeyPatch) -> None:
    made: dict[str, Any] = {}
    monkeypatch.setattr(structlog, "configure", lambda **given: made.update(given))
    configure_logging()
    token = request_id.set("find-me-again")
    line: Any = {"event": "request failed", "detail": 'a"\n{"event":"forged"}'}
    for processor in made["processors"]:
        line = processor(None, "error", line)
    request_id.reset(token)
    assert json.loads(line)["request"] == "find-me-again"
    assert "\n" not in line


def test_metrics_hold_no_id_answer_or_token(shop: Fair, world: dict[str, Any]) -> None:
    sold, buyer = world["sold"], world["buyer"]
    shop.answer(buyer, sold)
    shop.client.get("/v1/nowhere/" + buyer.account, headers=buyer.headers)
    text = shop.client.get("/metrics", headers=shop.operator.headers).text
    assert 'tiermarket_requests_total{method="GET",route="/v1/answers/{chain}/{law}",status="200"}' in text
    answer = sold["answer"]
    for secret in (buyer.key, buyer.account, answer["chain"], answer["law"], sold["receipt"]["order"], "p_"):
        assert secret not in text
    routes = {*re.findall(r'route="([^"]*)"', text)}
    known = set(shop.client.get("/schema/openapi.json").json()["paths"]) | {"unmatched", "/schema/openapi.json"}
    assert routes <= known


def test_a_refusal_ends_the_request(shop: Fair, world: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever is refused never reaches the step that answers."""

    async def forbidden(*_: object, **__: object) -> None:
        raise AssertionError("a refused request came here")

    answer = world["sold"]["answer"]
    path = f"/v1/answers/{answer['chain']}/{answer['law']}"
    monkeypatch.setattr(shop.market.cache, "get", forbidden)
    monkeypatch.setattr(shop.market, "_stored_body", forbidden)
    owner, stranger = shop.owner(), shop.person()
    for headers, status in (({}, 401), (owner.headers, 403), (stranger.headers, 403)):
        assert shop.client.get(path, headers=headers).status_code == status
    headers = world["buyer"].headers | {"Accept": "image/png"}
    assert shop.client.get(path, headers=headers).status_code == 406


def test_structs_of_requests_are_closed(shop: Fair) -> None:
    for name in wire.__all__:
        config = getattr(getattr(wire, name), "__struct_config__", None)
        if isinstance(config, msgspec.structs.StructConfig):
            assert config.forbid_unknown_fields, name
            assert config.frozen, name


async def test_head_sends_no_body_and_keeps_the_length() -> None:
    """Against ASGI itself: the test client drops the bodies of HEAD on its own."""

    async def inner(scope: Any, _receive: Any, send: Any) -> None:
        assert scope["method"] == "GET"
        await send({"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"4")]})
        await send({"type": "http.response.body", "body": b"body", "more_body": False})

    sent: list[Any] = []

    async def send(message: Any) -> None:
        sent.append(message)

    scope: Any = {"type": "http", "method": "HEAD", "headers": [], "path": "/"}
    await envelope(inner, Telemetry(), lambda *_: None)(scope, None, send)  # type: ignore[arg-type]
    assert (b"content-length", b"4") in sent[0]["headers"]
    assert sent[1]["body"] == b""
    assert scope["method"] == "HEAD"
