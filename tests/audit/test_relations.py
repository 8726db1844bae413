"""Leaves against leaves: what one names, another brought in; keys, times, books, ranks; and mutants of old checks."""

import copy
from collections.abc import Callable
from typing import Any

import pytest

from app.audit.verify import verify_export
from app.errors import IntegrityError
from app.log.heads import TreeHead, public_hex, sign
from app.log.journal import current_head
from tests.audit.exports import SIGNER, Export, found, law_id
from tests.conftest import PEOPLE, Fair
from tiers.chain import answer_bytes


def place_of(export: Export, leaf: dict[str, Any]) -> int:
    return next(place for place, record in enumerate(export.leaves) if record["leaf"] is leaf)


def move(export: Export, leaf: dict[str, Any], to: int) -> None:
    export.leaves.insert(to, export.leaves.pop(place_of(export, leaf)))


def hide_a_withdrawn_product(export: Export) -> None:
    """Withdraw a product first and sell its chain under another product's name, at a law that both chains have."""
    asked = next(leaf for leaf in export.kind("product-plan") if leaf["licence"] == "internal")
    people = next(leaf for leaf in export.kind("product-plan") if leaf["product"] == withdrawn(export))
    sale = next(leaf for leaf in export.kind("sale") if leaf["product"] == people["product"])
    move(export, asked, place_of(export, people) + 1)
    move(export, export.kind("withdrawal")[0], place_of(export, sale))
    sale["product"] = asked["product"]


def withdrawn(export: Export) -> str:
    return str(export.kind("withdrawal")[0]["product"])


def one_content_in_two_lineages(export: Export) -> None:
    first, second = export.kind("snapshot")[:2]
    second["content"] = first["content"]


def one_content_in_two_snapshots(export: Export) -> None:
    first, third = export.kind("snapshot")[0], export.kind("snapshot")[-1]
    assert first["lineage"] == third["lineage"]
    third["content"] = first["content"]


def sample_the_truth_otherwise(export: Export) -> None:
    base = next(leaf for leaf in export.kind("draw") if leaf["role"] == "base")
    base["sampler"] = "cells/2" if base["sampler"] != "cells/2" else "tsg-digits/2"


def announce_a_snapshot_late(export: Export) -> None:
    move(export, export.kind("snapshot")[0], len(export.leaves) - 1)


def announce_a_dataset_late(export: Export) -> None:
    move(export, export.kind("dataset")[0], place_of(export, export.kind("snapshot")[0]))


def announce_no_signing_key(export: Export) -> None:
    del export.leaves[0]


def announce_another_key(export: Export) -> None:
    export.leaves[0]["leaf"]["public_key"] = "d75a980182b10ab7d54bfed3c964073a0ee172f3daa62325af021a68f707511a"


def announce_a_number_twice(export: Export) -> None:
    export.leaves.append(copy.deepcopy(export.leaves[1]))


def show_a_noise_key(export: Export) -> None:
    export.leaves[1]["leaf"]["public_key"] = "d75a980182b10ab7d54bfed3c964073a0ee172f3daa62325af021a68f707511a"


def run_time_backwards(export: Export) -> None:
    for place, record in enumerate(export.leaves):
        record["leaf"]["at"] = f"2026-01-01T00:00:{59 - place:02d}Z"


def write_the_time_otherwise(export: Export) -> None:
    export.leaves[-1]["leaf"]["at"] = export.leaves[-1]["leaf"]["at"].replace("T", " ")


def begin_ranks_at_six(export: Export) -> None:
    for plan in export.kind("product-plan"):
        for tier in plan["tiers"]:
            tier["rank"] += 5


def rank_a_law_twice(export: Export) -> None:
    second = export.kind("product-plan")[3]
    assert second["chain"] == export.kind("product-plan")[0]["chain"]
    assert [tier["rank"] for tier in second["tiers"]] == [2, 4]
    for rank, tier in enumerate(second["tiers"], start=1):
        tier["rank"] = rank


def plan_a_product_twice(export: Export) -> None:
    plan = export.kind("product-plan")[0]
    export.leaves.insert(place_of(export, plan) + 1, copy.deepcopy(export.leaves[place_of(export, plan)]))


def raise_prices_down_the_book(export: Export) -> None:
    for tier in export.kind("product-plan")[0]["tiers"]:
        tier["price_minor"] = tier["rank"]


