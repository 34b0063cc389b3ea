"""Damages to the healthy world of world.sql: for every rule of `verify`, what breaks it."""

# Job 5 becomes one that the SQL face shows.
ON_CRON = """
    insert into evenbeat.lane (id, kind) overriding system value values (2, 'sql_function');
    update evenbeat.pulse set lane_id = 2 where id = 5;
    update evenbeat.job
    set kind = 'sql_function', name = 'nightly', payload = '{"function": "public.f"}',
        timetable = '{"schedule": {"cron": "1 12 * * *", "zone": "UTC"}}'
    where id = 5
"""

# Job 1 was paused over the beats from 12:06 to 12:08, and again over that of 12:09.
PAUSED_TWICE = """
    insert into evenbeat.run
        (id, job_id, number, state, cause, beat_at, attempt, started_at, finished_at,
         skipped_count, skipped_until, reason)
    values
        (15, 1, 5, 'k', 's', '2030-01-01 12:06Z', 0, '2030-01-01 12:08:30Z',
         '2030-01-01 12:08:30Z', 3, '2030-01-01 12:08Z', 'the job was paused'),
        (16, 1, 6, 'k', 's', '2030-01-01 12:09Z', 0, '2030-01-01 12:09:30Z',
         '2030-01-01 12:09:30Z', 1, '2030-01-01 12:09Z', 'the job was paused');
    update evenbeat.pulse set run_number = 6, next_beat_at = '2030-01-01 12:10Z' where id = 1
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
        # A pause is over, and its beats left no row: before the first run, and after one.
        "update evenbeat.pulse set state = 's', next_beat_at = '2030-01-01 12:04Z' where id = 5;"
        "insert into evenbeat.unplaced (job_id) values (5)",
        f"{PAUSED_TWICE}; update evenbeat.run set skipped_count = 2,"
        " skipped_until = '2030-01-01 12:07Z' where id = 15",
        f"{PAUSED_TWICE}; update evenbeat.run set beat_at = '2030-01-01 12:07Z', skipped_count = 2"
        " where id = 15",
        # Its row came twice.
        f"{PAUSED_TWICE}; update evenbeat.run set beat_at = '2030-01-01 12:06Z',"
        " skipped_until = '2030-01-01 12:06Z' where id = 16",
    ],
}
