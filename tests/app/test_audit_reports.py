"""Audits of a whole market: reports that are kept, signed and logged; what they refute is frozen; faces and schedule."""

import hashlib
import json
import re
from pathlib import Path
from typing import Any

import httpx
import pytest
from click.testing import CliRunner
from sqlalchemy import delete, select, update

from app.audit.page import report_page
from app.audit.reports import audit_market, kept_report, signed_by
from app.audit.verify import verify_export
from app.cli import main
from app.errors import ForkedLogError
from app.jobs.schedule import audit_if_due
from app.log.heads import TreeHead, sign_document
from app.log.journal import append, leaf_bodies, leaf_hashes
from app.log.leaves import WithdrawalLeaf
from app.log.merkle import inclusion_proof, leaf_hash
from app.store.schema import audit_reports, draws, leaves
from tests.app import locating, panelling
from tests.conftest import PEOPLE, Fair
from tiers.canonical import canonical_bytes
from tiers.chain import answer_bytes
from tiers.identity import TierLaw, commitment


def public_of(fair: Fair) -> str:
    return str(fair.client.get("/v1/keys").json()["signing"]["1"])


def sold(fair: Fair) -> tuple[dict[str, Any], dict[str, Any], list[dict[str, Any]]]:
    dataset = fair.dataset()
    first, second = fair.product(dataset), fair.product(dataset, PEOPLE)
    ada = fair.person()
    return first, second, [fair.buy(ada, first, "1"), fair.buy(ada, second, "2"), fair.buy(ada, second, "0.5")]


def frozen(fair: Fair) -> dict[str, str]:
    listed = fair.client.get("/v1/frozen-chains", headers=fair.operator.headers).json()
    return {each["chain"]: each["finding"] for each in listed}


def test_an_audit_is_a_job_whose_report_is_kept_signed_and_logged(fair: Fair) -> None:
    sold(fair)
    auditor = fair.person("auditor")
    job = fair.client.post("/v1/audits", headers=auditor.headers).json()["job"]
    while (view := fair.client.get(f"/v1/jobs/{job}", headers=auditor.headers).json())["state"] == "running":
        pass
    assert (view["state"], view["result"]["verdict"], view["result"]["findings"]) == ("done", "verified", 0)
    (brief,) = fair.client.get("/v1/audits", headers=auditor.headers).json()
    assert brief["report"] == view["result"]["report"]
    kept = fair.client.get(f"/v1/audits/{brief['report']}", headers=auditor.headers).json()
    assert signed_by(kept, public_of(fair))
    assert not signed_by(kept | {"sales": 2}, public_of(fair))
    assert kept["panels"] == 0
    assert (kept["chains"], kept["sales"], kept["draws"], kept["opened"], kept["replayed"]) == (2, 3, 8, 7, 5)
    wanted = f"/v1/log/leaves?start={brief['leaf_index']}&count=1"
    ((logged),) = fair.client.get(wanted, headers=auditor.headers).json()
    body = {name: value for name, value in kept.items() if name != "signature"}
    assert logged["leaf"]["digest"] == hashlib.sha256(canonical_bytes(body)).hexdigest()
    assert (logged["leaf"]["size"], logged["leaf"]["verdict"]) == (kept["head"]["size"], "verified")
    page = fair.client.get(f"/v1/audits/{brief['report']}/page", headers=auditor.headers)
    assert page.text == report_page(kept)
    assert frozen(fair) == {}
    assert fair.client.get("/v1/audits/report_" + "0" * 24, headers=auditor.headers).status_code == 404


def edit(fair: Fair, statement: Any) -> None:
    fair.market.database.submit(lambda connection: connection.execute(statement)).result()


def test_a_sealed_answer_that_was_swapped_freezes_its_chain_alone(fair: Fair) -> None:
    first, _, _ = sold(fair)
    edit(fair, update(draws).where(draws.c.chain_id == first["chain"], draws.c.place == 2).values(sealed_answer=b"x"))
    kept = audit_market(fair.market, lambda _: None)
    assert {f"{each['check']} {each['rule']}" for each in kept["findings"]} >= {"A7 missing-opening"}
    assert set(frozen(fair)) == {first["chain"]}
    assert "tiermarket_frozen_chains 1.0" in fair.client.get("/metrics", headers=fair.operator.headers).text


