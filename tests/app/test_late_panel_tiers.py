"""Tiers added to panels: drawn between what is known, nothing sold changes, replayed in the order of drawing."""

import re
from collections.abc import Iterator
from fractions import Fraction
from functools import partial
from types import SimpleNamespace
from typing import Any

import msgspec
import pytest

from app.audit.location_receipts import verify_any_bundle
from app.audit.panels import PanelAudit
from app.audit.reports import audit_market
from app.audit.verify import verify_export
from app.errors import ConflictError, IntegrityError
from app.log.heads import public_hex, sign
from app.log.leaves import decode
from app.log.merkle import inclusion_proof, leaf_hash, root_of
from app.log.panel_leaves import LateTierLeaf, PanelLeaf, RoundRecord
from app.panels import acts, late_tiers, opening
from app.panels.acts import _folder, _reports
from app.panels.desk import panel_of, round_of
from app.panels.late_tiers import restore, store_tier, whole_record, with_tier
from app.panels.plans.late import Menu
from app.panels.replay import FORMAT, replay_round
from app.settings import Settings
from app.wire import TierRequest
from tests.app.disclosing import extent_signature
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
from tests.audit.exports import SIGNER
from tests.conftest import Fair, open_fair, tiers
from tiers.canonical import canonical_bytes
from tiers.errors import InvalidParameterError
from tiers.local.subset import Subset

MENU = tiers(("3", 900), ("1", 300), ("0.5", 100))
MECHANISMS = ["subset", "randomized-response", "flips", "points"]
AXES = [{"name": name, "unit": "one", "values": [*map(str, range(size))]} for name, size in (("long", 5), ("wide", 3))]


@pytest.fixture
def shop(settings: Settings) -> Iterator[Fair]:
    yield from open_fair(settings)


def panel_with_a_round(shop: Fair, mechanism: str = "subset", people: int = 40) -> dict[str, Any]:
    """Of points the thresholds of both axes, six, lie beside each other in one word of a report."""
    if mechanism == "points":
        asked = {name: value for name, value in body(tiers=MENU, promise="steps").items() if name != "domain"}
        made = shop.client.post("/v1/panels", json=asked | {"axes": AXES}, headers=shop.owner().headers)
        assert (made.status_code, made.json()["mechanism"]) == (201, "points"), made.text
        panel = made.json()
    else:
        panel = opened(shop, mechanism=mechanism, promise="steps" if mechanism == "flips" else "values", tiers=MENU)
    deliver(shop, panel, reports=values(panel, people))
    assert close(shop, panel).status_code == 201
    return panel


def values(panel: dict[str, Any], people: int) -> list[dict[str, Any]]:
    """One of five values each, or a point of five by three."""
    places = [place % 5 for place in range(people)]
    return rows(panel, [(place, place % 3) for place in places] if panel["mechanism"] == "points" else places)  # type: ignore[misc]


def add(shop: Fair, panel: dict[str, Any], epsilon: str, price: int) -> Any:
    sent = {"epsilon": epsilon, "price_minor": price}
    return shop.client.post(f"/v1/panels/{panel['panel']}/tiers", json=sent, headers=shop.owner().headers)


def files(shop: Fair, panel: dict[str, Any], number: int = 1) -> dict[str, bytes]:
    folder = _folder(shop.market, panel["panel"]) / f"round-{number}"
    return {path.name: path.read_bytes() for path in sorted(folder.iterdir())}


def replayed(shop: Fair, panel: dict[str, Any], number: int = 1) -> Any:
    shown, public = disclosure(shop, panel, number)
    return replay_round(iter(shown), [public])


def wrong(report: Any) -> set[str]:
    return {f"{each.check} {each.rule}" for each in report.findings}


