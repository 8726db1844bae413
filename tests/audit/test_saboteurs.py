"""Every saboteur of the log, by name, with the check that catches it: docs/audit.md lists these and no others."""

import copy
import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from app.audit.verify import verify_export
from app.log.heads import TreeHead, sign
from app.log.merkle import leaf_hash, root_of
from tests.audit.exports import SIGNER, Export, found, law_id
from tests.audit.saboteurs import SABOTEURS as NOISE
from tiers.canonical import canonical_bytes
from tiers.identity import TierLaw

PAGE = Path(__file__).resolve().parents[2] / "docs" / "audit.md"
LISTED = re.compile(r"^\| ([a-z][^|]*?) \| (A[1-7] [a-z-]+) \| ([^|]+) \|$", re.M)
Saboteur = Callable[[Export], set[str]]


def signed(export: Export) -> set[str]:
    """What an audit finds where the market itself signs the lie."""
    return found(export.signed_anew().verify())


def place(export: Export, kind: str, number: int = 0) -> int:
    return [at for at, record in enumerate(export.leaves) if record["leaf"]["kind"] == kind][number]


def edit_a_leaf(export: Export) -> set[str]:
    export.kind("sale")[0]["pseudonym"] = "somebody else"
    return found(export.verify())


def edit_a_leaf_and_its_hash(export: Export) -> set[str]:
    record = export.leaves[place(export, "sale")]
    record["leaf"]["pseudonym"] = "somebody else"
    record["hash"] = leaf_hash(canonical_bytes(record["leaf"])).hex()
    return found(export.verify())


def drop_a_leaf(export: Export) -> set[str]:
    del export.leaves[place(export, "sale")]
    return found(export.verify())


def drop_the_last_leaf(export: Export) -> set[str]:
    del export.leaves[-1]
    return found(export.verify())


def reorder_leaves(export: Export) -> set[str]:
    first = place(export, "sale")
    export.leaves[first], export.leaves[first + 1] = export.leaves[first + 1], export.leaves[first]
    return found(export.verify())


def duplicate_a_leaf(export: Export) -> set[str]:
    at = place(export, "sale")
    export.leaves.insert(at, copy.deepcopy(export.leaves[at]))
    return found(export.verify())


def duplicate_a_leaf_and_sign_it(export: Export) -> set[str]:
    at = place(export, "sale")
    export.leaves.insert(at, copy.deepcopy(export.leaves[at]))
    return signed(export)


def forge_a_head(export: Export) -> set[str]:
    export.header["head"]["signature"] = sign(1, bytes(32), "2026-01-01T00:00:00Z", 1, SIGNER).signature
    return found(export.verify())


def earlier(export: Export) -> TreeHead:
    size = place(export, "sale") + 1
    root = root_of(bytes.fromhex(record["hash"]) for record in export.signed_anew().leaves[:size])
    return sign(size, root, "2026-01-01T00:00:00Z", 1, SIGNER)


def fork_the_log(export: Export) -> set[str]:
    seen = earlier(export)
    export.kind("sale")[0]["pseudonym"] = "somebody else"
    return found(export.signed_anew().verify(earlier=seen))


def roll_the_log_back(export: Export) -> set[str]:
    seen = earlier(export)
    del export.leaves[place(export, "sale") :]
    export.openings = export.keys = []
    return found(export.signed_anew().verify(earlier=seen))


def answer_from_a_stale_cache(export: Export) -> set[str]:
    """One tier's answer, under its own opening, in another's place."""
    pairs = zip(export.openings, export.openings[1:], strict=False)
    first, other = next((one, two) for one, two in pairs if one["chain"] == two["chain"])
    other["answer"], other["opening"] = first["answer"], first["opening"]
    return signed(export)


def derive_a_tier_from_the_truth(export: Export) -> set[str]:
    draw = next(leaf for leaf in export.kind("draw") if leaf["role"] == "residual")
    draw |= {"role": "base", "parents": [], "parent_commitments": []}
    return signed(export)


def backdate_a_sale(export: Export) -> set[str]:
    export.kind("sale")[-1]["at"] = "2001-01-01T00:00:00Z"
    return signed(export)


def backdate_a_draw(export: Export) -> set[str]:
    export.leaves.insert(2, export.leaves.pop(place(export, "draw")))
    return signed(export)


def sell_before_drawing(export: Export) -> set[str]:
    sale = place(export, "sale")
    export.leaves.insert(place(export, "product-plan") + 1, export.leaves.pop(sale))
    return signed(export)


def disclose_a_truth_draws_key(export: Export) -> set[str]:
    base = next(leaf for leaf in export.kind("draw") if leaf["role"] == "base")
    export.keys.append({"record": "key", "chain": base["chain"], "law": law_id(base["law"]), "key": "2" * 64})
    return found(export.verify())