def test_a_sale_that_was_edited_in_the_log_freezes_everything_for_the_root_breaks(fair: Fair) -> None:
    first, second, receipts = sold(fair)
    index = receipts[0]["receipt"]["leaf_index"]

    def work(connection: Any) -> None:
        body = connection.execute(select(leaves.c.body).where(leaves.c.log_index == index)).scalar_one()
        changed = canonical_bytes(json.loads(body) | {"charge_nano": 1})
        row = {"body": changed, "leaf_hash": leaf_hash(changed)}
        connection.execute(update(leaves).where(leaves.c.log_index == index).values(row))

    fair.market.database.submit(work).result()
    kept = audit_market(fair.market, lambda _: None)
    rules = {f"{each['check']} {each['rule']}" for each in kept["findings"]}
    assert {"A3 increment", "A4 root"} <= rules
    assert set(frozen(fair)) == {first["chain"], second["chain"]}
    quote = {"product": second["product"], "epsilon": "0.1"}
    assert fair.client.post("/v1/quotes", json=quote, headers=fair.person().headers).status_code == 409


def test_an_audit_refuses_a_log_that_does_not_continue_the_head_of_the_report_before(fair: Fair) -> None:
    sold(fair)
    audit_market(fair.market, lambda _: None)
    assert audit_market(fair.market, lambda _: None)["findings"] == []

    def fork(connection: Any) -> None:
        from app.log.heads import sign
        from app.log.journal import leaf_hashes, store_head
        from app.log.merkle import Frontier
        from app.store.schema import heads

        body = connection.execute(select(leaves.c.body).where(leaves.c.log_index == 3)).scalar_one()
        changed = canonical_bytes(json.loads(body) | {"seal": "0" * 64})
        row = {"body": changed, "leaf_hash": leaf_hash(changed)}
        connection.execute(update(leaves).where(leaves.c.log_index == 3).values(row))
        hashes, grown = leaf_hashes(connection, 10**6), Frontier()
        connection.execute(heads.delete().where(heads.c.size == len(hashes)))
        for digest in hashes:
            grown = grown.append(digest)
        ring = fair.market.keyring
        store_head(connection, grown, sign(grown.size, grown.root(), "2099-01-01T00:00:00Z", 1, ring.signer()))

    fair.market.database.submit(fork).result()
    rules = {f"{each['check']} {each['rule']}" for each in audit_market(fair.market, lambda _: None)["findings"]}
    assert rules == {"A4 consistency"}


def test_a_finding_of_a_leaf_without_a_chain_is_laid_at_its_product_s(fair: Fair) -> None:
    first, _, _ = sold(fair)
    fair.client.post(f"/v1/products/{first['product']}/withdrawal", json={"reason": "r"}, headers=fair.owner().headers)

    def again(connection: Any) -> None:
        def make(index: int) -> WithdrawalLeaf:
            return WithdrawalLeaf(index=index, at="2099-01-01T00:00:00Z", product=first["product"], reason="again")

        append(connection, fair.market.keyring, "2099-01-01T00:00:00Z", [make])

    fair.market.database.submit(again).result()
    kept = audit_market(fair.market, lambda _: None)
    assert [f"{each['check']} {each['rule']}" for each in kept["findings"]] == ["A4 withdrawn-once"]
    assert frozen(fair) == {first["chain"]: "A4 withdrawn-once"}


def test_the_clock_starts_one_audit_and_no_second(fair: Fair) -> None:
    sold(fair)
    market = fair.market
    with fair.client.portal() as portal:
        job = portal.call(audit_if_due, market)
        assert job is not None
        assert portal.call(audit_if_due, market) is None
    while fair.client.get(f"/v1/jobs/{job}", headers=fair.operator.headers).json()["state"] == "running":
        pass
    assert len(fair.client.get("/v1/audits", headers=fair.operator.headers).json()) == 1


