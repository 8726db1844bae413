"""The export verifies; every tampering of it, and every market that breaks its promise under its own signature, is named."""

import copy
import random
from collections.abc import Callable
from fractions import Fraction

import pytest

from app.audit.verify import verify_export
from app.log.heads import TreeHead, sign
from app.log.merkle import leaf_hash, root_of
from app.settings import Settings
from tests.audit.exports import SIGNER, Export, found, law_id, parse
from tests.conftest import PEOPLE, TOTAL, open_fair
from tiers.budget import decimal_text
from tiers.canonical import canonical_bytes
from tiers.errors import AuditError


@pytest.fixture(scope="module")
def honest(tmp_path_factory: pytest.TempPathFactory) -> Export:
    opened = open_fair(Settings.at(tmp_path_factory.mktemp("audit") / "market"))
    fair = next(opened)
    dataset = fair.dataset(budget="5")
    products = [fair.product(dataset), fair.product(dataset, PEOPLE), fair.product(dataset, TOTAL)]
    ada, bruno = fair.person(), fair.person()
    for who, product, epsilon in (
        (ada, 0, "1"),
        (bruno, 0, "2"),
        (bruno, 1, "0.5"),
        (ada, 1, "1"),
        (ada, 2, "0.1"),
        (bruno, 2, "2"),
    ):
        fair.buy(who, products[product], epsilon)
    lines, public = fair.export()
    opened.close()
    return parse(lines, public)


@pytest.fixture
def export(honest: Export) -> Export:
    return copy.deepcopy(honest)


def test_an_honest_export_verifies_and_says_what_could_not_be_replayed(export: Export) -> None:
    report = export.verify()
    assert (report.verdict, report.findings) == ("verified", ())
    assert (report.chains, report.draws, report.sales) == (3, 12, 6)
    assert report.opened == 11, "chain 1's tier at ε = 2 was not issued"
    assert report.replayed == 8
    reasons = sorted(closed.reason.split(":")[0] for closed in report.not_replayable)
    assert reasons == ["a parent lies above the chain's highest issued tier", *["a truth draw"] * 3]


def test_it_verifies_signed_anew_so_what_follows_fails_for_its_own_reason(export: Export) -> None:
    assert export.signed_anew().verify().findings == ()


def edit_leaf(export: Export) -> None:
    export.kind("sale")[0]["price_minor"] += 1


def edit_leaf_and_its_hash(export: Export) -> None:
    record = next(record for record in export.leaves if record["leaf"]["kind"] == "sale")
    record["leaf"]["price_minor"] += 1
    record["hash"] = leaf_hash(canonical_bytes(record["leaf"])).hex()


def drop_leaf(export: Export) -> None:
    del export.leaves[7]


def drop_last_leaf(export: Export) -> None:
    del export.leaves[-1]


def reorder_leaves(export: Export) -> None:
    export.leaves[5], export.leaves[6] = export.leaves[6], export.leaves[5]


def duplicate_leaf(export: Export) -> None:
    export.leaves.insert(8, copy.deepcopy(export.leaves[8]))


def change_answer(export: Export) -> None:
    export.openings[0]["answer"][0] = str(int(export.openings[0]["answer"][0]) + 1)


def change_opening(export: Export) -> None:
    export.openings[1]["opening"] = "0" * 64


def swap_openings(export: Export) -> None:
    first, second = export.openings[0], export.openings[1]
    first["opening"], second["opening"] = second["opening"], first["opening"]
    first["answer"], second["answer"] = second["answer"], first["answer"]


def withhold_opening(export: Export) -> None:
    del export.openings[0]


def change_key(export: Export) -> None:
    export.keys[0]["key"] = "1" * 64


def withhold_key(export: Export) -> None:
    del export.keys[0]


def invent_key(export: Export) -> None:
    export.keys.append(export.keys[0] | {"law": "0" * 64})


def forge_head(export: Export) -> None:
    export.header["head"]["signature"] = "0" * 128


def truncate_with_its_head(export: Export) -> None:
    del export.leaves[-1]
    export.header["head"]["size"] -= 1


def foreign_key(export: Export) -> None:
    export.public = "d75a980182b10ab7d54bfed3c964073a0ee172f3daa62325af021a68f707511a"


