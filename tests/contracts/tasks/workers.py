"""The work that tasks of these tests do: badly, without end, or to the end of their worker."""

import asyncio
import os
import signal
from datetime import timedelta
from pathlib import Path
from typing import Any

from evenbeat.app import Evenbeat
from evenbeat.core.runs.handler import RunContext
from evenbeat.core.runs.outcome import Snoozed

eb = Evenbeat()
ALWAYS = 1000
put_off: set[Any] = set()


@eb.handler("fails")
async def fails(payload: dict[str, Any], context: RunContext) -> None:
    """Fails so many times, and works then."""
    if context.attempt <= payload.get("times", ALWAYS):
        raise ConnectionError("connection refused")


@eb.handler("hangs")
async def hangs() -> None:
    """Until it is stopped."""
    await asyncio.Event().wait()


@eb.handler("puts_off")
async def puts_off(context: RunContext) -> Snoozed | None:
    """Works only the second time it is asked."""
    if context.job_uid in put_off:
        return None
    put_off.add(context.job_uid)
    return Snoozed(timedelta(minutes=1))


@eb.handler("kills")
async def kills() -> None:
    """Takes its worker along: kill -9."""
    os.kill(os.getpid(), signal.SIGKILL)


@eb.handler("signs")
def signs(payload: dict[str, Any], context: RunContext) -> None:
    """One line, in one go, so that many can write at once."""
    with Path(payload["book"]).open("a", buffering=1) as book:
        book.write(f"{context.job_uid}\n")
