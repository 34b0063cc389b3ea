"""A worker of the benchmark, as a user writes one: an `async def` under `@eb.handler`.

    python worker.py URL CONCURRENCY

A payload with a time `t` in it makes the worker print how late the run started, in milliseconds.
"""

import sys
import time
from typing import Any

from evenbeat import Evenbeat

url, concurrency = sys.argv[1:]
eb = Evenbeat(database_url=url, concurrency=int(concurrency), log_level="warning")


@eb.handler("noop")
async def noop(payload: dict[str, Any]) -> None:
    if "t" in payload:
        print((time.time() - payload["t"]) * 1000, flush=True)


eb.run()
