"""Verdicts on bundles whose parts are also sold alone: joint, apart, shared, undercut."""

from dataclasses import replace
from typing import Any

from app.catalog.bundle_verdicts import ruling_of_bundle
from app.catalog.classes import Judged, Offer, Pack, check_catalogue
from app.catalog.shelf import Proposal, Shelf, judge_proposal
from app.catalog.verdicts import ruling_of_pack
from app.queries.canonical import canonicalise
from app.queries.model import Query
from pricing.arbitrage import Finding, Verdict
from tests.app.test_verdicts import SCHEMA, summed, total

BOTH = ("a", "b")


def offer(title: str, query: Query, *priced: tuple[float, int | None], snapshot: str = "s") -> Offer:
    listed = tuple((f"{title} @ {variance}", variance, price) for variance, price in priced)
    return Offer("d", snapshot, title, title, canonicalise(query, SCHEMA), "EUR", listed)


def pack(price: int, *parts: tuple[str, str], bundle: str = "bundle_1") -> Pack:
    return Pack("bundle", price, parts, bundle)


def judged_by(bundle: Pack, *offers: Offer, packs: tuple[Pack, ...] = ()) -> Any:
    every = (*packs, bundle)
    whole = ruling_of_bundle(bundle, offers, every, check_catalogue(offers, level=3, packs=every))
    snapshots = frozenset(each.snapshot for each in offers)
    proposed = judge_proposal(Proposal(Shelf(offers, every), snapshots, frozenset(), bundle.bundle))
    assert proposed.verdict == whole.verdict
    return whole


HERE, THERE = offer("here", total(("a",)), (2.0, 60)), offer("there", total(("a",)), (2.0, 60), snapshot="t")
PAIR = (("here", "here @ 2.0"), ("there", "there @ 2.0"))


def test_parts_that_nothing_links_and_that_cost_their_price_make_a_safe_bundle() -> None:
    assert judged_by(pack(100, *PAIR), HERE, THERE).verdict == "safe"
    assert judged_by(pack(120, *PAIR), HERE, THERE).verdict == "safe"


def test_a_bundle_dearer_than_its_parts_is_arbitrage_wherever_they_stand() -> None:
    found = judged_by(pack(121, *PAIR), HERE, THERE)
    assert (found.verdict, found.bundle, found.cost_minor) == ("arbitrage", ("here @ 2.0", "there @ 2.0"), 120)


def test_a_part_that_others_give_for_less_leaves_its_bundle_uncertified_or_undercut() -> None:
    cheap = offer("wide", total(("a",)), (1.0, 45))
    assert judged_by(pack(100, *PAIR), HERE, THERE, cheap).verdict == "uncertified"
    found = judged_by(pack(110, *PAIR), HERE, THERE, cheap)
    assert (found.verdict, found.bundle, found.cost_minor) == ("arbitrage", ("there @ 2.0", "wide @ 1.0"), 105)


def test_one_good_that_gives_both_parts_is_found_where_they_stand_in_one_class() -> None:
    parts = [offer(city, total((city,)), (2.0, 60)) for city in BOTH]
    bundle = pack(100, ("a", "a @ 2.0"), ("b", "b @ 2.0"))
    assert judged_by(bundle, *parts).verdict == "safe"
    other = pack(95, ("a", "a @ 2.0"), ("b", "b @ 2.0"), bundle="bundle_2")
    twin = Pack("twin", 95, other.parts, other.bundle)
    found = judged_by(bundle, *parts, packs=(twin,))
    assert (found.verdict, found.bundle, found.cost_minor) == ("arbitrage", ("twin",), 95)


def test_parts_that_another_bundle_links_are_not_called_safe() -> None:
    link = Pack("link", 90, PAIR, "bundle_2")
    found = judged_by(pack(90, *PAIR), HERE, THERE, packs=(link,))
    assert found.verdict == "uncertified"
    assert judged_by(pack(90, *PAIR), HERE, THERE).verdict == "safe"


def test_a_mean_counts_whole_and_is_no_safer_than_its_own_verdict() -> None:
    parts = offer("sum", summed(0, 5), (2.0, None)), offer("count", total(BOTH), (2.0, None))
    mean = Pack("mean", 100, (("sum", "sum @ 2.0"), ("count", "count @ 2.0")))
    bundle = pack(150, *mean.parts, ("there", "there @ 2.0"))
    assert judged_by(bundle, *parts, THERE, packs=(mean,)).verdict == "safe"
    dear = pack(161, *mean.parts, ("there", "there @ 2.0"))
    found = judged_by(dear, *parts, THERE, packs=(mean,))
    assert (found.verdict, found.bundle, found.cost_minor) == ("arbitrage", ("mean", "there @ 2.0"), 160)


def test_what_a_bundle_gives_for_less_is_refused_with_it() -> None:
    whole = offer("whole", total(BOTH), (4.0, 101))
    parts = [offer(city, total((city,)), (2.0, 60)) for city in BOTH]
    bundle = pack(100, ("a", "a @ 2.0"), ("b", "b @ 2.0"))
    shelf = Shelf((*parts, whole), (bundle,))
    found = judge_proposal(Proposal(shelf, frozenset("s"), frozenset(), bundle.bundle))
    assert (found.verdict, found.good, found.bundle) == ("arbitrage", "whole @ 4.0", ("bundle",))
    own = judge_proposal(Proposal(shelf, frozenset("s"), frozenset(["whole"])))
    assert (own.verdict, own.bundle) == ("arbitrage", ("bundle",))


def test_an_uncertified_bundle_of_others_says_nothing_about_a_product() -> None:
    link = Pack("link", 90, PAIR, "bundle_2")
    shelf = Shelf((HERE, THERE), (pack(90, *PAIR), link))
    assert judge_proposal(Proposal(shelf, frozenset("st"), frozenset(["here"]))).verdict == "safe"


def test_what_helps_to_give_two_parts_is_paid_for_once() -> None:
    """ "both" gives one part by itself and the other together with "more": 90 in all, not 80 + 90."""
    mean = Pack("mean", 100, PAIR)
    ways = {"here": ("both",), "there": ("both", "more")}
    judged = [
        Judged("mean", Finding("mean", Verdict.ARBITRAGE, 100, 2, float(cost), cost, ways[chain]), parts=(chain,))
        for chain, cost in (("here", 80), ("there", 90))
    ]
    judged += [Judged(name, Finding(name, Verdict.SAFE, cost, 1, 0.0)) for name, cost in (("both", 80), ("more", 10))]
    found = ruling_of_pack(mean, (HERE, THERE), judged)
    assert (found.verdict, found.bundle, found.cost_minor) == ("arbitrage", ("both", "more"), 90)
    assert ruling_of_pack(replace(mean, price=90), (HERE, THERE), judged).verdict == "uncertified", (
        "as much is not less"
    )
    of_owner = [replace(each, chain="bundle") if each.chain == "mean" else each for each in judged]
    whole = ruling_of_bundle(pack(100, *PAIR), (HERE, THERE), (), of_owner)
    assert (whole.verdict, whole.bundle, whole.cost_minor) == ("arbitrage", ("both", "more"), 90)
