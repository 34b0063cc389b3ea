"""Changes of a job: what differs from the job as it is shown, and the job that comes of it."""

from dataclasses import replace
from datetime import datetime
from typing import Any

from fastapi.exceptions import RequestValidationError
from pydantic import ValidationError

from evenbeat.api.v1.jobs.wire import interval_scheduler_words
from evenbeat.api.v1.jobs.wire.job_in import JobIn
from evenbeat.api.v1.jobs.wire.job_out import JobOut
from evenbeat.core.errors import FieldError, InvalidInput
from evenbeat.core.jobs.model import Definition, Job
from evenbeat.core.jobs.payload import is_same_json

WRITABLE = frozenset(JobIn.model_fields)
UNREMOVABLE = "cannot be removed; pause or disable the job, or give another schedule"


def changes_of(body: dict[str, Any], current: JobOut) -> dict[str, Any]:
    """What is really changed: clients may send back the whole job as they got it."""
    shown = current.model_dump(mode="json")
    changes = {
        name: value
        for name, value in body.items()
        if name not in shown or not is_same_json(shown[name], value)
    }
    faults = [
        FieldError(name, "is read-only" if name in shown else "is no field of a job")
        for name in changes
        if name not in WRITABLE or name == "dedupe_key"
    ]
    if changes.get("schedule", "") is None:
        faults.append(FieldError("schedule", UNREMOVABLE))
    if faults:
        raise InvalidInput(faults[0].field, faults[0].message, more=faults[1:])
    return changes


def take_switch(job: Job, changes: dict[str, Any]) -> bool | None:
    """What schedule_enabled asks of a job that recurs: to be enabled, or disabled; None: nothing.

    Of one that does not, it is a part of the schedule that is yet to be: that stays a change.
    """
    if not job.definition.timetable.schedule.is_recurring:
        return None
    is_enabled = changes.pop("schedule_enabled", None)
    if not isinstance(is_enabled, bool | None):
        raise InvalidInput("schedule_enabled", "must be true or false")
    return is_enabled


def changed(job: Job, changes: dict[str, Any], now: datetime) -> Definition:
    """The job's definition with these changes."""
    if not changes:
        return job.definition
    current = JobOut.from_core(job, now).model_dump(mode="json")
    words = job.definition.wording
    # As it was written: what is shown may be that of a disabled job, or follow from a schedule
    # that is replaced.
    current["schedule_enabled"] = words.get("schedule_enabled")
    try:
        made = JobIn.changed(current, changes).to_core()
        is_same_schedule = changes.keys().isdisjoint({"schedule", *interval_scheduler_words.WORDS})
        return replace(made, wording=words) if is_same_schedule else made
    except ValidationError as error:
        faults = [{**fault, "loc": ("body", *fault["loc"])} for fault in error.errors()]
        raise RequestValidationError(faults) from None
