"""What an auditor finds of a location panel, offline: a false file, a false ledger, a charge that is not the law's."""

import base64
import json
import shutil
import zlib
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner
from scipy.stats import chi2

from app.backup import back_up, restore
from app.cli import main
from app.errors import IntegrityError
from app.locations.desk import ledger_of, location_of, spent_context
from app.locations.disclosing import replay_locations
from app.locations.people import numbered
from app.locations.replay import replay_location
from app.locations.terms import space_of
from app.locations.transcript import packed
from app.settings import Settings
from app.store.location_schema import location_panels, location_rounds
from tests.app.locating import buy, disclosure, opened, points, quoted, spoilt
from tests.app.test_rollback import reopened
from tests.conftest import Fair, open_fair
from tiers.adaptive.rounds import Mode, schedule
from tiers.errors import AuditError

NEAREST = {"type": "nearest", "point": ["50", "50"], "k": 3}
DENSITY = {"type": "density", "point": ["50", "50"], "bandwidth": "15"}


@pytest.fixture(scope="module")
def shop(tmp_path_factory: pytest.TempPathFactory) -> Any:
    yield from open_fair(Settings.at(tmp_path_factory.mktemp("audited") / "market"))


@pytest.fixture(scope="module")
def told(shop: Fair) -> tuple[list[bytes], str]:
    """A panel's file with three questions."""
    panel, buyer = opened(shop, "audited"), shop.person()
    for question in (None, NEAREST, DENSITY):
        assert buy(shop, buyer, panel, question).status_code == 201
    return disclosure(shop, panel)


def rules(lines: list[bytes], public: str) -> set[str]:
    report = replay_location(lines, [public])
    assert (report.verdict == "refuted") == bool(report.findings)
    return {f"{finding.check} {finding.rule}" for finding in report.findings}


def kinds(lines: list[bytes]) -> list[str]:
    return ["round" if b'"values"' in line else "answer" if b'"openings"' in line else "head" for line in lines]


def unpacked(text: str) -> bytes:
    return zlib.decompress(base64.b64decode(text))


def moved(record: dict[str, Any], steps: int) -> None:
    """Somebody's noisy value, a little elsewhere."""
    values = np.frombuffer(unpacked(record["values"]), "<i8").copy()
    values[0] += steps
    record["values"] = base64.b64encode(zlib.compress(values.tobytes())).decode()


def skipped(record: dict[str, Any]) -> None:
    """Somebody is not asked, who should be."""
    bits = np.unpackbits(np.frombuffer(unpacked(record["asked"]), np.uint8))
    bits[int(np.flatnonzero(bits)[0])] = 0
    record["asked"] = base64.b64encode(zlib.compress(np.packbits(bits).tobytes())).decode()


def test_an_honest_file_verifies_and_says_how_much_was_spent(told: tuple[list[bytes], str], tmp_path: Path) -> None:
    lines, public = told
    report = replay_location(lines, [public])
    assert (report.verdict, report.answers, report.people) == ("verified", 3, 40)
    assert 0 < report.most_spent_nano <= report.budget_nano
    file = tmp_path / "panel.ndjson"
    file.write_bytes(b"\n".join(lines) + b"\n")
    done = CliRunner().invoke(main, ["locations", "replay", str(file), "--public-key", public])
    assert done.exit_code == 0, done.output
    assert "nobody is above budget" in done.output