def garble_line(export: Export) -> None:
    export.leaves[3]["leaf"]["kind"] = "rumour"


def disclose_truth_key(export: Export) -> None:
    base = next(leaf for leaf in export.kind("draw") if leaf["role"] == "base")
    export.keys.append({"record": "key", "chain": base["chain"], "law": law_id(base["law"]), "key": "2" * 64})


def open_unissued(export: Export) -> None:
    held = {(opening["chain"], opening["law"]) for opening in export.openings}
    hidden = next(leaf for leaf in export.kind("draw") if (leaf["chain"], law_id(leaf["law"])) not in held)
    fake = {"opening": "3" * 64, "answer": ["1"] * hidden["length"]}
    export.openings.append({"record": "opening", "chain": hidden["chain"], "law": law_id(hidden["law"]), **fake})


TAMPERINGS: list[tuple[Callable[[Export], None], str]] = [
    (edit_leaf, "A4 leaf-hash"),
    (edit_leaf_and_its_hash, "A4 root"),
    (drop_leaf, "A4 missing-leaf"),
    (drop_last_leaf, "A4 log-size"),
    (reorder_leaves, "A4 missing-leaf"),
    (duplicate_leaf, "A4 repeated-leaf"),
    (change_answer, "A7 commitment"),
    (change_opening, "A7 commitment"),
    (swap_openings, "A7 commitment"),
    (withhold_opening, "A7 missing-opening"),
    (change_key, "A7 key"),
    (withhold_key, "A7 missing-key"),
    (invent_key, "A7 evidence-of-nothing"),
    (forge_head, "A4 head-signature"),
    (truncate_with_its_head, "A4 head-signature"),
    (foreign_key, "A4 public-key"),
    (garble_line, "A4 unreadable-leaf"),
    (disclose_truth_key, "A7 forbidden-key"),
    (open_unissued, "A7 forbidden-opening"),
]


@pytest.mark.parametrize(("tamper", "expected"), TAMPERINGS, ids=[tamper.__name__ for tamper, _ in TAMPERINGS])
def test_a_tampered_export_is_refuted_by_name(export: Export, tamper: Callable[[Export], None], expected: str) -> None:
    tamper(export)
    assert expected in found(export.verify())


def test_a_change_of_any_single_character_of_the_export_is_found(honest: Export) -> None:
    raw = b"\n".join(honest.lines())
    rng = random.Random(11)
    blind = 0
    for _ in range(60):
        place = rng.randrange(len(raw))
        if raw[place : place + 1] in b'\n "{}[]:,':
            continue
        changed = raw[:place] + (b"7" if raw[place : place + 1] != b"7" else b"8") + raw[place + 1 :]
        blind += not verify_export(changed.split(b"\n"), honest.public).findings
    assert blind == 0


# --- a market that lies under its own signature ------------------------------------------------------------------------


def make_star(export: Export) -> None:
    """Every tier derived from the top one."""
    draws = [leaf for leaf in export.kind("draw") if leaf["chain"] == export.kind("draw")[0]["chain"]]
    for leaf in draws[2:]:
        leaf["parents"], leaf["parent_commitments"] = [draws[0]["law"]], [draws[0]["commitment"]]


def draw_independently(export: Export) -> None:
    for leaf in export.kind("draw")[1:]:
        leaf["role"], leaf["parents"], leaf["parent_commitments"] = "base", [], []


def draw_twice(export: Export) -> None:
    place = next(i for i, record in enumerate(export.leaves) if record["leaf"]["kind"] == "draw") + 4
    again = copy.deepcopy(export.leaves[place - 1])
    again["leaf"] |= {"commitment": "a" * 64, "key_hash": "b" * 64, "place": 4}
    export.leaves.insert(place, again)


def reuse_a_stream(export: Export) -> None:
    draws = export.kind("draw")
    draws[5]["key_hash"] = draws[1]["key_hash"]


def skip_a_place(export: Export) -> None:
    export.kind("draw")[2]["place"] = 7


def name_another_parent(export: Export) -> None:
    export.kind("draw")[2]["parent_commitments"] = ["c" * 64]


