"""New jobs as clients write them.

A client may use two vocabularies: ours, and that of the interval scheduler, whose clients write
`url`, `interval_minutes` and `max_retries`. Where both have a word for one thing, the client must
use only one of them.
"""

from datetime import timedelta
from typing import Annotated, Any, Literal, Self, cast
from urllib.parse import urlsplit

from pydantic import BaseModel, ConfigDict, Field, WithJsonSchema

from evenbeat.api.v1.jobs.wire import interval_scheduler_words, job_registry_words
from evenbeat.api.v1.wire import examples
from evenbeat.api.v1.wire.text_types import Name, Storable
from evenbeat.control.jobs.validation import NewJobEntry
from evenbeat.core.errors import FieldError, InvalidInput
from evenbeat.core.jobs.backoff import Backoff, Exponential, RetryRule
from evenbeat.core.jobs.groups import Group, Rate
from evenbeat.core.jobs.model import AfterFailure, CatchUp, Definition, Policy
from evenbeat.core.jobs.payload import check_json
from evenbeat.core.limits import (
    HIGHEST_PRIORITY,
    LARGEST_JOB_LIMIT,
    LONGEST_DURATION,
    LONGEST_INTERVAL_JOB_BACKOFF,
    LONGEST_INTERVAL_JOB_CRON,
    LONGEST_INTERVAL_JOB_TEXT,
    LONGEST_LABEL_VALUE,
    LONGEST_RATE,
    LONGEST_TIMEOUT,
    LONGEST_WORD,
    MAX_BEATS,
    MAX_RUNS,
    MOST_ADDED_AT_ONCE,
    MOST_ATTEMPTS,
    MOST_FAILURES_BEFORE_PAUSE,
    MOST_INTERVAL_JOB_RETRIES,
    MOST_LABELS,
    MOST_NODE_LABELS,
    MOST_RETRY_RULES,
    MOST_RUNNING,
    SHORTEST_TIMEOUT,
)
from evenbeat.core.time.durations import DurationLimits, parse_duration
from evenbeat.core.time.timetable import Timetable

CRAWL = "crawl"
CRAWL_WORDS = ("url", "source_id", "source_name", "metadata")
# The interval scheduler's three retries are four attempts.
DEFAULT_ATTEMPTS = 4
DEFAULT_BACKOFF = Exponential()
DURATIONS = {
    "timeout": DurationLimits(SHORTEST_TIMEOUT, LONGEST_TIMEOUT, fractions=True),
    "start_deadline": DurationLimits(SHORTEST_TIMEOUT, LONGEST_DURATION, fractions=True),
}

TIMING = ("starts_at", "ends_at", "max_runs", "window", "within", "prefers", "balance")
# core reads these: its messages say more than "none of these types".
TEXT_OR_OBJECT = WithJsonSchema({"type": ["string", "object", "null"]})
TEXT_OR_SECONDS = WithJsonSchema({"type": ["string", "integer", "null"]})
TEXT_OR_NUMBER = WithJsonSchema({"type": ["string", "number", "null"]})
INSTANT = WithJsonSchema({"type": ["string", "null"], "format": "date-time"})

Word = Annotated[Storable, Field(min_length=1, max_length=LONGEST_WORD)]
LabelValue = Annotated[Storable, Field(min_length=1, max_length=LONGEST_LABEL_VALUE)]
Text = Annotated[Storable, Field(max_length=LONGEST_INTERVAL_JOB_TEXT)]


class LimitsIn(BaseModel):
    """What the group of a job allows. The first job of a group sets it."""

    model_config = ConfigDict(extra="forbid", strict=True)

    max_running: Annotated[int, Field(ge=1, le=MOST_RUNNING)] | None = None
    rate: Annotated[str, Field(max_length=LONGEST_RATE, examples=["100/m"])] | None = None
    job_limit: Annotated[int, Field(ge=1, le=LARGEST_JOB_LIMIT)] | None = None

    def to_rate(self) -> Rate | None:
        try:
            return None if self.rate is None else Rate.parse(self.rate)
        except InvalidInput as error:
            raise InvalidInput("limits.rate", error.errors[0].message) from None


