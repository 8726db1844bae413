"""Several chains at one price: a mean is a sum and a count, bought whole; verdicts part by part."""

from typing import Any

import pytest

from app.catalog.classes import Judged, Offer, Pack, check_catalogue
from app.catalog.verdicts import ruling_of_pack
from app.queries.canonical import canonicalise
from app.queries.model import Query, Sum
from pricing.arbitrage import Finding, Verdict
from pricing.limit import Limit
from tests.app.judging import judge, judge_pack
from tests.app.test_verdicts import SCHEMA, summed, total

BOTH = ("a", "b")


def offer(title: str, query: Query, *priced: tuple[float, int | None]) -> Offer:
    listed = tuple((f"{title} @ {variance}", variance, price) for variance, price in priced)
    return Offer("d", "s", title, title, canonicalise(query, SCHEMA), "EUR", listed)


SUM, COUNT = offer("sum", summed(0, 5), (2.0, None)), offer("count", total(BOTH), (2.0, None))
MEAN = Pack("mean", 100, (("sum", "sum @ 2.0"), ("count", "count @ 2.0")))
COUNTS = [offer(f"count {city}", total((city,)), (1.0, 10)) for city in BOTH]


def sums(price: int) -> list[Offer]:
    return [offer(f"sum {city}", summed(0, 5, (city,)), (1.0, price)) for city in BOTH]


def seen(*offers: Offer, packs: tuple[Pack, ...] = (MEAN,), limit: Limit | None = None) -> Any:
    judged = check_catalogue(offers, level=3, limit=limit or Limit(), packs=packs)
    return ruling_of_pack(packs[0], offers, judged)


def test_a_mean_of_which_one_part_cannot_be_had_for_less_is_safe() -> None:
    assert seen(SUM, COUNT).verdict == "safe"
    assert seen(SUM, COUNT, *COUNTS).verdict == "safe", "the sum is nowhere else"
    assert judge_pack(MEAN, [SUM, COUNT, *COUNTS]).verdict == "safe"


def test_a_mean_is_arbitrage_if_both_its_parts_cost_less_together() -> None:
    found = judge_pack(MEAN, [SUM, COUNT, *COUNTS, *sums(39)])
    names = ("count a @ 1.0", "count b @ 1.0", "sum a @ 1.0", "sum b @ 1.0")
    assert (found.verdict, found.good, found.price_minor, found.cost_minor) == ("arbitrage", "mean", 100, 98)
    assert found.bundle == names


def test_two_parts_that_cost_as_much_as_the_mean_prove_nothing() -> None:
    found = judge_pack(MEAN, [SUM, COUNT, *COUNTS, *sums(40)])
    assert (found.verdict, found.reason) == (
        "uncertified",
        "each part can be had for less than the whole; whether all can is not settled",
    )


def test_a_mean_cheaper_than_its_count_alone_undercuts_it() -> None:
    dear = offer("count", total(BOTH), (2.0, 101))
    found = judge(dear, [SUM], packs=[MEAN])
    assert (found.verdict, found.bundle, found.cost_minor) == ("arbitrage", ("mean",), 100)
    assert judge(offer("count", total(BOTH), (2.0, 100)), [SUM], packs=[MEAN]).verdict == "safe"
    assert judge_pack(MEAN, [SUM, dear]).good == "count @ 2.0", "what the mean undercuts is refused with it"


def test_a_part_of_a_mean_costs_the_whole_mean_to_whoever_combines_it() -> None:
    better = offer("better", total(("a",)), (4.0, 109))
    rest = offer("count b", total(("b",)), (2.0, 10))
    wide = Pack("mean", 99, MEAN.parts)
    assert judge(better, [SUM, COUNT, rest], packs=[wide]).verdict == "safe"
    dearer = offer("better", total(("a",)), (4.0, 110))
    found = judge(dearer, [SUM, COUNT, rest], packs=[wide])
    assert (found.verdict, set(found.bundle), found.cost_minor) == ("arbitrage", {"mean", "count b @ 2.0"}, 109)


def test_two_tiers_of_a_mean_that_fall_with_accuracy_are_arbitrage() -> None:
    total_of = offer("sum", summed(0, 5), (2.0, None), (8.0, None))
    count_of = offer("count", total(BOTH), (2.0, None), (8.0, None))
    low = Pack("mean low", 120, (("sum", "sum @ 8.0"), ("count", "count @ 8.0")))
    found = judge_pack(low, [total_of, count_of], packs=[MEAN])
    assert (found.verdict, found.bundle, found.cost_minor) == ("arbitrage", ("mean",), 100)


