"""The OpenAPI description, with the access rule and every status of each operation.

What all operations have in common is derived here from the routes: who may use an operation, how
to sign in, and which problems it may answer with.
"""

import http
from collections.abc import Iterator
from typing import Any, cast

from fastapi import FastAPI
from fastapi.routing import APIRoute, iter_route_contexts

from evenbeat.core.limits import LONGEST_IDEMPOTENCY_KEY
from evenbeat.web.auth import AccessRule, find_access_rule
from evenbeat.web.idempotency import HEADER, IdempotentRoute

SCHEME = "token"
PROBLEM = {
    "title": "Problem",
    "description": "What went wrong, by RFC 9457; `error` says the same as `detail`.",
    "type": "object",
    "required": ["type", "title", "status", "detail", "instance", "error", "request_id"],
    "properties": {
        "type": {"type": "string", "format": "uri-reference"},
        "title": {"type": "string"},
        "status": {"type": "integer"},
        "detail": {"type": "string"},
        "instance": {"type": "string", "format": "uri-reference"},
        "error": {"type": "string"},
        "request_id": {"type": "string", "description": "the same as in X-Request-ID"},
        "errors": {
            "type": "array",
            "items": {
                "type": "object",
                "required": ["field", "message"],
                "properties": {"field": {"type": "string"}, "message": {"type": "string"}},
            },
        },
        "allowed_actions": {"type": "array", "items": {"type": "string"}},
    },
}
# What each status means, unless the route describes it.
MEANINGS = {
    304: "the client already has this answer (If-None-Match)",
    400: "the body is not JSON",
    401: "no token, or not a good one",
    403: "the role does not allow this",
    404: "no such thing",
    408: "the body did not come in time",
    409: "not in this state, or the key is in use",
    412: "changed since the client read it (If-Match)",
    413: "the body is too large",
    415: "the body is not of Content-Type application/json",
    422: "a field cannot be accepted; `errors` names it",
    429: "too many requests; Retry-After says when to come back",
    500: "an error of ours; the log has it under the request's id",
    503: "the database does not answer",
}
SIGNED_IN = (401, 403, 429, 503)
WITH_BODY = (400, 408, 413, 415)
# For invalid fields. An API whose clients expect another status sets it on its routes.
REFUSAL = 422
KEY_PARAMETER = {
    "name": HEADER,
    "in": "header",
    "required": False,
    "description": "sent again with the same key, the request is done once (24 hours)",
    "schema": {"type": "string", "maxLength": LONGEST_IDEMPOTENCY_KEY},
    "example": "8e03978e-40d5-43dd-bc93-6894a57f9324",
}


def install(site: FastAPI) -> None:
    """Complete what `site.openapi()` returns, at the first call, when all routes are there."""
    original = site.openapi

    def openapi() -> dict[str, Any]:
        if site.openapi_schema is None:
            complete(original(), site)
        return cast("dict[str, Any]", site.openapi_schema)

    site.openapi = openapi


def operations(site: FastAPI) -> Iterator[tuple[str, str, Any]]:
    """Every method and path that is served, with its route."""
    for route in iter_route_contexts(site.routes):
        if isinstance(route.original_route, APIRoute):
            for method in sorted(route.methods or ()):
                yield method, route.path_format or "", route


def complete(document: dict[str, Any], site: FastAPI) -> None:
    components = document.setdefault("components", {})
    schemas = components.setdefault("schemas", {})
    # FastAPI's own error format, which we do not use.
    for name in ("HTTPValidationError", "ValidationError"):
        schemas.pop(name, None)
    schemas["Problem"] = PROBLEM
    components["securitySchemes"] = {
        SCHEME: {"type": "http", "scheme": "bearer", "bearerFormat": "JWT"}
    }
    for method, path, route in operations(site):
        operation = document["paths"].get(path, {}).get(method.lower())
        if operation is not None:
            describe(operation, method, path, route)


def describe(operation: dict[str, Any], method: str, path: str, route: Any) -> None:
    rule = find_access_rule(route.dependant)
    if rule is not None:
        operation["x-role"] = rule.role.value if rule.role else "open"
        operation["security"] = [{SCHEME: []}] if rule.role else []
    if method == "POST" and isinstance(route.original_route, IdempotentRoute):
        operation.setdefault("parameters", []).append(KEY_PARAMETER)
    responses: dict[str, Any] = operation["responses"]
    refusal: int = getattr(route.original_route, "refusal", REFUSAL)
    if refusal != REFUSAL:
        # FastAPI has added this one by itself.
        responses.pop(str(REFUSAL), None)
        responses[str(refusal)] = {"description": MEANINGS[REFUSAL]}
    for status in statuses(operation, path, rule, refusal):
        responses.setdefault(str(status), {})
    for code, response in responses.items():
        if code.isdecimal() and int(code) >= http.HTTPStatus.BAD_REQUEST and rule and rule.role:
            as_problem(response, int(code), path)
    operation["responses"] = dict(sorted(responses.items()))


def statuses(
    operation: dict[str, Any], path: str, rule: AccessRule | None, refusal: int
) -> Iterator[int]:
    if rule is None or rule.role is None:
        return
    yield from SIGNED_IN
    yield 500
    if "requestBody" in operation:
        yield from WITH_BODY
        yield refusal
    if operation.get("parameters"):
        yield refusal
    if KEY_PARAMETER in operation.get("parameters", ()):
        yield 409
    if "{" in path:
        yield 404


def as_problem(response: dict[str, Any], status: int, path: str) -> None:
    meaning = MEANINGS.get(status, http.HTTPStatus(status).phrase)
    given = response.get("description")
    # FastAPI's default descriptions say nothing.
    if given in (None, "Validation Error", http.HTTPStatus(status).phrase):
        response["description"] = meaning
    response["content"] = {
        "application/problem+json": {
            "schema": {"$ref": "#/components/schemas/Problem"},
            "example": example(status, response["description"], path),
        }
    }


def example(status: int, meaning: str, path: str) -> dict[str, Any]:
    return {
        "type": "about:blank",
        "title": http.HTTPStatus(status).phrase,
        "status": status,
        "detail": meaning,
        "instance": path,
        "error": meaning,
        "request_id": "0d5c6f5b7c1f4a0f9f6d1b1f6b0a7c11",
    }