def test_a_market_without_anything_to_audit_is_not_due_and_a_job_that_is_asked_for_says_why(fair: Fair) -> None:
    with fair.client.portal() as portal:
        assert portal.call(audit_if_due, fair.market) is None
        job = fair.client.post("/v1/audits", headers=fair.operator.headers).json()["job"]
        while (told := fair.client.get(f"/v1/jobs/{job}", headers=fair.operator.headers).json())["state"] == "running":
            pass
        assert told["state"] == "failed"
        assert (told["result"]["status"], told["result"]["type"]) == (409, "conflict")
        assert "at least one chain or panel" in told["result"]["detail"]


# --- the page ---------------------------------------------------------------------------------------------------------


def test_the_page_needs_nothing_else_and_shows_each_edge_s_verdict(fair: Fair) -> None:
    sold(fair)
    page = report_page(audit_market(fair.market, lambda _: None))
    assert not re.search(r"<script|<link|\bsrc=|https?://|@import|url\(", page)
    assert page.count('class="riser replayed"') == 5
    assert page.count('class="riser closed"') == 3
    assert page.count(">truth draw: never shown<") == 2
    assert page.count(">parent not issued<") >= 1
    assert page.count('class="tread held"') == 1
    assert "✓ nothing" in page


def test_the_page_escapes_what_a_hostile_log_says(fair: Fair) -> None:
    sold(fair)
    kept = audit_market(fair.market, lambda _: None)
    hostile = "<script>alert(1)</script>"
    finding = {"chain": hostile, "check": "A3", "claimed": hostile, "recomputed": hostile, "rule": hostile}
    kept["findings"] = [finding | {"severity": "breach", "where": hostile}]
    kept["notes"] = [hostile]
    kept["pictures"][0]["findings"] = [hostile]
    page = report_page(kept)
    assert "<script" not in page
    assert "&lt;script&gt;" in page


# --- witness, receipts, commands --------------------------------------------------------------------------------------


@pytest.fixture
def through(fair: Fair, monkeypatch: pytest.MonkeyPatch) -> Fair:
    """Commands that speak HTTP reach the market of the test."""

    class Reaches:
        def __init__(self, *, base_url: str, headers: dict[str, str], timeout: float) -> None:
            self.headers = headers

        def __enter__(self) -> "Reaches":
            return self

        def __exit__(self, *_: object) -> None:
            return None

        def get(self, path: str, params: dict[str, int]) -> httpx.Response:
            got = fair.client.get(path, params=params, headers=self.headers)
            return httpx.Response(got.status_code, content=got.content, request=httpx.Request("GET", "http://market"))

    monkeypatch.setattr(httpx, "Client", Reaches)
    monkeypatch.setenv("TIERMARKET_API_KEY", fair.person("auditor").key)
    return fair


def witness(fair: Fair, kept: Path, key: str | None = None) -> tuple[int, str]:
    arguments = ["audit", "witness", "http://market", "--keep", str(kept), "--public-key", key or public_of(fair)]
    ended = CliRunner().invoke(main, arguments)
    return ended.exit_code, ended.output


def test_a_witness_keeps_heads_that_continue_and_refuses_forks_and_rollbacks(through: Fair, tmp_path: Path) -> None:
    kept = tmp_path / "head.json"
    product, ada = through.product(through.dataset()), through.person()
    assert witness(through, kept)[0] == 0
    first = json.loads(kept.read_bytes())
    through.buy(ada, product, "1")
    status, said = witness(through, kept)
    assert (status, f"continues {first['size']} leaves" in said) == (0, True)
    newest = kept.read_bytes()
    held = json.loads(newest)
    for lie, word in (
        ({"size": held["size"] + 1}, "expected at least"),
        ({"at": "2999-01-01T00:00:00Z"}, "expected at least"),
        ({"root": "0" * 64}, "a fork"),
        ({"root": "0" * 64, "size": held["size"] - 1}, "a fork"),
    ):
        told = json.dumps(held | lie).encode()
        kept.write_bytes(told)
        status, said = witness(through, kept)
        assert (status, word in said) == (1, True), said
        assert kept.read_bytes() == told, "what it had is kept"
    kept.write_bytes(newest)
    assert witness(through, kept, "d75a980182b10ab7d54bfed3c964073a0ee172f3daa62325af021a68f707511a")[0] == 1
    for bad in (b"{}", b"x"):
        kept.write_bytes(bad)
        assert witness(through, kept)[0] == 1
        assert kept.read_bytes() == bad
    assert [path.name for path in tmp_path.iterdir() if path.name.startswith("head")] == ["head.json"]


