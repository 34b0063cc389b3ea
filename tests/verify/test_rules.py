"""Every rule of `verify` finds what breaks it, and nothing else is found with it."""

from pathlib import Path

import pytest

from evenbeat.control.ops.verify import ALL_RULES, build_verify_report, verify
from evenbeat.store.database.pool import Database
from tests.verify.damages import DAMAGE, ON_CRON, PAUSED_TWICE

WORLD = Path(__file__).with_name("world.sql").read_text()

CASES = [
    pytest.param(rule, damage, id=f"{rule}-{number}")
    for rule, damages in DAMAGE.items()
    for number, damage in enumerate(damages, 1)
]

# What looks odd and is in order.
ODD = {
    "an undo was removed before the plan that it took back": """
        delete from evenbeat.rebalance_plan where undoes is not null
    """,
    "the oldest runs are gone": "delete from evenbeat.run where job_id = 1 and number < 3",
    "all runs are gone": "delete from evenbeat.run; delete from evenbeat.run_log where run_id = 9",
    "a dead letter outlives its run": """
        delete from evenbeat.run where job_id = 2;
        update evenbeat.dead_letter set created_at = '2030-01-01 12:30Z'
    """,
    "a letter that was seen to is gone and its run is not": """
        delete from evenbeat.dead_letter;
        insert into evenbeat.chore (name, goal, next_at) values ('letters', 7, now())
    """,
    "a job is gone and its runs are not": """
        delete from evenbeat.pulse where id = 2; delete from evenbeat.job where id = 2
    """,
    "a run under way is remembered as late": """
        update evenbeat.chore set cursor = 8 where name = 'count';
        insert into evenbeat.late_run values (8)
    """,
    "a run under way has log lines": """
        insert into evenbeat.run_log (run_id, at, level, message) values (8, now(), 'info', 'on')
    """,
    "a job is older than the days that are kept": """
        insert into evenbeat.chore (name, next_at, total_count) values ('days', now(), 1);
        update evenbeat.run_day set day = '2030-01-02', completed = 1 where job_id = 1;
        update evenbeat.run_day set day = '2030-01-02' where job_id = 0
    """,
    "an edited job is not judged by its new limit": """
        update evenbeat.job set version = 2, policy = '{"max_attempts": 1}' where id = 2;
        update evenbeat.pulse set def_version = 2 where id = 2
    """,
    "a deleted job was at its end": """
        update evenbeat.job set deleted_at = '2030-01-01 12:05Z' where id in (2, 4, 6)
    """,
    "a deleted job is being stopped": """
        update evenbeat.job set deleted_at = '2030-01-01 12:05Z' where id = 3;
        update evenbeat.pulse set wanted = 'x' where id = 3
    """,
    "a job was put into another group, or into one, while it runs": """
        update evenbeat.job set updated_at = '2030-01-01 12:01Z' where id in (3, 4);
        update evenbeat.pulse set group_id = 2 where id = 3;
        update evenbeat.pulse
        set token = 78, run_number = 2, run_id = 99, permit_group_id = null,
            cause = 'm', manual_attempt = 1, started_at = '2030-01-01 12:00:20Z'
        where id = 4
    """,
    "maintenance began after the last run": """
        insert into evenbeat.maintenance (since, reason, actor)
        values ('2030-01-01 12:06Z', 'upgrade', 'tests')
    """,
    "a rule allows more attempts than the policy": """
        update evenbeat.job
        set policy = '{"max_attempts": 1, "retry_rules": [{"max_attempts": 3}]}' where id = 2
    """,
    "a job planned anew owes what its new plan says": """
        update evenbeat.pulse set plan_version = 2, next_beat_at = '2030-01-01 15:00Z' where id = 1
    """,
    "a job was paused twice": PAUSED_TWICE,
    "a retry that waited over a pause is run after the row of its beats": """
        insert into evenbeat.run
            (id, job_id, number, state, cause, beat_at, attempt, started_at, finished_at,
             skipped_count, skipped_until, reason)
        values
            (15, 1, 5, 'f', 's', '2030-01-01 12:06Z', 1, '2030-01-01 12:06Z', '2030-01-01 12:06Z',
             null, null, null),
            (16, 1, 6, 'k', 's', '2030-01-01 12:07Z', 0, '2030-01-01 12:07:30Z',
             '2030-01-01 12:07:30Z', 1, '2030-01-01 12:07Z', 'the job was paused'),
            (17, 1, 7, 'c', 't', '2030-01-01 12:06Z', 2, '2030-01-01 12:07:40Z',
             '2030-01-01 12:07:40Z', null, null, null);
        update evenbeat.pulse
        set run_number = 7, next_beat_at = '2030-01-01 12:08Z', failed_count = 1,
            completed_count = 4
        where id = 1
    """,
    "a job waits for its plan": """
        update evenbeat.pulse set state = 's', next_beat_at = null where id = 5;
        insert into evenbeat.unplanned (job_id, since) values (5, '2030-01-01 12:00Z')
    """,
    "a job is shown by SQL": ON_CRON,
    "a retry waits": """
        delete from evenbeat.dead_letter;
        update evenbeat.pulse set state = 's', retry_at = '2030-01-01 13:00Z' where id = 2
    """,
    "a run by hand takes up the schedule again": """
        update evenbeat.pulse set run_number = 5, next_beat_at = '2030-01-01 13:00Z' where id = 1;
        insert into evenbeat.run
            (id, job_id, number, state, cause, attempt, started_at, finished_at)
        values (15, 1, 5, 'x', 'm', 1, '2030-01-01 12:59Z', '2030-01-01 12:59Z')
    """,
    "a limit that was lowered does not judge what ran before": """
        update evenbeat.job_group set max_running = 1, limits_at = '2030-01-01 12:01Z'
    """,
    "the dead hold leases while nobody lives": """
        update evenbeat.node set alive_until = joined_at;
        update evenbeat.pulse set node_id = 2 where id = 3;
        update evenbeat.node set swept_at = null where id = 2
    """,
    "the dead hold leases until a living node has had time to look": """
        update evenbeat.node set joined_at = now() where id = 1;
        update evenbeat.pulse set node_id = 2 where id = 3;
        update evenbeat.node set swept_at = null where id = 2
    """,
    "a job that nobody can read is not audited": """
        update evenbeat.job set timetable = '[]', policy = '[7]' where id in (1, 2)
    """,
}


