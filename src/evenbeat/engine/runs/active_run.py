"""A run under way: its task, the wish that it stop, and its one end."""

import asyncio
import contextlib
import time
from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta

from evenbeat.core.jobs.model import Claimed, ErrorClass
from evenbeat.core.runs.handler import HandlerServices, RunContext
from evenbeat.core.runs.outcome import Cancelled, Failed, HandedBack, Outcome
from evenbeat.core.runs.registry import Registry
from evenbeat.core.runs.settle import Recorded
from evenbeat.engine.runs import runner
from evenbeat.engine.runs.recorder import EndedRun
from evenbeat.observe import failpoint, traces

UNWANTED = Cancelled("cancelled by hand", is_requested=True)
NODE_STOPS = HandedBack()
STILL_RUNS = "it ignores that it was told to stop, and still runs on its node"


class ActiveRun:
    """Ends once: by its handler's word, or, told to stop and out of patience, without it.

    The task is in no group: a group would wait for ever for a handler that ignores cancellation.
    """

    def __init__(
        self,
        claimed: Claimed,
        *,
        grace: timedelta,
        toolbox: HandlerServices,
        on_ended: Callable[["ActiveRun", EndedRun], None],
    ) -> None:
        self.claimed = claimed
        # It has ended by our word alone, and its handler goes on.
        self.is_abandoned = False
        self._grace = grace.total_seconds()
        self._context = RunContext(claimed, toolbox)
        self._on_ended = on_ended
        self._why: Outcome | None = None
        # Both are known once the handler has come to its end, which is before the run has: then
        # only its lines are left to be written.
        self._spent: timedelta | None = None
        self._was_told = False

    def start(self, registry: Registry, on_gone: Callable[["ActiveRun"], None]) -> None:
        """`on_gone` hears when nothing of it is left, which may be long after its end."""
        loop = asyncio.get_running_loop()
        self._began = time.monotonic()
        self._on_gone = on_gone
        failpoint.reach("before_handler")
        self._task = loop.create_task(self._run(registry))
        self._task.add_done_callback(self._on_done)
        timeout = self.claimed.definition.policy.timeout
        out_of_time = Failed(f"ran longer than {timeout}", error_class=ErrorClass.TIMEOUT)
        self._timer = loop.call_later(timeout.total_seconds(), self.stop, out_of_time)

    async def _run(self, registry: Registry) -> Outcome | Recorded:
        try:
            return await self._called(registry)
        finally:
            self._spent = self._elapsed()
            self._was_told = self._why is not None
            # Whoever sees the end of a run sees all that it said. Told to stop only now, it does
            # not wait for that: what it did stands, and the scribe writes the rest.
            with contextlib.suppress(asyncio.CancelledError):
                await self._context.write_log()

    async def _called(self, registry: Registry) -> Outcome | Recorded:
        if not traces.is_on():
            return await runner.run_handler(self.claimed, self._context, registry)
        with traces.run_span(self.claimed) as span:
            return span.ended(await runner.run_handler(self.claimed, self._context, registry))

    def stop(self, why: Outcome) -> None:
        """Tell it to stop, once: a second time would cut off whatever tidies up."""
        if self._why is not None:
            return
        self._why = why
        self._timer.cancel()
        self._context.cancel()
        self._task.cancel()
        self._timer = asyncio.get_running_loop().call_later(self._grace, self._abandon)

    def kill(self) -> None:
        """Nobody waits for its end any more."""
        self._timer.cancel()
        self._task.remove_done_callback(self._on_done)
        self._context.cancel()
        self._task.cancel()

    def _abandon(self) -> None:
        # Who waits for a thread gives it up at the second cancellation, as for the scribe.
        self._task.cancel()
        if self._spent is None:
            self.is_abandoned = True
            self._end(with_ignored_stop(self._why or NODE_STOPS))

    def _on_done(self, task: asyncio.Task[Outcome | Recorded]) -> None:
        self._timer.cancel()
        if not self.is_abandoned:
            self._end(self._outcome(task))
        self._on_gone(self)

    def _outcome(self, task: asyncio.Task[Outcome | Recorded]) -> Outcome | Recorded:
        if task.cancelled():
            return self._why or NODE_STOPS
        error = task.exception()
        if isinstance(error, Exception):
            # Our own mistake. Without an end, the run would keep its place and its lease for ever.
            return runner.failure_outcome(error)
        outcome = task.result()
        # It may have finished after all; a failure now is only what stopping it looks like.
        if self._why is not None and self._was_told and isinstance(outcome, Failed):
            return with_trace_of(self._why, outcome)
        return outcome

    def _end(self, reported: Outcome | Recorded) -> None:
        failpoint.reach("after_handler")
        spent = self._elapsed() if self._spent is None else self._spent
        if isinstance(reported, Recorded):
            self._on_ended(self, EndedRun(self.claimed, reported.outcome, spent, reported))
        else:
            self._on_ended(self, EndedRun(self.claimed, reported, spent))

    def _elapsed(self) -> timedelta:
        return timedelta(seconds=time.monotonic() - self._began)


def with_ignored_stop(why: Outcome) -> Outcome:
    """The reason of the stop, and that the handler did not heed it."""
    match why:
        case Failed(error):
            return replace(why, error=f"{error}; {STILL_RUNS}")
        case Cancelled(reason) | HandedBack(reason):
            return replace(why, reason=f"{reason}; {STILL_RUNS}")
        case _:
            return why


def with_trace_of(why: Outcome, failed: Failed) -> Outcome:
    """The reason of the stop, with what shows how far it had come."""
    if not isinstance(why, Failed):
        return why
    return replace(why, stack_trace=failed.stack_trace, result=failed.result)
