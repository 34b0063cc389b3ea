"""Problems: every error as problem+json, with the plain `error` text that older clients read."""

import http
import math
from collections.abc import Sequence
from typing import Any, cast
from urllib.parse import quote

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse
from fastapi.routing import iter_route_contexts
from starlette.exceptions import HTTPException

from evenbeat.core.errors import (
    Conflict,
    EvenbeatError,
    FieldError,
    IllegalTransition,
    InvalidInput,
    NotFound,
    NotPermitted,
    NotSignedIn,
    PreconditionFailed,
    StoreUnavailable,
    TooManyRequests,
)
from evenbeat.observe import log
from evenbeat.web.middleware import headers_for, request_id_of

# The first match counts: a subclass stands before its base class.
STATUS: dict[type[EvenbeatError], int] = {
    InvalidInput: 422,
    NotFound: 404,
    PreconditionFailed: 412,
    Conflict: 409,
    NotSignedIn: 401,
    NotPermitted: 403,
    TooManyRequests: 429,
    StoreUnavailable: 503,
}
# Enough to correct a request by; a body of a megabyte can hold a hundred thousand errors.
MOST_ERRORS = 20
LONGEST_TEXT = 500
# `curl -d` sends a form unless it is given a Content-Type.
NOT_AN_OBJECT = "the body must be a JSON object, sent with Content-Type: application/json"
HEADERS = {401: {"WWW-Authenticate": "Bearer"}, 503: {"Retry-After": "1"}}


def problem_response(
    request: Request, status: int, detail: str, errors: Sequence[FieldError] = (), **more: Any
) -> JSONResponse:
    # Not `request.url`: it contains the Host header, which the client chooses.
    title = http.HTTPStatus(status).phrase
    body: dict[str, Any] = {
        "type": "about:blank",
        "title": title,
        "status": status,
        "detail": trim_text(detail),
        # The path in the scope is decoded; a URI reference has to be quoted.
        "instance": quote(trim_text(request.scope["path"]), safe="/:@!$&'()*+,;=~"),
        "error": trim_text(detail),
        "request_id": request_id_of(request),
        **more,
    }
    if errors:
        body["errors"] = [
            {"field": trim_text(each.field), "message": trim_text(each.message)} for each in errors
        ]
    return JSONResponse(
        body, status, headers=HEADERS.get(status), media_type="application/problem+json"
    )


def trim_text(text: str) -> str:
    """A client's text, fit to be sent back: of bounded length, without lone surrogates."""
    return text[:LONGEST_TEXT].encode(errors="backslashreplace").decode()


def install(app: FastAPI) -> None:
    app.add_exception_handler(EvenbeatError, on_our_error)
    app.add_exception_handler(RequestValidationError, on_invalid_request)
    app.add_exception_handler(HTTPException, on_http_error)
    app.add_exception_handler(Exception, on_unexpected)


async def on_our_error(request: Request, error: Exception) -> JSONResponse:
    status = next(
        (code for kind, code in STATUS.items() if isinstance(error, kind)),
        500,
    )
    errors = error.errors if isinstance(error, InvalidInput) else ()
    if isinstance(error, TooManyRequests):
        answer = problem_response(request, status, str(error))
        answer.headers["Retry-After"] = str(math.ceil(error.retry_after))
        return answer
    if isinstance(error, IllegalTransition):
        return problem_response(request, status, str(error), allowed_actions=error.allowed)
    return problem_response(request, status, str(error), errors)


async def on_invalid_request(request: Request, error: Exception) -> JSONResponse:
    faults = cast("RequestValidationError", error).errors()
    broken = [fault for fault in faults if fault["type"] == "json_invalid"]
    if broken:
        reason = broken[0].get("ctx", {}).get("error", "cannot be read")
        return problem_response(request, 400, f"the body is not JSON: {reason}")
    if any(is_body_no_object(fault) for fault in faults):
        if not is_json(request.headers.get("content-type", "")):
            return problem_response(request, 415, NOT_AN_OBJECT)
        return problem_response(request, 422, NOT_AN_OBJECT, [FieldError("body", NOT_AN_OBJECT)])
    errors = [field_error(fault) for fault in faults[:MOST_ERRORS]]
    return problem_response(request, 422, "; ".join(map(str, errors)), errors)


def is_body_no_object(fault: dict[str, Any]) -> bool:
    """Whether the body itself is no object, rather than a field of it."""
    return fault["type"] == "model_attributes_type" and tuple(fault["loc"]) == ("body",)


def is_json(content_type: str) -> bool:
    kind = content_type.partition(";")[0].strip().lower()
    return kind == "application/json" or (
        kind.startswith("application/") and kind.endswith("+json")
    )


def field_error(fault: dict[str, Any]) -> FieldError:
    # The first part is body, query or path, which the client knows.
    place = ".".join(str(part) for part in fault["loc"][1:]) or str(fault["loc"][0])
    return FieldError(place, fault["msg"].removeprefix("Value error, "))


async def on_http_error(request: Request, error: Exception) -> JSONResponse:
    known = cast("HTTPException", error)
    detail = describe_unreadable(known.__cause__) or str(known.detail)
    answer = problem_response(request, known.status_code, detail)
    answer.headers.update(known.headers or {})
    if known.status_code == http.HTTPStatus.METHOD_NOT_ALLOWED:
        answer.headers["Allow"] = ", ".join(allowed_methods(request))
    return answer


def allowed_methods(request: Request) -> list[str]:
    """The methods of all routes with this path; Starlette names those of the first route only."""
    found = set[str]()
    for route in iter_route_contexts(request.app.routes):
        if route.path_regex.match(request.scope["path"]):
            found |= route.methods or set()
    return sorted(found | {"HEAD"} if "GET" in found else found)


def describe_unreadable(cause: BaseException | None) -> str | None:
    """Why correct JSON cannot be read, which FastAPI does not tell."""
    match cause:
        case RecursionError():
            return "the body is not JSON that can be read: it is nested too deeply"
        case UnicodeDecodeError():
            return "the body is not JSON that can be read: it is not UTF-8"
        case ValueError():
            return "the body is not JSON that can be read: a number has too many digits"
        case _:
            return None


async def on_unexpected(request: Request, error: Exception) -> JSONResponse:
    # This answer does not pass ResponseMiddleware: its headers are added here.
    request_id = request_id_of(request)
    log.get_logger().error(
        log.REQUEST_FAILED, path=request.scope["path"], request_id=request_id, exc_info=error
    )
    answer = problem_response(request, 500, "something went wrong here; the server's log says what")
    answer.headers.update(headers_for(request_id))
    return answer
