"""The API's OpenAPI document: Litestar's paths, msgspec's own schemas, and every refusal a route can give."""

import json
import re
from collections import defaultdict
from collections.abc import Iterable, Mapping
from enum import Enum
from typing import Any

import msgspec
from litestar import Request
from litestar.handlers import BaseRouteHandler
from litestar.openapi.plugins import JsonRenderPlugin
from litestar.routes import ASGIRoute, BaseRoute, HTTPRoute

from app import views, wire
from app.errors import (
    AccountSuspendedError,
    AppError,
    ForbiddenError,
    ForkedLogError,
    IntegrityError,
    InvalidQueryError,
    InvalidRequestError,
    NotFoundError,
    StoreBehindError,
    StoreUnavailableError,
    TooManyRequestsError,
    UnauthorizedError,
)
from app.exports.shelf import MOST_KEPT
from app.formats.negotiate import Format
from app.jobs.listing import JobView
from app.locations import views as location_views
from app.locations import wire as location_wire
from app.log.heads import TreeHead
from app.panels.formats import ReportFormat
from app.routes.answers import ANSWER_PATH
from app.routes.problems import TYPES
from app.views import ProblemView

__all__ = ["DocumentPlugin", "complete"]

_REF = "#/components/schemas/{name}"
_HEX = "^[0-9a-f]{64}$"
_NUMBER = "^[0-9]{1,9}$"
_PATHS = {"chain": _HEX, "law": _HEX, "question": _HEX, "round": _NUMBER, "tier": _NUMBER} | {
    name: f"^{prefix}_[0-9a-f]{{24}}$"
    for name, prefix in (
        ("account", "acc"),
        ("bundle", "bundle"),
        ("dashboard", "dash"),
        ("dataset", "data"),
        ("export", "export"),
        ("job", "job"),
        ("key", "key"),
        ("location", "location"),
        ("order", "order"),
        ("panel", "panel"),
        ("product", "prod"),
        ("report", "report"),
    )
}
_BODIES: dict[tuple[str, str], dict[str, Any]] = {
    ("POST", "/v1/orders"): {"$ref": _REF.format(name="PlacedView")},
    ("POST", "/v1/locations/{location}/orders"): {"$ref": _REF.format(name="LocationPlacedView")},
    ("POST", "/v1/exports"): {"type": "object", "required": ["job"]},
    ("GET", "/v1/exports"): {"type": "array", "items": {"type": "object"}, "maxItems": MOST_KEPT},
    ("GET", "/v1/orders/{order}"): {"type": "object", "required": ["order", "signature"]},
    ("GET", ANSWER_PATH): {"$ref": _REF.format(name="AnswerView")},
    ("POST", "/v1/products/{product}/rehearsal"): {"$ref": _REF.format(name="AnswerView")},
    ("POST", "/v1/products/{product}/rehearsal/reading"): {"type": "object", "required": ["dummy", "reading"]},
    ("GET", "/v1/products/{product}/readings/{law}"): {"type": "object", "required": ["type"]},
    ("POST", "/v1/panels/{panel}/readings"): {"$ref": _REF.format(name="PanelReadingView")},
}
_UNWAITED = {("POST", "/v1/orders"), ("POST", "/v1/locations/{location}/orders")}
_KEYED = _UNWAITED | {("POST", "/v1/panels/{panel}/orders"), ("POST", "/v1/threshold-orders")}
_IDEMPOTENCY = {
    "name": "Idempotency-Key",
    "in": "header",
    "required": True,
    "schema": {"type": "string", "minLength": 1, "maxLength": 200, "pattern": "^[!#-~]+$"},
    "description": "Makes a retry the same order.",
}
_PREFER = {
    "name": "Prefer",
    "in": "header",
    "required": False,
    "schema": {"type": "string", "enum": ["respond-async"]},
    "description": "Do not wait for a draw: 202 and a job where what is ordered must be drawn first.",
}
_EXPORT_MEDIA = ("application/zip", "application/x-ndjson", *(kind.value for kind in Format))
_BEGUN = {
    "description": "A job draws what is ordered and places the order; its result names the order",
    "headers": {name: {"schema": {"type": "string"}} for name in ("Location", "Preference-Applied")},
    "content": {
        "application/json": {
            "schema": {"type": "object", "required": ["job"], "properties": {"job": {"type": "string"}}}
        }
    },
}
_MEDIA = {
    "/static/site.css": "text/css",
    "/v1/audit/export": "application/x-ndjson",
    "/v1/audits/{report}/page": "text/html",
    "/v1/panels/{panel}/rounds/{round}/replay": "application/x-ndjson",
}


