"""Added to every answer: the request's id, security headers, HEAD and 304."""

import re
import time
from typing import Any
from uuid import uuid4

import structlog
from starlette.datastructures import Headers, MutableHeaders
from starlette.requests import Request
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from evenbeat.observe import log
from evenbeat.web.etags import is_etag_known
from evenbeat.web.rate_limits import Allowance

REQUEST_ID = "X-Request-ID"
# The id goes into logs and tables: no character that could end a line or a field.
SANE = re.compile(r"[A-Za-z0-9._-]{1,128}")
# A route's own header wins. Other sites may not embed, read or cache answers; CORS is off.
SAFE = {
    "Cache-Control": "no-store",
    "Content-Security-Policy": "default-src 'none'; frame-ancestors 'none'",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
}


def request_id_of(request: Request) -> str:
    return getattr(request.state, "request_id", "")


def headers_for(request_id: str) -> dict[str, str]:
    return SAFE | {REQUEST_ID: request_id}


# The same headers as bytes, as ASGI has them.
SAFE_RAW = {name.lower().encode(): value.encode() for name, value in SAFE.items()}
REQUEST_ID_RAW = REQUEST_ID.lower().encode()


class ResponseMiddleware:
    """The outermost middleware of ours: everything logged inside carries the request's id."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        given = Headers(scope=scope).get(REQUEST_ID, "")
        request_id = given if SANE.fullmatch(given) else uuid4().hex
        scope.setdefault("state", {})["request_id"] = request_id
        # HEAD is answered by the route of GET; the body is left out below.
        inner = {**scope, "method": "GET"} if scope["method"] == "HEAD" else scope
        with structlog.contextvars.bound_contextvars(request_id=request_id):
            await self._app(inner, receive, ResponseSender(scope, send))


class ResponseSender:
    """Sends an answer on, with the headers that every answer has."""

    def __init__(self, scope: Scope, send: Send) -> None:
        self._scope = scope
        self._send = send
        self._started_at = time.monotonic()
        self._has_body = scope["method"] != "HEAD"

    async def __call__(self, message: Message) -> None:
        if message["type"] == "http.response.start":
            self._add_headers(message)
        elif message["type"] == "http.response.body" and not self._has_body:
            message = {**message, "body": b""}
        await self._send(message)

    def _add_headers(self, message: Message) -> None:
        state: dict[str, Any] = self._scope["state"]
        given: list[tuple[bytes, bytes]] = list(message["headers"])
        added = SAFE_RAW | {REQUEST_ID_RAW: state["request_id"].encode()}
        for name, _ in given:
            added.pop(name, None)
        headers = MutableHeaders(raw=[*given, *added.items()])
        message["headers"] = headers.raw
        allowance: Allowance | None = state.get("allowance")
        if allowance is not None:
            headers.update(allowance.headers())
        if self._is_known(message["status"], headers):
            message["status"], self._has_body = 304, False
            for name in ("content-length", "content-type"):
                del headers[name]
        self._log(message["status"])

    def _is_known(self, status: int, headers: MutableHeaders) -> bool:
        """Whether the client has this very answer already."""
        is_asked = self._scope["method"] in ("GET", "HEAD") and status == 200
        tag = headers.get("etag")
        wanted = Headers(scope=self._scope).get("if-none-match")
        return is_asked and tag is not None and wanted is not None and is_etag_known(tag, wanted)

    def _log(self, status: int) -> None:
        # Without the query: it may hold secrets.
        log.get_logger().debug(
            log.REQUEST_ANSWERED,
            method=self._scope["method"],
            path=self._scope["path"],
            status=status,
            duration_ms=round((time.monotonic() - self._started_at) * 1000),
        )
