"""Vectors by cells: every word leads to the law, every element owns its words, and no tail is folded."""

import hashlib
from collections.abc import Callable
from fractions import Fraction

import numpy as np
import pytest

from tests.sampling.tree import Script, assert_law, law_of, pmf_of
from tiers.errors import InvalidParameterError
from tiers.noise.skellam import Skellam
from tiers.noise.tsg import TwoSidedGeometric
from tiers.real import exact, floor_scaled
from tiers.sampling import survival
from tiers.sampling.cells import UNDECIDED, CellSampler, cell_sampler, cells_of
from tiers.sampling.inversion import InversionSampler
from tiers.sampling.survival import SymmetricLaw, skellam_law, tsg_law, zero_inflated_law
from tiers.sampling.words import KeyedWords

ONE = TwoSidedGeometric(Fraction(1))
LAWS: dict[str, Callable[[], SymmetricLaw]] = {
    "tsg": lambda: tsg_law(ONE),
    "tsg-wide": lambda: tsg_law(TwoSidedGeometric(Fraction(1, 5))),
    "residual": lambda: zero_inflated_law(TwoSidedGeometric(Fraction(2)).residual_to(ONE)),
    "rare": lambda: zero_inflated_law(
        TwoSidedGeometric(Fraction(1, 10)).residual_to(TwoSidedGeometric(Fraction(19, 200)))
    ),
    "skellam": lambda: skellam_law(Fraction(3, 2)),
    "skellam-small": lambda: skellam_law(Fraction(1, 50)),
}


def one_draw(sampler: CellSampler) -> Callable[[Script], int]:
    def draw(words: Script) -> int:
        zero = np.zeros(1, np.int64)
        return int(sampler.add_to(words, zero, zero)[0])

    return draw


@pytest.mark.parametrize("name", LAWS)
@pytest.mark.parametrize(("bits", "words", "tail"), [(4, 1, 4), (3, 2, 3), (5, 2, 6), (2, 1, 8), (6, 1, 3)])
def test_every_word_leads_to_the_law(name: str, bits: int, words: int, tail: int) -> None:
    law = LAWS[name]()
    sampler = cell_sampler(law, bits=bits, words=words)
    decided, undecided = law_of(one_draw(sampler), tail, Fraction(1, 2**13), bits * words, 2 * words)
    assert_law(decided, undecided, pmf_of(law.cdf), most=0.02, cover=0.97)
    short, open_short = law_of(lambda s: sampler.draw(s, 1)[0], tail, Fraction(1, 2**13), bits * words, 2 * words)
    assert (short, open_short) == (decided, undecided)


