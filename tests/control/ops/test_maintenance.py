"""The maintenance switch: while it is on nothing starts, and nothing is lost by it."""

import pytest

from evenbeat.core.errors import InvalidInput
from evenbeat.core.jobs.model import Cause, RunState
from tests.conftest import START
from tests.control.controlled_jobs import ANN, ONE_PLACE, ControlledJobs, due
from tests.store.given import HOUR, MINUTE
from tests.store.runs.test_claim import next_due
from tests.support.databases import Clock


async def test_nothing_is_claimed_while_it_is_on_not_even_by_hand(
    controlled: ControlledJobs, clock: Clock
) -> None:
    alone, grouped = await controlled.add(due()), await controlled.add(due(group=ONE_PLACE))
    by_hand = await controlled.add(due(), due_at=START + 99 * HOUR)
    await controlled.maintenance.on("new disks", by=ANN)
    await controlled.jobs.run(by_hand.uid)
    await clock.advance(minutes=10)
    assert await controlled.take_all() == []
    await controlled.maintenance.off(by=ANN)
    claimed = await controlled.take_all()
    assert {each.id for each in claimed} == {alone.id, grouped.id, by_hand.id}


async def test_runs_in_hand_go_on_and_their_ends_are_written(controlled: ControlledJobs) -> None:
    job = await controlled.add(due())
    claimed = await controlled.start(job)
    await controlled.maintenance.on("new disks")
    assert await controlled.end(claimed) == {claimed.run.id}
    assert [run.state for run in await controlled.history(job)] == [RunState.COMPLETED]


async def test_beats_that_came_due_are_caught_up_with_afterwards(
    controlled: ControlledJobs, clock: Clock
) -> None:
    job = await controlled.add(due())
    await controlled.maintenance.on("new disks")
    await clock.advance(hours=3)
    await controlled.maintenance.off()
    claimed = await controlled.start(job)
    assert (claimed.run.beat_at, claimed.run.cause) == (START, Cause.CATCHUP)
    await controlled.end(claimed)
    assert [run.skipped_count for run in await controlled.history(job)] == [None, 3]


async def test_nodes_do_not_ask_again_and_again_for_what_they_are_not_given(
    controlled: ControlledJobs,
) -> None:
    await controlled.add(due())
    assert (await next_due(controlled)).waits()
    await controlled.maintenance.on("new disks")
    assert (await next_due(controlled)).waits() == []


async def test_it_says_since_when_why_and_who(controlled: ControlledJobs, clock: Clock) -> None:
    assert await controlled.maintenance.status() is None
    on = await controlled.maintenance.on("new disks", by=ANN)
    assert (on.since, on.reason, on.actor) == (START, "new disks", "ann")
    await clock.advance(minutes=1)
    again = await controlled.maintenance.on("new rack")
    assert (again.since, again.reason, again.actor) == (START, "new rack", "python")
    assert await controlled.maintenance.status() == again
    await controlled.maintenance.off()
    await controlled.maintenance.off()
    assert await controlled.maintenance.status() is None
    told = [(entry.action, entry.at) for entry in await controlled.audit()]
    later = START + MINUTE
    assert told == [
        ("maintenance off", later),
        ("maintenance on", later),
        ("maintenance on", START),
    ]


@pytest.mark.parametrize("reason", ["", "x" * 501, "\x00"])
async def test_a_reason_is_asked_for(controlled: ControlledJobs, reason: str) -> None:
    with pytest.raises(InvalidInput, match="reason"):
        await controlled.maintenance.on(reason)
