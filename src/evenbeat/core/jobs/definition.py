"""Definitions of jobs as code writes them: texts for schedules, durations and groups."""

from collections.abc import Callable, Iterable
from datetime import datetime, timedelta
from typing import Any, TypedDict, Unpack

from evenbeat.core.errors import InvalidInput
from evenbeat.core.jobs.backoff import Backoff, RetryRule
from evenbeat.core.jobs.groups import Group, Rate
from evenbeat.core.jobs.model import DEFAULT_POLICY, AfterFailure, CatchUp, Definition, Policy
from evenbeat.core.time.durations import EXACT_DURATION, parse_duration
from evenbeat.core.time.schedules import Schedule, parse_schedule, parse_schedule_object
from evenbeat.core.time.schedules.base.instants import read_instant
from evenbeat.core.time.schedules.base.window import Window
from evenbeat.core.time.schedules.once import Once
from evenbeat.core.time.timetable import Timetable, TimetableBounds


class PolicyOptions(TypedDict, total=False):
    """How a job is tried. Durations are texts such as `5m`, seconds, or timedeltas."""

    max_attempts: int
    backoff: Backoff | dict[str, Any]
    timeout: str | float | timedelta
    catch_up: CatchUp | str
    catch_up_cap: int
    start_deadline: str | float | timedelta
    after_failure: AfterFailure | str
    pause_after_failures: int
    retry_rules: Iterable[RetryRule | dict[str, Any]]


class JobOptions(PolicyOptions, total=False):
    """The options of any job, besides its kind, its payload and when it runs.

    `group` is a key, or an object with `key`, `max_running`, `rate` and `job_limit`.
    """

    name: str
    priority: int
    labels: dict[str, str]
    group: str | dict[str, Any] | Group
    runs_on: Iterable[str]


class ScheduleOptions(JobOptions, total=False):
    """The same, and what bounds a schedule."""

    payload: Any
    tz: str
    starts_at: datetime | str
    ends_at: datetime | str
    max_runs: int
    window: Window | str | dict[str, Any]


def define(
    kind: str, schedule: str | dict[str, Any] | Schedule = "now", **options: Unpack[ScheduleOptions]
) -> Definition:
    """The definition of a job: `define("report", "0 8 * * MON-FRI", tz="Europe/Berlin")`."""
    for name in options:
        if name not in READERS:
            known = ", ".join(sorted(READERS))
            raise InvalidInput(name, f"is not an option of a job; there are: {known}")
    read = {name: READERS[name](value, name) for name, value in options.items()}
    policy = {name: read.pop(name) for name in list(read) if name in POLICY_READERS}
    bounds = {name: read.pop(name) for name in ("starts_at", "ends_at", "max_runs") if name in read}
    timetable = Timetable(
        read_schedule(schedule, read.pop("tz", None)),
        TimetableBounds(**bounds),
        read.pop("window", None),
    )
    return Definition(
        kind, timetable, policy=Policy(**policy) if policy else DEFAULT_POLICY, **read
    )


def read_schedule(given: str | dict[str, Any] | Schedule, tz: str | None) -> Schedule:
    """The schedule, in the zone: one that has no zone, such as an interval, refuses it."""
    if isinstance(given, Schedule):
        if tz is not None:
            raise InvalidInput("tz", "is given twice: the schedule names a zone itself")
        return given
    if tz is None:
        return parse_schedule_object(given)
    return (
        parse_schedule(f"{given} zone={tz}")
        if isinstance(given, str)
        else parse_schedule_object(given | {"zone": tz})
    )


def schedule_once(run_at: datetime | None) -> Schedule | str:
    """When a one-off job runs."""
    return "now" if run_at is None else Once(run_at)


def keep_value(value: Any, field: str) -> Any:
    """The value as it is: storing the job checks it."""
    del field
    return value


def read_duration(value: Any, field: str) -> timedelta:
    return value if isinstance(value, timedelta) else parse_duration(value, field, EXACT_DURATION)


def read_backoff(value: Any, field: str) -> Backoff:
    return value if isinstance(value, Backoff) else Backoff.from_object(value, field)


def read_rules(value: Any, field: str) -> tuple[RetryRule, ...]:
    return tuple(
        rule if isinstance(rule, RetryRule) else RetryRule.from_object(rule, f"{field}[{place}]")
        for place, rule in enumerate(value)
    )


def read_group(value: Any, field: str) -> Group:
    if isinstance(value, Group):
        return value
    if isinstance(value, str):
        return Group(value)
    given = dict[str, Any](value)
    for name in given.keys() - {"key", "max_running", "rate", "job_limit"}:
        raise InvalidInput(f"{field}.{name}", "is not known here")
    if "key" not in given:
        raise InvalidInput(f"{field}.key", "is missing")
    rate = given.pop("rate", None)
    return Group(**given, rate=None if rate is None else Rate.parse(rate))


def read_window(value: Any, field: str) -> Window:
    del field
    return value if isinstance(value, Window) else Window.parse(value)


def read_catch_up(value: Any, field: str) -> CatchUp:
    return read_choice(CatchUp, value, field)


def read_after_failure(value: Any, field: str) -> AfterFailure:
    return read_choice(AfterFailure, value, field)


def read_choice(kind: Any, value: Any, field: str) -> Any:
    try:
        return kind(value)
    except ValueError:
        raise InvalidInput(field, f"must be one of {', '.join(kind)}") from None


def read_words(value: Any, field: str) -> tuple[str, ...]:
    if isinstance(value, str):
        raise InvalidInput(field, "must be a list of texts")
    return tuple(value)


POLICY_READERS: dict[str, Callable[[Any, str], Any]] = {
    "max_attempts": keep_value,
    "backoff": read_backoff,
    "timeout": read_duration,
    "catch_up": read_catch_up,
    "catch_up_cap": keep_value,
    "start_deadline": read_duration,
    "after_failure": read_after_failure,
    "pause_after_failures": keep_value,
    "retry_rules": read_rules,
}
READERS: dict[str, Callable[[Any, str], Any]] = POLICY_READERS | {
    "name": keep_value,
    "payload": keep_value,
    "priority": keep_value,
    "labels": keep_value,
    "group": read_group,
    "runs_on": read_words,
    "tz": keep_value,
    "starts_at": read_instant,
    "ends_at": read_instant,
    "max_runs": keep_value,
    "window": read_window,
}
