"""Saboteurs of panels: rounds edited, dropped, reordered, derived from elsewhere; each is caught by its rule."""

import copy
import json
from collections.abc import Callable
from typing import Any

import msgspec
import pytest
from click.testing import CliRunner

from app.audit.reports import audit_market
from app.cli import main
from app.log.panel_leaves import RoundRecord
from app.panels.acts import _folder
from app.panels.plans.sets import SetsPlan
from app.panels.replay import replay_round
from app.settings import Settings
from tests.app.panelling import buy, close, deliver, disclosure, opened, quoted, rows
from tests.audit.exports import SIGNER, Export, found, parse
from tests.conftest import Fair, open_fair
from tiers.errors import AuditError

Leaf = dict[str, Any]


@pytest.fixture(scope="module")
def shop(tmp_path_factory: pytest.TempPathFactory) -> Any:
    yield from open_fair(Settings.at(tmp_path_factory.mktemp("panel-log") / "market"))


def two_rounds(shop: Fair, **fields: Any) -> dict[str, Any]:
    """A panel with two closed rounds, the middle tier of each sold."""
    panel, buyer = opened(shop, mechanism="subset", domain=[str(n) for n in range(12)], **fields), shop.person()
    for number in (1, 2):
        deliver(shop, panel, round=number, reports=rows(panel, [place % 12 for place in range(50)], seed=number))
        assert close(shop, panel).status_code == 201
        assert buy(shop, buyer, panel, "1.5", number).status_code == 201
    return panel


@pytest.fixture(scope="module")
def sold(shop: Fair) -> Export:
    shop.product(shop.dataset())
    two_rounds(shop)
    return parse(*shop.export())


@pytest.fixture
def export(sold: Export) -> Export:
    return copy.deepcopy(sold)


def resigned(leaf: Leaf) -> None:
    """The market itself signs the false record."""
    leaf["signature"] = SIGNER.sign(msgspec.convert(leaf["record"], RoundRecord).encode()).hex()


def edited(export: Export) -> None:
    export.kind("panel-round")[0]["record"]["reports"] = 49


def dropped(export: Export) -> None:
    at = next(at for at, each in enumerate(export.leaves) if each["leaf"]["kind"] == "panel-round")
    del export.leaves[at]


def reordered(export: Export) -> None:
    first, second = export.kind("panel-round")
    first["record"], second["record"] = second["record"], first["record"]
    first["signature"], second["signature"] = second["signature"], first["signature"]


def told_twice(export: Export) -> None:
    at = next(at for at, each in enumerate(export.leaves) if each["leaf"]["kind"] == "panel-round")
    export.leaves.insert(at, copy.deepcopy(export.leaves[at]))


def wrong_epoch(export: Export) -> None:
    leaf = export.kind("panel-round")[0]
    leaf["record"]["epoch"] = 7
    resigned(leaf)


def other_laws(export: Export) -> None:
    leaf = export.kind("panel-round")[0]
    tiers = leaf["record"]["tiers"]
    tiers[1]["law"] = tiers[0]["law"]
    resigned(leaf)


def key_again(export: Export) -> None:
    first, second = export.kind("panel-round")
    second["record"]["tiers"][1]["key_hash"] = first["record"]["tiers"][1]["key_hash"]
    resigned(second)


def no_reports(export: Export) -> None:
    leaf = export.kind("panel-round")[0]
    leaf["record"]["reports"] = 0
    resigned(leaf)


def above_its_epsilon(export: Export) -> None:
    export.kind("panel")[0]["tiers"][2]["law"] = export.kind("panel")[0]["tiers"][1]["law"]


def sold_before_it_closed(export: Export) -> None:
    export.kind("panel-sale")[0]["round"] = 3


def opened_twice(export: Export) -> None:
    at = next(at for at, each in enumerate(export.leaves) if each["leaf"]["kind"] == "panel")
    export.leaves.append(copy.deepcopy(export.leaves[at]))


def never_opened(export: Export) -> None:
    export.leaves = [each for each in export.leaves if each["leaf"]["kind"] != "panel"]