def sell_dear(export: Export) -> None:
    export.kind("sale")[0]["price_minor"] = 1201


def sell_by_an_old_book(export: Export) -> None:
    sale = export.kind("sale")[3]
    assert sale["book_version"] == 2
    sale["book_version"] = 1


def price_half_a_chain(export: Export) -> None:
    book = export.kind("price-book")[0]
    del book["prices_minor"][next(iter(book["prices_minor"]))]


def price_nothing_known(export: Export) -> None:
    export.kind("price-book")[0]["chain"] = "0" * 64


def skip_a_version(export: Export) -> None:
    export.kind("price-book")[0]["book_version"] = 3


def quote_an_old_book(export: Export) -> None:
    export.kind("product-plan")[3]["tiers"][0]["price_minor"] -= 1


def open_with_another_version(export: Export) -> None:
    export.kind("product-plan")[1]["book_version"] = 2


def declare_a_reserve_upside_down(export: Export) -> None:
    export.kind("dataset")[1]["reserve_minor"].reverse()


def go_beyond_the_reserve(export: Export) -> None:
    sale = next(leaf for leaf in export.kind("sale") if leaf["price_minor"] > 10_000)
    sale["price_minor"] += 1


def withdraw_twice(export: Export) -> None:
    export.leaves.append(copy.deepcopy(export.leaves[-1]))


def plan_on_a_foreign_snapshot(export: Export) -> None:
    """A plan on the other lineage's snapshot: only A1 knows the chain's own snapshot to be foreign to its lineage."""
    first, second = export.kind("snapshot")[:2]
    first["lineage"], second["lineage"] = second["lineage"], first["lineage"]


def draw_one_tier_longer(export: Export) -> None:
    export.kind("draw")[3]["length"] += 1


def draw_one_tier_on_another_grain(export: Export) -> None:
    export.kind("draw")[3]["grain"] += 1


LIES: list[tuple[Callable[[Export], None], str]] = [
    (hide_a_withdrawn_product, "A3 product-of-chain"),
    (one_content_in_two_lineages, "A4 one-content"),
    (one_content_in_two_snapshots, "A4 one-content"),
    (sample_the_truth_otherwise, "A2 sampler"),
    (announce_a_snapshot_late, "A4 snapshot-of-plan"),
    (announce_a_dataset_late, "A4 dataset-of-snapshot"),
    (announce_no_signing_key, "A4 first-leaf"),
    (announce_no_signing_key, "A4 announced-key"),
    (announce_another_key, "A4 announced-key"),
    (announce_a_number_twice, "A4 key-number"),
    (show_a_noise_key, "A4 announced-key"),
    (run_time_backwards, "A4 time"),
    (write_the_time_otherwise, "A4 time"),
    (begin_ranks_at_six, "A1 rank-of-chain"),
    (rank_a_law_twice, "A1 rank-of-chain"),
    (plan_a_product_twice, "A1 planned-once"),
    (raise_prices_down_the_book, "A3 book"),
    (sell_dear, "A3 price"),
    (sell_by_an_old_book, "A3 book-version"),
    (price_half_a_chain, "A3 book-of-chain"),
    (price_nothing_known, "A3 book-of-chain"),
    (skip_a_version, "A3 book-version"),
    (quote_an_old_book, "A3 book-in-force"),
    (open_with_another_version, "A3 book-version"),
    (declare_a_reserve_upside_down, "A3 reserve"),
    (go_beyond_the_reserve, "A3 price"),
    (withdraw_twice, "A4 withdrawn-once"),
    (plan_on_a_foreign_snapshot, "A1 snapshot-of-lineage"),
    (draw_one_tier_longer, "A2 one-shape"),
    (draw_one_tier_on_another_grain, "A2 one-shape"),
]


@pytest.mark.parametrize(("lie", "expected"), LIES, ids=[f"{lie.__name__}-{rule}" for lie, rule in LIES])
def test_a_lie_between_leaves_is_refuted_by_name(export: Export, lie: Callable[[Export], None], expected: str) -> None:
    lie(export)
    told = lie not in (announce_another_key, show_a_noise_key)
    assert expected in found(export.signed_anew(announce=told).verify())


