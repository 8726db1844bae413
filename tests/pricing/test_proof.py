"""Proofs in whole numbers: true whatever multipliers, directions and solvers say; complete where the search is."""

import itertools
import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import pricing.search as search_module
from pricing.arbitrage import Verdict, audit_catalogue, cheapest_bundle
from pricing.catalogue import Catalogue, Product
from pricing.limit import UNLIMITED, Limit
from pricing.proof import Multipliers, Proof
from pricing.reach import market_for
from pricing.search import Search
from tests.pricing.market import brute_cheapest, l1_bound, total_over_bins, unit
from tests.pricing.test_arbitrage import catalogues

ANY = st.one_of(st.floats(0, 60), st.floats(allow_nan=True, allow_infinity=True), st.just(0.0))
LADDER = Catalogue(
    (
        *(Product(f"bin{place}", f"bin{place}", (unit(3, place),), 8.0, 10 + place, "EUR") for place in range(3)),
        Product("pair", "pair", (unit(3, 0, 1),), 8.0, 17, "EUR"),
        Product("total", "total", (unit(3, 0, 1, 2),), 24.0, 30, "EUR"),
    )
)
"""total: 17 + 12 = 29 by pair and bin2 (16 ≤ 24); bins alone 33."""


def proof_of(market, directions):
    proof = Proof(market)
    for need, direction in zip(itertools.cycle(market.needs), directions, strict=False):
        proof.learn(need, np.array(direction))
    return proof


@settings(max_examples=150, deadline=None)
@given(catalogues(), st.data())
def test_no_multipliers_and_no_directions_prove_a_bound_above_the_cheapest_purchase(catalogue, data):
    for good in catalogue.goods:
        market = market_for(good.name, catalogue)
        if not market.goods:
            continue
        width = len(market.needs[0].row)
        ways = data.draw(st.lists(st.lists(st.floats(-3, 3), min_size=width, max_size=width), max_size=4))
        proof = proof_of(market, ways)
        draw = lambda size: np.array(data.draw(st.lists(ANY, min_size=size, max_size=size)))  # noqa: E731
        sizes = (len(ways), len(market.rows), len(proof.chains), 0)
        bound = proof.bound(Multipliers(*(draw(size) for size in sizes)))
        for bought in itertools.product((False, True), repeat=len(market.goods)):
            held = [one for one, has in zip(market.goods, bought, strict=True) if has]
            if market.reaches(held):
                assert bound <= sum(one.price for one in held)
                assert not proof.fails(np.array(bought))


@settings(max_examples=60, deadline=None)
@given(catalogues())
def test_what_no_bundle_undercuts_is_proved_and_nothing_dearer_is(catalogue):
    for good in catalogue.goods:
        search = Search(market_for(good.name, catalogue))
        kept = {each.name for each in search.market.goods}
        alone = [other.price for other in catalogue.goods if other.name not in kept | {good.name}]
        if search.one_cut() < math.inf:
            best = cheapest_bundle(good.name, catalogue)
            assert best.proven
            assert search.none_below(best.cost, UNLIMITED)
            assert not search.none_below(best.cost + 1, UNLIMITED)
            assert brute_cheapest(catalogue, good.name) == min([best.cost, *alone])
        else:
            assert search.certifies(10**12)
            assert brute_cheapest(catalogue, good.name) == min(alone, default=None)


def test_bounds_within_a_box_count_what_is_bought_and_leave_out_what_is_not():
    market = market_for("total", LADDER)
    proof = Proof(market)
    nothing = Multipliers(np.zeros(0), np.zeros(4), np.zeros(4), np.zeros(0))
    none, every = np.zeros(4), np.ones(4)
    assert proof.bound(nothing) == 0
    assert proof.bound(nothing, np.array([1.0, 0, 0, 1.0]), every) == 10 + 17
    links = Multipliers(np.zeros(0), np.full(4, 15.0), np.zeros(4), np.zeros(0))
    assert proof.bound(links, none, every) == -5 - 4 - 3, "p − l below 0 for each bin"
    assert proof.bound(links, none, np.array([1.0, 0, 1.0, 1.0])) == -5 - 3, "bin1 is not for sale"