def open_a_tier_that_nobody_bought(export: Export) -> set[str]:
    held = {(opening["chain"], opening["law"]) for opening in export.openings}
    draw = next(leaf for leaf in export.kind("draw") if (leaf["chain"], law_id(leaf["law"])) not in held)
    made = {"opening": "3" * 64, "answer": ["1"] * draw["length"]}
    export.openings.append({"record": "opening", "chain": draw["chain"], "law": law_id(draw["law"]), **made})
    return found(export.verify())


def reuse_a_snapshot_id_for_other_content(export: Export) -> set[str]:
    at = place(export, "snapshot")
    again = copy.deepcopy(export.leaves[at])
    again["leaf"] |= {"content": "0" * 64, "seal": "0" * 64}
    export.leaves.insert(at + 1, again)
    return signed(export)


def reuse_a_content_under_another_snapshot_id(export: Export) -> set[str]:
    first, second = export.kind("snapshot")[:2]
    second["content"] = first["content"]
    return signed(export)


def charge_twice(export: Export) -> set[str]:
    sale = next(leaf for leaf in export.kind("sale") if leaf["charge_nano"] == 0)
    sale["charge_nano"] = 500_000_000
    return signed(export)


def charge_nothing(export: Export) -> set[str]:
    export.kind("sale")[0]["charge_nano"] = 0
    return signed(export)


def use_increments_in_a_zcdp_ledger(export: Export) -> set[str]:
    """The ledger counts ρ; what a pure one would charge for the tier alone is less than what is due for the chain."""
    lineage = next(leaf["lineage"] for leaf in export.kind("dataset") if leaf["budget_kind"] != "pure")
    plan = next(leaf for leaf in export.kind("product-plan") if leaf["lineage"] == lineage)
    sale = next(leaf for leaf in export.kind("sale") if leaf["product"] == plan["product"])
    levels = {TierLaw.from_document(tier["law"]).identity: tier["level_nano"] for tier in plan["tiers"]}
    sale["charge_nano"] = levels[sale["law"]]
    return signed(export)


def overspend(export: Export) -> set[str]:
    export.kind("dataset")[0]["budget_nano"] = 1_000_000_000
    return signed(export)


def sell_a_frozen_chain(export: Export) -> set[str]:
    thaw = export.leaves.pop(place(export, "thaw"))
    export.leaves.append(thaw)
    return signed(export)


def thaw_what_was_not_frozen(export: Export) -> set[str]:
    del export.leaves[place(export, "freeze")]
    return signed(export)


def sell_a_stopped_panel(export: Export) -> set[str]:
    thaw = export.leaves.pop(place(export, "panel-thaw"))
    export.leaves.append(thaw)
    return signed(export)


def thaw_a_panel_that_was_not_stopped(export: Export) -> set[str]:
    del export.leaves[place(export, "panel-stop")]
    return signed(export)


def between(export: Export, stop: int, act: int, thaw: int) -> set[str]:
    """Put one leaf of a panel between its stop and its thaw, and no other."""
    moved = [export.leaves[at] for at in (stop, act, thaw)]
    kept = [record for record in export.leaves if not any(record is each for each in moved)]
    at = act - sum(each < act for each in (stop, thaw))
    export.leaves = [*kept[:at], *moved, *kept[at:]]
    return signed(export)


def sell_a_stopped_location_panel(export: Export) -> set[str]:
    stop, thaw = (place(export, kind, 1) for kind in ("panel-stop", "panel-thaw"))
    return between(export, stop, place(export, "location-sale"), thaw)


def answer_a_question_of_a_stopped_panel(export: Export) -> set[str]:
    stop, thaw = (place(export, kind, 1) for kind in ("panel-stop", "panel-thaw"))
    return between(export, stop, place(export, "location-answer"), thaw)


def add_a_tier_to_a_stopped_panel(export: Export) -> set[str]:
    stop, thaw = (place(export, kind) for kind in ("panel-stop", "panel-thaw"))
    return between(export, stop, place(export, "panel-late-tier"), thaw)


def stop_a_panel_that_never_opened(export: Export) -> set[str]:
    """A location panel's id that no leaf opens, stopped and thawed."""
    for kind in ("panel-stop", "panel-thaw"):
        export.kind(kind)[1]["panel"] = "location_0"
    return signed(export)


def reuse_a_stream(export: Export) -> set[str]:
    drawn = export.kind("draw")
    drawn[5]["key_hash"] = drawn[1]["key_hash"]
    return signed(export)


def draw_under_a_superseded_key(export: Export) -> set[str]:
    """A second epoch was in force before anything was planned."""
    noise = next(at for at, record in enumerate(export.leaves) if record["leaf"].get("purpose") == "noise")
    later = copy.deepcopy(export.leaves[noise])
    later["leaf"]["epoch"] += 1
    export.leaves.insert(noise + 1, later)
    return signed(export)


