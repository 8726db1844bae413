"""Rotation: a key more, nothing undone. Old heads, receipts, chains, answers and API keys stay good."""

import json
import os
import stat
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from litestar.testing import TestClient
from sqlalchemy import select

from app.audit.verify import verify_export
from app.cli import main
from app.errors import InvalidRequestError, StoreUnavailableError
from app.instance import claim_state
from app.keyring import PURPOSES, ROTATED, Keyring, add_key
from app.locations.replay import replay_location
from app.log.heads import TreeHead, public_key, verify_document
from app.log.journal import current_head
from app.main import build_app
from app.rotation import reseal, rotate
from app.settings import Settings
from app.store.location_schema import location_panels, location_rounds
from app.store.metadata import metadata
from app.store.panel_schema import panel_tiers
from app.store.schema import api_keys, chains, draws
from tests.app import locating, panelling
from tests.conftest import PEOPLE, TOTAL, Fair, open_fair, tiers


def restarted(settings: Settings, fair: Fair) -> Iterator[Fair]:
    app = build_app(settings)
    with TestClient(app) as client:
        yield Fair(client, app.state.market, fair.operator, fair.people)


def command(settings: Settings, words: list[str]) -> Any:
    return CliRunner(env={"TIERMARKET_DATABASE_URL": settings.database_url}).invoke(main, words)


class Rotated:
    """A market that sold, was stopped, rotated, and opened again."""

    def __init__(self, settings: Settings, *purposes: str) -> None:
        opened = open_fair(settings)
        self.before = next(opened)
        self.dataset = self.before.dataset(budget="9")
        self.product, self.undrawn = self.before.product(self.dataset), self.before.product(self.dataset, TOTAL)
        self.buyer = self.before.person()
        self.sold = self.before.buy(self.buyer, self.product, "1")
        self.head = self.before.market.database.read_now(current_head)
        self.lines, self.first_key = self.before.export()
        opened.close()
        self.numbers = [rotate(settings, purpose) for purpose in purposes]
        self.opened = restarted(settings, self.before)
        self.fair = next(self.opened)

    def close(self) -> None:
        self.opened.close()


@pytest.fixture
def everything(settings: Settings) -> Iterator[Rotated]:
    made = Rotated(settings, *ROTATED)
    yield made
    made.close()


def test_after_every_rotation_old_answers_receipts_and_api_keys_hold_and_new_sales_go_on(everything: Rotated) -> None:
    fair = everything.fair
    assert everything.numbers == [2] * len(ROTATED)
    assert fair.answer(everything.buyer, everything.sold).json() == everything.sold["answer"]
    receipt = dict(everything.sold["receipt"])
    signature = receipt.pop("signature")
    assert verify_document("receipt", receipt, signature, public_key(everything.first_key))
    new = fair.product(everything.dataset, PEOPLE)
    bought = [fair.buy(everything.buyer, product, "0.5") for product in (everything.product, everything.undrawn, new)]
    assert [sold["receipt"]["key"] for sold in bought] == [2, 2, 2]
    assert fair.client.get("/v1/whoami", headers=fair.person().headers).status_code in (200, 404)
    lines, first = fair.export()
    assert first == everything.first_key
    newest = fair.client.get("/v1/keys").json()["signing"]["2"]
    for trusted in (first, newest):
        report = verify_export(lines, trusted, earlier=everything.head)
        assert report.verdict == "verified", report.findings
    assert verify_export(everything.lines, first).verdict == "verified"


def test_a_chain_keeps_its_epoch_and_only_new_chains_take_the_new_one(settings: Settings) -> None:
    made = Rotated(settings, "noise")
    made.fair.buy(made.buyer, made.undrawn, "1")
    new = made.fair.product(made.dataset, PEOPLE)
    made.fair.buy(made.buyer, new, "1")
    epochs = dict(
        made.fair.market.database.read_now(lambda c: c.execute(select(chains.c.id, chains.c.epoch)).all())  # type: ignore[arg-type]
    )
    drawn = made.fair.market.database.read_now(lambda c: set(c.execute(select(draws.c.chain_id, draws.c.epoch))))
    assert epochs == {made.product["chain"]: 1, made.undrawn["chain"]: 1, new["chain"]: 2}
    assert drawn == set(epochs.items())
    made.close()


