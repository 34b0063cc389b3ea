"""Waiting for an event that another process brings about, with a bound and no fixed pauses."""

import asyncio
import inspect
import time
from collections.abc import Awaitable, Callable
from typing import TypeVar

Value = TypeVar("Value")

# Far beyond what anything here takes: reached only when the event never comes.
PATIENCE = 60.0
LOOK_EVERY = 0.02


async def eventually(
    look: Callable[[], Awaitable[Value] | Value], what: str = "", patience: float = PATIENCE
) -> Value:
    """Look again and again until `look` gives something true, and give that."""
    deadline = time.monotonic() + patience
    while True:
        seen = look()
        found = await seen if inspect.isawaitable(seen) else seen
        if found:
            return found
        if time.monotonic() > deadline:
            raise AssertionError(f"did not happen: {what or look}")
        await asyncio.sleep(LOOK_EVERY)
