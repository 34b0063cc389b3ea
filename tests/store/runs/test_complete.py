"""Completion: how a run ended is written once, by whoever holds its lease."""

from datetime import timedelta

import pytest

from evenbeat.core.jobs.model import Cause, ErrorClass, RunState, State
from evenbeat.core.runs.outcome import Cancelled, Done, Failed, HandedBack, Skipped, Snoozed
from evenbeat.core.runs.settle import settle
from evenbeat.store.ops import nodes
from evenbeat.store.runs import completions, leases, runs
from evenbeat.store.runs.completions import SettledRun
from evenbeat.store.runs.leases import UnrunnableClaim
from tests.conftest import START
from tests.store.given import DONE, FAILED, HOUR, MINUTE, JobStore, definition
from tests.support.databases import Clock

RETRIES = {"max_attempts": 4}


async def test_a_completed_run_is_one_row_with_everything_in_it(
    job_store: JobStore, clock: Clock
) -> None:
    job = await job_store.add()
    claimed = await job_store.claim_one()
    await clock.advance(seconds=2)
    assert await job_store.end(claimed) == {claimed.run.id}
    [run] = await runs.list_runs(job_store.database, job.id, job.uid, limit=10, offset=0)
    assert (run.id, run.number, run.attempt) == (claimed.run.id, 1, 1)
    assert (run.state, run.cause, run.beat_at) == (RunState.COMPLETED, Cause.SCHEDULE, START)
    assert (run.started_at, run.finished_at) == (START, clock.now)
    assert run.duration is not None
    assert run.duration.total_seconds() == 2
    assert (run.result, run.items_crawled, run.items_indexed) == ({"pages": 3}, 5, 4)
    assert (run.node, run.error, run.error_class) == ("a:1", None, None)


async def test_results_that_are_lists_stay_whole_and_with_their_own_runs(
    job_store: JobStore,
) -> None:
    """To the driver, a list in an array was one more dimension of it."""
    jobs = [await job_store.add() for _ in range(3)]
    results = {job.id: [[job.id, None], "x"] for job in jobs}
    settled = [
        SettledRun(each, settle(each, Done(result=results[each.id]), START), None)
        for each in await job_store.claim()
    ]
    await completions.complete_runs(job_store.database, settled)
    for job in jobs:
        [run] = await runs.list_runs(job_store.database, job.id, job.uid, limit=10, offset=0)
        assert run.result == results[job.id]


async def test_a_run_that_took_no_time_at_all_has_a_duration(job_store: JobStore) -> None:
    job = await job_store.add()
    [claimed] = await job_store.claim()
    instant = SettledRun(claimed, settle(claimed, DONE, START), timedelta(0))
    assert (await completions.complete_runs(job_store.database, [instant])).run_ids == {
        claimed.run.id
    }
    [run] = await runs.list_runs(job_store.database, job.id, job.uid, limit=10, offset=0)
    assert run.duration == timedelta(0)


async def test_the_job_rests_until_its_next_beat(job_store: JobStore, clock: Clock) -> None:
    job = await job_store.add()
    await clock.advance(minutes=20)
    await job_store.end(await job_store.claim_one())
    pulse = (await job_store.find(job)).pulse
    assert (pulse.state, pulse.next_beat_at) == (State.SCHEDULED, START + HOUR)
    assert (pulse.completed_count, pulse.failed_count, pulse.run_number) == (1, 0, 1)
    assert await job_store.claim() == []


async def test_a_one_off_job_is_completed_and_never_due_again(
    job_store: JobStore, clock: Clock
) -> None:
    job = await job_store.add(definition("now"))
    await job_store.end(await job_store.claim_one())
    await clock.advance(days=365)
    assert await job_store.claim() == []
    pulse = (await job_store.find(job)).pulse
    assert (pulse.state, pulse.due_at) == (State.COMPLETED, None)


async def test_who_has_lost_the_lease_writes_nothing_and_is_told_so(job_store: JobStore) -> None:
    job = await job_store.add()
    claimed = await job_store.claim_one()
    await job_store.fetch("update evenbeat.pulse set token = token + 1")
    assert await job_store.end(claimed) == set()
    [run] = await job_store.runs(job)
    assert run["state"] == b"r"
    assert (await job_store.find(job)).pulse.completed_count == 0


async def test_an_end_is_written_once(job_store: JobStore) -> None:
    job = await job_store.add()
    claimed = await job_store.claim_one()
    assert await job_store.end(claimed)
    assert await job_store.end(claimed, outcome=FAILED) == set()
    assert [run["state"] for run in await job_store.runs(job)] == [b"c"]


async def test_in_a_batch_only_what_is_ours_is_written(job_store: JobStore) -> None:
    ours, theirs = await job_store.add(), await job_store.add()
    claimed = {each.id: each for each in await job_store.claim()}
    await job_store.fetch("update evenbeat.pulse set token = 1 where id = $1", theirs.id)
    assert await job_store.end(*claimed.values()) == {claimed[ours.id].run.id}


