"""The work that jobs of these tests do: well, as often badly as they say, or until a gate opens."""

import time
from pathlib import Path
from typing import Any

from evenbeat.app import Evenbeat
from evenbeat.core.runs.handler import RunContext

eb = Evenbeat()
LOOK_EVERY = 0.02


@eb.handler("work")
async def work(payload: dict[str, Any], context: RunContext) -> str:
    """Fails the first attempts, as many as it is told to, and then works."""
    if context.attempt <= payload.get("fails", 0):
        raise ConnectionError(f"no answer from 'db-{context.attempt}' after {context.attempt} s")
    return "done"


@eb.handler("report")
def report(payload: dict[str, Any]) -> str:
    """Is at work, in a thread, until its gate, a file, is there."""
    while not Path(payload["gate"]).exists():
        time.sleep(LOOK_EVERY)
    return "reported"


def open_gate(gate: Path) -> None:
    gate.touch()
