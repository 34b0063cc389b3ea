"""What a handler, or the engine in its place, reports of a run: one value, never an exception."""

from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from evenbeat.core.jobs.model import ErrorClass


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
    """The node died with the run in hand; counts as an attempt."""

    reason: str = "the node died"


@dataclass(frozen=True, slots=True)
class Skipped:
    """The beat came too late to be run."""

    reason: str


Outcome = Done | Failed | Snoozed | Cancelled | HandedBack | Lost | Skipped
