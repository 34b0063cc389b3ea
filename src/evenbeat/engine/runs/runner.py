"""The runner: calls a job's handler, and turns whatever happens into an Outcome."""

import asyncio
import inspect
import traceback

from evenbeat.core.errors import NoSuchSecret
from evenbeat.core.jobs.model import Claimed
from evenbeat.core.runs import late_start
from evenbeat.core.runs.handler import RunContext
from evenbeat.core.runs.outcome import Failed, Outcome
from evenbeat.core.runs.outcome_checks import check_outcome, describe_error, make_storable
from evenbeat.core.runs.registry import Registry
from evenbeat.core.runs.secrets import Secrets
from evenbeat.core.runs.settle import Recorded


def run_instantly(claimed: Claimed, context: RunContext, registry: Registry) -> Outcome:
    """Call a handler that never waits."""
    try:
        too_late = late_start.skip_if_too_late(claimed, claimed.run.started_at)
        if too_late is not None:
            return too_late
        reported = registry.handler(claimed.definition.kind).run(context)
        return check_outcome(reported, context.used_secrets)
    except KeyboardInterrupt:
        raise
    except BaseException as error:
        return failure_outcome(error, context.used_secrets)


async def run_handler(
    claimed: Claimed, context: RunContext, registry: Registry
) -> Outcome | Recorded:
    """Run it to its end. Only being told to stop ends this in CancelledError."""
    try:
        too_late = late_start.skip_if_too_late(claimed, claimed.run.started_at)
        if too_late is not None:
            return too_late
        reported = registry.handler(claimed.definition.kind).run(context)
        outcome = await reported if inspect.isawaitable(reported) else reported
        if isinstance(outcome, Recorded):
            return outcome
        return check_outcome(outcome, context.used_secrets)
    except asyncio.CancelledError as error:
        # A handler may raise this by itself. Handed back, it would come again at once, for ever.
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
        stack_trace=stack_trace(error, secrets),
        # The secret is not there on the next attempt either, and nobody is served by waiting.
        is_final=isinstance(error, NoSuchSecret),
    )


def stack_trace(error: BaseException, secrets: Secrets | None) -> str:
    """The end of it: the place where it happened, and the message."""
    try:
        trace = "".join(traceback.format_exception(error))
    except Exception:
        return "the stack trace cannot be shown"
    return make_storable(trace, secrets, keeps_end=True)
