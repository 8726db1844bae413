"""Budgets of three kinds: which families each sells, how each charges, and what its auditor finds."""

from fractions import Fraction
from functools import partial
from typing import Any

import pytest

from app.audit.verify import verify_export
from app.catalog import publishing
from app.catalog.ladders import tier_row
from app.engine.snapshots import SnapshotFiles
from app.store.database import open_engine
from app.store.schema import planned_tiers
from tests.audit.exports import found, parse
from tests.conftest import HISTOGRAM, PEOPLE, Fair, rows, tiers
from tiers.accounting.charges import LedgerKind
from tiers.accounting.conversions import rho_star_nano
from tiers.accounting.levels import LevelRule, tier_level
from tiers.budget import NANO
from tiers.identity import TierLaw
from tiers.noise.skellam import Skellam
from tiers.sensitivity import ChangeSet

SMALL = "0.000001"
WIDE = {"measure": {"type": "sum", "column": "score", "lower": "0", "upper": "4", "grain_exponent": 0}}
LADDER = tiers(("1", 3000), ("0.5", 1000), ("0.25", 400))


def ledger_of(kind: str, budget: str) -> dict[str, str]:
    return {"budget_kind": kind, "budget": budget} | ({"budget_delta": SMALL} if kind == "approx" else {})


def published(fair: Fair, dataset: str, family: str, delta: str = SMALL, **fields: Any) -> dict[str, Any]:
    return fair.product(dataset, PEOPLE, **({"family": family, "delta": delta, "tiers": LADDER} | fields))


def spent(fair: Fair, dataset: str) -> int:
    return int(Fraction(fair.ledger(dataset)["spent"]) * NANO)


@pytest.mark.parametrize("kind", ["zcdp", "approx"])
@pytest.mark.parametrize("family", ["tsg", "msdlap", "skellam", "discrete-gaussian", "auto"])
def test_every_family_is_sold_with_its_top_reserved_at_the_first_sale(fair: Fair, kind: str, family: str) -> None:
    dataset = fair.dataset(**ledger_of(kind, "9"))
    delta = "0" if family in ("tsg", "msdlap") else SMALL
    ladder = LADDER[:1] if family == "discrete-gaussian" else LADDER
    query = WIDE if family == "msdlap" else PEOPLE  # on changes of one step multi-scale noise is two-sided geometric
    product = fair.product(dataset, query, family=family, delta=delta, tiers=ladder)
    assert {tier["family"] for tier in product["tiers"]} <= ({"tsg", "skellam"} if family == "auto" else {family})
    low, top = product["tiers"][-1]["epsilon"], product["tiers"][0]["epsilon"]
    first = fair.buy(fair.person(), product, low)
    reserved = first["receipt"]["charge_nano"]
    assert spent(fair, dataset) == reserved > 0
    if family in ("tsg", "msdlap"):
        assert reserved == NANO // 2, "ρ = ε²/2 of the top tier at ε = 1, whichever tier was bought"
    assert fair.buy(fair.person(), product, top)["receipt"]["charge_nano"] == 0
    assert spent(fair, dataset) == reserved
    lines, public = fair.export()
    assert verify_export(iter(lines), public).findings == ()


def test_the_highest_issued_tier_stays_so_when_a_lower_one_is_sold(fair: Fair) -> None:
    dataset = fair.dataset()
    product = fair.product(dataset, tiers=LADDER)
    for epsilon, rank, charged in (("0.5", 2, "0.5"), ("1", 1, "1"), ("0.25", 1, "1")):
        fair.buy(fair.person(), product, epsilon)
        (chain,) = fair.ledger(dataset)["chains"]
        assert (chain["highest_issued_rank"], chain["charged"]) == (rank, charged)


