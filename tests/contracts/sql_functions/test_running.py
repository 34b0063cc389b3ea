"""Jobs of SQL on their schedule: nodes find them, and no beat is lost or run twice."""

from datetime import UTC, datetime, timedelta

from tests.conftest import START
from tests.contracts.sql_functions.client import CLEANUP, REGISTER, Integrator
from tests.support.databases import Clock
from tests.support.waiting import eventually

RUNS = "select * from metadata.scheduled_job_runs order by started_at, id"
# New York is five hours behind in winter: 3 AM there.
FIRST = datetime(2030, 1, 2, 8, tzinfo=UTC)


async def finished(me: Integrator, count: int) -> list[dict[str, object]]:
    """The runs, once there are so many and all have ended."""

    async def look() -> list[dict[str, object]] | None:
        rows = [dict(row) for row in await me.sql.fetch(RUNS)]
        ended = [row for row in rows if row["completed_at"] is not None]
        return rows if len(ended) == len(rows) >= count else None

    return await eventually(look, f"{count} runs")


async def test_a_job_registered_while_nodes_run_has_its_first_beat_within_a_second(
    me: Integrator,
) -> None:
    await me.sql.execute(CLEANUP)
    async with me.serving(check_interval=timedelta(seconds=10)):
        await me.sql.execute(REGISTER)
        first = await eventually(lambda: planned_beat(me), "the first beat", patience=1.0)
    assert first == FIRST


async def planned_beat(me: Integrator) -> datetime | None:
    return (await me.pulse("daily_cleanup"))["next_beat_at"]


async def test_it_runs_at_its_beat_and_again_at_the_next(me: Integrator, clock: Clock) -> None:
    await me.sql.execute(CLEANUP)
    await me.sql.execute(REGISTER)
    async with me.serving():
        await me.planned("daily_cleanup")
        for count in (1, 2):
            await clock.set_to(FIRST + timedelta(days=count - 1))
            runs = await finished(me, count)
            assert runs[-1]["scheduled_for"] == clock.now
            assert (runs[-1]["success"], runs[-1]["triggered_by"]) == (True, "scheduler")
    assert len(runs) == 2
    queue = await me.sql.fetch("select state from metadata.river_job order by id")
    assert [row["state"] for row in queue] == ["scheduled", "completed", "completed"]


async def test_beats_missed_in_a_downtime_are_run_once_as_catchup(
    me: Integrator, clock: Clock
) -> None:
    await me.register("0 * * * *")
    async with me.serving():
        await me.planned()
    await clock.advance(hours=4, minutes=30)
    async with me.serving():
        [run] = await finished(me, 1)
    assert run["triggered_by"] == "catchup"
    assert run["scheduled_for"] == START + timedelta(hours=1)
    assert (await me.pulse())["next_beat_at"] == START + timedelta(hours=5)


async def test_a_beat_that_is_less_than_an_hour_late_is_no_catchup(
    me: Integrator, clock: Clock
) -> None:
    await me.register("0 * * * *")
    await clock.advance(hours=1, minutes=59)
    async with me.serving():
        [run] = await finished(me, 1)
    assert (run["triggered_by"], run["scheduled_for"]) == ("scheduler", START + timedelta(hours=1))


async def test_a_job_registered_while_nobody_runs_is_owed_beats_from_then_on(
    me: Integrator, clock: Clock
) -> None:
    await me.register("0 14 * * *")
    await clock.advance(hours=9)
    async with me.serving():
        [run] = await finished(me, 1)
    assert (run["triggered_by"], run["scheduled_for"]) == ("catchup", START + timedelta(hours=2))


async def test_a_beat_is_run_once_however_many_nodes_there_are(
    me: Integrator, clock: Clock
) -> None:
    await me.register("0 * * * *")
    await me.function("insert into ledger (note) values ('x'); return null;")
    async with me.serving(), me.serving(), me.serving():
        await me.planned()
        for count in (1, 2, 3):
            await clock.advance(hours=1)
            await finished(me, count)
        await me.at_rest()
    assert await me.sql.fetchval("select count(*) from ledger") == 3
    assert len(await me.sql.fetch(RUNS)) == 3


async def test_what_is_raised_is_tried_again_as_a_run_of_its_own_and_what_is_reported_is_not(
    me: Integrator, clock: Clock
) -> None:
    await me.register("0 * * * *")
    async with me.serving():
        await me.planned()
        await me.function("raise exception 'no';")
        await clock.advance(hours=1)
        await finished(me, 1)
        await clock.advance(minutes=1)
        await finished(me, 2)
        await me.function("""return '{"success": false, "message": "half"}';""")
        await clock.advance(minutes=2)
        runs = await finished(me, 3)
        await clock.advance(minutes=30)
        await me.at_rest()
    assert [(run["success"], run["message"]) for run in runs] == [
        (False, "no"),
        (False, "no"),
        (False, "half"),
    ]
    assert {run["scheduled_for"] for run in runs} == {START + timedelta(hours=1)}
    assert len(await me.sql.fetch(RUNS)) == 3


async def test_a_run_by_hand_does_not_stand_for_the_beat(me: Integrator, clock: Clock) -> None:
    await me.register("0 * * * *")
    async with me.serving():
        await me.planned()
        await clock.advance(minutes=59)
        await me.trigger()
        await clock.advance(minutes=1)
        runs = await finished(me, 2)
    assert [run["triggered_by"] for run in runs] == ["manual", "scheduler"]


