"""Bundles: what is paid is never below the cheapest goods that give what is held, nor above its list price."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import combinations, product

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pricing.book import PriceBook, TierPrice
from pricing.bundles import BundleQuote, WantedPart, check_bundle_price, quote_bundle
from pricing.errors import ArbitrageError, CurrencyMismatchError, InvalidPriceError, InvalidProductError
from pricing.invoices import lines_of
from pricing.quote import Holding, Quote, quote


@dataclass(frozen=True)
class Pack:
    """A bundle: rank by chain, and its price."""

    ranks: Mapping[int, int]
    price: int


@dataclass(frozen=True)
class Shop:
    """Prices by chain, most accurate first, and bundles."""

    books: tuple[tuple[int, ...], ...]
    packs: tuple[Pack, ...] = ()

    def book(self, chain: int) -> PriceBook:
        prices = enumerate(self.books[chain], start=1)
        return PriceBook(f"c{chain}", 1, "EUR", tuple(TierPrice(f"law {rank}", price) for rank, price in prices))

    def list_price(self, held: Sequence[int | None]) -> int:
        return sum(self.books[chain][rank - 1] for chain, rank in enumerate(held) if rank is not None)

    def cheapest(self, held: Sequence[int | None]) -> int:
        """The least that any set of goods costs that gives all of this: every set of bundles, the rest alone."""
        costs = []
        for count in range(len(self.packs) + 1):
            for taken in combinations(self.packs, count):
                rest = [
                    None if any(pack.ranks.get(chain, 99) <= (rank or 0) for pack in taken) else rank
                    for chain, rank in enumerate(held)
                ]
                costs.append(sum(pack.price for pack in taken) + self.list_price(rest))
        return min(costs)


@dataclass
class Account:
    """A buyer as the market's ledgers know one: ranks held, payments, loans by sale, credits."""

    ranks: list[int | None]
    basis: list[int]
    paid: int = 0
    credited: int = 0
    lent: list[int] = field(default_factory=list)
    members: list[frozenset[int]] = field(default_factory=list)
    orders: list[list[int]] = field(default_factory=list)  # chain and what is left of what was paid

    def copy(self) -> "Account":
        orders = [list(order) for order in self.orders]
        lists = (list(self.ranks), list(self.basis), self.paid, self.credited, list(self.lent), list(self.members))
        return Account(*lists, orders)

    def key(self) -> tuple[object, ...]:
        loans = sorted((lent, tuple(sorted(on))) for lent, on in zip(self.lent, self.members, strict=True) if lent)
        return (*self.ranks, *self.basis, self.paid, self.credited, *loans)

    def holding(self, chain: int) -> Holding:
        for sale, members in enumerate(self.members):
            if chain in members and self.lent[sale]:
                return Holding(self.ranks[chain], max(0, self.basis[chain]), self.lent[sale], str(sale))
        return Holding(self.ranks[chain], max(0, self.basis[chain]))

    def take(self, chain: int, holding: Holding, sold: Quote) -> None:
        self.basis[chain] += sold.amount + sold.discount - sold.given_back
        self.paid += sold.amount
        self.orders.append([chain, sold.amount])
        held = self.ranks[chain]
        if held is None or sold.rank < held:
            self.ranks[chain] = sold.rank
            if holding.lender is not None:
                sale = int(holding.lender)
                self.lent[sale] -= sold.given_back
                self.members[sale] -= {chain}

    def buy(self, shop: Shop, chain: int, rank: int, reserve: int = 0) -> Quote:
        holding = self.holding(chain)
        sold = quote(shop.book(chain), f"law {rank}", holding, reserve=reserve)
        self.take(chain, holding, sold)
        return sold

    def buy_pack(self, shop: Shop, pack: Pack, reserve: int = 0) -> BundleQuote:
        chains = sorted(pack.ranks)
        wanted = [
            WantedPart(shop.book(chain), f"law {pack.ranks[chain]}", self.holding(chain), reserve) for chain in chains
        ]
        sold = quote_bundle(pack.price, wanted)
        for chain, part, want in zip(chains, sold.parts, wanted, strict=True):
            self.take(chain, want.holding, part)
        self.lent.append(sold.discount)
        self.members.append(frozenset(chain for chain, lends in zip(chains, sold.lends, strict=True) if lends))
        return sold

    def credit(self, order: int, amount: int) -> None:
        self.orders[order][1] -= amount
        self.basis[self.orders[order][0]] -= amount
        self.credited += amount