@pytest.mark.parametrize("truth", [(), (1, 2, 3, 4, 5, 6, 7, 8, 9), (1.0,), (True,)], ids=str)
def test_a_truth_that_is_no_answer_to_the_question_draws_and_sells_nothing(
    fair: Fair, monkeypatch: pytest.MonkeyPatch, truth: tuple[Any, ...]
) -> None:
    buyer = fair.person()
    product = fair.product(fair.dataset(), PEOPLE, tiers=LADDER)
    quote = fair.quote(buyer, product, "1")
    before = fair.stored()
    monkeypatch.setattr(SnapshotFiles, "truth", lambda *_: truth)
    refused = fair.order(buyer, quote)
    assert refused.status_code == 500, refused.text
    assert str(truth) not in refused.text
    assert fair.stored() == before


def test_a_lattice_gaussian_is_sold_on_a_fine_sum(fair: Fair) -> None:
    dataset = fair.dataset(**ledger_of("zcdp", "5"))
    fine = {"measure": {"type": "sum", "column": "score", "lower": "0", "upper": "4", "grain_exponent": -10}}
    product = fair.product(dataset, fine, family="lattice-gaussian", delta=SMALL, tiers=LADDER[:2])
    fair.buy(fair.person(), product, "0.5")
    assert 0 < spent(fair, dataset) < NANO
    lines, public = fair.export()
    assert verify_export(iter(lines), public).findings == ()


def test_an_approximate_budget_is_the_rho_that_its_promise_allows(fair: Fair) -> None:
    dataset = fair.dataset(**ledger_of("approx", "1"))
    view = fair.ledger(dataset)
    assert (view["budget_kind"], view["promise"]) == ("approx", ["1", SMALL])
    assert int(Fraction(view["budget"]) * NANO) == rho_star_nano(Fraction(1), Fraction(SMALL))
    product = published(fair, dataset, "tsg", "0")
    buyer = fair.person()
    refused = fair.order(buyer, fair.quote(buyer, product, "0.25"))
    assert refused.status_code == 409, "ρ = 1/2 is reserved for the top, and 0.0224 is left"
    assert (refused.json()["requested"], refused.json()["fits"]) == ("0.5", [])
    assert [tier["admitted"] for tier in product["tiers"]] == [False] * 3


@pytest.mark.parametrize(
    ("kind", "family", "delta"),
    [
        ("pure", "skellam", SMALL),
        ("pure", "lattice-gaussian", SMALL),
        ("pure", "discrete-gaussian", SMALL),
        ("zcdp", "skellam", "0"),
        ("zcdp", "discrete-gaussian", SMALL),
        ("zcdp", "tsg", "1"),
        ("zcdp", "tsg", "-0.1"),
        ("zcdp", "tsg", "nan"),
        ("zcdp", "gaussian", SMALL),
    ],
)
def test_what_a_ledger_cannot_charge_or_a_chain_cannot_be_is_refused(
    fair: Fair, kind: str, family: str, delta: str
) -> None:
    dataset = fair.dataset(**ledger_of(kind, "5"))
    before = fair.stored()
    body = fair.product_body(dataset, PEOPLE, family=family, delta=delta, tiers=LADDER)
    refused = fair.client.post("/v1/products", json=body, headers=fair.owner().headers)
    assert refused.status_code == 400, refused.text
    assert fair.stored() == before


@pytest.mark.parametrize(
    "fields",
    [
        {"budget_kind": "approx", "budget": "1"},
        {"budget_kind": "pure", "budget": "1", "budget_delta": SMALL},
        {"budget_kind": "zcdp", "budget": "1", "budget_delta": SMALL},
        {"budget_kind": "approx", "budget": "1", "budget_delta": "0"},
        {"budget_kind": "approx", "budget": "1", "budget_delta": "1"},
        {"budget_kind": "approx", "budget": "0.000000001", "budget_delta": "0.0000000001"},
        {"budget_kind": "approx", "budget": "1e999", "budget_delta": SMALL},
        {"budget_kind": "renyi", "budget": "1"},
        {"budget_kind": "zcdp", "budget": "0"},
        {"budget_kind": "zcdp", "budget": "0.0000000001"},
    ],
)
def test_a_budget_that_is_none_is_refused(fair: Fair, fields: dict[str, str]) -> None:
    fair.dataset(name="one", budget="1")
    before = fair.stored()
    (fair.market.settings.data / "two.csv").write_text("a\n1\n")
    body = {
        "name": "two",
        "title": "Two",
        "file": "two.csv",
        "columns": [{"name": "a", "type": "integer"}],
        "max_rows_per_unit": 1,
        "max_groups_per_unit": 1,
    } | fields
    refused = fair.client.post("/v1/datasets", json=body, headers=fair.owner().headers)
    assert refused.status_code == 400, refused.text
    assert fair.stored() == before