def test_a_chain_that_only_means_sell_has_no_verdict_of_its_own() -> None:
    """Something bears on the sum in ways that are not compared; the count is nowhere else, so the mean is safe."""
    whole = offer("all", Query(measure=Sum(column="amount", lower="0", upper="5", grain_exponent=0)), (1.0, 10))
    assert judge_pack(MEAN, [SUM, COUNT, whole]).verdict == "safe"


def test_a_mean_that_is_undercut_already_keeps_nobody_else_from_publishing() -> None:
    rivals = [SUM, COUNT, *COUNTS, *sums(39)]
    assert judge_pack(MEAN, rivals).verdict == "arbitrage"
    assert judge(offer("count c", total(("c",)), (1.0, 10)), rivals, packs=[MEAN]).verdict == "safe"
    found = judge(offer("count a", total(("a",)), (1.0, 10)), [SUM, COUNT, COUNTS[1], *sums(39)], packs=[MEAN])
    assert (found.verdict, found.good) == ("arbitrage", "mean"), "who is a part of it does not"


def test_of_several_classes_of_a_part_the_last_stage_and_the_least_cost_count() -> None:
    """A part may stand in two classes: it is safe when both say so, and to be had for the less of what both say."""

    def said(chain: str, stage: int, cost: int | None, *bundle: str) -> Judged:
        verdict = Verdict.SAFE if cost is None else Verdict.ARBITRAGE
        return Judged("mean", Finding("mean", verdict, 100, stage, 0.0, cost, bundle), "", (chain,))

    for first, second in ((1, 2), (2, 1)):
        safe = [said("sum", first, None), said("sum", second, None)]
        assert ruling_of_pack(MEAN, [SUM, COUNT], safe).stage == 2
        bought = [said("sum", first, 60, "dear"), said("sum", second, 40, "cheap"), said("count", 1, 50, "count")]
        found = ruling_of_pack(MEAN, [SUM, COUNT], bought)
        assert (found.verdict, found.bundle, found.cost_minor) == ("arbitrage", ("cheap", "count"), 90)
        assert found.stage == max(second, 1)
        one = [said("sum", first, 60, "both"), said("count", second, 60, "both")]
        found = ruling_of_pack(MEAN, [SUM, COUNT], one)
        assert (found.bundle, found.cost_minor, found.stage) == (("both",), 60, 2), "bought once for both"


def test_parts_that_stand_in_one_class_are_a_bundle_of_it() -> None:
    parts = [offer(city, total((city,)), (2.0, 60)) for city in BOTH]
    pair = Pack("pair", 100, (("a", "a @ 2.0"), ("b", "b @ 2.0")))
    assert seen(*parts, packs=(pair,)).verdict == "safe"
    dear = Pack("pair", 121, pair.parts)
    found = seen(*parts, packs=(dear,))
    assert (found.verdict, found.bundle, found.cost_minor) == ("arbitrage", ("a @ 2.0", "b @ 2.0"), 120)
    whole = offer("whole", total(BOTH), (4.0, 101))
    assert judge(whole, parts, packs=[pair]).bundle == ("pair",)


@pytest.mark.parametrize("price", [None, 7])
@pytest.mark.parametrize("variance", [1e-14, 3e20])
def test_a_mean_with_a_part_beyond_comparison_is_uncertified_and_so_is_its_class(
    variance: float, price: int | None
) -> None:
    keen = offer("count", total(BOTH), (variance, price))
    pack = Pack("mean", 100, (("sum", "sum @ 2.0"), ("count", f"count @ {variance}")))
    judged = check_catalogue([SUM, keen, *COUNTS], level=3, packs=[pack])
    of_class = {each.finding.name: each.finding.verdict.value for each in judged if each.chain != "mean"}
    assert set(of_class.values()) == {"uncertified"}
    assert {each.reason for each in judged if "sum" not in each.parts} == {"a variance beyond what can be compared"}
    assert [each.finding.verdict.value for each in judged if each.chain == "mean" and "count" in each.parts] == [
        "uncertified"
    ]


def test_out_of_time_no_mean_is_safe() -> None:
    assert seen(SUM, COUNT, *COUNTS, limit=Limit(seconds_left=lambda: 0.0)).verdict == "uncertified"


def test_a_mean_that_could_be_combined_in_ways_not_compared_is_not_safe() -> None:
    measure = Sum(column="amount", lower="0", upper="5", grain_exponent=0)
    whole = offer("all", Query(measure=measure), (1.0, 10))
    everyone = offer("everyone", Query(measure=total(BOTH).measure), (1.0, 10))
    assert seen(SUM, COUNT, whole).verdict == "safe", "nothing else bears on the count"
    assert seen(SUM, COUNT, whole, everyone).verdict == "uncertified"