def use_a_wrong_parameter(export: Export) -> None:
    """Less noise than the label says: the law's rate is 2 % off."""
    for leaf in (export.kind("product-plan")[0]["tiers"][1], export.kind("draw")[1]):
        rate = Fraction(leaf["law"]["parameters"]["rate"])
        leaf["law"]["parameters"]["rate"] = decimal_text(rate * Fraction(102, 100))


def claim_a_narrow_bar(export: Export) -> None:
    export.kind("product-plan")[0]["tiers"][0]["half_width"] = "1"


def understate_a_level(export: Export) -> None:
    export.kind("product-plan")[0]["tiers"][0]["level_nano"] -= 1


def price_ranks_backwards(export: Export) -> None:
    plan = export.kind("product-plan")[0]
    plan["tiers"].reverse()


def another_change_set(export: Export) -> None:
    plan = export.kind("product-plan")[0]
    plan["tiers"][2]["law"]["change_set"]["bins"] = "1"


def move_a_chain(export: Export) -> None:
    export.kind("product-plan")[0]["fingerprint"] = "d" * 64


def charge_nothing(export: Export) -> None:
    export.kind("sale")[0]["charge_nano"] = 0


def charge_twice(export: Export) -> None:
    export.kind("sale")[1]["charge_nano"] = 2_000_000_000


def overspend(export: Export) -> None:
    export.kind("dataset")[0]["budget_nano"] = 4_000_000_000


def sell_before_drawing(export: Export) -> None:
    sale = next(i for i, record in enumerate(export.leaves) if record["leaf"]["kind"] == "sale")
    export.leaves.insert(3, export.leaves.pop(sale))


def backdate_a_draw(export: Export) -> None:
    draw = next(i for i, record in enumerate(export.leaves) if record["leaf"]["kind"] == "draw")
    export.leaves.insert(2, export.leaves.pop(draw))


def sell_an_order_twice(export: Export) -> None:
    export.leaves.append(copy.deepcopy(next(r for r in export.leaves if r["leaf"]["kind"] == "sale")))


def sell_after_withdrawal(export: Export) -> None:
    sale = next(i for i, record in enumerate(export.leaves) if record["leaf"]["kind"] == "sale")
    product = export.leaves[sale]["leaf"]["product"]
    leaf = {
        "kind": "withdrawal",
        "index": 0,
        "at": export.leaves[sale]["leaf"]["at"],
        "product": product,
        "reason": "faulty",
    }
    export.leaves.insert(sale, {"record": "leaf", "index": 0, "hash": "0" * 64, "leaf": leaf})


def draw_in_an_unknown_epoch(export: Export) -> None:
    export.kind("draw")[0]["epoch"] = 9


def mint_a_snapshot_twice(export: Export) -> None:
    place = next(i for i, record in enumerate(export.leaves) if record["leaf"]["kind"] == "snapshot")
    export.leaves.insert(place, copy.deepcopy(export.leaves[place]))


def answer_otherwise(export: Export) -> None:
    """An answer that is not its parent plus the keyed noise, with a commitment that fits it."""
    from tiers.chain import answer_bytes
    from tiers.identity import TierLaw, commitment

    draw = [leaf for leaf in export.kind("draw") if leaf["role"] == "residual"][-1]
    law = TierLaw.from_document(draw["law"])
    opening = next(o for o in export.openings if (o["chain"], o["law"]) == (draw["chain"], law.identity))
    opening["answer"] = [str(int(value) + 1) for value in opening["answer"]]
    answer = answer_bytes([int(value) for value in opening["answer"]])
    draw["commitment"] = commitment(bytes.fromhex(opening["opening"]), draw["chain"], law, answer)