# --- what an owner does -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_a_tier_joins_a_panel_of_which_others_were_sold_and_nothing_sold_changes(shop: Fair, mechanism: str) -> None:
    panel, buyer = panel_with_a_round(shop, mechanism), shop.person()
    first = buy(shop, buyer, panel, "1").json()
    held, before = reports(shop, buyer, panel, 1).content, files(shop, panel)
    listing = add(shop, panel, "2", 600)
    assert listing.status_code == 201, listing.text
    assert [(tier["epsilon"], tier["rank"]) for tier in listing.json()["tiers"]] == [
        ("3", 0),
        ("2", 3),
        ("1", 1),
        ("0.5", 2),
    ]
    after = files(shop, panel)
    assert {name: after[name] for name in before} == before
    assert set(after) - set(before) == {"3.bin"}
    assert reports(shop, buyer, panel, 1).content == held
    bought = buy(shop, buyer, panel, "2")
    assert (bought.status_code, bought.json()["rank"]) == (201, 3)
    assert bought.json()["receipt"]["price_minor"] == 300, "an upgrade from what is held, less what was paid"
    assert len(lines(reports(shop, buyer, panel, 3))) == 40
    wanted = {"type": "histogram"} | ({"axis": "long"} if mechanism == "points" else {})
    assert reading(shop, buyer, panel, "2", wanted).status_code == 201
    assert quoted(shop, buyer, panel, "1").json()["amount_minor"] == 0, "the tier below is held"
    for sold in (first, bought.json()):
        path = f"/v1/orders/{sold['receipt']['order']}/proof"
        kept = shop.client.get(path, headers=buyer.headers).content
        assert verify_any_bundle(kept, [shop.client.get("/v1/keys").json()["signing"]["1"]])[1] == ()
    shop.product(shop.dataset())
    assert verify_export(*shop.export()).findings == ()
    assert audit_market(shop.market, lambda _: None)["verdict"] == "verified"


@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_the_auditor_replays_late_tiers_in_the_order_of_drawing(shop: Fair, mechanism: str) -> None:
    panel, buyer = panel_with_a_round(shop, mechanism), shop.person()
    for epsilon, price in (("2", 600), ("1.5", 500), ("0.2", 50), ("2.5", 700)):
        assert add(shop, panel, epsilon, price).status_code == 201
    deliver(shop, panel, round=2, reports=values(panel, 6))
    assert close(shop, panel).status_code == 201, "a later round has all tiers, drawn in the same order"
    for number in (1, 2):
        buy(shop, buyer, panel, "1.5", number)
        report = replayed(shop, panel, number)
        assert (report.findings, report.tiers) == ((), 4)
        buy(shop, buyer, panel, "3", number)
        report = replayed(shop, panel, number)
        assert (report.findings, report.tiers) == ((), 7)
    shop.product(shop.dataset())
    assert verify_export(*shop.export()).findings == ()


@pytest.mark.parametrize(("mechanism", "across"), [("flips", "8"), ("points", "12"), ("subset", None)])
def test_a_late_tier_says_what_its_epsilon_is_across_the_domain(shop: Fair, mechanism: str, across: str | None) -> None:
    """An added tier from before it was said says nothing; a false one is found."""
    panel = panel_with_a_round(shop, mechanism)
    assert add(shop, panel, "2", 600).status_code == 201
    told = shop.client.get("/v1/log/leaves?start=0&count=100", headers=shop.operator.headers).json()
    leaves = {each["leaf"]["kind"]: decode(canonical_bytes(each["leaf"])) for each in told}
    opened_as, late = leaves["panel"], leaves["panel-late-tier"]
    assert isinstance(opened_as, PanelLeaf)
    assert isinstance(late, LateTierLeaf)
    assert late.tier.across == across

    def found(said: str | None) -> list[str]:
        audit = PanelAudit()
        audit.panel(opened_as)
        tier = msgspec.structs.replace(late.tier, across=said)
        return [each.rule for each in audit.late_tier(msgspec.structs.replace(late, tier=tier))]

    assert found(across) == found(None) == []
    assert found("7") == ["panel-across"]