def test_no_tier_is_added_above_what_was_reserved(fair: Fair) -> None:
    dataset = fair.dataset(**ledger_of("zcdp", "5"))
    product = published(fair, dataset, "skellam")
    added = published(fair, dataset, "skellam", tiers=tiers(("2", 5000), ("0.5", 1000)), title="before any sale")
    assert [tier["rank"] for tier in added["tiers"]] == [1, 3]
    fair.buy(fair.person(), product, "0.25")
    before = fair.stored()
    body = fair.product_body(dataset, PEOPLE, family="skellam", delta=SMALL, tiers=tiers(("3", 9000)))
    refused = fair.client.post("/v1/products", json=body, headers=fair.owner().headers)
    assert (refused.status_code, refused.json()["reason"]) == (409, "reserved")
    assert fair.stored() == before
    low = published(fair, dataset, "skellam", tiers=tiers(("0.75", 2000), ("0.1", 100)), title="late")
    for epsilon in ("0.1", "0.75", "2"):
        assert fair.buy(fair.person(), low if epsilon != "2" else added, epsilon)["receipt"]["charge_nano"] == 0
    lines, public = fair.export()
    report = verify_export(iter(lines), public)
    assert (report.findings, report.draws) == ((), 6)


@pytest.mark.parametrize(
    ("rule", "reserved", "above", "between"),
    [(LevelRule.LATTICE, "0.0797", "0.0802", "0.03"), (LevelRule.ORDERS, "0.021", "0.024", "0.02")],
    ids=["lattice", "orders"],
)
def test_no_tier_of_less_noise_is_added_though_its_level_is_within_what_was_reserved(
    fair: Fair, monkeypatch: pytest.MonkeyPatch, rule: LevelRule, reserved: str, above: str, between: str
) -> None:
    """Bounds are coarser beyond rates of 10³ and 10⁴, so a tier of less noise may have the lower level."""
    dataset = fair.dataset(**ledger_of("zcdp", "5"))
    with monkeypatch.context() as before:
        before.setattr(publishing, "tier_row", partial(tier_row, by=rule))
        product = published(fair, dataset, "skellam", tiers=tiers((reserved, 500), ("0.01", 100)))
    charge = fair.buy(fair.person(), product, "0.01")["receipt"]["charge_nano"]
    law = Skellam.at(Fraction(above), Fraction(SMALL), ChangeSet.scalar(1))
    assert tier_level(LedgerKind.ZCDP, TierLaw(law, ChangeSet.scalar(1), Fraction(SMALL)), rule) < charge
    kept = fair.stored()
    body = fair.product_body(dataset, PEOPLE, family="skellam", delta=SMALL, tiers=tiers((above, 900)), title="above")
    refused = fair.client.post("/v1/products", json=body, headers=fair.owner().headers)
    assert (refused.status_code, refused.json().get("reason")) == (409, "reserved"), refused.text
    assert fair.stored() == kept
    late = published(fair, dataset, "skellam", tiers=tiers((between, 300)), title="between")
    assert fair.buy(fair.person(), late, between)["receipt"]["charge_nano"] == 0
    lines, public = fair.export()
    assert verify_export(iter(lines), public).findings == ()


