"""Dead letters: people list, acknowledge, requeue and discard them."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any
from uuid import UUID

import asyncpg

from evenbeat.core.errors import Conflict, NotFound
from evenbeat.core.jobs.ids import run_uid
from evenbeat.core.jobs.model import DECLARED_IN, Definition, ErrorClass, Run
from evenbeat.core.ops.audit import Actor
from evenbeat.core.runs.dead_letters import (
    DeadLetter,
    LetterFilter,
    LetterGroup,
    LetterState,
    Remark,
)
from evenbeat.store.database.pool import Session
from evenbeat.store.database.statements import load_statements
from evenbeat.store.jobs import definitions
from evenbeat.store.jobs.jobs import DECODE_ERRORS
from evenbeat.store.runs.runs import run_from

SQL = load_statements("runs/dead_letters")
CODES = {
    LetterState.OPEN: b"o",
    LetterState.ACKNOWLEDGED: b"a",
    LetterState.REQUEUED: b"r",
    LetterState.DISCARDED: b"d",
}
STATES = {code: state for state, code in CODES.items()}
# The attempts at a beat are among this many newest runs of the job.
MOST_RUNS = 1_000
ONCE = {"schedule": {"now": True}}

# A letter, and the policy, labels and routing of its job.
FoundLetter = tuple[DeadLetter, Mapping[str, Any]]


async def list_letters(
    session: Session, matching: LetterFilter, *, limit: int, offset: int
) -> list[DeadLetter]:
    rows = await session.fetch(
        SQL["page"], **letter_filter_parameters(matching), limit=limit, offset=offset
    )
    return [letter_from(row) for row in rows]


async def count_letters(session: Session, matching: LetterFilter) -> int:
    return await session.fetch_value(SQL["count"], **letter_filter_parameters(matching))


async def find_letter(session: Session, letter_id: int) -> DeadLetter:
    found = await list_letters(session, LetterFilter.one(letter_id), limit=1, offset=0)
    if not found:
        raise NotFound(f"no dead letter {run_uid(letter_id)}")
    return found[0]


async def list_letter_runs(session: Session, letter: DeadLetter) -> list[Run]:
    """The failed attempts that are still kept, the last first."""
    rows = await session.fetch(
        SQL["runs"],
        job_id=letter.job_id,
        letter_id=letter.id,
        beat_at=letter.beat_at,
        attempts=letter.attempts,
        most=MOST_RUNS,
    )
    return [run_from(row, letter.job_uid) for row in rows] if letter.job_uid else []


async def list_letter_groups(
    session: Session, matching: LetterFilter, *, limit: int, offset: int
) -> list[LetterGroup]:
    rows = await session.fetch(
        SQL["groups"], **letter_filter_parameters(matching), limit=limit, offset=offset
    )
    return [
        LetterGroup(
            signature=row["signature"],
            count=row["count"],
            open=row["open"],
            jobs=row["jobs"],
            kinds=tuple(row["kinds"]),
            first_at=row["first_at"],
            last_at=row["last_at"],
            newest_id=row["newest_id"],
        )
        for row in rows
    ]


async def count_letter_groups(session: Session, matching: LetterFilter) -> int:
    return await session.fetch_value(SQL["group_count"], **letter_filter_parameters(matching))


async def select_letters(
    session: Session, matching: LetterFilter, *, limit: int, locked: bool
) -> list[FoundLetter]:
    """The letters that match, in id order; `locked`: no other transaction changes them."""
    statement = SQL["lock_letters" if locked else "select_letters"]
    rows = await session.fetch(statement, **letter_filter_parameters(matching), limit=limit)
    return [(letter_from(row), row["terms"]) for row in rows]


async def acknowledge_letters(
    session: Session, ids: Sequence[int], remark: Remark, *, by: Actor
) -> None:
    written = await session.execute(
        SQL["acknowledge"], ids=list(ids), actor=by.name, note=remark.note, owner=remark.owner
    )
    check_letter_count(written, len(ids))


async def end_letters(
    session: Session,
    ids: Sequence[int],
    state: LetterState,
    remark: Remark,
    *,
    by: Actor,
    requeued_as: Sequence[UUID] = (),
) -> None:
    """Write that these letters were requeued, each as that job, or discarded."""
    written = await session.execute(
        SQL["end"],
        ids=list(ids),
        ending=CODES[state],
        actor=by.name,
        note=remark.note,
        owner=remark.owner,
        requeued_as=list(requeued_as),
    )
    check_letter_count(written, len(ids))


def check_letter_count(written: int, expected: int) -> None:
    """The letters are locked, so this cannot fail; if it does, the transaction rolls back."""
    if written != expected:
        raise Conflict(f"{expected - written} dead letters have changed meanwhile; try again")


def requeue_definition(letter: DeadLetter, terms: Mapping[str, Any], payload: Any) -> Definition:
    """A job that runs once, now, as the letter's job did."""
    row = {
        "name": None,
        "kind": letter.kind,
        "payload": payload,
        "timetable": ONCE,
        "group_key": letter.group_key,
        "wording": {},
    }
    try:
        made = definitions.definition_from_row({**terms, **row})
    except DECODE_ERRORS as error:
        raise Conflict(
            f"dead letter {run_uid(letter.id)} cannot be requeued, since the definition of its"
            f" job cannot be read: {type(error).__name__}: {error}; add a job instead"
        ) from None
    # No code declares this job: with the label, every start would report it as undeclared.
    labels = {key: value for key, value in made.labels.items() if key != DECLARED_IN}
    return replace(made, labels=labels)


def letter_filter_parameters(matching: LetterFilter) -> dict[str, Any]:
    return {
        "ids": None if matching.ids is None else list(matching.ids),
        "states": None if matching.states is None else [CODES[state] for state in matching.states],
        "job_uid": matching.job_uid,
        "job_name": matching.job_name,
        "kind": matching.kind,
        "group": matching.group,
        "signature": matching.signature,
        "owner": matching.owner,
    }


def letter_from(row: asyncpg.Record) -> DeadLetter:
    error_class, ending = row["error_class"], row["ending"]
    return DeadLetter(
        id=row["id"],
        job_id=row["job_id"],
        job_uid=row["job_uid"],
        job_name=row["job_name"],
        kind=row["kind"],
        group_key=row["group_key"],
        payload=row["payload"],
        beat_at=row["beat_at"],
        attempts=row["attempts"],
        error_class=None if error_class is None else ErrorClass(error_class),
        error=row["error"],
        signature=row["signature"],
        created_at=row["created_at"],
        acknowledged_at=row["acknowledged_at"],
        acknowledged_by=row["acknowledged_by"],
        note=row["note"],
        owner=row["owner"],
        ending=None if ending is None else STATES[ending],
        ended_at=row["ended_at"],
        ended_by=row["ended_by"],
        requeued_as=row["requeued_as"],
    )
