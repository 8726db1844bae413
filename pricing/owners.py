"""What owners earn from a sale and when it is paid: every cent conserved, every remainder carried."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction

from pricing.errors import InvalidShareError
from pricing.money import MONEY_LIMIT, largest_remainder

__all__ = [
    "SUB",
    "Payout",
    "SaleSplit",
    "contracted_weights",
    "payout",
    "quota_method",
    "reverse",
    "reverse_part",
    "split_sale",
]

SUB = 1_000_000  # accruals are counted in 10⁻⁶ of a minor unit
_BASIS = 10_000
_SEAT_LIMIT = 10**6


@dataclass(frozen=True, slots=True)
class SaleSplit:
    """One posting: net = fee + pool in minor units, and the pool by owner in 10⁻⁶ of them. Reversals are negative.

    Raises:     InvalidShareError: it does not add up, or an owner twice.
    Example:
                >>> SaleSplit(net=100, fee=15, pool=85, accruals=(("ann", 85 * SUB),)).pool
                85
    """

    net: int
    fee: int
    pool: int
    accruals: tuple[tuple[str, int], ...]

    def __post_init__(self) -> None:
        if self.fee + self.pool != self.net:
            raise InvalidShareError("fee + pool", f"the net {self.net}", self.fee + self.pool)
        total = sum(units for _, units in self.accruals)
        if total != self.pool * SUB:
            raise InvalidShareError("accruals", f"{self.pool * SUB} in all", total)
        if len({owner for owner, _ in self.accruals}) < len(self.accruals):
            raise InvalidShareError("accruals", "each owner once", [owner for owner, _ in self.accruals])


def contracted_weights(rates: Mapping[str, int], loss_nano: Mapping[str, int]) -> dict[str, int]:
    """Return weight = contracted rate × budget charged to the owner on this chain: no loss, no pay.

    Args:       rates: contracted integer rates. loss_nano: budget charged, 10⁻⁹; owners not named lost nothing.
    Raises:     InvalidShareError: an owner with a loss and no contract, or negative or fractional numbers.
    Example:
                >>> contracted_weights({"ann": 2, "bob": 1}, {"ann": 500, "bob": 500})
                {'ann': 1000, 'bob': 500}
    """
    for owner, loss in loss_nano.items():
        _check_whole(f"loss of {owner!r}", loss)
        if loss and owner not in rates:
            raise InvalidShareError(f"contract of {owner!r}", "a rate for every owner with a loss", None)
    return {owner: _check_whole(f"rate of {owner!r}", rate) * loss_nano.get(owner, 0) for owner, rate in rates.items()}


def split_sale(net: int, fee_bps: int, weights: Mapping[str, int]) -> SaleSplit:
    """Return how one sale is shared: the fee rounded down, the rest by weight in 10⁻⁶ minor units.

    Guarantee:  fee + pool = net and the accruals add up to the pool, exactly; each accrual is within 10⁻⁶ of its exact
                share; the result does not depend on the order of owners (ties go by owner id).
    Args:       net: payment less refunds, minor units ≥ 0. fee_bps: the market's fee in 1/10 000. weights: by owner.
    Raises:     InvalidShareError: negative or fractional numbers, a fee above 100 %, no positive weight.
    Example:
                >>> split_sale(10001, 1500, {"ann": 1}).accruals
                (('ann', 8501000000),)
    """
    if _check_whole("net", net) > MONEY_LIMIT:
        raise InvalidShareError("net", "at most 2⁵³−1", net)
    if _check_whole("fee", fee_bps) > _BASIS:
        raise InvalidShareError("fee", f"0 to {_BASIS} basis points", fee_bps)
    fee = net * fee_bps // _BASIS
    owners = sorted(weights)
    shares = largest_remainder((net - fee) * SUB, [weights[owner] for owner in owners])
    return SaleSplit(net, fee, net - fee, tuple(zip(owners, shares, strict=True)))


def reverse(split: SaleSplit) -> SaleSplit:
    """Return the posting that undoes `split`: the negation of its stored lines, never a fresh split.

    Example:
                >>> reverse(SaleSplit(100, 15, 85, (("ann", 85 * SUB),))).accruals
                (('ann', -85000000),)
    """
    return SaleSplit(-split.net, -split.fee, -split.pool, tuple((owner, -units) for owner, units in split.accruals))


def reverse_part(split: SaleSplit, credited: int, already: int = 0) -> SaleSplit:
    """Return the posting for a credit of `credited` minor units, after credits of `already` on the same sale.

    Each step is the difference of two cumulative reversals, so however a refund is cut up, the whole of it is exactly
    `reverse(split)`; on the way each owner is within 10⁻⁶ of the proportional share.

    Raises:     InvalidShareError: more than the sale's net in all, negative or fractional.
    Example:
                >>> reverse_part(SaleSplit(100, 15, 85, (("ann", 85 * SUB),)), 40).pool
                -34
    """
    _check_whole("credit", credited)
    _check_whole("earlier credits", already)
    if already + credited > split.net:
        raise InvalidShareError("credits", f"at most the net {split.net} in all", already + credited)
    before, after = (_reversed(split, amount) for amount in (already, already + credited))
    accruals = tuple((owner, after[owner] - before[owner]) for owner, _ in split.accruals)
    fee = split.fee * (already + credited) // split.net - split.fee * already // split.net if split.net else 0
    return SaleSplit(-credited, -fee, fee - credited, tuple((owner, -units) for owner, units in accruals))


def _reversed(split: SaleSplit, amount: int) -> dict[str, int]:
    owners = [owner for owner, _ in split.accruals]
    units = [units for _, units in split.accruals]
    if not any(units):
        return dict.fromkeys(owners, 0)
    pool = amount - split.fee * amount // split.net
    return dict(zip(owners, largest_remainder(pool * SUB, units), strict=True))


@dataclass(frozen=True, slots=True)
class Payout:
    """What is due now, by owner, in minor units, and what stays: `suspense` in 10⁻⁶, negative after a late reversal.

    Example:
                >>> payout({"ann": 1_500_000}, {}).due
                {'ann': 1}
    """

    due: dict[str, int]
    suspense: dict[str, int]


def payout(accrued: Mapping[str, int], paid: Mapping[str, int]) -> Payout:
    """Return each owner's payout: the whole units accrued less those already paid, never below zero.

    An owner who was overpaid before a reversal gets nothing until later sales have made up for it.

    Guarantee:  paid + due, in 10⁻⁶, plus suspense is what was accrued, owner by owner.
    Args:       accrued: sum of all postings by owner, 10⁻⁶. paid: minor units paid so far (owners not named: 0).
    Raises:     InvalidShareError: paid to an owner who has no accrual account, or not whole numbers.
    Example:
                >>> payout({"ann": 2_600_000, "bob": -1}, {"ann": 1}).suspense
                {'ann': 600000, 'bob': -1}
    """
    for owner, amount in paid.items():
        _check_whole(f"paid to {owner!r}", amount)
        if owner not in accrued:
            raise InvalidShareError(f"account of {owner!r}", "an accrual for everyone paid", amount)
    due: dict[str, int] = {}
    suspense: dict[str, int] = {}
    for owner, units in accrued.items():
        if isinstance(units, bool) or not isinstance(units, int):
            raise InvalidShareError(f"accrual of {owner!r}", "an integer of 10⁻⁶ minor units", units)
        before = paid.get(owner, 0)
        due[owner] = max(0, units // SUB - before)
        suspense[owner] = units - (before + due[owner]) * SUB
    return Payout(due, suspense)


def quota_method(total: int, weights: Sequence[int]) -> list[int]:
    """Return whole shares of `total` that never fall as the total grows (Balinski and Young), ties by index.

    For owners with fixed weights paid in whole units from one growing total: unlike `largest_remainder` nobody ever has
    to give a unit back, and every share stays within one of the exact one.

    Raises:     InvalidShareError: negative or fractional numbers, no positive weight, a total above 10⁶.
    Example:
                >>> quota_method(10, [6, 6, 2]), quota_method(11, [6, 6, 2])
                ([5, 4, 1], [5, 5, 1])
    """
    if _check_whole("total", total) > _SEAT_LIMIT:
        raise InvalidShareError("total", f"at most {_SEAT_LIMIT}", total)
    whole = sum(_check_whole("weight", weight) for weight in weights)
    if whole == 0:
        raise InvalidShareError("weights", "at least one positive weight", tuple(weights))
    shares = [0] * len(weights)
    for seats in range(1, total + 1):
        below = [index for index, weight in enumerate(weights) if shares[index] * whole < seats * weight]
        shares[max(below, key=lambda index: (Fraction(weights[index], shares[index] + 1), -index))] += 1
    return shares


def _check_whole(name: str, value: int) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or value < 0:
        raise InvalidShareError(name, "an integer ≥ 0", value)
    return value
