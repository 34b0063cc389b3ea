"""Actions on many jobs with their results, and the versions of one job."""

from datetime import datetime
from typing import Annotated, Any, Literal, Self
from uuid import UUID

from pydantic import BaseModel, ConfigDict, Field

from evenbeat.api.v1.jobs.wire.job_out import definition_fields
from evenbeat.api.v1.jobs.wire.listing import known_states
from evenbeat.api.v1.wire.text_types import Name, Storable
from evenbeat.control.bulk_action import Refusal
from evenbeat.control.jobs.actions import ActionResult
from evenbeat.core.errors import FieldError, InvalidInput
from evenbeat.core.jobs.filters import Filter
from evenbeat.core.jobs.lifecycle import Action
from evenbeat.core.limits import MOST_ACTED_ON_AT_ONCE, MOST_FILTER_VALUES
from evenbeat.store.jobs.actions import JobVersion
from evenbeat.store.jobs.jobs import UnreadableDefinition

Names = Annotated[list[Name], Field(min_length=1, max_length=MOST_FILTER_VALUES)]
Switch = Annotated[bool, Field(strict=True)]
# Not edit: that needs a definition for each job.
BulkActionName = Literal[
    "run", "pause", "resume", "retry", "cancel", "release", "enable", "disable", "delete"
]
MOST_REFUSED = 100


class FilterIn(BaseModel):
    """Which jobs. Every condition that is given must hold; at least one must be given."""

    model_config = ConfigDict(extra="forbid")

    ids: Annotated[list[UUID], Field(min_length=1, max_length=MOST_ACTED_ON_AT_ONCE)] | None = None
    status: Names | None = None
    state: Names | None = None
    kind: Names | None = None
    group: Names | None = None
    tag: Name | None = None
    labels: dict[Name, Storable] | None = None
    source_id: Name | None = None
    search: Name | None = None
    all: Switch = Field(False, description="every job there is; goes with nothing else")

    def to_core(self) -> Filter:
        try:
            chosen = self._chosen()
        except InvalidInput as error:
            first, *more = (FieldError(f"filter.{e.field}", e.message) for e in error.errors)
            raise InvalidInput(first.field, first.message, more=more) from None
        if chosen.is_everything != self.all:
            what = "goes with nothing else" if self.all else "says nothing"
            raise InvalidInput("filter", f"{what}: name the jobs, or say all: true alone")
        return chosen

    def _chosen(self) -> Filter:
        labels = dict(self.labels or {}) | ({} if self.tag is None else {self.tag: ""})
        return Filter(
            uids=frozen_or_none(self.ids),
            statuses=known_states(self.status, "status") if self.status else None,
            states=known_states(self.state, "state") if self.state else None,
            kinds=frozen_or_none(self.kind),
            groups=frozen_or_none(self.group),
            labels=labels or None,
            source_id=self.source_id,
            search=self.search,
        )


class JobActionIn(BaseModel):
    """One action for many jobs."""

    model_config = ConfigDict(
        extra="forbid",
        json_schema_extra={
            "examples": [
                {"action": "pause", "filter": {"kind": ["crawl"], "tag": "news"}, "dry_run": True}
            ]
        },
    )

    action: BulkActionName
    filter: FilterIn
    dry_run: Switch = Field(False, description="only say what would be done")
    skip_refused: Switch = Field(False, description="leave out jobs that refuse")


class RefusedJobOut(BaseModel):
    """A job whose state does not allow the action."""

    id: UUID
    name: str | None
    error: str

    @classmethod
    def from_core(cls, refused: Refusal[UUID]) -> Self:
        return cls(id=refused.id, name=refused.name, error=str(refused.error))


class JobActionOut(BaseModel):
    """What was done, or would be."""

    action: Action
    dry_run: bool
    changed: int
    ids: list[UUID]
    refused: int
    refusals: list[RefusedJobOut]

    @classmethod
    def from_core(cls, result: ActionResult) -> Self:
        return cls(
            action=result.action,
            dry_run=result.is_dry_run,
            changed=len(result.changed),
            ids=list(result.changed),
            refused=len(result.refused),
            refusals=[RefusedJobOut.from_core(each) for each in result.refused[:MOST_REFUSED]],
        )


class RestoreIn(BaseModel):
    """Which version to go back to."""

    model_config = ConfigDict(extra="forbid", json_schema_extra={"examples": [{"version": 1}]})

    version: Annotated[int, Field(ge=1, le=2**31 - 1, strict=True)]


class VersionOut(BaseModel):
    """A definition that a job has or had; `replaced_by` is null for the one in force."""

    version: int
    replaced_at: datetime | None
    replaced_by: str | None
    definition: dict[str, Any] | None
    error: str | None

    @classmethod
    def from_core(cls, version: JobVersion, now: datetime) -> Self:
        known = version.definition
        is_readable = not isinstance(known, UnreadableDefinition)
        return cls(
            version=version.number,
            replaced_at=version.replaced_at,
            replaced_by=version.replaced_by,
            definition=definition_fields(known, now) if is_readable else None,
            error=None if is_readable else known.error,
        )


class VersionsOut(BaseModel):
    """Every definition that a job has had, the one in force first."""

    versions: list[VersionOut]

    @classmethod
    def from_core(cls, versions: list[JobVersion], now: datetime) -> Self:
        return cls(versions=[VersionOut.from_core(each, now) for each in versions])


def frozen_or_none(values: list[Any] | None) -> frozenset[Any] | None:
    return None if values is None else frozenset(values)
