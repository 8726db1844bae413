"""What devices spend: bound by each round's record, shown by the owner, replayed by an auditor who learns no name."""

import copy
import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest
from click.testing import CliRunner

from app.audit.reports import audit_market
from app.audit.verify import verify_export
from app.cli import main
from app.log.heads import public_hex, sign
from app.log.merkle import inclusion_proof, leaf_hash, root_of
from app.log.panel_leaves import RoundRecord
from app.panels.acts import _reports, replay_panels
from app.panels.spending import replay_spending, root_of_round
from app.settings import Settings
from tests.app.disclosing import extent_signature
from tests.app.panelling import close, deliver, opened, rows
from tests.app.test_panel_upgrade import aged
from tests.audit.exports import SIGNER
from tests.conftest import Fair, open_fair
from tiers.canonical import canonical_bytes
from tiers.errors import AuditError


@pytest.fixture
def shop(settings: Settings) -> Iterator[Fair]:
    yield from open_fair(settings)


def three_rounds(shop: Fair) -> dict[str, Any]:
    """The budget is two rounds' ε: d0 to d3 report in the first two, d4 to d8 in the third."""
    panel = opened(shop, mechanism="subset")
    for number, (first, last) in enumerate(((0, 4), (0, 4), (4, 9)), start=1):
        sent = rows(panel, [place % 5 for place in range(first, last)], seed=number, first=first)
        assert deliver(shop, panel, round=number, reports=sent).json()["refused"] == 0
        assert close(shop, panel).status_code == 201
    return panel


def shown(shop: Fair, panel: dict[str, Any]) -> list[bytes]:
    response = shop.client.get(f"/v1/panels/{panel['panel']}/spending", headers=shop.owner().headers)
    assert response.status_code == 200, response.text
    return list(response.content.splitlines())


def public(shop: Fair) -> str:
    return str(shop.client.get("/v1/keys").json()["signing"]["1"])


def rules(report: Any) -> set[str]:
    return {f"{each.check} {each.rule}" for each in report.findings}


def test_an_auditor_sees_that_nobody_passed_the_budget_and_nobody_s_name(shop: Fair, tmp_path: Path) -> None:
    panel = three_rounds(shop)
    lines = shown(shop, panel)
    report = replay_spending(lines, [public(shop)])
    assert (report.verdict, report.rounds, report.devices) == ("verified", 3, 9)
    assert (report.most_nano, report.budget_nano) == (6 * 10**9, 6 * 10**9)
    assert sorted(len(json.loads(line)[1]) for line in lines[1:]) == [1] * 5 + [2] * 4
    tags = [_reports(shop.market, panel["panel"])._key.hex(), *(f'"d{place}"' for place in range(9))]
    assert not any(tag in line.decode() for tag in tags for line in lines)
    file = tmp_path / "spending.ndjson"
    file.write_bytes(b"\n".join(lines) + b"\n")
    done = CliRunner().invoke(main, ["panel", "spending", str(file), "--public-key", public(shop)])
    assert (done.exit_code, "9 devices" in done.output) == (0, True), done.output
    assert "the most spent is ε 6 of 6" in done.output, "in the units that the panel was opened in"
    file.write_bytes(b"\n".join(lines[:-1]) + b"\n")
    assert CliRunner().invoke(main, ["panel", "spending", str(file), "--public-key", public(shop)]).exit_code == 1


def test_commitments_are_in_another_order_than_the_reports(shop: Fair) -> None:
    """Both orders are drawn: they agree on so many devices once in 25! draws."""
    panel = opened(shop, mechanism="subset")
    deliver(shop, panel, reports=rows(panel, [place % 5 for place in range(25)]))
    assert close(shop, panel).status_code == 201
    held = _reports(shop.market, panel["panel"])
    with held._open() as store:
        tags = [tag for (tag,) in store.execute("SELECT tag FROM reports WHERE round = 1 ORDER BY tag")]
    from app.panels.spending import blinding

    secret = shop.market.keyring.owner_secret(shop.owner().account, 1)
    blind = blinding(secret, panel["panel"])
    assert len(tags) == 25
    assert [blind(tag) for tag in tags] != sorted(blind(tag) for tag in tags)
    assert list(held.devices(1, blind)) == sorted(blind(tag) for tag in tags)


def _most(lines: list[Any]) -> Any:
    return next(line for line in lines[1:] if len(line[1]) == 2)


def _swap(lines: list[Any]) -> None:
    one, two = _most(lines), next(line for line in lines[1:] if line[1] == [3])
    one[1], two[1] = two[1], one[1]


