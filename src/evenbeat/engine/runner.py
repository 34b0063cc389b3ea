"""The runner: calls a job's handler, and turns whatever happens into an Outcome."""

import asyncio
import inspect
import traceback
from dataclasses import replace

import orjson

from evenbeat.core import catchup
from evenbeat.core.errors import InvalidInput, NoSuchSecret
from evenbeat.core.handler import RunContext
from evenbeat.core.model import Claimed, ErrorClass
from evenbeat.core.outcome import DONE, Cancelled, Done, Failed, Outcome, Snoozed
from evenbeat.core.payload import check_json
from evenbeat.core.registry import Registry
from evenbeat.core.secrets import Secrets

LONGEST_ERROR = 10_000
MOST_ITEMS = 2**31 - 1
# History is read by the page: what is larger belongs elsewhere, and its address into the result.
LARGEST_RESULT = 1_000_000


def run_instantly(claimed: Claimed, context: RunContext, registry: Registry) -> Outcome:
    """Call a handler that never waits."""
    try:
        too_late = catchup.decide(claimed, claimed.run.started_at)
        if too_late is not None:
            return too_late
        reported = registry.handler(claimed.definition.kind).run(context)
        return accept(reported, context.used_secrets)
    except KeyboardInterrupt:
        raise
    except BaseException as error:
        return failure(error, context.used_secrets)


async def run(claimed: Claimed, context: RunContext, registry: Registry) -> Outcome:
    """Run it to its end. Only being told to stop ends this in CancelledError."""
    try:
        too_late = catchup.decide(claimed, claimed.run.started_at)
        if too_late is not None:
            return too_late
        reported = registry.handler(claimed.definition.kind).run(context)
        outcome = await reported if inspect.isawaitable(reported) else reported
        return accept(outcome, context.used_secrets)
    except asyncio.CancelledError as error:
        # A handler may raise this by itself. Handed back, it would come again at once, for ever.
        if is_being_cancelled():
            raise
        return failure(error, context.used_secrets)
    except KeyboardInterrupt:
        raise
    except BaseException as error:
        # sys.exit() in a handler ends its run, not the node.
        return failure(error, context.used_secrets)


def is_being_cancelled() -> bool:
    task = asyncio.current_task()
    return task is not None and task.cancelling() > 0


def accept(outcome: object, secrets: Secrets | None = None) -> Outcome:
    """Whatever a handler returns: garbage, or what cannot be stored, is a failure."""
    if outcome is DONE:
        return DONE
    try:
        match outcome:
            case Done():
                return accept_done(outcome, secrets)
            case Failed(error, error_class):
                trace = outcome.stack_trace
                return replace(
                    outcome,
                    error=storable(error, secrets),
                    error_class=ErrorClass(error_class),
                    stack_trace=None if trace is None else storable(trace, secrets),
                )
            case Snoozed(delay, reason):
                delay.total_seconds()
                shown = None if reason is None else storable(reason, secrets)
                return replace(outcome, reason=shown)
            case Cancelled(reason):
                # That a person asked for it is for the engine to say.
                return Cancelled(storable(reason, secrets))
            case _:
                return Failed(f"the handler returned {type(outcome).__name__}, not an outcome")
    except (InvalidInput, AttributeError, TypeError, ValueError) as error:
        return Failed(in_words(error, "the handler's outcome cannot be stored", secrets))


def accept_done(outcome: Done, secrets: Secrets | None) -> Done:
    check_count(outcome.items_crawled, "items_crawled")
    check_count(outcome.items_indexed, "items_indexed")
    if outcome.result is None:
        return outcome
    check_json(outcome.result, "result")
    size = len(orjson.dumps(outcome.result))
    if size > LARGEST_RESULT:
        raise InvalidInput(
            "result",
            f"has {size} bytes, and at most {LARGEST_RESULT} are kept; "
            "store it elsewhere and return where it is",
        )
    return (
        outcome if secrets is None else replace(outcome, result=secrets.mask_json(outcome.result))
    )


def check_count(count: object, field: str) -> None:
    if not isinstance(count, int) or not 0 <= count <= MOST_ITEMS:
        raise InvalidInput(field, f"must be a whole number from 0 to {MOST_ITEMS}")


def failure(error: BaseException, secrets: Secrets | None = None) -> Failed:
    return Failed(
        in_words(error, type(error).__name__, secrets),
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
    return storable(trace, secrets, keeps_end=True)


def in_words(error: BaseException, what: str, secrets: Secrets | None = None) -> str:
    try:
        return storable(f"{what}: {error}", secrets)
    except Exception:
        return f"{what}, which cannot say why"


def storable(text: str, secrets: Secrets | None = None, *, keeps_end: bool = False) -> str:
    """PostgreSQL stores neither NUL nor half a surrogate pair; an error message may hold both."""
    # Masked before it is cut: half a secret would not be known any more.
    masked = text if secrets is None else secrets.mask(text)
    readable = masked.replace("\x00", "\ufffd").encode("utf-8", "replace").decode()
    return readable[-LONGEST_ERROR:] if keeps_end else readable[:LONGEST_ERROR]
