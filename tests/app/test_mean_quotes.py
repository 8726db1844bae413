"""Means quoted by accuracy: by what is known without the data, shown in listing, quote, receipt and answer."""

from fractions import Fraction
from typing import Any

import msgspec
import pytest

from app.audit.receipts import Bundle, verify_bundle
from app.queries.readings import joint_half_width, mean_bar
from tests.app.test_readings import LADDER, MEAN, MEANS, law_of
from tests.conftest import PEOPLE, Fair, Person

NOMINAL = Fraction(95, 100)


def ask(fair: Fair, who: Person, product: dict[str, Any], **fields: Any) -> Any:
    return fair.client.post("/v1/quotes", json={"product": product["product"], **fields}, headers=who.headers)


def promised(tier: dict[str, Any], rows: int) -> Fraction:
    """The bar, from the four numbers that the listing states."""
    names = ("sum_half_width", "count_half_width", "reach", "largest")
    around, within, reach, largest = (Fraction(tier["mean"][name]) for name in names)
    bar = (around + reach * within) / (rows - within)
    return bar + (largest + bar) * Fraction(5, 10**12)


def test_a_listing_states_the_bars_of_a_mean_and_of_nothing_else(fair: Fair) -> None:
    dataset = fair.dataset()
    product, count = fair.product(dataset, MEAN, tiers=LADDER), fair.product(dataset, PEOPLE, tiers=LADDER)
    assert [tier["mean"] for tier in count["tiers"] + product["companion"]["tiers"]] == [None] * 6
    seen = []
    for tier in product["tiers"]:
        bars = tier["mean"]
        assert (bars["confidence"], bars["reach"]) == ("0.95", "16")
        for bar in bars["bars"]:
            exact = promised(tier, bar["rows"])
            assert 0 <= Fraction(bar["half_width"]) - exact <= exact / 10**10, "rounded up, to 12 digits"
        seen.append(promised(tier, 1_000))
    assert seen == sorted(seen), "more accurate tiers first"


def test_a_mean_is_quoted_by_its_bar_for_at_least_so_many_rows(fair: Fair) -> None:
    dataset, buyer = fair.dataset(), fair.person()
    product = fair.product(dataset, MEAN, tiers=LADDER)
    bars = [promised(tier, 500) for tier in product["tiers"]]
    before = fair.ledger(dataset)
    for place, bar in enumerate(bars):
        for within in (bar, bar + (bars[place + 1] - bar) / 2 if place < 2 else bar * 9):
            text = f"{float(within) + 1e-9:.9f}"
            quote = ask(fair, buyer, product, within=text, rows=500).json()
            assert quote["epsilon"] == product["tiers"][place]["epsilon"], (place, text)
            told = Fraction(quote["mean"]["promised"]["half_width"])
            assert bar <= told <= bar + bar / 10**10
            assert quote["mean"]["promised"]["rows"] == 500
    assert fair.ledger(dataset) == before, "no data, no charge"
    missed = ask(fair, buyer, product, within=f"{float(bars[0]) - 1e-6:.9f}", rows=500)
    assert (missed.status_code, missed.json()["type"].rsplit("/", 1)[-1]) == (404, "unknown-tier"), missed.text
    assert ask(fair, buyer, product, within="1000000", rows=1).status_code == 404, "no bar at all with so few"


def test_without_a_number_of_rows_no_bar_is_promised_and_rows_go_with_nothing_else(fair: Fair) -> None:
    dataset, buyer = fair.dataset(), fair.person()
    product, count = fair.product(dataset, MEAN, tiers=LADDER), fair.product(dataset, PEOPLE, tiers=LADDER)
    before = fair.stored()
    for asked, fields in (
        (product, {"within": "5"}),
        (product, {"epsilon": "1", "rows": 10}),
        (product, {"within": "5", "epsilon": "1", "rows": 10}),
        (count, {"within": "5", "rows": 10}),
        (product, {"within": "5", "rows": 0}),
        (product, {"within": "-1", "rows": 10}),
        (product, {"within": "NaN", "rows": 10}),
    ):
        refused = ask(fair, buyer, asked, **fields)
        assert (refused.status_code, refused.headers["content-type"]) == (400, "application/problem+json"), fields
    assert fair.stored() == before
    plain = ask(fair, buyer, product, epsilon="1").json()
    assert plain["mean"]["promised"] == {"rows": None, "half_width": None}
    assert "mean" not in ask(fair, buyer, count, epsilon="1").json()


@pytest.mark.parametrize("question", [MEAN, MEANS], ids=["one", "by city"])
def test_the_answer_and_the_receipts_state_what_was_promised(fair: Fair, question: dict[str, Any]) -> None:
    dataset, buyer = fair.dataset(), fair.person()
    product = fair.product(dataset, question, tiers=LADDER)
    quote = ask(fair, buyer, product, within="400", rows=200).json()
    sold = fair.order(buyer, quote["quote"]).json()
    laws = [law_of(fair, part).noise for part in (sold, sold["companion"])]
    widths = joint_half_width(laws[0], NOMINAL), joint_half_width(laws[1], NOMINAL)
    for part, law, width in zip((sold, sold["companion"]), laws, widths, strict=True):
        assert part["receipt"]["half_width"] == part["answer"]["half_width"] == str(law.half_width(NOMINAL))
        assert part["receipt"]["joint_half_width"] == str(width)
        path = f"/v1/orders/{part['receipt']['order']}/proof"
        bundle = fair.client.get(path, headers=buyer.headers).json()
        public = fair.client.get("/v1/keys").json()["signing"]["1"]
        assert verify_bundle(msgspec.convert(bundle, Bundle), [public]) == ()
    bar = mean_bar(widths, reach=64, rows=200, grain=Fraction(1, 4))
    assert bar is not None
    shown = bar + (1 + 16 + bar) * Fraction(5, 10**12)
    assert 0 <= Fraction(quote["mean"]["promised"]["half_width"]) - shown <= bar / 10**11
    for entry in sold["reading"]["entries"]:
        if entry["half_width"] is None:
            assert entry["shape"] == "unbounded"
            continue
        ends = Fraction(entry["lower"]), Fraction(entry["upper"])
        needed = max(ends[1] - Fraction(entry["estimate"]), Fraction(entry["estimate"]) - ends[0])
        assert abs(Fraction(entry["half_width"]) - needed) <= needed / 10**9
    plain = fair.buy(buyer, fair.product(dataset, PEOPLE, tiers=LADDER), "1")
    assert plain["receipt"]["joint_half_width"] is None
