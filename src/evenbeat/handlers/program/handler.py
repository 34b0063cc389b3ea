"""program: runs a program of the machine, as cron would, and keeps its output.

Off by default: it gives a shell to everyone who may add jobs.
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
    """How a program ended: with a code or by a signal, and whether it was asked to stop."""

    code: int | None
    signal: int | None
    is_stopped: bool
    output: bytes
    errors: bytes


class Program:
    """Known everywhere; served by nodes whose setting `programs` is on.

    When the run is stopped, the supervisor asks the program to end, then kills it and all its
    descendants. The run ends when they have ended.
    """

    kind = "program"

    def __init__(self, grace: timedelta) -> None:
        self._grace = grace

    def check(self, payload: Any) -> None:
        program_payload.check(payload)

    async def run(self, context: RunContext) -> Outcome:
        try:
            # Jobs added by SQL have not been checked.
            self.check(context.payload)
        except InvalidInput as error:
            return Failed(str(error), error_type=type(error).__name__, is_final=True)
        payload = context.secrets.fill(context.payload)
        # Opened before the supervisor starts: closing it ends the supervisor, whatever happens.
        client, theirs = await SupervisorClient.pair()
        with contextlib.closing(client):
            start = partial(
                supervisor_client.start_supervisor, theirs, payload, context, self._grace
            )
            try:
                started = await context.in_thread(start)
            except (InvalidInput, NotPermitted) as error:
                return Failed(str(error), error_type=type(error).__name__, is_final=True)
            except OSError as error:
                return Failed(f"no program can be started: {error}", error_type="NotStarted")
            ended = await supervise_program(client, started, context)
        if isinstance(ended, Failed):
            return ended
        return exit_outcome(ended, payload.get("ok_codes", [0]), context.secrets)


async def supervise_program(
    client: SupervisorClient, started: StartedSupervisor, context: RunContext
) -> ProgramExit | Failed:
    """The end of the program, or why it is not known."""
    try:
        if context.is_cancelled:
            # The run was stopped while the supervisor started: no program is started.
            client.ask_to_stop()
        else:
            client.send_order(started.order)
        try:
            return await read_until_exit(client, context)
        except asyncio.CancelledError:
            client.ask_to_stop()
            return await read_until_exit(client, context)
    finally:
        client.close()
        await started.wait_for_exit()


async def read_until_exit(client: SupervisorClient, context: RunContext) -> ProgramExit | Failed:
    while message := await client.receive():
        match message:
            case {"lines": lines, "stream": stream}:
                for line in lines:
                    context.log(line, LEVELS[stream])
            case {"started": pid}:
                client.pid = pid
            case {"error": error} if client.pid is None:
                return Failed(error, error_type="NotStarted")
            case {"error": error}:
                return kill_unsupervised(client, error)
            case _:
                return ProgramExit(**message)
    return kill_unsupervised(client, "the program's supervisor was killed, and the program with it")


def kill_unsupervised(client: SupervisorClient, error: str) -> Failed:
    """Kill the program's process group after its supervisor has gone."""
    if client.pid is not None:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(client.pid, signal.SIGKILL)
    return Failed(error, error_type="SupervisorLost")


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
    # Masked before it is cut: half a secret would not be recognised.
    lines = secrets.mask(as_text(ended.errors)).split("\n")
    last = next((line.strip() for line in reversed(lines) if line.strip()), "")
    hint = f": {last[:LONGEST_HINT]}" if last else ""
    return Failed(f"{how}{hint}", error_type=what, result=result)


def name_of(number: int) -> str:
    """A signal's name; real-time signals have numbers only."""
    known = {each.value: each.name for each in signal.Signals}
    return known.get(number, f"signal {number}")


def as_text(data: bytes) -> str:
    return data.decode(errors="replace")
