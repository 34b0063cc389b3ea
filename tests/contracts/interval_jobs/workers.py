"""The work that jobs of these tests do: well, badly, without end, or with something to tell."""

import asyncio
from pathlib import Path
from typing import Any

from evenbeat.app import Evenbeat
from evenbeat.core.runs.handler import RunContext
from evenbeat.core.runs.outcome import Done

eb = Evenbeat()
ALWAYS = 1000


@eb.handler("works")
async def works(payload: dict[str, Any]) -> Done:
    """Reports what it crawled and indexed."""
    return Done(items_crawled=payload.get("crawled", 0), items_indexed=payload.get("indexed", 0))


@eb.handler("fails")
async def fails(payload: dict[str, Any], context: RunContext) -> None:
    """Fails so many times for each beat, and works then."""
    if context.attempt <= payload.get("times", ALWAYS):
        raise ConnectionError("connection timeout")


@eb.handler("hangs")
async def hangs(payload: dict[str, Any], context: RunContext) -> None:
    """Hangs until it is stopped, as often as it is told to; leaves a mark where it was stopped."""
    if context.attempt > payload.get("times", ALWAYS):
        return
    try:
        await asyncio.Event().wait()
    finally:
        if "mark" in payload:
            leave(payload["mark"], "stopped")


@eb.handler("signs")
async def signs(payload: dict[str, Any], context: RunContext) -> None:
    """Writes down which beat it was given."""
    leave(payload["book"], f"{context.job_uid} {context.beat_at}")


def leave(path: str, line: str) -> None:
    """One line, in one go, so that many can write at once."""
    with Path(path).open("a", buffering=1) as book:
        book.write(f"{line}\n")
