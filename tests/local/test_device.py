"""Encoders: every word leads to the law; sets carry no order; a value outside reads nothing."""

import os
from collections import Counter
from fractions import Fraction
from math import comb

import numpy as np
import pytest
from scipy import stats

from tests.sampling.tree import Script, law_of
from tiers.errors import InvalidParameterError
from tiers.local.channel import channel, reports
from tiers.local.device import Read, _plane, encode_bits, encoder, hash_encoder, value_encoder
from tiers.local.flips import Flips
from tiers.local.late import members_of
from tiers.local.local_hash import LocalHash, bucket_of
from tiers.local.randomized_response import RandomizedResponse
from tiers.local.signal import Signal
from tiers.local.subset import Subset
from tiers.sampling.words import KeyedWords

ALPHA = 1e-9


def reader(script: Script) -> Read:
    words = script.tail(0)
    return lambda count: bytes(next(words) for _ in range(count))


def stream(label: int) -> Read:
    run, at = KeyedWords(label.to_bytes(32, "little")).read(1 << 24), [0]

    def read(count: int) -> bytes:
        at[0] += count
        return run[at[0] - count : at[0]]

    return read


@pytest.mark.parametrize("epsilon", ["0.1", "0.5", "2"])
@pytest.mark.parametrize(("d", "k"), [(2, 1), (4, 1), (5, 2), (6, 4)])
def test_every_word_of_an_encoder_leads_to_the_law(d: int, k: int, epsilon: str) -> None:
    """The channel of the encoder itself, below ε = 1 as well: 4-bit coins and ranks, ties and short laps included."""
    law = Subset.paying(d, k, Fraction(epsilon))
    encode, signal = encoder(law, half=4), law.signal.value()
    for value in range(d):
        decided, undecided = law_of(lambda script: encode(value, reader(script)), 8, Fraction(1, 2**14))  # noqa: B023
        assert undecided < Fraction(1, 6)
        for report in reports(law):
            chance = signal * (report >> value & 1) / comb(d - 1, k - 1) + (1 - signal) / comb(d, k)
            mass = float(decided.get(report, Fraction(0)))
            assert mass - 1e-12 <= chance <= mass + float(undecided) + 1e-12


def test_every_word_of_a_value_encoder_leads_to_the_law() -> None:
    law = RandomizedResponse(5, Signal.rational(Fraction(1, 3)))
    encode = value_encoder(law, half=4)
    for value in range(5):
        decided, undecided = law_of(lambda script: encode(value, reader(script)), 8, Fraction(1, 2**14))  # noqa: B023
        for report, chance in enumerate(channel(law)[value]):
            assert decided[report] <= chance <= decided[report] + undecided


def test_every_bit_is_turned_with_its_probability() -> None:
    law = Flips(Fraction(1, 2))
    decided, undecided = law_of(lambda script: encode_bits(0b10, 2, law, reader(script)), 2, Fraction(1, 2**12))
    flip = law.rates().false
    for report in range(4):
        turned = (report ^ 0b10).bit_count()
        chance = flip**turned * (1 - flip) ** (2 - turned)
        assert float(decided[report]) <= chance <= float(decided[report] + undecided)


@pytest.mark.parametrize(("factor", "right"), [(1.0, True), (1.1, False)])
def test_the_law_of_planes(factor: float, right: bool) -> None:
    law, n = Subset.paying(200, 2, Fraction(3)), 40_000
    assert comb(200, 2) > 2**14
    encode, read = encoder(law), stream(1)
    seen = [encode(7, read) for _ in range(n)]
    assert all(report.bit_count() == 2 and report < 1 << 200 for report in seen)
    covered = sum(report >> 7 & 1 for report in seen)
    assert (stats.binomtest(covered, n, law.rates().true * factor).pvalue > ALPHA) == right
    others = np.zeros(200)
    for report in seen:
        for value in members_of(report):
            others[value] += 1
    others = np.delete(others, 7)
    assert stats.chisquare(others).pvalue > ALPHA