async def test_another_schedule_keeps_the_beat_that_is_owed_and_loses_none_of_its_own(
    me: Integrator, clock: Clock
) -> None:
    await me.register("0 * * * *")
    await me.plan()
    await clock.advance(hours=1, minutes=10)
    await me.sql.execute("update metadata.scheduled_jobs set schedule = '40 * * * *'")
    async with me.serving():
        await finished(me, 1)
        await clock.advance(minutes=30)
        runs = await finished(me, 2)
    beats = [START + timedelta(hours=1), START + timedelta(minutes=100)]
    assert [run["scheduled_for"] for run in runs] == beats
    assert (await me.pulse())["next_beat_at"] == START + timedelta(minutes=160)


async def test_a_schedule_changed_in_a_downtime_accounts_for_every_beat_of_both(
    me: Integrator, clock: Clock
) -> None:
    """The old one owes 13:00 and 14:00, the new one, written at 14:10, names 14:40."""
    await me.register("0 * * * *")
    await me.plan()
    await clock.advance(hours=2, minutes=10)
    await me.sql.execute("update metadata.scheduled_jobs set schedule = '40 * * * *'")
    await clock.advance(minutes=40)
    async with me.serving():
        [run] = await finished(me, 1)
        assert (await me.at_rest())["next_beat_at"] == START + timedelta(minutes=220)
    assert run["scheduled_for"] == START + timedelta(hours=1)
    async with me.session() as owner:
        missed = await owner.fetch("select beat_at from evenbeat.run where state = 'k' order by id")
    assert [row["beat_at"] for row in missed] == [
        START + timedelta(hours=2),
        START + timedelta(minutes=160),
    ]


async def test_a_schedule_changed_while_it_runs_is_followed_afterwards(
    me: Integrator, clock: Clock
) -> None:
    await me.register("0 * * * *")
    await me.function("perform pg_advisory_xact_lock(7); return null;")
    async with me.session() as owner, me.serving():
        await me.planned()
        await owner.execute("select pg_advisory_lock(7)")
        await clock.advance(hours=1)
        await eventually(lambda: is_running(me), "a run")
        await me.sql.execute("update metadata.scheduled_jobs set schedule = '30 * * * *'")
        await owner.execute("select pg_advisory_unlock(7)")
        [run] = await finished(me, 1)
        pulse = await me.planned()
    assert run["scheduled_for"] == START + timedelta(hours=1)
    assert (pulse["state"], pulse["next_beat_at"]) == (b"s", START + timedelta(minutes=90))


async def test_a_run_that_ends_before_the_new_schedule_is_planned_ends_nothing_else(
    me: Integrator, clock: Clock
) -> None:
    await me.register("0 * * * *")
    await me.function("perform pg_advisory_xact_lock(7); return null;")
    await me.plan()
    async with me.session() as owner, me.serving():
        await owner.execute("select pg_advisory_lock(7)")
        await clock.advance(hours=1)
        await eventually(lambda: is_running(me), "a run")
        async with owner.transaction():
            # Nobody can plan it while this row is held.
            await owner.execute("lock table evenbeat.unplanned in share row exclusive mode")
            await owner.execute("update evenbeat.sql_job set schedule = '30 * * * *'")
            await owner.execute("select pg_advisory_unlock(7)")
        await finished(me, 1)
        pulse = await me.planned()
    assert (pulse["state"], pulse["next_beat_at"]) == (b"s", START + timedelta(minutes=90))


async def is_running(me: Integrator) -> bool:
    return (await me.pulse())["token"] is not None


async def test_a_disabled_job_does_not_run_and_enabled_again_begins_with_the_next_beat(
    me: Integrator, clock: Clock
) -> None:
    await me.register("0 * * * *", enabled=False)
    async with me.serving():
        await clock.advance(hours=3, minutes=30)
        await me.sql.execute("update metadata.scheduled_jobs set enabled = true")
        assert (await me.planned())["next_beat_at"] == START + timedelta(hours=4)
        await clock.advance(minutes=30)
        await finished(me, 1)
        await me.sql.execute("update metadata.scheduled_jobs set enabled = false")
        await clock.advance(hours=5)
        assert (await me.at_rest())["state"] == b"d"
    assert len(await me.sql.fetch(RUNS)) == 1


async def test_another_function_is_called_from_the_next_run_on(
    me: Integrator, clock: Clock
) -> None:
    await me.register("0 * * * *")
    await me.function("insert into ledger (note) values ('other'); return null;", "other()")
    async with me.serving():
        await me.planned()
        await me.sql.execute("update metadata.scheduled_jobs set function_name = 'other'")
        await clock.advance(hours=1)
        await finished(me, 1)
    assert await me.sql.fetchval("select note from ledger") == "other"


async def test_a_deleted_job_runs_no_more(me: Integrator, clock: Clock) -> None:
    await me.register("0 * * * *")
    async with me.serving():
        await me.planned()
        await me.sql.execute("delete from metadata.scheduled_jobs")
        await clock.advance(hours=2)
        await me.register("0 * * * *", name="marker")
        await clock.advance(hours=1)
        await finished(me, 1)
    async with me.session() as owner:
        assert await owner.fetchval("select count(*) from evenbeat.run") == 1
