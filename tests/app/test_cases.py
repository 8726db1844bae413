"""Inputs that broke systems like this one, at the door of the whole service; others stand where their parts are tested."""

import concurrent.futures
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from scipy.stats import binom
from sqlalchemy import func, select

from app.audit.verify import verify_export
from app.engine.snapshots import SnapshotFiles
from app.engines.errors import EngineError
from app.market import Market
from app.store.schema import accounts
from tests.conftest import CITIES, HISTOGRAM, PEOPLE, TOTAL, Fair, tiers
from tiers.accounting.filters import PureFilter
from tiers.errors import AuditError, TierError
from tiers.noise.tsg import TwoSidedGeometric

BINS = 2_000
HEADER = "person,city,amount,score,day\n"
FEW = HEADER + "p1,Athens,1,1.0,2026-01-01\np2,Athens,2,1.0,2026-01-02\np3,Derby,3,1.0,2026-01-03\n"


@pytest.mark.parametrize("table", [HEADER, FEW], ids=["empty table", "three rows"])
def test_emptiness_is_not_visible(fair: Fair, table: str) -> None:
    keys = [*CITIES, *(f"none {place}" for place in range(10, 30))]  # all zeros have 10⁻³⁰
    query = HISTOGRAM | {"group_by": {"type": "keys", "column": "city", "keys": keys}}
    product = fair.product(fair.dataset(table=table), query)
    sold = fair.buy(fair.person(), product, "0.1")
    assert sold["answer"]["keys"] == sorted(keys)
    assert len(sold["answer"]["values"]) == len(keys)
    assert any(value != "0" for value in sold["answer"]["values"]), "noise at ε = 0.1, on every declared key"


def test_a_truth_that_is_missing_is_refused_before_any_charge_or_draw(
    fair: Fair, monkeypatch: pytest.MonkeyPatch
) -> None:
    product, buyer = fair.product(fair.dataset()), fair.person()
    quote, before = fair.quote(buyer, product, "1"), fair.stored()

    def none(_self: SnapshotFiles, _chain: Any) -> tuple[int, ...]:
        raise EngineError

    monkeypatch.setattr(SnapshotFiles, "truth", none)
    assert fair.order(buyer, quote).status_code == 503
    for truth in ((float("nan"),) * len(CITIES), (1.0,) * len(CITIES), (True,) * len(CITIES), (7,), ()):
        monkeypatch.setattr(SnapshotFiles, "truth", lambda _self, _chain, truth=truth: truth)
        refused = fair.order(buyer, quote)
        assert (refused.status_code, refused.json()["type"].rsplit("/", 1)[-1]) == (500, "integrity"), truth
    assert fair.stored() == before
    monkeypatch.undo()
    assert fair.order(buyer, quote).status_code == 201


def test_a_middle_tier_bought_after_a_lower_one_is_the_middle_tier(fair: Fair) -> None:
    """Its noise has that tier's law, and the step down from it that of the residual, where every true count is 0."""
    dataset = fair.dataset(budget="1000")
    keys = [f"k{place}" for place in range(BINS)]
    wide = HISTOGRAM | {"group_by": {"type": "keys", "column": "city", "keys": keys}, "groups_per_unit": 1}
    wide["rows_per_unit"] = 1
    product = fair.product(dataset, wide, tiers=tiers(("2", 3), ("0.5", 2), ("0.25", 1)))
    low, middle = fair.buy(fair.person(), product, "0.25"), fair.buy(fair.person(), product, "0.5")
    lower, values = (np.array(sold["answer"]["values"], np.int64) for sold in (low, middle))
    laws = {each: TwoSidedGeometric(Fraction(each)) for each in ("2", "0.5", "0.25")}
    fits = {each for each, law in laws.items() if may_be(int((np.abs(values) > 2).sum()), 1 - within(law, 2))}
    assert fits == {"0.5"}
    stays = laws["0.5"].residual_to(laws["0.25"]).pmf(0)
    assert may_be(int((lower == values).sum()), stays)
    assert not may_be(int((lower == np.roll(values, 1)).sum()), stays), "draws apart from each other meet less often"


