"""Verdicts against every purchase on whole families of small catalogues, in exact rationals: none is left out."""

from fractions import Fraction
from itertools import product

import pytest

from pricing.arbitrage import Verdict, audit_catalogue
from pricing.catalogue import Bundle, Catalogue, Product
from tests.pricing.market import brute_cheapest, least_variance

EAST, WEST, BOTH, GAP = (1.0, 0.0), (0.0, 1.0), (1.0, 1.0), (1.0, -1.0)


def one(name, variance, price, *rows):
    return Product(f"{name}@{variance}", name, rows, variance, price, "EUR")


def bins_and_a_total():
    for east, west, total in product((1.0, 2.0), (1.0, 2.0), (2.0, 3.0, 4.0)):
        for prices in product((0, 2, 3), (1,), (3, 4)):
            goods = [one("east", east, prices[0], EAST), one("west", west, prices[1], WEST)]
            yield Catalogue((*goods, one("total", total, prices[2], BOTH)))


def two_tiers_and_a_gap():
    """A total and a difference give either side at a quarter of both variances; the total has two tiers."""
    for gap, side, low in product((2.0, 4.0), (1.0, 1.5), (2, 3)):
        for high, other, price in product((3,), (1, 2), (3, 4, 6)):
            total = [one("total", 2.0, high, BOTH), one("total", 4.0, low, BOTH)]
            yield Catalogue((*total, one("gap", gap, other, GAP), one("east", side, price, EAST)))


def copies_that_are_averaged():
    for variances in product((2.0, 3.0), (2.0, 6.0), (1.0, 1.2, 1.5)):
        for prices in product((1, 2), (1, 3), (2, 3, 4, 5)):
            first, second, target = zip(("first", "second", "target"), variances, prices, strict=True)
            yield Catalogue(tuple(one(*each, EAST) for each in (first, second, target)))


def histograms_and_bundles():
    for variance, price, pack in product((1.0, 2.0), (2, 4), (1, 3, 5)):
        for east, total in product((2, 3), (3, 5)):
            goods = (
                one("table", variance, price, EAST, WEST),
                one("east", 2.0, east, EAST),
                one("west", 2.0, None, WEST),
                one("total", 4.0, total, BOTH),
            )
            yield Catalogue(goods, (Bundle("pack", ("east@2.0", "west@2.0"), pack),))


@pytest.mark.parametrize(
    "family", [bins_and_a_total, two_tiers_and_a_gap, copies_that_are_averaged, histograms_and_bundles]
)
def test_every_verdict_on_every_small_catalogue(family):
    """Safe means that no purchase whatever is cheaper; arbitrage that one is; with all stages nothing stays open."""
    seen = set()
    for catalogue in family():
        truth = {good.name: brute_cheapest(catalogue, good.name) for good in catalogue.goods}
        for level in (1, 2, 3):
            for found in audit_catalogue(catalogue, level):
                cheaper = truth[found.name] is not None and truth[found.name] < found.price
                assert found.verdict is not (Verdict.SAFE if cheaper else Verdict.ARBITRAGE), (catalogue, found)
                if level == 3:
                    assert found.verdict is (Verdict.ARBITRAGE if cheaper else Verdict.SAFE), (catalogue, found)
                    assert found.cost is None or found.stage < 3 or found.cost == truth[found.name]
                seen.add((level, found.verdict))
    assert {(3, Verdict.SAFE), (3, Verdict.ARBITRAGE)} <= seen


def test_the_exact_oracle_knows_variances_by_formula():
    assert least_variance([((EAST,), 2.0), ((EAST,), 6.0)], EAST) == Fraction(3, 2), "1/(1/2 + 1/6)"
    assert least_variance([((EAST, WEST), 8.0)], BOTH) == 16
    assert least_variance([((BOTH,), 3.0), ((GAP,), 5.0)], EAST) == 2, "(3 + 5)/4"
    assert least_variance([((BOTH,), 3.0)], EAST) is None
    assert least_variance([((BOTH,), 3.0), ((EAST,), 1.0)], WEST) == 4