def test_a_witness_asks_for_a_proof_and_believes_no_other(through: Fair) -> None:
    from app.audit.witness import advance

    product = through.product(through.dataset())
    auditor = through.person("auditor")
    old = TreeHead(**through.client.get("/v1/log/head", headers=auditor.headers).json())
    through.buy(through.person(), product, "1")
    new = TreeHead(**through.client.get("/v1/log/head", headers=auditor.headers).json())
    for proof in ([], ["0" * 64], ["zz"]):
        with pytest.raises(ForkedLogError):
            advance(old, new, [public_of(through)], lambda *_, proof=proof: proof)
    with pytest.raises(ForkedLogError):
        advance(new, old, [public_of(through)], lambda *_: [])


def bundle_of(fair: Fair) -> dict[str, Any]:
    product, ada = fair.product(fair.dataset()), fair.person()
    order = fair.buy(ada, product, "1")["receipt"]["order"]
    fair.buy(fair.person(), product, "2")
    assert fair.client.get(f"/v1/orders/{order}/proof", headers=fair.person().headers).status_code == 404
    response = fair.client.get(f"/v1/orders/{order}/proof", headers=ada.headers)
    assert response.status_code == 200, response.text
    return dict(response.json())


def verified(folder: Path, bundle: Any, *keys: str) -> tuple[int, set[str]]:
    file = folder / "receipt.json"
    file.write_text(json.dumps(bundle))
    arguments = [part for key in keys for part in ("--public-key", key)]
    ended = CliRunner().invoke(main, ["receipt", "verify", str(file), *arguments, "--json"])
    if not ended.stdout.startswith("{"):
        return ended.exit_code, set()
    return ended.exit_code, {f"{each['check']} {each['rule']}" for each in json.loads(ended.stdout)["findings"]}


TAMPERED: list[tuple[str, Any, str]] = [
    ("receipt.price_minor", 1, "A4 receipt-signature"),
    ("leaf.price_minor", 1, "A3 receipt-of-leaf"),
    ("leaf.charge_nano", 0, "A4 leaf-hash"),
    ("leaf.index", 3, "A4 leaf-index"),
    ("head.size", 5, "A4 head-signature"),
    ("head.root", "0" * 64, "A4 inclusion"),
    ("proof.0", "0" * 64, "A4 inclusion"),
    ("draw_proof.0", "0" * 64, "A4 draw-inclusion"),
    ("draw.key_hash", "0" * 64, "A4 draw-inclusion"),
    ("draw.chain", "0" * 64, "A2 draw-of-sale"),
    ("draw.kind", "sale", "A4 unreadable-bundle"),
    ("opening", "0" * 64, "A7 commitment"),
    ("answer.values.0", "7000000", "A7 commitment"),
    ("answer.half_width", "1", "A1 error-bar"),
    ("answer.epsilon", "0.1", "A1 guarantee"),
    ("answer.law", "0" * 64, "A2 answer-of-receipt"),
    ("law.parameters.rate", "3", "A1 law"),
    ("law.family", "rumour", "A4 unreadable-bundle"),
]


def test_a_buyer_verifies_a_receipt_offline_and_each_false_part_is_named(fair: Fair, tmp_path: Path) -> None:
    bundle, public = bundle_of(fair), public_of(fair)
    assert verified(tmp_path, bundle, public) == (0, set())
    for path, value, rule in TAMPERED:
        spoilt = json.loads(json.dumps(bundle))
        *steps, last = path.split(".")
        holder = spoilt
        for step in steps:
            holder = holder[step]
        place = int(last) if isinstance(holder, list) else last
        assert holder[place] != value
        holder[place] = value
        status, found = verified(tmp_path, spoilt, public)
        assert (status, rule in found) == (1, True), (path, found)
    other = "d75a980182b10ab7d54bfed3c964073a0ee172f3daa62325af021a68f707511a"
    assert verified(tmp_path, bundle, other) == (1, {"A4 receipt-signature", "A4 head-signature"})
    assert verified(tmp_path, bundle, other, public) == (0, set())
    for bad in ({}, [], {**bundle, "more": 1}):
        assert verified(tmp_path, bad, public)[0] == 1
    assert verified(tmp_path, bundle, "zz")[0] == 1