def within(law: TwoSidedGeometric, most: int) -> float:
    return sum(law.pmf(value) for value in range(-most, most + 1))


def may_be(count: int, chance: float) -> bool:
    """Whether so many of the bins is what such a chance gives, but for one time in 10¹⁰."""
    low, high = binom.ppf([5e-11, 1 - 5e-11], BINS, chance)
    return bool(low <= count <= high)


def test_one_unit_in_several_bins_costs_noise_for_all_of_them(fair: Fair) -> None:
    dataset = fair.dataset()
    bars = []
    for groups, rows in ((1, 1), (3, 3)):
        question = HISTOGRAM | {"groups_per_unit": groups, "rows_per_unit": rows}
        product = fair.product(dataset, question, tiers=tiers(("1", 100)))
        bars.append(int(product["tiers"][0]["half_width"]))
        assert f"Δ₁ = {rows}" in " ".join(product["derivation"])
    assert bars[1] >= 3 * bars[0] - 2


def test_the_same_answer_is_read_as_often_as_one_likes(fair: Fair) -> None:
    buyer, product = fair.person(), fair.product(fair.dataset())
    sold = fair.buy(buyer, product, "1")
    for accept in ("application/json", "text/csv", "application/json"):
        headers = buyer.headers | {"Accept": accept}
        path = f"/v1/answers/{sold['answer']['chain']}/{sold['answer']['law']}"
        assert len({fair.client.get(path, headers=headers).content for _ in range(3)}) == 1


def test_writers_at_once_lose_nobody(fair: Fair) -> None:
    def one(place: int) -> str:
        body = {"role": "buyer", "name": f"buyer {place}"}
        made = fair.client.post("/v1/accounts", json=body, headers=fair.operator.headers).json()
        money = {"amount_minor": 1 + place, "currency": "EUR", "reference": "r"}
        fair.client.post(f"/v1/accounts/{made['account']}/deposits", json=money, headers=fair.operator.headers)
        return str(made["account"])

    with concurrent.futures.ThreadPoolExecutor(8) as pool:
        made = set(pool.map(one, range(24)))

    def read(connection: Any) -> tuple[int, int]:
        mine = accounts.c.id.in_(made)
        wanted = select(func.count(), func.coalesce(func.sum(accounts.c.balance_minor), 0)).where(mine)
        count, total = connection.execute(wanted).one()
        return int(count), int(total)

    assert fair.market.database.read_now(read) == (24, sum(range(1, 25)))


def test_an_audit_of_nothing_is_refused_not_passed(fair: Fair) -> None:
    lines, public = fair.export()
    with pytest.raises(AuditError):
        verify_export(iter(lines), public)
    with pytest.raises(AuditError):
        verify_export(iter([]), public)


@pytest.mark.parametrize("words", ["NaN", "1e999", "٠.١", "0.1\n", " 0.1", "+1", "1e-1", "0x1", "5e-324", ""])
@pytest.mark.parametrize("field", ["delta", "budget_delta", "sum_share", "centre", "fraction"])
def test_newer_decimals_are_held_to_the_same_rule(fair: Fair, field: str, words: str) -> None:
    dataset = fair.dataset()
    headers, path = fair.owner().headers, "/v1/products"
    mean = {"type": "mean", "column": "score", "centre": "0", "lower": "-1", "upper": "1", "grain_exponent": 0}
    mean["sum_share"] = "0.5"
    body: dict[str, Any] = fair.product_body(dataset, PEOPLE)
    match field:
        case "delta":
            body["delta"] = words
        case "budget_delta":
            path, body = (
                "/v1/datasets",
                {
                    "name": "other",
                    "title": "O",
                    "file": "people.csv",
                    "columns": [{"name": "person", "type": "text"}],
                    "max_rows_per_unit": 1,
                    "max_groups_per_unit": 1,
                    "budget_kind": "approx",
                    "budget": "1",
                    "budget_delta": words,
                },
            )
        case "fraction":
            bins = {"type": "bins", "column": "amount", "edges": [0, 1]}
            quantile = {"type": "quantile", "of": "units", "fraction": words}
            body["query"] = {"measure": quantile, "group_by": bins, "groups_per_unit": 1}
        case _:
            body["query"] = {"measure": mean | {field: words}, "rows_per_unit": 2}
    before = fair.stored()
    refused = fair.client.post(path, json=body, headers=headers)
    assert refused.status_code == 400, refused.text
    assert refused.headers["content-type"] == "application/problem+json"
    assert fair.stored() == before