def a_value_twice(export: Export) -> None:
    export.kind("panel")[0]["domain"][3] = export.kind("panel")[0]["domain"][4]


def another_sampler(export: Export) -> None:
    leaf = export.kind("panel-round")[0]
    leaf["record"]["sampler"] = "subset-columns/1"
    resigned(leaf)


def rising_prices(export: Export) -> None:
    export.kind("panel")[0]["tiers"][2]["price_minor"] = 1_000


def said(kind: str, **fields: Any) -> Callable[[Export], None]:
    """The market writes something else into the first leaf of a kind."""

    def lie(export: Export) -> None:
        export.kind(kind)[0].update(fields)

    return lie


LIES: list[tuple[Callable[[Export], None], str]] = [
    (opened_twice, "A4 one-panel"),
    (never_opened, "A4 panel-of-round"),
    (a_value_twice, "A1 panel-domain"),
    (another_sampler, "A2 round-sampler"),
    (rising_prices, "A3 panel-prices"),
    (said("panel", promise="steps"), "A1 panel-promise"),
    (said("panel", budget_nano=3 * 10**9 - 1), "A3 panel-budget"),
    (said("panel-sale", rank=3), "A3 tier-of-round"),
    (said("panel-sale", price_minor=301), "A3 panel-price"),
    (said("panel-sale", currency="USD"), "A3 panel-currency"),
    (said("panel-sale", licence="terms/2"), "A3 panel-licence"),
    (edited, "A4 round-signature"),
    (dropped, "A4 round-order"),
    (reordered, "A4 round-order"),
    (told_twice, "A4 round-order"),
    (wrong_epoch, "A2 round-epoch"),
    (other_laws, "A1 laws-of-panel"),
    (key_again, "A2 round-keys"),
    (no_reports, "A4 round-reports"),
    (above_its_epsilon, "A1 panel-plan"),
    (sold_before_it_closed, "A3 round-of-sale"),
]


def test_the_honest_log_of_a_panel_verifies_also_under_another_signature(export: Export) -> None:
    assert export.verify().findings == ()
    assert export.signed_anew().verify().findings == ()
    assert export.verify().sales == 2


@pytest.mark.parametrize(("lie", "rule"), LIES, ids=lambda each: getattr(each, "__name__", ""))
def test_a_lie_about_a_round_is_caught_even_where_the_market_signs_it(export: Export, lie: Any, rule: str) -> None:
    export.signed_anew()
    lie(export)
    assert rule in found(export.signed_anew().verify())


# --- disclosures ------------------------------------------------------------------------------------------------------


def swapped(lines: list[Any]) -> None:
    other = next(at for at in range(2, len(lines)) if lines[at] != lines[1])
    lines[1], lines[other] = lines[other], lines[1]


def left_out(lines: list[Any]) -> None:
    del lines[-1]


def another_key(lines: list[Any]) -> None:
    lines[0]["keys"][0] = "0" * 64


def another_opening(lines: list[Any]) -> None:
    lines[0]["openings"][1] = "0" * 64


def another_count_opening(lines: list[Any]) -> None:
    lines[0]["counts"][0] = "0" * 64


def a_set_of_another_size(lines: list[Any]) -> None:
    lines[3] = lines[3][:-1] if len(lines[3]) > 1 else [0, 1]


def a_record_of_its_own(lines: list[Any]) -> None:
    lines[0]["round"]["leaf"]["record"]["reports"] = 49


def another_sale(lines: list[Any]) -> None:
    lines[0]["sale"] = lines[0]["round"]


def evidence_missing(lines: list[Any]) -> None:
    del lines[0]["keys"][0]


def shown_otherwise(part: str, **fields: Any) -> Callable[[list[Any]], None]:
    """A leaf of the disclosure says something else."""

    def spoil(lines: list[Any]) -> None:
        leaf = lines[0][part]["leaf"]
        (leaf["record"] if set(fields) <= set(leaf.get("record", {})) else leaf).update(fields)

    return spoil


