"""Every rule of `verify` finds what breaks it, and nothing else is found with it."""

from pathlib import Path

import pytest

from evenbeat.control.ops.verify import ALL_RULES, build_verify_report, verify
from evenbeat.store.database.pool import Database

WORLD = Path(__file__).with_name("world.sql").read_text()

# Job 5 becomes one that the SQL face shows.
ON_CRON = """
    insert into evenbeat.lane (id, kind) overriding system value values (2, 'sql_function');
    update evenbeat.pulse set lane_id = 2 where id = 5;
    update evenbeat.job
    set kind = 'sql_function', name = 'nightly', payload = '{"function": "public.f"}',
        timetable = '{"schedule": {"cron": "0 3 * * *", "zone": "UTC"}}'
    where id = 5
"""

# Each damages the healthy world in a way that only the rule of that name is there to see.
DAMAGE = {
    "every_job_has_a_pulse": ["delete from evenbeat.pulse where id = 5"],
    "every_job_has_its_lane": [
        "update evenbeat.job set kind = 'other' where id = 5",
        "update evenbeat.pulse set lane_id = 99 where id = 5",
    ],
    "every_job_is_in_its_group": [
        "update evenbeat.job set group_key = 'another' where id = 4",
        "update evenbeat.job set group_key = null where id = 4",
        "update evenbeat.job set group_key = 'shared' where id = 5",
    ],
    "runs_are_numbered_without_a_gap": [
        "delete from evenbeat.run where job_id = 7 and number = 2",
    ],
    "a_plan_has_all_its_jobs": [
        "delete from evenbeat.rebalance_move",
        "delete from evenbeat.rebalance_skip",
        "update evenbeat.rebalance_plan set move_count = 2 where number = 1",
    ],
    "what_an_undo_took_back_is_undone": [
        "update evenbeat.rebalance_plan set undone_at = null, undone_by = null",
    ],
    "the_counter_is_at_the_newest_run": [
        "update evenbeat.pulse set run_number = 9 where id = 7",
        "update evenbeat.pulse set run_number = 2 where id = 7",
    ],
    "counts_agree_with_the_history": [
        "update evenbeat.pulse set completed_count = 9 where id = 1",
        "update evenbeat.pulse set failed_count = 2 where id = 2",
    ],
    "a_settled_beat_is_not_run_again": [
        """
        insert into evenbeat.run
            (id, job_id, number, state, cause, beat_at, attempt, started_at, finished_at,
             error_class)
        select 15, 6, 3, 'x', 't', beat_at, 1, finished_at, finished_at, 'handed_back'
        from evenbeat.run where id = 11;
        update evenbeat.pulse set run_number = 3 where id = 6
        """,
    ],
    "attempts_are_numbered_without_a_gap": [
        "update evenbeat.run set attempt = 2 where id = 5",
        "update evenbeat.run set attempt = 2 where id = 7",
    ],
    "attempts_do_not_exceed_their_limit": [
        """update evenbeat.job set policy = '{"max_attempts": 2}' where id = 2""",
        """
        update evenbeat.job
        set policy = '{"max_attempts": 1, "retry_rules": [{"max_attempts": 2}]}' where id = 2
        """,
    ],
    "runs_of_a_job_never_overlap": [
        "update evenbeat.run set finished_at = '2030-01-01 12:02:05Z' where id = 1",
    ],
    "sql_functions_cannot_use_our_tables": [
        "insert into evenbeat.sql_login values ('evenbeat', '')"
    ],
    "no_run_starts_before_its_beat": [
        "update evenbeat.run set started_at = '2030-01-01 12:01:30Z' where id = 2",
    ],
    "no_run_ends_before_it_starts": [
        "update evenbeat.run set finished_at = '2030-01-01 11:00Z' where id = 9",
    ],
    "nothing_is_missed_before_its_time": [
        """
        update evenbeat.run
        set started_at = '2030-01-01 12:04:30Z', finished_at = '2030-01-01 12:04:30Z'
        where id = 4
        """,
    ],
    "what_is_missed_says_why": ["update evenbeat.run set reason = null where id = 4"],
    "nothing_starts_in_a_job_at_rest": [
        "update evenbeat.pulse set state_at = '2030-01-01 11:00Z' where id = 6",
        "update evenbeat.pulse set state = 'z', state_at = '2030-01-01 12:00Z' where id = 1",
    ],
    "a_cancelled_job_has_nothing_planned": [
        "update evenbeat.pulse set state = 'x' where id = 5",
    ],
    "a_waiting_job_has_something_planned": [
        "update evenbeat.pulse set state = 's', next_beat_at = null where id = 5",
    ],
    "an_unplanned_job_gets_its_plan": [
        "insert into evenbeat.unplanned (job_id, since) values (5, '2030-01-01 11:59Z')",
    ],
    "sql_shows_what_is_there": [
        """
        set session_replication_role = replica;
        insert into evenbeat.sql_job (name, function_name, function, schedule, job_id)
        values ('ghost', 'f', 'public.f', '0 3 * * *', 5);
        reset session_replication_role
        """,
        f"set session_replication_role = replica; {ON_CRON}; reset session_replication_role",
        f"""
        {ON_CRON};
        set session_replication_role = replica;
        update evenbeat.sql_job set schedule = '0 4 * * *';
        reset session_replication_role
        """,
    ],
    "no_job_is_hidden_from_claims_for_good": [
        "update evenbeat.pulse set is_tucked = true where id = 5",
        "update evenbeat.pulse set is_parked = true where id = 5",
    ],
    "no_parked_job_runs": ["update evenbeat.pulse set is_parked = true where id = 3"],
    "every_lease_has_its_run_and_node": [
        "update evenbeat.pulse set run_id = null where id = 3",
        "update evenbeat.pulse set node_id = 99 where id = 3",
        "update evenbeat.pulse set attempt = 0, beat_at = null where id = 3",
    ],
    "no_lease_outlives_its_node": [
        "update evenbeat.pulse set node_id = 2 where id = 3; "
        "update evenbeat.node set swept_at = null where id = 2",
        "update evenbeat.pulse set node_id = 2 where id = 3; "
        "update evenbeat.node set swept_at = null, dead_at = null where id = 2",
    ],
    "a_swept_node_is_dead_and_holds_nothing": [
        "update evenbeat.node set swept_at = now() where id = 1",
        "update evenbeat.node set dead_at = now(), swept_at = now() where id = 1",
    ],
    "nothing_starts_on_a_dead_node": [
        "update evenbeat.run set node_id = 2 where id = 13",
    ],
    "every_permit_has_its_lease": [
        "insert into evenbeat.permit values (1, 5)",
        "insert into evenbeat.permit values (2, 3)",
    ],
    "every_lease_in_a_group_has_its_permit": [
        "delete from evenbeat.permit",
        "delete from evenbeat.permit; update evenbeat.pulse set permit_group_id = null",
    ],
    "no_group_ever_exceeds_its_limit": [
        "update evenbeat.job_group set max_running = 1",
        "update evenbeat.pulse set group_limit = 1 where group_id = 1",
    ],
    "nothing_starts_in_a_paused_group": [
        "update evenbeat.job_group set paused_at = '2030-01-01 11:00Z'",
    ],
    "a_beat_out_of_attempts_is_a_dead_letter": ["delete from evenbeat.dead_letter"],
    "a_deleted_job_is_stopped": [
        "update evenbeat.job set deleted_at = '2030-01-01 12:00Z' where id = 3",
        "update evenbeat.job set deleted_at = '2030-01-01 12:00Z' where id = 5",
        "update evenbeat.job set deleted_at = '2030-01-01 12:00:30Z' where id = 6",
    ],
    "a_pulse_knows_its_definition": [
        "update evenbeat.pulse set def_version = 1 where id = 7",
    ],
    "a_replaced_version_is_older": [
        "update evenbeat.job_version set version = 2",
        "update evenbeat.job_version set job_id = 99",
    ],
    "nothing_starts_during_maintenance": [
        """
        insert into evenbeat.maintenance (since, reason, actor)
        values ('2030-01-01 12:02Z', 'upgrade', 'tests')
        """,
    ],
    "every_dead_letter_has_its_failed_run": [
        """
        insert into evenbeat.dead_letter (id, job_id, kind, payload, attempts, created_at)
        values (99, 2, 'work', '{}', 3, '2030-01-01 12:03Z')
        """,
        """
        insert into evenbeat.dead_letter (id, job_id, kind, payload, attempts, created_at)
        values (9, 4, 'work', '{}', 3, '2030-01-01 12:03Z')
        """,
    ],
    "every_dead_letter_names_its_job": [
        "update evenbeat.dead_letter set job_uid = gen_random_uuid()",
        """
        update evenbeat.dead_letter
        set kind = 'other', acknowledged_at = now(), acknowledged_by = 'ann', ending = 'r',
            ended_at = now(), ended_by = 'ann',
            requeued_as = (select job.uid from evenbeat.job where job.id = 5)
        """,
    ],
    "every_run_is_counted_once": [
        "update evenbeat.run_day set completed = 2 where job_id = 1",
        "update evenbeat.run_day set completed = 4 where job_id = 1",
        "update evenbeat.run_day set failed = 1 where job_id = 1",
        # Not counted yet, and in its day all the same.
        "insert into evenbeat.late_run values (3)",
        # Removed without having been counted.
        "delete from evenbeat.run where job_id = 1; "
        "update evenbeat.run_day set completed = 2 where job_id = 1",
        "delete from evenbeat.run where id = 1; delete from evenbeat.run_day where job_id = 1",
    ],
    "every_run_in_hand_will_be_counted": [
        "update evenbeat.chore set cursor = 8 where name = 'count'",
    ],
    "every_log_line_has_its_run": [
        "update evenbeat.run_log set run_id = 99 where run_id = 9",
    ],
    "every_job_that_beats_is_in_the_map": [
        "delete from evenbeat.placement; delete from evenbeat.load_delta",
        "update evenbeat.pulse set state = 's' where id = 5",
        """
        insert into evenbeat.placement (job_id, interval_s, phase_s, cost_s, timetable)
        select 5, interval_s, phase_s, cost_s, timetable from evenbeat.placement;
        update evenbeat.pulse set state = 'd' where id = 5
        """,
    ],
    "the_map_can_be_locked": ["delete from evenbeat.placing"],
    "the_map_agrees_with_its_changes": [
        "update evenbeat.load_delta set phase_s = 7",
        "update evenbeat.load_delta set jobs = -1",
        "update evenbeat.placement set cost_s = 7",
        "delete from evenbeat.placement; insert into evenbeat.unplaced values (1)",
    ],
    "the_map_has_every_job_where_it_beats": [
        "update evenbeat.placement set phase_s = 7; update evenbeat.load_delta set phase_s = 7",
        """
        update evenbeat.placement set timetable = null;
        update evenbeat.load_delta set timetable = null
        """,
    ],
    "no_beat_is_lost": [
        # The row of missed beats was never written.
        "delete from evenbeat.run where id = 4; "
        "update evenbeat.pulse set run_number = 3 where id = 1",
        # It covers too little, too much, what is no beat, or counts wrong.
        "update evenbeat.run set skipped_until = beat_at, skipped_count = 1 where id = 4",
        "update evenbeat.run set beat_at = '2030-01-01 12:03:30Z' where id = 4",
        "update evenbeat.run set skipped_until = '2030-01-01 12:05:30Z' where id = 4",
        "update evenbeat.run set skipped_count = 5 where id = 4",
        # The cursor leaps, falls back, or stands where nothing beats.
        "update evenbeat.pulse set next_beat_at = '2030-01-01 12:07Z' where id = 1",
        "update evenbeat.pulse set next_beat_at = '2030-01-01 12:05Z' where id = 1",
        "update evenbeat.pulse set next_beat_at = '2030-01-01 12:05:30Z' where id = 1",
        # The first beats of its life never came.
        "update evenbeat.job set created_at = '2030-01-01 11:50Z' where id = 1",
    ],
}
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
