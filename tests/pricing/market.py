"""Shared by the pricing tests: noise variances by formula, small catalogues, and slow, obvious oracles."""

import math
from fractions import Fraction
from itertools import combinations

import numpy as np
from scipy.optimize import linprog

from pricing.catalogue import Catalogue, Product
from pricing.limit import UNLIMITED
from pricing.reach import market_for
from pricing.search import Search


def tsg(epsilon):
    """Variance of two-sided geometric noise, sensitivity 1."""
    return 1 / (math.cosh(epsilon) - 1)


def laplace(epsilon):
    """Variance of Laplace noise, sensitivity 1."""
    return 2 / epsilon**2


def unit(bins, *ones):
    """A row with ones at the given bins."""
    return tuple(float(place in ones) for place in range(bins))


def tier(name, epsilon, price, rows, variance=tsg):
    """A product called name@epsilon of the chain `name`."""
    return Product(f"{name}@{epsilon}", name, tuple(rows), variance(epsilon), price, "EUR")


def chain(name, prices, rows, variance=tsg):
    """A chain's products, from {epsilon: price}."""
    return [tier(name, epsilon, price, rows, variance) for epsilon, price in prices.items()]


def total_over_bins(variance=tsg):
    """Four bins at two tiers, and their total at three."""
    bins = [
        product
        for place in range(4)
        for product in chain(f"bin{place}", {0.5: 1000, 1: 2500}, [unit(4, place)], variance)
    ]
    return Catalogue((*bins, *chain("total", {0.25: 4500, 0.5: 9000, 1: 20000}, [unit(4, 0, 1, 2, 3)], variance)))


def intervals(price, bins=12, keep=28, budgets=(0.25, 0.5, 1, 2)):
    """`keep` intervals over `bins` bins at four tiers, priced by price(length, epsilon)."""
    ranges = [(low, high) for low in range(bins) for high in range(low, bins)]
    ranges = ranges[:: len(ranges) // keep][:keep]
    products = []
    for low, high in ranges:
        row = unit(bins, *range(low, high + 1))
        prices = {epsilon: math.ceil(price(high - low + 1, epsilon)) for epsilon in budgets}
        products.extend(chain(f"{low}-{high}", prices, [row]))
    return Catalogue(tuple(products))


def l1_bound(name, catalogue):
    """Stage 1's lower bound on what any bundle yielding `name` costs; inf if none can yield it."""
    return Search(market_for(name, catalogue)).one_cut()


def lp_bound(name, catalogue):
    """Stage 2's: shares of goods between 0 and 1, one tier a chain; at least stage 1's."""
    search = Search(market_for(name, catalogue))
    bound = search.one_cut()
    return bound if bound == math.inf else max(bound, search.relaxation(UNLIMITED, goal=math.inf))


def brute_cheapest(catalogue, name):
    """Cost of the cheapest set of other goods that yields `name`, by trying every set; None if none does."""
    products = {product.name: product for product in catalogue.products}
    parts = {product.name: [product] for product in catalogue.products}
    parts |= {bundle.name: [products[part] for part in bundle.parts] for bundle in catalogue.bundles}
    price = {good.name: good.price for good in catalogue.goods}
    others = [good for good in price if good != name]
    best = None
    for size in range(1, len(others) + 1):
        for bought in combinations(others, size):
            cost = sum(price[good] for good in bought)
            if (best is None or cost < best) and _yields(
                [part for good in bought for part in parts[good]], parts[name]
            ):
                best = cost
    return best


def _yields(held, wanted):
    """In rationals: every row wanted has an unbiased estimate of no more variance, 10⁻⁹ of it given to the attacker."""
    best = {}
    for product in held:
        if product.chain_id not in best or product.variance < best[product.chain_id].variance:
            best[product.chain_id] = product
    for target in wanted:
        for row in target.rows:
            least = least_variance([(each.rows, each.variance) for each in best.values()], row)
            if least is None or least > Fraction(target.variance) * (1 + Fraction(1, 10**9)):
                return False
    return True


def least_variance(held, row):
    """Variance of the best unbiased linear estimate of `row` from (rows, variance) pairs, exactly; None: there is none.

    bᵀx for M·x = b, with M = Σ RᵀR/V (Gauss and Markov), by elimination in fractions.
    """
    size = len(row)
    table = [[Fraction(0)] * size + [Fraction(entry)] for entry in row]
    for rows, variance in held:
        for each in ([Fraction(entry) for entry in given] for given in rows):
            for i in range(size):
                for j in range(size):
                    table[i][j] += each[i] * each[j] / Fraction(variance)
    pivots = []
    for column in range(size):
        at = len(pivots)
        found = next((line for line in range(at, size) if table[line][column]), None)
        if found is None:
            continue
        table[at], table[found] = table[found], table[at]
        table[at] = [entry / table[at][column] for entry in table[at]]
        for line in range(size):
            if line != at and table[line][column]:
                factor = table[line][column]
                table[line] = [a - factor * b for a, b in zip(table[line], table[at], strict=True)]
        pivots.append(column)
    if any(table[line][size] for line in range(len(pivots), size)):
        return None
    return sum(Fraction(row[column]) * table[place][size] for place, column in enumerate(pivots))


def perspective_bound(products, row, variance, boxes, rounds=40):
    """Another relaxation of the cheapest purchase: explicit weights w, s >= w²/z by tangents, one tier a chain.

    With `boxes` also |w| <= z·√(variance/Vᵢ): true for whole goods only.
    """
    count = len(products)
    cost = np.concatenate([np.zeros(2 * count), [product.price for product in products]])
    equal = np.hstack([np.array([product.rows[0] for product in products]).T, np.zeros((len(row), 2 * count))])
    reach = [math.sqrt(variance / product.variance) for product in products]
    rows = [np.concatenate([np.zeros(count), [product.variance for product in products], np.zeros(count)])]
    right = [variance]
    for name in {product.chain_id for product in products}:
        rows.append(np.concatenate([np.zeros(2 * count), [float(product.chain_id == name) for product in products]]))
        right.append(1.0)

    def add(index, weight, share, spread):
        line = np.zeros(3 * count)
        line[index], line[count + index], line[2 * count + index] = weight, spread, share
        rows.append(line)
        right.append(0.0)

    for index in range(count):
        for slope in (-1, -0.5, 0.5, 1):
            add(index, 2 * slope, -(slope**2), -1)
        if boxes:
            add(index, 1, -reach[index], 0)
            add(index, -1, -reach[index], 0)
    bounds = [(-most, most) for most in reach] + [(0, most**2) for most in reach] + [(0, 1)] * count
    for _ in range(rounds):
        result = linprog(cost, np.array(rows), right, equal, row, bounds, method="highs")
        weights, spreads, shares = np.split(result.x, 3)
        slopes = weights / np.maximum(shares, 1e-2)
        broken = np.flatnonzero(2 * slopes * weights - slopes**2 * shares - spreads > 1e-7)
        if not broken.size:
            break
        for index in broken:
            add(index, 2 * slopes[index], -(slopes[index] ** 2), -1)
    return result.fun