def test_a_set_that_reaches_is_not_excluded_and_one_that_does_not_is():
    market = market_for("total", LADDER)
    proof = proof_of(market, [[1.0, 1.0, 1.0]])
    by = Multipliers(np.zeros(1), np.zeros(4), np.zeros(4), np.array([7.0]))
    proof.exclude(np.array([1.0, 0.0, 1.0, 1.0]))  # bin1 alone does not reach: one of the others is bought
    assert proof.bound(by) == 7
    proof.sets.clear()
    proof.exclude(np.array([1.0, 0.0, 0.0, 0.0]))  # bin1, bin2, pair: all but bin0 reach it
    assert proof.sets == [None]
    assert proof.bound(by) == 0


def test_what_a_proof_learned_after_its_multipliers_were_found_counts_for_nothing():
    proof = proof_of(market_for("total", LADDER), [[1.0, 1.0, 1.0]])
    by = Multipliers(np.zeros(1), np.zeros(4), np.zeros(4), np.zeros(0))
    proof.exclude(np.array([1.0, 0.0, 1.0, 1.0]))
    proof.learn(proof.market.needs[0], np.array([1.0, 1.0, 0.0]))
    assert proof.bound(by) == 0


def test_multipliers_below_nothing_and_no_numbers_are_nothing():
    proof = proof_of(market_for("total", LADDER), [[1.0, 1.0, 1.0]])
    nothing = Multipliers(np.array([-5.0]), np.full(4, -1.0), np.full(4, np.nan), np.zeros(0))
    assert proof.bound(nothing) == 0


def test_cuts_are_exact_fractions_rounded_up_by_less_than_a_unit():
    market = market_for("total", LADDER)
    proof = proof_of(market, [[1.0, 1.0, 1.0]])
    for part, cut in enumerate(proof.cuts[0]):
        power = Fraction(int(market.rows[part].sum()) ** 2, 9)
        exact = Fraction(24, 8) * power
        assert 0 <= Fraction(cut, 2**80) - min(exact, Fraction(proof.right, 2**80)) < Fraction(1, 2**79)
    assert Fraction(proof.right, 2**80) <= 1 / (1 + Fraction(1, 10**9))


@pytest.mark.parametrize("direction", [[0.0, 0.0, 0.0], [1.0, -1.0, 0.0], [np.nan, 1.0, 1.0], [np.inf, 1.0, 1.0]])
def test_a_direction_that_says_nothing_is_a_cut_that_every_product_meets(direction):
    proof = proof_of(market_for("total", LADDER), [direction])
    assert set(proof.cuts[0]) == {proof.right}


class Said:
    """What a solver that cannot be trusted says."""

    def __init__(self, status, x=None):
        self.status, self.x, self.mip_dual_bound = status, x, 1e9


def test_a_search_that_calls_what_exists_impossible_is_not_believed(monkeypatch):
    monkeypatch.setattr(search_module, "milp", lambda *_, **__: Said(2))
    search = Search(market_for("total", LADDER, below=30))
    bound = search.one_cut()
    found = search.integer(UNLIMITED, bound, below=30)
    assert (found.cost, found.proven, found.lower_bound) == (None, False, bound)


def test_a_search_that_calls_a_dear_purchase_the_cheapest_is_not_believed(monkeypatch):
    goods = market_for("total", LADDER).goods
    dear = np.array([float(good.name != "pair") for good in goods] + [1.0] * 4)
    monkeypatch.setattr(search_module, "milp", lambda *_, **__: Said(0, dear))
    found = cheapest_bundle("total", LADDER)
    assert (found.cost, found.proven) == (33, False)
    assert found.lower_bound <= 29


def test_branches_close_only_where_they_are_proved(monkeypatch):
    """Without multipliers nothing closes a branch but what is left to buy, so that all purchases are looked at."""
    honest = search_module.linprog

    def silent(*args, **kwargs):
        result = honest(*args, **kwargs)
        result.ineqlin.marginals = result.ineqlin.marginals * 0
        return result

    search = Search(market_for("total", LADDER))
    search.one_cut()
    monkeypatch.setattr(search_module, "linprog", silent)
    assert search.none_below(29, UNLIMITED)
    assert not search.none_below(30, UNLIMITED)


