"""The arbitrage check against every subset on small catalogues, and against the reference catalogues."""

import math
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pricing import search as search_module
from pricing.arbitrage import Verdict, audit_catalogue, cheapest_bundle
from pricing.catalogue import Bundle, Catalogue, Product
from pricing.errors import InvalidProductError, UnknownTierError
from pricing.limit import Limit
from tests.pricing.market import (
    brute_cheapest,
    chain,
    intervals,
    l1_bound,
    laplace,
    lp_bound,
    perspective_bound,
    tier,
    total_over_bins,
    tsg,
    unit,
)

ALL = unit(4, 0, 1, 2, 3)


def verdicts(catalogue, level=3):
    return {finding.name: finding for finding in audit_catalogue(catalogue, level)}


def test_variances_of_the_reference_table():
    budgets = (0.1, 0.25, 0.5, 1, 2, 4)
    assert [round(tsg(e), 6) for e in budgets] == [199.833417, 31.833853, 7.835396, 1.841347, 0.362031, 0.038011]
    assert [round(laplace(e), 9) for e in budgets] == [200, 32, 8, 2, 0.5, 0.125]


def test_a_total_dearer_than_its_bins():
    found = verdicts(total_over_bins())
    assert (found["total@0.25"].verdict, found["total@0.25"].cost) == (Verdict.ARBITRAGE, 4000)
    assert found["total@0.25"].bundle == ("bin0@0.5", "bin1@0.5", "bin2@0.5", "bin3@0.5")
    assert found["total@0.5"].verdict is Verdict.SAFE
    assert (found["total@1"].verdict, found["total@1"].lower_bound) == (Verdict.SAFE, math.inf)
    assert round(l1_bound("total@0.25", total_over_bins()), 2) == 2313.70
    assert round(l1_bound("total@0.5", total_over_bins()), 2) == 9400.15
    assert cheapest_bundle("total@0.5", total_over_bins()).cost == 10000


def test_our_relaxation_lies_between_the_reference_one_and_the_truth():
    bins = total_over_bins().products[:8]
    assert round(perspective_bound(bins, ALL, tsg(0.25), boxes=False), 2) == 2313.70
    assert round(perspective_bound(bins, ALL, tsg(0.25), boxes=True), 2) == 2389.42
    assert 2389.42 < lp_bound("total@0.25", total_over_bins()) <= 4000


def test_equality_is_arbitrage():
    """Four Laplace bins at variance 8 have exactly the 32 of the total."""
    found = verdicts(total_over_bins(laplace))
    assert (found["total@0.25"].verdict, found["total@0.25"].cost) == (Verdict.ARBITRAGE, 4000)
    assert l1_bound("total@0.25", total_over_bins(laplace)) == pytest.approx(2500, abs=0.01)
    assert cheapest_bundle("total@0.5", total_over_bins(laplace)).cost == 10000
    assert cheapest_bundle("total@0.5", total_over_bins(laplace)).proven


def test_a_histogram_cheaper_than_a_total_it_implies():
    histogram = chain("hist", {0.5: 3000, 1: 7000}, [unit(4, place) for place in range(4)])
    found = verdicts(Catalogue((*histogram, *chain("total", {0.25: 3500, 0.5: 7200, 1: 15000}, [ALL]))))
    assert [(found[f"total@{e}"].verdict, found[f"total@{e}"].cost) for e in (0.25, 0.5)] == [
        (Verdict.ARBITRAGE, 3000),
        (Verdict.ARBITRAGE, 7000),
    ]
    assert found["total@1"].lower_bound == math.inf


NEAR = (
    *chain("total", {0.5: 5000, 0.6: 11500, 0.7: 13000}, [ALL]),
    tier("range", 0.5, 4000, [unit(4, 0, 1, 2)]),
    tier("bin3", 0.5, 2000, [unit(4, 3)]),
)


def test_near_duplicate_chains_and_a_lower_tier_of_the_targets_own_chain():
    found = verdicts(Catalogue(NEAR))
    assert (found["total@0.6"].cost, set(found["total@0.6"].bundle)) == (11000, {"total@0.5", "range@0.5", "bin3@0.5"})
    assert found["total@0.7"].verdict is Verdict.SAFE


def test_adding_a_duplicate_chain_is_flagged():
    found = verdicts(Catalogue((*NEAR, tier("copy", 0.5, 5000, [ALL]))))
    for name in ("total@0.6", "total@0.7"):
        assert (found[name].verdict, found[name].cost, set(found[name].bundle)) == (
            Verdict.ARBITRAGE,
            10000,
            {"total@0.5", "copy@0.5"},
        )