@pytest.mark.parametrize(
    "bounds",
    [
        {},
        {"lower": "0"},
        {"upper": "9"},
        {"lower": "0", "upper": "0"},
        {"lower": "9", "upper": "0"},
        {"lower": "0", "upper": "NaN"},
        {"lower": "-inf", "upper": "9"},
        {"lower": "0", "upper": "9" * 400},
        {"lower": "0", "upper": "1e999"},
    ],
    ids=str,
)
def test_a_sum_whose_sensitivity_is_not_finite_and_positive_is_refused_and_nothing_is_kept(
    fair: Fair, bounds: dict[str, str]
) -> None:
    """Cases 5 and 18: no bounds, bounds at zero, bounds that are no numbers or whose product no integer type holds."""
    dataset = fair.dataset()
    measure = {"type": "sum", "column": "amount", "grain_exponent": 0} | bounds
    before = fair.stored()
    body = fair.product_body(dataset, {"measure": measure})
    refused = fair.client.post("/v1/products", json=body, headers=fair.owner().headers)
    assert refused.status_code == 400
    assert refused.json()["type"].rsplit("/", 1)[-1] in ("invalid-request", "invalid-query")
    assert fair.stored() == before
    assert fair.ledger(dataset)["spent"] == "0"


@pytest.mark.parametrize("amount", [float("nan"), float("inf"), 1.0, -1, True, None])
def test_a_ledger_counts_in_whole_numbers_and_lets_no_float_in(amount: Any) -> None:
    """Case 7: a loop `while spent < limit` with a NaN ends at its first charge."""
    ledger = PureFilter(3 * 10**9, 0)
    for _ in range(5):
        with pytest.raises(TierError):
            ledger.charge(amount)
        assert (ledger.spent_nano, ledger.admits(3 * 10**9), ledger.admits(3 * 10**9 + 1)) == (0, True, False)


def test_an_answer_of_exactly_zero_is_a_hit(cached_fair: Fair, monkeypatch: pytest.MonkeyPatch) -> None:
    """Case 20."""
    fair = cached_fair
    nobody = PEOPLE | {"where": {"type": "comparison", "column": "city", "operator": "=", "value": "Nowhere"}}
    product = fair.product(fair.dataset(budget="100"), nobody, tiers=tiers(("50", 9000)))
    buyer = fair.person()
    sold = fair.buy(buyer, product, "50")
    assert sold["answer"]["values"] == ["0"]

    async def never(*_: object) -> bytes:
        raise AssertionError("read from the store")

    fair.forget()
    monkeypatch.setattr(Market, "_stored_body", never)
    assert fair.answer(buyer, sold).json() == sold["answer"]


def test_colluding_buyers_cannot_spend_what_others_may(fair: Fair) -> None:
    """Case 31."""
    dataset = fair.dataset(budget="5", quota="1")
    products = [fair.product(dataset), fair.product(dataset, TOTAL), fair.product(dataset, PEOPLE)]
    colluders, honest = [fair.person(), fair.person()], fair.person()
    for place, buyer in enumerate(colluders):
        fair.buy(buyer, products[place], "1")
        for product in products:
            before = fair.stored()
            quote = fair.quote(buyer, product, "2")
            refused = fair.order(buyer, quote, f"more-{product['product']}")
            assert (refused.status_code, refused.json()["reason"]) == (409, "quota")
            assert fair.stored() == before | {"quotes": before["quotes"] + 1}
    assert fair.ledger(dataset)["spent"] == "2"
    assert fair.buy(honest, products[2], "1")["receipt"]["charge_nano"] == 10**9
    assert fair.buy(colluders[0], products[2], "1")["receipt"]["charge_nano"] == 0, "what others opened stays on sale"