def test_a_market_that_signs_a_receipt_for_another_answer_than_it_drew_is_caught(fair: Fair, tmp_path: Path) -> None:
    bundle, public = bundle_of(fair), public_of(fair)
    law, values = TierLaw.from_document(bundle["law"]), [int(value) + 1 for value in bundle["answer"]["values"]]
    told = commitment(bytes.fromhex(bundle["opening"]), bundle["receipt"]["chain"], law, answer_bytes(values))
    receipt = {name: value for name, value in bundle["receipt"].items() if name != "signature"}
    receipt["commitment"] = told
    signature = sign_document("receipt", receipt, fair.market.keyring.signer())
    answer = bundle["answer"] | {"values": [str(value) for value in values]}
    lie = bundle | {"receipt": receipt | {"signature": signature}, "answer": answer}
    assert verified(tmp_path, lie, public) == (1, {"A7 answer-of-draw"})
    false_draw = lie | {"draw": lie["draw"] | {"commitment": told}}
    assert verified(tmp_path, false_draw, public) == (1, {"A4 draw-inclusion"})


def test_a_draw_that_came_after_the_sale_or_is_of_another_tier_proves_nothing(fair: Fair, tmp_path: Path) -> None:
    bundle, public = bundle_of(fair), public_of(fair)
    hashes = fair.market.database.read_now(lambda connection: leaf_hashes(connection, bundle["head"]["size"]))
    for place, body, _ in fair.market.database.read_now(
        lambda connection: list(leaf_bodies(connection, 0, bundle["head"]["size"]))
    ):
        proof = [step.hex() for step in inclusion_proof(hashes, place)]
        other = bundle | {"draw": json.loads(body), "draw_proof": proof}
        status, found = verified(tmp_path, other, public)
        if other["draw"] == bundle["draw"]:
            assert (status, found) == (0, set())
        else:
            assert (status, "A2 draw-of-sale" in found) == (1, True), (place, found)


def lost_report(fair: Fair, row: Any, older: Any) -> None:
    edit(fair, delete(audit_reports).where(audit_reports.c.id == row.id))


def wiped_reports(fair: Fair, row: Any, older: Any) -> None:
    edit(fair, delete(audit_reports))


def watch_of_an_earlier_report(fair: Fair, row: Any, older: Any) -> None:
    assert older.watch_json != row.watch_json
    edit(fair, update(audit_reports).where(audit_reports.c.id == row.id).values(watch_json=older.watch_json))


def edited_report(fair: Fair, row: Any, older: Any) -> None:
    body = json.loads(row.report_json)
    body["head"] = json.loads(older.report_json)["head"]
    text = canonical_bytes(body).decode()
    edit(fair, update(audit_reports).where(audit_reports.c.id == row.id).values(report_json=text))


def unreadable_report(fair: Fair, row: Any, older: Any) -> None:
    edit(fair, update(audit_reports).where(audit_reports.c.id == row.id).values(report_json="[]"))


@pytest.mark.parametrize(
    "tamper", [lost_report, wiped_reports, watch_of_an_earlier_report, edited_report, unreadable_report]
)
def test_an_audit_says_when_what_it_goes_on_from_is_not_what_the_log_names(fair: Fair, tamper: Any) -> None:
    """Else a market's noise could be tested anew as often as one likes, and the head that was seen be forgotten."""
    first, _, _ = sold(fair)
    audit_market(fair.market, lambda _: None)
    fair.buy(fair.person(), first, "2")
    assert audit_market(fair.market, lambda _: None)["findings"] == []
    wanted = select(audit_reports).order_by(audit_reports.c.leaf_index)
    older, row = fair.market.database.read_now(lambda connection: connection.execute(wanted).all())
    tamper(fair, row, older)
    kept = audit_market(fair.market, lambda _: None)
    assert [f"{found['check']} {found['rule']}" for found in kept["findings"]] == ["A4 kept-report"]
    assert kept["verdict"] == "refuted"
    assert first["chain"] in frozen(fair)
    assert audit_market(fair.market, lambda _: None)["findings"] == [], "what it kept then is what the log names"


