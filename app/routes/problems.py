"""Every refusal as one RFC 9457 problem, and the checks a body passes before anything else reads it."""

from collections.abc import Mapping
from typing import Any

import structlog
from litestar import Request
from litestar.exceptions import HTTPException, InternalServerException, ValidationException
from litestar.plugins.problem_details import ProblemDetailsConfig, ProblemDetailsException, ProblemDetailsPlugin
from litestar.status_codes import HTTP_405_METHOD_NOT_ALLOWED, HTTP_500_INTERNAL_SERVER_ERROR

from app.errors import AppError, InvalidRequestError, TooManyRequestsError, UnauthorizedError
from app.strict import check_json
from pricing.errors import NoTierWithinError, PricingError, UnknownTierError
from tiers.errors import TierError

__all__ = ["BODY_LIMIT", "TYPES", "check_body", "problems_plugin"]

BODY_LIMIT = 2**20
_TEXT_LIMIT = 200
_ERRORS_LIMIT = 5
TYPES = "https://tiermarket.invalid/problems/"
_HTTP_KINDS = {
    404: ("not-found", "There is no such resource"),
    405: ("method-not-allowed", "The method is not one of this resource"),
    413: ("too-large", "The body is too large"),
    415: ("unsupported-media-type", "The body's form is not supported"),
}
_HTTP_DETAILS = {
    404: "path: expected that of a resource, got another",
    413: f"body: expected at most {BODY_LIMIT} bytes, got more",
}
_log = structlog.get_logger("problems")


def problems_plugin() -> ProblemDetailsPlugin:
    """Return the plugin that turns every error tree into problem+json; what is unforeseen says nothing of itself."""
    return ProblemDetailsPlugin(
        ProblemDetailsConfig(
            exception_to_problem_detail_map={
                AppError: _app_problem,
                TierError: _rule_problem,
                PricingError: _rule_problem,
                HTTPException: _http_problem,
                Exception: _unforeseen,
            }
        )
    )


async def check_body(request: Request[Any, Any, Any]) -> None:
    """Refuse a body that repeats a key, holds NaN or an infinity, or nests without end: parsers differ on these.

    A body that says it is something else than JSON is refused as well; one that says nothing is read as JSON.
    """
    if request.method not in ("POST", "PUT", "PATCH"):
        return
    try:
        raw = await request.body()
    except InternalServerException:  # so says Litestar of a client that hung up, or whose chunks cannot be read
        raise InvalidRequestError("body: expected the whole of it, got a part") from None
    if not raw:
        return
    if request.content_type[0] not in ("", "application/json"):
        raise InvalidRequestError("body: expected JSON (Content-Type: application/json), got another type")
    check_json("body", raw)


def _problem(
    status: int,
    kind: str,
    title: str,
    detail: str,
    fields: Mapping[str, Any],
    headers: dict[str, str] | None = None,
) -> ProblemDetailsException:
    return ProblemDetailsException(
        status_code=status, type_=TYPES + kind, title=title, detail=detail, extra=dict(fields) or None, headers=headers
    )


def _app_problem(error: AppError) -> ProblemDetailsException:
    if error.status >= HTTP_500_INTERNAL_SERVER_ERROR:
        _log.error("request failed", kind=error.kind, detail=error.detail)
    headers = None
    if isinstance(error, UnauthorizedError):
        headers = {"WWW-Authenticate": 'Bearer realm="tiermarket"'}
    elif isinstance(error, TooManyRequestsError):
        headers = {"Retry-After": str(error.retry_after_seconds)}
    return _problem(error.status, error.kind, error.title, error.detail, error.fields, headers)


def _rule_problem(error: TierError | PricingError) -> ProblemDetailsException:
    if isinstance(error, UnknownTierError | NoTierWithinError):
        return _problem(404, "unknown-tier", "The product has no such tier", str(error), {})
    return _problem(400, "invalid-request", "The request is not valid", str(error), {})


def _http_problem(error: HTTPException) -> ProblemDetailsException:
    if isinstance(error, ValidationException):
        listed = error.extra if isinstance(error.extra, list) else []
        errors = [{key: str(text)[:_TEXT_LIMIT] for key, text in one.items()} for one in listed[:_ERRORS_LIMIT]]
        detail = "body: expected the documented fields within their bounds, got others"
        return _problem(400, "invalid-request", "The request is not valid", detail, {"errors": errors})
    status = error.status_code
    if status >= HTTP_500_INTERNAL_SERVER_ERROR:
        return _unforeseen(error)
    kind, title = _HTTP_KINDS.get(status, ("invalid-request", "The request is not valid"))
    headers = None
    if status == HTTP_405_METHOD_NOT_ALLOWED:
        allowed = {name.strip() for name in (error.headers or {}).get("allow", "").split(",")} - {"OPTIONS", ""}
        headers = {"Allow": ", ".join(sorted(allowed | ({"HEAD"} if "GET" in allowed else set())))}
    return _problem(status, kind, title, _HTTP_DETAILS.get(status, error.detail), {}, headers)


def _unforeseen(error: Exception) -> ProblemDetailsException:
    _log.error("unforeseen error", error=type(error).__name__)
    return _problem(500, "internal", "The request could not be completed", "The request failed", {})