SPOILT: list[tuple[str, int, Any, str]] = [
    ("head", 0, lambda record: record["head"].update(root="0" * 64), "A4 head-signature"),
    ("head", 0, lambda record: record["panel"]["leaf"].update(budget_nano=20 * 10**9), "A4 inclusion"),
    ("head", 0, lambda record: record.update(answers=4), "A7 answers"),
    (
        "answer",
        0,
        lambda record: record["answer"].update(estimate=record["answer"]["estimate"] + 1),
        "A7 answer-of-rounds",
    ),
    ("answer", 0, lambda record: record["answer"].update(dropped=False), "A7 answer-of-rounds"),
    ("answer", 0, lambda record: record["answer"].update(dropped=0.0), "A7 unreadable-location"),
    ("answer", 0, lambda record: record["openings"].update({"location-ledger": "0" * 64}), "A3 ledger"),
    ("answer", 0, lambda record: record["openings"].update({"location-answer": "0" * 64}), "A7 answer"),
    ("answer", 0, lambda record: record["openings"].update({"location-transcript": "0" * 64}), "A7 transcript"),
    ("answer", 0, lambda record: record["openings"].update(another="0" * 64), "A7 unreadable-location"),
    ("answer", 0, lambda record: record["openings"].pop("location-answer"), "A7 unreadable-location"),
    ("answer", 0, lambda record: record["openings"].update({"location-answer": "0"}), "A7 unreadable-location"),
    ("answer", 0, lambda record: record["leaf"]["leaf"].update(budget_nano=1), "A4 inclusion"),
    ("answer", 1, lambda record: record["leaf"]["leaf"].update(number=1), "A4 question-order"),
    ("answer", 1, lambda record: record["leaf"]["leaf"]["rounds"][0].update(most_nano=1), "A3 charge-of-round"),
    ("answer", 0, lambda record: record["leaf"]["leaf"].update(most_nano=1), "A3 charge-of-question"),
    ("round", 0, lambda record: moved(record, 1), "A7 transcript"),
    ("round", 0, skipped, "A3 asked"),
    ("round", 1, skipped, "A3 asked"),
    ("round", 0, lambda record: record.update(round=2), "A3 round-order"),
    ("round", 0, lambda record: record.update(values=record["values"][:-8]), "A7 unreadable-location"),
    ("round", 0, lambda record: record.update(values="?"), "A7 unreadable-location"),
    ("round", 0, lambda record: record.update(asked=""), "A7 unreadable-location"),
]


@pytest.mark.parametrize(("kind", "which", "change", "rule"), SPOILT)
def test_a_file_that_was_spoilt_is_refuted(
    told: tuple[list[bytes], str], kind: str, which: int, change: Any, rule: str
) -> None:
    lines, public = told
    at = [place for place, each in enumerate(kinds(lines)) if each == kind][which]
    assert rule in rules(spoilt(lines, at, change), public)


@pytest.mark.parametrize(
    ("kind", "key"),
    [
        ("answer", b'"leaf":{"'),
        ("answer", b'"index":'),
        ("answer", b'"openings":{"'),
        ("answer", b'"location-ledger":'),
        ("answer", b'"answer":{"'),
        ("answer", b'"estimate":'),
        ("round", b'"round":'),
        ("round", b'"asked":'),
        ("round", b'"values":'),
    ],
)
def test_a_line_that_says_a_name_twice_is_refuted(told: tuple[list[bytes], str], kind: str, key: bytes) -> None:
    """Parsers differ on which of the two counts, so on what it is that verifies; the last one here is the true one."""
    lines, public = told
    at = kinds(lines).index(kind)
    before, found, after = lines[at].partition(key)
    assert found
    name, _, value = key.rpartition(b'":')
    escaped = b'"\\u%04x' % name[1] + name[2:]
    for said in (name, escaped):
        line = before + said + b'":' + (b"{}," if value else b"0,") + found + after
        assert json.loads(line) == json.loads(lines[at])
        assert "A7 unreadable-location" in rules([*lines[:at], line, *lines[at + 1 :]], public)


def test_a_leaf_from_before_it_said_the_most_charged_in_all_is_held_to_its_rounds_alone(
    told: tuple[list[bytes], str],
) -> None:
    lines, public = told
    older = spoilt(lines, kinds(lines).index("answer"), lambda record: record["leaf"]["leaf"].pop("most_nano"))
    assert "A3 charge-of-question" not in rules(older, public)
    assert "A4 inclusion" in rules(older, public), "this log's own leaf says it"


def test_the_most_that_one_person_was_charged_is_not_the_rounds_most_added_up(shop: Fair) -> None:
    """Who has much left pays most of the first round and is decided; who has little pays for all the others."""
    near, far = np.full((20, 2), [50.0, 70.0]), np.full((20, 2), [99.0, 99.0])
    panel = opened(shop, "uneven", np.vstack([near, far]), budget="3", query_budget="2")
    buyer = shop.person()
    spent = [np.zeros(40, np.int64)]
    for budget in ("2", "1.9"):
        assert buy(shop, buyer, panel, None, budget).status_code == 201
        spent.append(shop.market.database.read_now(lambda connection: _spent(shop, connection, panel["panel"])))
    lines, public = disclosure(shop, panel)
    assert rules(lines, public) == set()
    at = kinds(lines).index("answer", 2)
    leaf = json.loads(lines[at])["leaf"]["leaf"]
    most, added = int((spent[2] - spent[1]).max()), sum(each["most_nano"] for each in leaf["rounds"])
    assert leaf["most_nano"] == most < added
    for claimed in (most - 1, most + 1, added):
        false = spoilt(lines, at, lambda record, claimed=claimed: record["leaf"]["leaf"].update(most_nano=claimed))
        assert "A3 charge-of-question" in rules(false, public)


