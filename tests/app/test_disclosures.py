"""How much an auditor's file holds is signed: a file that was cut after a whole record is none of the market's."""

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import msgspec
import pytest
from click.testing import CliRunner
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from app.cli import main
from app.keyring import Keyring
from app.locations.disclosing import replay_locations
from app.locations.replay import FORMAT, replay_location
from app.log.disclosures import Extent
from app.log.heads import TreeHead, sign
from app.panels.proving import proved
from app.panels.replay import FORMAT as ROUND_FORMAT
from app.panels.replay import LATE_FORMAT, replay_round
from app.panels.spending import FORMAT as SPENDING_FORMAT
from app.panels.spending import replay_spending
from app.rotation import rotate
from app.settings import Settings
from tests.app import panelling
from tests.app.disclosing import extent_signature
from tests.app.locating import buy, disclosure, opened, points
from tests.app.test_rollback import reopened
from tests.conftest import Fair, open_fair
from tiers.errors import AuditError

DISCS = [{"type": "disc", "centre": ["50", "50"], "radius": radius} for radius in ("20", "30", "40")]
STRANGER = Ed25519PrivateKey.from_private_bytes(bytes(range(32)))


class Told(NamedTuple):
    """Files of one panel after two and after three questions, of another panel, and who signed them."""

    shorter: list[bytes]
    longer: list[bytes]
    another: list[bytes]
    public: str
    keyring: Keyring


@pytest.fixture(scope="module")
def told(tmp_path_factory: pytest.TempPathFactory) -> Any:
    with open_shop(Settings.at(tmp_path_factory.mktemp("signed") / "market")) as shop:
        panel, another, buyer = opened(shop, "signed"), opened(shop, "another", points(seed=6)), shop.person()
        files = []
        for asked in (DISCS[:2], DISCS[2:]):
            for question in asked:
                assert buy(shop, buyer, panel, question).status_code == 201
                assert buy(shop, buyer, another, question).status_code == 201
            files.append(disclosure(shop, panel))
        yield Told(files[0][0], files[1][0], disclosure(shop, another)[0], files[1][1], shop.market.keyring)


def rules(lines: list[bytes], public: str) -> set[str]:
    return {f"{finding.check} {finding.rule}" for finding in replay_location(lines, [public]).findings}


def head_of(lines: list[bytes]) -> dict[str, Any]:
    return dict(json.loads(lines[0]))


def with_head(lines: list[bytes], **fields: Any) -> list[bytes]:
    return [json.dumps(head_of(lines) | fields).encode(), *lines[1:]]


def cut(lines: list[bytes], answers: int) -> list[bytes]:
    """The file without what follows so many whole answers."""
    starts = [place for place, line in enumerate(lines) if b'"openings"' in line]
    return lines[: starts[answers]]


def signed_by(lines: list[bytes], key: Ed25519PrivateKey, purpose: str, answers: int) -> str:
    """A signature over what the file's own would cover, but for the count."""
    return extent_signature(head_of(lines), key, purpose, answers=answers)


def test_a_whole_file_verifies_under_the_head_of_its_time(told: Told) -> None:
    for lines, answers in ((told.shorter, 2), (told.longer, 3), (told.another, 3)):
        report = replay_location(lines, [told.public])
        assert (report.findings, report.answers, report.size) == ((), answers, head_of(lines)["head"]["size"])
    assert head_of(told.longer)["signature"] == signed_by(told.longer, told.keyring.signer(), "disclosure", 3)


LIES: dict[str, Callable[[Told], list[bytes]]] = {
    "a file cut after a whole answer": lambda told: with_head(cut(told.longer, 2), answers=2),
    "a file without any answer": lambda told: with_head(cut(told.longer, 0), answers=0),
    "the signature of an older head": lambda told: with_head(
        cut(told.longer, 2), answers=2, signature=head_of(told.shorter)["signature"]
    ),
    "the count and signature of another panel": lambda told: with_head(
        told.longer, signature=head_of(told.another)["signature"]
    ),
    "a key that nobody trusts": lambda told: with_head(
        cut(told.longer, 2), answers=2, signature=signed_by(told.longer, STRANGER, "disclosure", 2)
    ),
    "what the market signed for heads": lambda told: with_head(
        cut(told.longer, 2), answers=2, signature=signed_by(told.longer, told.keyring.signer(), "head", 2)
    ),
    "what the market signed for receipts": lambda told: with_head(
        told.longer, signature=signed_by(told.longer, told.keyring.signer(), "receipt", 3)
    ),
    "the head's own signature": lambda told: with_head(
        told.longer, signature=head_of(told.longer)["head"]["signature"]
    ),
}


