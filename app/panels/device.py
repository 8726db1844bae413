"""What a device runs: one value in, one report out; private before it leaves."""

import os
from bisect import bisect_right
from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from itertools import accumulate
from math import prod

from app.errors import InvalidRequestError
from app.panels.plans.base import signal_of
from app.panels.plans.mixture import MixedTier, label_of, paths_of
from app.panels.plans.points import sizes_of
from tiers.errors import InvalidParameterError
from tiers.local.device import Encoder, Read, encode_bits, encode_point, encoder, hash_encoder, value_encoder
from tiers.local.flips import Flips
from tiers.local.late import members_of
from tiers.local.local_hash import LocalHash
from tiers.local.randomized_response import RandomizedResponse
from tiers.local.signal import Signal
from tiers.local.subset import Subset
from tiers.metric.ranges import Grid
from tiers.noise.law import parse_rational, parse_whole

__all__ = ["encode", "label_of"]


def encode(
    law: Mapping[str, str],
    domain_size: int,
    value: int | Sequence[int],
    read: Read = os.urandom,
    *,
    label: int = 0,
) -> list[int]:
    """Return the report of one value under a panel's top tier, as its listing describes it (`device_law`).

    Sets are sent as their rising values, flips as the rising thresholds that are 1, randomised response as one value, a
    local hash as its seed (two words, each as its halves of 32 bits) and the bucket, a mixed plan's as its path first;
    points as the rising thresholds that are 1, the first axis's first.

    Guarantee:  exact coins: ε-LDP at the top tier's ε (flips and points: a step), whatever arithmetic the device has.
    Args:       value: the place of the person's value in the listing's domain, from 0; of a panel with axes the place
                on each axis, or the cell's number in row-major order. read: uniform bytes, the
                operating system's unless told; a device that must send the same report again keeps it. label: of a
                mixed plan: `label_of(panel, device)`, the public label that says which path the device follows.
    Raises:     InvalidRequestError: no law that this version runs. InvalidParameterError: a value outside the domain.
    Example:
        >>> from app.panels.mechanism import choose
        >>> from tiers.budget import Ladder
        >>> plan = choose("auto", 10, Ladder.parse(["2", "1"]), ordered=False)
        >>> encode(plan.parameters(0), 10, 7, lambda count: b"\\x11" * count)
        [7]
    """
    family = law.get("family")
    if family == Flips.family:
        if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value < domain_size:
            raise InvalidParameterError("value", f"an integer from 0 to {domain_size - 1}", "one outside")
        bits = (1 << domain_size - 1) - (1 << value) if value < domain_size - 1 else 0
        flips = Flips(parse_rational("epsilon", law.get("epsilon")))
        return members_of(encode_bits(bits, domain_size - 1, flips, read))
    if family == Grid.family:
        sizes, flips = sizes_of(law), Flips(parse_rational("epsilon", law.get("epsilon")))
        return members_of(encode_point(_point(value, sizes), sizes, flips, read))
    if not isinstance(value, int):
        raise InvalidParameterError("value", "the place of one value", "another")
    if family == LocalHash.family:
        first, second, bucket = _hashed(*_texts(law, _HASH), domain_size)(value, read)
        return [first >> 32, first & _LOW, second >> 32, second & _LOW, bucket]
    if family == MixedTier.family:
        laws, shares = paths_of(law)
        if isinstance(label, bool) or not isinstance(label, int) or not 0 <= label < sum(shares):
            raise InvalidParameterError("label", "a word of 32 bits", "another")
        path = bisect_right(list(accumulate(shares)), label)
        return [path, *encode(laws[path], domain_size, value, read)]
    if law.get("domain_size") != str(domain_size):
        raise InvalidRequestError("law: expected one of a panel's listing, got another")
    if family == RandomizedResponse.family:
        return [_valued(*_texts(law, _VALUE))(value, read)]
    if family != Subset.family:
        raise InvalidRequestError("law: expected one of a panel's listing, got another")
    return members_of(_encoder(*_texts(law, _SET))(value, read))


def _point(value: int | Sequence[int], sizes: tuple[int, ...]) -> tuple[int, ...]:
    """Return the place on each axis."""
    if isinstance(value, bool) or not isinstance(value, int | tuple | list):
        raise InvalidParameterError("value", "a place on each axis, or a cell's number", "another")
    if not isinstance(value, int):
        return tuple(value)
    if not 0 <= value < prod(sizes):
        raise InvalidParameterError("value", f"a cell from 0 to {prod(sizes) - 1}", "one outside")
    places = list[int]()
    for size in reversed(sizes):
        value, place = divmod(value, size)
        places.append(place)
    return tuple(reversed(places))


_SIGNAL = ("weight", "epsilon", "offset")
_SET = ("domain_size", "subset_size", *_SIGNAL)
_VALUE = ("domain_size", *_SIGNAL)
_HASH = ("buckets", *_SIGNAL)
_LOW = 2**32 - 1


def _texts(law: Mapping[str, str], names: Sequence[str]) -> list[str]:
    return [law.get(name, "") for name in names]


def _signal(weight: str, epsilon: str, offset: str) -> Signal:
    return signal_of({"weight": weight, "epsilon": epsilon, "offset": offset})


@lru_cache(maxsize=64)
def _encoder(domain_size: str, subset_size: str, weight: str, epsilon: str, offset: str) -> Encoder:
    signal = _signal(weight, epsilon, offset)
    return encoder(Subset(int(domain_size), parse_whole("subset size", subset_size), signal))


@lru_cache(maxsize=64)
def _valued(domain_size: str, weight: str, epsilon: str, offset: str) -> Encoder:
    return value_encoder(RandomizedResponse(int(domain_size), _signal(weight, epsilon, offset)))


@lru_cache(maxsize=64)
def _hashed(
    buckets: str, weight: str, epsilon: str, offset: str, domain_size: int
) -> Callable[[int, Read], tuple[int, int, int]]:
    return hash_encoder(LocalHash(parse_whole("buckets", buckets), _signal(weight, epsilon, offset)), domain_size)
