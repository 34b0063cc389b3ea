"""Leases: claiming due jobs, writing how their runs ended, finding the runs of the dead."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Any
from uuid import UUID

import asyncpg

from evenbeat.core.model import Cause, Claimed, Definition, OpenRun
from evenbeat.core.settle import Verdict
from evenbeat.store import jobs
from evenbeat.store.codes import CAUSES, CODE_OF_RUN_STATE, CODE_OF_STATE
from evenbeat.store.database import Session
from evenbeat.store.jobs import Unreadable
from evenbeat.store.statements import load

SQL = load("leases")


@dataclass(frozen=True, slots=True)
class Broken:
    """A job that was claimed and cannot be run: its definition makes no sense to this version."""

    id: int
    uid: UUID | None
    run: OpenRun
    plan_version: int
    error: str


Held = Claimed | Broken


@dataclass(frozen=True, slots=True)
class Settled:
    """A run that has ended, and what follows from it."""

    claimed: Held
    verdict: Verdict
    duration: timedelta | None


async def claim_due(
    session: Session, node_id: int, *, token: int, places: Mapping[int, int]
) -> list[Held]:
    """Take due jobs: at most so many of each kind's number."""
    rows = await session.fetch(
        SQL["claim_due"],
        node_id=node_id,
        token=token,
        kind_ids=list(places),
        places=list(places.values()),
    )
    return await with_definitions(session, [(row, token) for row in rows])


async def in_hand(session: Session, node_id: int) -> list[Held]:
    """What a node has in hand, or had when it died."""
    rows = await session.fetch(SQL["in_hand"], node_id=node_id)
    return await with_definitions(session, [(row, row["token"]) for row in rows])


async def next_due_in(
    session: Session, kind_ids: Sequence[int], *, horizon: timedelta
) -> timedelta | None:
    """How long until one of these kinds has a due job; None: not within the horizon."""
    seconds = await session.fetch_value(
        SQL["next_due_in"], kind_ids=list(kind_ids), horizon=horizon
    )
    return None if seconds is None else timedelta(seconds=seconds)


async def complete(session: Session, batch: Sequence[Settled]) -> set[int]:
    """Write how these runs ended. The ids that come back were ours to write."""
    ordered = sorted(batch, key=lambda settled: settled.claimed.id)
    rows = await session.fetch(SQL["complete"], **arrays(ordered))
    return {row["run_id"] for row in rows}


async def with_definitions(session: Session, rows: list[tuple[Any, int]]) -> list[Held]:
    if not rows:
        return []
    known = await jobs.definitions_of(session, [row["id"] for row, _ in rows])
    missing = Unreadable("there is a pulse, but no job")
    return [held_from(row, token, known.get(row["id"], missing)) for row, token in rows]


def held_from(row: asyncpg.Record, token: int, known: tuple[UUID, Definition] | Unreadable) -> Held:
    run = open_run_from(row, token)
    if isinstance(known, Unreadable):
        return Broken(row["id"], known.uid, run, row["plan_version"], known.error)
    uid, definition = known
    return Claimed(
        id=row["id"],
        uid=uid,
        definition=definition,
        run=run,
        next_beat_at=row["next_beat_at"],
        plan_version=row["plan_version"],
        runs_so_far=row["beat_count"],
        failure_streak=row["failure_streak"],
        lost_streak=row["lost_streak"],
    )


def open_run_from(row: asyncpg.Record, token: int) -> OpenRun:
    cause = CAUSES[row["cause"]]
    is_manual = cause is Cause.MANUAL
    return OpenRun(
        id=row["run_id"],
        number=row["run_number"],
        cause=cause,
        beat_at=None if is_manual else row["beat_at"],
        attempt=row["manual_attempt"] if is_manual else row["attempt"],
        started_at=row["started_at"],
        token=token,
    )


def arrays(batch: Sequence[Settled]) -> dict[str, list[Any]]:
    """The batch as the columns that the statement unnests."""
    columns: dict[str, list[Any]] = {}
    for settled in batch:
        for name, value in columns_of(settled).items():
            columns.setdefault(name, []).append(value)
    return columns


def columns_of(settled: Settled) -> dict[str, Any]:
    claimed, verdict, missed = settled.claimed, settled.verdict, settled.verdict.missed
    return {
        "job_ids": claimed.id,
        "tokens": claimed.run.token,
        "duration_ms": settled.duration and settled.duration // timedelta(milliseconds=1),
        "run_states": CODE_OF_RUN_STATE[verdict.run_state],
        "job_states": CODE_OF_STATE[verdict.state],
        "plan_versions": claimed.plan_version,
        "moves_cursor": verdict.moves_cursor,
        "next_beats": verdict.next_beat_at,
        "retries": verdict.retry_at,
        "attempts": claimed.run.attempt,
        "attempts_used": verdict.attempts_used,
        "failure_streaks": verdict.failure_streak,
        "lost_streaks": verdict.lost_streak,
        "error_classes": verdict.error_class,
        "errors": verdict.error,
        "stack_traces": verdict.stack_trace,
        "results": verdict.result,
        "items_crawled": verdict.items_crawled,
        "items_indexed": verdict.items_indexed,
        "reasons": verdict.reason,
        "missed_counts": missed and missed.count,
        "missed_from": missed and missed.first_at,
        "missed_until": missed and missed.until_at,
        "missed_reasons": missed and missed.reason,
    }