def account(shop: Shop) -> Account:
    return Account([None] * len(shop.books), [0] * len(shop.books))


def check(shop: Shop, mine: Account) -> None:
    assert mine.paid >= shop.cheapest(mine.ranks)
    assert mine.paid - mine.credited <= shop.list_price(mine.ranks)


def every_step(shop: Shop, mine: Account) -> Iterator[Account]:
    """Everything that can be bought next, checked by itself."""
    for chain, prices in enumerate(shop.books):
        for rank in range(1, len(prices) + 1):
            held = mine.ranks[chain]
            if held is None or rank < held:
                after = mine.copy()
                assert 0 <= after.buy(shop, chain, rank).amount <= prices[rank - 1]
                yield after
    for pack in shop.packs:
        after = mine.copy()
        one_by_one = mine.copy()
        alone = sum(one_by_one.buy(shop, chain, pack.ranks[chain]).amount for chain in sorted(pack.ranks))
        sold = after.buy_pack(shop, pack)
        assert 0 <= sold.amount <= min(pack.price, alone)
        assert sold.amount + sold.discount == alone
        assert all(line.amount >= 0 for part in sold.parts for line in lines_of(part)[:1])
        assert all(part.amount == sum(line.amount for line in lines_of(part)) for part in sold.parts)
        if after.ranks != mine.ranks:
            yield after


def walk(shop: Shop) -> int:
    """Go through every sequence of purchases; return how many different accounts there are."""
    seen: set[tuple[object, ...]] = set()
    pending = [account(shop)]
    while pending:
        mine = pending.pop()
        check(shop, mine)
        for after in every_step(shop, mine):
            if after.key() not in seen:
                seen.add(after.key())
                pending.append(after)
    return len(seen)


def packs_of(books: Sequence[Sequence[int]], prices: Sequence[int] | None = None) -> Iterator[Pack]:
    """Every bundle that may be sold beside these books (at every price, or those prices that may be)."""
    for ranks in product(*(range(len(book) + 1) for book in books)):
        chosen = {chain: rank for chain, rank in enumerate(ranks) if rank}
        if len(chosen) >= 2:
            listed = [books[chain][rank - 1] for chain, rank in chosen.items()]
            for price in range(max(listed), sum(listed) + 1):
                if prices is None or price in prices:
                    yield Pack(chosen, price)


def books_up_to(limit: int, tiers: int) -> list[tuple[int, ...]]:
    return [book for book in product(range(limit + 1), repeat=tiers) if book == tuple(sorted(book)[::-1])]


def test_every_sequence_over_two_chains_and_any_one_bundle():
    walked = 0
    for books in product(books_up_to(4, 2), repeat=2):
        for pack in packs_of(books):
            walked += walk(Shop(books, (pack,)))
    assert walked > 15_000


def test_every_sequence_over_two_chains_and_any_two_bundles():
    walked = 0
    for books in (((5, 2), (4, 1)), ((7, 3), (3, 3)), ((6, 0), (6, 5)), ((9, 4), (2, 1))):
        for packs in combinations(packs_of(books), 2):
            walked += walk(Shop(books, packs))
    assert walked > 3_000


def test_every_sequence_over_three_chains_and_three_overlapping_bundles():
    walked = 0
    for books in (((5, 2), (4, 3), (6, 1)), ((8, 3), (3,), (2, 2)), ((4,), (4,), (4,))):
        middle = [pack for pack in packs_of(books) if pack.price == max(_listed(books, pack)) + 1][:9]
        deep = [pack for pack in packs_of(books) if pack.price == max(_listed(books, pack))][-9:]
        for packs in combinations([*middle[::2], *deep[::2]], 3):
            walked += walk(Shop(books, packs))
    assert walked > 8_000


def _listed(books: Sequence[Sequence[int]], pack: Pack) -> list[int]:
    return [books[chain][rank - 1] for chain, rank in pack.ranks.items()]


