"""Cancelling: at rest at once, while it runs by its node, and never from where it is over."""

import pytest

from evenbeat.control.jobs.jobs import Jobs
from evenbeat.core.errors import IllegalTransition
from evenbeat.core.jobs.groups import Group
from evenbeat.core.jobs.model import Job, State
from evenbeat.core.runs.outcome import Cancelled, HandedBack, Lost, Outcome
from evenbeat.core.runs.registry import Registry
from evenbeat.store.runs import leases
from tests.store.given import DONE, FAILED, JobStore, definition
from tests.support.databases import Clock

STOPPED = Cancelled("cancelled by hand", is_requested=True)


async def cancel(job_store: JobStore, job: Job) -> Job:
    return await Jobs(job_store.database, Registry()).cancel(job.uid)


@pytest.mark.parametrize("schedule", ["now", "every 1h"])
async def test_a_job_at_rest_is_cancelled_and_never_claimed_again(
    job_store: JobStore, clock: Clock, schedule: str
) -> None:
    job = await job_store.add(definition(schedule))
    cancelled = await cancel(job_store, job)
    assert cancelled.pulse.state is State.CANCELLED
    assert (cancelled.pulse.next_beat_at, cancelled.pulse.due_at) == (None, None)
    await clock.advance(days=365)
    assert await job_store.claim() == []


async def test_a_waiting_retry_and_a_manual_run_are_cancelled_with_the_job(
    job_store: JobStore, clock: Clock
) -> None:
    job = await job_store.add()
    await job_store.end(await job_store.claim_one(), outcome=FAILED)
    await job_store.fetch("update evenbeat.pulse set manual_at = retry_at")
    pulse = (await cancel(job_store, job)).pulse
    assert (pulse.state, pulse.retry_at, pulse.manual_at) == (State.CANCELLED, None, None)
    await clock.advance(days=1)
    assert await job_store.claim() == []


async def test_a_parked_job_is_cancelled_and_leaves_the_line(job_store: JobStore) -> None:
    group = Group("site", max_running=1)
    _, waiting, last = [await job_store.add(definition("now", group=group)) for _ in range(3)]
    [running] = await job_store.claim_grouped()
    assert (await cancel(job_store, waiting)).pulse.state is State.CANCELLED
    await job_store.end(running)
    await job_store.fetch("update evenbeat.pulse set is_parked = false")
    assert [each.id for each in await job_store.claim_grouped()] == [last.id]


@pytest.mark.parametrize("outcome", [DONE, FAILED, STOPPED, Lost(), HandedBack()])
async def test_a_running_job_is_asked_to_stop_and_cancelled_however_its_run_ends(
    job_store: JobStore, clock: Clock, outcome: Outcome
) -> None:
    job = await job_store.add()
    claimed = await job_store.claim_one()
    assert await leases.find_unwanted_runs(job_store.database, job_store.node_id) == set()
    assert (await cancel(job_store, job)).pulse.state is State.RUNNING
    assert (await cancel(job_store, job)).pulse.state is State.RUNNING, "asking twice does no harm"
    assert await leases.find_unwanted_runs(job_store.database, job_store.node_id) == {
        claimed.run.id
    }
    assert await leases.find_unwanted_runs(job_store.database, job_store.node_id + 1) == set()
    await job_store.end(claimed, outcome=outcome)
    pulse = (await job_store.find(job)).pulse
    assert pulse.state is State.CANCELLED
    assert (pulse.next_beat_at, pulse.retry_at, pulse.manual_at) == (None, None, None)
    assert await leases.find_unwanted_runs(job_store.database, job_store.node_id) == set()
    await clock.advance(days=1)
    assert await job_store.claim() == []


async def test_what_is_over_or_disabled_cannot_be_cancelled(job_store: JobStore) -> None:
    completed = await job_store.add(definition("now"))
    await job_store.end(await job_store.claim_one())
    failed = await job_store.add(definition("now", policy={"max_attempts": 1}))
    await job_store.end(await job_store.claim_one(), outcome=FAILED)
    cancelled = await cancel(job_store, await job_store.add())
    disabled = await job_store.add()
    await job_store.fetch("update evenbeat.pulse set state = 'd' where id = $1", disabled.id)
    over = {"completed": completed, "failed": failed, "cancelled": cancelled, "disabled": disabled}
    for state, job in over.items():
        with pytest.raises(IllegalTransition, match=f"cannot cancel a job that is {state}"):
            await cancel(job_store, job)
        assert (await job_store.find(job)).pulse.state == state


async def test_a_recurring_job_whose_beat_failed_can_be_cancelled(job_store: JobStore) -> None:
    job = await job_store.add(definition(policy={"max_attempts": 1}))
    await job_store.end(await job_store.claim_one(), outcome=FAILED)
    assert (await cancel(job_store, job)).pulse.state is State.CANCELLED
