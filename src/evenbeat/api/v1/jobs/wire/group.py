"""Groups as clients see and change them."""

from datetime import datetime
from typing import Annotated, Self
from uuid import UUID

from pydantic import BaseModel, ConfigDict, Field

from evenbeat.api.v1.wire.text_types import Storable
from evenbeat.control.jobs.groups import GroupMembers, GroupPage
from evenbeat.core.errors import InvalidInput
from evenbeat.core.jobs.groups import Group, Rate
from evenbeat.core.limits import LONGEST_RATE, MOST_RUNNING
from evenbeat.store.jobs.groups import GroupMember, GroupUsage


class GroupIn(BaseModel):
    """What a group allows. A limit that is left out does not exist."""

    model_config = ConfigDict(
        extra="forbid",
        strict=True,
        json_schema_extra={"examples": [{"max_running": 2, "rate": "100/m"}]},
    )

    max_running: Annotated[int, Field(ge=1, le=MOST_RUNNING)] | None = Field(
        None, description="how many of its jobs run at once, on all nodes together"
    )
    rate: Annotated[Storable, Field(max_length=LONGEST_RATE)] | None = Field(
        None, description='how many may start, as in "100/m" or "5/30s"'
    )

    def to_core(self, key: str) -> Group:
        try:
            rate = None if self.rate is None else Rate.parse(self.rate)
            return Group(key, max_running=self.max_running, rate=rate)
        except InvalidInput as error:
            first = error.errors[0]
            raise InvalidInput(first.field.removeprefix("group."), first.message) from None


class GroupOut(BaseModel):
    """A group: what it allows, how many run in it, and how many wait and since when."""

    key: str
    max_running: int | None
    rate: str | None
    is_paused: bool
    paused_at: datetime | None
    running: int
    waiting: int
    waiting_since: datetime | None
    # When the rate lets the next waiting job start.
    next_start_at: datetime | None
    created_at: datetime
    changed_at: datetime

    @classmethod
    def from_core(cls, usage: GroupUsage) -> Self:
        group = usage.group
        return cls(
            key=group.key,
            max_running=group.max_running,
            rate=group.rate and str(group.rate),
            is_paused=group.paused_at is not None,
            paused_at=group.paused_at,
            running=usage.running,
            waiting=usage.waiting,
            waiting_since=usage.waiting_since,
            next_start_at=group.ready_at,
            created_at=group.created_at,
            changed_at=group.limits_at,
        )


class GroupsOut(BaseModel):
    """A page of groups, by key."""

    groups: list[GroupOut]
    total: int
    limit: int
    offset: int

    @classmethod
    def from_core(cls, page: GroupPage, *, limit: int, offset: int) -> Self:
        groups = [GroupOut.from_core(each) for each in page.groups]
        return cls(groups=groups, total=page.total, limit=limit, offset=offset)


class HolderOut(BaseModel):
    """A job that runs in the group, since when and where."""

    job_id: UUID
    name: str | None
    since: datetime
    node: str | None

    @classmethod
    def from_core(cls, member: GroupMember) -> Self:
        return cls(job_id=member.uid, name=member.name, since=member.since, node=member.node)


class WaitingOut(BaseModel):
    """A job that waits for a place in the group, since it was due."""

    job_id: UUID
    name: str | None
    since: datetime

    @classmethod
    def from_core(cls, member: GroupMember) -> Self:
        return cls(job_id=member.uid, name=member.name, since=member.since)


class MembersOut(BaseModel):
    """A group, the jobs that run in it, and a page of those that wait, in turn."""

    group: GroupOut
    holders: list[HolderOut]
    waiting: list[WaitingOut]
    limit: int
    offset: int

    @classmethod
    def from_core(cls, members: GroupMembers, *, limit: int, offset: int) -> Self:
        return cls(
            group=GroupOut.from_core(members.occupied),
            holders=[HolderOut.from_core(each) for each in members.holders],
            waiting=[WaitingOut.from_core(each) for each in members.waiting],
            limit=limit,
            offset=offset,
        )
