"""The work that tasks of these tests do: badly, without end, or to the end of their worker."""

import asyncio
import os
import signal
from pathlib import Path
from typing import Any

from evenbeat.app import Evenbeat
from evenbeat.core.handler import RunContext

eb = Evenbeat()
ALWAYS = 1000


@eb.handler("fails")
async def fails(payload: dict[str, Any], context: RunContext) -> None:
    """Fails so many times, and works then."""
    if context.attempt <= payload.get("times", ALWAYS):
        raise ConnectionError("connection refused")


@eb.handler("hangs")
async def hangs() -> None:
    """Until it is stopped."""
    await asyncio.Event().wait()


@eb.handler("kills")
async def kills() -> None:
    """Takes its worker along: kill -9."""
    os.kill(os.getpid(), signal.SIGKILL)


@eb.handler("signs")
def signs(payload: dict[str, Any], context: RunContext) -> None:
    """One line, in one go, so that many can write at once."""
    with Path(payload["book"]).open("a", buffering=1) as book:
        book.write(f"{context.job_uid}\n")