@st.composite
def shops(draw: st.DrawFn) -> Shop:
    book = st.lists(st.integers(0, 60), min_size=1, max_size=3).map(lambda prices: tuple(sorted(prices)[::-1]))
    books = tuple(draw(st.lists(book, min_size=2, max_size=4)))
    packs = []
    for _ in range(draw(st.integers(1, 4))):
        chains = draw(st.lists(st.sampled_from(range(len(books))), min_size=2, unique=True))
        ranks = {chain: draw(st.integers(1, len(books[chain]))) for chain in chains}
        listed = [books[chain][rank - 1] for chain, rank in ranks.items()]
        packs.append(Pack(ranks, draw(st.integers(max(listed), sum(listed)))))
    return Shop(books, tuple(packs))


@settings(deadline=None, max_examples=400)
@given(shops(), st.data())
def test_credits_between_purchases_give_no_more_than_they_say(shop, data):
    """With credits anywhere: what was paid before credits is still at least the price of what is held."""
    mine = account(shop)
    for _ in range(data.draw(st.integers(1, 12))):
        move = data.draw(st.sampled_from(["single", "pack", "credit"]))
        if move == "single":
            chain = data.draw(st.sampled_from(range(len(shop.books))))
            rank = data.draw(st.integers(1, len(shop.books[chain])))
            assert mine.buy(shop, chain, rank).amount <= shop.books[chain][rank - 1]
        elif move == "pack":
            pack = data.draw(st.sampled_from(shop.packs))
            assert mine.buy_pack(shop, pack).amount <= pack.price
        else:
            left = [number for number, order in enumerate(mine.orders) if order[1] > 0]
            if left:
                order = data.draw(st.sampled_from(left))
                mine.credit(order, data.draw(st.integers(1, mine.orders[order][1])))
        check(shop, mine)


@settings(deadline=None, max_examples=200)
@given(shops(), st.data())
def test_reserves_only_add(shop, data):
    mine = account(shop)
    for _ in range(data.draw(st.integers(1, 8))):
        reserve = data.draw(st.integers(0, 40))
        if data.draw(st.booleans()):
            chain = data.draw(st.sampled_from(range(len(shop.books))))
            mine.buy(shop, chain, data.draw(st.integers(1, len(shop.books[chain]))), reserve)
        else:
            before = list(mine.ranks)
            pack = data.draw(st.sampled_from(shop.packs))
            sold = mine.buy_pack(shop, pack, reserve)
            for chain, part in zip(sorted(pack.ranks), sold.parts, strict=True):
                held = before[chain]
                owned = held is not None and held <= pack.ranks[chain]
                assert part.amount >= (0 if owned else reserve)
                assert part.amount == sum(line.amount for line in lines_of(part))
        assert mine.paid >= shop.cheapest(mine.ranks)


@settings(deadline=None, max_examples=200)
@given(st.lists(shops(), min_size=2, max_size=4), st.data())
def test_prices_that_change_never_make_an_order_negative_or_dearer_than_its_list(changing, data):
    width = min(len(shop.books) for shop in changing)
    mine = account(replace(changing[0], books=changing[0].books[:width]))
    for shop in changing:
        for _ in range(3):
            chain = data.draw(st.sampled_from(range(width)))
            rank = data.draw(st.integers(1, len(shop.books[chain])))
            assert 0 <= mine.buy(shop, chain, rank).amount <= shop.books[chain][rank - 1]
            packs = [pack for pack in shop.packs if max(pack.ranks) < width]
            if packs:
                pack = data.draw(st.sampled_from(packs))
                assert 0 <= mine.buy_pack(shop, pack).amount <= pack.price


SHOP = Shop(((300, 100), (200, 80)), (Pack({0: 2, 1: 2}, 120),))


def test_a_bundle_bought_fresh_costs_its_price_and_is_shared_by_largest_remainder():
    mine = account(SHOP)
    sold = mine.buy_pack(SHOP, SHOP.packs[0])
    assert [part.amount for part in sold.parts] == [67, 53]  # 60 off, shared 100 : 80
    assert sold.discount == 60
    assert sold.lends == (True, True)


def test_an_upgrade_breaks_the_bundle_and_gives_its_whole_discount_back_once():
    mine = account(SHOP)
    mine.buy_pack(SHOP, SHOP.packs[0])
    first = mine.buy(SHOP, 0, 1)
    assert (first.credit, first.given_back, first.amount) == (40, 60, 260)
    assert mine.paid == 300 + 80
    second = mine.buy(SHOP, 1, 1)
    assert (second.credit, second.given_back, second.amount) == (80, 0, 120)
    assert mine.paid == 300 + 200