LIES: dict[str, tuple[Callable[[list[Any]], Any], str]] = {
    "a device that passed its budget": (lambda lines: _most(lines)[1].append(3), "A3 device-budget"),
    "a device left out": (lambda lines: lines.pop(), "A3 spending-root"),
    "a report of nobody": (lambda lines: lines.append(["f" * 64, [1]]), "A3 spending-count"),
    "a round of another device": (_swap, "A3 spending-root"),
    "a device told twice": (lambda lines: lines.append(lines[-1]), "A3 device-once"),
    "a round told twice": (lambda lines: _most(lines)[1].insert(0, 1), "A3 device-once"),
    "a round that is not there": (lambda lines: lines[-1][1].append(9), "A3 unreadable-spending"),
    "a round left out": (lambda lines: lines[0]["rounds"].pop(0), "A4 round-order"),
    "another budget": (lambda lines: lines[0]["panel"]["leaf"].update(budget_nano=10**12), "A4 inclusion"),
    "another root": (lambda lines: lines[0]["rounds"][0]["leaf"]["record"].update(spent="0" * 64), "A4 inclusion"),
}


@pytest.mark.parametrize("lie", LIES)
def test_a_false_file_is_found(shop: Fair, lie: str) -> None:
    change, rule = LIES[lie]
    lines = [json.loads(line) for line in shown(shop, three_rounds(shop))]
    told = copy.deepcopy(lines)
    change(told)
    assert told != lines
    report = replay_spending([msgspec.json.encode(line) for line in told], [public(shop)])
    assert rule in rules(report)


def signed_anew(lines: list[Any]) -> list[bytes]:
    """The same file, its leaves alone in a log of the market's making: what it would show that lies in the log too."""
    head, *devices = lines
    shown = [head["panel"], *head["rounds"]]
    for place, each in enumerate(shown):
        each["leaf"]["index"] = place
    for each in head["rounds"]:
        record = msgspec.convert(each["leaf"]["record"], RoundRecord)
        each["leaf"]["signature"] = SIGNER.sign(record.encode()).hex()
    hashes = [leaf_hash(canonical_bytes(each["leaf"])) for each in shown]
    for place, each in enumerate(shown):
        each["proof"] = [step.hex() for step in inclusion_proof(hashes, place)]
    head["head"] = msgspec.to_builtins(sign(len(hashes), root_of(hashes), head["panel"]["leaf"]["at"], 1, SIGNER))
    head["signature"] = extent_signature(head, rounds=len(head["rounds"]))
    return [msgspec.json.encode(line) for line in (head, *devices)]


def _cheaper(lines: list[Any]) -> None:
    """Another ε of a round than the devices sent at, and the roots that go with it."""
    for each in lines[0]["rounds"]:
        record = each["leaf"]["record"]
        record["tiers"][0]["epsilon"] = "2"
        names = [bytes.fromhex(name) for name, taken in lines[1:] if record["round"] in taken]
        record["spent"] = root_of_round(names, record["round"], 2 * 10**9)


def _of_another(lines: list[Any]) -> None:
    lines[0]["rounds"][1]["leaf"]["record"]["panel"] = "panel_other"


LOGGED_LIES: dict[str, tuple[Callable[[list[Any]], Any], set[str]]] = {
    "nothing": (lambda lines: None, set()),
    "a lower cost": (_cheaper, {"A1 laws-of-panel", "A3 spending-root"}),
    "a round of another panel": (_of_another, {"A4 panel-of-round"}),
    "a root that is missing after others": (
        lambda lines: (
            lines[0]["rounds"][2]["leaf"]["record"].pop("spent") and lines[0]["panel"]["leaf"].pop("spending")
        ),
        {"A3 round-spending"},
    ),
}


@pytest.mark.parametrize("lie", LOGGED_LIES)
def test_a_lie_that_the_log_tells_too_is_found(shop: Fair, lie: str) -> None:
    change, due = LOGGED_LIES[lie]
    lines = [json.loads(line) for line in shown(shop, three_rounds(shop))]
    change(lines)
    assert rules(replay_spending(signed_anew(lines), [public_hex(SIGNER)])) == due


def test_a_head_or_a_record_of_another_key_proves_nothing(shop: Fair) -> None:
    lines, market = [json.loads(line) for line in shown(shop, three_rounds(shop))], public(shop)
    told = signed_anew(copy.deepcopy(lines))
    assert rules(replay_spending(told, [market])) == {
        "A4 head-signature",
        "A4 round-signature",
        "A4 disclosure-signature",
    }