def _spent(shop: Fair, connection: Any, panel: str) -> np.ndarray:
    return ledger_of(connection, shop.market.keyring, location_of(connection, panel)).spent


def test_a_file_without_an_answer_or_with_one_twice_is_refuted(told: tuple[list[bytes], str]) -> None:
    lines, public = told
    starts = [place for place, each in enumerate(kinds(lines)) if each == "answer"]
    assert "A7 answers" in rules(lines[: starts[2]], public)
    assert "A4 question-order" in rules([lines[0], *lines[starts[1] :]], public)
    assert "A3 one-answer" in rules([*lines[: starts[1]], *lines[starts[0] :]], public)
    assert rules(lines[:-1], public)
    with pytest.raises(AuditError):
        replay_location([], [public])
    with pytest.raises(AuditError):
        replay_location(lines, [])
    assert "A4 head-signature" in rules(lines, "d75a980182b10ab7d54bfed3c964073a0ee172f3daa62325af021a68f707511a")


def rewrite(shop: Fair, panel: str, work: Any) -> None:
    shop.market.database.submit(lambda connection: work(connection, location_of(connection, panel))).result()


def test_a_ledger_that_forgets_a_question_is_found_at_the_next_one(shop: Fair) -> None:
    panel, buyer = opened(shop, "forgetful", points(seed=8)), shop.person()
    assert buy(shop, buyer, panel).status_code == 201

    def forget(connection: Any, found: Any) -> None:
        sealed = shop.market.keyring.seal(packed(np.zeros(40, np.int64)), spent_context(found.id, found.answered))
        connection.execute(location_panels.update().where(location_panels.c.id == found.id).values(sealed_spent=sealed))

    rewrite(shop, panel["panel"], forget)
    for question in (NEAREST, DENSITY, None):
        buy(shop, buyer, panel, question, budget="4")
    found = dict(replay_locations(shop.market))[panel["panel"]]
    assert found, "the ledger that was committed to is not what the charges come to"
    assert {finding.rule for finding in found} & {"ledger", "unreadable-location"}


def test_a_ledger_of_another_moment_or_an_altered_round_does_not_open(shop: Fair) -> None:
    panel, buyer = opened(shop, "moments", points(seed=9)), shop.person()
    assert buy(shop, buyer, panel).status_code == 201

    def older(connection: Any, found: Any) -> None:
        sealed = shop.market.keyring.seal(packed(np.zeros(40, np.int64)), spent_context(found.id, 0))
        connection.execute(location_panels.update().where(location_panels.c.id == found.id).values(sealed_spent=sealed))

    rewrite(shop, panel["panel"], older)
    asked = buy(shop, buyer, panel, NEAREST)
    assert asked.status_code == 500
    with pytest.raises(IntegrityError):
        shop.market.database.read_now(
            lambda connection: ledger_of(connection, shop.market.keyring, location_of(connection, panel["panel"]))
        )


def test_the_nightly_audit_replays_panels_and_stops_one_that_it_refutes(shop: Fair) -> None:
    shop.buy(shop.person(), shop.product(shop.dataset(name="beside")), "0.1")
    panel, buyer = opened(shop, "nightly", points(seed=10)), shop.person()
    assert buy(shop, buyer, panel).status_code == 201
    assert dict(replay_locations(shop.market))[panel["panel"]] == ()

    def gone(connection: Any, found: Any) -> None:
        connection.execute(location_rounds.delete().where(location_rounds.c.panel_id == found.id))

    rewrite(shop, panel["panel"], gone)
    from app.audit.reports import audit_market

    audit_market(shop.market, lambda _: None)
    assert quoted(shop, buyer, panel, NEAREST).status_code == 409
    stopped = shop.client.get("/v1/stopped-panels", headers=shop.operator.headers).json()
    assert {each["finding"] for each in stopped if each["panel"] == panel["panel"]} == {"A7 unreadable-location"}


