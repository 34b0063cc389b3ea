"""The runner: calls a job's handler, and turns whatever happens into an Outcome."""

import asyncio
import traceback

from evenbeat.core.errors import InvalidInput
from evenbeat.core.handler import RunContext
from evenbeat.core.model import Claimed, ErrorClass
from evenbeat.core.outcome import Failed, HandedBack, Outcome
from evenbeat.core.payload import check_json
from evenbeat.core.registry import Registry

LONGEST_ERROR = 10_000


async def run(claimed: Claimed, registry: Registry) -> Outcome:
    """Run it to its end, its timeout, or until this node stops."""
    timeout = claimed.definition.policy.timeout
    limit = asyncio.timeout(timeout.total_seconds())
    try:
        async with limit:
            return accept(await registry[claimed.definition.kind].run(context_of(claimed)))
    except asyncio.CancelledError:
        return HandedBack()
    except TimeoutError as error:
        if limit.expired():
            return Failed(f"ran longer than {timeout}", error_class=ErrorClass.TIMEOUT)
        return failure(error)
    except Exception as error:
        return failure(error)


def accept(outcome: object) -> Outcome:
    """Whatever a handler returns: garbage, or a result that cannot be stored, is a failure."""
    if not isinstance(outcome, Outcome):
        return Failed(f"the handler returned {type(outcome).__name__}, not an outcome")
    try:
        check_json(getattr(outcome, "result", None), "result")
    except InvalidInput as error:
        return Failed(f"the handler's result cannot be stored: {error}")
    return outcome


def failure(error: Exception) -> Failed:
    trace = "".join(traceback.format_exception(error))
    return Failed(
        storable(f"{type(error).__name__}: {error}"),
        error_type=type(error).__name__,
        stack_trace=storable(trace[-LONGEST_ERROR:]),
    )


def storable(text: str) -> str:
    """PostgreSQL stores neither NUL nor half a surrogate pair; an error message may hold both."""
    readable = text.replace("\x00", "\ufffd").encode("utf-8", "replace").decode()
    return readable[:LONGEST_ERROR]


def context_of(claimed: Claimed) -> RunContext:
    return RunContext(
        job_uid=claimed.uid,
        job_name=claimed.definition.name,
        kind=claimed.definition.kind,
        payload=claimed.definition.payload,
        run_id=claimed.run.id,
        number=claimed.run.number,
        attempt=claimed.run.attempt,
        cause=claimed.run.cause,
        beat_at=claimed.run.beat_at,
    )
