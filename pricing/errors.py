"""One tree of errors for money, prices and payouts: each name states the broken rule and carries what broke it."""

from collections.abc import Sequence

__all__ = [
    "ArbitrageError",
    "ChangedQuoteError",
    "CurrencyMismatchError",
    "ExpiredQuoteError",
    "InvalidDemandError",
    "InvalidInvoiceError",
    "InvalidPriceError",
    "InvalidProductError",
    "InvalidShareError",
    "NoTierWithinError",
    "OvercreditError",
    "PricingError",
    "TimeLimitError",
    "UnknownTierError",
]


class PricingError(Exception):
    """Root of every refusal of the `pricing` package."""


class _RuleError(PricingError, ValueError):
    """A value breaks a rule. Message: what, the rule, what came."""

    def __init__(self, name: str, rule: str, got: object) -> None:
        self.name, self.rule, self.got = name, rule, got
        super().__init__(f"{name}: expected {rule}, got {_short(got)}")


class InvalidPriceError(_RuleError):
    """An amount, a currency, a price book, a holding or a reserve lies outside its domain."""


class InvalidDemandError(_RuleError):
    """Valuations, counts or histories from which no menu or plan can be computed."""


class InvalidProductError(_RuleError):
    """A product, a bundle or a catalogue that the arbitrage check cannot read."""


class InvalidShareError(_RuleError):
    """Owners' weights, fees, accruals or payments that do not describe a split of one sale."""


class InvalidInvoiceError(_RuleError):
    """An invoice, a credit note or a receipt that does not add up or does not belong."""


class CurrencyMismatchError(PricingError, ValueError):
    """Two currencies met in one sum, one book or one basket."""

    def __init__(self, expected: str, got: str) -> None:
        self.expected, self.got = expected, got
        super().__init__(f"currency: expected {_short(expected)} throughout, got {_short(got)}")


class UnknownTierError(PricingError, LookupError):
    """The chain's price book lists no such law: never priced, delisted, or a tier of another chain."""

    def __init__(self, chain_id: str, law: object) -> None:
        self.chain_id, self.law = chain_id, law
        super().__init__(f"tier: expected a law listed for chain {_short(chain_id)}, got {_short(law)}")


class NoTierWithinError(PricingError, LookupError):
    """No listed tier is as accurate as asked; `best` is the narrowest half-width on sale."""

    def __init__(self, asked: object, best: object) -> None:
        self.asked, self.best = asked, best
        super().__init__(
            f"accuracy: expected a half-width of at least {_short(best)} (the best on sale), got {_short(asked)}"
        )


class ExpiredQuoteError(PricingError):
    """An order cites a quote whose time is over."""

    def __init__(self, expires_at: int, now: int) -> None:
        self.expires_at, self.now = expires_at, now
        super().__init__(f"quote: expected an order before {_short(expires_at)}, got one at {_short(now)}")


class ChangedQuoteError(PricingError):
    """An order cites a quote that today's book, holding or reserve no longer gives; `field` is the first difference."""

    def __init__(self, field: str, offered: object, current: object) -> None:
        self.field, self.offered, self.current = field, offered, current
        super().__init__(f"quote {field}: expected {_short(current)} (as of now), got {_short(offered)} (as quoted)")


class ArbitrageError(PricingError, ValueError):
    """A good costs more than other goods from which it can be derived."""

    def __init__(self, target: str, price: int, bundle: Sequence[str], cost: int) -> None:
        self.target, self.price, self.bundle, self.cost = target, price, tuple(bundle), cost
        goods = _short(", ".join(bundle))
        super().__init__(f"price of {_short(target)}: expected at most {cost} (the cost of {goods}), got {price}")


class OvercreditError(PricingError, ValueError):
    """Credit notes would return more than was charged."""

    def __init__(self, what: str, remaining: int, got: int) -> None:
        self.what, self.remaining, self.got = what, remaining, got
        super().__init__(f"{what}: expected a credit of at most {remaining} (what is left of it), got {_short(got)}")


class TimeLimitError(PricingError):
    """A search ran out of time before it had any answer to give."""

    def __init__(self, what: str, done: int, of: int) -> None:
        self.what, self.done, self.of = what, done, of
        super().__init__(f"{what}: expected {of} steps within the time limit, got {done}")


def _short(value: object, limit: int = 60) -> str:
    try:
        text = repr(value)
    except ValueError:  # an integer beyond the interpreter's digit limit, here or inside a Fraction
        text = f"a value too long to print ({type(value).__name__})"
    return text if len(text) <= limit else f"{text[:limit]}… ({len(text)} characters)"