@pytest.fixture
async def world(database: Database) -> Database:
    await execute(database, WORLD)
    return database


async def execute(database: Database, text: str) -> None:
    async with database.connection() as connection:
        await connection.execute(text)


@pytest.mark.parametrize("clock", ["set", "database"])
async def test_a_healthy_world_is_healthy(world: Database, clock: str) -> None:
    report = await build_verify_report(Database(world.url, clock=clock))
    assert report.breaches == ()
    assert (report.scope.jobs, report.scope.runs) == (7, 14)


@pytest.mark.parametrize(("rule", "damage"), CASES)
async def test_a_rule_finds_what_breaks_it(world: Database, rule: str, damage: str) -> None:
    await execute(world, damage)
    # The one rule that compares the instants of runs with those of leases needs them on one clock.
    clock = "database" if rule == "nothing_starts_on_a_dead_node" else "set"
    found = await verify(Database(world.url, clock=clock))
    assert {breach.rule for breach in found} == {rule}, [str(breach) for breach in found]


def test_every_rule_is_tested() -> None:
    assert set(DAMAGE) == set(ALL_RULES)


@pytest.mark.parametrize("what", ODD)
async def test_it_finds_no_fault_with_what_only_looks_odd(world: Database, what: str) -> None:
    await execute(world, ODD[what])
    assert [str(breach) for breach in await verify(world)] == []


async def test_a_rule_that_is_broken_everywhere_does_not_fill_the_memory(world: Database) -> None:
    await execute(world, "insert into evenbeat.permit select 1, n from generate_series(8, 999) n")
    assert len(await verify(world)) == 100
