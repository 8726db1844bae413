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
from sqlalchemy import select

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
from tiers.errors import AuditError

NEAREST = {"type": "nearest", "point": ["50", "50"], "k": 3}
DENSITY = {"type": "density", "point": ["50", "50"], "bandwidth": "15"}


@pytest.fixture(scope="module")
def shop(tmp_path_factory: pytest.TempPathFactory) -> Any:
    opening = open_fair(Settings.at(tmp_path_factory.mktemp("audited") / "market"))
    yield next(opening)
    opening.close()


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
    ("answer", 0, lambda record: record["answer"].update(estimate=0), "A7 answer-of-rounds"),
    ("answer", 0, lambda record: record["openings"].update({"location-ledger": "0" * 64}), "A3 ledger"),
    ("answer", 0, lambda record: record["openings"].update({"location-answer": "0" * 64}), "A7 answer"),
    ("answer", 0, lambda record: record["openings"].update({"location-transcript": "0" * 64}), "A7 transcript"),
    ("answer", 0, lambda record: record["leaf"]["leaf"].update(budget_nano=1), "A4 inclusion"),
    ("answer", 1, lambda record: record["leaf"]["leaf"].update(number=1), "A4 question-order"),
    ("answer", 1, lambda record: record["leaf"]["leaf"]["rounds"][0].update(most_nano=1), "A3 charge-of-round"),
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
    stopped = select(location_panels.c.stopped).where(location_panels.c.id == panel["panel"])
    told = shop.market.database.read_now(lambda connection: connection.execute(stopped).scalar_one())
    assert told.startswith("A7 ")


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
    assert (np.abs(one - two - steps) > steps / 100).all(), "noise of two questions is two draws"


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
