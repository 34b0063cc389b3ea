"""A run under way: calls the handler, can be told to stop, and ends exactly once."""

import asyncio
import contextlib
import inspect
import time
import traceback
from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta

from evenbeat.core.errors import NoSuchSecret
from evenbeat.core.jobs.model import Claimed, ErrorClass
from evenbeat.core.runs.handler import HandlerServices, RunContext
from evenbeat.core.runs.outcome import (
    DONE,
    Cancelled,
    Failed,
    HandedBack,
    Outcome,
    check_outcome,
    describe_error,
    make_storable,
)
from evenbeat.core.runs.registry import Registry
from evenbeat.core.runs.secrets import Secrets
from evenbeat.core.runs.settle import Recorded, skip_if_too_late
from evenbeat.engine.runs.recorder import EndedRun
from evenbeat.observe import failpoint, traces

UNWANTED = Cancelled("cancelled by hand", is_requested=True)
NODE_STOPS = HandedBack()
STILL_RUNS = "it ignores that it was told to stop, and still runs on its node"


class ActiveRun:
    """Ends when its handler ends, or, after a stop and its grace, without the handler.

    The task is in no group: a group would wait for ever for a handler that ignores cancellation.
    """

    __slots__ = (
        "_began_ns",
        "_context",
        "_grace",
        "_on_ended",
        "_on_gone",
        "_spent",
        "_task",
        "_timer",
        "_was_stopped_before_handler_ended",
        "_why",
        "claimed",
        "is_abandoned",
    )

    def __init__(
        self,
        claimed: Claimed,
        *,
        grace: timedelta,
        services: HandlerServices,
        on_ended: Callable[["ActiveRun", EndedRun], None],
    ) -> None:
        self.claimed = claimed
        # The engine has ended the run, and its handler still runs.
        self.is_abandoned = False
        self._grace = grace
        self._context = RunContext(claimed, services)
        self._on_ended = on_ended
        # The reason of the stop, once the run was told to stop.
        self._why: Outcome | None = None
        self._timer: asyncio.TimerHandle | None = None
        # Both are set when the handler returns. After that only its log lines are to be written.
        self._spent: timedelta | None = None
        self._was_stopped_before_handler_ended = False

    def start(self, registry: Registry, on_gone: Callable[["ActiveRun"], None]) -> None:
        """`on_gone` is called when the task has ended, which may be long after the run has."""
        self._began_ns = time.monotonic_ns()
        self._on_gone = on_gone
        failpoint.reach("before_handler")
        self._task = asyncio.get_running_loop().create_task(self._run(registry))
        self._task.add_done_callback(self._on_done)

    def limit_time(self) -> None:
        """Start the timeout, unless the run is over or was told to stop.

        The caller does this once the handler has taken its first step: most handlers that do not
        wait are over by then, and need no timer.
        """
        if self._spent is None and self._why is None:
            timeout = self.claimed.definition.policy.timeout.total_seconds()
            self._timer = asyncio.get_running_loop().call_later(timeout, self._stop_late)

    async def _run(self, registry: Registry) -> Outcome | Recorded:
        context = self._context
        try:
            if not traces.is_on():
                return await run_handler(self.claimed, context, registry)
            with traces.run_span(self.claimed) as span:
                return span.ended(await run_handler(self.claimed, context, registry))
        finally:
            self._spent = self._elapsed()
            self._was_stopped_before_handler_ended = self._why is not None
            if context.has_lines:
                # The lines are written before the end: a client that sees the end sees them all.
                # A run that is told to stop meanwhile does not wait: what it did stands, and the
                # loop of the run log writes the rest.
                with contextlib.suppress(asyncio.CancelledError):
                    await context.write_log()

    def _stop_late(self) -> None:
        timeout = self.claimed.definition.policy.timeout
        self.stop(Failed(f"ran longer than {timeout}", error_class=ErrorClass.TIMEOUT))

    def stop(self, why: Outcome) -> None:
        """Tell the run to stop, once: a second cancellation would cut off the handler's cleanup."""
        if self._why is not None:
            return
        self._why = why
        self._cancel_timer()
        self._context.cancel()
        self._task.cancel()
        grace = self._grace.total_seconds()
        self._timer = asyncio.get_running_loop().call_later(grace, self._abandon)

    def kill(self) -> None:
        """Cancel the run without an end: its node is gone, and nothing will be recorded."""
        self._cancel_timer()
        self._task.remove_done_callback(self._on_done)
        self._context.cancel()
        self._task.cancel()

    def _cancel_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()

    def _abandon(self) -> None:
        # A task that waits for a thread, or for the run log, gives up at the second cancellation.
        self._task.cancel()
        if self._spent is None:
            self.is_abandoned = True
            self._end(with_ignored_stop(self._why or NODE_STOPS))

    def _on_done(self, task: asyncio.Task[Outcome | Recorded]) -> None:
        self._cancel_timer()
        if not self.is_abandoned:
            self._end(self._outcome(task))
        self._on_gone(self)

    def _outcome(self, task: asyncio.Task[Outcome | Recorded]) -> Outcome | Recorded:
        if task.cancelled():
            return self._why or NODE_STOPS
        error = task.exception()
        if isinstance(error, Exception):
            # A mistake of ours. Without an end, the run would keep its slot and lease for ever.
            return failure_outcome(error)
        outcome = task.result()
        # A handler that was told to stop may finish all the same. If it fails, the stop is why.
        if (
            self._why is not None
            and self._was_stopped_before_handler_ended
            and isinstance(outcome, Failed)
        ):
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
        # A duration made of whole numbers takes half the time of one made of a float.
        return timedelta(0, 0, (time.monotonic_ns() - self._began_ns) // 1000)


async def run_handler(
    claimed: Claimed, context: RunContext, registry: Registry
) -> Outcome | Recorded:
    """Call the handler and turn whatever it does into an Outcome.

    Raises CancelledError only when the run was told to stop.
    """
    try:
        too_late = skip_if_too_late(claimed, claimed.run.started_at)
        if too_late is not None:
            return too_late
        reported = registry.handlers[claimed.definition.kind].run(context)
        outcome = await reported if inspect.isawaitable(reported) else reported
        if outcome is DONE or isinstance(outcome, Recorded):
            return outcome
        return check_outcome(outcome, context.used_secrets)
    except asyncio.CancelledError as error:
        # A handler may raise this by itself. Handed back, the job would be run again for ever.
        if is_being_cancelled():
            raise
        return failure_outcome(error, context.used_secrets)
    except KeyboardInterrupt:
        raise
    except BaseException as error:
        # sys.exit() in a handler ends its run, not the node.
        return failure_outcome(error, context.used_secrets)


def is_being_cancelled() -> bool:
    task = asyncio.current_task()
    return task is not None and task.cancelling() > 0


def failure_outcome(error: BaseException, secrets: Secrets | None = None) -> Failed:
    return Failed(
        describe_error(error, type(error).__name__, secrets),
        error_type=type(error).__name__,
        stack_trace=format_stack_trace(error, secrets),
        # The secret will be missing on the next attempt too.
        is_final=isinstance(error, NoSuchSecret),
    )


def format_stack_trace(error: BaseException, secrets: Secrets | None) -> str:
    """The end of the trace: the line that raised, and the message."""
    try:
        trace = "".join(traceback.format_exception(error))
    except Exception:
        return "the stack trace cannot be shown"
    return make_storable(trace, secrets, keeps_end=True)


def with_ignored_stop(why: Outcome) -> Outcome:
    """The reason of the stop, and that the handler ignores it."""
    match why:
        case Failed(error):
            return replace(why, error=f"{error}; {STILL_RUNS}")
        case Cancelled(reason) | HandedBack(reason):
            return replace(why, reason=f"{reason}; {STILL_RUNS}")
        case _:
            return why


def with_trace_of(why: Outcome, failed: Failed) -> Outcome:
    """The reason of the stop, with the stack trace that shows how far the handler had come."""
    if not isinstance(why, Failed):
        return why
    return replace(why, stack_trace=failed.stack_trace, result=failed.result)