def twice_told(lines: list[Any]) -> None:
    lines.append(lines[-1])


SPOILT: list[tuple[Callable[[list[Any]], None], str]] = [
    (swapped, "A7 tier"),
    (left_out, "A7 reports"),
    (another_key, "A7 key"),
    (another_opening, "A7 tier"),
    (another_count_opening, "A7 counts"),
    (a_set_of_another_size, "A7 report-of-law"),
    (a_record_of_its_own, "A4 inclusion"),
    (another_sale, "A4 leaf-kind"),
    (evidence_missing, "A7 evidence"),
    (twice_told, "A7 reports"),
    (shown_otherwise("panel", kind="hearsay"), "A4 unreadable-leaf"),
    (shown_otherwise("panel", panel="panel_0"), "A4 panel-of-round"),
    (shown_otherwise("panel", tiers=[]), "A4 unreadable-leaf"),
    (shown_otherwise("panel", mechanism="mixed"), "A1 laws-of-panel"),
    (shown_otherwise("round", signature="0" * 128), "A4 round-signature"),
    (shown_otherwise("round", sampler="subset-columns/1"), "A7 unreadable-round"),
    (shown_otherwise("sale", round=2), "A7 sale-of-round"),
    (shown_otherwise("sale", rank=3), "A7 sale-of-round"),
    (shown_otherwise("sale", index=0), "A7 sale-of-round"),
]


def rules(lines: list[Any], public: str) -> set[str]:
    raw = [msgspec.json.encode(line) for line in lines]
    return {f"{finding.check} {finding.rule}" for finding in replay_round(raw, [public]).findings}


@pytest.fixture(scope="module")
def shown(shop: Fair) -> tuple[list[Any], str]:
    lines, public = disclosure(shop, two_rounds(shop))
    return [json.loads(line) for line in lines], public


def test_a_disclosed_round_is_derived_again_and_nothing_is_missing(shown: tuple[list[Any], str]) -> None:
    lines, public = shown
    assert rules(lines, public) == set()
    assert "A4 head-signature" in rules(lines, "d75a980182b10ab7d54bfed3c964073a0ee172f3daa62325af021a68f707511a")
    with pytest.raises(AuditError):
        replay_round([b"{}"], [public])
    with pytest.raises(AuditError):
        replay_round([], [])


@pytest.mark.parametrize(("spoil", "rule"), SPOILT, ids=lambda each: getattr(each, "__name__", ""))
def test_a_disclosure_that_was_spoilt_is_refuted(shown: tuple[list[Any], str], spoil: Any, rule: str) -> None:
    lines, public = copy.deepcopy(shown[0]), shown[1]
    spoil(lines)
    assert rule in rules(lines, public)


def test_a_round_is_shown_from_its_highest_tier_sold_in_whichever_order_they_were(shop: Fair) -> None:
    panel = opened(shop, mechanism="subset", domain=[str(n) for n in range(12)])
    deliver(shop, panel, reports=rows(panel, [place % 12 for place in range(50)]))
    assert close(shop, panel).status_code == 201
    for highest, epsilon in ((2, "0.5"), (1, "1.5"), (1, "0.5"), (0, "3"), (0, "1.5")):
        assert buy(shop, shop.person(), panel, epsilon).status_code == 201
        raw, public = disclosure(shop, panel)
        lines = [json.loads(line) for line in raw]
        assert (lines[0]["sale"]["leaf"]["rank"], len(lines[0]["keys"])) == (highest, 2 - highest)
        assert rules(lines, public) == set()


def test_a_round_that_is_made_of_another_one_is_refuted(shop: Fair) -> None:
    panel = two_rounds(shop)
    (first, public), (second, _) = (disclosure(shop, panel, number) for number in (1, 2))
    one, two = ([json.loads(line) for line in lines] for lines in (first, second))
    mixed = [one[0], *two[1:]]
    assert {"A7 tier", "A7 counts"} <= rules(mixed, public), "the reports of another round"
    keyed = [one[0] | {"keys": two[0]["keys"]}, *one[1:]]
    assert {"A7 key", "A7 tier", "A7 counts"} <= rules(keyed, public), "the keys of another round"
    relabelled = [two[0] | {"round": one[0]["round"]}, *two[1:]]
    assert {"A7 key", "A7 tier", "A7 counts", "A7 sale-of-round"} <= rules(relabelled, public)


