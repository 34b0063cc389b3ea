"""Beats that come while a job is paused or disabled: none is run, and none is lost."""

from dataclasses import replace
from datetime import datetime
from typing import Any

import pytest

from evenbeat.core.jobs.catchup import LEAST_COUNTED, MOST_COUNTED
from evenbeat.core.jobs.filters import Filter
from evenbeat.core.jobs.lifecycle import Action
from evenbeat.core.jobs.model import Job, State
from evenbeat.core.time.schedules import parse_schedule
from evenbeat.core.time.schedules.base.window import Window
from evenbeat.core.time.timetable import Timetable, TimetableBounds
from tests.conftest import START
from tests.control.controlled_jobs import ANN, ControlledJobs, due
from tests.store.given import DONE, FAILED, HOUR, MINUTE
from tests.support.databases import Clock

PAUSED, DISABLED = "the job was paused", "the job was disabled"


async def missed(
    controlled: ControlledJobs, job: Job
) -> list[tuple[int | None, datetime | None, Any, Any]]:
    """The rows of missed beats, oldest first: how many, the first, the last, why."""
    return [
        (run.skipped_count, run.beat_at, run.skipped_until, run.reason)
        for run in await controlled.history(job)
        if run.skipped_until is not None
    ]


@pytest.mark.parametrize(
    ("stop", "go_on", "reason"),
    [(Action.PAUSE, Action.RESUME, PAUSED), (Action.DISABLE, Action.ENABLE, DISABLED)],
)
async def test_the_beats_of_a_pause_are_one_row_that_says_why(
    controlled: ControlledJobs, clock: Clock, stop: Action, go_on: Action, reason: str
) -> None:
    job = await controlled.add(due())
    await controlled.finish(job)
    await getattr(controlled.jobs, stop)(job.uid)
    await clock.advance(hours=5, minutes=20)
    after = await getattr(controlled.jobs, go_on)(job.uid)
    assert await missed(controlled, job) == [(5, START + HOUR, START + 5 * HOUR, reason)]
    assert after.pulse.next_beat_at == START + 6 * HOUR
    await clock.advance(hours=1)
    await controlled.finish(job)
    assert [run.number for run in await controlled.history(job)] == [1, 2, 3]
    assert await controlled.breaches() == []


async def test_a_beat_that_was_overdue_before_the_pause_is_in_the_row(
    controlled: ControlledJobs, clock: Clock
) -> None:
    job = await controlled.add(due())
    await clock.advance(minutes=5)
    await controlled.jobs.pause(job.uid)
    await clock.advance(minutes=5)
    await controlled.jobs.resume(job.uid)
    assert await missed(controlled, job) == [(1, START, START, PAUSED)]


async def test_a_pause_between_two_beats_leaves_no_row(
    controlled: ControlledJobs, clock: Clock
) -> None:
    job = await controlled.add(due(), due_at=START + HOUR)
    await controlled.jobs.pause(job.uid)
    await clock.advance(minutes=59)
    await controlled.jobs.resume(job.uid)
    assert await controlled.history(job) == []


async def test_a_one_off_job_has_missed_nothing(controlled: ControlledJobs, clock: Clock) -> None:
    job = await controlled.jobs.pause((await controlled.add(due("now"))).uid)
    await clock.advance(days=1)
    await controlled.jobs.resume(job.uid)
    assert await controlled.history(job) == []


async def test_a_paused_job_that_is_disabled_leaves_one_row_when_it_is_enabled(
    controlled: ControlledJobs, clock: Clock
) -> None:
    job = await controlled.jobs.pause((await controlled.add(due())).uid)
    await clock.advance(hours=1)
    await controlled.jobs.disable(job.uid)
    await clock.advance(hours=1)
    await controlled.jobs.enable(job.uid)
    assert await missed(controlled, job) == [(3, START, START + 2 * HOUR, DISABLED)]


