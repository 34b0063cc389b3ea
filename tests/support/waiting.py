"""Waits for something that another task or process does, up to a limit."""

import asyncio
import inspect
import time
from collections.abc import Awaitable, Callable
from typing import TypeVar

Value = TypeVar("Value")

# Seconds; reached only when the event never comes.
PATIENCE = 60.0
PAUSE = 0.02


async def eventually(
    check: Callable[[], Awaitable[Value] | Value], what: str = "", patience: float = PATIENCE
) -> Value:
    """Call `check` again and again until it returns something true, and return that."""
    deadline = time.monotonic() + patience
    while True:
        given = check()
        found = await given if inspect.isawaitable(given) else given
        if found:
            return found
        if time.monotonic() > deadline:
            raise AssertionError(f"did not happen: {what or check}")
        await asyncio.sleep(PAUSE)
