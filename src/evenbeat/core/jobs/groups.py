"""Groups: what jobs share a limit by, and how a group's key is made from a job."""

import re
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, Protocol, cast

from evenbeat.core.errors import InvalidInput
from evenbeat.core.jobs.payload import check_text
from evenbeat.core.limits import LARGEST_JOB_LIMIT, LONGEST_GROUP_KEY, MOST_RUNNING
from evenbeat.core.time.durations import DurationLimits, format_duration, parse_duration

RATE_PERIOD = DurationLimits(shortest=timedelta(seconds=1), longest=timedelta(days=31))

_PLACE = re.compile(r"\{([^{}]*)\}")
_WORDS = {"s": "1s", "second": "1s", "m": "1m", "minute": "1m", "h": "1h", "hour": "1h"}


@dataclass(frozen=True, slots=True)
class Rate:
    """`count` starts at once, and then one every `per / count`."""

    count: int
    per: timedelta

    def __post_init__(self) -> None:
        if not 1 <= self.count <= MOST_RUNNING:
            raise InvalidInput("group.rate", f"must allow from 1 to {MOST_RUNNING} starts")

    @property
    def pace(self) -> timedelta:
        return self.per / self.count

    @classmethod
    def parse(cls, text: Any) -> "Rate":
        """Read `100/m`, `5/30s` or `1/hour`."""
        count, slash, per = text.partition("/") if isinstance(text, str) else ("", "", "")
        if not slash or not count.isascii() or not count.isdigit() or len(count) > 6:
            raise InvalidInput("group.rate", 'write a rate such as "100/m" or "5/30s"')
        return cls(int(count), parse_duration(_WORDS.get(per, per), "group.rate", RATE_PERIOD))

    @classmethod
    def paced(cls, pace: timedelta, count: int) -> "Rate":
        """The rate of this pace, which was rounded to the microsecond when it was made."""
        per = pace * count
        whole = timedelta(seconds=round(per.total_seconds()))
        return cls(count, whole if abs(per - whole) <= count * timedelta.resolution else per)

    def __str__(self) -> str:
        return f"{self.count}/{format_duration(self.per)}"


@dataclass(frozen=True, slots=True)
class Group:
    """The group a job belongs to: a key, perhaps made from the job, and what the group allows.

    `max_running` and `rate` are the group's own, and hold for the job that makes it; `job_limit`
    is this job's: it is let in only while fewer than that run in the group.
    """

    key: str
    max_running: int | None = None
    rate: Rate | None = None
    job_limit: int | None = None

    def __post_init__(self) -> None:
        if not 1 <= len(self.key) <= LONGEST_GROUP_KEY:
            raise InvalidInput("group.key", f"must have from 1 to {LONGEST_GROUP_KEY} characters")
        check_text(self.key, "group.key")
        for name, largest in (("max_running", MOST_RUNNING), ("job_limit", LARGEST_JOB_LIMIT)):
            limit = getattr(self, name)
            if limit is not None and not 1 <= limit <= largest:
                raise InvalidInput(f"group.{name}", f"must be from 1 to {largest}")


class HasGroupLimits(Protocol):
    """A group as it is, by what it allows."""

    @property
    def max_running(self) -> int | None: ...
    @property
    def rate(self) -> Rate | None: ...


def describe_group_conflicts(asked: Group, there: HasGroupLimits) -> tuple[str, ...]:
    """Which limits that a job asks for do not hold, because its group exists with other limits."""
    return tuple(
        f"limits.{name} {mine} is not used: group {asked.key!r} has"
        f" {'none' if its is None else its}, and only a change of the group changes that"
        for name in ("max_running", "rate")
        if (mine := getattr(asked, name)) is not None and mine != (its := getattr(there, name))
    )


def resolve_group_key(template: str, facts: dict[str, Any]) -> str:
    """The key of a job: `host:{payload.host}` with the braces filled in from the job's facts."""
    key = _PLACE.sub(lambda place: _look_up(place[1], facts), template)
    if "{" in key or "}" in key:
        raise InvalidInput("group.key", "has a brace that is not closed, or not opened")
    if not 1 <= len(key) <= LONGEST_GROUP_KEY:
        raise InvalidInput(
            "group.key", f"becomes longer than {LONGEST_GROUP_KEY} characters, or empty"
        )
    return key


def _look_up(path: str, facts: dict[str, Any]) -> str:
    here: Any = facts
    for name in path.split("."):
        if not isinstance(here, dict) or name not in here:
            raise InvalidInput("group.key", f"this job has no {path!r}")
        here = cast("dict[str, Any]", here)[name]
    if isinstance(here, bool) or not isinstance(here, str | int):
        raise InvalidInput("group.key", f"{path!r} is neither text nor a whole number")
    return str(here)
