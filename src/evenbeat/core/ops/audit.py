"""Who did what to a job, and when."""

from dataclasses import dataclass
from datetime import datetime
from typing import Any
from uuid import UUID

from evenbeat.core.errors import InvalidInput
from evenbeat.core.jobs.payload import check_text
from evenbeat.core.limits import LONGEST_ACTOR


@dataclass(frozen=True, slots=True)
class Actor:
    """The person or program that acts, and the id of its request, if it came by one."""

    name: str
    request_id: str | None = None

    def __post_init__(self) -> None:
        for field, text in (("actor", self.name), ("request_id", self.request_id or "-")):
            check_text(text, field)
            if not 1 <= len(text) <= LONGEST_ACTOR:
                raise InvalidInput(field, f"must have 1 to {LONGEST_ACTOR} characters")


PYTHON = Actor("python")
"""The actor where a program names none."""


@dataclass(frozen=True, slots=True)
class NewAuditEntry:
    """One row of the audit before it is written: of `before` and `after`, only what differs."""

    action: str
    before: dict[str, Any]
    after: dict[str, Any]
    job_id: int | None = None
    job_uid: UUID | None = None
    job_name: str | None = None


@dataclass(frozen=True, slots=True)
class AuditEntry:
    """One row of the audit. It has no job where the action was on all of Evenbeat."""

    id: int
    at: datetime
    actor: Actor
    action: str
    job_uid: UUID | None
    job_name: str | None
    before: dict[str, Any]
    after: dict[str, Any]


def find_differences(
    before: dict[str, Any], after: dict[str, Any]
) -> tuple[dict[str, Any], dict[str, Any]]:
    """Both, without what is the same in both."""
    keys = sorted(before.keys() | after.keys())
    changed = [key for key in keys if before.get(key) != after.get(key)]
    return {key: before.get(key) for key in changed}, {key: after.get(key) for key in changed}