async def test_a_pause_asked_for_during_a_run_counts_from_the_beat_after_that_run(
    controlled: ControlledJobs, clock: Clock
) -> None:
    job = await controlled.add(due())
    claimed = await controlled.start(job)
    await controlled.jobs.pause(job.uid)
    await clock.advance(hours=2, minutes=10)
    await controlled.end(claimed)
    await clock.advance(hours=2)
    await controlled.jobs.resume(job.uid)
    [by_run, by_pause] = await missed(controlled, job)
    assert by_run[:3] == (2, START + HOUR, START + 2 * HOUR)
    assert by_pause == (2, START + 3 * HOUR, START + 4 * HOUR, PAUSED)
    assert await controlled.breaches() == []


async def test_a_pause_that_is_taken_back_during_the_run_leaves_no_row(
    controlled: ControlledJobs, clock: Clock
) -> None:
    job = await controlled.add(due())
    claimed = await controlled.start(job)
    await controlled.jobs.pause(job.uid)
    await clock.advance(minutes=10)
    await controlled.jobs.resume(job.uid)
    await controlled.end(claimed)
    assert await missed(controlled, job) == []


async def test_beats_after_a_pause_by_failures_are_told_at_the_resume(
    controlled: ControlledJobs, clock: Clock
) -> None:
    job = await controlled.add(due(policy={"max_attempts": 1, "pause_after_failures": 1}))
    await controlled.fail(job)
    assert (await controlled.find(job)).pulse.state is State.PAUSED
    await clock.advance(hours=3)
    await controlled.jobs.resume(job.uid)
    assert await missed(controlled, job) == [(3, START + HOUR, START + 3 * HOUR, PAUSED)]
    assert await controlled.breaches() == []


async def test_a_retry_that_waited_over_the_pause_is_run_and_not_told_as_missed(
    controlled: ControlledJobs, clock: Clock
) -> None:
    job = await controlled.add(due())
    await controlled.fail(job)
    await controlled.jobs.pause(job.uid)
    await clock.advance(hours=2, minutes=10)
    await controlled.jobs.resume(job.uid)
    assert await missed(controlled, job) == [(2, START + HOUR, START + 2 * HOUR, PAUSED)]
    await controlled.finish(job)
    history = await controlled.history(job)
    assert [(run.number, run.beat_at) for run in history] == [
        (1, START),
        (2, START + HOUR),
        (3, START),
    ]
    assert (await controlled.find(job)).pulse.next_beat_at == START + 3 * HOUR
    assert await controlled.breaches() == []


async def test_a_run_by_hand_during_the_pause_changes_nothing_in_the_row(
    controlled: ControlledJobs, clock: Clock
) -> None:
    job = await controlled.jobs.pause((await controlled.add(due())).uid)
    await clock.advance(hours=1, minutes=30)
    await controlled.jobs.run(job.uid)
    await controlled.finish(job)
    await clock.advance(hours=1)
    await controlled.jobs.resume(job.uid)
    assert await missed(controlled, job) == [(3, START, START + 2 * HOUR, PAUSED)]
    assert await controlled.breaches() == []


@pytest.mark.parametrize("outcome", [DONE, FAILED])
async def test_a_resume_during_a_run_by_hand_puts_the_row_before_that_run(
    controlled: ControlledJobs, clock: Clock, outcome: Any
) -> None:
    job = await controlled.jobs.pause((await controlled.add(due(policy={"max_attempts": 1}))).uid)
    await clock.advance(hours=2, minutes=10)
    await controlled.jobs.run(job.uid)
    claimed = await controlled.start(job)
    await controlled.jobs.resume(job.uid)
    assert await missed(controlled, job) == [(3, START, START + 2 * HOUR, PAUSED)]
    assert await controlled.breaches() == []
    await clock.advance(minutes=1)
    assert await controlled.end(claimed, outcome=outcome) == {claimed.run.id}
    history = await controlled.history(job)
    assert [(run.number, run.skipped_count) for run in history] == [(1, 3), (2, None)]
    assert (await controlled.find(job)).pulse.next_beat_at == START + 3 * HOUR
    assert await controlled.breaches() == []


