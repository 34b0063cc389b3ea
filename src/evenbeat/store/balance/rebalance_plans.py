"""Plans of rebalances: stored as they were shown, then applied, undone or removed."""

from collections.abc import Iterator, Sequence
from dataclasses import asdict
from datetime import timedelta
from typing import TypeVar
from uuid import UUID

import asyncpg

from evenbeat.core.balance.model import Move, Score, SkippedJob, SkipReason
from evenbeat.core.balance.plan_records import PlanSummary, RebalanceTotals, StoredPlan
from evenbeat.core.errors import NotFound
from evenbeat.core.ops.audit import Actor
from evenbeat.store.database.pool import Session
from evenbeat.store.database.statements import Statement, load_statements

SQL = load_statements("balance/rebalance_plans")
# Writing or reading this many rows takes a tenth of the time that a statement may take.
ROWS_AT_ONCE = 5_000
# A preview can be applied for five minutes only; people ask about applied plans much later.
KEEP_PREVIEWS_FOR = timedelta(days=1)
KEEP_APPLIED_FOR = timedelta(days=90)

Item = TypeVar("Item")


async def insert_plan(session: Session, plan: StoredPlan) -> None:
    summary = plan.summary
    await session.execute(
        SQL["add"],
        id=summary.id,
        made_at=summary.made_at,
        made_by=summary.made_by,
        group_key=summary.group,
        max_moves=summary.max_moves,
        seen=summary.seen,
        job_count=summary.job_count,
        before=asdict(summary.before),
        after=asdict(summary.after),
        attainable_score=summary.attainable_score,
        suggestion=summary.suggestion,
        move_count=summary.move_count,
        skip_count=summary.skip_count,
        undoes=summary.undoes,
    )
    for moves in split_into_batches(plan.moves):
        await session.execute(
            SQL["add_moves"],
            plan_id=summary.id,
            job_ids=[move.job for move in moves],
            job_uids=[plan.uids[move.job] for move in moves],
            old_phases=[move.old_phase_s for move in moves],
            new_phases=[move.new_phase_s for move in moves],
            old_next=[move.old_next_at for move in moves],
            new_next=[move.new_next_at for move in moves],
            effective_from=[move.effective_from for move in moves],
        )
    for skips in split_into_batches(plan.skipped):
        await session.execute(
            SQL["add_skips"],
            plan_id=summary.id,
            job_ids=[skip.job for skip in skips],
            job_uids=[plan.uids[skip.job] for skip in skips],
            reasons=[str(skip.reason) for skip in skips],
        )


def split_into_batches(items: Sequence[Item]) -> Iterator[Sequence[Item]]:
    for at in range(0, len(items), ROWS_AT_ONCE):
        yield items[at : at + ROWS_AT_ONCE]


async def find_plan(session: Session, plan_id: UUID) -> StoredPlan:
    return await plan_from_row(session, await session.fetch_row(SQL["by_id"], id=plan_id), plan_id)


async def lock_plan(session: Session, plan_id: UUID) -> StoredPlan:
    """The same, locked until the end of the transaction, to apply the plan or to undo it."""
    return await plan_from_row(session, await session.fetch_row(SQL["lock"], id=plan_id), plan_id)


async def find_last_applied(session: Session) -> PlanSummary | None:
    """The newest rebalance that moved a job and was not undone."""
    row = await session.fetch_row(SQL["last_applied"])
    return None if row is None else summary_from(row)


async def find_newest_change(session: Session) -> int:
    """The number of the newest change of the load map; a plan records it as `seen`."""
    return await session.fetch_value(SQL["newest_change"])


async def plan_from_row(session: Session, row: asyncpg.Record | None, plan_id: UUID) -> StoredPlan:
    if row is None:
        raise NotFound(f"no plan {plan_id}; plans that were not applied are kept for a day")
    moves = await fetch_all_rows(session, SQL["moves"], plan_id)
    skips = await fetch_all_rows(session, SQL["skips"], plan_id)
    return StoredPlan(
        summary=summary_from(row),
        moves=tuple(sorted(map(move_from, moves), key=lambda move: (move.old_next_at, move.job))),
        skipped=tuple(SkippedJob(skip["job_id"], SkipReason(skip["reason"])) for skip in skips),
        uids={each["job_id"]: each["job_uid"] for each in (*moves, *skips)},
    )


async def fetch_all_rows(
    session: Session, statement: Statement, plan_id: UUID
) -> list[asyncpg.Record]:
    found: list[asyncpg.Record] = []
    while True:
        after = found[-1]["job_id"] if found else 0
        rows = await session.fetch(statement, plan_id=plan_id, after=after, limit=ROWS_AT_ONCE)
        found += rows
        if len(rows) < ROWS_AT_ONCE:
            return found


async def list_plans(session: Session, *, limit: int) -> list[PlanSummary]:
    """Newest first."""
    return [summary_from(row) for row in await session.fetch(SQL["page"], limit=limit)]


async def mark_applied(session: Session, plan_id: UUID, *, by: Actor) -> None:
    if not await session.execute(SQL["mark_applied"], id=plan_id, applied_by=by.name):
        raise AssertionError("lock a plan, and check that it was not applied, before marking it")


async def mark_undone(session: Session, plan_id: UUID, *, by: Actor) -> None:
    if not await session.execute(SQL["mark_undone"], id=plan_id, undone_by=by.name):
        raise AssertionError("lock a plan, and check that it was applied, before undoing it")


async def count_rebalances(session: Session) -> RebalanceTotals:
    row = await session.fetch_row(SQL["rebalances"])
    return RebalanceTotals() if row is None else RebalanceTotals(**row)


async def remove_old_plans(session: Session, *, limit: int) -> int:
    return await session.execute(
        SQL["forget"], previews_for=KEEP_PREVIEWS_FOR, applied_for=KEEP_APPLIED_FOR, limit=limit
    )


def summary_from(row: asyncpg.Record) -> PlanSummary:
    return PlanSummary(
        id=row["id"],
        made_at=row["made_at"],
        made_by=row["made_by"],
        group=row["group_key"],
        max_moves=row["max_moves"],
        seen=row["seen"],
        job_count=row["job_count"],
        before=Score(**row["before"]),
        after=Score(**row["after"]),
        attainable_score=row["attainable_score"],
        suggestion=row["suggestion"],
        move_count=row["move_count"],
        skip_count=row["skip_count"],
        undoes=row["undoes"],
        applied_at=row["applied_at"],
        applied_by=row["applied_by"],
        undone_at=row["undone_at"],
        undone_by=row["undone_by"],
    )


def move_from(row: asyncpg.Record) -> Move:
    return Move(
        job=row["job_id"],
        old_phase_s=row["old_phase_s"],
        new_phase_s=row["new_phase_s"],
        old_next_at=row["old_next_at"],
        new_next_at=row["new_next_at"],
        effective_from=row["effective_from"],
    )