def test_a_histogram_against_a_range():
    histogram = tier("hist", 1, 6000, [unit(8, place) for place in range(8)])
    found = verdicts(Catalogue((histogram, *chain("range", {0.5: 6500, 1: 9000}, [unit(8, 0, 1, 2, 3)]))))
    assert (found["range@0.5"].verdict, found["range@0.5"].cost) == (Verdict.ARBITRAGE, 6000)
    assert (found["range@1"].verdict, found["range@1"].lower_bound) == (Verdict.SAFE, math.inf)


def test_the_default_price_function_is_certified_by_stage_one():
    """price = ⌈100·|q|²/V⌉: subadditive in 1/variance and a squared seminorm, rounded up."""
    found = audit_catalogue(intervals(lambda length, e: 100 * length / tsg(e)), 1)
    assert len(found) == 112
    assert {finding.verdict for finding in found} == {Verdict.SAFE}


def test_the_first_stage_alone_says_safe_or_nothing():
    found = verdicts(total_over_bins(), 1)
    assert (found["total@0.25"].verdict, found["total@0.25"].stage) == (Verdict.UNCERTIFIED, 1)


def test_a_price_that_needs_the_second_stage():
    catalogue = intervals(lambda length, e: 500 * e**3 * math.sqrt(length))
    first, second = (audit_catalogue(catalogue, level) for level in (1, 2))
    assert any(finding.verdict is Verdict.UNCERTIFIED for finding in first)
    assert {finding.verdict for finding in second} == {Verdict.SAFE}


ROW = st.tuples(*[st.integers(-1, 1).map(float)] * 2).filter(any)


@st.composite
def catalogues(draw):
    products = []
    for number in range(draw(st.integers(1, 3))):
        rows = tuple(draw(st.lists(ROW, min_size=1, max_size=2)))
        for variance in draw(st.lists(st.sampled_from([1, 2, 3, 4, 8, 16]), min_size=1, max_size=2, unique=True)):
            products.append(
                Product(f"c{number}@{variance}", f"c{number}", rows, variance, draw(st.integers(0, 60)), "EUR")
            )
    names = [product.name for product in products]
    packs = draw(st.lists(st.lists(st.sampled_from(names), min_size=1, max_size=2, unique=True), max_size=1))
    return Catalogue(
        tuple(products),
        tuple(Bundle(f"pack{i}", tuple(parts), draw(st.integers(0, 60))) for i, parts in enumerate(packs)),
    )


@settings(max_examples=60, deadline=None)
@given(catalogues())
def test_guarantee_audit_catalogue(catalogue):
    """Verdicts agree with trying every set of goods."""
    truth = {good.name: brute_cheapest(catalogue, good.name) for good in catalogue.goods}
    for level in (1, 2, 3):
        for finding in audit_catalogue(catalogue, level):
            cheaper = truth[finding.name] is not None and truth[finding.name] < finding.price
            assert finding.verdict is not (Verdict.SAFE if cheaper else Verdict.ARBITRAGE)
            assert level < 3 or finding.verdict is (Verdict.ARBITRAGE if cheaper else Verdict.SAFE)
            assert finding.cost is None or truth[finding.name] <= finding.cost < finding.price
            assert finding.stage < 3 or finding.cost in (None, truth[finding.name])


@settings(max_examples=30, deadline=None)
@given(catalogues())
def test_bounds_are_ordered_and_the_search_is_exact(catalogue):
    for good in catalogue.goods:
        best = cheapest_bundle(good.name, catalogue)
        first, second = l1_bound(good.name, catalogue), lp_bound(good.name, catalogue)
        assert best.proven
        assert first <= second
        assert second == math.inf if best.cost is None else second <= best.cost * (1 + 1e-9)


@settings(max_examples=20, deadline=None)
@given(catalogues(), st.integers(2, 10**6))
def test_scaling_all_prices_keeps_the_verdicts(catalogue, factor):
    scaled = Catalogue(
        tuple(replace(product, price=product.price * factor) for product in catalogue.products),
        tuple(replace(bundle, price=bundle.price * factor) for bundle in catalogue.bundles),
    )
    plain = [finding.verdict for finding in audit_catalogue(catalogue, 3)]
    large = [finding.verdict for finding in audit_catalogue(scaled, 3)]
    assert all(after in (before, Verdict.UNCERTIFIED) for before, after in zip(plain, large, strict=True))
    assert factor > 10**5 or plain == large