@pytest.mark.parametrize("lie", LIES)
def test_a_file_that_the_market_did_not_sign_is_refuted(told: Told, lie: str) -> None:
    """Each is a file that nothing else is wrong with: its leaves are in the log, its questions replay."""
    assert rules(LIES[lie](told), told.public) == {"A4 disclosure-signature"}


def test_a_market_that_signs_fewer_answers_contradicts_itself(told: Told) -> None:
    """Two signed files of one panel and one head that say other counts prove the lie; the shorter one alone does not."""
    fewer = with_head(
        cut(told.longer, 2), answers=2, signature=signed_by(told.longer, told.keyring.signer(), "disclosure", 2)
    )
    assert rules(fewer, told.public) == set()
    assert replay_location(fewer, [told.public]).size == replay_location(told.longer, [told.public]).size
    assert head_of(fewer)["signature"] != head_of(told.longer)["signature"]


def test_a_head_too_short_for_the_answers_is_found_before_they_are_read(told: Told) -> None:
    """The market's own lie: more answers than there are leaves after the panel's."""
    shown = head_of(told.longer)
    after = shown["head"]["size"] - shown["panel"]["leaf"]["index"] - 1
    for answers, due in ((after, {"A7 answers"}), (after + 1, {"A7 answers", "A4 disclosure-size"})):
        signature = signed_by(told.longer, told.keyring.signer(), "disclosure", answers)
        assert rules(with_head(told.longer, answers=answers, signature=signature), told.public) == due


def test_a_signature_is_of_one_format_and_one_kind_of_count(told: Told) -> None:
    head = msgspec.convert(head_of(told.longer)["head"], TreeHead)
    panel, trusted = head_of(told.longer)["panel"]["leaf"]["panel"], [told.keyring.signer().public_key()]
    extent = Extent(FORMAT, panel, head, {"answers": 3})
    signature = extent.sign(told.keyring)
    assert extent.signed(signature, trusted)
    assert not extent.signed(signature, [])
    later = sign(head.size + 1, bytes.fromhex(head.root), head.at, 1, told.keyring.signer())
    for other in (
        Extent("tiermarket-locations/3", panel, head, {"answers": 3}),
        Extent(FORMAT, "location_other", head, {"answers": 3}),
        Extent(FORMAT, panel, later, {"answers": 3}),
        Extent(FORMAT, panel, head, {"rounds": 3}),
        Extent(FORMAT, panel, head, {"answers": 2}),
    ):
        assert not other.signed(signature, trusted)


def test_an_unsigned_file_of_before_is_refused_with_what_to_do(told: Told, tmp_path: Path) -> None:
    old = head_of(told.longer) | {"format": "tiermarket-locations/1"}
    del old["signature"]
    lines = [json.dumps(old).encode(), *told.longer[1:]]
    with pytest.raises(AuditError, match="ask the market for it again"):
        replay_location(lines, [told.public])
    file = tmp_path / "old.ndjson"
    file.write_bytes(b"\n".join(lines) + b"\n")
    done = CliRunner().invoke(main, ["locations", "replay", str(file), "--public-key", told.public])
    assert (done.exit_code, "Traceback" in done.output, "tiermarket-locations/2" in done.output) == (1, False, True)
    for spoilt in (
        with_head(told.longer, format="tiermarket-round/1"),
        [b"[]"],
        [b'{"format": 1}'],
        [b'{"format": "/1"}'],
    ):
        with pytest.raises(AuditError, match="first line"):
            replay_location(spoilt, [told.public])
    unsigned = head_of(told.longer)
    del unsigned["signature"]
    with pytest.raises(AuditError, match="first line"):
        replay_location([json.dumps(unsigned).encode(), *told.longer[1:]], [told.public])


def test_a_first_line_that_says_a_name_twice_is_refused(told: Told) -> None:
    """At the top, in the head, in a leaf: parsers differ on which of the two counts; the last one is the true one."""
    for name in (b'"format":', b'"answers":', b'"size":', b'"root":', b'"people":', b'"signature":'):
        with pytest.raises(AuditError, match="first line"):
            replay_location([said_twice(told.longer[0], name), *told.longer[1:]], [told.public])


