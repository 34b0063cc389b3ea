"""Every action from every state a job can really be in, against the transition table."""

from collections.abc import Awaitable, Callable, Collection, Sequence
from dataclasses import dataclass

import pytest

from evenbeat.core.errors import IllegalTransition
from evenbeat.core.jobs import actions, lifecycle
from evenbeat.core.jobs.lifecycle import Action
from evenbeat.core.jobs.model import Claimed, Job, State
from evenbeat.store.runs import leases
from evenbeat.store.runs.leases import HeldRun
from tests.control.controlled_jobs import ANN, ONE_PLACE, ControlledJobs, due
from tests.store.given import MINUTE
from tests.support.databases import Clock

Build = Callable[[ControlledJobs], Awaitable[Job]]


@dataclass(frozen=True)
class Place:
    """A state, and a way in which a job really comes there."""

    state: State
    build: Build
    heading: State | None = None
    has_next: bool = True

    @property
    def facts(self) -> tuple[State, State | None, bool]:
        return self.state, self.heading, self.has_next


async def pending(controlled: ControlledJobs) -> Job:
    return await controlled.add(due("now"))


async def scheduled(controlled: ControlledJobs) -> Job:
    return await controlled.add(due())


async def retry_waits(controlled: ControlledJobs) -> Job:
    job = await scheduled(controlled)
    await controlled.fail(job)
    return job


async def run_by_hand_waits(controlled: ControlledJobs) -> Job:
    job = await scheduled(controlled)
    await controlled.finish(job)
    return await controlled.jobs.run(job.uid)


async def blocked(controlled: ControlledJobs) -> Job:
    await controlled.add(due("now", group=ONE_PLACE))
    job = await controlled.add(due(group=ONE_PLACE))
    await controlled.claim_grouped()
    return job


async def blocked_while_paused(controlled: ControlledJobs) -> Job:
    job = await controlled.add(due(group=ONE_PLACE))
    await controlled.jobs.pause(job.uid)
    await controlled.add(due("now", group=ONE_PLACE), due_at=job.created_at - MINUTE)
    await controlled.jobs.run(job.uid)
    await controlled.claim_grouped()
    return job


async def running(controlled: ControlledJobs) -> Job:
    job = await scheduled(controlled)
    await controlled.start(job)
    return job


async def running_one_off(controlled: ControlledJobs) -> Job:
    job = await pending(controlled)
    await controlled.start(job)
    return job


async def running_to_be_paused(controlled: ControlledJobs) -> Job:
    return await controlled.jobs.pause((await running(controlled)).uid)


async def running_to_be_disabled(controlled: ControlledJobs) -> Job:
    return await controlled.jobs.disable((await running(controlled)).uid)


async def running_to_be_cancelled(controlled: ControlledJobs) -> Job:
    return await controlled.jobs.cancel((await running(controlled)).uid)


async def running_by_hand_while_paused(controlled: ControlledJobs) -> Job:
    job = await controlled.jobs.run((await paused(controlled)).uid)
    await controlled.start(job)
    return job


async def running_by_hand_while_disabled(controlled: ControlledJobs) -> Job:
    job = await controlled.jobs.run((await disabled(controlled)).uid)
    await controlled.start(job)
    return job


async def paused(controlled: ControlledJobs) -> Job:
    return await controlled.jobs.pause((await scheduled(controlled)).uid)


async def paused_one_off(controlled: ControlledJobs) -> Job:
    return await controlled.jobs.pause((await pending(controlled)).uid)


async def paused_with_a_retry(controlled: ControlledJobs) -> Job:
    return await controlled.jobs.pause((await retry_waits(controlled)).uid)


async def completed(controlled: ControlledJobs) -> Job:
    job = await pending(controlled)
    await controlled.finish(job)
    return job


async def failed_with_a_next_beat(controlled: ControlledJobs) -> Job:
    job = await controlled.add(due(policy={"max_attempts": 1}))
    await controlled.fail(job)
    return job


async def failed_for_good(controlled: ControlledJobs) -> Job:
    job = await controlled.add(due("now", policy={"max_attempts": 1}))
    await controlled.fail(job)
    return job


async def cancelled(controlled: ControlledJobs) -> Job:
    return await controlled.jobs.cancel((await scheduled(controlled)).uid)


async def disabled(controlled: ControlledJobs) -> Job:
    return await controlled.jobs.disable((await scheduled(controlled)).uid)


async def disabled_after_failure(controlled: ControlledJobs) -> Job:
    return await controlled.jobs.disable((await failed_for_good(controlled)).uid)


