"""The forecast as clients see it, and the jobs that they would add."""

from datetime import datetime
from typing import Annotated, Any, Self

from pydantic import BaseModel, ConfigDict, Field

from evenbeat.api.v1.jobs.wire.job_in import TEXT_OR_OBJECT, TEXT_OR_SECONDS
from evenbeat.api.v1.wire.text_types import Name
from evenbeat.control.balance.balance import EXPECTED, Forecast, HypotheticalJobs
from evenbeat.core.balance.model import MINUTE_S, SLOT_S, SlotForecast
from evenbeat.core.errors import FieldError, InvalidInput
from evenbeat.core.limits import MOST_HYPOTHETICAL_JOBS, MOST_HYPOTHETICAL_SCHEDULES, MOST_WORKERS
from evenbeat.core.time.durations import parse_duration
from evenbeat.core.time.timetable import Timetable

DIGITS = 3


class HypotheticalJobsIn(BaseModel):
    """Jobs that do not exist yet: `count` of one schedule, each run `expected_duration` long."""

    model_config = ConfigDict(extra="forbid", strict=True)

    schedule: Annotated[Any, TEXT_OR_OBJECT]
    window: Annotated[Any, TEXT_OR_OBJECT] = None
    count: Annotated[int, Field(ge=1, le=MOST_HYPOTHETICAL_JOBS)] = 1
    expected_duration: Annotated[Any, TEXT_OR_SECONDS] = Field(
        None, description="of one run, as in 20s; one second if left out"
    )

    def to_core(self) -> HypotheticalJobs:
        timetable = Timetable.from_object({"schedule": self.schedule, "window": self.window})
        if self.expected_duration is None:
            return HypotheticalJobs(timetable, self.count)
        expected = parse_duration(self.expected_duration, "expected_duration", EXPECTED)
        return HypotheticalJobs(timetable, self.count, expected)


class ForecastIn(BaseModel):
    """Jobs to add to the forecast, and how many workers there would be."""

    model_config = ConfigDict(
        extra="forbid",
        strict=True,
        json_schema_extra={
            "examples": [
                {
                    "workers": 20,
                    "jobs": [{"schedule": "every 30m", "count": 500, "expected_duration": "20s"}],
                }
            ]
        },
    )

    jobs: Annotated[list[HypotheticalJobsIn], Field(max_length=MOST_HYPOTHETICAL_SCHEDULES)] = (
        Field(default_factory=list[HypotheticalJobsIn])
    )
    workers: Annotated[int, Field(ge=1, le=MOST_WORKERS)] | None = None
    group: Name | None = None

    def to_core(self) -> list[HypotheticalJobs]:
        added: list[HypotheticalJobs] = []
        for i, each in enumerate(self.jobs):
            try:
                added.append(each.to_core())
            except InvalidInput as error:
                errors = [
                    FieldError(f"jobs[{i}].{fault.field}", fault.message) for fault in error.errors
                ]
                raise InvalidInput(errors[0].field, errors[0].message, more=errors[1:]) from None
        if sum(each.count for each in added) > MOST_HYPOTHETICAL_JOBS:
            raise InvalidInput(
                "jobs", f"must be {MOST_HYPOTHETICAL_JOBS} at most, all counts together"
            )
        return added


class SlotOut(BaseModel):
    """A quarter of an hour: runs that start in it, and runs at once, on average and at most."""

    starts_at: datetime
    runs: int
    concurrency: float
    peak_concurrency: float
    waiting_seconds: float

    @classmethod
    def from_core(cls, outlook: SlotForecast) -> Self:
        return cls(
            starts_at=outlook.starts_at,
            runs=outlook.runs,
            concurrency=round(outlook.concurrency, DIGITS),
            peak_concurrency=round(outlook.peak_concurrency, DIGITS),
            waiting_seconds=outlook.waiting.total_seconds(),
        )


class ForecastOut(BaseModel):
    """The coming week, slot by slot, and the worst of it."""

    slot_minutes: int = SLOT_S // MINUTE_S
    group: str | None
    workers: int | None
    total_jobs: int
    added_jobs: int
    peak_runs: int
    peak_concurrency: float
    longest_wait_seconds: float
    slots: list[SlotOut]

    @classmethod
    def from_core(cls, found: Forecast) -> Self:
        slots = [SlotOut.from_core(outlook) for outlook in found.slots]
        return cls(
            group=found.group,
            workers=found.workers,
            total_jobs=found.job_count,
            added_jobs=found.added_count,
            peak_runs=max(slot.runs for slot in slots),
            peak_concurrency=max(slot.peak_concurrency for slot in slots),
            longest_wait_seconds=max(slot.waiting_seconds for slot in slots),
            slots=slots,
        )