def said_twice(line: bytes, name: bytes) -> bytes:
    before, found, after = line.partition(name)
    twice = before + found + b"0," + found + after
    assert json.loads(twice) == json.loads(line)
    return twice


def test_rounds_and_spending_are_refused_alike(settings: Settings) -> None:
    with open_shop(settings) as fair:
        panel = panelling.opened(fair, mechanism="subset")
        panelling.deliver(fair, panel, reports=panelling.rows(panel, [place % 5 for place in range(20)]))
        assert panelling.close(fair, panel).status_code == 201
        path, owner = f"/v1/panels/{panel['panel']}", fair.owner().headers
        assert panelling.buy(fair, fair.person(), panel, "1.5").status_code == 201
        files: list[tuple[list[bytes], Any]] = [(panelling.disclosure(fair, panel)[0], replay_round)]
        added = fair.client.post(f"{path}/tiers", json={"epsilon": "1", "price_minor": 200}, headers=owner)
        assert added.status_code == 201, added.text
        lines, public = panelling.disclosure(fair, panel)
        files.append((lines, replay_round))
        files.append((fair.client.get(f"{path}/spending", headers=owner).content.splitlines(), replay_spending))
    assert [head_of(lines)["format"] for lines, _ in files] == [ROUND_FORMAT, LATE_FORMAT, SPENDING_FORMAT]
    for lines, replayed in files:
        assert replayed(lines, [public]).findings == ()
        for name in (b'"format":', b'"index":', b'"signature":'):
            with pytest.raises(AuditError, match="first line"):
                replayed([said_twice(lines[0], name), *lines[1:]], [public])


@contextmanager
def open_shop(settings: Settings, before: Fair | None = None) -> Iterator[Fair]:
    opening = open_fair(settings) if before is None else reopened(settings, before)
    try:
        yield next(opening)
    finally:
        opening.close()


def test_after_a_rotation_a_file_is_signed_by_the_key_that_signed_its_head(settings: Settings) -> None:
    with open_shop(settings) as fair:
        panel, buyer = opened(fair, "rotated"), fair.person()
        assert buy(fair, buyer, panel, DISCS[0]).status_code == 201
        first = fair.client.get("/v1/keys").json()["signing"]["1"]
    rotate(settings, "signing")
    with open_shop(settings, fair) as again:
        for question, number in ((None, "1"), (DISCS[1], "2")):
            if question is not None:
                assert buy(again, buyer, panel, question).status_code == 201
            lines, _ = disclosure(again, panel)
            keys = again.client.get("/v1/keys").json()["signing"]
            assert (keys["1"], str(head_of(lines)["head"]["key"])) == (first, number)
            assert rules(lines, keys[number]) == set()
            other = next(key for name, key in keys.items() if name != number)
            assert rules(lines, other) == {"A4 head-signature", "A4 disclosure-signature"}
        assert dict(replay_locations(again.market)) == {panel["panel"]: ()}


def test_a_round_shown_from_a_tier_below_the_highest_sold_is_not_what_was_signed(settings: Settings) -> None:
    with open_shop(settings) as fair:
        panel = panelling.opened(fair, mechanism="subset")
        panelling.deliver(fair, panel, reports=panelling.rows(panel, [place % 5 for place in range(20)]))
        assert panelling.close(fair, panel).status_code == 201
        assert panelling.buy(fair, fair.person(), panel, "0.5").status_code == 201
        below, public = panelling.disclosure(fair, panel)
        assert panelling.buy(fair, fair.person(), panel, "1.5").status_code == 201
        whole, _ = panelling.disclosure(fair, panel)
        places = {name: head_of(below)[name]["leaf"]["index"] for name in ("panel", "round", "sale")}
        shown = fair.market.database.read_now(lambda connection: proved(connection, places))
        kept = head_of(below) | json.loads(msgspec.json.encode(shown))
        assert kept["head"] == head_of(whole)["head"]
        assert replay_round(whole, [public]).findings == ()
        of_another_rank = head_of(whole)["signature"]
        of_another_round = extent_signature(kept, fair.market.keyring.signer(), round=2, rank=2, added=0)
        said = extent_signature(kept, fair.market.keyring.signer(), round=1, rank=2, added=0)
        refuted = {"A4 disclosure-signature"}
        for signature, due in ((of_another_rank, refuted), (of_another_round, refuted), (said, set())):
            lines = [json.dumps(kept | {"signature": signature}).encode(), *below[1:]]
            assert {f"{each.check} {each.rule}" for each in replay_round(lines, [public]).findings} == due