@pytest.mark.parametrize(
    ("rule", "reserved", "below"),
    [(LevelRule.LATTICE, "0.0802", "0.0797"), (LevelRule.ORDERS, "0.024", "0.022")],
    ids=["lattice", "orders"],
)
def test_no_tier_is_added_whose_level_by_its_chain_s_own_rule_is_more_than_what_was_reserved(
    fair: Fair, monkeypatch: pytest.MonkeyPatch, rule: LevelRule, reserved: str, below: str
) -> None:
    """It has more noise than the reserved tier, but the auditor would find a sale that the reservation does not pay."""
    dataset = fair.dataset(**ledger_of("zcdp", "5"))
    with monkeypatch.context() as before:
        before.setattr(publishing, "tier_row", partial(tier_row, by=rule))
        product = published(fair, dataset, "skellam", tiers=tiers((reserved, 500), ("0.01", 100)))
    fair.buy(fair.person(), product, "0.01")
    body = fair.product_body(dataset, PEOPLE, family="skellam", delta=SMALL, tiers=tiers((below, 400)), title="below")
    refused = fair.client.post("/v1/products", json=body, headers=fair.owner().headers)
    assert (refused.status_code, refused.json().get("reason")) == (409, "reserved"), refused.text


def test_quotas_and_windows_count_in_the_units_of_the_ledger(fair: Fair) -> None:
    dataset = fair.dataset(**ledger_of("zcdp", "5"), quota="0.6", window={"days": 30, "budget": "0.8"})
    one, two = published(fair, dataset, "tsg", "0"), fair.product(dataset, HISTOGRAM, tiers=LADDER)
    ada, bruno = fair.person(), fair.person()
    fair.buy(ada, one, "0.25")
    refused = fair.order(ada, fair.quote(ada, two, "0.25"), "a")
    assert (refused.json()["reason"], refused.json()["remaining"]) == ("quota", "0.1")
    refused = fair.order(bruno, fair.quote(bruno, two, "0.25"), "b")
    assert (refused.json()["reason"], refused.json()["remaining"]) == ("window", "0.3")
    assert "ρ" in refused.json()["detail"]


def test_an_analysts_ceiling_is_an_epsilon_in_every_ledger(fair: Fair) -> None:
    dataset = fair.dataset(**ledger_of("zcdp", "5"))
    product = published(fair, dataset, "tsg", "0", tiers=tiers(("1.2", 3000), ("1", 1000)))
    analyst = fair.person("analyst", ceiling="1")
    body = {"product": product["product"], "epsilon": "1.2"}
    assert fair.client.post("/v1/quotes", json=body, headers=analyst.headers).status_code == 403, "though ρ = 0.72 < 1"
    assert fair.buy(analyst, product, "1")["receipt"]["price_minor"] == 0


def test_the_auditor_finds_an_increment_where_a_reservation_is_due(fair: Fair) -> None:
    dataset = fair.dataset(**ledger_of("zcdp", "5"))
    product = published(fair, dataset, "tsg", "0")
    fair.buy(fair.person(), product, "0.25")
    export = parse(*fair.export())
    export.kind("sale")[0]["charge_nano"] = NANO // 8
    assert "A3 reserve" in found(export.signed_anew().verify())
    export = parse(*fair.export())
    export.kind("product-plan")[0]["tiers"][0]["level_nano"] = NANO
    assert "A1 level" in found(export.signed_anew().verify())
    export = parse(*fair.export())
    export.kind("dataset")[0]["budget_kind"] = "pure"
    assert {"A1 level", "A3 increment"} <= found(export.signed_anew().verify())


FINE = {"measure": {"type": "sum", "column": "score", "lower": "0", "upper": "4", "grain_exponent": -8}}


def test_wide_noise_is_charged_as_a_gaussian_of_its_variance(fair: Fair) -> None:
    dataset = fair.dataset(**ledger_of("zcdp", "9"))
    product = fair.product(dataset, FINE, family="skellam", delta=SMALL, tiers=LADDER)
    charge = fair.buy(fair.person(), product, "0.25")["receipt"]["charge_nano"]
    law = TierLaw.from_document(planned(fair)[0]["law"])
    gaussian = Fraction(law.change_set.step * law.change_set.total) / (2 * law.noise.variance())
    assert 1 <= Fraction(charge, NANO) / gaussian < 1 + Fraction(1, 1000)


def planned(fair: Fair) -> list[dict[str, Any]]:
    """The tiers of every plan of the log, as they came in."""
    return [tier for leaf in parse(*fair.export()).kind("product-plan") for tier in leaf["tiers"]]


