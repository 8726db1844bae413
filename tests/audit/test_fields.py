"""Every field of every leaf is checked or named as unchecked; a false value of each checked one is refuted by name."""

import copy
import json
from collections.abc import Callable
from fractions import Fraction
from pathlib import Path
from typing import Any, get_args

import pytest

from app.audit.fields import CHECKED, PARTLY, UNCHECKED
from app.log.leaves import Leaf, PlanTier
from app.log.merkle import leaf_hash, root_of
from app.log.panel_leaves import PanelTier
from tests.audit.exports import Export, found
from tiers.budget import decimal_text
from tiers.canonical import canonical_bytes

KINDS = {str(kind.__struct_config__.tag): kind for kind in get_args(Leaf)}
FIELDS = {(tag, name) for tag, kind in KINDS.items() for name in kind.__struct_fields__} | {
    (tier, name)
    for tier, kind in (("plan-tier", PlanTier), ("panel-tier", PanelTier))
    for name in kind.__struct_fields__
}
WITH_TIERS = {"plan-tier": "product-plan", "panel-tier": "panel"}
OTHER_KEY = "d75a980182b10ab7d54bfed3c964073a0ee172f3daa62325af021a68f707511a"


def test_every_field_of_every_leaf_is_in_exactly_one_table() -> None:
    assert set(CHECKED) | set(UNCHECKED) == FIELDS
    assert not set(CHECKED) & set(UNCHECKED)
    assert set(PARTLY) <= set(CHECKED)
    assert all(reason for reason in (*UNCHECKED.values(), *PARTLY.values()))


def test_the_auditor_s_page_names_every_field_that_is_not_fully_checked() -> None:
    page = (Path(__file__).resolve().parents[2] / "docs" / "audit.md").read_text()
    for (kind, name), reason in (UNCHECKED | PARTLY).items():
        assert name == "at" or f"| {kind} | {name} | {reason} |" in page


def test_the_whole_export_holds_every_kind_and_verifies(export: Export) -> None:
    assert {record["leaf"]["kind"] for record in export.leaves} == set(KINDS)
    report = export.verify()
    assert report.findings == ()
    assert report.chains == 6
    assert export.signed_anew().verify().findings == ()


