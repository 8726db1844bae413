"""Subscriptions: what a buyer of every snapshot of drifting data really holds, and the price floor that follows."""

from collections.abc import Mapping
from math import isfinite, sqrt

from pricing.book import PriceBook, TierPrice
from pricing.errors import InvalidProductError, UnknownTierError

__all__ = ["emulated_tier", "snapshots_to_settle", "steady_variance"]

_STEP_LIMIT = 10**6


def steady_variance(noise: float, drift: float) -> float:
    """Return the variance at which a buyer of every snapshot knows the current value, in the long run.

    The true value does a random walk with variance `drift` a snapshot; each snapshot is its own chain of variance
    `noise`; the best linear filter (Kalman's) combines them. No drift at all means an unchanged dataset, which is the
    same chain and the same answer, not a new draw.

    Law:        P = (−τ² + √(τ⁴ + 4τ²R))/2, the fixed point of 1/P = 1/(P + τ²) + 1/R, with R = noise, τ² = drift.
    Raises:     InvalidProductError: not positive and finite.
    Example:
                >>> round(steady_variance(7.8354, 1), 4)
                2.3435
    """
    _check_positive("noise", noise)
    _check_positive("drift", drift)
    return 2 * noise / (1 + sqrt(1 + 4 * noise / drift))  # the same root, without cancellation


def snapshots_to_settle(noise: float, drift: float, within: float = 0.05) -> int:
    """Return after how many snapshots the buyer's variance is within a share of `steady_variance`.

    Raises:     InvalidProductError: not positive and finite, or more than 10⁶ snapshots.
    Example:
                >>> [snapshots_to_settle(7.8354, drift) for drift in (0.1, 1, 10)]
                [17, 6, 3]
    """
    _check_positive("within", within)
    goal = steady_variance(noise, drift) * (1 + within)
    variance = noise
    for count in range(1, _STEP_LIMIT):
        if variance <= goal:
            return count
        variance = 1 / (1 / (variance + drift) + 1 / noise)
    raise InvalidProductError("snapshots", f"to settle within {_STEP_LIMIT}", drift)


def emulated_tier(book: PriceBook, variances: Mapping[str, float], law: str, drift: float) -> TierPrice:
    """Return the most accurate tier of the book that a subscription at `law` emulates: it must cost no less.

    Args:       book: one-off prices. variances: of every listed law. law: the subscription's tier. drift: variance of
                the true value's change from snapshot to snapshot, as the owner declares it.
    Raises:     UnknownTierError: `law` is not listed, or a listed law has no variance.
                InvalidProductError: a variance or drift that is not positive and finite.
    Example:
                >>> prices = {"1": 3000, "0.75": 2000, "0.5": 1200}
                >>> book = PriceBook("c", 1, "EUR", tuple(TierPrice(law, prices[law]) for law in prices))
                >>> emulated_tier(book, {"1": 1.8413, "0.75": 3.3967, "0.5": 7.8354}, "0.5", drift=1).law
                '0.75'
    """
    for tier in book.tiers:
        if tier.law not in variances:
            raise UnknownTierError(book.chain_id, f"no variance for {tier.law}")
    book.rank_of(law)
    known = steady_variance(variances[law], drift)
    return next(tier for tier in book.tiers if variances[tier.law] >= known or tier.law == law)


def _check_positive(name: str, value: float) -> None:
    if isinstance(value, bool) or not isinstance(value, int | float) or not (isfinite(value) and value > 0):
        raise InvalidProductError(name, "a finite number > 0", value)