def test_a_lost_epoch_freezes_undrawn_chains_and_leaves_what_was_sold(settings: Settings) -> None:
    made = Rotated(settings, "noise")
    made.close()
    document = json.loads(settings.keys.read_text())
    del document["noise"]["1"]
    settings.keys.write_text(json.dumps(document))
    opened = restarted(settings, made.fair)
    fair = next(opened)
    assert fair.answer(made.buyer, made.sold).json() == made.sold["answer"]
    assert fair.buy(fair.person(), made.product, "1")["answer"] == made.sold["answer"]
    assert fair.order(made.buyer, fair.quote(made.buyer, made.undrawn, "1"), "x").status_code == 503
    assert fair.buy(made.buyer, fair.product(made.dataset, PEOPLE), "1")["answer"]["values"]
    opened.close()


def test_a_market_that_lost_every_noise_root_still_serves_what_it_sold_and_gets_a_new_number(
    settings: Settings,
) -> None:
    made = Rotated(settings, "noise")
    made.close()
    document = json.loads(settings.keys.read_text())
    document["noise"] = {}
    settings.keys.write_text(json.dumps(document))
    opened = restarted(settings, made.fair)
    fair = next(opened)
    assert fair.answer(made.buyer, made.sold).json() == made.sold["answer"]
    opened.close()
    assert rotate(settings, "noise") == 3, "a number is never given twice"


def stored(fair: Fair, column: Any) -> list[Any]:
    return list(fair.market.database.read_now(lambda connection: connection.execute(select(column)).scalars().all()))


def test_old_sealed_answers_open_and_reseal_brings_them_under_the_new_key(settings: Settings) -> None:
    made = Rotated(settings, "storage")
    fair, ring = made.fair, made.fair.market.keyring
    assert {ring.sealed_under(sealed) for sealed in stored(fair, draws.c.sealed_answer)} == {1}
    made.close()
    assert reseal(settings) == 4
    assert reseal(settings) == 0
    document = json.loads(settings.keys.read_text())
    opened = restarted(settings, fair)
    fair = next(opened)
    assert {ring.sealed_under(sealed) for sealed in stored(fair, draws.c.sealed_answer)} == {2}
    assert fair.answer(made.buyer, made.sold).json() == made.sold["answer"]
    opened.close()
    assert set(document["storage"]) == {"1", "2"}


def test_a_rotated_pepper_goes_over_every_stored_key_and_the_old_digests_are_gone(settings: Settings) -> None:
    made = Rotated(settings)
    before = set(stored(made.fair, api_keys.c.key_digest))
    made.close()
    assert rotate(settings, "pepper") == 2
    opened = restarted(settings, made.fair)
    fair = next(opened)
    after = set(stored(fair, api_keys.c.key_digest))
    assert len(after) == len(before)
    assert not after & before
    assert fair.answer(made.buyer, made.sold).status_code == 200
    assert fair.buy(fair.person(), made.product, "1")
    opened.close()


@pytest.mark.parametrize("purpose", ["signing", "storage"])
def test_a_worker_with_the_old_ring_writes_nothing_more(settings: Settings, purpose: str) -> None:
    opened = open_fair(settings)
    fair = next(opened)
    product, buyer = fair.product(fair.dataset()), fair.person()
    rotate(settings, purpose)
    refused = fair.client.post(
        "/v1/quotes", json={"product": product["product"], "epsilon": "1"}, headers=buyer.headers
    )
    assert refused.status_code == 503
    assert "restart" in refused.json()["detail"]
    opened.close()


@pytest.mark.parametrize("purpose", ["signing", "pepper"])
def test_a_crash_between_the_key_file_and_the_log_is_made_good_by_the_next_start(
    settings: Settings, purpose: str
) -> None:
    made = Rotated(settings)
    made.close()
    add_key(settings.keys, purpose)
    opened = restarted(settings, made.fair)
    fair = next(opened)
    assert fair.buy(made.buyer, made.undrawn, "1")
    lines, public = fair.export()
    assert verify_export(lines, public).verdict == "verified"
    opened.close()