def test_a_file_without_rounds_is_none_and_one_without_its_last_round_is_not_what_was_signed(shop: Fair) -> None:
    lines = [json.loads(line) for line in shown(shop, three_rounds(shop))]
    del lines[0]["rounds"][2]
    kept = [line for line in lines[1:] if line[1] != [3]]
    report = replay_spending([msgspec.json.encode(line) for line in (lines[0], *kept)], [public(shop)])
    assert (rules(report), report.rounds) == ({"A4 disclosure-signature"}, 2)
    lines[0]["signature"] = extent_signature(lines[0], shop.market.keyring.signer(), rounds=2)
    report = replay_spending([msgspec.json.encode(line) for line in (lines[0], *kept)], [public(shop)])
    assert (rules(report), report.rounds, report.size) == (set(), 2, lines[0]["head"]["size"])
    lines[0]["rounds"] = []
    with pytest.raises(AuditError, match="first line"):
        replay_spending([msgspec.json.encode(lines[0])], [public(shop)])


def test_a_panel_from_before_the_log_is_replayed_from_the_round_with_which_it_entered(shop: Fair) -> None:
    panel, _ = aged(shop)
    deliver(shop, panel, round=2, reports=rows(panel, [0, 1, 2, 3]))
    assert close(shop, panel).status_code == 201
    report = replay_spending(shown(shop, panel), [public(shop)])
    assert rules(report) == set()
    assert (report.rounds, report.devices, report.most_nano) == (1, 30, 6 * 10**9)
    told = [json.loads(line) for line in shown(shop, panel)]
    next(line for line in told[1:] if line[1] == [1, 2])[1].insert(0, 3)
    assert rules(replay_spending([msgspec.json.encode(line) for line in told], [public(shop)])) != set()
    assert [each for each in replay_panels(shop.market) if each[1] == 0] == [(panel["panel"], 0, ())]


def test_a_market_that_lets_a_device_report_too_often_is_found_by_its_own_audit(shop: Fair) -> None:
    panel = three_rounds(shop)
    held = _reports(shop.market, panel["panel"])
    told: list[str] = []
    assert audit_market(shop.market, told.append)["verdict"] == "verified"
    assert f"what devices of {panel['panel']} spent replayed" in told
    assert not [each for each in told if "round 0" in each]
    with held._open() as store:
        store.execute("UPDATE devices SET spent_nano = 0")
    assert deliver(shop, panel, round=4, reports=rows(panel, [1, 2], first=0)).json()["refused"] == 0
    close(shop, panel)
    kept = audit_market(shop.market, lambda _: None)
    assert {f"{each['check']} {each['rule']}" for each in kept["findings"]} == {"A3 device-budget"}
    listed = shop.client.get("/v1/stopped-panels", headers=shop.operator.headers).json()
    assert [each["panel"] for each in listed] == [panel["panel"]]


def test_a_file_that_lost_a_report_no_longer_fits_the_root(shop: Fair) -> None:
    panel = three_rounds(shop)
    with _reports(shop.market, panel["panel"])._open() as store:
        store.execute("DELETE FROM reports WHERE round = 2 AND tag = (SELECT min(tag) FROM reports WHERE round = 2)")
    assert rules(replay_spending(shown(shop, panel), [public(shop)])) == {"A3 spending-count", "A3 spending-root"}


def test_a_round_without_a_root_is_found_in_the_log(shop: Fair, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("app.panels.acts.root_of_round", lambda *_: None)
    three_rounds(shop)
    assert rules(verify_export(*shop.export())) == {"A3 round-spending"}


def test_only_the_owner_gets_the_file_and_a_panel_without_rounds_has_none(shop: Fair) -> None:
    panel = opened(shop)
    path = f"/v1/panels/{panel['panel']}/spending"
    assert shop.client.get(path, headers=shop.owner().headers).status_code == 404
    assert shop.client.get(path, headers=shop.person("owner").headers).status_code == 404
    assert shop.client.get(path, headers=shop.person().headers).status_code == 403


def test_a_record_from_before_has_the_bytes_it_had() -> None:
    raw = (
        b'{"panel":"p","round":1,"mechanism":"subset","domain_size":3,"reports":1,"sampler":"s","epoch":1,"at":"t",'
        b'"tiers":[{"epsilon":"1","law":{},"commitment":"'
        + b"0" * 64
        + b'","counts":"'
        + b"0" * 64
        + b'","key_hash":null}]}'
    )
    record = msgspec.json.decode(raw, type=RoundRecord)
    assert record.spent is None
    assert msgspec.json.encode(record) == raw
    assert b"spent" not in record.encode()


def test_what_is_no_file_is_refused() -> None:
    for lines in ([], [b"{}"], [b"\xff"]):
        with pytest.raises(AuditError, match="first line"):
            replay_spending(lines, ["d75a980182b10ab7d54bfed3c964073a0ee172f3daa62325af021a68f707511a"])
    with pytest.raises(AuditError, match="at least one"):
        replay_spending([b"{}"], [])