PLACES = [
    Place(State.PENDING, pending),
    Place(State.SCHEDULED, scheduled),
    Place(State.SCHEDULED, retry_waits),
    Place(State.SCHEDULED, run_by_hand_waits),
    Place(State.BLOCKED, blocked),
    Place(State.BLOCKED, blocked_while_paused, heading=State.PAUSED),
    Place(State.RUNNING, running),
    Place(State.RUNNING, running_one_off),
    Place(State.RUNNING, running_to_be_paused, heading=State.PAUSED),
    Place(State.RUNNING, running_to_be_disabled, heading=State.DISABLED),
    Place(State.RUNNING, running_to_be_cancelled, heading=State.CANCELLED),
    Place(State.RUNNING, running_by_hand_while_paused, heading=State.PAUSED),
    Place(State.RUNNING, running_by_hand_while_disabled, heading=State.DISABLED),
    Place(State.PAUSED, paused),
    Place(State.PAUSED, paused_one_off),
    Place(State.PAUSED, paused_with_a_retry),
    Place(State.COMPLETED, completed, has_next=False),
    Place(State.FAILED, failed_with_a_next_beat),
    Place(State.FAILED, failed_for_good, has_next=False),
    Place(State.CANCELLED, cancelled, has_next=False),
    Place(State.DISABLED, disabled),
    Place(State.DISABLED, disabled_after_failure, has_next=False),
]


@pytest.mark.parametrize("action", Action)
@pytest.mark.parametrize("place", PLACES, ids=lambda place: place.build.__name__)
async def test_an_action_does_what_the_table_says_or_changes_nothing(
    controlled: ControlledJobs, clock: Clock, place: Place, action: Action
) -> None:
    job = await controlled.find(await place.build(controlled))
    in_hand = await leases.list_node_runs(controlled.database, controlled.node_id)
    pulse, noted = job.pulse, await controlled.audit(job=job.uid)
    assert (pulse.state, pulse.heading, pulse.has_next) == place.facts
    allowed = lifecycle.allowed_actions(place.state, has_next=place.has_next, heading=place.heading)
    assert actions.find_allowed_actions(pulse) == allowed
    await clock.advance(minutes=1)
    if action not in allowed:
        with pytest.raises(IllegalTransition) as refused:
            await do(controlled, action, job)
        assert refused.value.allowed == allowed
        assert await controlled.find(job) == job
        assert await controlled.audit(job=job.uid) == noted
        return
    state = await do(controlled, action, job)
    assert state in expected(action, place)
    [entry, *_] = await controlled.audit(job=job.uid)
    assert (entry.action, entry.actor, entry.job_uid) == (action, ANN, job.uid)
    assert await controlled.breaches() == []
    await let_days_go_by(controlled, clock, in_hand)
    pulse = (await controlled.jobs.get(job.uid, with_deleted=True)).pulse
    assert pulse.state not in (State.RUNNING, State.BLOCKED)
    assert (pulse.wanted, pulse.manual_at) == (None, None)


async def do(controlled: ControlledJobs, action: Action, job: Job) -> State | None:
    """The state afterwards; None: the job is gone."""
    if action is Action.EDIT:
        after = await controlled.edit(job, payload={"edited": True}, schedule="every 2h")
    else:
        after = await getattr(controlled.jobs, action)(job.uid, by=ANN)
    return after and after.pulse.state


def expected(action: Action, place: Place) -> Collection[State | None]:
    """Where the table says it leads. While a job runs, it gets there when its run ends."""
    if place.state is State.RUNNING and action in (Action.PAUSE, Action.DISABLE, Action.CANCEL):
        return [State.RUNNING]
    if action is Action.RELEASE and place.heading is not None:
        return [place.heading]
    return lifecycle.find_target_states(action, place.state) or [None]


async def let_days_go_by(
    controlled: ControlledJobs, clock: Clock, in_hand: Sequence[HeldRun]
) -> None:
    """Runs end, retries and beats come, and whatever was asked for is obeyed."""
    await controlled.end(*(held for held in in_hand if isinstance(held, Claimed)))
    for _ in range(3):
        await controlled.fetch("update evenbeat.pulse set is_parked = false")
        await controlled.end(*await controlled.take_all())
        await clock.advance(hours=2)


def test_a_job_is_built_for_every_state_and_every_condition_of_the_table() -> None:
    built = {(place.state, place.heading) for place in PLACES}
    wanted = {
        (edge.state, heading)
        for edge in lifecycle.TRANSITIONS
        for heading in edge.headings or ()
        if edge.state is State.RUNNING
    }
    assert {place.state for place in PLACES} == set(State)
    assert wanted <= built
    for edge in lifecycle.TRANSITIONS:
        if edge.needs_next:
            assert {place.has_next for place in PLACES if place.state is edge.state} == {
                True,
                False,
            }