class JobIn(BaseModel):
    """A job. Without a schedule it runs once, now."""

    model_config = ConfigDict(
        extra="forbid", strict=True, json_schema_extra={"examples": examples.JOBS}
    )

    name: Name | None = None
    kind: Word | None = Field(None, description="which handler runs it")
    payload: Any = Field(None, description="what the handler gets: any JSON value")
    schedule: Annotated[Any, TEXT_OR_OBJECT] = Field(
        None, description='a text such as "every 30m", or an object such as {"every": "30m"}'
    )
    starts_at: Annotated[Any, INSTANT] = Field(None, description="no beat before")
    ends_at: Annotated[Any, INSTANT] = Field(None, description="no beat from then on")
    max_runs: Annotated[int, Field(ge=1, le=MAX_RUNS)] | None = None
    window: Annotated[Any, TEXT_OR_OBJECT] = Field(None, description="when beats are allowed")
    within: Annotated[Any, TEXT_OR_SECONDS] = Field(
        None, description="how much later than its schedule says it may run, to even out the load"
    )
    prefers: Annotated[Any, TEXT_OR_OBJECT] = Field(
        None, description="when it rather runs, written as a window"
    )
    balance: bool = Field(True, description="false: it stays where its schedule puts it")
    timeout: Annotated[Any, TEXT_OR_NUMBER] = Field(
        None, description="how long one run may take, as in 5m or 0.5 (seconds)"
    )
    priority: Annotated[int, Field(ge=0, le=HIGHEST_PRIORITY)] = 0
    group: Name | None = Field(
        None, description="jobs that share limits, as in host:{payload.host}"
    )
    limits: LimitsIn | None = None
    labels: Annotated[dict[Word, LabelValue], Field(max_length=MOST_LABELS)] = Field(
        default_factory=dict[str, str]
    )
    tags: Annotated[list[Word], Field(max_length=MOST_LABELS)] = Field(default_factory=list[str])
    runs_on: Annotated[list[Word], Field(max_length=MOST_NODE_LABELS)] = Field(
        default_factory=list[str], description="labels that a node must carry"
    )
    max_attempts: Annotated[int, Field(ge=1, le=MOST_ATTEMPTS)] | None = None
    backoff: dict[str, Any] | None = Field(None, examples=[{"kind": "exponential", "base": 60}])
    retry_rules: Annotated[list[dict[str, Any]], Field(max_length=MOST_RETRY_RULES)] = Field(
        default_factory=list[dict[str, Any]]
    )
    catch_up: Literal["latest", "all", "none"] = "latest"
    catch_up_cap: Annotated[int, Field(ge=1, le=MAX_BEATS)] = 100
    start_deadline: Annotated[Any, TEXT_OR_NUMBER] = None
    after_failure: Literal["continue", "stop"] = "continue"
    pause_after_failures: Annotated[int, Field(ge=1, le=MOST_FAILURES_BEFORE_PAUSE)] | None = None
    dedupe_key: Name | None = Field(
        None, description="while a job of this key lives, it is the answer, and no other is made"
    )

    # The interval scheduler's words.
    type: Word | None = Field(None, description="the same as kind")
    url: Text | None = Field(None, description="of a crawl: where it begins")
    source_id: Text | None = None
    source_name: Text | None = None
    metadata: dict[str, Any] | None = None
    interval_minutes: int | None = Field(None, description="counted in interval_type")
    interval_type: Literal["minutes", "hours", "days"] | None = None
    schedule_time: Annotated[str, Field(max_length=LONGEST_INTERVAL_JOB_CRON)] | None = Field(
        None, description="a cron expression"
    )
    schedule_enabled: bool | None = None
    max_retries: Annotated[int, Field(ge=0, le=MOST_INTERVAL_JOB_RETRIES)] | None = None
    retry_backoff_seconds: (
        Annotated[int, Field(ge=0, le=LONGEST_INTERVAL_JOB_BACKOFF // timedelta(seconds=1))] | None
    ) = None

    def to_core(self) -> Definition:
        kind = self.read_kind()
        return Definition(
            kind=kind,
            payload=self.read_payload(kind),
            name=self.name,
            timetable=self.read_timetable(),
            policy=self.read_policy(),
            priority=self.priority,
            labels=self.read_labels(),
            group=self.read_group(),
            runs_on=tuple(self.runs_on),
            wording=self.read_wording(),
        )

    def read_kind(self) -> str:
        if self.kind is not None and self.type not in (None, self.kind):
            raise InvalidInput("type", "says the same as kind: give one of them")
        if self.kind is None and self.type is None and not self._given(*CRAWL_WORDS):
            raise InvalidInput("kind", "is required, unless there is a url to crawl")
        return self.kind or self.type or CRAWL

    def read_payload(self, kind: str) -> Any:
        given = self._words_instead_of("payload", *CRAWL_WORDS)
        if kind != CRAWL and given:
            raise InvalidInput(next(iter(given)), f"belongs to jobs of kind {CRAWL}; use payload")
        if kind == CRAWL and self.payload is None:
            check_url(self.url)
            check_json(self.metadata, "metadata")
            return given
        return {} if self.payload is None else self.payload

    def read_timetable(self) -> Timetable:
        self._words_instead_of("schedule", *interval_scheduler_words.WORDS)
        words = self.read_wording()
        schedule = self.schedule
        if schedule is None:
            schedule = interval_scheduler_words.read_schedule(words)
        elif isinstance(schedule, dict):
            schedule = job_registry_words.read_schedule(cast("dict[str, Any]", schedule))
        try:
            return Timetable.from_object({"schedule": schedule} | self._given(*TIMING))
        except InvalidInput as error:
            raise name_schedule_time(error, words) from None

    def read_wording(self) -> dict[str, Any]:
        """The interval scheduler's words for the schedule, as the client wrote them."""
        return self._given(*interval_scheduler_words.WORDS)

    def read_labels(self) -> dict[str, str]:
        """A tag is a label without a value."""
        return self.labels | dict.fromkeys(self.tags, "")

    def read_group(self) -> Group | None:
        limits = self.limits or LimitsIn()
        if self.group is None:
            if self.limits is not None:
                raise InvalidInput("limits", "are those of a group: give group as well")
            return None
        return Group(
            self.group,
            max_running=limits.max_running,
            rate=limits.to_rate(),
            job_limit=limits.job_limit,
        )

    def read_policy(self) -> Policy:
        durations = {
            name: parse_duration(getattr(self, name), name, limits)
            for name, limits in DURATIONS.items()
            if getattr(self, name) is not None
        }
        return Policy(
            max_attempts=self._read_attempts(),
            backoff=self._read_backoff(),
            retry_rules=tuple(
                RetryRule.from_object(rule, f"retry_rules[{place}]")
                for place, rule in enumerate(self.retry_rules)
            ),
            catch_up=CatchUp(self.catch_up),
            catch_up_cap=self.catch_up_cap,
            after_failure=AfterFailure(self.after_failure),
            pause_after_failures=self.pause_after_failures,
            **durations,
        )

    def _read_attempts(self) -> int:
        if self._words_instead_of("max_attempts", "max_retries"):
            return (self.max_retries or 0) + 1
        return DEFAULT_ATTEMPTS if self.max_attempts is None else self.max_attempts

    def _read_backoff(self) -> Backoff:
        if self._words_instead_of("backoff", "retry_backoff_seconds"):
            return Exponential(base=timedelta(seconds=self.retry_backoff_seconds or 0))
        return DEFAULT_BACKOFF if self.backoff is None else Backoff.from_object(self.backoff)

    def _given(self, *names: str) -> dict[str, Any]:
        return {name: value for name in names if (value := getattr(self, name)) is not None}

    def _words_instead_of(self, ours: str, *theirs: str) -> dict[str, Any]:
        """What the client wrote in the interval scheduler's words. It must not use ours as well."""
        given = self._given(*theirs)
        if given and getattr(self, ours) is not None:
            raise InvalidInput(ours, f"says the same as {', '.join(given)}: give one of them")
        return given

    def named(self, name: str) -> Self:
        """The same job, under the name in the address of the request."""
        if self.name not in (None, name):
            raise InvalidInput("name", "is not the name in the address")
        return self.model_copy(update={"name": name})


class BatchIn(BaseModel):
    """Many new jobs."""

    model_config = ConfigDict(
        extra="forbid", json_schema_extra={"examples": [{"jobs": examples.JOBS[:2]}]}
    )

    jobs: Annotated[list[JobIn], Field(min_length=1, max_length=MOST_ADDED_AT_ONCE)]

    def to_core(self) -> list[NewJobEntry]:
        made: list[NewJobEntry] = []
        for place, job in enumerate(self.jobs):
            try:
                made.append((job.to_core(), job.dedupe_key))
            except InvalidInput as error:
                first, *more = (
                    FieldError(f"jobs[{place}].{each.field}", each.message) for each in error.errors
                )
                raise InvalidInput(first.field, first.message, more=more) from None
        return made


def check_url(url: str | None) -> None:
    if url is None:
        raise InvalidInput("url", "is required of a crawl")
    try:
        parts = urlsplit(url)
    except ValueError:
        parts = None
    if parts is None or parts.scheme not in ("http", "https") or not parts.hostname:
        raise InvalidInput("url", "must be an address such as https://example.com/")


def name_schedule_time(error: InvalidInput, words: dict[str, Any]) -> InvalidInput:
    """The same error, about `schedule_time` if the client wrote the schedule there."""
    first = error.errors[0]
    if "schedule_time" in words and first.field.startswith("schedule"):
        return InvalidInput("schedule_time", first.message, more=error.errors[1:])
    return error
