"""Decision 0034 by enumeration: no order of purchases brings what a pack holds for less than the check says it costs."""

from collections.abc import Iterator
from itertools import combinations, combinations_with_replacement, product
from typing import Any, TypeAlias

import pytest

from app.catalog.classes import Offer, Pack
from app.catalog.parts import parts_of
from app.catalog.shelf import Listed, shelf_of
from app.queries.canonical import CanonicalQuery, CountRows, canonicalise, fingerprint
from app.queries.component import components
from app.queries.conditions import Condition
from app.queries.model import And, Comparison, Count, GroupByKeys, In, Mean, Query, Sum
from app.queries.schema import Column, DatasetSchema
from pricing.book import PriceBook, TierPrice
from pricing.quote import NOTHING_HELD, Holding, quote
from tests.app.judging import judge, judge_pack
from tests.pricing.market import least_variance

State: TypeAlias = tuple[Holding, ...]
TIERS = (1, 2)
CHAINS = ("sum", "other", "count")
GOODS = [((chain, rank), ("count", rank)) for chain in ("sum", "other") for rank in TIERS] + [
    (("count", rank),) for rank in TIERS
]
"""Two means that share a count, tier by tier, and the count alone."""


def books(highest: int) -> Iterator[dict[str, PriceBook]]:
    for pairs in product(combinations_with_replacement(range(highest + 1), 2), repeat=3):
        yield {
            chain: PriceBook(chain, 1, "EUR", (TierPrice("1", dear), TierPrice("2", cheap)))
            for chain, (cheap, dear) in zip(CHAINS, pairs, strict=True)
        }


def ways(priced: dict[str, PriceBook], reserve: int) -> set[State]:
    """Every state that some sequence of purchases leads to: the best tier of each chain, and what was paid on it.

    `reserve`: what the first sale of a chain must bring, and any that goes higher on it.
    """
    start = (NOTHING_HELD,) * len(CHAINS)
    seen, pending = {start}, [start]
    while pending:
        state = pending.pop()
        for good in GOODS:
            after = list(state)
            for chain, rank in good:
                place = CHAINS.index(chain)
                held = after[place]
                paid = quote(priced[chain], str(rank), held, reserve=reserve).amount
                after[place] = Holding(min(rank, held.rank or rank), held.net_paid + paid)
            if tuple(after) not in seen:
                seen.add(tuple(after))
                pending.append(tuple(after))
    return seen


@pytest.mark.parametrize("reserve", [0, 1, 3])
def test_whatever_was_bought_before_each_chain_has_brought_its_books_price(reserve: int) -> None:
    """So nobody holds sum tier i for less than its book and the count sold with it, nor count tier j below its own."""
    for priced in books(2):
        listed = [
            Listed(
                mean,
                "d",
                "s",
                chain,
                mean or chain,
                CanonicalQuery(measure=CountRows()),
                "EUR",
                law,
                "1",
                1.0,
                book.price_of(law),
            )
            for mean, chain in (
                ("sum", "sum"),
                ("sum", "count"),
                ("other", "other"),
                ("other", "count"),
                (None, "count"),
            )
            for book in [priced[chain]]
            for law in ("1", "2")
        ]
        asked = {pack.title[:3]: [] for pack in shelf_of(listed).packs}  # type: ignore[var-annotated]
        for pack in shelf_of(listed).packs:
            asked[pack.title[:3]].append(pack.price)
        for state in ways(priced, reserve):
            held = dict(zip(CHAINS, state, strict=True))
            for chain, each in held.items():
                least = 0 if each.rank is None else priced[chain].tiers[each.rank - 1].price
                assert each.net_paid == least if reserve == 0 else each.net_paid >= least
            paid = sum(each.net_paid for each in state)
            for chain in ("sum", "other"):
                if (rank := held[chain].rank) is not None:
                    assert held["count"].rank is not None
                    assert held["count"].rank <= rank, "a sum is never sold without the count of its tier"
                    assert paid >= asked[chain[:3]][rank - 1], "so the pack's price is not undercut"


COLUMNS = ("amount", "age")
SCHEMAS = [
    DatasetSchema(
        columns=(Column(name="city", type="text"), *(Column(name=name, type="integer") for name in COLUMNS), *unit),
        salt="0" * 64,
        max_rows_per_unit=2,
        max_groups_per_unit=2,
        **named,
    )
    for unit, named in (
        ((), {}),
        ((Column(name="person", type="text"),), {"unit": "person", "ordering": ("age",)}),
    )
]


def means(rows: int | None) -> Iterator[Query]:
    old = Comparison(column="age", operator=">=", value=30)
    conditions: list[Condition | Any] = [None, *(In(column="city", values=keys) for keys in (("a",), ("a", "b")))]
    conditions += [old, And(operands=(old, In(column="city", values=("a",))))]
    groups = [None, GroupByKeys(column="city", keys=("a", "b")), GroupByKeys(column="age", keys=(1, 2))]
    for column, upper, centre, where, group in product(COLUMNS, ("5", "10"), ("0", "1"), conditions, groups):
        measure = Mean(column=column, centre=centre, lower="0", upper=upper, grain_exponent=0, sum_share="0.5")
        cut = None if rows is None or group is None else 1
        yield Query(measure=measure, where=where, group_by=group, rows_per_unit=rows, groups_per_unit=cut)


