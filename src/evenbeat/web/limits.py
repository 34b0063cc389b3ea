"""Limits that hold before a request is read: the size of its body."""

from starlette.datastructures import Headers
from starlette.requests import Request
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from evenbeat.web.problems import problem

LARGEST_BODY = 1_000_000


class TooLarge(Exception):
    """More came than was announced."""


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
            await self._refuse(scope, receive, send)
            return
        try:
            await self._app(scope, counted(receive), send)
        except TooLarge:
            await self._refuse(scope, receive, send)

    async def _refuse(self, scope: Scope, receive: Receive, send: Send) -> None:
        detail = f"the body is larger than {LARGEST_BODY:,} bytes"
        await problem(Request(scope), 413, detail)(scope, receive, send)


def counted(receive: Receive) -> Receive:
    size = 0

    async def count() -> Message:
        nonlocal size
        message = await receive()
        size += len(message.get("body", b""))
        if size > LARGEST_BODY:
            raise TooLarge
        return message

    return count
