"""Every refusal of the service, as one tree; each becomes one RFC 9457 problem (see `app.routes.problems`)."""

from typing import ClassVar

__all__ = [
    "AccountSuspendedError",
    "AppError",
    "AuditFindingError",
    "BudgetRefusedError",
    "ChainFrozenError",
    "ConflictError",
    "ForbiddenError",
    "ForkedLogError",
    "IdempotencyError",
    "InsufficientFundsError",
    "IntegrityError",
    "InvalidQueryError",
    "InvalidRequestError",
    "NotAcceptableError",
    "NotEntitledError",
    "NotFoundError",
    "QuoteExpiredError",
    "SnapshotAbsentError",
    "StoreBehindError",
    "StoreUnavailableError",
    "TooManyRequestsError",
    "UnauthorizedError",
    "UnknownTierError",
]


class AppError(Exception):
    """Root: `status` and `kind` are the problem's; `fields` are its extension members. No secret, row or answer."""

    status: ClassVar[int] = 500
    kind: ClassVar[str] = "internal"
    title: ClassVar[str] = "The request could not be completed"

    def __init__(self, detail: str, **fields: object) -> None:
        self.detail, self.fields = detail, fields
        super().__init__(detail)


class InvalidRequestError(AppError):
    """The request breaks a documented rule: what, the rule, what came."""

    status, kind, title = 400, "invalid-request", "The request is not valid"


class InvalidQueryError(InvalidRequestError):
    """A query (or its bounds) is outside the model, or its sensitivity cannot be derived."""

    kind, title = "invalid-query", "The query is not valid"


class UnauthorizedError(AppError):
    """No valid API key came with the request."""

    status, kind, title = 401, "unauthorized", "A valid API key is required"


class InsufficientFundsError(AppError):
    """The account does not hold the price."""

    status, kind, title = 402, "insufficient-funds", "The account does not hold the price"


class ForbiddenError(AppError):
    """The role, or its tier ceiling, does not allow this."""

    status, kind, title = 403, "forbidden", "The role does not allow this"


class AccountSuspendedError(AppError):
    """An operator has suspended the account; its keys open nothing."""

    status, kind, title = 403, "account-suspended", "The account is suspended"


class NotEntitledError(AppError):
    """The caller holds no tier that gives this answer."""

    status, kind, title = 403, "not-entitled", "No tier that gives this answer is held"


class NotFoundError(AppError):
    """There is no such thing, or not for the caller."""

    status, kind, title = 404, "not-found", "There is no such resource"


class UnknownTierError(NotFoundError):
    """The product has no such tier, or none within the error bar asked for."""

    kind, title = "unknown-tier", "The product has no such tier"


class NotAcceptableError(AppError):
    """No format that the request accepts is one that the answer has."""

    status, kind, title = 406, "not-acceptable", "No acceptable format"


class ConflictError(AppError):
    """The state of the market does not admit this."""

    status, kind, title = 409, "conflict", "The state of the market does not admit this"


class QuoteExpiredError(ConflictError):
    """The quote's time is over, or price, credit or book changed since."""

    kind, title = "quote-expired", "The quote no longer holds"


class ChainFrozenError(ConflictError):
    """An audit found something of the chain: nothing more of it is sold; what was sold stays readable."""

    kind, title = "chain-frozen", "An audit has frozen this chain"


class BudgetRefusedError(ConflictError):
    """The dataset's privacy filter refuses the charge: requested, remaining, and what would fit."""

    kind, title = "budget-refused", "The privacy budget does not admit this tier"


class IdempotencyError(AppError):
    """An Idempotency-Key came back with another request."""

    status, kind, title = 422, "idempotency-key-reused", "The idempotency key belongs to another request"


class TooManyRequestsError(AppError):
    """A caller, or an address that sends bad keys, is over its limit; `retry_after_seconds` says when it is not."""

    status, kind, title = 429, "too-many-requests", "Too many requests"

    def __init__(self, detail: str, *, retry_after_seconds: int) -> None:
        super().__init__(detail, retry_after_seconds=retry_after_seconds)
        self.retry_after_seconds = retry_after_seconds


class IntegrityError(AppError):
    """Stored state does not match its commitment: nothing is answered until an operator has looked."""

    status, kind, title = 500, "integrity", "Stored state failed its integrity check"


class AuditFindingError(IntegrityError):
    """The audit of a release found something before it was revealed: nothing is revealed or charged."""

    kind, title = "audit-finding", "The audit of this release found something"


class StoreUnavailableError(AppError):
    """A part of the state cannot be reached, so nothing is decided."""

    status, kind, title = 503, "unavailable", "A store cannot be reached"


class SnapshotAbsentError(StoreUnavailableError):
    """This machine does not hold the data that an undrawn tier would be drawn from; what was sold is served."""

    kind, title = "snapshot-absent", "The data is not on this machine"


class StoreBehindError(StoreUnavailableError):
    """The store is older than what it has acknowledged: nothing is sold or drawn until the rest is replayed."""

    kind, title = "store-behind", "The store was rolled back and has not caught up"


class ForkedLogError(StoreUnavailableError):
    """The store's history is another one than the one that was acknowledged: nothing is sold or drawn on it."""

    kind, title = "log-forked", "The store's history is not the one that was signed"
