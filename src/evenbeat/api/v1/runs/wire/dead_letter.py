"""Dead letters as clients see them, and the actions on them."""

from datetime import datetime
from typing import Annotated, Any, Self
from uuid import UUID

from pydantic import BaseModel, ConfigDict, Field

from evenbeat.api.v1.jobs.wire.actions import MOST_REFUSED, Switch
from evenbeat.api.v1.runs.wire.execution import ExecutionOut
from evenbeat.api.v1.wire.text_types import Name, Storable
from evenbeat.control.runs.dead_letters import (
    ORIGINAL_PAYLOAD,
    LetterActionResult,
    LetterGroupPage,
    LetterPage,
)
from evenbeat.core.errors import InvalidInput
from evenbeat.core.jobs.ids import run_uid
from evenbeat.core.jobs.model import ErrorClass, Run
from evenbeat.core.limits import (
    LARGEST_OFFSET,
    LARGEST_PAGE,
    LONGEST_NOTE,
    LONGEST_OWNER,
    LONGEST_SIGNATURE,
    MOST_ACTED_ON_AT_ONCE,
)
from evenbeat.core.runs.dead_letters import (
    DeadLetter,
    LetterAction,
    LetterFilter,
    LetterGroup,
    LetterState,
    Remark,
    letter_id,
)

Signature = Annotated[Storable, Field(min_length=1, max_length=LONGEST_SIGNATURE)]
NoteText = Annotated[
    Storable, Field(min_length=1, max_length=LONGEST_NOTE, examples=["the disk was full"])
]
Owner = Annotated[Storable, Field(min_length=1, max_length=LONGEST_OWNER, examples=["ops"])]


class LetterMatchIn(BaseModel):
    """Which letters. Every condition that is given must hold."""

    model_config = ConfigDict(extra="forbid")

    job_id: UUID | None = None
    job_name: Name | None = None
    kind: Name | None = None
    group: Name | None = None
    signature: Signature | None = Field(None, description="as /dead-letters/groups shows it")
    owner: Name | None = None

    def to_filter(self, ids: list[UUID] | None, states: list[LetterState] | None) -> LetterFilter:
        return LetterFilter(
            ids=None if ids is None else frozenset(map(letter_id, ids)),
            states=frozenset(states) if states else None,
            job_uid=self.job_id,
            job_name=self.job_name,
            kind=self.kind,
            group=self.group,
            signature=self.signature,
            owner=self.owner,
        )


class LettersIn(LetterMatchIn):
    """Which letters, and which page of them."""

    state: LetterState | None = None
    limit: Annotated[int, Field(ge=1, le=LARGEST_PAGE)] = 50
    offset: Annotated[int, Field(ge=0, le=LARGEST_OFFSET)] = 0

    def filter(self) -> LetterFilter:
        return self.to_filter(None, None if self.state is None else [self.state])


class LetterFilterIn(LetterMatchIn):
    """Which letters. At least one condition must be given."""

    ids: Annotated[list[UUID], Field(min_length=1, max_length=MOST_ACTED_ON_AT_ONCE)] | None = None
    state: Annotated[list[LetterState], Field(min_length=1, max_length=4)] | None = None
    all: Switch = Field(False, description="every letter there is; goes with nothing else")

    def to_core(self) -> LetterFilter:
        chosen = self.to_filter(self.ids, self.state)
        if chosen.is_everything != self.all:
            what = "goes with nothing else" if self.all else "says nothing"
            raise InvalidInput("filter", f"{what}: name the letters, or say all: true alone")
        return chosen


class RemarkIn(BaseModel):
    """A note, and the owner who takes care of the letter."""

    model_config = ConfigDict(extra="forbid", strict=True)

    note: NoteText | None = None
    owner: Owner | None = None

    def remark(self) -> Remark:
        return Remark(self.note, self.owner)


class RequeueIn(RemarkIn):
    """How to run it again: as it was, or with another payload."""

    payload: Any = Field(None, description="instead of the letter's; left out: as it was")

    def payload_or_original(self) -> Any:
        return self.payload if "payload" in self.model_fields_set else ORIGINAL_PAYLOAD


class LetterActionIn(RemarkIn):
    """One action for many letters."""

    model_config = ConfigDict(
        json_schema_extra={
            "examples": [{"action": "requeue", "filter": {"job_name": "nightly"}, "dry_run": True}]
        },
    )

    action: Annotated[LetterAction, Field(strict=False)]
    filter: Annotated[LetterFilterIn, Field(strict=False)]
    dry_run: Switch = Field(False, description="only say what would be done")
    skip_refused: Switch = Field(False, description="leave out letters that refuse")