SABOTEURS: list[tuple[Callable[[Export], None], str]] = [
    (make_star, "A2 nearest-parents"),
    (draw_independently, "A2 second-truth-draw"),
    (draw_twice, "A2 second-answer"),
    (reuse_a_stream, "A2 reused-key"),
    (skip_a_place, "A2 order-of-drawing"),
    (name_another_parent, "A2 nearest-parents"),
    (use_a_wrong_parameter, "A1 guarantee"),
    (claim_a_narrow_bar, "A1 error-bar"),
    (understate_a_level, "A1 level"),
    (price_ranks_backwards, "A1 falling-epsilon"),
    (another_change_set, "A1 one-change-set"),
    (move_a_chain, "A1 chain-identity"),
    (charge_nothing, "A3 increment"),
    (charge_twice, "A3 increment"),
    (overspend, "A3 budget"),
    (sell_before_drawing, "A2 drawn-before-sold"),
    (backdate_a_draw, "A2 planned"),
    (sell_an_order_twice, "A3 one-leaf-an-order"),
    (sell_after_withdrawal, "A3 withdrawn"),
    (draw_in_an_unknown_epoch, "A2 epoch"),
    (mint_a_snapshot_twice, "A4 snapshot-once"),
    (answer_otherwise, "A7 replay"),
]


@pytest.mark.parametrize(("sabotage", "expected"), SABOTEURS, ids=[sabotage.__name__ for sabotage, _ in SABOTEURS])
def test_a_market_that_breaks_a_promise_is_caught_by_the_check_named_for_it(
    export: Export, sabotage: Callable[[Export], None], expected: str
) -> None:
    sabotage(export)
    assert expected in found(export.signed_anew().verify())


# --- heads seen earlier, empty audits, disclosure -----------------------------------------------------------------------


def head_of(export: Export, size: int) -> TreeHead:
    root = root_of(bytes.fromhex(record["hash"]) for record in export.leaves[:size])
    return sign(size, root, "2026-01-01T00:00:00Z", 1, SIGNER)


def test_a_log_that_continues_an_earlier_head_verifies_and_a_fork_does_not(export: Export) -> None:
    earlier = head_of(export.signed_anew(), 9)
    assert export.verify(earlier=earlier).findings == ()
    forged = TreeHead(
        **{name: getattr(earlier, name) for name in TreeHead.__struct_fields__} | {"signature": "0" * 128}
    )
    assert found(export.verify(earlier=forged)) == {"A4 earlier-head"}
    foreign = sign(9, bytes.fromhex(earlier.root), earlier.at, 2, SIGNER)
    assert found(export.verify(earlier=foreign)) == {"A4 earlier-head"}, "no leaf announces key 2"
    export.kind("snapshot")[0]["seal"] = "0" * 64
    assert found(export.signed_anew().verify(earlier=earlier)) == {"A4 consistency"}
    longer = sign(999, bytes(32), "2026-01-01T00:00:00Z", 1, SIGNER)
    assert "A4 consistency" in found(export.verify(earlier=longer))


@pytest.mark.parametrize("lines", [[], None], ids=["empty file", "no chain"])
def test_an_audit_of_nothing_is_refused_not_passed(export: Export, lines: list[bytes] | None) -> None:
    if lines is None:
        export.leaves = export.leaves[:4]
        export.openings = export.keys = []
        lines = export.signed_anew().lines()
    with pytest.raises(AuditError):
        verify_export(lines, export.public)


@pytest.mark.parametrize("public", ["", "zz", "0" * 63, "/etc/passwd"])
def test_a_public_key_that_is_none_is_refused(export: Export, public: str) -> None:
    with pytest.raises(AuditError):
        verify_export(export.lines(), public)


def test_no_export_discloses_a_truth_or_a_tier_above_the_highest_issued(export: Export) -> None:
    issued: dict[str, float] = {}
    epsilons = {
        (plan["chain"], law_id(tier["law"])): float(tier["epsilon"])
        for plan in export.kind("product-plan")
        for tier in plan["tiers"]
    }
    for sale in export.kind("sale"):
        issued[sale["chain"]] = max(issued.get(sale["chain"], 0.0), epsilons[sale["chain"], sale["law"]])
    assert export.openings
    assert export.keys
    for opening in export.openings:
        assert epsilons[opening["chain"], opening["law"]] <= issued[opening["chain"]]
    draws = {(leaf["chain"], law_id(leaf["law"])): leaf for leaf in export.kind("draw")}
    for key in export.keys:
        draw = draws[key["chain"], key["law"]]
        assert draw["role"] == "residual"
        for parent in draw["parents"]:
            assert epsilons[key["chain"], law_id(parent)] <= issued[key["chain"]]
