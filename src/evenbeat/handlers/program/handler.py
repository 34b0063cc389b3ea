"""program: runs a program of the machine, as cron would, and keeps what it says.

Off unless a node's setting says otherwise: it gives a shell to whoever may write jobs.
"""

import asyncio
import contextlib
import os
import signal
from dataclasses import dataclass
from datetime import timedelta
from functools import partial
from typing import Any

from evenbeat.core.errors import InvalidInput, NotPermitted
from evenbeat.core.runs.handler import RunContext
from evenbeat.core.runs.outcome import Done, Failed, Outcome, make_storable
from evenbeat.core.runs.run_log import Level
from evenbeat.core.runs.secrets import Secrets
from evenbeat.handlers.program import program_payload, supervisor_client
from evenbeat.handlers.program.supervisor_client import StartedSupervisor, SupervisorClient

LEVELS: dict[str, Level] = {"out": "info", "err": "warning"}
LONGEST_HINT = 500


@dataclass(frozen=True, slots=True)
class ProgramExit:
    """How a program ended: with a code or by a signal, perhaps because it was told to."""

    code: int | None
    signal: int | None
    is_stopped: bool
    output: bytes
    errors: bytes


class Program:
    """Known everywhere; served by nodes whose setting `programs` is on.

    Told to stop, it asks the program to end, then kills it and all that it started. It ends when
    they have.
    """

    kind = "program"

    def __init__(self, grace: timedelta) -> None:
        self._grace = grace

    def check(self, payload: Any) -> None:
        program_payload.check(payload)

    async def run(self, context: RunContext) -> Outcome:
        try:
            # Jobs that come by SQL were never checked.
            self.check(context.payload)
        except InvalidInput as error:
            return Failed(str(error), error_type=type(error).__name__, is_final=True)
        payload = context.secrets.fill(context.payload)
        # Held before there is a supervisor: whatever happens then, it is let go.
        leash, theirs = await SupervisorClient.pair()
        with contextlib.closing(leash):
            start = partial(
                supervisor_client.start_supervisor, theirs, payload, context, self._grace
            )
            try:
                started = await context.in_thread(start)
            except (InvalidInput, NotPermitted) as error:
                return Failed(str(error), error_type=type(error).__name__, is_final=True)
            except OSError as error:
                return Failed(f"no program can be started: {error}", error_type="NotStarted")
            ended = await supervise_program(leash, started, context)
        if isinstance(ended, Failed):
            return ended
        return exit_outcome(ended, payload.get("ok_codes", [0]), context.secrets)


async def supervise_program(
    leash: SupervisorClient, started: StartedSupervisor, context: RunContext
) -> ProgramExit | Failed:
    """The end of the program, or why it is not known."""
    try:
        if context.is_cancelled:
            # Told so while the supervisor was being started: it has nothing to do.
            leash.ask_to_stop()
        else:
            leash.order(started.order)
        try:
            return await read_until_exit(leash, context)
        except asyncio.CancelledError:
            leash.ask_to_stop()
            return await read_until_exit(leash, context)
    finally:
        leash.close()
        await started.gone()


async def read_until_exit(leash: SupervisorClient, context: RunContext) -> ProgramExit | Failed:
    while word := await leash.hear():
        match word:
            case {"said": lines, "by": stream}:
                for line in lines:
                    context.log(line, LEVELS[stream])
            case {"started": pid}:
                leash.pid = pid
            case {"cannot": why} if leash.pid is None:
                return Failed(why, error_type="NotStarted")
            case {"cannot": why}:
                return kill_unsupervised(leash, why)
            case _:
                return ProgramExit(**word)
    return kill_unsupervised(
        leash, "the process that minds the program was killed, and the program with it"
    )


def kill_unsupervised(leash: SupervisorClient, why: str) -> Failed:
    """The supervisor is gone, and nobody else would end the program."""
    if leash.pid is not None:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(leash.pid, signal.SIGKILL)
    return Failed(why, error_type="MinderLost")


def exit_outcome(ended: ProgramExit, ok_codes: list[int], secrets: Secrets) -> Outcome:
    result = {
        "exit_code": ended.code,
        "signal": None if ended.signal is None else name_of(ended.signal),
        "output": make_storable(as_text(ended.output), secrets, keeps_end=True),
    }
    if ended.code in ok_codes and not ended.is_stopped:
        return Done(result=result)
    what = f"exit {ended.code}" if ended.signal is None else name_of(ended.signal)
    how = f"exited with {ended.code}" if ended.signal is None else f"ended by {what}"
    # Masked before it is cut: half a secret would not be known any more.
    lines = secrets.mask(as_text(ended.errors)).split("\n")
    last = next((line.strip() for line in reversed(lines) if line.strip()), "")
    hint = f": {last[:LONGEST_HINT]}" if last else ""
    return Failed(f"{how}{hint}", error_type=what, result=result)


def name_of(number: int) -> str:
    """Those for real time have numbers only."""
    known = {each.value: each.name for each in signal.Signals}
    return known.get(number, f"signal {number}")


def as_text(data: bytes) -> str:
    return data.decode(errors="replace")
