"""Metrics of requests: their number by route and status, and how long they took."""

import time

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from evenbeat.observe.metrics import OTHER, Metrics

METHODS = frozenset({"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"})
# For requests without a route: their paths are unbounded, and each would be a new series.
NO_ROUTE = "none"


class RequestMetrics:
    """Counts a request when its answer starts: a stream may go on for hours."""

    def __init__(self, app: ASGIApp, metrics: Metrics) -> None:
        self._app = app
        self._metrics = metrics

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        began, is_counted = time.perf_counter(), False

        def count(status: int) -> None:
            nonlocal is_counted
            is_counted = True
            method = scope["method"] if scope["method"] in METHODS else OTHER
            took = time.perf_counter() - began
            self._metrics.count_request(method, route_of(scope), status, took)

        async def counted(message: Message) -> None:
            if message["type"] == "http.response.start":
                count(message["status"])
            await send(message)

        try:
            await self._app(scope, receive, counted)
        except Exception:
            # `problems.on_unexpected`, outside of this, answers it with 500.
            if not is_counted:
                count(500)
            raise


def route_of(scope: Scope) -> str:
    """The route as it was declared, as in `/api/v1/jobs/{id}`."""
    return getattr(scope.get("route"), "path", NO_ROUTE)