def test_a_backup_and_the_redo_file_carry_the_ledger(settings: Settings) -> None:
    vault = settings.state.parent / "vault"
    vault.mkdir()
    opening = open_fair(settings)
    fair = next(opening)
    panel, buyer = opened(fair, "kept"), fair.person()
    assert buy(fair, buyer, panel).status_code == 201
    back_up(settings, vault / "backup.tar", keys=vault / "keys")
    after = buy(fair, buyer, panel, NEAREST).json()

    def held(of: Fair) -> list[int]:
        def read(connection: Any) -> list[int]:
            found = location_of(connection, panel["panel"])
            return [found.answered, *ledger_of(connection, of.market.keyring, found).spent.tolist()]

        return of.market.database.read_now(read)

    before, shown = held(fair), disclosure(fair, panel)
    opening.close()
    shutil.copy(settings.redo, vault / "redo")
    shutil.rmtree(settings.state)
    restore(settings, vault / "backup.tar", keys=vault / "keys", redo=vault / "redo")
    opening = reopened(settings, fair)
    again = next(opening)
    assert held(again) == before
    assert before[0] == 2
    assert disclosure(again, panel) == shown
    assert replay_location(*[shown[0], [shown[1]]]).findings == ()
    path = f"/v1/locations/{panel['panel']}/answers/{after['query']}"
    assert again.client.get(path, headers=buyer.headers).json()["answer"] == after["answer"]
    opening.close()


def test_two_questions_of_the_same_people_have_noise_of_their_own(shop: Fair) -> None:
    panel, buyer = opened(shop, "apart", points(seed=12)), shop.person()
    for radius in ("20", "21"):
        assert buy(shop, buyer, panel, {"type": "disc", "centre": ["50", "50"], "radius": radius}).status_code == 201
    lines, _ = disclosure(shop, panel)
    first = [place + 1 for place, kind in enumerate(kinds(lines)) if kind == "answer"]
    one, two = (np.frombuffer(unpacked(json.loads(lines[at])["values"]), "<i8") for at in first)
    assert len(one) == len(two) == 40
    steps = 100 * 256  # a kilometre: what the radii differ by
    terms = shop.market.database.read_now(lambda connection: location_of(connection, panel["panel"])).terms
    laws = schedule(terms.space, Mode.DISTANCE, terms.allowed(2 * 10**9), terms.plan.parts).laws
    apart, sigma = (one - two - steps).astype(np.float64), laws[0][0].sigma
    assert refuted(np.zeros(40), sigma), "one draw for both"
    assert refuted(apart, sigma / 10)
    assert not refuted(apart, sigma), "noise of two questions is two draws"


def refuted(apart: np.ndarray, sigma: float) -> bool:
    """Whether differences are not those of two draws of σ for each person: at 10⁻¹⁰, by their squares' sum."""
    low, high = chi2.ppf([5e-11, 1 - 5e-11], len(apart))
    return not low < float((apart**2).sum()) / (2 * sigma**2) < high


def test_numbers_say_nothing_of_names(shop: Fair) -> None:
    names, where = [f"p{place:02}" for place in range(50)], points(50, seed=13)
    space = space_of((Fraction(0),) * 2, (Fraction(100),) * 2, Fraction(1, 100))
    plain = space.locate(where).tolist()
    one, two = (numbered(shop.market.keyring, panel, names, where, space).tolist() for panel in ("a", "b"))
    assert sorted(one) == sorted(two) == sorted(plain)
    assert one != two != plain != one
    turned = numbered(shop.market.keyring, "a", names[::-1], where[::-1], space).tolist()
    assert turned == one, "the order of the rows does not matter"


@pytest.fixture(scope="module")
def proof(shop: Fair) -> tuple[dict[str, Any], str]:
    """An order's bundle, as its buyer keeps it: of the second question, which somebody else asked before."""
    panel, buyer = opened(shop, "proved", points(seed=14)), shop.person()
    assert buy(shop, shop.person(), panel).status_code == 201
    assert buy(shop, shop.person(), panel, NEAREST).status_code == 201
    sold = buy(shop, buyer, panel, NEAREST).json()["receipt"]["order"]
    path = f"/v1/orders/{sold}/proof"
    assert shop.client.get(path, headers=shop.person().headers).status_code == 404
    kept = shop.client.get(path, headers=buyer.headers)
    assert kept.status_code == 200, kept.text
    return kept.json(), shop.client.get("/v1/keys").json()["signing"]["1"]


