"""Laws of the local model by full enumeration, in rationals: each channel, each step, each coalition, each late tier."""

import math
from fractions import Fraction
from itertools import chain, combinations, pairwise
from math import comb

import pytest
from flint import arb

from tiers.errors import InvalidParameterError, NoResidualError
from tiers.local.channel import Mechanism, channel, coalition, reports, step, worst_ratio
from tiers.local.flips import Flips
from tiers.local.local_hash import LocalHash, bucket_of
from tiers.local.randomized_response import RandomizedResponse
from tiers.local.signal import Signal, keep
from tiers.local.subset import Subset, expanded
from tiers.real import compare, exact, to_float

SIGNALS = [Fraction(s) for s in ("99/100", "1/2", "1/7", "1/1000")]
SIZES = [(2, 1), (4, 1), (4, 3), (5, 2), (6, 3), (7, 2)]


def s(text: str) -> Signal:
    return Signal.rational(Fraction(text))


def laws(signal: Signal) -> list[Mechanism]:
    found: list[Mechanism] = [Subset(d, k, signal) for d, k in SIZES]
    found += [RandomizedResponse(d, signal) for d in (2, 3, 6)]
    return found + [LocalHash(g, signal) for g in (2, 3, 6)]


CHAINS: dict[str, list[Mechanism]] = {
    "subset-expands": [Subset(5, k, s("1/2")) for k in (1, 2, 4)],
    "subset-rescales": [Subset(5, 2, s(t)) for t in ("2/3", "1/2", "1/5")],
    "subset-both": [Subset(5, k, s(t)) for k, t in ((1, "9/10"), (2, "1/2"), (2, "1/3"), (3, "1/10"))],
    "subset-six": [Subset(6, k, s(t)) for k, t in ((1, "4/5"), (2, "3/5"), (3, "1/8"))],
    "response": [RandomizedResponse(4, s(t)) for t in ("3/4", "1/2", "1/3", "1/9")],
    "hash": [LocalHash(g, s(t)) for g, t in ((12, "3/4"), (6, "3/4"), (2, "1/2"), (2, "1/5"))],
    "coin": [LocalHash(2, s(t)) for t in ("3/4", "1/2", "1/5")],
}


@pytest.mark.parametrize("signal", SIGNALS, ids=str)
def test_guarantee_every_channel_spends_exactly_its_epsilon(signal: Fraction) -> None:
    for law in laws(Signal.rational(signal)):
        rows = channel(law)
        assert all(sum(row) == 1 for row in rows)
        ratio = 1 + signal / ((1 - signal) * law.coverage)
        assert worst_ratio(rows) == ratio
        assert law.epsilon() == pytest.approx(math.log1p(float(ratio - 1)), rel=1e-12)


@pytest.mark.parametrize("epsilon", ["0.000001", "0.01", "0.1", "0.5", "0.9", "1", "3", "20"])
def test_guarantee_what_is_asked_is_spent_below_one_as_well(epsilon: str) -> None:
    """e^ε enters as an exact real: 1 + o/κ and e^ε agree to 10⁻⁵⁰, and t, f are those of the closed formulas."""
    wanted = Fraction(epsilon)

    def grown() -> arb:
        return exact(wanted).exp()

    for d, k in ((2, 1), (10, 3), (1000, 499)):
        law = Subset.paying(d, k, wanted)

        def off(law: Subset = law) -> arb:
            return abs((1 + law.signal.odds() / exact(law.coverage)) / grown() - 1)

        def true(d: int = d, k: int = k) -> arb:
            return k * grown() / (k * grown() + d - k)

        def false(d: int = d, k: int = k) -> arb:
            return (k * grown() * (k - 1) + (d - k) * k) / ((k * grown() + d - k) * (d - 1))

        assert compare(off, Fraction(1, 10**50)) < 0
        rates = law.rates()
        assert rates.true == pytest.approx(to_float(true), rel=1e-14)
        assert rates.false == pytest.approx(to_float(false), rel=1e-14)
        assert rates.gap == pytest.approx(to_float(lambda: true() - false()), rel=1e-14)
        assert law.signal.within(wanted, law.coverage)
        assert wanted < Fraction(1, 10**5) or not law.signal.within(wanted - Fraction(1, 10**7), law.coverage)
    assert LocalHash.paying(7, wanted).epsilon() == pytest.approx(float(wanted), rel=1e-14)
    assert RandomizedResponse.paying(7, wanted).epsilon() == pytest.approx(float(wanted), rel=1e-14)
    assert Flips(wanted).signal.epsilon_at(Fraction(1, 2)) == pytest.approx(float(wanted), rel=1e-14)