def test_nothing_above_the_highest_tier_sold_is_shown(shop: Fair) -> None:
    """The late tier is sold and the one above is not: neither its reports, nor any key that tells of them, are there."""
    panel, buyer = panel_with_a_round(shop), shop.person()
    add(shop, panel, "2", 600)
    add(shop, panel, "1.5", 500)
    buy(shop, buyer, panel, "2")
    shown, _ = disclosure(shop, panel)
    head = msgspec.json.decode(shown[0])
    assert set(head["openings"]) == set(head["counts"]) == {"1", "2", "3", "4"}
    assert set(head["keys"]) == {"2", "4"}, "the tier at 1 came from the one at 3, and so did the one at 2"
    buyers = lines(reports(shop, buyer, panel, 3))
    assert [line[1] for line in map(msgspec.json.decode, shown[1:])] == buyers
    assert replayed(shop, panel).findings == ()
    buy(shop, buyer, panel, "3")
    assert set(msgspec.json.decode(disclosure(shop, panel)[0][0])["keys"]) == {"1", "2", "3", "4"}


@pytest.mark.parametrize(
    ("fields", "epsilon", "price", "status", "says"),
    [
        ({"mechanism": "local-hash"}, "2", 600, 400, "no law|is proved"),
        ({"mechanism": "mixed"}, "2", 600, 400, "is proved"),
        ({}, "1", 300, 409, "no tier of the panel has"),
        ({}, "1.0", 300, 409, "no tier of the panel has"),
        ({}, "4", 950, 400, "nothing above it has left a device"),
        ({}, "2", 200, 409, "between those of the tiers beside it"),
        ({}, "2", 1000, 409, "between those of the tiers beside it"),
        ({}, "0", 1, 400, "epsilon"),
    ],
    ids=str,
)
def test_a_tier_that_may_not_join_is_refused_and_leaves_nothing(
    shop: Fair, fields: dict[str, Any], epsilon: str, price: int, status: int, says: str
) -> None:
    panel = panel_with_a_round(shop, **fields)
    before, stored = files(shop, panel), shop.stored()
    refused = add(shop, panel, epsilon, price)
    assert refused.status_code == status, refused.text
    assert re.search(says, refused.json()["detail"]), refused.text
    assert (files(shop, panel), shop.stored()) == (before, stored)


@pytest.mark.parametrize("first", ["round", "tier"])
def test_a_tier_that_has_the_signal_of_the_one_above_it_is_drawn_in_every_round(shop: Fair, first: str) -> None:
    """At ε = 0.7 two values at all that the tier at 1 kept vary least: the step between them never resets."""
    panel, buyer = opened(shop, mechanism="subset", tiers=tiers(("1", 900), ("0.5", 300))), shop.person()
    deliver(shop, panel, reports=rows(panel, [place % 5 for place in range(40)]))
    acts_of = [lambda: add(shop, panel, "0.7", 600), lambda: close(shop, panel)]
    for act in acts_of if first == "tier" else reversed(acts_of):
        done = act()
        assert done.status_code == 201, done.text
    assert buy(shop, buyer, panel, "1").status_code == 201
    assert replayed(shop, panel).findings == ()


def test_a_quote_from_before_is_of_another_price_list(shop: Fair) -> None:
    panel, buyer = panel_with_a_round(shop), shop.person()
    quote = quoted(shop, buyer, panel, "1").json()["quote"]
    add(shop, panel, "2", 600)
    assert order(shop, buyer, panel, quote, "k").status_code == 409
    assert buy(shop, buyer, panel, "1").status_code == 201