def headed(export: Export, at: str, key: int) -> Export:
    head = export.signed_anew().header["head"]
    made = sign(head["size"], bytes.fromhex(head["root"]), at, key, SIGNER)
    export.header["head"] = {name: getattr(made, name) for name in TreeHead.__struct_fields__}
    return export


def test_a_head_names_its_key_and_is_not_older_than_its_leaves(export: Export) -> None:
    assert found(headed(export, "2100-01-01T00:00:00Z", 1).verify()) == set()
    assert found(headed(export, "2100-01-01T00:00:00Z", 77).verify()) == {"A4 key-number", "A4 head-signature"}
    assert found(headed(export, "2001-01-01T00:00:00Z", 1).verify()) == {"A4 time"}
    assert found(headed(export, "today", 1).verify()) == {"A4 time"}


def test_a_head_of_a_later_key_verifies_once_a_leaf_announces_it(export: Export) -> None:
    leaf = copy.deepcopy(export.leaves[0])
    leaf["leaf"] |= {"epoch": 2, "public_key": public_hex(SIGNER), "at": export.leaves[-1]["leaf"]["at"]}
    export.leaves.append(leaf)
    first = export.public
    export.signed_anew(announce=False)
    head = export.header["head"]
    made = sign(head["size"], bytes.fromhex(head["root"]), head["at"], 2, SIGNER)
    export.header["head"] = {name: getattr(made, name) for name in TreeHead.__struct_fields__}
    assert export.verify().findings == ()
    export.public = first
    rules = found(export.verify())
    assert {"A4 unproved-key", "A4 head-signature"} <= rules, (
        "the log alone leads nobody from the first key to the second"
    )


def test_an_epoch_of_noise_may_begin_late_and_draw_late(export: Export) -> None:
    """A chain under two epochs breaks no rule by itself; a draw before its epoch does."""
    leaf = copy.deepcopy(export.leaves[1])
    leaf["leaf"]["epoch"] = 2
    export.leaves.insert(2, leaf)
    last = export.kind("draw")[-1]
    last["epoch"] = 2
    assert "A2 epoch" not in found(export.signed_anew().verify())
    move(export, leaf["leaf"], len(export.leaves) - 1)
    assert "A2 epoch" in found(export.signed_anew().verify())


def test_a_log_with_plans_and_no_sale_says_so(fair: Fair) -> None:
    fair.product(fair.dataset())
    report = verify_export(*fair.export())
    assert (report.verdict, report.chains, report.draws, report.sales) == ("verified", 1, 0, 0)
    assert len(report.notes) == 1
    assert "no sale" in report.notes[0]


def test_a_log_with_sales_needs_no_note(export: Export) -> None:
    assert export.verify().notes == ()


def test_times_in_the_log_do_not_run_back_when_requests_overtake_each_other(fair: Fair) -> None:
    from datetime import UTC, datetime

    dataset = fair.dataset()
    fair.market.clock = lambda: datetime(2001, 1, 1, tzinfo=UTC)
    fair.product(dataset, PEOPLE)
    assert fair.market.database.read_now(current_head).at > "2001"  # type: ignore[union-attr]
    assert verify_export(*fair.export()).findings == ()


def test_another_answer_sealed_validly_in_the_store_is_not_what_the_log_committed_to(fair: Fair) -> None:
    """The storage key seals it for this very place; only the commitment tells."""
    from app.engine.release import answer_context
    from app.engine.state import chain_of_product

    product, buyer = fair.product(fair.dataset(), PEOPLE), fair.person()
    fair.buy(buyer, product, "1")
    market = fair.market
    chain, _ = market.database.read_now(lambda c: chain_of_product(c, market.settings, product["product"]))
    tier = next(tier for tier in chain.tiers if tier.epsilon == "1")
    assert tier.sealed is not None
    assert tier.commitment is not None
    held = market.engine.unseal(chain, tier, tier.sealed, tier.commitment)
    forged = held.opening + answer_bytes([value + 1 for value in held.answer])
    other = market.keyring.seal(forged, answer_context(chain.id, tier.law))
    with pytest.raises(IntegrityError):
        market.engine.unseal(chain, tier, other, tier.commitment)


def test_law_ids_of_the_export_are_those_of_its_documents(export: Export) -> None:
    drawn = {(leaf["chain"], law_id(leaf["law"])) for leaf in export.kind("draw")}
    assert {(opening["chain"], opening["law"]) for opening in export.openings} <= drawn