async def test_an_edit_during_the_pause_tells_the_beats_of_the_old_schedule(
    controlled: ControlledJobs, clock: Clock
) -> None:
    job = await controlled.jobs.pause((await controlled.add(due())).uid)
    await clock.advance(hours=2, minutes=10)
    await controlled.edit(job, timetable=Timetable(parse_schedule("*/20 * * * *")))
    assert await missed(controlled, job) == [(3, START, START + 2 * HOUR, PAUSED)]
    await clock.advance(hours=1)
    await controlled.jobs.resume(job.uid)
    [_, by_new_schedule] = await missed(controlled, job)
    first, last = START + 2 * HOUR + 20 * MINUTE, START + 3 * HOUR
    assert by_new_schedule == (3, first, last, PAUSED)


async def test_an_edit_that_leaves_the_schedule_alone_tells_nothing_yet(
    controlled: ControlledJobs, clock: Clock
) -> None:
    job = await controlled.jobs.pause((await controlled.add(due())).uid)
    await clock.advance(hours=2)
    await controlled.edit(job, payload={"edited": True})
    assert await controlled.history(job) == []
    await controlled.jobs.resume(job.uid)
    assert await missed(controlled, job) == [(3, START, START + 2 * HOUR, PAUSED)]


async def test_an_edit_during_a_run_by_hand_of_a_paused_job_tells_them_too(
    controlled: ControlledJobs, clock: Clock
) -> None:
    job = await controlled.jobs.pause((await controlled.add(due())).uid)
    await clock.advance(hours=1, minutes=10)
    await controlled.jobs.run(job.uid)
    claimed = await controlled.start(job)
    await controlled.edit(job, schedule="every 2h")
    await controlled.end(claimed)
    assert await missed(controlled, job) == [(2, START, START + HOUR, PAUSED)]
    assert (await controlled.find(job)).pulse.state is State.PAUSED


async def test_the_beat_of_a_paused_one_off_job_that_becomes_a_recurring_one_is_told(
    controlled: ControlledJobs, clock: Clock
) -> None:
    job = await controlled.jobs.pause((await controlled.add(due("now"))).uid)
    await clock.advance(hours=1)
    await controlled.edit(job, schedule="every 1h")
    assert await missed(controlled, job) == [(1, START, START, PAUSED)]


@pytest.mark.parametrize("end", [Action.CANCEL, Action.DELETE])
async def test_a_job_that_is_ended_during_its_pause_owes_nothing_and_tells_nothing(
    controlled: ControlledJobs, clock: Clock, end: Action
) -> None:
    job = await controlled.jobs.pause((await controlled.add(due())).uid)
    await clock.advance(hours=5)
    await getattr(controlled.jobs, end)(job.uid)
    assert await controlled.history(job) == []
    assert await controlled.breaches() == []


async def test_a_retry_of_a_job_cancelled_during_its_pause_begins_anew(
    controlled: ControlledJobs, clock: Clock
) -> None:
    job = await controlled.jobs.pause((await controlled.add(due())).uid)
    await clock.advance(hours=5)
    await controlled.jobs.cancel(job.uid)
    await clock.advance(hours=1, minutes=10)
    await controlled.jobs.retry(job.uid)
    await controlled.finish(job)
    assert await missed(controlled, job) == []
    assert (await controlled.find(job)).pulse.next_beat_at == START + 7 * HOUR


async def test_beats_of_a_pause_are_no_runs_for_the_bound_of_runs(
    controlled: ControlledJobs, clock: Clock
) -> None:
    bounded = replace(due().timetable, bounds=TimetableBounds(max_runs=2))
    job = await controlled.add(replace(due(), timetable=bounded))
    await controlled.finish(job)
    await controlled.jobs.pause(job.uid)
    await clock.advance(hours=5, minutes=10)
    await controlled.jobs.resume(job.uid)
    assert await missed(controlled, job) == [(5, START + HOUR, START + 5 * HOUR, PAUSED)]
    await clock.advance(hours=1)
    await controlled.finish(job)
    assert (await controlled.find(job)).pulse.state is State.COMPLETED


