"""The yardstick of the API: FastAPI doing nothing, served as Evenbeat is.

    python api_plain.py

Prints its address. A GET gives an empty object, and a POST reads its body and gives it back.
"""

import asyncio
import signal
import socket
from typing import Any

import uvloop
from fastapi import FastAPI

from evenbeat.server import listen, serve

site = FastAPI(openapi_url=None)


@site.get("/")
async def nothing() -> dict[str, Any]:
    return {}


@site.post("/")
async def echo(body: dict[str, Any]) -> dict[str, Any]:
    return body


async def main() -> None:
    bound = listen(socket.socket(), ("127.0.0.1", 0))
    stopping = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, stopping.set)
    url = f"http://127.0.0.1:{bound.getsockname()[1]}"
    await serve(site, bound, stopping, lambda: print(url, flush=True))


if __name__ == "__main__":
    asyncio.Runner(loop_factory=uvloop.new_event_loop).run(main())
