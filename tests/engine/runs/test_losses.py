"""Nodes that die or freeze: their runs are taken over, once, and nothing is written twice."""

import asyncio
import os
import signal
from collections.abc import Callable
from datetime import timedelta

from evenbeat.core.jobs.model import Cause, ErrorClass, Job, Run, RunState, State
from evenbeat.core.runs.outcome import Done
from evenbeat.store.ops import nodes
from tests.engine.node_runner import Does, NodeRunner
from tests.support.processes import Process
from tests.support.waiting import eventually

TAKES_OVER = Does(Done(result="taken over"), kind="gated")
Start = Callable[[], Process]


async def join(count: int, gated_node: Start) -> dict[int, Process]:
    processes = [gated_node() for _ in range(count)]
    await asyncio.gather(*(process.says("Node joined") for process in processes))
    return {process.pid: process for process in processes}


def pid_of(run: Run) -> int:
    return int((run.node or "").rpartition(":")[2])


async def test_the_run_of_a_killed_node_is_lost_and_comes_again_as_the_next_attempt(
    node_runner: NodeRunner, gated_node: Start
) -> None:
    [process] = (await join(1, gated_node)).values()
    job = await node_runner.add(kind="gated")
    await node_runner.started(job)
    process.kill()
    async with node_runner.node(TAKES_OVER):
        lost, again = await node_runner.closed(job), await node_runner.closed(job, 2)
    assert (lost.state, lost.error_class, lost.attempt) == (RunState.FAILED, ErrorClass.LOST, 1)
    assert pid_of(lost) == process.pid
    assert (again.state, again.attempt, again.cause) == (RunState.COMPLETED, 2, Cause.RETRY)
    assert (again.result, again.beat_at) == ("taken over", lost.beat_at)
    assert (await node_runner.find(job)).pulse.lost_streak == 0


async def test_a_job_that_is_lost_three_times_is_failed(
    node_runner: NodeRunner, gated_node: Start
) -> None:
    processes = await join(3, gated_node)
    job = await node_runner.add(kind="gated", policy={"max_attempts": 9})
    async with node_runner.node(Does(Done())):
        for number in (1, 2, 3):
            processes[pid_of(await node_runner.started(job, number))].kill()
        await node_runner.closed(job, 3)
    assert [run.error_class for run in await node_runner.runs(job)] == [ErrorClass.LOST] * 3
    pulse = (await node_runner.find(job)).pulse
    assert (pulse.state, pulse.due_at) == (State.FAILED, None)


async def test_a_frozen_node_is_fenced_when_it_wakes_and_goes_on_as_a_new_one(
    node_runner: NodeRunner, gated_node: Start
) -> None:
    [process] = (await join(1, gated_node)).values()
    job = await node_runner.add(kind="gated")
    # The claim alone would not do: frozen before its handler starts, a node has nothing to write.
    await process.says("Executing job")
    os.kill(process.pid, signal.SIGSTOP)
    async with node_runner.node(TAKES_OVER):
        taken_over = await node_runner.closed(job, 2)
        process.signal(signal.SIGUSR1)
        os.kill(process.pid, signal.SIGCONT)
        await process.says("Run lost its lease")
        await eventually(lambda: process.output.count("Node joined") == 2, "a second life")
    assert [run.result for run in await node_runner.runs(job)] == [None, "taken over"]
    assert pid_of(taken_over) == os.getpid()
    fresh = await node_runner.closed(await node_runner.add(kind="gated"))
    assert (fresh.state, fresh.result) == (RunState.COMPLETED, {"pid": process.pid})
    name = fresh.node
    assert await node_runner.value("select count(*) from evenbeat.node where name = $1", name) == 2
    assert await process.stop() == 0


async def lose(node_runner: NodeRunner, job: Job) -> int:
    """A node that claims the job and is never heard of again."""
    node_id = await nodes.join_node(
        node_runner.database,
        "gone:1",
        kinds=["work"],
        labels=[],
        lease_duration=timedelta(minutes=1),
    )
    await node_runner.fetch(
        "update evenbeat.pulse set token = 1, node_id = $1, run_id = nextval('evenbeat.run_id'),"
        " run_number = run_number + 1, started_at = state_at, cause = 's', attempt = 1,"
        " beat_at = next_beat_at where id = $2",
        node_id,
        job.id,
    )
    return node_id


async def test_a_lost_job_that_cannot_be_read_does_not_keep_the_others_from_being_reaped(
    node_runner: NodeRunner,
) -> None:
    bad, good = await node_runner.add(), await node_runner.add()
    for job in (bad, good):
        await lose(node_runner, job)
    await node_runner.fetch("update evenbeat.job set policy = '[]' where id = $1", bad.id)
    await node_runner.fetch("update evenbeat.node set alive_until = joined_at")
    async with node_runner.node(Does(Done())):
        again = await node_runner.closed(good, 2)
        stopped = await node_runner.closed(bad)
    assert (again.state, again.attempt) == (RunState.COMPLETED, 2)
    assert (stopped.state, stopped.number) == (RunState.FAILED, 1)
    assert "cannot be read" in (stopped.error or "")


async def test_two_reapers_close_a_lost_run_once(node_runner: NodeRunner) -> None:
    jobs = [await node_runner.add() for _ in range(20)]
    for job in jobs:
        await lose(node_runner, job)
    await node_runner.fetch("update evenbeat.node set alive_until = joined_at")
    async with node_runner.node(Does(Done())), node_runner.node(Does(Done())):
        for job in jobs:
            await node_runner.closed(job, 2)
    for job in jobs:
        states = [(run.state, run.attempt) for run in await node_runner.runs(job)]
        assert states == [(RunState.FAILED, 1), (RunState.COMPLETED, 2)]