async def test_beats_after_the_end_of_the_schedule_are_not_missed(
    controlled: ControlledJobs, clock: Clock
) -> None:
    ending = replace(due().timetable, bounds=TimetableBounds(ends_at=START + 2 * HOUR))
    job = await controlled.jobs.pause((await controlled.add(replace(due(), timetable=ending))).uid)
    await clock.advance(hours=5)
    assert (await controlled.jobs.resume(job.uid)).pulse.state is State.COMPLETED
    assert await missed(controlled, job) == [(2, START, START + HOUR, PAUSED)]


async def test_only_beats_within_the_window_are_missed(
    controlled: ControlledJobs, clock: Clock
) -> None:
    # START is noon; the window is open for the beats at 14:00 and 15:00.
    open_at_two = Window.parse("14:00-16:00 outside=skip")
    windowed = replace(due().timetable, window=open_at_two)
    job = await controlled.add(replace(due(), timetable=windowed), due_at=START + 2 * HOUR)
    await controlled.jobs.pause(job.uid)
    await clock.advance(hours=6)
    await controlled.jobs.resume(job.uid)
    assert await missed(controlled, job) == [(2, START + 2 * HOUR, START + 3 * HOUR, PAUSED)]


async def test_of_a_cron_so_many_beats_are_counted_and_the_row_says_so(
    controlled: ControlledJobs, clock: Clock
) -> None:
    job = await controlled.add(due("* * * * *"), due_at=START + MINUTE)
    await controlled.jobs.pause(job.uid)
    await clock.advance(days=1)
    await controlled.jobs.resume(job.uid)
    [(count, first, last, reason)] = await missed(controlled, job)
    assert count == MOST_COUNTED + 1
    assert (first, last) == (START + MINUTE, START + 24 * HOUR)
    assert reason == f"{PAUSED}; there are more than the {MOST_COUNTED + 1} counted"
    assert await controlled.breaches() == []


async def test_many_jobs_that_are_resumed_at_once_share_what_is_counted(
    controlled: ControlledJobs, clock: Clock
) -> None:
    cron, plain = due("* * * * *"), due()
    rare = [await controlled.add(plain) for _ in range(30)]
    often = [await controlled.add(cron, due_at=START + MINUTE) for _ in range(30)]
    await controlled.jobs.act(Action.PAUSE, Filter(), by=ANN)
    await clock.advance(days=1)
    await controlled.jobs.act(Action.RESUME, Filter(), by=ANN)
    for job in rare:
        assert await missed(controlled, job) == [(25, START, START + 24 * HOUR, PAUSED)]
    for job in often:
        [(count, first, last, _)] = await missed(controlled, job)
        assert (first, last) == (START + MINUTE, START + 24 * HOUR)
        assert count is not None
        assert LEAST_COUNTED < count < MOST_COUNTED
    assert await controlled.breaches() == []


async def test_a_dry_run_of_a_resume_writes_no_row(
    controlled: ControlledJobs, clock: Clock
) -> None:
    job = await controlled.jobs.pause((await controlled.add(due())).uid)
    await clock.advance(hours=2)
    await controlled.jobs.act(Action.RESUME, Filter(), by=ANN, dry_run=True)
    assert await controlled.history(job) == []


async def test_a_beat_lost_over_a_pause_is_found(controlled: ControlledJobs, clock: Clock) -> None:
    job = await controlled.add(due())
    await controlled.finish(job)
    await controlled.jobs.pause(job.uid)
    await clock.advance(hours=3, minutes=10)
    await controlled.jobs.resume(job.uid)
    assert await controlled.breaches() == []
    await controlled.fetch("delete from evenbeat.run where skipped_until is not null")
    await controlled.fetch("update evenbeat.pulse set run_number = 1")
    [breach] = await controlled.breaches()
    assert breach.startswith("no beat is lost")
    # What the fixture checks after the test must be in order again.
    await controlled.fetch(f"update evenbeat.pulse set next_beat_at = '{START + HOUR}'")