def test_a_tie_of_huge_prices_is_not_called_arbitrage():
    huge = 10**15
    bins = [tier(f"bin{place}", 0.5, huge, [unit(2, place)], laplace) for place in range(2)]
    found = verdicts(Catalogue((*bins, Product("total", "total", (unit(2, 0, 1),), 16.0, 2 * huge, "EUR"))))
    assert found["total"].verdict is not Verdict.ARBITRAGE
    dearer = verdicts(Catalogue((*bins, Product("total", "total", (unit(2, 0, 1),), 16.0, 2 * huge + 10**9, "EUR"))))
    assert dearer["total"].verdict is Verdict.ARBITRAGE


def test_a_free_product_that_yields_a_priced_one_is_found():
    catalogue = Catalogue((tier("hist", 1, 0, [unit(2, 0), unit(2, 1)]), tier("total", 0.5, 10, [unit(2, 0, 1)])))
    assert (verdicts(catalogue)["total@0.5"].cost, verdicts(catalogue)["hist@1"].verdict) == (0, Verdict.SAFE)


def test_a_catalogue_of_one_is_safe_at_every_level():
    for level in (1, 2, 3):
        assert [f.verdict for f in audit_catalogue(Catalogue((tier("total", 1, 5, [ALL]),)), level)] == [Verdict.SAFE]


def test_a_bundle_dearer_than_its_parts_and_a_part_dearer_than_its_bundle():
    parts = (tier("east", 1, 30, [unit(2, 0)]), tier("west", 1, 20, [unit(2, 1)]))
    dear = verdicts(Catalogue(parts, (Bundle("both", ("east@1", "west@1"), 51),)))
    assert (dear["both"].verdict, dear["both"].cost) == (Verdict.ARBITRAGE, 50)
    cheap = verdicts(Catalogue(parts, (Bundle("both", ("east@1", "west@1"), 29),)))
    assert (cheap["east@1"].verdict, cheap["east@1"].bundle) == (Verdict.ARBITRAGE, ("both",))
    fair = verdicts(Catalogue(parts, (Bundle("both", ("east@1", "west@1"), 50),)))
    assert {finding.verdict for finding in fair.values()} == {Verdict.SAFE}


def test_a_bundle_of_one_chains_tiers_is_its_top_tier():
    tiers = chain("total", {1: 30, 0.5: 10}, [unit(1, 0)])
    found = verdicts(Catalogue(tuple(tiers), (Bundle("both", ("total@1", "total@0.5"), 40),)))
    assert (found["both"].verdict, found["both"].bundle, found["both"].cost) == (Verdict.ARBITRAGE, ("total@1",), 30)


def test_a_chain_in_a_bundle_and_alone_is_not_two_independent_draws():
    """If it were, the bundle and the single tier together would average to half the variance."""
    products = (
        *chain("total", {0.5: 10}, [unit(2, 0, 1)]),
        tier("east", 0.5, 1, [unit(2, 0)]),
        Product("better", "t2", (unit(2, 0, 1),), tsg(0.5) / 2, 25, "EUR"),
    )
    found = verdicts(Catalogue(products, (Bundle("pack", ("total@0.5", "east@0.5"), 10),)))
    assert (found["better"].verdict, found["better"].lower_bound) == (Verdict.SAFE, math.inf)


@pytest.mark.parametrize("rows", [((1.0, 1.0), (1.0, 1.0)), ((1.0, 1.0), (2.0, 2.0)), ((1e-6, 0.0), (1.0, 1e6))])
def test_degenerate_rows_do_not_break_the_check(rows):
    catalogue = Catalogue(
        (
            Product("odd", "odd", rows, 3.0, 5, "EUR"),
            tier("total", 0.5, 9, [unit(2, 0, 1)]),
            tier("east", 1, 4, [unit(2, 0)]),
        )
    )
    for good in catalogue.goods:
        finding = verdicts(catalogue)[good.name]
        truth = brute_cheapest(catalogue, good.name)
        assert finding.verdict is (Verdict.ARBITRAGE if truth is not None and truth < good.price else Verdict.SAFE)


def test_variances_eighteen_orders_apart_never_make_a_leak_look_safe():
    """The coarse bin is out of the solver's sight beside the fine one; without a proof nothing may be called safe."""
    fine = Product("fine", "fine", ((1.0, 0.0),), 1e-12, 1, "EUR")
    coarse = Product("coarse", "coarse", ((0.0, 1.0),), 1e15, 1, "EUR")
    total = Product("total", "total", ((1.0, 1.0),), 1.1e15, 5, "EUR")
    for level in (1, 2, 3):
        assert verdicts(Catalogue((fine, coarse, total)), level)["total"].verdict is not Verdict.SAFE


