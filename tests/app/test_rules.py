"""What an owner is told that the same sales would have cost by each rule, beside what the ledger really charged."""

from fractions import Fraction
from typing import Any

import msgspec
import pytest

from app.catalog.rules import ChainSales, rules_view
from tests.conftest import PEOPLE, Fair, tiers
from tiers.accounting.charges import LedgerKind
from tiers.accounting.conversions import zcdp_to_epsilon
from tiers.accounting.levels import LevelRule, tier_level
from tiers.accounting.rules import Sold
from tiers.accounting.upgrades import conditional_charge_nano
from tiers.budget import NANO
from tiers.identity import TierLaw
from tiers.noise.skellam import Skellam
from tiers.sensitivity import ChangeSet

LADDER = tiers(("1", 3000), ("0.5", 1000), ("0.25", 400))


def rules(fair: Fair, dataset: str, query: str = "") -> dict[str, Any]:
    answer = fair.client.get(f"/v1/datasets/{dataset}/rules{query}", headers=fair.owner().headers)
    assert answer.status_code == 200, answer.text
    return answer.json()


def totals(view: dict[str, Any]) -> dict[str, str | None]:
    return {f"{rule['rule']} {rule['unit']}": rule["total"] for rule in view["rules"]}


def test_a_pure_ledger_beside_every_other_rule(fair: Fair) -> None:
    dataset = fair.dataset(budget="9")
    product = fair.product(dataset, PEOPLE, tiers=LADDER)
    ann, ben, eve = (fair.person() for _ in range(3))
    for buyer, epsilon in ((ann, "0.25"), (ben, "0.5"), (eve, "0.5"), (ann, "0.5")):
        fair.buy(buyer, product, epsilon)
    view = rules(fair, dataset)
    upgrade = conditional_charge_nano(Fraction(1, 2), Fraction(1, 4))
    assert (view["sales"], view["budget_kind"]) == (4, "pure")
    assert totals(view) == {
        "increment ε": "0.5",
        "apart ε": "1.75",
        "reserve ρ": "0.5",
        "conditional ρ": str(float(Fraction(NANO // 32 + upgrade, NANO))),
        "apart ρ": "0.40625",
        "difference ρ": "0.125",
    }
    assert [rule["used"] for rule in view["rules"]] == [True] + [False] * 5
    assert [rule["sound"] for rule in view["rules"]] == [True] * 5 + [False]
    assert fair.ledger(dataset)["spent"] == "0.5"
    reserve = next(rule for rule in view["rules"] if rule["rule"] == "reserve")
    assert float(reserve["epsilon"]) == pytest.approx(zcdp_to_epsilon(Fraction(1, 2), Fraction(1, 10**6)), abs=2e-9)
    assert [chain["increment ε"] for chain in view["chains"]] == ["0.5"]


def test_the_rule_in_force_is_what_was_charged_in_a_ledger_of_rho(fair: Fair) -> None:
    dataset = fair.dataset(budget_kind="zcdp", budget="9")
    for family, delta in (("tsg", "0"), ("skellam", "0.000001")):
        product = fair.product(dataset, PEOPLE, family=family, delta=delta, tiers=LADDER) if family == "tsg" else None
        if product is None:
            wide = {"measure": {"type": "sum", "column": "score", "lower": "0", "upper": "4", "grain_exponent": 0}}
            product = fair.product(dataset, wide, family=family, delta=delta, tiers=LADDER)
        fair.buy(fair.person(), product, "0.25")
    view = rules(fair, dataset)
    assert totals(view)["reserve ρ"] == fair.ledger(dataset)["spent"]
    assert totals(view)["increment ε"] is None, "Skellam noise has no pure ε"
    assert totals(view)["conditional ρ"] is None
    assert [rule["rule"] for rule in view["rules"] if rule["used"]] == ["reserve"]


def test_a_tier_that_came_later_was_not_reserved_and_what_was_credited_stays_spent(fair: Fair) -> None:
    dataset = fair.dataset(budget="9")
    product, ann = fair.product(dataset, PEOPLE, tiers=LADDER), fair.person()
    order = fair.buy(ann, product, "0.25")["receipt"]["order"]
    before = totals(rules(fair, dataset))
    late = fair.product(dataset, PEOPLE, title="People, again", tiers=tiers(("2", 9000), ("1", 3000)))
    assert totals(rules(fair, dataset)) == before, "it is offered, not sold"
    credit = {"amount_minor": 400, "reason": "pricing error"}
    made = fair.client.post(f"/v1/orders/{order}/credits", json=credit, headers=fair.operator.headers)
    assert made.status_code == 201, made.text
    assert totals(rules(fair, dataset)) == before, "money goes back, what was learned does not"
    fair.buy(ann, late, "2")
    after = totals(rules(fair, dataset))
    assert (before["reserve ρ"], after["reserve ρ"], after["increment ε"]) == ("0.5", "2", "2")


def test_bad_deltas_and_other_peoples_datasets_are_refused(fair: Fair) -> None:
    dataset = fair.dataset(budget="9")
    assert totals(rules(fair, dataset))["increment ε"] == "0"
    for delta in ("0", "1", "2", "nan", "-0.1", "1e-6", "", "0.5&delta=0.1"):
        answer = fair.client.get(f"/v1/datasets/{dataset}/rules?delta={delta}", headers=fair.owner().headers)
        assert answer.status_code == 400, (delta, answer.text)
        assert "delta" in answer.text or "query" in answer.text
    foreign = fair.client.get("/v1/datasets/data_0123456789abcdef01234567/rules", headers=fair.owner().headers)
    assert foreign.status_code == 404


@pytest.mark.parametrize("rule", LevelRule)
def test_costs_are_by_the_rule_that_all_levels_of_a_chain_are_by(rule: LevelRule) -> None:
    """The best tier's noise is so narrow that its level is by either rule; the other tier's tells which it is."""
    small = Fraction(1, 10**6)
    best, wide = (TierLaw(Skellam(Fraction(rate)), ChangeSet.scalar(1), small) for rate in (5, 10**6))
    levels = tuple((law, tier_level(LedgerKind.ZCDP, law, rule)) for law in (best, wide))
    assert len({tier_level(LedgerKind.ZCDP, best, each) for each in LevelRule}) == 1
    sales = [ChainSales("c", levels, (best, wide), (Sold(wide, 3),))]
    view = msgspec.to_builtins(rules_view("data_1", LedgerKind.ZCDP, sales, small))
    assert Fraction(totals(view)["apart ρ"] or 0) * NANO == 3 * levels[1][1]
