"""How fast prices are found and checked, and what a chain of tiers earns against sellers without one.

`python -m benchmarks pricing` prints the rows; `python -m benchmarks.pricing` draws the pictures of docs/pricing.md.
"""

import math
import random
import time
from collections.abc import Callable
from dataclasses import replace
from itertools import accumulate
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.row import Row, at_least, at_most, beside
from pricing.arbitrage import Verdict, audit_catalogue, cheapest_bundle
from pricing.book import PriceBook, TierPrice
from pricing.catalogue import Catalogue, Product
from pricing.envy import menu_envy_free
from pricing.independent import menu_independent
from pricing.menu import menu_revenue, menu_threshold
from pricing.quote import Holding, quote
from pricing.scarcity import ReserveCurve
from tiers.budget import NANO

LADDER = tuple(0.25 * step for step in range(1, 9))
COUNTS = (80, 50, 30, 20, 12, 8, 5, 3)
CURVES: dict[str, Callable[[float], float]] = {
    "value ~ ε": lambda e: 500 * e,
    "value ~ ε²": lambda e: 250 * e**2,
    "value ~ ε³": lambda e: 125 * e**3,
    "value ~ ε⁴": lambda e: 62.5 * e**4,
    "logistic at ε = 1": lambda e: 1000 / (1 + math.exp(-(e - 1) / 0.15)),
    "logistic at ε = 1.5": lambda e: 1000 / (1 + math.exp(-(e - 1.5) / 0.15)),
    "exp(−noise)": lambda e: 1000 * math.exp(-1 / math.sqrt(math.cosh(e) - 1)),
    "two segments": lambda e: (20, 24, 28, 32, 60, 600, 800, 1000)[round(4 * e) - 1],
}
PRECISIONS: dict[str, Callable[[float], float]] = {
    "Laplace": lambda e: e**2 / 2,
    "TSG": lambda e: math.cosh(e) - 1,
    "composition": lambda e: e,
}
_LADDERS = (2, 4, 6, 8)
_TYPES = (  # how many, the rank they are said to need, and what they would pay for each of three tiers
    (60, 3, (1200, 1100, 900)),
    (30, 2, (4000, 3200, 1000)),
    (10, 1, (9000, 4500, 1000)),
)
SELLERS = ("chain", "cached draws", "fresh draws")
_BUDGET = 20 * NANO
_PRICES = {NANO // 4: 500, NANO // 2: 1200, NANO: 3000, 2 * NANO: 9000}
_PRICE_FORMS: dict[str, Callable[[int, float], float]] = {
    "⌈100·n/V⌉": lambda n, e: 100 * n * (math.cosh(e) - 1),
    "500·ε³·√n": lambda n, e: 500 * e**3 * math.sqrt(n),
}
EXPECTED = (
    "quote",
    "menu of 20 tiers, 50,000 buyers each",
    *(f"arbitrage {stages}, 112 products at {form}" for form in _PRICE_FORMS for stages in ("stage 1", "stages 1-2")),
    *(f"{curve}: chain / independent {noise}" for curve in CURVES for noise in PRECISIONS),
    *(f"value 2^k, {tiers} tiers: chain / independent" for tiers in _LADDERS),
    "buyers who choose: threshold menu, as predicted",
    "buyers who choose: threshold menu, as it sells",
    "buyers who choose: best single tier",
    "buyers who choose: envy-free menu / threshold menu",
    *(f"one budget: {seller}" for seller in SELLERS),
    "one budget: chain / cached draws",
    "one budget: chain / fresh draws",
)


def rows(quick: bool = False) -> list[Row]:
    """Return the measured rows; `quick` measures less, with the same names, and every row says so."""
    found = [*_speeds(quick), *_advantages(), *_worst_case(), *_self_selection(), *_one_budget(3 if quick else 30)]
    return [replace(row, how=f"quick run, not a measurement: {row.how}") for row in found] if quick else found


def _best_seconds(work: Callable[[], object], repeats: int) -> float:
    """Return the processor time of the fastest of some runs: what others do on the machine is not measured."""
    times = []
    for _ in range(repeats):
        start = time.process_time()
        work()
        times.append(time.process_time() - start)
    return min(times)


def _speeds(quick: bool) -> list[Row]:
    repeats = 1 if quick else 5
    book = PriceBook("c", 1, "EUR", tuple(TierPrice(f"tsg:{rank}", 9000 - rank) for rank in range(20)))
    holding = Holding(rank=15, net_paid=100)
    each = 2000
    quoted = _best_seconds(lambda: [quote(book, "tsg:10", holding, reserve=20) for _ in range(each)], repeats) / each
    draws = np.random.default_rng(7)
    demand = [draws.integers(0, 10**7, 2000 if quick else 50_000) for _ in range(20)]
    menu = _best_seconds(lambda: menu_threshold(demand), repeats)  # type: ignore[arg-type]
    found = [
        at_most("quote", quoted * 1e6, 50, "µs", "upgrade with reserve in a book of 20 tiers"),
        at_most(
            "menu of 20 tiers, 50,000 buyers each", menu, 0.5, "s", f"{sum(map(len, demand)):,} valuations up to 10⁷"
        ),
    ]
    for form, price in _PRICE_FORMS.items():
        catalogue = intervals(price)
        for level, stages, bar in ((1, "stage 1", 1), (2, "stages 1-2", 10)):
            name = f"arbitrage {stages}, 112 products at {form}"
            seconds = _best_seconds(lambda c=catalogue, n=level: audit_catalogue(c, n), 1 if quick else 3)  # type: ignore[misc]
            safe = sum(finding.verdict is Verdict.SAFE for finding in audit_catalogue(catalogue, level))  # type: ignore[arg-type]
            found.append(
                at_most(name, seconds, bar, "s", f"28 intervals × 4 tiers over 12 bins; {safe} certified safe")
            )
    return found


def intervals(price: Callable[[int, float], float], bins: int = 12, keep: int = 28) -> Catalogue:
    """Return `keep` intervals over `bins` bins at four TSG tiers, each at ⌈price(length, ε)⌉."""
    ranges = [(low, high) for low in range(bins) for high in range(low, bins)]
    products = []
    for low, high in ranges[:: len(ranges) // keep][:keep]:
        row = tuple(float(low <= place <= high) for place in range(bins))
        for e in (0.25, 0.5, 1.0, 2.0):
            cost = math.ceil(price(high - low + 1, e))
            products.append(Product(f"{low}-{high}@{e}", f"{low}-{high}", (row,), 1 / (math.cosh(e) - 1), cost, "EUR"))
    return Catalogue(tuple(products))


def demand_of(curve: str) -> list[list[int]]:
    """Return the mass market's valuations under a value curve, rank 1 first."""
    return [[max(1, round(CURVES[curve](e)))] * n for e, n in zip(LADDER, COUNTS, strict=True)][::-1]


def advantage(curve: str, noise: str) -> tuple[int, float]:
    """Return best revenue with a chain (monotone prices) and with independent draws (subadditive in precision too)."""
    demand = demand_of(curve)
    alone = menu_independent(demand, [PRECISIONS[noise](e) for e in reversed(LADDER)])
    if not alone.proven:
        raise RuntimeError(f"independent menu of {curve} under {noise}: expected an optimum, got none")
    return menu_threshold(demand).revenue, alone.revenue


def _advantages() -> list[Row]:
    found = []
    for curve in CURVES:
        for noise in PRECISIONS:
            chain, alone = advantage(curve, noise)
            how = f"threshold buyers, 8 tiers: {chain} against {alone:.0f}"
            found.append(at_least(f"{curve}: chain / independent {noise}", chain / alone, 1 - 1e-6, "×", how))
    return found


def _worst_case() -> list[Row]:
    """Values that double from tier to tier while buyers halve: the gain grows without bound."""
    found = []
    for tiers in _LADDERS:
        demand = [[2**step] * 2 ** (tiers - step) for step in range(tiers, 0, -1)]
        chain = menu_threshold(demand).revenue
        alone = menu_independent(demand, [float(step) for step in range(tiers, 0, -1)])
        how, name = f"2^(K−k) buyers at 2^k: {chain} against {alone.revenue:.0f}", f"value 2^k, {tiers} tiers"
        found.append(at_least(f"{name}: chain / independent", chain / alone.revenue, 1 - 1e-6, "×", how))
    return found


def _self_selection() -> list[Row]:
    """What the threshold programme predicts, what its menu sells to buyers who compare, and what was to be had."""
    counts = [count for count, _, _ in _TYPES]
    values = [row for _, _, row in _TYPES]
    needs: list[list[int]] = [[], [], []]
    for count, need, row in _TYPES:
        needs[need - 1] += [row[need - 1]] * count
    threshold, envy_free = menu_threshold(needs), menu_envy_free(values, counts)
    sold = menu_revenue(values, counts, threshold.prices)
    single = max(
        menu_revenue(values, counts, [price if rank == listed else None for rank in range(3)])
        for listed in range(3)
        for price in {row[listed] for row in values}
    )
    name, how = "buyers who choose", f"{sum(counts)} buyers of 3 kinds, 3 tiers"
    return [
        beside(f"{name}: threshold menu, as predicted", threshold.revenue, "minor units", how),
        beside(f"{name}: threshold menu, as it sells", sold, "minor units", how),
        beside(f"{name}: best single tier", single, "minor units", how),
        at_least(
            f"{name}: envy-free menu / threshold menu", envy_free.revenue / sold, 1, "×", f"{envy_free.revenue}: {how}"
        ),
    ]


def one_budget(seller: str, seed: int, arrivals: int = 1500, queries: int = 60) -> list[int]:
    """Return a seller's income from each arrival, first come first served, until the lifetime budget admits no more.

    A chain is charged the rise of its highest tier; cached independent draws are charged once a tier; fresh draws are
    charged every time. Everyone meets the same buyers and the same prices.
    """
    source = random.Random(seed)
    budgets = sorted(_PRICES)
    issued: dict[tuple[int, int], int] = {}
    used, income = 0, []
    for _ in range(arrivals):
        query = min(int(source.expovariate(6 / queries)), queries - 1)
        epsilon = source.choices(budgets, (8, 4, 2, 1))[0]
        key = (query, 0 if seller == "chain" else epsilon)
        before = 0 if seller == "fresh draws" else issued.get(key, 0)
        charge = max(0, epsilon - before)
        if used + charge > _BUDGET:
            income.append(0)
            continue
        used, issued[key] = used + charge, max(before, epsilon)
        income.append(_PRICES[epsilon])
    return income


def _one_budget(seeds: int) -> list[Row]:
    mean = {seller: sum(sum(one_budget(seller, seed)) for seed in range(seeds)) / seeds for seller in SELLERS}
    how = f"1500 buyers, 60 queries, B = 20, mean of {seeds} seeds"
    found = [beside(f"one budget: {seller}", mean[seller], "minor units", how) for seller in SELLERS]
    for other in SELLERS[1:]:
        found.append(at_least(f"one budget: chain / {other}", mean["chain"] / mean[other], 1, "×", how))
    return found


# Pictures of docs/pricing.md.

_INK, _CHAIN, _OTHER, _WARN = "#1f2933", "#2463a6", "#9aa5b1", "#c2410c"


def _figure(width: float = 7.2, height: float = 3.4) -> tuple[Any, Any]:
    import matplotlib as mpl
    from matplotlib.figure import Figure

    mpl.rcParams.update({"svg.hashsalt": "tiermarket", "svg.fonttype": "none", "font.size": 10, "text.color": _INK})
    figure = Figure(figsize=(width, height), layout="constrained")
    axes = figure.add_subplot()
    axes.spines[["top", "right"]].set_visible(False)
    return figure, axes


def _draw_book(figure: Any, axes: Any) -> None:
    demand = demand_of("value ~ ε³")
    chain = menu_threshold(demand).prices[::-1]
    alone = menu_independent(demand, [PRECISIONS["TSG"](e) for e in reversed(LADDER)]).prices[::-1]
    axes.step(LADDER, chain, where="post", color=_CHAIN, marker="o", label="chain: may not fall with accuracy")
    axes.step(LADDER, alone, where="post", color=_OTHER, marker="s", label="independent draws: nor exceed any copies")
    axes.set(xlabel="ε of the tier", ylabel="price (minor units)", title="Best prices for the same buyers (value ~ ε³)")
    axes.legend(frameon=False)


def _draw_upgrades(figure: Any, axes: Any) -> None:
    book = {0.25: 500, 0.5: 1200, 1: 3000, 2: 9000}
    paths = {"ε = 2 at once": [2], "0.5, then 2": [0.5, 2], "0.25, 1, then 2": [0.25, 1, 2], "every tier": list(book)}
    for place, path in enumerate(paths.values()):
        paid = 0
        for shade, e in enumerate(path):
            axes.barh(place, book[e] - paid, left=paid, color=_CHAIN, alpha=0.4 + 0.6 * shade / 3, edgecolor="white")
            axes.text((paid + book[e]) / 2, place, str(book[e] - paid), ha="center", va="center", fontsize=8)
            paid = book[e]
    axes.set_yticks(range(len(paths)), paths)
    axes.invert_yaxis()
    axes.set(xlabel="paid in all (minor units)", title="Every way up costs the same")


def _draw_reserve(figure: Any, axes: Any) -> None:
    curve = ReserveCurve(100, 2000, 10 * NANO)
    used = np.linspace(0, 10, 201)
    axes.plot(used, [curve.cumulative(round(u * NANO)) for u in used], color=_CHAIN)
    for low, high, left in ((1, 2, 1), (8, 9, 5.6)):
        ends = [curve.cumulative(level * NANO) for level in (low, high)]
        axes.fill_between([low, high], 0, ends, color=_CHAIN, alpha=0.2)
        axes.annotate(f"from {low} to {high}: {ends[1] - ends[0]}", (high, ends[1]), (left, ends[1] + 350))
    axes.set(
        xlabel="budget used, of 10", ylabel="R(used), minor units", title="The same ε costs more when little is left"
    )


def _draw_arbitrage(figure: Any, axes: Any) -> None:
    variance = {e: 1 / (math.cosh(e) - 1) for e in (0.25, 0.5, 1.0)}
    cells = [tuple(float(i == place) for i in range(4)) for place in range(4)]
    bins = [
        Product(f"bin{i}@{e}", f"bin{i}", (cells[i],), variance[e], p, "EUR")
        for i in range(4)
        for e, p in ((0.5, 1000), (1.0, 2500))
    ]
    prices = {0.25: 4500, 0.5: 9000, 1.0: 20000}
    totals = [Product(f"total@{e}", "total", ((1.0,) * 4,), variance[e], p, "EUR") for e, p in prices.items()]
    catalogue = Catalogue((*bins, *totals))
    for place, (e, price) in enumerate(prices.items()):
        cost = cheapest_bundle(f"total@{e}", catalogue).cost
        axes.bar(place - 0.2, price, 0.38, color=_CHAIN, label="" if place else "price of the total")
        axes.text(place - 0.2, price, str(price), ha="center", va="bottom", fontsize=8)
        color = _WARN if cost is not None and cost < price else _OTHER
        axes.bar(place + 0.2, cost or 0, 0.38, color=color, label="" if place else "cheapest bins that yield it")
        text = "cannot be\nbuilt" if cost is None else f"{cost}{' leak' if cost < price else ''}"
        axes.text(place + 0.2, cost or 0, text, ha="center", va="bottom", fontsize=8)
    axes.set_xticks(range(3), [f"total at ε = {e}" for e in prices])
    axes.set(ylabel="minor units", title="A total against four bins sold one by one")
    axes.legend(frameon=False, loc="upper left")


def _draw_advantage(figure: Any, axes: Any) -> None:
    for shade, noise in enumerate(PRECISIONS):
        gains = [100 * (chain / alone - 1) for chain, alone in (advantage(curve, noise) for curve in CURVES)]
        places = np.arange(len(CURVES)) + 0.26 * (shade - 1)
        axes.bar(places, gains, 0.24, color=(_CHAIN, "#7fb0dd", _OTHER)[shade], label=f"against {noise}")
        for place, gain in zip(places, gains, strict=True):
            axes.text(place, gain, f"{gain:.0f}", ha="center", va="bottom", fontsize=7)
    axes.set_xticks(range(len(CURVES)), [curve.replace(" at", "\nat").replace("value ", "") for curve in CURVES])
    axes.tick_params(axis="x", labelsize=8)
    axes.set(ylabel="% more revenue", title="What monotone-only pricing adds: nothing to a lot")
    axes.legend(frameon=False)


def _draw_budget(figure: Any, axes: Any) -> None:
    for seller, color in zip(SELLERS, (_CHAIN, _OTHER, _WARN), strict=True):
        paths = [list(accumulate(one_budget(seller, seed))) for seed in range(10)]
        mean = np.mean(paths, axis=0)
        axes.plot(mean / 1000, color=color, label=f"{seller}: {mean[-1]:,.0f}")
    axes.set(
        xlabel="buyers so far",
        ylabel="income (1000 minor units)",
        title="One lifetime budget, the same buyers and prices",
    )
    axes.legend(frameon=False)


PICTURES = {
    "book": _draw_book,
    "upgrades": _draw_upgrades,
    "reserve": _draw_reserve,
    "arbitrage": _draw_arbitrage,
    "advantage": _draw_advantage,
    "budget": _draw_budget,
}


def draw(folder: Path) -> None:
    """Write every picture as SVG, byte for byte the same on every run."""
    folder.mkdir(parents=True, exist_ok=True)
    for name, paint in PICTURES.items():
        figure, axes = _figure()
        paint(figure, axes)
        figure.savefig(folder / f"pricing-{name}.svg", metadata={"Date": None, "Creator": "benchmarks/pricing.py"})


if __name__ == "__main__":
    draw(Path(__file__).resolve().parent.parent / "docs" / "img")