def test_a_coarse_and_a_fine_product_together_are_still_found():
    fine = Product("fine", "fine", ((1.0, 0.0),), 1e-2, 1, "EUR")
    coarse = Product("coarse", "coarse", ((0.0, 1.0),), 1e6, 1, "EUR")
    found = verdicts(Catalogue((fine, coarse, Product("total", "total", ((1.0, 1.0),), 1.1e6, 5, "EUR"))))
    assert (found["total"].verdict, found["total"].cost) == (Verdict.ARBITRAGE, 2)


def test_a_purchase_that_misses_by_a_billionth_does_not_stall_the_search():
    """The solver cannot see the difference; the set is then excluded as a whole."""
    bins = [Product(f"bin{place}", f"bin{place}", (unit(2, place),), 8.0, 10, "EUR") for place in range(2)]
    near = Product("total", "total", (unit(2, 0, 1),), 16.0 * (1 - 5e-9), 50, "EUR")
    copy = Product("copy", "copy", (unit(2, 0, 1),), 15.0, 100, "EUR")
    ticks = iter(range(40))
    best = cheapest_bundle("total", Catalogue((*bins, near, copy)), Limit(seconds_left=lambda: 40 - next(ticks)))
    assert (best.cost, best.names, best.proven) == (100, ("copy",), True)


def test_two_tiers_of_one_chain_are_not_added_up():
    tiers = [Product(f"c@{variance}", "c", ((1.0,),), variance, 1, "EUR") for variance in (2.0, 3.0)]
    goods = (*tiers, Product("d", "d", ((1.0,),), 2.0, 10, "EUR"), Product("target", "t", ((1.0,),), 1.0, 99, "EUR"))
    assert lp_bound("target", Catalogue(goods)) == pytest.approx(11)
    assert cheapest_bundle("target", Catalogue(goods)).names == ("c@2.0", "d")


def test_out_of_time_is_uncertified_never_safe():
    over = Limit(seconds_left=lambda: 0.0)
    found = audit_catalogue(total_over_bins(), 3, over)
    assert {finding.verdict for finding in found if finding.price} == {Verdict.UNCERTIFIED}
    assert not cheapest_bundle("total@0.25", total_over_bins(), over).proven
    free = Catalogue((tier("gift", 1, 0, [ALL]), tier("total", 0.5, 0, [ALL])))
    assert {found.verdict for found in audit_catalogue(free, 3, over)} == {Verdict.SAFE}, "nothing costs less"


def test_a_solver_that_stops_early_is_not_believed(monkeypatch):
    class Stopped:
        x, status, mip_dual_bound = None, 1, None

    hard = intervals(lambda length, e: 500 * e**3 * math.sqrt(length))
    plain = {finding.name: finding for finding in audit_catalogue(hard, 3)}
    late = [name for name, finding in plain.items() if finding.stage > 1 and finding.verdict is Verdict.SAFE]
    assert late
    monkeypatch.setattr(search_module, "milp", lambda *_, **__: Stopped())
    monkeypatch.setattr(search_module, "linprog", lambda *_, **__: Stopped())
    stopped = {finding.name: finding for finding in audit_catalogue(hard, 3)}
    assert {stopped[name].verdict for name in late} == {Verdict.UNCERTIFIED}


def test_a_solver_that_lies_about_its_multipliers_proves_nothing(monkeypatch):
    honest = search_module.linprog
    truth = {good.name: cheapest_bundle(good.name, Catalogue(NEAR)).cost for good in Catalogue(NEAR).goods}

    def lying(*args, **kwargs):
        result = honest(*args, **kwargs)
        result.ineqlin.marginals = result.ineqlin.marginals * np.linspace(0.1, 50, len(result.ineqlin.marginals))
        return result

    monkeypatch.setattr(search_module, "linprog", lying)
    for name, cost in truth.items():
        assert cost is None or lp_bound(name, Catalogue(NEAR)) <= cost


def test_progress_is_reported_for_every_good():
    steps = []
    audit_catalogue(total_over_bins(), 1, Limit(progress=lambda *step: steps.append(step)))
    assert steps == [("arbitrage", done, 11) for done in range(1, 12)]


@pytest.mark.parametrize("level", [0, 4, "3", None])
def test_an_unknown_level_is_refused(level):
    with pytest.raises(InvalidProductError, match="level"):
        audit_catalogue(total_over_bins(), level)


def test_an_unknown_target_is_refused():
    with pytest.raises(UnknownTierError):
        cheapest_bundle("total@7", total_over_bins())


def test_nothing_is_printed(capfd):
    audit_catalogue(total_over_bins(), 3)
    assert capfd.readouterr() == ("", "")