def test_a_tier_that_was_drawn_beside_another_menu_is_not_stored(shop: Fair) -> None:
    """Two processes at once: what was read before another tier came, or another round, is a menu no more."""
    panel, keyring, database = panel_with_a_round(shop), shop.market.keyring, shop.market.database
    for change in (lambda: add(shop, panel, "2", 600), lambda: close(shop, panel)):
        read = database.read_now(lambda connection: panel_of(connection, panel["panel"]))
        menu = with_tier(read, Fraction("0.7"), 200)
        deliver(shop, panel, round=2, reports=rows(panel, [0, 1], seed=2))
        assert change().status_code == 201
        before = shop.stored()
        store = partial(store_tier, keyring=keyring, panel=read, menu=menu, price=200, at="now")
        with pytest.raises(ConflictError, match="one that changed"):
            database.submit(store).result()
        assert shop.stored() == before


# --- crashes and losses -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_a_crash_between_files_and_store_leaves_a_panel_as_it_was_and_a_retry_draws_the_same(
    shop: Fair, monkeypatch: pytest.MonkeyPatch, mechanism: str
) -> None:
    panel, buyer = panel_with_a_round(shop, mechanism), shop.person()
    stored, listing = shop.stored(), shop.client.get(f"/v1/panels/{panel['panel']}", headers=buyer.headers).json()
    with monkeypatch.context() as crashing:
        crashing.setattr(acts, "store_tier", lambda *_: 1 / 0)
        with pytest.raises(ZeroDivisionError):
            acts.add_tier(shop.market, _owner(shop), panel["panel"], _wanted("2", 600))
    left = files(shop, panel)["3.bin"]
    assert shop.stored() == stored
    assert shop.client.get(f"/v1/panels/{panel['panel']}", headers=buyer.headers).json() == listing
    assert quoted(shop, buyer, panel, "2").status_code == 404
    assert add(shop, panel, "2", 600).status_code == 201
    assert files(shop, panel)["3.bin"] == left


def test_a_tier_at_another_accuracy_after_a_crash_has_a_key_of_its_own(shop: Fair, monkeypatch: Any) -> None:
    panel, buyer = panel_with_a_round(shop), shop.person()
    with monkeypatch.context() as crashing:
        crashing.setattr(acts, "store_tier", lambda *_: 1 / 0)
        with pytest.raises(ZeroDivisionError):
            acts.add_tier(shop.market, _owner(shop), panel["panel"], _wanted("2", 600))
    left = files(shop, panel)["3.bin"]
    assert add(shop, panel, "1.5", 500).status_code == 201
    assert files(shop, panel)["3.bin"] != left
    assert buy(shop, buyer, panel, "1.5").status_code == 201
    assert replayed(shop, panel).findings == ()


@pytest.mark.parametrize("lost", [("3.bin",), ("0.bin", "1.bin", "2.bin", "3.bin", "4.bin"), ("1.bin",)], ids=str)
def test_files_that_are_lost_are_drawn_again_in_order_the_same(shop: Fair, lost: tuple[str, ...]) -> None:
    panel, buyer = panel_with_a_round(shop), shop.person()
    add(shop, panel, "2", 600)
    add(shop, panel, "1.5", 500)
    buy(shop, buyer, panel, "1.5")
    before, held = files(shop, panel), reports(shop, buyer, panel, 4).content
    folder = _folder(shop.market, panel["panel"]) / "round-1"
    for name in lost:
        (folder / name).unlink()
    if "4.bin" not in lost:
        (folder / "4.bin").unlink()
    assert reports(shop, buyer, panel, 4).content == held
    assert files(shop, panel) == before


def test_a_neighbour_that_was_changed_is_no_ground_for_a_late_tier(shop: Fair) -> None:
    panel, buyer = panel_with_a_round(shop), shop.person()
    add(shop, panel, "2", 600)
    buy(shop, buyer, panel, "2")
    folder = _folder(shop.market, panel["panel"]) / "round-1"
    (folder / "3.bin").unlink()
    raw = (folder / "1.bin").read_bytes()
    (folder / "1.bin").write_bytes(raw[2:] + raw[:2])
    assert reports(shop, buyer, panel, 3).status_code == 500
    assert not (folder / "3.bin").exists()
    stored = shop.stored()
    assert add(shop, panel, "1.5", 500).status_code == 500
    assert shop.stored() == stored


