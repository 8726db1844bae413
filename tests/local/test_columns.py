"""Kernels: every word of small ones leads to the law, columns repeat their definitions, and reports own their words."""

import hashlib
from collections.abc import Iterator
from fractions import Fraction
from itertools import pairwise
from math import comb

import numpy as np
import pytest
from flint import arb
from scipy import stats

from tests.sampling.tree import Script, law_of
from tiers.budget import Ladder
from tiers.errors import InvalidParameterError
from tiers.local.channel import reports, step
from tiers.local.columns import large
from tiers.local.columns.chain import SubsetChain, check_sets, encode_sets, report_key
from tiers.local.columns.coins import flip_words
from tiers.local.columns.counts import covered_by_hash, covered_by_sets, covered_by_values
from tiers.local.columns.keyed import Scratch
from tiers.local.columns.large import LargeStep, singletons
from tiers.local.columns.sizes import SizeFix, bits_of, column_of
from tiers.local.columns.small import SmallStep
from tiers.local.columns.splits import Widths, split_exactly
from tiers.local.columns.uniform import Room, UniformSets
from tiers.local.columns.values import ValueStep
from tiers.local.local_hash import LocalHash, bucket_of, buckets_of
from tiers.local.planning import plan_subset
from tiers.local.randomized_response import RandomizedResponse
from tiers.local.signal import Signal, keep
from tiers.local.subset import Subset
from tiers.real import Real, exact
from tiers.sampling.words import KeyedWords

ALPHA = 1e-9


def key(label: str) -> bytes:
    return hashlib.sha256(label.encode()).digest()


def s(text: str) -> Signal:
    return Signal.rational(Fraction(text))


def assert_row(decided: dict[int, Fraction], undecided: Fraction, chances: dict[int, Fraction]) -> None:
    assert undecided < Fraction(1, 4)
    assert set(decided) <= set(chances)
    for outcome, chance in chances.items():
        mass = decided.get(outcome, Fraction(0))
        assert mass <= chance <= mass + undecided


