"""The yardstick of the API: FastAPI doing nothing, or one insert, served as Evenbeat is.

    python api_plain.py [URL]

Prints its address. A GET gives an empty object, and a POST reads its body and gives it back. With
the URL of a database, a POST to /tasks stores a task by raw SQL first, as durably as Evenbeat does.
"""

import asyncio
import contextlib
import json
import signal
import socket
import sys
from collections.abc import AsyncGenerator
from datetime import UTC, datetime
from typing import Any

import asyncpg
import uvloop
from bench.support.tasks import POLICY, RAW_ONE, TIMETABLE
from fastapi import FastAPI
from pydantic import BaseModel

from evenbeat.server import listen, serve
from evenbeat.store.database.pool import SESSION_SETTINGS, skip_reset
from evenbeat.store.jobs.job_inserts import new_job_uid

site = FastAPI(openapi_url=None)


@site.get("/")
async def nothing() -> dict[str, Any]:
    return {}


@site.post("/")
async def echo(body: dict[str, Any]) -> dict[str, Any]:
    return body


class Task(BaseModel):
    """What is posted."""

    type: str
    payload: Any
    runAt: datetime  # noqa: N815
    maxAttempts: int = 3  # noqa: N815


@contextlib.asynccontextmanager
async def storing(url: str) -> AsyncGenerator[None]:
    """While it lasts, tasks can be posted."""
    async with asyncpg.create_pool(
        url, min_size=8, max_size=10, server_settings=SESSION_SETTINGS, reset=skip_reset
    ) as pool:
        lane = await pool.fetchval("select id from evenbeat.lane where kind = 'echo'")

        @site.post("/tasks", status_code=201)
        async def store(task: Task) -> dict[str, Any]:
            uid, payload = new_job_uid(datetime.now(UTC)), json.dumps(task.payload)
            await pool.execute(RAW_ONE, uid, payload, TIMETABLE, POLICY, lane, task.runAt)
            return {"id": uid, "status": "PENDING", "attempt": 0, **task.model_dump()}

        yield


async def main() -> None:
    bound = listen(socket.socket(), ("127.0.0.1", 0))
    stopping = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, stopping.set)
    url = f"http://127.0.0.1:{bound.getsockname()[1]}"
    async with storing(sys.argv[1]) if sys.argv[1:] else contextlib.nullcontext():
        await serve(site, bound, stopping, lambda: print(url, flush=True))


if __name__ == "__main__":
    asyncio.Runner(loop_factory=uvloop.new_event_loop).run(main())