# --- lies -------------------------------------------------------------------------------------------------------------


def test_a_late_tier_that_does_not_follow_from_its_neighbours_is_found(shop: Fair, monkeypatch: Any) -> None:
    panel, buyer = panel_with_a_round(shop), shop.person()
    honest = Menu.draw

    def swapped(menu: Menu, key: bytes, number: int, first: int, parents: Any) -> bytes:
        made = honest(menu, key, number, first, parents)
        return made[2:] + made[:2]

    with monkeypatch.context() as lying:
        lying.setattr(Menu, "draw", swapped)
        assert add(shop, panel, "2", 600).status_code == 201
    buy(shop, buyer, panel, "3")
    assert wrong(replayed(shop, panel)) == {"A7 tier"}
    assert audit_market(shop.market, lambda _: None)["verdict"] == "refuted"
    assert quoted(shop, buyer, panel, "2").status_code == 409


def test_counts_of_a_late_tier_that_are_not_those_of_its_reports_are_found(shop: Fair, monkeypatch: Any) -> None:
    """A buyer's estimates are read off the counts: a market could commit to true reports and to other counts."""
    panel, buyer = panel_with_a_round(shop), shop.person()
    honest = late_tiers.counts_commitment
    with monkeypatch.context() as lying:
        lying.setattr(late_tiers, "counts_commitment", lambda opening, counts: honest(opening, counts + 1))
        assert add(shop, panel, "2", 600).status_code == 201
    buy(shop, buyer, panel, "3")
    assert wrong(replayed(shop, panel)) == {"A7 counts"}
    assert audit_market(shop.market, lambda _: None)["verdict"] == "refuted"