class LetterOut(BaseModel):
    """A beat that ran out of attempts; its id is that of the run that failed last."""

    id: UUID
    state: LetterState
    job_id: UUID | None
    job_name: str | None
    kind: str
    group: str | None
    payload: Any
    beat_at: datetime | None
    attempts: int
    error_class: ErrorClass | None
    last_error: str | None
    signature: str
    failed_at: datetime
    acknowledged: bool
    acknowledged_at: datetime | None
    acknowledged_by: str | None
    note: str | None
    owner: str | None
    ended_at: datetime | None
    ended_by: str | None
    requeued_as: UUID | None
    allowed_actions: list[LetterAction]

    @classmethod
    def from_core(cls, letter: DeadLetter) -> Self:
        return cls(**letter_fields(letter))


class LetterDetailOut(LetterOut):
    """A dead letter with the attempts at its beat, the last first, as long as runs are kept."""

    executions: list[ExecutionOut]

    @classmethod
    def from_parts(cls, letter: DeadLetter, runs: list[Run]) -> Self:
        return cls(
            **letter_fields(letter), executions=[ExecutionOut.from_core(run) for run in runs]
        )


class LettersOut(BaseModel):
    """A page of letters: those not acknowledged first, then by age, the newest first."""

    dead_letters: list[LetterOut]
    total: int
    limit: int
    offset: int

    @classmethod
    def from_core(cls, page: LetterPage, *, limit: int, offset: int) -> Self:
        letters = [LetterOut.from_core(letter) for letter in page.letters]
        return cls(dead_letters=letters, total=page.total, limit=limit, offset=offset)


class LetterGroupOut(BaseModel):
    """Letters that failed in the same way."""

    signature: str
    count: int
    unacknowledged: int
    jobs: int
    kinds: list[str]
    first_at: datetime
    last_at: datetime
    newest_id: UUID

    @classmethod
    def from_core(cls, group: LetterGroup) -> Self:
        return cls(
            signature=group.signature,
            count=group.count,
            unacknowledged=group.open,
            jobs=group.jobs,
            kinds=list(group.kinds),
            first_at=group.first_at,
            last_at=group.last_at,
            newest_id=run_uid(group.newest_id),
        )


class LetterGroupsOut(BaseModel):
    """A page of signatures; those with most letters not acknowledged come first."""

    groups: list[LetterGroupOut]
    total: int
    limit: int
    offset: int

    @classmethod
    def from_core(cls, page: LetterGroupPage, *, limit: int, offset: int) -> Self:
        groups = [LetterGroupOut.from_core(group) for group in page.groups]
        return cls(groups=groups, total=page.total, limit=limit, offset=offset)


class RefusedLetterOut(BaseModel):
    """A letter that does not allow the action."""

    id: UUID
    error: str


class LetterActionOut(BaseModel):
    """What was done, or would be."""

    action: LetterAction
    dry_run: bool
    changed: int
    ids: list[UUID]
    refused: int
    refusals: list[RefusedLetterOut]

    @classmethod
    def from_core(cls, result: LetterActionResult) -> Self:
        return cls(
            action=result.action,
            dry_run=result.is_dry_run,
            changed=len(result.changed),
            ids=[run_uid(each) for each in result.changed],
            refused=len(result.refused),
            refusals=[
                RefusedLetterOut(id=run_uid(each.id), error=str(each.error))
                for each in result.refused[:MOST_REFUSED]
            ],
        )


def letter_fields(letter: DeadLetter) -> dict[str, Any]:
    return {
        "id": run_uid(letter.id),
        "state": letter.state,
        "job_id": letter.job_uid,
        "job_name": letter.job_name,
        "kind": letter.kind,
        "group": letter.group_key,
        "payload": letter.payload,
        "beat_at": letter.beat_at,
        "attempts": letter.attempts,
        "error_class": letter.error_class,
        "last_error": letter.error,
        "signature": letter.signature,
        "failed_at": letter.created_at,
        "acknowledged": letter.acknowledged_at is not None,
        "acknowledged_at": letter.acknowledged_at,
        "acknowledged_by": letter.acknowledged_by,
        "note": letter.note,
        "owner": letter.owner,
        "ended_at": letter.ended_at,
        "ended_by": letter.ended_by,
        "requeued_as": letter.requeued_as,
        "allowed_actions": list(letter.allowed),
    }
