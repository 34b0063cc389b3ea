"""What UPDATE and DELETE do to a job is what the same action does on every other face."""

import asyncio
from dataclasses import replace
from datetime import timedelta
from typing import Any

import asyncpg
import pytest

from evenbeat.control.jobs.jobs import Jobs
from evenbeat.core.errors import Conflict
from evenbeat.core.jobs.lifecycle import Action
from evenbeat.core.jobs.model import Definition
from evenbeat.core.runs.registry import Registry
from evenbeat.core.time.schedules import parse_schedule
from evenbeat.core.time.timetable import Timetable
from evenbeat.engine.jobs.planner import Planner
from evenbeat.placement.placer import Placer
from tests.conftest import START
from tests.contracts.sql_functions.client import Integrator
from tests.support.databases import Clock

# Every sort of pulse, as the engine may leave it. The clock stands at START.
BEFORE, AFTER = START - timedelta(minutes=90), START + timedelta(minutes=30)
NODE = "(select id from evenbeat.node limit 1)"
RUNS = f"token = 5, run_id = 1, run_number = 1, node_id = {NODE}, started_at = $2, attempt = 1"
PULSES = {
    "waits for a beat to come": "state = 's', next_beat_at = $1",
    "owes a beat": "state = 's', next_beat_at = $2",
    "tries a beat again": "state = 's', next_beat_at = $2, retry_at = $1, beat_at = $2,"
    " attempt = 1",
    "has failed and goes on": "state = 'f', next_beat_at = $1, failure_streak = 1",
    "has failed and owes a beat": "state = 'f', next_beat_at = $2, failure_streak = 1",
    "has failed for good": "state = 'f', failure_streak = 1",
    "is to be run by hand": "state = 's', next_beat_at = $1, manual_at = $2",
    "is paused": "state = 'z', next_beat_at = $2",
    "is disabled": "state = 'd', next_beat_at = $2",
    "is disabled, with a try to come": "state = 'd', next_beat_at = $2, retry_at = $1,"
    " beat_at = $2",
    "has ended": "state = 'c'",
    "is cancelled": "state = 'x'",
    "runs a beat": f"state = 's', next_beat_at = $2, beat_at = $2, cause = 's', {RUNS}",
    "runs by hand": f"state = 's', next_beat_at = $1, cause = 'm', manual_at = $2, {RUNS}",
    "runs by hand and owes a beat": f"state = 's', next_beat_at = $2, cause = 'm', {RUNS}",
    "runs by hand, disabled": f"state = 'd', next_beat_at = $2, cause = 'm', {RUNS}",
    "runs, to be paused": f"state = 's', next_beat_at = $2, beat_at = $2, cause = 's',"
    f" wanted = 'z', {RUNS}",
    "runs, to be disabled": f"state = 's', next_beat_at = $2, beat_at = $2, cause = 's',"
    f" wanted = 'd', {RUNS}",
    "runs, to be cancelled": f"state = 's', next_beat_at = $2, beat_at = $2, cause = 's',"
    f" wanted = 'x', {RUNS}",
}
UPDATES = {
    Action.EDIT: "update metadata.scheduled_jobs set schedule = '*/20 * * * *'",
    Action.DISABLE: "update metadata.scheduled_jobs set enabled = false",
    Action.ENABLE: "update metadata.scheduled_jobs set enabled = true",
    Action.DELETE: "delete from metadata.scheduled_jobs",
}
COLUMNS = (
    "state wanted state_at next_beat_at retry_at manual_at due_at beat_at attempt manual_attempt"
    " run_number is_parked is_tucked token cause def_version failure_streak"
)
MISSED = "select beat_at, skipped_until, skipped_count, reason from evenbeat.run where state = 'k'"


async def prepare(me: Integrator, owner: Any, pulse: str) -> Any:
    """The job, with this pulse; its uid."""
    await me.sql.execute(
        "insert into metadata.scheduled_jobs (name, function_name, schedule)"
        " values ('job', 'work', '*/30 * * * *')"
    )
    await owner.execute(
        "delete from evenbeat.unplanned; update evenbeat.pulse set"
        f" {pulse.replace('$1', repr(str(AFTER))).replace('$2', repr(str(BEFORE)))};"
        " select evenbeat.show_sql_job(id) from evenbeat.job"
    )
    return await owner.fetchval("select uid from evenbeat.job")