def test_rates_are_those_of_the_channel() -> None:
    for law in laws(s("2/7")):
        if isinstance(law, LocalHash):
            continue
        rows = channel(law)
        covers = [
            [report >> v & 1 if isinstance(law, Subset) else report == v for report in reports(law)] for v in (0, 1)
        ]
        true, false = (sum(p for p, hit in zip(rows[0], covers[v], strict=True) if hit) for v in (0, 1))
        rates = law.rates()
        assert (rates.true, rates.false) == (pytest.approx(float(true)), pytest.approx(float(false)))
        assert rates.gap == pytest.approx(float(true - false))


def test_a_false_value_shares_a_bucket_as_often_as_stated() -> None:
    """Over all hashes of a small field in place of 2⁶⁴ words: exactly uniform; over the real family: near 1/g."""
    hits = sum(
        bucket_of((a * 0x9E3779B97F4A7C15 & 2**64 - 1, b * 0xD1B54A32D192ED03 & 2**64 - 1), 3, 4)
        == bucket_of((a * 0x9E3779B97F4A7C15 & 2**64 - 1, b * 0xD1B54A32D192ED03 & 2**64 - 1), 77, 4)
        for a in range(1, 101)
        for b in range(1, 101)
    )
    assert abs(hits - 2500) < 250


def seen(law: Mechanism, values: int) -> list[list[Fraction]]:
    """The channel below, a row for each value above: merged buckets give several values the same row."""
    rows = channel(law)
    return [rows[value % len(rows)] for value in range(values)]


@pytest.mark.parametrize("name", CHAINS)
def test_every_step_leads_to_the_law_below(name: str) -> None:
    for upper, lower in pairwise(CHAINS[name]):
        moves, rows = step(upper, lower), channel(upper)
        assert all(sum(row) == 1 for row in moves)
        below = [
            [sum(a * b for a, b in zip(row, column, strict=True)) for column in zip(*moves, strict=True)]
            for row in rows
        ]
        assert below == seen(lower, len(rows))


@pytest.mark.parametrize("name", CHAINS)
def test_guarantee_every_coalition_learns_no_more_than_its_best_tier(name: str) -> None:
    tiers = CHAINS[name]
    members = range(len(tiers))
    for held in chain.from_iterable(combinations(members, size) for size in range(1, len(tiers) + 1)):
        assert worst_ratio(coalition(tiers, held)) == worst_ratio(channel(tiers[min(held)])), held


def test_a_star_in_place_of_a_chain_would_leak() -> None:
    """The enumeration can tell: two tiers derived from the same one above exceed the better of them."""
    top, left, right = (RandomizedResponse(3, s(t)) for t in ("9/10", "1/2", "2/5"))
    rows = [
        {(b, c): sum(p * first[a][b] * second[a][c] for a, p in enumerate(row)) for b in range(3) for c in range(3)}
        for first, second in [(step(top, left), step(top, right))]
        for row in channel(top)
    ]
    assert worst_ratio(rows) > worst_ratio(channel(left))


def test_signals_compose_by_multiplication() -> None:
    one, two, three = s("3/4"), Signal.paying(Fraction(1, 2), coverage=Fraction(1, 3)), s("1/50")
    assert to_float(lambda: keep(one, two)() * keep(two, three)()) == to_float(keep(one, three))
    assert to_float(keep(one, one)) == 1.0