@pytest.mark.parametrize("name", LAWS)
@pytest.mark.parametrize("words", [1, 2])
def test_no_outcome_of_the_product_owns_more_cells_than_its_certified_share(name: str, words: int) -> None:
    """n(k)/2^b ≤ P(k) in balls for every owner, in order after the open cells; G's kept thresholds are certified."""
    law = LAWS[name]()
    sampler = cell_sampler(law, words=words)
    size = len(sampler.table)
    bits, unowned = size.bit_length() - 1, int((sampler.table == UNDECIDED).sum())
    assert (sampler.table[:unowned] == UNDECIDED).all()
    assert (np.diff(sampler.table[unowned:].astype(int)) >= 0).all()
    owners, counts = np.unique(sampler.table[unowned:].astype(int), return_counts=True)
    decided = dict(zip(owners.tolist(), counts.tolist(), strict=True))
    for outcome, count in decided.items():
        before, here = law.cdf(outcome - 1), law.cdf(outcome)
        share = floor_scaled(lambda a=before, b=here: b() - a(), bits)
        assert share - 1 <= count <= share, outcome
    assert unowned <= 2 * len(owners) + size // 100
    below = 0
    for place, floor in enumerate(sampler.floors):
        below += decided.get(sampler.first + place, 0)
        if place % 41 == 0 or place in (len(sampler.floors) // 2, len(sampler.floors) - 1):
            share = Fraction(below, size)
            cdf = law.cdf(sampler.first + place)
            assert floor == floor_scaled(lambda c=cdf, s=share: c() - exact(s), 32)


@pytest.mark.parametrize(
    ("law", "noise"),
    [
        (tsg_law(ONE), ONE),
        (
            zero_inflated_law(TwoSidedGeometric(Fraction(2)).residual_to(ONE)),
            TwoSidedGeometric(Fraction(2)).residual_to(ONE),
        ),
        (skellam_law(Fraction(5)), Skellam(Fraction(5))),
    ],
    ids=["tsg", "residual", "skellam"],
)
def test_the_survival_function_is_that_of_the_law(law: SymmetricLaw, noise: TwoSidedGeometric | Skellam) -> None:
    for k in range(-12, 13):
        assert pmf_of(law.cdf)(k) == pytest.approx(noise.pmf(k), rel=1e-12)


def test_the_kept_thresholds_are_the_certified_ones() -> None:
    for law in (tsg_law(TwoSidedGeometric(Fraction(1, 100))), skellam_law(Fraction(10**4))):
        tails = law.floors(32)
        assert tails[-1] == 0 < tails[-2]
        for m in {1, 2, 3, 100, len(tails) // 2, len(tails) - 1, len(tails)}:
            assert tails[m - 1] == floor_scaled(law.survival(m), 32)


@pytest.mark.parametrize("guard", [0, 1, 3, 8])
def test_thresholds_are_certified_however_few_guard_bits_there_are(guard: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """With few guard bits the lower and upper bounds part often: balls must then decide, and do."""
    monkeypatch.setattr(survival, "_GUARD", guard)
    for law in (tsg_law(TwoSidedGeometric(Fraction(1, 30))), LAWS["residual"]()):
        for m, floor in enumerate(law.floors(20), start=1):
            assert floor == floor_scaled(law.survival(m), 20)


def test_skellam_survivals_agree_with_bessel_functions() -> None:
    from mpmath import besseli, exp, mp, mpf

    mp.dps = 50
    for rate in (Fraction(1, 100), Fraction(1), Fraction(100)):
        mean = mpf(rate.numerator) / rate.denominator
        pmf = [exp(-2 * mean) * besseli(k, 2 * mean) for k in range(260)]
        for m, floor in enumerate(skellam_law(rate).floors(40), start=1):
            assert floor == int(mp.floor(sum(pmf[m:]) * 2**40))


@pytest.mark.parametrize("name", ["tsg", "tsg-wide", "rare", "skellam"])
@pytest.mark.parametrize("words", [1, 2])
def test_an_element_owns_its_words_whatever_the_length_or_the_path(name: str, words: int) -> None:
    sampler, key = cell_sampler(LAWS[name](), words=words), hashlib.sha256(name.encode()).digest()
    whole = sampler.draw(KeyedWords(key), 300_000)
    for length in (1, 15, 64, 65, 1000, 1024, 1025, 2049, 262_144, 262_145):
        assert sampler.draw(KeyedWords(key), length) == whole[:length]
    by_inversion = InversionSampler(sampler.left)
    raw = KeyedWords(key).read(2 * words * 300_000)
    first_words = [int.from_bytes(raw[at : at + 2 * words], "little") for at in range(0, len(raw), 2 * words)]
    unowned = int((sampler.table == UNDECIDED).sum()) << sampler.shift
    found = [element for element, word in enumerate(first_words) if word < unowned]
    assert len(found) > 5
    for element in [*range(150), *range(131_070, 131_075), *range(262_142, 262_147), 299_999, *found[:150]]:
        first = first_words[element]
        if first >= unowned:
            assert whole[element] == sampler.table[first >> sampler.shift]
            continue

        class Known:  # the same uniform real, read by the definition
            bits = 16 * words

            def group(self, _: int, size: int, first: int = first) -> list[int]:
                return [first]

            def tail(self, _: int, element: int = element) -> object:
                pieces = 64 // (16 * words)
                for word in KeyedWords(key).tail(element):
                    for piece in range(pieces - 1, -1, -1):
                        yield word >> 16 * words * piece & ((1 << 16 * words) - 1)

        assert by_inversion.draw_one(Known(), 0) == whole[element]  # type: ignore[arg-type]


def test_a_word_far_out_in_a_tail_goes_on_and_is_not_folded() -> None:
    sampler = cell_sampler(tsg_law(ONE))
    edge = -sampler.first
    for word, sign in ((0, -1), (int((sampler.table == UNDECIDED).sum()) - 1, 1)):
        fill = 0 if sign < 0 else 2**64 - 1
        deep = sampler.draw(Script([word, fill, fill, 2**63], 64, 16, 2), 1)[0]
        assert sign * deep > edge + 60
        assert abs(deep - sign * 101) <= 2  # F(k) = 2^−144-odd at −100 − log(1+p)
    residual = cell_sampler(zero_inflated_law(TwoSidedGeometric(Fraction(2)).residual_to(ONE)))
    assert residual.draw(Script([0, 0, 0, 2**63], 64, 16, 2), 1)[0] < residual.first - 60


def test_counts_may_be_the_output_and_are_added_to() -> None:
    sampler = cell_sampler(tsg_law(ONE))
    counts = np.arange(-500, 500, dtype=np.int64)
    apart, noise = np.empty_like(counts), sampler.draw(KeyedWords(bytes(32)), 1000)
    sampler.add_to(KeyedWords(bytes(32)), counts, apart)
    assert apart.tolist() == [count + extra for count, extra in zip(counts.tolist(), noise, strict=True)]
    sampler.add_to(KeyedWords(bytes(32)), counts, counts)
    assert counts.tolist() == apart.tolist()


@pytest.mark.parametrize("count", [2**62 + 1, -(2**62) - 1, 2**63 - 1, -(2**63)])
def test_a_count_that_could_wrap_is_refused(count: int) -> None:
    sampler = cell_sampler(tsg_law(ONE))
    counts = np.array([0, count], np.int64)
    with pytest.raises(InvalidParameterError, match="no sum wraps"):
        sampler.add_to(KeyedWords(bytes(32)), counts, np.empty_like(counts))


def test_arrays_of_another_kind_are_refused() -> None:
    sampler = cell_sampler(tsg_law(ONE))
    good = np.zeros(4, np.int64)
    for bad in (np.zeros(4, np.int32), np.zeros(3, np.int64), np.zeros((2, 2), np.int64), np.zeros(4)):
        with pytest.raises(InvalidParameterError, match="int64 vectors"):
            sampler.add_to(KeyedWords(bytes(32)), good, bad)
    with pytest.raises(InvalidParameterError, match="outcomes a side"):
        cell_sampler(tsg_law(TwoSidedGeometric(Fraction(1, 10**4))))


def test_a_bounded_law_needs_no_tail() -> None:
    die = cells_of(
        1, [k * 256 // 6 for k in range(1, 6)], lambda k: lambda: exact(Fraction(min(max(k, 0), 6), 6)), bits=4, words=2
    )
    decided, undecided = law_of(one_draw(die), 4, Fraction(1, 2**12), 8, 4)
    assert set(decided) == {1, 2, 3, 4, 5, 6}
    assert all(mass <= Fraction(1, 6) <= mass + undecided for mass in decided.values())
    assert undecided < Fraction(1, 500)