def test_a_discount_larger_than_the_upgraded_part_is_given_back_in_two_steps():
    shop = Shop(((300, 50), (400, 100)), (Pack({0: 2, 1: 2}, 100),))
    mine = account(shop)
    mine.buy_pack(shop, shop.packs[0])
    mine.buy(shop, 0, 1)
    assert (
        mine.paid == 100 + 300
    )  # as if the bundle and the better tier were bought: no more was due than its list price
    mine.buy(shop, 1, 1)
    assert mine.paid == 700


def test_who_holds_a_part_completes_the_bundle():
    mine = account(SHOP)
    mine.buy(SHOP, 0, 2)
    assert mine.buy_pack(SHOP, SHOP.packs[0]).amount == 20
    assert mine.paid == 120


def test_who_holds_better_than_a_part_pays_list_prices_for_the_rest():
    mine = account(SHOP)
    mine.buy(SHOP, 0, 1)
    sold = mine.buy_pack(SHOP, SHOP.packs[0])
    assert [part.amount for part in sold.parts] == [0, 80]
    assert sold.lends == (False, False)


def test_one_tier_is_not_discounted_in_two_bundles():
    shop = Shop(((100,), (80,), (60,)), (Pack({0: 1, 1: 1}, 120), Pack({0: 1, 2: 1}, 110)))
    mine = account(shop)
    mine.buy_pack(shop, shop.packs[0])
    assert mine.buy_pack(shop, shop.packs[1]).amount == 60
    assert mine.paid == 180


def test_what_was_credited_does_not_count_towards_a_bundle():
    mine = account(SHOP)
    mine.buy(SHOP, 0, 2)
    mine.credit(0, 100)
    assert mine.buy_pack(SHOP, SHOP.packs[0]).amount == 80


def test_no_rule_that_looks_at_one_chain_at_a_time_can_be_both_safe_and_fair():
    """Why a loan is kept by sale: credits x, y for the parts of a bundle would have to be two things at once."""
    (a, b), (top_a, top_b), price = (100, 80), (300, 200), 120
    for x, y in product(range(a + 1), range(b + 1)):
        shop = Shop(((top_a, a), (top_b, b)), (Pack({0: 2, 1: 2}, price),))
        safe_a = price + top_a - x >= shop.cheapest([1, 2])
        safe_b = price + top_b - y >= shop.cheapest([2, 1])
        fair = price + top_a - x + top_b - y <= shop.list_price([1, 1])
        assert not (safe_a and safe_b and fair)


@pytest.mark.parametrize(
    ("price", "goods", "alone", "target", "bundle"),
    [
        (181, {"a": 100, "b": 80}, 180, "both", ("a", "b")),
        (99, {"a": 100, "b": 80}, 180, "a", ("both",)),
        (150, {"a": 100, "lower a": 80}, 100, "both", ("a", "lower a")),
    ],
)
def test_a_bundle_dearer_than_its_parts_or_cheaper_than_one_is_refused_by_name(price, goods, alone, target, bundle):
    with pytest.raises(ArbitrageError) as refused:
        check_bundle_price("both", price, goods, alone)
    assert (refused.value.target, refused.value.bundle) == (target, bundle)


def test_bad_bundles_are_refused():
    with pytest.raises(InvalidProductError, match="at least two"):
        check_bundle_price("one", 5, {"a": 5}, 5)
    with pytest.raises(InvalidPriceError):
        check_bundle_price("both", -1, {"a": 5, "b": 5}, 10)
    with pytest.raises(InvalidProductError, match="at least one"):
        quote_bundle(5, [])
    with pytest.raises(InvalidProductError, match="each chain once"):
        quote_bundle(5, [WantedPart(SHOP.book(0), "law 1"), WantedPart(SHOP.book(0), "law 2")])
    with pytest.raises(InvalidPriceError):
        quote_bundle(-5, [WantedPart(SHOP.book(0), "law 1")])
    other = PriceBook("c9", 1, "USD", (TierPrice("law 1", 5),))
    with pytest.raises(CurrencyMismatchError):
        quote_bundle(5, [WantedPart(SHOP.book(0), "law 1"), WantedPart(other, "law 1")])
    with pytest.raises(InvalidPriceError, match="lender"):
        Holding(1, 5, lent=2)
