"""What is counted of a batch of runs, and that labels stay few."""

import itertools
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import uuid4

import pytest

from evenbeat.core.jobs.catchup import MissedBeats
from evenbeat.core.jobs.model import (
    Cause,
    Claimed,
    Definition,
    ErrorClass,
    OpenRun,
    RunState,
    State,
    UnrunnableClaim,
)
from evenbeat.core.runs.settle import SettledRun, Verdict
from evenbeat.core.time.schedules import parse_schedule
from evenbeat.core.time.timetable import Timetable
from evenbeat.observe.metrics import MOST_KINDS, OTHER, Metrics
from evenbeat.observe.run_reports import count_outcomes

NOW = datetime(2030, 1, 1, 12, tzinfo=UTC)
DONE = Verdict(RunState.COMPLETED, State.SCHEDULED)
numbers = itertools.count(1)


def ended(
    verdict: Verdict = DONE,
    *,
    kind: str = "work",
    cause: Cause = Cause.SCHEDULE,
    late: timedelta = timedelta(0),
    took: timedelta | None = timedelta(seconds=1),
) -> SettledRun:
    number = next(numbers)
    beat_at = None if cause is Cause.MANUAL else NOW - late
    claimed = Claimed(
        id=number,
        uid=uuid4(),
        definition=Definition(kind, Timetable(parse_schedule("every 1h"))),
        run=OpenRun(number, 1, cause, beat_at, 1, started_at=NOW, token=1),
        next_beat_at=NOW,
        plan_version=1,
        runs_so_far=0,
    )
    return SettledRun(claimed, verdict, took)


@pytest.fixture
def metrics() -> Metrics:
    return Metrics()


@pytest.fixture
def value(metrics: Metrics) -> Callable[..., float | None]:
    def look(name: str, **labels: str) -> float | None:
        return metrics.registry.get_sample_value(name, labels)

    return look


def count(metrics: Metrics, *batch: SettledRun) -> None:
    count_outcomes(metrics, batch, {each.claimed.run.id for each in batch})


ODD = {
    "failed": Verdict(RunState.FAILED, State.FAILED, error_class=ErrorClass.HANDLER_ERROR),
    "timeout": Verdict(RunState.FAILED, State.FAILED, error_class=ErrorClass.TIMEOUT),
    "lost": Verdict(RunState.FAILED, State.FAILED, error_class=ErrorClass.LOST),
    "cancelled": Verdict(RunState.CANCELLED, State.CANCELLED, error_class=ErrorClass.CANCELLED),
    "handed_back": Verdict(RunState.CANCELLED, State.SCHEDULED, error_class=ErrorClass.HANDED_BACK),
    "snoozed": Verdict(RunState.CANCELLED, State.SCHEDULED, error_class=ErrorClass.SNOOZED),
    "skipped": Verdict(RunState.SKIPPED, State.SCHEDULED),
}


@pytest.mark.parametrize("outcome", ODD)
def test_every_end_of_a_run_has_its_word(outcome: str, metrics: Metrics, value: Any) -> None:
    count(metrics, ended(ODD[outcome]), ended(), ended(ODD[outcome]), ended(kind="other work"))
    assert value("evenbeat_runs_total", kind="work", outcome=outcome) == 2
    assert value("evenbeat_runs_total", kind="work", outcome="completed") == 1
    assert value("evenbeat_runs_total", kind="other work", outcome="completed") == 1
    assert value("evenbeat_leases_expired_total") == (2 if outcome == "lost" else 0)


def test_runs_that_were_not_ours_are_not_counted(metrics: Metrics, value: Any) -> None:
    ours, fenced = ended(), ended()
    count_outcomes(metrics, [ours, fenced], {ours.claimed.run.id})
    assert value("evenbeat_runs_total", kind="work", outcome="completed") == 1
    assert value("evenbeat_run_duration_seconds_count", kind="work") == 1
    assert value("evenbeat_fires_total", decision="scheduled") == 1


def test_fires_say_why_each_run_came_and_which_beats_got_none(metrics: Metrics, value: Any) -> None:
    missed = replace(DONE, missed=MissedBeats(5, NOW, NOW, "the nodes were down"))
    count(
        metrics,
        ended(),
        ended(missed),
        ended(cause=Cause.CATCHUP),
        ended(cause=Cause.MANUAL),
        ended(cause=Cause.RETRY),
        ended(ODD["failed"]),
        ended(ODD["skipped"]),
    )
    fires = {
        decision: value("evenbeat_fires_total", decision=decision)
        for decision in ("scheduled", "catchup", "manual", "retry", "skipped")
    }
    assert fires == {"scheduled": 3, "catchup": 1, "manual": 1, "retry": 1, "skipped": 6}


def test_a_wait_is_from_the_beat_to_the_start_and_retries_have_none(
    metrics: Metrics, value: Any
) -> None:
    late = timedelta(seconds=2)
    count(
        metrics,
        ended(late=late),
        ended(cause=Cause.CATCHUP, late=timedelta(hours=2)),
        ended(cause=Cause.RETRY, late=late),
        ended(cause=Cause.MANUAL),
    )
    assert value("evenbeat_run_wait_seconds_count", kind="work") == 2
    assert value("evenbeat_run_wait_seconds_sum", kind="work") == 7202
    assert value("evenbeat_run_wait_seconds_bucket", kind="work", le="1.0") == 0
    assert value("evenbeat_run_wait_seconds_bucket", kind="work", le="2.5") == 1


def test_durations_add_up_over_batches_and_a_bound_belongs_to_its_bucket(
    metrics: Metrics, value: Any
) -> None:
    for seconds in (1.0, 0.0005, 4000.0):
        count(metrics, ended(took=timedelta(seconds=seconds)), ended(took=None))
    edges = {"0.001": 1, "0.5": 1, "1.0": 2, "3600.0": 2, "+Inf": 3}
    for edge, expected in edges.items():
        name = "evenbeat_run_duration_seconds_bucket"
        assert value(name, kind="work", le=edge) == expected, edge
    assert value("evenbeat_run_duration_seconds_count", kind="work") == 3
    assert value("evenbeat_run_duration_seconds_sum", kind="work") == pytest.approx(4001.0005)


def test_kinds_beyond_the_bound_share_one_name(metrics: Metrics, value: Any) -> None:
    count(metrics, *(ended(kind=f"kind {number}") for number in range(MOST_KINDS + 7)))
    count(metrics, ended(kind="kind 0"))
    assert value("evenbeat_runs_total", kind=OTHER, outcome="completed") == 7
    assert value("evenbeat_runs_total", kind="kind 0", outcome="completed") == 2
    text, _ = metrics.text("")
    assert text.count(b"evenbeat_runs_total{") == MOST_KINDS + 1
    assert text.count(b"evenbeat_run_duration_seconds_count{") == MOST_KINDS + 1


def test_a_job_that_cannot_be_read_has_no_kind_of_its_own(metrics: Metrics, value: Any) -> None:
    run = OpenRun(1, 1, Cause.SCHEDULE, NOW, 1, started_at=NOW, token=1)
    broken = UnrunnableClaim(1, None, run, 1, "cannot be read")
    count(metrics, SettledRun(broken, ODD["failed"], None))
    assert value("evenbeat_runs_total", kind=OTHER, outcome="failed") == 1


def test_two_apps_in_one_process_count_apart() -> None:
    one, other = Metrics(), Metrics()
    count(one, ended())
    name, labels = "evenbeat_runs_total", {"kind": "work", "outcome": "completed"}
    assert one.registry.get_sample_value(name, labels) == 1
    assert other.registry.get_sample_value(name, labels) is None
