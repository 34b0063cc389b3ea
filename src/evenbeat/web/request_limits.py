"""Limits of a request's body: its size, and how long it may take to arrive."""

import asyncio

from starlette.datastructures import Headers
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from evenbeat.core.limits import LARGEST_REQUEST_BODY
from evenbeat.web.problems import problem_response

TOO_LARGE = f"the body is larger than {LARGEST_REQUEST_BODY:,} bytes"
# For the whole body, so that a client that sends single bytes cannot hold a connection.
SLOWEST_BODY = 30.0
TOO_SLOW = f"the body did not come within {SLOWEST_BODY:.0f} s"
# A compressed megabyte may unpack to any size.
PACKED = "the body must not be compressed: leave out Content-Encoding"


class BodyLimit:
    """Refuses bodies over a megabyte, whatever their Content-Length says, and endless ones."""

    def __init__(self, app: ASGIApp, slowest: float = SLOWEST_BODY) -> None:
        self._app = app
        self._slowest = slowest

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        headers = Headers(scope=scope)
        announced = headers.get("content-length", "0")
        if headers.get("content-encoding", "identity").strip().lower() != "identity":
            await problem_response(Request(scope), 415, PACKED)(scope, receive, send)
            return
        if announced.isdecimal() and int(announced) > LARGEST_REQUEST_BODY:
            await problem_response(Request(scope), 413, TOO_LARGE)(scope, receive, send)
            return
        await self._app(scope, limit_body(receive, self._slowest), send)


def limit_body(receive: Receive, slowest: float) -> Receive:
    """`receive`, which raises HTTPException once the body is too large or too slow."""
    size, is_whole = 0, False
    deadline: float | None = None

    async def count() -> Message:
        nonlocal size, is_whole, deadline
        # After the body, `receive` waits for the end of the connection: without a deadline.
        if not is_whole and deadline is None:
            deadline = asyncio.get_running_loop().time() + slowest
        try:
            async with asyncio.timeout_at(None if is_whole else deadline):
                message = await receive()
        except TimeoutError:
            raise HTTPException(408, TOO_SLOW, {"Connection": "close"}) from None
        is_whole = not message.get("more_body", False)
        size += len(message.get("body", b""))
        if size > LARGEST_REQUEST_BODY:
            # FastAPI reports any other error here as broken JSON.
            raise HTTPException(413, TOO_LARGE)
        return message

    return count