def less_noise(law: dict[str, Any]) -> dict[str, Any]:
    """The same rate for half of the changes: the ε on the label stays true for the law, and false for the question."""
    change = {name: str(max(1, int(text) // 2)) for name, text in law["change_set"].items()}
    rate = Fraction(law["parameters"]["rate"]) * int(law["change_set"]["total"]) / int(change["total"])
    return law | {"change_set": change, "parameters": {"rate": decimal_text(rate)}}


def narrower(schema: str) -> str:
    declared = json.loads(schema) | {"max_groups_per_unit": 1}
    return json.dumps(declared, sort_keys=True, separators=(",", ":"), ensure_ascii=False)


def turned(hexes: str) -> str:
    return ("0" if hexes[0] != "0" else "1") + hexes[1:]


def test_a_false_index_is_refuted(export: Export) -> None:
    export.signed_anew().leaves[9]["leaf"]["index"] = 8
    export.leaves[9]["hash"] = leaf_hash(canonical_bytes(export.leaves[9]["leaf"])).hex()
    assert root_of(bytes.fromhex(record["hash"]) for record in export.leaves).hex() != export.header["head"]["root"]
    assert "A4 leaf-index" in found(export.verify())


# which leaf of its kind (-1 the last), and what takes the field's place
SPOILT: dict[tuple[str, str], tuple[int, Callable[[Any], Any]]] = {
    ("key-epoch", "purpose"): (1, lambda _: "hearsay"),
    ("key-epoch", "epoch"): (1, lambda _: 0),
    ("key-epoch", "public_key"): (0, lambda _: OTHER_KEY),
    ("dataset", "budget_nano"): (0, lambda _: 1),
    ("dataset", "schema"): (0, narrower),
    ("dataset", "reserve_minor"): (1, lambda _: None),
    ("dataset", "promise"): (2, lambda promise: ["2", promise[1]]),
    ("product-plan", "question"): (0, lambda text: text.replace('"rows":3', '"rows":4')),
    ("product-plan", "currency"): (0, lambda _: "USD"),
    ("product-plan", "tiers"): (1, lambda tiers: tiers[:-1]),
    ("product-plan", "derivation"): (0, lambda _: ["Believe me: Δ₁ = 1."]),
    ("draw", "role"): (1, lambda _: "bridge"),
    ("draw", "law"): (1, less_noise),
    ("draw", "parents"): (2, lambda parents: [less_noise(parents[0])]),
    ("draw", "parent_commitments"): (2, lambda _: ["c" * 64]),
    ("draw", "sampler"): (0, lambda _: "mersenne/1"),
    ("draw", "commitment"): (3, turned),
    ("draw", "key_hash"): (3, turned),
    ("sale", "price_minor"): (0, lambda _: 1_000_000),
    ("sale", "currency"): (0, lambda _: "USD"),
    ("credit-note", "amount_minor"): (0, lambda _: 1_000_000),
    ("credit-note", "currency"): (0, lambda _: "USD"),
    ("price-book", "currency"): (0, lambda _: "USD"),
    ("price-book", "prices_minor"): (0, lambda prices: {law: 7 + place for place, law in enumerate(prices)}),
    ("audit-report", "size"): (0, lambda _: 10**6),
    ("panel", "domain"): (0, lambda domain: [*domain, "grey"]),
    ("panel", "tiers"): (0, lambda tiers: tiers[:-1]),
    ("panel", "axes"): (1, lambda axes: [axes[0], axes[1] | {"values": ["a", "b", "a"]}]),
    ("panel", "metric"): (1, lambda metric: metric | {"diameter": metric["diameter"] - 1}),
    ("panel-tier", "across"): (0, lambda _: "4"),
    ("panel", "budget_nano"): (0, lambda _: 1),
    ("panel-round", "record"): (0, lambda record: record | {"reports": 31}),
    ("panel-round", "signature"): (0, turned),
    ("panel-late-tier", "number"): (0, lambda _: 7),
    ("panel-late-tier", "tier"): (0, lambda tier: tier | {"epsilon": "1.4"}),
    ("panel-late-draw", "sampler"): (0, lambda _: "mersenne/1"),
    ("panel-sale", "rank"): (0, lambda _: 9),
    ("panel-sale", "price_minor"): (0, lambda _: 1_000_000),
    ("panel-tier", "epsilon"): (0, lambda _: "0.7"),
    ("panel-tier", "law"): (0, lambda law: law | {"epsilon": "3"}),
    ("panel-tier", "price_minor"): (0, lambda _: 0),
    ("location-panel", "lineage"): (0, lambda _: "data_other"),
    ("location-panel", "people"): (0, lambda _: 9),
    ("location-panel", "space"): (0, lambda space: space | {"diagonal": "1"}),
    ("location-panel", "budget_nano"): (0, lambda _: 1),
    ("location-panel", "query_nano"): (0, lambda _: 1_000_000_000),
    ("location-panel", "beta"): (0, lambda _: "1"),
    ("location-panel", "rounds"): (0, lambda _: 1),
    ("location-panel", "prices_minor"): (0, lambda prices: prices | {"nearest": 1}),
    ("location-panel", "currency"): (0, lambda _: "USD"),
    ("location-answer", "question"): (0, lambda text: text.replace('"k":3', '"k":2')),
    ("location-answer", "rounds"): (0, lambda rounds: [rounds[0] | {"most_nano": 10**12}, *rounds[1:]]),
    ("location-answer", "most_nano"): (0, lambda most: 40 * most),
    ("location-sale", "price_minor"): (0, lambda _: 1_000_000),
    ("location-sale", "currency"): (0, lambda _: "USD"),
    ("plan-tier", "law"): (0, less_noise),
    ("plan-tier", "epsilon"): (0, lambda _: "3"),
    ("plan-tier", "price_minor"): (0, lambda _: 0),
}


def falsified(kind: str, name: str, leaves: list[dict[str, Any]]) -> None:
    """Put a false value into one leaf: the one given above, else another of the same type."""
    place, change = SPOILT.get((kind, name), (0, None))
    leaf = leaves[place]
    if change is not None:
        leaf[name] = change(copy.deepcopy(leaf.get(name)))
    elif name == "at":
        leaves[-1]["at"] = "2001-01-01T00:00:00Z"
    elif (kind, name) in (
        ("sale", "order"),
        ("sale", "product"),
        ("sale", "chain"),
        ("credit-note", "note"),
        ("audit-report", "report"),
        ("panel-sale", "order"),
        ("panel-late-draw", "key_hash"),
        ("location-sale", "order"),
    ):
        other = next(each for each in leaves if each[name] != leaf[name])
        other[name] = leaf[name]
    elif (kind, name) == ("snapshot", "content"):
        leaves[1][name] = leaf[name]
    elif isinstance(leaf[name], int):
        leaf[name] += 1
    elif len(leaf[name]) == 64:
        leaf[name] = turned(leaf[name])
    else:
        leaf[name] = leaf[name] + "0"


@pytest.mark.parametrize(("kind", "name"), sorted(field for field in CHECKED if field[1] != "index"), ids=str)
def test_a_false_value_of_a_checked_field_is_refuted_by_the_rule_named_for_it(
    export: Export, kind: str, name: str
) -> None:
    leaves = export.kind(WITH_TIERS[kind])[0]["tiers"] if kind in WITH_TIERS else export.kind(kind)
    before = copy.deepcopy(export.leaves)
    falsified(kind, name, leaves)
    assert export.leaves != before
    public = (kind, name) == ("key-epoch", "public_key")
    assert CHECKED[kind, name] in found(export.signed_anew(announce=not public).verify())


@pytest.mark.parametrize(("kind", "name"), sorted(UNCHECKED), ids=str)
def test_an_unchecked_field_is_indeed_not_checked(export: Export, kind: str, name: str) -> None:
    leaf = export.kind(kind)[0]
    leaf[name] = "0" * 64
    assert export.signed_anew().verify().findings == (), "move it to the checked fields"
