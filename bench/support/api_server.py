"""A server process of the benchmark: the API alone, without a node.

    python api_server.py URL SECRET

Prints its address.
"""

import asyncio
import signal
import sys
from pathlib import Path

import uvloop

from evenbeat.app import Evenbeat
from evenbeat.config import load
from evenbeat.observe import log
from evenbeat.server import bind, build_site, serve


async def main() -> None:
    url, secret = sys.argv[1:]
    settings = load(
        environ={},
        cwd=Path("/"),
        database_url=url,
        jwt_secret=secret,
        port=0,
        # One caller sends everything here.
        rate_limit=0,
        log_level="warning",
    )
    log.configure(settings)
    bound = bind(settings)
    stopping = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, stopping.set)
    address = f"http://127.0.0.1:{bound.getsockname()[1]}"
    async with Evenbeat(settings) as app:
        await app.prepare_kinds()
        await serve(build_site(app), bound, stopping, lambda: print(address, flush=True))


if __name__ == "__main__":
    asyncio.Runner(loop_factory=uvloop.new_event_loop).run(main())