async def test_a_failed_run_keeps_its_error_and_is_tried_again_for_the_same_beat(
    job_store: JobStore, clock: Clock
) -> None:
    job = await job_store.add(definition(policy=RETRIES))
    await job_store.end(await job_store.claim_one(), outcome=FAILED)
    pulse = (await job_store.find(job)).pulse
    assert (pulse.retry_at, pulse.next_beat_at) == (START + MINUTE, START)
    await clock.advance(seconds=60)
    again = (await job_store.claim_one()).run
    assert (again.cause, again.attempt, again.beat_at) == (Cause.RETRY, 2, START)
    assert again.number == 2
    run = (await job_store.runs(job))[0]
    assert (run["state"], run["error_class"]) == (b"f", ErrorClass.HANDLER_ERROR)
    assert (run["error"], run["stack_trace"]) == ("out of order", "Traceback: Boom")


async def test_when_no_attempt_is_left_the_next_beat_starts_afresh(
    job_store: JobStore, clock: Clock
) -> None:
    job = await job_store.add(definition(policy={"max_attempts": 2}))
    await job_store.end(await job_store.claim_one(), outcome=FAILED)
    await clock.advance(minutes=1)
    await job_store.end(await job_store.claim_one(), outcome=FAILED)
    pulse = (await job_store.find(job)).pulse
    assert (pulse.state, pulse.retry_at, pulse.next_beat_at) == (State.FAILED, None, START + HOUR)
    assert (pulse.failed_count, pulse.failure_streak) == (2, 1)
    await clock.advance(hours=1)
    run = (await job_store.claim_one()).run
    assert (run.attempt, run.cause, run.beat_at) == (1, Cause.SCHEDULE, START + HOUR)


@pytest.mark.parametrize("outcome", [HandedBack(), Snoozed(MINUTE)])
async def test_a_run_that_was_put_off_is_no_attempt(
    job_store: JobStore, clock: Clock, outcome: HandedBack | Snoozed
) -> None:
    job = await job_store.add()
    await job_store.end(await job_store.claim_one(), outcome=outcome)
    await clock.advance(minutes=1)
    again = (await job_store.claim_one()).run
    assert (again.attempt, again.number, again.beat_at) == (1, 2, START)
    assert [run["state"] for run in await job_store.runs(job)] == [b"x", b"r"]


async def test_a_manual_run_leaves_the_cursor_and_a_waiting_retry_alone(
    job_store: JobStore, clock: Clock
) -> None:
    job = await job_store.add(definition(policy=RETRIES))
    await job_store.end(await job_store.claim_one(), outcome=FAILED)
    await job_store.fetch("update evenbeat.pulse set manual_at = $1", START)
    manual = await job_store.claim_one()
    assert (manual.run.cause, manual.run.attempt, manual.run.number) == (Cause.MANUAL, 1, 2)
    await job_store.end(manual)
    pulse = (await job_store.find(job)).pulse
    assert (pulse.manual_at, pulse.retry_at) == (None, START + MINUTE)
    assert (pulse.next_beat_at, pulse.attempt) == (START, 1)
    row = (await job_store.runs(job))[1]
    assert (row["cause"], row["beat_at"]) == (b"m", None)
    await clock.advance(minutes=1)
    again = (await job_store.claim_one()).run
    assert (again.cause, again.attempt, again.beat_at) == (Cause.RETRY, 2, START)


async def test_a_failed_manual_run_is_tried_again_by_hand(
    job_store: JobStore, clock: Clock
) -> None:
    await job_store.add(definition(policy=RETRIES), due_at=START + HOUR)
    await job_store.fetch("update evenbeat.pulse set manual_at = $1", START)
    await job_store.end(await job_store.claim_one(), outcome=FAILED)
    await clock.advance(minutes=1)
    again = await job_store.claim_one()
    assert (again.run.cause, again.run.attempt) == (Cause.MANUAL, 2)
    await job_store.end(again)
    assert await job_store.claim() == []
    await clock.advance(hours=1)
    assert (await job_store.claim_one()).run.attempt == 1


async def test_a_manual_run_asked_for_during_the_run_still_comes(
    job_store: JobStore, clock: Clock
) -> None:
    await job_store.add()
    claimed = await job_store.claim_one()
    await job_store.fetch(
        "update evenbeat.pulse set manual_at = $1", await clock.advance(seconds=1)
    )
    await job_store.end(claimed)
    assert (await job_store.claim_one()).run.cause is Cause.MANUAL


async def test_missed_beats_are_one_row_with_a_count(job_store: JobStore, clock: Clock) -> None:
    job = await job_store.add()
    await clock.advance(hours=24, minutes=5)
    await job_store.end(await job_store.claim_one())
    done, missed = await job_store.runs(job)
    assert (done["number"], done["state"], done["cause"]) == (1, b"c", b"u")
    assert (missed["number"], missed["state"], missed["skipped_count"]) == (2, b"k", 24)
    assert (missed["beat_at"], missed["skipped_until"]) == (START + HOUR, START + 24 * HOUR)
    assert "number 1" in missed["reason"]
    assert (await job_store.find(job)).pulse.next_beat_at == START + 25 * HOUR
    await clock.advance(hours=1)
    assert (await job_store.claim_one()).run.number == 3


