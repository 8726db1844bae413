"""What a set of pseudonyms has learnt, from an export file."""

import json
from fractions import Fraction
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from app.cli import main
from tests.audit.exports import Export


def asked(folder: Path, export: Export, *arguments: str) -> Result:
    file = folder / "export.ndjson"
    file.write_bytes(b"".join(line + b"\n" for line in export.lines()))
    command = ["audit", "coalition", str(file), "--public-key", export.public, "--json", *arguments]
    return CliRunner().invoke(main, command)


def test_two_buyers_together_hold_the_best_of_each_chain(tmp_path: Path, export: Export) -> None:
    sales = export.kind("sale")
    names = sorted({leaf["pseudonym"] for leaf in sales})
    tiers = {tier_law(tier): tier for plan in export.kind("product-plan") for tier in plan["tiers"]}
    lineages = {plan["chain"]: plan["lineage"] for plan in export.kind("product-plan")}
    for coalition in (names[:1], names):
        best: dict[str, Fraction] = {}
        for leaf in sales:
            if leaf["pseudonym"] in coalition:
                epsilon = Fraction(tiers[leaf["law"]]["epsilon"])
                best[leaf["chain"]] = max(epsilon, best.get(leaf["chain"], Fraction(0)))
        due: dict[str, Fraction] = {}
        for chain, epsilon in best.items():
            due[lineages[chain]] = due.get(lineages[chain], Fraction(0)) + epsilon
        result = asked(tmp_path, export, *(part for name in coalition for part in ("--buyer", name)))
        assert result.exit_code == 0, result.output
        assert {each["lineage"]: Fraction(each["epsilon"]) for each in json.loads(result.output)} == due


def tier_law(tier: dict[str, object]) -> str:
    from tiers.identity import TierLaw

    return TierLaw.from_document(tier["law"]).identity


def test_one_more_tier_adds_what_it_is_above_the_best_held(tmp_path: Path, export: Export) -> None:
    sale = export.kind("sale")[0]
    plan = next(plan for plan in export.kind("product-plan") if plan["product"] == sale["product"])
    top, buyer = plan["tiers"][0], sale["pseudonym"]
    (lineage,) = {plan["lineage"]}
    more = asked(tmp_path, export, "--buyer", buyer, "--add", f"{plan['chain']}:{tier_law(top)}")
    (loss,) = [each for each in json.loads(more.output) if each["lineage"] == lineage]
    held = [leaf["law"] for leaf in export.kind("sale") if (leaf["pseudonym"], leaf["chain"]) == (buyer, plan["chain"])]
    best = max(Fraction(tier["epsilon"]) for tier in plan["tiers"] if tier_law(tier) in held)
    assert Fraction(loss["added"]) == Fraction(top["epsilon"]) - best
    assert Fraction(loss["epsilon_after"]) == Fraction(loss["epsilon"]) + Fraction(loss["added"])


@pytest.mark.parametrize("arguments", [("--buyer", "nobody"), ("--buyer", "BUYER", "--add", "nothing")])
def test_strangers_and_tiers_that_nobody_offers_are_refused(
    tmp_path: Path, export: Export, arguments: tuple[str, ...]
) -> None:
    buyer = export.kind("sale")[0]["pseudonym"]
    result = asked(tmp_path, export, *(buyer if each == "BUYER" else each for each in arguments))
    assert result.exit_code == 1
    assert "expected" in result.output


def test_a_refuted_export_adds_up_to_nothing(tmp_path: Path, export: Export) -> None:
    export.kind("sale")[0]["charge_nano"] += 1
    result = asked(tmp_path, export, "--buyer", export.kind("sale")[0]["pseudonym"])
    assert result.exit_code == 1
    assert "refuted" in result.output
