"""Limits that hold before a request is read: the size of its body."""

from starlette.datastructures import Headers
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from evenbeat.web.problems import problem

LARGEST_BODY = 1_000_000
TOO_LARGE = f"the body is larger than {LARGEST_BODY:,} bytes"


class BodyLimit:
    """Refuses bodies over a megabyte, announced or not."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        announced = Headers(scope=scope).get("content-length", "0")
        if announced.isdecimal() and int(announced) > LARGEST_BODY:
            await problem(Request(scope), 413, TOO_LARGE)(scope, receive, send)
            return
        await self._app(scope, counted(receive), send)


def counted(receive: Receive) -> Receive:
    """More may come than was announced: whoever reads it gets this error instead of the rest."""
    size = 0

    async def count() -> Message:
        nonlocal size
        message = await receive()
        size += len(message.get("body", b""))
        if size > LARGEST_BODY:
            # Any other error while a body is read would be told as one of its syntax.
            raise HTTPException(413, TOO_LARGE)
        return message

    return count