async def outcome(owner: Any) -> dict[str, Any]:
    """What is stored of the only job in the end, and what was told of its beats."""
    row = await owner.fetchrow(
        f"select {COLUMNS.replace(' ', ', ')}, job.timetable, job.version,"
        " job.deleted_at is not null as is_deleted"
        " from evenbeat.pulse join evenbeat.job using (id)"
    )
    missed = [tuple(each) for each in await owner.fetch(MISSED)]
    await owner.execute("""
        delete from evenbeat.run; delete from evenbeat.pulse; delete from evenbeat.job;
        delete from evenbeat.sql_job; delete from evenbeat.unplanned;
        delete from evenbeat.job_version;
    """)
    return dict(row) | {"missed": missed}


def edited(definition: Definition) -> Definition:
    return replace(definition, timetable=Timetable(parse_schedule("*/20 * * * *")))


async def by_python(jobs: Jobs, action: Action, uid: Any) -> str | None:
    try:
        if action is Action.EDIT:
            await jobs.edit(uid, edited((await jobs.get(uid)).definition))
        else:
            await getattr(jobs, action)(uid)
    except Conflict as error:
        return str(error)
    return None


async def by_sql(me: Integrator, planner: Planner, action: Action) -> str | None:
    try:
        await me.sql.execute(UPDATES[action])
    except asyncpg.CheckViolationError as error:
        return str(error)
    await planner.turn()
    return None


def is_said_already(action: Action, what: str) -> bool:
    """To be disabled twice is refused there, and changes nothing here."""
    is_off = "disabled" in what or "cancelled" in what
    return (action is Action.DISABLE and is_off) or (action is Action.ENABLE and not is_off)


@pytest.mark.breaks_rules
@pytest.mark.parametrize("action", UPDATES)
async def test_sql_and_python_do_the_same_to_every_sort_of_job(
    me: Integrator, action: Action
) -> None:
    jobs = Jobs(me.database, Registry())
    planner = Planner(me.database, Placer(me.database, "off"))
    differ: dict[str, Any] = {}
    await me.function("return null;")
    async with me.session() as owner:
        await owner.execute(
            "insert into evenbeat.node (name, kinds, labels, joined_at, alive_until)"
            " values ('n', '{}', '{}', now(), now())"
        )
        for what, pulse in PULSES.items():
            uid = await prepare(me, owner, pulse)
            refused = await by_python(jobs, action, uid)
            theirs = await outcome(owner)
            await prepare(me, owner, pulse)
            refused_here = await by_sql(me, planner, action)
            ours = await outcome(owner)
            odd = {name: (theirs[name], ours[name]) for name in ours if theirs[name] != ours[name]}
            is_refused_alike = (refused is None) == (refused_here is None)
            if odd or not (is_refused_alike or is_said_already(action, what)):
                differ[what] = (odd, refused, refused_here)
    assert differ == {}


async def test_both_faces_at_once_never_wait_for_each_other_in_a_circle(me: Integrator) -> None:
    await me.register()
    jobs = Jobs(me.database, Registry())
    uid = (await me.pulse())["uid"]

    async def by_hand_of_sql() -> None:
        for minute in range(30):
            await me.sql.execute(
                "update metadata.scheduled_jobs set schedule = $1, enabled = not enabled",
                f"{minute} 3 * * *",
            )

    async def by_api() -> None:
        for hour in range(20):
            definition = (await jobs.get(uid)).definition
            timetable = Timetable(parse_schedule(f"0 {hour} * * *"))
            await jobs.edit(uid, replace(definition, timetable=timetable))

    await asyncio.gather(by_hand_of_sql(), by_api())
    assert (await me.pulse())["version"] > 40


async def test_an_id_is_given_once_and_for_all(me: Integrator) -> None:
    await me.register()
    with pytest.raises(asyncpg.CheckViolationError, match="once and for all"):
        await me.sql.execute("update metadata.scheduled_jobs set id = id + 1")


async def test_a_new_description_is_a_change_and_the_same_one_is_none(
    me: Integrator, clock: Clock
) -> None:
    await me.register()
    made = (await me.row() or {})["updated_at"]
    await clock.advance(minutes=1)
    describe = "update metadata.scheduled_jobs set description = 'why it is there'"
    await me.sql.execute(describe)
    changed = (await me.row() or {})["updated_at"]
    assert changed == clock.now > made
    await clock.advance(minutes=1)
    await me.sql.execute(describe)
    assert (await me.row() or {})["updated_at"] == changed