async def test_a_beat_that_came_too_late_is_a_skipped_row_with_its_reason(
    job_store: JobStore,
) -> None:
    job = await job_store.add()
    await job_store.end(await job_store.claim_one(), outcome=Skipped("too late"))
    [run] = await job_store.runs(job)
    assert (run["state"], run["skipped_count"], run["reason"]) == (b"k", 1, "too late")
    assert (await job_store.find(job)).pulse.next_beat_at == START + HOUR


@pytest.mark.parametrize(("code", "state"), [("z", State.PAUSED), ("d", State.DISABLED)])
async def test_what_a_person_asked_for_during_the_run_outranks_its_end(
    job_store: JobStore, code: str, state: State
) -> None:
    job = await job_store.add()
    claimed = await job_store.claim_one()
    await job_store.fetch("update evenbeat.pulse set state = $1", code.encode())
    await job_store.end(claimed)
    pulse = (await job_store.find(job)).pulse
    assert (pulse.state, pulse.next_beat_at) == (state, START + HOUR)


async def test_a_cursor_that_an_edit_has_moved_stays_where_the_edit_put_it(
    job_store: JobStore,
) -> None:
    job = await job_store.add()
    claimed = await job_store.claim_one()
    moved = START + 5 * MINUTE
    await job_store.fetch(
        "update evenbeat.pulse set plan_version = plan_version + 1, next_beat_at = $1", moved
    )
    await job_store.end(claimed)
    assert (await job_store.find(job)).pulse.next_beat_at == moved


async def test_a_cancelled_one_off_job_stays_cancelled(job_store: JobStore, clock: Clock) -> None:
    job = await job_store.add(definition("now"))
    await job_store.end(await job_store.claim_one(), outcome=Cancelled("enough", is_requested=True))
    await clock.advance(days=1)
    assert (await job_store.find(job)).pulse.state is State.CANCELLED
    assert await job_store.claim() == []


async def test_success_clears_the_streak_of_failures(job_store: JobStore, clock: Clock) -> None:
    job = await job_store.add(definition(policy={"max_attempts": 1}))
    await job_store.end(await job_store.claim_one(), outcome=Failed("no"))
    await clock.advance(hours=1)
    await job_store.end(await job_store.claim_one(), outcome=DONE)
    pulse = (await job_store.find(job)).pulse
    assert (pulse.state, pulse.failure_streak) == (State.SCHEDULED, 0)


async def test_a_batch_settles_jobs_of_every_sort_together(job_store: JobStore) -> None:
    for _ in range(20):
        await job_store.add()
    claimed = await job_store.claim(20)
    assert await job_store.end(*reversed(claimed)) == {each.run.id for each in claimed}
    assert await job_store.value("select count(*) from evenbeat.run") == 20
    assert await job_store.value("select count(*) from evenbeat.pulse where token is not null") == 0


async def test_the_runs_of_a_job_are_listed_newest_first_and_by_pages(
    job_store: JobStore, clock: Clock
) -> None:
    job = await job_store.add()
    for _ in range(4):
        await job_store.end(await job_store.claim_one())
        await clock.advance(hours=1)
    await job_store.claim_one()
    page = await runs.list_runs(job_store.database, job.id, job.uid, limit=3, offset=1)
    assert [run.number for run in page] == [4, 3, 2]
    assert await runs.count_runs(job_store.database, job.id) == 5


async def test_a_dead_node_leaves_its_runs_to_be_found(job_store: JobStore) -> None:
    await job_store.add()
    claimed = await job_store.claim_one()
    assert await nodes.find_unswept_nodes(job_store.database) == []
    await job_store.fetch("update evenbeat.node set alive_until = statement_timestamp()")
    assert await nodes.mark_dead_nodes(job_store.database) == ["a:1"]
    assert await nodes.find_unswept_nodes(job_store.database) == [job_store.node_id]
    assert await leases.list_node_runs(job_store.database, job_store.node_id) == [claimed]
    await nodes.mark_swept(job_store.database, job_store.node_id)
    assert await nodes.find_unswept_nodes(job_store.database) == [job_store.node_id], (
        "it still holds a run"
    )
    await job_store.end(claimed)
    await nodes.mark_swept(job_store.database, job_store.node_id)
    assert await nodes.find_unswept_nodes(job_store.database) == []
    assert await leases.list_node_runs(job_store.database, job_store.node_id) == []


async def test_what_a_node_has_in_hand_is_told_even_where_it_cannot_be_read(
    job_store: JobStore,
) -> None:
    await job_store.add()
    await job_store.claim_one()
    await job_store.fetch("update evenbeat.job set policy = '[]'")
    [held] = await leases.list_node_runs(job_store.database, job_store.node_id)
    assert isinstance(held, UnrunnableClaim)
