"""Nodes place what nobody placed, and run jobs where they were placed."""

from datetime import timedelta

from evenbeat.core.balance.model import Move
from evenbeat.core.model import Job
from evenbeat.core.outcome import Done
from evenbeat.placement.placement import Placement
from tests.conftest import START
from tests.engine.workshop import Does, Workshop
from tests.support.databases import Clock
from tests.support.waiting import eventually

HOUR, SHIFT = timedelta(hours=1), timedelta(minutes=10)
WORK = Does(Done())


async def placed(workshop: Workshop, job: Job) -> Job:
    async def look() -> bool:
        return job.id in {
            each.candidate.load.job for each in await Placement(workshop.database).candidates()
        }

    await eventually(look, "a node has placed it")
    return await workshop.look(job)


async def test_a_node_places_what_nobody_placed_and_runs_it_there(
    workshop: Workshop, clock: Clock
) -> None:
    jobs = [await workshop.add("every 1h") for _ in range(4)]
    async with workshop.node(WORK, balancing="on"):
        there = [await placed(workshop, job) for job in jobs]
        beats = [job.pulse.next_beat_at or START for job in there]
        assert len({(beat - START) // timedelta(minutes=15) for beat in beats}) == 4
        for job, beat in sorted(zip(there, beats, strict=True), key=lambda pair: pair[1]):
            await clock.set_to(beat)
            assert (await workshop.closed(job)).beat_at == beat


async def test_a_node_goes_by_the_new_phase_after_a_move(workshop: Workshop, clock: Clock) -> None:
    job = await workshop.add("every 1h")
    async with workshop.node(WORK, balancing="on"):
        job = await placed(workshop, job)
        first, phase = job.pulse.next_beat_at, job.definition.timetable.phase
        assert first is not None
        assert phase is not None
        await clock.set_to(first)
        await workshop.closed(job)
        # The node has read the job by now, and its version stays the same.
        phase_s, at = phase // timedelta(seconds=1), first + 2 * HOUR
        move = Move(job.id, phase_s, (phase_s + 600) % 3600, at, at + SHIFT, at + SHIFT)
        async with workshop.database.transaction() as session:
            await Placement(workshop.database).move(session, [move])
        for number, beat in enumerate((first + HOUR, at + SHIFT, at + SHIFT + HOUR), 2):
            await clock.set_to(beat)
            assert (await workshop.closed(job, number)).beat_at == beat
    assert (await workshop.look(job)).version == 1


async def test_a_node_places_nothing_where_balancing_is_off(
    workshop: Workshop, clock: Clock
) -> None:
    job = await workshop.add("every 1h")
    async with workshop.node(WORK, balancing="off"):
        await clock.set_to(START + HOUR)
        assert (await workshop.closed(job)).beat_at == START + HOUR
    assert await Placement(workshop.database).candidates() == []