def test_the_lemmas_of_the_paper_hold_as_corrected() -> None:
    law, d, k = Subset.paying(10, 2, Fraction("1.3")), 10, 2
    beta = keep(law.signal, Subset.paying(d, k, Fraction("0.78")).signal)

    def printed() -> arb:
        e, target = exact(Fraction("1.3")).exp(), exact(Fraction("0.78")).exp()
        return (target - 1) * (k * e + d - k) / ((e - 1) * (k * target + d - k))

    def reached() -> arb:
        e = exact(Fraction("1.3")).exp()
        m, b = k * e + d - k, beta()
        return ((d * b * e + (1 - b) * m) / (d * b + (1 - b) * m)).log()

    def wider() -> arb:
        return ((k * exact(Fraction("1.3")).exp() + 1) / (k + 1)).log()

    assert to_float(beta) == pytest.approx(to_float(printed), rel=1e-14)
    assert to_float(reached) == pytest.approx(0.78, rel=1e-14)
    assert expanded(law, 3).epsilon() == pytest.approx(to_float(wider), rel=1e-14)


@pytest.mark.parametrize(
    ("upper", "lower"),
    [
        (Subset(5, 2, s("1/2")), Subset(5, 1, s("1/3"))),
        (Subset(5, 2, s("1/2")), Subset(6, 2, s("1/3"))),
        (Subset(5, 2, s("1/3")), Subset(5, 2, s("1/2"))),
        (LocalHash(6, s("1/2")), LocalHash(4, s("1/3"))),
        (LocalHash(6, s("1/3")), LocalHash(3, s("1/2"))),
        (RandomizedResponse(3, s("1/3")), RandomizedResponse(3, s("1/2"))),
        (RandomizedResponse(3, s("1/2")), RandomizedResponse(4, s("1/3"))),
    ],
)
def test_a_step_that_no_operators_make_is_refused(upper: Mechanism, lower: Mechanism) -> None:
    with pytest.raises(NoResidualError):
        step(upper, lower)


@pytest.mark.parametrize("bad", [0, 1, 2**16 + 1, -3, 2.0, True, "4", None])
def test_sizes_out_of_range_are_refused(bad: object) -> None:
    with pytest.raises(InvalidParameterError, match="domain size"):
        Subset.paying(bad, 1, Fraction(1))  # type: ignore[arg-type]
    with pytest.raises(InvalidParameterError, match="domain size"):
        RandomizedResponse.paying(bad, Fraction(1))  # type: ignore[arg-type]
    with pytest.raises(InvalidParameterError, match="buckets"):
        LocalHash.paying(bad, Fraction(1))  # type: ignore[arg-type]


@pytest.mark.parametrize("bad", [0, 4, 5, -1, 1.0, True, "1", None])
def test_set_sizes_out_of_range_are_refused(bad: object) -> None:
    with pytest.raises(InvalidParameterError, match="subset size"):
        Subset.paying(4, bad, Fraction(1))  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "bad", [float("nan"), float("inf"), 1e999, "1 ", True, 0, -1, 5e-324, 10**30, "0.1\n", "١", "1"]
)
def test_budgets_that_are_none_are_refused(bad: object) -> None:
    for make in (
        lambda: Subset.paying(4, 1, bad),  # type: ignore[arg-type]
        lambda: LocalHash.paying(4, bad),  # type: ignore[arg-type]
        lambda: RandomizedResponse.paying(4, bad),  # type: ignore[arg-type]
        lambda: Flips(bad),  # type: ignore[arg-type]
    ):
        with pytest.raises(InvalidParameterError):
            make()


def test_a_channel_that_is_too_large_to_list_is_refused() -> None:
    assert comb(20, 10) > 4096
    with pytest.raises(InvalidParameterError, match="at most 4096 reports"):
        channel(Subset(20, 10, s("1/2")))
    with pytest.raises(InvalidParameterError, match="a rational one"):
        channel(Subset.paying(4, 1, Fraction(1)))