def verified(kept: dict[str, Any], public: str, tmp_path: Path) -> set[str]:
    file = tmp_path / "bundle.json"
    file.write_text(json.dumps(kept))
    done = CliRunner().invoke(main, ["receipt", "verify", str(file), "--public-key", public, "--json"])
    found = json.loads(done.output)["findings"]
    assert done.exit_code == (1 if found else 0)
    return {f"{each['check']} {each['rule']}" for each in found}


def test_a_receipt_verifies_offline(proof: tuple[dict[str, Any], str], tmp_path: Path) -> None:
    assert verified(*proof, tmp_path) == set()
    done = CliRunner().invoke(main, ["receipt", "verify", str(tmp_path / "bundle.json"), "--public-key", proof[1]])
    assert ", ρ 2, " in done.output


SPOILT_PROOFS: list[tuple[Any, str]] = [
    (lambda kept: kept["answer"]["people"].reverse(), "A7 commitment"),
    (lambda kept: kept.update(opening="0" * 64), "A7 commitment"),
    (lambda kept: kept["receipt"].update(price_minor=1), "A4 receipt-signature"),
    (lambda kept: kept["receipt"].update(price_minor=1), "A3 receipt-of-leaf"),
    (lambda kept: kept["receipt"].update(diagonal="1"), "A1 promise-of-receipt"),
    (lambda kept: kept["receipt"].update(epsilon="1"), "A1 budget-of-receipt"),
    (lambda kept: kept["receipt"].update(charge_nano=1), "A3 charge-of-receipt"),
    (lambda kept: kept["receipt"].update(charge_nano=False), "A3 charge-of-receipt"),
    (lambda kept: kept["receipt"].update(commitment="0" * 64), "A7 answer-of-receipt"),
    (lambda kept: kept["sale"]["leaf"].update(price_minor=1), "A4 inclusion"),
    (lambda kept: kept["panel"]["leaf"].update(query_nano=1), "A1 location-terms"),
    (lambda kept: kept["head"].update(root="0" * 64), "A4 head-signature"),
    (lambda kept: kept.update(sale=kept["question"]), "A4 leaf-kind"),
]


@pytest.mark.parametrize(("spoil", "rule"), SPOILT_PROOFS)
def test_a_bundle_that_was_spoilt_is_refuted(
    proof: tuple[dict[str, Any], str], tmp_path: Path, spoil: Any, rule: str
) -> None:
    kept, public = json.loads(json.dumps(proof[0])), proof[1]
    spoil(kept)
    assert rule in verified(kept, public, tmp_path)


def test_a_receipt_charges_what_the_leaf_says_or_nothing(
    proof: tuple[dict[str, Any], str], shop: Fair, tmp_path: Path
) -> None:
    kept, public = json.loads(json.dumps(proof[0])), proof[1]
    most = kept["question"]["leaf"]["most_nano"]
    assert kept["receipt"]["charge_nano"] == 0 < most, "a later order is charged nothing"
    kept["receipt"]["charge_nano"] = most
    assert verified(kept, public, tmp_path) == {"A4 receipt-signature"}, "a bundle cannot say whose order was the first"
    for false in (1, most - 1, most + 1):
        kept["receipt"]["charge_nano"] = false
        assert "A3 charge-of-receipt" in verified(kept, public, tmp_path)
    buyer = shop.person()
    first = buy(shop, buyer, opened(shop, "first", points(seed=15))).json()["receipt"]["order"]
    whole = shop.client.get(f"/v1/orders/{first}/proof", headers=buyer.headers).json()
    assert whole["receipt"]["charge_nano"] == whole["question"]["leaf"]["most_nano"] > 0
    assert verified(whole, public, tmp_path) == set()
    kept["question"]["leaf"].pop("most_nano")
    kept["receipt"]["charge_nano"] = 1
    assert "A3 charge-of-receipt" not in verified(kept, public, tmp_path), "an older leaf says nothing of it"