class DocumentPlugin(JsonRenderPlugin):
    """Renders the completed document, made once."""

    _rendered: bytes | None = None

    def render(self, request: Request[Any, Any, Any], openapi_schema: dict[str, Any]) -> bytes:
        """Return the document as JSON."""
        if self._rendered is None:
            self._rendered = msgspec.json.encode(complete(openapi_schema, request.app.routes))
        return self._rendered


def complete(document: Mapping[str, Any], routes: Iterable[BaseRoute]) -> dict[str, Any]:
    """Return the document with exact schemas, security, parameters, and the problems of every operation."""
    made: dict[str, Any] = json.loads(json.dumps(document))
    made["components"] = {"schemas": _schemas(), "securitySchemes": {"key": {"type": "http", "scheme": "bearer"}}}
    for route in routes:
        path = route.path_format
        if isinstance(route, ASGIRoute):
            operation: dict[str, Any] = {"operationId": "Answer", "summary": "Answer", "responses": {"200": {}}}
            made["paths"][ANSWER_PATH] = {"get": operation}
            _complete_operation(operation, "GET", ANSWER_PATH, route.route_handler)
        elif isinstance(route, HTTPRoute) and path in made["paths"]:
            for handler in route.route_handlers:
                for method in handler.http_methods - {"OPTIONS"}:
                    _complete_operation(made["paths"][path][method.lower()], method, path, handler)
    return made


def _schemas() -> dict[str, Any]:
    structs = [
        getattr(module, name) for module in (wire, views, location_wire, location_views) for name in module.__all__
    ]
    types = [kind for kind in structs if isinstance(kind, type) and issubclass(kind, msgspec.Struct)]
    _, components = msgspec.json.schema_components([*types, TreeHead, JobView], ref_template=_REF)
    found: dict[str, Any] = _portable(components)
    return found


def _portable(schema: Any) -> Any:
    """A pattern ends with `$` in every dialect but Python's, where only `\\Z` is the very end."""
    if isinstance(schema, dict):
        return {
            key: value.replace("\\Z", "$") if key == "pattern" and isinstance(value, str) else _portable(value)
            for key, value in schema.items()
        }
    return [_portable(item) for item in schema] if isinstance(schema, list) else schema


def _complete_operation(operation: dict[str, Any], method: str, path: str, handler: BaseRouteHandler) -> None:
    opt = handler.opt
    operation["description"] = (handler.fn.__doc__ or "").strip()
    operation["security"] = [] if opt.get("public") else [{"key": []}]
    operation["x-roles"] = sorted(opt.get("roles", ()))
    operation["parameters"] = _parameters(method, path, handler)
    responses = {code: body for code, body in operation["responses"].items() if code[0] == "2"}
    for code, body in responses.items():
        body.setdefault("description", "Done")
        if (method, path) in _BODIES:
            body["content"] = {"application/json": {"schema": _BODIES[method, path]}}
        if path in _MEDIA:
            body["content"] = {_MEDIA[path]: {"schema": {}}}
        if opt.get("formats") is ReportFormat:
            body["content"] = {kind.value: {"schema": {}} for kind in ReportFormat}
        elif opt.get("formats"):
            body["content"] |= {kind.value: {"schema": {}} for kind in Format if kind is not Format.JSON}
        if (query := opt.get("query")) is not None and "count" in query.__struct_fields__:
            link = {"schema": {"type": "string"}, "description": 'The next page: <URL>; rel="next".'}
            body["headers"] = {"Link": link}
        responses[code] = body
    if (method, path) == ("GET", "/v1/exports/{export}"):
        responses["200"]["content"] = {media: {"schema": {}} for media in _EXPORT_MEDIA}
    if method == "GET" and (opt.get("formats") is True or path == "/v1/exports/{export}"):
        responses["304"] = {"description": "The representation is the one that If-None-Match names"}
    if (method, path) in _UNWAITED:
        responses["202"] = _BEGUN
    for status, kinds in sorted(_refusals(method, path, handler).items()):
        responses[str(status)] = _refusal(status, kinds)
    if path == "/health/ready":
        responses["503"] = {"description": "Not ready"} | {"content": responses["200"]["content"]}
    operation["responses"] = responses


