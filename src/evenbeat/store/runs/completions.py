"""Completions: writing how runs ended, in one statement per batch."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from evenbeat.core.jobs.model import Cause, HeldRun, RunState, State
from evenbeat.core.runs.error_signatures import build_signature
from evenbeat.core.runs.settle import SettledRun, Verdict
from evenbeat.store.database.codes import CODE_OF_RUN_STATE, CODE_OF_STATE
from evenbeat.store.database.pool import Session, drop_all_nulls
from evenbeat.store.database.route import JsonElement
from evenbeat.store.database.statements import load_statements

SQL = load_statements("runs/completions")
MILLISECOND = timedelta(milliseconds=1)
# Compared for every run: a look-up in the enumeration takes longer than the comparison.
MANUAL, SCHEDULED, COMPLETED = Cause.MANUAL, State.SCHEDULED, RunState.COMPLETED


@dataclass(frozen=True, slots=True)
class WrittenRuns:
    """The runs whose end was written, and the groups in which a place came free."""

    run_ids: frozenset[int]
    group_ids: frozenset[int]


async def complete_runs(session: Session, batch: Sequence[SettledRun]) -> WrittenRuns:
    """Write how these runs ended."""
    ordered = sorted(batch, key=lambda settled: settled.claimed.id)
    row = await session.fetch_row(SQL["complete"], **settled_columns(ordered))
    return WrittenRuns(*(frozenset((row and row[name]) or ()) for name in ("run_ids", "group_ids")))


async def find_unlocked_jobs(session: Session, job_ids: Sequence[int]) -> set[int]:
    """Which of these jobs no open transaction has locked."""
    rows = await session.fetch(SQL["unlocked"], job_ids=list(job_ids))
    return {row["id"] for row in rows}


async def find_written_runs(session: Session, batch: Sequence[SettledRun]) -> frozenset[int]:
    """Which of these runs have ended in just this way: this node wrote that, not a reaper."""
    rows = await session.fetch(SQL["run_ends"], run_ids=[each.claimed.run.id for each in batch])
    ends = {(row["id"], row["job_id"], row["state"], row["error_class"]) for row in rows}
    return frozenset(each.claimed.run.id for each in batch if end_of(each) in ends)


def end_of(settled: SettledRun) -> tuple[int, int, bytes, str | None]:
    held, verdict = settled.claimed, settled.verdict
    return held.run.id, held.id, CODE_OF_RUN_STATE[verdict.run_state], verdict.error_class


def settled_columns(batch: Sequence[SettledRun]) -> dict[str, list[Any]]:
    """The batch as the columns that the statement unnests, without those that are as usual."""
    held = [settled.claimed for settled in batch]
    verdicts = [settled.verdict for settled in batch]
    usual: dict[str, list[Any]] = {
        "job_ids": [each.id for each in held],
        "tokens": [each.run.token for each in held],
        "duration_ms": [in_milliseconds(settled.duration) for settled in batch],
        "plan_versions": [each.plan_version for each in held],
        "next_beats": [each.next_beat_at for each in verdicts],
    }
    if all(map(is_usual, held, verdicts)):
        return NOTHING_UNUSUAL | usual
    return unusual_columns(held, verdicts) | usual


def in_milliseconds(duration: timedelta | None) -> int | None:
    return None if duration is None else duration // MILLISECOND


def is_usual(held: HeldRun, verdict: Verdict) -> bool:
    """A beat of a recurring job that was done, without a result and without missed beats."""
    return (
        verdict.state is SCHEDULED
        and verdict.run_state is COMPLETED
        and verdict.moves_cursor
        and verdict.missed is None
        and verdict.result is None
        and not verdict.items_crawled
        and not verdict.items_indexed
        and held.run.cause is not MANUAL
    )


def unusual_columns(held: Sequence[HeldRun], verdicts: Sequence[Verdict]) -> dict[str, list[Any]]:
    """The columns that are empty for a batch of usual runs."""
    missed = [verdict.missed for verdict in verdicts]
    return {
        "attempts": drop_all_nulls(map(uncounted, held, verdicts)),
        "attempts_used": drop_all_nulls(
            verdict.attempts_used if uncounted(each, verdict) is not None else None
            for each, verdict in zip(held, verdicts, strict=True)
        ),
        "moves_cursor": drop_all_nulls(None if each.moves_cursor else False for each in verdicts),
        "run_states": [CODE_OF_RUN_STATE[state] for state in unusual_run_states(verdicts)],
        "job_states": [CODE_OF_STATE[state] for state in unusual_states(verdicts)],
        "retries": drop_all_nulls(each.retry_at for each in verdicts),
        "failure_streaks": drop_all_nulls(each.failure_streak or None for each in verdicts),
        "lost_streaks": drop_all_nulls(each.lost_streak or None for each in verdicts),
        "error_classes": drop_all_nulls(each.error_class for each in verdicts),
        "errors": drop_all_nulls(each.error for each in verdicts),
        "stack_traces": drop_all_nulls(each.stack_trace for each in verdicts),
        "results": drop_all_nulls(
            None if each.result is None else JsonElement(each.result) for each in verdicts
        ),
        "items_crawled": drop_all_nulls(each.items_crawled or None for each in verdicts),
        "items_indexed": drop_all_nulls(each.items_indexed or None for each in verdicts),
        "reasons": drop_all_nulls(each.reason for each in verdicts),
        "signatures": drop_all_nulls(
            build_signature(each.error, each.error_class) if each.is_dead else None
            for each in verdicts
        ),
        "missed_counts": drop_all_nulls(each and each.count for each in missed),
        "missed_from": drop_all_nulls(each and each.first_at for each in missed),
        "missed_until": drop_all_nulls(each and each.until_at for each in missed),
        "missed_reasons": drop_all_nulls(each and each.reason for each in missed),
    }


def uncounted(held: HeldRun, verdict: Verdict) -> int | None:
    """The attempt of this run, where the pulse will not hold it: an attempt that does not count,
    or one by hand."""
    run = held.run
    is_usual = run.cause is not Cause.MANUAL and verdict.attempts_used == run.attempt
    return None if is_usual else run.attempt


def unusual_run_states(verdicts: Sequence[Verdict]) -> list[RunState]:
    states = [verdict.run_state for verdict in verdicts]
    return [] if all(state is RunState.COMPLETED for state in states) else states


def unusual_states(verdicts: Sequence[Verdict]) -> list[State]:
    states = [verdict.state for verdict in verdicts]
    return [] if all(state is State.SCHEDULED for state in states) else states


NOTHING_UNUSUAL: dict[str, list[Any]] = {name: [] for name in unusual_columns((), ())}
