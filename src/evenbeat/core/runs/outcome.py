"""What a handler, or the engine in its place, reports of a run: one value, never an exception.

A handler may return anything. `check_outcome` makes an Outcome of it that can be stored.
"""

from dataclasses import dataclass, replace
from datetime import timedelta
from typing import Any

import orjson

from evenbeat.core.errors import InvalidInput
from evenbeat.core.jobs.model import ErrorClass
from evenbeat.core.jobs.payload import check_json
from evenbeat.core.limits import LARGEST_RESULT, LONGEST_ERROR, MOST_ITEMS
from evenbeat.core.runs.secrets import Secrets


@dataclass(frozen=True, slots=True)
class Done:
    """The work is done."""

    result: Any = None
    items_crawled: int = 0
    items_indexed: int = 0


DONE = Done()
"""Done, without a result."""


@dataclass(frozen=True, slots=True)
class Failed:
    """The work went wrong; tried again while attempts are left, unless `is_final`."""

    error: str
    error_class: ErrorClass = ErrorClass.HANDLER_ERROR
    error_type: str | None = None
    stack_trace: str | None = None
    is_final: bool = False
    # What the run produced before it failed.
    result: Any = None


@dataclass(frozen=True, slots=True)
class Snoozed:
    """Not now: the same attempt comes again after `delay`."""

    delay: timedelta
    reason: str | None = None


@dataclass(frozen=True, slots=True)
class Cancelled:
    """The run was stopped because a person asked for it, or the handler gave the beat up.

    Only what a person asked for (`is_requested`, set by the engine) cancels a recurring job: a
    handler speaks for the beat it was given, not for the beats to come.
    """

    reason: str = "cancelled"
    is_requested: bool = False


@dataclass(frozen=True, slots=True)
class HandedBack:
    """The node stops: the run is not an attempt, and another node takes the beat up at once."""

    reason: str = "the node stopped"


@dataclass(frozen=True, slots=True)
class Lost:
    """The node died during the run; counts as an attempt."""

    reason: str = "the node died"


@dataclass(frozen=True, slots=True)
class Skipped:
    """The beat came too late to be run."""

    reason: str


Outcome = Done | Failed | Snoozed | Cancelled | HandedBack | Lost | Skipped


def check_outcome(outcome: object, secrets: Secrets | None = None) -> Outcome:
    """An Outcome of what a handler has returned. What cannot be stored becomes a failure."""
    try:
        match outcome:
            case Done():
                return check_done(outcome, secrets)
            case Failed(error, error_class):
                trace = outcome.stack_trace
                return replace(
                    outcome,
                    error=make_storable(error, secrets),
                    error_class=ErrorClass(error_class),
                    stack_trace=None if trace is None else make_storable(trace, secrets),
                    result=check_result(outcome.result, secrets),
                )
            case Snoozed(delay, reason):
                delay.total_seconds()
                shown = None if reason is None else make_storable(reason, secrets)
                return replace(outcome, reason=shown)
            case Cancelled(reason):
                # Only the engine knows whether a person asked for it.
                return Cancelled(make_storable(reason, secrets))
            case _:
                return Failed(f"the handler returned {type(outcome).__name__}, not an outcome")
    except (InvalidInput, AttributeError, TypeError, ValueError) as error:
        return Failed(describe_error(error, "the handler's outcome cannot be stored", secrets))


def check_done(outcome: Done, secrets: Secrets | None) -> Done:
    check_item_count(outcome.items_crawled, "items_crawled")
    check_item_count(outcome.items_indexed, "items_indexed")
    if outcome.result is None:
        return outcome
    result = check_result(outcome.result, secrets)
    return outcome if secrets is None else replace(outcome, result=result)


def check_result(result: Any, secrets: Secrets | None) -> Any:
    if result is None:
        return None
    check_json(result, "result")
    check_result_size(len(orjson.dumps(result)))
    return result if secrets is None else secrets.mask_json(result)


def check_result_size(size: int) -> None:
    if size > LARGEST_RESULT:
        raise InvalidInput(
            "result",
            f"has {size} bytes, and at most {LARGEST_RESULT} are kept; "
            "store it elsewhere and return where it is",
        )


def check_item_count(count: object, field: str) -> None:
    if not isinstance(count, int) or not 0 <= count <= MOST_ITEMS:
        raise InvalidInput(field, f"must be a whole number from 0 to {MOST_ITEMS}")


def describe_error(error: BaseException, what: str, secrets: Secrets | None = None) -> str:
    try:
        return make_storable(f"{what}: {error}", secrets)
    except Exception:
        return f"{what}, which cannot say why"


def make_storable(text: str, secrets: Secrets | None = None, *, keeps_end: bool = False) -> str:
    """The text as PostgreSQL can store it: without NUL and without half a surrogate pair."""
    # Masked before it is cut: half a secret would not be recognised.
    masked = text if secrets is None else secrets.mask(text)
    readable = masked.replace("\x00", "\ufffd").encode("utf-8", "replace").decode()
    return readable[-LONGEST_ERROR:] if keeps_end else readable[:LONGEST_ERROR]
