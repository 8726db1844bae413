"""What a device runs: one value in, one report out; private before it leaves."""

import os
from collections.abc import Mapping
from fractions import Fraction
from functools import lru_cache

from app.errors import InvalidRequestError
from tiers.local.device import Encoder, Read, encode_bits, encoder
from tiers.local.flips import Flips
from tiers.local.late import members_of
from tiers.local.signal import Signal
from tiers.local.subset import Subset

__all__ = ["encode"]


def encode(law: Mapping[str, str], domain_size: int, value: int, read: Read = os.urandom) -> list[int]:
    """Return the report of one value under a panel's top tier, as its listing describes it (`device_law`).

    Guarantee:  exact coins: ε-LDP at the top tier's ε (flips: a step), whatever arithmetic the device has.
    Args:       value: the place of the person's value in the listing's domain, from 0. read: uniform bytes, the
                operating system's unless told; a device that must send the same report again keeps it.
    Raises:     InvalidRequestError: no law that this version runs. InvalidParameterError: a value outside the domain.
    Example:
        >>> from app.panels.mechanism import choose
        >>> from tiers.budget import Ladder
        >>> plan = choose("auto", 10, Ladder.parse(["2", "1"]), ordered=False)
        >>> encode(plan.parameters(0), 10, 7, lambda count: b"\\x11" * count)
        [7]
    """
    family = law.get("family")
    if family == "flips":
        if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value < domain_size:
            raise InvalidRequestError(f"value: expected an integer from 0 to {domain_size - 1}, got another")
        bits = (1 << domain_size - 1) - (1 << value) if value < domain_size - 1 else 0
        return members_of(encode_bits(bits, domain_size - 1, Flips(Fraction(law["epsilon"])), read))
    if family != "subset" or law.get("domain_size") != str(domain_size):
        raise InvalidRequestError("law: expected one of a panel's listing, got another")
    return members_of(
        _encoder(*(law[name] for name in ("domain_size", "subset_size", "weight", "epsilon", "offset")))(value, read)
    )


@lru_cache(maxsize=64)
def _encoder(domain_size: str, subset_size: str, weight: str, epsilon: str, offset: str) -> Encoder:
    signal = Signal(Fraction(weight), Fraction(epsilon), Fraction(offset))
    return encoder(Subset(int(domain_size), int(subset_size), signal))
