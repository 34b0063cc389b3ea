"""The runner: calls a job's handler, and turns whatever happens into an Outcome."""

import asyncio
import inspect
import traceback
from dataclasses import replace

from evenbeat.core import catchup
from evenbeat.core.errors import InvalidInput
from evenbeat.core.handler import RunContext
from evenbeat.core.model import Claimed, ErrorClass
from evenbeat.core.outcome import DONE, Cancelled, Done, Failed, HandedBack, Outcome, Snoozed
from evenbeat.core.payload import check_json
from evenbeat.core.registry import Registry

LONGEST_ERROR = 10_000
# How a run is cancelled that a person wants stopped; without it, its node is stopping.
UNWANTED = "unwanted"
MOST_ITEMS = 2**31 - 1


def run_instantly(claimed: Claimed, registry: Registry) -> Outcome:
    """Call a handler that never waits."""
    try:
        too_late = catchup.decide(claimed, claimed.run.started_at)
        return too_late or accept(registry[claimed.definition.kind].run(RunContext(claimed)))
    except KeyboardInterrupt:
        raise
    except BaseException as error:
        return failure(error)


async def run(claimed: Claimed, registry: Registry) -> Outcome:
    """Run it to its end, its timeout, or until somebody or this node stops it."""
    timeout = claimed.definition.policy.timeout
    limit = asyncio.timeout(timeout.total_seconds())
    try:
        too_late = catchup.decide(claimed, claimed.run.started_at)
        if too_late is not None:
            return too_late
        async with limit:
            reported = registry[claimed.definition.kind].run(RunContext(claimed))
            return accept(await reported if inspect.isawaitable(reported) else reported)
    except asyncio.CancelledError as error:
        # A handler may raise this by itself. Handed back, it would come again at once, for ever.
        if not is_being_cancelled():
            return failure(error)
        return why_stopped(error)
    except TimeoutError as error:
        if limit.expired():
            return Failed(f"ran longer than {timeout}", error_class=ErrorClass.TIMEOUT)
        return failure(error)
    except KeyboardInterrupt:
        raise
    except BaseException as error:
        # sys.exit() in a handler ends its run, not the node.
        return failure(error)


def why_stopped(error: asyncio.CancelledError) -> Outcome:
    """A person asked for it, or the node stops."""
    is_unwanted = error.args == (UNWANTED,)
    return Cancelled("cancelled by hand", is_requested=True) if is_unwanted else HandedBack()


def is_being_cancelled() -> bool:
    task = asyncio.current_task()
    return task is not None and task.cancelling() > 0


def accept(outcome: object) -> Outcome:
    """Whatever a handler returns: garbage, or what cannot be stored, is a failure."""
    if outcome is DONE:
        return DONE
    try:
        match outcome:
            case Done(result, items_crawled, items_indexed):
                check_json(result, "result")
                check_count(items_crawled, "items_crawled")
                check_count(items_indexed, "items_indexed")
                return outcome
            case Failed(error, error_class):
                trace = outcome.stack_trace
                return replace(
                    outcome,
                    error=storable(error),
                    error_class=ErrorClass(error_class),
                    stack_trace=None if trace is None else storable(trace),
                )
            case Snoozed(delay, reason):
                delay.total_seconds()
                return replace(outcome, reason=None if reason is None else storable(reason))
            case Cancelled(reason):
                # That a person asked for it is for the engine to say.
                return Cancelled(storable(reason))
            case _:
                return Failed(f"the handler returned {type(outcome).__name__}, not an outcome")
    except (InvalidInput, AttributeError, TypeError, ValueError) as error:
        return Failed(in_words(error, "the handler's outcome cannot be stored"))


def check_count(count: object, field: str) -> None:
    if not isinstance(count, int) or not 0 <= count <= MOST_ITEMS:
        raise InvalidInput(field, f"must be a whole number from 0 to {MOST_ITEMS}")


def failure(error: BaseException) -> Failed:
    trace = "".join(traceback.format_exception(error))
    return Failed(
        in_words(error, type(error).__name__),
        error_type=type(error).__name__,
        stack_trace=storable(trace[-LONGEST_ERROR:]),
    )


def in_words(error: BaseException, what: str) -> str:
    try:
        return storable(f"{what}: {error}")
    except Exception:
        return f"{what}, which cannot say why"


def storable(text: str) -> str:
    """PostgreSQL stores neither NUL nor half a surrogate pair; an error message may hold both."""
    readable = text.replace("\x00", "\ufffd").encode("utf-8", "replace").decode()
    return readable[:LONGEST_ERROR]
