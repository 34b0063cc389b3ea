"""Changes of a job: which fields a client really changes, and the definition that follows.

Only the parts of the definition that the changes name are read from the request. The rest stays as
it is stored, so that a change never refuses what another way in (Python, SQL) has accepted.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any

from fastapi.exceptions import RequestValidationError
from pydantic import ValidationError

from evenbeat.api.v1.jobs.wire.interval_scheduler_words import WORDS as SCHEDULE_WORDS
from evenbeat.api.v1.jobs.wire.job_in import CRAWL_WORDS, TIMING, JobIn
from evenbeat.api.v1.jobs.wire.job_out import JobOut
from evenbeat.core.errors import FieldError, InvalidInput
from evenbeat.core.jobs.lifecycle import Action
from evenbeat.core.jobs.model import Definition, Job
from evenbeat.core.jobs.payload import is_same_json

WRITABLE = frozenset(JobIn.model_fields)
UNREMOVABLE = "cannot be removed; pause or disable the job, or give another schedule"

# One field of ours, and the interval scheduler's words for the same thing.
Synonyms = tuple[str, ...]


@dataclass(frozen=True, slots=True)
class DefinitionPart:
    """Fields that are read together, and the attributes of a definition that they make."""

    synonyms: tuple[Synonyms, ...]
    read: Callable[[JobIn], dict[str, Any]]

    @property
    def fields(self) -> frozenset[str]:
        return frozenset(name for names in self.synonyms for name in names)


def single_fields(*names: str) -> tuple[Synonyms, ...]:
    return tuple((name,) for name in names)


def read_kind_and_payload(job_in: JobIn) -> dict[str, Any]:
    kind = job_in.read_kind()
    return {"kind": kind, "payload": job_in.read_payload(kind)}


DEFINITION_PARTS = (
    DefinitionPart((("kind", "type"), ("payload", *CRAWL_WORDS)), read_kind_and_payload),
    DefinitionPart(
        (("schedule", *SCHEDULE_WORDS), *single_fields(*TIMING)),
        lambda job_in: {"timetable": job_in.read_timetable(), "wording": job_in.read_wording()},
    ),
    DefinitionPart(
        single_fields("labels", "tags"), lambda job_in: {"labels": job_in.read_labels()}
    ),
    DefinitionPart(single_fields("group", "limits"), lambda job_in: {"group": job_in.read_group()}),
    DefinitionPart(single_fields("name"), lambda job_in: {"name": job_in.name}),
    DefinitionPart(single_fields("priority"), lambda job_in: {"priority": job_in.priority}),
    DefinitionPart(single_fields("runs_on"), lambda job_in: {"runs_on": tuple(job_in.runs_on)}),
)
# By the attribute of a policy.
POLICY_SYNONYMS: dict[str, Synonyms] = {
    "max_attempts": ("max_attempts", "max_retries"),
    "backoff": ("backoff", "retry_backoff_seconds"),
    "timeout": ("timeout",),
    "catch_up": ("catch_up",),
    "catch_up_cap": ("catch_up_cap",),
    "start_deadline": ("start_deadline",),
    "after_failure": ("after_failure",),
    "pause_after_failures": ("pause_after_failures",),
    "retry_rules": ("retry_rules",),
}


def find_changes(body: dict[str, Any], current: JobOut) -> dict[str, Any]:
    """The fields whose values differ: a client may send back the whole job as it got it."""
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


def take_switch(job: Job, changes: dict[str, Any]) -> Action | None:
    """Take `schedule_enabled` out of the changes of a recurring job, and say what it asks for.

    The schedule of a job that runs once is still to come: there the field stays a change.
    """
    if not job.definition.timetable.schedule.is_recurring:
        return None
    is_enabled = changes.pop("schedule_enabled", None)
    if not isinstance(is_enabled, bool | None):
        raise InvalidInput("schedule_enabled", "must be true or false")
    if is_enabled is None:
        return None
    return Action.ENABLE if is_enabled else Action.DISABLE


def apply_changes(job: Job, changes: dict[str, Any], now: datetime) -> Definition:
    """The definition of the job with these changes, which `find_changes` found."""
    was = job.definition
    shown = JobOut.from_core(job, now).model_dump(mode="json")
    # As the client wrote it: shown, it is also false for a disabled job.
    shown["schedule_enabled"] = was.wording.get("schedule_enabled")
    parts = [part for part in DEFINITION_PARTS if not part.fields.isdisjoint(changes)]
    policy = {
        name: words for name, words in POLICY_SYNONYMS.items() if not set(words).isdisjoint(changes)
    }
    synonyms = [*(each for part in parts for each in part.synonyms), *policy.values()]
    job_in = validate_fields(merge_changes(shown, changes, synonyms))
    made = {name: value for part in parts for name, value in part.read(job_in).items()}
    if "wording" in made and changes.keys().isdisjoint({"schedule", *SCHEDULE_WORDS}):
        made["wording"] = was.wording
    if policy:
        written = job_in.read_policy()
        made["policy"] = replace(was.policy, **{name: getattr(written, name) for name in policy})
    return replace(was, **made)


def merge_changes(
    shown: dict[str, Any], changes: dict[str, Any], synonyms: list[Synonyms]
) -> dict[str, Any]:
    """The fields of these synonyms as the job shows them, with the changes; null is left out.

    Where a change uses one of the interval scheduler's words, the rest is taken from these too.
    """
    merged: dict[str, Any] = {}
    for ours, *theirs in synonyms:
        names = theirs if any(name in changes for name in theirs) else [ours]
        merged |= {name: shown[name] for name in names}
    if changes.get("group", "") is None:
        # The limits that a job shows are those of the group that it leaves.
        merged.pop("limits", None)
    return {name: value for name, value in (merged | changes).items() if value is not None}


def validate_fields(fields: dict[str, Any]) -> JobIn:
    try:
        return JobIn.model_validate(fields)
    except ValidationError as error:
        faults = [{**fault, "loc": ("body", *fault["loc"])} for fault in error.errors()]
        raise RequestValidationError(faults) from None
