"""Statistics of a job: what its runs came to, and whether somebody should look after it."""

from datetime import timedelta

from evenbeat.core.jobs.model import RunState
from evenbeat.core.ops.statistics import (
    HealthCondition,
    JobStatistics,
    RunEnding,
    assess_health,
    durations_of,
    success_rate,
)

COMPLETED, FAILED, CANCELLED = RunState.COMPLETED, RunState.FAILED, RunState.CANCELLED


def endings(*seconds: float, state: RunState = COMPLETED) -> list[RunEnding]:
    return [RunEnding(state, timedelta(seconds=each)) for each in seconds]


def test_durations_are_those_of_completed_runs() -> None:
    taken = durations_of([*endings(*range(1, 101)), *endings(9999, state=FAILED)])
    assert taken is not None
    assert taken.average == timedelta(seconds=50.5)
    assert taken.p50 == timedelta(seconds=50.5)
    assert taken.p95 == timedelta(seconds=95.05)
    assert taken.p99 == timedelta(seconds=99.01)
    assert taken.longest == timedelta(seconds=100)


def test_one_run_is_every_percentile_and_none_is_nothing() -> None:
    taken = durations_of(endings(3))
    assert taken is not None
    assert {taken.p50, taken.p95, taken.p99, taken.average} == {timedelta(seconds=3)}
    assert durations_of(endings(3, state=FAILED)) is None


def test_the_success_rate_leaves_out_what_was_cancelled_and_what_runs() -> None:
    counted = JobStatistics(95, 5, 10, 1, None, None, None)
    assert counted.success_rate == 0.95
    assert counted.total == 111
    assert success_rate(0, 0) is None


def test_a_job_is_unwell_when_fewer_than_four_of_five_runs_complete() -> None:
    assert (
        assess_health([*endings(1, state=FAILED), *endings(1, 1, 1, 1)]).condition
        is HealthCondition.OK
    )
    poorly = assess_health([*endings(1, 1, state=FAILED), *endings(1, 1, 1, 1)])
    assert poorly.condition is HealthCondition.WARNING
    assert poorly.reasons == ("4 of the last 6 runs completed: 67% is less than 80%",)


def test_a_job_is_unwell_when_its_runs_take_longer_and_longer() -> None:
    steady = endings(*[2.0] * 10, *[2.0] * 10)
    slower = endings(*[3.5] * 10, *[2.0] * 10)
    assert assess_health(steady).condition is HealthCondition.OK
    assert assess_health(slower).condition is HealthCondition.WARNING
    assert "3.5 seconds" in assess_health(slower).reasons[0]


def test_one_slow_run_or_a_few_milliseconds_are_no_drift() -> None:
    assert assess_health(endings(60, *[2.0] * 19)).condition is HealthCondition.OK
    assert assess_health(endings(*[0.02] * 10, *[0.001] * 10)).condition is HealthCondition.OK


def test_a_few_runs_say_nothing_yet() -> None:
    few = [*endings(1, 1, state=FAILED), *endings(*[1] * 9, state=CANCELLED)]
    assert assess_health(few).condition is HealthCondition.UNKNOWN