@pytest.mark.parametrize(
    ("d", "a", "b", "upper", "lower"),
    [(5, 1, 2, "3/4", "1/3"), (5, 2, 3, "2/3", "2/5"), (9, 2, 2, "1/2", "1/3"), (4, 1, 3, "1/2", "1/2")],
)
def test_every_word_of_a_small_step_leads_to_the_law(d: int, a: int, b: int, upper: str, lower: str) -> None:
    above, below = Subset(d, a, s(upper)), Subset(d, b, s(lower))
    kernel = SmallStep(d, a, b, keep(above.signal, below.signal), width=12)
    moves = step(above, below)
    for at in (0, len(moves) // 2, len(moves) - 1):
        report = reports(above)[at]
        decided, undecided = law_of(
            lambda script, at=report: kernel.one(script.group(0, 1)[0], script.tail(0), at),
            12,
            Fraction(1, 2**12),
        )
        assert_row(decided, undecided, dict(zip(reports(below), moves[at], strict=True)))


@pytest.mark.parametrize(("law", "values"), [(LocalHash(3, s("2/7")), 6), (RandomizedResponse(5, s("1/3")), 5)])
def test_every_word_of_a_value_step_leads_to_the_law(law: LocalHash | RandomizedResponse, values: int) -> None:
    below = law.coverage.denominator
    kernel = ValueStep(below, law.signal.ball, width=12)
    for value in range(values):
        decided, undecided = law_of(
            lambda script, at=value: kernel.one(script.group(0, 1)[0], script.tail(0), at),
            12,
            Fraction(1, 2**12),
        )
        assert_row(decided, undecided, {w: law.probability(w, value % below) for w in range(below)})


def test_every_word_of_a_split_leads_to_the_law() -> None:
    for left, right, size in ((3, 2, 2), (2, 5, 4), (4, 4, 1), (1, 1, 2), (5, 1, 5)):
        decided, undecided = law_of(
            lambda script, case=(left, right, size): split_exactly(
                *case, script.group(0, 1)[0], 6, script.tail(0), script.bits
            ),
            6,
            Fraction(1, 2**12),
        )
        total = comb(left + right, size)
        law = {a: Fraction(comb(left, a) * comb(right, size - a), total) for a in range(size + 1)}
        assert set(decided) <= {a for a, chance in law.items() if chance}
        assert all(decided.get(a, 0) <= chance <= decided.get(a, 0) + undecided for a, chance in law.items())
        assert undecided <= Fraction(size, 2**12)


SMALL = Widths(leaf=3, word=4, split_cell=2, leaf_cell=2)


@pytest.mark.parametrize(("d", "size"), [(4, 2), (5, 3), (6, 2), (6, 3), (6, 5)])
def test_every_word_of_a_tree_leads_to_a_uniform_set(d: int, size: int) -> None:
    tree = UniformSets(d, (size,), SMALL)

    def draw(script: Script) -> int:
        words = script.tail(0)  # a tree's own words come first, and then its further ones
        return tree.one(words, words, size)

    decided, undecided = law_of(draw, 4, Fraction(1, 2**19))
    assert undecided < Fraction(1, 100)
    assert len(decided) == comb(d, size)
    assert all(report.bit_count() == size and report >> d == 0 for report in decided)
    assert all(mass <= Fraction(1, comb(d, size)) <= mass + undecided for mass in decided.values())


@pytest.mark.parametrize(("d", "sizes"), [(7, (3, 3)), (7, (1, 6)), (8, (2, 4))])
def test_columns_repeat_the_definition_on_every_word_of_a_tree(d: int, sizes: tuple[int, int]) -> None:
    """The two splits and two leaves of three take every word; the last leaf's own varies along."""
    tree, count = UniformSets(d, sizes, SMALL), 2**16
    rows = np.arange(count)
    slots = [(rows >> 4 * place & 15).astype(np.uint32) for place in range(4)]
    slots.append((rows * 7 % 16).astype(np.uint32))
    wanted, found = np.resize(np.array(sizes, np.uint16), count), np.zeros(count, np.int64)
    tails: dict[int, Iterator[int]] = {}

    def tail(row: int) -> Iterator[int]:
        return (int(byte) & 15 for byte in hashlib.sha256(row.to_bytes(4, "big")).digest())

    def put(leaf: int, sets: np.ndarray) -> None:
        found[:] |= sets.astype(np.int64) << 3 * leaf

    tree.fill(lambda slot: slots[slot], lambda row: tails.setdefault(row, tail(row)), wanted, put, Room(tree, count))
    assert 0 < len(tails) < count
    for row in range(count):
        assert tree.one(iter([int(slot[row]) for slot in slots]), tail(row), int(wanted[row])) == found[row]


def test_a_size_that_no_table_has_is_split_all_the_same() -> None:
    tree, found = UniformSets(100, (7, 9)), np.zeros((7, 42), np.uint16)
    words = np.frombuffer(KeyedWords(key("sizes")).read(4 * 42 * tree.slots), np.uint32).reshape(tree.slots, 42)
    sizes = np.array([0, 2, 8, 50, 99, 100] * 7, np.uint16)  # 8 lies between the tables' rows
    tree.fill(lambda slot: words[slot], lambda row: iter([]), sizes, found.__setitem__, Room(tree, 42))
    assert (np.bitwise_count(found).sum(axis=0) == sizes).all()
    assert not (found[6] >> 4).any()
    for row in range(42):
        one = tree.one(iter(words[:, row].tolist()), iter([]), int(sizes[row]))
        assert one == sum(int(part) << 16 * leaf for leaf, part in enumerate(found[:, row]))


@pytest.mark.parametrize("d", [17, 128, 1000, 4096])
def test_every_value_has_as_many_positions(d: int) -> None:
    """Those of the short lap name none: the reports that met one go on to a position of the last value."""
    fix, positions = SizeFix(d, 1), np.arange(2**16, dtype=np.uint16)
    sets, kept = np.zeros((2, (d + 63) // 64, 2**16), np.uint64)
    last = 2**16 - 1
    fix.columns(sets, kept, 0, np.ones(2**16, np.int16), lambda _: positions, lambda _: iter([last]), 1)
    hits = covered_by_sets(d, sets)
    assert hits.sum() == 2**16
    assert (hits[:-1] == 2**16 // d).all()
    for position in range(0, 2**16, 997):
        assert column_of(fix.right(0, 0, iter([position, last])), len(sets)).tolist() == sets[:, position].tolist()


@pytest.mark.parametrize(("d", "held"), [(70, 5), (200, 21), (1024, 300)])
def test_every_member_that_was_not_kept_is_dropped_as_often(d: int, held: int) -> None:
    """Every position, of one set with one member too many; the short lap goes on to the position of the last one."""
    members = sorted(int(v) for v in np.random.default_rng(d).permutation(d)[: held + 3])
    stays = sum(1 << v for v in members[::2][:3])
    found = sum(1 << v for v in members)
    positions, last, width = np.arange(2**16, dtype=np.uint16), 2**16 - 1, (d + 63) // 64
    sets, kept = (np.repeat(column_of(bits, width)[:, None], 2**16, axis=1) for bits in (found, stays))
    fix = SizeFix(d, held + 2)
    fix.columns(sets, kept, 0, np.full(2**16, -1, np.int16), lambda _: positions, lambda _: iter([last]), 1)
    gone = 2**16 - covered_by_sets(d, sets)
    free = [v for v in members if not stays >> v & 1]
    assert len(free) == held
    assert [int(gone[v]) for v in free[:-1]] == [2**16 // held] * (held - 1)
    assert not any(gone[v] for v in members if v not in free)
    assert gone[free[-1]] == 2**16 // held + 2**16 % held
    for position in range(0, 2**16, 997):
        one = fix.right(found, stays, iter([position, last]))
        assert column_of(one, width).tolist() == sets[:, position].tolist()


class Narrow:
    """Real words with many ties and short laps: the low bits of every 32-bit lane come from few values."""

    bits = 64

    def __init__(self, label: str, lanes: list[int]) -> None:
        self.words, self.lanes = KeyedWords(key(label)), np.array(lanes, np.uint32)

    def read_into(self, start: int, count: int, buffer: bytearray) -> None:
        count += -count % 4  # positions are half a lane
        self.words.read_into(start, count, buffer)
        lanes = np.frombuffer(buffer, np.uint32, count // 4)
        mixed = np.where(lanes % 3 == 0, self.lanes[lanes // 3 % len(self.lanes)], lanes)
        buffer[: count // 4 * 4] = mixed.astype(np.uint32).tobytes()

    def tail(self, element: int) -> Iterator[int]:
        return self.words.tail(element)

    def own(self, count: int) -> np.ndarray:
        """The first words of stream 0: each report's own."""
        raw = bytearray(8 * count + 64)
        for at in range(0, 8 * count, 2**18):
            piece = bytearray(2**18 + 64)
            self.read_into(at, 2**18, piece)
            raw[at : at + 2**18] = piece[: min(2**18, len(raw) - at)]
        return np.frombuffer(raw, np.uint64, count)


@pytest.mark.parametrize(("d", "a", "b"), [(16, 1, 4), (16, 3, 7), (8, 1, 2), (7, 2, 5), (2, 1, 1)])
def test_small_columns_repeat_the_definition(d: int, a: int, b: int) -> None:
    kernel = SmallStep(d, a, b, Signal.paying(Fraction(1), coverage=Fraction(1, 3)).ball)
    words = Narrow(f"{d}{a}{b}", [kernel.edge, kernel.edge - 1, 0, 1, 2**32 - 1])
    above = np.resize(np.array(reports(Subset(d, a, s("1/2"))), np.uint16), 40_000)
    found = kernel.apply(words, 3, above)
    assert (np.bitwise_count(found) == b).all()
    own = words.own(40_003)
    for at in [*range(600), *range(16_380, 16_390), *range(39_900, 40_000)]:
        assert kernel.one(int(own[3 + at]), words.tail(3 + at), int(above[at])) == found[at]


@pytest.mark.parametrize("kept", [Signal.paying(Fraction(1), coverage=Fraction(1, 3)).ball, lambda: arb(1)])
@pytest.mark.parametrize(("above_values", "below"), [(6, 3), (5, 5), (64, 2), (512, 512), (4096, 2048)])
def test_value_columns_repeat_the_definition(above_values: int, below: int, kept: Real) -> None:
    kernel = ValueStep(below, kept)
    words = Narrow(f"{above_values}/{below}", [kernel.edge % 2**32, (kernel.edge - 1) % 2**32, 0, 1, 2**32 - 1])
    above = np.resize(np.arange(above_values, dtype=np.uint16), 40_000)
    found, own = kernel.apply(words, 3, above), words.own(40_003)
    for at in [*range(600), *range(16_380, 16_390), *range(39_900, 40_000)]:
        assert kernel.one(int(own[3 + at]), words.tail(3 + at), int(above[at])) == found[at]


@pytest.mark.parametrize(
    ("d", "a", "b"), [(17, 1, 3), (40, 4, 9), (128, 15, 34), (100, 1, 99), (65, 20, 20), (300, 30, 90)]
)
def test_large_columns_repeat_the_definition(d: int, a: int, b: int) -> None:
    kernel = LargeStep(d, a, b, Signal.paying(Fraction(1), coverage=Fraction(1, 3)).ball)
    edges = [0, 2**32 - 1, kernel.edge]
    edges += [int(bound) % 2**32 for split in kernel.sets._splits.values() for bound in split.keys[:4]]
    edges += [int(edge) - less for edge in kernel.sets._leaves[0].edges[2:9] for less in (0, 1)]
    words, count, first = Narrow(f"{d}{a}{b}", edges), 3000, kernel.block - 2765
    top = LargeStep(d, 1, a, Signal.rational(Fraction(1, 2)).ball) if a > 1 else None
    above = singletons(d, np.arange(count) % d)
    above = top.apply(KeyedWords(key("top")), 0, above) if top else above
    found = kernel.apply(words, first, above)  # over the border of two blocks
    assert (np.bitwise_count(found).sum(axis=0) == b).all()
    assert not d % 64 or not (found[-1] >> np.uint64(d % 64)).any()
    alone = kernel.apply(words, first + 2760, above[:, 2760:2780])
    assert (alone == found[:, 2760:2780]).all()
    for at in [*range(400), *range(2740, count)]:
        block, column = divmod(first + at, kernel.block)
        part = large._Part(kernel, words, Scratch(4 * 16), block, column, 1)
        one = kernel.one(part.own(0), words.tail(first + at), bits_of(above[:, at]))
        assert one == bits_of(found[:, at])


@pytest.mark.parametrize(("upper", "lower", "right"), [("4/5", "1/2", True), ("4/5", "21/40", False)])
def test_the_law_of_large_columns(upper: str, lower: str, right: bool) -> None:
    """All sets of 2 values, over the reports that hold value 3 above: the right law accepted, a near-miss rejected."""
    d, n = 18, 300_000
    above, below, drawn = Subset(d, 1, s(upper)), Subset(d, 2, s("1/2")), Subset(d, 2, s(lower))
    kernel = LargeStep(d, 1, 2, keep(above.signal, drawn.signal))
    sets = kernel.apply(KeyedWords(key("law")), 0, singletons(d, np.full(n, 3)))[0]
    seen, counts = np.unique(sets, return_counts=True)
    assert len(seen) == comb(d, 2)
    wanted = dict(zip(reports(below), step(above, below)[3], strict=True))
    p = stats.chisquare(counts, [n * float(wanted[int(report)]) for report in seen]).pvalue
    assert (p > ALPHA) == right


def test_the_law_of_uniform_columns_with_two_sizes() -> None:
    n, d = 200_000, 20
    tree, words = UniformSets(d, (1, 2)), KeyedWords(key("tree"))
    out, raw = np.zeros(n, np.uint32), words.read(4 * n * tree.slots)
    sizes = (np.arange(n) % 2 + 1).astype(np.uint16)

    def put(leaf: int, sets: np.ndarray) -> None:
        out[:] |= sets.astype(np.uint32) << np.uint32(16 * leaf)

    lanes = np.frombuffer(raw, np.uint32).reshape(tree.slots, n)
    tree.fill(lambda slot: lanes[slot], words.tail, sizes, put, Room(tree, n))
    for size in (1, 2):
        counts = np.unique(out[sizes == size], return_counts=True)[1]
        assert len(counts) == comb(d, size)
        assert stats.chisquare(counts).pvalue > ALPHA


FLIPS: dict[str, Real] = {
    "e": Signal.paying(Fraction(1), coverage=Fraction(1, 2)).ball,
    "third": lambda: exact(Fraction(1, 3)),
    "half": lambda: exact(Fraction(1, 2)),
    "rare": lambda: exact(Fraction(1, 10**6)),
}


@pytest.mark.parametrize("name", FLIPS)
def test_every_coin_of_a_word_is_its_own_real_against_the_probability(name: str) -> None:
    from tiers.local.columns import coins
    from tiers.real import floor_scaled

    words, probability = KeyedWords(key(name)), FLIPS[name]
    found = flip_words(words, 8190, 4, probability, digits=5)  # few digits: many coins tie
    for at in range(4):
        block, column = divmod(8190 + at, coins._CHUNK)
        run = bytearray(128)
        digits = []
        for digit in range(5):
            start = ((block * 5 + digit) * coins._CHUNK + column) * 8
            words.read_into(start - start % 64, 64, run)
            digits.append(int.from_bytes(run[start % 64 : start % 64 + 8], "little"))
        tail = words.tail(8190 + at)
        for bit in range(64):
            real = sum((digit >> bit & 1) << (4 - place) for place, digit in enumerate(digits))
            length, bound = 5, floor_scaled(probability, 5)
            while real == bound:
                real, length = real << 64 | next(tail), length + 64
                bound = floor_scaled(probability, length)
            assert (real < bound) == (int(found[at]) >> bit & 1)
    assert (flip_words(words, 0, 9000, probability, digits=5)[8190:8194] == found).all()


def test_covers_are_counted_exactly() -> None:
    rng = np.frombuffer(KeyedWords(key("counts")).read(8 * 3 * 5000), np.uint64)
    for count in (0, 1, 2, 3, 95, 96, 97, 500, 4999):
        sets = rng.reshape(3, 5000)[:, :count].copy()
        bits = (sets[:, :, None] >> np.arange(64, dtype=np.uint64) & np.uint64(1)).sum(axis=1).reshape(-1)
        assert (covered_by_sets(150, sets) == bits[:150]).all()
        small = rng[:count].astype(np.uint16)
        assert (covered_by_sets(13, small) == (small[:, None] >> np.arange(13, dtype=np.uint16) & 1).sum(axis=0)).all()
    values = (rng[:1000] % 7).astype(np.uint16)
    assert (covered_by_values(7, values) == [(values == v).sum() for v in range(7)]).all()
    seeds = rng[:2000].reshape(2, 1000)
    named = buckets_of(seeds, values, 6)
    assert all(bucket_of((int(seeds[0, j]), int(seeds[1, j])), int(values[j]), 6) == named[j] for j in range(1000))
    covers = covered_by_hash(7, seeds, named, 6)
    assert all(covers[v] >= (values == v).sum() for v in range(7))
    assert covers.sum() < 1000 + 6 * 250
    with pytest.raises(InvalidParameterError, match="report"):
        covered_by_values(3, values)
    for bad in (rng.reshape(3, 5000)[:2], rng[:9], rng[:9].astype(np.uint32)):
        with pytest.raises(InvalidParameterError, match="reports"):
            covered_by_sets(150, bad)


@pytest.mark.parametrize("domain", [4, 10, 16, 17, 70])
def test_a_retry_gives_the_same_reports_in_any_chunks(domain: int) -> None:
    plan = plan_subset(domain, Ladder.parse(["3", "2", "1", "0.5"]))
    values = np.arange(33_000) % domain
    top = encode_sets(plan.tiers[0], KeyedWords(key("top")), 0, values)
    chain = SubsetChain.of(plan, key("secret"), "panel/round 1")
    whole = chain.derive(0, top)
    again = SubsetChain.of(plan, key("secret"), "panel/round 1")
    cuts = [0, 1, 9, 32_700, 32_800, 33_000]
    runs = list(again.stream(top[..., begin:end] for begin, end in pairwise(cuts)))
    for tier in range(4):
        assert (np.concatenate([run[tier] for run in runs], axis=-1) == whole[tier]).all()
        check_sets(plan.tiers[tier], whole[tier])
    other = SubsetChain.of(plan, key("secret"), "panel/round 2").derive(0, top)
    assert (other[1] != whole[1]).any()


@pytest.mark.parametrize("domain", [10, 70])
def test_each_tier_of_a_chain_covers_as_it_should(domain: int) -> None:
    plan, n = plan_subset(domain, Ladder.parse(["3", "1", "0.5"])), 200_000
    top = encode_sets(plan.tiers[0], KeyedWords(key("chain top")), 0, np.full(n, 5))
    for law, sets in zip(plan.tiers, SubsetChain.of(plan, key("chain"), "p").derive(0, top), strict=True):
        covers, rates = covered_by_sets(domain, sets), law.rates()
        for value in range(domain):
            rate = rates.true if value == 5 else rates.false
            assert stats.binomtest(int(covers[value]), n, rate).pvalue > ALPHA / domain
        assert stats.binomtest(int(covers[5]), n, rates.true * 1.03).pvalue < ALPHA


def test_tiers_share_no_words() -> None:
    one, two = Subset.paying(9, 1, Fraction(2)), Subset.paying(9, 2, Fraction(1))
    keys = {
        report_key(key("k"), *args) for args in (("p", one, two), ("p", two, two), ("p", one, one), ("q", one, two))
    }
    assert len(keys | {report_key(key("l"), "p", one, two)}) == 5
    with pytest.raises(InvalidParameterError, match="32 bytes"):
        report_key(b"short", "p", one, two)


@pytest.mark.parametrize(
    ("domain", "bad"),
    [
        (9, np.array([3, 5, 7], np.uint16)),
        (9, np.array([3, 1 << 9 | 1], np.uint16)),
        (9, np.array([3], np.uint64)),
        (70, np.array([[3], [1 << 6]], np.uint64)),
        (70, np.array([[7], [0]], np.uint64)),
        (70, np.array([[3]], np.uint64)),
    ],
)
def test_reports_that_the_mechanism_cannot_give_are_refused(domain: int, bad: np.ndarray) -> None:
    with pytest.raises(InvalidParameterError, match="report"):
        check_sets(Subset.paying(domain, 2, Fraction(1)), bad)


def test_what_no_kernel_draws_is_refused() -> None:
    half = Signal.rational(Fraction(1, 2)).ball
    for sizes in ((17, 1, 2), (4, 0, 2), (4, 3, 2), (4, 1, 4)):
        with pytest.raises(InvalidParameterError, match="step"):
            SmallStep(*sizes, half)
    for sizes in ((16, 1, 2), (40, 0, 2), (40, 3, 2), (40, 1, 40)):
        with pytest.raises(InvalidParameterError, match="step"):
            LargeStep(*sizes, half)
    for below in (1, 2**16 + 1, True, 2.0):
        with pytest.raises(InvalidParameterError, match="values"):
            ValueStep(below, half)  # type: ignore[arg-type]
    with pytest.raises(InvalidParameterError, match="value"):
        encode_sets(Subset.paying(9, 2, Fraction(1)), KeyedWords(bytes(32)), 0, np.array([9]))
    for first in (-1, 2**32, True, 0.5):
        with pytest.raises(InvalidParameterError, match="report numbers"):
            SmallStep(4, 1, 2, half).apply(KeyedWords(bytes(32)), first, np.array([1], np.uint16))  # type: ignore[arg-type]
