"""How many more runs a node can take, and the timeouts of those that it has started."""

import asyncio
import threading
from collections.abc import Iterator
from datetime import timedelta
from typing import Any

import pytest

from evenbeat.config import Settings
from evenbeat.core.jobs.model import RunState
from evenbeat.core.runs.handler import Handler
from evenbeat.core.runs.outcome import DONE, Done
from evenbeat.core.runs.registry import Registry
from evenbeat.engine.runs.handler_services import NodeServices
from evenbeat.engine.runs.recorder import EndedRun, Recorder
from evenbeat.engine.runs.slots import LARGEST_CLAIM, MOST_UNWRITTEN, Slots
from evenbeat.observe.metrics import Metrics
from evenbeat.store.database.pool import Database
from tests.core.given import claimed
from tests.engine.node_runner import Does, DoesWithoutAwait, NodeRunner
from tests.support.waiting import PATIENCE


@pytest.fixture
def recorder(database: Database) -> Recorder:
    return Recorder(database, Metrics())


def slots_of(
    settings: Settings,
    recorder: Recorder,
    *handlers: Handler,
    services: NodeServices,
    **changes: Any,
) -> Slots:
    return Slots(
        Registry(handlers),
        settings.model_copy(update=changes),
        services,
        recorder,
        on_free_slot=lambda: None,
        on_free_permit=lambda: None,
    )


@pytest.fixture
def release() -> Iterator[threading.Event]:
    event = threading.Event()
    yield event
    event.set()


async def leave_thread_hanging(services: NodeServices, release: threading.Event) -> None:
    waiting = asyncio.ensure_future(services.in_thread(release.wait))
    await asyncio.sleep(0)
    for _ in range(2):
        waiting.cancel()
        await asyncio.sleep(0)
    await asyncio.wait([waiting])


async def test_threads_that_linger_keep_at_most_half_of_the_slots(
    settings: Settings, recorder: Recorder, release: threading.Event
) -> None:
    services = NodeServices(None, 10)
    slots = slots_of(settings, recorder, services=services, concurrency=4)
    free = [slots.count_free()]
    for _ in range(3):
        await leave_thread_hanging(services, release)
        free.append(slots.count_free())
    assert free == [4, 3, 2, 2]


async def test_nothing_is_claimed_while_more_than_a_batch_of_ends_is_unwritten(
    settings: Settings, recorder: Recorder
) -> None:
    slots = slots_of(settings, recorder, services=NodeServices(None, 10), concurrency=1000)
    assert slots.count_free() == LARGEST_CLAIM
    ended = EndedRun(claimed(), DONE, None)
    recorder.add([ended] * MOST_UNWRITTEN)
    assert slots.count_free() == LARGEST_CLAIM
    recorder.add([ended])
    assert slots.count_free() == 0


async def test_a_kind_with_a_limit_has_as_many_slots_as_its_runs_leave(
    settings: Settings, recorder: Recorder
) -> None:
    job, gate = claimed(), asyncio.Event()

    class Limited(Does):
        most_at_once = 2

    handler = Limited(lambda _: gate.wait(), kind=job.definition.kind)
    slots = slots_of(settings, recorder, handler, services=NodeServices(None, 10))
    slots.start([job])
    assert slots.count_free_by_kind() == {job.definition.kind: 1}
    slots.kill_all()


@pytest.mark.parametrize("handler", [Does, DoesWithoutAwait])
async def test_a_run_that_ends_at_once_frees_its_slot_and_leaves_no_timer(
    settings: Settings, recorder: Recorder, handler: Any
) -> None:
    job = claimed()
    does = handler(Done(), kind=job.definition.kind)
    slots = slots_of(settings, recorder, does, services=NodeServices(None, 10))
    slots.start([job])
    assert slots.busy == 1
    await asyncio.wait_for(slots.wait_until_idle(), PATIENCE)
    assert (slots.busy, recorder.unwritten) == (0, 1)


async def test_a_handler_that_waits_is_stopped_at_its_timeout(node_runner: NodeRunner) -> None:
    async with node_runner.node(Does(lambda _: asyncio.Event().wait())):
        policy = {"timeout": timedelta(milliseconds=50), "max_attempts": 1}
        run = await node_runner.closed(await node_runner.add(policy=policy))
    assert (run.state, run.error) == (RunState.FAILED, "ran longer than 0:00:00.050000")
