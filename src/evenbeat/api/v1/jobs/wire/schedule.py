"""Previews of schedules: the schedule that a client writes, and what it will do."""

from datetime import datetime
from typing import Annotated, Any, Self

from pydantic import BaseModel, ConfigDict, Field

from evenbeat.api.v1.jobs.wire import job_registry_words
from evenbeat.api.v1.jobs.wire.job_in import INSTANT, TEXT_OR_OBJECT, TEXT_OR_SECONDS
from evenbeat.api.v1.wire.text_types import Name
from evenbeat.core.limits import MAX_RUNS, MOST_PREVIEWED_BEATS
from evenbeat.core.time.preview import SchedulePreview
from evenbeat.core.time.timetable import Timetable


class ScheduleIn(BaseModel):
    """A schedule, with its bounds and its window."""

    model_config = ConfigDict(
        extra="forbid",
        strict=True,
        json_schema_extra={"examples": [{"schedule": "0 8 * * MON-FRI Europe/Berlin", "count": 5}]},
    )

    schedule: Annotated[Any, TEXT_OR_OBJECT]
    starts_at: Annotated[Any, INSTANT] = None
    ends_at: Annotated[Any, INSTANT] = None
    max_runs: Annotated[int, Field(ge=1, le=MAX_RUNS)] | None = None
    window: Annotated[Any, TEXT_OR_OBJECT] = None
    within: Annotated[Any, TEXT_OR_SECONDS] = None
    prefers: Annotated[Any, TEXT_OR_OBJECT] = None
    name: Name | None = Field(None, description="of the job: it chooses the values of H")
    count: Annotated[int, Field(ge=1, le=MOST_PREVIEWED_BEATS)] = 10

    def to_core(self) -> Timetable:
        written = self.model_dump(exclude={"name", "count"})
        written["schedule"] = job_registry_words.read_schedule(self.schedule)
        timetable = Timetable.from_object(written)
        return timetable if self.name is None else timetable.seeded(self.name)


class PreviewOut(BaseModel):
    """What a schedule will do."""

    kind: str
    words: str
    text: str
    zone: str
    beats: list[datetime]
    effective_period: float | None
    remark: str | None

    @classmethod
    def from_core(cls, shown: SchedulePreview) -> Self:
        period = shown.effective_period
        return cls(
            kind=shown.kind,
            words=shown.words,
            text=shown.text,
            zone=shown.zone,
            beats=list(shown.beats),
            effective_period=None if period is None else period.total_seconds(),
            remark=shown.remark,
        )
