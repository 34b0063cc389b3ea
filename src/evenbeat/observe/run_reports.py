"""What a node reports of its runs: log lines for their start and end, and metrics.

`count_outcomes` is called for every batch that is written, and may take a microsecond a run
(`./dev bench metrics`): so it has plain loops for usual ends, and looks closer at the others.
"""

from collections import Counter
from collections.abc import Collection, Sequence
from datetime import datetime, timedelta
from uuid import UUID

from evenbeat.core.balance.model import slot_of
from evenbeat.core.jobs.model import Cause, ErrorClass, HeldRun, RunState, UnrunnableClaim
from evenbeat.core.runs.settle import SettledRun, Verdict
from evenbeat.core.time.durations import format_duration
from evenbeat.observe import log
from evenbeat.observe.metrics import OTHER, Metrics

DECISIONS = {
    Cause.SCHEDULE: "scheduled",
    Cause.CATCHUP: "catchup",
    Cause.MANUAL: "manual",
    Cause.RETRY: "retry",
}
COMPLETED, SCHEDULE = RunState.COMPLETED, Cause.SCHEDULE


def count_outcomes(metrics: Metrics, batch: Sequence[SettledRun], run_ids: Collection[int]) -> None:
    """Count the runs of the batch whose end this node has written."""
    ours = batch
    if len(run_ids) < len(batch):
        ours = [settled for settled in batch if settled.claimed.run.id in run_ids]
    by_kind: dict[str, list[SettledRun]] = {}
    for settled in ours:
        held = settled.claimed
        kind = OTHER if isinstance(held, UnrunnableClaim) else held.definition.kind
        if kind in by_kind:
            by_kind[kind].append(settled)
        else:
            by_kind[kind] = [settled]
    for kind, alike in by_kind.items():
        count_kind(metrics, metrics.kinds.label(kind), alike)
    count_fires(metrics, ours)


def count_kind(metrics: Metrics, kind: str, ended: Sequence[SettledRun]) -> None:
    odd = [each.verdict for each in ended if each.verdict.run_state is not COMPLETED]
    outcomes = Counter(map(outcome_of, odd))
    outcomes["completed"] += len(ended) - len(odd)
    for outcome, number in outcomes.items():
        if number:
            metrics.runs.labels(kind, outcome).inc(number)
    if outcomes["lost"]:
        metrics.leases_expired.inc(outcomes["lost"])
    metrics.durations.observe(
        kind, [each.duration.total_seconds() for each in ended if each.duration is not None]
    )
    runs = [each.claimed.run for each in ended]
    # A retry is late on purpose, and a run by hand has no beat.
    metrics.waits.observe(
        kind,
        [
            (run.started_at - run.beat_at).total_seconds()
            for run in runs
            if run.beat_at is not None and (run.cause is SCHEDULE or run.cause is Cause.CATCHUP)
        ],
    )


def count_fires(metrics: Metrics, ended: Sequence[SettledRun]) -> None:
    odd = [
        each
        for each in ended
        if each.claimed.run.cause is not SCHEDULE or each.verdict.run_state is not COMPLETED
    ]
    decisions = Counter(map(decision_of, odd))
    decisions["scheduled"] += len(ended) - len(odd)
    missed = [each.verdict.missed for each in ended if each.verdict.missed is not None]
    decisions["skipped"] += sum(each.count for each in missed)
    for decision, number in decisions.items():
        if number:
            metrics.fires.labels(decision).inc(number)


def outcome_of(verdict: Verdict) -> str:
    """The state of the run, or the class of its error, which says more."""
    if verdict.error_class is None or verdict.error_class is ErrorClass.HANDLER_ERROR:
        return verdict.run_state.value
    return verdict.error_class.value


def decision_of(settled: SettledRun) -> str:
    if settled.verdict.run_state is RunState.SKIPPED:
        return "skipped"
    return DECISIONS[settled.claimed.run.cause]


def log_starts(batch: Sequence[HeldRun]) -> None:
    for held in batch:
        definition = None if isinstance(held, UnrunnableClaim) else held.definition
        log.get_logger().info(
            log.JOB_STARTED,
            job_id=str(held.uid),
            kind=definition and definition.kind,
            source_name=definition and (definition.labels.get("source_name") or definition.name),
            retry_attempt=max(held.run.attempt - 1, 0),
            execution_number=held.run.number,
        )


def log_ends(batch: Sequence[SettledRun], run_ids: Collection[int], now: datetime) -> None:
    shows_success = log.shows_info()
    for settled in batch:
        was_ours = settled.claimed.run.id in run_ids
        # At 20,000 runs a second a line is expensive: it is not made where it is not shown.
        if shows_success or not was_ours or settled.verdict.run_state is not RunState.COMPLETED:
            log_end(settled, now, was_ours=was_ours)


def log_next_beat(
    uid: UUID | None, beat_at: datetime | None, next_beat_at: datetime | None
) -> None:
    """Log the slots of the day in which this beat was, and the next one will be."""
    if beat_at is not None and next_beat_at is not None:
        log.get_logger().info(
            log.JOB_RESCHEDULED,
            job_id=str(uid),
            old_slot=f"{slot_of(beat_at):%H:%M}",
            new_slot=f"{slot_of(next_beat_at):%H:%M}",
        )


def log_end(settled: SettledRun, now: datetime, *, was_ours: bool) -> None:
    held, verdict = settled.claimed, settled.verdict
    logger = log.get_logger().bind(
        job_id=str(held.uid),
        kind=None if isinstance(held, UnrunnableClaim) else held.definition.kind,
        execution_number=held.run.number,
        duration=log.format_seconds(settled.duration),
    )
    if not was_ours:
        logger.warning(log.RUN_FENCED)
    elif verdict.run_state is RunState.COMPLETED:
        logger.info(log.JOB_COMPLETED, items_crawled=verdict.items_crawled)
        log_next_beat(held.uid, held.run.beat_at, verdict.next_beat_at)
    elif verdict.run_state is RunState.FAILED:
        if verdict.error_class is ErrorClass.LOST:
            age = timedelta(seconds=(now - held.run.started_at) // timedelta(seconds=1))
            logger.warning(log.LEASE_CLEARED, lock_age=format_duration(age))
        logger.error(
            log.JOB_FAILED,
            error=verdict.error,
            error_class=verdict.error_class,
            attempt=held.run.attempt,
            retry_in=log.format_seconds(verdict.retry_at and verdict.retry_at - now),
        )
    else:
        logger.info(log.RUN_CLOSED, state=verdict.run_state, reason=verdict.reason)
