"""The tally: counts what became of a batch of runs, for the metrics.

It runs once for every batch that is written, and must not take more than a microsecond a run
(`./dev bench metrics`): hence plain loops over what is usual, and a closer look at the rest.
"""

from collections import Counter
from collections.abc import Collection, Sequence

from evenbeat.core.jobs.model import Cause, ErrorClass, RunState
from evenbeat.core.runs.settle import Verdict
from evenbeat.observe.metrics import OTHER, Metrics
from evenbeat.store.runs.completions import SettledRun
from evenbeat.store.runs.leases import UnrunnableClaim

DECISIONS = {
    Cause.SCHEDULE: "scheduled",
    Cause.CATCHUP: "catchup",
    Cause.MANUAL: "manual",
    Cause.RETRY: "retry",
}
COMPLETED, SCHEDULE = RunState.COMPLETED, Cause.SCHEDULE


def count_outcomes(metrics: Metrics, batch: Sequence[SettledRun], run_ids: Collection[int]) -> None:
    """Count those of the batch that were ours to end."""
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
    """A word more than the state of the run: whose fault, or whose wish, its end was."""
    if verdict.error_class is None or verdict.error_class is ErrorClass.HANDLER_ERROR:
        return verdict.run_state.value
    return verdict.error_class.value


def decision_of(settled: SettledRun) -> str:
    if settled.verdict.run_state is RunState.SKIPPED:
        return "skipped"
    return DECISIONS[settled.claimed.run.cause]