def _parameters(method: str, path: str, handler: BaseRouteHandler) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = [
        {"name": name, "in": "path", "required": True, "schema": {"type": "string", "pattern": _PATHS[name]}}
        for name in re.findall(r"{([a-z]+)}", path)
    ]
    query: type[msgspec.Struct] | None = handler.opt.get("query")
    if query is not None:
        _, components = msgspec.json.schema_components([query])
        schema = _portable(components[query.__name__])
        required = schema.get("required", ())
        for name, option in schema["properties"].items():
            found.append({"name": name, "in": "query", "required": name in required, "schema": _without_null(option)})
    if (method, path) in _KEYED:
        found.append(_IDEMPOTENCY)
    if (method, path) in _UNWAITED:
        found.append(_PREFER)
    if formats := handler.opt.get("formats"):
        found.append(_format(Format if formats is True else formats))
    return found


def _format(kinds: type[Enum]) -> dict[str, Any]:
    return {
        "name": "format",
        "in": "query",
        "required": False,
        "schema": {"enum": [kind.name.lower() for kind in kinds]},
        "description": "The format, where it is not chosen by Accept.",
    }


def _without_null(schema: dict[str, Any]) -> dict[str, Any]:
    """A query parameter is left out, never null."""
    options = [option for option in schema.get("anyOf", [schema]) if option != {"type": "null"}]
    return dict(options[0])


def _refusals(method: str, path: str, handler: BaseRouteHandler) -> Mapping[int, set[str]]:
    """Every problem that a request to this route can meet, by status."""
    kinds: defaultdict[int, set[str]] = defaultdict(set)
    kinds[414].add("target-too-long")
    kinds[415].add("unsupported-media-type")
    kinds[431].add("headers-too-large")
    refused: list[type[AppError]] = [InvalidRequestError, *handler.opt.get("refuses", ())]
    if not handler.opt.get("public"):
        refused += [UnauthorizedError, ForbiddenError, AccountSuspendedError]
    if not handler.opt.get("unlimited"):
        refused += [TooManyRequestsError, StoreUnavailableError, IntegrityError]
    if "{" in path:
        refused.append(NotFoundError)
    if method != "GET":
        kinds[413].add("too-large")
        refused += [InvalidQueryError, StoreBehindError, ForkedLogError]
    for error in refused:
        kinds[error.status].add(error.kind)
    if NotFoundError in refused:
        kinds[404].add("unknown-tier")
    kinds[500].add("internal")
    return kinds


def _refusal(status: int, kinds: set[str]) -> dict[str, Any]:
    exact = {"status": {"const": status}, "type": {"enum": [TYPES + kind for kind in sorted(kinds)]}}
    schema = {"allOf": [{"$ref": _REF.format(name=ProblemView.__name__)}, {"properties": exact}]}
    refusal: dict[str, Any] = {
        "description": ", ".join(sorted(kinds)),
        "content": {"application/problem+json": {"schema": schema}},
    }
    if status == TooManyRequestsError.status:
        refusal["headers"] = {"Retry-After": {"schema": {"type": "integer", "minimum": 1}}}
    return refusal
