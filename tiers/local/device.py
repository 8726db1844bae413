"""What a device runs: one report from one value, exactly, in plain integers; randomness is a function that reads bytes.

`os.urandom` is such a function on a device; tests pass a script, and a retry that must not differ a keyed stream. A
report is sent in canonical form: a set as its rising values, so that nothing but membership is carried.
"""

import math
from collections.abc import Callable, Iterator, Sequence
from functools import lru_cache
from itertools import combinations
from math import comb
from typing import Protocol, TypeAlias

from tiers.errors import InvalidParameterError
from tiers.local.flips import Flips
from tiers.local.local_hash import LocalHash, bucket_of
from tiers.local.randomized_response import RandomizedResponse
from tiers.local.subset import Subset
from tiers.real import Real, floor_scaled
from tiers.sampling.bernoulli import refine, threshold

__all__ = ["Encoder", "Read", "encode_bits", "encode_point", "encoder", "hash_encoder", "value_encoder"]

Read: TypeAlias = Callable[[int], bytes]
_TABLE_LIMIT = 2**14


class Encoder(Protocol):
    """Turns a value into a report."""

    def __call__(self, value: int, read: Read, /) -> int:
        """Return the report: a set as its bits, or a value."""
        ...


def encoder(law: Subset, half: int = 32) -> Encoder:
    """Return the encoder of a Subset mechanism: by a table of sets where there are few, else by planes.

    Law:        P(S | x) = s·[x ∈ S]/C(d−1, k−1) + (1−s)/C(d, k), for every read that returns uniform bytes.
    Guarantee:  ε-LDP exactly: a coin is compared with the digits of s, however many it takes.
    Args:       half: bits of a coin and of a rank (32; tests enumerate smaller ones).
    Raises:     InvalidParameterError: when called, a value outside the domain; then nothing is read.
    Example:
        >>> from fractions import Fraction
        >>> from tiers.local.late import members_of
        >>> encode = encoder(Subset.paying(10, 3, Fraction(1)))
        >>> members_of(encode(7, lambda count: b"\\x11" * count))
        [0, 3, 7]
    """
    few = comb(law.domain_size, law.subset_size) <= _TABLE_LIMIT
    return _by_table(law, half) if few else _by_planes(law)


def _by_table(law: Subset, half: int) -> Encoder:
    domain, keep = law.domain_size, law.signal.ball
    others, every = _sets(domain - 1, law.subset_size - 1), _sets(domain, law.subset_size)
    edge, mask, size = threshold(keep, half), (1 << half) - 1, half // 4
    kept, fresh = len(others), len(every)
    kept_short, fresh_short = (1 << half) % kept, (1 << half) % fresh
    whole = int.from_bytes

    def encode(value: int, read: Read, /) -> int:
        if value.__class__ is not int or not 0 <= value < domain:
            raise _outside(value, domain)
        word = whole(read(size), "little")
        coin = word >> half
        if coin < edge or (coin == edge and refine(coin, half, keep, _further(read, size, mask))):
            product = (word & mask) * kept
            while product & mask < kept_short:
                product = (whole(read(size), "little") & mask) * kept
            chosen, bit = others[product >> half], 1 << value
            low = chosen & bit - 1
            return low | (chosen ^ low) << 1 | bit
        product = (word & mask) * fresh
        while product & mask < fresh_short:
            product = (whole(read(size), "little") & mask) * fresh
        return every[product >> half]

    return encode