def draw_a_star(export: Export) -> set[str]:
    chain = export.kind("draw")[0]["chain"]
    drawn = [leaf for leaf in export.kind("draw") if leaf["chain"] == chain]
    for leaf in drawn[2:]:
        leaf |= {"parents": [drawn[0]["law"]], "parent_commitments": [drawn[0]["commitment"]]}
    return signed(export)


def draw_twice(export: Export) -> set[str]:
    at = place(export, "draw", 3)
    again = copy.deepcopy(export.leaves[at])
    again["leaf"] |= {"commitment": "a" * 64, "key_hash": "b" * 64}
    export.leaves.insert(at + 1, again)
    return signed(export)


SABOTEURS: dict[Saboteur, str] = {
    edit_a_leaf: "A4 leaf-hash",
    edit_a_leaf_and_its_hash: "A4 root",
    drop_a_leaf: "A4 missing-leaf",
    drop_the_last_leaf: "A4 log-size",
    reorder_leaves: "A4 missing-leaf",
    duplicate_a_leaf: "A4 repeated-leaf",
    duplicate_a_leaf_and_sign_it: "A3 one-leaf-an-order",
    forge_a_head: "A4 head-signature",
    fork_the_log: "A4 consistency",
    roll_the_log_back: "A4 consistency",
    answer_from_a_stale_cache: "A7 commitment",
    derive_a_tier_from_the_truth: "A2 second-truth-draw",
    draw_a_star: "A2 nearest-parents",
    draw_twice: "A2 second-answer",
    reuse_a_stream: "A2 reused-key",
    draw_under_a_superseded_key: "A2 epoch-in-force",
    backdate_a_sale: "A4 time",
    backdate_a_draw: "A2 planned",
    sell_before_drawing: "A2 drawn-before-sold",
    disclose_a_truth_draws_key: "A7 forbidden-key",
    open_a_tier_that_nobody_bought: "A7 forbidden-opening",
    reuse_a_snapshot_id_for_other_content: "A4 snapshot-once",
    reuse_a_content_under_another_snapshot_id: "A4 one-content",
    charge_twice: "A3 increment",
    charge_nothing: "A3 increment",
    use_increments_in_a_zcdp_ledger: "A3 increment-where-reserve-is-due",
    overspend: "A3 budget",
    sell_a_frozen_chain: "A3 frozen",
    thaw_what_was_not_frozen: "A4 frozen-before-thaw",
    sell_a_stopped_panel: "A3 panel-stopped",
    sell_a_stopped_location_panel: "A3 panel-stopped",
    answer_a_question_of_a_stopped_panel: "A3 panel-stopped",
    add_a_tier_to_a_stopped_panel: "A3 panel-stopped",
    thaw_a_panel_that_was_not_stopped: "A4 stopped-before-thaw",
    stop_a_panel_that_never_opened: "A4 panel-of-stop",
}


def name_of(saboteur: Saboteur) -> str:
    return saboteur.__name__.replace("_draws_", "_draw's_").replace("_", " ")


@pytest.mark.parametrize(("saboteur", "check"), SABOTEURS.items(), ids=map(name_of, SABOTEURS))
def test_a_saboteur_is_caught_by_the_check_named_for_it(export: Export, saboteur: Saboteur, check: str) -> None:
    assert check in saboteur(export)


def test_the_auditor_s_page_lists_the_tested_saboteurs_and_no_others() -> None:
    listed = {(name, check) for name, check, _ in LISTED.findall(PAGE.read_text())}
    of_noise = {(name, f"A5 {each.process.replace(' ', '-')}") for name, each in NOISE.items()}
    assert listed == of_noise | {(name_of(saboteur), check) for saboteur, check in SABOTEURS.items()}


def test_the_page_says_within_how_many_values_each_saboteur_of_the_noise_is_caught() -> None:
    within = {name: how for name, _, how in LISTED.findall(PAGE.read_text()) if name in NOISE}
    assert {name: f"{each.within:,} values" for name, each in NOISE.items()} == within


def test_the_honest_export_brings_up_none_of_them(export: Export) -> None:
    assert export.verify().findings == ()
    assert signed(export) == set()


def test_evidence_of_one_chain_in_two_places_is_a_finding(export: Export) -> None:
    lines: list[Any] = export.lines()
    chains = [json.loads(line).get("chain") for line in lines]
    last = chains[-1]
    at = next(at for at, chain in enumerate(chains) if chain not in (None, last) and chains.count(chain) > 1)
    moved = lines.pop(at)
    assert "A4 record-order" in found(verify_export([*lines, moved], export.public))


def test_a_leaf_after_the_first_opening_is_a_finding(export: Export) -> None:
    lines = export.lines()
    lines.append(lines.pop(len(export.leaves)))
    assert "A4 record-order" in found(verify_export(lines, export.public))
