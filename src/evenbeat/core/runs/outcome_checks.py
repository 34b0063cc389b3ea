"""What a handler reports, as far as it can be stored: whatever it is, it becomes an Outcome."""

from dataclasses import replace
from typing import Any

import orjson

from evenbeat.core.errors import InvalidInput
from evenbeat.core.jobs.model import ErrorClass
from evenbeat.core.jobs.payload import check_json
from evenbeat.core.runs.outcome import DONE, Cancelled, Done, Failed, Outcome, Snoozed
from evenbeat.core.runs.secrets import Secrets

LONGEST_ERROR = 10_000
MOST_ITEMS = 2**31 - 1
# A page of history holds many results: a larger one belongs elsewhere, its address here.
LARGEST_RESULT = 1_000_000


def check_outcome(outcome: object, secrets: Secrets | None = None) -> Outcome:
    """Whatever a handler returns: garbage, or what cannot be stored, is a failure."""
    if outcome is DONE:
        return DONE
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
                # Only the engine knows that a person asked for it.
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
    """PostgreSQL stores neither NUL nor half a surrogate pair; an error message may hold both."""
    # Masked before it is cut: half a secret would not be recognised.
    masked = text if secrets is None else secrets.mask(text)
    readable = masked.replace("\x00", "\ufffd").encode("utf-8", "replace").decode()
    return readable[-LONGEST_ERROR:] if keeps_end else readable[:LONGEST_ERROR]
