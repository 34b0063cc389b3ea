"""Nodes place what nobody placed, and run jobs where they were placed."""

from dataclasses import replace
from datetime import timedelta

from evenbeat.control.jobs.jobs import Jobs
from evenbeat.core.balance.model import Move
from evenbeat.core.jobs.model import AfterFailure, Definition, Job, Policy
from evenbeat.core.runs.outcome import Done, Failed
from evenbeat.core.runs.registry import Registry
from evenbeat.core.time.timetable import Timetable
from evenbeat.placement.placer import Placer
from tests.conftest import START
from tests.engine.node_runner import Does, NodeRunner
from tests.support.databases import Clock
from tests.support.waiting import eventually

HOUR, SHIFT = timedelta(hours=1), timedelta(minutes=10)
WORK = Does(Done())
TOIL = Does(Failed("no"), kind="toil")
GIVES_UP = Policy(max_attempts=1, after_failure=AfterFailure.STOP)
RESTS = Policy(max_attempts=1, pause_after_failures=1)
# Housekeeping, which finds whatever has left, is put off: it goes by the database's own clock.
NO_HOUSEKEEPING = "insert into evenbeat.chore (name, next_at) values ('places', now() + '1 day')"


async def placed(node_runner: NodeRunner, job: Job) -> Job:
    async def look() -> bool:
        return job.id in {
            each.candidate.load.job for each in await Placer(node_runner.database).candidates()
        }

    await eventually(look, "a node has placed it")
    return await node_runner.find(job)


async def test_a_node_places_what_nobody_placed_and_runs_it_there(
    node_runner: NodeRunner, clock: Clock
) -> None:
    jobs = [await node_runner.add("every 1h") for _ in range(4)]
    async with node_runner.node(WORK, balancing="on"):
        there = [await placed(node_runner, job) for job in jobs]
        beats = [job.pulse.next_beat_at or START for job in there]
        assert len({(beat - START) // timedelta(minutes=15) for beat in beats}) == 4
        for job, beat in sorted(zip(there, beats, strict=True), key=lambda pair: pair[1]):
            await clock.set_to(beat)
            assert (await node_runner.closed(job)).beat_at == beat


async def test_a_node_goes_by_the_new_phase_after_a_move(
    node_runner: NodeRunner, clock: Clock
) -> None:
    job = await node_runner.add("every 1h")
    async with node_runner.node(WORK, balancing="on"):
        job = await placed(node_runner, job)
        first, phase = job.pulse.next_beat_at, job.definition.timetable.phase
        assert first is not None
        assert phase is not None
        await clock.set_to(first)
        await node_runner.closed(job)
        # The node has read the job by now, and its version stays the same.
        phase_s, at = phase // timedelta(seconds=1), first + 2 * HOUR
        move = Move(job.id, phase_s, (phase_s + 600) % 3600, at, at + SHIFT, at + SHIFT)
        async with node_runner.database.transaction() as session:
            await Placer(node_runner.database).move(session, [move])
        for number, beat in enumerate((first + HOUR, at + SHIFT, at + SHIFT + HOUR), 2):
            await clock.set_to(beat)
            assert (await node_runner.closed(job, number)).beat_at == beat
    assert (await node_runner.find(job)).version == 1


def ending(**more: object) -> Definition:
    timetable = Timetable.from_object({"schedule": "every 1h"} | more)
    return Definition("work", timetable)


async def test_what_ends_by_itself_leaves_the_map_without_waiting_for_housekeeping(
    node_runner: NodeRunner, clock: Clock
) -> None:
    await node_runner.fetch(NO_HOUSEKEEPING)
    goes_on = await node_runner.add("every 1h")
    fails = replace(ending(), kind="toil")
    ends = [
        ending(max_runs=1),
        ending(ends_at=(START + HOUR + SHIFT).isoformat()),
        replace(fails, policy=GIVES_UP),
        replace(fails, policy=RESTS),
    ]
    async with node_runner.node(WORK, TOIL, balancing="on"):
        jobs = Jobs(node_runner.database, Registry())
        for written in ends:
            await placed(node_runner, await jobs.add(written))
        await placed(node_runner, goes_on)
        await clock.set_to(START + 2 * HOUR)

        async def left() -> bool:
            mapped = await Placer(node_runner.database).candidates()
            return {each.candidate.load.job for each in mapped} == {goes_on.id}

        assert await eventually(left, "all that ended has left the map")


async def test_a_node_places_nothing_where_balancing_is_off(
    node_runner: NodeRunner, clock: Clock
) -> None:
    job = await node_runner.add("every 1h")
    async with node_runner.node(WORK, balancing="off"):
        await clock.set_to(START + HOUR)
        assert (await node_runner.closed(job)).beat_at == START + HOUR
    assert await Placer(node_runner.database).candidates() == []