def test_a_tier_that_cannot_be_drawn_does_not_join_a_panel_without_a_round_either(
    shop: Fair, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nothing is drawn yet, so nothing fails of itself: the tier would stand, and no round could close."""
    panel = opened(shop, mechanism="subset", tiers=MENU)
    before = shop.stored()

    def refuses(*laws: Subset) -> None:
        raise InvalidParameterError("tier", "one that can be drawn", "another")

    with monkeypatch.context() as failing:
        failing.setattr("app.panels.plans.late.SetsBetween", refuses)
        assert add(shop, panel, "2", 600).status_code == 400
    assert shop.stored() == before
    assert add(shop, panel, "2", 600).status_code == 201


@pytest.mark.parametrize(
    ("change", "rule"),
    [
        (lambda head: head["keys"].update({"4": "0" * 64}), "A7 key"),
        (lambda head: head["keys"].update({"3": "0" * 64}), "A7 evidence"),
        (lambda head: head["openings"].pop("3"), "A7 evidence"),
        (lambda head: head["openings"].update({"3": "0" * 64}), "A7 tier"),
        (lambda head: head["counts"].update({"3": "0" * 64}), "A7 counts"),
        (lambda head: head["counts"].update({"1": "0" * 64}), "A7 counts"),
        (lambda head: (head["added"].pop(), head["drawn"].pop()), "A7 evidence"),
        (lambda head: head["drawn"].reverse(), "A4 late-order"),
        (lambda head: head["added"][0]["leaf"].update({"number": 9}), "A4 inclusion"),
    ],
)
def test_a_false_disclosure_of_late_tiers_is_found(shop: Fair, change: Any, rule: str) -> None:
    panel, buyer = panel_with_a_round(shop), shop.person()
    add(shop, panel, "2", 600)
    add(shop, panel, "1.5", 500)
    buy(shop, buyer, panel, "2")
    shown, public = disclosure(shop, panel)
    head = msgspec.json.decode(shown[0])
    change(head)
    assert rule in wrong(replay_round(iter([msgspec.json.encode(head), *shown[1:]]), [public]))


@pytest.mark.parametrize(
    ("order_of", "rules"),
    [
        (("panel", "round", "added", "drawn", "sale"), set()),
        (("panel", "added", "drawn", "round", "sale"), {"A4 late-order"}),
        (("panel", "round", "drawn", "added", "sale"), {"A4 late-order"}),
        (("panel", "round", "added", "sale", "drawn"), {"A7 sale-of-round"}),
        (("round", "panel", "added", "drawn", "sale"), {"A4 panel-of-round"}),
        (("panel", "sale", "round", "added", "drawn"), {"A7 sale-of-round"}),
    ],
    ids="-".join,
)
def test_leaves_that_the_log_has_in_another_order_are_found(
    shop: Fair, order_of: tuple[str, ...], rules: set[str]
) -> None:
    """What the market would show had it logged them so, under its own key: no proof fails, the order alone is wrong."""
    assert logged_as(shop, order_of) == rules


@pytest.mark.parametrize(
    ("name", "change"),
    [("drawn", {"round": 2}), ("drawn", {"panel": "panel_other"}), ("added", {"panel": "panel_other"})],
    ids=str,
)
def test_a_tier_or_draw_of_another_panel_or_round_is_found(shop: Fair, name: str, change: dict[str, Any]) -> None:
    order_of = ("panel", "round", "added", "drawn", "sale")
    assert logged_as(shop, order_of, {name: change}) == {"A4 late-order"}


def logged_as(shop: Fair, order_of: tuple[str, ...], change: dict[str, Any] | None = None) -> set[str]:
    """What is found of a round whose leaves were logged so, and said so, under the market's own key."""
    panel, buyer = panel_with_a_round(shop), shop.person()
    add(shop, panel, "2", 600)
    buy(shop, buyer, panel, "2")
    shown, _ = disclosure(shop, panel)
    head = msgspec.json.decode(shown[0])
    for name, fields in (change or {}).items():
        head[name][0]["leaf"] |= fields
    logged = [each for name in order_of for each in (head[name] if isinstance(head[name], list) else [head[name]])]
    for place, each in enumerate(logged):
        each["leaf"]["index"] = place
    record = msgspec.convert(head["round"]["leaf"]["record"], RoundRecord)
    head["round"]["leaf"]["signature"] = SIGNER.sign(record.encode()).hex()
    hashes = [leaf_hash(canonical_bytes(each["leaf"])) for each in logged]
    for place, each in enumerate(logged):
        each["proof"] = [path.hex() for path in inclusion_proof(hashes, place)]
    head["head"] = msgspec.to_builtins(sign(len(hashes), root_of(hashes), record.at, 1, SIGNER))
    head["signature"] = extent_signature(head, round=1, rank=head["sale"]["leaf"]["rank"], added=1)
    return wrong(replay_round(iter([msgspec.json.encode(head), *shown[1:]]), [public_hex(SIGNER)]))


@pytest.mark.parametrize("lost", [1, 2])
def test_a_disclosure_that_leaves_out_whole_added_tiers_is_not_what_was_signed(shop: Fair, lost: int) -> None:
    """Nothing else is wrong with it: the tiers that are left follow from each other."""
    panel, buyer = panel_with_a_round(shop), shop.person()
    add(shop, panel, "2", 600)
    add(shop, panel, "1.5", 500)
    buy(shop, buyer, panel, "3")
    shown, public = disclosure(shop, panel)
    head = msgspec.json.decode(shown[0])
    for number in (4, 3)[:lost]:
        for name in ("openings", "counts", "keys"):
            del head[name][str(number)]
        del head["added"][-1], head["drawn"][-1]
    less = [msgspec.json.encode(head), *shown[1:]]
    assert wrong(replay_round(iter(less), [public])) == {"A4 disclosure-signature"}
    head["signature"] = extent_signature(head, shop.market.keyring.signer(), round=1, rank=0, added=2 - lost)
    assert wrong(replay_round(iter([msgspec.json.encode(head), *shown[1:]]), [public])) == set()
    if lost == 2:
        plain = {name: head[name] for name in ("head", "panel", "round", "sale", "signature")}
        plain |= {name: [head[name][key] for key in sorted(head[name])] for name in ("openings", "counts", "keys")}
        told = [msgspec.json.encode(plain | {"format": FORMAT}), *(line[1:-1] for line in shown[1:])]
        assert wrong(replay_round(iter(told), [public])) == {"A4 disclosure-signature"}


def test_an_added_tier_that_is_derived_again_is_kept_only_where_it_is_the_one_of_the_record(shop: Fair) -> None:
    panel, market = panel_with_a_round(shop), shop.market
    assert add(shop, panel, "2", 600).status_code == 201
    found = market.database.read_now(lambda connection: panel_of(connection, panel["panel"]))
    record = market.database.read_now(lambda held: whole_record(held, round_of(held, panel["panel"], 1)))
    folder = _folder(market, panel["panel"]) / "round-1"
    given = found.menu, market.keyring.owner_secret(found.owner, record.epoch), _reports(market, panel["panel"])
    before = files(shop, panel)
    (folder / "3.bin").unlink()
    other = msgspec.structs.replace(record.tiers[3], commitment="0" * 64)
    with pytest.raises(IntegrityError, match="an added tier's reports as committed to"):
        restore(*given, msgspec.structs.replace(record, tiers=(*record.tiers[:3], other)), folder)
    assert not (folder / "3.bin").exists()
    restore(*given, record, folder)
    assert files(shop, panel) == before


def test_a_panel_has_no_more_tiers_than_it_may_and_is_in_the_log(shop: Fair, monkeypatch: pytest.MonkeyPatch) -> None:
    full = opened(shop, mechanism="subset", tiers=MENU)
    monkeypatch.setattr(late_tiers, "_MOST", len(MENU) + 1)
    assert add(shop, full, "2", 600).status_code == 201
    before, refused = shop.stored(), add(shop, full, "1.5", 500)
    assert (refused.status_code, "fewer than 4 tiers" in refused.json()["detail"]) == (409, True)
    with monkeypatch.context() as old:
        old.setattr(opening, "log_panel", lambda *_: None)
        unlogged = opened(shop, mechanism="subset", tiers=MENU)
    refused = add(shop, unlogged, "2", 600)
    assert (refused.status_code, "one that is in the log" in refused.json()["detail"]) == (409, True)
    assert shop.stored()["leaves"] == before["leaves"]


def test_a_false_report_of_a_shown_tier_is_found(shop: Fair) -> None:
    panel, buyer = panel_with_a_round(shop), shop.person()
    add(shop, panel, "2", 600)
    buy(shop, buyer, panel, "2")
    shown, public = disclosure(shop, panel)
    first, second = (msgspec.json.decode(line) for line in shown[1:3])
    place = next(place for place in range(1, 39) if msgspec.json.decode(shown[1 + place])[0] != first[0])
    other = msgspec.json.decode(shown[1 + place])
    swapped = [*shown]
    swapped[1] = msgspec.json.encode([other[0], first[1]])
    assert "A7 tier" in wrong(replay_round(iter(swapped), [public]))
    swapped[1] = msgspec.json.encode([[0, 1, 2, 3, 4], first[1]])
    assert "A7 report-of-law" in wrong(replay_round(iter(swapped), [public]))
    swapped[1] = msgspec.json.encode([first[0]])
    assert "A7 unreadable-round" in wrong(replay_round(iter(swapped), [public]))
    assert second


def _owner(shop: Fair) -> Any:
    return SimpleNamespace(id=shop.owner().account)


def _wanted(epsilon: str, price: int) -> TierRequest:
    return TierRequest(epsilon=epsilon, price_minor=price)