def test_commands_run_an_audit_and_show_the_report_as_json_and_page(fair: Fair, tmp_path: Path) -> None:
    first, _, _ = sold(fair)
    state, page = str(fair.market.settings.state), tmp_path / "report.html"
    assert CliRunner().invoke(main, ["audit", "report", "--state", state]).exit_code == 1, "none is kept yet"
    ended = CliRunner().invoke(main, ["audit", "run", "--state", state, "--json", "--html", str(page)])
    assert ended.exit_code == 0, ended.output
    kept = json.loads(ended.stdout)
    assert page.read_text() == report_page(kept)
    shown = CliRunner().invoke(main, ["audit", "report", "--state", state, "--public-key", public_of(fair), "--json"])
    assert (shown.exit_code, json.loads(shown.stdout)) == (0, kept)
    told = CliRunner().invoke(main, ["audit", "report", "--state", state]).output
    for reason, count in kept["not_replayable"].items():
        assert f"not replayable: {count} draw{'' if count == 1 else 's'}: {reason}" in told
    file = tmp_path / "report.json"
    file.write_text(json.dumps(kept | {"leaves": 1}))
    forged = CliRunner().invoke(main, ["audit", "report", "--file", str(file), "--public-key", public_of(fair)])
    assert forged.exit_code == 2
    edit(fair, update(draws).where(draws.c.chain_id == first["chain"], draws.c.place == 2).values(sealed_answer=b"x"))
    assert CliRunner().invoke(main, ["audit", "run", "--state", state]).exit_code == 1
    assert CliRunner().invoke(main, ["audit", "report", "--state", state]).exit_code == 1
    assert CliRunner().invoke(main, ["audit", "run", "--state", str(tmp_path / "nowhere")]).exit_code == 1
    read = fair.market.database.read_now(lambda connection: kept_report(connection, kept["report"]))
    assert read == kept


def test_a_witness_says_whether_the_key_or_the_market_is_missing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One message for a market that is away and for a key that is dead would send its reader the wrong way."""
    command = [
        "audit",
        "witness",
        "http://market.invalid",
        "--keep",
        str(tmp_path / "head.json"),
        "--public-key",
        "0" * 64,
    ]

    def answering(status: int | None) -> str:
        def get(client: httpx.Client, path: str, **_: object) -> httpx.Response:
            if status is None:
                raise httpx.ConnectError("nobody listens")
            return httpx.Response(status, request=httpx.Request("GET", f"http://market.invalid{path}"))

        monkeypatch.setattr(httpx.Client, "get", get)
        ended = CliRunner().invoke(main, command)
        assert ended.exit_code == 1
        return " ".join(ended.output.replace("│", " ").split())

    assert "TIERMARKET_API_KEY: expected a live API key of the market, got status 401" in answering(401)
    assert "market: expected 200, got status 503" in answering(503)
    assert "market: expected one that answers at http://market.invalid, got none" in answering(None)


def test_a_report_counts_panels_of_both_kinds_where_there_is_no_chain(fair: Fair) -> None:
    panelling.opened(fair)
    locating.opened(fair, "here")
    kept = audit_market(fair.market, lambda _: None)
    assert (kept["verdict"], kept["chains"], kept["panels"]) == ("verified", 0, 2)
    assert "0 chains, 2 panels, 0 sales" in report_page(kept)
    before = {name: value for name, value in kept.items() if name != "panels"}
    assert "0 chains, 0 sales" in report_page(before), "reports did not always count them"
    report = verify_export([b"nothing\n"], public_of(fair))
    assert (report.verdict, report.panels, report.notes) == ("refuted", 0, ())
