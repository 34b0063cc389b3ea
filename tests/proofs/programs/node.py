"""A node in a process of its own, whose handler writes down what it does where no engine looks.

`EFFECTS` names the file and `KIND` the kind it serves. A line is written in one piece, so that
the lines of many processes never mix. `MUTANT` breaks one rule of the protocol, to see whether
the checks notice.
"""

import asyncio
import json
import os
import random
import signal
import time
from dataclasses import replace
from datetime import timedelta
from typing import Any

from evenbeat.app import Evenbeat
from evenbeat.config import load
from evenbeat.core.runs import settle
from evenbeat.core.runs.handler import RunContext
from evenbeat.core.runs.outcome import Done
from evenbeat.observe import log
from evenbeat.store.database.pool import DatabaseClock
from evenbeat.store.ops import nodes
from evenbeat.store.runs import completions, leases


class Effect:
    """Takes as long as its payload says, and leaves one line at the start and one at the end."""

    def __init__(self, kind: str, path: str) -> None:
        self.kind = kind
        self._file = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)

    def check(self, payload: Any) -> None:
        """Any payload will do."""

    async def run(self, context: RunContext) -> Done:
        self._write("start", context)
        await asyncio.sleep(context.payload.get("seconds", 0))
        self._write("end", context)
        return Done()

    def _write(self, what: str, context: RunContext) -> None:
        line = {
            "what": what,
            "job": str(context.job_uid),
            "run": context.run_id,
            "beat": context.beat_at and context.beat_at.isoformat(),
            "attempt": context.attempt,
            "pid": os.getpid(),
            "at": time.clock_gettime(time.CLOCK_BOOTTIME),
        }
        os.write(self._file, json.dumps(line).encode() + b"\n")


def change(statements: dict[str, Any], name: str, old: str, new: str) -> None:
    statement = statements[name]
    assert old in statement.template, f"{name} does not say {old!r} any more"
    statements[name] = replace(statement, template=statement.template.replace(old, new))


def without_token_guard() -> None:
    """A node writes the end of a run whether it still has the lease or not."""
    change(completions.SQL, "complete", "and p.token = o.token", "and p.token is not null")


def reap_the_living() -> None:
    """Runs are taken from a silent node without declaring it dead."""
    change(nodes.SQL, "mark_dead", "set dead_at = statement_timestamp()", "set dead_at = null")
    change(nodes.SQL, "unswept", "node.dead_at is not null", "alive_until < statement_timestamp()")


def count_groups_while_claiming() -> None:
    """Groups are not taken in hand before their places are counted."""
    change(leases.SQL, "lock_groups", "for no key update skip locked", "")


def trust_own_clock() -> None:
    """Nodes go by their own clock, which is an hour fast."""
    tell = DatabaseClock.now

    async def now(self: DatabaseClock) -> Any:
        return await tell(self) + timedelta(hours=1)

    DatabaseClock.now = now  # type: ignore[method-assign]


def lock_in_any_order() -> None:
    """Rows are locked in whatever order they come."""

    def shuffled(values: Any, **_: Any) -> list[Any]:
        return random.sample(list(values), len(list(values)))

    completions.sorted = shuffled  # type: ignore[attr-defined]


def skip_without_a_row() -> None:
    """Beats are passed over without a row of missed beats."""
    find = settle.find_next_beat

    def find_without_missed(*given: Any) -> Any:
        return find(*given)[0], None

    settle.find_next_beat = find_without_missed  # type: ignore[assignment]


MUTANTS = {
    "no_token_guard": without_token_guard,
    "reap_the_living": reap_the_living,
    "count_groups_while_claiming": count_groups_while_claiming,
    "own_clock": trust_own_clock,
    "any_lock_order": lock_in_any_order,
    "skip_without_a_row": skip_without_a_row,
}


async def main() -> None:
    if "MUTANT" in os.environ:
        MUTANTS[os.environ["MUTANT"]]()
    settings = load()
    log.configure(settings)
    stopping = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, stopping.set)
    async with Evenbeat(settings) as eb:
        eb.registry.add(Effect(os.environ.get("KIND", "effect"), os.environ["EFFECTS"]))
        await eb.run_node(stopping)


if __name__ == "__main__":
    asyncio.run(main())