@pytest.mark.parametrize("schema", SCHEMAS, ids=["rows", "persons"])
def test_sums_that_share_a_count_stand_in_no_common_class(schema: DatasetSchema) -> None:
    """What is paid once for two means could only make a bundle of packs cheaper where their sums are compared."""
    of_count: dict[str, dict[str, frozenset[str]]] = {}
    for query in means(None if schema.unit is None else 2):
        total, count = (part.query for part in components(canonicalise(query, schema)))
        bases = frozenset(part.base for part in parts_of(total))
        of_count.setdefault(identity(count), {})[identity(total)] = bases
    shared = [sums for sums in of_count.values() if len(sums) > 1]
    assert len(shared) > 10
    assert any(bases for sums in shared for bases in sums.values())
    for sums in shared:
        for one, other in combinations(sums.values(), 2):
            assert one.isdisjoint(other)


SETS = {"a": ("a",), "b": ("b",), "ab": ("a", "b")}


def shelf(
    prices: dict[tuple[str, str], int], variances: dict[str, float], alone: str
) -> tuple[list[Offer], list[Pack]]:
    """Means over a, over b and over both, one tier each; the counts named in `alone` are sold by themselves too."""
    offers, packs = [], []
    for name, keys in SETS.items():
        where = In(column="city", values=keys)
        measures = {"sum": Sum(column="amount", lower="0", upper="5", grain_exponent=0), "count": Count(of="rows")}
        for kind, measure in measures.items():
            query = canonicalise(Query(measure=measure, where=where), SCHEMAS[0])
            price = prices[kind, name] if kind == "count" and name in alone.split("+") else None
            tier = (f"{kind} {name} @", variances[name], price)
            offers.append(Offer("d", "s", f"{kind} {name}", f"{kind} {name}", query, "EUR", (tier,)))
        held = tuple((f"{kind} {name}", f"{kind} {name} @") for kind in measures)
        packs.append(Pack(f"mean {name}", sum(prices[kind, name] for kind in measures), held))
    return offers, packs


def cheapest(
    prices: dict[tuple[str, str], int], variances: dict[str, float], wanted: tuple[str, ...], name: str
) -> int | None:
    """What the cheapest set of chains costs, without the wanted ones themselves, that gives what is wanted of `name`.

    A sum is held with its count; everything else about the order of purchases is gone: each chain brings its book.
    """
    rows = {"a": (1, 0), "b": (0, 1), "ab": (1, 1)}
    chains = [(kind, each) for kind in ("sum", "count") for each in SETS]
    best = None
    for size in range(len(chains) + 1):
        for held in combinations(chains, size):
            if any(kind == "sum" and ("count", each) not in held for kind, each in held):
                continue
            if ("sum", name) in held:
                continue
            cost = sum(prices[each] for each in held)
            reached = all(
                (
                    least := least_variance(
                        [((rows[each],), variances[each]) for k, each in held if k == kind], rows[name]
                    )
                )
                is not None
                and least <= variances[name]
                for kind in wanted
            )
            if reached and (best is None or cost < best):
                best = cost
    return best


def test_a_mean_called_safe_is_undercut_by_no_set_of_purchases_and_one_called_arbitrage_is() -> None:
    """Every shelf of three means with prices from a few: the verdict against every set, each chain paid for once."""
    seen = set()
    for total, alone, below in product((2.0, 3.0), ("", "a+b+ab"), (1,)):
        for sums, counts, both in product((1, 2), (1, 3), ((1, 1), (3, 1), (4, 2), (3, 6))):
            prices = {("sum", "a"): sums, ("sum", "b"): below, ("count", "a"): counts, ("count", "b"): 1}
            prices |= {("sum", "ab"): both[0], ("count", "ab"): both[1]}
            variances = {"a": 1.0, "b": 1.0, "ab": total}
            offers, packs = shelf(prices, variances, alone)
            (pack,) = (each for each in packs if each.title == "mean ab")
            others = [each for each in packs if each is not pack]
            ruling = judge_pack(pack, offers, packs=others)
            if ruling.verdict == "arbitrage" and ruling.good != "mean ab":
                continue  # the mean undercuts another: that one is refused
            truth = cheapest(prices, variances, ("sum", "count"), "ab")
            cheaper = truth is not None and truth < pack.price
            assert ruling.verdict != ("safe" if cheaper else "arbitrage"), (prices, variances, alone, ruling, truth)
            seen.add(ruling.verdict)
            if "ab" in alone:
                count = next(offer for offer in offers if offer.chain == "count ab")
                single = judge(count, [each for each in offers if each is not count], packs=packs)
                if single.good == "count ab @" or single.verdict == "safe":
                    truth = cheapest({**prices, ("count", "ab"): 99}, variances, ("count",), "ab")
                    whole = min(each for each in (truth, pack.price) if each is not None)
                    assert single.verdict == ("arbitrage" if whole < prices["count", "ab"] else "safe")
    assert seen == {"safe", "arbitrage", "uncertified"}


def identity(query: CanonicalQuery) -> str:
    return fingerprint(query.fingerprint_document())