def test_a_crash_in_the_middle_of_writing_the_key_file_leaves_the_old_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "keys.json"
    Keyring.create(path)
    before = path.read_bytes()

    def dies(*_: object) -> None:
        raise OSError("killed")

    with monkeypatch.context() as patch:
        patch.setattr(os, "fsync", dies)
        with pytest.raises(OSError, match="killed"):
            add_key(path, "signing")
    assert path.read_bytes() == before
    assert [entry.name for entry in tmp_path.iterdir()] == ["keys.json"]
    add_key(path, "signing")
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    kept, now = json.loads(before), json.loads(path.read_text())
    assert now["signing"]["1"] == kept["signing"]["1"]
    assert {purpose: now[purpose] for purpose in PURPOSES if purpose != "signing"} == {
        purpose: kept[purpose] for purpose in PURPOSES if purpose != "signing"
    }


def test_what_panels_keep_is_sealed_anew_too_and_the_old_key_is_not_needed(settings: Settings) -> None:
    opened = open_fair(settings)
    shop = next(opened)
    buyer, devices = shop.person(), panelling.opened(shop)
    assert panelling.deliver(shop, devices, reports=panelling.rows(devices, [0, 1] * 8)).status_code == 201
    assert panelling.close(shop, devices).status_code == 201
    places = locating.opened(shop, "resealed")
    sold = locating.buy(shop, buyer, places).json()
    read = f"/v1/locations/{places['panel']}/answers/{sold['query']}"
    told = shop.client.get(read, headers=buyer.headers).json()
    opened.close()
    rotate(settings, "storage")
    assert reseal(settings) > 0
    assert reseal(settings) == 0
    document = json.loads(settings.keys.read_text())
    del document["storage"]["1"]
    settings.keys.write_text(json.dumps(document))
    opened = restarted(settings, shop)
    shop = next(opened)
    keyring = shop.market.keyring
    sealed = [
        each
        for table in metadata.tables.values()
        for column in table.columns
        if column.name.startswith("sealed_")
        for each in stored(shop, column)
    ]
    kept = (panel_tiers.c.sealed_counts, location_panels.c.sealed_spent, location_rounds.c.sealed_charges)
    assert all(stored(shop, column) for column in kept)
    assert {keyring.sealed_under(each) for each in sealed} == {2}
    assert shop.client.get(read, headers=buyer.headers).json() == told
    assert locating.buy(shop, buyer, places, budget="1").status_code == 201
    lines, public = locating.disclosure(shop, places)
    assert replay_location(lines, [public]).findings == ()
    opened.close()


def test_only_what_can_be_rotated_is(settings: Settings) -> None:
    opened = open_fair(settings)
    next(opened)
    opened.close()
    for purpose in ("content", "", "noise "):
        with pytest.raises(InvalidRequestError):
            rotate(settings, purpose)
    refused = command(settings, ["rotate-key", "--state", str(settings.state), "content"])
    assert refused.exit_code == 1
    done = command(settings, ["rotate-key", "--state", str(settings.state), "storage", "--reseal"])
    assert done.exit_code == 0, done.output
    assert "key 2 is in force" in done.output


def test_no_key_is_rotated_under_a_service_nor_in_a_folder_that_holds_no_market(settings: Settings) -> None:
    """Under a service every write would be refused until its restart; elsewhere a new market would be made, and rotated."""
    opened = open_fair(settings)
    next(opened)
    opened.close()
    before = settings.keys.read_text()
    with claim_state(settings.state):
        served = command(settings, ["rotate-key", "--state", str(settings.state), "signing"])
    assert (served.exit_code, "a folder that nobody serves" in " ".join(served.output.split())) == (1, True)
    assert settings.keys.read_text() == before
    nowhere = settings.state.parent / "nowhere"
    missed = CliRunner().invoke(main, ["rotate-key", "--state", str(nowhere), "signing"])
    assert (missed.exit_code, "expected the folder of a market" in missed.output, nowhere.exists()) == (1, True, False)


# --- the verifier against a market of bad will -----------------------------------------------------------------------