@pytest.mark.parametrize("more", [-1, 1])
@pytest.mark.parametrize(("d", "k"), [(100, 30), (128, 34), (200, 60)])
def test_every_value_is_added_and_dropped_by_as_many_positions(d: int, k: int, more: int) -> None:
    """A plane that holds the kept value and one value too few, or too many, is set right by the first position."""
    encode, kept = encoder(Subset.paying(d, k, Fraction(1))), 7
    unit, digits = (1 if d <= 128 else 2), _plane(d, k)[1]
    wide, members = 256**unit, range(kept, kept + k + more)
    plane = sum(1 << value for value in members)
    last = d - 1 if more < 0 else members[-1]
    names_last = next(at for at in range(wide) if at * d // wide == last and at * d % wide >= wide % d)
    head, rest = bytes(4) + plane.to_bytes((d + 7) // 8, "little") * digits, names_last.to_bytes(unit, "little")
    hits = Counter[int]()
    for position in range(wide):
        run = head + position.to_bytes(unit, "little") + rest * d
        changed = encode(kept, lambda count, run=run: run[:count]) ^ plane  # type: ignore[misc]
        assert changed.bit_count() == 1
        hits[changed.bit_length() - 1] += 1
    free = set(range(d)) - set(members) if more < 0 else set(members) - {kept}
    assert set(hits) == free
    assert {hits[value] for value in free - {last}} == {wide // d}


@pytest.mark.parametrize(("d", "k"), [(128, 34), (1024, 275), (100, 30), (129, 100), (40, 20)])
def test_reports_are_sets_of_the_right_size_for_any_randomness(d: int, k: int) -> None:
    law = Subset.paying(d, k, Fraction(1))
    encode, n = encoder(law), 3000
    sets = [[encode(d - 1, read) for _ in range(n)] for read in (os.urandom, stream(2), stream(5))]
    assert all(report.bit_count() == k and report < 1 << d for seen in sets for report in seen)
    for seen in sets[1:]:  # what the law says of the frequencies is tested where no run differs from another
        assert stats.binomtest(sum(report >> (d - 1) for report in seen), n, law.rates().true).pvalue > ALPHA
        assert stats.binomtest(sum(report & 1 for report in seen), n, law.rates().false).pvalue > ALPHA


def test_a_set_carries_membership_and_no_order() -> None:
    """The true value must not stand first, or anywhere, because it was kept."""
    encode, read = encoder(Subset.paying(12, 4, Fraction(8))), stream(3)
    for value in (0, 5, 11):
        report = members_of(encode(value, read))
        assert report == sorted(set(report))
        assert len(report) == 4


def test_a_hash_report_names_the_bucket_of_its_own_seed() -> None:
    law, read, n = LocalHash.paying(4, Fraction(2)), stream(4), 20_000
    encode = hash_encoder(law, 50)
    hits = sum(bucket_of((a, b), 17, 4) == bucket for a, b, bucket in (encode(17, read) for _ in range(n)))
    false = sum(bucket_of((a, b), 18, 4) == bucket for a, b, bucket in (encode(17, read) for _ in range(n)))
    assert stats.binomtest(hits, n, law.rates().true).pvalue > ALPHA
    assert stats.binomtest(false, n, law.rates().false).pvalue > ALPHA


@pytest.mark.parametrize("bad", [-1, 9, True, 1.0, "1", None, 2**70])
def test_values_outside_the_domain_are_refused_before_anything_is_read(bad: object) -> None:
    def read(count: int) -> bytes:
        raise AssertionError("read")

    for encode in (
        encoder(Subset.paying(9, 2, Fraction(1))),
        value_encoder(RandomizedResponse.paying(9, Fraction(1))),
        hash_encoder(LocalHash.paying(4, Fraction(1)), 9),
    ):
        with pytest.raises(InvalidParameterError, match="value"):
            encode(bad, read)  # type: ignore[arg-type]
    with pytest.raises(InvalidParameterError, match="value"):
        encoder(Subset.paying(200, 50, Fraction(1)))(bad if bad != 9 else 200, read)  # type: ignore[arg-type]
    with pytest.raises(InvalidParameterError, match="report"):
        encode_bits(4, 2, Flips(Fraction(1)), read)