def test_a_tier_that_does_not_follow_from_the_one_above_is_found_and_stops_its_panel(
    shop: Fair, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The market draws the lowest tier from the top one, afresh, and commits to that."""
    honest = SetsPlan.derive

    def star(plan: SetsPlan, keys: Any, first: int, top: bytes, *, start: int = 0) -> list[bytes]:
        made = honest(plan, keys, first, top, start=start)
        made[-1] = honest(plan, [keys[0], bytes(32)], first, top)[-1]
        return made

    with monkeypatch.context() as lying:
        lying.setattr(SetsPlan, "derive", star)
        panel = two_rounds(shop)
    lines, public = disclosure(shop, panel)
    assert rules([json.loads(line) for line in lines], public) == {"A7 tier", "A7 counts"}
    kept = audit_market(shop.market, lambda _: None)
    assert {f"{each['check']} {each['rule']}" for each in kept["findings"]} == {"A7 tier", "A7 counts"}
    refused = quoted(shop, shop.person(), panel, "0.5")
    assert refused.status_code == 409
    assert "stopped" in refused.json()["detail"]
    other = two_rounds(shop)
    assert quoted(shop, shop.person(), other, "0.5").status_code == 201, "other panels go on"


def test_the_audit_of_the_whole_log_names_a_round_whose_files_were_changed(shop: Fair) -> None:
    panel = two_rounds(shop)
    file = _folder(shop.market, panel["panel"]) / "round-2" / "1.bin"
    file.write_bytes(file.read_bytes()[::-1])
    kept = audit_market(shop.market, lambda _: None)
    named = {each["where"] for each in kept["findings"] if each["rule"] == "round-withheld"}
    assert named == {f"{panel['panel']}/2"}


def test_the_command_replays_a_file_and_exits_by_what_it_finds(shop: Fair, shown: Any, tmp_path: Any) -> None:
    lines, public = copy.deepcopy(shown[0]), shown[1]
    file = tmp_path / "round.ndjson"
    arguments = ["panel", "replay", str(file), "--public-key", public]
    file.write_bytes(b"".join(msgspec.json.encode(line) + b"\n" for line in lines))
    done = CliRunner().invoke(main, arguments)
    assert (done.exit_code, "verified: round 1" in done.output) == (0, True), done.output
    swapped(lines)
    file.write_bytes(b"".join(msgspec.json.encode(line) + b"\n" for line in lines))
    done = CliRunner().invoke(main, [*arguments, "--json"])
    assert (done.exit_code, json.loads(done.output)["verdict"]) == (1, "refuted")
    assert CliRunner().invoke(main, ["panel", "replay", str(file), "--public-key", "xyz"]).exit_code == 1


def test_who_bought_of_panels_alone_holds_nothing_of_a_dataset_and_is_no_stranger(
    export: Export, tmp_path: Any
) -> None:
    """What is bought of panels is in no dataset's sum: nothing is refused for it, and a coalition may hold both."""
    file = tmp_path / "export.ndjson"
    file.write_bytes(b"".join(line + b"\n" for line in export.lines()))
    command = ["audit", "coalition", str(file), "--public-key", export.public]
    buyer = export.kind("panel-sale")[0]["pseudonym"]
    alone = CliRunner().invoke(main, [*command, "--buyer", buyer])
    assert (alone.exit_code, "no tier of a dataset is held" in alone.output) == (0, True), alone.output
    assert json.loads(CliRunner().invoke(main, [*command, "--buyer", buyer, "--json"]).output) == []
    stranger = CliRunner().invoke(main, [*command, "--buyer", buyer, "--buyer", "nobody"])
    assert (stranger.exit_code, "'nobody'" in stranger.output) == (1, True), stranger.output