def spoiled(lines: list[bytes], change: Any) -> list[bytes]:
    records = [json.loads(line) for line in lines]
    change(records)
    return [json.dumps(record).encode() for record in records]


def test_a_head_by_a_key_that_no_trusted_head_announces_is_refuted(settings: Settings) -> None:
    made = Rotated(settings, "signing", "signing")
    made.fair.buy(made.buyer, made.undrawn, "1")
    lines, first = made.fair.export()
    made.close()
    assert verify_export(lines, first).verdict == "verified"

    def no_heads(records: list[dict[str, Any]]) -> None:
        records[:] = [record for record in records if record["record"] != "head"]

    def one_head(records: list[dict[str, Any]]) -> None:
        records.remove(next(record for record in records if record["record"] == "head"))

    def another(records: list[dict[str, Any]]) -> None:
        head = next(record for record in records if record["record"] == "head")["head"]
        head["signature"] = "0" * 128

    for change in (no_heads, one_head, another):
        rules = {finding.rule for finding in verify_export(spoiled(lines, change), first).findings}
        assert "unproved-key" in rules
        assert "head-signature" in rules


def test_a_key_that_was_superseded_signs_no_later_head(settings: Settings) -> None:
    from app.log.heads import sign

    made = Rotated(settings, "signing")
    made.fair.buy(made.buyer, made.undrawn, "1")
    lines, first = made.fair.export()
    ring = made.fair.market.keyring
    made.close()
    newest = json.loads(lines[0])["head"]
    forged = sign(newest["size"], bytes.fromhex(newest["root"]), newest["at"], 1, ring.signer(1))

    def old_key(records: list[dict[str, Any]]) -> None:
        records[0]["head"] = {name: getattr(forged, name) for name in TreeHead.__struct_fields__}
        records[0]["public_key"] = first

    rules = {finding.rule for finding in verify_export(spoiled(lines, old_key), first).findings}
    assert rules == {"superseded-key"}


def test_no_secret_is_in_a_repr_an_error_or_the_output(settings: Settings, capfd: pytest.CaptureFixture[str]) -> None:
    opened = open_fair(settings)
    fair = next(opened)
    rotated = command(settings, ["rotate-key", "--state", str(settings.state), "noise"])
    document = json.loads(settings.keys.read_text())
    secrets = [key for ring in document.values() for key in ring.values()]
    assert len(secrets) == 7
    settings.keys.write_text(json.dumps(document)[:-9])
    with pytest.raises(StoreUnavailableError) as failure:
        Keyring.load(settings.keys)
    settings.keys.write_text(json.dumps(document))
    market = fair.market
    texts = [repr(market.keyring), repr(market), repr(vars(market)), repr(failure.value), rotated.output]
    opened.close()
    captured = capfd.readouterr()
    for secret in secrets:
        for text in (*texts, captured.out, captured.err):
            assert secret not in text
            assert repr(bytes.fromhex(secret))[2:-1] not in text


def test_a_tier_put_in_after_a_rotation_is_drawn_under_the_new_epoch_and_under_no_other(
    settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whoever could choose the epoch could choose among draws of noise."""
    with closing(Rotated(settings, "noise")) as made:
        fair = made.fair
        for epsilon, price in (("0.7", 2000), ("0.05", 400)):
            fair.buy(made.buyer, fair.product(made.dataset, tiers=tiers((epsilon, price))), epsilon)
        lines, public = fair.export()
        assert verify_export(lines, public).findings == ()
        for epsilon, price in (("0.6", 1500), ("0.04", 300)):
            late = fair.product(made.dataset, tiers=tiers((epsilon, price)))
            with monkeypatch.context() as patch:
                patch.setattr(Keyring, "noise_epoch", property(lambda _: 1))
                refused = fair.order(made.buyer, fair.quote(made.buyer, late, epsilon), epsilon)
            assert (refused.status_code, refused.json()["rules"]) == (500, ["A2 epoch-in-force"])
            thawed = fair.client.post(
                f"/v1/chains/{late['chain']}/thaw",
                json={"reason": "the old ring is gone"},
                headers=fair.operator.headers,
            )
            assert thawed.json() == []
            fair.buy(made.buyer, late, epsilon)