def _by_planes(law: Subset) -> Encoder:
    """A plane of independent bits, joined to the kept value, is uniform given its size; then the size is set right."""
    domain, wanted, keep = law.domain_size, law.subset_size, law.signal.ball
    edge, rate, digits = threshold(keep, 32), *_plane(domain, wanted)
    planes, full, width = [rate >> digit & 1 for digit in range(digits)], (1 << domain) - 1, (domain + 7) // 8
    unit, wide = (1, 256) if domain <= 128 else (2, 65536)
    count = math.ceil(2 * math.sqrt(domain)) + 4
    short, head = wide % domain, 4 + digits * width
    size, shift, bits = head + count * unit, 8 * width, [1 << value for value in range(domain)]
    whole = int.from_bytes

    def encode(value: int, read: Read, /) -> int:
        if value.__class__ is not int or not 0 <= value < domain:
            raise _outside(value, domain)
        run = read(size)
        coin, words = whole(run[:4], "little"), whole(run[4:head], "little")
        kept = coin < edge or (coin == edge and refine(coin, 32, keep, _further(read, 4, 2**32 - 1)))
        base = bits[value] if kept else 0
        found = 0
        for joins in planes:
            found = found | words if joins else found & words
            words >>= shift
        found = found & full | base
        missing = wanted - found.bit_count()
        tail = run[head:]
        while missing:
            for raw in tail if unit == 1 else memoryview(tail).cast("H"):
                scaled = raw * domain
                bit = bits[scaled // wide]
                if missing > 0:
                    if not found & bit and scaled % wide >= short:
                        found |= bit
                        missing -= 1
                        if not missing:
                            break
                elif found & bit and bit != base and scaled % wide >= short:
                    found ^= bit
                    missing += 1
                    if not missing:
                        break
            else:
                tail = read(count * unit)
        return found

    return encode


def value_encoder(law: RandomizedResponse, half: int = 32) -> Encoder:
    """Return the encoder of randomised response: the value with probability s, else a uniform one.

    Example:
        >>> from fractions import Fraction
        >>> value_encoder(RandomizedResponse.paying(5, Fraction(1)))(3, lambda count: b"\\x11" * count)
        3
    """
    return _kept_or_uniform(law.domain_size, law.signal.ball, half)


def hash_encoder(law: LocalHash, domain_size: int) -> Callable[[int, Read], tuple[int, int, int]]:
    """Return the encoder of a local hash: the seed (two words that the device draws, and sends) and the bucket.

    Example:
        >>> from fractions import Fraction
        >>> hash_encoder(LocalHash.paying(4, Fraction(1)), 100)(3, lambda count: b"\\x11" * count)[2]
        0
    """
    bucket = _kept_or_uniform(law.buckets, law.signal.ball, 32)

    def encode(value: int, read: Read, /) -> tuple[int, int, int]:
        if value.__class__ is not int or not 0 <= value < domain_size:
            raise _outside(value, domain_size)
        run = read(16)
        first, second = int.from_bytes(run[:8], "little"), int.from_bytes(run[8:], "little")
        return first, second, bucket(bucket_of((first, second), value, law.buckets), read)

    return encode


def encode_bits(bits: int, count: int, law: Flips, read: Read) -> int:
    """Return `count` bits, each turned over on its own: all are read digit by digit until none is open.

    Law:        P(bit turned) = 1/(e^ε + 1), independently.
    Raises:     InvalidParameterError: bits beyond `count`.
    Example:
        >>> from fractions import Fraction
        >>> bin(encode_bits(0b1100, 4, Flips(Fraction(1)), lambda count: b"\\xff" * count))
        '0b1100'
    """
    if bits.__class__ is not int or not 0 <= bits < 1 << count:
        raise InvalidParameterError("report", f"{count} bits", bits)
    size, full, digit, turned = (count + 7) // 8, (1 << count) - 1, 0, 0
    open_bits = full
    while open_bits:
        drawn = int.from_bytes(read(size), "little")
        if _digits(law, digit // 64) >> (63 - digit % 64) & 1:
            turned |= open_bits & ~drawn
            open_bits &= drawn
        else:
            open_bits &= ~drawn
        digit += 1
    return bits ^ turned


def encode_point(point: Sequence[int], sizes: Sequence[int], law: Flips, read: Read) -> int:
    """Return a point's threshold bits, attribute by attribute, each turned over on its own.

    Bit k of attribute d is 1 where k ≥ x[d], both from 0; the bit of the last value is always 1, and is not sent.

    Law:        P(report | x) = Π over bits of e^ε/(e^ε + 1) where it is x's, 1/(e^ε + 1) where it is not.
    Guarantee:  ε·‖x − y‖₁ between any two points exactly: a step of one attribute changes one bit.
    Args:       point: a place in each attribute, from 0.
    Raises:     InvalidParameterError: a point outside the grid; then nothing is read.
    Example:
        >>> from fractions import Fraction
        >>> bin(encode_point((1, 0), (4, 3), Flips(Fraction(1)), lambda count: b"\\xff" * count))
        '0b11110'
    """
    whole = all(place.__class__ is int and 0 <= place < size for place, size in zip(point, sizes, strict=False))
    if len(point) != len(sizes) or not whole:
        raise InvalidParameterError("value", f"a place in each of {len(sizes)} attributes", "one outside")
    bits = offset = 0
    for place, size in zip(point, sizes, strict=True):
        bits |= ((1 << size - 1) - (1 << place) if place < size - 1 else 0) << offset
        offset += size - 1
    return encode_bits(bits, offset, law, read)


def _kept_or_uniform(values: int, keep: Real, half: int) -> Encoder:
    edge, mask, size, short = threshold(keep, half), (1 << half) - 1, half // 4, (1 << half) % values

    def encode(value: int, read: Read, /) -> int:
        if value.__class__ is not int or not 0 <= value < values:
            raise _outside(value, values)
        word = int.from_bytes(read(size), "little")
        coin = word >> half
        if coin < edge or (coin == edge and refine(coin, half, keep, _further(read, size, mask))):
            return value
        product = (word & mask) * values
        while product & mask < short:
            product = (int.from_bytes(read(size), "little") & mask) * values
        return product >> half

    return encode


def _outside(value: object, domain: int) -> InvalidParameterError:
    return InvalidParameterError("value", f"an integer from 0 to {domain - 1}", "one outside")


def _further(read: Read, size: int, mask: int) -> Iterator[int]:
    while True:
        yield int.from_bytes(read(size), "little") & mask


@lru_cache(maxsize=256)
def _sets(domain: int, size: int) -> tuple[int, ...]:
    return tuple(sum(1 << value for value in values) for values in combinations(range(domain), size))


@lru_cache(maxsize=1024)
def _digits(law: Flips, word: int) -> int:
    """Return 64 binary digits of the probability of a turn."""
    return floor_scaled(law.flip, 64 * (word + 1)) & 2**64 - 1


def _plane(domain: int, wanted: int) -> tuple[int, int]:
    """Return a dyadic rate (numerator, digits) that leaves little to set right; only the work depends on it."""
    best, found = math.inf, (0, 0)
    for digits in range(1, 8):
        for rate in range(1, 1 << digits, 2):
            share = rate / 2**digits
            spread = math.sqrt(domain * share * (1 - share))
            gap = (wanted - domain * share) / spread
            density, below = math.exp(-gap * gap / 2) / math.sqrt(2 * math.pi), math.erfc(-gap / math.sqrt(2)) / 2
            adds = spread * (gap * below + density) / (1 - wanted / domain)
            drops = spread * (density - gap * (1 - below)) * domain / wanted
            work = adds + drops + digits * (0.8 + domain / 500)
            if work < best:
                best, found = work, (rate, digits)
    return found