def test_out_of_time_nothing_is_proved():
    search = Search(market_for("total", LADDER))
    search.one_cut()
    calls = iter([1.0] * 3)
    assert not search.none_below(29, Limit(lambda: next(calls, 0.0)))
    assert not search.none_below(29, Limit(lambda: -1.0))


def test_a_purchase_of_which_nothing_is_proved_leaves_the_question_open(monkeypatch):
    """All is decided, it costs less, it is said not to reach, and nothing shows that it falls short: not proved."""
    search = Search(market_for("total", LADDER))
    search.one_cut()
    monkeypatch.setattr(search.proof, "fails", lambda *_: False)
    monkeypatch.setattr(search.proof, "bound", lambda *_: 0.0)
    monkeypatch.setattr(type(search.market), "reaches", lambda *_: False)
    assert not search.none_below(29, UNLIMITED)


def test_a_good_that_nothing_yields_is_called_so_only_with_a_proof(monkeypatch):
    alone = Catalogue(LADDER.products[-1:])
    assert (cheapest_bundle("total", alone).cost, cheapest_bundle("total", alone).proven) == (None, True)
    monkeypatch.setattr(Search, "certifies", lambda *_: False)
    assert not cheapest_bundle("total", alone).proven


def test_the_certificate_is_not_a_float():
    """Bins of 10¹⁵ and a total of 2·10¹⁵: one unit more is arbitrage, one unit less is safe, and floats see neither."""
    huge = 10**15
    bins = [Product(f"bin{place}", f"bin{place}", (unit(2, place),), 8.0, huge, "EUR") for place in range(2)]
    for extra, verdict in ((-1, Verdict.SAFE), (0, Verdict.SAFE)):
        total = Product("total", "total", (unit(2, 0, 1),), 15.0, 2 * huge + extra, "EUR")
        (found,) = [each for each in audit_catalogue(Catalogue((*bins, total)), 3) if each.name == "total"]
        assert found.verdict is verdict


def test_verdicts_of_the_reference_catalogue_rest_on_proofs():
    for finding in audit_catalogue(total_over_bins(), 3):
        if finding.verdict is Verdict.SAFE and finding.price and finding.stage:
            search = Search(market_for(finding.name, total_over_bins(), below=finding.price))
            if search.one_cut() < math.inf:
                search.relaxation(UNLIMITED, goal=finding.price)
            assert search.certifies(finding.price) or search.none_below(finding.price, UNLIMITED)


def test_asked_for_less_than_the_cheapest_the_search_finds_none_and_proves_it():
    for below, cost in ((30, 29), (29, None)):
        search = Search(market_for("total", LADDER, below=below))
        found = search.integer(UNLIMITED, search.one_cut(), below=below)
        assert (found.cost, found.proven) == (cost, True)


def test_a_product_of_two_rows_counts_for_half_in_each():
    """max y₀ + y₁ under |yᵢ| ≤ √(10·8/2) and |y₀| ≤ √(3·8): its square over V is stage 1's bound."""
    pair = Product("pair", "pair", (unit(2, 0), unit(2, 1)), 8.0, 10, "EUR")
    east = Product("east", "east", (unit(2, 0),), 8.0, 3, "EUR")
    catalogue = Catalogue((pair, east, Product("total", "total", (unit(2, 0, 1),), 16.0, 9, "EUR")))
    assert l1_bound("total", catalogue) == pytest.approx((math.sqrt(24) + math.sqrt(40)) ** 2 / 16, rel=1e-8)


def test_the_bound_of_several_needs_is_the_largest_of_theirs_and_so_is_its_proof():
    """A histogram needs each of its bins: the dear one decides."""
    wanted = Product("hist", "hist", (unit(2, 0), unit(2, 1)), 8.0, 60, "EUR")
    for prices in ((10, 60), (60, 10)):
        bins = [Product(f"bin{n}", f"bin{n}", (unit(2, n),), 8.0, price, "EUR") for n, price in enumerate(prices)]
        search = Search(market_for("hist", Catalogue((*bins, wanted))))
        assert search.one_cut() == pytest.approx(60)
        assert search.certifies(60)
        assert not search.certifies(61)