@pytest.mark.parametrize("kind", ["zcdp", "approx"])
def test_a_chain_keeps_the_rule_of_levels_that_it_was_planned_by(
    fair: Fair, kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A market from before the lattice's rule: its chains go on as they were charged, new chains cost half."""
    dataset = fair.dataset(**ledger_of(kind, "9"))
    with monkeypatch.context() as before:
        before.setattr(publishing, "tier_row", partial(tier_row, by=LevelRule.ORDERS))
        product = fair.product(dataset, FINE, family="skellam", delta=SMALL, tiers=LADDER)
    first = fair.buy(fair.person(), product, "0.25")["receipt"]["charge_nano"]
    fresh = fair.dataset(name="fresh", table=rows(seed=8), **ledger_of(kind, "9"))
    other = fair.product(fresh, FINE, family="skellam", delta=SMALL, tiers=LADDER)
    assert 1.9 * fair.buy(fair.person(), other, "0.25")["receipt"]["charge_nano"] < first
    again = fair.product(dataset, FINE, family="skellam", delta=SMALL, tiers=LADDER, title="again")
    body = fair.product_body(dataset, FINE, family="skellam", delta=SMALL, tiers=tiers(("1.2", 4000)), title="above")
    refused = fair.client.post("/v1/products", json=body, headers=fair.owner().headers)
    assert (refused.status_code, refused.json()["reason"]) == (409, "reserved"), "by its own rule it would fit"
    late = fair.product(dataset, FINE, family="skellam", delta=SMALL, tiers=tiers(("0.75", 2000)), title="late")
    for offered, epsilon in ((late, "0.75"), (again, "1"), (product, "0.5")):
        assert fair.buy(fair.person(), offered, epsilon)["receipt"]["charge_nano"] == 0
    assert spent(fair, dataset) == first
    view = fair.client.get(f"/v1/datasets/{dataset}/rules", headers=fair.owner().headers).json()
    reserve = next(rule for rule in view["rules"] if rule["rule"] == "reserve")
    assert reserve["total"] == fair.ledger(dataset)["spent"]
    levels: dict[str, set[int]] = {}
    for tier in planned(fair):
        levels.setdefault(tier["epsilon"], set()).add(tier["level_nano"])
    assert {epsilon: len(each) for epsilon, each in levels.items()} == {"1": 2, "0.5": 2, "0.25": 2, "0.75": 1}
    export = parse(*fair.export())
    assert found(export.verify()) == set()
    old, *_, later = export.kind("product-plan")
    later["tiers"][0]["level_nano"] //= 2
    assert "A1 level" in found(export.signed_anew().verify())
    export = parse(*fair.export())
    old, new = (
        next(leaf for leaf in export.kind("product-plan") if leaf["lineage"] == each) for each in (dataset, fresh)
    )
    for tier, other_tier in zip(old["tiers"], new["tiers"], strict=True):
        tier["level_nano"] = other_tier["level_nano"]
    assert {"A1 level", "A3 reserve"} <= found(export.signed_anew().verify()), "what was charged was by the other rule"


def test_levels_that_no_rule_gives_stop_what_would_build_on_them(fair: Fair) -> None:
    dataset = fair.dataset(**ledger_of("zcdp", "9"))
    product = published(fair, dataset, "skellam")
    fair.buy(fair.person(), product, "0.25")
    of_tier = planned_tiers.c.epsilon == "1"
    engine = open_engine(fair.market.settings.database_url)
    with engine.begin() as connection:
        connection.execute(planned_tiers.update().where(of_tier).values(level_nano=1))
    engine.dispose()
    before = fair.stored()
    body = fair.product_body(dataset, PEOPLE, family="skellam", delta=SMALL, tiers=tiers(("0.75", 2000)), title="late")
    refused = fair.client.post("/v1/products", json=body, headers=fair.owner().headers)
    assert (refused.status_code, refused.json()["type"].rsplit("/", 1)[-1]) == (500, "integrity")
    assert fair.stored() == before
    assert fair.client.get(f"/v1/datasets/{dataset}/rules", headers=fair.owner().headers).status_code == 500
